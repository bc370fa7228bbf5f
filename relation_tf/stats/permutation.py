"""Permutation distribution of the statistics of pairs of methods, on one task or several.

An arrangement assigns pooled scores to the methods (groups). Scores are represented by dense ranks
in the smallest integer type. Arrangements are on the last axis: `groups[i]` of shape `(n_i, B)`
contains the scores of group i in each of B arrangements. Each task is a stratum: its pooled scores
and the sizes of its groups. Tasks are arranged independently. p is the share of arrangements with a
largest absolute statistic of all tested pairs that is at least as large.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from relation_tf.stats.design import (
    RankTest,
    asymptotic_pvalues,
    largest_statistic,
    smallest_pvalue,
)
from relation_tf.stats.samples import FloatArray, Pairs, PvalueMethod, RankedSamples, index_pairs
from relation_tf.terminal import advance

Codes: TypeAlias = NDArray[np.integer[Any]]
Groups: TypeAlias = Sequence[Codes]
Stratum: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]  # sorted pooled codes, group sizes
Distribution: TypeAlias = tuple[FloatArray, FloatArray]  # sorted values, P(at least as large)
TieSums: TypeAlias = "Callable[[Pairs], FloatArray | float]"
SumsOfPairs: TypeAlias = "Callable[[slice], RankSums]"  # of rows of pairs in some arrangements
NullMethod: TypeAlias = Literal["asymptotic", "exact", "monte-carlo"]

PERMUTATIONS = 200_000  # the standard error of a p of .05 is .0005
MAX_ARRANGEMENTS = 1_000_000
_FEWEST = 2_000  # the standard error of a p of .05 is .005
# Work in comparisons of two scores. 10 methods x 10 seeds x 10 tasks have 200,000 arrangements.
_BUDGET = 30_000_000_000
# Fewer are enough if each p is far from the level: at least four standard errors.
_FIRST_BUDGET, _FEWEST_FIRST, _FAR = _BUDGET // 50, 10_000, 4
_WORTH = 10  # times faster
_PAIR = 100  # statistic of a pair
_SCORE = 60  # drawing a score
_COUNTED = 128  # comparing a score of large groups by counts
_THREADS = min(4, os.cpu_count() or 1)
_MAX_TERMS = 4_000_000  # numbers in an exact distribution over tasks: about half a second
_DECIMALS = 9  # sums that agree to this many decimals are equal
_DRAWS = 20  # from so many draws for each arrangement on, drawing from a list of them is faster
_PRECISION = 1e-12  # of a critical statistic
_CHUNK_ELEMENTS = 2**16  # scores per chunk: the comparisons of a pair stay in the CPU cache
_FEW_ARRANGEMENTS = 64  # in a chunk
_BLOCK_ELEMENTS = 2**18  # comparisons of one group with others at once
_MOST_COMPARISONS = 2**14  # per pair and arrangement; beyond, counting is faster
ROUNDING = 1e-9  # closer statistics are equal


def observed_groups(ranked: RankedSamples) -> Groups:
    """Return the observed arrangement, shape `(n_i, 1)` for each group."""
    codes = list(ranked.codes.values())
    dtype = np.min_scalar_type(max(int(group.max()) for group in codes))
    return [group.astype(dtype)[:, None] for group in codes]


def untied_groups(sizes: Sequence[int]) -> Groups:
    """Return an arrangement of scores without ties, shape `(n_i, 1)` for each group."""
    ranks = np.arange(sum(sizes))
    ranks = ranks.astype(np.min_scalar_type(ranks.size))
    return np.split(ranks[:, None], np.cumsum(sizes)[:-1])


class RankSums(NamedTuple):
    """Sums over tasks of each pair in each of B arrangements.

    Attributes:
        deviation: Sum of `w (U - n_i n_j / 2)`, shape `(P, B)`, positive where the second group is
            higher. U is the Mann-Whitney statistic, and `w = 1 / (n_i + n_j + 1)` the weight of van
            Elteren.
        variance: Sum of `w^2 V`, with the variance V of U given the ties between the two groups;
            shape `(P, B)`, or `(P, 1)` if no two scores are tied.
    """

    deviation: FloatArray
    variance: FloatArray

    @property
    def statistic(self) -> FloatArray:
        """`deviation / sqrt(variance)`, shape `(P, B)`; 0 if all scores of a pair are equal."""
        scale = np.broadcast_to(np.sqrt(self.variance), self.deviation.shape)
        return np.divide(self.deviation, scale, out=np.zeros_like(self.deviation), where=scale > 0)


def rank_sums(groups: Groups, pairs: Pairs, tie_sums: TieSums | None = None) -> RankSums:
    """Return the sums of each pair on one task.

    Args:
        groups: k groups of shape `(n_i, B)`.
        pairs: P pairs of group indices.
        tie_sums: Result of `tie_sums_of`, if it is known.
    """
    sizes = _pair_sizes(groups, pairs)
    total, products = sizes.sum(axis=1, keepdims=True), sizes.prod(axis=1, keepdims=True)
    weight = 1 / (total + 1)
    untied = total**3 - total - (tie_sums or tie_sums_of(groups))(pairs)
    variance = products / (12 * total * (total - 1)) * untied
    return RankSums(weight / 2 * net_wins(groups, pairs), weight**2 * variance)


def sum_statistics(tasks: Iterable[RankSums]) -> FloatArray:
    """Return the standardized statistics over tasks, shape `(P, B)`; sums tasks one by one."""
    tasks = iter(tasks)
    deviation, variance = next(tasks)
    for task in tasks:
        deviation, variance = deviation + task.deviation, variance + task.variance
    return RankSums(deviation, variance).statistic


def dominance(tasks: Sequence[Groups], pairs: Pairs) -> FloatArray:
    """Return Cliff's delta of each pair, `P(second higher) - P(first higher)`, shape `(P,)`.

    Over tasks it is their mean with van Elteren's weights.

    Args:
        tasks: An arrangement of each task, `(n_i, 1)` for each group.
        pairs: P pairs of group indices.
    """
    wins, most = np.zeros(len(pairs)), np.zeros(len(pairs))
    first = _pair_sizes(tasks[0], pairs).sum(axis=1) + 1
    for groups in tasks:
        sizes = _pair_sizes(groups, pairs)
        weight = first / (sizes.sum(axis=1) + 1)  # 1 for tasks of equal sizes: no rounding
        wins += weight * net_wins(groups, pairs)[:, 0]
        most += weight * sizes.prod(axis=1)
    return wins / most


def _pair_sizes(groups: Groups, pairs: Pairs) -> FloatArray:
    """Return the numbers of scores of both groups of each pair, shape `(P, 2)`."""
    return np.array([len(group) for group in groups], dtype=float)[np.array(pairs)]


def net_wins(groups: Groups, pairs: Pairs) -> FloatArray:
    """Return the wins of the second group of each pair minus its losses.

    Args:
        groups: k groups of shape `(n_i, B)`.
        pairs: P pairs of group indices.

    Returns:
        Counts from `-n_i n_j` to `n_i n_j`, shape `(P, B)`.
    """
    tied = _tied_codes(groups).size > 0
    wins = np.empty((len(pairs), groups[0].shape[1]))
    stacked = np.stack(groups, axis=1) if len({*map(len, groups)}) == 1 else None
    for i, rows, others in _blocks(tuple(map(len, groups)), pairs, groups[0].shape[1]):
        # (n, J, B)
        second = np.stack(groups[others], axis=1) if stacked is None else stacked[:, others]
        product = len(groups[i]) * len(second)
        if product > _MOST_COMPARISONS:
            wins[rows] = _net_wins_by_counts(groups[i], second)
            continue
        first = groups[i][:, None, None]
        wins[rows] = _count(first < second, product)
        wins[rows] -= _count(first > second, product) if tied else product - wins[rows]
    return wins


def _count(compared: NDArray[np.bool_], most: int) -> Codes:
    """Return the number of true comparisons of shape `(m, n, J, B)`, at most `most`, `(J, B)`."""
    # The smallest type, one axis and no conversion of booleans are several times faster.
    flat = compared.view(np.uint8).reshape(-1, *compared.shape[2:])
    return np.asarray(flat.sum(axis=0, dtype=np.min_scalar_type(most)))


@functools.lru_cache(maxsize=256)  # many chunks of arrangements have the same blocks
def _blocks(
    sizes: tuple[int, ...], pairs: Pairs, number: int
) -> Sequence[tuple[int, slice, slice]]:
    """Return the first group of consecutive pairs, their rows and their second groups.

    The second groups are consecutive and have the same size; their comparisons of `number`
    arrangements stay in the CPU cache.
    """
    blocks = []
    keys = ((i, sizes[j], j - row) for row, (i, j) in enumerate(pairs))
    for (i, size, shift), same in itertools.groupby(enumerate(keys), operator.itemgetter(1)):
        rows = [row for row, _ in same]
        step = max(1, _BLOCK_ELEMENTS // (sizes[i] * size * number))
        for start in range(rows[0], rows[-1] + 1, step):
            stop = min(start + step, rows[-1] + 1)
            blocks.append((i, slice(start, stop), slice(start + shift, stop + shift)))
    return blocks


def _net_wins_by_counts(first: Codes, others: Codes) -> NDArray[np.int64]:
    """Return the net wins of large groups over another one, without comparing all their scores."""
    counts = _counts_of_codes(first, int(max(first.max(), others.max())) + 1)
    # Scores of the first group below each code, minus those above.
    net = 2 * np.cumsum(counts, axis=0) - counts - len(first)
    wins: NDArray[np.int64] = net.take(_places(others)).sum(axis=0)
    return wins


def tie_sums_of(groups: Groups) -> TieSums:
    """Return a function from pairs to the sum of `t^3 - t` over their distinct scores.

    t is the number of occurrences of a score in the two groups. With a and b occurrences in one
    group each, `t^3 - t` is `a^3 - a + b^3 - b + 3 a b (a + b)`.
    """
    tied = _tied_codes(groups)
    if tied.size == 0:
        return lambda pairs: 0.0
    *_, second, first = sorted(map(len, groups))
    dtype = np.min_scalar_type((first + second) ** 3)  # small types are faster
    counts = np.stack([_occurrences(group, tied, dtype) for group in groups], axis=1)
    squares = counts * counts  # (codes, k, B)
    within = (counts * (squares - 1)).sum(axis=0, dtype=dtype)

    def tie_sums(pairs: Pairs) -> FloatArray:
        sums = np.empty((len(pairs), groups[0].shape[1]))
        for i, rows, others in _blocks(tuple(map(len, groups)), pairs, groups[0].shape[1]):
            shared = np.einsum("cb,cjb->jb", squares[:, i], counts[:, others])
            shared += np.einsum("cb,cjb->jb", counts[:, i], squares[:, others])
            sums[rows] = within[i] + within[others] + 3 * shared
        return sums

    return tie_sums


def _occurrences(group: Codes, codes: Codes, dtype: Any) -> Codes:
    """Return how often each code occurs in each arrangement, shape `(codes, B)`."""
    if group.shape[0] * codes.size <= _MOST_COMPARISONS:
        return (group == codes[:, None, None]).sum(axis=1, dtype=dtype)
    return _counts_of_codes(group, int(max(group.max(), codes[-1])) + 1)[codes].astype(dtype)


def _counts_of_codes(group: Codes, number: int) -> NDArray[np.int64]:
    """Return how often each code below a number occurs in each arrangement."""
    columns = group.shape[1]
    counts = np.bincount(_places(group).ravel(), minlength=number * columns)
    return counts.reshape(number, columns)


def _places(group: Codes) -> NDArray[np.int64]:
    """Return the places of codes in a flat array with a row for each code."""
    return group.astype(np.int64) * group.shape[-1] + np.arange(group.shape[-1])


def _tied_codes(groups: Groups) -> Codes:
    """Return the codes that occur more than once (the same in all arrangements)."""
    codes, multiplicity = np.unique(
        np.concatenate([group[:, 0] for group in groups]), return_counts=True
    )
    return codes[multiplicity > 1]


def num_arrangements(sizes: Sequence[int]) -> int:
    """Return the number of ways to assign the pooled scores, `N! / (n_1! ... n_k!)`.

    Args:
        sizes: k group sizes.

    Returns:
        The multinomial coefficient.
    """
    totals = itertools.accumulate(sizes)
    return math.prod(math.comb(n, size) for n, size in zip(totals, sizes, strict=True))


def arrangements(sizes: Sequence[int], numbers: NDArray[np.intp]) -> Codes:
    """Return the arrangements at given positions of the lexicographic order.

    Args:
        sizes: Number of occurrences of each of k labels.
        numbers: Positions, integers from 0 to `num_arrangements(sizes) - 1`, shape `(B,)`.

    Returns:
        Labels from 0 to k - 1, shape `(B, N)`.
    """
    num_labels = sum(sizes)
    labels = np.empty((num_labels, numbers.size), dtype=np.min_scalar_type(len(sizes)))
    columns = np.arange(numbers.size)
    offset = numbers.copy()
    # (k, B): remaining occurrences of each label
    left = np.tile(np.array(sizes)[:, None], numbers.size)
    ways = np.full(numbers.size, num_arrangements(sizes))  # (B,): their arrangements
    for place in range(num_labels):
        # The share of arrangements that start with a label is its share of the remaining labels.
        ways_with = ways * left // (num_labels - place)
        ends = np.cumsum(ways_with, axis=0)
        label = (offset >= ends).sum(axis=0)
        labels[place] = label
        ways = ways_with[label, columns]
        offset -= ends[label, columns] - ways
        left[label, columns] -= 1
    return labels.T


def enumerated_groups(stratum: Stratum, start: int, stop: int) -> Groups:
    """Return the arrangements of a task at positions of the lexicographic order.

    Args:
        stratum: The task.
        start: First position.
        stop: Position after the last one.

    Returns:
        k groups of shape `(n_i, stop - start)`.
    """
    # A stable sort of labels lists the positions of label 0, then those of label 1, ...
    labels = arrangements(stratum[1], np.arange(start, stop))
    return _split(_pool(stratum)[np.argsort(labels, axis=1, kind="stable")], stratum)


def shuffled_groups(stratum: Stratum, number: int, rng: np.random.Generator) -> Groups:
    """Return random arrangements of a task: k groups of shape `(n_i, number)`."""
    pool = _pool(stratum)
    # NumPy permutes numbers of 8 bytes fastest.
    drawn = rng.permuted(np.tile(pool.astype(np.int64), (number, 1)), axis=1)
    return _split(drawn.astype(pool.dtype), stratum)


def _pool(stratum: Stratum) -> Codes:
    return np.array(stratum[0], dtype=np.min_scalar_type(stratum[0][-1]))


def _split(codes: Codes, stratum: Stratum) -> Groups:
    """Split arrangements of shape `(B, N)` into groups of shape `(n_i, B)`."""
    return np.split(np.ascontiguousarray(codes.T), np.cumsum(stratum[1])[:-1])


def chunks(total: int, tasks: Sequence[Sequence[int]]) -> Iterator[tuple[int, int]]:
    """Yield ranges of arrangements, each with as many scores as fit into the CPU cache.

    Args:
        total: Number of arrangements.
        tasks: Numbers of scores of the groups, for each task.
    """
    step = max(1, _CHUNK_ELEMENTS // max(map(sum, tasks)))
    if step < _FEW_ARRANGEMENTS and max(map(max, tasks)) ** 2 <= _MOST_COMPARISONS:
        step = 4 * _FEW_ARRANGEMENTS  # many small groups: loops over pairs would take most time
    return ((start, min(start + step, total)) for start in range(0, total, step))


def distribution(statistics: FloatArray, *, drawn: bool) -> Distribution:
    """Return the distribution of the absolute statistics of equally likely arrangements.

    Args:
        statistics: Statistics of the arrangements; the array is sorted.
        drawn: If True, the arrangements are random. The observed one is then added, so that p is
            `(1 + #) / (B + 1)`.

    Returns:
        Sorted absolute statistics, and the probability of a value at least as large as each; both
        are read-only, because they are cached.
    """
    values = np.abs(statistics, out=statistics)
    values.sort()
    values.flags.writeable = False
    total = values.size + drawn
    at_least = np.arange(total, 0, -1) / total
    return values, at_least


def permutation_pvalues(statistics: FloatArray, null: Distribution) -> FloatArray:
    """Return the probability of an absolute statistic at least as large as each."""
    values, at_least = null
    reached = np.searchsorted(values, np.abs(statistics) - ROUNDING)
    return at_least.take(reached, mode="clip")


@dataclass(frozen=True)
class NullDistribution:
    """Null distribution of the largest absolute statistic of all tested pairs.

    Attributes:
        test: `"steel-dwass"` for all pairs, `"steel"` for each method against one control.
        strata: For each task, its sorted pooled scores (as ranks) and the number of scores of each
            method, the control first.
        method: Kind of the distribution.
        permutations: Number of random arrangements for `"monte-carlo"`.
        seed: Seed of the random arrangements.
        planned: Number of random arrangements without `sufficient`.
    """

    test: RankTest
    strata: tuple[Stratum, ...]
    method: NullMethod
    permutations: int = PERMUTATIONS
    seed: int = 0
    planned: int = 0

    @property
    def pairs(self) -> Pairs:
        """Indices of the methods of each tested pair."""
        return index_pairs(len(self.sizes[0]), self.test == "steel")

    @property
    def sizes(self) -> list[tuple[int, ...]]:
        """Numbers of scores of the methods on each task."""
        return [sizes for _, sizes in self.strata]

    @property
    def ties(self) -> int:
        """Number of scores that are equal to an earlier one of their task."""
        return sum(len(codes) - len({*codes}) for codes, _ in self.strata)

    def pvalues(self, statistics: FloatArray) -> FloatArray:
        """Return the family-wise p of statistics of any shape, see `RankSums.statistic`."""
        if self.method == "asymptotic":
            return asymptotic_pvalues(statistics, self.strata, self.test)
        if self.method == "exact":
            exact = exact_maxima(self.strata, self.pairs)
            assert exact is not None  # else `null_distribution` takes Monte Carlo
            pvalues = permutation_pvalues(statistics, exact)
            # Rounding errors of sums of probabilities must not decide whether p < alpha.
            return np.reshape([float(f"{p:.12g}") for p in pvalues.flat], np.shape(statistics))
        drawn = drawn_maxima(self.strata, self.pairs, self.permutations, self.seed)
        pvalues = permutation_pvalues(statistics, drawn)
        if len(self.strata) == 1 and len({*self.strata[0][0]}) == len(self.strata[0][0]):
            # The p of the largest statistic is known.
            separated = np.abs(statistics) > largest_statistic(self.sizes, self.test) - ROUNDING
            pvalues = np.where(separated, smallest_pvalue(self.sizes, self.test), pvalues)
        return pvalues

    def sufficient(self, statistics: FloatArray, level: float) -> NullDistribution:
        """Return a distribution with fewer random arrangements if these decide each test.

        They do if each p is at least four standard errors from the level. The number depends only
        on the statistics and the seed, so p is reproducible.

        Args:
            statistics: Observed statistics.
            level: Level of the tests.
        """
        number = affordable_permutations(self.sizes, self.pairs, _FIRST_BUDGET)
        number = max(number, _FEWEST_FIRST)
        first = replace(self, permutations=number, planned=self.permutations)
        if self.method != "monte-carlo" or _WORTH * first.permutations > self.permutations:
            return self
        distance = np.abs(first.pvalues(statistics) - level)
        return first if distance.min() > _FAR * first.standard_error(level) else self

    def complete(self) -> NullDistribution:
        """Return the distribution with all planned random arrangements, for another level."""
        return replace(self, permutations=max(self.planned, self.permutations), planned=0)

    def untied(self) -> NullDistribution:
        """Return the distribution for the same numbers of scores without ties."""
        is_same_kind = self.method == "asymptotic" or len(self.strata) == 1
        groups = [untied_groups(sizes) for sizes in self.sizes]
        method = self.method if is_same_kind else "auto"
        return null_distribution(self.test, groups, method, self.permutations, self.seed)

    def critical_statistic(self, level: float) -> float:
        """Return the smallest statistic with p < level without ties; infinite if there is none."""
        return _critical_statistic(self, level)

    @property
    def attainable_pvalue(self) -> float:
        """Smallest p without ties, or a lower bound of it over tasks."""
        if self.method != "asymptotic":
            return smallest_pvalue(self.sizes, self.test)
        largest = largest_statistic(self.sizes, self.test)
        return float(self.untied().pvalues(np.array(largest)))

    def standard_error(self, pvalue: float) -> float:
        """Return the standard error of a p from random arrangements, else 0."""
        if self.method != "monte-carlo":
            return 0.0
        return math.sqrt(pvalue * (1 - pvalue) / self.permutations)


@functools.lru_cache(maxsize=256)
def _critical_statistic(null: NullDistribution, level: float) -> float:
    untied = null.untied()

    def is_rejected(statistic: float) -> bool:
        return bool(untied.pvalues(np.array(statistic)) < level)

    low, high = 0.0, largest_statistic(null.sizes, null.test)
    if not is_rejected(high):
        return math.inf
    while high - low > _PRECISION:
        middle = (low + high) / 2
        low, high = (low, middle) if is_rejected(middle) else (middle, high)
    return high


def affordable_permutations(
    tasks: Sequence[Sequence[int]], pairs: Pairs, budget: int = _BUDGET
) -> int:
    """Return the number of random arrangements for a design.

    It is 200,000 if these need at most as much work as for 10 methods, 10 seeds and 10 tasks. For
    larger designs it falls in proportion to the work of an arrangement, to 2,000 at least. It
    depends only on the numbers of methods, tasks and scores.

    Args:
        tasks: Number of scores of each method, the control first, for each task.
        pairs: P pairs of method indices.
        budget: Work in comparisons of two scores.

    Example:
        >>> affordable_permutations([[10] * 10] * 10, index_pairs(10))
        200000
        >>> affordable_permutations([[5] * 300], index_pairs(300))
        5266
    """
    work = 0
    for sizes, times in Counter(map(tuple, tasks)).items():
        m, n = np.array(sizes)[np.array(pairs).T]
        compared = np.minimum(m * n, _COUNTED * (m + n)).sum()
        work += times * (int(compared) + _PAIR * len(pairs) + _SCORE * sum(sizes))
    return min(PERMUTATIONS, max(_FEWEST, budget // work))


def null_distribution(
    test: RankTest,
    tasks: Sequence[Groups],
    method: PvalueMethod = "auto",
    permutations: int | None = None,
    rng: int = 0,
) -> NullDistribution:
    """Choose the null distribution of a test.

    Args:
        test: `"steel-dwass"` for all pairs, `"steel"` for each method against one control.
        tasks: The observed arrangement of each task, `(n_i, 1)` for each group, a control first.
        method: Kind of the distribution; `"auto"` is `"exact"` if it takes about a second (on one
            task up to 1,000,000 arrangements), else `"monte-carlo"`.
        permutations: Number of random arrangements, by default `affordable_permutations`.
        rng: Seed of random arrangements.

    Raises:
        ValueError: If `"exact"` needs more arrangements.
    """
    strata = tuple(
        (tuple(np.sort(np.concatenate(groups), axis=None).tolist()), tuple(map(len, groups)))
        for groups in tasks
    )
    null = NullDistribution(test, strata, "asymptotic")
    is_exact = method in ("auto", "exact") and exact_maxima(strata, null.pairs) is not None
    if method == "exact" and not is_exact:
        number = sum(math.log10(num_arrangements(sizes)) for sizes in null.sizes)
        raise ValueError(
            f"method='exact' has too many arrangements (one task allows {MAX_ARRANGEMENTS:,}); "
            f"use method='monte-carlo'. Received: about 10^{number:.1f} arrangements"
        )
    drawn = method != "asymptotic" and not is_exact
    return replace(
        null,
        method="exact" if is_exact else "monte-carlo" if drawn else "asymptotic",
        permutations=permutations or affordable_permutations(null.sizes, null.pairs),
        seed=int(rng),
    )


@functools.lru_cache(maxsize=8)  # tasks without ties and of the same sizes share a distribution
def drawn_maxima(
    strata: tuple[Stratum, ...], pairs: Pairs, permutations: int, seed: int
) -> Distribution:
    """Return the distribution of the largest absolute statistic of all pairs, from random ones.

    Args:
        strata: The tasks, as in `NullDistribution`.
        pairs: P pairs of group indices.
        permutations: Number of random arrangements.
        seed: Seed of the arrangements.
    """
    rng = np.random.default_rng(seed)
    listed = {}  # tasks of which drawing from a list of all arrangements is faster than shuffling
    for stratum, times in Counter(strata).items():
        number = num_arrangements(stratum[1])
        short = len(strata) > 1 and number * len(pairs) <= _MAX_TERMS
        if short and times * permutations >= _DRAWS * number:
            listed[stratum] = _all_sums(stratum, pairs)

    def draw(stratum: Stratum, start: int, stop: int) -> SumsOfPairs:
        if stratum not in listed:
            return _sums_of_pairs(shuffled_groups(stratum, stop - start, rng), pairs)
        deviation, variance = listed[stratum]
        drawn = rng.integers(deviation.shape[1], size=stop - start)

        def sums(rows: slice) -> RankSums:  # `take` is twice as fast as `[]`
            untied = variance.shape[1] == 1
            variances = variance[rows] if untied else variance[rows].take(drawn, axis=1)
            return RankSums(deviation[rows].take(drawn, axis=1), variances)

        return sums

    return distribution(_maxima(strata, pairs, permutations, draw), drawn=True)


@functools.lru_cache(maxsize=8)
def exact_maxima(strata: tuple[Stratum, ...], pairs: Pairs) -> Distribution | None:
    """Return the exact distribution of the largest absolute statistic of all pairs.

    All arrangements of each task are enumerated. Tasks are independent, so the joint distribution
    of the sums is the convolution of those of the tasks: tasks are added one by one, and equal sums
    are merged. This holds with and without ties, because a statistic depends on an arrangement only
    through the sums of deviations and variances.

    Args:
        strata: The tasks, as in `NullDistribution`.
        pairs: P pairs of group indices.

    Returns:
        The distribution; None if this takes more than about a second.
    """
    if len(strata) == 1:
        return _enumerated_maxima(strata[0], pairs)
    arrangements = sum(num_arrangements(sizes) for _, sizes in {*strata})
    if arrangements * len(pairs) > _MAX_TERMS // 8:  # enumeration is slower than addition
        return None
    by_task = {stratum: _distinct_sums(stratum, pairs) for stratum in {*strata}}
    # The task with most sums comes last, because the last sums are not merged.
    tasks = sorted((by_task[stratum] for stratum in strata), key=lambda task: task[1].size)
    # Rows that are constant in each task, such as variances without ties, need no convolution.
    constant = np.all([(sums == sums[:, :1]).all(axis=1) for sums, _ in tasks], axis=0)
    total, probability = np.zeros((np.count_nonzero(~constant), 1)), np.ones(1)
    for number, (sums, share) in enumerate(tasks, start=1):
        if (total.size or 1) * share.size > _MAX_TERMS:
            return None
        probability = np.multiply.outer(probability, share).ravel()
        total = total[:, :, None] + sums[~constant][:, None, :]
        total = total.reshape(len(total), probability.size)
        if number < len(tasks):
            total, probability = _merge(total, probability)
    rows = np.empty((constant.size, probability.size))
    rows[~constant] = total
    rows[constant] = sum(sums[constant][:, :1] for sums, _ in tasks)
    largest = np.abs(RankSums(*np.split(rows, 2)).statistic).max(axis=0)
    order = np.argsort(largest, kind="stable")
    at_least = np.cumsum(probability[order][::-1])[::-1]
    return largest[order], at_least / at_least[0]


def _enumerated_maxima(stratum: Stratum, pairs: Pairs) -> Distribution | None:
    """Return the result of `exact_maxima` for one task."""
    sizes = stratum[1]
    total = num_arrangements(sizes)
    if total > MAX_ARRANGEMENTS:
        return None
    if len(set(sizes)) == 1 and len(pairs) == math.comb(len(sizes), 2):
        # The names of the groups do not matter: the arrangements in which the lowest score belongs
        # to the first group, which come first, represent all others.
        total //= len(sizes)

    def enumerate_groups(stratum: Stratum, start: int, stop: int) -> SumsOfPairs:
        return _sums_of_pairs(enumerated_groups(stratum, start, stop), pairs)

    return distribution(_maxima([stratum], pairs, total, enumerate_groups), drawn=False)


def _sums_of_pairs(groups: Groups, pairs: Pairs) -> SumsOfPairs:
    tie_sums = tie_sums_of(groups)
    return lambda rows: rank_sums(groups, pairs[rows], tie_sums)


def _maxima(
    strata: Sequence[Stratum],
    pairs: Pairs,
    total: int,
    arrange: Callable[[Stratum, int, int], SumsOfPairs],
) -> FloatArray:
    """Return the largest absolute statistic of all pairs in each arrangement, shape `(total,)`.

    Args:
        strata: The tasks.
        pairs: P pairs of group indices.
        total: Number of arrangements.
        arrange: Function of a task, the first arrangement and that after the last one.
    """
    largest = np.empty(total)

    def fill(start: int, stop: int, tasks: Sequence[SumsOfPairs]) -> int:
        step = max(1, _BLOCK_ELEMENTS // (stop - start))
        blocks = [slice(first, first + step) for first in range(0, len(pairs), step)]
        statistics = (sum_statistics(sums(rows) for sums in tasks) for rows in blocks)
        largest[start:stop] = np.max([np.abs(block).max(axis=0) for block in statistics], axis=0)
        return stop

    # NumPy computes without Python's lock. Only this thread draws, so the draws keep their order.
    with ThreadPoolExecutor(_THREADS) as pool:
        begun: deque[Future[int]] = deque()
        for start, stop in chunks(total, [sizes for _, sizes in strata]):
            tasks = [arrange(stratum, start, stop) for stratum in strata]
            begun.append(pool.submit(fill, start, stop, tasks))
            if len(begun) > 2 * _THREADS:
                advance("arrangements of the scores", begun.popleft().result(), total)
        for chunk in begun:
            advance("arrangements of the scores", chunk.result(), total)
    return largest


@functools.lru_cache(maxsize=1)  # p and intervals use the same tasks without ties
def _all_sums(stratum: Stratum, pairs: Pairs) -> RankSums:
    """Return the sums of all arrangements of a task."""
    parts = [
        rank_sums(enumerated_groups(stratum, start, stop), pairs)
        for start, stop in chunks(num_arrangements(stratum[1]), [stratum[1]])
    ]
    deviations, variances = zip(*parts, strict=True)
    tied = variances[0].shape[1] > 1
    return RankSums(
        np.concatenate(deviations, axis=1),
        np.concatenate(variances, axis=1) if tied else variances[0],
    )


def _distinct_sums(stratum: Stratum, pairs: Pairs) -> tuple[FloatArray, FloatArray]:
    """Return the distinct sums of a task, shape `(2 P, M)`, and their probabilities."""
    deviation, variance = _all_sums(stratum, pairs)
    total = deviation.shape[1]
    sums = np.concatenate([deviation, np.broadcast_to(variance, deviation.shape)])
    return _merge(sums, np.full(total, 1 / total))


def _merge(sums: FloatArray, probability: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Merge equal columns and add their probabilities."""
    key = np.zeros(probability.size, dtype=np.intp)
    for row in np.round(sums, _DECIMALS):
        values, code = np.unique(row, return_inverse=True)
        if values.size > 1:
            # Numbered again for each row, so that the product cannot overflow.
            key = np.unique(key * values.size + code, return_inverse=True)[1]
    _, kept, merged = np.unique(key, return_index=True, return_inverse=True)
    return sums[:, kept], np.bincount(merged, probability).astype(np.float64)
