"""Power of the rank tests, estimated by simulation before any run."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from relation_tf.registry import PROCEDURES
from relation_tf.stats.checks import check_count, check_number, check_option, check_probability
from relation_tf.stats.design import RankTest, asymptotic_pvalues, format_level, seeds_needed
from relation_tf.stats.pairwise import (
    MAX_ARRANGEMENTS,
    Groups,
    index_pairs,
    num_arrangements,
    permutation_maxima,
    permutation_pvalues,
)
from relation_tf.stats.presentation import Shown, count

Separated: TypeAlias = Literal["one", "any", "all"]

_MAX_SEEDS = 1000
_FEW_SEEDS = 30  # above, both p are almost equal and permutations are slow
_PERMUTATIONS = 100_000
_SCORES = 2**18  # simulated scores per chunk


class Estimate(NamedTuple):
    """Simulated probability with a 95 % confidence interval of the simulation error."""

    probability: float
    low: float
    high: float


@dataclass(frozen=True, eq=False, repr=False)
class Power(Shown):
    """Result of `power`.

    Attributes:
        one: Probability that the shifted method is significantly better than a given other method.
        any: Probability that it is significantly better than at least one other method.
        all: Probability that it is significantly better than every other method.
        num_methods: Number of methods compared.
        num_seeds: Number of scores per method.
        shift: Shift of the one method, in standard deviations.
        alpha: Level of the test.
        test: `"steel-dwass"` or `"steel"`.
        simulations: Number of simulated experiments.
        seed: Seed of the simulation.
    """

    one: Estimate
    any: Estimate
    all: Estimate
    num_methods: int
    num_seeds: int
    shift: float
    alpha: float
    test: RankTest
    simulations: int
    seed: int

    def _shown(self) -> pd.DataFrame:
        rows = [("one", *self.one), ("any", *self.any), ("all", *self.all)]
        return pd.DataFrame(rows, columns=["separated_from", "power", "low", "high"])

    def _title(self) -> str:
        return (
            f"Power of {PROCEDURES[self.test].title}, both p: {self.num_methods} methods x "
            f"{count(self.num_seeds, 'seed')}, one shifted by {self.shift:g} SD, "
            f"{format_level(self.alpha)}"
        )

    def _remarks(self) -> Iterator[str]:
        yield (
            f"From {self.simulations:,} simulations of normal scores, seed {self.seed}; low and "
            "high are the 95 % interval of the simulation error."
        )
        both = "Both the asymptotic and the permutation p must be below alpha, as in a report."
        few = self.num_seeds <= _FEW_SEEDS
        yield both if few else f"Above {_FEW_SEEDS} seeds only the asymptotic p is used."


def power(
    num_methods: int,
    num_seeds: int,
    shift: float,
    alpha: float = 0.05,
    test: RankTest = "steel-dwass",
    *,
    simulations: int = 10_000,
    seed: int = 0,
) -> Power:
    """Estimate the probability that a better method is found to be significantly better.

    Scores are normal with the same standard deviation for all methods. The mean of one method is
    `shift` standard deviations above all others; with `"steel"` this method is the control. A
    difference is significant under the rule of the reports: both the asymptotic and the permutation
    p are below alpha. Above 30 seeds per method the two agree and only the asymptotic p is used.

    Args:
        num_methods: Number of methods compared, including the shifted one.
        num_seeds: Number of scores per method.
        shift: Difference of the means in standard deviations over seeds, at least 0.
        alpha: Level of the test.
        test: `"steel-dwass"` for all pairs, `"steel"` for each method against one control.
        simulations: Number of simulated experiments.
        seed: Seed of the simulation, and of the random arrangements that replace a full
            enumeration above 1,000,000 arrangements.

    Returns:
        A `Power` with three probabilities and their simulation error; `print` shows it.

    Raises:
        TypeError: If an argument is not a number.
        ValueError: If a number or an option is out of range.

    Example:
        >>> four = power(4, 5, shift=2)
        >>> print(f"{four.one.probability:.2f} {four.all.probability:.2f}")
        0.38 0.15
        >>> print(f"{power(4, 5, 2, test='steel').one.probability:.2f}")
        0.53
    """
    check_probability("alpha", alpha)
    check_option("test", test, RankTest)
    check_count("num_methods", num_methods, 2)
    check_count("num_seeds", num_seeds)
    check_count("simulations", simulations)
    num_methods, num_seeds = int(num_methods), int(num_seeds)  # 8-bit NumPy integers overflow
    check_number("shift", shift)
    if not 0 <= shift < math.inf:
        raise ValueError(f"`shift` must be finite and at least 0. Received: shift={shift}")
    wins = _wins_needed(num_methods, num_seeds, alpha, test, seed)
    rng = np.random.default_rng(seed)
    step = max(1, _SCORES // (num_methods * num_seeds))
    separated = np.concatenate(
        [
            _wins(rng, min(step, simulations - start), num_methods, num_seeds, shift) >= wins
            for start in range(0, simulations, step)
        ]
    )
    return Power(
        one=_estimate(separated[:, 0]),
        any=_estimate(np.any(separated, axis=1)),
        all=_estimate(np.all(separated, axis=1)),
        num_methods=num_methods,
        num_seeds=num_seeds,
        shift=shift,
        alpha=alpha,
        test=test,
        simulations=simulations,
        seed=seed,
    )


def seeds_for_power(
    num_methods: int,
    shift: float,
    power: float = 0.8,
    alpha: float = 0.05,
    test: RankTest = "steel-dwass",
    *,
    separated_from: Separated = "one",
    simulations: int = 10_000,
    seed: int = 0,
) -> int:
    """Return the number of seeds per method that gives a required power.

    The result is at least `seeds_needed`, the number with which p < alpha is possible.

    Args:
        num_methods: Number of methods compared, including the shifted one.
        shift: Difference of the means in standard deviations over seeds, above 0.
        power: Required probability of a significant difference, between 0 and 1.
        alpha: Level of the test.
        test: `"steel-dwass"` for all pairs, `"steel"` for each method against one control.
        separated_from: Other methods that must differ significantly from the shifted one: `"one"`
            (a given one), `"any"` (at least one) or `"all"`.
        simulations: Number of simulated experiments for each number of seeds; more simulations
            give a more precise answer.
        seed: Seed of the simulation.

    Returns:
        Smallest number of seeds with this power.

    Raises:
        TypeError: If an argument is not a number.
        ValueError: If a number or an option is out of range, or 1,000 seeds are not enough.

    Example:
        >>> seeds_for_power(4, shift=2), seeds_for_power(4, shift=2, separated_from="all")
        (9, 11)
    """
    check_option("separated_from", separated_from, Separated)
    check_probability("power", power)
    check_number("shift", shift)
    if not shift > 0:
        raise ValueError(f"`shift` must be above 0. Received: shift={shift}")

    def enough(num_seeds: int) -> bool:
        found = _power(
            num_methods, num_seeds, shift, alpha, test, simulations=simulations, seed=seed
        )
        estimate: Estimate = getattr(found, separated_from)
        return estimate.probability >= power

    low = high = seeds_needed(num_methods, alpha, test=test)
    while not enough(high):
        if high >= _MAX_SEEDS:
            raise ValueError(
                f"{_MAX_SEEDS:,} seeds do not reach this power. "
                f"Received: power={power}, shift={shift}, num_methods={num_methods}"
            )
        low, high = high + 1, min(2 * high, _MAX_SEEDS)
    return low + bisect.bisect_left(range(low, high), True, key=enough)


_power = power  # `seeds_for_power` has an argument of this name


def _wins_needed(num_methods: int, num_seeds: int, alpha: float, test: RankTest, seed: int) -> int:
    """Return the wins among a pair's `num_seeds^2` comparisons that both p < alpha require.

    Without ties p depends only on the wins. Returns `num_seeds^2 + 1` if no number is enough.
    """
    product = num_seeds**2
    deviation = math.sqrt(product * (2 * num_seeds + 1) / 12)
    sizes = [num_seeds] * num_methods
    maxima, drawn = None, num_arrangements(sizes) > MAX_ARRANGEMENTS
    if num_seeds <= _FEW_SEEDS:
        ranks = np.arange(num_methods * num_seeds)
        ranks = ranks.astype(np.min_scalar_type(ranks.size))
        groups: Groups = list(ranks.reshape(num_methods, num_seeds, 1))
        pairs = index_pairs(num_methods, test == "steel")
        maxima = permutation_maxima(groups, pairs, _PERMUTATIONS if drawn else None, seed)

    def significant(wins: int) -> bool:
        statistic = np.array((wins - product / 2) / deviation)
        if asymptotic_pvalues(statistic, sizes, test) >= alpha:
            return False
        return maxima is None or bool(permutation_pvalues(statistic, maxima, drawn=drawn) < alpha)

    more_than_half = range(product // 2 + 1, product + 1)
    return more_than_half.start + bisect.bisect_left(more_than_half, True, key=significant)


def _wins(
    rng: np.random.Generator, simulations: int, num_methods: int, num_seeds: int, shift: float
) -> NDArray[np.intp]:
    """Return the wins of the shifted method against each other, shape `(simulations, k - 1)`."""
    scores = rng.standard_normal((simulations, num_methods, num_seeds))
    shifted, others = scores[:, :1] + shift, scores[:, 1:]
    pooled = np.concatenate([np.broadcast_to(shifted, others.shape), others], axis=-1)
    ranks = (np.argsort(pooled, axis=-1) < num_seeds) @ np.arange(2 * num_seeds)
    return ranks - num_seeds * (num_seeds - 1) // 2


def _estimate(found: NDArray[np.bool_]) -> Estimate:
    from scipy.stats import binomtest

    interval = binomtest(int(found.sum()), found.size).proportion_ci(0.95, method="exact")
    return Estimate(float(found.mean()), float(interval.low), float(interval.high))
