"""Statistical procedures of the package and the smallest p each can give.

To add a procedure, register its function here or in a plugin. Plans, reports and documentation read
the registration.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from relation_tf.registry import PROCEDURES, Procedure
from relation_tf.stats.design import (
    MOST_SAMPLES,
    attainable_pvalue,
    samples_needed,
    stratified_attainable_pvalue,
)
from relation_tf.stats.folds import corrected_resampled_t, mcnemar_holm
from relation_tf.stats.over_tasks import (
    friedman_nemenyi,
    friedman_wilcoxon,
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
from relation_tf.stats.power_analysis import what_margin_can_be_shown
from relation_tf.stats.samples import Replicate, check_count, check_probability
from relation_tf.words import at_least, count, format_level, pvalue_only

_HOLM = "with Holm's correction"
_steel_bound = partial(attainable_pvalue, test="steel")
_stratified_steel_bound = partial(stratified_attainable_pvalue, test="steel")
_signed_rank_bound = partial(signed_rank_attainable_pvalue, against_control=False)
_brunner_munzel_bound = partial(attainable_with_holm, against_control=True)
for _name, _procedure in {
    "steel-dwass": Procedure(
        steel_dwass, "all-pairs", "Steel-Dwass", "W*", attainable_pvalue, equal_spread=True
    ),
    "steel": Procedure(
        steel, "against-control", "Steel's test", "Z", _steel_bound, equal_spread=True
    ),
    "brunner-munzel": Procedure(
        brunner_munzel, "all-pairs", f"Brunner-Munzel {_HOLM}", "W", attainable_with_holm
    ),
    "brunner-munzel-control": Procedure(
        brunner_munzel, "against-control", f"Brunner-Munzel {_HOLM}", "W", _brunner_munzel_bound
    ),
    "welch": Procedure(welch, "all-pairs", f"Welch's test {_HOLM}", "t"),
    "welch-control": Procedure(welch, "against-control", f"Welch's test {_HOLM}", "t"),
    "corrected-t": Procedure(
        corrected_resampled_t, "all-pairs", f"corrected resampled t test {_HOLM}", "t",
        paired=True,
    ),
    "corrected-t-control": Procedure(
        corrected_resampled_t, "against-control", f"corrected resampled t test {_HOLM}", "t",
        paired=True,
    ),
    "mcnemar": Procedure(
        mcnemar_holm, "all-pairs", f"McNemar's mid-p test {_HOLM}", "b − c", paired=True
    ),
    "mcnemar-control": Procedure(
        mcnemar_holm, "against-control", f"McNemar's mid-p test {_HOLM}", "b − c", paired=True
    ),
    "stratified-steel-dwass": Procedure(
        stratified_steel_dwass, "over-tasks", "stratified Steel-Dwass", "W*",
        stratified_attainable_pvalue, equal_spread=True,
    ),
    "stratified-steel": Procedure(
        stratified_steel, "over-tasks", "stratified Steel", "Z",
        _stratified_steel_bound, equal_spread=True, needs_control=True,
    ),
    "friedman-nemenyi": Procedure(
        friedman_nemenyi, "over-tasks", "Nemenyi's test", "rank difference",
        nemenyi_attainable_pvalue, least_methods=3,
    ),
    "friedman-wilcoxon": Procedure(
        friedman_wilcoxon, "over-tasks", f"Wilcoxon's signed-rank test {_HOLM}", "W",
        _signed_rank_bound, least_methods=3,
    ),
    "wilcoxon-pairs": Procedure(
        wilcoxon_holm, "over-tasks", f"Wilcoxon's signed-rank test {_HOLM}", "W",
        _signed_rank_bound,
    ),
    "wilcoxon-holm": Procedure(
        wilcoxon_holm, "over-tasks", f"Wilcoxon's signed-rank test {_HOLM}", "W",
        signed_rank_attainable_pvalue, needs_control=True,
    ),
}.items():  # fmt: skip
    PROCEDURES.add(_name, _procedure, __name__)


def default_procedure(control: object = None, *, replicate: Replicate = "seed") -> str:
    """Return the default procedure on a task.

    It is `"steel-dwass"`, or `"steel"` with a control; for folds of a cross-validation the
    corrected resampled t test, for items McNemar's test.

    Args:
        control: The method that all others are compared with, or None.
        replicate: A score of a method is that of a seed, a fold or, 0 or 1, an item.
    """
    if replicate == "seed":
        return "steel-dwass" if control is None else "steel"
    paired = "mcnemar" if replicate == "item" else "corrected-t"
    return paired if control is None else f"{paired}-control"


def default_over_tasks(
    control: object = None, *, num_seeds: int = 2, num_methods: int = 3, same_unit: bool = True
) -> str:
    """Return the default procedure over tasks.

    With several seeds it is stratified Steel-Dwass, or Steel with a control. With one score for
    each task and method it is Friedman's test with Wilcoxon's tests of all pairs, or Wilcoxon's
    test with a control or for two methods: the stratified test would only count wins. Where tasks
    have different units it is the stratified test: Wilcoxon's ranks differences of all tasks.

    Args:
        control: The method that all others are compared with, or None.
        num_seeds: Largest number of seeds of a method on a task.
        num_methods: Number of methods.
        same_unit: If True, the scores of all tasks have the same unit and direction.
    """
    if num_seeds < 2 and same_unit:
        pairs = "wilcoxon-pairs" if num_methods < 3 else "friedman-wilcoxon"
        return pairs if control is None else "wilcoxon-holm"
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
    design, number = f"{num_methods} methods", num_seeds
    where, shown = "if the scores of two methods do not overlap", pvalue_only
    numbers_of_seeds: tuple[int, ...] = ()
    if procedure.unit == "task":
        check_count("num_tasks", num_tasks, 2)
        assert num_tasks is not None
        design, number = f"{design} x {count(num_tasks, 'task')}", num_tasks
        where = "if one method is better than another on every task, as clearly as possible"
        shown, numbers_of_seeds = at_least, (num_seeds,)  # a lower bound
    design += f" x {count(num_seeds, 'seed')}"
    if procedure.against_control:
        design += ", one against all"
    bound, level, units = procedure.attainable_pvalue, format_level(alpha), f"{procedure.unit}s"
    if bound is None:
        return f"{design}: {procedure.title}."
    best = bound(num_methods, number, *numbers_of_seeds)
    needed = samples_needed(lambda n: bound(num_methods, n, *numbers_of_seeds), alpha)
    least = f"the smallest possible p of {procedure.title} is {shown(best, alpha)}"
    if needed and best < alpha:
        enough = f"{level} needs at least {needed} {units}"
        return f"{design}: without ties {least} ({where}); {enough}."
    enough = f"use at least {needed} {units}"
    if not needed:
        enough = f"no number of {units} up to {MOST_SAMPLES:,} is enough"
    fewer = num_methods > 2 and bound(2, number, *numbers_of_seeds) < alpha
    return (
        f"{design}: without ties no difference can be significant ({level}); {least} ({where}); "
        f"{enough}{' or compare fewer methods' if fewer else ''}."
    )
