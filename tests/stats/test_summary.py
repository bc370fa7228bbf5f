"""Tests of the confidence interval of the mean against the t test."""

from __future__ import annotations

import math

import pytest
from scipy.stats import ttest_1samp

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
