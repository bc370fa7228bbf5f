"""Official numbers of rows of the GLUE tasks, and what the files of a task lack of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import glue_submit
from relation_tf.registry import SOURCES
from relation_tf.tasks.datasets import DATASETS, GLUE
from relation_tf.tasks.sources import TaskSource
from relation_tf.tasks.tables import readable

OFFICIAL_ROWS: Mapping[str, Mapping[str, int]] = {
    "CoLA": {"train": 8_551, "dev": 1_043},
    "SST-2": {"train": 67_349, "dev": 872},
    "MRPC": {"train": 3_668, "dev": 408},
    "STS-B": {"train": 5_749, "dev": 1_500},
    "QQP": {"train": 363_846, "dev": 40_430},
    "MNLI": {"train": 392_702, "dev_matched": 9_815, "dev_mismatched": 9_832},
    "MNLI-m": {"train": 392_702, "dev": 9_815},
    "MNLI-mm": {"train": 392_702, "dev": 9_832},
    "QNLI": {"train": 104_743, "dev": 5_463},
    "RTE": {"train": 2_490, "dev": 277},
    "WNLI": {"train": 635, "dev": 71},
}
"""Rows of the labelled splits; those of the test sets are in `glue_submit.TASKS`."""


@dataclass(frozen=True)
class Shortfall:
    """A test file that is missing or has another number of rows than the leaderboard's.

    Attributes:
        name: Name on the leaderboard, such as "MNLI-mm".
        place: The file.
        rows: Number of rows; None if the file is missing.
        expected: Number of rows of the official file.
    """

    name: str
    place: str
    rows: int | None
    expected: int

    def __str__(self) -> str:
        if self.rows is None:
            return f"{self.name}: {self.place} is missing ({self.expected:,} rows)"
        return f"{self.name}: {self.place} has {self.rows:,} rows, not {self.expected:,}"


def sample_note(source: TaskSource, rows: Mapping[str, int]) -> str | None:
    """Return a note if a GLUE task has fewer labelled rows than the official files.

    Args:
        source: Source of the task.
        rows: Number of rows of each split.

    Returns:
        None for complete data, for generated data and for other tasks.
    """
    if not _of_leaderboard(source):
        return None
    official = OFFICIAL_ROWS[source.task.name]
    fewer = [
        f"{rows[split]:,} of {count:,} {'training' if split == 'train' else split} rows"
        for split, count in official.items()
        if split in rows and rows[split] < count
    ]
    return f"a sample: {', '.join(fewer)}, not comparable with published results" if fewer else None


def shortfalls(source: TaskSource) -> list[Shortfall]:
    """Return the missing and incomplete test files of a GLUE task, or of the tasks of a group.

    Args:
        source: Source of the task or group. Prepared TFDS datasets have the official rows.
    """
    found = []
    for member in source.members or (source,):
        for name, split in member.task.answered.items() if _of_leaderboard(member) else ():
            expected = glue_submit.TASKS[name].test_rows
            path = member.files.get(split)
            rows = None if path is None else _count_rows(member, split, path, expected)
            if rows != expected:
                place = str(path or member.layout.files.get(split, f"split {split!r}"))
                found.append(Shortfall(name, place, rows, expected))
    return found


def unscored(source: TaskSource) -> list[str]:
    """Return a note for each diagnostic set without labels of a task, or of a group's tasks."""
    if source.members:
        return [note for member in source.members for note in unscored(member)]
    notes = []
    for name in source.task.diagnostics.keys() & source.task.answered.keys():
        split = source.task.answered[name]
        if split in source.files and not is_labelled(source, name):
            labelled = source.layout.labelled.get(split)
            why = f"{labelled} is missing" if labelled else f"{source.layout.name} has no labels"
            notes.append(f"{name} is predicted but not scored: {why}")
    return notes


def is_labelled(source: TaskSource, name: str) -> bool:
    """Return False if the file of a diagnostic set has no labels."""
    split = source.task.answered[name]
    labelled = source.layout.labelled.get(split)
    return name not in source.task.diagnostics or bool(
        labelled and split in source.files and source.files[split].match(labelled)
    )


def leaderboard_file(name: str) -> str:
    """Return the test file of a leaderboard name, relative to the folder of GLUE's files.

    Example:
        >>> leaderboard_file("MNLI-mm")
        'MNLI/test_mismatched.tsv'
    """
    task = next(task for task in GLUE.values() if name in task.answered)
    (layout,) = (each.layouts[0] for each in DATASETS if each.task is task)
    return layout.files[task.answered[name]]


def _of_leaderboard(source: TaskSource) -> bool:
    """Return True for real data of a GLUE task."""
    kind = SOURCES.get(source.kind)
    return source.task.name in OFFICIAL_ROWS and not (kind is not None and kind.artificial)


def _count_rows(source: TaskSource, split: str, path: Path, official: int) -> int:
    """Return the number of rows of a test file."""
    if source.layout.by_rows:
        return len(source.layout.read(source.task, {split: path}).splits[split])
    with readable(path):
        if not path.is_file():
            return official
        with path.open("rb") as file:
            return sum(1 for line in file if line.strip()) - 1  # the header
