"""Rows of different lengths, kept end to end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np


@dataclass(frozen=True)
class Ragged:
    """Rows of token ids of different lengths, end to end.

    Attributes:
        ids: All ids, `int32`.
        offsets: Where each row starts, and the end of the last, `int64`.
    """

    ids: np.ndarray
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> np.ndarray:
        """The number of ids of each row."""
        return np.diff(self.offsets)

    def pad(self, rows: np.ndarray) -> np.ndarray:
        """Some rows as one array, 0 behind their ends.

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
    """Rows of text, for networks that read text themselves.

    Attributes:
        data: The UTF-8 bytes of all rows, `uint8`.
        offsets: Where each row starts, and the end of the last, `int64`.
    """

    data: np.ndarray
    offsets: np.ndarray

    @classmethod
    def join(cls, texts: Iterable[str]) -> Self:
        """Take some texts, a row each."""
        rows = [text.encode() for text in texts]
        offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        return cls(np.frombuffer(b"".join(rows), np.uint8), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> np.ndarray:
        """The number of characters of each row."""
        # All bytes but the first of a character are 0b10xxxxxx.
        starts = np.concatenate([[0], np.cumsum(self.data & 0xC0 != 0x80)])
        return np.diff(starts[self.offsets])

    def pad(self, rows: np.ndarray) -> np.ndarray:
        """Some rows as one array; text needs no padding.

        Returns:
            Array of `str` objects of shape `(rows,)`.

        Example:
            >>> Texts.join(["So good.", "Naïve"]).pad(np.array([1, 0])).tolist()
            ['Naïve', 'So good.']
        """
        texts = np.empty(len(rows), object)
        for i, row in enumerate(rows):
            start, end = self.offsets[row : row + 2]
            texts[i] = self.data[start:end].tobytes().decode()
        return texts
