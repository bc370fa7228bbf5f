"""Section with the time to the target of a stopping rule, such as an accuracy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from relation_tf.bench.results import Results
from relation_tf.config.suite import Suite
from relation_tf.registry import STOPPING_RULES, register_section
from relation_tf.report.answer import better_of
from relation_tf.report.blocks import (
    SHADED,
    Block,
    Bullets,
    Column,
    Paragraph,
    Section,
    Show,
    Span,
    pair_table,
    table_by_task,
)
from relation_tf.report.comparisons import all_pvalues, compare_methods, rows_of
from relation_tf.report.context import ReportContext
from relation_tf.report.runs import cost_conditions
from relation_tf.report.scores import Scores
from relation_tf.stats import PairwiseResult
from relation_tf.stats.directions import Direction
from relation_tf.words import count, format_level, number, spread

_TARGET, _EPOCH = "Time to target", "Epoch with validation"
_COLUMNS: Mapping[Column, Show] = {
    Column("Method", "method"): lambda row: row.method,
    Column("Reached", "number"): lambda row: f"{row.reached} of {row.n}",
    Column("Epochs", "number"): lambda row: spread(row.epochs, row.epochs_sd),
    Column("s", "number", _TARGET): lambda row: spread(row.seconds, row.seconds_sd),
    Column("relative to fastest", "number", _TARGET): lambda row: number(row.ratio, 2),
    Column("s", "number", _EPOCH): lambda row: spread(row.seconds_epoch, row.seconds_epoch_sd, 2),
    Column("relative to fastest", "number", _EPOCH): lambda row: number(row.ratio_epoch, 2),
    Column("input pipeline, s", "number", _EPOCH): lambda row: number(row.seconds_input, 2),
    Column("Compilation, s", "number"): lambda row: number(row.seconds_compilation, 2),
}


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


@register_section("learning-time")
class LearningTime(Section):
    """Time to the target, and the test of these times."""

    heading = "Time to target"
    by_family = True

    def blocks(self, context: ReportContext) -> Sequence[Block]:
        """Return the times in sentences and the tables of times and of pairs."""
        times, results = context.learning_times, context.results
        if times is None or results is None:
            return []
        return [
            Bullets(self.answer(context)),
            table_by_task("Table: time to target", times.means, _COLUMNS),
            Paragraph(_note(results), "note"),
            *_pairs(context, times.tests),
        ]

    def answer(self, context: ReportContext) -> Sequence[str]:
        """Return the mean times of each task and the significant differences."""
        times, results = context.learning_times, context.results
        if times is None or results is None:
            return []
        tested = (_differences(task, test) for task, test in times.tests.items())
        return [*_sentences(times.means, results), *tested]

    def tables(self, context: ReportContext) -> Mapping[str, pd.DataFrame]:
        """Return the times and their tests."""
        times = context.learning_times
        if times is None:
            return {}
        return {"times": times.runs, "time-pvalues": all_pvalues(times.tests)}


def learning_times(results: Results) -> LearningTimes | None:
    """Return the times of a suite whose stopping rule has a target; None for other suites."""
    runs = _times_of_runs(results)
    return None if runs.empty else LearningTimes(runs, time_means(runs), _compare(runs, results))


def _note(results: Results) -> str:
    suite = results.suite
    limits = "; ".join(f"{task} {_limit(suite, task)}" for task in results.begun.tasks)
    return (
        f"Target: {_target(suite)} ({STOPPING_RULES.find(suite.stopping).description}). "
        "Times include training and validation, but not compilation. Time to target: mean ± "
        "standard deviation over the seeds that reached the target; relative times only for "
        "methods with all seeds. Time per epoch: the same over all seeds. –: no seed reached the "
        f"target within the limit ({limits}). {cost_conditions(suite)} Times depend on the "
        "processor (see the end of the page) and its load; relative times depend less on them."
    )


def _target(suite: Suite) -> str:
    target = STOPPING_RULES.find(suite.stopping).target
    return "the target" if target is None else target(suite)


def _limit(suite: Suite, task: str) -> str:
    """Return the limit of a run in epochs and seconds."""
    seconds = suite.setting(task, "time_limit")
    return f"{suite.setting(task, 'epochs')} epochs" + (
        "" if seconds is None else f" or {seconds:g} s"
    )


def _pairs(context: ReportContext, tests: Mapping[str, PairwiseResult]) -> list[Block]:
    if not tests:
        return []
    # Here ties are between runs that did not reach the target.
    ours, theirs = "some seeds did not reach the target", "scores are tied (rounded or constant)"
    notes = [
        f" {task}: {note.replace(theirs, ours)}."
        for task, test in tests.items()
        for note in test.notes
    ]
    note: list[str | Span] = [
        "p of Steel-Dwass tests of these times. A seed that did not reach the target counts as "
        "slower than all seeds that did. ▲: the second method takes longer, ▼: less time. ",
        SHADED,
        f": significant, {context.level}. After p: the difference in s, second minus first method, "
        f"with its simultaneous interval.{''.join(notes)}",
    ]
    table = pair_table(
        "Table: pairs of times to target",
        [*tests],
        all_pvalues(tests),
        context.scores.alpha,
        digits=lambda task: 1,
        ahead="faster",
    )
    return [table, Paragraph(note, "note")]


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


def _sentences(means: pd.DataFrame, results: Results) -> Iterator[str]:
    """Summarize the time to the target of each task."""
    goal = _target(results.suite)
    for task, own in means.groupby("task", sort=False):
        found = [
            f"{row.method} {_seconds(row.seconds)} ({row.epochs:.0f} epochs)"
            for row in rows_of(own[own["reached"] == own["n"]].sort_values("seconds"))
        ]
        some = [
            f"{row.method} in {row.reached} of {row.n} seeds ({_seconds(row.seconds)})"
            for row in rows_of(own[own["reached"].between(0, own["n"], inclusive="neither")])
        ]
        never = [
            f"{row.method} ({count(row.n, 'seed')})" for row in rows_of(own[own["reached"] == 0])
        ]
        parts = [f"time to {goal}, fastest first: {', '.join(found)}"] if found else []
        parts += [f"{goal} reached by {', '.join(some)}"] if some else []
        limit = _limit(results.suite, str(task))
        parts += [f"{goal} not reached within {limit} by {', '.join(never)}"] if never else []
        yield f"{task}: {'; '.join(parts)}."


def _differences(task: str, result: PairwiseResult) -> str:
    pairs = result.pairs()
    faster = better_of(pairs, "faster than")
    if not faster:
        return f"No two methods differ significantly in time to target on {task}."
    rest = len(pairs) - len(faster)
    others = f"; no significant difference for {count(rest, 'other pair')}" if rest else ""
    level = format_level(result.alpha)
    return f"Time to target on {task} ({level}): {', '.join(faster)}{others}."


def _seconds(value: float) -> str:
    return f"{value:.0f} s" if value >= 10 else f"{value:.1f} s"
