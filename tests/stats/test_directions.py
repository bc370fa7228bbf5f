"""Directions of tasks by name or option, the same in all functions over tasks."""

from __future__ import annotations

import numpy as np
import pytest

from relation_tf.stats import (
    friedman_nemenyi,
    non_inferiority,
    probability_of_improvement,
    stratified_steel_dwass,
    wilcoxon_holm,
)
from relation_tf.stats.directions import (
    read_directions,
    suggest_direction,
    unlike_units,
)

PERPLEXITY = "WikiText perplexity"
LOW, HIGH = [30.0, 30.5, 31.0, 31.5, 32.0], [40.0, 40.5, 41.0, 41.5, 42.0]
SAMPLES = {task: {"a": HIGH, "b": LOW} for task in (PERPLEXITY, "validation loss")}
NOTE = "Lower is better"


@pytest.mark.parametrize("control", [None, "a"])
def test_a_lower_perplexity_is_better_by_name_with_a_note(control):
    for higher, better in ((None, "b"), (True, "a")):
        found = stratified_steel_dwass(SAMPLES, control, higher_is_better=higher)
        assert found.pairs()["better"].tolist() == [better]
        assert (NOTE in str(found)) == (higher is None)


def test_a_lower_perplexity_is_better_than_the_reference():
    found = non_inferiority(SAMPLES, "a", margin=1.0)
    assert found.verdict["b"] == "better"
    assert found.table.loc["b", "difference"] == pytest.approx(10)
    assert NOTE in str(found)
    assert non_inferiority(SAMPLES, "a", 1.0, higher_is_better=True).verdict["b"] == "worse"


def test_ranks_and_means_of_tasks_follow_the_name():
    tasks = {f"error on set {n}": {"a": [3.0 + n], "b": [2.0], "c": [1.0]} for n in range(6)}
    assert friedman_nemenyi(tasks).average_ranks.to_dict() == {"a": 3, "b": 2, "c": 1}
    turned = friedman_nemenyi(tasks, higher_is_better={"error on set 0": True})
    assert turned.ranks.loc["error on set 0"].to_dict() == {"a": 1, "b": 2, "c": 3}
    assert turned.ranks.loc["error on set 1"].to_dict() == {"a": 3, "b": 2, "c": 1}
    found = wilcoxon_holm(tasks, "a", alpha=0.1)
    assert found.pairs()["better"].tolist() == ["b", "c"]


def test_a_partial_direction_leaves_the_other_tasks_to_their_names():
    directions, (note,) = read_directions(["MR", "WER", "score"], {"score": False})
    assert directions == {"MR": True, "WER": False, "score": False}
    assert "score (declared), WER" in note
    assert read_directions([None], None) == ({None: True}, ["Higher is better (assumed)"])
    assert read_directions([None], False) == ({None: False}, [])


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"WikiText perplexty": False}, ValueError, "Did you mean 'WikiText perplexity'"),
        ("no", TypeError, "must be True or False. Received: 'no' for 'WikiText perplexity'"),
        ({PERPLEXITY: 1}, TypeError, "must be True or False. Received: 1"),
    ],
)
def test_wrong_directions_are_named(given, error, message):
    with pytest.raises(error, match=message):
        stratified_steel_dwass(SAMPLES, higher_is_better=given)


def test_estimates_without_notes_need_a_direction():
    first, second = ({task: own[name] for task, own in SAMPLES.items()} for name in "ab")
    with pytest.raises(ValueError, match=r"`higher_is_better` must be given, such as {'WikiText"):
        probability_of_improvement(first, second, draws=50)
    for higher, value in ((False, 1), (True, 0)):
        found = probability_of_improvement(first, second, higher_is_better=higher, draws=50)
        assert found.value == value


@pytest.mark.parametrize(
    ("largest", "higher", "unlike"),
    [
        ({"MR": 0.8, "SST": 0.9}, True, False),
        ({"CoLA": 4.0, "SST": 92.0}, True, False),
        ({"MR": 0.8, "SST": 92.0}, True, True),
        ({"CoLA": 0.0, "SST": 92.0}, True, False),
        ({"CoLA": 0.0, "MR": 0.8, "SST": 92.0}, True, True),
        ({"CoLA": 0.0, "RTE": 0.0}, True, False),
        ({"MR": 0.9, "SST": 1.5}, True, False),
        ({"perplexity": 30.0, "loss": 3.4}, False, True),
        ({"PTB perplexity": 30.0, "WikiText perplexity": 60.0}, False, False),
    ],
)
def test_tasks_of_unlike_units(largest, higher, unlike):
    assert bool(unlike_units(largest, dict.fromkeys(largest, higher))) == unlike
    assert unlike_units({"MR": 0.8, "WER": 0.1}, {"MR": True, "WER": False})


def test_a_mean_of_points_and_perplexity_has_a_note():
    near = np.array([0.80, 0.81, 0.82])
    mixed = {"MR": {"a": near, "b": near + 0.01}, PERPLEXITY: {"a": HIGH, "b": LOW}}
    found = non_inferiority(mixed, "a", margin=0.01)
    alone = non_inferiority({"MR": mixed["MR"], "SST-2": mixed["MR"]}, "a", margin=0.01)
    assert ["units" in str(each) for each in (found, alone)] == [True, False]


@pytest.mark.parametrize(
    ("task", "metrics", "expected"),
    [
        ("PTB perplexity", ["acc"], (True, "column")),
        ("PTB perplexity", ["value"], (False, "name")),
        ("MR", ["wer"], (False, "column")),
        ("MR", ["acc", "f1"], (True, "column")),
        ("PTB perplexity", ["accuracy", "f1"], (True, "registered")),
        ("MR", [], (True, "assumed")),
    ],
)
def test_a_column_of_metrics_precedes_the_name(task, metrics, expected):
    assert suggest_direction(task, metrics) == expected
