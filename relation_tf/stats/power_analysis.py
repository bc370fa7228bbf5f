"""How likely a difference of a given size is found, by simulation before any run."""

from __future__ import annotations

import bisect
import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from relation_tf.registry import PROCEDURES
from relation_tf.stats.comparisons import PAIRS, PvalueMethod, check_enumerable, check_options
from relation_tf.stats.design import (
    DesignMethod,
    RankTest,
    asymptotic_pvalues,
    attainable_pvalue,
    check_count,
    check_number,
    check_option,
    format_level,
    format_pvalue,
    seeds_needed,
)
from relation_tf.stats.pairwise import (
    MAX_ARRANGEMENTS,
    Groups,
    exact_maxima,
    monte_carlo_maxima,
    num_arrangements,
    permutation_pvalues,
)
from relation_tf.stats.presentation import Shown, count
from relation_tf.stats.samples import FloatArray

Separated: TypeAlias = Literal["one", "any", "all"]
PowerMethod: TypeAlias = Literal["both", "asymptotic", "exact", "monte-carlo"]

_MAX_SEEDS = 1000
_FEW_SEEDS = 30  # beyond, both p are as good as equal, and permutations take long
_SCORES = 2**18  # simulated at once


class Estimate(NamedTuple):
    """A simulated probability and its 95 % confidence interval, of the simulation's error only."""

    probability: float
    low: float
    high: float


@dataclass(frozen=True, eq=False, repr=False)
class Power(Shown):
    """What `power` found.

    Attributes:
        one: How likely the shifted method is separated from a given other one.
        any: How likely it is separated from at least one of the others.
        all: How likely it is separated from every one of them.
        num_methods: Number of methods compared.
        num_seeds: Number of scores of every method.
        shift: How far the one method is shifted, in standard deviations.
        alpha: Level of the test.
        method: Which p has to be below alpha.
        test: Which pairs are compared.
        simulations: Number of simulated experiments.
        seed: Their seed.
    """

    one: Estimate
    any: Estimate
    all: Estimate
    num_methods: int
    num_seeds: int
    shift: float
    alpha: float
    method: PowerMethod
    test: RankTest
    simulations: int
    seed: int

    def to_pandas(self) -> pd.DataFrame:
        """Columns `separated_from` (one, any or all of the others), `power`, `low`, `high`."""
        events = {"one": self.one, "any": self.any, "all": self.all}
        rows = [(event, *estimate) for event, estimate in events.items()]
        return pd.DataFrame(rows, columns=["separated_from", "power", "low", "high"])

    def _title(self) -> str:
        return (
            f"Power of {PROCEDURES[self.test].title}, {_P[self.method]}: {self.num_methods} "
            f"methods x {count(self.num_seeds, 'seed')}, one shifted by {self.shift:g} SD, "
            f"{format_level(self.alpha)}"
        )

    def _remarks(self) -> Iterator[str]:
        yield (
            f"From {self.simulations:,} simulations of normal scores, seed {self.seed}; low and "
            "high are the 95 % interval of the simulation's error."
        )
        if self.method == "both":
            both = "Both p, asymptotic and by permutation, have to be below alpha, as in a report."
            few = self.num_seeds <= _FEW_SEEDS
            yield both if few else f"The asymptotic p alone is asked above {_FEW_SEEDS} seeds."
        exact = attainable_pvalue(self.num_methods, self.num_seeds, "exact", test=self.test)
        if self.method == "asymptotic" and exact >= self.alpha and self.any.probability:
            best = format_pvalue(exact, self.alpha).removeprefix("p = ")
            yield f"The exact p of this design is {best} at best: no pair is separated by both p."


_P: dict[PowerMethod, str] = {
    "both": "both p",
    "asymptotic": "asymptotic p",
    "exact": "exact p",
    "monte-carlo": "monte-carlo p",
}


def power(
    num_methods: int,
    num_seeds: int,
    shift: float,
    alpha: float = 0.05,
    method: PowerMethod = "both",
    test: RankTest = "steel-dwass",
    *,
    simulations: int = 10_000,
    seed: int = 0,
    permutations: int = 100_000,
) -> Power:
    """Simulates how likely a method that is better is found to be so.

    Scores are normal with one standard deviation, the same for all methods. One method's mean is
    `shift` standard deviations above that of all others; in the test `"steel"` it is the
    control. It is separated from another method where p < alpha and it is the higher one, as a
    report counts it: by the asymptotic p and by that of permutations. Above 30 seeds a method,
    where the two agree, the first alone is looked at.

    Args:
        num_methods: Number of methods compared, the shifted one included.
        num_seeds: Number of scores of every method.
        shift: Difference of the means in standard deviations over seeds, at least 0.
        alpha: Level of the test.
        method: Which p has to be below alpha: `"both"`, or one as for `steel_dwass`, of which the
            asymptotic may be too small with few seeds; the printed result warns where the exact one
            cannot be below alpha.
        test: Which pairs are compared.
        simulations: Number of simulated experiments.
        seed: Seed of the simulation, and of random arrangements.
        permutations: Number of random arrangements for `monte-carlo`, and for `both` where there
            are more than 1,000,000 arrangements.

    Returns:
        A `Power` with three probabilities and their Monte-Carlo error; `print` shows it.

    Raises:
        TypeError: If a number is none.
        ValueError: If a number or an option is out of range, or `exact` would need more than
            1,000,000 arrangements.

    Example:
        >>> four = power(4, 5, shift=2)
        >>> print(f"{four.one.probability:.2f} {four.all.probability:.2f}")
        0.38 0.15
        >>> print(f"{power(4, 5, 2, test='steel').one.probability:.2f}")
        0.53
        >>> for method in ("both", "asymptotic"):
        ...     print(f"{power(2, 5, 1.5, method=method).one.probability:.2f}")
        0.43
        0.55
    """
    check_option("method", method, PowerMethod)
    check_options(alpha, "exact", permutations)
    check_option("test", test, RankTest)
    check_count("num_methods", num_methods, 2)
    check_count("num_seeds", num_seeds)
    check_count("simulations", simulations)
    num_methods, num_seeds = int(num_methods), int(num_seeds)  # NumPy's may be of 8 bits
    check_number("shift", shift)
    if not 0 <= shift < math.inf:
        raise ValueError(f"`shift` must be finite and at least 0. Received: shift={shift}")
    wins = _wins_needed(num_methods, num_seeds, alpha, method, test, permutations, seed)
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
        method=method,
        test=test,
        simulations=simulations,
        seed=seed,
    )


def seeds_for_power(
    num_methods: int,
    shift: float,
    power: float = 0.8,
    alpha: float = 0.05,
    method: PowerMethod = "both",
    test: RankTest = "steel-dwass",
    *,
    separated_from: Separated = "one",
    simulations: int = 10_000,
    seed: int = 0,
    permutations: int = 100_000,
) -> int:
    """Seeds a method with which a shift of some standard deviations is found often enough.

    There are never fewer than the `seeds_needed` with which p < alpha is possible; unless it is
    `exact` or `monte-carlo` alone, by both p.

    Args:
        num_methods: Number of methods compared, the shifted one included.
        shift: Difference of the means in standard deviations over seeds, above 0.
        power: Probability with which it is to be found, between 0 and 1.
        alpha: Level of the test.
        method: Which p has to be below alpha, as for `power`.
        test: Which pairs are compared.
        separated_from: Whether the shifted method is to be separated from `"one"` given other
            method, from `"any"` or from `"all"`.
        simulations: Number of simulated experiments for each number of seeds; the answer is as
            exact as they are.
        seed: Seed of the simulation.
        permutations: Number of random arrangements for `monte-carlo` and `both`.

    Returns:
        Number of seeds that reaches this power, while one seed fewer does not.

    Raises:
        TypeError: If a number is none.
        ValueError: If a number or an option is out of range, or 1,000 seeds are not enough.

    Example:
        >>> seeds_for_power(4, shift=2), seeds_for_power(4, shift=2, separated_from="all")
        (9, 11)
    """
    check_option("separated_from", separated_from, Separated)
    check_number("power", power)
    check_number("shift", shift)
    if not 0 < power < 1 or not shift > 0:
        raise ValueError(
            "`power` must lie between 0 and 1 and `shift` above 0. "
            f"Received: power={power}, shift={shift}"
        )

    def enough(num_seeds: int) -> bool:
        found = _power(
            num_methods,
            num_seeds,
            shift,
            alpha,
            method,
            test,
            simulations=simulations,
            seed=seed,
            permutations=permutations,
        )
        estimate: Estimate = getattr(found, separated_from)
        return estimate.probability >= power

    check_option("method", method, PowerMethod)
    check_options(alpha, "exact", permutations)
    how: DesignMethod | None = None if method in ("both", "asymptotic") else "exact"
    low = seeds_needed(num_methods, alpha, how, test=test) - 1  # can find nothing
    high = low + 1
    while not enough(high):
        if high >= _MAX_SEEDS:
            raise ValueError(
                f"{_MAX_SEEDS:,} seeds do not reach this power. "
                f"Received: power={power}, shift={shift}, num_methods={num_methods}"
            )
        low, high = high, min(2 * high, _MAX_SEEDS)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


_power = power  # `seeds_for_power` has an argument of this name


def _wins_needed(
    num_methods: int,
    num_seeds: int,
    alpha: float,
    method: PowerMethod,
    test: RankTest,
    permutations: int,
    seed: int,
) -> int:
    """How many of a pair's `num_seeds^2` comparisons have to be won for p < alpha.

    Without ties p depends on nothing else. One more than there are, where none is enough.
    """
    if method == "both":
        few = num_arrangements(np.full(num_methods, num_seeds)) <= MAX_ARRANGEMENTS
        several: list[PvalueMethod] = ["asymptotic"]
        if num_seeds <= _FEW_SEEDS:
            several.append("exact" if few else "monte-carlo")
        rest = test, permutations, seed
        return max(_wins_needed(num_methods, num_seeds, alpha, one, *rest) for one in several)
    product = num_seeds**2
    if method == "asymptotic":
        sizes = [num_seeds] * num_methods
        pvalues = functools.partial(asymptotic_pvalues, sizes=sizes, test=test)
    else:
        maxima = _untied_maxima(num_methods, num_seeds, method, test, permutations, seed)
        drawn = method == "monte-carlo"
        pvalues = functools.partial(permutation_pvalues, maxima=maxima, drawn=drawn)
    deviation = math.sqrt(product * (2 * num_seeds + 1) / 12)

    def significant(wins: int) -> bool:
        return float(pvalues(np.array((wins - product / 2) / deviation))) < alpha

    more_than_half = range(product // 2 + 1, product + 1)
    return more_than_half.start + bisect.bisect_left(more_than_half, True, key=significant)


def _untied_maxima(
    num_methods: int,
    num_seeds: int,
    method: PvalueMethod,
    test: RankTest,
    permutations: int,
    seed: int,
) -> FloatArray:
    ranks = np.arange(num_methods * num_seeds, dtype=np.min_scalar_type(num_methods * num_seeds))
    groups: Groups = list(ranks.reshape(num_methods, num_seeds, 1))
    pairs = PAIRS[test](num_methods)
    if method == "exact":
        check_enumerable(np.full(num_methods, num_seeds))
        return exact_maxima(groups, pairs)
    return monte_carlo_maxima(groups, pairs, permutations, seed)


def _wins(
    rng: np.random.Generator, simulations: int, num_methods: int, num_seeds: int, shift: float
) -> NDArray[np.intp]:
    """How often the shifted method's scores are above each other's, `(simulations, k - 1)`."""
    scores = rng.standard_normal((simulations, num_methods, num_seeds))
    shifted, others = scores[:, :1] + shift, scores[:, 1:]
    pooled = np.concatenate([np.broadcast_to(shifted, others.shape), others], axis=-1)
    ranks = (np.argsort(pooled, axis=-1) < num_seeds) @ np.arange(2 * num_seeds)
    return ranks - num_seeds * (num_seeds - 1) // 2


def _estimate(found: NDArray[np.bool_]) -> Estimate:
    from scipy.stats import binomtest

    interval = binomtest(int(found.sum()), found.size).proportion_ci(0.95, method="exact")
    return Estimate(float(found.mean()), float(interval.low), float(interval.high))
