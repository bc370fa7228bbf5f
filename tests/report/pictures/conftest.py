"""Fixtures for checks of all figures: readable text."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.text import Text

from relation_tf.report.drawing import Picture

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
