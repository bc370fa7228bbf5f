"""The nine trained tasks of GLUE, read from files in the official `glue_data` layout.

What the leaderboard asks for (label words, rows, metrics) is in `glue_submit.TASKS`; here is where
a model finds its text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from glue_submit import TASKS
from relation_tf.tasks.task import Collection, Layout, Task, TaskText, TextSplit
from relation_tf.tasks.tsv import DataError, Table, read_tsv

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
        splits[split], bad = labelled(task, table, skip)
        skipped += table.skipped + bad
    return TaskText(task, splits, skipped)


COLLECTION = Collection(
    GLUE,
    (Layout("TSV", lambda task: (f"glue_data/{task.name}", task.name), split_files, _read),),
    "gluebenchmark.com/tasks",
)


def labelled(task: Task, table: Table, skip_bad_lines: bool) -> tuple[TextSplit, tuple[str, ...]]:
    """The labelled rows of a table, and a message for each that was left out for its label."""
    texts = _columns(table, task.inputs)
    words = _columns(table, (task.label,))[0]
    labels, bad = _labels(task, table, words, skip_bad_lines)
    kept = [i for i, label in enumerate(labels) if label is not None]
    if not kept:
        raise DataError(f"{table.path}: expected labelled rows, found none")
    dtype = "float32" if task.labels is None else "int32"
    if bad:
        texts = tuple([column[i] for i in kept] for column in texts)
    values = np.array([labels[i] for i in kept], dtype)
    return TextSplit(texts, values, np.arange(len(kept))), bad


def _labels(
    task: Task, table: Table, words: Sequence[str], skip_bad_lines: bool
) -> tuple[list[float | None], tuple[str, ...]]:
    classes = None if task.labels is None else {word: i for i, word in enumerate(task.labels)}
    labels: list[float | None] = []
    bad: list[str] = []
    for line, word in zip(table.lines, words, strict=True):
        label = classes.get(word) if classes is not None else _score(word, task.maximum)
        if label is None:
            expected = (
                f"a number in [0, {task.maximum:g}]" if classes is None else " or ".join(classes)
            )
            message = f"{table.path}:{line}: expected {task.label} {expected}, found {word!r}"
            if not skip_bad_lines:
                raise DataError(message)
            bad.append(message)
        labels.append(label)
    return labels, tuple(bad)


def _score(word: str, maximum: float) -> float | None:
    try:
        score = float(word)
    except ValueError:
        return None
    # In float32, in which TFDS keeps scores: to the last bit its labels are those of the files.
    return float(np.float32(score) / np.float32(maximum)) if 0 <= score <= maximum else None


def _unlabelled(task: Task, table: Table) -> TextSplit:
    index = []
    for row, (line, word) in enumerate(zip(table.lines, _index(table), strict=True)):
        if word != str(row):
            raise DataError(f"{table.path}:{line}: expected index {row}, found {word!r}")
        index.append(row)
    return TextSplit(_columns(table, task.inputs), None, np.array(index, int))


def _index(table: Table) -> list[str]:
    # QQP's test file calls its index "id".
    return _columns(table, ("index" if "index" in table.columns else "id",))[0]


def _columns(table: Table, names: tuple[str, ...]) -> tuple[list[str], ...]:
    missing = [name for name in names if name not in table.columns]
    if missing:
        raise DataError(
            f"{table.path}:1: expected a column {missing[0]!r}, found {', '.join(table.columns)}"
        )
    return tuple(table.columns[name] for name in names)
