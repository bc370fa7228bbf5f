"""Overviews of tasks: rows, classes, lengths, and encoded examples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from relation_tf.errors import DataError, MissingPackageError
from relation_tf.registry import SOURCES
from relation_tf.tasks.catalogue import Entry, NotFoundError, folder_of
from relation_tf.tasks.encoding import EncodedSplit, EncodedTask, load_task
from relation_tf.tasks.official import shortfalls, unscored
from relation_tf.tasks.rows import Ragged, Texts
from relation_tf.tasks.sources import joined_digest
from relation_tf.tasks.task import Task

_SHOWN = 40  # largest number of tokens or words of an example; omitted ones are counted
_FACTS = (
    "task", "status", "source", "layout", "rows", "target", "classes", "metrics", "mean_tokens",
    "longest", "digest", "notes", "error",
)  # fmt: skip
_WIDTHS = (24, 18, 8, 7, 13, 13, 12)


def examples(task: EncodedTask, split: str = "train", count: int = 3) -> Iterator[str]:
    """Yield some encoded rows of a split: the label, and the tokens of each input.

    Args:
        task: The task.
        split: Name of the split.
        count: Number of rows, evenly spaced in the split.

    Raises:
        DataError: If the task has no such split, or the number is negative.

    Example:
        >>> from relation_tf.tasks import load_task
        >>> print(next(examples(load_task("CoLA", "miniglue", start_token=True))))
        label: 0
        sentence: [START] these lawyers near the river .
                  2 33 42 10 3 11 4
    """
    if split not in task.splits:
        raise DataError(f"split: must be one of {', '.join(task.splits)}. Received: {split!r}")
    if count < 0:
        raise DataError(f"count: must be 0 or more. Received: {count}")
    rows = task.splits[split]
    known = [task.vocabulary, task.targets or task.vocabulary]
    words = [{} if own is None else {i: w for w, i in own.words.items()} for own in known]
    for row in np.linspace(0, len(rows) - 1, min(count, len(rows))).astype(int):
        lines = [] if rows.labels is None else [f"label: {_label(task.task, rows.labels[row])}"]
        # Tasks have one or two inputs; targets have their own characters.
        for name, column, own in zip(task.task.inputs, rows.inputs, words, strict=False):
            lines += _input(name, column, row, own)
        yield "\n".join(lines)


def _label(task: Task, label: Any) -> str:
    return f"{label * task.maximum:g}" if task.labels is None else task.labels[label]


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
    """Yield a table of tasks line by line.

    Args:
        names: Registered tasks, custom tasks, or groups; the tasks of a group are listed one by
            one.
        data: Folder with the files, see `find_source`.
        tfds_folder: TFDS folder.
        reading: Further arguments of `load_task`, by task name.

    Raises:
        DataError: If `data` is not a folder.
    """
    folder_of(data)  # its error comes before the head of the table
    yield _line(
        "task", "source", "training", "classes", "mean tokens", "longest", "digest", "other rows"
    )
    missing, notes, predicted = [], [], []
    for entry in names:
        name = entry if isinstance(entry, str) else entry.name
        settings = (reading or {}).get(name, {})
        try:
            task = load_task(entry, data=data, tfds_folder=tfds_folder, **settings)
        except NotFoundError:
            missing.append(name)
        except (DataError, MissingPackageError) as error:
            yield _line(name, f"cannot be read: {error}")
        else:
            yield from (_line(*_columns(member)) for member in task.members)
            notes += [f"{name}: {note}" for note in task.notes]
            notes += _incomplete(task)
            predicted += unscored(task.source)
    yield from (f"* {note}" for note in notes)
    yield from predicted
    if missing:
        yield f"not found: {', '.join(missing)}"
        yield from _generated_versions(missing)
        yield "`relation-tf tasks NAME` shows the searched locations and how to get the data."


def _generated_versions(missing: Iterable[str]) -> Iterator[str]:
    """Yield the missing tasks that a source of generated text has, one line per source."""
    for name, source in SOURCES.items():
        if source.artificial and (own := [task for task in missing if task in source.tasks]):
            names = ", ".join(own)
            yield f"{names}: generated text is built in (source = {name!r}, as in suite demo)"


def facts(
    names: Iterable[Entry],
    data: str | Path | None = None,
    tfds_folder: str | Path | None = None,
    reading: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    skip_missing: bool = True,
) -> Iterator[dict[str, Any]]:
    """Yield the facts of each task that `relation-tf tasks --json` prints.

    Args:
        names: See `lines`, also for the next three arguments.
        data: Folder with the files.
        tfds_folder: TFDS folder.
        reading: Further arguments of `load_task`, by task name.
        skip_missing: If True, a task that is not found or cannot be read has a `"status"` and an
            `"error"`; if False, this is an error.

    Raises:
        DataError: If `data` is not a folder.

    Example:
        >>> (found,) = facts(["RTE"], reading={"RTE": {"source": "miniglue"}})
        >>> found["status"], found["classes"]
        ('found', ['entailment', 'not_entailment'])
    """
    folder_of(data)
    for entry in names:
        name = entry if isinstance(entry, str) else entry.name
        settings = (reading or {}).get(name, {})
        try:
            task = load_task(entry, data=data, tfds_folder=tfds_folder, **settings)
        except (DataError, MissingPackageError) as error:
            if not skip_missing:
                raise
            status = "not found" if isinstance(error, NotFoundError) else "unreadable"
            yield {**dict.fromkeys(_FACTS), "task": name, "status": status, "error": str(error)}
        else:
            yield from map(_facts, task.members)


def _facts(task: EncodedTask) -> dict[str, Any]:
    declared, labels = task.task, task.task.labels
    mean, longest = _token_counts(task)
    values = {
        "task": declared.name,
        "status": "found",
        "source": task.source.kind,
        "layout": task.source.layout.name,
        "rows": {name: len(split) for name, split in task.splits.items()},
        "target": "class" if labels is not None else _target(declared),
        "classes": None if labels is None else [*labels],
        "metrics": [*declared.metrics],
        "mean_tokens": mean,
        "longest": longest,
        "digest": task.digest,
        "notes": [*task.notes, *_incomplete(task), *unscored(task.source)],
        "error": None,
    }
    return {name: values[name] for name in _FACTS}


def describe(
    name: Entry,
    data: str | Path | None = None,
    tfds_folder: str | Path | None = None,
    reading: Mapping[str, Any] | None = None,
) -> str:
    """Describe a task in detail: splits, classes, lengths, and encoded examples.

    Args:
        name: A registered task, a custom task, or a group; the tasks of a group are described one
            by one.
        data: Folder with the files, see `find_source`.
        tfds_folder: TFDS folder.
        reading: Further arguments of `load_task`.

    Raises:
        DataError: If the task is not found or cannot be read.
    """
    task = load_task(name, data=data, tfds_folder=tfds_folder, **(reading or {}))
    return "\n\n".join(map(_described, task.members))


def _described(task: EncodedTask) -> str:
    mean, longest = _lengths(task)
    facts = {
        "source": ", ".join([_source(task), *map(str, [*task.source.files.values()][:1])]),
        "digest": task.digest,
        "digest of rows": joined_digest(task.source.row_digests()),
        "rows": _rows(task.splits),
        "inputs": ", ".join(task.task.inputs),
        "metrics": ", ".join(task.task.metrics),
        "stops on": task.validation,
        "scores": ", ".join(_scores(task)),
        "mean tokens": mean,
        "longest": longest,
        "vocabulary": "none, text" if task.vocabulary is None else f"{task.vocabulary.size:,}",
    }
    words = task.task.labels or ()
    for name, split in task.splits.items():
        if words and split.labels is not None:
            counts = np.bincount(split.labels, minlength=len(words)).tolist()
            classes = zip(words, counts, strict=True)
            facts[f"classes of {name}"] = ", ".join(f"{word} {count:,}" for word, count in classes)
    notes = [*task.notes, *_incomplete(task), *unscored(task.source)]
    notes = [f"note: {each}" for each in notes]
    if task.skipped:
        notes.append(f"{len(task.skipped)} malformed rows skipped, the first: {task.skipped[0]}")
    table = [f"{key + ': ':24}{value}" for key, value in facts.items()]
    blocks = [f"{block}\n" for block in examples(task)]
    return "\n".join([task.task.name, *table, *notes, "", *blocks])


def _incomplete(task: EncodedTask) -> list[str]:
    """Return a note for each test file that is missing or incomplete."""
    rows = {name: len(split) for name, split in task.splits.items()}
    return [f"no complete test set for {each}" for each in shortfalls(task.source, rows)]


def _scores(task: EncodedTask) -> Iterator[str]:
    """Yield the names of the scores with their splits, and the metrics if they are others."""
    for name, split in task.scored.items():
        metrics = task.task.diagnostics.get(name, ())
        yield f"{name} ({', '.join([split, *metrics])})"


def _columns(task: EncodedTask) -> tuple[str, ...]:
    labels = task.task.labels
    others = {name: split for name, split in task.splits.items() if name != "train"}
    return (
        task.task.name,
        _source(task),
        f"{len(task.splits['train']):,}{'*' if task.notes or _incomplete(task) else ''}",
        _target(task.task) if labels is None else str(len(labels)),
        *_lengths(task),
        task.digest[:12],
        _rows(others),
    )


def _source(task: EncodedTask) -> str:
    return f"{task.source.kind}: {task.source.layout.name}"


def _target(task: Task) -> str:
    kinds = {"sequence": task.written, "tokens": task.token_labels, "timed": task.timed != ""}
    return next((kind for kind, is_it in kinds.items() if is_it), "score")


def _lengths(task: EncodedTask) -> tuple[str, str]:
    """Return the mean tokens of training rows and the largest number in any row, per input."""
    mean, longest = _token_counts(task)
    return " + ".join(f"{n:,.1f}" for n in mean), " + ".join(f"{n:,}" for n in longest)


def _token_counts(task: EncodedTask) -> tuple[list[float], list[int]]:
    splits = task.splits.values()
    longest = np.max([split.lengths.max(axis=1, initial=0) for split in splits], axis=0)
    return task.splits["train"].lengths.mean(axis=1).tolist(), longest.tolist()


def _rows(splits: Mapping[str, EncodedSplit]) -> str:
    return ", ".join(f"{name} {len(split):,}" for name, split in splits.items())


def _line(*cells: str) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, _WIDTHS, strict=False))
    return "  ".join([*padded, *cells[len(_WIDTHS) :]])
