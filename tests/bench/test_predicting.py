"""Scores on test sets with public labels."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import matthews_corrcoef

import relation_tf
from glue_submit import evaluate
from relation_tf.bench import read_results, run_suite
from relation_tf.bench.train import score_tests
from relation_tf.config import Method, Suite
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
def diagnosed(small_glue, tmp_path_factory, label_diagnostic):
    """Train on MNLI with AX's labels."""
    folder = tmp_path_factory.mktemp("diagnosed")
    shutil.copytree(small_glue, folder / "data")
    label_diagnostic(folder / "data")
    run_suite(MNLI, folder / "runs", data=folder / "data", quiet=True)
    return folder


def test_labels_of_a_diagnostic_set_are_used(diagnosed):
    (run,) = read_results(diagnosed / "runs").runs
    table = pd.read_csv(Path(run["folder"]) / "predictions" / "AX.test.tsv", sep="\t")
    expected = matthews_corrcoef(table["label"], table["prediction"])
    assert run["metrics"]["AX"] == {"matthews": pytest.approx(expected)}
    chosen = table.filter(like="probability_").idxmax(axis=1).str.removeprefix("probability_")
    assert chosen.tolist() == table["prediction"].tolist()


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
    folder = tmp_path_factory.mktemp("labelled")
    one = SUITE.model_copy(update={"seeds": [1], "save_models": True})
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
        relation_tf.load(run_of(labelled, seed)).model.get_weights() for seed in (0, 1, 2)
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
