"""Statistical procedures of the package and the smallest p each can give.

To add a procedure, register its function here or in a plugin. Plans, reports and documentation read
the registration.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from relation_tf.registry import PROCEDURES, Procedure
from relation_tf.stats.design import (
    MOST_SAMPLES,
    attainable_pvalue,
    samples_needed,
    stratified_attainable_pvalue,
)
from relation_tf.stats.over_tasks import (
    friedman_nemenyi,
    nemenyi_attainable_pvalue,
    signed_rank_attainable_pvalue,
    wilcoxon_holm,
)
from relation_tf.stats.pair_tests import (
    attainable_with_holm,
    brunner_munzel,
    steel,
    steel_dwass,
    stratified_steel,
    stratified_steel_dwass,
    welch,
)
from relation_tf.stats.power_analysis import (
    MAX_SEEDS,
    attainable_margin,
    non_inferiority_power,
    seeds_for_margin,
)
from relation_tf.stats.samples import check_count, check_probability
from relation_tf.words import at_least, count, format_level, pvalue_only, two_digits

_POWER = 0.8  # of a plan

_steel_bound = partial(attainable_pvalue, test="steel")
_stratified_steel_bound = partial(stratified_attainable_pvalue, test="steel")
_brunner_munzel_bound = partial(attainable_with_holm, against_control=True)
for _name, _procedure in {
    "steel-dwass": Procedure(
        steel_dwass, "all-pairs", "Steel-Dwass", "W*", attainable_pvalue, equal_spread=True
    ),
    "steel": Procedure(
        steel, "against-control", "Steel's test", "Z", _steel_bound, equal_spread=True
    ),
    "brunner-munzel": Procedure(
        brunner_munzel, "all-pairs", "Brunner-Munzel with Holm", "W", attainable_with_holm
    ),
    "brunner-munzel-control": Procedure(
        brunner_munzel, "against-control", "Brunner-Munzel with Holm", "W", _brunner_munzel_bound
    ),
    "welch": Procedure(welch, "all-pairs", "Welch's test with Holm", "t"),
    "welch-control": Procedure(welch, "against-control", "Welch's test with Holm", "t"),
    "stratified-steel-dwass": Procedure(
        stratified_steel_dwass, "over-tasks", "Stratified Steel-Dwass", "W*",
        stratified_attainable_pvalue, equal_spread=True,
    ),
    "stratified-steel": Procedure(
        stratified_steel, "over-tasks", "Stratified Steel", "Z",
        _stratified_steel_bound, equal_spread=True, needs_control=True,
    ),
    "friedman-nemenyi": Procedure(
        friedman_nemenyi, "over-tasks", "Nemenyi's test", "rank difference",
        nemenyi_attainable_pvalue, least_methods=3,
    ),
    "wilcoxon-holm": Procedure(
        wilcoxon_holm, "over-tasks", "Wilcoxon's signed-rank test with Holm", "W",
        signed_rank_attainable_pvalue, needs_control=True,
    ),
}.items():  # fmt: skip
    PROCEDURES.add(_name, _procedure, __name__)


def default_procedure(control: object = None) -> str:
    """Return the default procedure of a suite: `"steel"` with a control, else `"steel-dwass"`.

    Args:
        control: The method that all others are compared with, or None.
    """
    return "steel-dwass" if control is None else "steel"


def default_over_tasks(control: object = None) -> str:
    """Return the default procedure over tasks, stratified Steel-Dwass or Steel with a control.

    Args:
        control: The method that all others are compared with, or None.
    """
    return "stratified-steel-dwass" if control is None else "stratified-steel"


def what_can_be_shown(
    num_methods: int,
    num_seeds: int,
    alpha: float = 0.05,
    *,
    test: str = "steel-dwass",
    num_tasks: int | None = None,
    margin: float | None = None,
    sd: float | Sequence[float] = 1.0,
) -> str:
    """Describe the smallest p that a test can give for a number of methods and seeds.

    Args:
        num_methods: Number of methods compared, including the control.
        num_seeds: Number of seeds per method (and task).
        alpha: Level of the test, between 0 and 1.
        test: Name of a registered procedure, such as `"steel-dwass"` (all pairs) or `"steel"` (each
            method against one control).
        num_tasks: Number of tasks, for a test over tasks.
        margin: Margin of `non_inferiority` against one of the methods; adds the sentence of
            `what_margin_can_be_shown`.
        sd: Standard deviation over seeds in the unit of the margin, or one for each task.

    Returns:
        One sentence, or two with a margin.

    Raises:
        ValueError: If a number is out of range or the procedure is unknown.

    Example:
        >>> print(what_can_be_shown(5, 5))  # doctest: +NORMALIZE_WHITESPACE
        5 methods x 5 seeds: without ties no difference can be significant (p < .05); the smallest
        possible p of Steel-Dwass is .062 (if the scores of two methods do not overlap); use at
        least 6 seeds or compare fewer methods.
        >>> print(what_can_be_shown(5, 5, test="steel"))
        ... # doctest: +NORMALIZE_WHITESPACE
        5 methods x 5 seeds, one against all: without ties the smallest possible p of Steel's test
        is .028 (if the scores of two methods do not overlap); p < .05 needs at least 5 seeds.
    """
    check_probability("alpha", alpha)
    check_count("num_methods", num_methods, 2)
    check_count("num_seeds", num_seeds)
    if margin is not None:
        first = what_can_be_shown(num_methods, num_seeds, alpha, test=test, num_tasks=num_tasks)
        second = what_margin_can_be_shown(num_methods, num_seeds, margin, sd, alpha=alpha)
        return f"{first} {second}"
    procedure = PROCEDURES.find(test)
    over_tasks = procedure.compares == "over-tasks"
    design, number = f"{num_methods} methods", num_seeds
    if over_tasks:
        check_count("num_tasks", num_tasks, 2)
        assert num_tasks is not None
        design, number = f"{design} x {count(num_tasks, 'task')}", num_tasks
    design += f" x {count(num_seeds, 'seed')}"
    if procedure.against_control:
        design += ", one against all"
    bound = procedure.attainable_pvalue
    if bound is None:
        return f"{design}: {procedure.title}."

    def attainable(methods: int, samples: int) -> float:
        return bound(methods, samples, *([num_seeds] if over_tasks else []))

    best, level = attainable(num_methods, number), format_level(alpha)
    needed = samples_needed(partial(attainable, num_methods), alpha)
    # Over tasks it is a bound.
    shown = (at_least if over_tasks else pvalue_only)(best, alpha)
    least = f"the smallest possible p of {procedure.title} is {shown}"
    where = "if the scores of two methods do not overlap"
    if over_tasks:
        where = "if one method is better than another on every task, as clearly as possible"
    if needed and best < alpha:
        enough = f"{level} needs at least {needed} {procedure.unit}s"
        return f"{design}: without ties {least} ({where}); {enough}."
    enough = f"use at least {needed} {procedure.unit}s"
    if not needed:
        enough = f"no number of {procedure.unit}s up to {MOST_SAMPLES:,} is enough"
    fewer = num_methods > 2 and attainable(2, number) < alpha
    return (
        f"{design}: without ties no difference can be significant ({level}); {least} ({where}); "
        f"{enough}{' or compare fewer methods' if fewer else ''}."
    )


def what_margin_can_be_shown(
    num_methods: int,
    num_seeds: int,
    margin: float | None = None,
    sd: float | Sequence[float] = 1.0,
    *,
    alpha: float = 0.05,
    unit: str = "",
) -> str:
    """Describe the margin against a reference that a number of seeds can show.

    The powers are those of `non_inferiority_power`: the method equals the reference.

    Args:
        num_methods: Number of methods compared, including the reference.
        num_seeds: Number of seeds per method.
        margin: Declared margin, in the unit of `sd`.
        sd: Standard deviation over seeds, or one for each task.
        alpha: Two-sided level, for all methods together.
        unit: Unit of `sd` and the margin, such as `"points"`.

    Returns:
        One sentence, or two with a margin.

    Raises:
        TypeError: If an argument is not a number.
        ValueError: If a number is out of range.

    Example:
        >>> print(what_margin_can_be_shown(2, 5, unit="SD"))  # doctest: +NORMALIZE_WHITESPACE
        Against a reference, the smallest margin that 5 seeds can show is 2.1 SD (power .8 if the
        methods are equal).
        >>> print(what_margin_can_be_shown(4, 5, 1, [0.8] * 8, unit="points"))
        ... # doctest: +NORMALIZE_WHITESPACE
        Against a reference, the smallest margin that 5 seeds on 8 tasks can show is 0.6 points
        (power .8 if the methods are equal). A margin of 1 has power 1.00 and needs 3 seeds for
        power .8.
    """
    if num_seeds < 2:
        return "Against a reference, verdicts need at least 2 seeds per method."
    options: dict[str, Any] = {"num_methods": num_methods, "alpha": alpha, "simulations": 20_000}
    tasks = np.size(sd)
    seeds = f"{num_seeds} seeds on {tasks} tasks" if tasks > 1 else f"{num_seeds} seeds"
    least = attainable_margin(num_seeds, sd, _POWER, **options)
    level = f"{_POWER:g}".removeprefix("0")
    least_margin = (
        f"Against a reference, the smallest margin that {seeds} can show is "
        f"{two_digits(least)}{unit and f' {unit}'} (power {level} if the methods are equal)"
    )
    if margin is None:
        return f"{least_margin}."
    reached = non_inferiority_power(margin, num_seeds, sd, **options).probability
    try:
        needed = f"{seeds_for_margin(margin, sd, _POWER, **options)} seeds"
    except ValueError:
        needed = f"more than {MAX_SEEDS:,} seeds"
    return (
        f"{least_margin}. A margin of {margin:g} has power {reached:.2f} and needs {needed} for "
        f"power {level}."
    )
