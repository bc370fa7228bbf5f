"""Test predictions that are added after training, and scores on test sets with public labels."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import matthews_corrcoef

from glue_submit import evaluate
from relation_tf.bench import RunFolder, predict_missing, read_results, run_suite, submissions
from relation_tf.bench.run_folder import write_result
from relation_tf.bench.train import score_tests
from relation_tf.config import Method, Suite
from relation_tf.errors import SuiteError
from relation_tf.tasks import find_source

pytestmark = pytest.mark.tensorflow

SUITE = Suite(
    name="small",
    tasks=["RTE"],
    seeds=[1, 2],
    epochs=2,
    batch_size=16,
    embedding_dim=12,
    method=[Method(mechanism="baseline", units=8)],
)

MNLI = SUITE.model_copy(update={"tasks": ["MNLI"], "seeds": [1]})


@pytest.fixture(scope="module")
def trained(small_glue, tmp_path_factory):
    """Train without a test file; return the data, the runs and the printed lines."""
    folder = tmp_path_factory.mktemp("trained")
    shutil.copytree(small_glue / "RTE", folder / "data" / "RTE")
    (folder / "data" / "RTE" / "test.tsv").unlink()
    run_suite(SUITE, folder / "runs", data=folder / "data", quiet=True)
    return folder


@pytest.fixture
def folder(trained, tmp_path):
    """Copy data and runs."""
    return shutil.copytree(trained, tmp_path / "copy")


def add_test_file(folder, small_glue):
    shutil.copy(small_glue / "RTE" / "test.tsv", folder / "data" / "RTE")


def predictions(run):
    return run / "predictions" / "RTE.test.tsv"


def runs_of(folder):
    return sorted((folder / "runs").glob("runs/RTE/*/*"))


def test_test_files_of_a_vocabulary_of_all_splits_must_be_those_of_the_training(
    small_glue, tmp_path
):
    data = shutil.copytree(small_glue / "RTE", tmp_path / "data" / "RTE").parent
    (data / "RTE" / "test.tsv").unlink()
    suite = SUITE.model_copy(update={"seeds": [1], "vocabulary": "all"})
    run_suite(suite, tmp_path / "runs", data=data, quiet=True)
    shutil.copy(small_glue / "RTE" / "test.tsv", data / "RTE")
    with pytest.raises(SuiteError, match=r"trained on other data \(test\)"):
        predict_missing(tmp_path / "runs", data=data)


def test_an_added_test_file_is_predicted(folder, small_glue, monkeypatch):
    steps = []
    monkeypatch.setattr(submissions, "advance", lambda *step: steps.append(step))
    add_test_file(folder, small_glue)
    before = [(run / "result.json").stat().st_mtime_ns for run in runs_of(folder)]
    run_suite(SUITE, folder / "runs", data=folder / "data", quiet=True)  # nothing to train
    assert [(run / "result.json").stat().st_mtime_ns for run in runs_of(folder)] == before
    locked, results_of = [], submissions.write_result

    def write_result(run, *arguments, **options):
        configs = RunFolder(folder / "runs").suite().runs()
        locked.append(all(RunFolder(folder / "runs").is_locked(config) for config in configs))
        results_of(run, *arguments, **options)

    monkeypatch.setattr(submissions, "write_result", write_result)
    made = predict_missing(folder / "runs", folder / "data")
    assert locked
    assert all(locked)  # until all runs of the task and method are written
    assert made.added == {f"RTE/baseline-8/seed-{seed}": ["RTE"] for seed in (1, 2)}
    assert steps == [("runs", 2, 2)]
    one = SUITE.model_copy(update={"seeds": [1], "save_models": True})
    run_suite(one, folder / "other", data=folder / "data", quiet=True)
    run = runs_of(folder)[0]
    other = folder / "other" / run.relative_to(folder / "runs")
    assert predictions(run).read_bytes() == predictions(other).read_bytes()
    made_with = json.loads((run / "manifest.json").read_text())["data"]
    assert made_with["rows"]["test"] == 8
    assert made_with == json.loads((other / "manifest.json").read_text())["data"]
    assert not predict_missing(folder / "runs", folder / "data").added


@pytest.fixture(scope="module")
def diagnosed(small_glue, tmp_path_factory, label_diagnostic):
    """Train on MNLI without AX's labels, then add them; return data and runs, and other runs."""
    folder = tmp_path_factory.mktemp("diagnosed")
    shutil.copytree(small_glue, folder / "data")
    run_suite(MNLI, folder / "runs", data=folder / "data", quiet=True)
    label_diagnostic(folder / "data")
    run_suite(MNLI, folder / "other", data=folder / "data", quiet=True)
    return folder


def test_labels_of_a_diagnostic_set_are_used(diagnosed):
    (run,) = read_results(diagnosed / "other").runs
    table = pd.read_csv(Path(run["folder"]) / "predictions" / "AX.test.tsv", sep="\t")
    expected = matthews_corrcoef(table["label"], table["prediction"])
    assert run["metrics"]["AX"] == {"matthews": pytest.approx(expected)}
    chosen = table.filter(like="probability_").idxmax(axis=1).str.removeprefix("probability_")
    assert chosen.tolist() == table["prediction"].tolist()


@pytest.mark.slow
def test_scores_of_replaced_files_without_labels_are_dropped(
    folder, small_glue, diagnosed, tmp_path
):
    def scores(runs, data):
        assert predict_missing(runs, data).added
        run = read_results(runs).runs[0]
        return run["metrics"].keys(), run["test_metrics"].keys()

    add_test_file(folder, small_glue)
    test, labels = (folder / "data" / "RTE" / name for name in ("test.tsv", "test_gold.tsv"))
    rows = [f"{row}\tentailment" for row in range(8)]
    labels.write_text("\n".join(["index\tlabel", *rows, ""]), "utf-8")
    assert scores(folder / "runs", folder / "data") == ({"RTE"}, {"RTE"})
    labels.unlink()
    test.write_text("".join(test.read_text("utf-8").splitlines(keepends=True)[:4]), "utf-8")
    assert scores(folder / "runs", folder / "data") == ({"RTE"}, set())
    other = shutil.copytree(diagnosed, tmp_path / "diagnosed")
    (other / "data" / "diagnostic" / "diagnostic-full.tsv").unlink()
    assert scores(other / "other", other / "data") == ({"MNLI-m", "MNLI-mm"}, set())


@pytest.mark.slow
def test_a_file_that_was_absent_for_a_while_is_predicted_again(diagnosed, tmp_path):
    shutil.copytree(diagnosed, tmp_path, dirs_exist_ok=True)
    runs, data = tmp_path / "other", tmp_path / "data"
    matched, other = (data / "MNLI" / f"test_{name}.tsv" for name in ("matched", "mismatched"))

    def shorten(file, rows):
        file.write_text("".join(file.read_text("utf-8").splitlines(keepends=True)[:rows]), "utf-8")

    other.rename(tmp_path / "kept.tsv")
    shorten(matched, 4)
    predict_missing(runs, data)
    (tmp_path / "kept.tsv").rename(other)
    shorten(other, 3)
    (added,) = predict_missing(runs, data).added.values()
    assert added == ["MNLI-mm"]


def test_runs_that_cannot_be_predicted(folder, small_glue):
    def predict():
        return predict_missing(folder / "runs", folder / "data")

    names = [f"RTE/baseline-8/seed-{seed}" for seed in (1, 2)]
    made = predict()
    ((error, lacking),) = made.lacking.items()
    assert (made.added, lacking) == ({}, names)
    assert "no test file of RTE" in error
    add_test_file(folder, small_glue)
    first, second = runs_of(folder)
    (first / "weights.npz").unlink()
    made = predict()
    assert [*made.added] == names[1:]
    ((error, lacking),) = made.lacking.items()
    assert lacking == names[:1]
    assert error.startswith("no model.keras: train the run again, with --set save_models=true")
    predictions(second).unlink()
    result = json.loads((second / "result.json").read_text())
    result["metrics"]["RTE"]["accuracy"] += 0.1
    write_result(second, result)
    with pytest.raises(SuiteError, match="do not reproduce the run's accuracy on RTE"):
        predict()
    (second / "weights.npz").write_bytes(b"broken")
    assert any("weights.npz: damaged: " in error for error in predict().lacking)
    write_result(second, result)
    with pytest.raises(SuiteError, match="must have the weights of this run"):
        predict()


def test_other_training_data_is_refused(folder, small_glue):
    add_test_file(folder, small_glue)
    dev = folder / "data" / "RTE" / "dev.tsv"
    dev.write_text("".join(dev.read_text("utf-8").splitlines(keepends=True)[:-1]), "utf-8")
    with pytest.raises(SuiteError, match=r"was trained on other data \(dev\)"):
        predict_missing(folder / "runs", folder / "data")


def test_nothing_to_predict(tmp_path, monkeypatch):
    RunFolder(tmp_path).open(SUITE)
    monkeypatch.setenv("HOME", str(tmp_path.parent))
    with pytest.raises(SuiteError, match=f"{tmp_path}: nothing to predict: there are no finished"):
        predict_missing(f"~/{tmp_path.name}")
    with pytest.raises(SuiteError, match="nothing to predict: there are no finished runs"):
        predict_missing(tmp_path)


CLASSES = ("entailment", "not_entailment")


def write_labels(data, seed):
    """Write random labels of the test set of RTE and return them."""
    rows = len(pd.read_csv(data / "RTE" / "test.tsv", sep="\t", quoting=3))
    labels = random.Random(seed).choices(CLASSES, k=rows)
    lines = [f"{row}\t{label}\n" for row, label in enumerate(labels)]
    (data / "RTE" / "test_gold.tsv").write_text("".join(["index\tlabel\n", *lines]))
    return labels


@pytest.fixture(scope="module")
def labelled(small_glue, tmp_path_factory):
    """Train with two sets of test labels and without; return the folder of all."""
    folder, one = tmp_path_factory.mktemp("labelled"), SUITE.model_copy(update={"seeds": [1]})
    for seed in (0, 1, 2):
        data = folder / f"data-{seed}"
        shutil.copytree(small_glue / "RTE", data / "RTE")
        if seed:
            write_labels(data, seed)
        run_suite(one, folder / f"runs-{seed}", data=data, quiet=True)
    return folder


def run_of(folder, seed):
    return folder / f"runs-{seed}" / "runs" / "RTE" / "baseline-8" / "seed-1"


def test_test_labels_change_no_weight_and_no_dev_score(labelled):
    results = [read_results(labelled / f"runs-{seed}") for seed in (0, 1, 2)]
    first, *others = (
        [*np.load(run_of(labelled, seed) / "weights.npz").values()] for seed in (0, 1, 2)
    )
    for weights in others:
        assert all(np.array_equal(a, b) for a, b in zip(first, weights, strict=True))
    assert results[0].metrics.equals(results[1].metrics)
    assert results[0].metrics.equals(results[2].metrics)
    assert results[0].test_metrics.empty
    assert not results[1].test_metrics.equals(results[2].test_metrics)


def test_scores_are_those_of_the_predictions(labelled):
    results = read_results(labelled / "runs-1")
    given = pd.read_csv(run_of(labelled, 1) / "predictions" / "RTE.test.tsv", sep="\t")
    labels = write_labels(labelled / "data-1", 1)
    found = results.test_metrics.to_dict("records")
    expected = evaluate("RTE", given["prediction"].tolist(), labels)["accuracy"]
    assert found == [
        {"task": "RTE", "method": "baseline-8", "seed": 1, "metric": "accuracy", "value": expected}
    ]
    assert results.splits == {"RTE": "dev"}
    assert results.runs[0]["splits"] == {"RTE": "dev"}


def test_labels_of_other_rows_are_a_fault(labelled, tmp_path):
    shutil.copytree(labelled / "data-0", tmp_path / "data")
    (tmp_path / "data" / "RTE" / "test_gold.tsv").write_text("index\tlabel\n0\tentailment\n")
    scores, faults = score_tests(
        run_of(labelled, 0) / "predictions", find_source("RTE", "files", tmp_path / "data")
    )
    assert scores == {}
    assert "expected an index from 0 to 0" in faults["RTE"]
