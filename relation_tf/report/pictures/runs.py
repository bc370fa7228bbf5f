"""Figures of the scores of all seeds and of learning curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from relation_tf.bench.results import Results
from relation_tf.report.pictures.drawing import Panel, Picture, Style
from relation_tf.report.scores import Scores
from relation_tf.stats import mean_interval
from relation_tf.tasks.metrics import find_metric

_OPEN: Mapping[str, Any] = {"markerfacecolor": "none", "markeredgewidth": 1.0}  # collapsed runs


def score_dots(
    scores: Scores, look: Mapping[str, Style], collapsed: pd.DataFrame | None = None
) -> Picture:
    """Return a figure of the scores of all seeds with mean and interval.

    Args:
        scores: The scores.
        look: Style of each method.
        collapsed: Runs that learned nothing, columns `task`, `method` and `seed`: open marks,
            without an interval of their mean, also in averages over tasks.
    """
    names = 0.15 + 0.075 * max(map(len, look))
    return Picture(
        "scores",
        "Scores of all seeds with mean and 95 % t interval, by task and method.",
        _score_panels(scores, look, collapsed),
        size=(2.4 + names, 0.6 + 0.27 * len(look)),
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
    scores: Scores, look: Mapping[str, Style], collapsed: pd.DataFrame | None
) -> list[Panel]:
    lost: dict[tuple[str, str], set[int]] = {}
    names = ["task", "method", "seed"]
    for own, method, seed in [] if collapsed is None else collapsed[names].to_numpy().tolist():
        for task in (own, *scores.averages):
            lost.setdefault((task, method), set()).add(seed)
    panels = []
    for task in scores.tasks:
        samples = scores.samples(task)
        if samples:
            rows = scores.table[scores.table["task"] == task].groupby("method")["seed"]
            out = {
                name: rows.get_group(name).isin(lost.get((task, name), ())).to_numpy()
                for name in samples
            }
            shown = {name: scores.factor(task) * np.array(own) for name, own in samples.items()}
            means = ", ".join(
                f"{name} {own.mean():.{scores.digits(task)}f} ({len(own)}"
                f"{f', {out[name].sum()} collapsed' if out[name].any() else ''})"
                for name, own in shown.items()
            )
            unit = " in points" if scores.factor(task) == 100 else ""
            better = ", lower is better" if task in scores.lower_is_better else ""
            alt = f"{task}{better}, scores of all seeds{unit}; means (and seeds): {means}."
            title = f"{task}{scores.arrow(task)}"
            panels.append(Panel(title, alt, partial(_draw_scores, shown, out, look)))
    return panels


def _draw_scores(
    samples: Mapping[str, np.ndarray],
    collapsed: Mapping[str, np.ndarray],
    look: Mapping[str, Style],
    ax: Axes,
) -> None:
    for y, (name, style) in enumerate(look.items()):
        points = np.array(samples.get(name, []), dtype=float)
        lost = collapsed.get(name, np.zeros(len(points), dtype=bool))
        for chosen, look_of in ((~lost, {}), (lost, _OPEN)):
            if chosen.any():
                height = np.full(chosen.sum(), y + 0.16)
                ax.plot(points[chosen], height, **style.mark, **look_of, markersize=4.5, alpha=0.65)
        if len(points) and np.isfinite(points).all():
            ax.plot([points.mean()] * 2, [y - 0.32, y], color=style.color, linewidth=2)
            if len(points) > 1 and not lost.any():
                ax.plot(mean_interval(points), [y - 0.16] * 2, color=style.color, linewidth=1.2)
    ax.set_yticks(range(len(look)), list(look))
    ax.set_ylim(len(look) - 0.5, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x")
    ax.spines["left"].set_visible(False)
    ax.xaxis.set_major_locator(MaxNLocator(5))


def _learning_panels(results: Results, look: Mapping[str, Style]) -> list[Panel]:
    panels = []
    for task in results.suite.tasks:
        runs = [run for run in results.runs if run["task"] == task]
        if runs and not results.suite.timed:
            metrics = results.suite.find_task(task).metrics[:1]  # empty for some groups
            epochs = f"{min(run['epochs'] for run in runs)} to {max(run['epochs'] for run in runs)}"
            alt = (
                f"{task}, validation {' and '.join(['loss', *metrics])} by epoch, one line per "
                f"run: {len(runs)} runs of {epochs} epochs."
            )
            histories = [(look[run["method"]], run, results.history(run)) for run in runs]
            panels.append(
                Panel(task, alt, partial(_draw_learning, histories, metrics), axes=1 + len(metrics))
            )
    return panels


def _draw_learning(
    histories: list[tuple[Style, dict[str, Any], pd.DataFrame]], metrics: Sequence[str], *axes: Axes
) -> None:
    shown = [("val_loss", 1.0, "validation loss")]
    for metric in metrics:
        points = find_metric(metric).points
        shown.append((f"val_{metric}", points, f"{metric}, points" if points == 100 else metric))
    for ax, (column, factor, label) in zip(axes, shown, strict=True):
        for style, run, history in histories:
            epochs = history["epoch"].to_numpy()
            values = factor * history[column].to_numpy(dtype=float)
            values = np.where(np.isfinite(values), values, np.nan)
            ax.plot(epochs, values, **style.line, alpha=0.75)
            kept = epochs == run["kept_epoch"]
            ax.plot(epochs[kept], values[kept], **style.mark, markersize=4.5)
        ax.set_ylabel(label)
        ax.grid(axis="y")
        ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        ax.yaxis.set_major_locator(MaxNLocator(4))
    costs = np.concatenate([history["val_loss"].to_numpy() for *_, history in histories])
    costs = costs[np.isfinite(costs)]
    if costs.size and costs.min() > 0 and costs.max() > 50 * costs.min():
        axes[0].set_yscale("log")  # a diverged run would flatten all others
        axes[0].yaxis.set_major_formatter(FuncFormatter(lambda cost, _: f"{cost:g}"))
        axes[0].yaxis.set_minor_formatter(NullFormatter())
    for ax in axes[:-1]:
        ax.tick_params(labelbottom=False)
    axes[-1].set_xlabel("epoch")
