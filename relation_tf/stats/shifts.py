"""Shift between two methods with the limits of the shifts that a rank test accepts."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from relation_tf.stats.pairwise import Pairs
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
    tasks: Sequence[Sequence[FloatArray]],
    pairs: Pairs,
    critical: float,
    *,
    accept_zero: NDArray[np.bool_],
    worst: float,
) -> FloatArray:
    """Return the shifts of Hodges and Lehmann and the limits of the shifts that are not rejected.

    The differences of all tasks are ordered together, with the weights of `RankSums`. A limit is
    infinite if no shift is rejected.

    Args:
        tasks: Scores of each method, for each task.
        pairs: P pairs of indices of methods.
        critical: Smallest standardized statistic that the test rejects, without ties.
        accept_zero: True for each pair whose interval must contain 0, shape `(P,)`: ties can make
            the test of the scores accept 0 where it rejects small shifts, which break the ties.
        worst: Value of a NaN, as in `differences_of`.

    Returns:
        Weighted medians of the differences, lower and upper limits, shape `(3, P)`.
    """
    rows_by_size = defaultdict(list)
    for row, (i, j) in enumerate(pairs):
        rows_by_size[tuple((scores[i].size, scores[j].size) for scores in tasks)].append(row)
    found = np.empty((3, len(pairs)))
    for sizes, rows in rows_by_size.items():
        weights = np.concatenate([np.full(m * n, 1 / (m + n + 1)) for m, n in sizes])
        deviation = critical * math.sqrt(weights.sum() / 12)  # (m + n + 1) w^2 = w
        step = max(1, _MOST_DIFFERENCES // weights.size)
        for part in (rows[start : start + step] for start in range(0, len(rows), step)):
            a, b = zip(*(pairs[row] for row in part), strict=True)
            differences = [
                differences_of(
                    np.stack([scores[i] for i in a]), np.stack([scores[j] for j in b]), worst
                )
                for scores in tasks
            ]
            found[:, part] = _limits(np.concatenate(differences, axis=1), weights, deviation)
    _, low, high = found
    low[accept_zero & (low > 0)] = 0.0
    high[accept_zero & (high < 0)] = 0.0
    return found


def _limits(
    differences: FloatArray, weights: FloatArray, critical: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return medians and limits of differences of shape `(P, N)`.

    A shift is rejected if the weight of the differences above it exceeds half of all weights by the
    critical deviation.
    """
    undefined, half = np.isnan(differences), float(weights.sum()) / 2
    alike, rows = bool((weights == weights[0]).all()), np.arange(len(differences))

    def ordered(values: FloatArray, fill: float) -> tuple[FloatArray, FloatArray]:
        """Return sorted values and the weight up to each."""
        filled = np.where(undefined, fill, values)
        if alike:  # much faster
            return np.sort(filled, axis=1), np.cumsum(weights)[None]
        order = np.argsort(filled, axis=1, kind="stable")
        return np.take_along_axis(filled, order, axis=1), np.cumsum(weights[order], axis=1)

    def lower(values: FloatArray) -> FloatArray:
        ascending, up_to = ordered(values, -np.inf)
        below = np.pad(up_to, ((0, 0), (1, 0)))[:, :-1]
        rejected = (half - below >= critical).sum(axis=1)  # gaps between differences
        return np.where(rejected, ascending[rows, np.maximum(rejected - 1, 0)], -np.inf)

    ascending, up_to = ordered(differences, 0.0)
    first, second = ((up_to >= half * (1 + side * _ROUNDING)).argmax(axis=1) for side in (-1, 1))
    median = (ascending[rows, first] + ascending[rows, second]) / 2
    return median, lower(differences), -lower(-differences)
