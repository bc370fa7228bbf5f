"""Each label of the diagnostic tasks is the answer that a simple program reads from the text."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from relation_tf.errors import DataError
from relation_tf.tasks import load_task
from relation_tf.tasks.diagnostics import (
    DIAGNOSTICS,
    LabelledRows,
    LabelledTokens,
    Symbols,
    by_last_tokens,
    by_seen_values,
    by_window,
    memorize,
)

ROOT = Path(__file__).parents[2]
Answer = Callable[[list[str]], list[str]]


def recalled(text: list[str], width: int = 1) -> list[str]:
    """Keys and values of `width` tokens alternate; a known value is the query."""
    answers, known = [""] * len(text), {}
    for i in range(0, len(text), 2 * width):
        key, value = tuple(text[i : i + width]), text[i + width : i + 2 * width]
        if value == ["?"] * width:
            answers[i + width : i + 2 * width] = known[key]
        elif not key[0].startswith("n"):
            assert key not in known
            known[key] = value
    return answers


def at_end(answer: Callable[[list[str]], list[str]]) -> Answer:
    """Answers for the places at the end."""

    def answers(text: list[str]) -> list[str]:
        count = text.count("?")
        return [""] * (len(text) - count) + answer(text[:-count])

    return answers


def state(step: Callable[[str, str], str], start: str) -> Answer:
    def answers(text: list[str]) -> list[str]:
        found, now = [], start
        for token in text:
            now = step(now, token)
            found.append(now)
        return found

    return answers


def innermost(text: list[str]) -> list[str]:
    stack: list[str] = []
    found = []
    for token in text:
        if token in "([":
            stack.append(token)
        else:
            assert stack.pop() + token in ("()", "[]")
        assert len(stack) <= 4
        found.append(stack[-1] if stack and token in ")]" else "")
    return found


def evaluated(text: list[str]) -> list[str]:
    operators = {"[MAX": max, "[MIN": min, "[MED": lambda x: int(median(x)),
                 "[SM": lambda x: sum(x) % 10}  # fmt: skip
    end = text.index("?")
    stack: list[tuple[str, list[int]]] = [("", [])]
    for token in text[:end]:
        if token in operators:
            stack.append((token, []))
        elif token == "]":
            operator, values = stack.pop()
            stack[-1][1].append(operators[operator](values))
        else:
            stack[-1][1].append(int(token))
    return ["" if i != end else str(stack[0][1][0]) for i in range(len(text))]


def facts(text: list[str]) -> list[str]:
    keys = len(DIAGNOSTICS["memorize-small"].target.tokens) - 1
    ids, labels = memorize(np.random.default_rng(1), 500, 8, keys=keys, query=keys + 1)
    known = {int(k): int(v) for k, v in zip(ids[:, ::2].flat, labels[:, 1::2].flat, strict=True)}
    return [f"v{known[int(text[i - 1][1:])]}" if token == "?" else ""
            for i, token in enumerate(text)]  # fmt: skip


ANSWERS: dict[str, Answer] = {
    "recall-small": recalled,
    "noisy-recall-small": recalled,
    "fuzzy-recall-small": lambda text: recalled(text, 2),
    "selective-copy-small": at_end(lambda text: [token for token in text if token != "."]),
    "memorize-small": facts,
    "induction": at_end(lambda text: [text[text.index("S") + 1]]),
    "sort": at_end(lambda text: sorted(text, key=lambda token: int(token[1:]))),
    "reverse": at_end(lambda text: text[::-1]),
    "compress-small": lambda text: [*text[:-1], ""],
    "needle-16": at_end(lambda text: [token for token in text if token.startswith("s")]),
    "parity": state(lambda now, token: str(int(now != token)), "0"),
    "modular-addition": state(lambda now, token: str((int(now) + int(token)) % 5), "0"),
    "dyck": innermost,
    "majority": at_end(lambda text: [max("01", key=text.count)]),
    "count": at_end(lambda text: [str(text.count("x"))]),
    "listops-small": evaluated,
}


@cache
def made(name: str) -> LabelledTokens:
    return replace(DIAGNOSTICS[name], train=400, held_out=60).make()


def rows(name: str, split: str) -> list[tuple[list[str], list[str]]]:
    task = made(name)
    texts = task.source.decode(task.splits[split].ids)
    labels = task.target.decode(task.splits[split].labels)
    return [(text.split(), label.split()) for text, label in zip(texts, labels, strict=True)]


@pytest.mark.parametrize("name", ANSWERS)
def test_each_label_is_the_answer(name: str) -> None:
    for split in made(name).splits:
        for text, labels in rows(name, split):
            expected = [answer or "-" for answer in ANSWERS[name](text)]
            assert [*labels] == expected, text


@pytest.mark.parametrize("name", ["mqar-64-4", "mqar-64-4-v64", "mqar-256-64"])
def test_each_key_of_associative_recall_is_asked_once(name: str) -> None:
    pairs = 64 if name == "mqar-256-64" else 4
    for text, labels in rows(name, "test"):
        known = dict(zip(text[: 2 * pairs : 2], text[1 : 2 * pairs : 2], strict=True))
        asked = {token: label for token, label in zip(text, labels, strict=True) if label != "-"}
        assert asked == known
        assert labels[: 2 * pairs] == ["-"] * (2 * pairs)


@pytest.mark.parametrize(("name", "length"), [("parity", 10), ("needle-16", 6), ("sort", 3)])
def test_no_training_row_is_in_another_split(name: str, length: int) -> None:
    """Short texts: without the check, many rows would be in two splits."""
    task = replace(DIAGNOSTICS[name], train=400, held_out=60, length=length, further=())
    splits = task.make().splits
    train = {row.tobytes() for row in splits["train"].ids}
    for split in ("dev", "test"):
        assert not train & {row.tobytes() for row in splits[split].ids}, split


def test_a_needle_has_the_depth_of_its_test_set() -> None:
    for depth in (0, 25, 50, 75, 100):
        for text, labels in rows("needle-64", f"depth{depth}"):
            assert abs(text.index(labels[-1]) - depth / 100 * 62) <= 0.5
    places = {text.index(labels[-1]) for text, labels in rows("needle-16", "train")}
    assert places == {*range(15)}


def test_texts_end_without_padding() -> None:
    task = load_task("listops-small")
    texts, labels = task.splits["test"].inputs
    padded = texts.pad(np.arange(len(texts)))
    np.testing.assert_array_equal(texts.lengths, (padded > 0).sum(axis=1))
    np.testing.assert_array_equal(texts.lengths, labels.lengths)
    assert texts.lengths.min() < texts.lengths.max()
    assert (labels.ids[labels.offsets[1:] - 1] > 0).all()  # the last token has the label


def test_too_few_different_rows_are_refused() -> None:
    tiny = replace(DIAGNOSTICS["parity"], length=2, train=400, held_out=10)
    with pytest.raises(DataError, match="task parity: too few different texts for 400 training"):
        tiny.make()


def test_the_page_names_all_tasks() -> None:
    text = (ROOT / "docs" / "how-to" / "diagnostics.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (`.*?`) \| (.*?) \|", text, re.MULTILINE))
    isolates = {name: each for names, each in rows.items() for name in re.findall("`(.*?)`", names)}
    assert isolates == {name: each.isolates for name, each in DIAGNOSTICS.items()}


# Scores of rules that do not need the ability of a task.


def labelled(ids: list[list[int]], labels: list[list[int]]) -> LabelledTokens:
    """Return a task whose rows are the same in both splits; source a to d, target c and d."""
    rows = LabelledRows(np.array(ids, np.int32), np.array(labels, np.int32))
    return LabelledTokens(Symbols.of("abcd"), Symbols.of("cd"), {"train": rows, "test": rows})


def test_a_window_sees_three_tokens_before_the_answer() -> None:
    others = [[a, b, c] for a in (1, 2) for b in (1, 2) for c in (1, 2)]
    near = labelled([[x, *rest] for x in (1, 2) for rest in others],
                [[0, 0, 0, x] for x in (1, 2) for _ in others])  # fmt: skip
    assert by_window(near, "test") == 1
    far = labelled([[x, *rest, y] for x in (1, 2) for rest in others for y in (1, 2)],
               [[0, 0, 0, 0, x] for x in (1, 2) for _ in others for y in (1, 2)])  # fmt: skip
    assert by_window(far, "test") == 0.5


def test_a_window_also_knows_the_position() -> None:
    assert by_window(labelled([[1, 1, 1, 1, 1, 1]], [[1, 2, 2, 1, 2, 1]]), "test") == 1


def test_labels_of_the_last_tokens_are_known() -> None:
    task = labelled([[3, 4, 3, 4, 3, 4, 1]], [[1, 2, 1, 2, 1, 2, 0]])
    assert by_last_tokens(task, "test") == pytest.approx((3 + 2) / 6)


def test_values_that_were_seen() -> None:
    task = labelled([[3, 4, 4, 1, 1]], [[0, 0, 0, 0, 2]])
    assert by_seen_values(task, "test") == 1
    assert by_seen_values(task, "test", first=2) == 0.5
    assert by_seen_values(task, "test", first=1) == 0
    assert by_seen_values(task, "test", period=2) == 0.5
    assert by_seen_values(labelled([[1, 1]], [[0, 2]]), "test") == 0


@pytest.mark.parametrize(
    ("name", "score"),
    [("mqar-32-2-v32", 0.53), ("recall-small", 0.39), ("majority", 0.69), ("compress-small", 0.47)],
)
def test_best_rule(name: str, score: float) -> None:
    task = DIAGNOSTICS[name]
    assert task.best_rule(task.make(), "test") == pytest.approx(score, abs=0.01)


def test_a_position_is_the_same_in_longer_rows() -> None:
    ids = np.repeat([[1], [2]], 8, axis=1).astype("int32")
    labels = np.array([[0] * 4 + [1, 2] * 2, [0] * 4 + [2, 1] * 2], np.int32)
    longer = LabelledRows(*(np.pad(x, ((0, 0), (0, 2))) for x in (ids, labels)))
    splits = {"train": LabelledRows(ids, labels), "2x": longer}
    assert by_window(LabelledTokens(Symbols.of("abc"), Symbols.of("cd"), splits), "2x") == 1
