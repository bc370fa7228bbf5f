"""Means and deviations as the cells of a table show them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from relation_tf.report.blocks import Cell
from relation_tf.report.comparisons import SCORE, rows_of
from relation_tf.report.failed import lost_in_words
from relation_tf.report.reliability import collapsed_note
from relation_tf.report.scores import Scores
from relation_tf.tasks.metrics import find_metric
from relation_tf.words import number

if TYPE_CHECKING:
    from relation_tf.report.data import ReportData


def mean_cells(data: ReportData) -> dict[tuple[str, str], Cell]:
    """Return means by method and column, without methods that have no finished or failed run."""
    scores, summary = data.scores, data.summary
    by_score = summary[summary["metric"] == SCORE].groupby("task")["mean"]
    highest, lowest = by_score.max().to_dict(), by_score.min().to_dict()
    collapsed = data.collapsed.groupby(["method", "task"]).size().to_dict()
    by_cell: dict[tuple[str, str], list[Any]] = {}
    for row in rows_of(summary):
        by_cell.setdefault((row.method, row.task), []).append(row)
    failed = lost_in_words(data.failed)
    cells = {
        cell: Cell("–", notes=[f"0 of {max(scores.seeds, number)} runs, {said}"])
        for cell, (number, said) in failed.items()
    }
    for (method, task), rows in by_cell.items():
        own = next(row for row in rows if row.metric == SCORE)
        best = lowest if task in scores.lower_is_better else highest
        mean, sd = _shown(scores, task, [row for row in rows if row is not own] or rows)
        lost, dagger = collapsed_note(collapsed.get((method, task), 0))
        number, said = failed.get((method, task), (0, ""))
        fewer = [f"n = {own.n}"] if own.n != scores.seeds else []
        fewer = [f"{own.n} of {max(scores.seeds, own.n + number)} runs, {said}"] if said else fewer
        cells[method, task] = Cell(
            mean,
            bold=lowest[task] < highest[task] and math.isclose(own.mean, best[task]),
            letters=str(own.letters),
            deviation=sd if own.n > 1 else "",
            notes=[*fewer, *lost],
            paper_note=", ".join([*fewer, *dagger]),
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
