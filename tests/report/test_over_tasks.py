"""The test of all tasks together, in reports."""

from __future__ import annotations

import html
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from relation_tf.bench.results import read_results
from relation_tf.errors import SuiteError, UnknownNameError
from relation_tf.registry import PROCEDURES, register_procedure
from relation_tf.report import compare, make_report
from relation_tf.report.over_tasks import over_tasks
from relation_tf.report.scores import Scores
from relation_tf.stats import (
    friedman_nemenyi,
    stratified_steel,
    stratified_steel_dwass,
    wilcoxon_holm,
)
from relation_tf.stats.directions import Direction

LEVEL = {"attention": 0.7, "linear": 0.6, "relation": 0.8, "baseline": 0.5}


def separated(config, *_):
    return LEVEL[config.method] + config.seed / 100


def noisy(config, task, metric):
    where = [config.seed, *task.encode(), *config.method.encode(), *metric.encode()]
    return float(np.random.default_rng(where).uniform(0.4, 0.8))


def text_of(page):
    return " ".join(html.unescape(page).split())


@pytest.fixture
def noisy_table(table_of):
    rng = np.random.default_rng(0)
    return table_of(
        {t: {m: list(rng.normal(m == "b", 1, 3)) for m in "abc"} for t in ("x", "y", "z", "loss")}
    )


def test_the_default_is_stratified_steel_dwass(noisy_table):
    report = compare(noisy_table, lower_is_better="loss")
    several = report.context.several
    higher = {task: task != "loss" for task in ("x", "y", "z", "loss")}
    expected = stratified_steel_dwass(noisy_table, higher_is_better=higher).pairs()
    pd.testing.assert_frame_equal(several.pairs[[*"ab", "statistic", "pvalue"]],
                                  expected[[*"ab", "statistic", "pvalue"]])  # fmt: skip
    written = report.tables["over_tasks"]
    assert written["effect_size"].tolist() == expected["effect_size"].tolist()
    assert (written["effect_low"] < written["effect_size"]).all()
    for page in (report.html(), report.markdown()):
        assert "Stratified Steel-Dwass over 4 tasks uses every seed" in text_of(page)
        assert "applies to these tasks only" in text_of(page)
    assert "ranks" not in report.tables


def test_a_control_makes_it_stratified_steel(noisy_table):
    report = compare(noisy_table, control="b", higher_is_better="loss")
    expected = stratified_steel(noisy_table, "b", higher_is_better={"loss": True}).pairs()
    assert report.context.several.pairs["pvalue"].tolist() == expected["pvalue"].tolist()
    assert "Stratified Steel against b over 4 tasks" in text_of(report.markdown())


def test_the_answer_begins_with_all_tasks(suite_of, fabricate):
    report = make_report(fabricate(suite_of(tasks=["CoLA", "RTE"]), separated))
    first = report.context.answer[0]
    assert first.startswith("Over the 2 tasks together (Stratified Steel-Dwass, p < .05): ")
    assert "relation better than baseline" in first
    for seeds, found in (
        (2, "without ties no difference can be significant with so few tasks"),
        (3, "no two methods differ significantly"),
    ):
        suite = suite_of(tasks=["CoLA", "RTE"], seeds=seeds)
        equal = make_report(fabricate(suite, noisy, name=f"{seeds}"))
        assert equal.context.answer[0] == (
            f"Over the 2 tasks together (Stratified Steel-Dwass): {found}."
        )


def test_joining_seeds_of_tasks_is_called_arbitrary(suite_of, fabricate):
    report = make_report(fabricate(suite_of(tasks=["CoLA", "RTE"]), separated))
    assert "grouping them by seed is arbitrary" in text_of(report.markdown())


def test_nemenyis_test_uses_means(suite_of, fabricate):
    suite = suite_of(tasks=["CoLA", "RTE", "WNLI"], test_over_tasks="friedman-nemenyi")
    scores = Scores.of(read_results(fabricate(suite, noisy)))
    means = scores.table.groupby(["task", "method"])["score"].mean().unstack()
    means = means.loc[["CoLA", "RTE", "WNLI"], scores.methods]
    several = over_tasks(scores)
    expected = friedman_nemenyi(means)
    assert several.result.average_ranks.to_numpy() == pytest.approx(expected.average_ranks)
    # The average does not count as a task.
    assert several.tasks == ["CoLA", "RTE", "WNLI"]
    lower = dict.fromkeys(several.tasks, Direction(False, "declared"))
    turned = over_tasks(replace(scores, directions=lower))
    assert turned.result.average_ranks.to_numpy() == pytest.approx(5 - expected.average_ranks)
    two = replace(scores, methods=["relation", "linear"])
    two = replace(two, table=scores.table[scores.table["method"].isin(two.methods)])
    assert over_tasks(two) is None


def test_nemenyis_test_warns_of_few_tasks_and_of_the_pool(suite_of, fabricate):
    """HTML and Markdown show the exact p, warn about Nemenyi's p, and omit Iman and Davenport."""
    suite = suite_of(tasks=["CoLA", "RTE", "WNLI"], test_over_tasks="friedman-nemenyi")
    report = make_report(fabricate(suite, separated))
    assert "ranks" in report.tables
    for page in (report.html(), report.markdown()):
        text = text_of(page)
        assert "p = .002 (exact). Significant by Nemenyi's test" in text
        assert "relation better than baseline. " in text
        assert "With fewer than 10 tasks Nemenyi's p is a rough approximation" in text
        assert "depends on the other methods in the comparison (Benavoli" in text
        assert "Iman" not in text


@pytest.mark.parametrize(
    ("test", "generalizes"),
    [
        (None, False),
        ("friedman-nemenyi", True),
        ("wilcoxon-holm", True),
        ("stratified-steel", False),
    ],
)
def test_the_scope_names_tests_that_generalize_to_tasks(noisy_table, test, generalizes):
    control = "a" if test in {"wilcoxon-holm", "stratified-steel"} else None
    text = compare(
        noisy_table, control=control, test_over_tasks=test, higher_is_better="loss"
    ).markdown()
    assert "Scope: " in text
    assert ("the test over tasks generalizes to similar tasks" in text) == generalizes


def test_wilcoxons_test_against_a_control(noisy_table):
    report = compare(
        noisy_table, control="a", test_over_tasks="wilcoxon-holm", higher_is_better="loss"
    )
    expected = wilcoxon_holm(noisy_table, "a", higher_is_better={"loss": True}).pairs()
    assert report.context.several.pairs["pvalue"].tolist() == expected["pvalue"].tolist()
    text = text_of(report.markdown())
    assert "Wilcoxon's signed-rank test with Holm against a over 4 tasks" in text
    assert "The tasks have different units" not in text
    mixed = compare(
        noisy_table, control="a", test_over_tasks="wilcoxon-holm", lower_is_better="loss"
    )
    assert "The tasks have different units or directions" in text_of(mixed.markdown())


def test_halves_of_mnli_count_once(suite_of, fabricate):
    tasks = ["CoLA", "MNLI", "RTE"]
    report = make_report(fabricate(suite_of(tasks=tasks), noisy))
    assert report.context.several.tasks == tasks
    assert "MNLI-m and MNLI-mm have the same network or training rows and count once" in text_of(
        report.markdown()
    )
    alone = Scores.of(read_results(fabricate(suite_of(tasks=["MNLI"]), noisy, name="alone")))
    assert over_tasks(alone) is None


def test_a_task_without_all_methods_is_left_out(suite_of, fabricate):
    def score(config, *_):
        return None if config.task == "RTE" and config.method == "linear" else separated(config)

    report = make_report(fabricate(suite_of(tasks=["CoLA", "RTE", "WNLI"]), score))
    assert report.context.several.tasks == ["CoLA", "WNLI"]
    assert "Left out, because a method has no scores: RTE." in report.markdown()


def test_a_plugins_test_over_tasks(isolated, noisy_table):
    """Only `pvalue` is needed; scores are turned so that higher is better."""
    isolated(PROCEDURES)
    seen = {}

    @register_procedure("own", compares="over-tasks", title="Own test", symbol="t")
    def own(samples, alpha=0.05):
        seen.update(samples)
        return SimpleNamespace(pvalue=[[1, 0.01, 0.3], [0.01, 1, 0.02], [0.3, 0.02, 1]])

    report = compare(noisy_table, test_over_tasks="own", lower_is_better="loss")
    losses = noisy_table.query("task == 'loss' and method == 'a'")["score"]
    assert seen["loss"]["a"].tolist() == (-losses).tolist()
    pairs = report.context.several.pairs
    assert pairs["pvalue"].tolist() == [0.01, 0.3, 0.02]
    assert pairs["better"].tolist()[1] is None
    assert {pairs["better"][0], pairs["better"][2]} <= {"a", "b", "c"}
    assert "Own test over 4 tasks." in text_of(report.markdown())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"test_over_tasks": "steel"}, "unknown test over tasks 'steel'"),
        ({"test_over_tasks": "stratified-steel"}, "needs --control NAME"),
        ({"test_over_tasks": "wilcoxon-holm"}, "needs --control NAME"),
        ({"test_over_tasks": "friedman-nemenyi", "control": "a"}, "compares all pairs"),
        ({"test_over_tasks": "nemenyi"}, "unknown test over tasks 'nemenyi'"),
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


def test_the_smallest_p_is_that_of_the_seeds_of_all_tasks(table_of):
    """The first task has three seeds, the second two."""
    samples = {
        "x": {name: [place + seed / 10 for seed in range(3)] for place, name in enumerate("abc")},
        "y": {name: [place + seed / 10 for seed in range(2)] for place, name in enumerate("abc")},
    }
    report = compare(table_of(samples))
    best = report.context.several.result.attainable_pvalue
    # The six orders of two methods; two of them with the third below or above; a chain of three.
    two = 6 / (84 * 15) + 6 / (1680 * 90)
    assert best == pytest.approx(6 / (20 * 6) - two)
    assert "methods, tasks and seeds is at least .045 (without ties)" in text_of(report.markdown())
    more = compare(table_of({f"{task}{i}": own for task, own in samples.items() for i in range(3)}))
    assert "methods, tasks and seeds is below .001 (without ties)" in text_of(more.markdown())


def test_nemenyis_test_needs_three_methods(noisy_table, suite_of, fabricate):
    pair = noisy_table[noisy_table["method"] != "c"]
    with pytest.raises(SuiteError, match=r"needs at least 3 methods\. Received: 2"):
        compare(pair, test_over_tasks="friedman-nemenyi")
    families = {"families": [["a", "b"], ["c", "d"]]}
    four = pd.concat([noisy_table, pair.assign(method=pair["method"].map({"a": "c2", "b": "d"}))])
    with pytest.raises(SuiteError, match=r"needs at least 3 methods in each family\. Received: 2"):
        compare(four[four["method"] != "c2"], test_over_tasks="friedman-nemenyi", **families)
    # A suite of which only two methods have runs.
    suite = suite_of(test_over_tasks="friedman-nemenyi")
    folder = fabricate(
        suite,
        lambda run, *_: separated(run) if run.method in ("attention", "relation") else None,
    )
    report = make_report(folder)
    assert report.context.several is None
    assert "Nemenyi's test needs at least 3 methods, so there is no test" in text_of(report.html())


def test_units_are_remarked_once(table_of):
    near = {name: [x, x + 0.02, x + 0.01] for name, x in (("a", 0.5), ("b", 0.52), ("c", 0.4))}
    far = {name: [100 * score for score in own] for name, own in near.items()}
    table = table_of({"A": near, "B": far, "C": near, "D": far, "E": near, "F": far})
    page = compare(table, control="a", test_over_tasks="wilcoxon-holm").markdown()
    assert page.count("the ranks of differences depend on the units") == 1


def test_a_test_over_tasks_at_another_level_is_refused(noisy_table, isolated):
    isolated(PROCEDURES)

    @register_procedure("half", compares="over-tasks", title="T", symbol="W")
    def half(samples, alpha=0.05):
        return stratified_steel_dwass(samples, alpha=0.5)

    with pytest.raises(SuiteError, match=r"test_over_tasks: must return a result at the level"):
        compare(noisy_table, test_over_tasks="half", lower_is_better="loss").markdown()
