"""Rows of different lengths, kept end to end."""

from __future__ import annotations

import functools
import mmap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self, overload

import numpy as np

_BLOCK = 1000  # texts whose characters are counted at once


@dataclass(frozen=True)
class Ragged:
    """Rows of token ids of different lengths, end to end.

    Attributes:
        ids: All ids, `int32`.
        offsets: Where each row starts, and the end of the last, `int64`.
    """

    ids: np.ndarray
    offsets: np.ndarray

    @classmethod
    def join(cls, parts: Iterable[Ragged]) -> Self:
        """The rows of all parts, one part after the other."""
        parts = list(parts)
        ids = np.concatenate([np.empty(0, np.int32), *(part.ids for part in parts)])
        lengths = [part.lengths for part in parts]
        return cls(ids, np.concatenate([np.zeros(1, np.int64), *lengths]).cumsum())

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> np.ndarray:
        """The number of ids of each row."""
        return np.diff(self.offsets)

    def take(self, rows: np.ndarray) -> Ragged:
        """Some rows, in the order asked for.

        Example:
            >>> Ragged(np.array([5, 6, 7]), np.array([0, 1, 3])).take(np.array([1, 0, 0])).ids
            array([6, 7, 5, 5])
        """
        return self._gather(self.offsets[rows], self.lengths[rows])

    def first(self, count: int) -> Ragged:
        """No more than so many ids of each row.

        Example:
            >>> Ragged(np.array([5, 6, 7]), np.array([0, 1, 3])).first(1).ids
            array([5, 6])
        """
        return self._gather(self.offsets[:-1], np.minimum(self.lengths, count))

    def _gather(self, starts: np.ndarray, lengths: np.ndarray) -> Ragged:
        offsets = np.concatenate([[0], lengths.cumsum()])
        places = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
        return Ragged(self.ids[places], offsets)

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
        blocks = [np.zeros(0, np.int64)]
        for start in range(0, len(self), _BLOCK):
            offsets = self.offsets[start : start + _BLOCK + 1]
            data = self.data[offsets[0] : offsets[-1]]
            # All bytes but the first of a character are 0b10xxxxxx.
            before = np.concatenate([[0], np.cumsum(data & 0xC0 != 0x80)])
            blocks.append(np.diff(before[offsets - offsets[0]]))
        return np.concatenate(blocks)

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


@dataclass(frozen=True)
class FileTexts(Sequence[str]):
    r"""Texts that stay in their file until they are asked for.

    Attributes:
        path: The file.
        starts: Where each text starts, in bytes.
        ends: Where each text ends.
        text: What makes the text of its bytes; a function of a module, not of a call.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "lines.txt"
        >>> _ = path.write_bytes(b"so good\nnot so\n")
        >>> FileTexts(path, np.array([0, 8]), np.array([7, 14]), bytes.decode)[1]
        'not so'
    """

    path: Path
    starts: np.ndarray
    ends: np.ndarray
    text: Callable[[bytes], str]

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, row: int) -> str: ...

    @overload
    def __getitem__(self, row: slice) -> FileTexts: ...

    def __getitem__(self, row: int | slice) -> str | FileTexts:
        if isinstance(row, slice):
            return FileTexts(self.path, self.starts[row], self.ends[row], self.text)
        return self.text(self._bytes[self.starts[row] : self.ends[row]])

    def take(self, rows: np.ndarray) -> FileTexts:
        """Some of the texts, in the order asked for."""
        return FileTexts(self.path, self.starts[rows], self.ends[rows], self.text)

    @functools.cached_property
    def _bytes(self) -> mmap.mmap:
        with self.path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
