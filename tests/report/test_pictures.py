"""The pictures of runs: one look a method, colors for all readers, and intervals and means."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from matplotlib.figure import Figure

from relation_tf.report import drawing, make_report
from relation_tf.report.drawing import styles


@pytest.mark.parametrize(
    ("own", "other"),
    [
        (["attention-64", "relation-64", "cnn"], ["cnn", "relation-64"]),
        (["relation-64", "attention-64"], ["encoder-attention-layers1", "relation-64 (before)"]),
    ],
)
def test_a_method_looks_the_same_in_all_reports(own, other):
    one, two = styles(own), styles(other)
    for name in {*own} & {*other}:
        assert one[name] == two[name]
    assert len({style.color for style in one.values()}) == len(own)
    assert two[other[1]].color == one["relation-64"].color


# Simulations of Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
VISION = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                   [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                     [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                   [0.004733, 0.691367, 0.303900]],
}  # fmt: skip


def lab(linear):
    """Return CIELAB coordinates of linear RGB."""
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    f = [x ** (1 / 3) if x > 0.008856 else 7.787 * x + 16 / 116
         for x in xyz @ linear / [0.9505, 1, 1.089]]  # fmt: skip
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("vision", VISION)
def test_colors_are_distinct_for_color_blind_readers(vision):
    seen = []
    for color in drawing._COLORS:
        rgb = np.array([int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)])
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        seen.append(lab(np.clip(np.array(VISION[vision]) @ linear, 0, 1)))
    distances = [np.linalg.norm(one - two) for one, two in itertools.combinations(seen, 2)]
    assert min(distances) > 20  # 2.3 is just noticeable


def test_intervals_end_at_the_limits_of_the_metric(suite_of, fabricate):
    def score(config, *_):
        return 1.0 if config.seed < 4 else 0.9

    for task, low in (("SST-2", 0), ("CoLA", -100)):
        report = make_report(fabricate(suite_of(tasks=[task]), score, name=task))
        (picture,) = (each for each in report.data.pictures if each.name == "scores")
        ax = Figure().add_subplot()
        picture.panels[0].draw(ax)
        intervals = [line.get_xdata() for line in ax.lines if line.get_linewidth() == 1.2]
        assert intervals
        assert max(map(max, intervals)) == 100
        assert min(map(min, intervals)) > low


def test_learning_curves_show_mean_and_band(suite_of, fabricate):
    report = make_report(fabricate(suite_of(tasks=["CoLA"]), lambda *_: 0.5))
    (picture,) = (each for each in report.data.pictures if each.name == "learning")
    axes = [Figure().add_subplot() for _ in range(2)]
    picture.panels[0].draw(*axes)
    means = [line for line in axes[0].lines if line.get_linewidth() == 1.6]
    faint = [line for line in axes[0].lines if line.get_linewidth() == 0.6]
    assert (len(means), len(faint), len(axes[0].collections)) == (4, 20, 4)
    assert all(line.get_alpha() < 0.5 for line in faint)
    for mean in means:
        own = [line for line in faint if line.get_color() == mean.get_color()]
        shortest = min(len(line.get_xdata()) for line in own)
        assert len(mean.get_xdata()) == shortest  # all seeds still train
        first = np.mean([line.get_ydata()[0] for line in own])
        assert mean.get_ydata()[0] == pytest.approx(first)
