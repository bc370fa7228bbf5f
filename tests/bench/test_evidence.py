"""Tests of what suites can show with their own seeds."""

from __future__ import annotations

import pytest

from relation_tf.bench.planning import nothing_can_be_shown
from relation_tf.config import list_suites, load_suite


@pytest.mark.parametrize("name", list_suites())
def test_every_suite_of_the_package_can_show_a_difference(name):
    assert nothing_can_be_shown(load_suite(name)) is None


@pytest.mark.parametrize(
    ("changes", "smallest"),
    [
        ({"tasks": ["CoLA"], "seeds": 1}, "1.000"),
        ({"seeds": 1}, None),  # over eight tasks
        ({"tasks": ["CoLA"], "seeds": 2}, ".771"),
        ({"tasks": ["CoLA"], "alpha": 0.01}, ".040"),
        # Verdicts against the control are possible.
        ({"tasks": ["CoLA"], "alpha": 0.01, "control": "attention-64"}, None),
        ({"tasks": ["CoLA"], "seeds": 1, "control": "attention-64"}, "1.000"),
        ({"reference": "attention-64", "seeds": 2}, None),
        ({"test": "welch", "tasks": ["CoLA"], "seeds": 2}, None),
        ({}, None),
    ],
)
def test_the_smallest_possible_p_decides(changes, smallest):
    suite = load_suite("glue-small", {"reference": None, "margin": None, **changes})
    said = nothing_can_be_shown(suite)
    if smallest is None:
        assert said is None
    else:
        assert said.endswith(f" p is {smallest}.")


def test_families_are_compared_separately():
    changes = {"tasks": ["CoLA"], "reference": None, "margin": None}
    assert nothing_can_be_shown(load_suite("glue", changes)) is None
    assert nothing_can_be_shown(load_suite("glue", {**changes, "families": None})) is not None


def test_requested_methods_and_seeds_count():
    suite = load_suite("glue-small", {"reference": None, "margin": None})
    pair = ["relation-64", "attention-64"]
    assert nothing_can_be_shown(suite, pair, num_seeds=4, num_tasks=1) is None
    assert nothing_can_be_shown(suite, num_seeds=4, num_tasks=1) is not None
