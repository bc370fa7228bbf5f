"""Scores of several methods on several tasks, as the tests over tasks read them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeAlias, TypeVar

import pandas as pd

from relation_tf.stats.samples import FloatArray, TaskSamples, read_groups

TaskScores: TypeAlias = dict[Hashable, dict[Hashable, FloatArray]]
Read = TypeVar("Read")


def read_tasks(samples: TaskSamples | pd.DataFrame, control: Hashable | None = None) -> TaskScores:
    """Return the scores of each task and method, in the same order of methods on each task.

    Args:
        samples: `{task: {method: scores}}`, or a table with columns `task`, `method` and `score`.
        control: Name of a method to put first, or None.

    Raises:
        TypeError: If the samples have an unknown form or contain something other than numbers.
        ValueError: If there is no task, or a method or the control has no scores on a task.
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
    methods = list(dict.fromkeys(name for own in tasks.values() for name in own))
    if control is not None:
        if control not in methods:
            raise ValueError(f"`control` must be one of {methods}. Received: control={control!r}")
        methods = list(dict.fromkeys([control, *methods]))
    for task, own in tasks.items():
        if missing := [name for name in methods if name not in own]:
            raise ValueError(
                "all tasks must have the same methods. Received: no scores of "
                f"{', '.join(map(repr, missing))} for {task!r}"
            )
    return {task: {name: own[name] for name in methods} for task, own in tasks.items()}


def _from_table(table: pd.DataFrame) -> dict[Hashable, dict[Hashable, Any]]:
    """Return the samples of a table with a row per score."""
    if not {"task", "method", "score"} <= {*table.columns}:
        raise TypeError(
            "a table must have columns 'task', 'method' and 'score', with a row for each score. "
            f"Received: columns {list(table.columns)}"
        )
    return {
        task: {name: group["score"] for name, group in own.groupby("method", sort=False)}
        for task, own in table.groupby("task", sort=False)
    }


def in_task(task: Hashable, read: Callable[..., Read], *args: Any, **options: Any) -> Read:
    """Call a function for the scores of one task, and name the task in its errors."""
    try:
        return read(*args, **options)
    except (TypeError, ValueError) as error:
        raise type(error)(f"task {task!r}: {error}") from error
