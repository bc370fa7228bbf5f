"""Assignment of rows to batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

Batching = Literal["length", "random"]


def plan_batches(
    lengths: np.ndarray, batch_size: int, seed: int, epoch: int, batching: Batching = "length"
) -> list[np.ndarray]:
    """Return the batches of one epoch, in order; random choices depend on (seed, epoch) only.

    With `batching="length"` rows of similar length share a batch, which reduces padding. The order
    of the batches, and of rows of equal length, changes with each epoch.

    Args:
        lengths: Number of tokens of each row, shape `(inputs, rows)`.
        batch_size: Rows per batch; the last batch of `"random"` and one of `"length"` may be
            smaller.
        seed: Seed of the run.
        epoch: Epoch, from 0.
        batching: `"length"` or `"random"`.

    Returns:
        Arrays of row numbers; each row is in exactly one array.

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
    """Return the padded width for a text length. XLA compiles once per shape.

    Widths are 8, 16, 24, 32, 48, 64, 96 ...: powers of two and, from 16 on, their midpoints.

    Args:
        length: Number of tokens of the longest text.

    Example:
        >>> [bucket(length) for length in (1, 9, 17, 25, 33, 49, 100)]
        [8, 16, 24, 32, 48, 64, 128]
    """
    power = 1 << max(length - 1, 7).bit_length()
    midway = power // 4 * 3
    return midway if power > 16 and length <= midway else power


def pad_to_bucket(ids: np.ndarray) -> np.ndarray:
    """Pad a batch to its bucket width.

    Example:
        >>> pad_to_bucket(np.array([[5, 6, 7]])).tolist()
        [[5, 6, 7, 0, 0, 0, 0, 0]]
    """
    width = ids.shape[1]
    return np.pad(ids, ((0, 0), (0, bucket(width) - width)))


def widths(
    lengths: np.ndarray, batches: Sequence[np.ndarray], *, buckets: bool = False
) -> np.ndarray:
    """Return the width of each batch, shape `(inputs, batches)`.

    Args:
        lengths: Number of tokens of each row, shape `(inputs, rows)`.
        batches: Row numbers of each batch, at least one.
        buckets: If True, batches are padded to their `bucket`.
    """
    starts = np.cumsum([0, *map(len, batches[:-1])])
    longest = np.maximum.reduceat(lengths[:, np.concatenate(batches)], starts, axis=1)
    return np.vectorize(bucket, otypes=[np.int64])(longest) if buckets else longest


def padded_tokens(
    lengths: np.ndarray, batches: Sequence[np.ndarray], *, buckets: bool = False
) -> int:
    """Return the number of tokens of the batches, with padding; same arguments as `widths`."""
    if not batches:
        return 0
    return int(widths(lengths, batches, buckets=buckets).sum(axis=0) @ [*map(len, batches)])


def padding_share(*plans: tuple[np.ndarray, Sequence[np.ndarray]], buckets: bool = False) -> float:
    """Return the share of padding in all tokens of the batches of some tasks, in [0, 1).

    Args:
        *plans: `lengths` and `batches` of each task, as in `widths`.
        buckets: If True, batches are padded to their `bucket`.
    """
    total = sum(padded_tokens(lengths, batches, buckets=buckets) for lengths, batches in plans)
    tokens = sum(float(lengths.sum()) for lengths, _ in plans)
    return 1.0 - tokens / total if total else 0.0


def evaluation_batches(
    lengths: np.ndarray, batch_size: int, max_tokens: int = 32_768
) -> list[np.ndarray]:
    """Return batches of all rows in a fixed order, the shortest first, with the least padding.

    Args:
        lengths: Number of tokens of each row, shape `(inputs, rows)`.
        batch_size: Largest number of rows per batch.
        max_tokens: Largest number of tokens per batch, including padding; it limits the memory.
            A row with more tokens gets its own batch.

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
    """Yield orders of rows with little padding between neighbors; the best depends on the lengths.

    Pairs are sorted by the larger of their two lengths. The function tries several weights of the
    second length, because the texts of a pair can have very different lengths.
    """
    if len(lengths) == 1:
        yield np.argsort(lengths[0], kind="stable")
        return
    # Group rows with the same two lengths: there are far fewer groups than rows to compare.
    first, second = lengths
    base = int(second.max(initial=0)) + 1
    codes, kind = np.unique(first * base + second, return_inverse=True)
    first, second = np.divmod(codes, base)
    for weight in 2.0 ** np.arange(-3, 3.5, 0.5):
        # Complex numbers are sorted by the real part, then by the imaginary part.
        keys = np.maximum(first, weight * second) + 1j * (first + second)
        rank = np.unique(keys, return_inverse=True)[1]
        # NumPy uses radix sort for small integers.
        rank = rank.astype(np.min_scalar_type(len(rank)))
        yield np.argsort(rank[kind], kind="stable")


def _cut(rows: np.ndarray, size: int) -> list[np.ndarray]:
    return [rows[start : start + size] for start in range(0, len(rows), size)]
