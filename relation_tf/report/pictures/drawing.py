"""How every picture is drawn: one look a method, panels with words, colours of the page.

A picture is drawn panel by panel. The page takes the panels one by one, so that they flow to its
width and take its colours; Markdown takes them as one picture.
"""

from __future__ import annotations

import functools
import io
import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import matplotlib as mpl
import numpy as np
from markupsafe import Markup, escape
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

# Okabe and Ito's colours that can be told apart and show on white and on black, then grey.
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7f7f7f")
# Their number has no factor in common with that of the colours: 70 different pairs.
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
INK, GRID, PAPER = "#1b1b1d", "#d9d9dc", "#ffffff"
SHADE = "#0072b2"  # of the cells of a heat map
_STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GRID,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.axisbelow": True,
    "axes.facecolor": "none",
    "axes.formatter.useoffset": False,
    "figure.facecolor": PAPER,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "text.parse_math": False,  # a name may have a dollar sign
    "xtick.color": GRID,
    "ytick.color": GRID,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "lines.linewidth": 0.9,
    "lines.markeredgewidth": 0,
    "legend.frameon": False,
    "savefig.facecolor": PAPER,
    "svg.fonttype": "none",
}  # fmt: skip

_WIDE = 11.2  # inches of a file, as far as whole panels fill them
_TOP, _RIGHT, _GAP = 0.3, 0.1, 0.12  # margins of a panel and between its axes, in inches

Draw = Callable[..., None]  # of axes, one below the other


@dataclass(frozen=True)
class Style:
    """How a method is drawn, in every picture."""

    color: str
    marker: str
    dashes: str

    @property
    def line(self) -> dict[str, Any]:
        """Options of a line in the method's look, without marks."""
        return {"color": self.color, "linestyle": self.dashes}

    @property
    def mark(self) -> dict[str, Any]:
        """Options of marks in the method's look, without a line."""
        return {"color": self.color, "marker": self.marker, "linestyle": "none"}


@dataclass(frozen=True)
class Panel:
    """One panel of a picture.

    Attributes:
        title: What it shows.
        alt: The same in words, for those who do not see it.
        draw: Draws it on `axes` axes.
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
    left: float = 0.6
    bottom: float = 0.45
    legend: Mapping[str, Style] = field(default_factory=dict)

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
        across = width * self._across
        step = 42 + 5.5 * max(map(len, self.legend), default=0)
        in_a_row = max(1, int(across / step))
        parts = []
        for i, (name, style) in enumerate(self.legend.items()):
            x, y = 10 + i % in_a_row * step, i // in_a_row * 18
            parts.append(_placed(swatch(style), x, y + 4, 24.48, 12.96))
            parts.append(f'<text x="{x + 30}" y="{y + 14}" font-size="9">{escape(name)}</text>')
        top = 18 * math.ceil(len(self.legend) / in_a_row)
        for i, panel in enumerate(self.inline):
            row, column = divmod(i, self._across)
            parts.append(_placed(panel, column * width, row * height + top, width, height))
        down = height * math.ceil(len(self.panels) / self._across) + top
        size = f'width="{across:.0f}" height="{down:.0f}"'
        drawing = "\n".join(parts).replace("var(--rule)", GRID).replace("currentColor", INK)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" role="img"'
            f' aria-label="{escape(self.alt)}">\n'
            f'<rect {size} fill="{PAPER}"/>\n{drawing}\n</svg>\n'
        )

    def png(self) -> bytes:
        """All panels as a PNG on white."""
        return _save(self._figure(self.panels, self._across), "png")

    @property
    def _across(self) -> int:
        """Panels side by side in a file."""
        return max(1, min(len(self.panels), int(_WIDE / self.size[0])))

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
                    own.append(figure.add_axes(tuple(place / np.tile(figure.get_size_inches(), 2))))
                panel.draw(*own)
                own[0].set_title(panel.title)
        return figure


def styles(methods: Sequence[str]) -> dict[str, Style]:
    """A colour, a marker and a line for each method, by its place among them."""
    return {
        name: Style(
            _COLORS[i % len(_COLORS)],
            _MARKERS[i % len(_MARKERS)],
            ("-", "--", ":")[i // len(_COLORS) % 3],
        )
        for i, name in enumerate(methods)
    }


@functools.cache
def swatch(style: Style) -> Markup:
    """A method's line and marker, to stand before its name."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(0.34, 0.18))
        axes = figure.add_axes((0, 0, 1, 1), frameon=False, xticks=[], yticks=[])
        axes.plot([0.05, 0.5, 0.95], [0, 0, 0], **style.line, marker=style.marker, markevery=[1],
                  markersize=6.5)  # fmt: skip
        axes.set(xlim=(0, 1), ylim=(-1, 1))
    return _inline(figure, f"swatch {style}", "")


def draw_strokes(ax: Axes, left: ArrayLike, right: ArrayLike, y: ArrayLike, **look: Any) -> None:
    """Draw horizontal strokes as one path, which takes far less room in a page than one each."""
    gaps = np.full(np.shape(left), np.nan)
    ends = np.column_stack((left, right, gaps)).ravel()
    ax.plot(ends, np.repeat(y, 3), solid_capstyle="butt", **look)


def draw_heat_map(
    ax: Axes,
    shares: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    cell: float,
    upright: bool,
    opacity: tuple[float, float],
) -> None:
    """Shade cells, the deeper the larger their share, from 1 percent in steps of 10.

    Args:
        ax: The axes.
        shares: Shares from 0 to 1; NaN is not shaded.
        rows: Names of the rows, or none.
        columns: Names of the columns, or none.
        cell: Side of a cell in inches.
        upright: If True, the names of the columns are turned.
        opacity: Of the smallest and the largest shares.
    """
    down, across = shares.shape
    faint, deep = opacity
    known = np.nan_to_num(shares).clip(max=1)
    tenths = np.where(known < 0.01, 0, np.ceil(10 * known - 1e-6))
    ax.set(xlim=(0, across), ylim=(down, 0))
    ax.set_aspect("equal", anchor="NW")
    ax.spines[:].set_visible(True)
    for tenth in np.unique(tenths[tenths > 0]):
        # Neighbours are joined, and take the room of one.
        edges = np.diff(np.pad(tenths == tenth, ((0, 0), (1, 1))).astype(int))
        (y, starts), (_, stops) = np.nonzero(edges == 1), np.nonzero(edges == -1)
        alpha = faint + (deep - faint) * (tenth - 1) / 9
        draw_strokes(ax, starts, stops, y + 0.5, color=SHADE, alpha=alpha, linewidth=72 * cell)
    turned = 90 if upright else 0
    ax.set_xticks(np.arange(len(columns)) + 0.5, columns, fontsize=8, rotation=turned)
    ax.set_yticks(np.arange(len(rows)) + 0.5, rows, fontsize=8)
    ax.tick_params(length=0)


def signed(value: float) -> str:
    """A number with its sign, to two decimals.

    Example:
        >>> signed(0.5), signed(-0.25)
        ('+0.50', '−0.25')
    """
    return f"{value:+.2f}".replace("-", "−")


def _placed(svg: Markup, x: float, y: float, width: float, height: float) -> str:
    place = f'<svg x="{x:.0f}" y="{y:.0f}" width="{width:.2f}" height="{height:.2f}"'
    return place + str(svg).removeprefix("<svg")


def _save(figure: Figure, format: str) -> bytes:
    buffer = io.BytesIO()
    # No date and no version: equal results give equal bytes.
    unsaid = ("Date", "Creator", "Format", "Type") if format == "svg" else ("Software",)
    with warnings.catch_warnings():
        # A page takes such letters from another font; a PNG has boxes in their place.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
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
    svg = svg.replace("xlink:href", "href").replace(INK, "currentColor")
    svg = svg.replace(PAPER, "none").replace(GRID, "var(--rule)")
    # A seventh of the bytes: turns by nothing, and a font that the page sets.
    svg = re.sub(r' transform="rotate\(-0 [^"]*\)"', "", svg)
    svg = svg.replace("font-family: 'DejaVu Sans'; ", "")
    return Markup(re.sub(r"\s*\n\s*", " ", svg).replace(" L ", "L").strip())
