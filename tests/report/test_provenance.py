"""Settings, data and machines of runs, and differences between them."""

from __future__ import annotations

import pytest

from relation_tf.report import make_report
from tests.report.conftest import content, facts, rows_of


@pytest.fixture
def report_with(suite_of, fabricate):
    def make(change=lambda config, files: None, **suite):
        return make_report(fabricate(suite_of(**{"seeds": 2, **suite}), lambda *_: 0.5, change))

    return make


@pytest.mark.parametrize(
    ("change", "key", "values"),
    [
        (lambda files: files["manifest"].update(processor="Other"),
         "processor", ["A processor (15 runs)", "Other (1 run)"]),
        (lambda files: files["manifest"].update(commit=None),
         "commit", ["0123456789ab (15 runs)", "none (1 run)"]),
        (lambda files: files["manifest"].update(threads=8),
         "threads", ["1 (15 runs)", "8 (1 run)"]),
        (lambda files: files["manifest"]["versions"].update(tensorflow="2.20.0"),
         "tensorflow", ["2.21.0 (15 runs)", "2.20.0 (1 run)"]),
        (lambda files: files["config"].update(dropout=0.1),
         "dropout", ["0.5 (15 runs)", "0.1 (1 run)"]),
        (lambda files: files["manifest"]["data"].update(digest="ff"), "data of CoLA", []),
        (lambda files: files["manifest"]["data"].update(notes=["trained on a sample"]),
         "CoLA", ["trained on a sample"]),
    ],
)  # fmt: skip
def test_differences_between_runs_are_named(report_with, change, key, values):
    report = report_with(
        lambda config, files: change(files) if config.key == ("CoLA", "linear", 1) else None
    )
    (warning,) = content(report)["warnings"]
    assert all(each in warning for each in (f"{key}: ", *values))


def test_data_of_each_task(report_with):
    report = report_with(lambda config, files: None)
    for task in ("CoLA", "MRPC"):
        ((rows, _),) = rows_of(report, task, "files")
        assert rows.replace(",", "") == "train 8551 dev 1043"


def older(config, files):
    if config.seed == 1:
        del files["config"]["network"], files["config"]["sized_by"]


@pytest.mark.parametrize(
    ("change", "suite"),
    [
        (lambda config, files: None, {}),
        (older, {}),
        (lambda config, files: files["config"].update(data_digests={"train": config.task}), {}),
        (lambda config, files: None,
         {"method": [{"mechanism": "contextualizer", "size": ["50K", "0.1M"], "sized_by": "rank"},
                     {"mechanism": "transformer", "size": "50K", "sized_by": "num_layers"}]}),
        (lambda config, files: None,
         {"method": [{"mechanism": "cnn"}, {"mechanism": "fcsr", "learning_rate": 0.01}]}),
        (lambda config, files: None,
         {"method": [{"mechanism": "relation"}, {"mechanism": "dan", "tokens": "wordpiece"}]}),
    ],
    ids=["equal", "before a key existed", "different data", "different sizes", "by method",
         "own tokens"],
)  # fmt: skip
def test_comparable_runs_give_no_warning(report_with, change, suite):
    report = report_with(change, **suite)
    assert content(report)["warnings"] == []
    assert facts(report)["commands"] == "relation-tf run made-up"
    assert facts(report)["versions"] == "relation_tf 0.1.0, tensorflow 2.21.0"
