"""Failed runs: their numbers, and their place in rank tests."""

from __future__ import annotations

import inspect
import math
from dataclasses import replace

import pandas as pd

from relation_tf.bench.results import failed_in_words
from relation_tf.config.suite import Suite
from relation_tf.registry import Procedure
from relation_tf.report.comparisons import rows_of
from relation_tf.report.runs import scored_names
from relation_tf.report.score_tables import KEY
from relation_tf.report.scores import Scores

_COLUMNS = ["task", "method", "seed", "run", "diverged", "error"]


def failed_runs(runs: pd.DataFrame, suite: Suite | None, scores: Scores) -> pd.DataFrame:
    """Return a row for each failed run and scored task.

    Args:
        runs: As for `relation_tf.report.runs.summarize_costs`.
        suite: The suite of the runs, if known.
        scores: The scores; a failed run of an unknown task counts for each of their tasks.

    Returns:
        Columns `task` (scored), `method`, `seed`, `run` (trained task and seed), `diverged` (if
        True, the run has no finite score, and rank tests rank it worst) and `error` (NaN for runs
        of tables, which do not have it).
    """
    # A table can have a row for the trained task and others for the scored ones.
    scored, tasks = scored_names(suite), scores.own_tasks
    known = {task: [task, *scored.get(task, ())] for task in (*tasks, *scored)}
    for task, trained in scores.networks.items():
        known.setdefault(trained, []).append(task)
    rows = [
        {**run, "task": task, "run": f"{run['task']}/{run['seed']}"}
        for run in (runs[runs["status"] == "failed"].to_dict("records") if len(runs) else ())
        for task in known.get(run["task"], tasks)
    ]
    found = pd.DataFrame(rows, columns=_COLUMNS).drop_duplicates(ignore_index=True)
    return found.assign(diverged=found["diverged"].eq(True))


def failed_by_task(failed: pd.DataFrame) -> dict[tuple[str, str], dict[str, bool]]:
    """Return the failed runs by scored task and method; True if one is known to have diverged."""
    found: dict[tuple[str, str], dict[str, bool]] = {}
    for row in rows_of(_known(failed)):
        found.setdefault((row.task, row.method), {})[row.run] = row.diverged
    return found


def _known(failed: pd.DataFrame) -> pd.DataFrame:
    """Return failed runs that are `diverged` only if an error says so, unlike those of tables."""
    return failed.assign(diverged=failed["diverged"] & failed["error"].notna())


def lost_in_words(failed: pd.DataFrame) -> dict[tuple[str, str], tuple[int, str]]:
    """Return the number of failed runs by method and task, and in words, such as "1 diverged"."""
    return {
        (str(method), str(task)): (len(own), failed_in_words(len(own), int(own["diverged"].sum())))
        for (method, task), own in _known(failed).groupby(["method", "task"], sort=False)
    }


def ranks_diverged(test: Procedure) -> bool:
    """Return True if a test ranks scores that are NaN worst."""
    nan = inspect.signature(test.function).parameters.get("nan")
    return nan is not None and nan.default == "worst"


def with_diverged(scores: Scores, failed: pd.DataFrame, test: Procedure) -> Scores:
    """Return the scores for a test: with NaN for diverged runs, if it ranks them.

    Averages without a score, because a task of them diverged, are NaN as well.

    Args:
        scores: The scores.
        failed: Result of `failed_runs`.
        test: The test.
    """
    # A task without any score has no test.
    lost = failed[failed["diverged"] & failed["task"].isin(scores.table["task"])]
    lost = lost[["task", "method", "seed"]]
    if lost.empty or not ranks_diverged(test):
        return scores
    averages = [lost.assign(task=name) for name in scores.averages]
    rows = pd.concat([lost, *averages]).drop_duplicates()
    there, own = (pd.MultiIndex.from_frame(x[KEY].astype(str)) for x in (scores.table, rows))
    rows = rows[~own.isin(there)].assign(score=math.nan)
    return replace(scores, table=pd.concat([scores.table, rows], ignore_index=True))
