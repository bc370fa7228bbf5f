"""Figures of the scores of all seeds and of learning curves."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from relation_tf.bench.results import Results
from relation_tf.config.method import TRANSFERRED
from relation_tf.report.pictures.drawing import (
    Panel,
    Picture,
    Style,
    draw_names,
    label_width,
)
from relation_tf.report.scores import Scores
from relation_tf.stats import mean_interval
from relation_tf.tasks.metrics import find_metric

_ROW, _PANEL, _MARK = 0.42, 2.3, 0.06  # row, axes and mark in inches
_OPEN: Mapping[str, Any] = {"markerfacecolor": "none", "markeredgewidth": 1.0}  # collapsed runs


def score_dots(
    scores: Scores,
    look: Mapping[str, Style],
    collapsed: pd.DataFrame | None = None,
    limits: Mapping[str, tuple[float, float]] = MappingProxyType({}),
) -> Picture:
    """Return a figure of the scores of all seeds with mean and interval.

    Args:
        scores: The scores.
        look: Style of each method.
        collapsed: Runs that learned nothing, columns `task`, `method` and `seed`: open marks,
            without an interval of their mean, also in averages over tasks.
        limits: Lowest and highest possible score by task; intervals end there.
    """
    names = label_width(look)
    return Picture(
        "scores",
        "Scores of all seeds with mean and 95 % t interval, by task and method.",
        _score_panels(scores, look, collapsed, limits),
        size=(2.4 + names, 0.6 + _ROW * len(look)),
        left=names,
        bottom=0.3,
    )


def learning_curves(results: Results, look: Mapping[str, Style]) -> Picture:
    """Return a figure of validation loss and metric by epoch."""
    return Picture(
        "learning",
        "Validation loss and metric by epoch, by task and method.",
        _learning_panels(results, look),
        size=(3.7, 3.9),
        legend=look,
    )


def _score_panels(
    scores: Scores,
    look: Mapping[str, Style],
    collapsed: pd.DataFrame | None,
    limits: Mapping[str, tuple[float, float]],
) -> list[Panel]:
    lost: dict[tuple[str, str], set[int]] = {}
    names = ["task", "method", "seed"]
    for own, method, seed in [] if collapsed is None else collapsed[names].to_numpy().tolist():
        for task in (own, *(() if own in scores.diagnostics else scores.averages)):
            lost.setdefault((task, method), set()).add(seed)
    panels = []
    seeds: dict[tuple[str, str], list[Any]] = {}
    columns = (scores.table[name] for name in ("task", "method", "seed"))
    for task, method, seed in zip(*columns, strict=True):
        seeds.setdefault((task, method), []).append(seed)
    for task in scores.tasks:
        samples = {name: own for name, own in scores.samples(task).items() if name in look}
        if samples:
            out = {
                name: np.isin(seeds[task, name], [*lost.get((task, name), ())]) for name in samples
            }
            shown = {name: scores.factor(task) * np.array(own) for name, own in samples.items()}
            means = ", ".join(
                f"{name} {own.mean():.{scores.digits(task)}f} ({len(own)}"
                f"{f', {out[name].sum()} collapsed' if out[name].any() else ''})"
                for name, own in shown.items()
            )
            unit = " in points" if scores.factor(task) == 100 else ""
            low, high = limits.get(task, (-np.inf, np.inf))
            ends = scores.factor(task) * low, scores.factor(task) * high
            better = ", lower is better" if task in scores.lower_is_better else ""
            alt = f"{task}{better}, scores of all seeds{unit}; means (and seeds): {means}."
            title = scores.with_arrow(task)
            panels.append(
                Panel(title, alt, partial(_draw_scores, shown, out, look, ends), task=task)
            )
    return panels


def _draw_scores(
    samples: Mapping[str, np.ndarray],
    collapsed: Mapping[str, np.ndarray],
    look: Mapping[str, Style],
    limits: tuple[float, float],
    ax: Axes,
) -> None:
    values = np.concatenate([*samples.values()])
    values = values[np.isfinite(values)]
    width = _MARK / _PANEL * (np.ptp(values) if values.size else 0)
    for y, (name, style) in enumerate(look.items()):
        points = np.array(samples.get(name, []), dtype=float)
        lost = collapsed.get(name, np.zeros(len(points), dtype=bool))
        heights = y + 0.2 + _swarm(points, width)
        for chosen, look_of in ((~lost, {}), (lost, _OPEN)):
            if chosen.any():
                ax.plot(points[chosen], heights[chosen], **style.mark, **look_of, markersize=4,
                        alpha=0.75)  # fmt: skip
        if len(points) and np.isfinite(points).all():
            ax.plot([points.mean()] * 2, [y - 0.4, y - 0.1], color=style.color, linewidth=2)
            if len(points) > 1 and not lost.any():
                interval = np.clip(mean_interval(points), *limits)
                ax.plot(interval, [y - 0.25] * 2, color=style.color, linewidth=1.2)
    draw_names(ax, dict(enumerate(look)))
    ax.set_ylim(len(look) - 0.4, -0.6)
    ax.grid(axis="x")
    ax.xaxis.set_major_locator(MaxNLocator(5))


def _swarm(values: np.ndarray, width: float) -> np.ndarray:
    """Return heights that move equal and near values apart, at most 0.22 from 0.

    Args:
        values: The values.
        width: Width of a mark in the unit of the values.

    Example:
        >>> _swarm(np.array([1.0, 2.0, 1.0]), 0.1)
        array([ 0. ,  0. , -0.1])
    """
    levels = np.zeros(len(values), dtype=int)
    placed: deque[int] = deque()
    for own in np.argsort(values, kind="stable").tolist():
        while placed and values[own] - values[placed[0]] > width:
            placed.popleft()
        near = {*levels[[*placed]].tolist()}
        levels[own] = next(level for level in range(len(values)) if level not in near)
        placed.append(own)
    # 0, 1, 2, 3, 4 become 0, -1, 1, -2, 2.
    signed = np.where(levels % 2, -(levels + 1) // 2, levels // 2)
    most = max(1, int(np.abs(signed).max(initial=0)))
    heights: np.ndarray = signed * min(0.1, 0.22 / most)
    return heights


def _learning_panels(results: Results, look: Mapping[str, Style]) -> list[Panel]:
    panels = []
    for task in results.suite.tasks:
        # The epochs of a transfer are those of several trainings.
        runs = [
            run
            for run in results.runs
            if run["task"] == task and run["config"].get("sharing") not in TRANSFERRED
        ]
        if runs and not results.suite.timed:
            metrics = results.suite.find_task(task).metrics[:1]  # empty for some groups
            epochs = f"{min(run['epochs'] for run in runs)} to {max(run['epochs'] for run in runs)}"
            alt = (
                f"{task}, validation {' and '.join(['loss', *metrics])} by epoch, mean and "
                f"standard deviation by method: {len(runs)} runs of {epochs} epochs."
            )
            histories: dict[str, list[tuple[int, pd.DataFrame]]] = {}
            for run in runs:
                own = (run["kept_epoch"], results.history(run))
                histories.setdefault(run["method"], []).append(own)
            panels.append(
                Panel(
                    task,
                    alt,
                    partial(_draw_learning, histories, look, metrics),
                    axes=1 + len(metrics),
                    task=task,
                )
            )
    return panels


def _draw_learning(
    histories: Mapping[str, Sequence[tuple[int, pd.DataFrame]]],
    look: Mapping[str, Style],
    metrics: Sequence[str],
    *axes: Axes,
) -> None:
    shown = [("val_loss", 1.0, "validation loss")]
    for metric in metrics:
        found = find_metric(metric)
        name = metric if found.label.endswith(".") else found.label  # not an abbreviation
        label = f"{name}, points" if found.points == 100 else name
        shown.append((f"val_{metric}", found.points, label))
    for ax, (column, factor, label) in zip(axes, shown, strict=True):
        for method, runs in histories.items():
            _draw_runs(ax, runs, column, factor, look[method])
        ax.set_ylabel(label)
        ax.grid(axis="y")
        ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        ax.yaxis.set_major_locator(MaxNLocator(4))
    kept = [history for own in histories.values() for _, history in own]
    costs = np.concatenate([history["val_loss"].to_numpy() for history in kept])
    costs = costs[np.isfinite(costs)]
    if costs.size and costs.min() > 0 and costs.max() > 50 * costs.min():
        axes[0].set_yscale("log")  # a diverged run would flatten all others
        axes[0].yaxis.set_major_formatter(FuncFormatter(lambda cost, _: f"{cost:g}"))
        axes[0].yaxis.set_minor_formatter(NullFormatter())
    for ax in axes[:-1]:
        ax.tick_params(labelbottom=False)
    axes[-1].set_xlabel("epoch")


def _draw_runs(
    ax: Axes, runs: Sequence[tuple[int, pd.DataFrame]], column: str, factor: float, style: Style
) -> None:
    """Draw the runs of a method, and the mean with its SD over the epochs that all runs have."""
    curves = []
    for kept, history in runs:
        values = factor * history[column].to_numpy(dtype=float)
        values = np.where(np.isfinite(values), values, np.nan)
        epochs = history["epoch"].to_numpy()
        faint = 0.3 if len(runs) > 1 else 1.0
        ax.plot(epochs, values, **style.line, alpha=faint, linewidth=0.6)
        ax.plot(epochs[epochs == kept], values[epochs == kept], **style.mark, markersize=3.5,
                alpha=max(faint, 0.6))  # fmt: skip
        curves.append(values)
    if len(runs) > 1:
        common = min(map(len, curves))
        together = np.stack([values[:common] for values in curves])
        epochs, mean, sd = epochs[:common], together.mean(axis=0), together.std(axis=0, ddof=1)
        ax.fill_between(epochs, mean - sd, mean + sd, color=style.color, alpha=0.15, linewidth=0)
        ax.plot(epochs, mean, **style.line, linewidth=1.6)
