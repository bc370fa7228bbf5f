"""Sections with the table of scores and the figure of all seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import numpy as np

from relation_tf.registry import register_section
from relation_tf.report.blocks import Block, Column, Paper, Row, Section, Table, blocks
from relation_tf.report.data import ReportData
from relation_tf.report.pictures.runs import score_dots
from relation_tf.report.text import render
from relation_tf.tasks.metrics import counted, find_metric


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
            Column(
                scores.with_arrow(name),
                "number",
                note=note,
                task=name,
                average=name in scores.averages,
            )
            for name, note in data.columns.items()
        ]
        rows = [
            Row([name, *(data.cells.get((name, task)) for task in scores.tasks)], [name])
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
    own = scores.table[scores.table["task"].isin(scores.main_tasks)]
    whole = own.groupby(["method", "seed"])["task"].nunique().eq(len(scores.main_tasks)).any()
    uncounted = {
        task.name: task.metrics[0]
        for task in ([] if suite is None else suite.learned())
        if len(counted(task.metrics)) < len(task.metrics)
    }
    failed = data.suite_runs["status"].eq("failed").sum() if len(data.suite_runs) else 0
    return {
        "test": f"{part.test}, {part.level}",
        "fewer": any(note.startswith("n =") for cell in cells for note in cell.notes),
        "lettered": any(cell.letters for cell in cells),
        "averages_elsewhere": scores.averages and all(part.over_tasks for part in parts),
        "tested": any(part.tests for part in parts),
        "whole_seed": whole,
        "uncounted": uncounted,
        "several_tasks": suite is not None and len(suite.tasks) > 1 and not suite.timed,
        "failed": int(failed),
    }


@register_section("seeds")
class ScoreDots(Section):
    """Figure with the score of each seed."""

    heading = "Scores by seed"
    notebook = True

    def blocks(self, data: ReportData) -> Sequence[Block]:
        """Return the figure."""
        limits = _limits(data)
        picture = score_dots(data.scores, data.drawn, data.collapsed, limits)
        if picture is None or not picture.panels:
            return []
        return blocks(
            "seeds.jinja",
            data=data,
            scores=data.scores,
            picture=picture,
            cut=np.isfinite([*limits.values()]).any(),
        )


def _limits(data: ReportData) -> dict[str, tuple[float, float]]:
    """Return the lowest and the highest possible score of each task, infinite if unknown."""
    scores = data.scores
    if not scores.in_points:
        return {}
    found = dict.fromkeys(scores.tasks, (-1.0, 1.0))  # the metrics of other reports are unknown
    for task in () if data.results is None else data.results.suite.learned():
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
