"""Rank statistics of many arrangements at once, and their joint permutation p.

An arrangement deals the pooled scores to the groups. The scores are their dense ranks, in the
smallest integers that hold them, and the arrangements lie along the last axis: `groups[i]` of shape
`(n_i, B)` holds what group i got in each of B arrangements.
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
_CHUNK_ELEMENTS = 2**16  # scores dealt at once: the comparisons of a pair stay in the cache
_ROUNDING = 1e-9  # statistics this close are equal

Codes: TypeAlias = NDArray[np.integer[Any]]
Groups: TypeAlias = Sequence[Codes]
Pairs: TypeAlias = Sequence[tuple[int, int]]


def index_pairs(num_groups: int, against_first: bool = False) -> Pairs:
    """Return all pairs of groups, row by row, or only those with the first group."""
    return list(itertools.combinations(range(num_groups), 2))[
        : num_groups - 1 if against_first else None
    ]


def observed_groups(ranked: RankedSamples) -> Groups:
    """The one arrangement that was observed, `(n_i, 1)` for each group."""
    codes = list(ranked.codes.values())
    dtype = np.min_scalar_type(max(int(group.max()) for group in codes))
    return [group.astype(dtype)[:, None] for group in codes]


def net_wins(groups: Groups, pairs: Pairs) -> FloatArray:
    """How often the second group of a pair is higher, less how often it is lower.

    Args:
        groups: k groups of shape `(n_i, B)`.
        pairs: P pairs of their numbers.

    Returns:
        Counts from `-n_i n_j` to `n_i n_j`, shape `(P, B)`.
    """
    tied = _tied_codes(groups).size > 0
    wins = np.empty((len(pairs), groups[0].shape[1]))
    for row, (i, j) in zip(wins, pairs, strict=True):
        first, second = groups[i][:, None], groups[j]
        product = groups[i].shape[0] * second.shape[0]
        dtype = np.min_scalar_type(product)
        row[:] = (first < second).sum(axis=(0, 1), dtype=dtype)
        row -= (first > second).sum(axis=(0, 1), dtype=dtype) if tied else product - row
    return wins


def dominance(groups: Groups, pairs: Pairs) -> FloatArray:
    """Cliff's delta of every pair, `P(second higher) - P(first higher)`, shape `(P, B)`."""
    return net_wins(groups, pairs) / _products(groups, pairs)


def standardized_wins(groups: Groups, pairs: Pairs) -> FloatArray:
    """Mann-Whitney's U of every pair, standardized given the ties between the two groups.

    `(U - n_i n_j / 2) / sqrt(V)`, positive where the second group is higher. Where V is zero (all
    scores of the pair are one value) it is 0.

    Args:
        groups: k groups of shape `(n_i, B)`.
        pairs: P pairs of their numbers.

    Returns:
        Shape `(P, B)`.
    """
    product = _products(groups, pairs)
    total = np.array([[groups[i].shape[0] + groups[j].shape[0]] for i, j in pairs], dtype=float)
    variance = product / (12 * total * (total - 1)) * (total**3 - total - _tie_sums(groups, pairs))
    deviation = net_wins(groups, pairs) / 2
    return np.divide(deviation, np.sqrt(variance), out=np.zeros_like(deviation), where=variance > 0)


def num_arrangements(sizes: NDArray[np.intp]) -> int:
    """Counts the ways to deal the pooled scores, `N! / (n_1! ... n_k!)`.

    Args:
        sizes: Group sizes, shape `(k,)`.

    Returns:
        The multinomial coefficient.
    """
    totals = np.cumsum(sizes).tolist()
    return math.prod(math.comb(n, size) for n, size in zip(totals, sizes.tolist(), strict=True))


def permutation_maxima(
    groups: Groups, pairs: Pairs, permutations: int | None = None, seed: int = 0
) -> FloatArray:
    """Return the largest absolute statistic of all pairs in each arrangement of the pooled scores.

    Args:
        groups: The observed arrangement, `(n_i, 1)` each.
        pairs: P pairs of their numbers.
        permutations: Number of random arrangements; None for all arrangements there are.
        seed: Seed of the random arrangements.

    Returns:
        The maxima, sorted, shape `(arrangements,)`; read-only, as equal ranks share them.
    """
    pooled = tuple(np.sort(np.concatenate(groups), axis=None).tolist())
    return _maxima(pooled, tuple(map(len, groups)), tuple(pairs), permutations, seed)


# Tasks without ties that have as many scores of each method share one distribution.
@functools.lru_cache(maxsize=8)
def _maxima(
    pooled: tuple[int, ...],
    num_scores: tuple[int, ...],
    pairs: Pairs,
    permutations: int | None,
    seed: int,
) -> FloatArray:
    pool, sizes = np.array(pooled, dtype=np.min_scalar_type(pooled[-1])), np.array(num_scores)
    rng = np.random.default_rng(seed)
    maxima = []
    for start, stop in _chunks(permutations or num_arrangements(sizes), pool.size):
        if permutations is None:
            # A stable sort of labels lists the places of the first label, then of the second ...
            labels = arrangements(sizes, np.arange(start, stop))
            codes = pool[np.argsort(labels, axis=1, kind="stable")]
        else:
            codes = rng.permuted(np.tile(pool, (stop - start, 1)), axis=1)
        groups = np.split(np.ascontiguousarray(codes.T), np.cumsum(sizes)[:-1])
        maxima.append(np.abs(standardized_wins(groups, pairs)).max(axis=0))
    largest = np.sort(np.concatenate(maxima))
    largest.flags.writeable = False
    return largest


def permutation_pvalues(statistics: FloatArray, maxima: FloatArray, *, drawn: bool) -> FloatArray:
    """Return family-wise p: how many arrangements have any pair that reaches a statistic.

    Args:
        statistics: Observed statistics, with their signs.
        maxima: The result of `permutation_maxima`.
        drawn: If True, the arrangements are random, and the observed one is counted too,
            `(1 + #) / (B + 1)`.

    Returns:
        p, of the shape of the statistics.
    """
    reached = maxima.size - np.searchsorted(maxima, np.abs(statistics) - _ROUNDING)
    return (reached + drawn) / (maxima.size + drawn)


def arrangements(sizes: NDArray[np.intp], numbers: NDArray[np.intp]) -> Codes:
    """Label arrangements by their number in lexicographic order.

    Args:
        sizes: How often each label occurs, shape `(k,)`.
        numbers: Integers from 0 to `num_arrangements(sizes) - 1`, shape `(B,)`.

    Returns:
        Labels from 0 to k - 1, shape `(B, N)`.
    """
    num_labels = int(sizes.sum())
    labels = np.empty((num_labels, numbers.size), dtype=np.min_scalar_type(sizes.size))
    columns = np.arange(numbers.size)
    offset = numbers.copy()
    left = np.tile(sizes[:, None], numbers.size)  # (k, B): labels still to be dealt
    ways = np.full(numbers.size, num_arrangements(sizes))  # (B,): of dealing them
    for place in range(num_labels):
        # Of all ways to go on, the part that starts with a label is that label's share of the rest.
        ways_with = ways * left // (num_labels - place)
        ends = np.cumsum(ways_with, axis=0)
        label = (offset >= ends).sum(axis=0)
        labels[place] = label
        ways = ways_with[label, columns]
        offset -= ends[label, columns] - ways
        left[label, columns] -= 1
    return labels.T


def _tie_sums(groups: Groups, pairs: Pairs) -> FloatArray | float:
    """Sum of `t^3 - t` over the distinct scores of every pair, t being both groups' count."""
    tied = _tied_codes(groups)
    if tied.size == 0:
        return 0.0
    counts = [(group == tied[:, None, None]).sum(axis=1, dtype=np.float64) for group in groups]
    both = (counts[i] + counts[j] for i, j in pairs)  # (codes, B) each
    return np.array([(t * (t * t - 1)).sum(axis=0) for t in both])


def _tied_codes(groups: Groups) -> Codes:
    """The codes that occur more than once, the same in all arrangements."""
    codes, multiplicity = np.unique(
        np.concatenate([group[:, 0] for group in groups]), return_counts=True
    )
    return codes[multiplicity > 1]


def _products(groups: Groups, pairs: Pairs) -> FloatArray:
    return np.array([[groups[i].shape[0] * groups[j].shape[0]] for i, j in pairs], dtype=float)


def _chunks(total: int, elements: int) -> Iterator[tuple[int, int]]:
    step = max(1, _CHUNK_ELEMENTS // elements)
    return ((start, min(start + step, total)) for start in range(0, total, step))
