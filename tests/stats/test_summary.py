"""The interval of the mean, and what a mean and an SD say about overlap."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import ttest_1samp

from relation_tf.stats import mean_interval, separation_from_summary


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_interval_is_that_of_the_t_test(confidence):
    scores = [0.81, 0.83, 0.85, 0.84, 0.8]
    expected = ttest_1samp(scores, 0).confidence_interval(confidence)
    assert mean_interval(scores, confidence) == pytest.approx(tuple(expected))


@pytest.mark.parametrize("scores", [[0.5], [0.5, math.nan], [0.5, math.inf]])
def test_interval_needs_two_finite_scores(scores):
    with pytest.raises(ValueError, match=r"at least two scores, all finite\. Received"):
        mean_interval(scores)


def test_confidence_out_of_range():
    with pytest.raises(ValueError, match="Received: confidence=95"):
        mean_interval([1, 2], 95)


@pytest.mark.parametrize(
    ("r", "expected"),
    [
        (0, "impossible"),
        (0.447, "impossible"),
        (0.448, "undetermined"),
        (1.788, "undetermined"),
        (1.789, "certain"),
    ],
)
def test_bounds_of_five_seeds(r, expected):
    assert separation_from_summary(0.0, 0.4, r, 0.6, n=5) == expected
    assert separation_from_summary(r, 0.6, 0.0, 0.4, n=5) == expected


def verdict(a, b, slack=0.0):
    sd_a, sd_b = a.std(ddof=1) + slack, b.std(ddof=1) + slack
    return separation_from_summary(a.mean(), sd_a, b.mean(), sd_b, n=a.size)


@given(arrays(np.int64, st.tuples(st.just(2), st.integers(2, 7)), elements=st.integers(-20, 20)))
def test_never_contradicts_the_scores(pair):
    a, b = pair
    separated = a.max() < b.min() or b.max() < a.min()
    # The slack keeps scores that just touch, at the bound, from being certain by rounding.
    assert verdict(a, b, slack=1e-9) != ("impossible" if separated else "certain")


@pytest.mark.parametrize("n", [3, 5, 9])
def test_bounds_are_sharp(n):
    spike = np.eye(n)[0]  # one value apart from n - 1 equal ones
    step = 1e-6
    # Spikes that turn away from each other: the equal ones touch at the lower bound.
    assert verdict(-spike, spike - step) == "impossible"
    assert verdict(-spike, spike + step) == "undetermined"
    # Spikes that face each other touch at the upper bound.
    assert verdict(spike, 2 - spike - step) == "undetermined"
    assert verdict(spike, 2 - spike + step) == "certain"


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ((0, 1, 0, 1, 1), "Received: n=1"),
        ((0, -1, 0, 1, 5), "Received: mean_a=0, sd_a=-1"),
        ((0, 1, math.nan, 1, 5), "mean_b=nan"),
    ],
)
def test_bad_summaries(numbers, message):
    with pytest.raises(ValueError, match=message):
        separation_from_summary(*numbers)
