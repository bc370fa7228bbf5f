"""Rank statistics of many arrangements at once, and their joint permutation p.

An arrangement assigns the pooled scores to the groups. Scores are represented by dense ranks in the
smallest integer type. Arrangements are on the last axis: `groups[i]` of shape `(n_i, B)` contains
the scores of group i in each of B arrangements.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from relation_tf.stats.samples import FloatArray, RankedSamples

MAX_ARRANGEMENTS = 1_000_000
_CHUNK_ELEMENTS = 2**16  # scores per chunk: the comparisons of a pair stay in the CPU cache
_MOST_COMPARISONS = 2**14  # per pair and arrangement; beyond, counting is faster
ROUNDING = 1e-9  # closer statistics are equal

Codes: TypeAlias = NDArray[np.integer[Any]]
Groups: TypeAlias = Sequence[Codes]
Pairs: TypeAlias = Sequence[tuple[int, int]]


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
    for row, (i, j) in zip(wins, pairs, strict=True):
        first, second = groups[i][:, None], groups[j]
        product = groups[i].shape[0] * second.shape[0]
        if product > _MOST_COMPARISONS:
            row[:] = _net_wins_by_counts(groups[i], second)
            continue
        dtype = np.min_scalar_type(product)
        row[:] = (first < second).sum(axis=(0, 1), dtype=dtype)
        row -= (first > second).sum(axis=(0, 1), dtype=dtype) if tied else product - row
    return wins


def _net_wins_by_counts(first: Codes, second: Codes) -> NDArray[np.int64]:
    """Return the net wins of two large groups, without comparing all their scores."""
    number = first.shape[1]
    codes = int(max(first.max(), second.max())) + 1

    def places(group: Codes) -> NDArray[np.int64]:
        return group.astype(np.int64) * number + np.arange(number)

    counts = np.bincount(places(first).ravel(), minlength=codes * number).reshape(codes, number)
    # Scores of the first group below each code, minus those above.
    net = 2 * np.cumsum(counts, axis=0) - counts - len(first)
    wins: NDArray[np.int64] = net.ravel().take(places(second)).sum(axis=0)
    return wins


def dominance(groups: Groups, pairs: Pairs) -> FloatArray:
    """Return Cliff's delta of each pair, `P(second higher) - P(first higher)`, shape `(P, B)`."""
    return net_wins(groups, pairs) / _products(groups, pairs)


def standardized_wins(groups: Groups, pairs: Pairs) -> FloatArray:
    """Return the Mann-Whitney U of each pair, standardized given the ties between the two groups.

    `(U - n_i n_j / 2) / sqrt(V)`, positive where the second group is higher; 0 if V is zero (all
    scores of the pair are equal).

    Args:
        groups: k groups of shape `(n_i, B)`.
        pairs: P pairs of group indices.

    Returns:
        Standardized statistics, shape `(P, B)`.
    """
    return standardize(net_wins(groups, pairs) / 2, null_variances(groups, pairs))


def null_variances(groups: Groups, pairs: Pairs) -> FloatArray:
    """Return the variance of the Mann-Whitney U of each pair given the ties between its groups.

    Args:
        groups: k groups of shape `(n_i, B)`.
        pairs: P pairs of group indices.

    Returns:
        Variances, shape `(P, B)`, or `(P, 1)` if no two scores are tied.
    """
    total = np.array([[groups[i].shape[0] + groups[j].shape[0]] for i, j in pairs], dtype=float)
    untied = total**3 - total - _tie_sums(groups, pairs)
    return _products(groups, pairs) / (12 * total * (total - 1)) * untied


def standardize(deviation: FloatArray, variance: FloatArray) -> FloatArray:
    """Return `deviation / sqrt(variance)`, and 0 where the variance is zero."""
    scale = np.broadcast_to(np.sqrt(variance), deviation.shape)
    return np.divide(deviation, scale, out=np.zeros_like(deviation), where=scale > 0)


def num_arrangements(sizes: Sequence[int]) -> int:
    """Return the number of ways to assign the pooled scores, `N! / (n_1! ... n_k!)`.

    Args:
        sizes: k group sizes.

    Returns:
        The multinomial coefficient.
    """
    totals = itertools.accumulate(sizes)
    return math.prod(math.comb(n, size) for n, size in zip(totals, sizes, strict=True))


def permutation_maxima(
    groups: Groups, pairs: Pairs, permutations: int | None = None, seed: int = 0
) -> FloatArray:
    """Return the largest absolute statistic of all pairs in each arrangement of the pooled scores.

    Args:
        groups: The observed arrangement, `(n_i, 1)` each.
        pairs: P pairs of group indices.
        permutations: Number of random arrangements; None for all arrangements.
        seed: Seed of the random arrangements.

    Returns:
        Sorted maxima, shape `(arrangements,)`; read-only, because the array is cached.
    """
    pooled = tuple(np.sort(np.concatenate(groups), axis=None).tolist())
    return _maxima(pooled, tuple(map(len, groups)), tuple(pairs), permutations, seed)


# Tasks without ties and with the same numbers of scores share one distribution.
@functools.lru_cache(maxsize=8)
def _maxima(
    pooled: tuple[int, ...],
    num_scores: tuple[int, ...],
    pairs: Pairs,
    permutations: int | None,
    seed: int,
) -> FloatArray:
    pool = np.array(pooled, dtype=np.min_scalar_type(pooled[-1]))
    rng = np.random.default_rng(seed)
    maxima = []
    for start, stop in chunks(permutations or _num_distinct(num_scores, pairs), pool.size):
        if permutations is None:
            groups = enumerated_groups(pool, num_scores, start, stop)
        else:
            groups = shuffled_groups(pool, num_scores, stop - start, rng)
        maxima.append(np.abs(standardized_wins(groups, pairs)).max(axis=0))
    largest = np.sort(np.concatenate(maxima))
    largest.flags.writeable = False
    return largest


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
    return _split(rng.permuted(np.tile(pool, (number, 1)), axis=1), sizes)


def _split(codes: Codes, sizes: Sequence[int]) -> Groups:
    """Split arrangements of shape `(B, N)` into groups of shape `(n_i, B)`."""
    return np.split(np.ascontiguousarray(codes.T), np.cumsum(sizes)[:-1])


def _num_distinct(sizes: Sequence[int], pairs: Pairs) -> int:
    """Return the number of arrangements to enumerate.

    With all pairs of equal groups the names of the groups do not matter: the arrangements in which
    the lowest score belongs to the first group, which come first, represent all others.
    """
    symmetric = len(set(sizes)) == 1 and len(pairs) == math.comb(len(sizes), 2)
    return num_arrangements(sizes) // (len(sizes) if symmetric else 1)


def permutation_pvalues(statistics: FloatArray, maxima: FloatArray, *, drawn: bool) -> FloatArray:
    """Return family-wise p: the share of arrangements with a maximum as large as the statistic.

    Args:
        statistics: Observed signed statistics.
        maxima: Result of `permutation_maxima`.
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


def _tie_sums(groups: Groups, pairs: Pairs) -> FloatArray | float:
    """Return the sum of `t^3 - t` over the distinct scores of each pair, with t occurrences."""
    tied = _tied_codes(groups)
    if tied.size == 0:
        return 0.0
    largest = max(groups[i].shape[0] + groups[j].shape[0] for i, j in pairs)
    dtype = np.min_scalar_type(largest**3)  # small types are faster
    counts = [(group == tied[:, None, None]).sum(axis=1, dtype=dtype) for group in groups]
    both = (counts[i] + counts[j] for i, j in pairs)  # (codes, B) each
    return np.array([(t * (t * t - 1)).sum(axis=0, dtype=dtype) for t in both], dtype=np.float64)


def _tied_codes(groups: Groups) -> Codes:
    """Return the codes that occur more than once (the same in all arrangements)."""
    codes, multiplicity = np.unique(
        np.concatenate([group[:, 0] for group in groups]), return_counts=True
    )
    return codes[multiplicity > 1]


def _products(groups: Groups, pairs: Pairs) -> FloatArray:
    return np.array([[groups[i].shape[0] * groups[j].shape[0]] for i, j in pairs], dtype=float)


def chunks(total: int, elements: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of arrangements, each with as many scores as fit into the CPU cache.

    Args:
        total: Number of arrangements.
        elements: Number of scores of an arrangement.
    """
    step = max(1, _CHUNK_ELEMENTS // elements)
    return ((start, min(start + step, total)) for start in range(0, total, step))
