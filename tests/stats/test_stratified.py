"""Stratified tests over tasks against loops, other formulas and known values."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relation_tf.stats import steel, steel_dwass, stratified_steel, stratified_steel_dwass
from relation_tf.stats.samples import index_pairs
from relation_tf.words import MEAN_OF_TASKS

RESULTS = Path(__file__).parents[2] / "results" / "glue-small-smoothed" / "scores.csv"
SAMPLES = {
    "CoLA": {"a": [0.1, 0.5, 0.6], "b": [0.7, 0.3, 0.9], "c": [0.2, 0.4, 0.8]},
    "RTE": {"a": [70, 74], "b": [78, 75, 79], "c": [73, 72]},
}


def naive_statistics(tasks, pairs):
    """Return van Elteren's statistic of each pair from rank sums, in plain loops."""
    found = []
    for i, j in pairs:
        deviation = variance = 0.0
        for groups in tasks:
            n_i, n_j = len(groups[i]), len(groups[j])
            n = n_i + n_j
            pooled = sorted([*groups[i], *groups[j]])
            # The middle rank of a score, and the rank sum of the second method.
            ranks = {x: pooled.index(x) + (pooled.count(x) + 1) / 2 for x in pooled}
            weight = 1 / (n + 1)
            deviation += weight * (sum(ranks[x] for x in groups[j]) - n_j * (n + 1) / 2)
            untied = n**3 - n - sum(pooled.count(x) ** 3 - pooled.count(x) for x in set(pooled))
            variance += weight**2 * n_i * n_j / (12 * n * (n - 1)) * untied
        found.append(deviation / math.sqrt(variance) if variance > 0 else 0.0)
    return np.array(found)


def arrangements_of(groups):
    """Yield each assignment of the pooled scores to the groups."""
    pool = [score for group in groups for score in group]
    labels = [number for number, group in enumerate(groups) for _ in group]
    for order in set(itertools.permutations(labels)):
        yield [
            [score for score, label in zip(pool, order, strict=True) if label == number]
            for number in range(len(groups))
        ]


def naive_test(tasks, pairs):
    """Return statistics and family-wise p: all arrangements of all tasks, one by one."""
    statistics = naive_statistics(tasks, pairs)
    combinations = itertools.product(*(list(arrangements_of(groups)) for groups in tasks))
    maxima = np.array([np.abs(naive_statistics(tasks, pairs)).max() for tasks in combinations])
    return statistics, [np.mean(maxima >= abs(value) - 1e-9) for value in statistics]


def groups_of(*sizes):
    """Return a strategy of groups of scores, mostly tied."""
    return st.tuples(*(st.lists(st.integers(0, 3), min_size=n, max_size=n) for n in sizes))


@pytest.mark.parametrize(
    ("control", "tasks"),
    [
        (None, st.tuples(groups_of(1, 2, 1), groups_of(2, 1, 1))),
        ("a", st.tuples(groups_of(1, 2, 1), groups_of(2, 1, 1))),
        (None, st.tuples(groups_of(1, 2), groups_of(2, 2), groups_of(2, 1), groups_of(1, 1))),
    ],
    ids=["all pairs", "control", "four tasks"],
)
@settings(deadline=None, max_examples=8)
@given(data=st.data())
def test_exact_p_matches_a_loop(control, tasks, data):
    tasks = data.draw(tasks)
    statistics, pvalues = naive_test(tasks, index_pairs(len(tasks[0]), control is not None))
    samples = {n: dict(zip("abc", groups, strict=False)) for n, groups in enumerate(tasks)}
    pairs = stratified_steel_dwass(samples, control, method="exact").pairs()
    scale = 1 if control else math.sqrt(2)
    np.testing.assert_allclose(pairs["statistic"], scale * statistics, atol=1e-12)
    np.testing.assert_allclose(pairs["pvalue"], pvalues, atol=1e-12)


def test_van_elteren_by_hand():
    """Two tasks, two methods, computed on paper.

    Task 1, scores 1 3 | 2 4: the second method's ranks are 2 + 4 = 6, expected 5, weight 1/5,
    variance 2 * 2 * 5 / 12 = 5/3. Task 2, scores 1 | 2 3: ranks 2 + 3 = 5, expected 4, weight 1/4,
    variance 1 * 2 * 4 / 12 = 2/3. Sum 1/5 + 1/4 = .45, variance 1/15 + 1/24 = 13/120.
    """
    samples = {"x": {"a": [1, 3], "b": [2, 4]}, "y": {"a": [1], "b": [2, 3]}}
    result = stratified_steel(samples, "a")
    assert result.statistic["b"] == pytest.approx(0.45 / math.sqrt(13 / 120), abs=1e-12)
    # 6 x 3 arrangements. Sums of the deviations 2 1 0 0 -1 -2 over 5 and 1 0 -1 over 4 that are
    # .45 or more in absolute value: (2, 1), (2, 0)?: .65, .4 (no), (1, 1): .45, and the opposites.
    assert result.pvalue["b"] == pytest.approx(4 / 18)
    # Cliff's delta: (3 - 1) / 4 and 1, weighted by 4 / 5 and 2 / 4.
    assert result.effect_size["b"] == pytest.approx((0.8 * 0.5 + 0.5) / 1.3)


@pytest.mark.parametrize("method", ["exact", "monte-carlo", "asymptotic", "auto"])
@pytest.mark.parametrize("tied", [False, True])
def test_one_task_equals_the_test_of_a_task(method, tied):
    scores = {"a": [3, 1, 4], "b": [15, 9, 12], "c": [6, 5, 8 - 3 * tied]}
    options = {"method": method, "permutations": 5_000, "rng": 7}
    for over, alone in (
        (stratified_steel_dwass({"RTE": scores}, **options), steel_dwass(scores, **options)),
        (stratified_steel({"RTE": scores}, "b", **options), steel(scores, "b", **options)),
    ):
        columns = ["a", "b", "statistic", "pvalue", "effect_size", "significant"]
        pd.testing.assert_frame_equal(over.pairs()[columns], alone.pairs()[columns])
        pd.testing.assert_frame_equal(over.confidence_interval(), alone.confidence_interval())
        assert (over.method, over.attainable_pvalue) == (alone.method, alone.attainable_pvalue)
        assert over.seeds_needed == alone.seeds_needed


def test_direction_of_each_task():
    turned = {"CoLA": {name: -np.array(x) for name, x in SAMPLES["CoLA"].items()}}
    expected = stratified_steel_dwass(SAMPLES).pairs()
    found = stratified_steel_dwass(
        SAMPLES | turned, higher_is_better={"CoLA": False, "RTE": True}
    ).pairs()
    pd.testing.assert_frame_equal(found, expected)
    other = stratified_steel_dwass(SAMPLES, higher_is_better=False)
    np.testing.assert_allclose(other.pairs()["statistic"], -expected["statistic"])
    high = stratified_steel_dwass({t: {"a": [1] * 4, "b": [2] * 4} for t in "xy"})
    low = stratified_steel_dwass(high.tasks, higher_is_better=False)
    assert high.pairs()[["better", "verdict"]].values.tolist() == [["b", "b better"]]
    assert low.pairs()[["better", "verdict"]].values.tolist() == [["a", "a better"]]


def test_nan_is_the_worst_of_its_task():
    samples = {"x": {"a": [1, math.nan], "b": [2, 3]}, "y": {"a": [4, 5], "b": [6, 7]}}
    for higher, worst in ((True, -9), (False, 9)):
        filled = samples | {"x": {"a": [1, worst], "b": [2, 3]}}
        found = stratified_steel_dwass(samples, higher_is_better=higher)
        expected = stratified_steel_dwass(filled, higher_is_better=higher)
        assert found.statistic.equals(expected.statistic)
        assert len(found.notes) == 1
    with pytest.raises(ValueError, match="task 'x': scores of 'a' must not be NaN"):
        stratified_steel_dwass(samples, nan="raise")


def test_an_exact_p_equal_to_alpha_is_not_significant():
    samples = {
        "x": {"a": [15, 14, 18], "b": [14, 8, 0]},
        "y": {"a": [17, 14, 5], "b": [2, 7, 9]},
    }
    found = stratified_steel_dwass(samples)
    assert found.method == "exact"
    assert found.pvalue.loc["a", "b"] == 0.05
    assert not found.significant.loc["a", "b"]


@pytest.mark.parametrize("control", [None, "b"])
def test_intervals_hold_the_shifts_that_the_test_does_not_reject(control):
    """With unequal numbers of seeds, so that the weights of the tasks differ."""
    rng = np.random.default_rng(1)
    samples = {
        task: {"a": rng.normal(size=n), "b": rng.normal(size=3) - 1}
        for task, n in (("x", 4), ("y", 2))
    }
    found = stratified_steel_dwass(samples, control, alpha=0.2).confidence_interval().iloc[0]
    assert found["low"] < found["difference"] < found["high"]
    sign = 1 if found["b"] == "b" else -1
    for limit, inside in ((found["low"], 1), (found["high"], -1)):
        for step in (1e-6, -1e-6):
            shift = limit + step
            moved = {task: {"a": x["a"], "b": x["b"] - sign * shift} for task, x in samples.items()}
            pvalue = np.max(stratified_steel_dwass(moved, control).pairs()["pvalue"])
            assert (pvalue >= 0.2) == (step * inside > 0)


@pytest.mark.parametrize("indexed", [False, True])
def test_a_wide_table_is_read_like_samples(indexed):
    table = pd.DataFrame({"task": ["x", "x", "y", "y"], "seed": [1, 2, 1, 2],
                          "a": [1, 2, 3, 4], "b": [5, 6, 7, 9]})  # fmt: skip
    samples = {"x": {"a": [1, 2], "b": [5, 6]}, "y": {"a": [3, 4], "b": [7, 9]}}
    found = stratified_steel_dwass(table.set_index("task") if indexed else table)
    pd.testing.assert_frame_equal(found.pairs(), stratified_steel_dwass(samples).pairs())


LONG = {"x": {m: range(30) for m in "abcd"}, "y": {m: range(30) for m in "abcd"}}


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: stratified_steel_dwass({}), ValueError, "at least one task"),
        (
            lambda: stratified_steel_dwass(pd.DataFrame({"score": [1]})),
            TypeError,
            "'task', 'method'",
        ),
        (
            lambda: stratified_steel_dwass(SAMPLES | {"QQP": {"a": [1], "d": [2]}}),
            ValueError,
            "'CoLA' has no scores of 'd'",
        ),
        (lambda: stratified_steel_dwass({"x": {"a": [1]}}), ValueError, "task 'x': .*two groups"),
        (lambda: stratified_steel_dwass({"x": {"a": ["1"], "b": [2]}}), TypeError, "task 'x': "),
        (lambda: stratified_steel(SAMPLES, "z"), ValueError, "`control` must be one of"),
        (lambda: stratified_steel_dwass(LONG, method="exact"), ValueError, "too many arrangements"),
    ],
)
def test_errors_name_the_fault(call, error, message):
    with pytest.raises(error, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("joined", "expected"),
    [
        (True, {"relation": 0.0193, "linear": 0.0007, "relation-linear": 0.990}),
        (False, {"relation": 0.0711, "linear": 0.0047, "relation-linear": 0.930}),
    ],
)
def test_published_scores(joined, expected):
    """GLUE with five seeds: the halves of MNLI counted once (8 tasks) or twice (9 tasks)."""
    table = pd.read_csv(RESULTS)
    table = table[table["task"] != MEAN_OF_TASKS]
    key = ["task", "method", "seed"]
    table = table.groupby(key, sort=False, as_index=False)["value"].mean()
    if joined:
        table["task"] = table["task"].replace({"MNLI-m": "MNLI", "MNLI-mm": "MNLI"})
        table = table.groupby(key, sort=False, as_index=False)["value"].mean()
    found = stratified_steel_dwass(table.rename(columns={"value": "score"})).pvalue
    names = {"relation": "relation-64", "linear": "linear-attention-64"}
    pvalues = {short: found.loc["attention-64", name] for short, name in names.items()}
    pvalues["relation-linear"] = found.loc["relation-64", "linear-attention-64"]
    assert pvalues == pytest.approx(expected, abs=0.002)
