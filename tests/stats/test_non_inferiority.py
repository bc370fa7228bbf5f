"""Non-inferiority against SciPy, published scores, and the definitions of the verdicts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t, ttest_ind

from relation_tf.stats import non_inferiority

ROOT = Path(__file__).resolve().parents[2]
RNG = np.random.default_rng(0)
SCORES = st.lists(st.floats(0, 100).map(lambda x: round(x, 2)), min_size=2, max_size=6)
VARYING, CONSTANT = {"r": [1.0, 2.0, 3.0], "a": [2.0, 3.0, 4.0]}, {"r": [0.1] * 3, "a": [0.1] * 3}


@pytest.mark.parametrize("sizes", [(5, 5), (2, 3), (8, 4)])
def test_welch_equals_scipy(sizes):
    scores, reference = (RNG.normal(80, spread, n) for spread, n in zip((1, 3), sizes, strict=True))
    result = non_inferiority({"a": scores, "r": reference}, "r", margin=2.0)
    row = result.table.loc["a"]
    expected = ttest_ind(scores, reference, equal_var=False).confidence_interval(0.95)
    assert row[["low", "high"]].tolist() == pytest.approx([*expected])
    shifted = ttest_ind(scores + 2, reference, equal_var=False, alternative="greater")
    assert row["pvalue"] == pytest.approx(shifted.pvalue)
    assert row["difference"] == pytest.approx(scores.mean() - reference.mean())


@given(SCORES, SCORES, st.floats(0, 20), st.booleans())
def test_the_verdict_follows_from_the_interval_and_agrees_with_p(a, r, margin, higher):
    result = non_inferiority({"a": a, "r": r}, "r", margin, higher_is_better=higher)
    low, high, pvalue, verdict, beyond = result.table.loc[
        "a", ["low", "high", "pvalue", "verdict", "beyond_margin"]
    ]
    assert (verdict == "better") == (low > 0)
    assert (verdict in ("better", "no worse")) == (low > -margin)
    assert (verdict == "worse") == (high < 0 and low <= -margin)
    assert beyond == (high < -margin)
    if abs(pvalue - 0.025) > 1e-9:
        assert (verdict in ("better", "no worse")) == (pvalue < 0.025)
    turned = {"a": np.negative(a), "r": np.negative(r)}
    turned = non_inferiority(turned, "r", margin, higher_is_better=not higher)
    pd.testing.assert_frame_equal(result.table, turned.table)


def test_levels_are_divided_among_the_methods():
    scores = {name: RNG.normal(80, 1, 5) for name in "rabc"}
    pair = {name: scores[name] for name in "ra"}
    one, three = non_inferiority(pair, "r", 1, alpha=0.05 / 3), non_inferiority(scores, "r", 1)
    assert three.table.loc["a", "low"] == pytest.approx(one.table.loc["a", "low"])
    assert three.pvalue["a"] == pytest.approx(min(1, 3 * one.pvalue["a"]))
    assert three.confidence == pytest.approx(1 - 0.05 / 3)
    # Others can be counted, such as a method without scores on this task.
    counted = non_inferiority(pair, "r", 1, num_methods=4)
    pd.testing.assert_series_equal(counted.table.loc["a"], three.table.loc["a"])
    assert counted.confidence == three.confidence


def test_over_tasks_variances_add_up():
    tasks = {
        task: {name: RNG.normal(50, spread, n) for name in ("r", "a")}
        for task, spread, n in (("x", 1, 5), ("y", 4, 5), ("mean", 0.2, 8))
    }
    result = non_inferiority(tasks, "r", {"x": 1, "y": 2, "mean": 3})
    parts = [
        (groups["a"].mean() - groups["r"].mean(), scores.var(ddof=1) / scores.size, scores.size - 1)
        for groups in tasks.values()
        for scores in groups.values()
    ]
    differences, variances, freedom = (np.array(part) for part in zip(*parts, strict=True))
    row = result.table.loc["a"]
    assert row["difference"] == pytest.approx(differences.mean())
    assert row["margin"] == 2
    degrees = variances.sum() ** 2 / (variances**2 / freedom).sum()
    half = t.ppf(0.975, degrees) * np.sqrt(variances.sum()) / 3
    assert row["high"] - row["low"] == pytest.approx(2 * half)
    # A task can have the name of the mean.
    assert result.differences()["task"].tolist() == ["x", "y", "mean", "mean"]


def test_each_task_has_its_own_direction():
    base = {"r": [1.0, 1.1, 0.9], "a": [2.0, 2.1, 1.9]}
    higher = {"points": True, "errors": False}
    result = non_inferiority(dict.fromkeys(higher, base), "r", 0.1, higher_is_better=higher)
    verdicts = [table.loc["a", ["verdict", "beyond_margin"]] for table in result.tasks.values()]
    assert [row.tolist() for row in verdicts] == [["better", False], ["worse", True]]
    assert result.verdict["a"] == "inconclusive"


def test_committed_scores_give_the_known_answer():
    """Relation against Attention on eight GLUE tasks: mean difference +1.8 (0.9 to 2.7)."""
    table = pd.read_csv(ROOT / "results" / "glue-small-smoothed" / "scores.csv")
    table["task"] = table["task"].replace({"MNLI-m": "MNLI", "MNLI-mm": "MNLI"})
    table = table[table["task"] != "mean of these tasks"]
    table = table[table["method"].isin(["attention-64", "relation-64"])]
    scores = table.groupby(["task", "method", "seed"], as_index=False)["value"].mean()
    scores["score"] = 100 * scores["value"]
    result = non_inferiority(scores, "attention-64", margin=1.0)
    row = result.table.loc["relation-64"]
    assert [round(row[column], 1) for column in ("difference", "low", "high")] == [1.8, 0.9, 2.7]
    assert row["verdict"] == "better"
    assert result.tasks["MRPC"].loc["relation-64", "low"] == pytest.approx(-6.27, abs=0.01)
    assert result.tasks["MRPC"].loc["relation-64", "verdict"] == "inconclusive"


@pytest.mark.parametrize(
    ("reference", "method"),
    [([50.0] * 3, [50.0] * 3), ([36 / 71] * 2, [37 / 71] * 2), ([0.1] * 3, [0.3] * 3)],
    ids=["equal", "different", "a variance that is a rounding error"],
)
def test_scores_that_do_not_vary_are_inconclusive(reference, method):
    """No seed shows how much others would differ: `welch` does not test such a pair either."""
    result = non_inferiority({"r": reference, "a": method}, "r", 0.01)
    low, high, pvalue, verdict = result.table.loc["a", ["low", "high", "pvalue", "verdict"]]
    assert (low, high, pvalue, verdict) == (-np.inf, np.inf, 1, "inconclusive")
    assert len(result.notes) == 2


def test_over_tasks_different_scores_without_variance_have_no_verdict():
    """Else the mean would be better only because of the task on which nothing is known."""
    same = [80, 80.4, 79.6, 80.2, 79.8]
    tasks = {"x": {"r": same, "a": same}, "y": {"r": [50] * 5, "a": [53] * 5}}
    result = non_inferiority(tasks, "r", 1)
    assert result.tasks["x"].loc["a", "verdict"] == "no worse"
    row = result.table.loc["a"]
    assert (row["difference"], row["high"], row["verdict"]) == (1.5, np.inf, "inconclusive")


def test_over_tasks_scores_without_variance_do_not_hide_the_verdict_of_the_others():
    reference = [80, 80.4, 79.6, 80.2, 79.8]
    better = [score + 9 for score in reference]
    tasks = {"x": {"r": reference, "a": better}, "y": {"r": [87.25] * 5, "a": [100.0] * 5}}
    row = non_inferiority(tasks, "r", 1).table.loc["a"]
    error = np.sqrt(2 * np.var(reference, ddof=1) / 5) / 2
    half = t.isf(0.025, 8) * error
    assert (row["difference"], row["verdict"]) == (10.875, "better")
    np.testing.assert_allclose(row[["low", "high"]].astype(float), [10.875 - half, 10.875 + half])


@pytest.mark.parametrize(
    ("samples", "arguments", "message"),
    [
        (VARYING, {"reference": "b"}, "`reference` must be one of"),
        ({"r": [1, 2], "a": [1]}, {}, "'a' must be at least 2 numbers"),
        ({"r": [1, 2], "a": [1, np.nan]}, {}, "'a' must be finite; for a diverged run"),
        (VARYING, {"margin": -1}, "`margin` must be 0 or more"),
        ({"x": VARYING}, {"margin": {"y": 1}}, "`margin` must name tasks of the samples"),
        ({"x": VARYING}, {"margin": {}}, r"must have a value for each task.* none for \['x'\]"),
        (VARYING, {"num_methods": 1}, "`num_methods` must be a whole number, at least 2"),
        (
            {"x": VARYING, "y": {"r": [1, 2], "b": [1, 2]}},
            {},
            "all tasks must have the same methods",
        ),
    ],
)
def test_wrong_input_is_refused(samples, arguments, message):
    with pytest.raises(ValueError, match=message):
        non_inferiority(samples, **{"reference": "r", "margin": 1, **arguments})
