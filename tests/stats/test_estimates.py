"""Means, effect sizes, shifts and estimates over tasks against SciPy, rliable and plain loops."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import norm, somersd, t, trim_mean, ttest_1samp

from relation_tf.stats import (
    cliffs_delta,
    cliffs_delta_interval,
    estimates,
    interquartile_mean,
    mean_interval,
    probability_of_improvement,
)
from relation_tf.stats.estimates import Estimate, delta_intervals, shift_intervals
from tests.golden import GOLDEN_VALUES

GOLDEN = json.loads((GOLDEN_VALUES / "rliable.json").read_text(encoding="utf-8"))
FIRST, SECOND = (dict(enumerate(np.array(GOLDEN[name]).T)) for name in ("first", "second"))
SCORES = st.lists(st.integers(0, 6), min_size=1, max_size=12)
OF_TASKS = st.lists(
    st.lists(st.integers(0, 5), min_size=3, max_size=3), min_size=1, max_size=4
).map(lambda rows: dict(enumerate(rows)))
WITH_DIVERGED = st.lists(
    st.integers(-3, 3).map(float) | st.sampled_from([math.nan, math.inf, -math.inf]),
    min_size=1,
    max_size=4,
).map(np.array)


def test_estimates_print_as_sentences():
    tasks = {"A": [1, 2, 3, 4]}
    assert str(interquartile_mean(tasks, confidence=0.5)).startswith("IQM 2.5, 50 % ")
    assert interquartile_mean(pd.DataFrame(tasks)) == interquartile_mean(tasks)
    value, low, high = found = probability_of_improvement(tasks, tasks)
    assert str(found) == f"probability of improvement 0.5, 95 % {low:.3g} to {high:.3g}"
    assert (value, found.confidence) == (0.5, 0.95)
    assert str(mean_interval([1, 2, 3])) == "-0.484 to 4.48"


def test_a_replaced_number_keeps_name_and_confidence():
    estimate = Estimate(0.4, 0.3, 0.5, "IQM", 0.9)._replace(value=0.45)
    assert (*estimate, estimate.name, estimate.confidence) == (0.45, 0.3, 0.5, "IQM", 0.9)
    assert "0.45" in str(estimate)


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_interval_of_a_mean_matches_the_t_test(confidence):
    scores = [0.81, 0.83, 0.85, 0.84, 0.8]
    expected = ttest_1samp(scores, 0).confidence_interval(confidence)
    assert mean_interval(scores, confidence) == pytest.approx(tuple(expected))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mean_interval([0.5]), "must be at least 2 numbers"),
        (lambda: mean_interval([0.5, math.inf]), "must be finite"),
        (lambda: mean_interval([1, 2], 95), "Received: confidence=95"),
        (lambda: cliffs_delta([1.0], [math.nan]), r"'b' must not be NaN. Received: \[nan\]"),
        (lambda: interquartile_mean({0: [1, 2], 1: [1]}), "the same number of scores"),
        (lambda: interquartile_mean({}), "at least one task"),
        (lambda: interquartile_mean([1, 2, 3]), "scores must be a dict of task -> scores"),
        (lambda: probability_of_improvement({0: [1], 1: [2]}, {0: [1]}), "the same tasks"),
        (
            lambda: probability_of_improvement({0: [1]}, {0: [math.nan]}),
            "scores of 0 must be finite; for a diverged run",
        ),
    ],
)
def test_wrong_input_is_refused(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_coverage_of_means_with_five_scores():
    """The docstring of mean_interval has these figures."""
    rng = np.random.default_rng(0)
    normal = rng.normal(size=(20_000, 5))
    lost = rng.random(normal.shape) < 0.2
    samples = {
        0.95: (normal, 0.0),
        0.82: (np.exp(normal), math.exp(0.5)),
        0.70: (np.where(lost, -10, normal), -2.0),
        0.66: (np.where(lost, -100, normal), -20.0),
    }
    for expected, (scores, mean) in samples.items():
        half = t.isf(0.025, 4) * scores.std(axis=1, ddof=1) / math.sqrt(5)
        covered = np.abs(scores.mean(axis=1) - mean) <= half
        assert covered.mean() == pytest.approx(expected, abs=0.01)


@given(SCORES, SCORES)
def test_delta_is_somers_d_of_scores_given_the_group(a, b):
    assume(len(set(a + b)) > 1)  # scipy returns NaN if all scores are equal
    group = np.repeat([1, 0], [len(a), len(b)])
    assert cliffs_delta(a, b) == pytest.approx(somersd(group, np.array(a + b)).statistic)
    assert cliffs_delta([0.3], [0.1 + 0.2]) == 0


@given(SCORES, SCORES, st.sampled_from([0.8, 0.95, 0.99]))
def test_interval_is_wilsons_with_the_size_of_the_smaller_sample(a, b, confidence):
    low, high = cliffs_delta_interval(a, b, confidence)
    trials = min(len(a), len(b))
    z = norm.isf((1 - confidence) / 2)
    for end in ((low + 1) / 2, (high + 1) / 2):  # both ends solve Wilson's equation
        distance = abs((cliffs_delta(a, b) + 1) / 2 - end)
        assert distance == pytest.approx(z * math.sqrt(end * (1 - end) / trials), abs=1e-7)
    assert -1 <= low <= cliffs_delta(a, b) <= high <= 1
    assert high - low > 0.2
    assert cliffs_delta_interval(b, a, confidence) == pytest.approx((-high, -low))


SAMPLERS = {
    "normal": lambda rng, size: (rng.standard_normal(size), rng.standard_normal(size)),
    "spread 3:1": lambda rng, size: (3 * rng.standard_normal(size), rng.standard_normal(size)),
    "spread 10:1": lambda rng, size: (10 * rng.standard_normal(size), rng.standard_normal(size)),
    "log-normal": lambda rng, size: (rng.lognormal(size=size), rng.lognormal(size=size)),
    "a fifth fails": lambda rng, size: (
        rng.standard_normal(size) - 30 * (rng.random(size) < 0.2),
        rng.standard_normal(size),
    ),
}
# Coverage in percent, as in the docstring of `cliffs_delta_interval`.
DELTAS = (0, 0.5, 0.8, 0.9, 0.95)
COVERAGE = {
    "normal": (98.5, 97.9, 98.2, 98.3, 98.3),
    "spread 3:1": (97.1, 97.5, 96.9, 97.5, 95.2),
    "spread 10:1": (95.0, 97.8, 94.3, 97.4, 90.8),
    "log-normal": (98.5, 97.6, 96.6, 97.3, 92.6),
    "a fifth fails": (98.1, 97.2, 97.0, 97.9, 97.9),
}


@pytest.mark.parametrize("scores", COVERAGE)
def test_coverage_of_delta_with_five_seeds(scores):
    simulations, n = 40_000, 5
    rng = np.random.default_rng(0)
    deltas = 2 * np.arange(n**2 + 1) / n**2 - 1
    ends = np.stack(delta_intervals(deltas, np.full(deltas.size, n)), axis=1)
    a, b = SAMPLERS[scores](rng, 1_000_000)
    measured = []
    for delta in DELTAS:
        shift = np.quantile(b - a, (1 + delta) / 2)  # P(a + shift > b) is (1 + delta) / 2
        few_a, few_b = SAMPLERS[scores](rng, (simulations, n))
        wins = (few_a[:, :, None] + shift > few_b[:, None, :]).sum(axis=(1, 2))
        low, high = ends[wins].T
        measured.append(100 * np.mean((low <= delta) & (delta <= high)))
    assert measured == pytest.approx(COVERAGE[scores], abs=0.5)


@settings(deadline=None, max_examples=100)
@given(
    tasks=st.lists(st.lists(WITH_DIVERGED, min_size=3, max_size=3), min_size=1, max_size=3),
    critical=st.floats(0.1, 3),
    accept=st.booleans(),
    worst=st.sampled_from([math.inf, -math.inf]),
)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # mean of inf and -inf
def test_shift_limits_are_the_outermost_accepted_shifts(tasks, critical, accept, worst):
    def expected(i, j):
        differences, variance = [], 0.0
        for scores in tasks:
            a, b = (np.where(np.isnan(scores[k]), worst, scores[k]) for k in (i, j))
            n = a.size + b.size + 1
            differences += [(d, 1 / n) for d in np.subtract.outer(b, a).ravel()]
            variance += a.size * b.size / (12 * n)
        half, deviation = sum(w for _, w in differences) / 2, critical * math.sqrt(variance)

        def limit(sign):
            """Go up from the lowest difference while the weight below it is rejected."""
            at, below = -math.inf, 0.0
            turned = [(-math.inf if math.isnan(d) else sign * d, w) for d, w in differences]
            for value, weight in sorted(turned):
                if half - below < deviation:
                    break
                at, below = value, below + weight
            return sign * at

        ordered = sorted((0.0 if math.isnan(d) else d, weight) for d, weight in differences)
        up_to = np.cumsum([weight for _, weight in ordered])
        ends = [np.searchsorted(up_to, half * (1 + side)) for side in (-1e-12, 1e-12)]
        low, high = limit(1), limit(-1)
        if accept:
            low, high = min(low, 0.0), max(high, 0.0)
        return np.mean([ordered[end][0] for end in ends]), low, high

    pairs = ((0, 1), (0, 2), (1, 2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(estimates, "_MOST_DIFFERENCES", 20)
        intervals = shift_intervals(
            tasks, pairs, critical, accept_zero=np.full(3, accept), worst=worst
        )
    limits = [expected(i, j) for i, j in pairs]
    np.testing.assert_allclose(intervals.T, limits, rtol=0, atol=1e-12)


def test_estimates_over_tasks_equal_rliable():
    improvement = probability_of_improvement(FIRST, SECOND)
    for estimate, name in ((interquartile_mean(FIRST), "iqm"), (improvement, "improvement")):
        assert estimate.value == pytest.approx(GOLDEN[name], abs=1e-12)
        # Two bootstraps of 50,000 draws: the ends differ by their Monte Carlo error.
        error = 0.05 * (estimate.high - estimate.low)
        ends = estimate.low, estimate.high
        assert ends == pytest.approx(GOLDEN[f"{name}_interval"], abs=error)


@settings(deadline=None, max_examples=50)
@given(OF_TASKS, st.integers(1, 4), st.randoms(use_true_random=False))
def test_estimates_over_tasks_equal_counting(scores, size, random):
    pooled = [score for seeds in scores.values() for score in seeds]
    mean = interquartile_mean(scores, draws=50)
    assert mean.value == pytest.approx(trim_mean(pooled, 0.25))
    assert mean.low <= mean.high
    other = {task: [random.randint(0, 5) for _ in range(size)] for task in scores}
    shares = [
        sum((b > a) + (a == b) / 2 for a, b in itertools.product(scores[task], other[task]))
        / (3 * size)
        for task in scores
    ]
    improvement = probability_of_improvement(scores, other, draws=50)
    assert improvement.value == pytest.approx(np.mean(shares))
    turned = probability_of_improvement(other, scores, draws=50)
    assert turned.value == pytest.approx(1 - improvement.value)


def test_scores_that_differ_by_rounding_are_ties():
    first, second = {"x": [0.3] * 5}, {"x": [0.1 + 0.2] * 5}
    assert probability_of_improvement(first, second).value == 0.5
