"""Sections with published figures and the results in the paper's layout."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from relation_tf.bench.results import GLUE_AVERAGE, MEAN_OF_TASKS, Results
from relation_tf.config.published import Published
from relation_tf.config.suite import Suite
from relation_tf.config.table_layout import TableLayout
from relation_tf.registry import PROCEDURES, register_section
from relation_tf.report.blocks import (
    Block,
    Cell,
    Column,
    Folded,
    Heading,
    Paper,
    Paragraph,
    Row,
    Section,
    Table,
    number,
    spread,
)
from relation_tf.report.comparisons import SCORE, rows_of
from relation_tf.report.context import ReportContext
from relation_tf.report.provenance import notes
from relation_tf.report.published import (
    MILLISECONDS,
    SECONDS,
    TIMES,
    compare_published,
    mean_times,
    reasons,
)
from relation_tf.stats import PublishedTable
from relation_tf.stats.design import format_level
from relation_tf.tasks.metrics import find_metric

_Names = tuple[str, ...]


@register_section("published")
class PublishedFigures(Section):
    """Table of published figures and our results, and the paper's claims."""

    heading = "Comparison with the paper"

    def blocks(self, context: ReportContext) -> Sequence[Block]:
        """Return the table, the reasons why figures may differ, and the claims."""
        results, published = context.results, context.published
        if results is None or published is None or not context.cells:
            return []
        found = _compared(context, results, published)
        shown = found[_of_suite(results.suite, published)]
        blocks: list[Block] = []
        if len(shown):
            causes = reasons(published, results.suite, _notes(results))
            blocks += [*_why(causes), _table(shown)]
        split = f"; its figures are from {published.split} sets" if len(found) else ""
        note = f"{published.source}{split}. {published.missing}".strip()
        blocks.append(Paragraph(note, "note"))
        claims = context.published_claims
        return blocks if claims is None else [*blocks, _claims(claims)]

    def tables(self, context: ReportContext) -> Mapping[str, pd.DataFrame]:
        """Return the table of published figures and our results, and the checked claims."""
        if context.results is None or context.published is None or not context.cells:
            return {}
        found = _compared(context, context.results, context.published)
        claims = context.published_claims
        return {
            **({} if found.empty else {"published": found}),
            **({} if claims is None else {"published-claims": claims.claims()}),
        }


def _of_suite(suite: Suite, published: Published) -> list[bool]:
    """Return True for each figure of the suite's tasks and widths."""
    tasks = {name for task in suite.learned() for name in task.scored} | {*suite.tasks}
    widths = {None, *(method.units for method in suite.methods())}
    averages = (GLUE_AVERAGE, MEAN_OF_TASKS)
    return [
        figure.task in (*tasks, *averages) and figure.units in widths for figure in published.figure
    ]


def _why(causes: Mapping[str, Sequence[str]]) -> Iterator[Block]:
    """Yield a warning with the reasons, if any."""
    by_cause: dict[str, list[str]] = {}
    for task, own in causes.items():
        for cause in own:
            by_cause.setdefault(cause, []).append(task)
    parts = [
        cause if tasks == [""] else f"{', '.join(tasks)}: {cause}"
        for cause, tasks in by_cause.items()
    ]
    if parts:
        yield Paragraph(f"Figures may differ because: {'; '.join(parts)}.", "warning")


def _table(found: pd.DataFrame) -> Table:
    columns = [Column("Task", "head"), Column("Metric"), Column("Method")]
    columns += [Column(name, "number") for name in ("Published", "Ours", "Difference")]
    columns.append(Column("Within 2 published SD"))
    rows = []
    for row in rows_of(found):
        digits = _decimals(row)
        numbers = [
            _published(row.published, row.published_sd, digits),
            spread(row.mean, row.sd, digits),
            None if math.isnan(row.difference) else f"{row.difference:+,.{digits}f}",
        ]
        within = {True: "yes", False: "no", None: "–"}[row.within_2_sd]
        cells = [row.task, row.metric, row.method, *numbers, within]
        rows.append(Row([_minus(cell) for cell in cells], task=row.task))
    return Table("Table: published figures", columns, rows)


def _minus(cell: str | None) -> str | None:
    """Return a number with a typographic minus."""
    return re.sub(r"^-(?=[\d.])", "−", cell) if cell else cell


def _decimals(row: Any) -> int:
    """Return the decimals of a published mean: at least one for points, three digits for times."""
    shown = -int(Decimal(f"{row.published:.10g}").as_tuple().exponent)
    if row.metric in TIMES:
        return max(0, shown, 2 - math.floor(math.log10(row.published)))
    return max(1, shown)


def _published(mean: float, sd: float, digits: int) -> str:
    """Return a published mean and SD; the SD with all its decimals, as it may be very small."""
    shown = number(mean, digits)
    if math.isnan(sd):
        return shown
    own = -int(Decimal(f"{sd:.10g}").as_tuple().exponent)
    return f"{shown} ± {number(sd, max(digits, own))}"


def _claims(found: PublishedTable) -> Folded:
    """Return the paper's claims with the verdict that its means and SDs allow."""
    claims = found.claims()
    counts = ", ".join(
        f"{count} {verdict}" for verdict, count in claims["significance"].value_counts().items()
    )
    columns = [Column("Task", "head"), Column("Methods"), Column("Significance")]
    columns.append(Column("Share of samples", "number"))
    rows = [
        Row([row.task, f"{row.a}, {row.b}", row.significance, f"{100 * row.share:.1f} %"])
        for row in rows_of(claims)
    ]
    note = (
        "Pairs that the paper calls significantly different, checked from its means and SDs. "
        "Certain: every sample with these figures is significant. Share: part of the normal "
        "samples with exactly these means and SDs that is significant "
        f"({found.n} seeds, {PROCEDURES[found.test].title}, asymptotic {format_level(found.alpha)}"
        "). A small share means that the claim needs an unusual shape of the scores."
    )
    summary = f"Claims of the paper: {len(claims)} ({counts})"
    table = Table("Table: claims of the paper", columns, rows)
    return Folded(summary, [Paragraph(note, "note"), table])


def _notes(results: Results) -> dict[str, list[str]]:
    return {task: notes(results, task) for task in results.suite.tasks}


def _compared(context: ReportContext, results: Results, published: Published) -> pd.DataFrame:
    """Return published figures and our results, in points or units of time."""
    summary = context.summary
    points = summary["metric"].map(lambda name: find_metric(name).points).astype(float)
    ours = summary.assign(mean=points * summary["mean"], sd=points * summary["sd"])
    times = [_times(measure, context).assign(metric=measure) for measure in TIMES]
    columns = ["task", "method", "metric", "n", "mean", "sd"]
    everything = pd.concat([table[columns] for table in (ours, *times)], ignore_index=True)
    return compare_published(published, results.suite, everything, _notes(results))


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
    figures = {} if published is None else _figures(_compared(context, results, published), suite)
    places = {
        (str(method.name), task): layout.place(method, task)
        for method in suite.methods()
        for task in (context.scores.tasks if measure == SCORE else suite.tasks)
    }
    rows, columns = (_nested(names) for names in zip(*places.values(), strict=True))
    cells = {
        places[row.method, row.task]: _cell(row, figures.get((row.method, row.task, measure)))
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
    """Return columns `task`, `method`, `n`, `mean` and `sd` of a measured time."""
    how, times = context.how, context.learning_times
    keys = ["task", "method", "n"]
    if measure == MILLISECONDS:
        return how[keys].assign(mean=1000 * how["seconds_batch"], sd=math.nan)
    if times is not None:
        return mean_times(times.means, measure)
    unknown = measure == SECONDS
    return how[keys].assign(mean=math.nan if unknown else how["seconds_epoch"], sd=math.nan)


def _cell(row: Any, figure: float | None) -> Cell | None:
    def shown(value: float, sign: str = "") -> str:
        return "" if math.isnan(value) else f"{value:{sign}z,.{row.digits}f}".replace("-", "−")

    if math.isnan(row.mean):
        return None
    cell = Cell(shown(row.mean), bool(row.best), str(row.letters), shown(row.sd))
    if figure is None:
        return cell
    published = shown(figure)
    note = f"paper {published} ({shown(row.mean - figure, '+')})"
    return replace(cell, notes=[note], paper_note=published)


def _figures(found: pd.DataFrame, suite: Suite) -> dict[tuple[str, str, str], float]:
    """Return the paper's figures by our method, task and measure, where we have a result."""
    metrics = {name: task.metrics for task in suite.learned() for name in task.scored}
    figures = {}
    for row in rows_of(found[found["n"] > 0]):
        measure = SCORE if metrics.get(row.task) == (row.metric,) else row.metric
        figures[row.method, row.task, measure] = row.published
    return figures
