"""The pictures: one look a method, panels that say what they show, text kept whole."""

from __future__ import annotations

import re

import pytest

from relation_tf.report import make_report
from relation_tf.report.pictures.drawing import styles


@pytest.fixture
def drawn(suite_of, fabricate):
    def draw(score=lambda config, *_: 0.5 + config.seed / 100, change=lambda *_: None, **suite):
        report = make_report(fabricate(suite_of(**suite), score, change))
        return {picture.name: picture for picture in report.context.pictures}

    return draw


def test_each_method_has_a_different_style(suite_of):
    suite = suite_of(method=[{"mechanism": "relation", "units": list(range(1, 41))}])
    looks = styles([str(method.name) for method in suite.methods()])
    assert len({(look.color, look.marker) for look in looks.values()}) == 40


def test_a_panel_for_each_task(drawn):
    found = drawn(tasks=["CoLA", "MNLI"], test_over_tasks="friedman-nemenyi")
    titles = {name: [panel.title for panel in picture.panels] for name, picture in found.items()}
    scored = ["CoLA", "MNLI-m", "MNLI-mm", "mean of these tasks"]
    assert titles == {
        "scores": scored, "pvalues": scored, "effects": scored, "ranks": ["2 tasks"],
        "learning": ["CoLA", "MNLI"], "time": ["CoLA", "MNLI"], "parameters": ["CoLA", "MNLI"],
    }  # fmt: skip


def test_every_seed_is_a_mark(drawn):
    svg = drawn(tasks=["CoLA"], method=[{"name": "only", "mechanism": "relation"}])
    marks = re.findall(r'<use href="#\w+" x="[\d.]+" y="[\d.]+" style="fill: #0072b2',
                       svg["scores"].inline[0])  # fmt: skip
    assert len(marks) == 5


def test_places_are_rounded_and_labels_are_not(drawn):
    def quick(config, files):
        files["result"]["seconds"]["epoch"] = 0.02

    (svg,) = drawn(change=quick, tasks=["CoLA"])["time"].inline
    labels = re.findall(r">([\d.]+)</text>", svg)
    assert "0.006" in labels
    assert not re.findall(r' d="[^"]*\.\d\d', svg)


def test_pictures_take_the_colours_of_the_page(drawn):
    picture = drawn(tasks=["CoLA"], seeds=1)["scores"]
    assert "currentColor" in picture.inline[0]
    assert "#1b1b1d" not in picture.inline[0]
    assert "currentColor" not in picture.svg()
    assert "var(" not in picture.svg()
