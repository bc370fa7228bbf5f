"""A table as its paper lays it out: ours, and the published figures where they are at hand."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from relation_tf.bench.results import Results
from relation_tf.config.published import Published
from relation_tf.registry import register_section
from relation_tf.report.blocks import (
    Block,
    Cell,
    Column,
    Heading,
    Paper,
    Row,
    Section,
    Table,
)
from relation_tf.report.comparisons import SCORE, rows_of
from relation_tf.report.context import ReportContext
from relation_tf.report.scores import Scores
from relation_tf.report.sections.published import MILLISECONDS, own_name, reasons


class LaidOutCell(NamedTuple):
    """A method on a task, in one measure.

    Attributes:
        mean: Ours, in points or in the unit of the measure.
        deviation: Its standard deviation; empty where there is none.
        best: Whether none on this task has a better mean, and some a worse one.
        letters: Methods on this task that share one cannot be separated; of scores alone.
        published: The paper's figure, where it is at hand.
        difference: Ours less the paper's.
    """

    mean: str
    deviation: str
    best: bool
    letters: str
    published: str
    difference: str


@dataclass(frozen=True)
class LaidOut:
    """A table.

    Attributes:
        measure: What it shows.
        row_names: What makes a row, such as "units".
        column_names: What makes a column.
        rows: The names of each row, nested.
        columns: The names of each column, nested.
        cells: By row and column; none where no run is done.
    """

    measure: str
    row_names: list[str]
    column_names: list[str]
    rows: list[tuple[str, ...]]
    columns: list[tuple[str, ...]]
    cells: Mapping[tuple[tuple[str, ...], tuple[str, ...]], LaidOutCell]

    def heading(self, column: tuple[str, ...]) -> str:
        """What stands over a column; a number says of what."""
        named = zip(self.column_names, column, strict=True)
        return " ".join(f"{name} {part}" if part[:1].isdigit() else part for name, part in named)


@register_section("layout")
class Layout(Section):
    """The suite's table as its paper lays it out."""

    heading = "As the paper lays it out"

    def blocks(self, context: ReportContext) -> Sequence[Block]:
        """Return a table for each measure."""
        results = context.results
        if results is None or not context.cells:
            return []
        comparable = context.published is not None and not reasons(results, context.published)
        blocks: list[Block] = []
        for place, table in enumerate(context.laid_out, start=1):
            paper = Paper(f"layout-{place}", f"{context.title}: {table.measure}")
            blocks.append(Heading(table.measure.capitalize()))
            blocks.append(_table(table, paper, comparable))
        return blocks


def _table(table: LaidOut, paper: Paper, comparable: bool) -> Table:
    def shown(cell: LaidOutCell | None) -> Cell | None:
        if cell is None or not cell.mean:
            return None
        difference = f" ({cell.difference})" if comparable else ""
        notes = [f"paper {cell.published}{difference}"] if cell.published else []
        return Cell(
            cell.mean, cell.best, cell.letters, cell.deviation, notes, paper_note=cell.published
        )

    columns = [Column(name, "head") for name in table.row_names]
    columns += [Column(table.heading(column), "number") for column in table.columns]
    rows = [
        Row([*row, *(shown(table.cells.get((row, column))) for column in table.columns)])
        for row in table.rows
    ]
    label = f"Table: {table.measure}, as the paper lays it out"
    return Table(label, columns, rows, "scores", paper)


def laid_out(
    results: Results,
    scores: Scores,
    summary: pd.DataFrame,
    how: pd.DataFrame,
    times: pd.DataFrame,
    published: Published | None,
) -> list[LaidOut]:
    """The tables of a suite's layout, one for each measure; none where it has no layout.

    Args:
        results: The finished runs.
        scores: Their scores.
        summary: `summarize` of them.
        how: `how_run` of the runs.
        times: `summarize_times` of them.
        published: The paper's figures.
    """
    layout = results.suite.layout
    if layout is None or results.parts:
        return []
    figures = _figures(results, scores, published)
    unit = ", points" if scores.fractions == [*scores.tasks] else ""
    tables = []
    for measure in layout.measures:
        found = _means(measure, scores, summary, how, times)
        tasks = scores.tasks if measure == SCORE else results.suite.tasks
        places = {
            (str(method.name), task): layout.place(method, task)
            for method in results.suite.methods()
            for task in tasks
        }
        tables.append(
            LaidOut(
                f"score{unit}" if measure == SCORE else measure,
                layout.rows,
                layout.columns,
                _nested(row for row, _ in places.values()),
                _nested(column for _, column in places.values()),
                {
                    places[row.method, row.task]: _cell(
                        row, figures.get((row.method, row.task, measure))
                    )
                    for row in rows_of(found)
                },
            )
        )
    return tables


def _nested(names: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Each once, those together that share their first part; parts in the order they came in."""
    distinct = [*dict.fromkeys(names)]
    orders = [
        {part: i for i, part in reversed([*enumerate(parts)])}
        for parts in zip(*distinct, strict=True)
    ]
    return sorted(
        distinct,
        key=lambda name: [order[part] for order, part in zip(orders, name, strict=True)],
    )


def _means(
    measure: str, scores: Scores, summary: pd.DataFrame, how: pd.DataFrame, times: pd.DataFrame
) -> pd.DataFrame:
    """Columns `task`, `method`, `mean`, `sd`, `letters`, `digits` and `best`."""
    if measure == SCORE:
        own = summary[summary["metric"] == SCORE].copy()
        own[["mean", "sd"]] = own[["mean", "sd"]].mul(own["task"].map(scores.factor), axis=0)
        lower = own["task"].isin(scores.lower_is_better)
        digits: Any = own["task"].map(scores.digits)
    else:
        own = _times(measure, how, times).assign(letters="")
        lower = pd.Series(data=True, index=own.index)
        digits = 2 if measure == "seconds an epoch" else 1
    signed = own["mean"].where(~lower, -own["mean"])
    by_task = signed.groupby(own["task"])
    highest, lowest = by_task.transform("max"), by_task.transform("min")
    return own.assign(best=np.isclose(signed, highest) & (lowest < highest), digits=digits)


def _times(measure: str, how: pd.DataFrame, times: pd.DataFrame) -> pd.DataFrame:
    if measure == MILLISECONDS:
        column, factor = "seconds_batch", 1000
    elif len(times):
        column = "seconds" if measure == "seconds" else "seconds_epoch"
        own = times[["task", "method", column, f"{column}_sd"]].copy()
        own.columns = pd.Index(["task", "method", "mean", "sd"])
        # The mean of the lucky seeds is no time of the method.
        return own if measure != "seconds" else own[times["reached"] == times["n"]]
    else:
        column, factor = "seconds_epoch", 1
    if how.empty:
        return pd.DataFrame(columns=["task", "method", "mean", "sd"])
    return how[["task", "method"]].assign(mean=factor * how[column], sd=math.nan)


def _cell(row: Any, figure: float | None) -> LaidOutCell:
    def shown(value: float, sign: str = "") -> str:
        return "" if math.isnan(value) else f"{value:{sign}z,.{row.digits}f}".replace("-", "−")

    return LaidOutCell(
        shown(row.mean),
        shown(row.sd),
        bool(row.best),
        str(row.letters),
        "" if figure is None else shown(figure),
        "" if figure is None else shown(row.mean - figure, "+"),
    )


def _figures(
    results: Results, scores: Scores, published: Published | None
) -> dict[tuple[str, str, str], float]:
    """The paper's figures by our method, task and measure; a task's score has one metric here."""
    if published is None:
        return {}
    metrics = {name: task.metrics for task in results.suite.learned() for name in task.scored}
    figures = {}
    for figure in published.figure:
        own = metrics.get(figure.task, ())
        measure = SCORE if own == (figure.metric,) or figure.metric == SCORE else figure.metric
        figures[own_name(results, figure.method), figure.task, measure] = figure.value
    return figures
