"""Shift between two methods with the limits of the shifts that a rank test accepts."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from relation_tf.stats.samples import FloatArray

_ROUNDING = 1e-12  # relative, of sums of weights
_MOST_DIFFERENCES = 2**20  # at once


def differences_of(a: FloatArray, b: FloatArray, worst: float) -> FloatArray:
    """Return all differences of a score of b and one of a, shape `(..., m n)`.

    Args:
        a: Scores, shape `(..., m)`.
        b: Scores, shape `(..., n)`.
        worst: Value of a NaN. The difference of two infinite scores, which are tied at any shift,
            is NaN.
    """
    first, second = (np.where(np.isnan(scores), worst, scores) for scores in (a, b))
    with np.errstate(invalid="ignore"):
        differences: FloatArray = second[..., :, None] - first[..., None, :]
    return differences.reshape(*a.shape[:-1], -1)


def shift_intervals(
    pairs: Sequence[tuple[FloatArray, FloatArray]],
    num_rejected: Callable[[int, int], int],
    *,
    accept_zero: NDArray[np.bool_],
    worst: float,
) -> FloatArray:
    """Return the result of `shift_interval` for many pairs, with equal weights.

    Args:
        pairs: Scores a and b of each of P pairs.
        num_rejected: Function from the numbers of scores m and n to the number of values
            U = 0, 1, ... that the test rejects.
        accept_zero: True for each pair whose interval must contain 0, shape `(P,)`.
        worst: Value of a NaN, as in `differences_of`.

    Returns:
        Medians of the differences, lower and upper limits, shape `(3, P)`.
    """
    rows_by_size: dict[tuple[int, int], list[int]] = {}
    for row, (a, b) in enumerate(pairs):
        rows_by_size.setdefault((a.size, b.size), []).append(row)
    found = np.empty((3, len(pairs)))
    for (m, n), rows in rows_by_size.items():
        rejected, step = num_rejected(m, n), max(1, _MOST_DIFFERENCES // (m * n))
        for part in (rows[start : start + step] for start in range(0, len(rows), step)):
            a, b = (np.stack(scores) for scores in zip(*(pairs[row] for row in part), strict=True))
            found[:, part] = _limits(differences_of(a, b, worst), rejected)
    _, low, high = found
    low[accept_zero & (low > 0)] = 0.0
    high[accept_zero & (high < 0)] = 0.0
    return found


def _limits(differences: FloatArray, rejected: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return medians and limits of differences of shape `(P, N)`."""
    undefined, size = np.isnan(differences), differences.shape[1]
    low, middle, high = (
        np.sort(np.where(undefined, fill, differences), axis=1) for fill in (-np.inf, 0.0, np.inf)
    )
    median = (middle[:, (size - 1) // 2] + middle[:, size // 2]) / 2
    if not rejected:
        return median, np.full_like(median, -np.inf), np.full_like(median, np.inf)
    return median, low[:, rejected - 1], high[:, size - rejected]


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
