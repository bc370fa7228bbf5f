"""The diagnostic tasks by name, with their rows and texts."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from relation_tf.errors import DataError
from relation_tf.tasks.diagnostics.families import (
    BY_LENGTH,
    LONG_LISTS,
    SHORT_LISTS,
    by_size,
    copying,
    lists,
    memorizing,
)
from relation_tf.tasks.diagnostics.rows import SEED, Diagnostic, LabelledTokens
from relation_tf.tasks.task import Dataset, FileLayout, Task, TaskText, TextSplit

_LENGTHS = {
    "recall": 128, "noisy-recall": 128, "fuzzy-recall": 128, "compress": 32, "induction": 32,
    "sort": 16, "reverse": 16, "parity": 32, "modular-addition": 32, "dyck": 32, "majority": 33,
    "count": 32,
}  # fmt: skip
_SHORT = {"recall": 32, "noisy-recall": 32, "fuzzy-recall": 32, "compress": 8}
_WITH_SIZES = (
    "mqar-64-4", "mqar-128-8", "mqar-256-16", "mqar-256-64", "mqar-64-4-v64", "mqar-32-2-v32",
    "mqar-32-4-v32", "mqar-32-8-v32", "needle-16", "needle-64", "needle-256", "needle-1024",
)  # fmt: skip
_OF_MAD = ("recall", "noisy-recall", "fuzzy-recall", "selective-copy", "memorize", "compress")


def _all() -> Iterator[Diagnostic]:
    for name in _WITH_SIZES:
        task = by_size(name)
        assert task is not None
        yield task
    yield from (BY_LENGTH[name](name, length) for name, length in _LENGTHS.items())
    yield from (BY_LENGTH[name](f"{name}-small", length) for name, length in _SHORT.items())
    yield copying("selective-copy", 256, 16)
    yield copying("selective-copy-small", 32, 4)
    yield memorizing("memorize", 32, 128)
    yield memorizing("memorize-small", 16, 32)
    yield lists("listops", 2000, LONG_LISTS, 2_000)
    yield lists("listops-small", 48, SHORT_LISTS, 10_000)


def _with_rows_of_mad(task: Diagnostic) -> Diagnostic:
    return replace(task, train=12_800, held_out=1_280) if task.name in _OF_MAD else task


DIAGNOSTICS: Mapping[str, Diagnostic] = {each.name: each for each in map(_with_rows_of_mad, _all())}
"""The listed diagnostic tasks by name; `find_diagnostic` also finds those of other sizes."""


def find_diagnostic(name: str) -> Diagnostic | None:
    """Return a listed diagnostic task or one whose name has its sizes; None for other names.

    Raises:
        DataError: If there is no task of these sizes.

    Example:
        >>> find_diagnostic("mqar-48-3-v16").amount, find_diagnostic("CoLA")
        (('pairs', 3), None)
    """
    return DIAGNOSTICS.get(name) or by_size(name)


def task_of(scored: str) -> Diagnostic | None:
    """Return the diagnostic task that has a score of this name; None for other names.

    Example:
        >>> task_of("needle-200-depth25").name, task_of("parity-n64").name, task_of("mqar-8-8")
        ('needle-200', 'parity-n64', None)
    """
    for name in (scored, scored.rpartition("-")[0]):
        try:
            found = find_diagnostic(name)
        except DataError:  # another task, in a table of scores, whose name is like one with sizes
            continue
        if found is not None and scored in found.scored:
            return found
    return None


def make(name: str) -> LabelledTokens:
    """Return the rows of a task; those of the last task are kept."""
    found = find_diagnostic(name)
    if found is None:
        raise ValueError(f"name must be a diagnostic task. Received: {name!r}")
    return _made(found)


@functools.lru_cache(1)
def _made(diagnostic: Diagnostic) -> LabelledTokens:
    return diagnostic.make()


def _text(task: Task, files: Mapping[str, Path], skip_bad_lines: bool) -> TaskText:
    """Return the rows as text: the symbols, and the label of each token."""
    made = make(task.name)
    splits = {}
    for name, rows in made.splits.items():
        texts: tuple[Sequence[str], ...] = (
            made.source.decode(rows.ids), made.target.decode(rows.labels)
        )  # fmt: skip
        splits[name] = TextSplit(texts, None, np.arange(len(rows)))
    return TaskText(task, splits)


def dataset_of(diagnostic: Diagnostic) -> Dataset:
    """Return the task as a dataset of the catalogue."""
    metrics = ("token_accuracy",)
    task = Task(
        name=diagnostic.name,
        inputs=("tokens", "labels"),
        label="",
        labels=None,
        metrics=metrics,
        validation="dev",
        scored=diagnostic.scored,
        diagnostics=dict.fromkeys([*diagnostic.scored][1:], metrics),
        token_labels=True,
        from_last_token=diagnostic.from_last_token,
    )
    return Dataset(task, (FileLayout(f"seed {SEED}", _text),), "it is generated")


DATASETS = tuple(map(dataset_of, DIAGNOSTICS.values()))
