"""Training time until the target of a stopping rule, such as an accuracy, was reached."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from relation_tf.bench.results import Results
from relation_tf.config.suite import Suite
from relation_tf.registry import STOPPING_RULES, register_section
from relation_tf.report.blocks import (
    SHADED,
    Block,
    Column,
    Paragraph,
    Row,
    Section,
    Span,
    Table,
    number,
    pair_table,
    plural,
    spread,
)
from relation_tf.report.comparisons import (
    Comparison,
    all_pvalues,
    compare_samples,
    pair_cells,
    rows_of,
)
from relation_tf.report.context import ReportContext
from relation_tf.stats.design import format_level

_COLUMNS: Mapping[Column, Callable[[Any], str]] = {
    Column("Method", "method"): lambda row: row.method,
    Column("Reached", "number"): lambda row: f"{row.reached} of {row.n}",
    Column("Epochs", "number"): lambda row: spread(row.epochs, row.epochs_sd),
    Column("s", "number", "Until it held"): lambda row: spread(row.seconds, row.seconds_sd),
    Column("× the least", "number", "Until it held"): lambda row: number(row.ratio, 2),
    Column("s", "number", "An epoch with validation"): lambda row: spread(
        row.seconds_epoch, row.seconds_epoch_sd, 2
    ),
    Column("× the least", "number", "An epoch with validation"): lambda row: number(
        row.ratio_epoch, 2
    ),
    Column("of it s training input", "number", "An epoch with validation"): lambda row: number(
        row.seconds_input, 2
    ),
    Column("s compiling", "number"): lambda row: number(row.seconds_compilation, 2),
}


@register_section("learning-time")
class LearningTime(Section):
    """Time until the accuracy held, and the test of these times."""

    heading = "Learning time"

    def blocks(self, context: ReportContext) -> Sequence[Block]:
        """Return the table of times, and that of pairs."""
        if context.results is None or context.time_summary.empty:
            return []
        rows = {
            str(task): [
                Row([show(row) for show in _COLUMNS.values()], [row.method]) for row in rows_of(own)
            ]
            for task, own in context.time_summary.groupby("task", sort=False)
        }
        return [
            Table("Table: learning time", [*_COLUMNS], rows),
            Paragraph(_note(context.results), "note"),
            *_pairs(context, compare_times(context.learning_times, context.results)),
        ]

    def answer(self, context: ReportContext) -> Sequence[str]:
        """Return who was how fast."""
        if context.results is None or context.time_summary.empty:
            return []
        tested = compare_times(context.learning_times, context.results)
        return [*learning_sentences(context.time_summary, tested, context.results)]

    def tables(self, context: ReportContext) -> Mapping[str, pd.DataFrame]:
        """Return the times and the tests of them."""
        if context.results is None or context.time_summary.empty:
            return {}
        tested = compare_times(context.learning_times, context.results)
        return {"times": context.learning_times, "time-pvalues": all_pvalues(tested)}


def _note(results: Results) -> str:
    suite = results.suite
    limits = "; ".join(f"{task} {learning_limit(results, task)}" for task in suite.tasks)
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


def _pairs(context: ReportContext, tested: Mapping[str, Comparison]) -> list[Block]:
    pairs = pair_cells(all_pvalues(tested), context.scores.alpha)
    if not pairs:
        return []
    own_notes = [note for task, test in tested.items() for note in notes(task, test)]
    note: list[str | Span] = [
        "p by Steel-Dwass on these seconds, a seed that did not get there being slower "
        "than any that did. ▲: the first method takes longer, ▼: less time. ",
        SHADED,
        f": {context.level}." + "".join(f" {note}." for note in own_notes),
    ]
    words = "faster", "slower"
    table = pair_table("Pairs of learning times", [*tested], pairs, words, better="▼")
    return [table, Paragraph(note, "note")]


def learning_times(results: Results) -> pd.DataFrame:
    """A row for each finished run of a suite with that stopping rule; none for other suites.

    Columns: `task`, `method`, `seed`, `reached`, `epochs`, `seconds` (all epochs, training and
    validation, without compilation and without what is answered at the end), `seconds_epoch` (their
    mean), `seconds_input` (of it the making of batches), `seconds_compilation`.
    """
    names = ["task", "method", "seed", "reached", "epochs"]
    rows = []
    for run in results.runs:
        if run.get("reached") is not None:
            epochs, took = run["epochs"], run["seconds"]
            seconds = took["training"] + took["evaluation"]
            each = seconds, seconds / epochs, took["input"] / epochs, took["compilation"]
            rows.append([*(run[name] for name in names), *each])
    names += ["seconds", "seconds_epoch", "seconds_input", "seconds_compilation"]
    return pd.DataFrame(rows, columns=names)


def summarize_times(times: pd.DataFrame, results: Results) -> pd.DataFrame:
    """A row for each task and method: means over seeds, and ratios to the least of the task.

    Columns: `task`, `method`, `n`, `reached` (how many), `epochs`, `epochs_sd`, `seconds`,
    `seconds_sd` (these four of the runs that reached the accuracy), `ratio` (where all seeds did),
    `seconds_epoch`, `seconds_epoch_sd`, `ratio_epoch`, `seconds_input`, `seconds_compilation` (of
    all runs).
    """
    rows = []
    for task in results.suite.tasks:
        for method in _methods(results):
            own = times[(times["task"] == task) & (times["method"] == method)]
            if len(own):
                rows.append({"task": task, "method": method, **_means(own)})
    table = pd.DataFrame(rows)
    if len(table):
        # A mean over the lucky seeds of a method is no time of the method.
        whole = table["seconds"].where(table["reached"] == table["n"])
        table["ratio"] = whole / whole.groupby(table["task"]).transform("min")
        epoch = table["seconds_epoch"]
        table["ratio_epoch"] = epoch / epoch.groupby(table["task"]).transform("min")
    return table


def compare_times(times: pd.DataFrame, results: Results) -> dict[str, Comparison]:
    """The Steel-Dwass test of each task's seconds; a run that never got there took for ever.

    A task where no run got there has no times to compare.
    """
    comparisons = {}
    for task in results.suite.tasks:
        own = times[times["task"] == task]
        if not own["reached"].any():
            continue
        seconds = own["seconds"].where(own["reached"].astype(bool), math.inf)
        samples = {
            name: list(seconds[own["method"] == name])
            for name in _methods(results)
            if (own["method"] == name).any()
        }
        comparison = compare_samples(samples, results.suite.alpha, higher_is_better=False)
        if comparison is not None:
            comparisons[task] = comparison
    return comparisons


def learning_sentences(
    table: pd.DataFrame, comparisons: Mapping[str, Comparison], results: Results
) -> Iterator[str]:
    """Who came how fast to the accuracy, and which of these times can be told apart."""
    suite = results.suite
    if table.empty:
        return
    goal = _target(suite)
    for task, own in table.groupby("task", sort=False):
        all_seeds = own[own["reached"] == own["n"]].sort_values("seconds")
        found = [
            f"{row.method} {_seconds(row.seconds)} ({row.epochs:.0f} epochs)"
            for row in rows_of(all_seeds)
        ]
        some = [
            f"{row.method} in {row.reached} of {row.n} seeds ({_seconds(row.seconds)})"
            for row in rows_of(own[(own["reached"] > 0) & (own["reached"] < own["n"])])
        ]
        never = [
            f"{row.method} ({plural(row.n, 'seed')})" for row in rows_of(own[own["reached"] == 0])
        ]
        parts = [f"until {goal} held, fastest first: {', '.join(found)}"] if found else []
        parts += [f"{goal} held for {', '.join(some)}"] if some else []
        limit = learning_limit(results, str(task))
        parts += [f"{goal} did not hold within {limit} for {', '.join(never)}"] if never else []
        yield f"{task}: {'; '.join(parts)}."
    for task, comparison in comparisons.items():
        yield _separated(task, comparison)


def notes(task: str, comparison: Comparison) -> list[str]:
    """What a reader has to know beside the numbers; ties are of runs that did not get there."""
    ours, theirs = "the seeds that did not get there", "rounded or constant scores"
    return [f"{task}: {note.replace(theirs, ours)}" for note in comparison.notes()]


def learning_limit(results: Results, task: str) -> str:
    """How far a run of a task went at most, in words."""
    epochs = results.suite.setting(task, "epochs")
    seconds = results.suite.setting(task, "time_limit")
    return f"{epochs} epochs" + (f" or {seconds:g} s" if seconds is not None else "")


def _separated(task: str, comparison: Comparison) -> str:
    pairs = comparison.pairs()
    decided = [
        f"{row.ahead} than {row.a if row.ahead == row.b else row.b}"
        for row in rows_of(pairs[pairs["significant"]])
    ]
    if not decided:
        return f"No two learning times on {task} can be separated by these seeds."
    level = format_level(comparison.result.alpha)
    rest = len(pairs) - len(decided)
    others = f"; the other {plural(rest, 'pair')} cannot be separated"
    return f"Faster on {task} ({level}): {', '.join(decided)}{others if rest else ''}."


def _methods(results: Results) -> list[str]:
    return [str(method.name) for method in results.suite.methods()]


def _means(runs: pd.DataFrame) -> dict[str, Any]:
    there = runs[runs["reached"].astype(bool)]
    return {
        "n": len(runs),
        "reached": len(there),
        **_mean_and_sd("epochs", there["epochs"]),
        **_mean_and_sd("seconds", there["seconds"]),
        **_mean_and_sd("seconds_epoch", runs["seconds_epoch"]),
        "seconds_input": runs["seconds_input"].mean(),
        "seconds_compilation": runs["seconds_compilation"].median(),
    }


def _mean_and_sd(name: str, values: pd.Series[float]) -> dict[str, float]:
    array = values.to_numpy(dtype=float)
    return {
        name: float(array.mean()) if len(array) else math.nan,
        f"{name}_sd": float(np.std(array, ddof=1)) if len(array) > 1 else math.nan,
    }


def _seconds(value: float) -> str:
    return f"{value:.0f} s" if value >= 10 else f"{value:.1f} s"
