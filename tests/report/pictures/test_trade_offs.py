"""Figures of costs: dominated methods and ticks of axes."""

from __future__ import annotations

import math

import pandas as pd
import pytest

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
    assert "not dominated: a, c." in alt
    rings = [
        line.get_xydata().tolist()
        for line in axes_of(against(costs, scores, {("a", "b")})).lines
        if line.get_markerfacecolor() == "none"
    ]
    assert rings == [[[1.5, 1.5]], [[5.25, 1.5]]]  # not joined
    assert "dominated" not in against(costs, scores).panels[0].alt


def test_a_range_of_scores_is_dotted():
    points = [Point("a", [3.0], 9.0, math.nan, (2.0, 9.5)), Point("b", [2.0], 8.0, 1.0)]
    look = styles(["a", "b"])
    panel = score_panel("CoLA", points, (), "KiB", "points", look, spread="SD")
    assert "(seeds 2 to 9.5)" in panel.alt
    lines = axes_of(trade_offs.score_picture("score", "Scores.", [panel], look)).lines
    assert [[*line.get_ydata()] for line in lines if line.get_linestyle() == ":"] == [[2.0, 9.5]]


def test_cost_has_its_range_over_runs():
    picture = against(
        {"a": [1.0, 2.0, 6.0], "b": [3.0] * 3}, {"a": [7.0, 8.0, 9.0], "b": [7.0, 8.0, 9.0]}
    )
    assert "2 (1 to 6)" in picture.panels[0].alt
    lines = [line.get_xdata().tolist() for line in axes_of(picture).lines]
    assert [1.0, 6.0] in lines


def test_a_method_without_finite_cost_and_score_is_left_out():
    costs = {"a": 1.0, "b": math.nan, "c": 3.0, "d": 4.0}
    scores = {"a": [1.0], "b": [2.0], "c": [3.0, math.nan], "d": [569_186.0], "e": [5.0]}
    alt = against(costs, scores).panels[0].alt
    assert "d 5.69e+05 at 4" in alt
    assert not any(f"{name} " in alt.partition(": ")[2] for name in "bce")
    assert against({"a": 1.0}, {"b": [2.0]}) is None
    assert against({"a": 2.0, "b": 2.0}, {"a": [1.0], "b": [2.0]}) is None  # equal costs


def lengths(tasks, methods, **more):
    rows = [
        (task, method, length, (1 + place) * length**0.8, 300.0 + place + length)
        for task, length in tasks.items()
        for place, method in enumerate(methods)
    ]
    columns = ["task", "method", "mean_length", "milliseconds_per_batch", "memory_mib"]
    return pd.DataFrame(rows, columns=columns).assign(**more)


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
