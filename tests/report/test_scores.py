"""Scores of a comparison: tasks that are scored from one trained network."""

from __future__ import annotations

import pytest

from relation_tf.files import write_json
from relation_tf.report import compare, make_report
from tests.report.conftest import TWO, content, verdicts

GROUP = [{"name": "opinions", "tasks": ["MR", "CR"]}]
LEVEL = {"MR": 0.6, "CR": 0.8, "SUBJ": 0.5}
OPINIONS = {"MR": "opinions", "CR": "opinions"}


def score(config, task, metric):
    return LEVEL[task] + config.seed / 100 + 0.1 * (config.method == "relation")


@pytest.fixture
def grouped(suite_of, fabricate):
    suite = suite_of(tasks=["opinions", "SUBJ"], group=GROUP, method=TWO, seeds=2)
    return fabricate(suite, score)


def networks(*sources, **options):
    return content(compare(*sources, **options))["networks"]


def test_tasks_of_a_group_count_once(grouped, tmp_path):
    report = make_report(grouped)
    means = report.tables["table"].set_index(["task", "method"])["mean"]
    assert means["mean of these tasks", "baseline"] == pytest.approx(
        ((0.6 + 0.8) / 2 + 0.5) / 2 + 0.015
    )
    assert content(report)["networks"] == OPINIONS
    assert networks(report.write(tmp_path / "report").parent) == OPINIONS


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
    assert verdicts(report, "AX") == {"relation": "worse"}
    assert report.tables["pvalues"].query("task == 'AX'")["better"].tolist() == ["baseline"]
    for name in ("verdicts", "pvalues", "table"):
        without = report.tables[name].query("task != 'AX'").reset_index(drop=True)
        assert without.equals(plain.tables[name]), name
    assert report.tables["over_tasks"].equals(plain.tables["over_tasks"])
    assert content(report)["headline"] == content(plain)["headline"]
    figure = report.tables["published"].query("task == 'AX' and n > 0 and method == 'relation'")
    assert figure[["published", "mean"]].to_numpy().tolist() == [[9.74, pytest.approx(13.0)]]
    assert "dev sets" not in figure["reason"].item()
    assert ("Diagnostic sets (AX)" in report.markdown()) > ("Diagnostic sets" in plain.markdown())


def test_a_diagnostic_set_in_a_table_of_scores(table_of):
    samples = {"a": [1.0, 2, 3], "b": [4.0, 5, 6]}
    table = table_of(dict.fromkeys(("MNLI-m", "AX", "RTE"), samples))
    assert "mean of 2 tasks" in {*compare(table, reference="a").tables["verdicts"]["task"]}
    # Alone, it is a task like others.
    alone = compare(table_of({"AX": samples, "CoLA": samples}), reference="a")
    assert content(alone)["headline"]


@pytest.mark.parametrize("lacking", ["relation", "baseline"])
def test_further_test_sets_that_a_layer_cannot_predict_are_named(suite_of, fabricate, lacking):
    def forget(config, files):
        if config.method == lacking:
            del files["result"]["metrics"]["parity-8x"]
            files["result"]["unscored"] = {"parity-8x": "cannot predict texts of up to 256 tokens"}

    suite = suite_of(tasks=["parity"], method=TWO, seeds=5, reference="baseline", margin=1.0)
    report = make_report(fabricate(suite, lambda config, *_: 0.9 + config.seed / 100, forget))
    (warning,) = [each for each in content(report)["warnings"] if "parity-8x" in each]
    for part in ("In 5 runs", lacking, "up to 256 tokens"):
        assert part in warning
    assert content(report)["failures"] == []
    scored = report.tables["table"].query("task == 'parity-8x'")["method"]
    assert {*scored} == {"relation", "baseline"} - {lacking}


def test_the_own_score_of_a_task_is_required(suite_of, fabricate):
    def forget(config, files):
        del files["result"]["metrics"]["parity"]
        files["result"]["unscored"] = {"parity": "cannot predict"}

    suite = suite_of(tasks=["parity"], method=TWO, seeds=1)
    (_, error), _ = content(make_report(fabricate(suite, lambda *_: 0.5, forget)))["failures"]
    assert "key 'metrics': must have token_accuracy for parity;" in error


def test_a_failed_run_counts_for_all_test_sets_of_its_network(suite_of, fabricate):
    suite = suite_of(tasks=["parity"], method=TWO, seeds=5, reference="baseline")
    failed = ("relation", 5)
    level = {"baseline": 0.85, "relation": 0.95}
    folder = fabricate(
        suite,
        lambda run, *_: (
            None if (run.method, run.seed) == failed else level[run.method] + run.seed / 200
        ),
    )
    run = folder / "runs" / "parity" / "relation" / "seed-5"
    run.mkdir(parents=True)
    write_json(run / "error.json", {"error": "NaN"})
    table = make_report(folder).tables["verdicts"].set_index("task")
    assert table.loc[["parity", "parity-8x"], "reason"].tolist() == ["1 failed run"] * 2


def test_a_seed_needs_all_tasks_of_its_network(table_of):
    """The third seed of MNLI-m does not count."""
    both = {"MNLI-m": {"a": [1, 2, 9], "b": [3, 4, 1]}, "MNLI-mm": {"a": [3, 4], "b": [5.0, 6]}}
    same = {"a": [1.0, 2], "b": [1.0, 2]}
    report = compare(table_of({**both, "RTE": same}), reference="a")
    found = report.tables["verdicts"].set_index("task")["difference"]
    assert found["mean of 2 tasks"] == pytest.approx((2 + 0) / 2)
