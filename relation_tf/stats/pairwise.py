"""Rank statistics of many arrangements at once, and their joint permutation p.

An arrangement assigns the pooled scores to the groups. Scores are represented by dense ranks in the
smallest integer type. Arrangements are on the last axis: `groups[i]` of shape `(n_i, B)` contains
the scores of group i in each of B arrangements.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from relation_tf.stats.samples import FloatArray, RankedSamples

MAX_ARRANGEMENTS = 1_000_000
_CHUNK_ELEMENTS = 2**16  # scores per chunk: the comparisons of a pair stay in the CPU cache
_FEW_ARRANGEMENTS = 64  # in a chunk
BLOCK_ELEMENTS = 2**18  # comparisons of one group with others at once
_MOST_COMPARISONS = 2**14  # per pair and arrangement; beyond, counting is faster
ROUNDING = 1e-9  # closer statistics are equal

Codes: TypeAlias = NDArray[np.integer[Any]]
Groups: TypeAlias = Sequence[Codes]
Pairs: TypeAlias = Sequence[tuple[int, int]]
TieSums: TypeAlias = "Callable[[Pairs], FloatArray | float]"


def index_pairs(num_groups: int, against_first: bool = False) -> Pairs:
    """Return all pairs of groups, row by row, or only those with the first group."""
    return list(itertools.combinations(range(num_groups), 2))[
        : num_groups - 1 if against_first else None
    ]


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
    together = np.stack(groups, axis=1) if len({*map(len, groups)}) == 1 else None
    for i, rows, others in _blocks(groups, pairs):
        # (n, J, B)
        second = np.stack(groups[others], axis=1) if together is None else together[:, others]
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
    found: Codes = flat.sum(axis=0, dtype=np.min_scalar_type(most))
    return found


def _blocks(groups: Groups, pairs: Pairs) -> Sequence[tuple[int, slice, slice]]:
    """Return the first group of consecutive pairs, their rows and their second groups.

    The second groups are consecutive and have the same size; their comparisons stay in the CPU
    cache.
    """
    return _plan(tuple(map(len, groups)), tuple(pairs), groups[0].shape[1])


@functools.lru_cache(maxsize=256)  # many chunks of arrangements have the same blocks
def _plan(
    sizes: tuple[int, ...], pairs: tuple[tuple[int, int], ...], number: int
) -> Sequence[tuple[int, slice, slice]]:
    blocks = []
    keys = ((i, sizes[j], j - row) for row, (i, j) in enumerate(pairs))
    for (i, size, shift), same in itertools.groupby(enumerate(keys), operator.itemgetter(1)):
        rows = [row for row, _ in same]
        step = max(1, BLOCK_ELEMENTS // (sizes[i] * size * number))
        for start in range(rows[0], rows[-1] + 1, step):
            stop = min(start + step, rows[-1] + 1)
            blocks.append((i, slice(start, stop), slice(start + shift, stop + shift)))
    return blocks


def _net_wins_by_counts(first: Codes, others: Codes) -> NDArray[np.int64]:
    """Return the net wins of large groups over another one, without comparing all their scores."""
    number = first.shape[1]
    codes = int(max(first.max(), others.max())) + 1

    def places(group: Codes) -> NDArray[np.int64]:
        return group.astype(np.int64) * number + np.arange(number)

    counts = np.bincount(places(first).ravel(), minlength=codes * number).reshape(codes, number)
    # Scores of the first group below each code, minus those above.
    net = 2 * np.cumsum(counts, axis=0) - counts - len(first)
    wins: NDArray[np.int64] = net.ravel().take(places(others)).sum(axis=0)
    return wins


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
    sizes = pair_sizes(groups, pairs)
    total, products = sizes.sum(axis=1, keepdims=True), sizes.prod(axis=1, keepdims=True)
    weight = 1 / (total + 1)
    untied = total**3 - total - (tie_sums or tie_sums_of(groups))(pairs)
    variance = products / (12 * total * (total - 1)) * untied
    return RankSums(weight / 2 * net_wins(groups, pairs), weight**2 * variance)


def add(tasks: Iterable[RankSums]) -> RankSums:
    """Return the sums over tasks."""
    return functools.reduce(
        lambda total, task: RankSums(
            total.deviation + task.deviation, total.variance + task.variance
        ),
        tasks,
    )


def dominance(tasks: Sequence[Groups], pairs: Pairs) -> FloatArray:
    """Return Cliff's delta of each pair, `P(second higher) - P(first higher)`, shape `(P,)`.

    Over tasks it is their mean with van Elteren's weights.

    Args:
        tasks: An arrangement of each task, `(n_i, 1)` for each group.
        pairs: P pairs of group indices.
    """
    wins, most = np.zeros(len(pairs)), np.zeros(len(pairs))
    first = pair_sizes(tasks[0], pairs).sum(axis=1) + 1
    for groups in tasks:
        sizes = pair_sizes(groups, pairs)
        weight = first / (sizes.sum(axis=1) + 1)  # 1 for tasks of equal sizes: no rounding
        wins += weight * net_wins(groups, pairs)[:, 0]
        most += weight * sizes.prod(axis=1)
    return wins / most


def pair_sizes(groups: Groups, pairs: Pairs) -> FloatArray:
    """Return the numbers of scores of both groups of each pair, shape `(P, 2)`."""
    return np.array([len(group) for group in groups], dtype=float)[np.array(pairs)]


def num_arrangements(sizes: Sequence[int]) -> int:
    """Return the number of ways to assign the pooled scores, `N! / (n_1! ... n_k!)`.

    Args:
        sizes: k group sizes.

    Returns:
        The multinomial coefficient.
    """
    totals = itertools.accumulate(sizes)
    return math.prod(math.comb(n, size) for n, size in zip(totals, sizes, strict=True))


def enumerated_groups(pool: Codes, sizes: Sequence[int], start: int, stop: int) -> Groups:
    """Return the arrangements of pooled scores at positions of the lexicographic order.

    Args:
        pool: Sorted pooled scores, shape `(N,)`.
        sizes: k group sizes.
        start: First position.
        stop: Position after the last one.

    Returns:
        k groups of shape `(n_i, stop - start)`.
    """
    # A stable sort of labels lists the positions of label 0, then those of label 1, ...
    labels = arrangements(sizes, np.arange(start, stop))
    return _split(pool[np.argsort(labels, axis=1, kind="stable")], sizes)


def shuffled_groups(
    pool: Codes, sizes: Sequence[int], number: int, rng: np.random.Generator
) -> Groups:
    """Return random arrangements of pooled scores: k groups of shape `(n_i, number)`."""
    # NumPy permutes numbers of 8 bytes fastest.
    drawn = rng.permuted(np.tile(pool.astype(np.int64), (number, 1)), axis=1)
    return _split(drawn.astype(pool.dtype), sizes)


def _split(codes: Codes, sizes: Sequence[int]) -> Groups:
    """Split arrangements of shape `(B, N)` into groups of shape `(n_i, B)`."""
    return np.split(np.ascontiguousarray(codes.T), np.cumsum(sizes)[:-1])


def permutation_pvalues(statistics: FloatArray, maxima: FloatArray, *, drawn: bool) -> FloatArray:
    """Return family-wise p: the share of arrangements with a maximum as large as the statistic.

    Args:
        statistics: Observed signed statistics.
        maxima: Sorted maxima of the arrangements.
        drawn: If True, the arrangements are random and p is `(1 + #) / (B + 1)`, which includes
            the observed arrangement.

    Returns:
        p, same shape as the statistics.
    """
    reached = maxima.size - np.searchsorted(maxima, np.abs(statistics) - ROUNDING)
    return (reached + drawn) / (maxima.size + drawn)


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
    left = np.tile(
        np.array(sizes)[:, None], numbers.size
    )  # (k, B): remaining occurrences of each label
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
    if tied.size > 4 * first * second:
        return _tie_sums_by_scores(groups, dtype)
    counts = np.stack([_occurrences(group, tied, dtype) for group in groups], axis=1)
    squares = counts * counts  # (codes, k, B)
    alone = (counts * (squares - 1)).sum(axis=0, dtype=dtype)

    def tie_sums(pairs: Pairs) -> FloatArray:
        sums = np.empty((len(pairs), groups[0].shape[1]))
        for i, rows, others in _blocks(groups, pairs):
            shared = np.einsum("cb,cjb->jb", squares[:, i], counts[:, others])
            shared += np.einsum("cb,cjb->jb", counts[:, i], squares[:, others])
            sums[rows] = alone[i] + alone[others] + 3 * shared
        return sums

    return tie_sums


def _occurrences(group: Codes, codes: Codes, dtype: Any) -> Codes:
    """Return how often each code occurs in each arrangement, shape `(codes, B)`."""
    if group.shape[0] * codes.size <= _MOST_COMPARISONS:
        return (group == codes[:, None, None]).sum(axis=1, dtype=dtype)
    number, last = group.shape[1], int(max(group.max(), codes[-1])) + 1
    places = group.astype(np.int64) * number + np.arange(number)
    found = np.bincount(places.ravel(), minlength=last * number).reshape(last, number)
    return found[codes].astype(dtype)


def _tie_sums_by_scores(groups: Groups, dtype: Any) -> TieSums:
    """Return the function of `tie_sums_of` for small groups with many distinct scores."""
    times = [(group[:, None] == group).sum(axis=0, dtype=dtype) for group in groups]
    alone = [(a * a - 1).sum(axis=0, dtype=np.float64) for a in times]

    def tie_sums(pairs: Pairs) -> FloatArray:
        sums = np.empty((len(pairs), groups[0].shape[1]))
        for i, rows, others in _blocks(groups, pairs):
            equal = groups[i][:, None, None] == np.stack(groups[others], axis=1)
            both = times[i][:, None, None] + np.stack(times[others], axis=1)  # a + b
            shared = (equal * both).reshape(-1, *both.shape[2:]).sum(axis=0, dtype=dtype)
            sums[rows] = alone[i] + np.stack(alone[others]) + 3.0 * shared
        return sums

    return tie_sums


def _tied_codes(groups: Groups) -> Codes:
    """Return the codes that occur more than once (the same in all arrangements)."""
    codes, multiplicity = np.unique(
        np.concatenate([group[:, 0] for group in groups]), return_counts=True
    )
    return codes[multiplicity > 1]


def chunks(total: int, elements: int, largest: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of arrangements, each with as many scores as fit into the CPU cache.

    Args:
        total: Number of arrangements.
        elements: Number of scores of an arrangement.
        largest: Number of scores of its largest group.
    """
    step = max(1, _CHUNK_ELEMENTS // elements)
    if step < _FEW_ARRANGEMENTS and largest**2 <= _MOST_COMPARISONS:
        step = 4 * _FEW_ARRANGEMENTS  # many small groups: loops over pairs would take most time
    return ((start, min(start + step, total)) for start in range(0, total, step))
