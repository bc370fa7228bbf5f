"""Which rows go into which batch."""

from __future__ import annotations

from collections.abc import Iterator
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


def padded_tokens(lengths: np.ndarray, batches: list[np.ndarray]) -> int:
    """How many tokens the batches hold, padding included."""
    return sum(len(rows) * int(lengths[:, rows].max(axis=1).sum()) for rows in batches)


def padding_share(lengths: np.ndarray, batches: list[np.ndarray]) -> float:
    """The share of padding in all tokens of the batches, in [0, 1)."""
    total = padded_tokens(lengths, batches)
    return 1.0 - float(lengths.sum()) / total if total else 0.0


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
    for weight in 2.0 ** np.arange(-3, 3.5, 0.5):
        longer = np.maximum(lengths[0], weight * lengths[1])
        yield np.lexsort((lengths.sum(axis=0), longer))


def _cut(rows: np.ndarray, size: int) -> list[np.ndarray]:
    return [rows[start : start + size] for start in range(0, len(rows), size)]
