"""Scores of simple rules that do not need the ability of a task."""

from __future__ import annotations

import numpy as np
import pytest

from relation_tf.tasks.diagnostics.presets import DIAGNOSTICS
from relation_tf.tasks.diagnostics.rows import LabelledRows, LabelledTokens, Symbols
from relation_tf.tasks.diagnostics.rules import by_last_tokens, by_seen_values, by_window


def made(ids: list[list[int]], labels: list[list[int]]) -> LabelledTokens:
    """Return a task whose rows are the same in both splits; source a to d, target c and d."""
    rows = LabelledRows(np.array(ids, np.int32), np.array(labels, np.int32))
    return LabelledTokens(Symbols.of("abcd"), Symbols.of("cd"), {"train": rows, "test": rows})


def test_a_window_sees_three_tokens_before_the_answer() -> None:
    others = [[a, b, c] for a in (1, 2) for b in (1, 2) for c in (1, 2)]
    near = made([[x, *rest] for x in (1, 2) for rest in others],
                [[0, 0, 0, x] for x in (1, 2) for _ in others])  # fmt: skip
    assert by_window(near, "test") == 1
    far = made([[x, *rest, y] for x in (1, 2) for rest in others for y in (1, 2)],
               [[0, 0, 0, 0, x] for x in (1, 2) for _ in others for y in (1, 2)])  # fmt: skip
    assert by_window(far, "test") == 0.5


def test_a_window_also_knows_the_position() -> None:
    assert by_window(made([[1, 1, 1, 1, 1, 1]], [[1, 2, 2, 1, 2, 1]]), "test") == 1


def test_labels_of_the_last_tokens_are_known() -> None:
    task = made([[3, 4, 3, 4, 3, 4, 1]], [[1, 2, 1, 2, 1, 2, 0]])
    assert by_last_tokens(task, "test") == pytest.approx((3 + 2) / 6)


def test_values_that_were_seen() -> None:
    task = made([[3, 4, 4, 1, 1]], [[0, 0, 0, 0, 2]])
    assert by_seen_values(task, "test") == 1
    assert by_seen_values(task, "test", first=2) == 0.5
    assert by_seen_values(task, "test", first=1) == 0
    assert by_seen_values(task, "test", period=2) == 0.5
    assert by_seen_values(made([[1, 1]], [[0, 2]]), "test") == 0


@pytest.mark.parametrize(
    ("name", "score"),
    [
        ("mqar-32-2-v32", 0.53),
        ("recall-small", 0.39),
        ("selective-copy-small", 0.34),
        ("sort", 0.29),
        ("majority", 0.69),
        ("compress-small", 0.47),
        ("memorize-small", 0.04),
        ("needle-64", 0.08),
    ],
)
def test_best_rule(name: str, score: float) -> None:
    task = DIAGNOSTICS[name]
    rows = task.make()
    assert task.best_rule(rows, "test") == pytest.approx(score, abs=0.01)
    assert rows.chance() <= task.best_rule(rows, "test")


def test_a_position_is_the_same_in_longer_rows() -> None:
    ids, labels = np.repeat([[1], [2]], 8, axis=1), np.array([[0] * 4 + [1, 2] * 2,
                                                              [0] * 4 + [2, 1] * 2])  # fmt: skip
    rows = [
        LabelledRows(*(np.pad(x, ((0, 0), (0, more))).astype("int32") for x in (ids, labels)))
        for more in (0, 2)
    ]
    splits = dict(zip(("train", "2x"), rows, strict=True))
    task = LabelledTokens(Symbols.of("abc"), Symbols.of("cd"), splits)
    assert by_window(task, "2x") == 1
