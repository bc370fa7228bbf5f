from __future__ import annotations

import re
import shutil

import pytest

from glue_submit import TASKS, check
from relation_tf.bench import read_results, write_submissions
from relation_tf.cli import commands
from relation_tf.config import Method, Suite
from relation_tf.errors import SuiteError
from relation_tf.files import read_json, write_json
from relation_tf.report.suites import scores_of
from relation_tf.tasks import GLUE
from relation_tf.words import GLUE_AVERAGE, MEAN_OF_TASKS
from tests.bench.finished_runs import finish_suite, half

METHODS = [Method(mechanism="relation"), Method(mechanism="baseline")]


@pytest.fixture
def folder(tmp_path):
    """Write a suite's folder as if it had run, with the given scores."""

    def make(tasks, value=half):
        suite = Suite(name="made-up", tasks=tasks, seeds=[1, 2], method=METHODS)
        return finish_suite(tmp_path, suite, value).path

    return make


def test_scores_are_means_of_a_tasks_metrics_and_averages_by_seed(folder):
    def value(task, method, seed):
        return {"CoLA": 0.2, "MNLI": 0.6, "MRPC": 0.7}[task] + seed / 100

    results = read_results(folder(["CoLA", "MNLI", "MRPC"], value=value))
    assert set(results.scores["task"]) == {"CoLA", "MRPC", "MNLI-m", "MNLI-mm", MEAN_OF_TASKS}
    assert scores_of(results).samples("MNLI-m") == {
        "relation-64": pytest.approx([0.61, 0.62]), "baseline-64": pytest.approx([0.61, 0.62]),
    }  # fmt: skip
    # MNLI is one task that is answered twice.
    assert scores_of(results).samples(MEAN_OF_TASKS)["relation-64"] == pytest.approx([0.51, 0.52])


def test_all_nine_tasks_give_the_glue_average(folder):
    results = read_results(folder(list(GLUE), value=lambda task, method, seed: seed / 10))
    assert list(results.scores["task"].cat.categories)[-1] == GLUE_AVERAGE
    assert scores_of(results).samples(GLUE_AVERAGE)["baseline-64"] == pytest.approx([0.1, 0.2])


def add_ax(path, value):
    for file in path.glob("runs/MNLI/*/*/result.json"):
        result = read_json(file)
        write_json(file, result | {"metrics": result["metrics"] | {"AX": value}})


@pytest.mark.parametrize("tasks", [["MNLI", "RTE"], list(GLUE)])
def test_a_diagnostic_set_is_in_no_average(folder, tasks):
    path = folder(tasks)
    before = scores_of(read_results(path))
    add_ax(path, {"matthews": 0.1})
    after = scores_of(read_results(path))
    assert [*after.tasks] == [*before.single_tasks, "AX", *before.averages]
    assert after.samples("AX") == {"relation-64": [0.1, 0.1], "baseline-64": [0.1, 0.1]}
    for name in before.averages:
        assert after.samples(name) == before.samples(name)


def test_a_diagnostic_set_has_its_own_metric(folder):
    path = folder(["MNLI"])
    add_ax(path, {"accuracy": 0.1})
    results = read_results(path)
    assert not results.runs
    assert all("matthews for AX." in error for _, error in results.failures)


def test_a_seed_that_lacks_a_task_has_no_average(folder):
    path = folder(["CoLA", "RTE"])
    (path / "runs" / "RTE" / "relation-64" / "seed-2" / "result.json").unlink()
    results = read_results(path)
    samples = scores_of(results).samples(MEAN_OF_TASKS)
    assert {name: len(scores) for name, scores in samples.items()} == {
        "relation-64": 1, "baseline-64": 2,
    }  # fmt: skip


def predicted(path, tasks, methods=METHODS[1:]):
    """Write a suite's folder with predictions as large as the leaderboard's."""
    suite = Suite(name="made-up", tasks=tasks, seeds=[1], method=methods)
    return finish_suite(path, suite, predictions=True).path


@pytest.mark.parametrize("tasks", [list(GLUE), [name for name in TASKS if name != "AX"]])
def test_submissions_pass_the_check(tmp_path, tasks):
    submissions = write_submissions(read_results(predicted(tmp_path, tasks)))
    assert submissions.refused == ()
    (packed,) = submissions.packed
    assert packed.path == tmp_path / "submissions" / "baseline-64" / "seed-1.zip"
    assert check(packed.path).ok
    assert packed.filled == ()
    made_from = read_json(packed.path.with_suffix(".json"))["made_from"]
    assert made_from.keys() == TASKS.keys()
    network = "MNLI" if "MNLI" in tasks else "MNLI-m"
    assert made_from["AX"]["predictions"].startswith(f"runs/{network}/")


@pytest.mark.parametrize(("mnli", "missing"), [
    (["MNLI"], ["WNLI"]),
    (["MNLI-m"], ["MNLI-mm", "WNLI"]),
    ([], ["MNLI-m", "MNLI-mm", "WNLI", "AX"]),
])  # fmt: skip
def test_missing_files_of_the_leaderboard_are_named(folder, capsys, mnli, missing):
    others = [name for name in GLUE if name not in ("MNLI", "WNLI")]
    commands._submit_if_complete(read_results(folder([*others, *mnli])), False)
    assert f" {', '.join(missing)} not in" in capsys.readouterr().out


def test_missing_tasks_are_refused_or_filled_and_listed(tmp_path):
    others = [name for name in GLUE if name not in ("QQP", "STS-B")]
    results = read_results(predicted(tmp_path, others))
    refused = write_submissions(results)
    assert refused.packed == ()
    ((_, reason),) = refused.refused
    assert "QQP" in reason
    filled = write_submissions(results, fill_missing=True)
    (packed,) = filled.packed
    assert {*packed.filled} == {"QQP", "STS-B"}
    assert check(packed.path).ok
    for task, value in (("QQP", "majority class"), ("STS-B", "mean score")):
        assert re.search(f"{task}: filled .*{value}", str(filled))


def test_results_without_runs_of_the_leaderboard_are_refused(folder):
    path = folder(["CoLA"])
    shutil.rmtree(path / "runs" / "CoLA")
    with pytest.raises(SuiteError, match="nothing to submit: there are no finished runs on tasks"):
        write_submissions(read_results(path))


def test_an_unfinished_run_stops_no_other_submission(tmp_path):
    path = predicted(tmp_path, ["RTE", "WNLI"], METHODS)
    (path / "runs" / "RTE" / "relation-64" / "seed-1" / "result.json").unlink()
    filled = write_submissions(read_results(path), fill_missing=True).packed
    lacking = {zip_file.path.parent.name: {*TASKS} - {*zip_file.filled} for zip_file in filled}
    assert lacking == {"baseline-64": {"RTE", "WNLI"}, "relation-64": {"WNLI"}}


BROKEN = {
    "result.json": ('{"task": "RTE", ', "expected JSON: "),
    "config.json": ("[]", "expected a JSON object, found list"),
    "manifest.json": ("{}", "key 'started' is missing"),
    "history.csv": ("epoch,loss\n1,2\n", "expected a column 'val_loss', found 'epoch', 'loss'"),
}


@pytest.mark.parametrize("file", BROKEN)
def test_a_broken_run_counts_as_failed_and_the_others_are_read(folder, file):
    path = folder(["RTE"])
    content, reason = BROKEN[file]
    (path / "runs/RTE/relation-64/seed-1" / file).write_text(content)
    results = read_results(path)
    assert [(run["method"], run["seed"]) for run in results.runs] == [
        ("relation-64", 2), ("baseline-64", 1), ("baseline-64", 2),
    ]  # fmt: skip
    ((name, error),) = results.failures
    assert name == "RTE/relation-64/seed-1"
    assert f"{name}/{file}:" in error
    assert reason in error
    assert error.endswith("run it again" if file != "result.json" else "runs it again")
    assert "\n" not in error


HEADER = "epoch,loss,val_loss,val_accuracy"


@pytest.mark.parametrize("row", [",0.5,0.5,0.5", "inf,nan,0.5,0.5"])
def test_a_history_without_numbers_of_epochs_is_broken(folder, row):
    path = folder(["RTE"])
    history = path / "runs/RTE/relation-64/seed-1/history.csv"
    history.write_text(f"{HEADER}\n1,0.5,0.5,0.5\n{row}\n")
    results = read_results(path)
    ((_, error),) = results.failures
    assert "expected numbers in column 'epoch'" in error


def test_broken_reason_of_a_failed_run_is_a_failure(folder):
    path = folder(["RTE"])
    failed = path / "runs/RTE/baseline-64/seed-2"
    (failed / "result.json").unlink()
    (failed / "error.json").write_text("{")
    results = read_results(path)
    assert len(results.runs) == 3
    ((name, error),) = results.failures
    assert name == "RTE/baseline-64/seed-2"
    assert f"{name}/error.json: expected JSON" in error
