"""Figure of a sweep: score by the value of a setting."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from relation_tf.report.pictures.drawing import Panel, Picture, Style

_LOG_BEYOND = 8  # ratio of the largest value to the smallest

Curves = Mapping[str, Sequence[float]]


def sweep_picture(
    key: str, values: Sequence[Any], curves: Mapping[str, Curves], look: Mapping[str, Style]
) -> Picture | None:
    """Return a panel per task with the score of each method by the value of a setting.

    Args:
        key: The setting.
        values: Its values.
        curves: Task -> method -> scores in display units, one for each value; NaN if a run
            diverged or failed.
        look: Style of each method.

    Returns:
        The picture, or None if the values are not at least three numbers.

    Example:
        >>> from relation_tf.report.pictures.drawing import styles
        >>> curves = {"CoLA": {"relation": [3.0, 8.5, math.nan]}}
        >>> look = styles(["relation"])
        >>> picture = sweep_picture("learning_rate", [1e-3, 1e-2, 1e-1], curves, look)
        >>> print(picture.panels[0].alt)
        CoLA, validation score by learning_rate: relation 3 at 0.001, 8.5 at 0.01.
        >>> sweep_picture("initializer", ["zeros", "ones"], curves, look) is None
        True
    """
    numeric = all(isinstance(each, int | float) and not isinstance(each, bool) for each in values)
    if not numeric or len(values) < 3:
        return None
    panels = [_panel(task, key, values, own, look) for task, own in curves.items()]
    title = f"Validation score by {key}, by task and method."
    return Picture("sweep", title, panels, size=(3.4, 2.3), left=0.7, bottom=0.5, legend=look)


def _panel(
    task: str, key: str, values: Sequence[float], curves: Curves, look: Mapping[str, Style]
) -> Panel:
    places = np.argsort(values)
    x = np.asarray(values, dtype=float)[places]
    sorted_curves = {name: np.asarray(own, dtype=float)[places] for name, own in curves.items()}
    words = "; ".join(f"{name} {_said(x, own)}" for name, own in sorted_curves.items())
    alt = f"{task}, validation score by {key}: {words}."
    return Panel(task, alt, partial(_draw, key, x, sorted_curves, look), task=task)


def _said(values: np.ndarray, scores: np.ndarray) -> str:
    known = [pair for pair in zip(values, scores, strict=True) if not math.isnan(pair[1])]
    return ", ".join(f"{score:.6g} at {value:g}" for value, score in known) or "no finite score"


def _draw(
    key: str, x: np.ndarray, curves: Mapping[str, np.ndarray], look: Mapping[str, Style], ax: Axes
) -> None:
    for name, scores in curves.items():
        ax.plot(x, scores, **look[name].line, marker=look[name].marker, markersize=5)
    if 0 < _LOG_BEYOND * x[0] < x[-1]:
        ax.set_xscale("log")
    ax.xaxis.set_major_locator(FixedLocator([*x]))
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.xaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_locator(MaxNLocator(4))
    ax.set(xlabel=key, ylabel="validation score")
    ax.grid(axis="y")
