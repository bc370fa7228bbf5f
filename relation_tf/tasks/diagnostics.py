"""Diagnostic tasks: generated rows that show what a mechanism can and cannot do.

Some tokens of a row have a label. The draw functions return rows of a length; `DIAGNOSTICS` has
the tasks with their symbols. A rule returns the share of the labels of a split that it answers
correctly without the ability of the task; rules that read tokens learn from the training split.

References:
    - Arora et al. 2023, "Zoology: Measuring and Improving Recall in Efficient Language Models",
      arXiv 2312.04927 (`associative_recall`).
    - Poli et al. 2024, "Mechanistic Design and Scaling of Hybrid Architectures", arXiv 2403.17844
      (MAD: `recall`, `fuzzy_recall`, `selective_copy`, `memorize`, `compressing`).
    - Olsson et al. 2022, "In-context Learning and Induction Heads", arXiv 2209.11895.
    - Deletang et al. 2022, "Neural Networks and the Chomsky Hierarchy", arXiv 2207.02098.
    - Hewitt et al. 2020, "RNNs can generate bounded hierarchical languages with optimal memory",
      EMNLP (brackets of limited depth).
    - Nangia and Bowman 2018, "ListOps: A Diagnostic Dataset for Latent Tree Learning", and Tay et
      al. 2020, "Long Range Arena", arXiv 2011.04006.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from math import inf
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import numpy as np
from numpy.random import Generator

from relation_tf.errors import DataError
from relation_tf.tasks.rows import Ragged
from relation_tf.tasks.task import Dataset, FileLayout, Task, TaskText, TextSplit

SEED = 2026
NOTHING = "-"
"""Symbol of id 0: padding in a text, no label among the labels."""

QUERY = "?"
"""Symbol that replaces a token to predict."""

Drawn = tuple[np.ndarray, np.ndarray]
"""Ids and labels, both `(rows, tokens)`; label 0 means no label."""

Draw = Callable[[Generator, int, int], Drawn]
"""Function of a random generator, a number of rows and a length."""


# Recall: find the token next to an earlier token, copy tokens, memorize facts.

_GAP_POWER = 0.01  # exponent of the power-law distribution of distances from pairs to queries


def associative_recall(
    random: Generator, rows: int, length: int, *, pairs: int, keys: int
) -> Drawn:
    """Draw multi-query associative recall (MQAR).

    A text begins with pairs of a key and its value. Later, each key occurs again, and its label is
    its value. All other positions have random tokens. As in the paper, short distances are more
    frequent.

    Args:
        random: Source of randomness.
        rows: Number of rows.
        length: Tokens of a text.
        pairs: Pairs of a text.
        keys: Number of keys and of values; key k has id k, value v has id `keys + v` and label v.
    """
    chosen = _different(random, rows, keys, pairs)
    values = random.integers(1, keys + 1, (rows, pairs))
    ids = random.integers(1, 2 * keys + 1, (rows, length))
    ids[:, : 2 * pairs : 2], ids[:, 1 : 2 * pairs : 2] = chosen, keys + values
    places = np.arange(1, (length - 2 * pairs) // 2 + 1)
    weights = np.log(_GAP_POWER * places ** (_GAP_POWER - 1))
    # Gumbel top-k: samples positions without replacement.
    order = np.argsort(-(weights + random.gumbel(size=(rows, len(places)))), axis=1)[:, :pairs]
    query = 2 * pairs + 2 * order
    labels = np.zeros((rows, length), np.int32)
    np.put_along_axis(ids, query, chosen, axis=1)
    np.put_along_axis(labels, query, values, axis=1)
    return ids.astype(np.int32), labels


def recall(
    random: Generator, rows: int, length: int, *, keys: int, query: int, noise: int = 0
) -> Drawn:
    """Draw in-context recall: key and value alternate, and each key always has the same value.

    If a key occurs again, its value is replaced by `query` and becomes the label there.

    Args:
        random: Source of randomness.
        rows: Number of rows.
        length: Tokens of a text, even.
        keys: Number of keys and of values; key k has id k, value v has id `keys + v` and label v.
        query: Id that replaces each value to predict.
        noise: Number of noise symbols. If it is not 0, a fifth of the pairs is replaced by two of
            them; their ids are `query + 1` to `query + noise`.
    """
    value_of = random.integers(1, keys + 1, (rows, keys + 1))
    chosen = random.integers(1, keys + 1, (rows, length // 2))
    values = np.take_along_axis(value_of, chosen, axis=1)
    disturbed = random.random(chosen.shape) < 0.2 if noise else np.zeros(chosen.shape, bool)
    known = _seen_before(np.where(disturbed, 0, chosen), keys) & ~disturbed
    ids = np.zeros((rows, length // 2, 2), np.int32)
    ids[..., 0], ids[..., 1] = chosen, np.where(known, query, keys + values)
    if noise:
        drawn = query + random.integers(1, noise + 1, ids.shape)
        ids = np.where(disturbed[..., None], drawn, ids).astype(np.int32)
    labels = np.zeros_like(ids)
    labels[..., 1] = np.where(known, values, 0)
    return ids.reshape(rows, -1), labels.reshape(rows, -1)


def fuzzy_recall(random: Generator, rows: int, length: int, *, keys: int, query: int) -> Drawn:
    """Draw recall with keys of two tokens and values of two tokens.

    A token of a key is part of many keys, so that tokens must be grouped before they are compared.

    Args:
        random: Source of randomness.
        rows: Number of rows.
        length: Tokens of a text, a multiple of four.
        keys: Number of symbols of keys and of values; see `recall`.
        query: Id that replaces each token to predict.
    """
    kinds = keys * keys
    value_of = random.integers(1, keys + 1, (rows, kinds + 1, 2))
    # Few different keys per text, so that they occur again.
    pool = _different(random, rows, kinds, max(4, length // 16))
    at = random.integers(0, pool.shape[1], (rows, length // 4))
    chosen = np.take_along_axis(pool, at, axis=1)
    values = np.take_along_axis(value_of, chosen[..., None], axis=1)
    known = _seen_before(chosen, kinds)[..., None]
    first, second = np.divmod(chosen - 1, keys)
    ids = np.zeros((rows, length // 4, 4), np.int32)
    ids[..., 0], ids[..., 1] = first + 1, second + 1
    ids[..., 2:] = np.where(known, query, keys + values)
    labels = np.zeros_like(ids)
    labels[..., 2:] = np.where(known, values, 0)
    return ids.reshape(rows, -1), labels.reshape(rows, -1)


def selective_copy(
    random: Generator, rows: int, length: int, *, symbols: int, copied: int, blank: int, query: int
) -> Drawn:
    """Draw texts of blanks and a few symbols; the labels at the end are these symbols in order.

    Args:
        random: Source of randomness.
        rows: Number of rows.
        length: Tokens of a text, including the query positions at the end.
        symbols: Number of symbols; symbol s has id and label s.
        copied: Symbols of a text.
        blank: Id of a blank.
        query: Id of the query positions at the end.
    """
    places = np.sort(_different(random, rows, length - copied, copied) - 1, axis=1)
    chosen = random.integers(1, symbols + 1, (rows, copied))
    ids = np.full((rows, length), blank, np.int32)
    np.put_along_axis(ids, places, chosen, axis=1)
    return _query_at_end(ids, chosen, query)


def memorize(random: Generator, rows: int, length: int, *, keys: int, query: int) -> Drawn:
    """Draw keys whose values are the same in all texts and must be learned; all values differ.

    Args:
        random: Source of randomness.
        rows: Number of rows.
        length: Tokens of a text, even.
        keys: Number of keys and of values; key k has id k, value v has label v.
        query: Id that replaces each value.
    """
    value_of = np.append(0, np.random.default_rng(keys).permutation(keys) + 1)
    chosen = random.integers(1, keys + 1, (rows, length // 2))
    ids = np.stack([chosen, np.full_like(chosen, query)], axis=2).reshape(rows, -1)
    labels = np.zeros_like(ids)
    labels[:, 1::2] = value_of[chosen]
    return ids.astype(np.int32), labels.astype(np.int32)


def induction(
    random: Generator, rows: int, length: int, *, symbols: int, special: int, query: int
) -> Drawn:
    """Draw texts in which a special token occurs before the symbol to predict at the end.

    Args:
        random: Source of randomness.
        rows: Number of rows.
        length: Tokens of a text; the last two are `special` and `query`.
        symbols: Number of symbols; symbol s has id and label s.
        special: Id of the special token.
        query: Id of the last token.
    """
    ids = random.integers(1, symbols + 1, (rows, length)).astype(np.int32)
    place = random.integers(0, length - 3, rows)
    every = np.arange(rows)
    ids[every, place] = special
    ids[:, -2:] = special, query
    labels = np.zeros_like(ids)
    labels[:, -1] = ids[every, place + 1]
    return ids, labels


def needle(
    random: Generator,
    rows: int,
    length: int,
    *,
    symbols: int,
    others: int,
    query: int,
    depth: int | None = None,
) -> Drawn:
    """Draw texts with one symbol among noise; the label at the end is this symbol.

    Args:
        random: Source of randomness.
        rows: Number of rows.
        length: Tokens of a text.
        symbols: Number of symbols; symbol s has id and label s.
        others: Number of noise symbols, with the ids after `query`.
        query: Id of the last token.
        depth: Place of the symbol in percent: 0 for the first token, 100 for the token before the
            last. Default: random.

    Example:
        >>> random = np.random.default_rng(1)
        >>> needle(random, 1, 6, symbols=2, others=3, query=3, depth=25)[0].tolist()
        [[5, 2, 6, 6, 4, 3]]
    """
    ids = query + random.integers(1, others + 1, (rows, length)).astype(np.int32)
    chosen = random.integers(1, symbols + 1, rows)
    last = length - 2
    place = random.integers(0, last + 1, rows) if depth is None else round(last * depth / 100)
    ids[np.arange(rows), place] = chosen
    return _query_at_end(ids, chosen[:, None], query)


def compressing(random: Generator, rows: int, length: int, *, symbols: int, last: int) -> Drawn:
    """Draw symbols; each is its own label. The network reads only the vector of the last token.

    Args:
        random: Source of randomness.
        rows: Number of rows.
        length: Tokens of a text.
        symbols: Number of symbols; symbol s has id and label s.
        last: Id of the last token, which has no label.

    Example:
        >>> ids, labels = compressing(np.random.default_rng(1), 1, 4, symbols=9, last=10)
        >>> ids.tolist(), labels.tolist()
        ([[5, 5, 7, 10]], [[5, 5, 7, 0]])
    """
    ids = random.integers(1, symbols + 1, (rows, length)).astype(np.int32)
    labels = ids.copy()
    ids[:, -1], labels[:, -1] = last, 0
    return ids, labels


def sorting(random: Generator, rows: int, length: int, *, symbols: int, query: int) -> Drawn:
    """Draw symbols; the labels after them are the symbols in ascending order, see `reversing`."""
    chosen = random.integers(1, symbols + 1, (rows, length))
    return _query_after(chosen, np.sort(chosen, axis=1), query)


def reversing(random: Generator, rows: int, length: int, *, symbols: int, query: int) -> Drawn:
    """Draw symbols; the labels after them are the symbols in reverse order.

    Args:
        random: Source of randomness.
        rows: Number of rows.
        length: Symbols of a text, which has twice as many tokens.
        symbols: Number of symbols; symbol s has id and label s.
        query: Id of the query positions at the end.
    """
    chosen = random.integers(1, symbols + 1, (rows, length))
    return _query_after(chosen, chosen[:, ::-1], query)


def _query_after(given: np.ndarray, answers: np.ndarray, query: int) -> Drawn:
    """Put a query token for each answer after each row, with the answers as labels."""
    ids = np.concatenate([given, np.zeros_like(answers)], axis=1).astype(np.int32)
    return _query_at_end(ids, answers, query)


def _query_at_end(ids: np.ndarray, answers: np.ndarray, query: int) -> Drawn:
    """Put query tokens at the end of each row, with the answers as labels."""
    labels = np.zeros_like(ids)
    count = answers.shape[1]
    ids[:, -count:] = query
    labels[:, -count:] = answers
    return ids, labels


def _different(random: Generator, rows: int, kinds: int, count: int) -> np.ndarray:
    """Return different numbers from 1 to `kinds` in each row."""
    if 3 * count >= kinds:
        return np.argsort(random.random((rows, kinds)), axis=1)[:, :count] + 1
    found = random.integers(1, kinds + 1, (rows, count))
    while True:
        ordered = np.sort(found, axis=1)
        again = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
        if not len(again):
            return found
        found[again] = random.integers(1, kinds + 1, (len(again), count))


def _seen_before(chosen: np.ndarray, kinds: int) -> np.ndarray:
    """Return a mask of the numbers that occur earlier in their row; 0 has never occurred."""
    mask = np.zeros(chosen.shape, bool)
    seen = np.zeros((len(chosen), kinds + 1), bool)
    rows = np.arange(len(chosen))
    for place in range(chosen.shape[1]):
        mask[:, place] = seen[rows, chosen[:, place]]
        seen[rows, chosen[:, place]] = True
    return mask & (chosen > 0)


# States and sums: parity, addition, brackets, majority, counts and nested lists.


def running_sum(random: Generator, rows: int, length: int, *, modulus: int) -> Drawn:
    """Draw digits; the label of each is the sum up to it, modulo `modulus`. 2 gives the parity.

    Args:
        random: Source of randomness.
        rows: Number of rows.
        length: Tokens of a text.
        modulus: Number of digits; digit d has id and label `d + 1`.
    """
    digits = random.integers(0, modulus, (rows, length))
    sums = digits.cumsum(axis=1) % modulus
    return (digits + 1).astype(np.int32), (sums + 1).astype(np.int32)


def brackets(random: Generator, rows: int, length: int, *, kinds: int, depth: int) -> Drawn:
    """Draw brackets of limited depth; labels are the kinds of the innermost open brackets.

    Only a closing bracket after which a bracket is still open has a label: after an opening
    bracket, the answer is the token itself.

    Args:
        random: Source of randomness.
        rows: Number of rows.
        length: Tokens of a text.
        kinds: Number of kinds. An opening bracket of kind k has id k, a closing one `kinds + k`.
            The label of kind k is k.
        depth: Largest number of open brackets.
    """
    ids = np.zeros((rows, length), np.int32)
    labels = np.zeros((rows, length), np.int32)
    stack = np.zeros((rows, depth + 1), np.int32)
    height = np.zeros(rows, np.int32)
    every = np.arange(rows)
    for place in range(length):
        opens = (random.random(rows) < 0.5) & (height < depth) | (height == 0)
        kind = random.integers(1, kinds + 1, rows)
        ids[:, place] = np.where(opens, kind, kinds + stack[every, height])
        height += np.where(opens, 1, -1)
        stack[every, height] = np.where(opens, kind, stack[every, height])
        labels[:, place] = np.where(~opens & (height > 0), stack[every, height], 0)
    return ids, labels


def majority(random: Generator, rows: int, length: int) -> Drawn:
    """Draw bits; the label of the last token is their majority.

    Ids are 1 for bit 0, 2 for bit 1 and 3 for the last token; labels 1 and 2.

    Args:
        random: Source of randomness.
        rows: Number of rows.
        length: Number of bits. An even number is increased by one, to avoid ties.
    """
    number = length + 1 - length % 2
    ones = random.random((rows, number)) < random.uniform(0.3, 0.7, (rows, 1))
    return _query_after(ones + 1, (ones.sum(axis=1, keepdims=True) > number // 2) + 1, 3)


def count(random: Generator, rows: int, length: int, *, most: int, others: int) -> Drawn:
    """Draw noise with up to `most` marked tokens; the label of the last token is their number.

    Ids are 1 for marked tokens, 2 to `others + 1` for noise and `others + 2` for the last token;
    label n + 1 means n marked tokens.

    Args:
        random: Source of randomness.
        rows: Number of rows.
        length: Tokens of a text before the last, more than `most`.
        most: Largest number of marked tokens.
        others: Number of noise symbols.
    """
    number = random.integers(0, most + 1, (rows, 1))
    rank = np.argsort(np.argsort(random.random((rows, length)), axis=1), axis=1)
    noise = random.integers(2, others + 2, (rows, length))
    ids = np.where(rank < number, 1, noise)
    return _query_after(ids, number + 1, others + 2)


OPERATORS = ("[MAX", "[MIN", "[MED", "[SM")
_OPERATIONS = (max, min, lambda values: int(median(values)), lambda values: sum(values) % 10)
LIST_SYMBOLS = (*OPERATORS, "]", *map(str, range(10)), "?")
"""Tokens of nested lists, with ids from 1 on."""


def nested_lists(
    random: Generator,
    rows: int,
    length: int,
    *,
    shortest: float,
    depth: int,
    arguments: int,
    nested: float,
    fitted: bool = False,
) -> Drawn:
    """Draw nested lists of digits with an operator; the label of the last token is the value.

    Operators are maximum, minimum, median (rounded down) and sum modulo 10. Texts are padded with 0
    after the last token. Id i is `LIST_SYMBOLS[i - 1]`; digit d has label `d + 1`.

    Args:
        random: Source of randomness.
        rows: Number of rows.
        length: Largest number of tokens.
        shortest: Smallest number of tokens, as a share of the largest.
        depth: Largest depth.
        arguments: Largest number of arguments of an operator, at least 2.
        nested: Probability that an argument is a list.
        fitted: If True, arguments are digits where the text has no room for a list. If False, lists
            that are too long are drawn again.
    """
    ids = np.zeros((rows, length), np.int32)
    labels = np.zeros((rows, length), np.int32)
    id_of = {symbol: number for number, symbol in enumerate(LIST_SYMBOLS, 1)}
    draw = Random(int(random.integers(2**63)))  # faster than NumPy for single numbers
    room = length - 1 if fitted else inf
    for row in range(rows):
        while True:
            tokens, value = _list(draw, depth, arguments, nested, room)
            if shortest * length <= len(tokens) + 1 <= length:
                break
        ids[row, : len(tokens) + 1] = [id_of[token] for token in [*tokens, "?"]]
        labels[row, len(tokens)] = value + 1
    return ids, labels


def _list(
    draw: Random, depth: int, arguments: int, nested: float, room: float
) -> tuple[list[str], int]:
    """Return the tokens and the value of a random list.

    Args:
        draw: Source of randomness.
        depth: Largest depth.
        arguments: Largest number of arguments.
        nested: Probability that an argument is a list.
        room: Largest number of tokens, at least `arguments + 2`.
    """
    kind = draw.randrange(len(OPERATORS))
    flat = arguments + 2  # tokens of the longest list of digits
    tokens, values = [OPERATORS[kind]], []
    for _ in range(draw.randint(2, arguments)):
        left = room - len(tokens) - flat  # so that the other arguments can be digits
        if depth > 1 and left >= flat and draw.random() < nested:
            inner, value = _list(draw, depth - 1, arguments, nested, left)
            tokens += inner
        else:
            value = draw.randrange(10)
            tokens.append(str(value))
        values.append(value)
    return [*tokens, "]"], int(_OPERATIONS[kind](values))


# Rows, rules and tasks.


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
        return cls((NOTHING, *chain.from_iterable(symbols)))

    @property
    def size(self) -> int:
        """Number of ids."""
        return len(self.tokens)

    @property
    def words(self) -> dict[str, int]:
        """Id of each symbol."""
        return {token: number for number, token in enumerate(self.tokens)}

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


def by_window(data: LabelledTokens, split: str) -> float:
    """Answer from the last tokens, at most `WINDOW`, or from the position, or from both.

    Args:
        data: The task.
        split: Split to answer.
    """
    train, test = data.splits["train"], data.splits[split]
    base, places = data.source.size, max(train.ids.shape[1], test.ids.shape[1])
    rules = zip(_keys(train, base, places), _keys(test, base, places), strict=True)
    return max(_looked_up(known, train, asked, test) for known, asked in rules)


def by_last_tokens(data: LabelledTokens, split: str) -> float:
    """Answer the labels of the last tokens, at most `WINDOW`, and others with the most frequent.

    It is the rule for a network that reads only the vector of the last token.

    Args:
        data: The task.
        split: Split to answer.
    """
    labels = data.splits[split].labels
    near = np.zeros(labels.shape, bool)
    near[:, -WINDOW:] = True
    known = near & (labels > 0)
    others = np.bincount(labels[~near & (labels > 0)], minlength=2)
    return float((known.sum() + others.max()) / (labels > 0).sum())


def by_seen_values(
    data: LabelledTokens, split: str, *, first: int | None = None, period: int = 1
) -> float:
    """Answer with the most frequent label that is also a token of the text; equal ones at random.

    Args:
        data: The task.
        split: Split to answer.
        first: Number of first tokens that are considered; default: all before the answer.
        period: Only tokens at a distance of a multiple of this number are considered.
    """
    ids = {symbol: number for number, symbol in enumerate(data.target.tokens) if number}
    label_of = np.array([ids.get(symbol, 0) for symbol in data.source.tokens])
    rows = data.splits[split]
    found = 0.0
    for row, place in zip(*np.nonzero(rows.labels), strict=True):
        end = place if first is None else min(first, place)
        seen = label_of[rows.ids[row, place % period : end : period]]
        counts = np.bincount(seen, minlength=label_of.max() + 1)
        counts[0] = 0  # tokens that are no labels
        best = counts == counts.max()
        found += float(best[rows.labels[row, place]] / best.sum()) if counts.any() else 0.0
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
        """Split of each score, by name; that of the task is the first."""
        return {self.name: "test", **{f"{self.name}-{split}": split for split, *_ in self.further}}

    def best_rule(self, data: LabelledTokens, split: str) -> float:
        """Return the accuracy that a simple rule reaches without the ability.

        Args:
            data: The rows of the task.
            split: A split of them.
        """
        return max([data.chance(split), *(rule(data, split) for rule in self.rules)])

    def make(self, seed: int = SEED) -> LabelledTokens:
        """Draw all splits; no row of the training split is in another split.

        Args:
            seed: Seed of all rows.
        """
        first = [(split, self.draw, self.length) for split in ("train", "dev", "test")]
        splits: dict[str, LabelledRows] = {}
        seen: set[bytes] = set()
        for split, draw, length in (*first, *self.further):
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


# The tasks.

_LETTERS = 16
_OF_MAD = ("recall", "noisy-recall", "fuzzy-recall", "selective-copy", "memorize", "compress")
_MQAR = (  # length, pairs, symbols
    *((64, 4, 8192), (128, 8, 8192), (256, 16, 8192), (256, 64, 8192)),  # as Zoology
    *((64, 4, 64), (32, 2, 32), (32, 4, 32), (32, 8, 32)),
)  # fmt: skip


@functools.cache
def _names(prefix: str, number: int) -> tuple[str, ...]:
    return tuple(f"{prefix}{i}" for i in range(1, number + 1))


def _longer(task: Diagnostic) -> Diagnostic:
    """Return the task with test sets of 2, 4 and 8 times the length."""
    return replace(task, further=tuple((f"{n}x", task.draw, n * task.length) for n in (2, 4, 8)))


def _of_letters(name: str, length: int, isolates: str, draw: Draw, *more: str) -> Diagnostic:
    letters = _names("s", _LETTERS)
    return _longer(Diagnostic(
        name, isolates, draw, length, Symbols.of(letters, more, QUERY), Symbols.of(letters),
        rules=(by_window, by_seen_values),
    ))  # fmt: skip


def _all() -> Iterator[Diagnostic]:
    draw: Draw
    letters, noise, query = _names("s", _LETTERS), _names("n", 16), _LETTERS + 1
    for length, pairs, kinds in _MQAR:
        keys = kinds // 2  # the others are values
        size = "" if kinds == 8192 else f"-v{kinds}"
        values = Symbols.of(_names("v", keys))
        yield _longer(Diagnostic(
            f"mqar-{length}-{pairs}{size}", "recall: bind many keys to values",
            partial(associative_recall, pairs=pairs, keys=keys), length,
            Symbols.of(_names("k", keys), _names("v", keys)), values,
            train=20_000 if length > 32 else 10_000, amount=("pairs", pairs),
            rules=(by_window, partial(by_seen_values, first=2 * pairs)),
        ))  # fmt: skip
    of_needle = partial(needle, symbols=_LETTERS, others=16, query=query)
    depths = {f"depth{depth}": partial(of_needle, depth=depth) for depth in (0, 25, 50, 75, 100)}
    for length in (16, 64, 256, 1024):
        yield Diagnostic(
            f"needle-{length}", "keep one token among many", of_needle, length,
            Symbols.of(letters, QUERY, noise), Symbols.of(letters), train=5_000,
            amount=("other tokens", length - 2),
            further=tuple((split, at_depth, length) for split, at_depth in depths.items()),
        )  # fmt: skip
    few_keys, few_values = _names("k", 8), _names("v", 8)
    for suffix, length in (("", 128), ("-small", 32)):
        for name, isolates, draw, more, period in (
            ("recall", "recall: bind keys to values in the text",
             partial(recall, keys=8, query=17), (), 2),
            ("noisy-recall", "recall among noise",
             partial(recall, keys=8, query=17, noise=16), noise, 2),
            ("fuzzy-recall", "recall of keys and values of two tokens",
             partial(fuzzy_recall, keys=8, query=17), (), 4),
        ):  # fmt: skip
            yield _longer(Diagnostic(
                f"{name}{suffix}", isolates, draw, length,
                Symbols.of(few_keys, few_values, QUERY, more), Symbols.of(few_values),
                rules=(by_window, partial(by_seen_values, period=period)),
            ))  # fmt: skip
    for name, length in (("compress", 32), ("compress-small", 8)):
        symbols = letters[:-1]  # with the last token, MAD's 16 symbols
        yield Diagnostic(
            name, "compress a text to one vector",
            partial(compressing, symbols=len(symbols), last=_LETTERS), length,
            Symbols.of(symbols, "C"), Symbols.of(symbols), from_last_token=True,
            rules=(by_last_tokens,),
        )  # fmt: skip
    draw = partial(induction, symbols=_LETTERS, special=query, query=query + 1)
    yield _of_letters("induction", 32, "find the token after an earlier token", draw, "S")
    draw = partial(sorting, symbols=_LETTERS, query=query)
    yield _of_letters("sort", 16, "compare tokens", draw)
    draw = partial(reversing, symbols=_LETTERS, query=query)
    yield _of_letters("reverse", 16, "order of tokens", draw)
    for name, modulus in (("parity", 2), ("modular-addition", 5)):
        digits, draw = Symbols.of("01234"[:modulus]), partial(running_sum, modulus=modulus)
        yield _longer(Diagnostic(name, "track a state", draw, 32, digits, digits))
    yield _longer(Diagnostic(
        "dyck", "hierarchy: the innermost open bracket", partial(brackets, kinds=2, depth=4),
        32, Symbols.of("([)]"), Symbols.of("(["),
    ))  # fmt: skip
    yield _longer(Diagnostic(
        "majority", "average over all tokens", majority, 33, Symbols.of("01", QUERY),
        Symbols.of("01"),
    ))  # fmt: skip
    yield _longer(Diagnostic(
        "count", "add over all tokens", partial(count, most=8, others=16), 32,
        Symbols.of("x", noise, QUERY), Symbols.of("012345678"),
    ))  # fmt: skip
    for name, length, copied in (("selective-copy", 256, 16), ("selective-copy-small", 32, 4)):
        draw = partial(
            selective_copy, symbols=_LETTERS, copied=copied, blank=query, query=query + 1
        )
        yield _of_letters(name, length, "select tokens, keep their order", draw, ".")
    for name, length, keys in (("memorize", 32, 128), ("memorize-small", 16, 32)):
        yield Diagnostic(
            name, "memorize facts in the weights", partial(memorize, keys=keys, query=keys + 1),
            length, Symbols.of(_names("k", keys), QUERY), Symbols.of(_names("v", keys)),
            rules=(),  # The facts are in the weights: a table of tokens has the ability.
        )  # fmt: skip
    # Lists as in Long Range Arena, and lists with a depth of three in a few tokens.
    long: dict[str, Any] = {"depth": 9, "arguments": 10, "nested": 0.25}
    short: dict[str, Any] = {"depth": 3, "arguments": 4, "nested": 0.75, "fitted": True}
    for name, length, train, options in (
        ("listops", 2000, 2_000, long), ("listops-small", 48, 10_000, short)
    ):  # fmt: skip
        yield Diagnostic(
            name, "hierarchy: nested operations",
            partial(nested_lists, shortest=0.25, **options), length,
            Symbols.of(LIST_SYMBOLS), Symbols.of("0123456789"), train=train,
        )  # fmt: skip


DIAGNOSTICS: Mapping[str, Diagnostic] = {
    task.name: replace(task, train=12_800, held_out=1_280) if task.name in _OF_MAD else task
    for task in _all()
}
"""The diagnostic tasks by name."""


def task_of(scored: str) -> Diagnostic | None:
    """Return the diagnostic task that has a score of this name; None for other names.

    Example:
        >>> task_of("needle-64-depth25").name, task_of("mqar-8-8")
        ('needle-64', None)
    """
    return next((task for task in DIAGNOSTICS.values() if scored in task.scored), None)


def make(name: str) -> LabelledTokens:
    """Return the rows of a task; those of the last task are kept."""
    return _made(DIAGNOSTICS[name])


_made = functools.lru_cache(1)(Diagnostic.make)


def _text(task: Task, files: Mapping[str, Path]) -> TaskText:
    """Return the rows as text: the symbols, and the label of each token."""
    data = make(task.name)
    splits = {}
    for name, rows in data.splits.items():
        texts = data.source.decode(rows.ids), data.target.decode(rows.labels)
        splits[name] = TextSplit(texts, None, np.arange(len(rows)))
    return TaskText(task, splits)


def _dataset(diagnostic: Diagnostic) -> Dataset:
    metrics = ("token_accuracy",)
    task = Task(
        name=diagnostic.name,
        inputs=("tokens", "labels"),
        label="",
        labels=None,
        metrics=metrics,
        validation="dev",
        scored=diagnostic.scored,
        diagnostics=dict.fromkeys([*diagnostic.scored][1:], metrics),
        token_labels=True,
        from_last_token=diagnostic.from_last_token,
    )
    return Dataset(task, (FileLayout(f"seed {SEED}", _text),), "it is generated")


DATASETS = tuple(map(_dataset, DIAGNOSTICS.values()))
