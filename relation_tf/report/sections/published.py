"""Sections with published figures and the results in the paper's layout."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from relation_tf.bench.results import Results
from relation_tf.config.published import Published
from relation_tf.config.suite import Suite, TableLayout
from relation_tf.registry import PROCEDURES, register_section
from relation_tf.report.blocks import Block, Cell, Column, Paper, Row, Section, Table, blocks
from relation_tf.report.comparisons import SCORE, rows_of
from relation_tf.report.data import ReportData
from relation_tf.report.provenance import notes
from relation_tf.report.published import (
    MILLISECONDS,
    PER_EPOCH,
    SECONDS,
    TIMES,
    compare_published,
    decimals,
    mean_times,
    printed_decimals,
    three_digits,
)
from relation_tf.report.text import render
from relation_tf.stats import PublishedTable
from relation_tf.tasks.metrics import find_metric
from relation_tf.words import number, signed

_Names = tuple[str, ...]


@register_section("published")
class PublishedFigures(Section):
    """Table of published figures and our results, and the paper's claims."""

    heading = "Comparison with the paper"

    def blocks(self, data: ReportData) -> Sequence[Block]:
        """Return the table, the reasons why figures may differ, and the claims."""
        results, published = data.results, data.published
        if results is None or published is None or not data.cells:
            return []
        found = _compared(data, results, published)
        shown = found[_of_suite(results, found, published)]
        layout, claims = results.suite.layout, data.published_claims
        # A layout of times only has all these figures.
        for_papers = layout is None or SCORE in layout.measures
        return blocks(
            "published.jinja",
            reasons=_reasons(shown[shown["n"] > 0]),
            tables=[*_tables(shown, published, data.scores.seeds, for_papers)],
            published=published,
            figures=len(found),
            claims=claims,
            counts={} if claims is None else dict(claims.claims()["significance"].value_counts()),
            test="" if claims is None else PROCEDURES[claims.test].title,
            uncertain=None if claims is None else _uncertain(claims),
        )

    def tables(self, data: ReportData) -> Mapping[str, pd.DataFrame]:
        """Return the table of published figures and our results, and the checked claims."""
        if data.results is None or data.published is None or not data.cells:
            return {}
        found = _compared(data, data.results, data.published)
        claims = data.published_claims
        return {
            **({} if found.empty else {"published": found}),
            **({} if claims is None else {"published-claims": claims.claims()}),
        }


def _of_suite(results: Results, found: pd.DataFrame, published: Published) -> list[bool]:
    """Return True for each figure of the suite's tasks and widths; averages only with our value."""
    suite = results.suite
    tasks = {name for task in suite.learned() for name in results.scored(task)} | {*suite.tasks}
    tasks.update(found["task"][found["n"] > 0])
    widths = {None, *(method.units for method in suite.methods())}
    return [figure.task in tasks and figure.units in widths for figure in published.figure]


def _reasons(found: pd.DataFrame) -> dict[str, list[str]]:
    """Return the reasons why our results may differ, with their tasks unless all have them."""
    rows: dict[str, dict[str, None]] = {}
    places: dict[str, int] = {}
    for task, reason in zip(found["task"], found["reason"], strict=True):
        for cause in reason.split("; ") if reason else ():
            rows.setdefault(cause, {})[task] = None
            places[cause] = places.get(cause, 0) + 1
    return {
        cause: [] if places[cause] == len(found) or cause.startswith("times ") else [*tasks]
        for cause, tasks in rows.items()
    }


def _tables(
    found: pd.DataFrame, published: Published, seeds: int, for_papers: bool
) -> Iterator[Table]:
    """Yield a table of our results on the published split, and one for each other split."""
    known = sorted({*found["split"][found["n"] > 0]}, key=published.split.__ne__) or [""]
    known = known if len(found) else []
    splits = found["split"].where(found["n"] > 0, next(iter(known), ""))
    for place, split in enumerate(known):
        on = f", ours on {split} sets" if split else ""
        name = f"published-{split or 'times'}" if place else "published"
        caption = render("published-caption.jinja", on=on, source=published.source)
        paper = Paper(name, caption)
        title = f"Table: published figures{on}"
        yield _table(found[splits == split], seeds, title, paper if for_papers else None)


def _table(found: pd.DataFrame, seeds: int, title: str, paper: Paper | None) -> Table:
    columns = [Column("Task", "head"), Column("Metric"), Column("Method")]
    columns += [Column(name, "number") for name in ("Published", "Ours", "Difference")]
    columns.append(Column("Within 2 published SD", "number"))
    rows = []
    for row in rows_of(found):
        timed = row.metric in TIMES
        digits = printed_decimals(row.published, row.metric)
        ours = Cell(
            _spread(row.mean, row.sd, three_digits(row.mean) if timed else digits, timed),
            notes=[f"n = {row.n}"] if 0 < row.n != seeds else [],
        )
        difference = _difference(row.difference, row.published_sd, digits, timed) if row.n else None
        within = {True: "yes", False: "no", None: "–"}[row.within_2_sd]
        published = _published(row.published, row.published_sd, digits)
        cells = [row.task, row.metric, row.method, published, ours, difference, within]
        rows.append(Row(cells, task=row.task))
    return Table(title, columns, rows, paper=paper)


def _published(mean: float, sd: float, digits: int) -> str:
    """Return a published mean and SD; the SD with all its decimals, as it may be very small."""
    shown = number(mean, digits)
    return shown if math.isnan(sd) else f"{shown} ± {number(sd, max(digits, decimals(sd)))}"


def _spread(mean: float, sd: float, digits: int, timed: bool) -> str:
    """Return our mean and SD."""
    shown = number(mean, digits)
    return shown if math.isnan(sd) else f"{shown} ± {_deviation(sd, digits, timed)}"


def _deviation(sd: float, digits: int, timed: bool) -> str:
    """Return our SD; that of times has three digits, as it may be very small."""
    return number(sd, max(digits, three_digits(sd)) if timed else digits)


def _difference(difference: float, published_sd: float, digits: int, timed: bool) -> str:
    """Return a difference; that of times has three digits, not finer than the published figures."""
    if timed:
        finest = digits if math.isnan(published_sd) else max(digits, decimals(published_sd))
        digits = min(three_digits(difference), finest)
    return signed(difference, digits)


def _uncertain(found: PublishedTable) -> Table | None:
    """Return the paper's claims that its means and SDs leave open or exclude."""
    claims = found.claims()
    columns = [Column("Task", "head"), Column("Methods"), Column("Significance")]
    rows = [
        Row([row.task, f"{row.a}, {row.b}", row.significance])
        for row in rows_of(claims[claims["significance"] != "certain"])
    ]
    return Table("Table: claims that are not certain", columns, rows) if rows else None


def _compared(data: ReportData, results: Results, published: Published) -> pd.DataFrame:
    """Return published figures and our results, in points or units of time."""
    summary = data.summary
    summary = summary.assign(split=summary["task"].map(data.scores.splits).fillna(""))
    scored = results.test_metrics.groupby(["task", "method", "metric"], sort=False)["value"]
    on_test = scored.agg(n="size", mean="mean", sd="std").reset_index().assign(split="test")
    means = pd.concat([summary, on_test], ignore_index=True)
    points = means["metric"].map(lambda name: find_metric(name).points).astype(float)
    ours = means.assign(mean=points * means["mean"], sd=points * means["sd"])
    times = [_times(each, data).assign(metric=each, split="") for each in TIMES]
    columns = ["task", "method", "metric", "n", "mean", "sd", "split"]
    everything = pd.concat([table[columns] for table in (ours, *times)], ignore_index=True)
    differing = {task: notes(results, task) for task in results.suite.tasks}
    return compare_published(published, results.suite, everything, differing)


@register_section("layout")
class Layout(Section):
    """Results in the layout of the paper's table."""

    heading = "Results in the paper's layout"

    def blocks(self, data: ReportData) -> Sequence[Block]:
        """Return a table for each measure; nothing for several suites."""
        results = data.results
        layout = None if results is None or results.parts else results.suite.layout
        if results is None or layout is None or not data.cells:
            return []
        shown: list[Block] = []
        for place, measure in enumerate(layout.measures, start=1):
            columns, rows = _grid(measure, layout, data, results)
            cells = [cell for row in rows for cell in row.cells if isinstance(cell, Cell)]
            part = next(iter(data.comparisons.values()))
            values = {
                "unit": data.scores.unit if measure == SCORE else "",
                "measure": measure,
                "deviations": any(cell.deviation for cell in cells),
                "bold": any(cell.bold for cell in cells),
                "letters": any(cell.letters for cell in cells),
                "fewer": bool((data.summary["n"] < data.scores.seeds).any()),
                "seeds": data.scores.seeds,
                "families": data.scores.families,
                "test": f"{part.test}, {part.level}",
                "split": data.published.split if data.published else "",
            }
            paper = Paper(f"layout-{place}", render("layout-caption.jinja", **values))
            label = f"Table: {measure}, in the paper's layout"
            table = Table(label, columns, rows, "scores", paper)
            shown += blocks("layout.jinja", table=table, **values)
        return shown


def _grid(
    measure: str, layout: TableLayout, data: ReportData, results: Results
) -> tuple[list[Column], list[Row]]:
    """Return the columns and the rows of a measure."""
    suite, published = results.suite, data.published
    figures = {} if published is None else _figures(_compared(data, results, published), suite)
    places = {
        (str(method.name), task): layout.place(method, task)
        for method in suite.methods()
        for task in (data.scores.tasks if measure == SCORE else suite.tasks)
    }
    rows, columns = (_nested(names) for names in zip(*places.values(), strict=True))
    cells = {
        places[row.method, row.task]: _cell(
            row, figures.get((row.method, row.task, measure)), measure in (SECONDS, PER_EPOCH)
        )
        for row in rows_of(_means(measure, data))
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


def _means(measure: str, data: ReportData) -> pd.DataFrame:
    """Return columns `task`, `method`, `mean`, `sd`, `letters`, `digits` and `best`."""
    scores = data.scores
    if measure == SCORE:
        own = data.summary[data.summary["metric"] == SCORE]
        factor = own["task"].map(scores.factor)
        own = own.assign(mean=factor * own["mean"], sd=factor * own["sd"])
        digits: Any = own["task"].map(scores.digits)
        lower = own["task"].isin(scores.lower_is_better)
    else:
        own = _times(measure, data).assign(letters="")
        digits = 1 if measure == MILLISECONDS else own["mean"].map(three_digits)
        lower = pd.Series(data=True, index=own.index)
    ranked = own["mean"].where(~lower, -own["mean"])
    by_task = ranked.groupby(own["task"])
    highest, lowest = by_task.transform("max"), by_task.transform("min")
    best = np.isclose(ranked, highest) & (lowest < highest)
    return own.assign(digits=digits, best=best)


def _times(measure: str, data: ReportData) -> pd.DataFrame:
    """Return columns `task`, `method`, `n`, `mean` and `sd` of a measured time."""
    times = data.learning_times
    if times is not None and measure != MILLISECONDS:
        return mean_times(times.means, measure)
    done = data.runs[data.runs["status"] == "done"]
    spent = {
        MILLISECONDS: 1000 * done["seconds_batch"],
        PER_EPOCH: done["seconds_epoch"],
        SECONDS: pd.Series(math.nan, done.index),  # to a target that the suite does not have
    }[measure]
    by_method = done.assign(spent=spent).groupby(["task", "method"], sort=False, as_index=False)
    return by_method.agg(n=("seed", "size"), mean=("spent", "mean"), sd=("spent", "std"))


def _cell(row: Any, figure: tuple[float, float] | None, timed: bool) -> Cell | None:
    if math.isnan(row.mean):
        return None
    deviation = "" if math.isnan(row.sd) else _deviation(row.sd, row.digits, timed)
    text = number(row.mean, row.digits)
    cell = Cell(text, bool(row.best), str(row.letters), deviation)
    if figure is None:
        return cell
    value, sd = figure
    digits = printed_decimals(value, SECONDS) if timed else row.digits
    published = _published(value, sd, digits)
    note = f"paper {published} ({_difference(row.mean - value, sd, digits, timed)})"
    return replace(cell, notes=[note], paper_note=published)


def _figures(found: pd.DataFrame, suite: Suite) -> dict[tuple[str, str, str], tuple[float, float]]:
    """Return value and SD of the paper's figures by method, task and measure of our results."""
    metrics = {name: task.metrics_of(name) for task in suite.learned() for name in task.scorable}
    figures = {}
    for row in rows_of(found[found["n"] > 0]):
        measure = SCORE if metrics.get(row.task) == (row.metric,) else row.metric
        figures[row.method, row.task, measure] = (row.published, row.published_sd)
    return figures
