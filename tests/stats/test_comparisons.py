"""Tests of simultaneous intervals of shifts against enumeration and against p."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relation_tf.stats import pairwise_result, steel, steel_dwass

TESTS = {"steel-dwass": steel_dwass, "steel": functools.partial(steel, control="m0")}
BOTH_TESTS = pytest.mark.parametrize("test", TESTS.values(), ids=[*TESTS])
SIZES = st.lists(st.integers(1, 3), min_size=2, max_size=3)
ALPHA = st.sampled_from([0.05, 0.2, 0.5, 0.9])


def named(groups):
    return {f"m{i}": group for i, group in enumerate(groups)}


def draw_groups(data, tied):
    sizes = data.draw(SIZES)
    number = sum(sizes)
    values = st.integers(0, 4) if tied else st.integers(-(2**20), 2**20)
    scores = data.draw(
        st.lists(values, min_size=number, max_size=number, unique=not tied).map(np.array)
    )
    return named(np.split(scores / 8, np.cumsum(sizes)[:-1]))


@BOTH_TESTS
@pytest.mark.parametrize("method", ["exact", "monte-carlo", "asymptotic"])
@settings(deadline=None, max_examples=20)
@given(data=st.data(), tied=st.booleans(), alpha=ALPHA)
def test_intervals_agree_with_p(test, method, data, tied, alpha):
    samples = draw_groups(data, tied)
    result = test(samples, alpha=alpha, method=method, permutations=500)
    intervals = result.confidence_interval()
    excludes = (intervals["low"] > 0) | (intervals["high"] < 0)
    significant = result.pairs()["significant"]
    assert not (excludes & ~significant).any()
    assert tied or (excludes == significant).all()
    assert (intervals["low"] <= intervals["high"]).all()
    if not tied:
        assert intervals["difference"].between(intervals["low"], intervals["high"]).all()


def naive_statistic(first, second):
    """Return the absolute standardized U of untied scores."""
    m, n = len(first), len(second)
    wins = sum(y > x for x, y in itertools.product(first, second))
    return abs(wins - m * n / 2) / math.sqrt(m * n * (m + n + 1) / 12)


@functools.cache
def naive_maxima(sizes, pairs):
    """Return the largest statistic of all assignments of untied scores to the groups."""
    labels = [number for number, size in enumerate(sizes) for _ in range(size)]
    maxima = []
    for order in set(itertools.permutations(labels)):
        groups = [[x for x, label in enumerate(order) if label == i] for i in range(len(sizes))]
        maxima.append(max(naive_statistic(groups[i], groups[j]) for i, j in pairs))
    return np.array(maxima)


@BOTH_TESTS
@settings(deadline=None, max_examples=25)
@given(data=st.data(), alpha=ALPHA)
def test_intervals_contain_the_shifts_that_the_test_does_not_reject(test, data, alpha):
    samples = draw_groups(data, tied=False)
    found = test(samples, method="exact").confidence_interval(1 - alpha)
    names = list(samples)
    pairs = tuple((names.index(a), names.index(b)) for a, b in found[["a", "b"]].to_numpy())
    maxima = naive_maxima(tuple(map(len, samples.values())), pairs)
    for row in found.itertuples():
        a, b = samples[row.a], samples[row.b]
        differences = np.unique(np.subtract.outer(b, a))
        middles = (differences[1:] + differences[:-1]) / 2
        for shift in (differences[0] - 1, *middles, differences[-1] + 1):
            statistic = naive_statistic(a, b - shift)
            pvalue = np.mean(maxima >= statistic - 1e-9)
            assert (pvalue >= 1 - (1 - alpha)) == (row.low <= shift <= row.high)


def test_designs_that_cannot_give_the_level_have_infinite_intervals():
    for samples in ({"a": [1, 2, 3], "b": [4, 5, 6]}, named(np.arange(25.0).reshape(5, 5))):
        found = steel_dwass(samples).confidence_interval()
        assert (found["low"] == -np.inf).all()
        assert (found["high"] == np.inf).all()
    # 1 - .90 is reached by three seeds of two methods only with p below .10, and p is .10.
    three = steel_dwass({"a": [1, 2, 3], "b": [4, 5, 6]})
    assert three.confidence_interval(0.9)["low"][0] == -np.inf
    assert three.confidence_interval(0.89)[["low", "high"]].to_numpy().tolist() == [[1, 5]]


def test_diverged_runs():
    nan, inf = math.nan, math.inf
    samples = {"a": [1.0, 2.0, 3.0, 4.0, 5.0], "b": [11.0, 12.0, 13.0, nan, nan]}
    (low,) = steel_dwass(samples).confidence_interval()["low"]
    (high,) = steel_dwass(samples, higher_is_better=False).confidence_interval()["high"]
    assert (low, high) == (-inf, inf)
    both = steel_dwass({"a": [1.0, nan, nan, nan], "b": [2.0, nan, nan, nan]})
    assert both.confidence_interval().loc[0, ["low", "high"]].tolist() == [-inf, inf]


def test_other_procedures_have_no_intervals():
    result = pairwise_result("steel-dwass", {"a": [1, 2], "b": [3, 4]}, [1.0], [0.5])
    with pytest.raises(ValueError, match="has no confidence intervals"):
        result.confidence_interval()
    with pytest.raises(ValueError, match="Received: confidence=95"):
        steel_dwass({"a": [1, 2], "b": [3, 4]}).confidence_interval(95)
