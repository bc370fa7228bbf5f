"""Tests of the registered statistical procedures and their attainable p."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relation_tf.registry import PROCEDURES
from relation_tf.stats import (
    brunner_munzel,
    friedman_nemenyi,
    steel,
    steel_dwass,
    stratified_steel,
    stratified_steel_dwass,
    welch,
    what_can_be_shown,
    wilcoxon_holm,
)
from relation_tf.stats.design import samples_needed
from relation_tf.stats.procedures import default_over_tasks, default_procedure

SCORES = {"a": [1, 2, 3], "b": [4, 5, 6], "c": [7, 8, 9]}


TABLE = {
    "steel-dwass": ("all-pairs", "seed", steel_dwass),
    "steel": ("against-control", "seed", steel),
    "brunner-munzel": ("all-pairs", "seed", brunner_munzel),
    "brunner-munzel-control": ("against-control", "seed", brunner_munzel),
    "welch": ("all-pairs", "seed", welch),
    "welch-control": ("against-control", "seed", welch),
    "wilcoxon-holm": ("over-tasks", "task", wilcoxon_holm),
    "stratified-steel-dwass": ("over-tasks", "task", stratified_steel_dwass),
    "stratified-steel": ("over-tasks", "task", stratified_steel),
    "friedman-nemenyi": ("over-tasks", "task", friedman_nemenyi),
}


@pytest.mark.parametrize("name", TABLE)
def test_the_table(name):
    each = PROCEDURES[name]
    assert (each.compares, each.unit, each.function) == TABLE[name]


def test_default_test_depends_on_the_control():
    assert [default_procedure(), default_procedure("a")] == ["steel-dwass", "steel"]
    over_tasks = [default_over_tasks(), default_over_tasks("a")]
    assert over_tasks == ["stratified-steel-dwass", "stratified-steel"]
    needs_control = [name for name in TABLE if PROCEDURES[name].against_control]
    assert needs_control == ["steel", "brunner-munzel-control", "welch-control", "wilcoxon-holm",
                             "stratified-steel"]  # fmt: skip


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
    assert what_can_be_shown(4, 5, test="friedman-nemenyi", num_tasks=2) == (
        "4 methods x 2 tasks x 5 seeds: without ties no difference can be significant (p < .05); "
        "the smallest possible p of Nemenyi's test is at least .092 (if one method is better than "
        "another on every task, as clearly as possible); use at least 3 tasks."
    )
    stratified = what_can_be_shown(3, 2, test="stratified-steel-dwass", num_tasks=3)
    assert "3 methods x 3 tasks x 2 seeds: " in stratified
    assert "is at least .025" in stratified  # less than 6 / 6^3
    against = what_can_be_shown(3, 2, test="stratified-steel", num_tasks=3)
    assert "3 methods x 3 tasks x 2 seeds, one against all: " in against
    assert "is at least .017" in against  # less than 4 / 6^3
    many = what_can_be_shown(3, 5, test="stratified-steel-dwass", num_tasks=8)
    assert "is below .001 (if one" in many
    with pytest.raises(TypeError, match="`num_tasks` must be a whole number"):
        what_can_be_shown(3, 2, test="stratified-steel")


def test_no_number_of_seeds_may_be_enough(monkeypatch):
    never = replace(PROCEDURES["steel-dwass"], attainable_pvalue=lambda methods, seeds: 0.5)
    assert samples_needed(lambda seeds: 0.5, 0.05) == 0
    monkeypatch.setitem(PROCEDURES._entries, "steel-dwass", never)
    assert what_can_be_shown(3, 5).endswith("; no number of seeds up to 10,000 is enough.")


def test_brunner_munzel_counts_pairs():
    smallest = "without ties the smallest possible p of Brunner-Munzel with Holm is"
    assert what_can_be_shown(4, 5, test="brunner-munzel").startswith(
        f"4 methods x 5 seeds: {smallest} .048"
    )
    assert what_can_be_shown(5, 5, test="brunner-munzel-control").startswith(
        f"5 methods x 5 seeds, one against all: {smallest} .032"
    )
    assert what_can_be_shown(4, 5, test="welch") == "4 methods x 5 seeds: Welch's test with Holm."
