"""Predictions of a suite's runs: reading with labels, figures, and invalid files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from relation_tf.bench.results import read_results
from relation_tf.errors import SuiteError
from relation_tf.report import make_report
from relation_tf.report.sections import predictions
from tests.report.conftest import TWO, content


@pytest.fixture
def answered(suite_of, fabricate):
    """Make a suite with predictions; `change` may modify the table of a run."""

    def make(change=lambda table, run: table, **values):
        suite = suite_of(**{"tasks": ["CoLA"], "method": TWO, "seeds": 2} | values)
        folder = fabricate(suite, lambda *_: 0.5)
        for run in read_results(folder).runs:
            task = suite.find_task(run["task"])
            for name, split in task.scored.items():
                random = np.random.default_rng([run["seed"], *run["method"].encode()])
                shares = random.dirichlet([1] * len(task.labels), 40)
                labels = random.integers(len(task.labels), size=40)
                table = pd.DataFrame(
                    {
                        "index": range(40),
                        "prediction": [task.labels[i] for i in shares.argmax(1)],
                        "label": [task.labels[i] for i in labels],
                        **{f"probability_{x}": shares[:, i] for i, x in enumerate(task.labels)},
                    }
                )
                path = Path(run["folder"]) / "predictions" / f"{name}.{split.split('_')[0]}.tsv"
                path.parent.mkdir(exist_ok=True)
                change(table, run).to_csv(path, sep="\t", index=False)
        return folder

    return make


def test_auc_and_figures_of_files(answered):
    """AUC of a class against the others, as a Mann-Whitney statistic, on average."""
    folder = answered(tasks=["MNLI"])
    report = make_report(folder)
    own = pd.read_csv(folder / "runs/MNLI/relation/seed-2/predictions/MNLI-mm.dev.tsv", sep="\t")
    labels = list(read_results(folder).suite.find_task("MNLI").labels)
    expected = []
    for label in labels:
        shares, true = own[f"probability_{label}"], own["label"] == label
        above = stats.mannwhitneyu(shares[true], shares[~true]).statistic
        expected.append(above / (true.sum() * (~true).sum()))
    table = report.tables["auc"].set_index(["task", "method", "seed"])
    assert table.loc[("MNLI-mm", "relation", 2), "macro"] == pytest.approx(np.mean(expected))
    assert content(report)["figures"][-2:] == ["roc-MNLI-m", "roc-MNLI-mm"]


def test_too_many_predictions_are_not_drawn(answered, monkeypatch):
    folder = answered()
    monkeypatch.setattr(predictions, "MOST_PREDICTIONS", 10)
    report = make_report(folder)
    assert "auc" not in report.tables


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table, run: table.assign(label="maybe"), "must have labels "),
        (lambda table, run: table.drop(columns=table.columns[-1]), "must have a column 'probabil"),
        (lambda table, run: table.assign(**{table.columns[-1]: "high"}), "could not convert"),
    ],
)
def test_invalid_file_is_named(answered, change, message):
    with pytest.raises(SuiteError, match=rf"CoLA\.dev\.tsv: .*{message}"):
        make_report(answered(change))


def test_no_figures_without_labels(suite_of, fabricate):
    suite = suite_of(tasks=["CoLA", "STS-B"], method=TWO)
    assert "auc" not in make_report(fabricate(suite, lambda *_: 0.5)).tables
