"""Custom metrics, statistical procedures and sections in a report."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from relation_tf.errors import OptionError, SuiteError, UnknownNameError
from relation_tf.registry import (
    METRICS,
    PROCEDURES,
    SECTIONS,
    register_metric,
    register_procedure,
    register_section,
)
from relation_tf.report import compare, make_report
from relation_tf.report.blocks import Column, Paper, Paragraph, Row, Section, Table
from relation_tf.stats import pairwise_result
from tests.report.conftest import TWO, better, content


@pytest.fixture(autouse=True)
def registered(isolated):
    """Restore the registries after each test."""
    for registry in (METRICS, PROCEDURES, SECTIONS):
        isolated(registry)


@pytest.fixture
def regression(suite_of):
    """Make a suite with a task with a lower-is-better metric."""

    def make(metrics=("rmse",), tasks=("mine",), **values):
        options = {"high": None, "higher_is_better": False, "points": 1.0, "target": "scores"}
        register_metric("rmse", "RMSE", **options)(lambda a, b: np.sqrt(np.mean((a - b) ** 2)))
        files = {"train": "train.csv", "test": "test.csv"}
        task = {"name": "mine", "inputs": ["a", "b"], "label": "y", "metrics": [*metrics],
                "files": files}  # fmt: skip
        return suite_of(tasks=[*tasks], task=[task], method=TWO, **values)

    return make


def error(config, task, metric):
    """Return a lower error and a higher correlation for relation."""
    better = config.method == "relation"
    level = 0.9 - 0.3 * better if metric == "rmse" else 0.6 + 0.2 * better
    return level + config.seed / 100


def bold(report):
    return re.findall(r'<span class="mean"><b>([^<]+)</b>', report.html())


def test_lower_is_better_metric(regression, fabricate):
    report = make_report(fabricate(regression(), error))
    assert better(report.tables["pvalues"]) == [("relation", "baseline")]
    assert content(report)["lower_is_better"] == ["mine"]
    assert "lower is better" in str(report)
    assert bold(report) == ["0.630"]  # not times 100
    assert 'aria-label="relation better"' in report.html()


def test_no_mean_of_metrics_with_different_directions(regression, fabricate):
    report = make_report(fabricate(regression(metrics=("rmse", "pearson")), error))
    assert {*report.tables["scores"]["metric"]} == {"rmse", "pearson"}
    # Only the first metric is tested.
    assert report.tables["pvalues"]["difference"].tolist() == pytest.approx([-0.3])
    assert better(report.tables["pvalues"]) == [("relation", "baseline")]
    assert bold(report) == ["0.630 / 83.0"]


def test_no_average_of_tasks_with_different_directions(regression, fabricate, tmp_path):
    report = make_report(fabricate(regression(tasks=("CoLA", "mine")), error))
    assert [*report.tables["table"]["task"].unique()] == ["CoLA", "mine"]
    assert better(report.tables["pvalues"]) == [("relation", "baseline")] * 2
    assert bold(report) == ["83.0", "0.630"]
    # Reading the report again restores the units.
    again = compare(report.write(tmp_path / "out").parent)
    assert content(again)["points"] == {"mine": 1.0}
    assert bold(again) == bold(report)


def test_metric_of_a_missing_plugin_is_named(regression, fabricate):
    folder = fabricate(regression(), error)
    del METRICS._entries["rmse"]
    with pytest.raises(SuiteError, match="rmse"):
        make_report(folder)


@pytest.fixture
def table(table_of):
    """Make a table of two tasks from the level of each method."""

    def make(levels):
        scores = {name: [level + seed / 100 for seed in range(5)] for name, level in levels.items()}
        return table_of({"A": scores, "B": scores})

    return make


def test_a_procedure_of_another_library(table):
    @register_procedure("tukey", compares="all-pairs", title="Tukey's HSD", symbol="d")
    def tukey(samples, **options):
        result, pairs = stats.tukey_hsd(*samples.values()), np.triu_indices(len(samples), 1)
        found = -result.statistic[pairs], result.pvalue[pairs]
        return pairwise_result("tukey", samples, *found, **options)

    source = table({"a": 0.5, "b": 0.505, "c": 0.8})
    report = compare(source, test="tukey")
    expected = stats.tukey_hsd(*(own["score"] for _, own in source[:15].groupby("method")))
    pvalues = report.tables["pvalues"]
    assert pvalues["pvalue"][:3].tolist() == pytest.approx(
        expected.pvalue[np.triu_indices(3, 1)].tolist()
    )
    assert pvalues["significant"][:3].tolist() == [False, True, True]
    assert better(pvalues) == [("c", "a"), ("c", "b")] * 2
    assert "(Tukey's HSD, p" in report.latex()
    details = report.markdown().partition("## Test details")[2].partition("## Warn")[0]
    assert "Tukey's HSD, all pairs" in details
    for absent in ("Steel-Dwass", "permutation", "smallest possible"):
        assert absent not in details


def test_a_result_without_pairs_is_refused(table):
    @register_procedure("theirs", compares="all-pairs", title="Theirs", symbol="t")
    def theirs(samples, alpha, higher_is_better):
        return stats.tukey_hsd(*samples.values())

    with pytest.raises(OptionError, match="test: must return a result with pairs"):
        compare(table({"a": 0.5, "b": 0.8}), test="theirs").markdown()


def test_a_procedure_with_a_control(table):
    @register_procedure("dunnett", compares="against-control", title="Dunnett's test", symbol="t")
    def dunnett(samples, control, **options):
        others = [own for name, own in samples.items() if name != control]
        result = stats.dunnett(*others, control=samples[control], rng=0)
        found = result.statistic, result.pvalue
        return pairwise_result("dunnett", samples, *found, control=control, **options)

    source = table({"a": 0.5, "b": 0.505, "c": 0.8})
    report = compare(source, control="b", test="dunnett")
    assert report.tables["pvalues"]["significant"].tolist() == [False, True] * 2
    with pytest.raises(
        SuiteError, match="test: dunnett compares with a control, so it needs --control NAME"
    ):
        compare(source, test="dunnett")
    with pytest.raises(UnknownNameError, match=r"unknown test 'dunet'.*'dunnett'"):
        compare(source, test="dunet")


def test_custom_section_in_all_formats(table):
    @register_section("seeds-used")
    class Used(Section):
        heading = "Seeds of mine"
        after = "scores"

        def blocks(self, context):
            columns = [Column("Method", "method"), Column("Seeds", "number")]
            rows = [Row([name, "5"], [name]) for name in context.scores.methods]
            return [
                Paragraph("Five & more."),
                Table("Seeds", columns, rows, paper=Paper("used", "Seeds used")),
            ]

        def tables(self, context):
            return {"used": pd.DataFrame({"seeds": [5]})}

    @register_section("last")
    class Last(Section):
        heading = "Before the last"

        def blocks(self, context):
            return [Paragraph("Here.")]

    report = compare(table({"a": 0.5, "b": 0.8}))
    page = report.html()
    order = re.findall(r'<(?:section|details) [^>]*id="([\w-]+)"', page)
    assert order[order.index("scores") + 1] == "seeds-used"
    assert order[-2:] == ["last", "made"]
    assert "Five &amp; more." in page
    assert "Five & more." in report.markdown()
    assert "a | 5" in report.markdown()
    assert r"\label{tab:used}" in report.latex()
    assert [*report.tables][-1] == "used"
