"""Splits that are cut from others, always the same rows.

Rows are put in the order of the SHA-256 of `"<SEED>:<row number>"`, and of each class the first
ones are taken. So no random number generator has a part in it: the same file gives the same rows
whatever the machine, the release of NumPy and the seed of the run.
"""

from __future__ import annotations

import hashlib

import numpy as np

from relation_tf.errors import DataError
from relation_tf.tasks.task import TextSplit

SEED = 2022
"""Any number would do, but another one gives other rows."""


def cut(split: TextSplit, size: float, place: object = "the rows") -> tuple[TextSplit, TextSplit]:
    """Divide the rows of a split; each part keeps their order.

    Each class gives in proportion to its rows (the largest remainders round up, of equal ones the
    first class); scores count as one class.

    Args:
        split: Labelled rows; `index` holds the row numbers that decide.
        size: How many rows to take: a count (`int`), or a share of all in (0, 1) (`float`).
        place: Where the rows are from, such as their file, for the message.

    Returns:
        The rows that are left, and the rows taken.

    Raises:
        DataError: If one of the two would be empty.

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
    digests = [_digest(row) for row in split.index.tolist()]
    order = np.array(sorted(range(len(split)), key=digests.__getitem__))
    classes = _classes(split)[order]
    taken = np.zeros(len(split), bool)
    for label, quota in _quotas(classes, count).items():
        taken[order[classes == label][:quota]] = True
    return split.take(np.flatnonzero(~taken)), split.take(np.flatnonzero(taken))


def _digest(row: int) -> bytes:
    return hashlib.sha256(f"{SEED}:{row}".encode()).digest()


def _classes(split: TextSplit) -> np.ndarray:
    if split.labels is None or split.labels.dtype.kind == "f":
        return np.zeros(len(split), int)
    return split.labels


def _quotas(classes: np.ndarray, count: int) -> dict[int, int]:
    """Return the number of rows that each class gives, `count` in all."""
    labels, rows = np.unique(classes, return_counts=True)
    whole, remainder = np.divmod(count * rows, len(classes))
    largest = np.argsort(-remainder, kind="stable")[: count - whole.sum()]
    whole[largest] += 1
    return dict(zip(labels.tolist(), whole.tolist(), strict=True))
