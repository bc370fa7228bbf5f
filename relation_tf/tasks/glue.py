"""The nine trained tasks of GLUE, read from files in the official `glue_data` layout.

What the leaderboard asks for (label words, rows, metrics) is in `glue_submit.TASKS`; here is where
a model finds its text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from glue_submit import TASKS
from relation_tf.tasks.tsv import DataError, Table, read_tsv


@dataclass(frozen=True)
class Task:
    """What is learned.

    Attributes:
        name: Its name, also that of its folder.
        inputs: The text columns, one or two.
        label: The label column.
        dev: Split files that are scored, by leaderboard name; the first one stops the training.
        test: Split files that are answered, by leaderboard name.
        labels: The label words in the order of the classes, or None for scores in [0, 5].
        columns: The columns of train and dev files that have no header.
    """

    name: str
    inputs: tuple[str, ...]
    label: str
    labels: tuple[str, ...] | None
    dev: Mapping[str, str]
    test: Mapping[str, str]
    columns: tuple[str, ...] | None = None

    @property
    def maximum(self) -> float:
        """The largest score of a regression; labels are divided by it."""
        return 5.0


@dataclass(frozen=True)
class TextSplit:
    """The rows of one file.

    Attributes:
        texts: A list of texts for each input column.
        labels: Class numbers, or scores divided by the task's maximum; None where there are none.
        index: The number of each row as the leaderboard counts.
    """

    texts: tuple[list[str], ...]
    labels: np.ndarray | None
    index: np.ndarray

    def __len__(self) -> int:
        return len(self.index)


@dataclass(frozen=True)
class TaskText:
    """A task with its text.

    Attributes:
        task: The task.
        splits: Its splits; "train" and the dev splits are always there, test splits may not be.
        skipped: One message for each malformed line that was left out.
    """

    task: Task
    splits: Mapping[str, TextSplit]
    skipped: tuple[str, ...] = ()


def _task(
    name: str,
    inputs: tuple[str, ...],
    label: str,
    columns: tuple[str, ...] | None = None,
) -> Task:
    return Task(
        name=name,
        inputs=inputs,
        label=label,
        labels=TASKS[name].labels,
        dev={name: "dev"},
        test={name: "test"},
        columns=columns,
    )


_PAIR = ("sentence1", "sentence2")

GLUE: dict[str, Task] = {
    task.name: task
    for task in (
        _task(
            "CoLA",
            ("sentence",),
            "label",
            columns=("source", "label", "original_judgement", "sentence"),
        ),
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
            dev={"MNLI-m": "dev_matched", "MNLI-mm": "dev_mismatched"},
            test={"MNLI-m": "test_matched", "MNLI-mm": "test_mismatched", "AX": "diagnostic"},
        ),
        _task("QNLI", ("question", "sentence"), "label"),
        _task("RTE", _PAIR, "label"),
        _task("WNLI", _PAIR, "label"),
    )
}


def find_glue(name: str, data: Path | None) -> Path:
    """The folder of a task: `data/glue_data/<Task>`, or else `data/<Task>`.

    Raises:
        DataError: Where neither is there; it says where it looked, or what it was not given.
    """
    if data is None:
        raise DataError(
            f"task {name}: expected --data DIR, a folder with glue_data/{name} or {name} in the "
            "official GLUE layout; none was given"
        )
    looked = [data / "glue_data" / name, data / name]
    for folder in looked:
        if folder.is_dir():
            return folder
    raise DataError(
        f"task {name}: expected a folder in the official glue_data layout, looked for "
        f"{looked[0]} and {looked[1]}. --data DIR names the folder that holds them"
    )


def read_task(name: str, folder: Path, *, skip_bad_lines: bool = False) -> TaskText:
    """Read a task from its folder.

    Args:
        name: One of `GLUE`.
        folder: The folder with `train.tsv`, the dev files and, where they are there, the test
            files. AX lies in `../diagnostic/diagnostic.tsv`.
        skip_bad_lines: Leave out malformed lines of train files, and say so in `skipped`. Dev and
            test files are scored and submitted row by row: there a malformed line is always an
            error.

    Raises:
        DataError: For a missing file or a malformed line.
    """
    task = GLUE[name]
    splits: dict[str, TextSplit] = {}
    skipped: tuple[str, ...] = ()
    for split, path in split_files(task, folder).items():
        if split in task.test.values():
            splits[split] = _unlabelled(task, read_tsv(path))
            continue
        skip = skip_bad_lines and split == "train"
        table = read_tsv(path, task.columns, skip_bad_lines=skip)
        splits[split], bad = _labelled(task, table, skip)
        skipped += table.skipped + bad
    return TaskText(task, splits, skipped)


def split_files(task: Task, folder: Path) -> dict[str, Path]:
    """The file of each split; test files only where they are there."""
    files = {split: folder / f"{split}.tsv" for split in ("train", *task.dev.values())}
    for split in task.test.values():
        path = folder / f"{split}.tsv"
        if split == "diagnostic":
            path = folder.parent / "diagnostic" / "diagnostic.tsv"
        if path.exists():
            files[split] = path
    return files


def _labelled(task: Task, table: Table, skip_bad_lines: bool) -> tuple[TextSplit, tuple[str, ...]]:
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
    return score / maximum if 0 <= score <= maximum else None


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
