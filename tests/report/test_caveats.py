"""Sentences next to the headline: a test that disagrees, and an unstable reference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from relation_tf.files import write_json
from relation_tf.report import compare, make_report
from relation_tf.report.caveats import _undertrained, caveats
from relation_tf.report.reliability import trained_networks

SEEDS = np.array([-0.6, -0.2, 0.1, 0.3, 0.4])
QUOTE = "Quote the verdicts if you chose r as reference before the runs, otherwise the test."
OVER = "The test over tasks (Stratified Steel-Dwass, p < .05) disagrees: "


@pytest.fixture
def judged(table_of):
    """Compare methods from their mean, or their scores, on each task with the reference `r`."""

    def make(tasks, **options):
        samples = {
            task: {name: SEEDS + mean for name, mean in own.items()} for task, own in tasks.items()
        }
        return compare(table_of(samples), reference="r", **options)

    return make


@pytest.mark.parametrize(
    ("tasks", "caveats"),
    [
        # Better by 6, worse by 2.
        ({"A": {"r": 70, "a": 76}, "B": {"r": 80, "a": 78}},
         [f"{OVER}a does not differ significantly from r (p = 1.000). {QUOTE}"]),
        ({"A": {"r": 70, "a": 76, "b": 75}, "B": {"r": 80, "a": 78, "b": 78.3}},
         [f"{OVER}a and b do not differ significantly from r. {QUOTE}"]),
        # Better by 20 on one task, worse by 2 on four.
        ({"A": {"r": 70, "a": 90}, **{task: {"r": 80, "a": 78} for task in "BCDE"}},
         [f"{OVER}a is significantly worse than r (p < .001). {QUOTE}"]),
        ({"A": {"r": 70, "a": 76}, "B": {"r": 80, "a": 82}}, []),
        ({"A": {"r": 70, "a": 70.1}, "B": {"r": 80, "a": 79.9}}, []),
    ],
)  # fmt: skip
def test_a_test_over_tasks_that_disagrees_is_named(judged, tasks, caveats):
    assert judged(tasks).context.caveats == caveats


def test_the_test_of_a_single_task_can_disagree(table_of):
    scores = {"r": [70.0, 70.1, 70.2, 70.3, 76.5], "a": [76.0, 76.1, 76.2, 76.3, 76.4]}
    assert compare(table_of({"A": scores}), reference="r").context.caveats[0] == (
        "The test of A (Steel-Dwass, p < .05) disagrees: a does not differ significantly from r "
        f"(p = .151). {QUOTE}"
    )


@pytest.mark.parametrize("failed", [False, True])
def test_the_result_to_quote_depends_on_the_suite(suite_of, fabricate, failed):
    """Also where the verdict is withheld because of a failed run."""

    def score(config, *_):
        if failed and (config.task, config.seed) == ("CoLA", 5) and config.method == "relation":
            return None
        higher = {"CoLA": 0.7, "RTE": 0.6 if failed else 0.499}
        level = higher[config.task] if config.method == "relation" else 0.5
        return level + config.seed / 1000

    methods = [{"name": name, "mechanism": name} for name in ("attention", "relation")]
    suite = suite_of(
        tasks=["CoLA", "RTE"], method=methods, reference="attention", margin=1.0, seeds=5
    )
    folder = fabricate(suite, score)
    if failed:
        run = folder / "runs" / "CoLA" / "relation" / "seed-5"
        run.mkdir(parents=True)
        write_json(run / "error.json", {"error": "NaN"})
    context = make_report(folder).context
    verdict = context.verdicts.mean.loc["relation", "verdict"]
    assert verdict == ("inconclusive" if failed else "better")
    (caveat,) = (each for each in context.caveats if "disagrees" in each)
    assert caveat.endswith(
        "Quote the verdicts: the suite declared attention as reference before the runs."
    )
    asked = compare(folder, reference="attention").context
    assert not asked.scores.reference_declared


def test_a_test_with_too_few_seeds_or_tasks_cannot_disagree(table_of, judged):
    few = {"r": [70.0, 70.1, 70.2], "a": [76.0, 76.1, 76.2]}
    assert compare(table_of({"A": few}), reference="r").context.caveats == [
        "The test of A (Steel-Dwass, p < .05) cannot confirm this: with so few seeds, it cannot be "
        f"significant. {QUOTE}"
    ]
    tasks = {task: {"r": 70, "a": 76, "b": 75} for task in "ABC"}
    report = judged(tasks, control="r", test_over_tasks="wilcoxon-holm")
    assert report.context.caveats == [
        "The test over tasks (Wilcoxon's signed-rank test with Holm, p < .05) cannot confirm this: "
        f"with so few tasks, it cannot be significant. {QUOTE}"
    ]


def test_a_difference_that_the_test_finds_is_not_called_impossible(table_of):
    """Without ties five methods with five seeds cannot differ significantly; constants can."""
    rng = np.random.default_rng(0)
    scores = {"r": [50.0] * 5, "a": [90.0] * 5}
    scores |= {name: [*(70 + rng.normal(size=5))] for name in "xyz"}
    context = compare(table_of({"A": scores}), reference="r", margin=1.0).context
    assert context.pvalues["pvalue"].min() < 0.05
    assert not any("cannot be significant" in caveat for caveat in context.caveats)


def test_no_worse_is_no_disagreement(judged):
    report = judged({"A": {"r": 70, "a": 69.2}, "B": {"r": 80, "a": 79.2}}, margin=2.0)
    assert report.context.verdicts.mean["verdict"].tolist() == ["no worse"]
    assert report.context.caveats == []


def test_a_wide_reference_is_named(table_of):
    narrow = {"a": 76 + SEEDS, "b": 75 + SEEDS}
    wide = {"r": [50.0, 75, 74, 52, 76]}
    near = dict.fromkeys("rab", 80 + SEEDS)
    assert compare(
        table_of({"A": {**wide, **narrow}, "B": near}), reference="r"
    ).context.caveats == [
        "The reference r is unstable: its SD, pooled over tasks, is 23 times the SD of a, mostly "
        "because of A. Other seeds can change the verdicts."
    ]
    # Compared with a constant, or with most methods as wide, it is nothing special.
    for other in ({"a": [76.0] * 5}, {"a": 70 + 30 * SEEDS, "b": 75 + SEEDS}):
        said = compare(table_of({"A": {**wide, **other}}), reference="r").context.caveats
        assert "unstable" not in "".join(said)


def test_collapsed_runs_of_the_reference_are_named(suite_of, fabricate):
    def score(config, *_):
        lost = config.method == "attention" and config.task == "CoLA" and config.seed in (2, 4)
        return 0.0 if lost else 0.5 + config.seed / 100

    folder = fabricate(suite_of(reference="attention", margin=1.0), score)
    report = make_report(folder)
    (said,) = report.context.caveats
    assert said.startswith(
        "The reference attention is unstable: 2 of its 10 runs collapsed (learned nothing) on "
        "CoLA; its SD, pooled over tasks, is "
    )
    assert compare(folder, reference="linear").context.caveats == []


def test_a_collapsed_method_makes_no_reference_look_unstable(suite_of, fabricate):
    """Collapsed runs hardly differ, so every other spread is wide in comparison."""

    def score(config, *_):
        lost = 0.001 * (config.seed == 5)
        return lost if config.method == "baseline" else 0.5 + config.seed / 50

    methods = [{"name": name, "mechanism": name} for name in ("attention", "baseline")]
    suite = suite_of(tasks=["CoLA"], method=methods, reference="attention", margin=1.0)
    report = make_report(fabricate(suite, score))
    assert set(report.context.collapsed["method"]) == {"baseline"}
    assert not [said for said in report.context.caveats if "unstable" in said]


def test_a_network_scored_on_two_sets_is_counted_once(suite_of, fabricate):
    def score(config, *_):
        lost = config.method == "attention" and config.seed == 2
        return 0.0 if lost else 0.5 + config.seed / 100

    report = make_report(
        fabricate(suite_of(tasks=["CoLA", "MNLI"], reference="attention", margin=1.0), score)
    )
    lost = report.context.collapsed
    both = lost.assign(task="MNLI-m"), lost.assign(task="MNLI-mm")
    collapsed = pd.concat([lost, *both], ignore_index=True)
    said = "".join(
        caveats(report.context.verdicts, None, report.context.scores, collapsed, pd.DataFrame())
    )
    assert "2 of its 10 runs collapsed (learned nothing) on CoLA, MNLI-m and MNLI-mm" in said


def test_a_network_that_collapsed_only_on_a_diagnostic_set_learned(suite_of, fabricate):
    suite = suite_of(tasks=["CoLA", "MNLI"], reference="attention", margin=1.0)
    context = make_report(fabricate(suite, lambda config, *_: 0.5 + config.seed / 100)).context
    lost = pd.DataFrame([{"task": "AX", "method": "attention", "seed": 1, "reason": "constant"}])
    scores = replace(context.scores, tasks=[*context.scores.tasks, "AX"])
    assert trained_networks(lost, scores).empty


def test_only_main_tasks_make_a_reference_unstable(suite_of, fabricate):
    suite = suite_of(tasks=["CoLA", "MNLI"], reference="attention", margin=1.0)
    context = make_report(fabricate(suite, lambda config, *_: 0.5 + config.seed / 100)).context
    lost = pd.DataFrame([{"task": "AX", "method": "attention", "seed": 1, "reason": "constant"}])
    scores = replace(context.scores, tasks=[*context.scores.tasks, "AX"])
    assert caveats(context.verdicts, None, scores, lost, pd.DataFrame()) == []


def test_a_method_with_scores_on_diagnostic_sets_only_has_no_caveat(table_of):
    names = {"CoLA": "AB", "AX": "ABC"}
    samples = {task: dict.fromkeys(own, SEEDS + 50) for task, own in names.items()}
    assert compare(table_of(samples), reference="A").context.caveats == []


@pytest.mark.parametrize(("seeds", "named"), [((1, 2), False), ((1, 2, 3), True)])
def test_methods_whose_runs_mostly_collapsed_are_named(suite_of, fabricate, seeds, named):
    def score(config, *_):
        return 0.0 if config.method == "linear" and config.seed in seeds else 0.5

    suite = suite_of(tasks=["CoLA"], reference="attention", margin=1.0, seeds=5)
    report = make_report(fabricate(suite, score))
    said = [each for each in report.context.caveats if "learned nothing" in each]
    assert said == named * [
        "3 of 5 runs of linear collapsed (learned nothing). The stopping rule ended 3 of them, "
        "after 21 epochs (median). Train longer (--set epochs=N --set patience=N) to see whether "
        "they learn. Other training settings can change this verdict."
    ]
    runs = pd.DataFrame(
        [
            {"task": "CoLA", "method": "linear", "seed": seed, "epochs": 10 + seed,
             "stopped": "no improvement for 2 epochs (patience)", "status": "done"}
            for seed in (1, 2)
        ]
    )  # fmt: skip
    context = report.context
    for own in (runs, runs.astype({"seed": str}), pd.concat([runs, pd.DataFrame([{"seed": 9}])])):
        said = caveats(context.verdicts, None, context.scores, context.collapsed, own)
        where = "The stopping rule ended 2 of them, after 11.5 epochs (median)."
        assert any(where in each for each in said) == named
    for limits, how in [
        (2, "2 of them reached the limit on epochs. Train longer (--set epochs=N) to"),
        (1, "The stopping rule ended 1 of them, after 11 epochs (median). 1 of them reached "
            "the limit on epochs. Train longer (--set epochs=N --set patience=N) to"),
    ]:  # fmt: skip
        own = runs.copy()
        own.loc[2 - limits :, "stopped"] = [f"reached {10 + n} epochs" for n in (1, 2)][-limits:]
        said = caveats(context.verdicts, None, context.scores, context.collapsed, own)
        assert any(how in each for each in said) == named
    earlier = runs.drop(columns="stopped")
    said = caveats(context.verdicts, None, context.scores, context.collapsed, earlier)
    assert "The stopping rule" not in "".join(said)


@pytest.mark.parametrize(
    ("kept", "change", "advice"),
    [
        (1, {}, "The kept weights are those with the lowest val_loss, of epoch 1 (median). Monitor "
                "the metric instead (--set 'tasks=[\"CoLA\"]' --set monitor=val_matthews). If it "
                "does not improve either, train longer (--set epochs=N --set patience=N)."),
        (1, {"tasks": ["CoLA"]}, "Monitor the metric instead (--set monitor=val_matthews)."),
        (1, {"tasks": ["CoLA"], "monitor": "val_matthews"}, "Train longer (--set epochs=N"),
        (20, {}, "Train longer (--set epochs=N"),
    ],
)  # fmt: skip
def test_where_the_lowest_loss_keeps_an_early_epoch_the_metric_is_to_be_monitored(
    suite_of, fabricate, kept, change, advice
):
    """Longer runs keep the same epoch if the loss rises from it on."""

    def score(config, *_):
        return 0.0 if (config.task, config.method) == ("CoLA", "linear") else 0.5

    def keep(config, files):
        files["result"] |= {"epochs": 20, "kept_epoch": kept}
        files["result"]["stopped"] = "no improvement for 19 epochs (patience)"
        files["history"] = {name: [*own, *own][:20] for name, own in files["history"].items()}

    suite = suite_of(**{"tasks": ["CoLA", "SST-2"], "reference": "attention", **change})
    context = make_report(fabricate(suite, score, keep)).context
    (said,) = [each for each in context.caveats if "collapsed" in each]
    assert advice in said
    assert said.count("rain longer") == 1
    # Versions before this advice wrote no such columns to runs.csv.
    earlier = context.runs.drop(columns=["monitor", "metrics", "kept_epoch"])
    said = caveats(context.verdicts, None, context.scores, context.collapsed, earlier)
    assert any("Train longer (--set epochs=N --set patience=N)" in each for each in said)


def test_a_reference_that_was_still_improving_is_named(suite_of, fabricate):
    """Not if the best epoch was earlier, or if early stopping ended most runs."""
    best_epoch = {"CoLA": 20, "RTE": 17}

    def stop_at_limit(config, files):
        if config.task == "CoLA" and config.seed < 3:
            return
        files["result"] |= {"epochs": 20, "kept_epoch": 20, "stopped": "reached 20 epochs"}
        costs = [1 + abs(best_epoch[config.task] - epoch) for epoch in range(1, 21)]
        flat = dict.fromkeys([name for name in files["history"] if name != "epoch"], [0.5] * 20)
        files["history"] = {"epoch": [*range(1, 21)], **flat, "val_loss": costs}

    suite = suite_of(tasks=["CoLA", "RTE"], reference="attention", margin=1.0)

    def said(name):
        folder = fabricate(suite, lambda config, *_: config.seed / 50, stop_at_limit, name=name)
        return [each for each in make_report(folder).context.caveats if "improving" in each]

    assert said("most") == [
        "Most runs were still improving when they reached the limit on epochs: attention on CoLA; "
        "linear on CoLA; relation on CoLA; baseline on CoLA. Longer training (--set epochs=N) can "
        "change the verdicts."
    ]
    best_epoch["CoLA"] = 17
    assert said("earlier") == []


def test_runs_of_earlier_versions_are_not_said_to_improve():
    runs = pd.DataFrame(
        [{"method": "r", "task": "A", "status": "done", "still_improving": np.nan}] * 3
    )
    assert list(_undertrained(runs)) == []


def test_caveats_are_visible_on_the_first_screen(judged):
    report = judged({"A": {"r": 70, "a": 76}, "B": {"r": 80, "a": 78}})
    (said,) = report.context.caveats
    opened = report.html().partition("<nav")[0].replace("&lt;", "<")
    assert opened.index("headline") < opened.index(said) < opened.index("<table")
    assert said in report.markdown().replace("\\", "")
    assert said in report._repr_html_().replace("&lt;", "<")
    printed = " ".join(str(report).split())
    assert printed.index(report.context.headline) < printed.index(said) < printed.index("Method")
