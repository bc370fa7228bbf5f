"""Estimates over tasks in one unit: interquartile means, profiles, probability of improvement."""

from __future__ import annotations

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
    by_method,
)
from relation_tf.report.drawing import Panel, Picture, Style
from relation_tf.report.scores import Scores
from relation_tf.report.text import render
from relation_tf.stats import interquartile_mean, probability_of_improvement
from relation_tf.words import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from relation_tf.report.data import Comparison

_DRAWS = 10_000  # of the bootstrap; the Monte Carlo error of a limit is far below its width
_GRID = 101  # thresholds of a profile
_LEAST_POINTS = 20  # of the best score of each task, if the scores are points
Estimates = dict[str, dict[str, list[float]]]  # method -> task -> scores


def aggregates(scores: Scores) -> pd.DataFrame:
    """Return estimates of each method over the tasks that all have, with bootstrap intervals.

    Scores are in the unit of a page; the signs of those where lower is better stay.

    Returns:
        A row per method, the best interquartile mean first: `iqm` with `iqm_low` and `iqm_high`
        (NaN if the numbers of seeds differ; then the mean decides), `median` (over tasks, of the
        means over seeds), `mean`, `gap` (the optimality gap: mean distance of scores below the
        `target` in `attrs`, 1 or 100; NaN where lower is better), and `improvement` with its
        interval: the probability that a run is better than one of the first method (NaN for that
        method).
    """
    found, lower = _by_method(scores), scores.lower_is_better_on(scores.main_tasks[0])
    if not found:
        return pd.DataFrame()
    sizes = {len(x) for tasks in found.values() for x in tasks.values()}
    tops = [max(map(max, same)) for same in zip(*(x.values() for x in found.values()), strict=True)]
    points = scores.fractions or all(_LEAST_POINTS < top <= 100 for top in tops)
    target = np.nan if lower else 100.0 if points else 1.0
    rows: dict[str, dict[str, float]] = {}
    for name, tasks in found.items():
        pooled = np.concatenate([*tasks.values()])
        middle = interquartile_mean(tasks, draws=_DRAWS) if len(sizes) == 1 else [np.nan] * 3
        rows[name] = {
            "iqm": middle[0],
            "iqm_low": middle[1],
            "iqm_high": middle[2],
            "median": float(np.median([np.mean(x) for x in tasks.values()])),
            "mean": float(np.mean([np.mean(x) for x in tasks.values()])),
            "gap": float(np.maximum(target - pooled, 0).mean()),
        }
    measure = "iqm" if len(sizes) == 1 else "mean"
    best = min(rows, key=lambda name: (1 if lower else -1) * rows[name][measure])
    for name, row in rows.items():
        chance = [np.nan] * 3
        if name != best:
            chance = [*probability_of_improvement(
                found[best], found[name], higher_is_better=not lower, draws=_DRAWS
            )]  # fmt: skip
        row |= dict(
            zip(("improvement", "improvement_low", "improvement_high"), chance, strict=True)
        )
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("method")
    table = table.sort_values(measure, ascending=lower, kind="stable")
    table.attrs["target"] = target
    return table


def _by_method(scores: Scores) -> Estimates:
    """Return the finite scores of each method on the tasks that all methods have."""
    found: Estimates = {}
    for task, methods in scores.common.items():
        for name, values in methods.items():
            if np.isfinite(values).all():
                found.setdefault(name, {})[task] = [*values]
    whole = [name for name, tasks in found.items() if len(tasks) == len(scores.common)]
    return {name: found[name] for name in whole}


def profile(
    scores: Mapping[str, Mapping[str, Sequence[float]]], styles: Mapping[str, Style], unit: str
) -> Picture:
    """Return a performance profile: the share of runs above each score, mean over tasks.

    Args:
        scores: Method -> task -> scores.
        styles: Style of each method.
        unit: Unit of the scores.

    Example:
        >>> from relation_tf.report.drawing import styles
        >>> found = {"dqn": {"Pong": [0.2, 0.4]}, "iqn": {"Pong": [0.6, 0.8]}}
        >>> print(profile(found, styles(["dqn", "iqn"]), "").panels[0].alt)
        Share of runs with a score above the median of all, 0.5: dqn 0 %, iqn 100 %.

    References:
        R. Agarwal, M. Schwarzer, P. S. Castro, A. Courville, M. G. Bellemare (2021), Deep
        reinforcement learning at the edge of the statistical precipice, NeurIPS 34.
    """
    pooled = np.concatenate([x for tasks in scores.values() for x in tasks.values()])
    low, high = np.percentile(pooled, [0.5, 99.5])
    grid = np.linspace(low, high, _GRID)
    middle = float(np.median(pooled))

    def share(tasks: Mapping[str, Sequence[float]], above: Any) -> Any:
        return np.mean([(np.asarray(x)[:, None] > above).mean(axis=0) for x in tasks.values()], 0)

    curves = {name: share(tasks, grid) for name, tasks in scores.items()}
    words = ", ".join(
        f"{name} {100 * share(tasks, np.array([middle]))[0]:.0f} %"
        for name, tasks in scores.items()
    )
    alt = f"Share of runs with a score above the median of all, {middle:.3g}: {words}."
    draw = partial(_draw_profile, grid, curves, styles, unit)
    look = {name: styles[name] for name in scores}
    return Picture(
        "profile", "Share of runs above each score, by method.", [Panel("", alt, draw)],
        size=(4.6, 2.8), left=0.6, bottom=0.5, legend=look,
    )  # fmt: skip


def _draw_profile(
    grid: np.ndarray,
    curves: Mapping[str, np.ndarray],
    styles: Mapping[str, Style],
    unit: str,
    ax: Axes,
) -> None:
    for name, curve in curves.items():
        ax.plot(grid, 100 * curve, **styles[name].line, linewidth=1.6)
    ax.set(xlabel=f"score{unit and f', {unit}'}", ylabel="runs above it, %", ylim=(0, 100))
    ax.grid(axis="both")


@register_section("aggregates")
class Aggregates(Section):
    """Interquartile means and profiles of tasks in one unit."""

    heading = "Aggregates over tasks"
    by_family = True
    open = True

    def blocks(self, part: Comparison) -> Sequence[Block]:
        """Return a table of the estimates and the profile."""
        table = part.aggregates
        if table.empty:
            return []
        scores = part.scores
        digits = scores.digits(scores.main_tasks[0])
        gap = ["Optimality gap"] if (table["gap"] > 0).any() else []
        names = ["IQM", "Median", "Mean", *gap, "Probability of improvement"]
        columns = [Column("Method", "method"), *(Column(name, "number") for name in names)]
        rows = []
        for name, row in by_method(table).items():
            middle = _with_interval(row.iqm, row.iqm_low, row.iqm_high, digits)
            chance = _with_interval(row.improvement, row.improvement_low, row.improvement_high, 2)
            numbers = [row.median, row.mean, *([row.gap] if gap else [])]
            others = [Cell(number(x, digits)) for x in numbers]
            rows.append(Row([name, middle, *others, chance]))
        values = {"best": str(table.index[0]), "target": table.attrs["target"] if gap else None}
        paper = Paper("aggregates", render("aggregates-caption.jinja", **values))
        found = _by_method(scores)
        look = {name: part.report.styles[name] for name in found}
        return blocks(
            "aggregates.jinja",
            table=Table("Table: estimates over tasks", columns, rows, paper=paper),
            picture=profile(found, look, scores.unit),
            lower_is_better=scores.lower_is_better_on(scores.main_tasks[0]),
            tasks=len(scores.common),
            draws=_DRAWS,
            unequal=bool(table["iqm"].isna().all()),
            **values,
        )

    def tables(self, part: Comparison) -> Mapping[str, pd.DataFrame]:
        """Return the estimates."""
        return {} if part.aggregates.empty else {"aggregates": part.aggregates.reset_index()}


def _with_interval(value: float, low: float, high: float, digits: int) -> Cell:
    if value != value:
        return Cell()
    return Cell(number(value, digits), notes=[f"{number(low, digits)} to {number(high, digits)}"])
