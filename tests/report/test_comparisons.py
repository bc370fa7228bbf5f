"""Numbers of a report, compared with direct computation."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from relation_tf.errors import SuiteError
from relation_tf.registry import PROCEDURES, register_procedure
from relation_tf.report import compare, make_report
from relation_tf.stats import brunner_munzel, steel, steel_dwass, welch
from relation_tf.words import MEAN_OF_TASKS
from tests.report.conftest import LEVEL, TWO, noisy, separated

LIMITS = ["difference", "difference_low", "difference_high"]


def samples_of(report, task):
    """Return the scores of a task by method."""
    table = report.tables["scores"]
    own = table[table["task"] == task].groupby("method", sort=False, observed=True)
    return {name: [*values] for name, values in own["value"]}


def test_summary_has_the_score_and_each_metric(suite_of, fabricate):
    suite = suite_of(tasks=["MRPC"], method=TWO)
    table = make_report(fabricate(suite, noisy)).tables["table"].set_index(["method", "metric"])
    values = {
        metric: [noisy(run, "MRPC", metric) for run in suite.runs() if run.method == "relation"]
        for metric in ("f1", "accuracy")
    }
    values["score"] = np.mean(list(values.values()), axis=0)
    for metric, scores in values.items():
        row = table.loc["relation", metric]
        assert row["n"] == 5
        assert (row["mean"], row["sd"]) == pytest.approx((np.mean(scores), np.std(scores, ddof=1)))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, steel_dwass),
        ({"control": "baseline"}, lambda own: steel(own, "baseline")),
        ({"test": "welch"}, welch),
        ({"test": "brunner-munzel"}, brunner_munzel),
    ],
)
def test_pvalues_equal_the_test_of_the_samples(suite_of, fabricate, options, expected):
    report = make_report(fabricate(suite_of(tasks=["CoLA", "RTE"], **options), noisy))
    pvalues = report.tables["pvalues"]
    assert [*pvalues["task"].unique()] == ["CoLA", "RTE", MEAN_OF_TASKS]
    for task, own in pvalues.groupby("task"):
        samples = samples_of(report, task)
        result = expected({name: samples[name] for name in LEVEL})
        pairs = result.pairs()
        shown = [name for name in pairs if name in own]
        pd.testing.assert_frame_equal(
            own[shown].reset_index(drop=True), pairs[shown], check_dtype=False
        )
        shifts = 100 * result.confidence_interval()[["difference", "low", "high"]]
        np.testing.assert_allclose(own[LIMITS], shifts)


def test_the_exact_p_decides(suite_of, fabricate):
    """Asymptotic p .0495, exact p .100: not significant in all tables, figures and texts."""
    suite = suite_of(tasks=["CoLA", "RTE"], method=TWO, seeds=3)

    def score(config, *_):
        return config.seed / 100 + (config.method == "relation")

    report = make_report(fabricate(suite, score))
    pvalues = report.tables["pvalues"]
    assert pvalues["pvalue"].tolist() == pytest.approx([0.1] * 3)
    assert (pvalues["asymptotic_pvalue"] < 0.05).all()
    assert not pvalues["significant"].any()
    assert pvalues["better"].isna().all()
    assert set(pvalues["ahead"]) == {"relation"}
    assert np.isinf(pvalues[LIMITS[1:]]).all(axis=None)
    assert set(report.tables["table"]["letters"]) == {""}
    # There is no figure of intervals that are all infinite.
    assert "differences" not in json.loads(report.json())["figures"]
    assert report.html().count('class="significant"') == 1  # the verdict over both tasks


def test_four_methods_with_five_seeds_can_all_differ(suite_of, fabricate):
    report = make_report(fabricate(suite_of(tasks=["CoLA", "RTE"]), separated))
    pvalues = report.tables["pvalues"]
    assert pvalues["significant"].all()
    assert pvalues["pvalue"].round(4).eq(0.0402).all()
    assert pvalues["asymptotic_pvalue"].round(4).eq(0.0447).all()
    letters = report.tables["table"].groupby("task")["letters"].unique()
    assert letters["CoLA"].size == letters["RTE"].size == 4
    # The test over tasks replaces that of the mean.
    assert letters["mean of these tasks"].tolist() == [""]


def test_more_groups_than_letters_have_none(table_of):
    levels = {f"m{number}": [number + seed / 100 for seed in range(3)] for number in range(54)}
    report = compare(table_of({"T": levels}), test="welch")
    assert set(report.tables["table"]["letters"]) == {""}
    assert "too many groups" not in report.latex()  # no letters, no note on them


def test_a_method_with_one_seed_is_tested(suite_of, fabricate):
    def score(config, *args):
        return noisy(config, *args) if config.method != "linear" or config.seed == 1 else None

    pvalues = make_report(fabricate(suite_of(tasks=["CoLA"]), score)).tables["pvalues"]
    seeds = dict(zip(pvalues["a"], pvalues["n_a"], strict=True))
    assert seeds | dict(zip(pvalues["b"], pvalues["n_b"], strict=True)) == {
        "attention": 5, "linear": 1, "relation": 5, "baseline": 5
    }  # fmt: skip


@pytest.mark.parametrize("test", ["steel-dwass", "welch"])
def test_a_warning_names_tasks_with_unequal_spread(table_of, test):
    even, wide = [0.1, 0.2, 0.3, 0.4], [0.0, 0.2, 0.4, 0.6]
    rows = {"RTE": {"a": even, "b": [x / 4 for x in even]}, "MRPC": {"a": even, "b": wide}}
    (found,) = compare(table_of(rows), test=test).data.warnings
    assert [*found.values["tasks"]] == ["RTE"]
    assert found.values["companion"] == ("welch" if test == "steel-dwass" else "")
    assert found.values["over_tasks"]  # the stratified test is the same
    one = compare(table_of({"RTE": rows["RTE"]}), test=test).data.warnings
    assert [x.values["over_tasks"] for x in one] == [False] * (test == "steel-dwass")


def test_marks_have_the_sign_of_the_difference(table_of):
    scores = {"a": [1.0, 2, 3, 4, 5], "b": [11.0, 12, 13, 14, 15]}
    report = compare(table_of({"acc": scores, "loss": scores}), lower_is_better="loss")
    assert report.tables["pvalues"]["better"].tolist() == ["b", "a"]
    (row,) = (line for line in report.markdown().splitlines() if line.startswith("| a | b | ▲"))
    assert row.count("▲ **.008** (+10") == 2
    assert "better for loss" in report.latex()


def test_a_test_at_another_level_is_refused(table_of, isolated):
    isolated(PROCEDURES)

    @register_procedure("at-one-percent", compares="all-pairs", title="T", symbol="W")
    def at_one_percent(samples, alpha=0.05, **options):
        return steel_dwass(samples, alpha=0.01, **options)

    table = table_of({"MR": {"a": [0.1, 0.2, 0.3], "b": [0.4, 0.5, 0.6]}})
    with pytest.raises(SuiteError, match=r"must return a result at the level alpha = 0\.05"):
        compare(table, test="at-one-percent").markdown()


@pytest.mark.parametrize("chosen", [64, [64], np.array(["64"]), pd.Index([64])])
def test_a_control_can_be_a_number(table_of, chosen):
    table = table_of({"MR": {"64": [0.1, 0.2, 0.3], "128": [0.4, 0.5, 0.6]}})
    report = compare(table.assign(method=table["method"].astype(int)), control=chosen)
    assert report.tables["pvalues"][["a", "b"]].values.tolist() == [["64", "128"]]
