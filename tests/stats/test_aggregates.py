"""Interquartile mean and probability of improvement, also against rliable."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import trim_mean

from relation_tf.stats import interquartile_mean, probability_of_improvement
from tests.golden import GOLDEN_VALUES

GOLDEN = json.loads((GOLDEN_VALUES / "rliable.json").read_text(encoding="utf-8"))
FIRST, SECOND = (dict(enumerate(np.array(GOLDEN[name]).T)) for name in ("first", "second"))
SCORES = st.lists(st.lists(st.integers(0, 5), min_size=3, max_size=3), min_size=1, max_size=4).map(
    lambda rows: dict(enumerate(rows))
)


def test_interquartile_mean_equals_rliable():
    found = interquartile_mean(FIRST)
    assert found.value == pytest.approx(GOLDEN["iqm"], abs=1e-12)
    # Two bootstraps of 50,000 draws: the ends differ by their Monte Carlo error.
    width = found.high - found.low
    assert (found.low, found.high) == pytest.approx(GOLDEN["iqm_interval"], abs=0.03 * width)


def test_probability_of_improvement_equals_rliable():
    found = probability_of_improvement(FIRST, SECOND)
    assert found.value == pytest.approx(GOLDEN["improvement"], abs=1e-12)
    width = found.high - found.low
    expected = pytest.approx(GOLDEN["improvement_interval"], abs=0.05 * width)
    assert (found.low, found.high) == expected


@settings(deadline=None, max_examples=50)
@given(SCORES)
def test_interquartile_mean_equals_scipy(scores):
    pooled = [score for own in scores.values() for score in own]
    found = interquartile_mean(scores, draws=50)
    assert found.value == pytest.approx(trim_mean(pooled, 0.25))
    assert found.low <= found.high


@settings(deadline=None, max_examples=50)
@given(SCORES, st.integers(1, 4), st.randoms(use_true_random=False))
def test_improvement_equals_counting(scores, size, random):
    other = {task: [random.randint(0, 5) for _ in range(size)] for task in scores}
    shares = [
        sum((b > a) + (a == b) / 2 for a, b in itertools.product(scores[task], other[task]))
        / (3 * size)
        for task in scores
    ]
    found = probability_of_improvement(scores, other, draws=50)
    assert found.value == pytest.approx(np.mean(shares))
    turned = probability_of_improvement(other, scores, draws=50)
    assert turned.value == pytest.approx(1 - found.value)


def test_numbers_of_scores_may_differ_between_methods_only():
    few = {task: own[:3] for task, own in SECOND.items()}
    assert 0 < probability_of_improvement(FIRST, few, draws=50).value < 1
    with pytest.raises(ValueError, match="each task must have the same number of scores"):
        interquartile_mean({"CoLA": [1, 2], "RTE": [1, 2, 3]})


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({0: [1.0]}, "both methods must have the same tasks"),
        ({}, "at least one task"),
        ({0: [np.nan], 1: [1.0]}, "scores of 0 must be finite; for a diverged run"),
    ],
)
def test_scores_are_checked(second, message):
    with pytest.raises(ValueError, match=message):
        probability_of_improvement({0: [1.0], 1: [2.0]}, second)
    with pytest.raises(TypeError, match="scores must be a dict of task -> scores"):
        interquartile_mean([1, 2, 3])


def test_scores_that_differ_by_rounding_are_ties():
    first, second = {"x": [0.3] * 5}, {"x": [0.1 + 0.2] * 5}
    assert probability_of_improvement(first, second).value == 0.5
