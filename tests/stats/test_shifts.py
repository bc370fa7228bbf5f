"""Tests of the intervals of many pairs against those of one pair."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relation_tf.stats import shifts
from relation_tf.stats.shifts import differences_of, shift_interval, shift_intervals

SCORES = st.lists(
    st.integers(-3, 3).map(float) | st.sampled_from([math.nan, math.inf, -math.inf]),
    min_size=1,
    max_size=4,
).map(np.array)


@settings(deadline=None, max_examples=100)
@given(
    pairs=st.lists(st.tuples(SCORES, SCORES), min_size=1, max_size=6),
    share=st.floats(0, 1),
    accept=st.booleans(),
    worst=st.sampled_from([math.inf, -math.inf]),
)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # mean of inf and -inf
def test_many_pairs_have_the_intervals_of_each_pair(pairs, share, accept, worst):
    def num_rejected(m, n):
        return int(share * ((m * n + 1) // 2))

    def expected(a, b):
        differences = differences_of(a, b, worst)
        half, rejected = differences.size / 2, num_rejected(a.size, b.size)
        return shift_interval(
            differences,
            np.ones(differences.size),
            lambda deviation: half - deviation < rejected,
            accepts_zero=accept,
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shifts, "_MOST_DIFFERENCES", 20)
        found = shift_intervals(
            pairs, num_rejected, accept_zero=np.full(len(pairs), accept), worst=worst
        )
    np.testing.assert_array_equal(found.T, [expected(a, b) for a, b in pairs])
