"""Figures of tests: p of all pairs, effect sizes, average ranks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from relation_tf.report.pictures.drawing import (
    GRID,
    INK,
    Panel,
    Picture,
    Style,
    draw_strokes,
    signed,
)
from relation_tf.stats.design import format_level, pvalue_only

# Okabe and Ito's blue and orange; at this opacity text is readable on white and black pages.
_ROW_BETTER, _COLUMN_BETTER, _OPACITY = "#0072b2", "#d55e00", 0.5
_CELL = 0.4  # side in inches
_MANY = 15  # pairs; if more, the text names only those that differ
_MOST_DRAWN = 100  # pairs; if more, only those that differ are drawn


def pvalue_matrix(
    tests: Mapping[str, tuple[pd.DataFrame, pd.DataFrame]],
    methods: Sequence[str],
    alpha: float,
    lower_is_better: Collection[str] = (),
) -> Picture | None:
    """Return a figure with the p of all pairs of methods, one triangle per task.

    Names are on the diagonal, at the end of their row and above their column. A mark points to the
    better method of a pair. Significant pairs are shaded: one colour if the method of the row is
    better, another if the method of the column is.

    Args:
        tests: Task -> p and signed statistic of its pairs, two k x k tables as in the result of
            `steel_dwass`: the statistic is positive where the column's method has higher scores.
        methods: All methods in display order.
        alpha: Level of the tests.
        lower_is_better: Tasks where lower scores are better.

    Returns:
        The picture, or None if no two methods are tested.

    Example:
        >>> from relation_tf.stats import steel_dwass
        >>> result = steel_dwass({"mlp": [1.0, 2.0, 3.0, 4.0], "relation": [5.0, 6.0, 7.0, 8.0]})
        >>> tests = {"CoLA": (result.pvalue, result.statistic)}
        >>> picture = pvalue_matrix(tests, ["mlp", "relation"], alpha=0.05)
        >>> print(picture.panels[0].alt)  # doctest: +NORMALIZE_WHITESPACE
        CoLA, p of each pair of methods: 1 of 1 pairs significant at p < .05: relation better
        than mlp .029.
    """
    tested = [name for name in methods if any(name in p.index for p, _ in tests.values())]
    if len(tested) < 2:
        return None
    # Names of lower rows begin further to the right.
    ends = [row * _CELL + 0.25 + 0.075 * len(name) for row, name in enumerate(tested)]
    width = max(*ends, *(0.3 + 0.1 * len(task) for task in tests))
    panels = []
    for task, tables in tests.items():
        pvalue, statistic = (table.reindex(tested, axis=0).reindex(tested, axis=1).to_numpy(float)
                             for table in tables)  # fmt: skip
        better = np.sign(-statistic if task in lower_is_better else statistic)
        panels.append(_pvalue_panel(task, tested, pvalue, better, alpha, width))
    return Picture(
        "pvalues",
        f"p of all pairs of methods by task, shaded where {format_level(alpha)}.",
        panels,
        size=(width, 0.4 + _CELL * len(tested)),
        left=0.1,
        bottom=0.1,
    )


def _pvalue_panel(
    task: str,
    methods: Sequence[str],
    pvalue: np.ndarray,
    better: np.ndarray,
    alpha: float,
    width: float,
) -> Panel:
    words, others = [], []
    for i, j in itertools.combinations(range(len(methods)), 2):
        if pvalue[i, j] < alpha:
            high, low = (j, i) if better[i, j] > 0 else (i, j)
            p = pvalue_only(pvalue[i, j], alpha)
            words.append(f"{methods[high]} better than {methods[low]} {p}")
        elif np.isfinite(pvalue[i, j]):
            others.append(pvalue[i, j])
    count = f"{len(words)} of {len(words) + len(others)} pairs significant at {format_level(alpha)}"
    found = f"{count}: {', '.join(words)}" if words else count
    rest = ""
    if others:
        least, most = (pvalue_only(value, alpha) for value in (min(others), max(others)))
        rest = f"; p of {'the others' if words else 'all'} "
        rest += least if least == most else f"from {least} to {most}"
    alt = f"{task}, p of each pair of methods: {found}{rest}."

    def draw(ax: Axes) -> None:
        rows, columns = np.tril_indices(len(methods), -1)
        # Margins of a tenth of an inch on both sides.
        ax.set(xlim=(0, (width - 0.2) / _CELL), ylim=(len(methods), 0))
        ax.axis("off")
        for marker, color, sign in ((">", _ROW_BETTER, -1), ("^", _COLUMN_BETTER, 1)):
            points = better[rows, columns] == sign
            x, y = columns[points] + 0.5, rows[points] + 0.5
            significant = pvalue[rows, columns][points] < alpha
            shaded = x[significant]
            draw_strokes(ax, shaded - 0.49, shaded + 0.49, y[significant], color=color,
                         alpha=_OPACITY, linewidth=72 * 0.98 * _CELL)  # fmt: skip
            ax.plot(x, y - 0.22, color=INK, marker=marker, linestyle="none", markersize=4.5)
        last = len(methods)
        ax.hlines(range(1, last + 1), 0, [*range(1, last), last - 1], color=GRID, linewidth=0.6)
        ax.vlines(range(last), [1, *range(1, last)], last, color=GRID, linewidth=0.6)
        for i, name in enumerate(methods):
            ax.text(i + 0.2, i + 0.5, name, va="center")
            for j in np.flatnonzero(np.isfinite(pvalue[i, :i])).tolist():
                ax.text(j + 0.5, i + 0.7, pvalue_only(pvalue[i, j], alpha), fontsize=7.5,
                        ha="center", va="center")  # fmt: skip

    return Panel(task, alt, draw)


def effect_sizes(pairs: Mapping[str, pd.DataFrame], look: Mapping[str, Style]) -> Picture | None:
    """Return a figure of Cliff's delta with its interval for all pairs of methods, by task.

    Pairs are listed below their first method, in bold. A mark to the right of zero means that the
    method of the row has higher scores. If there are more than a hundred pairs, only those with an
    interval that excludes 0 are drawn.

    Args:
        pairs: Task -> a table with one row per pair and columns `a`, `b`, `effect_size` (positive
            where b is higher), `low` and `high` (NaN for a pair without an interval).
        look: Style of each method.

    Returns:
        The picture, or None if there are no pairs.

    Example:
        >>> from relation_tf.report.pictures.drawing import styles
        >>> row = {"a": "mlp", "b": "relation", "effect_size": 0.84, "low": 0.2, "high": 1.0}
        >>> picture = effect_sizes({"CoLA": pd.DataFrame([row])}, styles(["mlp", "relation"]))
        >>> print(picture.panels[0].alt)  # doctest: +NORMALIZE_WHITESPACE
        CoLA, Cliff's delta of each pair, positive where its second method scores higher: mlp and
        relation +0.84 (+0.20 to +1.00).
    """
    there = {task: table for task, table in pairs.items() if len(table)}
    if not there:
        return None
    drawn = {
        task: _differing(table) if len(table) > _MOST_DRAWN else table
        for task, table in there.items()
    }
    left_out = {task: len(there[task]) - len(table) for task, table in drawn.items()}
    rows = max(1, *(len(table) + table["a"].nunique() for table in drawn.values()))
    names = 0.15 + 0.08 * max(map(len, look))
    bottom = 0.66 if any(left_out.values()) else 0.5  # with a line for the number of pairs left out
    return Picture(
        "effects",
        "Cliff's delta of all pairs of methods with intervals, by task.",
        [Panel(task, _effect_words(task, table),
               partial(_draw_effects, drawn[task], left_out[task], rows, look))
         for task, table in there.items()],
        size=(2.6 + names, 0.35 + bottom + 0.18 * rows),
        left=names,
        bottom=bottom,
    )  # fmt: skip


def _differing(table: pd.DataFrame) -> pd.DataFrame:
    """Return the pairs with an interval that excludes 0."""
    return table[~((table["low"] <= 0) & (table["high"] >= 0))]


def _effect_words(task: str, table: pd.DataFrame) -> str:
    named = _differing(table) if len(table) > _MANY else table
    columns = ["a", "b", "effect_size", "low", "high"]
    words = [
        f"{a} and {b} {signed(delta)}"
        + (f" ({signed(low)} to {signed(high)})" if np.isfinite(low) else "")
        for a, b, delta, low, high in named[columns].to_numpy(object)
    ]
    others = len(table) - len(named)
    if others:
        words.append(f"the intervals of the other {others} include 0")
    return (
        f"{task}, Cliff's delta of each pair, positive where its second method scores higher: "
        f"{', '.join(words)}."
    )


def _draw_effects(
    table: pd.DataFrame, left_out: int, rows: int, look: Mapping[str, Style], ax: Axes
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
    ax.axvline(0, color=INK, linewidth=0.8)
    for name, own in table.assign(y=y).groupby("b", sort=False):
        style = look[str(name)]
        gap = np.full(len(own), np.nan)
        ax.plot(np.column_stack((own["low"], own["high"], gap)).ravel(),
                np.repeat(own["y"], 3), color=style.color, linewidth=1.4)  # fmt: skip
        ax.plot(own["effect_size"], own["y"], **style.mark, markersize=5.5, clip_on=False)
    ax.set_yticks([])
    left = ax.get_yaxis_transform()
    # Text is several times faster to draw than ticks with labels.
    for row, name in (labels | heads).items():
        ax.text(-0.02, row, name, transform=left, ha="right", va="center",
                fontweight="bold" if row in heads else "normal")  # fmt: skip
    ax.set(xlim=(-1.06, 1.06), ylim=(rows - 0.4, -0.6))
    ax.set_xticks([-1, -0.5, 0, 0.5, 1], ["−1", "−.5", "0", ".5", "1"])
    ax.grid(axis="x")
    ax.spines["left"].set_visible(False)
    below = ax.get_xaxis_transform()
    more = f"{left_out:,} other intervals include 0" if left_out else ""
    for x, down, side, words in (
        (-1.06, 20, "left", "← bold name higher"),
        (1.06, 20, "right", "row higher →"),
        (0, 33, "center", more),
    ):
        ax.annotate(words, (x, 0), (0, -down), xycoords=below, textcoords="offset points",
                    ha=side, va="top")  # fmt: skip


def critical_difference(
    ranks: Mapping[str, float],
    cliques: Sequence[Sequence[str]],
    critical_difference: float,
    title: str,
    look: Mapping[str, Style],
) -> Picture | None:
    """Return a critical difference diagram: bars join methods that do not differ significantly.

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
    bars = _bars([sorted(ranks[name] for name in own) for own in cliques if len(own) > 1])
    joined = [
        " and ".join(name for name in ordered if name in own) for own in cliques if len(own) > 1
    ]
    values = ", ".join(f"{name} {ranks[name]:.2f}" for name in ordered)
    alt = (
        f"{title}, average ranks, the best first: {values}; "
        f"critical difference {critical_difference:.2f}; "
        f"no significant difference: {'; '.join(joined) or 'none'}."
    )
    side = 0.5 + 0.07 * max(map(len, ranks))
    deep = _FIRST_BAR + _BAR * len(bars) + 0.12 + _LINE * ((len(ranks) + 1) // 2)
    draw = partial(_draw_ranks, ranks, ordered, bars, critical_difference, side, deep, look)
    return Picture(
        "ranks",
        "Average ranks; bars join methods that do not differ significantly.",
        [Panel(title, alt, draw)],
        size=(2 * side + _AXIS + 0.2, deep + 0.4),
        left=0.1,
        bottom=0.1,
    )


# Lengths in inches.
_AXIS = 2.4  # axis of ranks
_SCALE, _FIRST_BAR = 0.55, 0.68  # distance below the title
_BAR, _LINE = 0.09, 0.2  # distance between bars, and between names


def _bars(spans: Iterable[list[float]]) -> list[list[tuple[float, float]]]:
    """Return bars from lowest to highest rank, on the fewest lines without overlap."""
    lines: list[list[tuple[float, float]]] = []
    for low, *_, high in sorted(spans):
        free = next((line for line in lines if line[-1][1] < low - 0.1), None)
        if free is None:
            lines.append(free := [])
        free.append((low, high))
    return lines


def _draw_ranks(
    ranks: Mapping[str, float],
    ordered: Sequence[str],
    bars: Sequence[Sequence[tuple[float, float]]],
    critical_difference: float,
    side: float,
    deep: float,
    look: Mapping[str, Style],
    ax: Axes,
) -> None:
    last = len(ranks)
    width = 2 * side + _AXIS

    # With few tasks, the critical difference can be longer than the axis.
    step = _AXIS / max(last - 1, critical_difference)

    def place(rank: float) -> float:
        return side + step * (rank - 1)

    ax.set(xlim=(0, width), ylim=(deep, 0))
    ax.axis("off")
    start, end = place(1), place(1 + critical_difference)
    ax.plot([start, end], [0.1, 0.1], color=INK, marker="|", markeredgewidth=1, linewidth=1.5)
    ax.text(start, 0.16, f"critical difference {critical_difference:.2f}", fontsize=8, va="top")
    ax.plot([start, place(last)], [_SCALE] * 2, color=INK)
    for rank in range(1, last + 1, math.ceil(0.2 / step)):
        ax.plot([place(rank)] * 2, [_SCALE - 0.05, _SCALE], color=INK)
        ax.text(place(rank), _SCALE - 0.07, str(rank), fontsize=8, ha="center", va="bottom")
    for i, (low, high) in ((i, bar) for i, line in enumerate(bars) for bar in line):
        ax.plot([place(low) - 0.03, place(high) + 0.03], [_FIRST_BAR + _BAR * i] * 2,
                color=INK, linewidth=3.5, solid_capstyle="butt", zorder=3)  # fmt: skip
    best = ordered[: (last + 1) // 2]
    first = _FIRST_BAR + _BAR * len(bars) + 0.12
    for names, outer, gap, inner, align in (
        (best, side - 0.35, -0.06, "left", "right"),
        (ordered[: len(best) - 1 : -1], width - side + 0.35, 0.06, "right", "left"),
    ):
        for i, name in enumerate(names):
            x, y, style = place(ranks[name]), first + _LINE * i, look[name]
            ax.plot([x, x, outer], [_SCALE, y, y], **style.line)
            ax.plot(x, _SCALE, color=style.color, marker=style.marker, markersize=6, zorder=4)
            ax.text(outer, y - 0.02, f"{ranks[name]:.2f}", fontsize=7.5, ha=inner, va="bottom")
            ax.text(outer + gap, y, name, ha=align, va="center")
