"""Tests of Cliff's delta against scipy, and of the coverage of its interval."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import norm, somersd

from relation_tf.stats import cliffs_delta, cliffs_delta_interval
from relation_tf.stats.effect_size import delta_intervals

SCORES = st.lists(st.integers(0, 6), min_size=1, max_size=12)


@given(SCORES, SCORES)
def test_delta_is_somers_d_of_scores_given_the_group(a, b):
    assume(len(set(a + b)) > 1)  # scipy returns NaN if all scores are equal
    group = np.repeat([1, 0], [len(a), len(b)])
    expected = somersd(group, np.array(a + b)).statistic
    assert cliffs_delta(a, b) == pytest.approx(expected)


def test_delta_is_positive_if_the_first_is_higher():
    assert cliffs_delta([4, 5, 6], [1, 2, 3]) == 1
    assert cliffs_delta([1, 2, 3], [4, 5, 6]) == -1
    assert cliffs_delta([0.3], [0.1 + 0.2]) == 0


def test_nan_is_refused():
    with pytest.raises(ValueError, match=r"'b' must not be NaN. Received: \[nan\]"):
        cliffs_delta([1.0], [math.nan])


@given(SCORES, SCORES, st.sampled_from([0.8, 0.95, 0.99]))
def test_interval_is_wilsons_with_the_size_of_the_smaller_sample(a, b, confidence):
    low, high = cliffs_delta_interval(a, b, confidence)
    trials = min(len(a), len(b))
    z = norm.isf((1 - confidence) / 2)
    for end in ((low + 1) / 2, (high + 1) / 2):  # both ends solve Wilson's equation
        distance = abs((cliffs_delta(a, b) + 1) / 2 - end)
        assert distance == pytest.approx(z * math.sqrt(end * (1 - end) / trials), abs=1e-7)
    assert -1 <= low <= cliffs_delta(a, b) <= high <= 1


@given(SCORES, SCORES)
def test_interval_is_mirrored_with_the_samples_and_has_a_width(a, b):
    low, high = cliffs_delta_interval(a, b)
    assert cliffs_delta_interval(b, a) == pytest.approx((-high, -low))
    assert high - low > 0.5


def normal(rng, size):
    return rng.standard_normal(size), rng.standard_normal(size)


def spread_three_times(rng, size):
    return 3 * rng.standard_normal(size), rng.standard_normal(size)


def spread_ten_times(rng, size):
    return 10 * rng.standard_normal(size), rng.standard_normal(size)


def lognormal(rng, size):
    return rng.lognormal(size=size), rng.lognormal(size=size)


def a_fifth_fails(rng, size):
    a, b = normal(rng, size)
    return np.where(rng.random(size) < 0.2, a - 30, a), b


# Coverage in percent, as in the docstring of `cliffs_delta_interval`.
DELTAS = (0, 0.5, 0.8, 0.9, 0.95)
COVERAGE = {
    normal: (98.5, 97.9, 98.2, 98.3, 98.3),
    spread_three_times: (97.1, 97.5, 96.9, 97.5, 95.2),
    spread_ten_times: (95.0, 97.8, 94.3, 97.4, 90.8),
    lognormal: (98.5, 97.6, 96.6, 97.3, 92.6),
    a_fifth_fails: (98.1, 97.2, 97.0, 97.9, 97.9),
}


@pytest.mark.parametrize("scores", COVERAGE, ids=lambda scores: scores.__name__)
def test_coverage_with_five_seeds(scores):
    simulations, n = 40_000, 5
    rng = np.random.default_rng(0)
    deltas = 2 * np.arange(n**2 + 1) / n**2 - 1
    ends = np.stack(delta_intervals(deltas, np.full(deltas.size, n)), axis=1)
    a, b = scores(rng, 1_000_000)
    measured = []
    for delta in DELTAS:
        shift = np.quantile(b - a, (1 + delta) / 2)  # P(a + shift > b) is (1 + delta) / 2
        few_a, few_b = scores(rng, (simulations, n))
        wins = (few_a[:, :, None] + shift > few_b[:, None, :]).sum(axis=(1, 2))
        low, high = ends[wins].T
        measured.append(100 * np.mean((low <= delta) & (delta <= high)))
    assert measured == pytest.approx(COVERAGE[scores], abs=0.5)
