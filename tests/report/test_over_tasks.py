"""The test of all tasks together, in reports."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest

from relation_tf.errors import SuiteError, UnknownNameError
from relation_tf.registry import PROCEDURES, register_procedure
from relation_tf.report import compare, make_report
from relation_tf.stats import (
    friedman_nemenyi,
    stratified_steel,
    stratified_steel_dwass,
    wilcoxon_holm,
)
from tests.report.conftest import better, content, noisy, separated

TASKS = ("x", "y", "z", "loss")
HIGHER = {task: task != "loss" for task in TASKS}


@pytest.fixture
def noisy_table(table_of):
    rng = np.random.default_rng(0)
    return table_of({t: {m: list(rng.normal(m == "b", 1, 3)) for m in "abc"} for t in TASKS})


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, stratified_steel_dwass),
        ({"control": "b"}, partial(stratified_steel, control="b")),
        ({"control": "a", "test_over_tasks": "wilcoxon-holm"}, partial(wilcoxon_holm, control="a")),
    ],
)
def test_statistic_and_p_are_those_of_the_procedure(noisy_table, options, expected):
    tables = compare(noisy_table, lower_is_better="loss", **options).tables
    pairs = expected(noisy_table, higher_is_better=HIGHER).pairs()
    columns = ["a", "b", "statistic", "pvalue"]
    pd.testing.assert_frame_equal(tables["over_tasks"][columns], pairs[columns])
    assert "ranks" not in tables


def test_significance_needs_enough_seeds(suite_of, fabricate):
    def found(seeds):
        suite = suite_of(tasks=["CoLA", "RTE"], seeds=seeds)
        return make_report(fabricate(suite, separated, name=f"{seeds}"))

    assert ("relation", "baseline") in better(found(3).tables["over_tasks"])
    assert better(found(2).tables["over_tasks"]) == []
    assert "so few tasks" in content(found(2))["answer"][0]
    assert "so few tasks" not in content(found(3))["answer"][0]


def test_nemenyis_test_ranks_means(noisy_table):
    options = {"test_over_tasks": "friedman-nemenyi"}
    tables = compare(noisy_table, lower_is_better="loss", **options).tables
    means = noisy_table.groupby(["task", "method"])["score"].mean().unstack().loc[[*TASKS]]
    expected = friedman_nemenyi(means, higher_is_better=HIGHER)
    found = tables["ranks"].set_index("task")
    assert found.mean().to_numpy() == pytest.approx(expected.average_ranks)
    assert tables["over_tasks"]["pvalue"].tolist() == expected.pairs()["pvalue"].tolist()


def test_tasks_that_count(suite_of, fabricate):
    """Halves of MNLI count once, a task without a method and the average not at all."""

    def score(config, *_):
        return None if (config.task, config.method) == ("RTE", "linear") else noisy(config, *_)

    tasks = ["CoLA", "MNLI", "RTE", "WNLI"]
    suite = suite_of(tasks=tasks, test_over_tasks="friedman-nemenyi")
    report = make_report(fabricate(suite, score))
    assert report.tables["ranks"]["task"].tolist() == ["CoLA", "MNLI", "WNLI"]
    assert "mean of these tasks" not in {*report.tables["ranks"]["task"]}
    alone = make_report(fabricate(suite_of(tasks=["MNLI"]), noisy, name="alone"))
    assert "over_tasks" not in alone.tables


def test_a_plugins_test_over_tasks(isolated, noisy_table):
    """Scores are turned so that higher is better."""
    isolated(PROCEDURES)
    seen = {}

    @register_procedure("own", compares="over-tasks", title="Own test", symbol="t")
    def own(samples, alpha=0.05):
        seen.update(samples)
        return stratified_steel_dwass(samples, alpha=alpha, higher_is_better=True)

    report = compare(noisy_table, test_over_tasks="own", lower_is_better="loss")
    losses = noisy_table.query("task == 'loss' and method == 'a'")["score"]
    assert seen["loss"]["a"].tolist() == (-losses).tolist()
    pairs = report.tables["over_tasks"]
    expected = stratified_steel_dwass(noisy_table, higher_is_better=HIGHER).pairs()
    assert pairs["pvalue"].tolist() == expected["pvalue"].tolist()


def test_a_test_over_tasks_at_another_level_is_refused(noisy_table, isolated):
    isolated(PROCEDURES)

    @register_procedure("half", compares="over-tasks", title="T", symbol="W")
    def half(samples, alpha=0.05):
        return stratified_steel_dwass(samples, alpha=0.5)

    with pytest.raises(SuiteError, match=r"test_over_tasks: must return a result at the level"):
        compare(noisy_table, test_over_tasks="half", lower_is_better="loss").markdown()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"test_over_tasks": "steel"}, "unknown test over tasks 'steel'"),
        ({"test_over_tasks": "stratified-steel"}, "needs --control NAME"),
        ({"test_over_tasks": "wilcoxon-holm"}, "needs --control NAME"),
        ({"test_over_tasks": "friedman-nemenyi", "control": "a"}, "compares all pairs"),
    ],
)
def test_refusals(noisy_table, options, message):
    with pytest.raises((SuiteError, UnknownNameError), match=message):
        compare(noisy_table, **options)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"test_over_tasks": "steel"}, "key 'test_over_tasks': must be a test over tasks"),
        ({"test_over_tasks": "wilcoxon-holm"}, "key 'control': must be a method of the suite with"),
        (
            {"test_over_tasks": "friedman-nemenyi", "control": "relation"},
            "key 'control': must not be set with test_over_tasks = 'friedman-nemenyi'",
        ),
    ],
)
def test_rules_of_suites(suite_of, keys, message):
    with pytest.raises(SuiteError, match=message):
        suite_of(**keys)
