"""Means of methods on each task, and the scores of all seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from relation_tf.registry import register_section
from relation_tf.report.blocks import (
    Block,
    Cell,
    Column,
    Paper,
    Row,
    Section,
    Table,
    blocks,
    rows_of,
)
from relation_tf.report.drawing import Panel, Picture, Style, draw_names, label_width, limit_ticks
from relation_tf.report.lost_runs import collapsed_note, failed_by_task
from relation_tf.report.scores import KEY, SCORE, Scores, are_in
from relation_tf.report.text import render
from relation_tf.stats import PairwiseResult, mean_interval
from relation_tf.tasks.metrics import find_metric
from relation_tf.words import failed_in_words, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from relation_tf.bench.results import Results
    from relation_tf.report.data import ReportData

_ROW = 0.42  # height in inches
_OPEN: Mapping[str, Any] = {"markerfacecolor": "none", "markeredgewidth": 1.0}  # collapsed runs


# ---- Data ----


def all_metrics(scores: Scores, results: Results | None) -> pd.DataFrame:
    """Return the metrics and averages of all seeds.

    Args:
        scores: The scores; the metric of those without a known one is "score".
        results: The runs that gave the scores, if known.

    Returns:
        Columns `task`, `method`, `seed`, `metric` and `value`.
    """
    rows = scores.table.rename(columns={"score": "value"}).assign(metric=SCORE)
    rows = rows[[*KEY, "metric", "value"]]
    if results is None:
        return rows
    metrics = results.metrics
    others = rows[~are_in(rows, metrics)]  # averages, scores of tables
    named = metrics.groupby("task", observed=True)["metric"].unique()
    only = {task: scores.only_metric(task) for task in named.index}
    only = {task: metric for task, metric in only.items() if [metric] == [*named[task]]}
    others = others.assign(metric=[only.get(task, SCORE) for task in others["task"]])
    tables = [table for table in (metrics, others) if len(table)]
    return pd.concat(tables, ignore_index=True) if tables else metrics


def with_splits(table: pd.DataFrame, scores: Scores, results: Results | None) -> pd.DataFrame:
    """Return a table of `all_metrics` with the column `split` and the rows of other splits.

    Args:
        table: The table; returned as it is if no split is known.
        scores: The scores.
        results: The runs, which can have scores on test sets.
    """
    if not scores.splits:
        return table
    table = table.assign(split=table["task"].map(scores.splits).fillna(""))
    if results is None or results.test_metrics.empty:
        return table
    return pd.concat([table, results.test_metrics.assign(split="test")], ignore_index=True)


def letters_of(results: Sequence[PairwiseResult]) -> dict[str, str]:
    """Return the letters of each method.

    Args:
        results: Tests of one task, one for each family.

    Returns:
        The letters; empty without a significant pair, with a control, or if there are more groups
        than letters.
    """
    tests = [result for result in results if result.control is None]
    if not any(result.significant.to_numpy().any() for result in tests):
        return {}
    try:
        letters = [item for result in tests for item in result.letters().items()]
    except ValueError:
        return {}
    return {str(name): text for name, text in letters}


def summarize(
    scores: Scores, letters: Mapping[str, Mapping[str, str]], metrics: pd.DataFrame
) -> pd.DataFrame:
    """Return mean and SD (with n - 1; not of items) of each task, method and metric.

    Args:
        scores: The scores that are ranked and tested; their metric is "score".
        letters: Letters of the methods by task; equal letters mean no significant difference.
        metrics: Metrics of the scores: columns `task`, `method`, `seed`, `metric` and `value`.

    Returns:
        Columns `task`, `method`, `metric`, `n`, `mean`, `sd`, `letters`.
    """
    rows = scores.table.rename(columns={"score": "value"}).assign(metric=SCORE)
    others = metrics[metrics["metric"] != SCORE]
    long = pd.concat([others, rows]) if len(others) else rows
    groups = long.groupby(["task", "method", "metric"], sort=False, observed=True)["value"]
    table = groups.agg(n="size", mean="mean", sd="std").reset_index()
    if scores.replicate == "item":
        table["sd"] = math.nan
    names = zip(table["task"], table["method"], strict=True)
    table["letters"] = [letters.get(task, {}).get(method, "") for task, method in names]
    tasks, methods = (
        {name: place for place, name in enumerate(names)}
        for names in (scores.tasks, scores.methods)
    )
    order = np.lexsort((table["method"].map(methods), table["task"].map(tasks)))
    return table.iloc[order].reset_index(drop=True)


def mean_cells(data: ReportData) -> dict[tuple[str, str], Cell]:
    """Return means by method and column, without methods that have no finished or failed run."""
    scores, summary = data.scores, data.summary
    by_score = summary[summary["metric"] == SCORE].groupby("task")["mean"]
    highest, lowest = by_score.max().to_dict(), by_score.min().to_dict()
    collapsed = data.collapsed.groupby(["method", "task"]).size().to_dict()
    by_cell: dict[tuple[str, str], list[Any]] = {}
    for row in rows_of(summary):
        by_cell.setdefault((row.method, row.task), []).append(row)
    failed, cells = failed_by_task(data.failed), {}
    for (task, method), runs in failed.items():
        reason = failed_in_words(len(runs), sum(runs.values()))
        note = f"0 of {max(scores.seeds, len(runs))} runs, {reason}"
        cells[method, task] = Cell("–", notes=[note])
    for (method, task), rows in by_cell.items():
        score = next(row for row in rows if row.metric == SCORE)
        best = lowest if task in scores.lower_is_better else highest
        mean, sd = _shown(scores, task, [row for row in rows if row is not score] or rows)
        lost = collapsed_note(collapsed.get((method, task), 0))
        fewer = [f"n = {score.n}"] if score.n != scores.seeds else []
        runs = failed.get((task, method), {})
        if runs:
            reason = failed_in_words(len(runs), sum(runs.values()))
            fewer = [f"{score.n} of {max(scores.seeds, score.n + len(runs))} runs, {reason}"]
        cells[method, task] = Cell(
            mean,
            bold=lowest[task] < highest[task] and math.isclose(score.mean, best[task]),
            letters=str(score.letters),
            deviation=sd if score.n > 1 and scores.replicate != "item" else "",
            notes=[*fewer, *lost],
        )
    return cells


def _shown(scores: Scores, task: str, rows: Sequence[Any]) -> tuple[str, str]:
    """Return the means and the deviations of a task's metrics."""
    means, deviations = [], []
    for row in rows:
        factor, digits = scores.factor(task), scores.digits(task)
        points = factor if row.metric == SCORE else find_metric(row.metric).points
        if points != factor:  # a metric that is not part of the score
            factor, digits = points, 1 if points == 100 else 3
        means.append(number(factor * row.mean, digits))
        deviations.append(number(factor * row.sd, digits))
    return " / ".join(means), " / ".join(deviations)


# ---- Table ----


@register_section("scores")
class ScoresTable(Section):
    """Mean and standard deviation of each method on each task."""

    heading = "Scores"
    notebook = True
    open = True

    def blocks(self, data: ReportData) -> Sequence[Block]:
        """Return the table and a note that explains its marks."""
        if not data.cells:
            return []
        scores = data.scores
        columns = [Column("Method", "method")]
        columns += [
            Column(scores.with_arrow(x), "number", note=note) for x, note in data.columns.items()
        ]
        rows = [
            Row([name, *(data.cells.get((name, task)) for task in scores.tasks)])
            for name in scores.methods
        ]
        values = {"data": data, "scores": scores, **_marks(data)}
        paper = Paper("scores", render("scores-caption.jinja", **values))
        table = Table("Table: scores", columns, rows, "scores", paper)
        return blocks("scores.jinja", table=table, **values)


def _marks(data: ReportData) -> dict[str, Any]:
    """Return what the notes on the table of scores state."""
    scores, parts = data.scores, data.comparisons.values()
    suite = None if data.results is None else data.results.suite
    cells, part = data.cells.values(), next(iter(parts))
    return {
        "test": part.test,
        "fewer": any(note.startswith("n =") for cell in cells for note in cell.notes),
        "lettered": any(cell.letters for cell in cells),
        "averages_elsewhere": scores.averages and all(part.over_tasks for part in parts),
        "no_difference": scores.control is None
        and not any(part.pvalues["significant"].any() for part in parts if len(part.pvalues))
        and any(len(part.pvalues) for part in parts),
        "several_tasks": suite is not None and len(suite.tasks) > 1 and not suite.timed,
    }


# ---- Figure ----


@register_section("seeds")
class ScoreDots(Section):
    """Figure with the score of each seed."""

    heading = "Scores by seed"
    notebook = True

    def blocks(self, data: ReportData) -> Sequence[Block]:
        """Return the figure; nothing for items, or one score each on several tasks."""
        self.heading = f"Scores by {data.scores.replicate}"
        single = data.scores.seeds == 1 and len(data.scores.tasks) > 1
        if single or data.scores.replicate == "item":
            return []
        picture = score_dots(data.scores, data.drawn, data.collapsed)
        if not picture.panels:
            return []
        cut = bool(data.scores.fractions)
        return blocks("seeds.jinja", data=data, scores=data.scores, picture=picture, cut=cut)


def score_dots(scores: Scores, styles: Mapping[str, Style], collapsed: pd.DataFrame) -> Picture:
    """Return a figure of the scores of all seeds with mean and interval.

    Args:
        scores: The scores; intervals of fractions end at −1 and 1. Folds share training rows, so
            their means have no interval.
        styles: Style of each method.
        collapsed: Runs that learned nothing, columns `task`, `method` and `seed`: open marks,
            without an interval of their mean, also in averages over tasks.
    """
    lost: dict[tuple[str, str], set[int]] = {}
    for scored, method, seed in collapsed[KEY].to_numpy().tolist():
        for task in (scored, *(() if scored in scores.diagnostics else scores.averages)):
            lost.setdefault((task, method), set()).add(seed)
    panels, plural = [], f"{scores.replicate}s"
    interval = "" if scores.paired else " and 95 % t interval"
    drawn = scores.table[scores.table["method"].isin(styles)]
    by_cell = dict(iter(drawn.groupby(["task", "method"], sort=False, observed=True)))
    for name in (task for task in scores.tasks if task in {*drawn["task"]}):
        factor = scores.factor(name)
        shown = {
            method: (factor * by_cell[name, method]["score"].to_numpy(dtype=float),
                     by_cell[name, method]["seed"].isin(lost.get((name, method), ())).to_numpy())
            for method in styles
            if (name, method) in by_cell
        }  # fmt: skip
        means = ", ".join(
            f"{method} {points.mean():.{scores.digits(name)}f} ({len(points)}"
            f"{f', {out.sum()} collapsed' if out.any() else ''})"
            for method, (points, out) in shown.items()
        )
        unit = " in points" if factor == 100 else ""
        better = ", lower is better" if name in scores.lower_is_better else ""
        alt = f"{name}{better}, scores of all {plural}{unit}; means (and {plural}): {means}."
        limits = (-100.0, 100.0) if factor == 100 else (-np.inf, np.inf)
        draw = partial(_draw_scores, shown, styles, None if scores.paired else limits)
        panels.append(Panel(scores.with_arrow(name), alt, draw))
    names = label_width(styles)
    return Picture(
        "scores",
        f"Scores of all {plural} with mean{interval}, by task and method.",
        panels,
        size=(2.4 + names, 0.6 + _ROW * len(styles)),
        left=names,
        bottom=0.3,
    )


def _draw_scores(
    samples: Mapping[str, tuple[np.ndarray, np.ndarray]],
    styles: Mapping[str, Style],
    limits: tuple[float, float] | None,
    ax: Axes,
) -> None:
    for y, (name, style) in enumerate(styles.items()):
        points, lost = samples.get(name, (np.array([]), np.array([], dtype=bool)))
        # Seeds in order from top to bottom, so that equal scores do not cover each other.
        heights = y + np.linspace(0.05, 0.4, len(points))
        for chosen, marks in ((~lost, {}), (lost, _OPEN)):
            if chosen.any():
                ax.plot(points[chosen], heights[chosen], **style.mark, **marks, markersize=4,
                        alpha=0.75)  # fmt: skip
        if len(points) and np.isfinite(points).all():
            ax.plot([points.mean()] * 2, [y - 0.4, y - 0.1], color=style.color, linewidth=2)
            if limits is not None and len(points) > 1 and not lost.any():
                interval = np.clip(mean_interval(points), *limits)
                ax.plot(interval, [y - 0.25] * 2, color=style.color, linewidth=1.2)
    draw_names(ax, dict(enumerate(styles)))
    ax.set_ylim(len(styles) - 0.4, -0.6)
    ax.grid(axis="x")
    limit_ticks(ax.xaxis, 5)
