"""Text to token ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

PADDING, UNKNOWN = "[PAD]", "[UNK]"

_CHUNK = 10_000  # texts encoded at once: the encodings of a whole set would take gigabytes


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


class Vocabulary:
    """Words to ids: lower case, words and punctuation apart, 0 for padding, 1 for unknown words.

    Example:
        >>> vocabulary = Vocabulary.train(["It works, it does."])
        >>> vocabulary.size
        7
        >>> vocabulary.encode(["It WORKS?"]).pad(np.array([0])).tolist()
        [[2, 6, 1]]
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    @classmethod
    def train(cls, texts: Iterable[str], max_size: int | None = None) -> Self:
        """Take every word of the texts, the most frequent first.

        Args:
            texts: The training text.
            max_size: Keep no more ids than this, padding and unknown included.
        """
        tokenizer = Tokenizer(models.WordLevel({PADDING: 0, UNKNOWN: 1}, unk_token=UNKNOWN))
        tokenizer.normalizer = normalizers.Lowercase()
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()]
        )
        trainer = trainers.WordLevelTrainer(
            vocab_size=max_size or 2**31 - 1,
            special_tokens=[PADDING, UNKNOWN],
            show_progress=False,
        )
        tokenizer.train_from_iterator(texts, trainer)
        return cls(tokenizer)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote."""
        return cls(Tokenizer.from_str(text))

    def to_json(self) -> str:
        """The vocabulary in the format of the `tokenizers` package."""
        return self._tokenizer.to_str()

    @property
    def size(self) -> int:
        """The number of ids, padding and unknown included."""
        return self._tokenizer.get_vocab_size()

    @property
    def words(self) -> dict[str, int]:
        """The id of each word."""
        return self._tokenizer.get_vocab()

    def encode(self, texts: Sequence[str], max_length: int | None = None) -> Ragged:
        """Encode texts, on all cores.

        Args:
            texts: The texts.
            max_length: Keep no more than the first so many ids of each.
        """
        ids: list[np.ndarray] = []
        lengths: list[np.ndarray] = []
        for start in range(0, len(texts), _CHUNK):
            encodings = self._tokenizer.encode_batch_fast(list(texts[start : start + _CHUNK]))
            rows = [encoding.ids[:max_length] for encoding in encodings]
            lengths.append(np.fromiter(map(len, rows), np.int64, len(rows)))
            ids.append(np.fromiter((i for row in rows for i in row), np.int32))
        offsets = np.concatenate([[0], *lengths]).cumsum()
        return Ragged(np.concatenate([np.empty(0, np.int32), *ids]), offsets)
