"""Tests of the registered statistical procedures and their attainable p."""

from __future__ import annotations

import pytest

from relation_tf.registry import PROCEDURES
from relation_tf.stats import (
    what_can_be_shown,
)
from relation_tf.stats.design import samples_needed
from relation_tf.stats.procedures import default_over_tasks, default_procedure

SCORES = {"a": [1, 2, 3], "b": [4, 5, 6], "c": [7, 8, 9]}


def test_default_test_depends_on_the_control():
    assert [default_procedure(), default_procedure("a")] == ["steel-dwass", "steel"]
    over_tasks = [default_over_tasks(), default_over_tasks("a")]
    assert over_tasks == ["stratified-steel-dwass", "stratified-steel"]
    needs_control = [name for name in PROCEDURES if PROCEDURES[name].against_control]
    assert {*needs_control} == {
        "steel", "brunner-munzel-control", "welch-control", "wilcoxon-holm", "stratified-steel",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("steel-dwass", (SCORES,)),
        ("steel", (SCORES, "a")),
        ("brunner-munzel", (SCORES,)),
        ("friedman-nemenyi", (dict.fromkeys(["RTE", "MRPC", "CoLA"], SCORES),)),
        ("wilcoxon-holm", (dict.fromkeys(["RTE", "MRPC", "CoLA"], SCORES), "a")),
    ],
)
def test_no_p_is_below_the_attainable_one(name, data):
    """Use scores without overlap."""
    procedure = PROCEDURES[name]
    smallest = procedure.function(*data).pairs()["pvalue"].min()
    numbers = (3, 3, 3) if procedure.unit == "task" else (3, 3)
    assert smallest == pytest.approx(procedure.attainable_pvalue(*numbers), rel=1e-9)


def test_a_test_over_tasks_counts_tasks():
    nemenyi = what_can_be_shown(4, 5, test="friedman-nemenyi", num_tasks=2)
    assert "at least .092" in nemenyi
    assert "at least 3 tasks" in nemenyi
    stratified = what_can_be_shown(3, 2, test="stratified-steel-dwass", num_tasks=3)
    assert "at least .025" in stratified  # less than 6 / 6^3
    against = what_can_be_shown(3, 2, test="stratified-steel", num_tasks=3)
    assert "at least .017" in against  # less than 4 / 6^3
    many = what_can_be_shown(3, 5, test="stratified-steel-dwass", num_tasks=8)
    assert "below .001" in many
    with pytest.raises(TypeError, match="`num_tasks` must be a whole number"):
        what_can_be_shown(3, 2, test="stratified-steel")


@pytest.mark.parametrize(
    ("methods", "test", "smallest"),
    [
        (4, "brunner-munzel", ".048"),
        (5, "brunner-munzel-control", ".032"),
        (4, "welch", "4 methods"),
    ],
)
def test_brunner_munzel_counts_pairs(methods, test, smallest):
    assert smallest in what_can_be_shown(methods, 5, test=test)


def test_no_number_of_seeds_may_be_enough():
    assert samples_needed(lambda seeds: 0.5, 0.05) == 0
