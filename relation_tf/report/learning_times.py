"""Times until the target of a stopping rule is reached, such as an accuracy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pandas as pd

from relation_tf.bench.results import Results
from relation_tf.config.suite import Suite
from relation_tf.registry import STOPPING_RULES
from relation_tf.report.comparisons import compare_methods, rows_of, winners
from relation_tf.report.scores import Scores
from relation_tf.report.text import Statement, state
from relation_tf.stats import PairwiseResult
from relation_tf.stats.directions import Direction


class LearningTimes(NamedTuple):
    """Times to the target of a suite's stopping rule.

    Attributes:
        runs: One row per finished run, see `_times_of_runs`.
        means: One row per task and method, see `time_means`.
        tests: The test of each task, see `_compare`.
    """

    runs: pd.DataFrame
    means: pd.DataFrame
    tests: Mapping[str, PairwiseResult]


def learning_times(results: Results) -> LearningTimes | None:
    """Return the times of a suite whose stopping rule has a target; None for other suites."""
    runs = _times_of_runs(results)
    return None if runs.empty else LearningTimes(runs, time_means(runs), _compare(runs, results))


def target_of(suite: Suite) -> str:
    """Return the target of a suite's stopping rule in words."""
    target = STOPPING_RULES.find(suite.stopping).target
    return "the target" if target is None else target(suite)


def limit_of(suite: Suite, task: str) -> str:
    """Return the limit of a run in epochs and seconds."""
    seconds = suite.setting(task, "time_limit")
    limit = f"{suite.setting(task, 'epochs')} epochs"
    return limit if seconds is None else f"{limit} or {seconds:g} s"


def _times_of_runs(results: Results) -> pd.DataFrame:
    """Return one row per run with a target; a failed run has no times.

    Columns: `task`, `method`, `seed`, `reached`, `epochs`, `seconds` (training and validation of
    all epochs, without compilation and the predictions at the end), `seconds_epoch` (mean per
    epoch), `seconds_input` (input pipeline per epoch), `seconds_compilation`.
    """
    rows = []
    for run in results.runs:
        if run.get("reached") is not None:
            epochs, took = run["epochs"], run["seconds"]
            seconds = took["training"] + took["evaluation"]
            row = {name: run[name] for name in ("task", "method", "seed", "reached", "epochs")}
            rows.append(
                {
                    **row,
                    "seconds": seconds,
                    "seconds_epoch": seconds / epochs,
                    "seconds_input": took["input"] / epochs,
                    "seconds_compilation": took["compilation"],
                }
            )
    # A failed run did not reach the target either.
    errors, there = dict(results.failures), {(row["task"], row["method"]) for row in rows}
    rows += [
        {"task": run.task, "method": run.method, "seed": run.seed, "reached": False}
        for run in results.requested
        if str(run) in errors and (run.task, run.method) in there
    ]
    return pd.DataFrame(rows)


def time_means(times: pd.DataFrame) -> pd.DataFrame:
    """Return one row per task and method: means over seeds, and ratios to the fastest method.

    `epochs`, `seconds` and their standard deviations use only runs that reached the target; `ratio`
    needs all seeds of a method to reach it; all other columns use all runs.
    """
    reached = times["reached"].astype(bool)
    of_reached = {name: times[name].where(reached) for name in ("epochs", "seconds")}
    means: dict[str, Any] = {"n": ("seed", "size"), "reached": ("reached", "sum")}
    for name in ("epochs", "seconds", "seconds_epoch"):
        means |= {name: (name, "mean"), f"{name}_sd": (name, "std")}
    means["seconds_input"] = "seconds_input", "mean"
    means["seconds_compilation"] = "seconds_compilation", "median"
    runs = times.assign(reached=reached, **of_reached)
    table = runs.groupby(["task", "method"], sort=False, as_index=False).agg(**means)
    # A mean over only the successful seeds would favor the method.
    whole = table["seconds"].where(table["reached"] == table["n"])
    least = whole.groupby(table["task"]).transform("min")
    least_epoch = table.groupby("task")["seconds_epoch"].transform("min")
    return table.assign(ratio=whole / least, ratio_epoch=table["seconds_epoch"] / least_epoch)


def _compare(times: pd.DataFrame, results: Results) -> dict[str, PairwiseResult]:
    """Return the Steel-Dwass test of each task's seconds.

    A run that did not reach the target has infinite time, which a rank test can compare. Tasks
    where no run reached the target are left out.
    """
    suite, reached = results.suite, times["reached"].astype(bool)
    there = {*times["task"][reached]}
    scores = Scores(
        times.assign(score=times["seconds"].where(reached, math.inf)),
        methods=[str(method.name) for method in suite.methods()],
        tasks=[task for task in suite.tasks if task in there],
        seeds=len(suite.seeds),
        directions=dict.fromkeys(there, Direction(False, "registered")),
        alpha=suite.alpha,
    )
    return compare_methods(scores)


def time_statements(times: LearningTimes, suite: Suite) -> Iterator[Statement]:
    """Yield the mean times of each task, the fastest first, and the significant differences."""
    for task, own in times.means.groupby("task", sort=False):
        reached = own[own["reached"] == own["n"]].sort_values("seconds")
        partly = own[own["reached"].between(0, own["n"], inclusive="neither")]
        yield state(
            "times_to_target",
            task=task,
            target=target_of(suite),
            limit=limit_of(suite, str(task)),
            reached={row.method: (row.seconds, row.epochs) for row in rows_of(reached)},
            partly={row.method: (row.reached, row.n, row.seconds) for row in rows_of(partly)},
            never={row.method: row.n for row in rows_of(own[own["reached"] == 0])},
        )
    for task, test in times.tests.items():
        pairs = test.pairs()
        faster = winners(pairs)
        yield state("faster_to_target", task=task, alpha=test.alpha, faster=faster,
                    others=len(pairs) - len(faster))  # fmt: skip
