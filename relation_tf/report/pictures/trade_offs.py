"""Figures of scores against time, parameters and memory."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import fmean, stdev
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import (
    FixedLocator,
    FuncFormatter,
    Locator,
    LogLocator,
    MaxNLocator,
    NullLocator,
)

from relation_tf.report.pictures.drawing import GRID, INK, Panel, Picture, Style

_LOG_BEYOND = 20  # ratio of the largest cost to the smallest
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 3.7, 2.5, 0.6, 0.45  # of a panel, in inches
_NAME, _MANY_NAMES = 0.14, 20  # width of a rotated name in inches, and most names that fit

_COSTS_BY_LENGTH = {
    "milliseconds_per_batch": ("Time", "ms per batch"),
    "milliseconds_per_step": ("Time", "ms per step"),
    "memory_mib": ("Memory", "MiB"),
    "state_kib": ("Memory for earlier tokens", "KiB"),
}


def pareto_front(
    costs: Sequence[float], scores: Sequence[float], higher_is_better: bool = True
) -> list[int]:
    """Return the Pareto front: the points that no other point dominates.

    A point dominates another if it is no worse in cost and score, and better in one of them.

    Args:
        costs: Finite costs; lower is better.
        scores: Finite scores, one per cost.
        higher_is_better: If True, higher scores are better.

    Returns:
        Indices of the points, the cheapest first.

    Example:
        >>> pareto_front([1, 2, 3, 4], [70, 80, 75, 90])
        [0, 1, 3]
    """
    x, y = np.array(costs), np.array(scores)
    loss = -y if higher_is_better else y
    return [
        place
        for place in np.argsort(x, kind="stable").tolist()
        if not (
            (x <= x[place]) & (loss <= loss[place]) & ((x < x[place]) | (loss < loss[place]))
        ).any()
    ]


def score_against(
    name: str,
    costs: Mapping[str, Mapping[str, float]],
    scores: Mapping[str, Mapping[str, Sequence[float]]],
    label: str,
    look: Mapping[str, Style],
    *,
    score_label: str = "points",
    lower_is_better: Collection[str] = (),
) -> Picture | None:
    """Return a figure of mean score against cost, by task, with the Pareto front.

    Args:
        name: Name of the picture's file.
        costs: Task -> method -> its cost.
        scores: Task -> method -> scores of its seeds, in display units.
        label: Name of the cost, such as "seconds per epoch".
        look: Style of each method.
        score_label: Unit of the scores.
        lower_is_better: Tasks where lower scores are better.

    Returns:
        The picture, or None if no method has both. Methods with a cost or score that is not finite
        are left out.

    Example:
        >>> from relation_tf.report.pictures.drawing import styles
        >>> costs = {"CoLA": {"mlp": 1.5, "relation": 2.0}}
        >>> scores = {"CoLA": {"mlp": [8.0, 10.0], "relation": [11.0, 13.0]}}
        >>> look = styles(["mlp", "relation"])
        >>> picture = score_against("score-seconds", costs, scores, "seconds per epoch", look)
        >>> print(picture.panels[0].alt)  # doctest: +NORMALIZE_WHITESPACE
        CoLA, mean score in points ± standard deviation against seconds per epoch: mlp 9 ± 1.41 at
        1.5, relation 12 ± 1.41 at 2; Pareto front: mlp, relation.
    """
    panels = []
    for task, samples in scores.items():
        points = [
            _Point(name, costs[task][name], fmean(own), stdev(own) if len(own) > 1 else math.nan)
            for name, own in samples.items()
            if math.isfinite(costs.get(task, {}).get(name, math.nan)) and np.isfinite(own).all()
        ]
        if points:
            front = [
                points[place]
                for place in pareto_front(
                    [point.cost for point in points],
                    [point.mean for point in points],
                    task not in lower_is_better,
                )
            ]
            better = f"{score_label}, lower is better" if task in lower_is_better else score_label
            panels.append(_score_panel(task, points, front, label, better, look))
    if not panels:
        return None
    return Picture(
        name,
        f"Mean score against {label}, by task and method; ringed: Pareto front.",
        panels,
        size=(_WIDTH, _HEIGHT),
        left=_LEFT,
        bottom=_BOTTOM,
        legend=look,
    )


class _Point(NamedTuple):
    method: str
    cost: float
    mean: float
    sd: float  # NaN for one seed


def _score_panel(
    task: str,
    points: Sequence[_Point],
    front: Sequence[_Point],
    label: str,
    score_label: str,
    look: Mapping[str, Style],
) -> Panel:
    values = ", ".join(
        f"{method} {mean:.3g}{'' if math.isnan(sd) else f' ± {sd:.3g}'} at {_number(cost)}"
        for method, cost, mean, sd in points
    )
    alt = (
        f"{task}, mean score in {score_label} ± standard deviation against {label}: {values}; "
        f"Pareto front: {', '.join(point.method for point in front)}."
    )

    def draw(ax: Axes) -> None:
        ax.plot([point.cost for point in front], [point.mean for point in front], color=INK,
                linewidth=0.8, marker="o", markersize=12, markerfacecolor="none",
                markeredgewidth=0.8, zorder=1.5)  # fmt: skip
        for method, cost, mean, sd in points:
            ax.plot([cost, cost], [mean - sd, mean + sd], color=look[method].color)
            ax.plot(cost, mean, **look[method].mark, markersize=7)
        costs = [point.cost for point in points]
        if 0 < _LOG_BEYOND * min(costs) < max(costs):
            ax.set_xscale("log")
            ax.set_xlim(_logarithmic(ax.xaxis, costs))
        else:
            ax.set_xlim(min(0, 1.1 * min(costs)), 1.1 * max(costs) or 1)
            ax.xaxis.set_major_locator(MaxNLocator(4))
            ax.xaxis.set_major_formatter(FuncFormatter(_tick))
        ax.margins(y=0.2)
        ax.grid()
        ax.yaxis.set_major_locator(MaxNLocator(4))
        ax.set(xlabel=label, ylabel=score_label)

    return Panel(task, alt, draw)


def cost_against_length(table: pd.DataFrame, look: Mapping[str, Style]) -> Picture | None:
    """Return a figure of time and memory against the mean text length of tasks.

    Args:
        table: One row per task and method, with columns `task`, `method`, `mean_length` and any of
            `milliseconds_per_batch`, `milliseconds_per_step`, `memory_mib` and `state_kib`.
        look: Style of each method.

    Returns:
        The picture, or None without two tasks of different lengths.

    Example:
        >>> from relation_tf.report.pictures.drawing import styles
        >>> rows = [("CoLA", "mlp", 9.0, 2.5), ("IMDb", "mlp", 230.0, 40.0)]
        >>> table = pd.DataFrame(rows, columns=["task", "method", "mean_length", "memory_mib"])
        >>> print(cost_against_length(table, styles(["mlp"])).panels[0].alt)
        Memory in MiB by mean length: mlp 2.5 at 9 (CoLA), 40 at 230 (IMDb).
    """
    known = table[table["mean_length"].between(0, math.inf, inclusive="neither")]
    known = known.sort_values("mean_length", kind="stable")
    tasks = known.drop_duplicates("task").set_index("task")["mean_length"]
    tasks = tasks if len(tasks) <= _MANY_NAMES else tasks[:0]
    names = 0.2 + 0.06 * max(map(len, tasks.index), default=0)
    panels = []
    for column in (name for name in _COSTS_BY_LENGTH if name in known):
        rows = known[known[column].between(0, math.inf, inclusive="neither")]
        if rows["mean_length"].nunique() > 1:
            panels.append(_length_panel(rows, column, look, tasks, names))
    if not panels:
        return None
    return Picture(
        "lengths",
        "Time and memory against mean text length, by method.",
        panels,
        size=(_WIDTH, _HEIGHT + names),
        left=_LEFT,
        bottom=_BOTTOM,
        legend=look,
    )


def _length_panel(
    rows: pd.DataFrame,
    column: str,
    look: Mapping[str, Style],
    tasks: pd.Series[float],
    names: float,
) -> Panel:
    title, unit = _COSTS_BY_LENGTH[column]
    by_method = {str(method): own for method, own in rows.groupby("method", sort=False)}
    values = "; ".join(
        f"{method} "
        + ", ".join(
            f"{_number(cost)} at {_number(length)} ({task})"
            for task, length, cost in own[["task", "mean_length", column]].itertuples(index=False)
        )
        for method, own in by_method.items()
    )

    def draw(ax: Axes) -> None:
        for method, own in by_method.items():
            style = look[method]
            ax.plot(own["mean_length"], own[column], **style.line, marker=style.marker,
                    markersize=5)  # fmt: skip
        ax.set(xscale="log", yscale="log")
        low, high = _logarithmic(ax.xaxis, rows["mean_length"])
        ax.set_xlim(low, high)
        bottom, top = _logarithmic(ax.yaxis, rows[column])
        below = 1 - names / (_HEIGHT + names - _BOTTOM)  # the part of the axes with lines
        ax.set_ylim(bottom, bottom * (top / bottom) ** (1 / below))
        ax.grid(axis="y")
        at = np.log(tasks.to_numpy() / low) / math.log(high / low)
        spread = _spread(at, _NAME / (_WIDTH - _LEFT))
        for task, x, away in zip(tasks.index, at, spread, strict=True):
            ax.plot([x, x, away], [0, below, below + 0.03], color=GRID, linewidth=0.6,
                    transform=ax.transAxes, zorder=1)  # fmt: skip
            ax.text(away, below + 0.04, task, fontsize=7.5, rotation=90, ha="center", va="bottom",
                    transform=ax.transAxes)  # fmt: skip
        ax.set(xlabel="mean length, tokens", ylabel=unit)

    return Panel(title, f"{title} in {unit} by mean length: {values}.", draw)


def _spread(places: np.ndarray, gap: float) -> np.ndarray:
    """Move rising places in [0, 1] apart to at least a gap, as little as possible."""
    steps = gap * np.arange(len(places))
    right = np.maximum.accumulate(places - steps) + steps
    left = np.minimum.accumulate((places - steps)[::-1])[::-1] + steps
    moved: np.ndarray = np.clip((left + right) / 2, steps, 1 - steps[::-1])
    return moved


def _logarithmic(axis: Axis, values: Iterable[float]) -> tuple[float, float]:
    """Set round ticks on a logarithmic axis and return its limits with a margin."""
    low, high = min(values), max(values)
    margin = max(high / low, 1.5) ** 0.08
    low, high = low / margin, high * margin
    if high < 10 * low:
        locator: Locator = MaxNLocator(4)
    else:
        locator = LogLocator(subs=(1.0, 3.0) if high < 1000 * low else (1.0,))
    ticks = locator.tick_values(low, high)
    axis.set_major_locator(FixedLocator([tick for tick in ticks if low <= tick <= high]))
    axis.set_major_formatter(FuncFormatter(_tick))
    axis.set_minor_locator(NullLocator())
    return low, high


def _tick(value: float, _place: int) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g} {letter}"
    return f"{value:.4g}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
