"""The choice of settings from the scores of a sweep, and doubts about it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from relation_tf.config.suite import Suite
from relation_tf.config.sweep import Sweep, Tuned
from relation_tf.tasks.metrics import find_metric


def choose(suite: Suite, table: pd.DataFrame) -> list[Tuned]:
    """Return the best settings of each task and method for which all runs are finished.

    The best combination has the best mean score over the seeds of the sweep; of equal ones, the
    nearest to the middle of the range, then the first in the order of the suite.

    Args:
        suite: The suite with the sweep.
        table: Result of `sweep_table`.
    """
    sweep = suite.sweep
    assert sweep is not None
    combinations, chosen = [*sweep.combinations()], []
    for (task, method), means in means_of(suite, table).items():
        higher = find_metric(suite.find_task(task).metrics[0]).higher_is_better
        known = [mean for mean in means if not math.isnan(mean)]
        if known and all_runs_finished(suite, table, task, method):
            best = (max if higher else min)(known)
            equal = [own for own, mean in zip(combinations, means, strict=True)
                     if same_score(mean, best)]  # fmt: skip
            nearest = min(equal, key=lambda own: _from_middle(sweep, own))
            chosen.append(Tuned(task=task, method=method, settings=nearest))
    return chosen


def all_runs_finished(suite: Suite, table: pd.DataFrame, task: str, method: str) -> bool:
    """Return True if all runs of the sweep for a task and method have results."""
    assert suite.sweep is not None
    return finished_runs_of(table, task, method) == (
        len([*suite.sweep.combinations()]) * len(suite.sweep.seeds)
    )


def finished_runs_of(table: pd.DataFrame, task: str, method: str) -> int:
    """Return the number of runs of a task and method with results."""
    return int(((table["task"] == task) & (table["method"] == method)).sum())


def same_score(a: float, b: float) -> bool:
    """Return True if two mean scores differ by rounding at most; False for NaN."""
    return math.isclose(a, b, rel_tol=1e-12)


def is_at_end(sweep: Sweep, settings: Mapping[str, Any]) -> bool:
    """Return True if a number is the smallest or largest of three or more of its key.

    Example:
        >>> sweep = Sweep(learning_rate=[0.001, 0.01, 0.1], dropout=[0.0, 0.5])
        >>> is_at_end(sweep, {"learning_rate": 0.01, "dropout": 0.5})
        False
    """
    return _from_middle(sweep, settings)[0] == 1.0


def _from_middle(sweep: Sweep, settings: Mapping[str, Any]) -> tuple[float, float]:
    """Return the largest distance of a number from the middle of its range, and the sum.

    Distances count values: 0 is the middle, 1 the smallest or largest of three or more numbers.
    """
    distances = [0.0]
    for key, value in settings.items():
        numbers = _numbers(sweep, key)
        if len(numbers) > 2 and value in numbers:
            last = len(numbers) - 1
            distances.append(abs(2 * numbers.index(value) - last) / last)
    return max(distances), sum(distances)


def _numbers(sweep: Sweep, key: str) -> list[float]:
    """Return the numbers among the values of a key, the smallest first."""
    return sorted(each for each in sweep.values[key] if isinstance(each, int | float))


def means_of(suite: Suite, table: pd.DataFrame) -> dict[tuple[str, str], list[float]]:
    """Return the mean score of each combination over the seeds, by task and method.

    NaN if a run of the combination is missing or diverged.

    Args:
        suite: The suite with the sweep.
        table: Result of `sweep_table`.
    """
    assert suite.sweep is not None
    found = {}
    for (task, method), own in table.groupby(["task", "method"], sort=False):
        means = []
        for settings in suite.sweep.combinations():
            scores = own.loc[_has(own, settings), "score"]
            whole = len(scores) == len(suite.sweep.seeds)
            means.append(float(scores.mean(skipna=False)) if whole else math.nan)
        found[str(task), str(method)] = means
    return found


def _has(table: pd.DataFrame, settings: Mapping[str, Any]) -> pd.Series[bool]:
    """Return which rows have settings."""
    same = pd.Series(True, table.index)
    for key, value in settings.items():
        if isinstance(value, int | float) and table[key].dtype.kind in "bif":
            same &= np.isclose(table[key], value, rtol=1e-9, atol=0)  # written and read
        else:
            same &= table[key].map(str) == str(value)  # text, or texts and numbers
    return same


def is_best(suite: Suite, tuned: Tuned, table: pd.DataFrame) -> bool:
    """Return True if no other settings of the sweep have a better mean score.

    Finished runs keep the settings that a smaller sweep chose.

    Args:
        suite: The suite with the sweep.
        tuned: The settings of the runs.
        table: Result of `sweep_table`.
    """
    assert suite.sweep is not None
    own = table[(table["task"] == tuned.task) & (table["method"] == tuned.method)]
    if own.empty:
        return True
    (means,) = means_of(suite, own).values()
    combinations = [*suite.sweep.combinations()]
    if tuned.settings not in combinations:
        return False
    higher = find_metric(suite.find_task(tuned.task).metrics[0]).higher_is_better
    known = [mean for mean in means if not math.isnan(mean)]
    kept = means[combinations.index(tuned.settings)]
    return not known or same_score(kept, (max if higher else min)(known))


class Doubt(NamedTuple):
    """A reason why settings that were not tried can be better.

    Attributes:
        words: The reason.
        kind: The same without the key and its value.
    """

    words: str
    kind: str


def doubt(suite: Suite, tuned: Tuned, table: pd.DataFrame) -> Doubt | None:
    """Return why settings that were not tried can be better; None without a reason.

    There is a reason if most runs with the best values collapsed, if all values have the same
    score, or if a number is the smallest or largest of three or more and the next one is worse by
    more than two standard errors, or with one seed by any difference. A perfect score and the
    smallest possible number, 0 or the integer 1, are no reason. Settings that are not the best ones
    of the sweep are no reason either: see `is_best`.

    Args:
        suite: The suite with the sweep.
        tuned: The chosen settings.
        table: Result of `sweep_table`.
    """
    assert suite.sweep is not None
    metric = find_metric(suite.find_task(tuned.task).metrics[0])
    own = table[(table["task"] == tuned.task) & (table["method"] == tuned.method)]
    combinations = [*suite.sweep.combinations()]
    if not is_best(suite, tuned, table):
        return None
    samples = [own.loc[_has(own, each), "score"].to_numpy(dtype=float) for each in combinations]
    best = samples[combinations.index(tuned.settings)]
    perfect = metric.high if metric.higher_is_better else metric.low
    if not best.size or (perfect is not None and same_score(best.mean(), perfect)):
        return None
    if metric.low == -1 and 2 * np.count_nonzero(best == 0) >= best.size:
        return Doubt(*2 * ["at least half of the runs with the best value collapsed (score 0)"])
    means = [each.mean() for each in samples if each.size and np.isfinite(each).all()]
    if len(means) > 1 and all(same_score(mean, means[0]) for mean in means):
        return Doubt(*2 * ["all values have the same score"])
    for key, value in tuned.settings.items():
        numbers = _numbers(suite.sweep, key)
        if len(numbers) < 3 or value not in (numbers[0], numbers[-1]) or _is_least(value):
            continue
        least = value == numbers[0]
        inside = tuned.settings | {key: numbers[1] if least else numbers[-2]}
        if not _is_flat(best, samples[combinations.index(inside)]):
            which, others = ("smallest", "smaller") if least else ("largest", "larger")
            return Doubt(
                f"{key} {value} is the {which} value, and {others} ones can be better",
                "the chosen value is the smallest or largest one",
            )
    return None


def _is_least(value: float) -> bool:
    """Return True for the smallest number that a setting can have."""
    return value == 0 or (isinstance(value, int) and value == 1)


def _is_flat(first: np.ndarray, second: np.ndarray) -> bool:
    """Return True if the means differ by two standard errors at most; False for NaN."""
    difference = abs(float(first.mean() - second.mean())) if second.size else math.nan
    errors = [own.var(ddof=1) / own.size for own in (first, second) if own.size > 1]
    return difference <= 2 * math.sqrt(math.fsum(errors)) + 1e-12
