"""The nine trained tasks of GLUE, read from files in the official `glue_data` layout.

What the leaderboard requires (label words, rows, metrics) is in `glue_submit.TASKS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from glue_submit import TASKS
from relation_tf.errors import DataError, quote
from relation_tf.tasks.readers import named_column, split_reader, table_rows
from relation_tf.tasks.tables import read_tsv
from relation_tf.tasks.task import Dataset, FileLayout, Task, TextSplit

_PAIR = ("sentence1", "sentence2")
# CoLA's train and dev files have no header.
_COLA = ("source", "label", "original_judgement", "sentence")
_DIAGNOSTIC = "diagnostic"


def _task(name: str, inputs: tuple[str, ...], label: str) -> Task:
    return Task(
        name=name,
        inputs=inputs,
        label=label,
        labels=TASKS[name].labels,
        metrics=TASKS[name].metrics,
        validation="dev",
        scored={name: "dev"},
        answered={name: "test"},
    )


GLUE: dict[str, Task] = {
    task.name: task
    for task in (
        _task("CoLA", ("sentence",), "label"),
        _task("SST-2", ("sentence",), "label"),
        _task("MRPC", ("#1 String", "#2 String"), "Quality"),
        _task("STS-B", _PAIR, "score"),
        _task("QQP", ("question1", "question2"), "is_duplicate"),
        # One training answers three tasks of the leaderboard; the matched dev set stops it.
        Task(
            name="MNLI",
            inputs=_PAIR,
            label="gold_label",
            labels=TASKS["MNLI-m"].labels,
            metrics=TASKS["MNLI-m"].metrics,
            validation="dev_matched",
            scored={"MNLI-m": "dev_matched", "MNLI-mm": "dev_mismatched"},
            answered={"MNLI-m": "test_matched", "MNLI-mm": "test_mismatched", "AX": _DIAGNOSTIC},
        ),
        _task("QNLI", ("question", "sentence"), "label"),
        _task("RTE", _PAIR, "label"),
        _task("WNLI", _PAIR, "label"),
    )
}


def _rows(task: Task, path: Path, skip_bad_lines: bool) -> tuple[TextSplit, tuple[str, ...]]:
    columns = _COLA if task.name == "CoLA" else None
    rows, skipped = table_rows(read_tsv, columns)(task, path, skip_bad_lines)
    # As the leaderboard counts, which gives no number to a header.
    return replace(rows, index=np.arange(len(rows))), skipped


def _answered_rows(task: Task, path: Path) -> TextSplit:
    table = read_tsv(path)
    # QQP's test file calls its index "id".
    index = named_column(table, "index" if "index" in table.columns else "id")
    for row, (line, word) in enumerate(zip(table.lines, index, strict=True)):
        if word != str(row):
            raise DataError(f"{path}:{line}: expected index {row}, found {quote(word)}")
    if not index:
        raise DataError(f"{path}: expected rows, found none")
    texts = tuple(named_column(table, name) for name in task.inputs)
    return TextSplit(texts, None, np.arange(len(index)))


_READ = split_reader(_rows, answered=_answered_rows)


def _files(task: Task) -> Mapping[str, str]:
    splits = ("train", *task.scored.values(), *task.answered.values())
    folders = {_DIAGNOSTIC: _DIAGNOSTIC}
    return {split: f"{folders.get(split, task.name)}/{split}.tsv" for split in splits}


DATASETS = tuple(
    Dataset(
        task,
        (
            FileLayout(
                "TSV",
                _READ,
                _files(task),
                folders=("glue_data", ""),
                first=task.name,
                optional=tuple(task.answered.values()),
            ),
        ),
        "gluebenchmark.com/tasks",
    )
    for task in GLUE.values()
)
