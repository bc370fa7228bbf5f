"""The pictures: every seed as a dot, learning curves, time against score.

Each is drawn panel by panel. The page takes the panels one by one, so that they flow to its width
and take its colours; Markdown takes them as one picture.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from markupsafe import Markup, escape
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from relation_tf.bench.results import Results
from relation_tf.report.tables import columns, method_names, rows_of
from relation_tf.stats import mean_interval

# Okabe and Ito's colours that can be told apart and show on white and on black, then grey.
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7f7f7f")
# Their number has no factor in common with that of the colours: 70 different pairs.
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
_INK, _GRID, _PAPER = "#1b1b1d", "#d9d9dc", "#ffffff"
_STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": _GRID,
    "axes.labelcolor": _INK,
    "axes.titlecolor": _INK,
    "axes.axisbelow": True,
    "axes.facecolor": "none",
    "axes.formatter.useoffset": False,
    "figure.facecolor": _PAPER,
    "grid.color": _GRID,
    "grid.linewidth": 0.6,
    "text.color": _INK,
    "xtick.color": _GRID,
    "ytick.color": _GRID,
    "xtick.labelcolor": _INK,
    "ytick.labelcolor": _INK,
    "lines.linewidth": 0.9,
    "legend.frameon": False,
    "savefig.facecolor": _PAPER,
    "svg.fonttype": "none",
}  # fmt: skip

_ACROSS = 3  # panels of a file
_TOP, _RIGHT, _GAP = 0.3, 0.1, 0.12  # margins of a panel and between its axes, in inches

Draw = Callable[[Sequence[Axes]], None]


@dataclass(frozen=True)
class Style:
    """How a method is drawn, in every picture."""

    color: str
    marker: str
    dashes: str


@dataclass(frozen=True)
class Panel:
    """One panel of a picture.

    Attributes:
        title: What it shows.
        alt: The same in words, for those who do not see it.
        draw: Draws it on `axes` axes, one below the other.
        axes: How many.
    """

    title: str
    alt: str
    draw: Draw
    axes: int = 1


@dataclass(frozen=True)
class Picture:
    """Panels that belong together.

    Attributes:
        name: Of the file.
        alt: What it shows, for those who do not see it.
        panels: In order.
        size: Of a panel, width and height in inches.
        left: Its left margin in inches.
        bottom: Its bottom margin in inches.
        legend: The methods to explain, where the panels do not name them.
    """

    name: str
    alt: str
    panels: list[Panel]
    size: tuple[float, float]
    left: float
    bottom: float
    legend: dict[str, Style]

    @cached_property
    def inline(self) -> list[Markup]:
        """Each panel as an SVG element that takes the colours of its page."""
        return [
            _inline(self._figure([panel], 1), f"{self.name} {panel.title}", panel.alt)
            for panel in self.panels
        ]

    def svg(self) -> str:
        """All panels in one SVG file on white."""
        width, height = (72 * inches for inches in self.size)
        across = width * min(_ACROSS, len(self.panels))
        step = 42 + 5.5 * max(map(len, self.legend), default=0)
        in_a_row = max(1, int(across / step))
        parts = []
        for i, (name, style) in enumerate(self.legend.items()):
            x, y = 10 + i % in_a_row * step, i // in_a_row * 18
            parts.append(_placed(swatch(style), x, y + 4, 24.48, 12.96))
            parts.append(f'<text x="{x + 30}" y="{y + 14}" font-size="9">{escape(name)}</text>')
        top = 18 * math.ceil(len(self.legend) / in_a_row)
        for i, panel in enumerate(self.inline):
            row, column = divmod(i, _ACROSS)
            parts.append(_placed(panel, column * width, row * height + top, width, height))
        down = height * math.ceil(len(self.panels) / _ACROSS) + top
        size = f'width="{across:.0f}" height="{down:.0f}"'
        drawing = "\n".join(parts).replace("var(--rule)", _GRID).replace("currentColor", _INK)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" role="img"'
            f' aria-label="{escape(self.alt)}">\n'
            f'<rect {size} fill="{_PAPER}"/>\n{drawing}\n</svg>\n'
        )

    def png(self) -> bytes:
        """All panels as a PNG on white."""
        return _save(self._figure(self.panels, min(_ACROSS, len(self.panels))), "png")

    def _figure(self, panels: Sequence[Panel], across: int) -> Figure:
        """Panels side by side, their axes at fixed places so that those of all panels align."""
        width, height = self.size
        down = math.ceil(len(panels) / across)
        with mpl.rc_context(_STYLE):
            figure = Figure(figsize=(width * across, height * down))
            for i, panel in enumerate(panels):
                row, column = divmod(i, across)
                tall = (height - _TOP - self.bottom - _GAP * (panel.axes - 1)) / panel.axes
                own = []
                for j in range(panel.axes):
                    y = height * (down - row) - _TOP - tall * (j + 1) - _GAP * j
                    place = (column * width + self.left, y, width - self.left - _RIGHT, tall)
                    own.append(figure.add_axes(_relative(place, figure)))
                panel.draw(own)
                own[0].set_title(panel.title)
        return figure


def styles(results: Results) -> dict[str, Style]:
    """A colour, a marker and a line for each method, by its place in the suite."""
    return {
        name: Style(
            _COLORS[i % len(_COLORS)],
            _MARKERS[i % len(_MARKERS)],
            ("-", "--", ":")[i // len(_COLORS) % 3],
        )
        for i, name in enumerate(method_names(results))
    }


def swatch(style: Style) -> Markup:
    """A method's line and marker, to stand before its name."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(0.34, 0.18))
        axes = figure.add_axes((0, 0, 1, 1), frameon=False, xticks=[], yticks=[])
        axes.add_line(_handle(style, xdata=[0.05, 0.5, 0.95], markevery=[1], markersize=6.5))
        axes.set(xlim=(0, 1), ylim=(-1, 1))
    return _inline(figure, f"swatch {style}", "")


def pictures(results: Results, how: pd.DataFrame) -> list[Picture]:
    """The pictures that the results allow.

    Args:
        results: The finished runs.
        how: `how_run` of them.
    """
    if not results.runs:
        return []
    look = styles(results)
    height = 0.6 + 0.27 * len(look)
    names = 0.15 + 0.075 * max(map(len, look))
    return [
        Picture(
            "scores",
            "The score of every seed, mean and 95 % t interval, by task and method.",
            _score_panels(results, look),
            size=(2.4 + names, height),
            left=names,
            bottom=0.3,
            legend={},
        ),
        Picture(
            "learning",
            "Validation cost and metric by epoch, by task and method.",
            _learning_panels(results, look),
            size=(3.7, 3.9),
            left=0.6,
            bottom=0.45,
            legend=look,
        ),
        Picture(
            "time",
            "Mean score against the median time of an epoch, by task and method.",
            _time_panels(results, how, look),
            size=(3.7, 2.4),
            left=0.6,
            bottom=0.45,
            legend=look,
        ),
    ]


def _score_panels(results: Results, look: dict[str, Style]) -> list[Panel]:
    panels = []
    for task in columns(results):
        samples = results.samples(task)
        if samples:
            means = ", ".join(
                f"{name} {100 * np.mean(scores):.1f} ({len(scores)})"
                for name, scores in samples.items()
            )
            alt = f"{task}, score of every seed in points; means (and seeds): {means}."
            panels.append(Panel(task, alt, _draw_scores(samples, look)))
    return panels


def _draw_scores(samples: dict[str, list[float]], look: dict[str, Style]) -> Draw:
    def draw(axes: Sequence[Axes]) -> None:
        (ax,) = axes
        for y, (name, style) in enumerate(look.items()):
            points = 100 * np.array(samples.get(name, []), dtype=float)
            ax.plot(points, np.full(len(points), y + 0.16), color=style.color, marker=style.marker,
                    linestyle="none", markersize=4.5, alpha=0.65, markeredgewidth=0)  # fmt: skip
            if len(points) and np.isfinite(points).all():
                ax.plot([points.mean()] * 2, [y - 0.32, y], color=style.color, linewidth=2)
            if len(points) > 1 and np.isfinite(points).all():
                ax.plot(mean_interval(points), [y - 0.16] * 2, color=style.color, linewidth=1.2)
        ax.set_yticks(range(len(look)), list(look))
        ax.set_ylim(len(look) - 0.5, -0.6)
        ax.tick_params(axis="y", length=0)
        ax.grid(axis="x")
        ax.spines["left"].set_visible(False)
        ax.xaxis.set_major_locator(MaxNLocator(5))

    return draw


def _learning_panels(results: Results, look: dict[str, Style]) -> list[Panel]:
    panels = []
    for task in results.suite.tasks:
        runs = [run for run in results.runs if run["task"] == task]
        if runs:
            metric = results.suite.find_task(task).metrics[0]
            epochs = f"{min(run['epochs'] for run in runs)} to {max(run['epochs'] for run in runs)}"
            alt = (
                f"{task}, validation cost and {metric} by epoch, a line for each of {len(runs)} "
                f"runs, which took {epochs} epochs."
            )
            histories = [(look[run["method"]], run, results.history(run)) for run in runs]
            panels.append(Panel(task, alt, _draw_learning(histories, metric), axes=2))
    return panels


def _draw_learning(
    histories: list[tuple[Style, dict[str, Any], pd.DataFrame]], metric: str
) -> Draw:
    def draw(axes: Sequence[Axes]) -> None:
        for ax, column, factor, label in zip(
            axes,
            ("val_loss", f"val_{metric}"),
            (1, 100),
            ("validation cost", f"{metric}, points"),
            strict=True,
        ):
            for style, run, history in histories:
                epochs = history["epoch"].to_numpy()
                values = factor * history[column].to_numpy(dtype=float)
                values = np.where(np.isfinite(values), values, np.nan)
                ax.plot(epochs, values, color=style.color, linestyle=style.dashes, alpha=0.75)
                kept = epochs == run["kept_epoch"]
                ax.plot(epochs[kept], values[kept], color=style.color, marker=style.marker,
                        markersize=4.5, markeredgewidth=0, linestyle="none")  # fmt: skip
            ax.set_ylabel(label)
            ax.grid(axis="y")
            ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
            ax.yaxis.set_major_locator(MaxNLocator(4))
        costs = np.concatenate([history["val_loss"].to_numpy() for *_, history in histories])
        costs = costs[np.isfinite(costs)]
        if costs.size and costs.min() > 0 and costs.max() > 50 * costs.min():
            axes[0].set_yscale("log")  # a run that went astray would flatten all others
        axes[0].tick_params(labelbottom=False)
        axes[-1].set_xlabel("epoch")

    return draw


def _time_panels(results: Results, how: pd.DataFrame, look: dict[str, Style]) -> list[Panel]:
    panels = []
    for task in results.suite.tasks:
        rows = how[how["task"] == task]
        if len(rows):
            first = next(iter(results.suite.find_task(task).scored))
            samples = results.samples(first)
            points = {
                row.method: (row.seconds_epoch, 100 * float(np.mean(samples[row.method])))
                for row in rows_of(rows)
            }
            values = ", ".join(f"{name} {x:.2g} s, {y:.1f}" for name, (x, y) in points.items())
            alt = f"{first}, median seconds an epoch against mean score in points: {values}."
            panels.append(Panel(first, alt, _draw_time(points, look)))
    return panels


def _draw_time(points: dict[str, tuple[float, float]], look: dict[str, Style]) -> Draw:
    def draw(axes: Sequence[Axes]) -> None:
        (ax,) = axes
        for name, (x, y) in points.items():
            ax.plot(x, y, color=look[name].color, marker=look[name].marker, linestyle="none",
                    markersize=7, markeredgewidth=0)  # fmt: skip
        ax.set_xlim(left=0, right=1.1 * max(x for x, _ in points.values()))
        ax.margins(y=0.2)
        ax.grid()
        ax.xaxis.set_major_locator(MaxNLocator(5))
        ax.yaxis.set_major_locator(MaxNLocator(4))
        ax.set_xlabel("seconds an epoch")
        ax.set_ylabel("points")

    return draw


def _handle(style: Style, *, xdata: Sequence[float] = (), **kwargs: Any) -> Line2D:
    return Line2D(xdata, [0] * len(xdata), color=style.color, marker=style.marker,
                  linestyle=style.dashes, markeredgewidth=0, **kwargs)  # fmt: skip


def _relative(place: tuple[float, ...], figure: Figure) -> tuple[float, float, float, float]:
    x, y, width, height = place
    across, down = figure.get_size_inches()
    return x / across, y / down, width / across, height / down


def _placed(svg: Markup, x: float, y: float, width: float, height: float) -> str:
    place = f'<svg x="{x:.0f}" y="{y:.0f}" width="{width:.2f}" height="{height:.2f}"'
    return place + str(svg).removeprefix("<svg")


def _save(figure: Figure, format: str) -> bytes:
    buffer = io.BytesIO()
    # No date and no version: equal results give equal bytes.
    unsaid = ("Date", "Creator", "Format", "Type") if format == "svg" else ("Software",)
    figure.savefig(buffer, format=format, dpi=160, metadata=dict.fromkeys(unsaid))
    content = buffer.getvalue()
    if format == "png":
        return content
    # A tenth of a point is enough for a place; what is written stays whole.
    return re.sub(rb"<[^>]*>", lambda tag: re.sub(rb"(\d\.\d)\d+", rb"\1", tag[0]), content)


def _inline(figure: Figure, salt: str, alt: str) -> Markup:
    with mpl.rc_context({**_STYLE, "svg.hashsalt": salt}):
        svg = _save(figure, "svg").decode()
    svg = svg[svg.index("<svg") :]
    box = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    assert box is not None
    label = f'role="img" aria-label="{escape(alt)}"' if alt else 'aria-hidden="true"'
    svg = re.sub(r"^<svg[^>]*>", f'<svg {label} {box[0]} stroke-linejoin="round">', svg)
    # The style element would style the whole page.
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|<style.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)  # the same in every picture, so not unique
    svg = svg.replace("xlink:href", "href").replace(_INK, "currentColor")
    svg = svg.replace(_PAPER, "none").replace(_GRID, "var(--rule)")
    return Markup(re.sub(r"\s*\n\s*", " ", svg).replace(" L ", "L").strip())
