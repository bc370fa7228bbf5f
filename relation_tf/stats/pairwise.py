"""All-pairs rank statistics of many label arrangements at once, and their permutation p.

The pooled scores are sorted once; only labels are permuted. An arrangement is then a table
`counts` of shape `(arrangements, groups, distinct scores)`: how often a group has a score.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from relation_tf.stats.samples import FloatArray, RankedSamples

MAX_ARRANGEMENTS = 1_000_000
_CHUNK_ELEMENTS = 2**19  # elements of `counts` held at once: some MiB, near the processor's cache
_ROUNDING = 1e-9  # statistics this close are equal

Labels = NDArray[np.intp]


def observed_counts(ranked: RankedSamples) -> FloatArray:
    """Counts how often each group has each distinct score.

    Args:
        ranked: k groups with D distinct scores.

    Returns:
        The counts of the one arrangement that was observed, shape `(1, k, D)`.
    """
    distinct = 1 + max(int(codes.max()) for codes in ranked.codes.values())
    rows = [np.bincount(codes, minlength=distinct) for codes in ranked.codes.values()]
    return np.array([rows], dtype=np.float64)


def win_counts(counts: FloatArray) -> FloatArray:
    """Mann-Whitney's U of every pair: how often the column's group is higher, a tie counting half.

    Args:
        counts: Shape `(B, k, D)`.

    Returns:
        U, shape `(B, k, k)`.
    """
    below = np.cumsum(counts, axis=-1) - counts / 2
    return below @ counts.swapaxes(-1, -2)


def dominance(counts: FloatArray) -> FloatArray:
    """Cliff's delta of every pair: P(column higher) - P(row higher).

    Args:
        counts: Shape `(B, k, D)`.

    Returns:
        Deltas from -1 to 1, shape `(B, k, k)`.
    """
    sizes = counts.sum(axis=-1)
    return 2 * win_counts(counts) / (sizes[:, :, None] * sizes[:, None, :]) - 1


def standardized_wins(counts: FloatArray) -> FloatArray:
    """Steel-Dwass's W* of every pair, `sqrt(2) (U - n_i n_j / 2) / sqrt(V)`.

    V is the variance of U given the ties between the two groups. Where it is zero (all scores
    of the pair are one value), W* is 0.

    Args:
        counts: Shape `(B, k, D)`.

    Returns:
        W*, positive where the column's group is higher, shape `(B, k, k)`.
    """
    sizes = counts[0].sum(axis=-1)  # (k,), the same in all arrangements
    product = sizes[:, None] * sizes
    total = sizes[:, None] + sizes
    variance = product / (12 * total * (total - 1)) * (total**3 - total - _tie_sums(counts))
    deviation = math.sqrt(2) * (win_counts(counts) - product / 2)
    return np.divide(deviation, np.sqrt(variance), out=np.zeros_like(deviation), where=variance > 0)


def num_arrangements(sizes: NDArray[np.intp]) -> int:
    """Counts the ways to deal labels to the pooled scores, `N! / (n_1! ... n_k!)`.

    Args:
        sizes: Group sizes, shape `(k,)`.

    Returns:
        The multinomial coefficient.
    """
    totals = np.cumsum(sizes).tolist()
    return math.prod(math.comb(n, size) for n, size in zip(totals, sizes.tolist(), strict=True))


def exact_pvalues(counts: FloatArray) -> FloatArray:
    """Joint permutation p of every pair from all arrangements.

    Args:
        counts: The observed arrangement, shape `(1, k, D)`.

    Returns:
        P(the largest |W*| of all pairs >= this pair's |W*|), shape `(k, k)`.
    """
    sizes = counts[0].sum(axis=-1).astype(np.intp)
    total = num_arrangements(sizes)
    chunks = (
        arrangements(sizes, np.arange(start, stop))
        for start, stop in _chunks(total, counts[0].size)
    )
    return _reached(counts, chunks) / total


def monte_carlo_pvalues(counts: FloatArray, permutations: int, seed: int) -> FloatArray:
    """Joint permutation p of every pair from random arrangements and the observed one.

    Args:
        counts: The observed arrangement, shape `(1, k, D)`.
        permutations: Number of random arrangements B.
        seed: Seed of the random arrangements.

    Returns:
        `(1 + #{largest |W*| >= this pair's |W*|}) / (B + 1)`, shape `(k, k)`.
    """
    rng = np.random.default_rng(seed)
    sizes = counts[0].sum(axis=-1).astype(np.intp)
    labels = np.repeat(np.arange(sizes.size), sizes)
    chunks = (
        rng.permuted(np.tile(labels, (stop - start, 1)), axis=1)
        for start, stop in _chunks(permutations, counts[0].size)
    )
    return (1 + _reached(counts, chunks)) / (permutations + 1)


def arrangements(sizes: NDArray[np.intp], numbers: NDArray[np.intp]) -> Labels:
    """Label arrangements by their number in lexicographic order.

    Args:
        sizes: How often each label occurs, shape `(k,)`.
        numbers: Integers from 0 to `num_arrangements(sizes) - 1`, shape `(B,)`.

    Returns:
        Labels from 0 to k - 1, shape `(B, N)`.
    """
    num_labels = int(sizes.sum())
    labels = np.empty((numbers.size, num_labels), dtype=np.intp)
    rows = np.arange(numbers.size)
    offset = numbers.copy()
    left = np.tile(sizes, (numbers.size, 1))  # (B, k): labels still to be dealt
    ways = np.full(numbers.size, num_arrangements(sizes))  # (B,): of dealing them
    for place in range(num_labels):
        # Of all ways to go on, the part that starts with a label is that label's share of the rest.
        ways_with = ways[:, None] * left // (num_labels - place)
        ends = np.cumsum(ways_with, axis=1)
        label = (offset[:, None] >= ends).sum(axis=1)
        labels[:, place] = label
        ways = ways_with[rows, label]
        offset -= ends[rows, label] - ways
        left[rows, label] -= 1
    return labels


def _tie_sums(counts: FloatArray) -> FloatArray | float:
    """Sum of `t^3 - t` over the distinct scores of every pair, t being both groups' count."""
    tied = counts[:, :, counts[0].sum(axis=0) > 1]
    if tied.size == 0:
        return 0.0
    cubes = (tied**3 - tied).sum(axis=-1)
    mixed = tied**2 @ tied.swapaxes(-1, -2)
    return cubes[:, :, None] + cubes[:, None, :] + 3 * (mixed + mixed.swapaxes(-1, -2))


def _reached(counts: FloatArray, chunks: Iterator[Labels]) -> NDArray[np.intp]:
    """For every pair, in how many arrangements any pair reaches its |W*|; shape `(k, k)`."""
    multiplicity = counts[0].sum(axis=0).astype(np.intp)  # (D,): how often a score occurs
    groups = np.arange(counts.shape[1])[:, None]
    starts = np.cumsum(multiplicity) - multiplicity
    maxima = []
    for labels in chunks:
        permuted = (labels[:, None, :] == groups).astype(np.float64)  # (B, k, N)
        if multiplicity.max() > 1:
            permuted = np.add.reduceat(permuted, starts, axis=-1)  # (B, k, D)
        maxima.append(np.abs(standardized_wins(permuted)).max(axis=(1, 2)))
    ordered = np.sort(np.concatenate(maxima))
    observed = np.abs(standardized_wins(counts)[0])
    return ordered.size - np.searchsorted(ordered, observed - _ROUNDING)


def _chunks(total: int, elements: int) -> Iterator[tuple[int, int]]:
    step = max(1, _CHUNK_ELEMENTS // elements)
    return ((start, min(start + step, total)) for start in range(0, total, step))
