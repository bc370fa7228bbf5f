"""Scores of several methods on several tasks, as the tests over tasks read them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeAlias, TypeVar

import pandas as pd

from relation_tf.stats.samples import FloatArray, Samples, TaskSamples, read_groups

TaskScores: TypeAlias = dict[Hashable, dict[Hashable, FloatArray]]
Read = TypeVar("Read")

_COLUMNS = {"task", "method", "score"}


def read_tasks(
    samples: Samples | TaskSamples, first: Hashable | None = None, name: str = "control"
) -> TaskScores:
    """Return the scores of each task and method, in the same order of methods on each task.

    Args:
        samples: `{task: {method: scores}}`, or a table with columns `task`, `method` and `score`.
        first: A method to put first, or None.
        name: Name of the argument `first` in errors.

    Raises:
        TypeError: If the samples have an unknown form or contain something other than numbers.
        ValueError: If there is no task, or a method or the first one has no scores on a task.
    """
    if isinstance(samples, pd.DataFrame):
        samples = _from_table(samples)
    if not isinstance(samples, Mapping):
        raise TypeError(
            "`samples` must be {task: {method: scores}}, or a pandas.DataFrame with columns 'task',"
            f" 'method' and 'score'. Received: {type(samples).__name__}"
        )
    if not samples:
        raise ValueError("`samples` must have at least one task. Received: 0 tasks")
    tasks = {task: in_task(task, read_groups, own) for task, own in samples.items()}
    methods = list(dict.fromkeys(method for own in tasks.values() for method in own))
    if first is not None:
        if first not in methods:
            raise ValueError(f"`{name}` must be one of {methods}. Received: {name}={first!r}")
        methods = list(dict.fromkeys([first, *methods]))
    for task, own in tasks.items():
        if missing := [method for method in methods if method not in own]:
            raise ValueError(
                f"all tasks must have the same methods. {task!r} has no scores of "
                f"{', '.join(map(repr, missing))}"
            )
    return {task: {method: own[method] for method in methods} for task, own in tasks.items()}


def _from_table(table: pd.DataFrame) -> dict[Hashable, dict[Hashable, Any]]:
    """Return the samples of a table with a row per score."""
    if not {*table.columns} >= _COLUMNS:
        raise TypeError(
            "a table must have columns 'task', 'method' and 'score', with a row for each score. "
            f"Received: columns {list(table.columns)}"
        )
    if table[["task", "method"]].isna().any(axis=None):
        raise ValueError("columns 'task' and 'method' must have a name in each row")
    return {
        task: {
            name: group["score"] for name, group in own.groupby("method", sort=False, observed=True)
        }
        for task, own in table.groupby("task", sort=False, observed=True)
    }


def in_task(task: Hashable, read: Callable[..., Read], *args: Any, **options: Any) -> Read:
    """Call a function for the scores of one task, and name the task in its errors."""
    try:
        return read(*args, **options)
    except (TypeError, ValueError) as error:
        if task is None:
            raise
        raise type(error)(f"task {task!r}: {error}") from error


def of_task(name: str, value: Any, task: Hashable) -> Any:
    """Return an option's value for a task, if it has one for each."""
    if not isinstance(value, Mapping):
        return value
    if task not in value:
        raise ValueError(f"`{name}` must have a value for each task. Received: none for {task!r}")
    return value[task]
