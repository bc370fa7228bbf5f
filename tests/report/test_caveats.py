"""Sentences next to the headline: a test that disagrees, and an unstable reference."""

from __future__ import annotations

import json

import numpy as np
import pytest

from relation_tf.files import write_json
from relation_tf.report import compare, make_report

SEEDS = np.array([-0.6, -0.2, 0.1, 0.3, 0.4])
TWO = [{"name": name, "mechanism": name} for name in ("attention", "relation")]


def caveats_of(report):
    return json.loads(report.json())["caveats"]


@pytest.fixture
def judged(table_of):
    """Compare methods from their mean on each task with the reference `r`."""

    def make(tasks, **options):
        samples = {
            task: {name: SEEDS + mean for name, mean in own.items()} for task, own in tasks.items()
        }
        return compare(table_of(samples), reference="r", **options)

    return make


@pytest.mark.parametrize(
    ("tasks", "margin", "found"),
    [
        # Better by 6, worse by 2.
        ({"A": {"r": 70, "a": 76}, "B": {"r": 80, "a": 78}}, None, "a does not differ"),
        ({"A": {"r": 70, "a": 76, "b": 75}, "B": {"r": 80, "a": 78, "b": 78.3}}, None, "and b do"),
        # Better by 20 on one task, worse by 2 on four.
        ({"A": {"r": 70, "a": 90}, **{task: {"r": 80, "a": 78} for task in "BCDE"}}, None,
         "a is significantly worse"),
        ({"A": {"r": 70, "a": 76}, "B": {"r": 80, "a": 82}}, None, None),
        ({"A": {"r": 70, "a": 70.1}, "B": {"r": 80, "a": 79.9}}, None, None),
        ({"A": {"r": 70, "a": 69.2}, "B": {"r": 80, "a": 79.2}}, 2.0, None),  # no worse
    ],
)  # fmt: skip
def test_a_test_over_tasks_that_disagrees_is_named(judged, tasks, margin, found):
    said = caveats_of(judged(tasks, margin=margin))
    assert ["disagrees" in each for each in said] == [True] * bool(found)
    assert all(found in each for each in said)


@pytest.mark.parametrize("failed", [False, True])
def test_the_result_to_quote_depends_on_the_suite(suite_of, fabricate, failed):
    """Also where the verdict is withheld because of a failed run."""

    def score(config, *_):
        if failed and (config.task, config.seed) == ("CoLA", 5) and config.method == "relation":
            return None
        higher = {"CoLA": 0.7, "RTE": 0.6 if failed else 0.499}
        level = higher[config.task] if config.method == "relation" else 0.5
        return level + config.seed / 1000

    suite = suite_of(tasks=["CoLA", "RTE"], method=TWO, reference="attention", margin=1.0, seeds=5)
    folder = fabricate(suite, score)
    if failed:
        run = folder / "runs" / "CoLA" / "relation" / "seed-5"
        run.mkdir(parents=True)
        write_json(run / "error.json", {"error": "NaN"})
    report = make_report(folder)
    verdict = report.tables["verdicts"].set_index("task").loc["mean of 2 tasks", "verdict"]
    assert verdict == ("inconclusive" if failed else "better")
    (caveat,) = (each for each in caveats_of(report) if "disagrees" in each)
    assert "the suite declared attention" in caveat
    asked = caveats_of(compare(folder, reference="attention"))
    assert not any("the suite declared" in each for each in asked)


def test_a_test_with_too_few_seeds_or_tasks_cannot_disagree(table_of, judged):
    few = {"r": [70.0, 70.1, 70.2], "a": [76.0, 76.1, 76.2]}
    (said,) = caveats_of(compare(table_of({"A": few}), reference="r"))
    assert "with so few seeds" in said
    tasks = {task: {"r": 70, "a": 76, "b": 75} for task in "ABC"}
    (said,) = caveats_of(judged(tasks, control="r", test_over_tasks="wilcoxon-holm"))
    assert "with so few tasks" in said


def test_a_difference_that_the_test_finds_is_not_called_impossible(table_of):
    """Without ties five methods with five seeds cannot differ significantly; constants can."""
    rng = np.random.default_rng(0)
    scores = {"r": [50.0] * 5, "a": [90.0] * 5}
    scores |= {name: [*(70 + rng.normal(size=5))] for name in "xyz"}
    report = compare(table_of({"A": scores}), reference="r", margin=1.0)
    assert report.tables["pvalues"]["pvalue"].min() < 0.05
    assert not any("cannot be significant" in each for each in caveats_of(report))


def test_runs_that_collapsed_only_on_a_diagnostic_set_learned(suite_of, fabricate):
    def score_diagnostic_set(config, files):
        files["result"]["metrics"]["AX"] = {"matthews": 0.0 if config.seed < 4 else 0.1}

    suite = suite_of(tasks=["MNLI"], reference="attention", margin=1.0)
    report = make_report(
        fabricate(suite, lambda run, *_: 0.5 + run.seed / 100, score_diagnostic_set)
    )
    assert set(report.tables["collapsed"]["task"]) == {"AX"}
    assert caveats_of(report) == []


@pytest.mark.parametrize("reference", [None, "attention"])
@pytest.mark.parametrize(("best_epoch", "named"), [(20, True), (17, False)])
def test_methods_that_were_still_improving_are_named(
    suite_of, fabricate, best_epoch, named, reference
):
    """Not if the best epoch was earlier, or if early stopping ended most runs."""

    def stop_at_limit(config, files):
        if config.task == "CoLA" and config.seed < 3:
            return
        files["result"] |= {"epochs": 20, "kept_epoch": 20, "stopped": "reached 20 epochs"}
        best = best_epoch if config.task == "CoLA" else 17
        costs = [1 + abs(best - epoch) for epoch in range(1, 21)]
        flat = dict.fromkeys([name for name in files["history"] if name != "epoch"], [0.5] * 20)
        files["history"] = {"epoch": [*range(1, 21)], **flat, "val_loss": costs}

    suite = suite_of(tasks=["CoLA", "RTE"], method=TWO, reference=reference)
    report = make_report(fabricate(suite, lambda config, *_: config.seed / 50, stop_at_limit))
    said = " ".join(each for each in caveats_of(report) if "improving" in each)
    assert [task in said for task in ("CoLA", "RTE")] == [named, False]


def test_caveats_are_folded_on_the_first_screen_and_whole_in_text(judged):
    report = judged({"A": {"r": 70, "a": 76}, "B": {"r": 80, "a": 78}})
    (said,) = caveats_of(report)
    opened = report.html().partition("<nav")[0].replace("&lt;", "<")
    number = len(report.data.caveats) + 1  # with the scope
    folded = opened.index(f"<details><summary>{number} caveats</summary>")
    assert opened.index("headline") < opened.index("<table") < folded < opened.index(said)
    assert said in report.markdown().replace("\\<", "<")
    assert said in report._repr_html_().replace("&lt;", "<")
    assert said in " ".join(str(report).split()).partition("Method")[0]
