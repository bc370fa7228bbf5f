"""Vocabularies: conversion of text to token ids."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from relation_tf.errors import DataError, reason_of
from relation_tf.files import read_bytes
from relation_tf.tasks.rows import PADDING, START, UNKNOWN, Ragged

WORDPIECES = 8000
"""Default size of a WordPiece vocabulary."""

_KINDS: Mapping[type, Literal["word", "wordpiece"]] = {
    models.WordLevel: "word",
    models.WordPiece: "wordpiece",
}
_CHARACTERS = 1000  # largest number of characters in a WordPiece vocabulary, as in BERT
_PART = 2**20  # characters encoded at once
_WORDS = 500_000  # words whose ids are kept, about 100 MB


class Vocabulary:
    """Vocabulary of words or word pieces; id 0 is padding. See `Vocabulary.train`.

    `"word"`: lower case, punctuation split from words; id 1 is unknown. `"wordpiece"`: as uncased
    BERT: lower case without accents, words are split into the longest known pieces, with `##`
    before pieces inside a word; id 1 is unknown.

    Example:
        >>> vocabulary = Vocabulary.train(["It works, it does."])
        >>> vocabulary.size
        7
        >>> vocabulary.encode(["It WORKS?"]).ids.tolist()
        [2, 6, 1]

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
        *,
        start_token: bool = False,
        spaced: bool = False,
    ) -> Self:
        """Build a vocabulary from a text; the same text gives the same ids in every process.

        Args:
            texts: Training text; `"wordpiece"` iterates over it twice.
            max_size: Largest number of ids, including padding and unknown. Default: all words, or
                `WORDPIECES` pieces.
            tokens: `"word"`: all words, the most frequent first. `"wordpiece"`: all characters, at
                the start of and inside a word, then merges of the most frequent neighbors.
            start_token: If True, each encoded text begins with `[START]` (id 2).
            spaced: If True, words are already divided by spaces: punctuation within words is kept
                (`"wordpiece"` splits it in any case).

        Raises:
            TypeError: If `texts` is an iterator and `tokens` is `"wordpiece"`.

        Example:
            >>> pieces = Vocabulary.train(["low lower lowest new newer"], tokens="wordpiece")
            >>> words = {i: piece for piece, i in pieces.words.items()}
            >>> [words[i] for i in pieces.encode(["Newest!"]).ids]
            ['ne', '##we', '##s', '##t', '[UNK]']
        """
        special = [PADDING, UNKNOWN, START] if start_token else [PADDING, UNKNOWN]
        if tokens == "wordpiece":
            if isinstance(texts, Iterator):
                raise TypeError(f"texts must be iterable twice. Received: texts={texts!r}")
            return cls(_train_pieces(texts, max_size, special))
        return cls(_train_words(texts, max_size, special, spaced))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a vocabulary from the output of `to_json`.

        A WordPiece vocabulary of another program can also be read, such as that of uncased BERT.
        Its truncation, padding and special tokens around a text are ignored.

        Raises:
            ValueError: If it has no padding with id 0, has an id that is not below the number of
                words, or is of another kind, such as BPE.
        """
        tokenizer = Tokenizer.from_str(text)
        tokenizer.no_truncation()
        tokenizer.no_padding()
        ids, model = tokenizer.get_vocab(), tokenizer.model
        if type(model) not in _KINDS:
            raise ValueError(
                f"its model must be WordLevel or WordPiece. Received: {type(model).__name__}"
            )
        if model.unk_token not in ids:
            raise ValueError(f"its unknown word {model.unk_token!r} is missing")
        if ids.get(PADDING) != 0:
            raise ValueError(f"{PADDING} must have id 0. Received: {ids.get(PADDING)}")
        if (largest := max(ids.values())) >= len(ids):
            raise ValueError(f"ids must be 0 to {len(ids) - 1:,}. Received: {largest:,}")
        return cls(tokenizer)

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a vocabulary from a file with the output of `to_json`.

        Raises:
            DataError: If the file does not exist or is not a vocabulary.
        """
        try:
            return cls.from_json(read_bytes(Path(path)).decode())
        except Exception as error:  # `tokenizers` raises plain Exception
            raise DataError(f"{path}: expected a vocabulary: {reason_of(error)}") from error

    def to_json(self) -> str:
        """Return the vocabulary in the format of the `tokenizers` package."""
        return self._tokenizer.to_str()

    @property
    def kind(self) -> Literal["word", "wordpiece"]:
        """Kind of the ids, as `tokens` of `Vocabulary.train`."""
        return _KINDS[type(self._tokenizer.model)]

    @property
    def size(self) -> int:
        """Number of ids, including padding and other special ids."""
        return self._tokenizer.get_vocab_size()

    @property
    def words(self) -> dict[str, int]:
        """Id of each word."""
        return self._tokenizer.get_vocab()

    def encode(self, texts: Iterable[str], max_length: int | None = None) -> Ragged:
        """Encode texts.

        Args:
            texts: The texts.
            max_length: Largest number of ids per text; longer texts are truncated.
        """
        return Ragged.join(self.encode_parts(texts, max_length))

    def encode_parts(self, texts: Iterable[str], max_length: int | None = None) -> Iterator[Ragged]:
        """Encode texts part by part, for texts that do not fit into memory.

        Args:
            texts: The texts.
            max_length: Largest number of ids per text.

        Yields:
            Rows of some of the texts, in order.
        """
        start = self._tokenizer.token_to_id(START)
        first = [] if start is None else [start]
        encode = functools.lru_cache(_WORDS)(self._encode_word)

        def row(text: str) -> list[int]:
            # Words between spaces do not depend on each other.
            words = map(encode, text.split(" "))
            return [*first, *itertools.chain.from_iterable(words)][:max_length]

        part: list[list[int]] = []
        characters = 0
        for text in texts:
            part.append(row(text))
            characters += len(text) + 1
            if characters >= _PART:
                yield Ragged.of(part)
                part, characters = [], 0
        if part:
            yield Ragged.of(part)

    def _encode_word(self, word: str) -> list[int]:
        return list(self._tokenizer.encode(word, add_special_tokens=False).ids)


def _train_words(
    texts: Iterable[str], max_size: int | None, special: list[str], spaced: bool
) -> Tokenizer:
    """Return the most frequent words; words of equal frequency are sorted by code point."""
    normalizer = normalizers.Lowercase()
    split: Any = pre_tokenizers.WhitespaceSplit()
    if not spaced:
        split = pre_tokenizers.Sequence([split, pre_tokenizers.Punctuation()])
    counts: Counter[str] = Counter()
    unsplit = Counter(itertools.chain.from_iterable(text.split(" ") for text in texts))
    for text, count in unsplit.items():
        for word, _ in split.pre_tokenize_str(normalizer.normalize_str(text)):
            counts[word] += count
    words = sorted(counts, key=lambda word: (-counts[word], word))
    if max_size is not None:
        words = words[: max(0, max_size - len(special))]
    ids = {word: i for i, word in enumerate([*special, *words])}
    return _tokenizer(models.WordLevel, normalizer, split, ids)


def _train_pieces(texts: Iterable[str], max_size: int | None, special: list[str]) -> Tokenizer:
    """Train WordPiece deterministically.

    `tokenizers` numbers pieces inside words in the order of a hash map, which differs between
    processes (its issue 1794). Pairs of equal frequency are merged in the order of these numbers,
    so even the set of pieces differs. Here all characters, at the start of and inside a word, are
    special tokens of the trainer with fixed numbers, which makes the result deterministic.
    """
    size = WORDPIECES if max_size is None else max_size
    normalizer, split = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    # Characters are normalized one by one, independent of their neighbors.
    counts = Counter(
        character
        for text in texts
        for character in set(normalizer.normalize_str("".join(set(text))))
    )
    del counts[" "]
    frequent = sorted(counts, key=lambda character: (-counts[character], character))
    characters = sorted(frequent[: min(_CHARACTERS, max(0, size - len(special)) // 2)])
    # Punctuation is always split off.
    inner = [f"##{c}" for c in characters if len(split.pre_tokenize_str(f"a{c}")) == 1]
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        min_frequency=2,
        special_tokens=[*special, *characters, *inner],
        initial_alphabet=characters,
        limit_alphabet=len(characters),
        show_progress=False,
    )
    trained = _tokenizer(models.WordPiece, normalizer, split)
    trained.train_from_iterator(texts, trainer)
    # A new tokenizer, because the trained one treats the letters of special tokens in a text as
    # these tokens.
    return _tokenizer(models.WordPiece, normalizer, split, trained.get_vocab())


def _tokenizer(model: Any, normalizer: Any, split: Any, *ids: dict[str, int]) -> Tokenizer:
    tokenizer = Tokenizer(model(*ids, unk_token=UNKNOWN))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, split
    return tokenizer
