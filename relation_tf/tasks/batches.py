"""Which rows go into which batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

Batching = Literal["length", "random"]


def plan_batches(
    lengths: np.ndarray, batch_size: int, seed: int, epoch: int, batching: Batching = "length"
) -> list[np.ndarray]:
    """The batches of one epoch, in order; (seed, epoch) decides everything that is random.

    With `batching="length"` rows of like length share a batch, so that little is padded; rows of
    equal length change places from epoch to epoch, and so does the order of the batches.

    Args:
        lengths: The tokens of each row, of shape `(inputs, rows)`.
        batch_size: Rows a batch; the last one of `"random"` and one of `"length"` may be smaller.
        seed: The run's seed.
        epoch: The epoch, from 0.
        batching: `"length"` or `"random"`.

    Returns:
        Arrays of row numbers; every row is in exactly one.

    Example:
        >>> [batch.tolist() for batch in plan_batches(np.array([[3, 9, 3, 8]]), 2, seed=0, epoch=0)]
        [[3, 1], [2, 0]]
    """
    generator = np.random.default_rng([seed, epoch])
    order = generator.permutation(lengths.shape[1])
    if batching == "random":
        return _cut(order, batch_size)
    batches = min(
        (_cut(order[rows], batch_size) for rows in _by_length(lengths[:, order])),
        key=lambda plan: padded_tokens(lengths, plan),
    )
    return [batches[i] for i in generator.permutation(len(batches))]


def bucket(length: int) -> int:
    """The width that a text of a length is padded to for XLA, which compiles per shape.

    Widths are 8, 16, 24, 32, 48, 64, 96 ...: powers of two, and from 16 on what is midway between.

    Args:
        length: Tokens of the longest text.

    Example:
        >>> [bucket(length) for length in (1, 9, 17, 25, 33, 49, 100)]
        [8, 16, 24, 32, 48, 64, 128]
    """
    power = 1 << max(length - 1, 7).bit_length()
    midway = power // 4 * 3
    return midway if power > 16 and length <= midway else power


def pad_to_bucket(ids: np.ndarray) -> np.ndarray:
    """Widen a batch to its bucket.

    Example:
        >>> pad_to_bucket(np.array([[5, 6, 7]])).tolist()
        [[5, 6, 7, 0, 0, 0, 0, 0]]
    """
    width = ids.shape[1]
    return np.pad(ids, ((0, 0), (0, bucket(width) - width)))


def widths(
    lengths: np.ndarray, batches: Sequence[np.ndarray], *, buckets: bool = False
) -> np.ndarray:
    """Return the width of each batch, `(inputs, batches)`.

    Args:
        lengths: The tokens of each row, of shape `(inputs, rows)`.
        batches: Row numbers, one or more a batch.
        buckets: Whether batches are padded up to their `bucket`.
    """
    starts = np.cumsum([0, *map(len, batches[:-1])])
    longest = np.maximum.reduceat(lengths[:, np.concatenate(batches)], starts, axis=1)
    return np.vectorize(bucket, otypes=[np.int64])(longest) if buckets else longest


def padded_tokens(
    lengths: np.ndarray, batches: Sequence[np.ndarray], *, buckets: bool = False
) -> int:
    """Return the number of tokens of the batches with padding; arguments as of `widths`."""
    if not batches:
        return 0
    return int(widths(lengths, batches, buckets=buckets).sum(axis=0) @ [*map(len, batches)])


def padding_share(*plans: tuple[np.ndarray, Sequence[np.ndarray]], buckets: bool = False) -> float:
    """The share of padding in all tokens of the batches of some tasks, in [0, 1).

    Args:
        *plans: For each task `lengths` and `batches`, as of `widths`.
        buckets: As of `widths`.
    """
    total = sum(padded_tokens(lengths, batches, buckets=buckets) for lengths, batches in plans)
    tokens = sum(float(lengths.sum()) for lengths, _ in plans)
    return 1.0 - tokens / total if total else 0.0


def evaluation_batches(
    lengths: np.ndarray, batch_size: int, max_tokens: int = 32_768
) -> list[np.ndarray]:
    """All rows, the shortest first: the least padding, always in the same order.

    Args:
        lengths: The tokens of each row, of shape `(inputs, rows)`.
        batch_size: The most rows a batch.
        max_tokens: The most tokens a batch, padding included, unless one row has more: a mechanism
            that computes all tokens holds many numbers for each.

    Example:
        >>> [batch.tolist() for batch in evaluation_batches(np.array([[3, 9, 2, 8]]), 3, 16)]
        [[2, 0], [3], [1]]
    """
    order = np.argsort(lengths.sum(axis=0), kind="stable")
    longest = np.maximum.accumulate(lengths[:, order], axis=1).sum(axis=0)
    batches = []
    start = 0
    while start < len(order):
        tokens = longest[start : start + batch_size]
        size = max(1, int(np.sum(tokens * np.arange(1, len(tokens) + 1) <= max_tokens)))
        batches.append(order[start : start + size])
        start += size
    return batches


def _by_length(lengths: np.ndarray) -> Iterator[np.ndarray]:
    """Orders of rows in which neighbours pad each other little; which is best the lengths decide.

    A pair is as long as the longer of its texts. How a token of the one weighs against a token of
    the other is tried out, since the texts of a pair may be of very different lengths.
    """
    if len(lengths) == 1:
        yield np.argsort(lengths[0], kind="stable")
        return
    # Rows of the same two lengths are one kind; there are far fewer kinds than rows to compare.
    first, second = lengths
    base = int(second.max(initial=0)) + 1
    codes, kind = np.unique(first * base + second, return_inverse=True)
    first, second = np.divmod(codes, base)
    for weight in 2.0 ** np.arange(-3, 3.5, 0.5):
        # Complex numbers are ordered by their real part, then by the other.
        keys = np.maximum(first, weight * second) + 1j * (first + second)
        rank = np.unique(keys, return_inverse=True)[1]
        # NumPy sorts the smallest integers without comparing them.
        rank = rank.astype(np.min_scalar_type(len(rank)))
        yield np.argsort(rank[kind], kind="stable")


def _cut(rows: np.ndarray, size: int) -> list[np.ndarray]:
    return [rows[start : start + size] for start in range(0, len(rows), size)]
