"""Figures of costs: dominated methods and ticks of axes."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relation_tf.report.pictures import trade_offs
from relation_tf.report.pictures.drawing import styles
from relation_tf.report.pictures.trade_offs import (
    Point,
    cost_against_length,
    score_against,
    score_panel,
    undominated,
)


def axes_of(picture):
    (axes,) = picture._figure(picture.panels[:1], 1).axes
    return axes


def against(costs, scores, better=()):
    """Return a picture of one task, CoLA; a cost is a number or the costs of all runs."""
    look = styles(list(scores))
    runs = {
        name: own if isinstance(own, list) else [own] * len(scores.get(name, ()))
        for name, own in costs.items()
    }
    return score_against("score", {"CoLA": runs}, {"CoLA": scores}, "seconds per epoch", look,
                         better={"CoLA": better})  # fmt: skip


def test_only_significantly_better_methods_dominate():
    costs = {"a": [1.0, 2.0], "b": [2.0, 3.0], "c": [1.5, 9.0]}
    assert undominated(costs, set()) == ["a", "b", "c"]  # differences within noise
    assert undominated(costs, {("a", "b")}) == ["a", "c"]
    assert undominated(costs, {("a", "c")}) == ["a", "b", "c"]  # some run of c is cheaper
    assert undominated(costs, {("b", "a")}) == ["a", "b", "c"]  # better but costlier
    scores = {name: [1.0, 2.0] for name in costs}
    alt = against(costs, scores, {("a", "b")}).panels[0].alt
    assert alt.endswith("; not dominated: a, c.")
    rings = [
        line.get_xydata().tolist()
        for line in axes_of(against(costs, scores, {("a", "b")})).lines
        if line.get_markerfacecolor() == "none"
    ]
    assert rings == [[[1.5, 1.5]], [[5.25, 1.5]]]  # not joined
    assert "dominated" not in against(costs, scores).panels[0].alt


def test_more_can_be_better():
    points = [Point("a", [3.0, 4.0], 9.0, 1.0), Point("b", [2.0, 3.0], 8.0, 1.0)]
    look = styles(["a", "b"])
    for more, said in ((True, "; not dominated: a."), (False, "b 8 ± 1 at 2.5 (2 to 3).")):
        panel = score_panel(
            "CoLA", points, {("a", "b")}, "tokens/s", "points", look, more_is_better=more
        )
        assert panel.alt.endswith(said)


def test_a_range_of_scores_is_dotted():
    points = [Point("a", [3.0], 9.0, math.nan, (2.0, 9.5)), Point("b", [2.0], 8.0, 1.0)]
    look = styles(["a", "b"])
    panel = score_panel("CoLA", points, (), "KiB", "points", look, spread="SD")
    assert panel.alt == (
        "CoLA, mean score in points ± SD against KiB: a 9 (seeds 2 to 9.5) at 3, b 8 ± 1 at 2."
    )
    lines = axes_of(trade_offs.score_picture("score", "Scores.", [panel], look)).lines
    assert [[*line.get_ydata()] for line in lines if line.get_linestyle() == ":"] == [[2.0, 9.5]]


def test_the_label_next_to_wide_numbers_is_whole():
    points = [Point("a", [3.0], 99.6, 0.9), Point("b", [2.0], 100.0, 0.0)]
    panel = score_panel("CoLA", points, (), "KiB", "points", styles(["a", "b"]))
    (svg,) = trade_offs.score_picture("score", "Scores.", [panel], styles(["a", "b"])).inline
    assert re.search(r">\d{2,3}\.\d+<", svg)
    (middle,) = re.findall(r'font-size:9px[^>]* x="([\d.]+)"[^>]*>points<', svg)
    assert float(middle) > 9 / 2  # of a rotated line of 9 points


def test_cost_has_its_range_over_runs():
    picture = against(
        {"a": [1.0, 2.0, 6.0], "b": [3.0] * 3}, {"a": [7.0, 8.0, 9.0], "b": [7.0, 8.0, 9.0]}
    )
    assert picture.panels[0].alt == (
        "CoLA, mean score in points ± standard deviation against seconds per epoch: "
        "a 8 ± 1 at 2 (1 to 6), b 8 ± 1 at 3."
    )
    lines = [line.get_xdata().tolist() for line in axes_of(picture).lines]
    assert [1.0, 6.0] in lines


def test_no_panel_where_all_costs_are_equal():
    scores = {"a": [1.0, 2.0], "b": [1.0, 2.0]}
    assert against({"a": 23_296.0, "b": 23_296.0}, scores) is None


def test_a_method_without_finite_cost_and_score_is_left_out():
    costs = {"a": 1.0, "b": math.nan, "c": 3.0, "d": 4.0}
    scores = {"a": [1.0], "b": [2.0], "c": [3.0, math.nan], "d": [569_186.0], "e": [5.0]}
    alt = against(costs, scores).panels[0].alt
    assert "a 1 at 1, d 5.69e+05 at 4." in alt
    assert against({"a": 1.0}, {"b": [2.0]}) is None


def test_different_tasks_are_not_joined():
    table = lengths({"IMDb": 230.0, "CoLA": 9.0}, ["a"])
    for joined, style in ((False, "None"), (True, "-")):
        axes = axes_of(cost_against_length(table, styles(["a"]), joined=joined))
        (marks,) = [
            line
            for line in axes.lines
            if len(line.get_xdata()) == 2 and line.get_marker() != "None"
        ]
        assert marks.get_linestyle() == style
    spread = table.assign(memory_mib_low=100.0, memory_mib_high=900.0)
    picture = cost_against_length(spread, styles(["a"]))
    (axes,) = picture._figure(picture.panels[1:], 1).axes
    assert axes.get_ylim()[0] < 100
    assert axes.collections  # the ranges
    nothing = spread.assign(memory_mib_low=0.0)  # a run needed no memory beyond its process
    picture = cost_against_length(nothing, styles(["a"]))
    (axes,) = picture._figure(picture.panels[1:], 1).axes
    assert axes.get_ylim()[0] > 0


@given(st.floats(1e-3, 1e9), st.floats(1, 1e6))
def test_logarithmic_axes_have_a_few_numbers(low, ratio):
    class Axis:
        def set_major_locator(self, locator):
            self.ticks = locator()

        def set_major_formatter(self, formatter): ...

        def set_minor_locator(self, locator): ...

    axis = Axis()
    left, right = trade_offs._logarithmic(axis, [low, low * ratio])
    assert left < low <= low * ratio < right
    assert 2 <= len(axis.ticks) <= 8
    labels = [trade_offs._tick(tick, 0) for tick in axis.ticks]
    assert len(set(labels)) == len(labels)


@given(st.lists(st.floats(0, 1), max_size=20).map(sorted), st.floats(0, 0.05))
def test_names_are_moved_apart(places, gap):
    moved = trade_offs._spread(np.array(places), gap)
    assert all(b - a >= gap - 1e-9 for a, b in itertools.pairwise(moved))
    assert all(-1e-9 <= place <= 1 + 1e-9 for place in moved)
    if all(b - a >= gap for a, b in itertools.pairwise(places)):
        assert moved == pytest.approx(places)


def lengths(tasks, methods, **more):
    rows = [
        (task, method, length, (1 + place) * length**0.8, 300.0 + place + length)
        for task, length in tasks.items()
        for place, method in enumerate(methods)
    ]
    columns = ["task", "method", "mean_length", "milliseconds_per_batch", "memory_mib"]
    return pd.DataFrame(rows, columns=columns).assign(**more)


def test_alternative_text_of_costs_by_length():
    table = lengths({"IMDb": 230.0, "CoLA": 9.0}, ["a"]).assign(memory_mib=[1500.0, np.nan])
    picture = cost_against_length(table, styles(["a"]))
    assert [(panel.title, panel.alt) for panel in picture.panels] == [
        ("Time", "Time in ms per batch by mean length: a 5.8 at 9 (CoLA), 77.5 at 230 (IMDb).")
    ]


@pytest.mark.parametrize(
    "tasks", [{}, {"CoLA": 9.0}, {"CoLA": 9.0, "RTE": 9.0}], ids=["none", "one", "equal"]
)
def test_no_figure_for_a_single_length(tasks):
    assert cost_against_length(lengths(tasks, ["a", "b"]), styles(["a", "b"])) is None


def test_readable(names, readable):
    look = styles(names)
    for most in (1.0, 15.0, 400.0, 1e6):
        costs = {name: most ** (place / 11) for place, name in enumerate(names)}
        scores = {name: [50.0 + place, 50.0] for place, name in enumerate(names)}
        if most > 1:
            readable(against(costs, scores))
            readable(against(costs, {name: [50.0] for name in names}))
    glue = {"CoLA": 9.0, "SST-2": 11.0, "MRPC": 44.0, "STS-B": 22.0, "QQP": 25.0, "MNLI": 30.0,
            "QNLI": 38.0, "RTE": 52.0, "WNLI": 35.0, "WikiText-103": 30.5}  # fmt: skip
    near = {f"domain-{place}": 100.0 + place / 10 for place in range(20)}
    many = {f"domain-{place}": 100.0 + place for place in range(30)}
    for tasks in (glue, near, many, {"IMDb": 230.0, "CoLA": 9.0}):
        readable(cost_against_length(lengths(tasks, names), look))


def test_pictures_are_small_and_equal_numbers_give_equal_bytes(names):
    def draw():
        costs = {name: 1.5**place for place, name in enumerate(names)}
        yield against(costs, {name: [50.0 + place, 50.0] for place, name in enumerate(names)})
        tasks = {f"task-{place}": 9.0 + place for place in range(10)}
        yield cost_against_length(lengths(tasks, names), styles(names))

    for one, other, most in zip(draw(), draw(), (16_000, 30_000), strict=True):
        assert one.inline == other.inline
        assert max(map(len, one.inline)) < most


@pytest.mark.parametrize(
    ("costs", "scale", "limits"),
    [((1.0, 20.0), "linear", (0, 22)), ((1.0, 20.1), "log", None)],
)
def test_large_ratio_of_costs_gives_a_logarithmic_axis(costs, scale, limits):
    axes = axes_of(against(dict(zip("ab", costs, strict=True)), {"a": [1.0], "b": [2.0]}))
    assert axes.get_xscale() == scale
    assert limits is None or axes.get_xlim() == pytest.approx(limits)
