"""The nine trained tasks of GLUE, read from files in the official `glue_data` layout.

What the leaderboard asks for (label words, rows, metrics) is in `glue_submit.TASKS`; here is where
a model finds its text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from glue_submit import TASKS
from relation_tf.errors import DataError, quote
from relation_tf.tasks.labelled_tables import labelled_rows, named_column
from relation_tf.tasks.tables import Table, read_tsv
from relation_tf.tasks.task import Collection, FileLayout, Task, TaskText, TextSplit

# CoLA's train and dev files have no header.
_COLUMNS = {"CoLA": ("source", "label", "original_judgement", "sentence")}


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


_PAIR = ("sentence1", "sentence2")

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
            answered={"MNLI-m": "test_matched", "MNLI-mm": "test_mismatched", "AX": "diagnostic"},
        ),
        _task("QNLI", ("question", "sentence"), "label"),
        _task("RTE", _PAIR, "label"),
        _task("WNLI", _PAIR, "label"),
    )
}


def split_files(task: Task, folder: Path) -> dict[str, Path]:
    """The file of each split; answered files only where they are there."""
    files = {split: folder / f"{split}.tsv" for split in ("train", *task.scored.values())}
    for split in task.answered.values():
        path = folder / f"{split}.tsv"
        if split == "diagnostic":
            path = folder.parent / "diagnostic" / "diagnostic.tsv"
        if path.exists():
            files[split] = path
    return files


def _read(task: Task, files: Mapping[str, Path], skip_bad_lines: bool) -> TaskText:
    """Malformed lines of scored and answered files are never left out: their rows are counted."""
    splits: dict[str, TextSplit] = {}
    skipped: tuple[str, ...] = ()
    for split, path in files.items():
        if split in task.answered.values():
            splits[split] = _unlabelled(task, read_tsv(path))
            continue
        skip = skip_bad_lines and split == "train"
        table = read_tsv(path, _COLUMNS.get(task.name), skip_bad_lines=skip)
        rows, bad = labelled_rows(task, table, skip_bad_lines=skip)
        # As the leaderboard counts, which gives no number to a header.
        splits[split] = replace(rows, index=np.arange(len(rows)))
        skipped += bad
    return TaskText(task, splits, skipped)


COLLECTION = Collection(
    GLUE,
    (FileLayout("TSV", lambda task: (f"glue_data/{task.name}", task.name), split_files, _read),),
    "gluebenchmark.com/tasks",
)


def _unlabelled(task: Task, table: Table) -> TextSplit:
    index = []
    for row, (line, word) in enumerate(zip(table.lines, _index(table), strict=True)):
        if word != str(row):
            raise DataError(f"{table.path}:{line}: expected index {row}, found {quote(word)}")
        index.append(row)
    if not index:
        raise DataError(f"{table.path}: expected rows, found none")
    texts = tuple(named_column(table, name) for name in task.inputs)
    return TextSplit(texts, None, np.array(index, int))


def _index(table: Table) -> list[str]:
    # QQP's test file calls its index "id".
    return named_column(table, "index" if "index" in table.columns else "id")
