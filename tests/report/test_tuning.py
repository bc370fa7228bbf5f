"""Section with the sweep before the runs."""

from __future__ import annotations

from itertools import product

import pandas as pd
import pytest

from relation_tf.config.suite import make_suite
from relation_tf.report import compare, make_report
from tests.report.conftest import content, rows_of

SWEEP = {"dropout": [0.0, 0.5], "learning_rate": [0.001, 0.01, 0.1], "seeds": [11]}


@pytest.fixture
def tuned(fabricate):
    """Return the folder of a suite with a sweep; by default, the run of the last setting failed."""

    def make(sweep=SWEEP, scores=(0.0, 0.1, 0.2, 0.3, 0.4), chosen=-2):
        suite = make_suite("small", {
            "name": "small", "source": "miniglue", "tasks": ["CoLA"], "seeds": [1, 2],
            "sweep": sweep, "method": [{"name": "mine", "mechanism": "relation"},
                                       {"name": "without-runs", "mechanism": "relation"}],
        })  # fmt: skip
        settings = [*suite.sweep.combinations()]
        task = {"task": "CoLA", "method": "mine"}
        choice = make_suite("small", {
            **suite.model_dump(exclude_defaults=True),
            "tuned": [{**task, "settings": settings[chosen]}],
        })  # fmt: skip
        rows = [
            {**task, "method": name, "seed": 11, **each, "score": score}
            for name in ("mine", "without-runs")
            for each, score in zip(settings, scores, strict=False)
        ]
        folder = fabricate(choice, lambda run, *_: 0.5 if run.method == "mine" else None)
        (folder / "sweep").mkdir()
        pd.DataFrame(rows).to_csv(folder / "sweep" / "sweep.csv", index=False)
        return folder

    return make


def test_the_key_with_the_most_values_has_columns_and_other_settings_have_rows(tuned):
    report = make_report(tuned())
    assert "| learning\\_rate 0.001 |" in report.markdown()
    assert rows_of(report, "CoLA", "mine", "0.0") == [["0.0", "10.0", "20.0"]]
    assert rows_of(report, "CoLA", "mine", "0.5") == [["30.0", "**40.0**", "–"]]


def test_renamed_methods_keep_their_sweep(tuned, table_of):
    table = table_of({"CoLA": {"mine": [0.5, 0.6]}})
    report = compare(tuned(), table, labels=["before", "after"])
    assert rows_of(report, "CoLA", "mine (before)", "0.0") == [["0.0", "10.0", "20.0"]]


def test_doubtful_sweeps_are_on_the_first_screen(suite_of, fabricate):
    """A sentence on the reference, and one on the other methods."""
    rates = [0.001, 0.01, 0.1]
    curves = {"attention": [70, 60, 50], "linear": [60, 60, 60], "relation": [50, 60, 70],
              "baseline": [50, 60, 50]}  # fmt: skip
    tuned = [
        {"task": task, "method": name, "settings": {"learning_rate": rates[own.index(max(own))]}}
        for task in ("CoLA", "MRPC")
        for name, own in curves.items()
    ]
    suite = suite_of(sweep={"learning_rate": rates, "seeds": [11]}, tuned=tuned,
                     reference="attention", margin=1.0)  # fmt: skip
    folder = fabricate(suite, lambda config, *_: 0.5 + config.seed / 100)
    (folder / "sweep").mkdir()

    def caveats(scores):
        rows = [
            (task, name, rate, 11, score / 100)
            for task, (name, own) in product(suite.tasks, scores.items())
            for rate, score in zip(rates, own, strict=True)
        ]
        columns = ["task", "method", "learning_rate", "seed", "score"]
        pd.DataFrame(rows, columns=columns).to_csv(folder / "sweep" / "sweep.csv", index=False)
        report = make_report(folder)
        found = [each for each in content(report)["caveats"] if "sweep" in each]
        opened = report.html().partition("<nav")[0]
        assert all(each in opened for each in found)
        return found

    reference, others = caveats(curves)
    assert "reference attention: learning_rate 0.001" in reference
    assert "linear on CoLA and" in others
    assert "relation on CoLA and" in others
    assert "baseline" not in others
    chosen_before, *_ = caveats({**curves, "linear": [60, 60, 90]})
    assert "are now better" in chosen_before
    assert "linear on MRPC" in chosen_before
