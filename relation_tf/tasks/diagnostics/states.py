"""Tasks of states and sums: parity, addition, brackets, majority, counts and nested lists.

Each function returns ids and labels, `(rows, tokens)`, see `relation_tf.tasks.diagnostics.rows`.

References:
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


def running_sum(
    random: Generator, rows: int, length: int, *, modulus: int
) -> tuple[np.ndarray, np.ndarray]:
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


def brackets(
    random: Generator, rows: int, length: int, *, kinds: int, depth: int
) -> tuple[np.ndarray, np.ndarray]:
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


def majority(random: Generator, rows: int, length: int) -> tuple[np.ndarray, np.ndarray]:
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


def count(
    random: Generator, rows: int, length: int, *, most: int, others: int
) -> tuple[np.ndarray, np.ndarray]:
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


def _one_answer(ids: np.ndarray, answers: np.ndarray, query: int) -> tuple[np.ndarray, np.ndarray]:
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
) -> tuple[np.ndarray, np.ndarray]:
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
