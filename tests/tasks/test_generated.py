"""Tests of generated tasks: correct, unambiguous, and no row in two splits."""

from __future__ import annotations

import datetime
import hashlib
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relation_tf.tasks import find_source, load_task
from relation_tf.tasks.generated import LENGTHS, dates, reversal, reversal_by_length, write_date

SIZES = {"train": 300, "dev": 40, "test": 50}
FORMATS = 13
MONTHS = {"jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6, "jul": 7, "aug": 8,
          "sep": 9, "oct": 10, "nov": 11, "dec": 12}  # fmt: skip


def read_date(text: str) -> datetime.date:
    """Return the date of a text, parsed from the text only."""
    if found := re.fullmatch(r"(\d\d?)/(\d+)/(\d{4}|\d\d)", text):
        month, day, year = map(int, found.groups())
    elif found := re.fullmatch(r"(\d{4})/(\d+)/(\d+)", text):
        year, month, day = map(int, found.groups())
    elif found := re.fullmatch(r"(\d+)\.(\d+)\.(\d{4})", text):
        day, month, year = map(int, found.groups())
    else:
        words = re.findall(r"[a-z]+", text.lower())
        (month,) = {MONTHS[word[:3]] for word in words if word[:3] in MONTHS}
        day, year = map(int, re.findall(r"\d+", text))
    if year < 100:
        year += 1900 if year >= 70 else 2000
    return datetime.date(year, month, day)


def test_reversal() -> None:
    task = reversal(**SIZES)
    sources = [source for rows in task.splits.values() for source, _ in rows]
    assert len({*sources}) == len(sources) == sum(SIZES.values()) + SIZES["test"]
    for split, lengths in (("train", range(3, 11)), ("long", range(11, 15))):
        pairs = task.splits[split]
        assert all(target == source[::-1] for source, target in pairs)
        assert {len(source) for source, _ in pairs} == set(lengths)
    assert len(task.splits["long"]) == SIZES["test"]


def test_dates() -> None:
    pairs = dates(**SIZES).splits["train"]
    for source, target in pairs:
        assert read_date(source).isoformat() == target
    days = [datetime.date.fromisoformat(target) for _, target in pairs]
    assert min(days).year < 1980
    assert max(days).year > 2059


@given(
    st.dates(datetime.date(1970, 1, 1), datetime.date(2069, 12, 31)),
    st.integers(0, FORMATS - 1),
)
def test_each_date_has_one_target(day: datetime.date, format: int) -> None:
    assert read_date(write_date(day, format)) == day


def test_strings_by_length_are_new_in_each_split() -> None:
    splits = reversal_by_length(train=300, dev=20, test=50).splits
    assert {name: len(rows) for name, rows in splits.items()} == {
        "train": 300, "dev": 20, "test-10": 50, "test-20": 50, "test-30": 50
    }  # fmt: skip
    rows = [row for split in splits.values() for row in split]
    assert len({*rows}) == len(rows)
    for shortest, longest in ((3, 10), (11, 20), (21, 30)):
        lengths = {len(source) for source, _ in splits[f"test-{longest}"]}
        assert min(lengths) >= shortest
        assert max(lengths) <= longest
    assert {len(source) for source, _ in splits["train"]} == {*range(3, 31)}


def test_encoded_rows() -> None:
    task = dates(**SIZES)
    sources, targets = (ids.pad(np.arange(SIZES["dev"])) for ids in task.encode("dev"))
    assert targets.dtype == np.int32
    assert (targets[:, 0] == task.target.start).all()
    assert (targets[:, -1] == task.target.end).all()  # all dates have ten characters
    assert task.source.decode(sources) == [source for source, _ in task.splits["dev"]]
    assert task.target.decode(targets) == [target for _, target in task.splits["dev"]]


@pytest.mark.parametrize(
    ("make", "digest"),
    [(reversal, "a692d1d186bc9f01"), (dates, "15a1c55ed7b840e7")],
    ids=["reversal", "dates"],
)
def test_rows_never_change(make: Any, digest: str) -> None:
    task = make(**SIZES)
    data = b"".join(rows.ids.astype("<i4").tobytes() for rows in task.encode("train"))
    assert hashlib.sha256(data).hexdigest()[:16] == digest
    assert make(seed=1, **SIZES).splits["train"] != task.splits["train"]


@pytest.mark.parametrize(("kind", "length"), [(kind, own[0]) for kind, own in LENGTHS.items()])
def test_a_timed_task_is_one_text_of_its_length(kind: str, length: int) -> None:
    name = f"{kind}-{length}"
    task = load_task(name)
    (text,) = task.splits["train"].inputs
    assert text.lengths.tolist() == [length]
    assert task.vocabulary.size == 29
    assert task.task.timed == {"decode": "decoding", "training": "training"}[kind]
    assert task.task.scored == {name: "train"}
    assert task.source.kind == "generated"
    texts = find_source(name).read().splits["train"].texts
    assert task.vocabulary.decode(text.pad(np.arange(1))) == list(texts[0])


def test_too_many_rows() -> None:
    with pytest.raises(ValueError, match=r"rows can be generated\. Received: 302000 rows$"):
        dates(train=300_000)
