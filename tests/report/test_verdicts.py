"""Verdicts against a reference, their table, sentence and files."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t

from relation_tf.errors import SuiteError
from relation_tf.files import write_json
from relation_tf.report import compare, make_report
from relation_tf.report.blocks import Folded, Paragraph, within
from relation_tf.report.runs import summarize_costs
from relation_tf.report.verdicts import judge

RESULTS = Path(__file__).resolve().parents[2] / "results"
SEEDS = np.array([-2, -1, 0, 1, 2])


@pytest.fixture
def judged(table_of):
    """Compare means of methods on tasks, each with five seeds of SD `sd`, with a reference."""

    def make(means, sd=1.0, **options):
        seeds = sd * SEEDS / np.std(SEEDS, ddof=1)
        tasks = {
            task: {name: mean + seeds for name, mean in own.items()} for task, own in means.items()
        }
        return compare(table_of(tasks), **{"reference": "r", "margin": 1.0, **options}).context

    return make


def naive_mean(context, method, k):
    """Difference and Welch-Satterthwaite interval over tasks, with plain loops."""
    differences, variances = [], []
    for task in context.scores.own_tasks:
        samples = context.scores.samples(task)
        differences.append(np.mean(samples[method]) - np.mean(samples["r"]))
        variances += [np.var(samples[name], ddof=1) / len(samples[name]) for name in (method, "r")]
    degrees = sum(variances) ** 2 / sum(v**2 / 4 for v in variances)
    half = t.ppf(1 - 0.025 / k, degrees) * np.sqrt(sum(variances)) / len(differences)
    mean = np.mean(differences)
    return mean, mean - half, mean + half


def test_verdicts_over_tasks(judged):
    means = {"r": 80, "a": 82, "b": 80, "c": 70}
    context = judged(dict.fromkeys("xyz", means), sd=0.5)
    mean = context.verdicts.mean
    assert mean["verdict"].to_dict() == {"a": "better", "b": "no worse", "c": "worse"}
    assert mean["beyond_margin"].to_dict() == {"a": False, "b": False, "c": True}
    for name, row in mean.iterrows():
        expected = naive_mean(context, name, 3)
        assert (row["difference"], row["low"], row["high"]) == pytest.approx(expected)
    assert context.headline == (
        "Compared with r on the mean of 3 tasks (margin: 1): a is better; b is no worse; c is "
        "worse."
    )
    table = context.tables["verdicts"]
    assert table["task"].unique().tolist() == ["x", "y", "z", "mean of 3 tasks"]
    assert table["reference"].unique().tolist() == ["r"]


@pytest.mark.parametrize(
    ("mean", "options", "sentence"),
    [
        (90, {}, "a is better than r on x."),
        (80, {}, "a is no worse than r on x (margin: 1)."),
        (70, {}, "a is worse than r on x."),
        (
            79.5,
            {},
            "Inconclusive: the data do not show that a is no worse than r on x (margin: 1).",
        ),
        (80, {"margin": None}, "Neither a nor r is shown to be better on x."),
        (
            79.2,
            {"sd": 0.1},
            "a is lower than r on x, but within the margin (margin: 1).",
        ),
        (
            80.8,
            {"sd": 0.1, "lower_is_better": "x"},
            "a is higher than r on x, but within the margin (margin: 1).",
        ),
        (70, {"lower_is_better": "x"}, "a is better than r on x."),
    ],
)
def test_one_method_on_one_task(judged, mean, options, sentence):
    context = judged({"x": {"r": 80, "a": mean}}, **{"sd": 0.5, **options})
    assert context.headline == sentence


def test_without_a_margin_no_method_is_no_worse(judged):
    context = judged({"x": {"r": 80, "a": 90, "b": 80, "c": 70}}, margin=None)
    verdicts = ["better", "inconclusive", "worse"]
    assert context.verdicts.mean["verdict"].tolist() == verdicts
    assert context.headline == (
        "Compared with r on x: a is better; c is worse; the result for b is inconclusive."
    )


def test_no_favorable_method(judged):
    means = {"r": 80, "a": 70, "b": 79.5}
    assert judged({"x": means}).headline == (
        "Compared with r on x (margin: 1): a is worse; the result for b is inconclusive."
    )
    assert judged({"x": means}, margin=None).headline == (
        "Compared with r on x: a is worse; the result for b is inconclusive."
    )


@pytest.mark.parametrize(
    ("means", "options", "sentence"),
    [
        ({"A": (70, 76), "B": (80, 78)}, {"margin": None},
         "a is better than r on the mean of 2 tasks (better on 1, worse on 1)."),
        ({"A": (70, 76), "B": (80, 82)}, {},
         "a is better than r on the mean of 2 tasks (better on 2)."),
        ({"A": (70, 73), "B": (80, 77)}, {},
         "a is no worse than r on the mean of 2 tasks (margin: 1; better on 1, worse on 1)."),
        ({"A": (70, 73), "B": (80, 77)}, {"margin": None},
         "Neither a nor r is shown to be better on the mean of 2 tasks (a: better on 1, worse on "
         "1)."),
        ({"MNLI-m": (70, 76), "MNLI-mm": (70, 76), "B": (80, 78)}, {},
         "a is better than r on the mean of 2 tasks (better on 2, worse on 1 of 3 tasks)."),
    ],
)  # fmt: skip
def test_the_headline_counts_verdicts_by_task(judged, means, options, sentence):
    own = {task: {"r": one, "a": other} for task, (one, other) in means.items()}
    assert judged(own, 0.5, **options).headline == sentence


def test_the_headline_names_tasks_against_the_mean(judged):
    means = {"r": 80, "a": 86, "b": 83, "c": 74, "d": 80}
    against = {"r": 80, "a": 78, "b": 77, "c": 82, "d": 80}
    assert judged({"A": means, "B": against}, 0.2).headline == (
        "Compared with r on the mean of 2 tasks (margin: 1): a (worse on 1 task) is better; b "
        "(worse on 1 task) and d are no worse; c (better on 1 task) is worse."
    )
    many = {f"m{place}": 86 for place in range(5)}
    against = {**dict.fromkeys(many, 78), "m0": 86}
    assert judged({"A": {"r": 80, **many}, "B": {"r": 80, **against}}, 0.2).headline == (
        "Compared with r on the mean of 2 tasks (margin: 1): 5 of 5 methods (4 of them worse on at "
        "least one task) are better."
    )


def test_a_control_is_the_reference(judged):
    context = judged({"x": {"r": 80, "a": 90}}, reference=None, control="r")
    assert context.verdicts.reference == "r"


def test_tasks_of_one_network_count_once(judged):
    means = {"MNLI-m": {"r": 40, "a": 43}, "MNLI-mm": {"r": 40, "a": 43}, "RTE": {"r": 50, "a": 50}}
    context = judged(means)
    assert [*context.verdicts.averaged] == ["MNLI", "RTE"]
    assert context.verdicts.mean.loc["a", "difference"] == pytest.approx(1.5)
    mnli = context.scores.by_network["MNLI"]["a"]
    assert mnli == pytest.approx([43 + seed for seed in SEEDS / np.std(SEEDS, ddof=1)])
    assert [*context.tables["verdicts"]["task"]] == ["MNLI-m", "MNLI-mm", "RTE", "mean of 2 tasks"]


def test_missing_tasks_are_named(judged):
    context = judged({"x": {"r": 80, "a": 80, "b": 80}, "y": {"r": 80, "a": 80}}, sd=0.1)
    assert [*context.verdicts.averaged] == ["x"]
    assert "Verdicts over tasks leave out y, where b has fewer than two seeds." in context.warnings
    assert context.headline == "Compared with r on x (margin: 1): a and b are no worse."


def test_a_missing_method_does_not_change_the_correction(judged):
    """The page states one level for all tasks."""
    context = judged({"x": {"r": 80, "a": 80, "b": 80}, "y": {"r": 80, "a": 80}})
    tasks = context.verdicts.tasks
    pd.testing.assert_series_equal(tasks["x"].loc["a"], tasks["y"].loc["a"])
    (folded,) = (
        b for b in context.blocks["answer"] if isinstance(b, Folded) and "How" in b.summary
    )
    assert "for all 2 methods together (Bonferroni: 97.5 % each)" in str(folded.blocks[0].text)


def test_a_method_with_one_seed_has_no_verdict(table_of):
    table = table_of({"x": {"r": [80, 81], "a": [80, 81], "b": [80]}})
    context = compare(table, reference="r", margin=1.0).context
    assert context.verdicts.methods == ["a"]
    assert "No verdict on b: no task has two seeds of r and two of b." in context.warnings
    one = compare(table[table["seed"] == 0], reference="r", margin=1.0)
    assert one.context.headline == (
        "No verdict yet: no task has two seeds of r and of another method."
    )
    assert "verdicts" not in one.tables
    assert "No verdict yet" in one.markdown()


def test_methods_without_a_task_of_the_reference_have_no_verdict(judged):
    context = judged({"x": {"r": 80, "a": 80}, "y": {"a": 80, "b": 80, "c": 80}})
    said = "No verdict on b and c: no task has two seeds of r and two of any of them."
    assert said in context.warnings


def test_unlike_units_have_verdicts_by_task_only(judged):
    means = {"acc": {"r": 80, "a": 90}, "loss": {"r": 3.0, "a": 9.0}}
    context = judged(means, sd=0.1, lower_is_better="loss", margins={"loss": 0.5})
    assert context.verdicts.mean is None
    assert context.headline == (
        "Verdicts against r by task (margin: 1; 0.5 on loss): a better on 1, worse on 1."
    )


def test_a_method_with_scores_on_diagnostic_sets_only(table_of):
    names = {"CoLA": "AB", "AX": "ABC"}
    samples = {task: {name: [50, 51, 53] for name in own} for task, own in names.items()}
    report = compare(table_of(samples), reference="A")
    assert report.context.headline == "Verdicts against A by task: B inconclusive on 1."
    assert "| B | inconclusive on 1 |\n| C | – |\n" in report.markdown()


@pytest.mark.parametrize(
    ("mean", "who", "verdict", "reason"),
    [
        (0.8, "relation", "inconclusive", "1 failed run"),
        (0.8, "attention", "better", ""),
        (0.2, "attention", "inconclusive", "1 failed run of attention"),
        (0.2, "relation", "worse", ""),
    ],
)
def test_failed_runs_withhold_a_verdict(suite_of, fabricate, mean, who, verdict, reason):
    methods = [{"name": name, "mechanism": name} for name in ("attention", "relation")]
    suite = suite_of(
        tasks=["CoLA", "RTE"], method=methods, reference="attention", margin=1.0, seeds=5
    )

    def score(config, *_):
        if (config.task, config.method, config.seed) == ("CoLA", who, 5):
            return None
        return {"attention": 0.5, "relation": mean}[config.method] + config.seed / 1000

    folder = fabricate(suite, score)
    run = folder / "runs" / "CoLA" / who / "seed-5"
    run.mkdir(parents=True)
    write_json(run / "error.json", {"error": "NaN"})
    report = make_report(folder)
    row = report.context.verdicts.mean.loc["relation"]
    assert (row["verdict"], row["reason"]) == (verdict, reason)
    assert row["beyond_margin"] == (verdict == "worse")
    assert reason in report.context.headline
    assert report.context.verdicts.tasks["RTE"]["reason"].tolist() == [""]
    assert reason in report.html()
    assert reason in report.markdown()
    # A comparison of the report knows the failures from its runs.csv.
    report.write(folder / "report")
    again = compare(folder / "report", reference="attention", margin=1.0).context
    assert again.verdicts.mean.loc["relation", "verdict"] == verdict


def test_a_mean_names_the_task_with_an_unknown_spread(table_of):
    varying = {"r": [80, 80.4, 79.6], "a": [80.1, 80.3, 79.7]}
    constant = {"r": [50.0] * 3, "a": [53.0] * 3}
    found = compare(
        table_of({"x": varying, "y": constant, "z": varying}), reference="r", margin=9.0
    )
    row = found.context.verdicts.mean.loc["a"]
    assert (row["verdict"], row["reason"]) == (
        "inconclusive", "scores on y do not vary over seeds"
    )  # fmt: skip


def test_failures_withhold_a_mean_also_where_a_method_has_no_score(table_of, tmp_path):
    """x failed with all seeds of C, y with one: C is not in the mean."""
    level = {"ref": 50, "x": 90, "y": 90}
    samples = {task: {name: [own + seed for seed in range(5)] for name, own in level.items()}
               for task in "ABC"}  # fmt: skip
    samples["C"]["x"] = [np.nan] * 5
    samples["C"]["y"][0] = np.nan
    report = compare(table_of(samples), reference="ref", drop_failed=True)
    again = compare(report.write(tmp_path).parent, reference="ref")
    for context in (report.context, again.context):
        mean = context.verdicts.mean
        assert mean["verdict"].tolist() == ["inconclusive", "inconclusive"]
        assert mean["reason"].tolist() == ["5 failed runs", "1 failed run"]
    assert "count as one task" not in report.markdown()


def test_scores_that_do_not_vary_have_no_verdict(table_of):
    """Collapsed runs of two methods can all predict the most frequent class."""
    report = compare(table_of({"x": {"r": [50.0] * 3, "a": [50.0] * 3}}), reference="r", margin=1.0)
    assert report.context.headline == (
        "The result for a compared with r on x is inconclusive: scores do not vary over seeds "
        "(margin: 1)."
    )
    assert report.tables["verdicts"]["reason"].tolist() == ["scores do not vary over seeds"]
    page = report.markdown()
    assert "inconclusive (scores do not vary over seeds)" in page
    assert "A method with failed runs is never better" not in page
    assert "+0.000 (−∞ to ∞)" in page
    assert "the verdict on a is inconclusive (x)." in page
    assert r"$-$$\infty$ to $\infty$" in report.latex()


@pytest.mark.parametrize("options", [{"reference": "r", "margin": 0.05}, {}])
def test_figures_of_fractions_have_enough_digits(table_of, options):
    samples = {"r": 0.5 + SEEDS / 1e3, "a": 0.52 + SEEDS / 1e3}
    for tasks in ({"x": samples}, {"x": samples, "y": samples}):
        pictures = compare(table_of(tasks), **options).context.pictures
        panels = [
            p for each in pictures if each.name in ("answer", "differences") for p in each.panels
        ]
        assert panels
        assert all("0.0200 (" in panel.alt for panel in panels)


def test_margins_of_tasks(suite_of, fabricate):
    methods = [{"name": name, "mechanism": name} for name in ("attention", "relation")]
    suite = suite_of(
        tasks=["CoLA", "MNLI"], method=methods, reference="attention", margin=1.0,
        overrides={"MNLI": {"margin": 4.0}},
    )  # fmt: skip
    context = make_report(fabricate(suite, lambda config, *_: 0.5 + config.seed / 1000)).context
    margins = {task: own.loc["relation", "margin"] for task, own in context.verdicts.tasks.items()}
    assert margins == {"CoLA": 1.0, "MNLI-m": 4.0, "MNLI-mm": 4.0}
    assert context.verdicts.mean.loc["relation", "margin"] == 2.5
    shown = within(context.blocks["answer"])
    said = [block.text for block in shown if isinstance(block, Paragraph)]
    assert any("(the margin; 4 on MNLI-m, 4 on MNLI-mm, 2.5 for the mean)" in text for text in said)


def test_a_comparison_sets_the_margin_of_a_task(table_of):
    near = {"attention": [0.80, 0.81, 0.82], "relation": [0.80, 0.81, 0.82]}
    far = {name: [100 * score for score in own] for name, own in near.items()}
    table = table_of({"MR": near, "WikiText perplexity": far})
    wrong = r"0.82 on MR. Received: 1. Give this task another margin: --margin MR=NUMBER$"
    with pytest.raises(SuiteError, match=wrong):
        compare(table, reference="attention", margin=1)
    context = compare(table, reference="attention", margin=1, margins={"MR": 0.05}).context
    margins = {task: own.loc["relation", "margin"] for task, own in context.verdicts.tasks.items()}
    assert margins == {"MR": 0.05, "WikiText perplexity": 1.0}


def test_declared_reference_of_a_suite_is_used_and_replaced(suite_of, fabricate):
    suite = suite_of(reference="attention", margin=2.0)
    folder = fabricate(suite, lambda config, *_: 0.5 + config.seed / 1000)
    own = compare(folder).context
    assert (own.scores.reference, own.scores.margin) == ("attention", 2.0)
    other = compare(folder, reference="linear", margin=0.5).context
    assert (other.scores.reference, other.scores.margin) == ("linear", 0.5)
    assert any("declares" in warning and "margin 2" in warning for warning in other.warnings)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reference": "attentoin"}, "reference: must be one of .* Did you mean 'attention'?"),
        ({"margin": 1.0}, "margin: needs --reference NAME or --control NAME"),
        (
            {"reference": "attention", "margin": 1.0},
            r"must be below the largest score of a task, 0.9 on x. Received: 1$",
        ),
        ({"reference": "attention", "margin": 0.0}, "margin: must be above 0. Received: 0"),
        (
            {"reference": "attention", "margins": {"x": 0.1}},
            "must have a value for the other tasks, too, such as --margin 1 --margin x=0.5",
        ),
        (
            {"reference": "attention", "margin": 0.1, "margins": {"X": 0.1}},
            "margin: must name tasks of the sources: x. Received: 'X'. Did you mean 'x'?",
        ),
        (
            {"reference": "attention", "margins": {"X": 0.1}},
            "margin: must name tasks of the sources: x. Received: 'X'. Did you mean 'x'?",
        ),
        (
            {"reference": "attention", "margin": 0.1, "margins": {"x": -0.1}},
            "margin: must be above 0. Received: -0.1",
        ),
    ],
)
def test_wrong_references_and_margins_are_refused(table_of, options, message):
    table = table_of({"x": {"attention": [0.8, 0.9], "relation": [0.8, 0.9]}})
    with pytest.raises(SuiteError, match=message):
        compare(table, **options)


def test_committed_results(tmp_path):
    """The known answer of eight GLUE tasks, in all formats."""
    folder = RESULTS / "glue-small-smoothed"
    report = compare(folder, reference="attention-64", margin=1.0)
    headline = (
        "Compared with attention-64 on the mean of 8 tasks (margin: 1 point): linear-attention-64 "
        "and relation-64 (worse on 1 task) are better; baseline-64 is worse."
    )
    assert report.context.headline == headline
    for text in (report.html(), report.markdown(), report._repr_html_()):
        assert headline in text
        assert "+1.80" in text
    assert "+1.80" in report.latex()
    assert headline in " ".join(str(report).split())
    assert "Bonferroni" in report.markdown()
    page = report.html()
    figure = page.index('aria-label="Mean of 8 tasks, difference of each pair in points')
    assert page.index(headline) < page.index("<table") < figure < page.index("<nav")
    report.write(tmp_path / "out")
    written = pd.read_csv(tmp_path / "out" / "verdicts.csv")
    mean = written[written["task"] == "mean of 8 tasks"].set_index("method")
    assert mean.loc["relation-64", "difference"] == pytest.approx(1.80, abs=0.005)


@pytest.fixture
def mixed(table_of):
    """Scores of three methods on a task in fractions and one with perplexities."""
    near = {
        name: [level + seed / 100 for seed in range(5)]
        for name, level in (("a", 0.8), ("b", 0.803), ("c", 0.7))
    }
    far = {name: [40 * score for score in own] for name, own in near.items()}
    return table_of({"MR": near, "WikiText perplexity": far})


def test_tables_for_papers_define_the_verdicts(mixed):
    latex = compare(mixed, title="Mine", reference="a", margin=0.05).latex()
    interval = (
        r"its interval (two-sided 95 \% by Welch for all 2 methods together (Bonferroni: 97.5 \% "
        "each))"
    )
    meaning = (
        r"Better: interval above 0; no worse: above $-$0.05 (the margin); worse: below 0 but not "
        r"above $-$0.05; inconclusive: every other case.}"
    )
    assert (
        rf"\caption{{Verdicts against a by number of tasks: from each difference with {interval}. "
        rf"{meaning}" in latex
    )
    assert (
        r"\caption{Verdicts against a by task: difference (positive: better) with "
        f"{interval}. {meaning}" in latex
    )
    assert r"WikiText perplexity $\downarrow$ & " in latex
    own = compare(mixed[mixed["task"] == "MR"], title="Mine", reference="a", margin=0.05).latex()
    assert own.count("Verdicts against a") == 1


def test_signs_are_explained_where_lower_is_better(mixed):
    report = compare(mixed, reference="a", margin=0.05)
    page = report.markdown()
    assert "| WikiText perplexity ↓ | " in page.partition("Verdicts by task")[2]
    assert "positive if the method is better, also where lower scores are better (↓)" in page
    said = "Lower is better on WikiText perplexity: there, a positive value means that the second"
    assert page.count(said) == 2  # pairwise tests and test details
    pvalues = report.tables["pvalues"].groupby("task")["higher_is_better"].all()
    assert pvalues.to_dict() == {"MR": True, "WikiText perplexity": False}


def test_the_result_to_quote_is_named(mixed):
    said = (
        "The verdicts (Welch intervals of means against a) and the tests of pairs (Steel's test "
        "against b) can disagree. If you chose the reference before "
        "the runs, quote the verdicts. Otherwise, quote the test over tasks or the tests of "
        "single tasks, and name the test."
    )
    report = compare(mixed, reference="a", control="b")
    assert said in report.markdown()
    assert "can disagree" not in compare(mixed).markdown()


def test_unlike_units_of_a_mean_are_named(table_of):
    near = {"a": [0.80, 0.81, 0.82], "b": [0.80, 0.81, 0.83]}
    far = {name: [100 * score for score in own] for name, own in near.items()}
    context = compare(table_of({"MR": near, "SST-2": far}), reference="a", margin=0.01).context
    assert context.warnings == [
        "Tasks may have different units (MR up to 0.83, SST-2 up to 83), so there is no mean over "
        "tasks. Use the verdicts and tests of each task. If all scores have the same unit, convert "
        "them all to fractions or all to percent.",
        "The margin 0.01 applies to tasks with different units (MR and SST-2). Set one for each "
        "task with another unit, such as --margin SST-2=SCORE.",
    ]
    assert context.verdicts.mean is None
    assert context.headline == "Verdicts against a by task (margin: 0.01): b inconclusive on 2."
    assert compare(table_of({"MR": near, "SST-2": near})).context.warnings == []


def test_one_margin_for_two_directions_is_named(judged):
    means = {"acc": {"r": 80, "a": 90}, "a loss": {"r": 3.0, "a": 9.0}}

    def said(**margins):
        doubts = judged(means, sd=0.1, lower_is_better="a loss", **margins).verdicts.doubts
        return [each for each in doubts if "margin" in each]

    assert said(margin=1.0) == [
        "The margin 1 applies to tasks with different units (acc and a loss). Set one for each "
        "task with another unit, such as --margin 'a loss=SCORE'."
    ]
    assert said(margin=1.0, margins={"a loss": 0.2}) == []
    assert said(margin=None) == []


def test_units_are_those_of_the_complete_methods(table_of):
    """The only score in another unit belongs to a method that is left out."""
    near = {"a": [0.80, 0.81, 0.82], "b": [0.80, 0.81, 0.83]}
    table = table_of({"MR": {**near, "c": [15.0, 15.1, 15.2]}, "SST-2": near})
    context = compare(table, reference="a", margin=0.01, complete_methods=True).context
    assert context.verdicts.mean is not None
    assert not [said for said in context.warnings if "unit" in said]


def test_a_guess_of_units_is_no_fact(table_of):
    near = {"a": [0.80, 0.81, 0.82], "b": [0.80, 0.81, 0.83]}
    far = {name: [20 * score for score in own] for name, own in near.items()}
    table = table_of({"first": near, "second": far})
    said = " ".join(compare(table, reference="a").markdown().split())
    assert "no mean over tasks, because their units probably differ." in said


def test_the_margin_of_a_suite_is_set_in_the_suite(judged):
    means = {"acc": {"r": 80, "a": 90}, "loss": {"r": 3.0, "a": 9.0}}
    scores = judged(means, sd=0.1, lower_is_better="loss", margin=1.0).scores
    doubts = judge(replace(scores, of_tables=()), {}).doubts
    assert doubts[0].endswith("such as margin = SCORE under [overrides.loss] in the suite.")


def test_a_family_without_a_task_in_another_unit_has_verdicts(table_of):
    near = {name: [0.80, 0.81, 0.82] for name in "abcd"}
    far = {name: [90.0, 91.0, 92.0] for name in "cd"}
    families = [["a", "b"], ["c", "d"]]
    table = table_of({"MR": near, "points": far})
    report = compare(table, families=families, reference=["a", "c"], margin=0.01)
    said = ["".join(part.verdicts.doubts) for part in report.context.parts.values()]
    assert ["The margin 0.01 applies" in doubts for doubts in said] == [False, True]


def test_a_margin_for_tasks_with_equal_units_is_not_named(table_of):
    """The third task has another unit, but its own margin."""
    near = {"a": [0.80, 0.81, 0.82], "b": [0.80, 0.81, 0.83]}
    far = {name: [100 * score for score in own] for name, own in near.items()}
    table = table_of({"MR": near, "SST-2": near, "points": far})
    margins = {"reference": "a", "margin": 0.01, "margins": {"points": 1.0}}
    assert compare(table, **margins).context.verdicts.doubts == []


def test_costs_are_ratios_over_common_tasks():
    seconds = {("a", "x"): 1.0, ("a", "y"): 8.0, ("b", "x"): 2.0, ("b", "y"): 4.0, ("a", "z"): 9.0}
    runs = pd.DataFrame(
        [
            (task, method, seed, "done", value * (1 + seed), 100.0 + seed, 7)
            for ((method, task), value), seed in product(seconds.items(), (0, 1, 2))
        ],
        columns=["task", "method", "seed", "status", "seconds_epoch", "peak_memory_mib",
                 "without_embedding"],
    )  # fmt: skip
    costs = summarize_costs(runs, ["b", "a"])
    assert [*costs.index] == ["b", "a"]
    assert costs["seconds_epoch"].tolist() == pytest.approx([2 * 8**0.5, 2 * 8**0.5])
    assert costs["memory_mib"].tolist() == pytest.approx([102, 102])
    assert summarize_costs(runs.assign(status="failed"), ["a"]).empty


def test_speeds_have_verdicts_by_task_only():
    """A mean of tokens per second over lengths of texts means nothing."""
    context = compare(RESULTS / "decode", reference="decoder-attention").context
    assert context.verdicts.mean is None
    assert context.headline.startswith(
        "Verdicts against decoder-attention by task: decoder-relation better on 4;"
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe", "runs.csv: cannot be read"),
        (b"", "runs.csv: cannot be read"),
        (b"task,method,seed,status,seconds_epoch,peak_memory_mib,without_embedding\n"
         b"x,a,0,done,soon,1,1\n", "runs.csv: must have numbers in column 'seconds_epoch'"),
        (b"task,method\nx,a\n", None),
    ],
)  # fmt: skip
def test_runs_of_a_report_are_checked(tmp_path, table_of, content, message):
    """A file of another program is ignored, a broken one is an error of one line."""
    table_of({"x": {"r": [80, 81], "a": [80, 82]}}).to_csv(tmp_path / "scores.csv", index=False)
    (tmp_path / "runs.csv").write_bytes(content)
    if message is None:
        assert compare(tmp_path, reference="r").context.costs.empty
        return
    with pytest.raises(SuiteError, match=message) as error:
        compare(tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("tasks", "said"),
    [
        (["MR"], "Difference: method minus a, positive if the method is better."),
        (["WikiText perplexity"], "Difference: a minus method, positive if the method is better."),
        (
            ["MR", "WikiText perplexity"],
            "Difference: method minus a, with the opposite sign where lower is better, positive",
        ),
    ],
)
def test_differences_are_defined_in_their_direction(mixed, tasks, said):
    report = compare(mixed[mixed["task"].isin(tasks)], reference="a", margin=0.05)
    assert said in report.markdown()


def test_the_figure_of_the_answer_names_its_sign(mixed):
    alone = mixed[mixed["task"] == "WikiText perplexity"]
    page = compare(alone, reference="a", margin=0.05).html()
    assert "positive if the second is better: a and b −0.1" in page
    assert "second minus first: a and b +0.1" in page
    assert "positive if the second is better: c and " in compare(alone, control="c").html()
