"""Collapsed runs: their definition, warning, table and picture."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from relation_tf.report import compare, make_report
from relation_tf.report.pictures.drawing import styles
from relation_tf.report.pictures.runs import score_dots
from relation_tf.report.predicted_rows import PredictedRows
from relation_tf.report.reliability import collapse_warnings, collapsed_runs
from relation_tf.report.scores import Scores
from relation_tf.tasks import find_task

ROWS = 200
LABELS = np.arange(ROWS) % 3 // 2  # two of three rows are of class 0


def probabilities(chosen):
    return np.where(np.arange(2) == np.asarray(chosen)[:, None], 0.9, 0.1)


def rows_of(runs, name="SST-2", classes=("0", "1")):
    """Predictions of a task: `{method: {seed: outputs}}`."""
    labels = LABELS if classes else LABELS * 2.5
    by_method = {
        method: {seed: (labels, outputs) for seed, outputs in own.items()}
        for method, own in runs.items()
    }
    return PredictedRows(name, find_task(name), list(classes), by_method)


def scores_of(rows):
    table = pd.DataFrame(rows, columns=["task", "method", "seed", "score"])
    methods, tasks = (list(dict.fromkeys(table[name])) for name in ("method", "task"))
    return Scores(table, methods, tasks, seeds=table["seed"].nunique())


def reasons(runs, name="SST-2", classes=("0", "1")):
    found = collapsed_runs([rows_of(runs, name, classes)], NO_METRICS)
    return {(row.method, row.seed): row.reason for row in found.itertuples()}


NO_METRICS = pd.DataFrame(columns=["task", "method", "seed", "metric", "value"])
RIGHT = probabilities(LABELS)
GUESSED = probabilities(np.arange(ROWS) % 2)  # right in half of the rows, majority in two thirds


def test_constant_predictions():
    runs = {"a": {1: RIGHT, 2: probabilities(np.zeros(ROWS))}}
    assert reasons(runs) == {("a", 2): "all predictions are 0"}


def test_a_run_below_the_majority_is_collapsed_where_others_learn():
    found = reasons({"a": {1: RIGHT, 2: GUESSED}, "b": {1: RIGHT, 2: RIGHT}})
    assert found == {("a", 2): "accuracy is not above the share of the most frequent class"}


def test_a_low_score_is_no_sign_where_no_run_learns():
    assert reasons({"a": {1: GUESSED, 2: GUESSED}, "b": {1: RIGHT, 2: GUESSED}}) == {}


def test_regressions():
    noise = np.random.default_rng(0).random(ROWS)
    found = reasons({"a": {1: noise, 2: np.full(ROWS, 2.7)}}, "STS-B", ())
    assert found == {("a", 2): "all predictions are 2.7"}


def test_a_correlation_of_0_is_that_of_equal_predictions():
    metrics = scores_of([("CoLA", "a", 1, 0.1), ("CoLA", "a", 2, 0.0)]).table
    metrics = metrics.rename(columns={"score": "value"}).assign(metric="matthews")
    found = collapsed_runs([], metrics)
    assert found.values.tolist() == [["CoLA", "a", 2, "matthews is 0"]]
    assert collapsed_runs([], metrics.assign(metric="accuracy")).empty
    read = rows_of({"a": {1: RIGHT, 2: RIGHT}}, "CoLA")
    assert collapsed_runs([read], metrics).empty  # known from the predictions


def test_a_score_of_0_in_a_table_is_no_sign():
    rows = [("CoLA", name, seed, 0.1 * seed) for name in ("a", "b") for seed in (0, 1)]
    report = compare(pd.DataFrame(rows, columns=["task", "method", "seed", "score"]))
    assert "collapsed" not in report.tables


def test_warning_names_methods_and_seeds():
    names = [f"m{i}" for i in range(8)]
    scores = scores_of(
        [(task, name, s, 0.5) for task in ("RTE", "MRPC") for name in names for s in (1, 2)]
    )
    lost = [("RTE", name, s, "") for name in names for s in (1, 2)]
    lost += [("MRPC", "m0", 1, ""), ("MRPC", "m0", 2, ""), ("MRPC", "m1", 2, "")]
    table = pd.DataFrame(lost, columns=["task", "method", "seed", "reason"])
    (found,) = collapse_warnings(table, scores)
    assert found.startswith(
        "Collapsed runs, which learned nothing: all runs on RTE; m0 on MRPC (seeds 1, 2); "
        "m1 on MRPC (seed 2). A t interval"
    )
    many = pd.DataFrame([("MRPC", name, 1, "") for name in names], columns=table.columns)
    (found,) = collapse_warnings(many, scores)
    assert found.startswith("Collapsed runs, which learned nothing: m0 on MRPC (seed 1); ")
    assert "m5 on MRPC (seed 1); 2 more. A t" in found
    assert [*collapse_warnings(table[:0], scores)] == []


def lines(picture):
    """Lines of the first panel's drawing, as (x, y, face color)."""
    ax = Figure().add_subplot()
    picture.panels[0].draw(ax)
    return [(list(line.get_xdata()), list(line.get_ydata()), line) for line in ax.lines]


def test_a_mean_with_a_collapsed_run_has_no_interval():
    rows = [
        ("SST-2", name, seed, score)
        for name in ("a", "b")
        for seed, score in enumerate([0.5, 0.8, 0.9])
    ]
    scores = scores_of(rows)
    look = styles(["a", "b"])
    lost = pd.DataFrame([("SST-2", "b", 0)], columns=["task", "method", "seed"])
    before, after = lines(score_dots(scores, look)), lines(score_dots(scores, look, lost))
    intervals = [
        sum(y == [place - 0.25] * 2 for _, y, _ in drawn)
        for drawn in (before, after)
        for place in (0, 1)
    ]
    assert intervals == [1, 1, 1, 0]
    (open_mark,) = [line for x, _, line in after if line.get_markerfacecolor() == "none"]
    assert list(open_mark.get_xdata()) == [0.5]
    assert score_dots(scores, look, lost).panels[0].alt.endswith("b 0.73 (3, 1 collapsed).")


def test_averages_of_a_collapsed_run_have_no_interval():
    rows = [(task, "a", seed, 0.5 + seed / 10) for task in ("SST-2", "mean") for seed in (0, 1, 2)]
    scores = replace(scores_of(rows), averages=("mean",))
    lost = pd.DataFrame([("SST-2", "a", 0)], columns=["task", "method", "seed"])
    panels = score_dots(scores, styles(["a"]), lost).panels
    assert [panel.alt.endswith("(3, 1 collapsed).") for panel in panels] == [True, True]


def test_the_report_marks_collapsed_runs(suite_of, fabricate):
    """A Matthews correlation of 0 is that of equal predictions."""

    def score(config, *_):
        lost = config.method == "linear" and config.seed in (2, 4)
        return 0.0 if lost else 0.5 + config.seed / 100

    report = make_report(fabricate(suite_of(tasks=["CoLA", "RTE"]), score))
    assert any(
        warning.startswith("Collapsed runs, which learned nothing: linear on CoLA (seeds 2, 4).")
        for warning in report.context.warnings
    )
    assert report.context.cells["linear", "CoLA"].notes == ["2 collapsed"]
    assert report.context.cells["linear", "RTE"].notes == []
    page = report.markdown()
    assert "Collapsed: runs that learned nothing; they are part of the mean." in page
    assert "n: number of finished seeds" not in page
    assert "An open mark is a collapsed run" in page


@pytest.mark.parametrize("value", [0.0, 0.4])
def test_reports_without_collapsed_runs_say_nothing(suite_of, fabricate, value):
    report = make_report(
        fabricate(suite_of(tasks=["RTE"]), lambda config, *_: value + config.seed / 99)
    )
    assert "ollapsed" not in report.markdown()
    assert "collapsed" not in report.tables
