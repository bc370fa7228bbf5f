"""Sections with the table of scores and the figure of all seeds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import fmean

import numpy as np

from relation_tf.registry import register_section
from relation_tf.report.blocks import (
    Block,
    Column,
    Paper,
    Paragraph,
    Row,
    Section,
    Span,
    Table,
    figure_with_note,
)
from relation_tf.report.context import ReportContext
from relation_tf.report.pictures.runs import score_dots
from relation_tf.tasks.metrics import counted, find_metric
from relation_tf.words import capital, count, listed


@register_section("scores")
class ScoresTable(Section):
    """Mean and standard deviation of each method on each task."""

    heading = "Scores"
    notebook = True
    open = True

    def blocks(self, context: ReportContext) -> Sequence[Block]:
        """Return the table and a note that explains its marks."""
        if not context.cells:
            return []
        scores = context.scores
        columns = [Column("Method", "method")]
        columns += [
            Column(
                scores.with_arrow(name),
                "number",
                note=note,
                task=name,
                average=name in scores.averages,
            )
            for name, note in context.columns.items()
        ]
        rows = [
            Row([name, *(context.cells.get((name, task)) for task in scores.tasks)], [name])
            for name in scores.methods
        ]
        paper = Paper("scores", "Scores", _caption(context))
        return [
            Table("Table: scores", columns, rows, "scores", paper),
            Paragraph([*_note(context)], "note"),
        ]


def _fewer(context: ReportContext) -> bool:
    return any(note.startswith("n =") for cell in context.cells.values() for note in cell.notes)


def _lettered(context: ReportContext) -> bool:
    return any(cell.letters for cell in context.cells.values())


def of_a_family(context: ReportContext) -> str:
    """Return " of a family" if letters compare the methods of a family only, else nothing."""
    return " of a family" if context.scores.families else ""


def _letters(context: ReportContext) -> str:
    """Return what letters and columns without letters mean."""
    elsewhere = _averages_elsewhere(context)
    column = "another column" if elsewhere else "a column"
    without = f"{column} without letters has no significant difference"
    if context.too_many_groups:
        without += f", or {_no_letters(context)}"
    if elsewhere:
        without += "; an average has no letters: see the test over tasks"
    return (
        f"methods{of_a_family(context)} that share a letter in a column do not differ "
        f"significantly ({context.test}, {context.level}); {without}"
    )


def _averages_elsewhere(context: ReportContext) -> bool:
    """Return True if the averages have no letters, because a test over tasks takes their place."""
    return bool(context.scores.averages) and all(part.several for part in context.parts.values())


def _no_letters(context: ReportContext) -> str:
    return f"more groups of methods than letters ({listed(context.too_many_groups)}: pvalues.csv)"


def _note(context: ReportContext) -> Iterator[str | Span]:
    scores = context.scores
    yield f"Mean over {count(scores.seeds, 'seed')}"
    yield " (or n if given)" if _fewer(context) else ""
    yield " ± standard deviation (n − 1)" if scores.seeds > 1 else ""
    yield f", {scores.times_100}. " if scores.times_100 else ". "
    yield Span("Bold")
    yield ": best mean"
    if scores.lower_is_better:
        lower = ", ".join(sorted(scores.lower_is_better))
        yield f" (lowest for {lower}, highest for others)"
    both = "" if context.results is None else "; for a task with two metrics, the mean of both"
    yield f"{both}."
    yield from _uncounted(context)
    if _lettered(context):
        yield " "
        yield Span("a b", "superscript")
        yield f": {_letters(context)}."
    elif context.too_many_groups:
        yield f" No letters: {_no_letters(context)}."
    elif context.tested and scores.control is None:
        elsewhere = _averages_elsewhere(context)
        where = "on any single task" if elsewhere else "in any column"
        yield f" No difference{of_a_family(context)} {where} is significant "
        yield f"({context.test}, {context.level})."
        yield " For the average, see the test over tasks." if elsewhere else ""
    if _fewer(context):
        yield " n: number of finished seeds, if not all. –: no finished seed."
    if not context.collapsed.empty:
        yield " Collapsed: runs that learned nothing; they are part of the mean."
    suite = None if context.results is None else context.results.suite
    if suite is not None and len(suite.tasks) > 1 and not suite.timed:
        if scores.averages:
            yield (
                " The average includes only seeds with a score on every task. The two metrics of a "
                f"task{_counted_once(context)} are averaged first, then the tasks."
            )
        elif scores.alike and not _has_whole_seed(context):
            yield " There is no average yet: no seed has all tasks of the suite."
        elif not scores.alike:
            maybe = "probably " if scores.unit_remark else ""
            yield f" There is no average, because the metrics {maybe}differ in unit or direction."
    if scores.diagnostics:
        yield f" {scores.diagnostics_remark}"
    failed = 0 if suite is None else int(context.runs["status"].eq("failed").sum())
    if failed:
        verb = "is" if failed == 1 else "are"
        yield f" {count(failed, 'run')} failed and {verb} not in the table."


def _has_whole_seed(context: ReportContext) -> bool:
    """Return True if at least one seed of a method has all main tasks."""
    scores = context.scores
    own = scores.table[scores.table["task"].isin(scores.main_tasks)]
    tasks = own.groupby(["method", "seed"])["task"].nunique()
    return bool((tasks == len(scores.main_tasks)).any())


def _counted_once(context: ReportContext) -> str:
    """Name the tasks that are averaged first, because they count as one task."""
    shared = [listed(tasks) for tasks in context.scores.shared.values()]
    return f", and {'; '.join(shared)}," if shared else ""


def _uncounted(context: ReportContext) -> Iterator[str]:
    """Name the tasks with metrics that do not enter the score."""
    for task in () if context.results is None else context.results.suite.learned():
        if len(counted(task.metrics)) < len(task.metrics):
            yield (
                f" The score of {task.name} is {task.metrics[0]} alone, because its metrics differ "
                "in unit or direction."
            )


def _caption(context: ReportContext) -> str:
    scores = context.scores
    lower = sorted(scores.lower_is_better)
    parts = [
        ": mean",
        " ± standard deviation" if scores.seeds > 1 else "",
        f" over {count(scores.seeds, 'seed')}",
        " or fewer" if _fewer(context) else "",
        f", {scores.times_100}" if scores.times_100 else "",
        "; bold: best mean",
        f" (lowest for {', '.join(lower)})." if lower else ".",
        f" {capital(_letters(context))}." if _lettered(context) else "",
        f" {context.dagger}" if context.dagger else "",
        f" {context.generated_data}",
    ]
    return "".join(parts).rstrip()


@register_section("seeds")
class Seeds(Section):
    """Figure with the score of each seed."""

    heading = "Scores by seed"
    notebook = True

    def blocks(self, context: ReportContext) -> Sequence[Block]:
        """Return the figure."""
        scores = context.scores
        points = "Scores times 100. " if scores.fractions else ""
        points = f"Scores: {scores.times_100}. " if points and scores.points else points
        limits = _limits(context)
        interval = ", the horizontal line its 95 % t interval" if scores.seeds > 1 else ""
        if interval and np.isfinite([*limits.values()]).any():
            interval += ", cut at the limits of the metric"
        note = f"{points}Each mark is a seed; the vertical line is the mean{interval}."
        if not context.collapsed.empty:
            note += " An open mark is a collapsed run; a mean with such a run has no interval."
        note += best_drawn(context)
        picture = score_dots(scores, context.drawn, context.collapsed, limits)
        return figure_with_note(picture, note)


def best_drawn(context: ReportContext) -> str:
    """Return a sentence on the methods that a figure leaves out; empty if it has all."""
    drawn, total = len(context.drawn), len(context.styles)
    ranked = "by mean rank " if len(context.scores.main_tasks) > 1 else ""
    said = f" Drawn: the {drawn} best of {total:,} methods {ranked}"
    if context.mean_ranks.empty:  # no task has all methods
        said = f" Drawn: the first {drawn} of {total:,} methods"
    return f"{said.rstrip()}; all scores are in scores.csv." if drawn < total else ""


def _limits(context: ReportContext) -> dict[str, tuple[float, float]]:
    """Return the lowest and the highest possible score of each task, infinite if unknown."""
    scores = context.scores
    if not scores.in_points:
        return {}
    found = dict.fromkeys(scores.tasks, (-1.0, 1.0))  # the metrics of other reports are unknown
    for task in () if context.results is None else context.results.suite.learned():
        metrics = [find_metric(name) for name in counted(task.metrics)]
        low, high = (
            fmean(infinite if end is None else end for end in ends)
            for infinite, ends in (
                (-math.inf, [metric.low for metric in metrics]),
                (math.inf, [metric.high for metric in metrics]),
            )
        )
        found |= dict.fromkeys(task.scored, (low, high))
    own = [found[task] for task in scores.main_tasks]
    average = fmean(low for low, _ in own), fmean(high for _, high in own)
    return found | dict.fromkeys(scores.averages, average)
