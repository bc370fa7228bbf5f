"""Collapsed runs: their definition, warning, table and picture."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from relation_tf.bench import read_results
from relation_tf.report import compare, make_report
from relation_tf.report.lost_runs import tasks_at_chance
from relation_tf.report.sections.predictions import PredictedRows
from tests.report.conftest import content

ROWS = 200
LABELS = np.arange(ROWS) % 3 // 2  # two of three rows are of class 0
NOISE = np.random.default_rng(0).random(ROWS)


def probabilities(chosen):
    return np.where(np.arange(2) == np.asarray(chosen)[:, None], 0.9, 0.1)


RIGHT = probabilities(LABELS)
GUESSED = probabilities(np.arange(ROWS) % 2)  # right in half of the rows, majority in two thirds


@pytest.fixture
def collapsed(suite_of, fabricate):
    """Return the reasons of collapsed runs, from outputs by method and seed."""

    def find(task, outputs, score=0.5):
        methods = [{"name": name, "mechanism": "relation"} for name in outputs]
        suite = suite_of(tasks=[task], method=methods, seeds=2)
        folder = fabricate(suite, lambda *_: score)
        for run in read_results(folder).runs:
            own = outputs[run["method"]][run["seed"] - 1]
            columns = {"index": range(ROWS), "prediction": own, "label": 2.5 * LABELS}
            if task != "STS-B":
                shares = {f"probability_{label}": own[:, label] for label in (0, 1)}
                columns |= {"prediction": own.argmax(1), "label": LABELS, **shares}
            path = folder / "runs" / task / run["method"] / f"seed-{run['seed']}" / "predictions"
            path.mkdir()
            pd.DataFrame(columns).to_csv(path / f"{task}.dev.tsv", sep="\t", index=False)
        table = make_report(folder).tables.get("collapsed", pd.DataFrame())
        return {(row.method, row.seed): row.reason for row in table.itertuples()}

    return find


@pytest.mark.parametrize(
    ("task", "outputs", "expected"),
    [
        ("SST-2", {"a": [RIGHT, probabilities(np.zeros(ROWS))]}, {("a", 2): "predictions are 0"}),
        # Below the majority, where others learn.
        ("SST-2", {"a": [RIGHT, GUESSED], "b": [RIGHT, RIGHT]}, {("a", 2): "most frequent class"}),
        ("SST-2", {"a": [GUESSED, GUESSED], "b": [RIGHT, GUESSED]}, {}),
        ("STS-B", {"a": [NOISE, np.full(ROWS, 2.7)]}, {("a", 2): "predictions are 2.7"}),
        ("STS-B", {"a": [NOISE, 2.7 + NOISE / 100]}, {("a", 2): "predictions are about 2.7"}),
        (
            "STS-B",
            {"a": [LABELS / 100, LABELS + NOISE], "b": [LABELS, NOISE]},
            {("b", 2): "correlation with the labels is not above 0"},
        ),
    ],
)
def test_predictions_of_collapsed_runs(collapsed, task, outputs, expected):
    found = collapsed(task, outputs)
    assert found.keys() == expected.keys()
    assert all(part in found[run] for run, part in expected.items())


@pytest.mark.parametrize(("metrics", "expected"), [(["accuracy"], ["guessed"]), (["matthews"], [])])
def test_a_reference_at_chance(metrics, expected):
    """No worse than it says nothing: two thirds of the rows are of one class."""
    runs = {"guessed": {1: (LABELS, GUESSED), 2: (LABELS, RIGHT), 3: (LABELS, GUESSED)},
            "learned": {1: (LABELS, GUESSED), 2: (LABELS, RIGHT), 3: (LABELS, RIGHT)}}  # fmt: skip
    sets = [PredictedRows(name, ["no", "yes"], {"r": runs[name]}, metrics) for name in runs]
    sets += [PredictedRows("score", [], {"r": {1: (LABELS, LABELS + NOISE)}}, ["pearson"])]
    assert [*tasks_at_chance(sets, "r")] == expected
    assert [*tasks_at_chance(sets, "unknown")] == []


def test_a_correlation_of_0_is_known_from_the_predictions(collapsed):
    assert collapsed("CoLA", {"a": [RIGHT, RIGHT]}, score=0.0) == {}


def test_a_score_of_0_in_a_table_is_no_sign(table_of):
    report = compare(table_of({"CoLA": {"a": [0.0, 0.1], "b": [0.0, 0.1]}}))
    assert "collapsed" not in report.tables


@pytest.fixture
def report(suite_of, fabricate):
    """Return a report without predictions: a Matthews correlation of 0 is that of equal ones."""

    def score(config, *_):
        lost = config.method == "linear" and config.seed in (2, 4)
        return 0.0 if lost else 0.5 + config.seed / 100

    return make_report(fabricate(suite_of(tasks=["CoLA", "RTE"]), score))


def test_the_report_marks_collapsed_runs(report):
    table = report.tables["collapsed"][["task", "method", "seed"]]
    assert table.to_numpy().tolist() == [["CoLA", "linear", 2], ["CoLA", "linear", 4]]
    assert any("CoLA (seeds 2, 4)" in each for each in content(report)["warnings"])
    assert str(report).count("(2 collapsed)") == 1
    labels = re.findall(r'role="img" aria-label="([^"]+collapsed[^"]+)"', report.html())
    assert len(labels) == 2  # of CoLA and the mean


def test_a_mean_with_a_collapsed_run_has_no_interval(report):
    """The lines of two points at one height are the intervals of the four methods."""
    (scores,) = (each for each in report.data.pictures if each.name == "scores")
    drawn = [Figure().add_subplot() for _ in scores.panels]
    for ax, panel in zip(drawn, scores.panels, strict=True):
        panel.draw(ax)
    flat = [
        [len(x.get_xdata()) == 2 and not np.ptp(x.get_ydata()) for x in ax.lines] for ax in drawn
    ]
    assert [sum(own) for own in flat] == [3, 4, 3]  # CoLA, RTE, their mean
    marks = [x for x in drawn[0].lines if x.get_markerfacecolor() == "none"]
    assert [x.get_xdata().tolist() for x in marks] == [[0, 0]]
