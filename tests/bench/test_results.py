from __future__ import annotations

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


@pytest.fixture
def folder(tmp_path):
    """Write a suite's folder as if it had run, with the given scores."""

    def make(tasks, seeds=(1, 2), value=half, predictions=False):
        methods = [Method(mechanism="relation"), Method(mechanism="baseline")]
        suite = Suite(name="made-up", tasks=tasks, seeds=list(seeds), method=methods)
        return finish_suite(tmp_path, suite, value, predictions=predictions).path

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


@pytest.mark.parametrize("tasks", [list(GLUE), [name for name in TASKS if name != "AX"]])
def test_submissions_pass_the_check(folder, tasks):
    results = read_results(folder(tasks, seeds=(1,), predictions=True))
    submissions = write_submissions(results)
    packed = submissions.packed
    assert submissions.refused == ()
    assert {str(zip_file.path.relative_to(results.folder)) for zip_file in packed} == {
        "submissions/baseline-64/seed-1.zip", "submissions/relation-64/seed-1.zip",
    }  # fmt: skip
    assert all(check(zip_file.path).ok for zip_file in packed)
    assert all(zip_file.filled == () for zip_file in packed)
    made_from = read_json(packed[0].path.with_suffix(".json"))["made_from"]
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


@pytest.mark.parametrize(("task", "value"), [("QQP", "majority class"), ("STS-B", "mean score")])
def test_a_missing_task_is_refused_or_filled_and_listed(folder, task, value):
    others = [name for name in GLUE if name != task]
    results = read_results(folder(others, seeds=(1,), predictions=True))
    refused = write_submissions(results)
    assert refused.packed == ()
    assert all(task in reason for _, reason in refused.refused)
    filled = write_submissions(results, fill_missing=True)
    assert all(zip_file.filled == (task,) for zip_file in filled.packed)
    assert all(check(zip_file.path).ok for zip_file in filled.packed)
    assert f"{task}: filled with" in str(filled)
    assert value in str(filled)


def test_results_without_runs_of_the_leaderboard_are_refused(folder):
    path = folder(["CoLA"], seeds=(1,), predictions=True)
    shutil.rmtree(path / "runs" / "CoLA")
    with pytest.raises(SuiteError, match="nothing to submit: there are no finished runs on tasks"):
        write_submissions(read_results(path))


def test_an_unfinished_run_stops_no_other_submission(folder):
    path = folder(list(GLUE), seeds=(1,), predictions=True)
    (path / "runs" / "RTE" / "relation-64" / "seed-1" / "result.json").unlink()
    submissions = write_submissions(read_results(path))
    assert [zip_file.path.parent.name for zip_file in submissions.packed] == ["baseline-64"]
    assert [zip_path.parent.name for zip_path, _ in submissions.refused] == ["relation-64"]
    filled = write_submissions(read_results(path), fill_missing=True).packed
    assert {zip_file.path.parent.name: zip_file.filled for zip_file in filled} == {
        "baseline-64": (),
        "relation-64": ("RTE",),
    }


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
