"""Draws of the diagnostic tasks.

Each function draws a number of rows of a length, see `relation_tf.tasks.diagnostics.rows`.

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

from math import inf
from random import Random
from statistics import median

import numpy as np
from numpy.random import Generator

Drawn = tuple[np.ndarray, np.ndarray]
"""Ids and labels, both `(rows, tokens)`."""

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
    return _one_answer(ones + 1, (ones.sum(axis=1) > number // 2) + 1, 3)


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
    number = random.integers(0, most + 1, rows)
    rank = np.argsort(np.argsort(random.random((rows, length)), axis=1), axis=1)
    noise = random.integers(2, others + 2, (rows, length))
    ids = np.where(rank < number[:, None], 1, noise)
    return _one_answer(ids, number + 1, others + 2)


def _one_answer(ids: np.ndarray, answers: np.ndarray, query: int) -> Drawn:
    rows, length = ids.shape
    texts = np.full((rows, length + 1), query, np.int32)
    texts[:, :-1] = ids
    labels = np.zeros_like(texts)
    labels[:, -1] = answers
    return texts, labels


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
