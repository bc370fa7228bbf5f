"""One method's scores in two numbers, and what a published "mean, SD" still says."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from relation_tf.stats.samples import numeric_scores

Separation: TypeAlias = Literal["certain", "impossible", "undetermined"]


class Interval(NamedTuple):
    """A confidence interval, in the unit of the scores."""

    low: float
    high: float


def mean_interval(scores: ArrayLike, confidence: float = 0.95) -> Interval:
    """Confidence interval of the mean by Student's t.

    With five seeds it covers about what it says; a bootstrap interval covers less (85 % for 95 %).

    Args:
        scores: Finite scores of one method, shape `(n,)`, n at least 2.
        confidence: Coverage, between 0 and 1.

    Returns:
        Lower and upper end.

    Raises:
        TypeError: If a score is not a number.
        ValueError: If there are fewer than two scores, one is not finite, or the confidence is out
            of range.

    Example:
        >>> low, high = mean_interval([0.81, 0.83, 0.82, 0.84, 0.80])
        >>> round(low, 4), round(high, 4)
        (0.8004, 0.8396)
    """
    from scipy.stats import t

    check_confidence(confidence)
    values = numeric_scores(scores, "scores")
    if values.size < 2 or not np.isfinite(values).all():
        raise ValueError(
            f"an interval needs at least two scores, all finite. Received: {values.tolist()}"
        )
    mean = float(values.mean())
    half = float(t.isf((1 - confidence) / 2, values.size - 1) * values.std(ddof=1))
    half /= math.sqrt(values.size)
    return Interval(mean - half, mean + half)


def check_confidence(confidence: float) -> None:
    """Refuses a coverage that is no probability strictly between 0 and 1.

    Args:
        confidence: Coverage of an interval.

    Raises:
        ValueError: If it is not.
    """
    if not 0 < confidence < 1:
        raise ValueError(
            f"`confidence` must lie between 0 and 1. Received: confidence={confidence}"
        )


def separation_from_summary(
    mean_a: float, sd_a: float, mean_b: float, sd_b: float, n: int
) -> Separation:
    """Whether the scores of two methods overlap, as far as "mean, SD" can tell.

    The largest of n values with SD s (n - 1 in its denominator) lies at least `s / sqrt(n)` and at
    most `s (n - 1) / sqrt(n)` above their mean: at these ends all values but one are equal. The
    smallest lies as far below. So with
    `r = |mean_a - mean_b| / (sd_a + sd_b)`

    - `r <= 1 / sqrt(n)`: separation is impossible (n = 5: 0.447),
    - `r > (n - 1) / sqrt(n)`: it is certain (n = 5: 1.789),
    - between: both occur.

    Without ties, the smallest p of Steel-Dwass (`attainable_pvalue`) needs separation. The numbers
    are taken as exact: a mean or SD rounded for a table may lie on either side of a close bound;
    `read_published` takes that into account.

    Args:
        mean_a: Mean of one method's n scores.
        sd_a: Their standard deviation, with n - 1.
        mean_b: Mean of the other method's n scores.
        sd_b: Their standard deviation, with n - 1.
        n: Number of scores of each method, at least 2.

    Returns:
        `"certain"`, `"impossible"` or `"undetermined"`.

    Raises:
        ValueError: If n is below 2, an SD is negative or a number is not finite.

    Example:
        >>> separation_from_summary(84.1, 0.3, 82.0, 0.5, n=5)
        'certain'
        >>> separation_from_summary(84.1, 1.3, 83.5, 1.5, n=5)
        'impossible'
    """
    if n < 2:
        raise ValueError(f"`n` must be at least 2. Received: n={n}")
    if not all(map(math.isfinite, (mean_a, sd_a, mean_b, sd_b))) or min(sd_a, sd_b) < 0:
        raise ValueError(
            "means must be finite and standard deviations finite and at least 0. "
            f"Received: mean_a={mean_a}, sd_a={sd_a}, mean_b={mean_b}, sd_b={sd_b}"
        )
    difference, spread = abs(mean_a - mean_b), sd_a + sd_b
    return separation_within((difference, difference), (spread, spread), n)


def separation_within(
    difference: tuple[float, float], spread: tuple[float, float], n: int
) -> Separation:
    """`separation_from_summary` where the figures are known within bounds only.

    Args:
        difference: Least and largest absolute difference of the means.
        spread: Least and largest sum of the standard deviations.
        n: Number of scores of each method.

    Returns:
        `"certain"` or `"impossible"` where it is so for all figures within the bounds.
    """
    if difference[1] * math.sqrt(n) <= spread[0]:
        return "impossible"
    return "certain" if difference[0] * math.sqrt(n) > (n - 1) * spread[1] else "undetermined"
