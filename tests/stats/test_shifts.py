"""Tests of the intervals of many pairs against those of one pair."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relation_tf.stats import shifts
from relation_tf.stats.shifts import differences_of, shift_intervals

SCORES = st.lists(
    st.integers(-3, 3).map(float) | st.sampled_from([math.nan, math.inf, -math.inf]),
    min_size=1,
    max_size=4,
).map(np.array)


@settings(deadline=None, max_examples=100)
@given(
    tasks=st.lists(st.lists(SCORES, min_size=3, max_size=3), min_size=1, max_size=3),
    critical=st.floats(0.1, 3),
    accept=st.booleans(),
    worst=st.sampled_from([math.inf, -math.inf]),
)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # mean of inf and -inf
def test_limits_are_the_outermost_accepted_shifts(tasks, critical, accept, worst):
    def expected(i, j):
        found = [differences_of(scores[i], scores[j], worst) for scores in tasks]
        sizes = [scores[i].size + scores[j].size + 1 for scores in tasks]
        deviation = critical * math.sqrt(
            sum(each.size / (12 * n) for each, n in zip(found, sizes, strict=True))
        )
        all_of = [(d, 1 / n) for each, n in zip(found, sizes, strict=True) for d in each]
        half = sum(weight for _, weight in all_of) / 2

        def limit(sign):
            """Go up from the lowest difference while the weight below it is rejected."""
            at, below = -math.inf, 0.0
            turned = [(-math.inf if math.isnan(d) else sign * d, weight) for d, weight in all_of]
            for value, weight in sorted(turned):
                if half - below < deviation:
                    break
                at, below = value, below + weight
            return sign * at

        ordered = sorted((0.0 if math.isnan(d) else d, weight) for d, weight in all_of)
        up_to = np.cumsum([weight for _, weight in ordered])
        ends = [np.searchsorted(up_to, half * (1 + side)) for side in (-1e-12, 1e-12)]
        low, high = limit(1), limit(-1)
        if accept:
            low, high = min(low, 0.0), max(high, 0.0)
        return np.mean([ordered[end][0] for end in ends]), low, high

    pairs = [(0, 1), (0, 2), (1, 2)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shifts, "_MOST_DIFFERENCES", 20)
        found = shift_intervals(tasks, pairs, critical, accept_zero=np.full(3, accept), worst=worst)
    np.testing.assert_allclose(found.T, [expected(i, j) for i, j in pairs], rtol=0, atol=1e-12)
