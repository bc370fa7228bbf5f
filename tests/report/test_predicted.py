"""Predictions of a suite's runs: reading with labels, figures, and invalid files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from relation_tf.bench.results import read_results
from relation_tf.errors import SuiteError
from relation_tf.report import make_report, predicted_rows
from relation_tf.report.pictures.predictions import Answers, auc_table

TWO = [{"name": name, "mechanism": name} for name in ("baseline", "relation")]


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


def test_labels_are_read_from_files(answered):
    folder = answered(tasks=["MNLI"])
    report = make_report(folder)
    table = report.tables["auc"].set_index(["task", "method", "seed"])
    labels = list(read_results(folder).suite.find_task("MNLI").labels)
    own = pd.read_csv(folder / "runs/MNLI/relation/seed-2/predictions/MNLI-mm.dev.tsv", sep="\t")
    answers = (
        pd.Categorical(own["label"], labels).codes,
        own[[f"probability_{label}" for label in labels]].to_numpy(),
    )
    expected = auc_table(Answers("MNLI-mm", labels, {"relation": {2: answers}}))
    assert table.loc[("MNLI-mm", "relation", 2), "macro"] == expected["macro"][0]
    names = [picture.name for picture in report.context.pictures]
    assert names[-6:] == [
        f"{kind}-{name}" for name in ("MNLI-m", "MNLI-mm")
        for kind in ("roc", "calibration", "confusion")
    ]  # fmt: skip
    page = report.html()
    assert 'id="predictions"' in page
    assert {"auc", "calibration", "confusion"} < set(report.tables)


def test_too_many_predictions_are_not_drawn(answered, monkeypatch):
    folder = answered()
    monkeypatch.setattr(predicted_rows, "MOST_PREDICTIONS", 10)
    report = make_report(folder)
    assert report.context.predicted.notes == ["CoLA: no figures, because it has 4,172 predictions."]
    assert "auc" not in report.tables


def test_methods_without_predictions_are_named(answered):
    def change(table, run):
        return table if run["method"] == "relation" else table.drop(columns="label")

    report = make_report(answered(change))
    assert report.context.predicted.notes == ["CoLA: no predictions of baseline."]


def test_confusion_of_many_methods_is_not_drawn(answered):
    report = make_report(answered(method=[{"mechanism": "relation", "units": list(range(8, 15))}]))
    assert "confusion-CoLA" not in {picture.name for picture in report.context.pictures}
    assert len(report.tables["confusion"]) == 7 * 4
    assert "CoLA: no confusion matrices, see confusion.csv." in report.html()


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


@pytest.mark.parametrize("task", ["CoLA", "STS-B"])
def test_no_figures_without_labels(suite_of, fabricate, task):
    report = make_report(fabricate(suite_of(tasks=[task], method=TWO), lambda *_: 0.5))
    assert "auc" not in report.tables
    assert 'id="predictions"' not in report.html()
