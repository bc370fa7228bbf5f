"""Sweeps of settings, and their rules."""

from __future__ import annotations

from typing import Any

import pytest

from relation_tf.config import load_suite
from relation_tf.config.loading import make_suite
from relation_tf.errors import SuiteError

SUITE: dict[str, Any] = {
    "name": "mine",
    "tasks": ["CoLA", "RTE"],
    "seeds": 2,
    "method": [{"mechanism": "relation"}, {"mechanism": "attention"}],
    "sweep": {"learning_rate": [0.001, 0.01], "dropout": [0.0, 0.5], "seeds": [11]},
}


def test_all_combinations_are_tried() -> None:
    sweep = make_suite("mine", SUITE).sweep
    assert sweep is not None
    assert sweep.seeds == [11]
    assert [tuple(each.values()) for each in sweep.combinations()] == [
        (0.001, 0.0), (0.001, 0.5), (0.01, 0.0), (0.01, 0.5),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"sweep": {}}, "key 'sweep': must be one or more of learning_rate, .* with a list of"),
        ({"sweep": {"learning_rat": [1, 2]}}, r"not 'learning_rat' \(Did you mean 'learning_rate'"),
        ({"sweep": {"tokens": ["word", "wordpiece"]}}, "keys among .*, not 'tokens'"),
        ({"sweep": {"dropout": [0.1]}}, r"a list of two or more values of 'dropout', not \[0.1\]"),
        (
            {
                "learning_rate_schedule": "PiecewiseConstantDecay",
                "schedule_options": {"boundaries": [1], "values": [0.1, 0.2]},
            },
            "key 'sweep': learning_rate has no effect with PiecewiseConstantDecay",
        ),
        ({"sweep": {"reversal_weight": [0.1, 1]}}, "reversal_weight has no effect on the methods"),
        ({"sweep": {"adversary_weight": [0.1, 1]}}, "adversary_weight has no effect"),
        ({"sweep": {"positions": ["sine", "learned"]}}, "max_length.* with positions = 'learned'"),
        ({"sweep": {"dropout": 0.1}}, "a list of two or more values of 'dropout', not 0.1"),
        ({"sweep": {"dropout": [0.1, 0.1]}}, r"different values of 'dropout', not \[0.1, 0.1\]"),
        ({"sweep": {"dropout": [0.1, 1.5]}}, r"values that 'dropout' allows, not 1.5 \(Input"),
        (
            {"sweep": {"dropout": [0, 0.1], "seeds": [2]}},
            "'sweep.seeds': must differ from the seeds",
        ),
        (
            {"method": [{"mechanism": "relation", "learning_rate": 0.1}]},
            "'learning_rate' of method relation-64: must not be set with sweep.learning_rate",
        ),
        (
            {"sweep": {"epochs": [1, 2]}, "overrides": {"RTE": {"epochs": 3}}},
            "key 'overrides.RTE.epochs': must not be set with sweep.epochs",
        ),
        (
            {"stopping": "accuracy_reached", "tasks": ["RTE"]},
            "key 'sweep': must not be set with stopping = 'accuracy_reached'",
        ),
        (
            {"tasks": ["both"], "group": [{"name": "both", "tasks": ["CoLA", "RTE"]}]},
            "key 'sweep': the tasks of group both must have a common metric, .*: CoLA, RTE",
        ),
        ({"sweep": {"dropout": [0, 0.1], "seeds": [7, 7]}}, r"different seeds, not \[7, 7\]"),
        (
            {"sweep": {"initializer": ["glorot_uniform", {"class_name": "HeNormal"}]}},
            "texts or numbers for 'initializer', not {'class_name'",
        ),
        (
            {"method": [{"mechanism": "relation", "name": "r" * 78}]},
            r"'sweep': must give names of at most 80 letters.* Received: 'r+-0.001-0.0'",
        ),
        (
            {"tuned": [{"task": "WNL", "method": "relation-64", "settings": {}}]},
            "key 'tuned': must be a task of the suite: CoLA, RTE. Received: 'WNL'",
        ),
        ({"tuned": [{"task": "RTE", "method": "x", "settings": {"tokens": "word"}}]}, "not 'toke"),
        (
            {"tuned": [{"task": "RTE", "method": "relation-64", "settings": {"epochs": 3}}]},
            "key 'tuned': must be settings of the sweep: learning_rate, dropout. Received: 'epoc",
        ),
        (
            {"tuned": [{"task": "RTE", "method": "relation-64", "settings": {}}] * 2},
            "one entry per task and method. Received: 2 for relation-64 on RTE",
        ),
    ],
)
def test_a_faulty_sweep_is_refused(changes: dict[str, Any], fault: str) -> None:
    with pytest.raises(SuiteError, match=fault):
        make_suite("mine", {**SUITE, **changes})


def test_tuned_settings_apply_to_one_method_and_task() -> None:
    tuned = [{"task": "RTE", "method": "relation-64", "settings": {"dropout": 0.25}}]
    runs = make_suite("mine", {**SUITE, "tuned": tuned}).runs()
    assert {(run.task, run.method) for run in runs if run.dropout == 0.25} == {
        ("RTE", "relation-64")
    }


def test_a_suite_with_a_sweep_can_be_written_and_read(tmp_path: Any) -> None:
    tuned = [{"task": "RTE", "method": "relation-64", "settings": {"dropout": 0.25}}]
    suite = make_suite("mine", {**SUITE, "tuned": tuned})
    path = tmp_path / "suite.toml"
    path.write_text(suite.to_toml(), encoding="utf-8")
    assert load_suite(path) == suite


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


def test_entries_of_replaced_tasks_are_removed() -> None:
    tuned = [{"task": "RTE", "method": "relation-64", "settings": {"dropout": 0.25}}]
    values = {**SUITE, "tuned": tuned, "overrides": {"RTE": {"epochs": 7}}}
    changed = load_suite(make_suite("mine", values), {"tasks": ["CoLA"]})
    assert (changed.tuned, changed.overrides) == ([], {})
    kept = load_suite(make_suite("mine", values), {"tasks": ["RTE"]})
    assert [each.task for each in kept.tuned] == [*kept.overrides] == ["RTE"]
