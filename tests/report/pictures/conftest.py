"""Fixtures for checks of all figures: readable text and contrast."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from importlib.resources import files

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.text import Text

from relation_tf.report.pictures.drawing import Picture

LONG_NAMES = [
    "contextualizer-k5-uniform", "contextualizer-k5-ones", "attention", "linear-attention",
    "relation-original-form", "baseline", "bilstm-attention", "transformer-0.5M-layers4", "fcsr",
    "slstm", "cnn", "averaging",
]  # fmt: skip


@pytest.fixture
def names() -> list[str]:
    return LONG_NAMES


@pytest.fixture
def readable(monkeypatch: pytest.MonkeyPatch) -> Callable[[Picture], None]:
    """Check that texts of a picture do not overlap or leave their panel."""
    drawn: list[Text] = []

    def draw_text(*args: object, mtext: Text, **kwargs: object) -> None:
        drawn.append(mtext)

    monkeypatch.setattr(RendererAgg, "draw_text", draw_text)

    def check(picture: Picture) -> None:
        for panel in picture.panels:
            drawn.clear()
            canvas = FigureCanvasAgg(picture._figure([panel], 1))
            canvas.draw()
            boxes = [(text.get_text(), text.get_window_extent()) for text in drawn]
            assert boxes
            width, height = canvas.get_width_height()
            for text, box in boxes:
                assert min(box.x0, box.y0) >= -1, text
                assert max(box.x1 - width, box.y1 - height) <= 1, text
            for (one, box), (other, its) in itertools.combinations(boxes, 2):
                across = min(box.x1, its.x1) - max(box.x0, its.x0)
                down = min(box.y1, its.y1) - max(box.y0, its.y0)
                assert min(across, down) <= 1, f"{one!r} lies on {other!r}"

    return check


@pytest.fixture
def contrast() -> Callable[[str, float], float]:
    """Return the lower contrast of text on a transparent colour, on white and dark pages."""
    inks, papers = _of_page("ink"), _of_page("paper")

    def smallest(color: str, opacity: float) -> float:
        found = []
        for ink, paper in zip(inks, papers, strict=True):
            mixed = [
                opacity * own + (1 - opacity) * below
                for own, below in zip(_rgb(color), paper, strict=True)
            ]
            dark, light = sorted(_luminance(rgb) for rgb in (ink, mixed))
            found.append((light + 0.05) / (dark + 0.05))
        return min(found)

    return smallest


@pytest.fixture
def contrast_to_page() -> Callable[[str], float]:
    """Return the lower contrast of a color with a white and with a dark page."""

    def smallest(color: str) -> float:
        found = []
        for paper in _of_page("paper"):
            dark, light = sorted(_luminance(rgb) for rgb in (paper, _rgb(color)))
            found.append((light + 0.05) / (dark + 0.05))
        return min(found)

    return smallest


def _of_page(name: str) -> list[list[float]]:
    """Return a color of the light and of the dark page."""
    css = files("relation_tf.report").joinpath("report.css").read_text(encoding="utf-8")
    found = [_rgb(value) for value in re.findall(rf"--{name}: (#\w+);", css)[:2]]
    assert len(found) == 2
    return found


def _rgb(color: str) -> list[float]:
    digits = color.removeprefix("#")
    digits = "".join(2 * digit for digit in digits) if len(digits) == 3 else digits
    return [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]


def _luminance(rgb: list[float]) -> float:
    """Return the relative luminance of WCAG 2."""
    red, green, blue = (x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in rgb)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
