"""Estimates over tasks in one unit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from relation_tf.report import compare
from relation_tf.report.blocks import Table
from relation_tf.report.sections.paper import sentences_for_paper
from relation_tf.stats import interquartile_mean, probability_of_improvement


@pytest.fixture(scope="module")
def table():
    """The second method has outliers on two tasks; the third is better otherwise."""
    rng = np.random.default_rng(0)
    shifts = {"dqn": 0.0, "iqn": 0.25, "m-iqn": 0.4}
    rows = [
        (f"g{game}", agent, trial, (12 if agent == "iqn" and game < 2 else 1)
         * (game / 20 + shift + rng.normal() / 7))
        for game in range(8)
        for agent, shift in shifts.items()
        for trial in range(5)
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["game", "agent", "trial", "score"])


def test_estimates_are_those_of_the_functions(table):
    found = compare(table, same_unit=True).tables["aggregates"].set_index("method")
    scores = {
        agent: {game: own["score"].tolist() for game, own in rows.groupby("game")}
        for agent, rows in table.groupby("agent")
    }
    assert found.index[0] == "m-iqn"
    for agent, own in scores.items():
        shown = found.loc[agent, ["iqm", "iqm_low", "iqm_high"]]
        assert [*shown] == pytest.approx([*interquartile_mean(own, draws=10_000)])
        assert found.loc[agent, "mean"] == pytest.approx(np.mean([*own.values()]))
        gaps = np.maximum(1 - np.concatenate([*own.values()]), 0)
        assert found.loc[agent, "gap"] == pytest.approx(gaps.mean())
        if agent != "m-iqn":
            chance = probability_of_improvement(scores["m-iqn"], own, draws=10_000)
            names = ["improvement", "improvement_low", "improvement_high"]
            assert [*found.loc[agent, names]] == pytest.approx([*chance])


def test_the_headline_names_the_method_with_the_best_interquartile_mean(table):
    headline = compare(table, same_unit=True).data.headlines[0].values
    assert (headline["measure"], headline["methods"]) == ("interquartile mean", ["m-iqn"])
    assert headline["test"]["worse_than"] == []


def test_without_the_option_there_are_none(table):
    assert "aggregates" not in compare(table).tables


@pytest.fixture(scope="module")
def unequal(table):
    """The first method, which is the worst, has one seed fewer on a task."""
    return table[~table["agent"].eq("iqn")].iloc[1:]


def test_without_interquartile_means_the_mean_decides(unequal):
    report = compare(unequal, same_unit=True)
    found = report.tables["aggregates"].set_index("method")
    assert found["iqm"].isna().all()
    assert [*found.index] == ["m-iqn", "dqn"]
    assert found["improvement"].isna().tolist() == [True, False]
    (part,) = report.data.comparisons.values()
    assert report.data.headlines[0].values["measure"] == "mean"
    assert "IQM" not in [column.name for column in part.report.blocks["answer"][1].columns]


def test_without_interquartile_means_the_paragraph_names_none(unequal):
    (part,) = compare(unequal, same_unit=True).data.comparisons.values()
    assert "paper_aggregates" not in [said.kind for said in sentences_for_paper(part)]


def test_the_optimality_gap_of_percentages_is_that_from_100(table):
    percent = table.assign(score=40 + 20 * table["score"].clip(-1, 1))
    found = compare(percent, same_unit=True).tables["aggregates"].set_index("method")
    for agent, rows in percent.groupby("agent"):
        assert found.loc[agent, "gap"] == pytest.approx((100 - rows["score"]).mean())


def test_scores_without_a_known_target_have_no_optimality_gap(table):
    report = compare(table.assign(score=1000 + table["score"]), same_unit=True)
    (shown,) = [x for x in report.data.blocks["aggregates"] if isinstance(x, Table)]
    assert "Optimality gap" not in [column.name for column in shown.columns]


def test_where_lower_is_better_a_lower_profile_is_better(table):
    tasks = [*table["game"].unique()]
    pages = [
        compare(table, same_unit=True, lower_is_better=lower).data.blocks["aggregates"][-1].text
        for lower in ([], tasks)
    ]
    assert ["below another" in page for page in pages] == [False, True]


def test_without_the_interquartile_mean_of_a_method_the_headline_names_means():
    """With a failed run, tasks have different numbers of scores."""
    rows = [(task, method, seed, place + seed / 10) for task in "AB"
            for place, method in enumerate("xy") for seed in range(5)]  # fmt: skip
    table = pd.DataFrame(rows, columns=["task", "method", "seed", "score"])
    table.loc[0, "score"] = np.nan
    report = compare(table, same_unit=True)
    assert report.tables["aggregates"].set_index("method")["iqm"].isna()["x"]
    assert report.data.headlines[0].values["measure"] == "mean"
