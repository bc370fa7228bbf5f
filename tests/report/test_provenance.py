"""Warnings about differences between the runs of a table."""

from __future__ import annotations

import pytest

from relation_tf.bench.results import read_results
from relation_tf.report.provenance import data, made, settings, warnings


@pytest.fixture
def results_with(suite_of, fabricate):
    def make(change, **suite):
        return read_results(fabricate(suite_of(**{"seeds": 2, **suite}), lambda *_: 0.5, change))

    return make


def test_note_on_data_is_a_warning(results_with):
    def sample(config, files):
        files["manifest"]["data"]["notes"] = ["trained on a sample"]

    results = results_with(sample, tasks=["AG-News"])
    assert warnings(results) == ["AG-News: trained on a sample."]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda files: files["manifest"].update(processor="Other"),
         "The runs differ in processor: A processor (15 runs); Other (1 run)."),
        (lambda files: files["manifest"].update(commit=None),
         "The runs differ in commit: 0123456789ab (15 runs); none (1 run)."),
        (lambda files: files["manifest"].update(threads=8),
         "The runs differ in threads: 1 (15 runs); 8 (1 run)."),
        (lambda files: files["manifest"]["versions"].update(tensorflow="2.20.0"),
         "The runs differ in tensorflow: 2.21.0 (15 runs); 2.20.0 (1 run)."),
        (lambda files: files["config"].update(dropout=0.1),
         "The runs differ in dropout: 0.5 (15 runs); 0.1 (1 run)."),
        (lambda files: files["manifest"]["data"].update(digest="ff"),
         "The runs differ in data of CoLA:"),
    ],
)  # fmt: skip
def test_differences_between_runs_are_named(results_with, change, expected):
    results = results_with(
        lambda config, files: change(files) if config.key == ("CoLA", "linear", 1) else None
    )
    (warning,) = warnings(results)
    assert warning.startswith(expected)


def test_data_of_each_task(results_with):
    def change(config, files):
        files["manifest"]["glove"] = {"found": "9 of 10 words found (90.0%)", "digest": "ab"}
        files["manifest"]["data"]["skipped_lines"] = ["train.tsv:3: expected 4 columns"]

    first, second = data(results_with(change)).to_dict("records")
    assert (first["task"], second["task"]) == ("CoLA", "MRPC")
    assert first["rows"] == "train 8,551, dev 1,043"
    assert first["start"] == ["GloVe: 9 of 10 words found (90.0%)"]
    assert first["skipped"] == ["train.tsv:3: expected 4 columns"]


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
def test_comparable_runs_give_no_warning(results_with, change, suite):
    results = results_with(change, **suite)
    assert warnings(results) == []
    facts = made([run["manifest"] for run in results.runs])
    assert facts["commands"] == ["relation-tf run made-up"]
    assert facts["versions"] == ["relation_tf 0.1.0, tensorflow 2.21.0"]


@pytest.mark.parametrize(
    ("suite", "shown", "left_out"),
    [
        ({"weight_decay": 0.01}, {"weight_decay": "0.01", "vocabulary_size": "none"},
         {"tasks", "method", "title", "test", "test_over_tasks"}),
        ({"tasks": ["CoLA", "RTE"], "test_over_tasks": "friedman-nemenyi"},
         {"test_over_tasks": "friedman-nemenyi"}, {"test"}),
        ({"network": "plain", "method": [{"mechanism": "fcsr"}]}, {},
         {"hidden_units", "hidden_activation", "compute", "reversal_weight"}),
        ({"tasks": ["majority"]}, {}, {"compute"}),
        ({"method": [{"mechanism": "fcsr", "feature_projection": True}]},
         {"reversal_weight": "1.0"}, set()),
        ({"method": [{"mechanism": "relation"}, {"mechanism": "dan", "tokens": "wordpiece"}]},
         {"embeddings": "random", "vocabulary_size": "none"}, {"tokens"}),
    ],
)  # fmt: skip
def test_settings_of_single_methods_or_effect_are_left_out(results_with, suite, shown, left_out):
    found = settings(results_with(lambda config, files: None, **suite))
    assert shown.items() <= found.items()
    assert not left_out & found.keys()
