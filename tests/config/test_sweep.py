"""Sweeps of settings, and their rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from relation_tf.bench.sweeping import tuning_suite
from relation_tf.config import load_suite
from relation_tf.config.suite import make_suite
from relation_tf.errors import SuiteError

SUITE: dict[str, Any] = {
    "name": "mine",
    "tasks": ["CoLA", "RTE"],
    "seeds": 2,
    "method": [{"mechanism": "relation"}, {"mechanism": "attention"}],
    "sweep": {"learning_rate": [0.001, 0.01], "dropout": [0.0, 0.5], "seeds": [11]},
}


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"sweep": {}}, "key 'sweep': must be one or more of learning_rate, .* with a list of"),
        ({"sweep": {"grid": [1]}}, r"key 'sweep': must be keys among .*, not 'grid'\. Received: "),
        ({"sweep": {"learning_rat": [1, 2]}}, r"not 'learning_rat'\. Did you mean 'learning_rate'"),
        ({"sweep": {"options": {"units": [1, 2]}}}, r"'units' must be left out.*relation-64\)"),
        (
            {
                "method": [{"mechanism": "attention", "options": {"num_heads": 2}}],
                "sweep": {"options": {"num_heads": [1, 4]}},
            },
            "'options.num_heads' of method attention-64: must not be set with sweep.options.num_",
        ),
        ({"sweep": {"units": [[16], 32]}}, r"one number for 'units', not \[16\]"),
        ({"sweep": {"dropout": [0.1]}}, r"a list of two or more values of 'dropout', not \[0.1\]"),
        ({"sweep": {"positions": ["sine", "learned"]}}, "max_length.* with positions = 'learned'"),
        ({"sweep": {"dropout": [0, 0.1], "seeds": [2]}}, "must differ from the seeds"),
        (
            {"method": [{"mechanism": "relation", "learning_rate": 0.1}]},
            "'learning_rate' of method relation-64: must not be set with sweep.learning_rate",
        ),
        (
            {"sweep": {"epochs": [1, 2]}, "overrides": {"RTE": {"epochs": 3}}},
            "key 'overrides.RTE.epochs': must not be set with sweep.epochs",
        ),
        ({"stopping": "accuracy_reached", "tasks": ["RTE"]}, "'sweep': must not be set with"),
        (
            {"tasks": ["both"], "group": [{"name": "both", "tasks": ["CoLA", "RTE"]}]},
            "key 'sweep': the tasks of group both must have a common metric, .*: CoLA, RTE",
        ),
        (
            {
                "sweep": None,
                "method": [{"mechanism": "encoder", "size": "9K", "sized_by": "num_layers"}],
                "tuned": [
                    {
                        "task": "RTE",
                        "method": "encoder-9K",
                        "settings": {"options": {"num_layers": 2}},
                    }
                ],
            },
            r"key 'tuned': option 'num_layers' is set, but .* \(method encoder-9K\)",
        ),
        ({"sweep": {"options.window": [1, 2], "options": {"window": [1, 2]}}}, "different keys"),
        (
            {"sweep": {"options": {"options": ["a", "b"]}, "options.options.window": [1, 2]}},
            "either 'options.options' or 'options.options.window', not both",
        ),
        (
            {"tuned": [{"task": "WNL", "method": "relation-64", "settings": {}}]},
            "key 'tuned': must be a task of the suite: CoLA, RTE. Received: 'WNL'",
        ),
        (
            {"tuned": [{"task": "RTE", "method": "relation-64", "settings": {"epochs": 3}}]},
            "key 'tuned': must be settings of the sweep: learning_rate, dropout. Received: 'epoc",
        ),
        (
            {"tuned": [{"task": "RTE", "method": "relation-64", "settings": {}}] * 2},
            "one entry per task and method. Received: 2 for relation-64 on RTE",
        ),
        (
            {"sweep": {"units": [16, 32]}, "method": [{"mechanism": "relation", "size": "9K"}]},
            "'size' of method relation-9K: must not be set with sweep.units, because the size det",
        ),
        ({"sweep": {"sharing": ["shared", "bi-channel"]}}, "must not contain 'bi-channel'"),
    ],
)
def test_a_faulty_sweep_is_refused(changes: dict[str, Any], fault: str) -> None:
    with pytest.raises(SuiteError, match=fault):
        make_suite("mine", {**SUITE, **changes})


def test_options_are_merged_into_those_of_the_method() -> None:
    encoder = {
        "mechanism": "encoder",
        "options": {"mechanism": "attention", "options": {"use_bias": True}},
    }
    sweep = {"options": {"num_layers": [1, 2], "options": {"num_heads": [1, 4]}}, "seeds": [11]}
    suite = make_suite("mine", {**SUITE, "method": [encoder], "sweep": sweep})
    assert suite.sweep is not None
    assert [*suite.sweep.values] == ["options.num_layers", "options.options.num_heads"]
    tuning = tuning_suite(suite)
    assert [method.name for method in tuning.methods()] == [
        "encoder-64-layers1-heads1", "encoder-64-layers1-heads4",
        "encoder-64-layers2-heads1", "encoder-64-layers2-heads4",
    ]  # fmt: skip
    assert tuning.runs()[1].options == {
        "mechanism": "attention",
        "num_layers": 1,
        "options": {"use_bias": True, "num_heads": 4},
    }


def test_tuned_widths_are_not_in_names() -> None:
    suite = make_suite("mine", {**SUITE, "sweep": {"units": [16, 32]}, "reference": "relation"})
    assert [method.name for method in suite.methods()] == ["relation", "attention"]
    assert suite.find_methods("relation") == ["relation"]
    assert [(run.method, run.units) for run in tuning_suite(suite).runs()[::4]][:2] == [
        ("relation-16", 16), ("attention-16", 16),
    ]  # fmt: skip
    tuned = [{"task": "RTE", "method": "relation", "settings": {"units": 16}}]
    runs = make_suite("mine", {**suite.model_dump(), "tuned": tuned}).runs()
    assert {(run.task, run.method) for run in runs if run.units == 16} == {("RTE", "relation")}


def test_keys_of_methods_can_be_tuned() -> None:
    tokens = {"tokens": ["word", "wordpiece"]}
    sweep = {**tokens, "vocabulary_size": [100, 200]}
    suite = make_suite("mine", {**SUITE, "vocabulary_size": 300, "sweep": sweep})
    tuning = tuning_suite(suite)
    assert [(run.tokens, run.vocabulary_size) for run in tuning.runs()[:8:2]] == [
        ("word", 100), ("word", 200), ("wordpiece", 100), ("wordpiece", 200),
    ]  # fmt: skip
    # Without a vocabulary in the sweep, that of the suite is not one of word pieces.
    suite = make_suite("mine", {**SUITE, "vocabulary_size": 300, "sweep": tokens})
    assert {run.vocabulary_size for run in tuning_suite(suite).runs()} == {None}


def test_values_that_a_rule_refuses_are_refused_before_the_sweep() -> None:
    suite = make_suite("mine", {**SUITE, "sweep": {"sharing": ["shared", "adversarial"]}})
    with pytest.raises(SuiteError, match="sweep of suite mine: key 'sharing' of method relation-"):
        tuning_suite(suite)


def test_tuned_options_can_be_written_and_read(tmp_path: Path) -> None:
    tuned = [{"task": "RTE", "method": "relation-64", "settings": {"options": {"num_heads": 4}}}]
    sweep = {"options": {"num_heads": [1, 4]}}
    suite = make_suite("mine", {**SUITE, "sweep": sweep, "tuned": tuned})
    path = tmp_path / "suite.toml"
    path.write_text(suite.to_toml(), encoding="utf-8")
    assert load_suite(path) == suite
    options = {(run.task, run.method): run.options for run in suite.runs()}
    assert options["RTE", "relation-64"] == {"num_heads": 4}
    assert options["CoLA", "relation-64"] == options["RTE", "attention-64"] == {}


def test_a_setting_of_the_call_is_not_swept() -> None:
    suite = make_suite("mine", SUITE)
    changed = load_suite(suite, {"dropout": 0.3}).sweep
    assert changed is not None
    assert changed.values == {"learning_rate": [0.001, 0.01]}
    assert load_suite(suite, {"dropout": 0.3, "learning_rate": 0.1}).sweep is None
    tuned = [{"task": "RTE", "method": "relation-64", "settings": {"dropout": 0.25}}]
    runs = load_suite(make_suite("mine", {**SUITE, "tuned": tuned}), {"dropout": 0.3}).runs()
    assert {run.dropout for run in runs} == {0.3}


def test_tuned_settings_of_replaced_methods_are_removed() -> None:
    tuned = [{"task": "RTE", "method": "relation-64", "settings": {"dropout": 0.25}}]
    suite = make_suite("mine", {**SUITE, "tuned": tuned})
    assert load_suite(suite, {"method": [{"mechanism": "relation", "units": 32}]}).tuned == []
    both = [{"mechanism": "relation", "units": [32, 64]}]
    assert [each.method for each in load_suite(suite, {"method": both}).tuned] == ["relation-64"]
