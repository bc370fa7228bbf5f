"""Tests of the registered statistical procedures and their attainable p."""

from __future__ import annotations

from dataclasses import fields
from functools import partial

import numpy as np
import pandas as pd
import pytest

from relation_tf.registry import PROCEDURES
from relation_tf.report.options import ComparisonOptions
from relation_tf.stats import (
    brunner_munzel,
    corrected_resampled_t,
    friedman_nemenyi,
    friedman_wilcoxon,
    mcnemar,
    mcnemar_holm,
    non_inferiority,
    steel,
    steel_dwass,
    stratified_steel_dwass,
    welch,
    what_can_be_shown,
    what_margin_can_be_shown,
    wilcoxon_holm,
)
from relation_tf.stats.procedures import default_over_tasks, default_procedure
from relation_tf.words import format_pvalue

SCORES = {"a": [1, 2, 3], "b": [4, 5, 6], "c": [7, 8, 9]}
NO_BOUND = {
    "welch", "welch-control", "corrected-t", "corrected-t-control", "mcnemar", "mcnemar-control",
}  # fmt: skip
TASKS = dict.fromkeys(["RTE", "MRPC"], SCORES)


def test_default_test_depends_on_the_control():
    assert [default_procedure(), default_procedure("a")] == ["steel-dwass", "steel"]
    over_tasks = [default_over_tasks(), default_over_tasks("a")]
    assert over_tasks == ["stratified-steel-dwass", "stratified-steel"]
    needs_control = [name for name in PROCEDURES if PROCEDURES[name].against_control]
    assert {*needs_control} == {
        "steel", "brunner-munzel-control", "welch-control", "corrected-t-control", "wilcoxon-holm",
        "stratified-steel", "mcnemar-control",
    }  # fmt: skip


@pytest.mark.parametrize("name", sorted({*PROCEDURES} - NO_BOUND))
def test_no_p_is_below_the_attainable_one(name):
    """Use scores without overlap."""
    procedure = PROCEDURES[name]
    over_tasks = procedure.unit == "task"
    control = {"control": "a"} if procedure.against_control else {}
    result = procedure.function(TASKS if over_tasks else SCORES, **control)
    attainable = procedure.attainable_pvalue(*((3, 2, 3) if over_tasks else (3, 3)))
    assert result.attainable_pvalue == pytest.approx(attainable)
    bound = 0.01 if name.startswith("stratified") else 1e-9  # over tasks it is a lower bound
    assert result.pairs()["pvalue"].min() == pytest.approx(attainable, rel=bound)


@pytest.mark.parametrize(
    ("design", "options", "shown"),
    [
        ((4, 5), {}, [".040", "at least 5 seeds"]),
        ((5, 5), {}, ["no difference", ".062", "at least 6 seeds"]),
        ((10, 5), {"test": "steel"}, ["no difference", ".055", "at least 6 seeds"]),
        ((4, 5), {"test": "brunner-munzel"}, [".048"]),
        (
            (4, 5),
            {"test": "friedman-nemenyi", "num_tasks": 2},
            ["no difference", ".092", "3 tasks"],
        ),
        # Less than 6 / 6^3 and 4 / 6^3.
        ((3, 2), {"test": "stratified-steel-dwass", "num_tasks": 3}, ["at least .025"]),
        ((3, 5), {"test": "stratified-steel-dwass", "num_tasks": 8}, ["below .001"]),
        ((4, 5), {"margin": 1.0, "sd": [1.0] * 8}, [what_can_be_shown(4, 5), "power 0.9"]),
    ],
)
def test_what_can_be_shown(design, options, shown):
    sentence = what_can_be_shown(*design, **options)
    assert [figure for figure in shown if figure not in sentence] == []
    assert ("no difference" in sentence) == ("no difference" in shown)


def test_what_margin_can_be_shown():
    assert "2.1 SD" in what_margin_can_be_shown(2, 5, unit="SD")
    assert "1,000 seeds" in what_margin_can_be_shown(2, 5, 0.001)
    assert "at least 2 seeds" in what_margin_can_be_shown(2, 1)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"test": "stratified-steel"}, TypeError, "`num_tasks` must be a whole number"),
        ({"test": "all"}, ValueError, "unknown test 'all'"),
        ({"num_seeds": 5.0}, TypeError, "`num_seeds` must be a whole number.*num_seeds=5.0"),
    ],
)
def test_wrong_designs_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        what_can_be_shown(**{"num_methods": 3, "num_seeds": 2} | options)


@pytest.mark.parametrize(
    ("pvalue", "alpha", "text"),
    [
        (0.0499996, 0.05, "p = .0499996"),
        (0.05, 0.05, "p = .050"),
        (0.05 - 1e-17, 0.05, "p = .050"),
        (0.0004, 0.05, "p < .001"),
    ],
)
def test_formatted_p_stays_on_its_side_of_alpha(pvalue, alpha, text):
    assert format_pvalue(pvalue, alpha) == text


def test_help_of_compare_names_every_test():
    helps = {option.name: option.metadata.get("help", "") for option in fields(ComparisonOptions)}
    for name, procedure in PROCEDURES.items():
        if procedure.function.__module__.startswith("relation_tf."):
            over_tasks = procedure.compares == "over-tasks"
            assert name in helps["test_over_tasks" if over_tasks else "test"]


ROWS = pd.DataFrame(np.random.default_rng(0).normal(size=(8, 3)), columns=[*"abc"])
RIGHT = (ROWS > 0).astype(int)


@pytest.mark.parametrize(("test", "table", "ids"), [
    (steel_dwass, ROWS, ["seed"]), (partial(steel, control="a"), ROWS, ["seed"]),
    (brunner_munzel, ROWS, ["seed"]), (welch, ROWS, ["seed"]),
    (partial(non_inferiority, reference="a", margin=1), ROWS, ["seed"]),
    (partial(non_inferiority, reference="a", margin=1), ROWS, ["task", "seed"]),
    (stratified_steel_dwass, ROWS, ["task", "seed"]), (friedman_nemenyi, ROWS, ["task", "seed"]),
    (friedman_wilcoxon, ROWS, ["task", "seed"]), (wilcoxon_holm, ROWS, ["task", "seed"]),
    (corrected_resampled_t, ROWS, ["fold"]), (mcnemar_holm, RIGHT, ["item"]),
    (mcnemar, RIGHT[["a", "b"]], ["item"]),
])  # fmt: skip
def test_every_test_takes_a_wide_table(test, table, ids):
    tasks = ["x"] * 4 + ["y"] * 4
    samples = {name: [*table[name]] for name in table}
    if "task" in ids:
        samples = {task: dict(rows.items()) for task, rows in table.groupby(tasks)}
    wide = table.assign(**{name: tasks if name == "task" else range(8) for name in ids})
    assert str(test(wide)) == str(test(samples))
