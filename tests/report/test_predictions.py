"""Figures of predictions, compared with the definitions of their numbers."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import trapezoid

from relation_tf.report.drawing import styles
from relation_tf.report.sections.predictions import PredictedRows, auc_table, roc_curves


def classes_of(number):
    return [f"class {place}" for place in range(number)]


def made(names, number, rows=200, seeds=2, absent=(), skill=1.0):
    """Predictions that are better than chance, the better the later the method."""
    random = np.random.default_rng(0)
    labels = random.choice([place for place in range(number) if place not in absent], rows)
    found = {}
    for place, name in enumerate(names):
        for seed in range(1, seeds + 1):
            logits = random.normal(0, 1, (rows, number))
            logits[np.arange(rows), labels] += skill * (1 + place / 4)
            odds = np.exp(logits)
            found.setdefault(name, {})[seed] = (labels, odds / odds.sum(axis=1, keepdims=True))
    return found


def answered(predictions, classes):
    return PredictedRows("CoLA", classes, predictions)


def picture(predictions, classes):
    return roc_curves(answered(predictions, classes), styles(list(predictions)))


@st.composite
def runs(draw):
    """Labels and probabilities of few rows, with ties and classes without rows."""
    number = draw(st.integers(2, 5))
    weights = st.lists(st.integers(0, 4), min_size=number, max_size=number).filter(any)
    rows = draw(st.lists(st.tuples(st.integers(0, number - 1), weights), min_size=1, max_size=12))
    labels = np.array([label for label, _ in rows])
    probabilities = np.array([np.array(own) / sum(own) for _, own in rows])
    return labels, probabilities


def naive_auc(truth, scores):
    """Return the probability that a true row has the higher score; ties count half."""
    pairs = list(itertools.product(scores[truth], scores[~truth]))
    return sum((a > b) + (a == b) / 2 for a, b in pairs) / len(pairs) if pairs else math.nan


@settings(deadline=None, max_examples=50)
@given(runs())
def test_auc_is_the_probability_of_the_right_order(run):
    labels, probabilities = run
    number = probabilities.shape[1]
    own = [
        naive_auc(labels == place, probabilities[:, place])
        for place in (range(number) if number > 2 else [1])
    ]
    known = [area for area in own if not math.isnan(area)]
    one_hot = np.eye(number, dtype=bool)[labels]
    (row,) = auc_table(answered({"a": {7: run}}, classes_of(number))).itertuples()
    assert (row.method, row.seed) == ("a", 7)
    assert row.macro == pytest.approx(np.mean(known) if known else math.nan, nan_ok=True)
    assert row.micro == pytest.approx(naive_auc(one_hot.ravel(), probabilities.ravel()))
    absent = [place for place in range(number) if place not in labels]
    assert row.without_rows == "; ".join(f"class {place}" for place in absent)


def test_two_classes_rank_the_second():
    # Probabilities of the first class are both rounded to 1.
    predictions = {"a": {1: (np.array([0, 1]), np.array([[1.0, 1e-20], [1.0, 1e-19]]))}}
    assert auc_table(answered(predictions, ["no", "yes"]))["macro"].tolist() == [1.0]


def test_mean_curves_rise_and_enclose_the_mean_area():
    predictions = made(["a", "b"], 3, rows=500, seeds=3)
    roc = picture(predictions, classes_of(3))
    areas = (
        auc_table(answered(predictions, classes_of(3))).groupby("method")[["macro", "micro"]].mean()
    )
    for panel, average in zip(roc.panels, ("macro", "micro"), strict=True):
        (axes,) = roc._figure([panel], 1).axes
        _, *curves = axes.lines
        for curve, area in zip(curves, areas[average], strict=True):
            x, y = curve.get_xydata().T
            assert (np.diff(y) >= 0).all()
            assert trapezoid(y, x) == pytest.approx(area, abs=0.005)


def test_the_legend_has_the_areas():
    predictions = made(["a"], 2)
    own = auc_table(answered(predictions, classes_of(2)))["macro"]
    legend = picture(predictions, classes_of(2)).legend
    assert f"{own.mean():.3f} ± {own.std():.3f}" in "".join(legend)


def test_classes_without_rows_are_named():
    predictions = {"a": {1: (np.array([1, 1]), np.array([[0.4, 0.6], [0.3, 0.7]]))}}
    assert "no rows of class" in picture(predictions, classes_of(2)).panels[0].alt
    many = made(["a", "b"], 46, rows=400, absent=(3, 45))
    assert "class 3, class 45" in picture(many, classes_of(46)).panels[0].alt


@pytest.mark.parametrize("number", [2, 46])
def test_readable(names, readable, number):
    readable(picture(made([names[0], "b"], number), classes_of(number)))


def test_the_area_of_a_method_with_a_seed_of_one_class_is_undefined():
    both, one = np.array([0, 1, 0, 1]), np.array([1, 1, 1, 1])
    odds = np.array([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3], [0.1, 0.9]])
    found = picture({"a": {1: (both, odds), 2: (one, odds)}, "b": {1: (both, odds)}}, ("0", "1"))
    assert "a undefined" in found.panels[0].alt
    assert "b 1.000" in found.panels[0].alt
