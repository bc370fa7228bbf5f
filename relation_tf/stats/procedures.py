"""Statistical procedures of the package and the smallest p each can give.

To add a procedure, register its function here or in a plugin. Plans, reports and documentation read
the registration.
"""

from __future__ import annotations

from functools import partial

from relation_tf.registry import PROCEDURES, register_procedure
from relation_tf.stats.checks import check_count, check_probability
from relation_tf.stats.design import (
    MOST_SAMPLES,
    attainable_pvalue,
    format_level,
    format_pvalue,
    samples_needed,
)
from relation_tf.stats.over_tasks import friedman_nemenyi, nemenyi_attainable_pvalue
from relation_tf.stats.presentation import count
from relation_tf.stats.rank_tests import steel, steel_dwass
from relation_tf.stats.stratified import stratified_steel, stratified_steel_dwass
from relation_tf.stats.unequal_spread import attainable_with_holm, brunner_munzel, welch

register_procedure(
    "steel-dwass",
    compares="all-pairs",
    title="Steel-Dwass",
    symbol="W*",
    attainable_pvalue=partial(attainable_pvalue, method="both", test="steel-dwass"),
    exact=True,
    equal_spread=True,
)(steel_dwass)
register_procedure(
    "steel",
    compares="against-control",
    title="Steel's test",
    symbol="Z",
    attainable_pvalue=partial(attainable_pvalue, method="both", test="steel"),
    exact=True,
    equal_spread=True,
)(steel)
register_procedure(
    "brunner-munzel",
    compares="all-pairs",
    title="Brunner-Munzel with Holm",
    symbol="W",
    attainable_pvalue=attainable_with_holm,
)(brunner_munzel)
register_procedure(
    "brunner-munzel-control",
    compares="against-control",
    title="Brunner-Munzel with Holm",
    symbol="W",
    attainable_pvalue=partial(attainable_with_holm, against_control=True),
)(brunner_munzel)
register_procedure("welch", compares="all-pairs", title="Welch's test with Holm", symbol="t")(welch)
register_procedure(
    "welch-control", compares="against-control", title="Welch's test with Holm", symbol="t"
)(welch)
register_procedure(
    "stratified-steel-dwass",
    compares="over-tasks",
    title="Stratified Steel-Dwass",
    symbol="W*",
    equal_spread=True,
)(stratified_steel_dwass)
register_procedure(
    "stratified-steel",
    compares="over-tasks",
    title="Stratified Steel",
    symbol="Z",
    equal_spread=True,
)(stratified_steel)
register_procedure(
    "friedman-nemenyi",
    compares="over-tasks",
    title="Nemenyi's test",
    symbol="rank difference",
    attainable_pvalue=nemenyi_attainable_pvalue,
)(friedman_nemenyi)


def default_procedure(control: object = None) -> str:
    """Return the default procedure of a suite: `"steel"` with a control, else `"steel-dwass"`.

    Args:
        control: The method that all others are compared with, or None.
    """
    return "steel-dwass" if control is None else "steel"


def what_can_be_shown(
    num_methods: int, num_seeds: int, alpha: float = 0.05, *, test: str = "steel-dwass"
) -> str:
    """Describe the smallest p that a test can give for a number of methods and seeds.

    Args:
        num_methods: Number of methods compared, including the control.
        num_seeds: Number of seeds per method; for a test over tasks, the number of tasks.
        alpha: Level of the test, between 0 and 1.
        test: Name of a registered procedure, such as `"steel-dwass"` (all pairs) or `"steel"` (each
            method against one control).

    Returns:
        One sentence.

    Raises:
        ValueError: If a number is out of range or the procedure is unknown.

    Example:
        >>> print(what_can_be_shown(5, 5))  # doctest: +NORMALIZE_WHITESPACE
        5 methods x 5 seeds: without ties no difference can be significant (p < .05); the smallest
        possible p of Steel-Dwass is .068 (if the scores of two methods do not overlap); use at
        least 6 seeds or compare fewer methods.
        >>> print(what_can_be_shown(5, 5, test="steel"))
        ... # doctest: +NORMALIZE_WHITESPACE
        5 methods x 5 seeds, one against all: without ties the smallest possible p of Steel's test
        is .032 (if the scores of two methods do not overlap); p < .05 needs at least 5 seeds.
    """
    check_probability("alpha", alpha)
    check_count("num_methods", num_methods, 2)
    check_count("num_seeds", num_seeds)
    procedure = PROCEDURES.find(test)
    design = f"{num_methods} methods x {count(num_seeds, procedure.unit)}"
    if procedure.compares == "against-control":
        design += ", one against all"
    attainable = procedure.attainable_pvalue
    if attainable is None:
        return f"{design}: {procedure.title}."
    best, level = attainable(num_methods, num_seeds), format_level(alpha)
    needed = samples_needed(partial(attainable, num_methods), alpha)
    smallest = format_pvalue(best, alpha).removeprefix("p ").removeprefix("= ")
    least = f"the smallest possible p of {procedure.title} is {smallest}"
    where = "if the scores of two methods do not overlap"
    if procedure.compares == "over-tasks":
        where = "if one method is the best on every task and another the worst"
    if needed and best < alpha:
        enough = f"{level} needs at least {needed} {procedure.unit}s"
        return f"{design}: without ties {least} ({where}); {enough}."
    enough = f"use at least {needed} {procedure.unit}s"
    if not needed:
        enough = f"no number of {procedure.unit}s up to {MOST_SAMPLES:,} is enough"
    fewer = num_methods > 2 and attainable(2, num_seeds) < alpha
    return (
        f"{design}: without ties no difference can be significant ({level}); {least} ({where}); "
        f"{enough}{' or compare fewer methods' if fewer else ''}."
    )
