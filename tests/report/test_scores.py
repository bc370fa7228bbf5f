"""Scores of a comparison: tasks that are scored from one trained network."""

from __future__ import annotations

import pytest

from relation_tf.bench.results import MEAN_OF_TASKS, read_results
from relation_tf.report import compare, make_report
from relation_tf.report.scores import Scores
from relation_tf.report.standings import standings

TWO = [{"name": name, "mechanism": name} for name in ("baseline", "relation")]
GROUP = [{"name": "opinions", "tasks": ["MR", "CR"]}]
LEVEL = {"MR": 0.6, "CR": 0.8, "SUBJ": 0.5}


def score(config, task, metric):
    return LEVEL[task] + config.seed / 100 + 0.1 * (config.method == "relation")


@pytest.fixture
def grouped(suite_of, fabricate):
    suite = suite_of(tasks=["opinions", "SUBJ"], group=GROUP, method=TWO, seeds=2)
    return fabricate(suite, score)


def test_tasks_of_a_group_count_once(grouped):
    scores = Scores.of(read_results(grouped))
    assert scores.shared == {"opinions": ["MR", "CR"]}
    samples = scores.by_network
    assert [*samples] == ["opinions", "SUBJ"]
    assert samples["opinions"]["baseline"] == pytest.approx([71, 72])
    assert samples["SUBJ"]["relation"] == pytest.approx([61, 62])
    # The displayed average uses the same rule.
    assert scores.samples(MEAN_OF_TASKS)["baseline"] == pytest.approx([0.61, 0.62])


def test_the_report_names_tasks_of_one_network(grouped, tmp_path):
    report = make_report(grouped)
    note = "The two metrics of a task, and MR and CR, are averaged first, then the tasks."
    assert note in " ".join(report.markdown().split())
    # A comparison of the report's tables knows the group as well.
    report.write(tmp_path / "report")
    assert compare(tmp_path / "report").context.scores.shared == {"opinions": ["MR", "CR"]}


def test_a_group_in_one_source_counts_once_in_all(grouped, table_of):
    alone = table_of({task: {"dan": [0.1, 0.2]} for task in LEVEL})
    for sources in ((grouped, alone), (alone, grouped)):
        assert compare(*sources).context.scores.network("CR") == "opinions"


def test_registered_tasks_know_their_network(table_of):
    tasks = ["reversal", "reversal-long", "MNLI-mm", "own"]
    table = table_of({task: {"a": [1.0, 2], "b": [3.0, 4]} for task in tasks})
    scores = compare(table).context.scores
    assert scores.shared == {"reversal": ["reversal", "reversal-long"]}
    # Without the other half, MNLI-mm is a task of its own.
    assert [*scores.by_network] == ["reversal", "MNLI-mm", "own"]


def test_a_diagnostic_set_is_tested_but_not_counted_over_tasks(suite_of, fabricate):
    """AX has the opposite order of methods and would change every result over tasks."""
    suite = suite_of(
        tasks=["MNLI", "RTE"], method=TWO, seeds=5, reference="baseline",
        published="relation-table1",
    )  # fmt: skip

    def better(config, task, metric):
        return 0.5 + config.seed / 100 + 0.2 * (config.method == "relation")

    def diagnose(config, files):
        if config.task == "MNLI":
            value = 0.3 + config.seed / 100 - 0.2 * (config.method == "relation")
            files["result"]["metrics"]["AX"] = {"matthews": value}

    plain = make_report(fabricate(suite, better, name="plain"))
    report = make_report(fabricate(suite, better, diagnose, name="diagnosed"))
    context = report.context
    assert [*context.scores.tasks] == ["MNLI-m", "MNLI-mm", "RTE", "AX", MEAN_OF_TASKS]
    assert context.columns["AX"] == "Matthews"
    assert context.comparisons["AX"].pairs()["better"].tolist() == ["baseline"]
    assert context.verdicts.tasks["AX"]["verdict"].tolist() == ["worse"]
    assert context.headline == plain.context.headline
    assert context.several.tasks == ["MNLI", "RTE"]
    assert report.tables["over_tasks"].equals(plain.tables["over_tasks"])
    assert context.verdicts.mean.equals(plain.context.verdicts.mean)
    assert context.wins == plain.context.wins
    assert standings(context.scores).equals(standings(plain.context.scores))
    figure = report.tables["published"].query("task == 'AX' and n > 0 and method == 'relation'")
    assert figure[["published", "mean"]].to_numpy().tolist() == [[9.74, pytest.approx(13.0)]]
    assert "dev sets" not in figure["reason"].item()
    assert "| AX | matthews | relation | 9.74" in report.markdown()
    said = "Diagnostic sets (AX) are tested separately: no average and no result over tasks"
    assert said in " ".join(report.markdown().split())
    assert said not in " ".join(plain.markdown().split())


def test_a_diagnostic_set_in_a_table_of_scores(table_of):
    samples = {"a": [1.0, 2, 3], "b": [4.0, 5, 6]}
    scores = compare(table_of(dict.fromkeys(("MNLI-m", "AX", "RTE"), samples))).context.scores
    assert [*scores.by_network] == ["MNLI-m", "RTE"]
    # Alone, it is a task like others.
    assert [*compare(table_of({"AX": samples})).context.scores.by_network] == ["AX"]


def test_runs_without_the_score_of_a_diagnostic_set_are_named(suite_of, fabricate):
    def diagnose(config, files):
        if config.seed == 1:
            files["result"]["metrics"]["AX"] = {"matthews": 0.5}

    suite = suite_of(tasks=["MNLI"], method=TWO, seeds=3)
    context = make_report(fabricate(suite, lambda *_: 0.5, diagnose)).context
    (warning,) = [each for each in context.warnings if each.startswith("AX")]
    assert warning.startswith("AX is scored in 2 of 6 runs: ")
    assert context.cells["relation", "AX"].notes == ["n = 1"]


@pytest.mark.parametrize("lacking", ["relation", "baseline"])
def test_further_test_sets_that_a_layer_cannot_predict_are_named(suite_of, fabricate, lacking):
    def forget(config, files):
        if config.method == lacking:
            del files["result"]["metrics"]["parity-8x"]
            files["result"]["unscored"] = {"parity-8x": "cannot predict texts of up to 256 tokens"}

    suite = suite_of(tasks=["parity"], method=TWO, seeds=5, reference="baseline", margin=1.0)
    report = make_report(fabricate(suite, lambda config, *_: 0.9 + config.seed / 100, forget))
    (warning,) = [each for each in report.context.warnings if "parity-8x" in each]
    assert warning == (
        f"In 5 runs, {lacking} has no score on parity-8x: cannot predict texts of up to 256 tokens."
    )
    assert report.context.failures == []
    assert "parity-8x" not in report.context.scores.lacking_tasks()
    assert {*report.context.scores.samples("parity-8x")} == {"relation", "baseline"} - {lacking}
    assert "parity-8x" in report.html()


def test_the_own_score_of_a_task_is_required(suite_of, fabricate):
    def forget(config, files):
        del files["result"]["metrics"]["parity"]
        files["result"]["unscored"] = {"parity": "cannot predict"}

    suite = suite_of(tasks=["parity"], method=TWO, seeds=1)
    results = read_results(fabricate(suite, lambda *_: 0.5, forget))
    assert len(results.failures) == 2
    assert "key 'metrics': must have token_accuracy for parity;" in results.failures[0][1]


def test_a_seed_needs_all_tasks_of_its_network(table_of):
    table = table_of(
        {"MNLI-m": {"a": [1.0, 2], "b": [3.0, 4]}, "MNLI-mm": {"a": [3.0], "b": [5, 6]}}
    )
    assert compare(table).context.scores.by_network == {"MNLI": {"a": [2], "b": [4, 5]}}


def test_unlike_tasks_of_a_network_are_not_averaged(table_of):
    table = table_of({task: {"a": [1.0, 2], "b": [3.0, 4]} for task in ("MNLI-m", "MNLI-mm")})
    scores = compare(table, lower_is_better="MNLI-mm").context.scores
    assert scores.counted("MNLI") == ["MNLI-m"]
    assert scores.by_network["MNLI"]["a"] == [1, 2]
