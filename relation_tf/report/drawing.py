"""Drawing of figures: styles of methods, panels and their alternative text.

A figure consists of panels. HTML includes the panels separately, so that they fit the width and
colors of the page; Markdown includes them as one image.
"""

from __future__ import annotations

import functools
import io
import math
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

# Contrast of at least 3:1 on white and dark pages; distinct for color-blind readers (tested).
_COLORS = ("#5599cc", "#cc1133", "#dd7700", "#889977", "#9900ff", "#885577", "#6655cc")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
# The color of a mechanism is that of its place here; other names have a color by their hash.
_MECHANISMS = ("attention", "relation", "linear-attention", "baseline", "contextualizer", "fcsr",
               "transformer")  # fmt: skip
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
_WIDE = 11.2  # largest width of a file in inches
_TOP, _GAP = 0.3, 0.12  # margins above a panel and between its axes, in inches
Draw = Callable[..., None]  # takes axes, from top to bottom


@dataclass(frozen=True)
class Style:
    """Style of a method in all figures."""

    color: str
    marker: str
    dashes: str

    @property
    def line(self) -> dict[str, Any]:
        """Options of a line without markers."""
        return {"color": self.color, "linestyle": self.dashes}

    @property
    def mark(self) -> dict[str, Any]:
        """Options of markers without a line."""
        return {"color": self.color, "marker": self.marker, "linestyle": "none"}


@dataclass(frozen=True)
class Panel:
    """Panel of a picture.

    Attributes:
        title: Title.
        alt: Alternative text with the values.
        draw: Function that draws on `axes` axes.
        axes: Number of axes.
    """

    title: str
    alt: str
    draw: Draw
    axes: int = 1


@dataclass(frozen=True)
class Picture:
    """Figure with one or more panels.

    Attributes:
        name: Name of the file, without ending.
        alt: Alternative text.
        panels: Panels in order.
        size: Width and height of a panel in inches.
        left: Left margin of a panel in inches.
        bottom: Bottom margin of a panel in inches.
        right: Right margin of a panel in inches.
        legend: Methods in the legend, if panels do not name them.
    """

    name: str
    alt: str
    panels: list[Panel]
    size: tuple[float, float]
    left: float = 0.6
    bottom: float = 0.45
    right: float = 0.1
    legend: Mapping[str, Style] = field(default_factory=dict)

    @cached_property
    def inline(self) -> list[Markup]:
        """Panels as SVG elements in the colors of the page."""
        return [
            _inline(self._figure([panel], 1), f"{self.name} {panel.title}", panel.alt)
            for panel in self.panels
        ]

    def svg(self) -> str:
        """Return all panels as one SVG file on white."""
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
        """Return all panels as PNG on white."""
        return _save(self._figure(self.panels, self._across), "png")

    def pdf(self) -> bytes:
        """Return all panels as PDF (vector graphics), with the legend below."""
        from matplotlib.lines import Line2D

        figure = self._figure(self.panels, self._across)
        with _style():
            lines = [Line2D([], [], **style.line, marker=style.marker, label=name)
                     for name, style in self.legend.items()]  # fmt: skip
            if lines:
                figure.legend(handles=lines, loc="upper center", bbox_to_anchor=(0.5, 0),
                              ncols=min(4, len(lines)))  # fmt: skip
        return _save(figure, "pdf")

    @property
    def _across(self) -> int:
        """Number of panels per row in a file."""
        return max(1, min(len(self.panels), int(_WIDE / self.size[0])))

    def _figure(self, panels: Sequence[Panel], across: int) -> Figure:
        """Draw panels in rows, with axes at fixed places so that they align."""
        from matplotlib.figure import Figure

        width, height = self.size
        down = math.ceil(len(panels) / across)
        with _style():
            figure = Figure(figsize=(width * across, height * down))
            size = np.tile(figure.get_size_inches(), 2)
            for i, panel in enumerate(panels):
                row, column = divmod(i, across)
                tall = (height - _TOP - self.bottom - _GAP * (panel.axes - 1)) / panel.axes
                axes = []
                for j in range(panel.axes):
                    y = height * (down - row) - _TOP - tall * (j + 1) - _GAP * j
                    place = (column * width + self.left, y, width - self.left - self.right, tall)
                    axes.append(figure.add_axes(tuple(place / size)))
                panel.draw(*axes)
                axes[0].set_title(panel.title)
        return figure


def styles(methods: Sequence[str]) -> dict[str, Style]:
    """Return color, marker and line style of each method.

    They depend on the name, so that a method looks the same in all reports: the color is that of
    the mechanism (`relation-64` and `relation-128` have one); its methods have different markers.
    If two mechanisms of a report have the same color, the second gets the next free one. Methods
    of a single mechanism have different colors.
    """
    stems = {name: _stem(name) for name in methods}
    colors: dict[str, int] = {}
    for stem in stems.values():
        if stem not in colors:
            known = [mechanism for mechanism in _MECHANISMS if mechanism in stem]
            longest = max(known, key=len, default=None)
            preferred = _MECHANISMS.index(longest) if longest else crc32(stem.encode())
            free = [place for place in _from(preferred, _COLORS) if place not in colors.values()]
            colors[stem] = (free or [preferred])[0]
    result: dict[str, Style] = {}
    used: set[tuple[int, int]] = set()
    for i, (name, stem) in enumerate(stems.items()):
        color = colors[stem] + (i if len(colors) == 1 else 0)
        marker = colors[stem] + crc32(name.removeprefix(stem).encode())
        pairs = product(_from(color, _COLORS), _from(marker, _MARKERS))
        color, marker = next((pair for pair in pairs if pair not in used), (0, 0))
        used.add((color, marker))
        dashes = ("-", "--", ":")[sum(other == color for other, _ in used) % 3 - 1]
        result[name] = Style(_COLORS[color], _MARKERS[marker], dashes)
    return result


def _stem(name: str) -> str:
    """Return a name without its width and the label of its source.

    Example:
        >>> _stem("relation-64"), _stem("relation-64 (before)"), _stem("cnn")
        ('relation', 'relation', 'cnn')
    """
    return re.sub(r"[-_]?\d+$", "", re.sub(r" \(.*\)$", "", name)) or name


def _from(first: int, values: Sequence[str]) -> list[int]:
    """Return all places of values, cyclically from a place."""
    return [(first + place) % len(values) for place in range(len(values))]


@functools.cache
def swatch(style: Style) -> Markup:
    """Return a small SVG with a method's line and marker, for legends."""
    from matplotlib.figure import Figure

    with _style():
        figure = Figure(figsize=(0.34, 0.18))
        ax = figure.add_axes((0, 0, 1, 1), frameon=False, xticks=[], yticks=[])
        ax.plot([0.05, 0.5, 0.95], [0, 0, 0], **style.line, marker=style.marker, markevery=[1],
                  markersize=6.5)  # fmt: skip
        ax.set(xlim=(0, 1), ylim=(-1, 1))
    return _inline(figure, f"swatch {style}", "")


def draw_strokes(ax: Axes, left: ArrayLike, right: ArrayLike, y: ArrayLike, **options: Any) -> None:
    """Draw horizontal lines as one path, which gives much smaller files than one path each."""
    gaps = np.full(np.shape(left), np.nan)
    ends = np.column_stack((left, right, gaps)).ravel()
    ax.plot(ends, np.repeat(y, 3), **options)


def draw_names(ax: Axes, names: Mapping[int, str], bold: Collection[int] = ()) -> None:
    """Write names of methods left of their rows.

    Text is several times faster to draw than ticks with labels.
    """
    axis_side = ax.get_yaxis_transform()
    for row, name in names.items():
        weight = "bold" if row in bold else "normal"
        ax.annotate(name, (0, row), (-5, 0), xycoords=axis_side, textcoords="offset points",
                    ha="right", va="center", fontweight=weight)  # fmt: skip
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)


def limit_ticks(axis: Axis, most: int, **options: Any) -> None:
    """Show at most so many round intervals between ticks of an axis.

    Matplotlib is imported late: it takes longer than most comparisons of a small table.
    """
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(most, **options))


def label_width(names: Iterable[str]) -> float:
    """Return the width in inches of names that `draw_names` writes."""
    return 0.17 + 0.0855 * max(map(len, names))


def _placed(svg: Markup, x: float, y: float, width: float, height: float) -> str:
    place = f'<svg x="{x:.0f}" y="{y:.0f}" width="{width:.2f}" height="{height:.2f}"'
    return place + str(svg).removeprefix("<svg")


def _style(salt: str = "") -> AbstractContextManager[None]:
    """Return a context with this style and Matplotlib's defaults, without a `matplotlibrc`.

    Matplotlib reads that file in the current folder; it can run TeX code.
    """
    import matplotlib as mpl

    defaults = {
        key: value
        for key, value in mpl.rcParamsDefault.items()
        if not key.startswith("backend") and mpl.rcParams[key] != value
    }
    return mpl.rc_context({**defaults, **_STYLE, "svg.hashsalt": salt})


def _save(figure: Figure, format: str, salt: str = "") -> bytes:
    buffer = io.BytesIO()
    # Without date and version, equal results give equal bytes.
    left_out = {
        "svg": ("Date", "Creator", "Format", "Type"),
        "png": ("Software",),
        "pdf": ("Creator", "Producer", "CreationDate"),
    }[format]
    box = "tight" if format == "pdf" else None  # a legend is below the panels
    with warnings.catch_warnings(), _style(salt):
        # A browser uses another font for such letters; a PNG shows boxes.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        metadata = dict.fromkeys(left_out)
        figure.savefig(buffer, format=format, dpi=160, metadata=metadata, bbox_inches=box)
    content = buffer.getvalue()
    if format != "svg":
        return content
    # Round coordinates to a tenth of a point, but not text.
    return re.sub(rb"<[^>]*>", lambda tag: re.sub(rb"(\d\.\d)\d+", rb"\1", tag[0]), content)


def _inline(figure: Figure, salt: str, alt: str) -> Markup:
    svg = _save(figure, "svg", salt).decode()
    svg = svg[svg.index("<svg") :]
    box = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    assert box is not None
    label = f'role="img" aria-label="{escape(alt)}"' if alt else 'aria-hidden="true"'
    svg = f'<svg {label} {box[0]} stroke-linejoin="round">' + re.sub(r"^<svg[^>]*>", "", svg)
    # A style element would apply to the whole page.
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|<style.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)  # ids must be unique in a page
    svg = svg.replace("xlink:href", "href").replace(INK, "currentColor")
    svg = svg.replace(PAPER, "none").replace(GRID, "var(--rule)")
    # Rotations by zero and the font are a seventh of the bytes; the page sets the font.
    svg = re.sub(r' transform="rotate\(-0 [^"]*\)"', "", svg)
    svg = svg.replace("font-family: 'DejaVu Sans'; ", "")
    svg = re.sub(r"\s*\n\s*", " ", svg)
    svg = re.sub(r' d="[^"]*"', lambda path: path[0].replace(" L ", "L"), svg)
    return Markup(svg.strip())
