"""Failed and collapsed runs in reports and comparisons."""

from __future__ import annotations

import json

import numpy as np
import pytest

from relation_tf.errors import DataError
from relation_tf.files import write_json
from relation_tf.report import compare, make_report
from relation_tf.report.lost_runs import mostly_lost
from relation_tf.report.sections.paper import sentences_for_paper
from relation_tf.stats import steel_dwass, stratified_steel_dwass
from tests.report.conftest import content

A, B = [80.0, 81.0, 82.0, 83.0, 84.0], [85.0, 86.0, 87.0, 88.0, np.nan]
TWO = [{"name": name, "mechanism": name} for name in ("attention", "relation")]


def pvalue(report):
    return report.tables["pvalues"]["pvalue"].iloc[0]


def said_of(report):
    """Return headline and caveats."""
    found = json.loads(report.json())
    return found["headline"], " ".join(found["caveats"])


@pytest.mark.parametrize("lost", [np.nan, np.inf, -np.inf, ""])
def test_a_score_that_is_not_finite_is_ranked_worst(table_of, lost):
    table = table_of({"x": {"a": A, "b": [*B[:4], 0.0]}}).astype({"score": object})
    table.loc[9, "score"] = lost
    report = compare(table)
    assert pvalue(report) == pytest.approx(steel_dwass({"a": A, "b": B}).pvalue.loc["a", "b"])
    summary = report.tables["table"].set_index("method")
    assert summary["n"].to_dict() == {"a": 5, "b": 4}
    assert summary.loc["b", "mean"] == 86.5
    assert "runs, 1 failed" in report.markdown()


@pytest.mark.parametrize(
    ("test", "options", "ranked", "seeds"),
    [
        ("steel-dwass", {}, True, [5, 5]),
        ("welch", {}, False, [4, 5]),
        ("steel-dwass", {"drop_failed": True}, False, [4, 5]),
    ],
)
def test_the_paragraph_says_how_failed_runs_count(table_of, test, options, ranked, seeds):
    report = compare(table_of({"x": {"a": A, "b": B}}), test=test, **options)
    (part,) = report.data.comparisons.values()
    said = {x.kind: x for x in sentences_for_paper(part)}
    values = {"runs": {"b": (1, ["x"])}, "ranked": ranked, "left_out": []}
    assert said["paper_failed"].values == values
    assert said["paper_compared"].values["seeds"] == seeds
    assert "paper_failed" not in {x.kind for x in sentences_for_paper(
        *compare(table_of({"x": {"a": A, "b": A}})).data.comparisons.values())}  # fmt: skip


def test_the_paragraph_says_why_a_verdict_is_withheld(table_of):
    report = compare(table_of({"x": {"a": A, "b": B}}), reference="a", margin=50)
    (part,) = report.data.comparisons.values()
    (said,) = (x for x in sentences_for_paper(part) if x.kind == "paper_verdicts")
    assert said.values["methods"]["b"][0] == "inconclusive"
    assert said.values["methods"]["b"][4] == "1 failed run"


def test_notes_of_scores_are_below_the_table_in_latex(table_of):
    lines = compare(table_of({"x": {"a": A, "b": B}})).latex().splitlines()
    (note,) = (line for line in lines if "4 of 5 runs, 1 failed" in line)
    (row,) = (line for line in lines if line.startswith("b & ") and "86.5" in line)
    assert "(1)" in row
    assert "(1)" in note
    assert lines.index(r"\end{tabular}}") < lines.index(note)
    (caption,) = (line for line in lines if line.startswith(r"\caption{Scores:"))
    assert "over 5 seeds or fewer" in caption


def test_a_test_over_tasks_ranks_failed_runs_worst(table_of):
    samples = {task: {"a": A, "b": B} for task in ("x", "y", "z")}
    found = compare(table_of(samples)).tables["over_tasks"]["pvalue"]
    expected = stratified_steel_dwass(samples, higher_is_better=True).pairs()["pvalue"]
    assert found.tolist() == pytest.approx(expected.tolist())


@pytest.mark.parametrize(("test", "tested"), [("welch", 4), ("steel-dwass", 5)])
def test_tests_of_means_leave_failed_runs_out_and_say_so(table_of, test, tested):
    report = compare(table_of({"x": {"a": A, "b": B}}), test=test)
    assert report.tables["pvalues"]["n_b"].tolist() == [tested]
    assert ("leaves out failed runs" in said_of(report)[1]) == (tested == 4)


def test_a_task_on_which_all_runs_diverged_has_no_test(suite_of, fabricate):
    suite = suite_of(tasks=["CoLA", "RTE"], method=TWO, seeds=2)
    folder = fabricate(suite, lambda config, *_: 0.5 if config.task == "RTE" else None)
    for config in suite.runs():
        if config.task == "CoLA":
            diverge(folder / "runs" / config.task / config.method / f"seed-{config.seed}")
    assert make_report(folder).tables["pvalues"]["task"].tolist() == ["RTE"]


def diverge(run):
    run.mkdir(parents=True)
    write_json(run / "error.json", {"error": "diverged in epoch 1", "diverged": True})


@pytest.mark.parametrize(
    ("options", "is_left_out"),
    [
        # A test of means; that of tasks is of ranks.
        ({"test_over_tasks": "wilcoxon-holm", "control": "a"}, True),
        ({"test": "welch"}, False),  # the test over tasks ranks runs, that of tasks is of means
    ],
)
@pytest.mark.parametrize("reference", [None, "a"])
def test_the_test_of_the_headline_decides_on_failed_runs(table_of, options, is_left_out, reference):
    tasks = {task: {"a": A, "b": [*A[:4], np.nan]} for task in "uvwxyz"}
    tasks |= {task: {"a": A, "b": [x + 20 for x in own["b"]]} for task, own in tasks.items()}
    report = compare(table_of(tasks), reference=reference, **options)
    _, said = said_of(report)
    assert ("b (6 failed runs)" in said) == is_left_out


def test_a_method_whose_runs_mostly_failed_is_not_the_best(table_of):
    table = table_of({"x": {"a": A, "b": [99.0, *[np.nan] * 4]}})
    headline, _ = said_of(compare(table))
    assert "Without b" in headline
    assert "a has the highest" in headline


@pytest.mark.parametrize(
    ("reference", "scores", "share"),
    [
        ("a", [np.nan] * 5, "All 5 runs"),
        ("b", [np.nan] * 5, "All 5 runs"),
        ("b", [80.0, *[np.nan] * 4], "4 of 5 runs"),
    ],
)
def test_failed_runs_are_why_there_is_no_verdict(table_of, reference, scores, share):
    headline, said = said_of(compare(table_of({"x": {"a": A, "b": scores}}), reference=reference))
    assert "No verdict" in headline
    assert share in headline
    assert not said


@pytest.mark.parametrize("reference", [None, "a"])
def test_a_method_without_scores_is_named_next_to_the_headline(table_of, reference):
    table = table_of({"x": {"a": A, "b": [np.nan] * 5, "c": [each - 20 for each in A]}})
    report = compare(table, reference=reference)
    headline, said = said_of(report)
    assert "All 5 runs of" in said
    assert "failed" not in headline


@pytest.mark.parametrize(
    ("lost", "known", "ranked", "words"),
    [
        (np.nan, "True", True, "1 diverged"),
        (84.0, "True", True, "1 diverged"),
        (np.nan, "", True, "1 failed"),
        (np.nan, "no", False, "1 failed"),
    ],
)
def test_a_table_can_say_which_runs_diverged(table_of, lost, known, ranked, words):
    """A diverged run has no score. A run that failed for another reason is not ranked."""
    table = table_of({"x": {"a": A, "b": [*B[:4], lost]}}).assign(diverged="")
    table.loc[9, "diverged"] = known
    report = compare(table)
    assert report.tables["pvalues"]["n_b"].tolist() == [4 + ranked]
    assert f"runs, {words}" in report.markdown()
    assert content(report)["failures"] == [["x/b/seed-4", "no finite score"]]


@pytest.mark.parametrize(("known", "best"), [("no", True), ("yes", False), ("", False)])
def test_runs_that_failed_for_another_reason_do_not_lose_a_method(table_of, known, best):
    table = table_of({"x": {"a": A, "b": [*B[:2], *[np.nan] * 3]}}).assign(diverged="")
    table.loc[table["score"].isna(), "diverged"] = known
    assert ("b" not in mostly_lost(*_with_failed(compare(table)))) == best


def _with_failed(report):
    return report.data.scores, report.data.failed


def test_a_wrong_word_for_diverged_is_refused(table_of):
    with pytest.raises(DataError, match=r"row 0: diverged must be true, false or empty\..*maybe"):
        compare(table_of({"x": {"a": A, "b": A}}).assign(diverged="maybe"))


@pytest.fixture
def diverged(suite_of, fabricate):
    """A folder of two methods; one of five runs of one has diverged."""
    suite = suite_of(tasks=["CoLA", "RTE"], method=TWO, reference="attention", seeds=5)

    def score(config, *_):
        if (config.task, config.method, config.seed) == ("CoLA", "relation", 5):
            return None
        return {"attention": 0.5, "relation": 0.8}[config.method] + config.seed / 1000

    folder = fabricate(suite, score)
    diverge(folder / "runs" / "CoLA" / "relation" / "seed-5")
    return folder


def test_a_diverged_run_of_a_suite(diverged):
    report = make_report(diverged)
    assert "Preliminary" not in report.markdown()
    pvalues = report.tables["pvalues"].set_index("task")
    assert pvalues.loc[["CoLA", "RTE"], "n_b"].tolist() == [5, 5]
    verdicts = report.tables["verdicts"].set_index("task")
    assert verdicts.loc["CoLA", "verdict"] == "inconclusive"
    assert verdicts.loc["CoLA", "reason"] == "1 diverged run"
    assert verdicts.loc["RTE", "verdict"] == "better"


def test_a_comparison_of_the_report_has_the_same_tests(diverged):
    report = make_report(diverged)
    report.write(diverged / "report")
    for source in (diverged, diverged / "report"):
        again = compare(source, reference="attention")
        assert "1 diverged)" in again.markdown()
        assert pvalue(again) == pytest.approx(pvalue(report))


@pytest.mark.parametrize(
    ("scores", "suite", "found"),
    [
        ({"a": [0.0, 0.0, 0.0, 0.3], "b": [0.0, 0.0, 0.1, 0.1]}, {}, "No method learned"),
        ({"a": [0.0, 0.0, 0.0, 0.3], "b": [0.0, 0.0, 0.1, 0.1]}, {"reference": "a"},
         "No method learned"),
        ({"a": [0.0, 0.0, 0.9, 0.9], "b": [0.2, 0.21, 0.22, 0.23]}, {}, "b has the highest"),
        ({"a": [0.0, 0.8, 0.9, 0.9], "b": [0.2, 0.21, 0.22, 0.23]}, {}, "a has the higher"),
    ],
)  # fmt: skip
def test_a_method_that_mostly_learned_nothing_is_not_the_best(
    suite_of, fabricate, scores, suite, found
):
    """Matthews 0 is that of equal predictions."""
    methods = [{"name": name, "mechanism": "relation"} for name in scores]
    made = suite_of(tasks=["CoLA"], method=methods, seeds=4, **suite)
    report = make_report(fabricate(made, lambda run, *_: scores[run.method][run.seed - 1]))
    assert found in said_of(report)[0]


@pytest.mark.parametrize("lost", [(), ("b",), ("a",), ("a", "b")])
def test_a_verdict_with_collapsed_runs_says_that_seeds_do_not_show_how_often(
    suite_of, fabricate, lost
):
    methods = [{"name": name, "mechanism": "relation"} for name in "abc"]
    suite = suite_of(tasks=["CoLA"], method=methods, seeds=4, reference="a")
    level = {"a": 0.3, "b": 0.5, "c": 0.6}

    def score(run, *_):
        return 0.0 if run.method in lost and run.seed == 4 else level[run.method] + run.seed / 100

    found = content(make_report(fabricate(suite, score)))["statements"]["caveats"]
    said = [each["methods"] for each in found if each["kind"] == "collapsed_networks"]
    assert said == ([{name: [1, 4] for name in lost}] if lost else [])
