"""Training time until the target of a stopping rule, such as an accuracy, was reached."""

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
    Column,
    Paragraph,
    Section,
    Show,
    Span,
    number,
    pair_table,
    plural,
    spread,
    table_by_task,
)
from relation_tf.report.comparisons import Comparison, all_pvalues, compare, rows_of
from relation_tf.report.context import ReportContext
from relation_tf.report.scores import Scores
from relation_tf.stats.design import format_level

_HELD, _EPOCH = "Until it held", "An epoch with validation"
_COLUMNS: Mapping[Column, Show] = {
    Column("Method", "method"): lambda row: row.method,
    Column("Reached", "number"): lambda row: f"{row.reached} of {row.n}",
    Column("Epochs", "number"): lambda row: spread(row.epochs, row.epochs_sd),
    Column("s", "number", _HELD): lambda row: spread(row.seconds, row.seconds_sd),
    Column("× the least", "number", _HELD): lambda row: number(row.ratio, 2),
    Column("s", "number", _EPOCH): lambda row: spread(row.seconds_epoch, row.seconds_epoch_sd, 2),
    Column("× the least", "number", _EPOCH): lambda row: number(row.ratio_epoch, 2),
    Column("of it s training input", "number", _EPOCH): lambda row: number(row.seconds_input, 2),
    Column("s compiling", "number"): lambda row: number(row.seconds_compilation, 2),
}


class LearningTimes(NamedTuple):
    """Times until the target of a suite's stopping rule was reached.

    Attributes:
        runs: A row for each finished run, see `_times_of_runs`.
        means: A row for each task and method, see `_means`.
        tests: The test of each task, see `_compare`.
    """

    runs: pd.DataFrame
    means: pd.DataFrame
    tests: Mapping[str, Comparison]


@register_section("learning-time")
class LearningTime(Section):
    """Time until the accuracy held, and the test of these times."""

    heading = "Learning time"

    def blocks(self, context: ReportContext) -> Sequence[Block]:
        """Return the table of times, and that of pairs."""
        times, results = context.learning_times, context.results
        if times is None or results is None:
            return []
        return [
            table_by_task("Table: learning time", times.means, _COLUMNS),
            Paragraph(_note(results), "note"),
            *_pairs(context, times.tests),
        ]

    def answer(self, context: ReportContext) -> Sequence[str]:
        """Return who was how fast."""
        times, results = context.learning_times, context.results
        if times is None or results is None:
            return []
        tested = (_separated(task, test) for task, test in times.tests.items())
        return [*_sentences(times.means, results), *tested]

    def tables(self, context: ReportContext) -> Mapping[str, pd.DataFrame]:
        """Return the times and the tests of them."""
        times = context.learning_times
        if times is None:
            return {}
        return {"times": times.runs, "time-pvalues": all_pvalues(times.tests)}


def learning_times(results: Results) -> LearningTimes | None:
    """Return the times of a suite whose stopping rule has a target; None for other suites."""
    runs = _times_of_runs(results)
    return None if runs.empty else LearningTimes(runs, _means(runs), _compare(runs, results))


def _note(results: Results) -> str:
    suite = results.suite
    limits = "; ".join(f"{task} {_limit(suite, task)}" for task in suite.tasks)
    return (
        f"Until {_target(suite)} held ({STOPPING_RULES.find(suite.stopping).description}): "
        "training and validation, without compilation; "
        "mean ± standard deviation over the seeds that got there. An epoch: of all seeds. "
        f"Computed: {suite.compute}, {plural(suite.threads, 'thread')} an operation. Ratios are of "
        f"methods whose seeds all got there. –: none got there within the limit ({limits}). "
        "Seconds hold for the processor named below and whatever else ran on it; ratios travel "
        "better."
    )


def _target(suite: Suite) -> str:
    target = STOPPING_RULES.find(suite.stopping).target
    return "the target" if target is None else target(suite)


def _limit(suite: Suite, task: str) -> str:
    """Return how far a run of a task went at most, in words."""
    seconds = suite.setting(task, "time_limit")
    return f"{suite.setting(task, 'epochs')} epochs" + (
        "" if seconds is None else f" or {seconds:g} s"
    )


def _pairs(context: ReportContext, tests: Mapping[str, Comparison]) -> list[Block]:
    if not tests:
        return []
    # Ties are of runs that did not get there.
    ours, theirs = "the seeds that did not get there", "rounded or constant scores"
    notes = [
        f" {task}: {note.replace(theirs, ours)}."
        for task, test in tests.items()
        for note in test.notes()
    ]
    note: list[str | Span] = [
        "p by Steel-Dwass on these seconds, a seed that did not get there being slower "
        "than any that did. ▲: the first method takes longer, ▼: less time. ",
        SHADED,
        f": {context.level}.{''.join(notes)}",
    ]
    pvalues, marks = all_pvalues(tests), {"▼": "faster", "▲": "slower"}
    table = pair_table(
        "Pairs of learning times", [*tests], pvalues, context.scores.alpha, marks=marks
    )
    return [table, Paragraph(note, "note")]


def _times_of_runs(results: Results) -> pd.DataFrame:
    """Return a row for each finished run that had a target.

    Columns: `task`, `method`, `seed`, `reached`, `epochs`, `seconds` (all epochs, training and
    validation, without compilation and without what is answered at the end), `seconds_epoch` (their
    mean), `seconds_input` (of it the making of batches), `seconds_compilation`.
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
    return pd.DataFrame(rows)


def _means(times: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each task and method: means over seeds, and ratios to the least of the task.

    `epochs`, `seconds` and their deviations are of the runs that reached the target, `ratio` is
    of methods whose seeds all did; the rest is of all runs.
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
    # A mean over the lucky seeds of a method is no time of the method.
    whole = table["seconds"].where(table["reached"] == table["n"])
    least = whole.groupby(table["task"]).transform("min")
    least_epoch = table.groupby("task")["seconds_epoch"].transform("min")
    return table.assign(ratio=whole / least, ratio_epoch=table["seconds_epoch"] / least_epoch)


def _compare(times: pd.DataFrame, results: Results) -> dict[str, Comparison]:
    """Return the Steel-Dwass test of each task's seconds.

    A run that never got there took infinitely long, which only a test of ranks can compare. A task
    where no run got there has no times to compare.
    """
    suite, reached = results.suite, times["reached"].astype(bool)
    there = {*times["task"][reached]}
    scores = Scores(
        times.assign(score=times["seconds"].where(reached, math.inf)),
        methods=[str(method.name) for method in suite.methods()],
        tasks=[task for task in suite.tasks if task in there],
        seeds=len(suite.seeds),
        lower_is_better=frozenset(there),
        alpha=suite.alpha,
    )
    return compare(scores)


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
            f"{row.method} ({plural(row.n, 'seed')})" for row in rows_of(own[own["reached"] == 0])
        ]
        parts = [f"until {goal} held, fastest first: {', '.join(found)}"] if found else []
        parts += [f"{goal} held for {', '.join(some)}"] if some else []
        limit = _limit(results.suite, str(task))
        parts += [f"{goal} did not hold within {limit} for {', '.join(never)}"] if never else []
        yield f"{task}: {'; '.join(parts)}."


def _separated(task: str, comparison: Comparison) -> str:
    pairs = comparison.pairs()
    faster = better_of(pairs, "than")
    if not faster:
        return f"No two learning times on {task} can be separated by these seeds."
    rest = len(pairs) - len(faster)
    others = f"; the other {plural(rest, 'pair')} cannot be separated" if rest else ""
    level = format_level(comparison.result.alpha)
    return f"Faster on {task} ({level}): {', '.join(faster)}{others}."


def _seconds(value: float) -> str:
    return f"{value:.0f} s" if value >= 10 else f"{value:.1f} s"
