"""Concatenated storage of rows with different lengths."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

PADDING, UNKNOWN, START = "[PAD]", "[UNK]", "[START]"
"""Special tokens of vocabularies; padding has the id 0."""


@dataclass(frozen=True)
class Ragged:
    """Concatenated rows of token ids with different lengths.

    Attributes:
        ids: All ids, `int32`.
        offsets: Start of each row, and the end of the last row, `int64`.
    """

    ids: np.ndarray
    offsets: np.ndarray

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> Self:
        """Return rows of ids.

        Example:
            >>> Ragged.of([[5], [6, 7]]).offsets
            array([0, 1, 3])
        """
        ids = np.array([*itertools.chain.from_iterable(rows)], np.int32)
        return cls(ids, np.cumsum([0, *map(len, rows)], dtype=np.int64))

    @classmethod
    def join(cls, parts: Iterable[Ragged]) -> Self:
        """Concatenate the rows of all parts."""
        parts = list(parts)
        ids = np.concatenate([np.empty(0, np.int32), *(part.ids for part in parts)])
        lengths = [part.lengths for part in parts]
        return cls(ids, np.concatenate([np.zeros(1, np.int64), *lengths]).cumsum())

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[bytes]:
        """Yield the bytes of the ids of each row."""
        for start, end in itertools.pairwise(self.offsets.tolist()):
            yield self.ids[start:end].tobytes()

    @property
    def lengths(self) -> np.ndarray:
        """Number of ids of each row."""
        return np.diff(self.offsets)

    def pad(self, rows: np.ndarray) -> np.ndarray:
        """Return some rows as one array, padded with 0.

        Returns:
            `int32` array of shape `(rows, longest)`, at least one column wide.

        Example:
            >>> Ragged(np.array([5, 6, 7]), np.array([0, 1, 3])).pad(np.array([1, 0])).tolist()
            [[6, 7], [5, 0]]
        """
        starts = self.offsets[rows]
        lengths = self.offsets[rows + 1] - starts
        column = np.arange(max(1, lengths.max(initial=0)))
        kept = column < lengths[:, None]
        padded = np.zeros(kept.shape, np.int32)
        padded[kept] = self.ids[(starts[:, None] + column)[kept]]
        return padded
