"""Sections with published figures and the results in the paper's layout."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from relation_tf.bench.results import Results
from relation_tf.config.published import Published
from relation_tf.config.table_layout import TableLayout
from relation_tf.registry import register_section
from relation_tf.report.blocks import (
    Block,
    Cell,
    Column,
    Heading,
    Paper,
    Paragraph,
    Row,
    Section,
    Table,
    spread,
)
from relation_tf.report.comparisons import SCORE, rows_of
from relation_tf.report.context import ReportContext
from relation_tf.report.pictures.drawing import signed
from relation_tf.report.provenance import notes
from relation_tf.report.scores import Scores
from relation_tf.tasks.metrics import find_metric

MILLISECONDS = "milliseconds per batch"

_Names = tuple[str, ...]


@register_section("published")
class PublishedFigures(Section):
    """Table of published figures and our results."""

    heading = "Comparison with the paper"

    def blocks(self, context: ReportContext) -> Sequence[Block]:
        """Return the table, and the reasons why figures are not comparable."""
        results, published = context.results, context.published
        if results is None or published is None or not context.cells:
            return []
        unlike = reasons(results, published)
        found = _compared(context, results, published)
        blocks: list[Block] = []
        if unlike:
            blocks.append(Paragraph(f"Not comparable: {'; '.join(unlike)}.", "warning"))
        if len(found):
            blocks.append(_table(found, comparable=not unlike))
        split = f"; its figures are from {published.split} sets" if len(found) else ""
        note = f"{published.source}{split}. {published.missing}".strip()
        return [*blocks, Paragraph(note, "note")]

    def tables(self, context: ReportContext) -> Mapping[str, pd.DataFrame]:
        """Return the table of published figures and our results."""
        if context.results is None or context.published is None:
            return {}
        found = _compared(context, context.results, context.published)
        return {} if found.empty else {"published": found}


def _table(found: pd.DataFrame, *, comparable: bool) -> Table:
    columns = [Column("Task", "head"), Column("Metric"), Column("Method")]
    columns += [Column(name, "number") for name in ("Published", "Ours", "Difference")]
    rows = []
    for row in rows_of(found):
        shown = comparable and not math.isnan(row.difference)
        numbers = [
            spread(row.published, row.published_sd),
            spread(row.mean, row.sd),
            signed(row.difference) if shown else None,
        ]
        rows.append(Row([row.task, row.metric, row.method, *numbers], task=row.task))
    return Table("Table: published figures", columns, rows)


def _compared(context: ReportContext, results: Results, published: Published) -> pd.DataFrame:
    """Return published figures and our results, in points or milliseconds.

    A figure belongs to the method with its name, or to the only method with its mechanism.
    """
    ours = {
        (row.task, row.method, MILLISECONDS): (1000 * row.seconds_batch, math.nan, row.n)
        for row in rows_of(context.how)
    }
    for row in rows_of(context.summary):
        points = find_metric(row.metric).points
        ours[row.task, row.method, row.metric] = points * row.mean, points * row.sd, row.n
    rows = []
    for figure in published.figure:
        name = own_name(results, figure.method)
        own = ours.get((figure.task, name, figure.metric), (math.nan, math.nan, 0))
        row = (figure.task, figure.metric, name, figure.value, figure.sd, *own)
        rows.append((*row, own[0] - figure.value))
    names = ["task", "metric", "method", "published", "published_sd", "mean", "sd", "n"]
    return pd.DataFrame(rows, columns=[*names, "difference"]).astype({"published_sd": float})


def own_name(results: Results, name: str) -> str:
    """Return our method with this name, or the only one with this mechanism; else the name."""
    methods = results.suite.methods()
    own = [str(method.name) for method in methods if method.mechanism == name]
    named = any(method.name == name for method in methods)
    return own[0] if len(own) == 1 and not named else name


def reasons(results: Results, published: Published) -> list[str]:
    """Return the reasons why published figures and our results are not comparable, if any."""
    suite = results.suite
    unlike = []
    ours = suite.embedding_dim if suite.embeddings == "glove" else None
    if ours != published.vectors:
        unlike.append(f"the paper uses {_vectors(published.vectors)}, this suite {_vectors(ours)}")
    if suite.source == "miniglue":
        unlike.append("this suite uses built-in data")
    elif Scores.of(results).noun != f"{published.split} sets":
        unlike.append(f"the paper reports {published.split} sets, this suite dev sets")
    return unlike + [f"{task} is {note}" for task in suite.tasks for note in notes(results, task)]


def _vectors(width: int | None) -> str:
    return "random embeddings" if width is None else f"word vectors of width {width}"


@register_section("layout")
class Layout(Section):
    """Results in the layout of the paper's table."""

    heading = "Results in the paper's layout"

    def blocks(self, context: ReportContext) -> Sequence[Block]:
        """Return a table for each measure; nothing for several suites."""
        results = context.results
        layout = None if results is None or results.parts else results.suite.layout
        if results is None or layout is None or not context.cells:
            return []
        unit = ", points" if context.scores.fractions == [*context.scores.tasks] else ""
        blocks: list[Block] = []
        for place, measure in enumerate(layout.measures, start=1):
            title = f"score{unit}" if measure == SCORE else measure
            table = Table(
                f"Table: {title}, in the paper's layout",
                *_grid(measure, layout, context, results),
                "scores",
                Paper(f"layout-{place}", f"{context.title}: {title}"),
            )
            blocks += [Heading(title.capitalize()), table]
        return blocks


def _grid(
    measure: str, layout: TableLayout, context: ReportContext, results: Results
) -> tuple[list[Column], list[Row]]:
    """Return the columns and the rows of a measure."""
    suite, published = results.suite, context.published
    places = {
        (str(method.name), task): layout.place(method, task)
        for method in suite.methods()
        for task in (context.scores.tasks if measure == SCORE else suite.tasks)
    }
    rows, columns = (_nested(names) for names in zip(*places.values(), strict=True))
    figures = _figures(results, published)
    comparable = published is not None and not reasons(results, published)
    cells = {
        places[row.method, row.task]: _cell(
            row, figures.get((row.method, row.task, measure)), comparable=comparable
        )
        for row in rows_of(_means(measure, context))
    }
    heads = [Column(name, "head") for name in layout.rows]
    heads += [Column(_heading(layout.columns, column), "number") for column in columns]
    return heads, [Row([*row, *(cells.get((row, column)) for column in columns)]) for row in rows]


def _heading(names: Sequence[str], column: _Names) -> str:
    """Return the heading of a column; numbers follow the name of their part."""
    named = zip(names, column, strict=True)
    return " ".join(f"{name} {part}" if part[:1].isdigit() else part for name, part in named)


def _nested(names: Iterable[_Names]) -> list[_Names]:
    """Return distinct names, grouped by their parts; parts in order of first occurrence."""
    distinct = [*dict.fromkeys(names)]
    orders = [[*dict.fromkeys(parts)] for parts in zip(*distinct, strict=True)]
    return sorted(
        distinct,
        key=lambda name: [order.index(part) for order, part in zip(orders, name, strict=True)],
    )


def _means(measure: str, context: ReportContext) -> pd.DataFrame:
    """Return columns `task`, `method`, `mean`, `sd`, `letters`, `digits` and `best`."""
    scores = context.scores
    if measure == SCORE:
        own = context.summary[context.summary["metric"] == SCORE]
        factor = own["task"].map(scores.factor)
        own = own.assign(mean=factor * own["mean"], sd=factor * own["sd"])
        digits: Any = own["task"].map(scores.digits)
        lower = own["task"].isin(scores.lower_is_better)
    else:
        digits = 2 if measure == "seconds per epoch" else 1
        own = _times(measure, context).assign(letters="")
        lower = pd.Series(data=True, index=own.index)
    ranked = own["mean"].where(~lower, -own["mean"])
    by_task = ranked.groupby(own["task"])
    highest, lowest = by_task.transform("max"), by_task.transform("min")
    best = np.isclose(ranked, highest) & (lowest < highest)
    return own.assign(digits=digits, best=best)


def _times(measure: str, context: ReportContext) -> pd.DataFrame:
    how, times = context.how, context.learning_times
    keys = ["task", "method"]
    if measure == MILLISECONDS:
        return how[keys].assign(mean=1000 * how["seconds_batch"], sd=math.nan)
    if times is None:
        return how[keys].assign(mean=how["seconds_epoch"], sd=math.nan)
    column = "seconds" if measure == "seconds" else "seconds_epoch"
    means = times.means
    own = means[keys].assign(mean=means[column], sd=means[f"{column}_sd"])
    # A mean over only the successful seeds would favour the method.
    return own[means["reached"] == means["n"]] if measure == "seconds" else own


def _cell(row: Any, figure: float | None, *, comparable: bool) -> Cell | None:
    def shown(value: float, sign: str = "") -> str:
        return "" if math.isnan(value) else f"{value:{sign}z,.{row.digits}f}".replace("-", "−")

    if math.isnan(row.mean):
        return None
    cell = Cell(shown(row.mean), bool(row.best), str(row.letters), shown(row.sd))
    if figure is None:
        return cell
    published = shown(figure)
    difference = f" ({shown(row.mean - figure, '+')})" if comparable else ""
    return replace(cell, notes=[f"paper {published}{difference}"], paper_note=published)


def _figures(results: Results, published: Published | None) -> dict[tuple[str, str, str], float]:
    """Return the paper's figures by our method, task and measure."""
    metrics = {name: task.metrics for task in results.suite.learned() for name in task.scored}
    figures = {}
    for figure in () if published is None else published.figure:
        is_score = metrics.get(figure.task) == (figure.metric,)
        measure = SCORE if is_score else figure.metric
        figures[own_name(results, figure.method), figure.task, measure] = figure.value
    return figures
