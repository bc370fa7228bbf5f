"""Cliff's delta against scipy and at its ends."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import somersd

from relation_tf.stats import cliffs_delta

SCORES = st.lists(st.integers(0, 6), min_size=1, max_size=12)


@given(SCORES, SCORES)
def test_is_somers_d_of_scores_given_the_group(a, b):
    assume(len(set(a + b)) > 1)  # where all scores are equal, scipy gives NaN
    group = np.repeat([1, 0], [len(a), len(b)])
    expected = somersd(group, np.array(a + b)).statistic
    assert cliffs_delta(a, b) == pytest.approx(expected)


def test_positive_where_the_first_is_higher():
    assert cliffs_delta([4, 5, 6], [1, 2, 3]) == 1
    assert cliffs_delta([1, 2, 3], [4, 5, 6]) == -1
    assert cliffs_delta([0.3], [0.1 + 0.2]) == 0


def test_nan_is_refused():
    with pytest.raises(ValueError, match=r"'b' must not be NaN. Received: \[nan\]"):
        cliffs_delta([1.0], [math.nan])
