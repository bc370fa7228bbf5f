"""Confidence intervals of a mean and of the effect size of a difference."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from relation_tf.stats.checks import check_probability
from relation_tf.stats.pairwise import dominance, observed_groups
from relation_tf.stats.samples import FloatArray, numeric_scores, rank_samples


class Interval(NamedTuple):
    """Confidence interval, in the unit of the scores."""

    low: float
    high: float


def mean_interval(scores: ArrayLike, confidence: float = 0.95) -> Interval:
    """Return the confidence interval of the mean from Student's t distribution.

    Coverage of the 95 % interval with five scores: .95 normal, .82 log-normal, .70 or less where
    one run in five collapses, by 10 SD or more: do not use it there. A 95 % bootstrap interval of
    normal scores covers .85. (20,000 simulations, `tests/stats/test_summary.py`.)

    Args:
        scores: Finite scores of one method, shape `(n,)`, n at least 2.
        confidence: Coverage, between 0 and 1.

    Returns:
        Lower and upper end.

    Raises:
        TypeError: If a score is not a number.
        ValueError: If there are fewer than two scores, a score is not finite, or the confidence is
            out of range.

    Example:
        >>> low, high = mean_interval([0.81, 0.83, 0.82, 0.84, 0.80])
        >>> round(low, 4), round(high, 4)
        (0.8004, 0.8396)
    """
    from scipy.stats import t

    check_probability("confidence", confidence)
    values = numeric_scores(scores, "scores")
    if values.size < 2 or not np.isfinite(values).all():
        raise ValueError(
            f"`scores` must have at least two values, all finite. Received: {values.tolist()}"
        )
    mean, error = values.mean(), values.std(ddof=1) / math.sqrt(values.size)
    half = t.isf((1 - confidence) / 2, values.size - 1) * error
    return Interval(float(mean - half), float(mean + half))


def cliffs_delta(a: ArrayLike, b: ArrayLike) -> float:
    """Return Cliff's delta, `P(a > b) - P(a < b)`.

    Delta is 1 if every score of `a` is higher than every score of `b`, and -1 if every score is
    lower. Ties are determined as in `steel_dwass`. In its table `effect_size`, row i and column j
    contain `cliffs_delta(j, i)`: positive where the column's method is higher.

    Args:
        a: Scores of one method, shape `(n,)`.
        b: Scores of the other method, shape `(m,)`.

    Returns:
        Delta, from -1 to 1.

    Raises:
        TypeError: If a score is not a number.
        ValueError: If a sample is empty, has more than one axis or contains NaN.

    Example:
        >>> cliffs_delta([0.8, 0.9, 0.9], [0.7, 0.8])
        0.8333333333333334

    References:
        N. Cliff (1993), Dominance statistics: ordinal analyses to answer ordinal questions,
        Psychological Bulletin 114, 494-509.
    """
    ranked = rank_samples({"b": b, "a": a}, nan="raise")
    return float(dominance([observed_groups(ranked)], [(0, 1)])[0])


def cliffs_delta_interval(a: ArrayLike, b: ArrayLike, confidence: float = 0.95) -> Interval:
    """Return a confidence interval of Cliff's delta that is suitable for few scores.

    The interval is Wilson's interval of the proportion `P = P(a > b)` with min(n, m) trials. For
    any two distributions the variance of the estimate of P is at most `P (1 - P) / min(n, m)`.
    The interval does not assume equal variances and never has zero width. For similar variances it
    is conservative. The interval of P(a > b) follows from `(delta + 1) / 2`.

    Coverage of the 95 % interval in percent, by true delta, with five scores each (40,000
    simulations, `tests/stats/test_effect_size.py`):

    | scores | delta 0 | 0.5 | 0.8 | 0.9 | 0.95 |
    | --- | --- | --- | --- | --- | --- |
    | normal | 98.5 | 97.9 | 98.2 | 98.3 | 98.3 |
    | one SD three times as large | 97.1 | 97.5 | 96.9 | 97.5 | 95.2 |
    | one SD ten times as large | 95.0 | 97.8 | 94.3 | 97.4 | 90.8 |
    | log-normal | 98.5 | 97.6 | 96.6 | 97.3 | 92.6 |
    | one method fails in 20 % of the runs | 98.1 | 97.2 | 97.0 | 97.9 | 97.9 |

    Args:
        a: Scores of one method, shape `(n,)`.
        b: Scores of the other method, shape `(m,)`.
        confidence: Coverage, between 0 and 1.

    Returns:
        Lower and upper end, from -1 to 1.

    Raises:
        TypeError: If a score is not a number.
        ValueError: If a sample is empty, has more than one axis or contains NaN, or the confidence
            is out of range.

    Example:
        >>> low, high = cliffs_delta_interval([6, 7, 8, 9, 10], [1, 2, 3, 4, 5])
        >>> round(low, 2), round(high, 2)
        (0.13, 1.0)

    References:
        Z. W. Birnbaum, O. M. Klose (1957), Bounds for the variance of the Mann-Whitney statistic,
        Annals of Mathematical Statistics 28, 933-945.
        E. B. Wilson (1927), Probable inference, the law of succession, and statistical inference,
        Journal of the American Statistical Association 22, 209-212.
    """
    fewest = np.array(min(np.size(a), np.size(b)))
    low, high = delta_intervals(np.array(cliffs_delta(a, b)), fewest, confidence)
    return Interval(float(low), float(high))


def delta_intervals(
    delta: FloatArray, trials: FloatArray, confidence: float = 0.95
) -> tuple[FloatArray, FloatArray]:
    """Compute the intervals of `cliffs_delta_interval` from estimates of delta.

    Args:
        delta: Cliff's delta of each pair.
        trials: For each pair, n for which the variance of delta is at most `(1 - delta^2) / n`: the
            number of scores of the method with fewer scores.
        confidence: Coverage, between 0 and 1.

    Returns:
        Lower and upper ends.
    """
    from scipy.special import ndtri

    check_probability("confidence", confidence)
    z2 = float(ndtri((1 - confidence) / 2)) ** 2
    half = np.sqrt(z2 * (trials * (1 - delta**2) + z2))
    low, high = ((trials * delta + side * half) / (trials + z2) for side in (-1, 1))
    return np.maximum(low, -1.0), np.minimum(high, 1.0)
