"""Estimates over tasks in one unit: interquartile means, profiles, probability of improvement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from relation_tf.registry import register_section
from relation_tf.report.blocks import Block, Cell, Column, Paper, Row, Section, Table, blocks
from relation_tf.report.drawing import Panel, Picture, Style
from relation_tf.report.scores import Scores
from relation_tf.report.text import render
from relation_tf.stats import probability_of_improvement
from relation_tf.stats.estimates import middle_mean, stratified_bootstrap
from relation_tf.stats.samples import FloatArray
from relation_tf.words import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from relation_tf.report.data import Comparison

_DRAWS = 10_000  # of the bootstrap; the Monte Carlo error of a limit is far below its width
_DRAWS_OF_BANDS = 2_000
_GRID = 101  # thresholds of a profile
_LEAST_POINTS = 20  # median of the best scores of the tasks, if the scores are points
_ESTIMATES = {"iqm": "IQM", "median": "Median", "mean": "Mean", "gap": "Optimality gap"}
Estimates = dict[str, dict[str, list[float]]]  # method -> task -> scores


def aggregates(scores: Scores) -> pd.DataFrame:
    """Return estimates of each method over the tasks that all have, with bootstrap intervals.

    Scores are in the unit of a page; the signs of those where lower is better stay. The interval of
    an estimate `x` is in columns `x_low` and `x_high`.

    Returns:
        A row per method, the best interquartile mean first: `iqm` (NaN if the numbers of seeds
        differ; then the mean decides), `median` (over tasks, of the means over seeds), `mean`,
        `gap` (the optimality gap: mean distance of scores below the `target` in `attrs`, 1 or 100;
        NaN where lower is better), and `improvement`: the probability that a run is better than one
        of the first method (NaN for that method).
    """
    found, lower = _by_method(scores), scores.lower_is_better_on(scores.main_tasks[0])
    if not found:
        return pd.DataFrame()
    sizes = {len(x) for tasks in found.values() for x in tasks.values()}
    tops = [max(map(max, same)) for same in zip(*(x.values() for x in found.values()), strict=True)]
    points = scores.fractions or np.median(tops) > _LEAST_POINTS
    target = np.nan if lower else 100.0 if points else 1.0

    def statistics(drawn: Sequence[FloatArray]) -> FloatArray:
        means = np.stack([x.mean(axis=1) for x in drawn])
        middle = middle_mean(drawn) if len(sizes) == 1 else np.full(len(drawn[0]), np.nan)
        gap = np.mean([np.maximum(target - x, 0).mean(axis=1) for x in drawn], axis=0)
        return np.transpose([middle, np.median(means, axis=0), means.mean(axis=0), gap])

    rows: dict[str, dict[str, float]] = {}
    for name, tasks in found.items():
        limits = stratified_bootstrap(tasks, statistics, draws=_DRAWS)
        rows[name] = dict(zip(_columns(*_ESTIMATES), limits.T.ravel().tolist(), strict=True))
    measure = "iqm" if len(sizes) == 1 else "mean"
    best = min(rows, key=lambda name: (1 if lower else -1) * rows[name][measure])
    for name, row in rows.items():
        chance: Sequence[float] = [np.nan] * 3
        if name != best:
            chance = probability_of_improvement(
                found[best], found[name], higher_is_better=not lower, draws=_DRAWS
            )
        row |= dict(zip(_columns("improvement"), chance, strict=True))
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("method")
    table = table.sort_values(measure, ascending=lower, kind="stable")
    table.attrs["target"] = target
    return table


def _columns(*names: str) -> list[str]:
    return [f"{name}{end}" for name in names for end in ("", "_low", "_high")]


def profiles(scores: Scores) -> pd.DataFrame:
    """Return performance profiles: the share of runs above each score, mean over tasks.

    Returns:
        Columns `method`, `score`, `share`, and `low` and `high` of its pointwise 95 % interval.

    References:
        R. Agarwal, M. Schwarzer, P. S. Castro, A. Courville, M. G. Bellemare (2021), Deep
        reinforcement learning at the edge of the statistical precipice, NeurIPS 34.
    """
    found = _by_method(scores)
    pooled = np.concatenate([x for tasks in found.values() for x in tasks.values()])
    low, high = np.percentile(pooled, [0.5, 99.5])
    grid = np.linspace(low, high, _GRID)

    def shares(drawn: Sequence[FloatArray]) -> FloatArray:
        above = [(x[..., None] > grid).mean(axis=1) for x in drawn]
        return np.asarray(np.mean(above, axis=0))

    tables = []
    for name, tasks in found.items():
        limits = stratified_bootstrap(tasks, shares, draws=_DRAWS_OF_BANDS)
        columns = dict(zip(("share", "low", "high"), limits, strict=True))
        tables.append(pd.DataFrame({"method": name, "score": grid, **columns}))
    return pd.concat(tables, ignore_index=True)


def _by_method(scores: Scores) -> Estimates:
    """Return the scores of each method on the tasks that all methods have."""
    names = next(iter(scores.common.values()), {})
    return {name: {task: [*x[name]] for task, x in scores.common.items()} for name in names}


def profile(table: pd.DataFrame, styles: Mapping[str, Style], unit: str) -> Picture:
    """Return a figure of performance profiles with their bands.

    Args:
        table: The `profiles`.
        styles: Style of each method.
        unit: Unit of the scores.

    Example:
        >>> from relation_tf.report.drawing import styles
        >>> shares = {"method": ["dqn", "iqn"], "score": 0.5, "share": [0.2, 0.9]}
        >>> table = pd.DataFrame(shares).assign(low=0, high=1)
        >>> print(profile(table, styles(["dqn", "iqn"]), "").panels[0].alt)
        Share of runs with a score above 0.5, about the median: dqn 20 %, iqn 90 %.
    """
    shares = table.pivot(index="score", columns="method", values="share")
    shares = shares[table["method"].unique()]
    middle = shares.index[int((shares.mean(axis=1) - 0.5).abs().argmin())]
    words = ", ".join(f"{name} {100 * x:.0f} %" for name, x in shares.loc[middle].items())
    alt = f"Share of runs with a score above {middle:.3g}, about the median: {words}."
    look = {str(name): styles[str(name)] for name in shares}
    return Picture(
        "profile", "Share of runs above each score, by method.",
        [Panel("", alt, partial(_draw_profile, table, styles, unit))],
        size=(4.6, 2.8), left=0.6, bottom=0.5, legend=look,
    )  # fmt: skip


def _draw_profile(table: pd.DataFrame, styles: Mapping[str, Style], unit: str, ax: Axes) -> None:
    for name, curve in table.groupby("method", sort=False):
        low, high = 100 * curve["low"], 100 * curve["high"]
        style = styles[str(name)]
        ax.fill_between(curve["score"], low, high, color=style.color, alpha=0.15, linewidth=0)
        ax.plot(curve["score"], 100 * curve["share"], **style.line, linewidth=1.6)
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
        shown = _ESTIMATES if (table["gap"] > 0).any() else [*_ESTIMATES][:-1]
        kinds = [*(_ESTIMATES[name] for name in shown), "Probability of improvement"]
        columns = [Column("Method", "method"), *(Column(name, "number") for name in kinds)]
        rows = [
            Row([str(name), *(_with_interval(row, key, digits) for key in shown),
                 _with_interval(row, "improvement", 2)])
            for name, row in table.to_dict("index").items()
        ]  # fmt: skip
        values = {
            "best": str(table.index[0]),
            "target": table.attrs["target"] if "gap" in shown else None,
        }
        paper = Paper("aggregates", render("aggregates-caption.jinja", **values))
        return blocks(
            "aggregates.jinja",
            table=Table("Table: estimates over tasks", columns, rows, paper=paper),
            picture=profile(part.profiles, part.report.styles, scores.unit),
            lower_is_better=scores.lower_is_better_on(scores.main_tasks[0]),
            tasks=len(scores.common),
            draws=_DRAWS,
            unequal=bool(table["iqm"].isna().all()),
            **values,
        )

    def tables(self, part: Comparison) -> Mapping[str, pd.DataFrame]:
        """Return the estimates and the profiles."""
        if part.aggregates.empty:
            return {}
        return {"aggregates": part.aggregates.reset_index(), "profiles": part.profiles}


def _with_interval(row: Mapping[Any, float], name: str, digits: int) -> Cell:
    value, low, high = (row[x] for x in _columns(name))
    if value != value:
        return Cell()
    return Cell(number(value, digits), notes=[f"{number(low, digits)} to {number(high, digits)}"])
