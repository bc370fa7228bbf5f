"""Direction and unit of the scores of tasks: where lower is better, and which means mix units."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from relation_tf.errors import did_you_mean
from relation_tf.registry import METRICS

Directions: TypeAlias = bool | Mapping[Any, bool] | None

_LOWER = re.compile(  # names of tasks and metrics where lower scores are better
    r"(?<![a-z])(perplexity|perplexities|ppl|loss|log_?loss|nll|bpc|cross.?entropy|errors?|wer|cer|"
    r"rmse|mse|mae|seconds|latency)(?![a-z])",
    re.I,
)
_NEGATED = re.compile(r"(?<![a-z])neg(ative)?[_ ]", re.I)  # as in scikit-learn's scorers
_SIZES = (1.0, 100.0)  # largest fraction, largest percentage


def is_low(name: str) -> bool:
    """Return True if lower is better for a metric, or for a task with the name of a metric.

    Example:
        >>> [is_low(name) for name in ("WikiText perplexity", "neg_log_loss", "accuracy")]
        [True, False, False]
    """
    known = METRICS.get(name)
    if known is not None:
        return not known.higher_is_better
    return bool(_LOWER.search(name)) and not _NEGATED.search(name)


def read_directions(
    tasks: Iterable[Hashable], higher_is_better: Directions
) -> tuple[dict[Any, bool], list[str]]:
    """Return True for each task where higher is better, and notes on tasks judged by their name.

    Args:
        tasks: Names of the tasks; None for a single task without a name.
        higher_is_better: Direction of all tasks, or of some of them. The direction of the others
            follows from their names, see `is_low`.

    Raises:
        TypeError: If a direction is not a boolean.
        ValueError: If a task is unknown.

    Example:
        >>> read_directions(["SST-2", "WER"], {"WER": False})
        ({'SST-2': True, 'WER': False}, [])
    """
    tasks = list(tasks)
    given = dict.fromkeys(tasks, higher_is_better)
    if higher_is_better is None or isinstance(higher_is_better, Mapping):
        given = dict(higher_is_better or {})
    check_tasks("higher_is_better", given, tasks)
    for task, higher in given.items():
        if not isinstance(higher, bool | np.bool_):
            where = "" if task is None else f" for {task!r}"
            raise TypeError(
                f"`higher_is_better` must be True or False. Received: {higher!r}{where}"
            )
    low = [task for task in tasks if task not in given and task is not None and is_low(str(task))]
    found = {task: bool(given.get(task, task not in low)) for task in tasks}
    return found, [_by_name(low)] if low else []


def refuse_unknown_direction(tasks: Iterable[Hashable], higher_is_better: Directions) -> list[int]:
    """Return the sign of each task, -1 where lower is better, for results without notes.

    Raises:
        ValueError: If the direction of a task is not given and follows only from its name.
    """
    higher, notes = read_directions(tasks, higher_is_better)
    if notes:
        raise ValueError(f"`higher_is_better` must be given. {notes[0]}")
    return [1 if each else -1 for each in higher.values()]


def check_tasks(option: str, given: Iterable[Hashable], tasks: Iterable[Hashable]) -> None:
    """Raise an error if an option names an unknown task.

    Args:
        option: Name of the option.
        given: The names in the option.
        tasks: The known tasks.
    """
    tasks = list(tasks)
    for task in given:
        if task not in tasks:
            raise ValueError(
                f"`{option}` must name tasks of the samples: {tasks}. Received: {task!r}."
                f"{did_you_mean(task, tasks)}"
            )


def unlike_units(largest: Mapping[Any, float], higher: Mapping[Any, bool]) -> str:
    """Return a remark if the scores of some tasks probably have different units; else empty.

    Units differ if directions or the names of lower-is-better metrics do, or if some scores are at
    most 1 (fractions), others at most 100 (percentages), and others are larger, and the largest are
    at least 10 times the smallest. Zeros, such as the Matthews correlation of a constant
    prediction, fit each unit.

    Args:
        largest: Largest absolute score of each task.
        higher: True for each task where higher is better.

    Example:
        >>> print(unlike_units({"MR": 0.81, "SST-2": 92.0}, {"MR": True, "SST-2": True}))
        tasks may have different units (MR up to 0.81, SST-2 up to 92)
    """
    kinds: dict[tuple[Any, ...], tuple[Any, float]] = {}
    sizes = [size for size in largest.values() if size]
    ends = _SIZES if sizes and max(sizes) >= 10 * min(sizes) else ()
    for task, size in largest.items():
        word = "" if higher[task] else "".join(_LOWER.findall(str(task))[:1]).lower()
        unit = sum((size or max(sizes)) > end for end in ends)
        kinds.setdefault((higher[task], word, unit), (task, size))
    if len(kinds) < 2:
        return ""
    said = ", ".join(f"{task} up to {size:.4g}" for task, size in kinds.values())
    return f"tasks may have different units ({said})"


def _by_name(tasks: Sequence[Hashable]) -> str:
    whose = "its name" if len(tasks) == 1 else "their names"
    option = dict.fromkeys(tasks, True)
    return (
        f"{', '.join(map(str, tasks))}: lower is better, because of {whose}; otherwise set "
        f"higher_is_better={option}"
    )
