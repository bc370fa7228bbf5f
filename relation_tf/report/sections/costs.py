"""Learning curves, costs of runs by text length, and scores against costs."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean, median, stdev
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from relation_tf.errors import SuiteError, join_names
from relation_tf.registry import register_section
from relation_tf.report.blocks import Block, Section, blocks, rows_of
from relation_tf.report.diagnostics import not_learned
from relation_tf.report.drawing import Panel, Picture, Style, limit_ticks
from relation_tf.report.scores import Scores
from relation_tf.report.sections.runs import all_runs, load_warnings, read_runs
from relation_tf.report.sections.verdicts import FAVORABLE, Verdicts
from relation_tf.stats.samples import error_of_sum
from relation_tf.tasks.generated import length_of
from relation_tf.tasks.metrics import find_metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

    from relation_tf.bench.results import Results
    from relation_tf.report.data import Comparison, ReportData

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 3.7, 2.5, 0.7, 0.45  # of a panel, in inches
_MANY_METHODS, _TALL = 12, 3.7  # height of a panel in which the points of many methods lie close


# ---- Learning curves ----


@register_section("learning")
class LearningCurves(Section):
    """Validation loss and metric by epoch."""

    heading = "Learning curves"

    def blocks(self, data: ReportData) -> Sequence[Block]:
        """Return the picture."""
        if data.results is None or data.results.suite.timed:
            return []
        panels = [*_learning_panels(data.results, data.styles)]
        if not panels:
            return []
        alt = "Validation loss and metric by epoch, by task and method."
        picture = Picture("learning", alt, panels, size=(3.7, 3.9), legend=data.styles)
        return blocks("learning.jinja", picture=picture, seeds=data.scores.seeds)


def _learning_panels(results: Results, styles: Mapping[str, Style]) -> Iterator[Panel]:
    from relation_tf.config.run import TRANSFERRED

    for task in results.suite.tasks:
        # The epochs of a transfer are those of several trainings.
        runs = [
            run
            for run in results.runs
            if run["task"] == task and run["config"].get("sharing") not in TRANSFERRED
        ]
        if runs:
            metrics = results.suite.find_task(task).metrics[:1]  # empty for some groups
            epochs = f"{min(run['epochs'] for run in runs)} to {max(run['epochs'] for run in runs)}"
            alt = (
                f"{task}, validation {' and '.join(['loss', *metrics])} by epoch, mean and "
                f"standard deviation by method: {len(runs)} runs of {epochs} epochs."
            )
            histories: dict[str, list[tuple[int, pd.DataFrame]]] = {}
            for run in runs:
                histories.setdefault(run["method"], []).append(
                    (run["kept_epoch"], results.history(run))
                )
            draw = partial(_draw_learning, histories, styles, metrics)
            yield Panel(task, alt, draw, axes=1 + len(metrics))


def _draw_learning(
    histories: Mapping[str, Sequence[tuple[int, pd.DataFrame]]],
    styles: Mapping[str, Style],
    metrics: Sequence[str],
    *axes: Axes,
) -> None:
    shown = [("val_loss", 1.0, "validation loss")]
    for metric in metrics:
        known = find_metric(metric)
        name = metric if known.label.endswith(".") else known.label  # not an abbreviation
        label = f"{name}, points" if known.points == 100 else name
        shown.append((f"val_{metric}", known.points, label))
    for ax, (column, factor, label) in zip(axes, shown, strict=True):
        for method, runs in histories.items():
            _draw_runs(ax, runs, column, factor, styles[method])
        ax.set_ylabel(label)
        ax.grid(axis="y")
        limit_ticks(ax.xaxis, 6, integer=True)
        limit_ticks(ax.yaxis, 4)
        ax.tick_params(labelbottom=ax is axes[-1])
    losses = [history["val_loss"] for runs in histories.values() for _, history in runs]
    costs = np.concatenate(losses)[np.isfinite(np.concatenate(losses))]
    if costs.size and costs.min() > 0 and costs.max() > 50 * costs.min():
        axes[0].set_yscale("log")  # a diverged run would flatten all others
        axes[0].yaxis.set_major_formatter(lambda cost, _: f"{cost:g}")
        axes[0].yaxis.set_minor_formatter("")
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
        stacked = np.stack([values[:common] for values in curves])
        epochs, mean, sd = epochs[:common], stacked.mean(axis=0), stacked.std(axis=0, ddof=1)
        ax.fill_between(epochs, mean - sd, mean + sd, color=style.color, alpha=0.15, linewidth=0)
        ax.plot(epochs, mean, **style.line, linewidth=1.6)


# ---- Scores against costs of their runs ----


@register_section("time")
class Costs(Section):
    """Score against time and parameters."""

    heading = "Score and cost"

    def blocks(self, data: ReportData) -> Sequence[Block]:
        """Return the figures."""
        results, costs = data.results, data.run_costs
        if results is None or results.suite.timed or costs.empty:
            return []
        return blocks(
            "costs.jinja",
            pictures=[*_scores_against(data, results)],
            seeds=data.scores.seeds,
            threads=results.suite.threads,
        )


def _scores_against(data: ReportData, results: Results) -> Iterator[Picture]:
    """Iterate over the figures of score against time and against parameters."""
    scores = data.scores
    done = data.suite_runs[data.suite_runs["status"] == "done"]
    for name, column, label in (
        ("time", "seconds_epoch", "seconds per epoch"),
        ("parameters", "without_embedding", "parameters without embedding"),
    ):
        panels = []
        for task in results.suite.tasks:
            # MNLI is trained once and scored on two sets; a group's score is the mean of its tasks.
            firsts = [next(iter(x.scored)) for x in results.suite.find_task(task).each()]
            table = scores.table[scores.table["task"].isin(firsts)]
            means = table.groupby(["method", "seed"], sort=False)["score"].mean()
            means *= scores.factor(firsts[0])
            costs = dict(iter(done[done["task"] == task].groupby("method")[column]))
            points = []
            for method in scores.methods:
                if method in means.index and method in costs:
                    values = [*means[method]]
                    mean, sd = fmean(values), stdev(values) if len(values) > 1 else math.nan
                    kind = _DEVIATION if len(values) > 1 else ""
                    score = MeanScore(mean, mean - sd, mean + sd, kind)
                    points.append(Point(method, [*costs[method]], score))
            points = [x for x in points if np.isfinite([*x.costs, x.score.value]).all()]
            if len({cost for point in points for cost in point.costs}) > 1:
                unit = _unit(scores, firsts[0] in scores.lower_is_better)
                panels.append(score_panel(task, points, label, unit, data.styles))
        if panels:
            title = f"Mean score against {label}, by task and method."
            yield score_picture(name, title, panels, data.styles)


def _unit(scores: Scores, lower: bool) -> str:
    return f"{scores.unit or 'score'}{', lower is better' if lower else ''}"


CONFIDENCE, RANGE = "95 % confidence interval", "range over seeds"
"""Kinds of intervals of `MeanScore`."""
_DEVIATION = "standard deviation"


class MeanScore(NamedTuple):
    """Mean score with an interval.

    Attributes:
        value: The mean over seeds; over several tasks, the mean of their means.
        low: Lower end of the interval; NaN if a task has one seed.
        high: Upper end.
        kind: `CONFIDENCE`, `RANGE` (over several tasks, the mean of the lowest scores of the tasks
            to that of the highest), or empty if a task has one seed.
    """

    value: float
    low: float
    high: float
    kind: str


class Point(NamedTuple):
    """A method in a figure of scores: its name, the costs of its runs and its mean score."""

    method: str
    costs: Sequence[float]
    score: MeanScore

    @property
    def words(self) -> str:
        """Name, score and cost for the text of a figure."""
        value, lowest, highest, kind = self.score
        spread = f" ({lowest:.3g} to {highest:.3g}, {kind})" if kind else ""
        low, high = _number(min(self.costs)), _number(max(self.costs))
        ends = f" ({low} to {high})" if low != high else ""
        return f"{self.method} {value:.3g}{spread} at {_number(median(self.costs))}{ends}"


def score_panel(
    title: str,
    points: Sequence[Point],
    label: str,
    unit: str,
    styles: Mapping[str, Style],
    *,
    limits: tuple[float, float] = (-math.inf, math.inf),
) -> Panel:
    """Return a panel of mean scores against median costs, with the range of the costs.

    Args:
        title: Title of the panel.
        points: The methods.
        label: Name of the cost.
        unit: Unit of the scores.
        styles: Style of each method.
        limits: Lowest and highest possible score; the axis ends there.

    Example:
        >>> from relation_tf.report.drawing import styles
        >>> points = [Point("mlp", [1.4, 1.6], MeanScore(9.0, 8.0, 10.0, RANGE))]
        >>> panel = score_panel("CoLA", points, "seconds", "points", styles(["mlp"]))
        >>> print(panel.alt)  # doctest: +NORMALIZE_WHITESPACE
        CoLA, mean score in points against seconds: mlp 9 (8 to 10, range over seeds) at 1.5 (1.4 to
        1.6).
    """
    shown = unit if unit.startswith("score") else f"score in {unit}"
    alt = f"{title}, mean {shown} against {label}: {', '.join(point.words for point in points)}."

    def draw(ax: Axes) -> None:
        for method, costs, (mean, low, high, kind) in points:
            style, cost = styles[method], median(costs)
            dotted: dict[str, Any] = {"linestyle": ":", "marker": "_", "markeredgewidth": 1}
            ax.plot(
                [cost, cost], [low, high], color=style.color, **(dotted if kind == RANGE else {})
            )
            ax.plot([min(costs), max(costs)], [mean, mean], color=style.color)
            ax.plot(cost, mean, **style.mark, markersize=7, clip_on=False)
        costs = [cost for point in points for cost in point.costs]
        if 0 < 20 * min(costs) < max(costs):
            ax.set_xscale("log")
            ax.set_xlim(_logarithmic(ax.xaxis, costs))
        else:
            ax.set_xlim(min(0, 1.1 * min(costs)), 1.1 * max(costs) or 1)
            limit_ticks(ax.xaxis, 4)
            ax.xaxis.set_major_formatter(_tick)
        ax.margins(y=0.2)
        low, high = ax.get_ylim()
        ax.set_ylim(max(low, limits[0]), min(high, limits[1]))
        ax.grid()
        limit_ticks(ax.yaxis, 4)
        ax.set(xlabel=label, ylabel=unit)

    return Panel(title, alt, draw)


def score_picture(
    name: str, title: str, panels: list[Panel], styles: Mapping[str, Style]
) -> Picture:
    """Return a figure of panels from `score_panel`."""
    size = (_WIDTH, _TALL if len(styles) > _MANY_METHODS else _HEIGHT)
    return Picture(name, title, panels, size=size, left=_LEFT, bottom=_BOTTOM, legend=styles)


def _logarithmic(axis: Axis, values: Iterable[float]) -> tuple[float, float]:
    """Set round ticks on a logarithmic axis and return its limits with a margin.

    The start of a range can be 0: a run may need no memory beyond that of its process.
    """
    from matplotlib.ticker import LogLocator, MaxNLocator

    positive = [value for value in values if value > 0]
    low, high = min(positive), max(positive)
    margin = max(high / low, 1.5) ** 0.08
    low, high = low / margin, high * margin
    subs = (1.0, 3.0) if high < 1000 * low else (1.0,)
    locator = MaxNLocator(4) if high < 10 * low else LogLocator(subs=subs)
    axis.set_ticks([tick for tick in locator.tick_values(low, high) if low <= tick <= high])
    axis.set_major_formatter(_tick)
    axis.set_ticks([], minor=True)
    return low, high


def _tick(value: float, _place: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g} {letter}"
    return f"{value:.4g}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


# ---- Costs of timed suites by length ----

_BY_LENGTH = {
    "milliseconds": ("Time", "ms per {}"),
    "pass_mib": ("Memory", "MiB"),
    "state_kib": ("Memory for earlier tokens", "KiB"),
}


@register_section("lengths")
class TokenCosts(Section):
    """Time and memory of timed tasks against the text length."""

    heading = "Time and memory by length"

    def blocks(self, data: ReportData) -> Sequence[Block]:
        """Return the picture."""
        results, costs = data.results, data.run_costs
        if results is None or not results.suite.timed or costs.empty:
            return []
        decoding = results.suite.timed == "decoding"
        costs = costs.assign(
            milliseconds=1000 * costs["seconds_batch" if decoding else "seconds_epoch"],
            state_kib=1024 * costs["state_mib"],
        )
        panels = []
        for column, (title, unit) in _BY_LENGTH.items():
            rows = costs[costs[column].between(0, math.inf, inclusive="neither")]
            if rows["mean_length"].nunique() > 1:
                unit = unit.format("step" if decoding else "pass")
                panels.append(length_panel(rows, column, title, unit, data.styles))
        if not panels:
            return []
        picture = Picture(
            "lengths", "Time and memory against mean text length, by method.", panels,
            size=(_WIDTH, _HEIGHT), left=_LEFT, bottom=_BOTTOM, legend=data.styles,
        )  # fmt: skip
        return blocks("lengths.jinja", picture=picture, decoding=decoding)


def length_panel(
    rows: pd.DataFrame, column: str, title: str, unit: str, styles: Mapping[str, Style]
) -> Panel:
    """Return a panel of a cost against the text length; a vertical line is the range over runs.

    Args:
        rows: Columns `method`, `mean_length`, the cost, and optionally its `_low` and `_high`.
        column: Name of the cost's column.
        title: Title of the panel.
        unit: Unit of the cost.
        styles: Style of each method.
    """
    rows = rows.sort_values("mean_length", kind="stable")
    by_method = {str(method): group for method, group in rows.groupby("method", sort=False)}
    words = []
    for method, group in by_method.items():
        values = zip(group[column], group["mean_length"], strict=True)
        words.append(f"{method} " + ", ".join(f"{_number(x)} at {_number(n)}" for x, n in values))

    def draw(ax: Axes) -> None:
        for method, group in by_method.items():
            style = styles[method]
            x, y = group["mean_length"], group[column]
            ax.plot(x, y, **style.line, marker=style.marker, markersize=5)
            if f"{column}_low" in group:
                ends = group[f"{column}_low"], group[f"{column}_high"]
                ax.vlines(x, *ends, color=style.color, linewidth=1)
        ranges = [name for name in (column, f"{column}_low", f"{column}_high") if name in rows]
        ax.set(xscale="log", yscale="log", xlabel="mean length, tokens", ylabel=unit)
        ax.set_xlim(_logarithmic(ax.xaxis, rows["mean_length"]))
        ax.set_ylim(_logarithmic(ax.yaxis, rows[ranges].to_numpy(dtype=float).ravel()))
        ax.grid(axis="y")

    return Panel(title, f"{title} in {unit} by mean length: {'; '.join(words)}.", draw)


# ---- Scores against the costs of timed suites ----


class Measure(NamedTuple):
    """A cost that timed runs record.

    Attributes:
        name: Name of its picture.
        label: Name with unit.
        column: Its column of the runs.
        factor: Factor that converts the column to the unit.
        more_is_better: If True, higher is better.
    """

    name: str
    label: str
    column: str
    factor: float = 1.0
    more_is_better: bool = False


MEASURES: dict[str, tuple[Measure, ...]] = {
    "training": (
        Measure("speed", "training speed, tokens/s", "tokens_second", more_is_better=True),
        Measure("memory", "peak memory of a training pass, MiB", "pass_mib"),
        Measure("state", "state size, KiB", "state_mib", 1024),
    ),
    "decoding": (
        Measure("decoding", "decoding speed, tokens/s", "tokens_second", more_is_better=True),
        Measure("decoder-state", "state size of the decoder, KiB", "state_mib", 1024),
    ),
}
"""Measures of each kind of timed suite."""


def read_costs(sources: Sequence[Results | str | Path], methods: Sequence[str]) -> pd.DataFrame:
    """Return the costs of methods in timed suites, by text length.

    Args:
        sources: Folders of the suites, their results, or folders with `suite.toml` and `runs.csv`
            of their reports; at most one of each kind.
        methods: The methods to look for, by name.

    Returns:
        Columns `suite`, `processor`, `measure` (its name), `label`, `tokens`, `method`, `typical`
        (median over the runs), `low`, `high` (range over the runs), `runs`, `more_is_better`, and
        `slowed` (True if other programs slowed runs of the suite down).

    Raises:
        SuiteError: If a folder is not that of a timed suite, or has no finished run of any method,
            or runs of a task that is not timed, or two suites measure the same.
    """
    if not sources:
        return pd.DataFrame()
    from relation_tf.bench.results import read_results

    kinds: dict[str, Results] = {}
    rows: list[dict[str, object]] = []
    for source in sources:
        results = read_results(source) if isinstance(source, str | os.PathLike) else source
        suite = results.suite
        if not suite.timed:
            raise SuiteError(
                f"{results.folder}: suite {suite.name!r} is not a timed suite. Costs must come "
                "from a timed suite, such as mechanism-speed"
            )
        earlier = kinds.setdefault(suite.timed, results)
        if earlier is not results:
            raise SuiteError(
                f"{results.folder}: measures {suite.timed} like {earlier.folder}. Time all methods "
                "in one suite, so that they are measured together"
            )
        costs = [*_rows(results, methods)]
        if not costs:
            timed = [str(method.name) for method in suite.methods()]
            raise SuiteError(
                f"{results.folder}: no finished run of a compared method. Compared: "
                f"{join_names(methods)}. Timed: {join_names(timed)}. Methods are matched by name: "
                "give them the same `name` in both suites, or finish the timed suite"
            )
        rows += costs
    return pd.DataFrame(rows)


def _rows(results: Results, methods: Sequence[str]) -> Iterator[dict[str, object]]:
    suite, file = results.suite, results.folder / "runs.csv"
    measures = MEASURES[suite.timed]
    runs = all_runs(results) if results.runs else read_runs(results.folder)
    if runs.empty:
        return
    for column in (measure.column for measure in measures):
        if column not in runs or runs[column].dtype.kind not in "if":
            raise SuiteError(f"{file}: must have numbers in column {column!r}")
    done = runs[(runs["status"] == "done") & runs["method"].isin(methods)]
    slowed = any(load_warnings(done))
    done = done.assign(processor=done.get("processor", ""))
    for measure in measures if len(done) else ():
        for (task, method), group in done.groupby(["task", "method"], sort=False):
            values = group[measure.column].dropna() * measure.factor
            if len(values):
                yield {
                    "suite": suite.name,
                    "processor": " and ".join(map(str, group["processor"].dropna().unique())),
                    "measure": measure.name,
                    "label": measure.label,
                    "tokens": length_of(suite.find_task(str(task))),
                    "method": str(method),
                    "typical": float(values.median()),
                    "low": float(values.min()),
                    "high": float(values.max()),
                    "runs": len(values),
                    "more_is_better": measure.more_is_better,
                    "slowed": slowed,
                }


def collapsed_networks(scores: Scores, collapsed: pd.DataFrame) -> set[tuple[str, str]]:
    """Return the networks and methods with collapsed runs."""
    runs = zip(collapsed["task"], collapsed["method"], strict=True)
    return {(scores.network(task), method) for task, method in runs}


def mean_scores(scores: Scores, collapsed: pd.DataFrame) -> dict[str, dict[str, MeanScore]]:
    """Return mean scores with intervals over seeds, in the unit of the tables.

    Diagnostic tasks that the reference does not learn are left out, as in the verdicts.

    Args:
        scores: The scores.
        collapsed: Result of `collapsed_runs`; a mean with such a run has a range over seeds.

    Returns:
        "mean of N tasks" -> method -> mean, for the tasks that all methods have; task -> method ->
        mean if there is one task, or if units or directions differ.
    """
    unlearned, lost = _unlearned(scores), collapsed_networks(scores, collapsed)
    common = {name: samples for name, samples in scores.common.items() if name not in unlearned}
    parts = {name: {name: samples} for name, samples in scores.by_network.items()
             if samples and name not in unlearned}  # fmt: skip
    if len(common) > 1 and scores.comparable:
        parts = {f"mean of {len(common)} tasks": common}
    means: dict[str, dict[str, MeanScore]] = {}
    for title, part in parts.items():
        for name in next(iter(part.values())):
            any_collapsed = any((network, name) in lost for network in part)
            by_task = [samples[name] for samples in part.values()]
            means.setdefault(title, {})[name] = mean_of(by_task, collapsed=any_collapsed)
    return means


def _unlearned(scores: Scores) -> list[str]:
    """Return the diagnostic tasks that the reference does not learn."""
    reference = scores.judged_against
    unlearned = [] if reference is None else not_learned(scores, reference)
    return [name for name in unlearned if name in scores.main_tasks]


def mean_of(samples: Sequence[Sequence[float]], *, collapsed: bool = False) -> MeanScore:
    """Return the mean over tasks of the means over seeds, with its interval over seeds.

    Args:
        samples: Scores of the seeds, by task. The degrees of freedom are Welch's.
        collapsed: If True, some runs learned nothing: a t interval covers the true mean too rarely,
            so the interval is the range over seeds. So it is if the scores do not vary.

    Example:
        >>> mean_of([[0.5, 0.75, 1.0], [0.25, 0.5, 0.75]], collapsed=True)
        MeanScore(value=0.625, low=0.375, high=0.875, kind='range over seeds')
    """
    mean, low, high = (
        float(np.mean([*map(function, samples)])) for function in (np.mean, min, max)
    )
    if min(map(len, samples)) < 2:
        return MeanScore(mean, math.nan, math.nan, "")
    error, freedom = error_of_sum([np.asarray(values) for values in samples])
    if collapsed or not error:
        return MeanScore(mean, low, high, RANGE)
    from scipy.stats import t

    half = float(t.ppf(0.975, freedom)) * error / len(samples)
    return MeanScore(mean, mean - half, mean + half, CONFIDENCE)


@register_section("trade-offs")
class TradeOffs(Section):
    """Score against speed, memory and state bytes of timed suites."""

    heading = "Score against speed and memory"
    by_family = True

    def blocks(self, part: Comparison) -> Sequence[Block]:
        """Return the methods that are no worse and cheaper, and the figures."""
        costs, verdicts = part.timed_costs, part.verdicts
        if part.report.timed_costs.empty:
            return []
        scores = mean_scores(part.scores, part.collapsed)
        kinds = {mean.kind for means in scores.values() for mean in means.values()}
        measured = [name for name in part.scores.methods if scores and name in {*costs["method"]}]
        without = [name for name in part.scores.methods if name not in measured]
        if not measured:
            return blocks("> No costs: {{ without|listed }}.", without=without)
        measures = [table for _, table in costs.groupby("measure", sort=False)]
        sources = []
        for suite, group in costs.groupby("suite", sort=False):
            runs = group[group["measure"] == group["measure"].iloc[0]]["runs"].sum()
            sources.append({"suite": suite, "runs": int(runs), "slowed": group["slowed"].any(),
                            "processors": [*dict.fromkeys(group["processor"])]})  # fmt: skip
        return blocks(
            "trade-offs.jinja",
            part=part,
            without=without,
            unlearned=_unlearned(part.scores),
            ranges=RANGE in kinds,
            one_seed="" in kinds,
            averaged=any(title.startswith("mean of ") for title in scores),
            cheaper=None
            if verdicts is None or verdicts.mean is None
            else {_label(table): _cheaper(table, verdicts, measured) for table in measures},
            pictures=[*_pictures(part, measures, scores)],
            sources=sources,
        )

    def tables(self, part: Comparison) -> Mapping[str, pd.DataFrame]:
        """Return the costs with the mean scores."""
        costs = part.timed_costs
        scores = {} if costs.empty else mean_scores(part.scores, part.collapsed)
        if not scores:
            return {}
        names = ["score_of", "method", "score", "score_low", "score_high", "score_interval"]
        rows = [(title, x, *mean) for title, means in scores.items() for x, mean in means.items()]
        return {"trade_offs": pd.DataFrame(rows, columns=names).merge(costs, on="method")}


def _label(costs: pd.DataFrame) -> str:
    return str(costs["label"].iloc[0])


def _cheaper(
    costs: pd.DataFrame, verdicts: Verdicts, measured: Sequence[str]
) -> dict[int, list[str] | None] | None:
    """Return by length the methods that are no worse than the reference and cheaper in all runs.

    None for speeds of runs that other programs slowed down; None instead of the methods if the
    reference was not measured.
    """
    if costs["slowed"].any() and costs["more_is_better"].all():
        return None
    assert verdicts.mean is not None
    favorable = verdicts.mean.index[verdicts.mean["verdict"].isin(FAVORABLE)]
    good = [str(name) for name in favorable if name in measured]
    cheaper: dict[int, list[str] | None] = {}
    for tokens, group in costs.groupby("tokens"):
        rows = {row.method: row for row in rows_of(group)}
        reference = rows.get(verdicts.reference)
        cheaper[int(str(tokens))] = None if reference is None else [
            name for name, row in rows.items()
            if name in good
            and (row.low > reference.high if row.more_is_better else row.high < reference.low)
        ]  # fmt: skip
    return cheaper


def _pictures(
    part: Comparison,
    measures: Sequence[pd.DataFrame],
    scores: Mapping[str, Mapping[str, MeanScore]],
) -> Iterator[Picture]:
    """Yield a figure per measure, with panels for the shortest and the longest text."""
    for costs in measures:
        label, panels = _label(costs), []
        for title, means in scores.items():
            for tokens in sorted({costs["tokens"].min(), costs["tokens"].max()}):
                points = [
                    Point(row.method, [row.low, row.typical, row.high], means[row.method])
                    for row in rows_of(costs[costs["tokens"] == tokens])
                    if row.method in means
                ]
                if len(points) > 1:
                    heading = f"{title}; " if len(scores) > 1 else ""
                    heading += f"{tokens:,} tokens"
                    unit = _unit(part.scores, part.scores.lower_is_better_on(title))
                    panels.append(score_panel(heading, points, label, unit, part.report.styles))
        if panels:
            name, title = costs["measure"].iloc[0], f"Mean score against {label}, by method."
            yield score_picture(f"trade-offs-{name}", title, panels, part.report.styles)
