"""Tests of the confidence interval of the mean against the t test."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import t, ttest_1samp

from relation_tf.stats import mean_interval


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_interval_matches_the_t_test(confidence):
    scores = [0.81, 0.83, 0.85, 0.84, 0.8]
    expected = ttest_1samp(scores, 0).confidence_interval(confidence)
    assert mean_interval(scores, confidence) == pytest.approx(tuple(expected))


@pytest.mark.parametrize("scores", [[0.5], [0.5, math.nan], [0.5, math.inf]])
def test_interval_needs_two_finite_scores(scores):
    with pytest.raises(ValueError, match=r"at least two values, all finite\. Received"):
        mean_interval(scores)


def test_confidence_out_of_range():
    with pytest.raises(ValueError, match="Received: confidence=95"):
        mean_interval([1, 2], 95)


def test_coverage_with_five_scores():
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
        low, high = mean_interval(scores[0])
        assert (high - low) / 2 == pytest.approx(half[0])
