"""Comparisons against golden values of rliable, autorank and critdd.

`tests/reference_packages.py` wrote them. scikit-posthocs and SciPy are compared in `tests/stats`.
"""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from relation_tf.report import compare
from relation_tf.report.blocks import Table
from relation_tf.stats import cliffs_delta, friedman_nemenyi, friedman_wilcoxon, wilcoxon_holm
from tests.golden import GOLDEN_VALUES

GOLDEN = json.loads((GOLDEN_VALUES / "reference_packages.json").read_text(encoding="utf-8"))
DATASETS = pd.DataFrame(GOLDEN["datasets"]).rename(lambda row: f"d{row}")
RLIABLE, AUTORANK, CRITDD = (GOLDEN[name] for name in ("rliable", "autorank", "critdd"))


@pytest.fixture(scope="module")
def runs():
    """Return the report on runs and tasks in one unit."""
    rows = [
        (f"g{task}", method, run, score)
        for method, table in GOLDEN["runs"].items()
        for run, scores in enumerate(table)
        for task, score in enumerate(scores)
    ]
    table = pd.DataFrame(rows, columns=["game", "agent", "run", "score"])
    return compare(table, same_unit=True)


def picture(report, name):
    (found,) = (picture for picture in report.data.pictures if picture.name == name)
    return found


def test_estimates_are_those_of_rliable(runs):
    found = runs.tables["aggregates"].set_index("method")
    names = ["iqm", "mean", "median", "gap"]
    for name, expected in RLIABLE["estimates"].items():
        assert [*found.loc[name, names]] == pytest.approx(expected)
        lows, highs = map(np.array, RLIABLE["intervals"][name])
        for end, limits in (("low", lows), ("high", highs)):  # Monte Carlo error
            shown = found.loc[name, [f"{x}_{end}" for x in names]]
            np.testing.assert_array_less(np.abs([*shown] - limits), 0.05 * (highs - lows))
    for name, chance in RLIABLE["improvement"].items():  # of the best method over this one
        assert found.loc[name, "improvement"] == pytest.approx(1 - chance)
        low, high = (1 - end for end in reversed(RLIABLE["improvement_intervals"][name]))
        ends = [*found.loc[name, ["improvement_low", "improvement_high"]]]
        assert ends == pytest.approx([low, high], abs=0.05 * (high - low))


def test_profiles_are_those_of_rliable(runs):
    found = dict([*runs.tables["profiles"].groupby("method")])
    assert [*found] == sorted(RLIABLE["profiles"])
    for name, own in found.items():
        assert own["score"].tolist() == pytest.approx(RLIABLE["taus"])
        assert own["share"].tolist() == pytest.approx(RLIABLE["profiles"][name])
        limits = own[["low", "high"]].to_numpy().T
        np.testing.assert_allclose(limits, RLIABLE["bands"][name], atol=1 / 48)  # a run of 48
    (panel,) = picture(runs, "profile").panels
    axes = Figure().subplots()
    panel.draw(axes)
    assert (len(axes.lines), len(axes.collections)) == (3, 3)


def test_ranks_and_friedman_are_those_of_autorank_and_critdd():
    result = friedman_nemenyi(DATASETS)
    assert result.friedman_pvalue == pytest.approx(AUTORANK["pvalue"], rel=1e-9)
    # autorank interpolates a table of the studentized range.
    assert result.critical_difference == pytest.approx(AUTORANK["cd"], rel=1e-4)
    for expected in (AUTORANK["meanrank"], CRITDD["average_ranks"]):
        assert result.average_ranks.to_dict() == pytest.approx(expected, rel=1e-9)
    assert result.statistic == pytest.approx(CRITDD["chi_square"][0], rel=1e-9)
    f_test = (result.f_statistic, result.f_pvalue)
    assert f_test == pytest.approx(tuple(CRITDD["f"]), rel=1e-9)


def test_table_of_average_ranks_has_the_medians_of_autorank():
    report = compare(DATASETS)
    found = report.tables["average_ranks"].set_index("method")
    for name, expected in (("rank", "meanrank"), ("median", "median"), ("mad", "mad")):
        assert found[name].to_dict() == pytest.approx(AUTORANK[expected], rel=1e-9)
    assert found["mean"].to_dict() == pytest.approx(DATASETS.mean().to_dict())
    assert found["sd"].to_dict() == pytest.approx(DATASETS.std().to_dict())
    (table,) = (x for x in report.data.blocks["answer"] if isinstance(x, Table))
    place = [column.name for column in table.columns].index("Median")
    for row in table.rows:
        cell, expected = row.cells[place], found.loc[row.cells[0]]
        assert float(cell.text) == pytest.approx(expected["median"], abs=0.00051)
        assert float(cell.deviation) == pytest.approx(expected["mad"], abs=0.00051)


def test_effect_sizes_are_those_of_autorank():
    first = AUTORANK["first"]
    for name, delta in AUTORANK["cliff_delta"].items():
        assert cliffs_delta(DATASETS[first], DATASETS[name]) == pytest.approx(delta, abs=1e-9)


def test_wilcoxons_test_is_that_of_autorank_and_critdd():
    pair = DATASETS[AUTORANK["pair"]]
    samples = {task: {name: [x] for name, x in row.items()} for task, row in pair.iterrows()}
    pvalue = wilcoxon_holm(samples).pvalue.iloc[0, 1]
    # autorank tests the side that the data show.
    assert pvalue == pytest.approx(2 * AUTORANK["pair_pvalue"], rel=1e-9)
    result = friedman_wilcoxon(DATASETS)
    for a, b, p in CRITDD["pairs"]:
        assert result.pvalue.loc[a, b] == pytest.approx(min(p, 1), rel=1e-9)


def test_groups_are_those_of_critdd():
    groups = friedman_wilcoxon(DATASETS).cliques()
    assert sorted(map(sorted, groups)) == sorted(sorted(x) for x in CRITDD["groups"] if len(x) > 1)
