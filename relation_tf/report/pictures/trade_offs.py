"""Figures of scores against time, parameters and memory."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import fmean, median, stdev
from types import MappingProxyType
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
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 3.7, 2.5, 0.7, 0.45  # of a panel, in inches
_MANY_METHODS, _TALL = 12, 3.7  # height of a panel in which the points of many methods lie close
_NAME, _MANY_NAMES = 0.14, 20  # width of a rotated name in inches, and most names that fit

_COSTS_BY_LENGTH = {
    "milliseconds_per_batch": ("Time", "ms per batch"),
    "milliseconds_per_step": ("Time", "ms per step"),
    "milliseconds_per_pass": ("Time", "ms per pass"),
    "memory_mib": ("Memory", "MiB"),
    "state_kib": ("Memory for earlier tokens", "KiB"),
}


def undominated(
    costs: Mapping[str, Sequence[float]], better: Collection[tuple[str, str]]
) -> list[str]:
    """Return the methods that no significantly better method undercuts.

    A method is dominated if another is significantly better and none of its runs costs more than
    any run of the method. Differences within noise dominate nothing.

    Args:
        costs: Method -> costs of its runs.
        better: Pairs of a method and one that is significantly worse.

    Returns:
        The methods in order.

    Example:
        >>> undominated({"mlp": [1.0, 1.2], "cnn": [2.0, 2.1]}, {("mlp", "cnn")})
        ['mlp']
    """
    return [
        name
        for name, own in costs.items()
        if not any((other, name) in better and max(its) <= min(own) for other, its in costs.items())
    ]


def score_against(
    name: str,
    costs: Mapping[str, Mapping[str, Sequence[float]]],
    scores: Mapping[str, Mapping[str, Sequence[float]]],
    label: str,
    look: Mapping[str, Style],
    *,
    score_label: str = "points",
    better: Mapping[str, Collection[tuple[str, str]]] = MappingProxyType({}),
    lower_is_better: Collection[str] = (),
) -> Picture | None:
    """Return a figure of mean score against median cost, by task, with the range of the costs.

    Args:
        name: Name of the picture's file.
        costs: Task -> method -> costs of its runs.
        scores: Task -> method -> scores of its seeds, in display units.
        label: Name of the cost, such as "seconds per epoch".
        look: Style of each method.
        score_label: Unit of the scores.
        better: Task -> pairs of a method and one that is significantly worse.
        lower_is_better: Tasks where lower scores are better.

    Returns:
        The picture, or None if no task has two methods of different costs. Methods with a cost or
        score that is not finite are left out.

    Example:
        >>> from relation_tf.report.pictures.drawing import styles
        >>> costs = {"CoLA": {"mlp": [1.4, 1.6], "relation": [2.0, 2.0]}}
        >>> scores = {"CoLA": {"mlp": [8.0, 10.0], "relation": [11.0, 13.0]}}
        >>> look = styles(["mlp", "relation"])
        >>> picture = score_against("score-seconds", costs, scores, "seconds per epoch", look)
        >>> print(picture.panels[0].alt)  # doctest: +NORMALIZE_WHITESPACE
        CoLA, mean score in points ± standard deviation against seconds per epoch: mlp 9 ± 1.41 at
        1.5 (1.4 to 1.6), relation 12 ± 1.41 at 2.
    """
    panels = []
    for task, samples in scores.items():
        own = costs.get(task, {})
        points = [
            Point(name, own[name], fmean(values), stdev(values) if len(values) > 1 else math.nan)
            for name, values in samples.items()
            if len(own.get(name, ())) and np.isfinite([*own[name], *values]).all()
        ]
        if len({cost for point in points for cost in point.costs}) > 1:
            unit = f"{score_label}, lower is better" if task in lower_is_better else score_label
            panels.append(
                score_panel(task, points, better.get(task, ()), label, unit, look, task=task)
            )
    return score_picture(name, f"Mean score against {label}, by task and method.", panels, look)


def score_picture(
    name: str, title: str, panels: list[Panel], look: Mapping[str, Style]
) -> Picture | None:
    """Return a figure of panels from `score_panel`; None without panels."""
    if not panels:
        return None
    size = (_WIDTH, _TALL if len(look) > _MANY_METHODS else _HEIGHT)
    return Picture(name, title, panels, size=size, left=_LEFT, bottom=_BOTTOM, legend=look)


class Point(NamedTuple):
    """A method in a figure of scores.

    Attributes:
        method: Its name.
        costs: Costs of its runs.
        mean: Mean score.
        spread: Standard deviation, or half of an interval; NaN if there is none.
        seeds: The lowest and the highest score, if they are shown instead of a spread.
    """

    method: str
    costs: Sequence[float]
    mean: float
    spread: float
    seeds: tuple[float, float] | None = None

    @property
    def cost(self) -> float:
        """The median cost."""
        return median(self.costs)

    @property
    def words(self) -> str:
        """Name, score and cost for the text of a figure."""
        deviation = "" if math.isnan(self.spread) else f" ± {self.spread:.3g}"
        if self.seeds is not None:
            deviation = " (seeds {:.3g} to {:.3g})".format(*self.seeds)
        low, high = _number(min(self.costs)), _number(max(self.costs))
        cost_range = f" ({low} to {high})" if low != high else ""
        return f"{self.method} {self.mean:.3g}{deviation} at {_number(self.cost)}{cost_range}"


def score_panel(
    title: str,
    points: Sequence[Point],
    better: Collection[tuple[str, str]],
    label: str,
    score_label: str,
    look: Mapping[str, Style],
    *,
    more_is_better: bool = False,
    spread: str = "standard deviation",
    task: str = "",
) -> Panel:
    """Return a panel of mean scores against median costs, with the range of the costs.

    If a method is dominated (see `undominated`), the others are ringed.

    Args:
        title: Title of the panel.
        points: The methods.
        better: Pairs of a method and one that is significantly worse.
        label: Name of the cost.
        score_label: Unit of the scores.
        look: Style of each method.
        more_is_better: If True, higher costs are better, such as those of a speed.
        spread: Name of `Point.spread` in the alternative text, such as "standard deviation".
        task: Task of the panel, for the page's filter.
    """
    sign = -1 if more_is_better else 1
    costs = {point.method: [sign * cost for cost in point.costs] for point in points}
    best = undominated(costs, better)
    ringed = best if len(best) < len(points) else []
    values = ", ".join(point.words for point in points)
    shown = score_label if score_label.startswith("score") else f"score in {score_label}"
    alt = f"{title}, mean {shown} ± {spread} against {label}: {values}"
    alt += f"; not dominated: {', '.join(ringed)}." if ringed else "."

    def draw(ax: Axes) -> None:
        for point in points:
            method, cost, mean, half = point.method, point.cost, point.mean, point.spread
            style = look[method]
            ax.plot([cost, cost], [mean - half, mean + half], color=style.color)
            if point.seeds is not None:
                ax.plot([cost, cost], point.seeds, color=style.color, linestyle=":", linewidth=1,
                        marker="_", markersize=7, markeredgewidth=1)  # fmt: skip
            ax.plot([min(point.costs), max(point.costs)], [mean, mean], color=style.color)
            ax.plot(cost, mean, **style.mark, markersize=7)
            if method in ringed:
                ax.plot(cost, mean, "o", color=INK, markersize=12, markerfacecolor="none",
                        markeredgewidth=0.8, zorder=1.5)  # fmt: skip
        costs = [cost for point in points for cost in point.costs]
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

    return Panel(title, alt, draw, task=task)


def cost_against_length(
    table: pd.DataFrame, look: Mapping[str, Style], *, joined: bool = False
) -> Picture | None:
    """Return a figure of time and memory against the mean text length of tasks.

    A vertical line is the range over the runs.

    Args:
        table: One row per task and method, with columns `task`, `method`, `mean_length` and any of
            `milliseconds_per_batch`, `_per_step` and `_per_pass`, `memory_mib` and `state_kib`;
            optional columns with `_low` and `_high` have the range over runs.
        look: Style of each method.
        joined: If True, lines join the lengths; only for one task in several lengths, because
            different tasks differ in more than their length.

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
            panels.append(_length_panel(rows, column, look, tasks, names, joined))
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
    joined: bool,
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
            look_of = {**style.mark, **(style.line if joined else {})}
            ax.plot(own["mean_length"], own[column], **look_of, markersize=5)
            if f"{column}_low" in own:
                ax.vlines(own["mean_length"], own[f"{column}_low"], own[f"{column}_high"],
                          color=style.color, linewidth=1)  # fmt: skip
        ax.set(xscale="log", yscale="log")
        low, high = _logarithmic(ax.xaxis, rows["mean_length"])
        ax.set_xlim(low, high)
        ranges = [name for name in (column, f"{column}_low", f"{column}_high") if name in rows]
        bottom, top = _logarithmic(ax.yaxis, rows[ranges].to_numpy(dtype=float).ravel())
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
    """Set round ticks on a logarithmic axis and return its limits with a margin.

    The start of a range can be 0: a run may need no memory beyond that of its process.
    """
    positive = [value for value in values if value > 0]
    low, high = min(positive), max(positive)
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
