"""Spread of the scores of several methods: errors of means, and a note on unequal spread."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from relation_tf.stats.samples import FloatArray
from relation_tf.words import capital, two_digits

MOST_UNEQUAL = 3.0  # ratio of SDs up to which rank tests keep their level, see pair_tests.py
_ROUNDING = 1e-12  # relative to the largest score


def is_constant(scores: FloatArray) -> bool:
    """Return True if finite scores do not vary: they differ by rounding errors at most."""
    return bool(np.ptp(scores) <= _ROUNDING * np.abs(scores).max())


def error_of_sum(samples: Sequence[FloatArray]) -> tuple[float, float]:
    """Return the standard error of a sum or difference of means, and its degrees of freedom.

    Args:
        samples: Independent samples of at least two scores each, with any spread.

    Returns:
        The error, and the degrees of freedom by Welch and Satterthwaite. If no sample varies, the
        error is 0 and the degrees of freedom are NaN: the true error is unknown.

    Example:
        >>> error, freedom = error_of_sum([np.array([1.0, 3.0]), np.array([2.0, 6.0])])
        >>> round(error, 3), round(freedom, 3)
        (2.236, 1.471)

    References:
        Satterthwaite 1946, "An approximate distribution of estimates of variance components"
        (Biometrics Bulletin 2). Welch 1947 (Biometrika 34).
    """
    variances = np.array(
        [0 if is_constant(scores) else scores.var(ddof=1) / scores.size for scores in samples]
    )
    total = float(variances.sum())
    if not total:
        return 0.0, math.nan
    freedom = np.array([scores.size - 1 for scores in samples])
    shares = variances / total  # squares of large variances would overflow
    return math.sqrt(total), float(1 / (shares**2 / freedom).sum())


def scaled_residuals(scores: FloatArray) -> FloatArray:
    """Return differences from the mean, whose mean square is the variance; 0 for one score.

    The spread of joined residuals then does not depend on the number of scores in each sample.

    Example:
        >>> scaled_residuals(np.array([1.0, 3.0])).round(3).tolist()
        [-1.414, 1.414]
    """
    return (scores - scores.mean()) * math.sqrt(scores.size / max(1, scores.size - 1))


class UnequalSpread(NamedTuple):
    """The methods with the largest and the smallest standard deviation of their scores.

    Attributes:
        wide: Method with the largest SD.
        narrow: Method with the smallest SD.
        ratio: Largest SD divided by the smallest, infinite if the smallest is zero.
    """

    wide: Hashable
    narrow: Hashable
    ratio: float

    def __str__(self) -> str:
        if np.isinf(self.ratio):
            return f"all scores of {self.narrow} are equal, but those of {self.wide} are not"
        return f"the SD of {self.wide} is {two_digits(self.ratio)} times the SD of {self.narrow}"


def unequal_spread(samples: Mapping[Hashable, FloatArray]) -> UnequalSpread | None:
    """Return the methods with the most different SDs if they differ by more than 3:1.

    Methods with fewer than two finite scores are left out.

    Args:
        samples: Method -> scores, shape `(n,)`.

    Returns:
        The methods and the ratio, or None.

    Example:
        >>> scores = {"a": np.array([1.0, 2, 3]), "b": np.array([10.0, 20, 30])}
        >>> print(unequal_spread(scores))
        the SD of b is 10 times the SD of a
    """
    finite = {name: scores[np.isfinite(scores)] for name, scores in samples.items()}
    deviations = {
        name: 0.0 if is_constant(scores) else scores.std(ddof=1)
        for name, scores in finite.items()
        if scores.size > 1
    }
    if not deviations:
        return None
    wide = max(deviations, key=lambda name: deviations[name])
    narrow = min(deviations, key=lambda name: deviations[name])
    largest, smallest = deviations[wide], deviations[narrow]
    if largest <= MOST_UNEQUAL * smallest:
        return None
    return UnequalSpread(wide, narrow, float(largest / smallest) if smallest else np.inf)


def spread_notes(title: str, samples: Mapping[Hashable, FloatArray]) -> Iterable[str]:
    """Yield a note if a test that assumes equal spread is used where SDs differ by more than 3:1.

    Args:
        title: Name of the test.
        samples: Method -> scores, shape `(n,)`.
    """
    if spread := unequal_spread(samples):
        yield (
            f"{capital(str(spread))}. {title} assumes equal spread, so its error rate can "
            "exceed alpha. Check the result with Welch's test, `welch`"
        )
