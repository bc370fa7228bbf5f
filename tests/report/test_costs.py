"""Figures of costs: intervals, ranges and ticks of axes."""

from __future__ import annotations

import pandas as pd

from relation_tf.report.drawing import styles
from relation_tf.report.sections.costs import (
    RANGE,
    MeanScore,
    Point,
    length_panel,
    score_panel,
    score_picture,
)


def test_lines_are_intervals_of_scores_and_ranges_of_costs():
    points = [Point("a", [1.0, 2.0, 6.0], MeanScore(9.0, 2.0, 9.5, RANGE)),
              Point("b", [569_186.0], MeanScore(8.0, 7.0, 9.0, "SD"))]  # fmt: skip
    look = styles(["a", "b"])
    panel = score_panel("CoLA", points, "KiB", "points", look)
    for part in ("(2 to 9.5, range", "at 2 (1 to 6)", "at 569,186"):
        assert part in panel.alt
    picture = score_picture("score", "Scores.", [panel], look)
    (axes,) = picture._figure([panel], 1).axes
    assert [1.0, 6.0] in [[*line.get_xdata()] for line in axes.lines]
    dotted = [[*line.get_ydata()] for line in axes.lines if line.get_linestyle() == ":"]
    assert dotted == [[2.0, 9.5]]


def test_readable(names, readable):
    look = styles(names)
    for most in (1.0, 15.0, 400.0, 1e6):
        points = [
            Point(name, [most ** (place / 11)], MeanScore(50.0 + place, 48.0, 52.0 + place, "SD"))
            for place, name in enumerate(names)
        ]
        panel = score_panel("CoLA", points, "seconds", "points", look)
        readable(score_picture("score", "Scores.", [panel], look))
    for lengths in ([9.0, 230.0], [100.0, 100.1, 101.0], [128.0, 256.0, 512.0, 4096.0]):
        rows = [
            (name, length, (1 + place) * length**0.8)
            for length in lengths
            for place, name in enumerate(names)
        ]
        table = pd.DataFrame(rows, columns=["method", "mean_length", "cost"])
        panel = length_panel(table, "cost", "Time", "ms", look)
        readable(score_picture("lengths", "Costs.", [panel], look))
