"""Section with the sweep of settings before the runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from relation_tf.bench.sweep_choice import is_at_end, means_of, same_score
from relation_tf.bench.sweeping import described
from relation_tf.config.suite import Suite
from relation_tf.config.sweep import Sweep
from relation_tf.registry import register_section
from relation_tf.report.blocks import Block, Cell, Column, Row, Section, Table, blocks
from relation_tf.report.data import ReportData
from relation_tf.report.pictures.tuning import sweep_picture
from relation_tf.report.tuned import sweep_of
from relation_tf.tasks.metrics import find_metric
from relation_tf.words import number


@register_section("tuning")
class Tuning(Section):
    """The settings that were tried for each method and task, and the chosen ones."""

    heading = "Tuning"

    def blocks(self, data: ReportData) -> Sequence[Block]:
        """Return a figure and a table of the validation scores of all settings."""
        results = data.results
        if results is None or len(results.parts) > 1:  # each suite's own report shows its sweep
            return []
        table, suite = sweep_of(results), results.suite
        if table is None or table.empty or suite.sweep is None:
            return []
        sweep = suite.sweep
        means = {
            (task, name): own
            for (task, name), own in means_of(suite, table).items()
            if name in data.styles
        }
        methods = {
            task: [name for name in data.styles if (task, name) in means]
            for task in suite.tasks
            if any(key[0] == task for key in means)
        }
        rows = {
            task: [row for name in own for row in _rows(suite, sweep, task, name, means)]
            for task, own in methods.items()
        }
        key = _key_of_columns(sweep)
        curves = {
            task: {name: _curve(suite, sweep, task, means[task, name]) for name in own}
            for task, own in methods.items()
        }
        return blocks(
            "tuning.jinja",
            described=described(sweep),
            picture=sweep_picture(key, sweep.values[key], curves, data.styles),
            table=Table("Table: sweep", _columns(sweep), rows),
            others=len(sweep.values) > 1,
            at_end=[
                f"{method} on {task}"
                for (task, method), own in means.items()
                if _is_at_end(sweep, suite.tuned_settings(task, method), own)
            ],
        )


def _key_of_columns(sweep: Sweep) -> str:
    """Return the key with the most values: each has a column, settings of other keys have rows."""
    return max(sweep.values, key=lambda key: len(sweep.values[key]))


def _curve(suite: Suite, sweep: Sweep, task: str, means: Sequence[float]) -> list[float]:
    """Return the best score of each value of the key with the most values, in display units."""
    key, metric = _key_of_columns(sweep), find_metric(suite.find_task(task).metrics[0])
    best = max if metric.higher_is_better else min
    scored = [*zip(sweep.combinations(), means, strict=True)]
    return [
        metric.points * best(
            (mean for settings, mean in scored if settings[key] == value and not pd.isna(mean)),
            default=math.nan,
        )
        for value in sweep.values[key]
    ]  # fmt: skip


def _columns(sweep: Sweep) -> list[Column]:
    across = _key_of_columns(sweep)
    others = [Column(key) for key in sweep.values if key != across]
    values = [Column(f"{across} {value}", "number") for value in sweep.values[across]]
    return [Column("Method", "method"), *others, *values]


def _rows(
    suite: Suite,
    sweep: Sweep,
    task: str,
    method: str,
    means: Mapping[tuple[str, str], Sequence[float]],
) -> list[Row]:
    metric = find_metric(suite.find_task(task).metrics[0])
    factor, digits = metric.points, 1 if metric.points == 100 else 3
    chosen, across = suite.tuned_settings(task, method), _key_of_columns(sweep)
    rows: dict[tuple[str, ...], list[Cell | str]] = {}
    for settings, mean in zip(sweep.combinations(), means[task, method], strict=True):
        others = tuple(str(value) for key, value in settings.items() if key != across)
        shown = "" if pd.isna(mean) else number(factor * mean, digits)
        rows.setdefault(others, [method, *others]).append(Cell(shown, bold=settings == chosen))
    return [Row(cells, [method]) for cells in rows.values()]


def _is_at_end(sweep: Sweep, chosen: Mapping[str, Any], means: Sequence[float]) -> bool:
    """Return True if a chosen number is at the end, and no value inside has the same score."""
    scored = [*zip(sweep.combinations(), means, strict=True)]
    score = next((mean for settings, mean in scored if settings == chosen), math.nan)
    equal = [settings for settings, mean in scored if same_score(mean, score)]
    return all(is_at_end(sweep, settings) for settings in (chosen, *equal))
