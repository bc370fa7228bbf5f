"""Deterministic, stratified division of a split.

Rows are sorted by the SHA-256 of `"<SEED>:<row number>"`, and the first rows of each class are
taken. No random number generator is used: a file gives the same rows on every machine and with
every NumPy release. The seed of a run has no effect unless it is given: `"<SEED>:<seed>:<row>"`.
"""

from __future__ import annotations

import hashlib

import numpy as np

from relation_tf.errors import DataError
from relation_tf.tasks.task import TextSplit

SEED = 2022
"""Arbitrary constant; another value gives other rows."""


def cut(
    split: TextSplit, size: float, place: object = "the rows", seed: int | None = None
) -> tuple[TextSplit, TextSplit]:
    """Divide the rows of a split into two parts, stratified by class; the order is kept.

    The rows taken from each class are proportional to its size (largest remainders round up; for
    equal remainders the first class). Regression scores are one class.

    Args:
        split: Labelled rows; `index` has the row numbers.
        size: Number of rows to take (`int`), or their share in (0, 1) (`float`).
        place: Origin of the rows for error messages, such as their file.
        seed: Seed of the choice; None for the rows of the package's fixed choice.

    Returns:
        The remaining rows, and the rows taken.

    Raises:
        DataError: If one of the two parts is empty.

    Example:
        >>> labels = np.array([0, 1] * 10)
        >>> rows = TextSplit(([f"text {i}" for i in range(20)],), labels, np.arange(20))
        >>> rest, taken = cut(rows, 0.2)
        >>> len(rest), taken.labels.tolist()
        (16, [0, 0, 1, 1])
    """
    count = size if isinstance(size, int) else round(size * len(split))
    if not 0 < count < len(split):
        cut_off = f"{size} rows" if isinstance(size, int) else f"a share of {size} of its rows"
        raise DataError(
            f"{place}: must have enough rows to cut off {cut_off}. Received: {len(split)} rows"
        )
    digests = [_digest(row, seed) for row in split.index.tolist()]
    order = np.array(sorted(range(len(split)), key=digests.__getitem__))
    classes = _classes(split)[order]
    taken = np.zeros(len(split), bool)
    for label, quota in _quotas(classes, count).items():
        taken[order[classes == label][:quota]] = True
    return split.take(np.flatnonzero(~taken)), split.take(np.flatnonzero(taken))


def _digest(row: int, seed: int | None) -> bytes:
    key = f"{SEED}:{row}" if seed is None else f"{SEED}:{seed}:{row}"
    return hashlib.sha256(key.encode()).digest()


def _classes(split: TextSplit) -> np.ndarray:
    if split.labels is None or split.labels.dtype.kind == "f":
        return np.zeros(len(split), int)
    return split.labels


def _quotas(classes: np.ndarray, count: int) -> dict[int, int]:
    """Return the number of rows to take from each class, `count` in total."""
    labels, rows = np.unique(classes, return_counts=True)
    whole, remainder = np.divmod(count * rows, len(classes))
    largest = np.argsort(-remainder, kind="stable")[: count - whole.sum()]
    whole[largest] += 1
    return dict(zip(labels.tolist(), whole.tolist(), strict=True))
