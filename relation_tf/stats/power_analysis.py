"""Power of the rank tests and of non-inferiority, estimated by simulation before any run."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from relation_tf.registry import PROCEDURES
from relation_tf.stats.comparisons import PrintedResult
from relation_tf.stats.design import RankTest, seeds_needed
from relation_tf.stats.permutation import null_distribution, untied_groups
from relation_tf.stats.samples import (
    PvalueMethod,
    check_count,
    check_number,
    check_option,
    check_probability,
)
from relation_tf.words import count, format_level, two_digits

DiffersFrom: TypeAlias = Literal["one", "any", "all"]

MAX_SEEDS = 1000
_FEW_SEEDS = 30  # above, the asymptotic p is almost exact and permutations are slow
_PERMUTATIONS = 100_000
_SIMULATIONS = 10_000
_SCORES = 2**18  # simulated scores per chunk
_POWER = 0.8  # of a plan
_TAIL = 0.025  # outside of each limit of an interval


class SimulatedProbability(NamedTuple):
    """Simulated probability with a 95 % confidence interval of the simulation error."""

    probability: float
    low: float
    high: float


@dataclass(frozen=True, eq=False, repr=False)
class Power(PrintedResult):
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

    one: SimulatedProbability
    any: SimulatedProbability
    all: SimulatedProbability
    num_methods: int
    num_seeds: int
    shift: float
    alpha: float
    test: RankTest
    simulations: int
    seed: int

    def _printed(self) -> pd.DataFrame:
        rows = [("one", *self.one), ("any", *self.any), ("all", *self.all)]
        return pd.DataFrame(rows, columns=["differs_from", "power", "low", "high"])

    def _title(self) -> str:
        return (
            f"Power of {PROCEDURES[self.test].title}: {self.num_methods} methods x "
            f"{count(self.num_seeds, 'seed')}, one shifted by {self.shift:g} SD, "
            f"{format_level(self.alpha)}"
        )

    def _remarks(self) -> Iterator[str]:
        yield (
            f"From {self.simulations:,} simulations of normal scores, seed {self.seed}; low and "
            "high are the 95 % interval of the simulation error."
        )


def power(
    num_methods: int,
    num_seeds: int,
    shift: float,
    alpha: float = 0.05,
    test: RankTest = "steel-dwass",
    *,
    simulations: int = _SIMULATIONS,
    seed: int = 0,
) -> Power:
    """Estimate the probability that a better method is found to be significantly better.

    Scores are normal with the same standard deviation for all methods. The mean of one method is
    `shift` standard deviations above all others; with `"steel"` this method is the control. p is
    that of `steel_dwass` or `steel`; above 30 seeds per method the asymptotic p, which then agrees.

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
    different = np.concatenate(
        [
            _wins(rng, min(step, simulations - start), num_methods, num_seeds, shift) >= wins
            for start in range(0, simulations, step)
        ]
    )
    return Power(
        one=_estimate(different[:, 0]),
        any=_estimate(np.any(different, axis=1)),
        all=_estimate(np.all(different, axis=1)),
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
    differs_from: DiffersFrom = "one",
    **options: int,
) -> int:
    """Return the number of seeds per method that gives a required power.

    The lower limit of the 95 % confidence interval of the simulated power reaches the required
    power, so that the number is not too small by chance. It is at least `seeds_needed`, the number
    with which p < alpha is possible.

    Args:
        num_methods: Number of methods compared, including the shifted one.
        shift: Difference of the means in standard deviations over seeds, above 0.
        power: Required probability of a significant difference, between 0 and 1.
        alpha: Level of the test.
        test: `"steel-dwass"` for all pairs, `"steel"` for each method against one control.
        differs_from: Other methods that must differ significantly from the shifted one: `"one"`
            (a given one), `"any"` (at least one) or `"all"`.
        **options: `simulations` for each number of seeds and `seed`, as for `power`. More
            simulations give a more precise answer, which can be smaller.

    Returns:
        Smallest number of seeds with this power.

    Raises:
        TypeError: If an argument is not a number.
        ValueError: If a number or an option is out of range, the simulations are too few to show
            this power, or 1,000 seeds are not enough.

    Example:
        >>> seeds_for_power(4, shift=2), seeds_for_power(4, shift=2, differs_from="all")
        (9, 11)
    """
    check_option("differs_from", differs_from, DiffersFrom)
    check_probability("power", power)
    check_number("shift", shift)
    if not shift > 0:
        raise ValueError(f"`shift` must be above 0. Received: shift={shift}")
    _check_simulations(options.get("simulations", _SIMULATIONS), power)

    def enough(num_seeds: int) -> bool:
        simulated = _power(num_methods, num_seeds, shift, alpha, test, **options)
        chosen: SimulatedProbability = getattr(simulated, differs_from)
        return chosen.low >= power

    least = seeds_needed(num_methods, alpha, test=test)
    received = f"power={power}, shift={shift}, num_methods={num_methods}"
    return _fewest_seeds(least, enough, received)


def non_inferiority_power(
    margin: float,
    num_seeds: int,
    sd: float | Sequence[float] = 1.0,
    **options: Any,
) -> SimulatedProbability:
    """Estimate the probability that a method equal to the reference is found to be no worse.

    This is the power of `non_inferiority`, on one task or over several, where the scores are normal
    and the method has the mean and the standard deviation of the reference.

    Args:
        margin: Largest acceptable score decrease, in the unit of `sd`.
        num_seeds: Number of scores per method and task, two or more.
        sd: Standard deviation over seeds, or one for each task.
        **options: `num_methods` compared, including the reference (2); `alpha`, two-sided level for
            all methods together (0.05); `simulations`, number of simulated experiments (100,000);
            `seed` of the simulation (0).

    Returns:
        The probability with a 95 % confidence interval of the simulation error.

    Raises:
        TypeError: If an argument is not a number.
        ValueError: If a number is out of range.

    Example:
        >>> one_task = non_inferiority_power(1.0, num_seeds=5)
        >>> eight_tasks = non_inferiority_power(1.0, num_seeds=5, sd=[1.0] * 8)
        >>> print(f"{one_task.probability:.2f} {eight_tasks.probability:.3f}")
        0.27 0.992
    """
    check_number("margin", margin)
    if not 0 <= margin < math.inf:
        raise ValueError(f"`margin` must be at least 0 and finite. Received: margin={margin}")
    return _estimate(_margins_shown(num_seeds, sd, **options) < margin)


def attainable_margin(
    num_seeds: int,
    sd: float | Sequence[float] = 1.0,
    power: float = 0.8,
    **options: Any,
) -> float:
    """Return the smallest margin for which `non_inferiority_power` reaches a required power.

    The lower limit of the confidence interval reaches it, as in `seeds_for_power`.

    Args:
        num_seeds: Number of scores per method and task, two or more.
        sd: Standard deviation over seeds, or one for each task.
        power: Required probability, between 0 and 1.
        **options: As for `non_inferiority_power`.

    Returns:
        The margin, in the unit of `sd`.

    Raises:
        TypeError: If an argument is not a number.
        ValueError: If a number is out of range, or the simulations are too few to show this power.

    Example:
        >>> print(f"{attainable_margin(5):.1f} SD, {attainable_margin(5, [1.0] * 8):.2f} SD")
        2.1 SD, 0.64 SD
    """
    from scipy.stats import binom

    check_probability("power", power)
    shown = _margins_shown(num_seeds, sd, **options)
    _check_simulations(shown.size, power)
    successes = int(binom.isf(_TAIL, shown.size, power))  # one more has a lower limit of `power`
    return float(np.partition(shown, successes)[successes])


def seeds_for_margin(
    margin: float,
    sd: float | Sequence[float] = 1.0,
    power: float = 0.8,
    **options: Any,
) -> int:
    """Return the number of seeds per method with which `attainable_margin` is small enough.

    Args:
        margin: Largest acceptable score decrease, in the unit of `sd`, above 0.
        sd: Standard deviation over seeds, or one for each task.
        power: Required probability, between 0 and 1.
        **options: As for `non_inferiority_power`.

    Returns:
        Smallest number of seeds, two or more.

    Raises:
        TypeError: If an argument is not a number.
        ValueError: If a number is out of range, the simulations are too few to show this power, or
            1,000 seeds are not enough.

    Example:
        >>> seeds_for_margin(1.0), seeds_for_margin(1.0, [1.0] * 8)
        (17, 3)
    """
    check_number("margin", margin)
    if not margin > 0:
        raise ValueError(f"`margin` must be above 0. Received: margin={margin}")

    def enough(num_seeds: int) -> bool:
        return attainable_margin(num_seeds, sd, power, **options) <= margin

    return _fewest_seeds(2, enough, f"power={power}, margin={margin}, sd={sd}")


def what_margin_can_be_shown(
    num_methods: int,
    num_seeds: int,
    margin: float | None = None,
    sd: float | Sequence[float] = 1.0,
    *,
    alpha: float = 0.05,
    unit: str = "",
) -> str:
    """Describe the margin against a reference that a number of seeds can show.

    The powers are those of `non_inferiority_power`: the method equals the reference.

    Args:
        num_methods: Number of methods compared, including the reference.
        num_seeds: Number of seeds per method.
        margin: Declared margin, in the unit of `sd`.
        sd: Standard deviation over seeds, or one for each task.
        alpha: Two-sided level, for all methods together.
        unit: Unit of `sd` and the margin, such as `"points"`.

    Returns:
        One sentence, or two with a margin.

    Raises:
        TypeError: If an argument is not a number.
        ValueError: If a number is out of range.

    Example:
        >>> print(what_margin_can_be_shown(2, 5, unit="SD"))  # doctest: +NORMALIZE_WHITESPACE
        Against a reference, the smallest margin that 5 seeds can show is 2.1 SD (power .8 if the
        methods are equal).
        >>> print(what_margin_can_be_shown(4, 5, 1, [0.8] * 8, unit="points"))
        ... # doctest: +NORMALIZE_WHITESPACE
        Against a reference, the smallest margin that 5 seeds on 8 tasks can show is 0.6 points
        (power .8 if the methods are equal). A margin of 1 has power 1.00 and needs 3 seeds for
        power .8.
    """
    if num_seeds < 2:
        return "Against a reference, verdicts need at least 2 seeds per method."
    options: dict[str, Any] = {"num_methods": num_methods, "alpha": alpha, "simulations": 20_000}
    tasks = np.size(sd)
    seeds = f"{num_seeds} seeds on {tasks} tasks" if tasks > 1 else f"{num_seeds} seeds"
    least = attainable_margin(num_seeds, sd, _POWER, **options)
    level = f"{_POWER:g}".removeprefix("0")
    least_margin = (
        f"Against a reference, the smallest margin that {seeds} can show is "
        f"{two_digits(least)}{unit and f' {unit}'} (power {level} if the methods are equal)"
    )
    if margin is None:
        return f"{least_margin}."
    reached = non_inferiority_power(margin, num_seeds, sd, **options).probability
    try:
        needed = f"{seeds_for_margin(margin, sd, _POWER, **options)} seeds"
    except ValueError:
        needed = f"more than {MAX_SEEDS:,} seeds"
    return (
        f"{least_margin}. A margin of {margin:g} has power {reached:.2f} and needs {needed} for "
        f"power {level}."
    )


def _margins_shown(
    num_seeds: int,
    sd: float | Sequence[float],
    *,
    num_methods: int = 2,
    alpha: float = 0.05,
    simulations: int = 100_000,
    seed: int = 0,
) -> NDArray[np.float64]:
    """Return minus the lower limit of each simulated difference, the margin that it excludes.

    A difference of means and the variances of normal scores are independent, so both are drawn
    directly.
    """
    from scipy.stats import t

    check_probability("alpha", alpha)
    check_count("num_methods", num_methods, 2)
    check_count("num_seeds", num_seeds, 2)
    check_count("simulations", simulations)
    deviations = np.atleast_1d(np.asarray(sd, dtype=float))
    if deviations.ndim > 1 or not deviations.size or not (np.isfinite(deviations)).all():
        raise ValueError(f"`sd` must be a number or one number for each task. Received: sd={sd!r}")
    if (deviations < 0).any() or not deviations.any():
        raise ValueError(f"`sd` must be 0 or more, and above 0 on some task. Received: sd={sd!r}")
    rng = np.random.default_rng(seed)
    of_mean = deviations**2 / num_seeds  # variance of a mean over seeds
    drawn = rng.chisquare(num_seeds - 1, (simulations, 2, deviations.size)) / (num_seeds - 1)
    variances = of_mean * drawn
    total = variances.sum(axis=(1, 2))
    degrees = total**2 * (num_seeds - 1) / (variances**2).sum(axis=(1, 2))
    half = t.isf(alpha / (2 * (num_methods - 1)), degrees) * np.sqrt(total)
    difference = rng.standard_normal(simulations) * math.sqrt(2 * of_mean.sum())
    shown: NDArray[np.float64] = (half - difference) / deviations.size
    return shown


_power = power  # `seeds_for_power` has an argument of this name


def _fewest_seeds(least: int, enough: Callable[[int], bool], received: str) -> int:
    """Return the smallest number of seeds that is enough, searched from `least`."""
    low = high = least
    while not enough(high):
        if high >= MAX_SEEDS:
            raise ValueError(f"{MAX_SEEDS:,} seeds do not reach this power. Received: {received}")
        low, high = high + 1, min(2 * high, MAX_SEEDS)
    return low + bisect.bisect_left(range(low, high), True, key=enough)


def _check_simulations(simulations: int, power: float) -> None:
    """Check that so many simulations can show this power: all of them successful, at least."""
    check_count("simulations", simulations)
    least = math.ceil(math.log(_TAIL) / math.log(power))
    if simulations < least:
        raise ValueError(
            f"`simulations` must be at least {least:,} to show a power of {power:g}. Received: "
            f"simulations={simulations}"
        )


def _wins_needed(
    num_methods: int, num_seeds: int, alpha: float, test: RankTest, seed: int
) -> float:
    """Return the wins among a pair's `num_seeds^2` comparisons that p < alpha requires.

    Without ties p depends only on the wins. It is infinite if no number is enough.
    """
    method: PvalueMethod = "auto" if num_seeds <= _FEW_SEEDS else "asymptotic"
    tasks = [untied_groups([num_seeds] * num_methods)]
    critical = null_distribution(test, tasks, method, _PERMUTATIONS, seed).critical_statistic(alpha)
    return num_seeds**2 / 2 + critical * num_seeds * math.sqrt((2 * num_seeds + 1) / 12)


def _wins(
    rng: np.random.Generator, simulations: int, num_methods: int, num_seeds: int, shift: float
) -> NDArray[np.intp]:
    """Return the wins of the shifted method against each other, shape `(simulations, k - 1)`."""
    scores = rng.standard_normal((simulations, num_methods, num_seeds))
    shifted, others = scores[:, :1] + shift, scores[:, 1:]
    pooled = np.concatenate([np.broadcast_to(shifted, others.shape), others], axis=-1)
    ranks = (np.argsort(pooled, axis=-1) < num_seeds) @ np.arange(2 * num_seeds)
    return ranks - num_seeds * (num_seeds - 1) // 2


def _estimate(successes: NDArray[np.bool_]) -> SimulatedProbability:
    from scipy.stats import binomtest

    test = binomtest(int(successes.sum()), successes.size)
    interval = test.proportion_ci(1 - 2 * _TAIL, method="exact")
    return SimulatedProbability(float(successes.mean()), float(interval.low), float(interval.high))
