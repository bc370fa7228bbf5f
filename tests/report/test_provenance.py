"""Runs of one table that were not made alike are told apart."""

from __future__ import annotations

import pytest

from relation_tf.bench.results import read_results
from relation_tf.report.provenance import data, made, settings, warnings
from relation_tf.report.runs import all_runs


@pytest.fixture
def results_with(suite_of, fabricate):
    def make(change, **suite):
        return read_results(fabricate(suite_of(**{"seeds": 2, **suite}), lambda *_: 0.5, change))

    return make


def test_like_runs_give_no_warning(results_with):
    results = results_with(lambda config, files: None)
    assert warnings(results, all_runs(results)) == []
    facts = made([run["manifest"] for run in results.runs])
    assert facts["commands"] == ["relation-tf run made-up"]
    assert facts["versions"] == ["relation_tf 0.1.0, tensorflow 2.21.0"]


def test_methods_of_other_sizes_are_alike(results_with):
    methods = [
        {"mechanism": "contextualizer", "size": ["50K", "0.1M"], "sized_by": "rank"},
        {"mechanism": "transformer", "size": "50K", "sized_by": "num_layers"},
    ]
    results = results_with(lambda config, files: None, method=methods)
    assert warnings(results, all_runs(results)) == []


def test_a_run_from_before_a_key_existed_is_like_the_others(results_with):
    def older(config, files):
        if config.seed == 1:
            del files["config"]["network"], files["config"]["sized_by"]

    results = results_with(older)
    assert warnings(results, all_runs(results)) == []


def test_tasks_have_data_of_their_own(results_with):
    def digest(config, files):
        files["config"]["data_digest"] = config.task

    results = results_with(digest)
    assert warnings(results, all_runs(results)) == []


def test_a_sample_is_named(results_with):
    def sample(config, files):
        files["manifest"]["data"]["notes"] = ["trained on a sample"]

    results = results_with(sample, tasks=["AG-News"])
    assert warnings(results, all_runs(results)) == ["AG-News: trained on a sample."]


def test_settings_without_effect_are_left_out(results_with):
    plain = {"network": "plain", "method": [{"mechanism": "fcsr"}]}
    assert not {"hidden_units", "hidden_activation", "compute"} & set(
        settings(results_with(lambda config, files: None, **plain))
    )


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda files: files["manifest"].update(processor="Other"),
         "The runs differ in processor: A processor (15 runs); Other (1 runs)."),
        (lambda files: files["manifest"].update(commit=None),
         "The runs differ in commit: 0123456789ab (15 runs); none (1 runs)."),
        (lambda files: files["manifest"].update(threads=8),
         "The runs differ in threads: 1 (15 runs); 8 (1 runs)."),
        (lambda files: files["manifest"]["versions"].update(tensorflow="2.20.0"),
         "The runs differ in tensorflow: 2.21.0 (15 runs); 2.20.0 (1 runs)."),
        (lambda files: files["config"].update(dropout=0.1),
         "The runs differ in dropout: 0.5 (15 runs); 0.1 (1 runs)."),
        (lambda files: files["manifest"]["data"].update(digest="ff"),
         "The runs differ in data of CoLA:"),
    ],
)  # fmt: skip
def test_what_differs_is_named(results_with, change, expected):
    results = results_with(
        lambda config, files: change(files) if config.key == ("CoLA", "linear", 1) else None
    )
    (warning,) = warnings(results, all_runs(results))
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


def test_settings_are_the_training(results_with):
    shown = settings(results_with(lambda config, files: None, weight_decay=0.01))
    assert shown["weight_decay"] == "0.01"
    assert shown["vocabulary_size"] == "none"
    assert not {"tasks", "method", "title"} & shown.keys()
