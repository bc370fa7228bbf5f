"""Recall tasks: find the token next to an earlier token, copy tokens, memorize facts.

Each function returns ids and labels, `(rows, tokens)`, see `relation_tf.tasks.diagnostics.rows`.

References:
    - Arora et al. 2023, "Zoology: Measuring and Improving Recall in Efficient Language Models",
      arXiv 2312.04927 (`associative_recall`).
    - Poli et al. 2024, "Mechanistic Design and Scaling of Hybrid Architectures", arXiv 2403.17844
      (MAD: `recall`, `fuzzy_recall`, `selective_copy`, `memorize`, `compressing`).
    - Olsson et al. 2022, "In-context Learning and Induction Heads", arXiv 2209.11895.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

_GAP_POWER = 0.01  # exponent of the power-law distribution of distances from pairs to queries


def associative_recall(
    random: Generator, rows: int, length: int, *, pairs: int, keys: int
) -> tuple[np.ndarray, np.ndarray]:
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
) -> tuple[np.ndarray, np.ndarray]:
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


def fuzzy_recall(
    random: Generator, rows: int, length: int, *, keys: int, query: int
) -> tuple[np.ndarray, np.ndarray]:
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
) -> tuple[np.ndarray, np.ndarray]:
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


def memorize(
    random: Generator, rows: int, length: int, *, keys: int, query: int
) -> tuple[np.ndarray, np.ndarray]:
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
) -> tuple[np.ndarray, np.ndarray]:
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
) -> tuple[np.ndarray, np.ndarray]:
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


def compressing(
    random: Generator, rows: int, length: int, *, symbols: int, last: int
) -> tuple[np.ndarray, np.ndarray]:
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


def sorting(
    random: Generator, rows: int, length: int, *, symbols: int, query: int
) -> tuple[np.ndarray, np.ndarray]:
    """Draw symbols; the labels after them are the symbols in ascending order, see `reversing`."""
    chosen = random.integers(1, symbols + 1, (rows, length))
    return _query_after(chosen, np.sort(chosen, axis=1), query)


def reversing(
    random: Generator, rows: int, length: int, *, symbols: int, query: int
) -> tuple[np.ndarray, np.ndarray]:
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


def _query_after(
    given: np.ndarray, answers: np.ndarray, query: int
) -> tuple[np.ndarray, np.ndarray]:
    ids = np.concatenate([given, np.zeros_like(answers)], axis=1).astype(np.int32)
    return _query_at_end(ids, answers, query)


def _query_at_end(
    ids: np.ndarray, answers: np.ndarray, query: int
) -> tuple[np.ndarray, np.ndarray]:
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
    while len(again := _with_repeats(found)):
        found[again] = random.integers(1, kinds + 1, (len(again), count))
    return found


def _with_repeats(numbers: np.ndarray) -> np.ndarray:
    """Return the rows in which a number occurs twice."""
    steps = np.diff(np.sort(numbers, axis=1), axis=1)
    return np.flatnonzero((steps == 0).any(axis=1))


def _seen_before(chosen: np.ndarray, kinds: int) -> np.ndarray:
    """Return a mask of the numbers that occur earlier in their row; 0 has never occurred."""
    mask = np.zeros(chosen.shape, bool)
    seen = np.zeros((len(chosen), kinds + 1), bool)
    rows = np.arange(len(chosen))
    for place in range(chosen.shape[1]):
        mask[:, place] = seen[rows, chosen[:, place]]
        seen[rows, chosen[:, place]] = True
    return mask & (chosen > 0)
