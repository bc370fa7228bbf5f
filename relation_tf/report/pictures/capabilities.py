"""Figures of diagnostic tasks: profile of the methods, depths of a token, longer texts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from relation_tf.report.comparisons import rows_of
from relation_tf.report.pictures.drawing import (
    GRID,
    Panel,
    Picture,
    Style,
    draw_heat_map,
)
from relation_tf.report.pictures.trade_offs import Point, score_panel

Cells = Mapping[tuple[int, int], Any]

MARKS = {"better": "+", "no worse": "=", "worse": "−", "inconclusive": "?"}
"""Mark of each verdict in a cell."""

_CELL = 0.42  # side in inches
_LETTER = 0.072  # width of a letter in inches
_OPACITY = (0.06, 0.5)  # numbers must be legible on it, in the colors of both pages
_LINES = (2.8, 1.9)  # size of a panel with lines
_LIMITS = (0.0, 100.0)  # of the scores, in points


def profile_picture(table: pd.DataFrame) -> Picture:
    """Return a heat map of methods and tasks with the score of each cell, and its verdict.

    Args:
        table: `Capabilities.table`. The shade is the share of the way from a simple rule to a
            perfect score; a missing cell stays empty. The largest state of a method stands next to
            its name. The last rows show what needs no learning.

    Example:
        >>> row = {"task": "count", "method": "relation", "score": 97.5, "rule": 15.0,
        ...        "chance": 14.0, "share": 0.97, "verdict": "no worse", "state_kib": 0.13}
        >>> alt = profile_picture(pd.DataFrame([row])).panels[0].alt
        >>> for part in alt.split("; "):
        ...     print(part)
        Scores by method and task: relation, 0.13 KiB: count 98 (no worse)
        best simple rule: count 15
        most frequent label: count 14.
    """
    table = pd.concat([table, *_untrained(table)])
    methods, tasks = ([*dict.fromkeys(table[column])] for column in ("method", "task"))
    cells = {(row.method, row.task): row for row in rows_of(table)}
    shares = table.pivot(index="method", columns="task", values="share")
    shares = shares.reindex(index=methods, columns=tasks).clip(lower=0)
    states = table.groupby("method")["state_kib"].max()
    labels = [_with_state(method, states[method]) for method in methods]
    alt = "; ".join(
        f"{label}: " + ", ".join(_said(cells[method, task]) for task in tasks
                                 if (method, task) in cells)
        for method, label in zip(methods, labels, strict=True)
    )  # fmt: skip

    def draw(ax: Axes) -> None:
        draw_heat_map(ax, shares.to_numpy(), labels, tasks, _CELL, True, opacity=_OPACITY)
        for (method, task), row in cells.items():
            _write(ax, tasks.index(task), methods.index(method), row, MARKS.get(row.verdict, ""))

    left, bottom = (0.25 + _LETTER * max(map(len, names)) for names in (labels, tasks))
    return Picture(
        "capabilities",
        "Scores of methods on diagnostic tasks, shaded from a simple rule to a perfect score.",
        [Panel("", f"Scores by method and task: {alt}.", draw)],
        size=(left + _CELL * len(tasks) + 0.1, 0.35 + _CELL * len(methods) + bottom),
        left=left,
        bottom=bottom,
    )


def _untrained(table: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Yield rows of the scores that need no learning."""
    tasks = table.drop_duplicates("task")
    for column, name in (("rule", "best simple rule"), ("chance", "most frequent label")):
        yield tasks.assign(
            method=name, score=tasks[column], share=0.0, verdict="", state_kib=math.nan
        )


def depth_picture(table: pd.DataFrame) -> Picture | None:
    """Return a heat map for each method: length of the text and depth of the only symbol in it.

    Args:
        table: Rows with `method`, `length`, `depth` (percent), `score` and `share`.

    Returns:
        The picture, or None without rows.
    """
    if table.empty:
        return None
    lengths, depths = (sorted({*table[column]}) for column in ("length", "depth"))
    rows, columns = [f"{length:,} tokens" for length in lengths], [f"{each} %" for each in depths]
    panels = []
    for method, own in table.groupby("method", sort=False):
        cells = {(row.length, row.depth): row for row in rows_of(own)}
        shares = own.pivot(index="length", columns="depth", values="share")
        shares = shares.reindex(index=lengths, columns=depths).clip(lower=0)
        alt = ", ".join(
            f"{row.score:.0f} with {row.length:,} tokens at {row.depth} %" for row in cells.values()
        )

        def draw(ax: Axes, shares: pd.DataFrame = shares, cells: Cells = cells) -> None:
            draw_heat_map(ax, shares.to_numpy(), rows, columns, _CELL, False, opacity=_OPACITY)
            for (length, depth), row in cells.items():
                _write(ax, depths.index(depth), lengths.index(length), row)
            ax.set_xlabel("place in the text")

        panels.append(Panel(str(method), f"{method}: {alt}.", draw))
    left = 0.25 + _LETTER * max(map(len, rows))
    width = max(left + _CELL * len(depths) + 0.1, 2.4)
    return Picture(
        "depths",
        "Scores on a single symbol among others, by length of the text and depth of the symbol.",
        panels,
        size=(width, 0.35 + _CELL * len(lengths) + 0.6),
        left=left,
        bottom=0.6,
    )


def longer_picture(table: pd.DataFrame, look: Mapping[str, Style]) -> Picture | None:
    """Return a panel per task with the score against the length relative to training.

    Args:
        table: Rows with `task`, `method`, `times` (1 for the length of training), `score` and
            `rule`.
        look: Style of each method.

    Returns:
        The picture, or None without rows.
    """
    panels = [
        _longer_panel(str(task), own, look)
        for task, own in table.groupby("task", sort=False)
        if own["times"].nunique() > 1
    ]
    if not panels:
        return None
    return Picture(
        "longer",
        "Scores on longer texts than in training, by task and method.",
        panels,
        size=_LINES,
        left=0.55,
        bottom=0.5,
        legend={name: style for name, style in look.items() if name in {*table["method"]}},
    )


def _longer_panel(task: str, own: pd.DataFrame, look: Mapping[str, Style]) -> Panel:
    by_method = {
        str(method): rows.sort_values("times") for method, rows in own.groupby("method", sort=False)
    }
    values = "; ".join(
        f"{method} " + ", ".join(f"{row.score:.0f} at {row.times}x" for row in rows_of(rows))
        for method, rows in by_method.items()
    )

    def draw(ax: Axes) -> None:
        for method, rows in by_method.items():
            ax.plot(rows["times"], rows["score"], **look[method].line, marker=look[method].marker,
                    markersize=5, clip_on=False)  # fmt: skip
        rules = own.drop_duplicates("times").sort_values("times")
        times = [*rules["times"]]
        ax.plot(times, rules["rule"], color=GRID, linewidth=1.2, zorder=1)
        ax.set_xscale("log")
        ax.set_xticks(times, [f"{each}x" for each in times])
        ax.minorticks_off()
        ax.set(xlabel="length relative to training", ylabel="points", ylim=_LIMITS)
        ax.grid(axis="y")

    return Panel(task, f"{task}, score by length: {values}.", draw, task=task)


def state_panel(title: str, points: Sequence[Point], look: Mapping[str, Style], task: str) -> Panel:
    """Return a panel with scores against the size of the state, within the limits of the score.

    Args:
        title: Title of the panel.
        points: The methods, with half of the interval of their mean.
        look: Style of each method.
        task: Task of the panel.
    """
    panel = score_panel(
        title, points, [], "state size, KiB", "points", look,
        spread="half of the 95 % interval", task=task,
    )  # fmt: skip

    def draw(ax: Axes) -> None:
        panel.draw(ax)
        low, high = ax.get_ylim()
        ax.set_ylim(max(low, _LIMITS[0]), min(high, _LIMITS[1]))
        for line in ax.lines:  # marks at the limits are whole, intervals end there
            line.set_clip_on(line.get_marker() == "None")

    return replace(panel, draw=draw)


def _write(ax: Axes, column: int, row: int, cell: Any, mark: str = "") -> None:
    """Write a score in its cell, with the mark of its verdict below."""
    look: dict[str, Any] = {"fontsize": 8, "ha": "center", "va": "center"}
    ax.text(column + 0.5, row + (0.34 if mark else 0.5), f"{cell.score:.0f}", **look)
    if mark:
        ax.text(column + 0.5, row + 0.74, mark, **look)


def _with_state(method: str, kib: float) -> str:
    return method if math.isnan(kib) else f"{method}, {kib:.2g} KiB"


def _said(row: Any) -> str:
    return f"{row.task} {row.score:.0f}" + (row.verdict and f" ({row.verdict})")
