"""Accuracy of answers that do not need the ability of a task.

Each function returns the share of the labels of a split that a simple rule answers correctly. Rules
that read tokens learn their answers from the training split.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from relation_tf.tasks.diagnostics.rows import LabelledRows, LabelledTokens

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
