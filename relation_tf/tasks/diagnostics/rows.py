"""Generated rows in which some tokens have a label, their symbols, and rules that answer them.

A rule returns the share of the labels of a split that it answers correctly without the ability of
the task. Rules that read tokens learn their answers from the training split.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from relation_tf.errors import DataError, join_names
from relation_tf.tasks.rows import Ragged

SEED = 2026
NOTHING = "-"
"""Symbol of id 0: padding in a text, no label among the labels."""

QUERY = "?"
"""Symbol that replaces a token to predict."""

Draw = Callable[[Generator, int, int], tuple[np.ndarray, np.ndarray]]
"""Function of a random generator, a number of rows and a length that returns the ids and the
labels, both `(rows, tokens)`; label 0 means no label."""


@dataclass(frozen=True)
class Symbols:
    """Vocabulary of symbols.

    Attributes:
        tokens: Symbol of each id; id 0 is `NOTHING`.

    Example:
        >>> digits = Symbols.of("01")
        >>> digits.size, digits.decode(np.array([[2, 0, 1]]))
        (3, ['1 - 0'])
    """

    tokens: tuple[str, ...]

    @classmethod
    def of(cls, *symbols: str | Sequence[str]) -> Symbols:
        """Return the symbols of all arguments, in order, after `NOTHING`."""
        return cls((NOTHING, *(symbol for each in symbols for symbol in each)))

    @property
    def size(self) -> int:
        """Number of ids."""
        return len(self.tokens)

    @property
    def words(self) -> dict[str, int]:
        """Id of each symbol."""
        return {token: number for number, token in enumerate(self.tokens)}

    def encode(self, texts: Iterable[str]) -> Ragged:
        """Return a row of ids for each text, whose symbols have spaces between them.

        Raises:
            ValueError: If a text has another symbol.
        """
        words = self.words
        try:
            return Ragged.of([[words[symbol] for symbol in text.split()] for text in texts])
        except KeyError as error:
            known = join_names([*words])
            raise ValueError(f"texts must have the symbols {known}. Received: {error}") from error

    def decode(self, ids: np.ndarray) -> list[str]:
        """Return the symbols of each row of an array `(rows, tokens)`, joined by spaces."""
        tokens = np.array(self.tokens, dtype=object)
        return [" ".join(row) for row in tokens[ids]]


@dataclass(frozen=True)
class LabelledRows:
    """Token ids and labels of rows of equal length.

    Attributes:
        ids: Token ids, `(rows, tokens)`, `int32`; 0 is padding after the last token.
        labels: Label of each token, `(rows, tokens)`, `int32`; 0 for tokens without a label.
    """

    ids: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class LabelledTokens:
    """All rows of a task.

    Attributes:
        source: Symbols of the texts.
        target: Symbols of the labels.
        splits: Rows by split.
    """

    source: Symbols
    target: Symbols
    splits: Mapping[str, LabelledRows]

    def chance(self, split: str = "test") -> float:
        """Return the share of the most frequent label: the accuracy of a constant answer."""
        labels = self.splits[split].labels
        counts = np.bincount(labels[labels > 0])
        return float(counts.max() / counts.sum())

    def encode(self, split: str) -> tuple[Ragged, Ragged]:
        """Return the ids and the labels of a split, without the padding after each row."""
        rows = self.splits[split]
        kept = rows.ids > 0  # padding is only at the end
        offsets = np.concatenate([[0], kept.sum(axis=1).cumsum()])
        ids, labels = (each[kept].astype(np.int32) for each in (rows.ids, rows.labels))
        return Ragged(ids, offsets), Ragged(labels, offsets)


Rule = Callable[[LabelledTokens, str], float]
"""Function of a task and a split that returns the accuracy of a rule without the ability."""

WINDOW = 4
"""Tokens that a short convolution of the suites combines: a token and the three before it."""


def by_window(made: LabelledTokens, split: str) -> float:
    """Answer from the last tokens, at most `WINDOW`, or from the position, or from both.

    Args:
        made: The task.
        split: Split to answer.
    """
    train, test = made.splits["train"], made.splits[split]
    base, places = made.source.size, max(train.ids.shape[1], test.ids.shape[1])
    rules = zip(_keys(train, base, places), _keys(test, base, places), strict=True)
    return max(_looked_up(known, train, asked, test) for known, asked in rules)


def by_last_tokens(made: LabelledTokens, split: str) -> float:
    """Answer the labels of the last tokens, at most `WINDOW`, and others with the most frequent.

    It is the rule for a network that reads only the vector of the last token.

    Args:
        made: The task.
        split: Split to answer.
    """
    labels = made.splits[split].labels
    near = np.zeros(labels.shape, bool)
    near[:, -WINDOW:] = True
    known = near & (labels > 0)
    others = np.bincount(labels[~near & (labels > 0)], minlength=2)
    return float((known.sum() + others.max()) / (labels > 0).sum())


def by_seen_values(
    made: LabelledTokens, split: str, *, first: int | None = None, period: int = 1
) -> float:
    """Answer with the most frequent label that is also a token of the text; equal ones at random.

    Args:
        made: The task.
        split: Split to answer.
        first: Number of first tokens that are considered; default: all before the answer.
        period: Only tokens at a distance of a multiple of this number are considered.
    """
    ids = {symbol: number for number, symbol in enumerate(made.target.tokens) if number}
    label_of = np.array([ids.get(symbol, 0) for symbol in made.source.tokens])
    rows = made.splits[split]
    found = 0.0
    for row, place in zip(*np.nonzero(rows.labels), strict=True):
        end = place if first is None else min(first, place)
        seen = label_of[rows.ids[row, place % period : end : period]]
        values, counts = np.unique(seen[seen > 0], return_counts=True)
        best = values[counts == counts.max(initial=0)]
        found += float(np.mean(best == rows.labels[row, place])) if len(best) else 0.0
    return found / int(np.count_nonzero(rows.labels))


def _keys(rows: LabelledRows, base: int, places: int) -> Iterator[np.ndarray]:
    """Return for each rule a number per labelled token: what the rule knows of it."""
    row, place = np.nonzero(rows.labels)
    window = np.zeros(len(row), np.int64)
    yield place
    for distance in range(WINDOW):
        before = np.where(place >= distance, rows.ids[row, place - distance], 0)
        window = window * base + before
        yield window
        yield window * places + place


def _looked_up(
    known: np.ndarray, train: LabelledRows, asked: np.ndarray, test: LabelledRows
) -> float:
    """Return the accuracy of the most frequent label of each key in the training split."""
    labels = train.labels[train.labels > 0]
    most = labels.max() + 1
    keys, place = np.unique(known, return_inverse=True)
    pairs, counts = np.unique(place * most + labels, return_counts=True)
    order = np.argsort(counts, kind="stable")  # The last label of a key is its most frequent one.
    answers = np.zeros(len(keys), np.int64)
    answers[pairs[order] // most] = pairs[order] % most
    at = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
    found = np.where(keys[at] == asked, answers[at], np.bincount(labels).argmax())
    return float(np.mean(found == test.labels[test.labels > 0]))


@dataclass(frozen=True)
class Diagnostic:
    """A generated task with labels at some tokens.

    Attributes:
        name: Name of the task.
        isolates: The ability that it needs.
        draw: Function that draws rows.
        length: The argument `length` of `draw`; rows can have more tokens.
        source: Symbols of the texts.
        target: Symbols of the labels.
        train: Number of rows of the split `train`.
        held_out: Number of rows of `dev`, of `test` and of each further test set.
        further: Split, such as `"2x"`, function and length of each further test set.
        from_last_token: As in `Task`.
        amount: What a row holds and its number, for tasks that differ only in it, such as
            `("pairs", 4)`.
        rules: Rules that need not the ability; see `best_rule`.
    """

    name: str
    isolates: str
    draw: Draw
    length: int
    source: Symbols
    target: Symbols
    train: int = 10_000
    held_out: int = 500
    further: tuple[tuple[str, Draw, int], ...] = ()
    from_last_token: bool = False
    amount: tuple[str, int] | None = None
    rules: tuple[Rule, ...] = (by_window,)

    @property
    def scored(self) -> dict[str, str]:
        """Split of each score, by name; the task's own score is the first."""
        return {self.name: "test", **{f"{self.name}-{split}": split for split, *_ in self.further}}

    def best_rule(self, made: LabelledTokens, split: str) -> float:
        """Return the accuracy that a simple rule reaches without the ability.

        Args:
            made: The rows of the task.
            split: A split of them.
        """
        return max([made.chance(split), *(rule(made, split) for rule in self.rules)])

    def make(self, seed: int = SEED) -> LabelledTokens:
        """Draw all splits; no row of the training split is in another split.

        Args:
            seed: Seed of all rows.
        """
        own = [(split, self.draw, self.length) for split in ("train", "dev", "test")]
        splits: dict[str, LabelledRows] = {}
        seen: set[bytes] = set()
        for split, draw, length in (*own, *self.further):
            splits[split] = self._different(split, draw, length, seed, seen)
            if split == "train":
                seen = {row.tobytes() for row in splits[split].ids}
        return LabelledTokens(self.source, self.target, splits)

    def _different(
        self, split: str, draw: Draw, length: int, seed: int, seen: set[bytes]
    ) -> LabelledRows:
        """Return rows that have a label and are not in `seen`.

        Raises:
            DataError: If too few of the drawn rows are such rows.
        """
        count = self.train if split == "train" else self.held_out
        random = np.random.default_rng([seed, zlib.crc32(f"{self.name} {split}".encode())])
        kept: list[Any] = []
        for _ in range(10):
            ids, labels = draw(random, count, length)
            new = np.array([row.tobytes() not in seen for row in ids], dtype=bool)
            new &= (labels > 0).any(axis=1)
            kept.append((ids[new], labels[new]))
            if sum(len(each) for each, _ in kept) >= count:
                ids, labels = (np.concatenate(parts)[:count] for parts in zip(*kept, strict=True))
                return LabelledRows(ids, labels)
        raise DataError(
            f"task {self.name}: too few different texts for {self.train:,} training rows and "
            f"{count:,} others ({split}). Use larger sizes"
        )
