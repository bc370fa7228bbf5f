"""Wilcoxon's signed-rank test of task means against a control, with Holm's adjustment."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from relation_tf.registry import PROCEDURES
from relation_tf.stats.checks import check_count, check_probability
from relation_tf.stats.comparisons import (
    PairwiseResult,
    as_kind,
    pairwise_result,
    table_of_pairs,
)
from relation_tf.stats.design import samples_needed
from relation_tf.stats.directions import Directions, read_directions, unlike_units
from relation_tf.stats.items import sign_flips
from relation_tf.stats.samples import (
    TIE_RTOL,
    FloatArray,
    TaskSamples,
    check_finite,
    dense_ranks,
    rank_samples,
    tie_tolerance,
)
from relation_tf.stats.task_samples import in_task, read_tasks
from relation_tf.stats.unequal_spread import holm
from relation_tf.words import capital, count, format_level, format_pvalue

_MOST_EXACT = 300  # tasks with an exact p


@dataclass(frozen=True, eq=False, repr=False)
class SignedRankResult(PairwiseResult):
    """Result of `wilcoxon_holm`.

    It has the attributes and tables of `PairwiseResult` for a test against a control, with these
    differences: `samples` are the means of each task, negated where lower is better; `statistic` is
    the rank sum of the tasks where the method is better minus that of the tasks where it is worse;
    `effect_size` is this difference divided by the sum of all ranks (matched-pairs rank-biserial
    correlation); `seeds_needed` is a number of tasks.
    """

    _ahead = "better"

    def effect_sizes(self, confidence: float = 0.95) -> pd.DataFrame:
        """Raise an error: this effect size has no interval here."""
        raise ValueError("wilcoxon_holm gives no intervals of its effect sizes")

    def _title(self) -> str:
        tasks = len(next(iter(self.samples.values())))
        return (
            f"{self.procedure.title} of all against {self.control}: {len(self.samples)} methods "
            f"over the means of {count(tasks, 'task')}, alpha = {self.alpha:g}"
        )

    def _remarks(self) -> Iterator[str]:
        best = format_pvalue(self.attainable_pvalue, self.alpha)
        yield (
            f"Smallest possible p of this design without ties: {best}; {format_level(self.alpha)} "
            f"needs at least {self.seeds_needed} tasks."
        )
        yield (
            "Statistic and effect size are positive where the second method is better. Differences "
            "are ranked across tasks, so all tasks need the same unit."
        )
        yield from (f"Note: {note}" for note in self.notes)


def wilcoxon_holm(
    samples: TaskSamples | pd.DataFrame,
    control: Hashable,
    alpha: float = 0.05,
    *,
    higher_is_better: Directions = None,
    rtol: float = TIE_RTOL,
) -> SignedRankResult:
    """Compare each method with a control over tasks with Wilcoxon's signed-rank test of means.

    For each method, the differences between its mean and the control's mean on each task are ranked
    by size. p is exact, also with ties (a normal approximation for more than 300 tasks), and
    adjusted for several methods with Holm's method. The number of tasks, not of seeds, decides what
    can be found: use `stratified_steel` for few tasks. A verdict does not depend on the other
    methods, unlike that of `friedman_nemenyi`; it generalizes to similar tasks. Differences of all
    tasks must have the same unit.

    Args:
        samples: As for `stratified_steel`; the scores of a method on a task are averaged.
        control: Name of the control.
        alpha: Level of the test.
        higher_is_better: If False, lower scores are better; or `{task: bool}`. By default as for
            `stratified_steel_dwass`.
        rtol: Relative tolerance within which two means are equal.

    Returns:
        A `SignedRankResult`, positive where a method is better than the control.

    Raises:
        TypeError: If the samples have an unknown form or contain something other than numbers.
        ValueError: If the control or a method has no scores on a task, a score is not finite, or
            there are fewer than two tasks.

    Example:
        >>> samples = {
        ...     f"task {n}": {"attention": [0.7, 0.8], "relation": [0.8 + n / 50, 0.81]}
        ...     for n in range(6)
        ... }
        >>> print(f"{wilcoxon_holm(samples, 'attention').pvalue['relation']:.3f}")
        0.031

    References:
        F. Wilcoxon (1945), Individual comparisons by ranking methods, Biometrics Bulletin 1, 80-83.
        A. Benavoli, G. Corani, F. Mangili (2016), Should we really use post-hoc tests based on
        mean-ranks?, Journal of Machine Learning Research 17, 1-10.
    """
    check_probability("alpha", alpha)
    tasks = read_tasks(samples, control)
    if len(tasks) < 2:
        raise ValueError(f"`samples` must have at least two tasks. Received: {[*tasks]}")
    for task, own in tasks.items():
        for name, scores in own.items():
            in_task(task, check_finite, scores, name)
    higher, notes = read_directions(tasks, higher_is_better)
    signs = np.array([[1 if higher[task] else -1] for task in tasks])
    names = list(next(iter(tasks.values())))
    means = signs * np.array([[own[name].mean() for name in names] for own in tasks.values()])
    largest = {task: float(np.abs(row).max()) for task, row in zip(tasks, means, strict=True)}
    if remark := unlike_units(largest, higher):
        notes.append(f"{capital(remark)}, and the ranks of differences depend on the units")
    ranks = [_signed_ranks(means[:, 0], means[:, column], rtol) for column in range(1, len(names))]
    statistic = np.array([own.sum() for own in ranks])
    total = np.array([np.abs(own).sum() for own in ranks])
    found = pairwise_result(
        PROCEDURES["wilcoxon-holm"],
        rank_samples({name: means[:, column] for column, name in enumerate(names)}, rtol=rtol),
        statistic,
        holm(np.array([_pvalue(own) for own in ranks])),
        alpha=alpha,
        control=control,
        attainable_pvalue=signed_rank_attainable_pvalue(len(names), len(tasks)),
        seeds_needed=samples_needed(
            lambda number: signed_rank_attainable_pvalue(len(names), number), alpha
        ),
        notes=notes,
    )
    effect = np.divide(statistic, total, out=np.zeros_like(statistic), where=total > 0)
    return replace(
        as_kind(found, SignedRankResult),
        effect_size=table_of_pairs(effect, names, True),
        kruskal=None,
    )


def signed_rank_attainable_pvalue(num_methods: int, num_tasks: int) -> float:
    """Return the smallest p of `wilcoxon_holm`: `(k - 1) 2 / 2^T` for k methods and T tasks.

    Example:
        >>> signed_rank_attainable_pvalue(3, 8)
        0.015625
    """
    check_count("num_methods", num_methods, 2)
    check_count("num_tasks", num_tasks)
    return min(1.0, (num_methods - 1) * 2.0 ** (1 - num_tasks))


def _signed_ranks(control: FloatArray, method: FloatArray, rtol: float) -> FloatArray:
    """Return the ranks of the differences with their signs, shape `(T,)`; zeros are left out."""
    from scipy.stats import rankdata

    difference = method - control
    atol = tie_tolerance(np.concatenate([method, control]))
    difference = difference[~np.isclose(method, control, rtol=rtol, atol=atol)]
    if not difference.size:
        return difference
    ranks: FloatArray = rankdata(dense_ranks(np.abs(difference), rtol))
    return np.sign(difference) * ranks


def _pvalue(signed_ranks: FloatArray) -> float:
    from scipy.stats import wilcoxon

    if not signed_ranks.size:
        return 1.0
    if signed_ranks.size > _MOST_EXACT:
        return float(wilcoxon(signed_ranks).pvalue)
    doubled = np.rint(2 * signed_ranks).astype(int)  # mid-ranks of ties are halves
    sizes, counts = np.unique(np.abs(doubled), return_counts=True)
    return sign_flips(int(doubled.sum()), sizes.tolist(), counts.tolist())
