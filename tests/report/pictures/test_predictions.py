"""Figures of predictions, compared with the definitions of their numbers."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import trapezoid

from relation_tf.report.pictures import predictions as module
from relation_tf.report.pictures.calibration import calibration, calibration_table
from relation_tf.report.pictures.drawing import SHADE, styles
from relation_tf.report.pictures.predictions import (
    Answers,
    auc_table,
    confusion_matrices,
    confusion_table,
    roc_curves,
)


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
    return Answers("CoLA", classes, predictions)


def pictures(predictions, classes):
    look, answers = styles(list(predictions)), answered(predictions, classes)
    return roc_curves(answers, look), confusion_matrices(answers), calibration(answers, look)


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
    predictions = {"a": {1: ([0, 1], [[1.0, 1e-20], [1.0, 1e-19]])}}
    assert auc_table(answered(predictions, ["no", "yes"]))["macro"].tolist() == [1.0]


@settings(deadline=None, max_examples=50)
@given(st.lists(runs(), min_size=1, max_size=3))
def test_shares_are_counted_row_by_row(several):
    number = several[0][1].shape[1]
    several = [run for run in several if run[1].shape[1] == number]
    table = confusion_table(answered({"a": dict(enumerate(several))}, classes_of(number)))
    for row in table.itertuples():
        true, predicted = (int(name.removeprefix("class ")) for name in (row.true, row.predicted))
        shares = []
        for labels, probabilities in several:
            taken = [list(own).index(max(own)) for own in probabilities[labels == true]]
            if taken:
                shares.append(taken.count(predicted) / len(taken))
        assert row.share == pytest.approx(np.mean(shares) if shares else math.nan, nan_ok=True)


@settings(deadline=None, max_examples=50)
@given(runs())
def test_calibration_error_is_a_sum_over_bins(run):
    labels, probabilities = run
    classes = classes_of(probabilities.shape[1])
    confidence = [max(own) for own in probabilities]
    right = [
        list(own).index(max(own)) == label for label, own in zip(labels, probabilities, strict=True)
    ]
    error = 0.0
    for place in range(10):
        inside = [i for i, own in enumerate(confidence) if place < 10 * own <= place + 1]
        error += abs(sum(right[i] - confidence[i] for i in inside)) / len(labels)
    table = calibration_table(answered({"a": {7: run}}, classes))
    assert table["ece"].tolist() == pytest.approx([error])


def test_mean_curves_rise_and_enclose_the_mean_area():
    predictions = made(["a", "b"], 3, rows=500, seeds=3)
    roc, *_ = pictures(predictions, classes_of(3))
    areas = (
        auc_table(answered(predictions, classes_of(3))).groupby("method")[["macro", "micro"]].mean()
    )
    for panel, average in zip(roc.panels, ("macro", "micro"), strict=True):
        (axes,) = roc._figure([panel], 1).axes
        _, *curves = axes.lines
        assert len(curves) == 2
        for curve, area in zip(curves, areas[average], strict=True):
            x, y = curve.get_xydata().T
            assert (x[0], y[0], x[-1], y[-1]) == (0, 0, 1, 1)
            assert (np.diff(y) >= 0).all()
            assert trapezoid(y, x) == pytest.approx(area, abs=0.005)
            assert f"{area:.3f}" in panel.alt


def test_the_legend_has_the_numbers():
    predictions = made(["a"], 2)
    table = auc_table(answered(predictions, classes_of(2)))["macro"]
    errors = calibration_table(answered(predictions, classes_of(2)))["ece"]
    roc, _, calibrated = pictures(predictions, classes_of(2))
    (panel,) = roc.panels
    assert panel.title == "CoLA, class class 1"
    assert list(roc.legend) == [f"a, AUC {table.mean():.3f} ± {table.std():.3f}"]
    assert list(calibrated.legend) == [f"a, ECE {errors.mean():.3f} ± {errors.std():.3f}"]
    of_many, *_ = pictures(made(["a"], 3, seeds=1), classes_of(3))
    (words,) = of_many.legend
    assert words.startswith("a, AUC macro 0.")
    assert ", micro 0." in words


def test_no_curve_for_a_single_class():
    predictions = {"a": {1: ([1, 1], [[0.4, 0.6], [0.3, 0.7]])}}
    roc, confusion, _ = pictures(predictions, classes_of(2))
    assert roc.panels[0].alt.endswith("area under it: a undefined; no rows of class 0.")
    assert confusion.panels[0].alt == (
        "CoLA, a, recall in percent: class 1 100; most frequent errors: none; no rows of class 0."
    )


def test_no_figures_without_runs():
    assert pictures({}, classes_of(2)) == (None, None, None)
    assert confusion_table(answered({}, classes_of(2))).empty


@pytest.mark.parametrize(("number", "numbers", "named"), [(8, 64, 8), (12, 0, 12), (13, 0, 0)])
def test_cells_of_few_classes_have_numbers_and_names(number, numbers, named):
    _, picture, _ = pictures(made(["a"], number), classes_of(number))
    (axes,) = picture._figure(picture.panels, 1).axes
    assert len(axes.texts) == numbers
    assert [label.get_text() for label in axes.get_yticklabels()] == classes_of(number)[:named]


def test_many_classes():
    predictions = made(["a", "b"], 46, rows=400, absent=(3, 45))
    roc, confusion, calibrated = pictures(predictions, classes_of(46))
    for panel in (roc.panels[0], confusion.panels[0], calibrated.panels[0]):
        assert panel.alt.endswith("no rows of class 3, class 45.")
    assert "worst and best class: class " in confusion.panels[0].alt
    assert confusion_matrices(answered(made(["a"], 51), classes_of(51))) is None
    assert confusion_matrices(answered(made(["a"], 50), classes_of(50))) is not None


def test_a_cell_is_as_deep_as_its_share():
    labels = [0] * 200 + [1] * 200
    taken = [0] * 199 + [1] + [0] * 50 + [1] * 150  # shares .995, .005, .25, .75
    predictions = {"a": {1: (labels, np.eye(2)[taken])}}
    _, picture, _ = pictures(predictions, classes_of(2))
    (axes,) = picture._figure(picture.panels, 1).axes
    cells = {tuple(line.get_xydata()[0]): line.get_alpha() for line in axes.lines}
    assert cells.keys() == {(0, 0.5), (0, 1.5), (1, 1.5)}
    faint, deep = module._OPACITY
    assert cells[0, 0.5] == deep
    assert cells[0, 0.5] > cells[1, 1.5] > cells[0, 1.5] > faint


def test_neighbours_of_equal_share_are_one_stroke():
    labels = np.repeat([0, 1, 2, 3], 4)
    taken = [0, 1, 2, 3, 0, 0, 3, 3, 0, 1, 1, 1, 3, 3, 3, 3]
    _, picture, _ = pictures({"a": {1: (labels, np.eye(4)[taken])}}, classes_of(4))
    (axes,) = picture._figure(picture.panels, 1).axes
    strokes = sorted(
        (y, x, end)
        for line in axes.lines
        for (x, y), (end, _), _ in line.get_xydata().reshape(-1, 3, 2)
    )
    assert strokes == [(0.5, 0, 4), (1.5, 0, 1), (1.5, 3, 4), (2.5, 0, 1), (2.5, 1, 2), (3.5, 3, 4)]


def test_bins_with_few_rows_have_small_marks():
    sure = [[0.05, 0.95]] * 20 + [[0.35, 0.65]] * 9
    picture = calibration(answered({"a": {1: ([1] * 29, sure)}}, classes_of(2)), styles(["a"]))
    (axes,) = picture._figure(picture.panels, 1).axes
    _, many, few = axes.lines
    assert many.get_xydata() == pytest.approx(np.array([[0.95, 1]]))
    assert few.get_xydata() == pytest.approx(np.array([[0.65, 1]]))
    assert few.get_markersize() < many.get_markersize()
    assert few.get_linestyle() == "None"


@pytest.mark.parametrize(
    ("labels", "probabilities", "words"),
    [
        ([0, 1], [[0.5, 0.5]], r"of a, seed 3, .*\(rows, 2\).* shapes \(2,\) and \(1, 2\)"),
        ([0], [[0.2, 0.3, 0.5]], r"shapes \(1,\) and \(1, 3\)"),
        ([[0]], [[0.5, 0.5]], r"shapes \(1, 1\) and \(1, 2\)"),
        ([], np.ones((0, 2)), r"shapes \(0,\) and \(0, 2\)"),
        ([0, 2], [[0.5, 0.5]] * 2, "labels of a, seed 3, must be integers from 0 to 1.*2"),
        ([0, 0.5], [[0.5, 0.5]] * 2, "must be integers from 0 to 1.*0.5"),
    ],
)
def test_invalid_predictions_are_refused(labels, probabilities, words):
    with pytest.raises(ValueError, match=words):
        auc_table(answered({"a": {3: (labels, probabilities)}}, ["no", "yes"]))


def test_one_class_is_refused():
    with pytest.raises(ValueError, match=r"at least two. Received: \['all'\]"):
        confusion_table(answered({}, ["all"]))


def test_text_is_read_on_the_deepest_cell(contrast):
    assert contrast(SHADE, module._OPACITY[1]) > 4.5


@pytest.mark.parametrize("number", [2, 3, 8, 12, 46])
def test_readable(names, readable, number):
    for classes in (classes_of(number), [f"not_entailment_of_{i}" for i in range(number)],
                    [str(i) for i in range(number)]):  # fmt: skip
        for picture in pictures(made([names[0], "b"], number), classes):
            readable(picture)


def test_pictures_are_small_and_equal_numbers_give_equal_bytes(names):
    predictions = made(names, 3)
    for one, other, most in zip(
        pictures(predictions, classes_of(3)),
        pictures(predictions, classes_of(3)),
        (25_000, 7_000, 20_000),
        strict=True,
    ):
        assert one.inline == other.inline
        assert max(map(len, one.inline)) < most
    _, chance, _ = pictures(made(["a"], 50, rows=2000, skill=0), classes_of(50))
    assert len(chance.inline[0]) < 25_000
