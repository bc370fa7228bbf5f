"""Concatenated storage of rows with different lengths."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Sequence
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


@dataclass(frozen=True)
class Texts:
    """Rows of text, for networks that tokenize text themselves.

    Attributes:
        data: UTF-8 bytes of all rows, `uint8`.
        offsets: Start of each row, and the end of the last row, `int64`.
    """

    data: np.ndarray
    offsets: np.ndarray

    @classmethod
    def join(cls, texts: Iterable[str]) -> Self:
        """Concatenate texts, one row per text."""
        rows = [text.encode() for text in texts]
        offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        return cls(np.frombuffer(b"".join(rows), np.uint8), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @functools.cached_property
    def lengths(self) -> np.ndarray:
        """Number of characters of each row."""
        return np.array([len(self._text(row)) for row in range(len(self))], np.int64)

    def pad(self, rows: np.ndarray) -> np.ndarray:
        """Return some rows as one array, without padding.

        Returns:
            Array of `str` objects of shape `(rows,)`.

        Example:
            >>> Texts.join(["So good.", "Naïve"]).pad(np.array([1, 0])).tolist()
            ['Naïve', 'So good.']
        """
        texts = np.empty(len(rows), object)
        texts[:] = [self._text(row) for row in rows]
        return texts

    def _text(self, row: int) -> str:
        return self.data[self.offsets[row] : self.offsets[row + 1]].tobytes().decode()
