"""Tests of the registered statistical procedures and their attainable p."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relation_tf.registry import PROCEDURES
from relation_tf.stats import friedman_nemenyi, steel, steel_dwass, what_can_be_shown
from relation_tf.stats.design import samples_needed
from relation_tf.stats.procedures import default_procedure

SCORES = {"a": [1, 2, 3], "b": [4, 5, 6], "c": [7, 8, 9]}


def test_the_table():
    shipped = {name: each for name, each in PROCEDURES.items() if not name.startswith("doc-")}
    assert {name: (each.compares, each.exact, each.unit) for name, each in shipped.items()} == {
        "steel-dwass": ("all-pairs", True, "seed"),
        "steel": ("against-control", True, "seed"),
        "friedman-nemenyi": ("over-tasks", False, "task"),
    }
    assert [default_procedure(), default_procedure("a")] == ["steel-dwass", "steel"]
    functions = [each.function for each in shipped.values()]
    assert functions == [steel_dwass, steel, friedman_nemenyi]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("steel-dwass", (SCORES,)),
        ("steel", (SCORES, "a")),
        ("friedman-nemenyi", (dict.fromkeys(["RTE", "MRPC", "CoLA"], SCORES),)),
    ],
)
def test_no_p_is_below_the_attainable_one(name, data):
    """Use scores without overlap."""
    procedure = PROCEDURES[name]
    methods = ("exact", "asymptotic") if procedure.exact else (None,)
    smallest = [
        procedure.function(*data, **({"method": method} if method else {})).pairs()["pvalue"].min()
        for method in methods
    ]
    assert max(smallest) == pytest.approx(procedure.attainable_pvalue(3, 3), rel=1e-9)


def test_a_test_over_tasks_counts_tasks():
    assert what_can_be_shown(4, 2, test="friedman-nemenyi") == (
        "4 methods x 2 tasks: Nemenyi's test can never reach p < .05 (p = .093 at best without "
        "ties, where one method is the best on every task and another the worst); "
        "use at least 3 tasks."
    )


def test_no_number_of_seeds_may_be_enough(monkeypatch):
    never = replace(PROCEDURES["steel-dwass"], attainable_pvalue=lambda methods, seeds: 0.5)
    assert samples_needed(lambda seeds: 0.5, 0.05) == 0
    monkeypatch.setitem(PROCEDURES._entries, "steel-dwass", never)
    assert what_can_be_shown(3, 5).endswith("; no number of seeds up to 10,000 is enough.")
