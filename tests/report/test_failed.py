"""Failed and collapsed runs in reports and comparisons."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from relation_tf.errors import OptionError
from relation_tf.files import write_json
from relation_tf.networks.mechanisms import mixes_tokens
from relation_tf.registry import MECHANISMS, register_mechanism
from relation_tf.report import compare, make_report
from relation_tf.stats import steel_dwass, stratified_steel_dwass

A, B = [80.0, 81.0, 82.0, 83.0, 84.0], [85.0, 86.0, 87.0, 88.0, np.nan]


def pvalue(report, task="x"):
    (own,) = [p for p in report.context.pvalues.itertuples() if p.task == task]
    return own.pvalue


@pytest.mark.parametrize("lost", [np.nan, np.inf, -np.inf, ""])
def test_a_score_that_is_not_finite_is_ranked_worst(table_of, lost):
    table = table_of({"x": {"a": A, "b": [*B[:4], 0.0]}}).astype({"score": object})
    table.loc[9, "score"] = lost
    report = compare(table)
    assert pvalue(report) == pytest.approx(steel_dwass({"a": A, "b": B}).pvalue.loc["a", "b"])
    assert report.context.summary.set_index("method")["n"].to_dict() == {"a": 5, "b": 4}
    assert report.context.summary.set_index("method").loc["b", "mean"] == 86.5
    assert "86.5" in report.markdown()
    assert "(4 of 5 runs, 1 failed)" in report.markdown()
    assert pvalue(compare(table, drop_failed=True)) == pytest.approx(
        steel_dwass({"a": A, "b": B[:4]}).pvalue.loc["a", "b"]
    )
    replaced = compare(table, failed_as=0.0)
    assert replaced.context.summary.set_index("method").loc["b", "mean"] == 69.2


def test_lower_is_better(table_of):
    """A failed run of the lower method makes it worse, not better."""
    report = compare(table_of({"x loss": {"a": A, "b": [75.0, 76.0, 77.0, 78.0, np.nan]}}))
    expected = steel_dwass({"a": A, "b": [75, 76, 77, 78, np.nan]}, higher_is_better=False)
    assert pvalue(report, "x loss") == pytest.approx(expected.pvalue.loc["a", "b"])


def test_a_method_without_any_score(table_of):
    report = compare(table_of({"x": {"a": A, "b": A, "c": [np.nan] * 5}}))
    pairs = report.context.pvalues.set_index(["a", "b"])
    assert pairs.loc[("a", "c"), "better"] == "a"
    assert "0 of 5 runs, 5 failed" in report.markdown()
    assert "nan" not in report.latex()


def test_a_test_over_tasks_ranks_failed_runs_worst(table_of):
    samples = {task: {"a": A, "b": B} for task in ("x", "y", "z")}
    report = compare(table_of(samples))
    expected = stratified_steel_dwass(samples, higher_is_better=True).pairs()["pvalue"]
    assert report.context.several.pairs["pvalue"].tolist() == pytest.approx(expected.tolist())


def test_tests_of_means_leave_failed_runs_out_and_say_so(table_of):
    report = compare(table_of({"x": {"a": A, "b": B}}), test="welch")
    assert report.context.pvalues["n_b"].tolist() == [4]
    assert any("leaves out failed runs of b" in each for each in report.context.caveats)
    ranked = compare(table_of({"x": {"a": A, "b": B}}))
    assert not any("leaves out" in each for each in ranked.context.caveats)


@pytest.mark.parametrize(
    ("task", "lower", "value", "bound"),
    [
        ("x", [], 80.5, "at most 80"),
        ("x loss", [], 0.0, "at least 88"),
        ("x", ["x"], 0.0, "at least 88"),  # a direction that the table does not know
        ("x", [], 80.0, None),
        ("x loss", [], 100.0, None),
    ],
)
def test_a_failed_run_gets_no_better_score_than_another_run(table_of, task, lower, value, bound):
    table = table_of({task: {"a": A, "b": B}, "whole": {"a": [-1.0, *A[1:]], "b": A}})
    options = {"failed_as": value, "lower_is_better": lower}
    if bound is None:
        assert compare(table, **options).context.failed.empty
    else:
        with pytest.raises(OptionError, match=f"failed_as: must be .* {bound}"):
            compare(table, **options)


def test_a_task_on_which_all_runs_diverged_has_no_test(suite_of, fabricate):
    methods = [{"name": name, "mechanism": name} for name in ("attention", "relation")]
    suite = suite_of(tasks=["CoLA", "RTE"], method=methods, seeds=2)
    folder = fabricate(suite, lambda config, *_: 0.5 if config.task == "RTE" else None)
    for config in suite.runs():
        run = folder / "runs" / config.task / config.method / f"seed-{config.seed}"
        if config.task == "CoLA":
            run.mkdir(parents=True)
            write_json(run / "error.json", {"error": "diverged in epoch 1", "diverged": True})
    assert [*make_report(folder).context.comparisons] == ["RTE"]


def left_out(report):
    """Return the caveats that name failed runs without a place in the test."""
    return [each for each in report.context.caveats if "leaves out failed runs of b" in each]


@pytest.mark.parametrize(
    ("options", "is_left_out"),
    [
        ({"test_over_tasks": "wilcoxon-holm"}, True),  # a test of means; that of tasks is of ranks
        ({"test": "welch"}, False),  # the test over tasks ranks runs, that of tasks is of means
        ({"drop_failed": True}, True),
    ],
)
@pytest.mark.parametrize("reference", [None, "a"])
def test_the_test_of_the_headline_decides_on_failed_runs(table_of, options, is_left_out, reference):
    tasks = {task: {"a": A, "b": [*A[:4], np.nan]} for task in "uvwxyz"}
    tasks |= {task: {"a": A, "b": [x + 20 for x in own["b"]]} for task, own in tasks.items()}
    control = {"control": "a"} if "test_over_tasks" in options else {}
    report = compare(table_of(tasks), reference=reference, **options, **control)
    assert bool(left_out(report)) == is_left_out
    assert all("6 failed runs" in each for each in left_out(report))
    offered = any("otherwise the test" in each for each in report.context.caveats)
    assert offered == (reference is not None and not is_left_out)
    assert not any("rank them worst" in each for each in report.context.doubts)


@pytest.mark.parametrize("drop_failed", [False, True])
def test_a_method_whose_runs_mostly_failed_is_not_the_best(table_of, drop_failed):
    table = table_of({"x": {"a": A, "b": [99.0, *[np.nan] * 4]}})
    headline = compare(table, drop_failed=drop_failed).context.headline
    assert headline.startswith("Without b (")
    assert "a has the highest mean" in headline


@pytest.mark.parametrize(
    ("reference", "scores", "said"),
    [
        ("a", [np.nan] * 5, "No verdict. All 5 runs of b failed."),
        ("b", [np.nan] * 5, "No verdict. All 5 runs of b failed."),
        ("b", [80.0, *[np.nan] * 4], "No verdict. 4 of 5 runs of b failed."),
    ],
)
def test_failed_runs_are_why_there_is_no_verdict(table_of, reference, scores, said):
    report = compare(table_of({"x": {"a": A, "b": scores}}), reference=reference)
    assert report.context.headline == said
    assert not report.context.caveats


@pytest.mark.parametrize("reference", [None, "a"])
def test_a_method_without_scores_is_named_next_to_the_headline(table_of, reference):
    table = table_of({"x": {"a": A, "b": [np.nan] * 5, "c": [each - 20 for each in A]}})
    context = compare(table, reference=reference).context
    assert "All 5 runs of b failed." in context.caveats
    assert "failed" not in context.headline


def test_verdicts_that_need_the_score_are_withheld(table_of):
    better = [95.0, 96.0, 97.0, 98.0, np.nan]
    report = compare(table_of({"x": {"a": A, "b": better}}), reference="a")
    row = report.context.verdicts.tasks["x"].loc["b"]
    assert (row["verdict"], row["reason"]) == ("inconclusive", "1 failed run")


@pytest.fixture
def diverged(suite_of, fabricate):
    """A folder of two methods; one of five runs of one has diverged."""
    methods = [{"name": name, "mechanism": name} for name in ("attention", "relation")]
    suite = suite_of(tasks=["CoLA", "RTE"], method=methods, reference="attention", seeds=5)

    def score(config, *_):
        if config.task == "CoLA" and config.method == "relation" and config.seed == 5:
            return None
        return {"attention": 0.5, "relation": 0.8}[config.method] + config.seed / 1000

    folder = fabricate(suite, score)
    run = folder / "runs" / "CoLA" / "relation" / "seed-5"
    run.mkdir(parents=True)
    write_json(run / "error.json", {"error": "diverged in epoch 1", "diverged": True})
    return folder


def test_a_diverged_run_of_a_suite(diverged):
    context = make_report(diverged).context
    assert context.cells["relation", "CoLA"].notes == ["4 of 5 runs, 1 diverged"]
    assert "19 of 20 runs are done, 1 diverged." in context.answer[0]
    assert "Preliminary" not in context.answer[0]
    test = context.comparisons["CoLA"]
    assert np.isnan(test.samples["relation"]).tolist() == [False] * 4 + [True]
    assert len(context.comparisons["RTE"].samples["relation"]) == 5
    verdicts = context.verdicts.tasks
    assert verdicts["CoLA"].loc["relation", "verdict"] == "inconclusive"
    assert verdicts["CoLA"].loc["relation", "reason"] == "1 diverged run"
    assert verdicts["RTE"].loc["relation", "verdict"] == "better"


def test_a_comparison_of_the_report_has_the_same_tests(diverged):
    report = make_report(diverged)
    report.write(diverged / "report")
    for source in (diverged, diverged / "report"):
        again = compare(source, reference="attention").context
        assert again.cells["relation", "CoLA"].notes == ["4 of 5 runs, 1 diverged"]
        named = any("1 failed run without" in each for each in again.warnings)
        assert named == (source != diverged)
        assert [*again.pvalues["pvalue"][:1]] == pytest.approx(
            [*report.tables["pvalues"]["pvalue"][:1]]
        )


def test_a_report_of_an_earlier_version_loses_the_scores_of_diverged_runs(diverged):
    make_report(diverged).write(diverged / "report")
    runs = pd.read_csv(diverged / "report" / "runs.csv")
    own = (runs["task"] == "RTE") & (runs["method"] == "relation") & (runs["seed"] == 2)
    runs.loc[own, "diverged"] = True
    runs.to_csv(diverged / "report" / "runs.csv", index=False)
    context = compare(diverged / "report").context
    assert context.cells["relation", "RTE"].notes == ["4 of 5 runs, 1 diverged"]
    assert len(context.scores.samples("RTE")["relation"]) == 4


def headline_of(suite_of, fabricate, scores, **changes):
    """Matthews 0 is that of equal predictions."""
    methods = [{"name": name, "mechanism": "relation"} for name in scores]
    suite = suite_of(tasks=["CoLA"], method=methods, seeds=4, **changes)
    return make_report(fabricate(suite, lambda run, *_: scores[run.method][run.seed - 1])).context


def test_no_winner_if_no_method_learned(suite_of, fabricate):
    lost = {"a": [0.0, 0.0, 0.0, 0.3], "b": [0.0, 0.0, 0.1, 0.1]}
    for changes in ({}, {"reference": "a"}):
        context = headline_of(suite_of, fabricate, lost, **changes)
        assert context.headline.startswith("No method learned the task: ")
    assert "highest mean" not in context.headline


def test_a_method_that_mostly_learned_nothing_is_not_the_best(suite_of, fabricate):
    scores = {"a": [0.0, 0.0, 0.9, 0.9], "b": [0.2, 0.21, 0.22, 0.23]}
    headline = headline_of(suite_of, fabricate, scores).headline
    assert headline.startswith(
        "Without a (at least half of its runs failed or learned nothing), b has the"
    )
    fewer = {**scores, "a": [0.0, 0.8, 0.9, 0.9]}
    assert headline_of(suite_of, fabricate, fewer).headline.startswith("a has the highest mean")


def test_a_verdict_with_collapsed_runs_says_that_seeds_do_not_show_how_often(suite_of, fabricate):
    level = {"a": [0.30, 0.31, 0.32, 0.33], "b": [0.5, 0.52, 0.53, 0.0], "c": [0.6] * 3 + [0.61]}
    context = headline_of(suite_of, fabricate, level, reference="a")
    page = context.sections["answer"].blocks(context)
    shown = str(page)
    assert shown.count("1 of 4 collapsed; 4 seeds do not show how often") >= 1
    assert "18 to 31 % of cases" in shown
    whole = headline_of(suite_of, fabricate, {**level, "b": level["a"]}, reference="a")
    assert "do not show how often" not in str(whole.sections["answer"].blocks(whole))
    reference = headline_of(suite_of, fabricate, {**level, "a": level["b"]}, reference="a")
    assert re.search(
        r"1 of 4 of a collapsed; 4 seeds", str(reference.sections["answer"].blocks(reference))
    )


def test_a_mechanism_that_mixes_no_tokens_is_not_to_be_trained_longer(
    suite_of, fabricate, isolated
):
    isolated(MECHANISMS)
    register_mechanism("blind", mixes_tokens=False)(lambda units, name="mechanism": None)
    level = {"attention": 0.5, "blind": 0.0, "linear": 0.0}
    mechanisms = {"attention": "attention", "blind": "blind", "linear": "relation"}
    methods = [{"name": name, "mechanism": own} for name, own in mechanisms.items()]
    suite = suite_of(tasks=["CoLA"], method=methods, seeds=3, reference="attention")

    def score(run, *_):
        return level[run.method] * (1 + run.seed / 99)

    said = {
        name: [each for each in made if f"of {name} collapsed" in each]
        for made in [make_report(fabricate(suite, score)).context.caveats]
        for name in level
    }
    (blind,), (linear,) = said["blind"], said["linear"]
    assert "sees one token by design" in blind
    assert "rain longer" not in blind
    assert "rain longer" in linear


def test_mechanisms_that_mix_no_tokens():
    assert not mixes_tokens("baseline", {})
    assert not mixes_tokens("encoder", {"mechanism": "baseline"})
    assert mixes_tokens("encoder", {})
    assert mixes_tokens("transformer-encoder-decoder", {"mechanism": "baseline"})  # to the source
    assert mixes_tokens("my_module:Layer", {})
