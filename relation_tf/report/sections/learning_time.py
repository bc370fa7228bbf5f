"""Times until the target of a stopping rule is reached, such as an accuracy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from relation_tf.registry import STOPPING_RULES, register_section
from relation_tf.report.blocks import Block, Column, Section, Show, blocks, rows_of, table_by_task
from relation_tf.report.scores import Scores
from relation_tf.report.sections.tests import all_pvalues, compare_methods, pair_table, winners
from relation_tf.report.text import Statement, state
from relation_tf.stats import PairwiseResult
from relation_tf.stats.directions import Direction
from relation_tf.words import number, spread

if TYPE_CHECKING:
    from relation_tf.bench.results import Results
    from relation_tf.config.suite import Suite
    from relation_tf.report.data import Comparison


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
            epochs, times = run["epochs"], run["seconds"]
            seconds = times["training"] + times["evaluation"]
            row = {name: run[name] for name in ("task", "method", "seed", "reached", "epochs")}
            row |= {"seconds": seconds, "seconds_epoch": seconds / epochs}
            row["seconds_input"] = times["input"] / epochs
            row["seconds_compilation"] = times["compilation"]
            rows.append(row)
    # A failed run did not reach the target either.
    errors, measured = dict(results.failures), {(row["task"], row["method"]) for row in rows}
    rows += [
        {"task": run.task, "method": run.method, "seed": run.seed, "reached": False}
        for run in results.requested
        if str(run) in errors and (run.task, run.method) in measured
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
    complete = table["seconds"].where(table["reached"] == table["n"])
    fastest = complete.groupby(table["task"]).transform("min")
    fastest_epoch = table.groupby("task")["seconds_epoch"].transform("min")
    per_epoch = table["seconds_epoch"] / fastest_epoch
    return table.assign(ratio=complete / fastest, ratio_epoch=per_epoch)


def _compare(times: pd.DataFrame, results: Results) -> dict[str, PairwiseResult]:
    """Return the Steel-Dwass test of each task's seconds.

    A run that did not reach the target has infinite time, which a rank test can compare. Tasks
    where no run reached the target are left out.
    """
    suite, reached = results.suite, times["reached"].astype(bool)
    tasks = {*times["task"][reached]}
    scores = Scores(
        times.assign(score=times["seconds"].where(reached, math.inf)),
        methods=[str(method.name) for method in suite.methods()],
        tasks=[task for task in suite.tasks if task in tasks],
        seeds=len(suite.seeds),
        directions=dict.fromkeys(tasks, Direction(False, "registered")),
        alpha=suite.alpha,
    )
    return compare_methods(scores)


def time_statements(times: LearningTimes, suite: Suite) -> Iterator[Statement]:
    """Yield the mean times of each task, the fastest first, and the significant differences."""
    for task, rows in times.means.groupby("task", sort=False):
        reached = rows[rows["reached"] == rows["n"]].sort_values("seconds")
        partly = rows[rows["reached"].between(0, rows["n"], inclusive="neither")]
        yield state(
            "times_to_target",
            task=task,
            target=target_of(suite),
            limit=limit_of(suite, str(task)),
            reached={row.method: (row.seconds, row.epochs) for row in rows_of(reached)},
            partly={row.method: (row.reached, row.n, row.seconds) for row in rows_of(partly)},
            never={row.method: row.n for row in rows_of(rows[rows["reached"] == 0])},
        )
    for task, test in times.tests.items():
        pairs = test.pairs()
        faster = winners(pairs)
        yield state("faster_to_target", task=task, alpha=test.alpha, faster=faster,
                    others=len(pairs) - len(faster))  # fmt: skip


_TIED = "some seeds did not reach the target"
_TARGET, _EPOCH = "Time to target", "Epoch with validation"
_COLUMNS: Mapping[Column, Show] = {
    Column("Method", "method"): lambda row: row.method,
    Column("Reached", "number"): lambda row: f"{row.reached} of {row.n}",
    Column("Epochs", "number"): lambda row: spread(row.epochs, row.epochs_sd),
    Column(f"{_TARGET}, s", "number"): lambda row: spread(row.seconds, row.seconds_sd),
    Column(f"{_TARGET}, relative to fastest", "number"): lambda row: number(row.ratio, 2),
    Column(f"{_EPOCH}, s", "number"): lambda row: spread(
        row.seconds_epoch, row.seconds_epoch_sd, 2
    ),
    Column(f"{_EPOCH}, relative to fastest", "number"): lambda row: number(row.ratio_epoch, 2),
    Column(f"{_EPOCH}, input pipeline, s", "number"): lambda row: number(row.seconds_input, 2),
    Column("Compilation, s", "number"): lambda row: number(row.seconds_compilation, 2),
}


@register_section("learning-time")
class LearningTime(Section):
    """Time to the target, and the test of these times."""

    heading = "Time to target"
    by_family = True

    def blocks(self, part: Comparison) -> Sequence[Block]:
        """Return the times in sentences and the tables of times and of pairs."""
        times, results = part.learning_times, part.results
        if times is None or results is None:
            return []
        suite = results.suite
        pairs = pair_table(
            "Table: pairs of times to target", [*times.tests], all_pvalues(times.tests),
            part.scores.alpha, digits=lambda task: 1, ahead="faster",
        )  # fmt: skip
        return blocks(
            "learning-time.jinja",
            statements=[*time_statements(times, suite)],
            table=table_by_task("Table: time to target", times.means, _COLUMNS),
            pairs=pairs if times.tests else None,
            target=target_of(suite),
            rule=STOPPING_RULES.find(suite.stopping).description,
            limits={task: limit_of(suite, task) for task in results.begun.tasks},
            threads=suite.threads,
            alpha=part.scores.alpha,
            # Ties are between runs that did not reach the target.
            notes=[
                (task, note.replace("scores are tied (rounded or constant)", _TIED))
                for task, test in times.tests.items()
                for note in test.notes
            ],
        )

    def tables(self, part: Comparison) -> Mapping[str, pd.DataFrame]:
        """Return the times and their tests."""
        times = part.learning_times
        if times is None:
            return {}
        return {"times": times.runs, "time-pvalues": all_pvalues(times.tests)}
