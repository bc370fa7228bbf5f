"""Asymptotic p of rank tests, and the smallest p that a number of methods and seeds can give."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, Literal, TypeAlias

import numpy as np

from relation_tf.stats.samples import (
    FloatArray,
    check_count,
    check_option,
    check_probability,
    index_pairs,
)

DesignMethod: TypeAlias = Literal["exact", "asymptotic"]
RankTest: TypeAlias = Literal["steel-dwass", "steel"]

MOST_SAMPLES = 10_000  # upper limit of the search for seeds or tasks
_MOST_EXPANDED = 50  # methods; beyond, the exact sums take seconds
_NODES = 256  # of an integral; its error is below 1e-10


def attainable_pvalue(
    num_methods: int,
    num_seeds: int | Sequence[int],
    method: DesignMethod = "exact",
    *,
    test: RankTest = "steel-dwass",
) -> float:
    """Return the smallest p that `steel_dwass` or `steel` can give for a number of scores.

    For k methods with n seeds each, the exact p of a test of all pairs is

    `1 - k Int_0^1 n (1-t)^(n-1) [1 - (1-t)^n - t^n]^(k-1) dt`,

    the probability that in a random order of all scores the two methods of some tested pair do
    not overlap. The smallest p occurs where the scores of two methods do not overlap. The function
    assumes scores without ties: ties change the variance, and two different constants give a
    smaller p.

    Args:
        num_methods: Number of methods compared, including the control.
        num_seeds: Number of scores per method, or a sequence with one number for each method, the
            control first.
        method: `"exact"` for p from all joint permutations, `"asymptotic"` for p from the
            asymptotic distribution.
        test: `"steel-dwass"` for all pairs, `"steel"` for each method against one control.

    Returns:
        The smallest p.

    Raises:
        ValueError: If a number or an option is out of range.

    Example:
        >>> round(attainable_pvalue(4, 5), 4), round(attainable_pvalue(5, 5), 4)
        (0.0402, 0.0619)
        >>> round(attainable_pvalue(5, 5, test="steel"), 4)
        0.0282

    References:
        M. Dwass (1960), Some k-sample rank-order tests, Contributions to Probability and
        Statistics, 198-202.
    """
    sizes = _sizes(num_methods, num_seeds)
    check_option("method", method, DesignMethod)
    check_option("test", test, RankTest)
    if method == "exact":
        return smallest_pvalue([sizes], test)
    task = range(sum(sizes)), sizes
    return float(asymptotic_pvalues(np.array(largest_statistic([sizes], test)), [task], test))


def stratified_attainable_pvalue(
    num_methods: int, num_tasks: int, num_seeds: int, *, test: RankTest = "steel-dwass"
) -> float:
    """Return the smallest p of a stratified test without ties, see `smallest_pvalue`.

    Args:
        num_methods: Number of methods compared, including the control.
        num_tasks: Number of tasks.
        num_seeds: Number of seeds per method and task.
        test: `"steel-dwass"` for all pairs, `"steel"` for each method against one control.

    Example:
        >>> print(f"{stratified_attainable_pvalue(4, 2, 3):.4f}")
        0.0265
    """
    return smallest_pvalue([_sizes(num_methods, num_seeds)] * num_tasks, test)


def largest_statistic(tasks: Sequence[Sequence[int]], test: RankTest) -> float:
    """Return the largest standardized U that a design can give without ties.

    Args:
        tasks: Number of scores of each method, the control first, for each task.
        test: `"steel-dwass"` for all pairs, `"steel"` for each method against one control.
    """
    if len(tasks) == 1:  # without overlap the statistic grows with both sizes
        first, *others = tasks[0] if test == "steel" else sorted(tasks[0], reverse=True)
        return math.sqrt(3 * first * max(others) / (first + max(others) + 1))
    return float(_separated(np.array(tasks), test)[0].max())


def smallest_pvalue(tasks: Sequence[Sequence[int]], test: RankTest) -> float:
    """Return the smallest exact p of a design without ties, or a lower bound of it.

    It is the probability that the scores of two methods of any pair do not overlap on any task, in
    the same order everywhere. With one task or two methods it is exact, otherwise the lower bound
    of Dawson and Sankoff (1967, "An inequality for probabilities") from one and two such pairs.

    Args:
        tasks: Number of scores of each method, the control first, for each task.
        test: `"steel-dwass"` for all pairs, `"steel"` for each method against one control.
    """
    if len(tasks) == 1:
        return _exact_attainable(tuple(tasks[0]), test)
    statistics, pairs = _separated(np.array(tasks), test)
    return _any_disjoint(np.array(tasks), pairs[statistics == statistics.max()])


def _separated(sizes: Any, test: RankTest) -> tuple[FloatArray, Any]:
    """Return the statistics of all pairs if they do not overlap on any task, and the pairs."""
    pairs = np.array(index_pairs(sizes.shape[1], test == "steel"))
    # U deviates by m n / 2; its variance is m n (m + n + 1) / 12.
    m, n = sizes[:, pairs[:, 0]], sizes[:, pairs[:, 1]]
    statistics = np.sqrt(3 * (m * n / (m + n + 1)).sum(axis=0))
    return statistics.round(9), pairs  # equal but for rounding


def seeds_needed(
    num_methods: int,
    alpha: float = 0.05,
    method: DesignMethod = "exact",
    *,
    test: RankTest = "steel-dwass",
) -> int:
    """Return the smallest number of seeds per method with which p < alpha is possible.

    `seeds_for_power` returns the number of seeds that detects a difference of a given size.

    Args:
        num_methods: Number of methods compared, including the control.
        alpha: Level of the test, between 0 and 1.
        method: p that must be able to fall below alpha; see `attainable_pvalue`.
        test: `"steel-dwass"` for all pairs, `"steel"` for each method against one control.

    Returns:
        Number of seeds, the same for every method.

    Raises:
        ValueError: If a number or an option is out of range.

    Example:
        >>> seeds_needed(2), seeds_needed(4), seeds_needed(5), seeds_needed(9)
        (4, 5, 6, 7)
        >>> seeds_needed(9, test="steel")
        6
    """
    check_probability("alpha", alpha)
    return samples_needed(lambda n: attainable_pvalue(num_methods, n, method, test=test), alpha)


def samples_needed(attainable: Callable[[int], float], alpha: float, least: int = 2) -> int:
    """Return the smallest number of seeds (or tasks) that can give p < alpha.

    Returns 0 if 10,000 are not enough: the attainable p of a plugin may never fall below alpha.

    Args:
        attainable: Function from a number of seeds (or tasks) to the smallest possible p.
        alpha: Level of the test.
        least: Smallest number of seeds (or tasks) of the test.
    """
    return next((n for n in range(least, MOST_SAMPLES + 1) if attainable(n) < alpha), 0)


def asymptotic_pvalues(
    statistics: FloatArray,
    tasks: Sequence[tuple[Sequence[int], Sequence[int]]],
    test: RankTest = "steel-dwass",
) -> FloatArray:
    """Return the asymptotic family-wise p of standardized U statistics.

    For all pairs it is that of the studentized range. With a control it is that of the maximum of
    several absolute normal statistics (Dunnett), with `rank_loadings`.

    Args:
        statistics: `(U - n_i n_j / 2) / sqrt(V)`, any shape; over tasks `RankSums.statistic`.
        tasks: For each task, the pooled scores, and the number of scores of each method, the
            control first.
        test: `"steel-dwass"` for all pairs, `"steel"` for each method against one control.

    Returns:
        p, same shape as the statistics.
    """
    if test == "steel":
        return largest_exceeds(statistics, rank_loadings(tasks))
    from scipy.stats import studentized_range

    # An integral for each of the few different values.
    values, places = np.unique(np.abs(statistics), return_inverse=True)
    pvalues: FloatArray = studentized_range.sf(math.sqrt(2) * values, len(tasks[0][1]), math.inf)
    return pvalues[places].reshape(np.shape(statistics))


def rank_loadings(tasks: Sequence[tuple[Sequence[int], Sequence[int]]]) -> FloatArray:
    """Return the loadings b_j of rank statistics against a common control.

    The correlation of two standardized statistics is `b_i b_j`. Assign the N pooled scores of a
    task to groups at random. Let v be the probability that two scores differ, and c the covariance
    of sign(y - x) and sign(z - x). Two statistics have the covariance `n_0 n_i n_j c`; each has the
    variance `n_0 n_j (v + (n_0 + n_j - 2) c)`. Without ties v is 1 and c is 1/3, so
    `b_j^2 = n_j / (n_0 + n_j + 1)`: 5/11 for five seeds, and Dunnett's 1/2 for many. This is exact
    for any sample sizes. Over tasks, the squares are averaged, weighted by variance; this is exact
    if all tasks have the same numbers of scores and no ties.

    Args:
        tasks: For each task, the pooled scores, and n_0 of the control and n_j of each method.

    Returns:
        b_j, shape `(k - 1,)`.

    References:
        F. W. Scholz (2023), On Steel's test with ties, arXiv:2308.05873.
    """
    squares = variances = np.zeros(len(tasks[0][1]) - 1)
    for pool, (control, *methods) in tasks:
        others, total = np.array(methods, dtype=np.float64), len(pool)
        t = np.array([*Counter(pool).values()], dtype=np.float64)
        different = 1 - (t * (t - 1)).sum() / (total * (total - 1))
        covariance = 1 / 3
        if total > 2:
            triples = (t * (t - 1) * (t - 2)).sum() / (total * (total - 1) * (total - 2))
            covariance = (1 - triples) / 3
        weight = control * others / (control + others + 1) ** 2
        squares = squares + weight * others * covariance
        variances = variances + weight * (different + (control + others - 2) * covariance)
    return np.sqrt(np.divide(squares, variances, out=0 * squares, where=variances > 0))


def largest_exceeds(statistics: FloatArray, loadings: FloatArray) -> FloatArray:
    """Return the probability that the largest absolute normal statistic exceeds each value.

    Each statistic is `b_j u + sqrt(1 - b_j^2) e_j` with a common normal u. Given u they are
    independent, so one integral over u gives the joint distribution for any sizes.

    Args:
        statistics: Standardized statistics, any shape; positive where the method is higher.
        loadings: The b_j of the methods, shape `(k - 1,)`.

    Returns:
        Family-wise p, same shape as the statistics.

    Example:
        >>> p = largest_exceeds(np.array([2.35]), np.full(3, 0.5**0.5))  # Dunnett's table: 2.35
        >>> print(p.round(3))
        [0.05]

    References:
        C. W. Dunnett (1955), A multiple comparison procedure for comparing several treatments with
        a control, Journal of the American Statistical Association 50, 1096-1121.
    """
    from scipy.integrate import quad
    from scipy.special import ndtr

    residual = np.sqrt(1 - loadings**2)

    def exceeds(value: float) -> float:
        def density(u: float) -> float:
            outside = ndtr((loadings * u - value) / residual)
            outside = outside + ndtr((-loadings * u - value) / residual)
            # 1 - product of (1 - outside), without losing a small p to rounding
            any_outside = -math.expm1(np.log1p(-np.minimum(outside, 1 - 1e-16)).sum())
            return math.exp(-u * u / 2) / math.sqrt(2 * math.pi) * any_outside

        reach = 12 + abs(value)
        peak = float(loadings.max()) * value
        points = [-peak, peak]
        integral, _ = quad(density, -reach, reach, points=points, epsabs=0, epsrel=1e-9, limit=200)
        return min(float(integral), 1.0)

    values = np.abs(statistics)
    return np.array([exceeds(value) for value in np.ravel(values)]).reshape(np.shape(values))


def _sizes(num_methods: int, num_seeds: int | Sequence[int]) -> list[int]:
    check_count("num_methods", num_methods, 2)
    sizes = list(num_seeds) if isinstance(num_seeds, Sequence) else [num_seeds] * num_methods
    if len(sizes) != num_methods:
        raise ValueError(
            f"`num_seeds` must be one number, or a sequence of {num_methods} numbers, one per "
            f"method. Received: num_seeds={num_seeds}"
        )
    for size in sizes:
        check_count("num_seeds", size)
    return sizes


@functools.lru_cache(maxsize=1024)
def _exact_attainable(sizes: tuple[int, ...], test: RankTest) -> float:
    # Only the largest groups reach the largest statistic. If one group is the control, or larger
    # than all others, only its pairs with the largest other groups do.
    if test == "steel":
        control, others = sizes[0], Counter(sizes[1:])
    else:
        control, others = max(sizes), Counter(sizes)
        if others[control] > 1:
            return _any_pair_disjoint(others[control], control)
        del others[control]
    size = max(others)
    return _one_disjoint(control, size, others[size])


def _any_pair_disjoint(k: int, n: int) -> float:
    """Return P(any two of k groups of n scores do not overlap), exactly.

    The powers in the integral are expanded; each term is a Beta integral. Fractions avoid
    cancellation, as the terms alternate in sign. Of many groups the integral is computed.
    """
    if k > _MOST_EXPANDED:
        t, weight = _nodes()
        density = n * (1 - t) ** (n - 1) * (1 - (1 - t) ** n - t**n) ** (k - 1)
        return max(0.0, 1 - k * float(weight @ density))
    none = Fraction(0)
    for below, above, ways in _inclusion_exclusion(k - 1):
        none += Fraction(k * ways, (1 + below) * math.comb(n * (1 + below + above), n * above))
    return float(1 - none)


def _one_disjoint(n: int, m: int, others: int) -> float:
    """Return P(a group of n scores does not overlap with at least one of several groups of m).

    Inclusion-exclusion: each term is the probability that some of the groups are completely below
    the n scores and others completely above. Of many groups it is an integral over the lowest and
    the highest of the n scores.
    """
    if others > _MOST_EXPANDED:
        t, weight = _nodes()
        if n == 1:
            return max(0.0, 1 - float(weight @ (1 - t**m - (1 - t) ** m) ** others))
        high, low = t[:, None], t[:, None] * t
        density = n * (n - 1) * (high - low) ** (n - 2) * high
        overlaps = (1 - low**m - (1 - high) ** m) ** others
        return max(0.0, 1 - float(weight @ (density * overlaps) @ weight))
    none = Fraction(0)
    for below, above, ways in _inclusion_exclusion(others):
        total = n + m * (below + above)
        none += Fraction(ways, math.comb(total, n) * math.comb(total - n, m * below))
    return float(1 - none)


@functools.lru_cache(maxsize=1)
def _nodes() -> tuple[FloatArray, FloatArray]:
    """Return the nodes and weights of Gauss-Legendre quadrature from 0 to 1."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return (nodes + 1) / 2, weights / 2


def _inclusion_exclusion(groups: int) -> Iterator[tuple[int, int, int]]:
    """Yield numbers of groups below and above, and the signed number of combinations."""
    for below in range(groups + 1):
        for above in range(groups + 1 - below):
            ways = math.comb(groups, below) * math.comb(groups - below, above)
            yield below, above, (-1) ** (below + above) * ways


def _any_disjoint(sizes: Any, pairs: Any) -> float:
    """Return a lower bound of P(any pair does not overlap, in the same order on all tasks).

    Args:
        sizes: Sizes of the groups, shape `(tasks, groups)`.
        pairs: Indices of the groups of each pair, shape `(pairs, 2)`.
    """
    low, high = np.concatenate([pairs, pairs[:, ::-1]]).T  # each order is an event
    one = _in_order(sizes[:, low], sizes[:, high])
    if (sizes[:, pairs] == sizes[:, pairs[:1]]).all():  # equal events: join one with each
        first, second = np.zeros(len(low) - 1, int), np.arange(1, len(low))
        times = len(low) / 2
    else:
        first, second = np.triu_indices(len(low), 1)
        times = 1.0
    a, b, c, d = low[first], high[first], low[second], high[second]
    m, n, o, p = (sizes[:, group] for group in (a, b, c, d))
    two = np.select(
        [(a == d) & (b == c), a == c, b == d, b == c, a == d],
        [-np.inf, _in_order(m, n + p), _in_order(m + o, n), _in_order(m, n, p), _in_order(o, m, n)],
        default=one[first] + one[second],
    )
    scale = one.max()  # the probabilities may be too small for floats
    of_one, of_two = np.exp(one - scale).sum(), times * np.exp(two - scale).sum()
    ratio = math.floor(2 * of_two / of_one) + 1
    return min(1.0, float(np.exp(scale) * 2 / (ratio + 1) * (of_one - of_two / ratio)))


def _in_order(*groups: Any) -> Any:
    """Return log P(groups of scores do not overlap, in the given order on all tasks).

    Args:
        groups: Sizes, each of shape `(tasks, events)`.
    """
    from scipy.special import gammaln

    logs = sum(gammaln(size + 1) for size in groups) - gammaln(sum(groups) + 1)
    return logs.sum(axis=0)
