"""Share of plausible samples in which a published difference is significant."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np

from relation_tf.stats.checks import check_count, check_number, check_option, check_probability
from relation_tf.stats.design import RankTest
from relation_tf.stats.null_distribution import NullDistribution
from relation_tf.stats.samples import FloatArray

DRAWS = 200_000


class MeanSD(NamedTuple):
    """Mean and SD of a method's scores over seeds."""

    mean: float
    sd: float


def plausible_share(
    a: tuple[float, float],
    b: tuple[float, float],
    n: int,
    num_methods: int,
    alpha: float = 0.05,
    test: RankTest = "steel-dwass",
    *,
    ddof: Literal[0, 1] = 1,
    draws: int = DRAWS,
    seed: int = 0,
) -> float:
    """Return the share of normal samples in which the difference of two methods is significant.

    Only samples with exactly the given means and SDs count. Standardizing a normal sample to mean 0
    and SD 1 and rescaling it draws from their conditional distribution, because mean and SD are
    independent of the standardized sample. A difference is significant if the asymptotic p of the
    pair, within the family of all methods, is below alpha and the higher mean belongs to the method
    that wins.

    The share is a Monte Carlo estimate: its standard error is `sqrt(share (1 - share) / draws)`, at
    most .0012. It is no probability that a claim is true: it assumes normal scores, and
    any prior belief about them is left out.

    Args:
        a: Mean and SD of the first method.
        b: Mean and SD of the second method, in the same unit.
        n: Number of scores (seeds) per mean.
        num_methods: Number of methods compared.
        alpha: Level of the test.
        test: `"steel-dwass"` for all pairs, `"steel"` for each method against one control.
        ddof: 1 for SDs with denominator n - 1, 0 for n.
        draws: Number of samples.
        seed: Seed of the samples.

    Returns:
        The share, between 0 and 1.

    Raises:
        TypeError: If an argument is not a number.
        ValueError: If a number or an option is out of range.

    Example:
        Seconds of Relation and Linear Attention on WikiText-103, 256 units:

        >>> print(f"{plausible_share((3400, 107), (3520, 69.6), n=5, num_methods=3):.3f}")
        0.002
    """
    first, second = _checked("a", a), _checked("b", b)
    check_count("n", n, 2)
    check_count("num_methods", num_methods, 2)
    check_count("draws", draws)
    check_probability("alpha", alpha)
    check_option("test", test, RankTest)
    if ddof not in (0, 1):
        raise ValueError(f"`ddof` must be 0 or 1. Received: ddof={ddof!r}")
    lower, higher = sorted((first, second))
    rng = np.random.default_rng(seed)
    low, high = (
        method.mean + method.sd * _standardized(rng, draws, n, ddof) for method in (lower, higher)
    )
    wins = np.zeros(draws, dtype=np.intp)
    for score in high.T:
        wins += np.count_nonzero(score[:, None] > low, axis=1)
    null = NullDistribution(test, "asymptotic")
    return float(np.mean(wins > n**2 - null.num_rejected([n] * num_methods, n, n, alpha)))


def _checked(name: str, figures: tuple[float, float]) -> MeanSD:
    if not isinstance(figures, tuple) or len(figures) != 2:
        raise TypeError(f"`{name}` must be (mean, sd). Received: {name}={figures!r}")
    for figure in figures:
        check_number(name, figure)
    mean, sd = map(float, figures)
    if not (math.isfinite(mean) and 0 <= sd < math.inf):
        raise ValueError(
            f"`{name}` must be a finite mean and an SD of at least 0. Received: {name}={figures}"
        )
    return MeanSD(mean, sd)


def _standardized(rng: np.random.Generator, draws: int, n: int, ddof: int) -> FloatArray:
    """Return normal samples with mean 0 and SD 1, shape `(draws, n)`."""
    scores = rng.standard_normal((draws, n))
    scores -= scores.mean(axis=1, keepdims=True)
    return scores / scores.std(axis=1, ddof=ddof, keepdims=True)
