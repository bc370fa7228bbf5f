"""Direction and unit of the scores of tasks, also by the words of their names."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from importlib import resources
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from relation_tf.errors import did_you_mean
from relation_tf.registry import METRICS

Directions: TypeAlias = bool | Mapping[Any, bool] | None
Origin: TypeAlias = Literal["declared", "registered", "column", "name", "assumed"]
"""Origins of directions in their order of precedence."""

_LABELS = {  # for one task and for several, in the order of a sentence
    "declared": ("declared", "declared"),
    "column": ("from its column of metrics", "from their column of metrics"),
    "name": ("from its name", "from their names"),
    "assumed": ("assumed", "assumed"),
    "registered": ("", ""),
}
_MOST_LOWER, _MOST_HIGHER = 20, 6  # names of tasks in a sentence
_SIZES = (1.0, 100.0)  # largest fraction, largest percentage
_TABLE = tomllib.loads(
    (resources.files("relation_tf.stats") / "metric_names.toml").read_text("utf-8")
)
_LOWER, _TOPICS, _TASKS, _HIGHER, _UNITS, _LESS, _NEGATIVE, _BETWEEN, _EITHER = (
    re.compile(f"(?:{'|'.join(_TABLE[kind].split())})s?")
    for kind in ("lower", "topics", "tasks", "higher", "units", "less", "negative", "between",
                 "ambiguous")
)  # fmt: skip
_KNOWN = (_LOWER, _TOPICS, _TASKS, _HIGHER, _UNITS, _LESS, _EITHER)
STATED = re.compile(
    r"(↓|(?:lower|smaller)[\W_](?:is[\W_])?better)|↑|(?:higher|larger)[\W_](?:is[\W_])?better", re.I
)
"""A direction in a name; the group is empty if higher is better."""
_OF = re.compile(r" (?:of|at|on|for|in|to|until|with|under|per|by|from|vs|after|over|without) ")


class Direction(NamedTuple):
    """Direction of the scores of a task.

    Attributes:
        higher_is_better: If False, lower scores are better.
        origin: What gave the direction: an option or argument, a registered metric, the metric that
            a table names, the name of the task, or nothing.
    """

    higher_is_better: bool
    origin: Origin

    @property
    def precedence(self) -> int:
        """Position of the origin in the order of precedence."""
        return get_args(Origin).index(self.origin)


def suggest_direction(task: Hashable, metrics: Sequence[str] = ()) -> Direction:
    """Return the direction that the metrics of a task, or else its name, suggest.

    Example:
        >>> suggest_direction("WikiText perplexity")
        Direction(higher_is_better=False, origin='name')
        >>> suggest_direction("MR", ["acc"])
        Direction(higher_is_better=True, origin='column')
    """
    readings = (read_name(metric)[0] for metric in metrics)
    known = [higher for higher in readings if higher is not None]
    if known:
        return Direction(all(known), "registered" if METRICS.keys() >= {*metrics} else "column")
    higher = None if task is None else read_name(str(task))[0]
    return Direction(True, "assumed") if higher is None else Direction(higher, "name")


def state_directions(directions: Mapping[Any, Direction]) -> str:
    """Return sentences on the directions of tasks and their origins, without the last period.

    Example:
        >>> tasks = ["WikiText perplexity", "MR", "RTE"]
        >>> state_directions({task: suggest_direction(task) for task in tasks})
        'Lower is better: WikiText perplexity (from its name). Higher is better: MR, RTE (assumed)'
        >>> state_directions({task: suggest_direction(task) for task in tasks[1:]})
        'Higher is better on both tasks (assumed)'
    """
    sentences = []
    for higher, word, most in ((False, "Lower", _MOST_LOWER), (True, "Higher", _MOST_HIGHER)):
        groups = []
        for origin, labels in _LABELS.items():
            tasks = [str(task) for task, x in directions.items() if x == (higher, origin)]
            label = labels[len(tasks) > 1]
            if tasks:
                groups.append((tasks, f" ({label})" if label else ""))
        if [len(tasks) for tasks, _ in groups] == [len(directions)]:
            ((tasks, label),) = groups
            only = "" if None in directions else f" on {tasks[0]}"
            number = "both" if len(tasks) == 2 else "all"
            where = f" on {number} tasks" if len(tasks) > 1 else only
            sentences.append(f"{word} is better{where}{label}")
        elif groups:
            named = []
            for tasks, label in groups:
                more = f" and {len(tasks) - most} more" if len(tasks) > most else ""
                named.append(f"{', '.join(tasks[:most])}{more}{label}")
            sentences.append(f"{word} is better: {', '.join(named)}")
    return ". ".join(sentences)


def read_directions(
    tasks: Iterable[Hashable], higher_is_better: Directions
) -> tuple[dict[Any, bool], list[str]]:
    """Return True for each task where higher is better, and a note unless all are given.

    Args:
        tasks: Names of the tasks; None for a single task without a name.
        higher_is_better: Direction of all tasks, or of some of them. The direction of the others
            follows from their names, see `read_name`.

    Raises:
        TypeError: If a direction is not a boolean.
        ValueError: If a task is unknown.

    Example:
        >>> higher, notes = read_directions(["SST-2", "WER"], {"SST-2": True})
        >>> print(higher, *notes)
        {'SST-2': True, 'WER': False} Lower is better: WER (from its name). Higher is better: \
SST-2 (declared)
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
    directions = {
        task: Direction(bool(given[task]), "declared") if task in given else suggest_direction(task)
        for task in tasks
    }
    notes = [] if len(given) == len(directions) else [state_directions(directions)]
    return {task: direction.higher_is_better for task, direction in directions.items()}, notes


def given_signs(tasks: Iterable[Hashable], higher_is_better: Directions) -> list[int]:
    """Return the sign of each task, -1 where lower is better, for results without notes.

    Raises:
        ValueError: If the direction of a task is not given and follows only from its name.
    """
    higher, notes = read_directions(tasks, higher_is_better)
    given = higher_is_better if isinstance(higher_is_better, Mapping) else {}
    guessed = {task: False for task, x in higher.items() if not x and task not in given}
    if notes and guessed:
        raise ValueError(f"`higher_is_better` must be given, such as {guessed}. {notes[0]}")
    return [1 if is_higher else -1 for is_higher in higher.values()]


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
        is_higher, name = read_name(str(task))
        word = "" if higher[task] or is_higher is None else name
        unit = sum((size or max(sizes)) > end for end in ends)
        kinds.setdefault((higher[task], word, unit), (task, size))
    if len(kinds) < 2:
        return ""
    examples = ", ".join(f"{task} up to {size:.4g}" for task, size in kinds.values())
    return f"tasks may have different units ({examples})"


def read_name(name: str) -> tuple[bool | None, str]:
    """Return True if higher is better for a metric, and the word that says so.

    Args:
        name: Name of a metric, or of a task with the name of a metric.

    Returns:
        None if the name has no known metric, with its word if lower is better in some uses, as in
        `size`, or else an empty word.

    Example:
        >>> [read_name(name)[0] for name in ("WikiText perplexity", "1 - WER", "error F1", "MR")]
        [False, True, True, None]
    """
    if known := METRICS.get(name):
        return known.higher_is_better, name
    if sign := STATED.search(name):
        return not sign[1], sign[0]
    text = _split(name)
    metrics: list[tuple[bool | None, str]] = []
    for part in _OF.split(text):
        words = re.findall(r"(?<!\d )\b[^\W\d]+", part)
        units = [(False, word) for word in words if _UNITS.fullmatch(word)]
        metrics += [x for x in [_read(part.split()), *units] if x[1]]
    either = [word for word in text.split() if _EITHER.fullmatch(word)]
    return metrics[0] if metrics else (None, "".join(either[:1]))


def _split(name: str) -> str:
    """Return the words of a name in lower case, with one word for each phrase."""
    for sign, word in _TABLE["signs"].items():
        name = re.sub(sign, word, name)
    words, parts = [], r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\dA-Za-z]+"
    for part in re.findall(r"[^\W_]+", name):
        known = any(pattern.fullmatch(part.lower()) for pattern in _KNOWN)
        words += [part] if known else re.findall(parts, part)
    text = " ".join(words).lower()
    for phrase, word in _TABLE["phrases"].items():
        text = re.sub(rf"\b(?:{phrase})\b", word, text)
    return text


def _read(words: list[str]) -> tuple[bool | None, str]:
    """Return the direction of the last metric, as in error detection F1, and its word."""
    higher, metric, negative = None, "", ""
    for word in words:
        if _NEGATIVE.fullmatch(word):
            negative = word
        elif _LOWER.fullmatch(word) or _TOPICS.fullmatch(word):
            higher, metric, negative = bool(negative), word, ""
        elif _HIGHER.fullmatch(word):  # "negative F1" is that of a class
            higher, metric, negative = negative != "complement", word, ""
        elif _LESS.fullmatch(word) and metric:
            higher = not higher
        elif _TASKS.fullmatch(word) and _TOPICS.fullmatch(metric):
            higher, metric = None, ""
        elif not _BETWEEN.fullmatch(word):
            negative = ""
    return higher, metric
