"""Section on seeds and evaluation rows, and the reading of predictions with labels."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from relation_tf.bench.results import read_results
from relation_tf.report import make_report
from relation_tf.stats import mcnemar, score_errors
from relation_tf.stats.pair_tests import holm
from tests.report.conftest import content

METHODS = [{"name": name, "mechanism": name} for name in ("baseline", "relation", "attention")]
ROWS = 60


@pytest.fixture
def predicted(suite_of, fabricate):
    """Make a suite with predictions; `change` may modify the table of a run."""

    def make(change=lambda table, run: table, **values):
        suite = suite_of(**{"tasks": ["MRPC"], "method": METHODS, "seeds": 3} | values)
        folder = fabricate(suite, lambda *_: 0.5)
        for run in read_results(folder).runs:
            for name, split in suite.find_task(run["task"]).scored.items():
                table = change(_table(suite.find_task(run["task"]).labels, run), run)
                path = Path(run["folder"]) / "predictions" / f"{name}.{split.split('_')[0]}.tsv"
                path.parent.mkdir(exist_ok=True)
                table.to_csv(path, sep="\t", index=False, na_rep="nan")
        return folder

    return make


def _table(words, run):
    """Predictions that are often right; the true labels are the same in all runs."""
    own = np.random.default_rng([run["seed"], *run["method"].encode()])
    true = np.random.default_rng(1)
    if words is None:
        labels = true.random(ROWS) * 5
        given = np.clip(labels + own.normal(0, 1, ROWS), 0, 5)
        return pd.DataFrame({"index": range(ROWS), "prediction": given, "label": labels})
    labels = true.integers(len(words), size=ROWS)
    shares = own.dirichlet([1] * len(words), ROWS)
    shares[np.arange(ROWS), labels] += 0.6
    shares /= 1.6
    return pd.DataFrame(
        {
            "index": range(ROWS),
            "prediction": [words[i] for i in shares.argmax(1)],
            "label": [words[i] for i in labels],
            **{f"probability_{word}": shares[:, i] for i, word in enumerate(words)},
        }
    )


def read_tables(folder, task, method):
    files = sorted(folder.glob(f"runs/{task}/{method}/seed-*/predictions/{task}.dev.tsv"))
    return [pd.read_csv(file, sep="\t", dtype={"prediction": str, "label": str}) for file in files]


def test_standard_errors_equal_those_of_the_files(predicted):
    folder = predicted()
    table = make_report(folder).tables["variance"].set_index("method")
    runs = read_tables(folder, "MRPC", "relation")
    predictions = np.array([run["prediction"] for run in runs], dtype=str)
    labels = runs[0]["label"].to_numpy(dtype=str)
    expected = score_errors(predictions, labels, ["f1", "accuracy"], draws=400)
    own = table.loc["relation"]
    assert own["score"] == pytest.approx(expected.score)
    assert own["se_rows"] == pytest.approx(expected.rows)
    assert own["se_seeds"] == pytest.approx(expected.seeds)
    assert own["se_both"] == pytest.approx(expected.both)
    assert (own["rows"], own["seeds"]) == (ROWS, 3)


@pytest.mark.parametrize("tasks", [["MRPC"], ["MRPC", "RTE"]])
def test_p_by_rows_is_corrected_over_all_tasks(predicted, tasks):
    folder = predicted(tasks=tasks)
    table = make_report(folder).tables["rows-pvalues"]
    tests = []
    for task, a, b in table[["task", "a", "b"]].itertuples(index=False):
        first, second = (read_tables(folder, task, name) for name in (a, b))
        words = [np.array([run["prediction"] for run in runs]) for runs in (first, second)]
        tests.append(mcnemar(*words, first[0]["label"].to_numpy()))
    assert len(tests) == 3 * len(tasks)
    np.testing.assert_allclose(table["pvalue"], holm(np.array([test.pvalue for test in tests])))
    np.testing.assert_allclose(table["difference"], [test.difference for test in tests])


def test_tasks_with_too_many_predictions_are_named(predicted):
    folder = predicted()
    for file in folder.rglob("manifest.json"):
        content = json.loads(file.read_text())
        content["data"]["rows"]["dev"] = 60_000
        file.write_text(json.dumps(content))
    report = make_report(folder)
    assert "variance" not in report.tables
    assert "MRPC (540,000)" in report.markdown()


def test_regressions_have_standard_errors_and_no_mcnemar_test(predicted):
    report = make_report(predicted(tasks=["STS-B"]))
    assert report.tables["variance"]["rows"].tolist() == [ROWS] * 3
    assert report.tables["variance"]["se_rows"].gt(0).all()
    assert "rows-pvalues" not in report.tables


def test_methods_with_other_rows_are_left_out(predicted):
    def change(table, run):
        if run["method"] == "baseline" and run["seed"] == 2:
            return table.assign(label=table["label"].to_numpy()[::-1])
        return table

    report = make_report(predicted(change))
    assert report.tables["variance"]["method"].tolist() == ["relation", "attention"]


def test_a_run_with_outputs_that_are_not_finite_has_failed(predicted):
    def change(table, run):
        if (run["method"], run["seed"]) == ("relation", 2):
            return table.assign(probability_0=np.nan, probability_1=np.nan)
        return table

    report = make_report(predicted(change))
    ((name, error),) = content(report)["failures"]
    assert name == "MRPC/relation/seed-2"
    assert "MRPC.dev.tsv: must have finite outputs" in error
    found = report.tables["variance"].set_index("method")["seeds"]
    assert found["relation"] == found["attention"] - 1
