"""Overviews of tasks: rows, classes, lengths, and encoded examples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from relation_tf.errors import DataError, MissingPackageError
from relation_tf.tasks.catalogue import Entry, NotFoundError, folder_of
from relation_tf.tasks.encoding import EncodedTask, load_task
from relation_tf.tasks.sources import joined_digest, shortfalls, unscored

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

    Example:
        >>> from relation_tf.tasks import load_task
        >>> print(next(examples(load_task("CoLA", "miniglue", start_token=True))))
        label: 0
        sentence: [START] these lawyers near the river .
                  2 33 42 10 3 11 4
    """
    rows, declared = task.splits[split], task.task
    for row in np.linspace(0, len(rows) - 1, min(count, len(rows))).astype(int):
        lines = []
        if rows.labels is not None:
            label = rows.labels[row]
            words = declared.labels
            lines = [f"label: {f'{label * declared.maximum:g}' if words is None else words[label]}"]
        # Tasks have one or two inputs; targets have their own characters.
        known = (task.vocabulary, task.targets or task.vocabulary)
        for name, column, vocabulary in zip(declared.inputs, rows.inputs, known, strict=False):
            (values,) = column.pad(np.array([row]))
            ids = values[: column.lengths[row]].tolist()
            of_id = {number: word for word, number in vocabulary.words.items()}
            lines.append(f"{name}: {_first([of_id[i] for i in ids])}")
            lines.append(" " * (len(name) + 2) + _first([*map(str, ids)]))
        yield "\n".join(lines)


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
    missing, notes = [], []
    for found in facts(names, data, tfds_folder, reading):
        name = found["task"]
        if found["status"] == "not found":
            missing.append(name)
            continue
        if found["status"] == "unreadable":
            yield _line(name, f"cannot be read: {found['error']}")
            continue
        others = {split: count for split, count in found["rows"].items() if split != "train"}
        yield _line(
            name,
            f"{found['source']}: {found['layout']}",
            f"{found['rows']['train']:,}{'*' if found['notes'] else ''}",
            found["target"] if found["classes"] is None else str(len(found["classes"])),
            *_lengths(found),
            found["digest"][:12],
            _counts(others),
        )
        notes += [f"* {name}: {note}" for note in found["notes"]]
    yield from notes
    if missing:
        yield f"not found: {', '.join(missing)}"
        yield "`relation-tf tasks NAME` shows the searched locations and how to get the data."


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
    declared, splits = task.task, task.splits.values()
    rows = {name: len(split) for name, split in task.splits.items()}
    kinds = {"class": declared.labels, "sequence": declared.written,
             "tokens": declared.token_labels, "timed": declared.timed}  # fmt: skip
    incomplete = [f"no complete test set for {each}" for each in shortfalls(task.source)]
    longest = np.max([split.lengths.max(axis=1, initial=0) for split in splits], axis=0)
    return {
        "task": declared.name,
        "status": "found",
        "source": task.source.kind,
        "layout": task.source.layout.name,
        "rows": rows,
        "target": next((kind for kind, is_it in kinds.items() if is_it), "score"),
        "classes": None if declared.labels is None else [*declared.labels],
        "metrics": [*declared.metrics],
        "mean_tokens": task.splits["train"].lengths.mean(axis=1).tolist(),
        "longest": longest.tolist(),
        "digest": task.digest,
        "notes": [*task.notes, *incomplete, *unscored(task.source)],
        "error": None,
    }


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
    facts, files = _facts(task), [str(path) for path in task.source.files.values()]
    mean, longest = _lengths(facts)
    table = {
        "source": ", ".join([f"{facts['source']}: {facts['layout']}", *files[:1]]),
        "digest": task.digest,
        "digest of rows": joined_digest(task.source.row_digests()),
        "rows": _counts(facts["rows"]),
        "inputs": ", ".join(task.task.inputs),
        "metrics": ", ".join(facts["metrics"]),
        "stops on": task.validation,
        "scores": ", ".join(
            f"{name} ({', '.join([split, *task.task.diagnostics.get(name, ())])})"
            for name, split in task.scored.items()
        ),
        "mean tokens": mean,
        "longest": longest,
        "vocabulary": f"{task.vocabulary.size:,}",
    }
    words = facts["classes"] or ()
    for name, split in task.splits.items():
        if words and split.labels is not None:
            counts = np.bincount(split.labels, minlength=len(words)).tolist()
            table[f"classes of {name}"] = _counts(dict(zip(words, counts, strict=True)))
    notes = [f"note: {note}" for note in facts["notes"]]
    lines = [f"{key + ': ':24}{value}" for key, value in table.items()]
    return "\n".join(
        [task.task.name, *lines, *notes, "", *(f"{each}\n" for each in examples(task))]
    )


def _lengths(facts: Mapping[str, Any]) -> tuple[str, str]:
    """Return the mean tokens of training rows and the largest number in any row, per input."""
    mean, longest = facts["mean_tokens"], facts["longest"]
    return " + ".join(f"{n:,.1f}" for n in mean), " + ".join(f"{n:,}" for n in longest)


def _counts(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in numbers.items())


def _line(*cells: str) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, _WIDTHS, strict=False))
    return "  ".join([*padded, *cells[len(_WIDTHS) :]])
