"""Wilcoxon's signed-rank test over tasks against enumeration, SciPy and known values."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binomtest, rankdata, wilcoxon

from relation_tf.stats import wilcoxon_holm
from relation_tf.stats.over_tasks import signed_rank_attainable_pvalue

# Paired measurements of Hollander and Wolfe (1973, page 29) on the Hamilton depression scale.
BEFORE = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30]
AFTER = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29]


def as_tasks(**means):
    return {n: {name: [own[n]] for name, own in means.items()} for n in range(len(BEFORE))}


def naive_pvalue(differences):
    """Return the two-sided p over all signs of the differences."""
    ranks = rankdata(np.abs(differences))
    observed = abs(np.sum(np.sign(differences) * ranks))
    signs = np.array(list(itertools.product([-1, 1], repeat=len(ranks))))
    return np.mean(np.abs(signs @ ranks) >= observed - 1e-9)


def test_known_value():
    """R's documentation of wilcox.test: V = 40 of 45, two-sided p 2 * .01953."""
    result = wilcoxon_holm(as_tasks(after=AFTER, before=BEFORE), "after")
    assert result.statistic["before"] == 40 - 5
    assert result.effect_size["before"] == pytest.approx(35 / 45)
    assert result.pvalue["before"] == pytest.approx(2 * 0.01953125)
    assert result.pairs()["verdict"].tolist() == ["before better"]


def test_holm_adjusts_p():
    rng = np.random.default_rng(1)
    means = {"c": np.zeros(9), "x": rng.normal(1, 1, 9), "y": rng.normal(0, 1, 9)}
    result = wilcoxon_holm(as_tasks(**means), "c")
    small, large = sorted(naive_pvalue(means[name]) for name in "xy")
    assert sorted(result.pvalue) == pytest.approx([2 * small, max(large, 2 * small)])
    assert wilcoxon(means["x"]).pvalue == pytest.approx(naive_pvalue(means["x"]))


def test_lower_scores_can_be_better():
    high = wilcoxon_holm(as_tasks(a=AFTER, b=BEFORE), "a")
    low = wilcoxon_holm(as_tasks(a=AFTER, b=BEFORE), "a", higher_is_better=False)
    assert (low.statistic == -high.statistic).all()
    assert low.pairs()["better"].tolist() == ["a"]


def test_rounding_does_not_break_ties():
    """0.1 + 0.2 equals 0.3; equal differences share their rank; zeros are left out."""
    samples = {
        "x": {"a": [0.3], "b": [0.1 + 0.2]},
        "y": {"a": [0.0], "b": [0.1]},
        "z": {"a": [0.2], "b": [0.1 + 0.2]},
    }
    result = wilcoxon_holm(samples, "a")
    assert result.statistic["b"] == 3
    assert (
        wilcoxon_holm({"x": {"a": [1], "b": [1]}} | {"y": {"a": [2], "b": [2]}}, "a").pvalue["b"]
        == 1
    )


@pytest.mark.parametrize(("k", "tasks"), [(2, 5), (3, 6), (4, 9)])
def test_attainable_p_is_reached(k, tasks):
    samples = {t: {m: [m * (1 + t)] for m in range(k)} for t in range(tasks)}
    result = wilcoxon_holm(samples, 0)
    assert result.pvalue.min() == pytest.approx(signed_rank_attainable_pvalue(k, tasks))
    assert result.attainable_pvalue == signed_rank_attainable_pvalue(k, tasks)
    assert signed_rank_attainable_pvalue(k, result.seeds_needed) < 0.05


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ({"x": {"a": [1], "b": [2]}}, "at least two tasks"),
        ({"x": {"a": [1], "b": [2]}, "y": {"b": [1], "c": [2]}}, "'x' has no scores of 'c'"),
        ({t: {"a": [1], "b": [math.nan]} for t in "xy"}, "task 'x': scores of 'b' must be finite"),
    ],
)
def test_errors_name_the_fault(samples, message):
    with pytest.raises(ValueError, match=message):
        wilcoxon_holm(samples, "a" if "y" not in samples else "b")


@pytest.mark.parametrize(
    ("sizes", "signs"),
    [
        (np.ones(14), [1] * 11 + [-1] * 3),
        (np.repeat([1, 2, 3], 5), [1] * 6 + [-1] * 4 + [1] * 5),
        (np.arange(1, 13), [1, -1, 1, 1] * 3),
    ],
)
def test_p_is_exact_also_with_ties(sizes, signs):
    """14 equal differences, 11 of them positive: p of the sign test, .0574, not .0325."""
    differences = sizes * np.array(signs)
    tasks = {n: {"c": [0.0], "x": [float(own)]} for n, own in enumerate(differences)}
    found = wilcoxon_holm(tasks, "c").pvalue["x"]
    assert found == pytest.approx(naive_pvalue(differences))
    if len(sizes) == 14:
        assert found == pytest.approx(binomtest(11, 14).pvalue)


def test_hundreds_of_tasks_have_an_exact_p():
    differences = np.random.default_rng(0).permutation(np.arange(1, 301)) * 1.0
    differences[:130] *= -1
    tasks = {n: {"c": [0.0], "x": [own]} for n, own in enumerate(differences)}
    expected = wilcoxon(differences, method="exact").pvalue
    assert wilcoxon_holm(tasks, "c").pvalue["x"] == pytest.approx(expected)


def test_beyond_that_p_is_approximate():
    differences = np.random.default_rng(0).normal(0.1, 1, 301)
    tasks = {n: {"c": [0.0], "x": [own]} for n, own in enumerate(differences)}
    expected = wilcoxon(differences, method="asymptotic").pvalue
    assert wilcoxon_holm(tasks, "c").pvalue["x"] == pytest.approx(expected)


def test_zero_and_a_rounding_error_are_tied():
    tasks = {f"t{number}": {"c": [0.1, 0.2, -0.3], "m": [0.0, 0, 0]} for number in range(6)}
    assert wilcoxon_holm(tasks, "c").pvalue["m"] == 1.0
