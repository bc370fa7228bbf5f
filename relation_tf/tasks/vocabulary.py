"""Text to token ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal, Self

import numpy as np
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from relation_tf.tasks.rows import Ragged

PADDING, UNKNOWN = "[PAD]", "[UNK]"

WORDPIECES = 8000
"""Ids of a WordPiece vocabulary for which no size is given."""

_CHARACTERS = 1000  # that a WordPiece vocabulary spells words with, as in BERT's
_CHUNK = 10_000  # texts encoded at once: the encodings of a whole set would take gigabytes


class Vocabulary:
    """Text to ids, 0 for padding, 1 for what is unknown; made by `Vocabulary.train`.

    `"word"`: lower case, words and punctuation apart. `"wordpiece"`: BERT's uncased way: lower case
    without accents, words split into the longest pieces that are known, `##` before those that go
    on with a word.

    Example:
        >>> vocabulary = Vocabulary.train(["It works, it does."])
        >>> vocabulary.size
        7
        >>> vocabulary.encode(["It WORKS?"]).pad(np.array([0])).tolist()
        [[2, 6, 1]]

    References:
        WordPiece: Wu et al. 2016, "Google's Neural Machine Translation System". BERT: Devlin et al.
        2019 (NAACL).
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        max_size: int | None = None,
        tokens: Literal["word", "wordpiece"] = "word",
    ) -> Self:
        """Make a vocabulary of a text; the same text gives the same ids in every process.

        Args:
            texts: The training text.
            max_size: Keep no more ids than this, padding and unknown included. By default every
                word has one, and there are `WORDPIECES` pieces.
            tokens: `"word"`, all words, the most frequent first; or `"wordpiece"`, the characters,
                each alone and inside a word, and then what merging the most frequent neighbours
                gives.

        Example:
            >>> pieces = Vocabulary.train(["low lower lowest new newer"], tokens="wordpiece")
            >>> words = {i: piece for piece, i in pieces.words.items()}
            >>> [words[i] for i in pieces.encode(["Newest!"]).ids]
            ['ne', '##we', '##s', '##t', '[UNK]']
        """
        if tokens == "wordpiece":
            return cls(_train_pieces(list(texts), max_size))
        return cls(_train_words(texts, max_size))

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


def _train_words(texts: Iterable[str], max_size: int | None) -> Tokenizer:
    split = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()]
    )
    trainer = trainers.WordLevelTrainer(
        vocab_size=max_size or 2**31 - 1,
        special_tokens=[PADDING, UNKNOWN],
        show_progress=False,
    )
    return _train(models.WordLevel, normalizers.Lowercase(), split, texts, trainer)


def _train_pieces(texts: Sequence[str], max_size: int | None) -> Tokenizer:
    """Train WordPiece so that the outcome does not depend on the process.

    Left alone, `tokenizers` numbers the pieces that go on with a word in the order of a hash map
    that differs from process to process (its issue 1794), and as pairs of equal frequency are
    merged in the order of their numbers, even the set of pieces differs. Here all characters,
    alone and inside a word, are special tokens of the training, whose numbers are given; from
    there on it is deterministic.
    """
    size = WORDPIECES if max_size is None else max_size
    normalizer, split = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    counts = Counter(
        character for text in texts for character in set(normalizer.normalize_str(text))
    )
    del counts[" "]
    frequent = sorted(counts, key=lambda character: (-counts[character], character))
    characters = sorted(frequent[: min(_CHARACTERS, max(0, size - 2) // 2)])
    # Punctuation is always split off.
    inner = [f"##{c}" for c in characters if len(split.pre_tokenize_str(f"a{c}")) == 1]
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        min_frequency=2,
        special_tokens=[PADDING, UNKNOWN, *characters, *inner],
        initial_alphabet=characters,
        limit_alphabet=len(characters),
        show_progress=False,
    )
    return _train(models.WordPiece, normalizer, split, texts, trainer)


def _train(
    model: Any, normalizer: Any, split: Any, texts: Iterable[str], trainer: Any
) -> Tokenizer:
    def tokenizer(*vocabulary: dict[str, int]) -> Tokenizer:
        made = Tokenizer(model(*vocabulary, unk_token=UNKNOWN))
        made.normalizer, made.pre_tokenizer = normalizer, split
        return made

    trained = tokenizer()
    trained.train_from_iterator(texts, trainer)
    # Anew, because a trained one takes special tokens for what they stand for where a text happens
    # to hold their letters.
    return tokenizer(trained.get_vocab())
