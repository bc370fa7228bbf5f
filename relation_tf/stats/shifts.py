"""Shift between two methods with the limits of the shifts that a rank test accepts."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable

import numpy as np

from relation_tf.stats.samples import FloatArray

_ROUNDING = 1e-12  # relative, of sums of weights


def differences_of(a: FloatArray, b: FloatArray, worst: float) -> FloatArray:
    """Return all differences of a score of b and one of a, shape `(m n,)`.

    Args:
        a: Scores, shape `(m,)`.
        b: Scores, shape `(n,)`.
        worst: Value of a NaN. The difference of two infinite scores, which are tied at any shift,
            is NaN.
    """
    first, second = (np.where(np.isnan(scores), worst, scores) for scores in (a, b))
    with np.errstate(invalid="ignore"):
        differences: FloatArray = np.subtract.outer(second, first).ravel()
    return differences


def shift_interval(
    differences: FloatArray,
    weights: FloatArray,
    rejects: Callable[[float], bool],
    *,
    accepts_zero: bool,
) -> tuple[float, float, float]:
    """Return the shift of Hodges and Lehmann and the limits of the shifts that are not rejected.

    Args:
        differences: Differences of scores, from `differences_of`, shape `(N,)`.
        weights: Weight of each in the test, shape `(N,)`.
        rejects: Function from a deviation, the weight of the differences above a shift minus half
            of all weights, to True if the test rejects this shift.
        accepts_zero: If True, the interval must contain 0: ties can make the test of the scores
            accept 0 where it rejects small shifts, which break the ties.

    Returns:
        Weighted median of the differences, lower and upper limit.
    """
    half, undefined = float(weights.sum()) / 2, np.isnan(differences)
    alike = bool((weights == weights[0]).all())

    def ordered(values: FloatArray, fill: float) -> tuple[FloatArray, FloatArray]:
        filled = np.where(undefined, fill, values)
        if alike:  # much faster
            return np.sort(filled), np.cumsum(weights)
        order = np.argsort(filled, kind="stable")
        return filled[order], np.cumsum(weights[order])

    def lower(values: FloatArray) -> float:
        sizes, up_to = ordered(values, -np.inf)
        below = np.concatenate([[0.0], up_to])  # weight below each gap between differences
        gaps = range(int(np.searchsorted(below, half * (1 - _ROUNDING))))
        first = bisect.bisect_left(
            gaps, True, key=lambda gap: not rejects(half - float(below[gap]))
        )
        return float(sizes[first - 1]) if first else -math.inf

    sizes, up_to = ordered(differences, 0.0)
    places = np.searchsorted(up_to, [half * (1 - _ROUNDING), half * (1 + _ROUNDING)])
    middle, low, high = float(np.mean(sizes[places])), lower(differences), -lower(-differences)
    return (middle, min(low, 0.0), max(high, 0.0)) if accepts_zero else (middle, low, high)
