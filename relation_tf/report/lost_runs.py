"""Runs that failed or learned nothing: their numbers, warnings, and place in rank tests."""

from __future__ import annotations

import inspect
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from relation_tf.registry import Procedure
from relation_tf.report.blocks import rows_of
from relation_tf.report.scores import KEY, Scores, are_in, scored_names
from relation_tf.report.text import Statement, state
from relation_tf.tasks.metrics import find_metric

if TYPE_CHECKING:
    from relation_tf.config.suite import Suite
    from relation_tf.report.sections.predictions import PredictedRows

_COLUMNS = [*KEY, "run", "diverged", "ranked"]
_MOST_NAMED = 6  # runs in one warning
_ERRORS_ABOVE = 3  # standard errors by which the median run must beat one that learned nothing
_FLAT = 0.01  # SD of the predictions of a regression that count as equal, in SDs of the labels


def failed_runs(runs: pd.DataFrame, suite: Suite | None, scores: Scores) -> pd.DataFrame:
    """Return a row for each failed run and scored task.

    Args:
        runs: Runs of suites, reports and tables, with their status.
        suite: The suite of the runs, if known.
        scores: The scores; a failed run of an unknown task counts for each of their tasks.

    Returns:
        Columns `task` (scored), `method`, `seed`, `run` (trained task and seed), `diverged`, `lost`
        (False if the run is known not to have diverged) and `ranked` (if True, rank tests rank the
        run worst: a lost run, unless it was left out).
    """
    # A table can have a row for the trained task and others for the scored ones.
    scored, tasks = scored_names(suite), scores.single_tasks
    known = {task: [task, *scored.get(task, ())] for task in (*tasks, *scored)}
    for task, trained in scores.networks.items():
        known.setdefault(trained, []).append(task)
    rows = [
        {**run, "task": task, "run": f"{run['task']}/{run['seed']}"}
        for run in (runs[runs["status"] == "failed"].to_dict("records") if len(runs) else ())
        for task in known.get(run["task"], tasks)
    ]
    failed = pd.DataFrame(rows, columns=_COLUMNS).drop_duplicates(ignore_index=True)
    lost = ~failed["diverged"].eq(False)
    ranked = lost & ~failed["ranked"].eq(False)
    return failed.assign(diverged=failed["diverged"].eq(True), lost=lost, ranked=ranked)


def failed_by_task(failed: pd.DataFrame) -> dict[tuple[str, str], dict[str, bool]]:
    """Return the failed runs by scored task and method; True if one is known to have diverged."""
    by_task: dict[tuple[str, str], dict[str, bool]] = {}
    for row in rows_of(failed):
        runs = by_task.setdefault((row.task, row.method), {})
        runs[row.run] = runs.get(row.run, False) or row.diverged
    return by_task


def ranks_failed(test: Procedure) -> bool:
    """Return True if a test ranks scores that are NaN worst."""
    nan = inspect.signature(test.function).parameters.get("nan")
    return nan is not None and nan.default == "worst"


def with_failed(scores: Scores, failed: pd.DataFrame, test: Procedure) -> Scores:
    """Return the scores for a test: with NaN for failed runs, if it ranks them.

    Averages without a score, because a task of them diverged, are NaN as well.

    Args:
        scores: The scores.
        failed: Result of `failed_runs`.
        test: The test.
    """
    # A task without any score has no test.
    lost = failed[failed["ranked"] & failed["task"].isin(scores.table["task"])][KEY]
    if lost.empty or not ranks_failed(test):
        return scores
    averages = [lost.assign(task=name) for name in scores.averages]
    rows = pd.concat([lost, *averages]).drop_duplicates()
    rows = rows[~are_in(rows, scores.table)].assign(score=math.nan)
    return replace(scores, table=pd.concat([scores.table, rows], ignore_index=True))


def collapsed_runs(sets: Sequence[PredictedRows], metrics: pd.DataFrame) -> pd.DataFrame:
    """Return the runs that learned nothing.

    A run is collapsed if all its predictions are equal, or if its accuracy is not above the share
    of the most frequent class, on a task where the median run is, by three standard errors. In a
    regression, a correlation of labels and predictions not above 0 by two standard errors stands
    for this accuracy; with it, predictions are equal if their SD is below 1 % of the labels'.
    Without predictions, a correlation of exactly 0 is that of equal predictions. A low score alone
    is no sign: it can be the method's.

    Args:
        sets: Predictions of the runs on scored sets.
        metrics: Metrics of each score: columns `task`, `method`, `seed`, `metric` and `value`.

    Returns:
        Columns `task`, `method`, `seed` and `reason`.
    """
    reasons = {(x.name, *key): reason for x in sets for key, reason in _without_learning(x)}
    read = {rows.name for rows in sets}
    for row in rows_of(metrics[metrics["value"] == 0]):
        if row.task not in read and find_metric(row.metric).low == -1:
            reasons[row.task, row.method, row.seed] = f"{row.metric} is 0"
    runs = [(*key, reason) for key, reason in reasons.items()]
    return pd.DataFrame(runs, columns=[*KEY, "reason"])


def _without_learning(rows: PredictedRows) -> Iterator[tuple[tuple[str, int], str]]:
    """Yield method, seed and reason of the collapsed runs on a scored set."""
    reason = "accuracy is not above the share of the most frequent class"
    reason = reason if rows.classes else "correlation with the labels is not above 0"
    scores = {}
    for method, runs in rows.runs.items():
        for seed, (labels, outputs) in runs.items():
            chosen = _chosen(rows, outputs)
            score, low, high = _learning(rows, labels, chosen)
            if chosen.size > 1 and (chosen == chosen[0]).all():
                yield (method, seed), f"all predictions are {rows.words(chosen[:1])[0]}"
            elif not rows.classes and score <= low and chosen.std() < _FLAT * labels.std():
                yield (method, seed), f"all predictions are about {chosen.mean():.4g}"
            else:
                scores[method, seed] = score, low, high
    for key, (score, low, high) in scores.items():
        if score <= low and np.median([each for each, *_ in scores.values()]) > high:
            yield key, reason


def tasks_at_chance(sets: Sequence[PredictedRows], method: str) -> Iterator[str]:
    """Yield the scored sets on which the median run is not above a constant prediction.

    Above: by three standard errors, as in `collapsed_runs`. Sets scored without accuracy or a
    correlation are left out.

    Args:
        sets: Predictions of the runs on scored sets.
        method: The method.
    """
    for rows in sets:
        runs = [_learning(rows, y, _chosen(rows, x)) for y, x in rows.runs.get(method, {}).values()]
        is_known = not rows.classes or "accuracy" in rows.metrics
        if runs and is_known and np.median([score - high for score, _, high in runs]) <= 0:
            yield rows.name


def _chosen(rows: PredictedRows, outputs: NDArray[Any]) -> NDArray[Any]:
    """Return the most probable class of each row, or the outputs of a regression."""
    return outputs.argmax(axis=1) if rows.classes else outputs


def _learning(
    rows: PredictedRows, labels: NDArray[Any], chosen: NDArray[Any]
) -> tuple[float, float, float]:
    """Return the score of a run, the most without learning, and the least that shows learning.

    The score is the accuracy, or of a regression Pearson's correlation in standard errors, 0 for
    equal numbers.
    """
    if rows.classes:
        most = np.bincount(labels).max() / labels.size
        error = math.sqrt(most * (1 - most) / labels.size)
        return (chosen == labels).mean(), most, most + _ERRORS_ABOVE * error
    x, y = (values - values.mean() for values in (labels, chosen))
    correlation = (x @ y) / (math.sqrt((x @ x) * (y @ y)) or 1.0)
    return math.sqrt(x.size) * correlation, 2, _ERRORS_ABOVE


def trained_networks(runs: pd.DataFrame, scores: Scores) -> pd.DataFrame:
    """Return a row per trained network: sets scored with the same network count once.

    Args:
        runs: Columns `task`, `method` and `seed`, with a row per scored set.
        scores: The scores; rows of averages and diagnostic sets are left out.

    Returns:
        Columns `task` (of the network), `method` and `seed`.
    """
    rows = runs.loc[runs["task"].isin(scores.main_tasks), KEY]
    trained = rows["task"].map(lambda task: scores.networks.get(task, task))
    return rows.assign(task=trained).drop_duplicates(ignore_index=True)


def lost_networks(scores: Scores, *lost: pd.DataFrame) -> dict[str, tuple[int, int]]:
    """Return the number of lost networks, and of all networks, of each method with lost ones.

    Args:
        scores: The scores.
        *lost: The lost runs: results of `collapsed_runs`, or of `failed_runs`, of which the lost
            ones count.
    """
    rows = pd.concat([x[x["lost"]] if "lost" in x else x for x in lost])
    lost_counts, counts = (
        trained_networks(runs, scores)["method"].value_counts()
        for runs in (rows, pd.concat([scores.table, rows]))
    )
    return {str(name): (int(lost_counts[name]), int(counts[name])) for name in lost_counts.index}


def mostly_lost(scores: Scores, *lost: pd.DataFrame) -> dict[str, tuple[int, int]]:
    """Return `lost_networks` of the methods of which at least half of the networks were lost."""
    networks = lost_networks(scores, *lost)
    return {name: (n, total) for name, (n, total) in networks.items() if 2 * n >= total}


def collapsed_note(number: int) -> list[str]:
    """Return a note on a number of collapsed runs; empty for none."""
    return [f"{number} collapsed"] if number else []


def collapse_warnings(collapsed: pd.DataFrame, scores: Scores) -> Iterator[Statement]:
    """Yield a warning that names the collapsed runs.

    Args:
        collapsed: Result of `collapsed_runs`.
        scores: The scores.
    """
    if collapsed.empty:
        return
    lost, runs = Counter(collapsed["task"]), Counter(scores.table["task"])
    tasks = [task for task in lost if lost[task] == runs[task]]
    others = collapsed[~collapsed["task"].isin(tasks)].groupby(["method", "task"], sort=False)
    some = [(*place, sorted(seeds)) for place, seeds in others["seed"]]
    more = max(0, len(some) - _MOST_NAMED)
    yield state("collapsed_runs", tasks=tasks, runs=some[:_MOST_NAMED], more=more)
