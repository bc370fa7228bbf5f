r"""Yelp Full: reviews with one to five stars.

The texts are written as JSON strings are, a line break as `\n` and `é` as `\u00e9`, their quotes
doubled for CSV as well (`\""`): these escapes are undone.

Where the whole set, `yelp_review_full_csv`, is not there, two small files of 1,000 reviews each are
read, `yelp_full_sample/dev.json` to train on and `test.json` to test: JSON objects of
`{"ori": text, "label": "0" to "4"}`. A result on them is not comparable with published ones, and a
note says so.

There is no split that stops the training: a share of the training rows does.

References:
    Zhang, Zhao and LeCun 2015, "Character-level Convolutional Networks for Text Classification"
    (NIPS).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from relation_tf.errors import DataError
from relation_tf.tasks.csv_tables import read_csv
from relation_tf.tasks.labelled_tables import labelled_rows
from relation_tf.tasks.tables import decode_record, read_records
from relation_tf.tasks.task import Collection, FileLayout, Task, TaskText, TextSplit

_STARS = ("1", "2", "3", "4", "5")
_SAMPLE_LABELS = ("0", "1", "2", "3", "4")
_ESCAPE = re.compile(r'\\(["\\/bfnrt]|u[0-9A-Fa-f]{4})')

YELP_FULL = Task(
    name="Yelp-full",
    inputs=("text",),
    label="stars",
    labels=_STARS,
    metrics=("accuracy",),
    validation=None,
    scored={"Yelp-full": "test"},
)


def _files(task: Task, train: Path) -> dict[str, Path]:
    return {"train": train, "test": train.with_name(f"test{train.suffix}")}


def _read(task: Task, files: Mapping[str, Path], skip_bad_lines: bool) -> TaskText:
    train, skipped = _read_stars(files["train"], skip_bad_lines)
    test, _ = _read_stars(files["test"], False)
    return TaskText(task, {"train": train, "test": test}, skipped)


def _read_small(task: Task, files: Mapping[str, Path], skip_bad_lines: bool) -> TaskText:
    train, skipped = _read_sample(files["train"], skip_bad_lines)
    test, _ = _read_sample(files["test"], False)
    note = (
        f"a sample: {len(train):,} of 650,000 rows to train on, {len(test):,} of 50,000 to test "
        f"({files['train'].parent.name})"
    )
    return TaskText(task, {"train": train, "test": test}, skipped, (note,))


def _read_stars(path: Path, skip_bad_lines: bool) -> tuple[TextSplit, tuple[str, ...]]:
    table = read_csv(path, ("stars", "text"), skip_bad_lines=skip_bad_lines)
    texts = [_unescape(text) for text in table.columns["text"]]
    return labelled_rows(YELP_FULL, table, [texts], skip_bad_lines=skip_bad_lines)


def _read_sample(path: Path, skip_bad_lines: bool) -> tuple[TextSplit, tuple[str, ...]]:
    texts: list[str] = []
    numbers: list[int] = []
    index: list[int] = []
    skipped: list[str] = []
    for row, (key, entry) in enumerate(_read_object(path).items()):
        match entry:
            case {"ori": str(text), "label": str(label)} if label in _SAMPLE_LABELS:
                texts.append(_unescape(text))
                numbers.append(_SAMPLE_LABELS.index(label))
                index.append(row)
            case _:
                message = (
                    f'{path}: entry {key!r:.40}: expected {{"ori": text, "label": "0" to "4"}}, '
                    f"found {entry!r:.76}"
                )
                if not skip_bad_lines:
                    raise DataError(message)
                skipped.append(message)
    if not texts:
        raise DataError(f"{path}: expected labelled rows, found none")
    rows = TextSplit((texts,), np.array(numbers, np.int32), np.array(index, int))
    return rows, tuple(skipped)


def _read_object(path: Path) -> dict[str, Any]:
    records = enumerate(read_records(path), 1)
    text = "\n".join(decode_record(path, line, record) for line, record in records)
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: expected a JSON object of entries, found: {error}") from error
    if not isinstance(entries, dict):
        raise DataError(f"{path}: expected a JSON object of entries, found {entries!r:.76}")
    return entries


def _unescape(text: str) -> str:
    text = text.replace('\\""', '\\"')
    text = _ESCAPE.sub(lambda escape: str(json.loads(f'"{escape[0]}"')), text)
    # Joins the two halves of a character beyond U+FFFF; half of one alone is no character, nor NUL.
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return whole.replace("\0", "\N{REPLACEMENT CHARACTER}")


COLLECTION = Collection(
    {YELP_FULL.name: YELP_FULL},
    (
        FileLayout("CSV", lambda task: ("yelp_review_full_csv/train.csv",), _files, _read),
        FileLayout("JSON sample", lambda task: ("yelp_full_sample/dev.json",), _files, _read_small),
    ),
    "yelp_review_full_csv of Zhang, Zhao and LeCun 2015",
)
