"""Overviews of tasks: rows, classes, lengths, and examples as a network reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from relation_tf.errors import DataError
from relation_tf.tasks.catalogue import Entry, NotFoundError, folder_of
from relation_tf.tasks.encoding import EncodedSplit, EncodedTask, load_task
from relation_tf.tasks.rows import Ragged, Texts
from relation_tf.tasks.task import Task

_SHOWN = 40  # tokens of an example, and so words of text; what is left out is counted
_WIDTHS = (24, 18, 8, 7, 13, 13, 12)


@dataclass(frozen=True)
class Overview:
    """A task in a line.

    Attributes:
        name: Its name.
        source: Where its text was found.
        rows: Rows of each split.
        classes: How many, if there are any.
        target: What is to be told of a row: `"class"`, `"score"`, `"written"` (a sequence), or
            `"timed"` where nothing is learned.
        mean: Mean tokens of a training row, for each input.
        longest: The most tokens of a row of any split, for each input.
        digest: SHA-256 of the files.
    """

    name: str
    source: str
    rows: dict[str, int]
    classes: int | None
    target: str
    mean: tuple[float, ...]
    longest: tuple[int, ...]
    digest: str


def overview(task: EncodedTask) -> Overview:
    """Look a task over.

    Example:
        >>> from relation_tf.tasks import load_task
        >>> overview(load_task("RTE", "miniglue")).classes
        2
    """
    splits = task.splits.values()
    labels = task.task.labels
    return Overview(
        name=task.task.name,
        source=f"{task.source.kind}: {task.source.layout.name}",
        rows={name: len(split) for name, split in task.splits.items()},
        classes=None if labels is None else len(labels),
        target=_target(task.task),
        mean=tuple(task.splits["train"].lengths.mean(axis=1).tolist()),
        longest=tuple(
            np.max([split.lengths.max(axis=1, initial=0) for split in splits], axis=0).tolist()
        ),
        digest=task.digest,
    )


def _target(task: Task) -> str:
    if task.labels is not None:
        return "class"
    return "written" if task.written else "timed" if task.timed else "score"


def label_counts(task: EncodedTask) -> dict[str, dict[str, int]]:
    """For each labelled split of a classification the rows of each class."""
    words = task.task.labels
    if words is None:
        return {}
    return {
        name: dict(
            zip(words, np.bincount(split.labels, minlength=len(words)).tolist(), strict=True)
        )
        for name, split in task.splits.items()
        if split.labels is not None
    }


def examples(task: EncodedTask, split: str = "train", count: int = 3) -> Iterator[str]:
    """Some rows of a split as a network reads them: the label, and each input token by token.

    Args:
        task: The task.
        split: One of its splits.
        count: How many rows; they are spread evenly over the split.

    Example:
        >>> from relation_tf.tasks import load_task
        >>> print(next(examples(load_task("CoLA", "miniglue", start_token=True))))
        label: 0
        sentence: [START] these lawyers near the river .
                  2 33 42 10 3 11 4
    """
    rows = task.splits[split]
    known = [task.vocabulary, task.targets or task.vocabulary]
    words = [{} if own is None else {i: w for w, i in own.words.items()} for own in known]
    for row in np.linspace(0, len(rows) - 1, min(count, len(rows))).astype(int):
        lines = [f"label: {_label(task, rows, row)}"] if rows.labels is not None else []
        # A task has one input or two; what is to be written has characters of its own.
        for name, column, own in zip(task.task.inputs, rows.inputs, words, strict=False):
            lines += _input(name, column, row, own)
        yield "\n".join(lines)


def _label(task: EncodedTask, rows: EncodedSplit, row: int) -> str:
    assert rows.labels is not None
    if task.task.labels is None:
        return f"{rows.labels[row] * task.task.maximum:g}"
    return task.task.labels[rows.labels[row]]


def _input(name: str, column: Ragged | Texts, row: int, words: dict[int, str]) -> list[str]:
    (values,) = column.pad(np.array([row]))
    if isinstance(column, Texts):
        return [f"{name}: {_first(values.split())}"]
    ids = values[: column.lengths[row]].tolist()
    indent = " " * (len(name) + 2)
    return [f"{name}: {_first([words[i] for i in ids])}", indent + _first(list(map(str, ids)))]


def _first(parts: list[str]) -> str:
    more = len(parts) - _SHOWN
    return " ".join([*parts[:_SHOWN], *([f"... and {more:,} more"] if more > 0 else [])])


def lines(
    names: Iterable[Entry],
    data: str | Path | None = None,
    tfds_folder: str | Path | None = None,
    reading: Mapping[str, Mapping[str, Any]] | None = None,
) -> Iterator[str]:
    """A table of tasks, line by line as they are read.

    Args:
        names: The tasks, one's own, or groups, whose tasks are listed one by one.
        data: As in `find_source`, and so `tfds_folder`.
        tfds_folder: The folder of TFDS.
        reading: For each task, by its name, further arguments of `load_task`.

    Raises:
        DataError: If `data` is not a folder.
    """
    yield _line(
        "task", "source", "training", "classes", "mean tokens", "longest", "digest", "other rows"
    )
    folder_of(data)
    missing = []
    for entry in names:
        name = entry if isinstance(entry, str) else entry.name
        settings = (reading or {}).get(name, {})
        try:
            task = load_task(entry, data=data, tfds_folder=tfds_folder, **settings)
        except NotFoundError:
            missing.append(name)
        except DataError as error:
            yield _line(name, f"cannot be read: {error}")
        else:
            yield from (_line(*_columns(overview(member))) for member in task.members)
    if missing:
        yield f"not found: {', '.join(missing)}"
        yield "`relation-tf tasks NAME` says where one was looked for, and how to get it."


def describe(
    name: Entry,
    data: str | Path | None = None,
    tfds_folder: str | Path | None = None,
    reading: Mapping[str, Any] | None = None,
) -> str:
    """A task at length: splits, classes, lengths, and examples as a network reads them.

    Args:
        name: A registered task, a suite's own task, or a group, whose tasks follow each other.
        data: As in `find_source`, and so `tfds_folder`.
        tfds_folder: The folder of TFDS.
        reading: Further arguments of `load_task`.

    Raises:
        DataError: If the task is not found or cannot be read.
    """
    task = load_task(name, data=data, tfds_folder=tfds_folder, **(reading or {}))
    return "\n\n".join(map(_described, task.members))


def _described(task: EncodedTask) -> str:
    seen = overview(task)
    facts = {
        "source": ", ".join([seen.source, *map(str, [*task.source.files.values()][:1])]),
        "digest": seen.digest,
        "rows": _rows(seen.rows),
        "inputs": ", ".join(task.task.inputs),
        "metrics": ", ".join(task.task.metrics),
        "stops on": task.validation,
        "scores": ", ".join(f"{key} ({split})" for key, split in task.task.scored.items()),
        "mean tokens": _by_input(seen.mean),
        "longest": _by_input(seen.longest),
        "vocabulary": "none, text" if task.vocabulary is None else f"{task.vocabulary.size:,}",
        **{
            f"classes of {split}": ", ".join(f"{word} {count:,}" for word, count in counts.items())
            for split, counts in label_counts(task).items()
        },
    }
    notes = [f"note: {note}" for note in task.notes]
    if task.skipped:
        notes.append(f"{len(task.skipped)} malformed lines left out, the first: {task.skipped[0]}")
    table = [f"{key + ': ':24}{value}" for key, value in facts.items()]
    return "\n".join([seen.name, *table, *notes, "", *_spaced(examples(task))])


def _spaced(blocks: Iterable[str]) -> Iterator[str]:
    for block in blocks:
        yield from (block, "")


def _columns(seen: Overview) -> tuple[str, ...]:
    mean, longest = _by_input(seen.mean), _by_input(seen.longest)
    others = {split: count for split, count in seen.rows.items() if split != "train"}
    classes = seen.target if seen.classes is None else str(seen.classes)
    first = (seen.name, seen.source, f"{seen.rows['train']:,}", classes, mean, longest)
    return *first, seen.digest[:12], _rows(others)


def _rows(rows: Mapping[str, int]) -> str:
    return ", ".join(f"{split} {count:,}" for split, count in rows.items())


def _by_input(values: Iterable[float]) -> str:
    return " + ".join(f"{v:,}" if isinstance(v, int) else f"{v:,.1f}" for v in values)


def _line(*cells: str) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, _WIDTHS, strict=False))
    return "  ".join([*padded, *cells[len(_WIDTHS) :]])
