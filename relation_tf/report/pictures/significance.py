"""Figures of tests: differences of pairs with intervals, average ranks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from relation_tf.report.pictures.drawing import (
    INK,
    Panel,
    Picture,
    Style,
    draw_names,
    draw_strokes,
    label_width,
)
from relation_tf.words import signed

_MANY = 15  # pairs; if more, the text names only those that differ
_MOST_DRAWN = 100  # pairs; if more, only those that differ are drawn
_FEW_DRAWN = 40  # of more than that, those with the largest differences
_ROW = 0.27  # height in inches


def differences(
    pairs: Mapping[str, pd.DataFrame],
    look: Mapping[str, Style],
    *,
    name: str = "differences",
    unit: str = "",
    ends: tuple[str, str] = ("bold name higher", "row higher"),
    positive: str = "second minus first",
    margins: Mapping[str, float] = MappingProxyType({}),
    digits: Mapping[str, int] = MappingProxyType({}),
) -> Picture | None:
    """Return a forest plot: the difference of each pair of methods with its interval, by task.

    Pairs are listed below their first method, in bold. A mark to the right of zero means that the
    method of the row is ahead. An infinite limit ends at the edge. If there are more than a hundred
    pairs, only those with an interval that excludes 0 are drawn; if these are more than a hundred,
    the 40 with the largest differences.

    Args:
        pairs: Task -> a table with one row per pair and columns `a`, `b`, `difference` (positive
            where b is ahead), `low` and `high`; NaN for a pair without an interval.
        look: Style of each method.
        name: Name of the picture's file.
        unit: Unit of the differences.
        ends: Words at the negative and at the positive end of the axis.
        positive: When a difference is positive, in the words of the alternative text.
        margins: Largest loss that does not matter by task, drawn as a dashed line.
        digits: Decimals in the alternative text by task, by default one.

    Returns:
        The picture, without tasks where all limits are infinite; None if no pair has a difference.

    Example:
        >>> from relation_tf.report.pictures.drawing import styles
        >>> row = {"a": "mlp", "b": "relation", "difference": 2.5, "low": 0.4, "high": 4.6}
        >>> look = styles(["mlp", "relation"])
        >>> picture = differences({"CoLA": pd.DataFrame([row])}, look, unit="points")
        >>> print(picture.panels[0].alt)  # doctest: +NORMALIZE_WHITESPACE
        CoLA, difference of each pair in points, second minus first: mlp and relation +2.5 (+0.4
        to +4.6).
    """
    there = {
        task: table[np.isfinite(table["difference"].astype(float))] for task, table in pairs.items()
    }
    there = {task: table for task, table in there.items() if len(table) and not _unlimited(table)}
    if not there:
        return None
    drawn = {task: _most_different(table) for task, table in there.items()}
    left_out = {task: _left_out(there[task], table) for task, table in drawn.items()}
    rows = max(1, *(len(table) + table["a"].nunique() for table in drawn.values()))
    names = label_width(look)
    bottom = 0.66 if any(left_out.values()) else 0.5  # with a line for the pairs left out
    panels = []
    for task, table in there.items():
        shown = drawn[task], left_out[task], rows, look, ends, margins.get(task, 0)
        panels.append(
            Panel(
                task,
                _words(task, table, unit, positive, digits.get(task, 1)),
                partial(_draw_pairs, *shown),
                task=task,
            )
        )
    return Picture(
        name,
        "Differences between methods with intervals, by task.",
        panels,
        size=(2.4 + names, 0.35 + bottom + _ROW * rows),
        left=names,
        bottom=bottom,
    )


def _unlimited(table: pd.DataFrame) -> bool:
    """Return True if all limits of the intervals are infinite: lines from edge to edge."""
    return bool(np.isinf(table[["low", "high"]].to_numpy(dtype=float)).all())


def _differing(table: pd.DataFrame) -> pd.DataFrame:
    """Return the pairs with an interval that excludes 0."""
    return table[~((table["low"] <= 0) & (table["high"] >= 0))]


def _most_different(table: pd.DataFrame) -> pd.DataFrame:
    """Return the pairs to draw."""
    if len(table) > _MOST_DRAWN:
        table = _differing(table)
    if len(table) <= _MOST_DRAWN:
        return table
    largest = table["difference"].abs().sort_values(ascending=False, kind="stable")
    return table.loc[table.index.isin(largest.index[:_FEW_DRAWN])]


def _left_out(table: pd.DataFrame, drawn: pd.DataFrame) -> str:
    """Return a line on the pairs that are not drawn, or empty."""
    more, differing = len(table) - len(drawn), len(_differing(table))
    if not more:
        return ""
    if differing <= len(drawn):
        return f"{more:,} other intervals include 0"
    return f"the {len(drawn)} largest of {len(table):,} differences"


def _words(task: str, table: pd.DataFrame, unit: str, positive: str, digits: int) -> str:
    named = _differing(table) if len(table) > _MANY else table
    differing = len(named)
    named = _most_different(named)
    columns = ["a", "b", "difference", "low", "high"]
    words = [
        f"{a} and {b} {signed(difference, digits)}"
        + (f" ({signed(low, digits)} to {signed(high, digits)})" if not math.isnan(low) else "")
        for a, b, difference, low, high in named[columns].to_numpy(object)
    ]
    if differing > len(named):
        words.append(f"and {differing - len(named):,} smaller ones with an interval without 0")
    others = len(table) - differing
    if others:
        words.append(f"the intervals of the other {others:,} include 0")
    where = f" in {unit}" if unit else ""
    return f"{task}, difference of each pair{where}, {positive}: {', '.join(words)}."


def _draw_pairs(
    table: pd.DataFrame,
    left_out: str,
    rows: int,
    look: Mapping[str, Style],
    ends: tuple[str, str],
    margin: float,
    ax: Axes,
) -> None:
    order = {name: place for place, name in enumerate(look)}
    table = table.sort_values(["a", "b"], key=lambda names: names.map(order), kind="stable")
    # Each first method has a row above its pairs.
    y = np.arange(len(table)) + (~table["a"].duplicated()).cumsum().to_numpy()
    labels = dict(zip(y.tolist(), table["b"], strict=True))
    heads = {
        int(y[place]) - 1: table["a"].iloc[place]
        for place in np.flatnonzero(~table["a"].duplicated())
    }
    left, right = _limits(table, margin)
    ax.axvline(0, color=INK, linewidth=0.8)
    if margin:
        ax.axvline(-margin, color=INK, linewidth=0.8, linestyle="--")
    for name, own in table.assign(y=y).groupby("b", sort=False):
        style = look[str(name)]
        limits = own["low"].clip(left), own["high"].clip(upper=right)
        draw_strokes(ax, *limits, own["y"], color=style.color, linewidth=1.4)
        ax.plot(own["difference"], own["y"], **style.mark, markersize=5.5, clip_on=False)
    draw_names(ax, labels | heads, bold=heads)
    ax.set(xlim=(left, right), ylim=(rows - 0.4, -0.6))
    ax.xaxis.set_major_locator(MaxNLocator(5))
    ax.grid(axis="x")
    below = ax.get_xaxis_transform()
    for x, down, side, words in (
        (left, 20, "left", f"← {ends[0]}"),
        (right, 20, "right", f"{ends[1]} →"),
        ((left + right) / 2, 33, "center", left_out),
    ):
        ax.annotate(words, (x, 0), (0, -down), xycoords=below, textcoords="offset points",
                    ha=side, va="top")  # fmt: skip


def _limits(table: pd.DataFrame, margin: float) -> tuple[float, float]:
    """Return limits of the axis with all finite values, 0 and the margin."""
    known = table[["difference", "low", "high"]].to_numpy(dtype=float)
    values = np.append(known[np.isfinite(known)], [0, -margin])
    low, high = float(values.min()), float(values.max())
    space = 0.06 * (high - low) or 1.0
    return low - space, high + space


def critical_difference(
    ranks: Mapping[str, float],
    cliques: Sequence[Sequence[str]],
    critical_difference: float,
    title: str,
    look: Mapping[str, Style],
) -> Picture | None:
    """Return a rank diagram: bars on the right join methods that do not differ significantly.

    Args:
        ranks: Method -> its average rank; 1 is the best.
        cliques: Groups of methods that do not differ significantly.
        critical_difference: Smallest significant difference between average ranks.
        title: Title.
        look: Style of each method.

    Returns:
        The picture, or None for fewer than two methods.

    Example:
        >>> from relation_tf.report.pictures.drawing import styles
        >>> ranks = {"mlp": 2.8, "attention": 1.7, "relation": 1.5}
        >>> cliques = [["relation", "attention"]]
        >>> picture = critical_difference(ranks, cliques, 1.05, "Nine tasks", styles(list(ranks)))
        >>> print(picture.panels[0].alt)  # doctest: +NORMALIZE_WHITESPACE
        Nine tasks, average ranks, the best first: relation 1.50, attention 1.70, mlp 2.80; critical
        difference 1.05; no significant difference: relation and attention.

    References:
        J. Demsar (2006), Statistical comparisons of classifiers over multiple data sets, Journal of
        Machine Learning Research 7, 1-30.
    """
    if len(ranks) < 2:
        return None
    ordered = sorted(ranks, key=lambda name: ranks[name])
    joined = [[name for name in ordered if name in own] for own in cliques if len(own) > 1]
    values = ", ".join(f"{name} {ranks[name]:.2f}" for name in ordered)
    alt = (
        f"{title}, average ranks, the best first: {values}; "
        f"critical difference {critical_difference:.2f}; "
        f"no significant difference: {'; '.join(map(' and '.join, joined)) or 'none'}."
    )
    places = [(float(ordered.index(own[0])), float(ordered.index(own[-1]))) for own in joined]
    bars = _bars(places)
    names, room = label_width(look), _BAR * (len(bars) + 1)
    draw = partial(_draw_ranks, ranks, ordered, bars, critical_difference, look)
    return Picture(
        "ranks",
        "Average ranks; bars join methods that do not differ significantly.",
        [Panel(title, alt, draw)],
        size=(0.1 + _AXIS + names + room, 0.75 + _ROW * (len(ranks) + 1)),
        left=names,
        bottom=0.45,
        right=0.1 + room,
    )


_AXIS, _BAR = 2.5, 0.11  # axis of ranks and distance between bars, in inches


def _bars(spans: Iterable[tuple[float, float]]) -> list[list[tuple[float, float]]]:
    """Return bars from first to last row, on the fewest lines without overlap."""
    lines: list[list[tuple[float, float]]] = []
    for low, high in sorted(spans):
        free = next((line for line in lines if line[-1][1] < low), None)
        if free is None:
            lines.append(free := [])
        free.append((low, high))
    return lines


def _draw_ranks(
    ranks: Mapping[str, float],
    ordered: Sequence[str],
    bars: Sequence[Sequence[tuple[float, float]]],
    critical_difference: float,
    look: Mapping[str, Style],
    ax: Axes,
) -> None:
    last = len(ranks)
    # With few tasks, the critical difference can be longer than the axis.
    right = max(last, 1 + critical_difference)
    # Space on the right for the rank of the last method.
    ax.set(xlim=(0.7, right + 0.16 * right), ylim=(last - 0.5, -1.7))
    ax.plot([1, 1 + critical_difference], [-1, -1], color=INK, marker="|", markeredgewidth=1,
            linewidth=1.5)  # fmt: skip
    ax.text(1, -1.2, f"critical difference {critical_difference:.2f}", fontsize=8, va="bottom")
    axis_side = ax.get_yaxis_transform()
    for y, name in enumerate(ordered):
        ax.plot(ranks[name], y, **look[name].mark, markersize=6)
        ax.annotate(f"{ranks[name]:.2f}", (ranks[name], y), (6, 0), textcoords="offset points",
                    fontsize=7.5, ha="left", va="center")  # fmt: skip
    draw_names(ax, dict(enumerate(ordered)))
    for i, (low, high) in ((i, bar) for i, line in enumerate(bars) for bar in line):
        ax.plot([1 + _BAR / _AXIS * (i + 1)] * 2, [low - 0.25, high + 0.25], color=INK,
                linewidth=3, solid_capstyle="butt", transform=axis_side, clip_on=False)  # fmt: skip
    ax.set_xticks(range(1, int(right) + 1, math.ceil(right / 10)))
    ax.grid(axis="x")
    for line in ax.get_xgridlines():  # not behind the critical difference
        line.set_ydata([0, last / (last + 1.2)])
    ax.set_xlabel("average rank, 1 is the best")
