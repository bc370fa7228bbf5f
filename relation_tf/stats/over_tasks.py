"""Comparison of methods by one number per task: Friedman, Nemenyi, Wilcoxon, wins and losses."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from relation_tf.registry import PROCEDURES
from relation_tf.stats.comparisons import (
    NOT_SIGNIFICANT,
    PairwiseResult,
    PrintedResult,
    labels,
    name_pairs,
    table_of_pairs,
)
from relation_tf.stats.design import samples_needed
from relation_tf.stats.directions import Directions, read_directions, unlike_units
from relation_tf.stats.items import sign_flips
from relation_tf.stats.pair_tests import holm
from relation_tf.stats.samples import (
    TIE_RTOL,
    FloatArray,
    NanPolicy,
    TaskSamples,
    TestOptions,
    check_probability,
    dense_ranks,
    has_groups,
    index_pairs,
    numeric_scores,
    read_tasks,
    tie_tolerance,
)
from relation_tf.words import capital, count, format_pvalue

FEW_TASKS = 10  # Demsar's rule of thumb for the approximations of Friedman's p
_FEW_METHODS = 6  # with more methods there are too many orders to enumerate
_MOST_EXACT = 300  # tasks with an exact p of Wilcoxon's test


@dataclass(frozen=True, eq=False, repr=False)
class FriedmanResult(PrintedResult):
    """Result of `friedman_nemenyi` or `friedman_wilcoxon`.

    Attributes:
        ranks: Rank of each method on each task (tasks x methods); 1 is best, ties are averaged.
        average_ranks: Mean rank of each method.
        statistic: Friedman's chi-square, corrected for ties.
        friedman_pvalue: p of Friedman's test. Exact for fewer than 10 tasks and at most 5 methods:
            the share of all orders of each task's ranks with a statistic at least as large.
            Otherwise from the chi-square distribution, but at least `(k!)^-(n - 1)`, the
            probability that n tasks rank k methods in the same order: no exact p is smaller.
        exact: If True, `friedman_pvalue` is exact.
        f_statistic: F statistic of Iman and Davenport.
        f_pvalue: p of `f_statistic` from the F distribution, with the same lower bound; too small
            for few tasks.
        pvalue: p of each pair, by Nemenyi's or Wilcoxon's test, a symmetric k x k table with 1 on
            its diagonal.
        significant: True where p < alpha, k x k.
        critical_difference: Average ranks with a larger difference differ significantly by
            Nemenyi's test; NaN with Wilcoxon's.
        signed_ranks: Wilcoxon's tests of all pairs; None with Nemenyi's.
        attainable_pvalue: Smallest p of a pair for this number of methods and tasks.
        tasks_needed: Fewest tasks with which p < alpha is possible.
        alpha: Level of the tests.
        notes: Remarks on scores and p.
    """

    ranks: pd.DataFrame
    average_ranks: pd.Series[float]
    statistic: float
    friedman_pvalue: float
    exact: bool
    f_statistic: float
    f_pvalue: float
    pvalue: pd.DataFrame
    significant: pd.DataFrame
    critical_difference: float
    attainable_pvalue: float
    tasks_needed: int
    alpha: float
    notes: tuple[str, ...]
    signed_ranks: SignedRankResult | None = None

    def pairs(self) -> pd.DataFrame:
        """Return all pairs, one per row.

        Returns:
            A table with columns `a`, `b`, `rank_a`, `rank_b` (average ranks), `pvalue`,
            `significant`, `better` (the better method of a significant pair, else None), and
            `verdict` in words; with Wilcoxon's tests also `statistic` and `effect_size`, positive
            where b is better.
        """
        first, second = np.triu_indices(len(self.average_ranks), 1)
        ranks = self.average_ranks.to_numpy()
        if self.signed_ranks is not None:
            table = self.signed_ranks.pairs()
            table.insert(2, "rank_a", ranks[first])
            table.insert(3, "rank_b", ranks[second])
            return table
        table = name_pairs(
            list(self.average_ranks.index),
            rank_a=ranks[first],
            rank_b=ranks[second],
            pvalue=self.pvalue.to_numpy()[first, second],
            significant=self.significant.to_numpy()[first, second],
        )
        higher = table["a"].where(table["rank_a"] < table["rank_b"], table["b"]).astype(object)
        better = higher.where(table["significant"], None)
        verdicts = [NOT_SIGNIFICANT if name is None else f"{name} better" for name in better]
        return table.assign(better=better, verdict=verdicts)

    def cliques(self) -> list[tuple[Hashable, ...]]:
        """Return the bars of a critical-difference diagram.

        Returns:
            Largest groups of two or more methods without a significant difference, in the order of
            their average ranks; best first. By Wilcoxon's test, a method between those of a group
            can differ significantly from one of them.
        """
        order = np.argsort(self.average_ranks.to_numpy(), kind="stable")
        differ = self.significant.to_numpy()[np.ix_(order, order)]
        groups = [tuple(range(len(order)))]
        for a, b in zip(*np.nonzero(np.triu(differ)), strict=True):
            split = [
                tuple(x for x in group if x != place or not {a, b} <= {*group})
                for group in groups
                for place in (a, b)
            ]
            groups = [x for x in dict.fromkeys(split) if not any({*x} < {*y} for y in split)]
        names = self.average_ranks.index[order]
        return [tuple(names[[*group]]) for group in sorted(groups) if len(group) > 1]

    def _printed(self) -> pd.DataFrame:
        return self.pairs().drop(columns="better")

    def _title(self) -> str:
        num_tasks, num_methods = self.ranks.shape
        pairs = "Nemenyi" if self.signed_ranks is None else "Wilcoxon (Holm)"
        return (
            f"Friedman and {pairs} tests: {num_methods} methods over {count(num_tasks, 'task')}, "
            f"alpha = {self.alpha:g}"
        )

    def _remarks(self) -> Iterator[str]:
        freedom = self.ranks.shape[1] - 1
        friedman = (
            f"Friedman: chi-square({freedom}) = {self.statistic:.2f}, "
            f"{format_pvalue(self.friedman_pvalue, self.alpha)}; Iman and Davenport: "
            f"F({freedom}, {freedom * (len(self.ranks) - 1)}) = {self.f_statistic:.2f}, "
            f"{format_pvalue(self.f_pvalue, self.alpha)}."
        )
        if self.signed_ranks is None:
            friedman += (
                " Average ranks (1 is best) that differ by more than "
                f"{self.critical_difference:.2f} differ significantly."
            )
        yield friedman


def friedman_nemenyi(
    table: pd.DataFrame | TaskSamples,
    alpha: float = 0.05,
    *,
    higher_is_better: Directions = None,
    nan: NanPolicy = "raise",
    rtol: float = TIE_RTOL,
) -> FriedmanResult:
    """Compare methods over several tasks with Friedman's test and Nemenyi's test of all pairs.

    With n tasks, k methods, average ranks R and the quantile q of the studentized range, two
    methods differ significantly if

    `|R_a - R_b| > q / sqrt(2) sqrt(k (k + 1) / (6 n))`.

    Each task counts once, with the ranks of its scores (for example means over seeds). Do not use
    seeds as rows. The result generalizes to similar tasks; a test of the seeds of one task
    (`steel_dwass`) is about this task only.

    Args:
        table: Scores with tasks as rows and methods as columns; or `{task: {method: scores}}` or a
            table with columns `task`, `method` and `score`, of which the function uses the means.
            Tasks can have different scales.
        alpha: Level of the tests.
        higher_is_better: If True, the highest score of a task has rank 1, else the lowest; or
            `{task: bool}`. By default as for `stratified_steel_dwass`.
        nan: `"raise"` raises an error for NaN, because an empty cell is usually a missing run;
            `"worst"` ranks NaN worst and adds a note.
        rtol: Relative tolerance of ties: neighboring scores of a task within it are tied.

    Returns:
        A `FriedmanResult`; `print` shows it.

    Raises:
        TypeError: If the table has an unknown form or contains something other than numbers.
        ValueError: If there are fewer than two tasks or three methods, names occur twice, a score
            is NaN with `nan="raise"`, or an option is out of range.

    Example:
        >>> scores = pd.DataFrame(
        ...     {"a": [0.9, 0.8, 0.7, 0.9], "b": [0.8, 0.7, 0.6, 0.8], "c": [0.7, 0.6, 0.5, 0.7]},
        ...     index=["CoLA", "SST-2", "MRPC", "RTE"],
        ... )
        >>> result = friedman_nemenyi(scores)
        >>> result.average_ranks.to_dict(), round(result.critical_difference, 3)
        ({'a': 1.0, 'b': 2.0, 'c': 3.0}, 1.657)
        >>> result.cliques()
        [('a', 'b'), ('b', 'c')]

    References:
        J. Demsar (2006), Statistical comparisons of classifiers over multiple data sets, Journal of
        Machine Learning Research 7, 1-30.
        R. L. Iman, J. M. Davenport (1980), Approximations of the critical region of the Friedman
        statistic, Communications in Statistics - Theory and Methods 9, 571-595.
    """
    from scikit_posthocs import posthoc_nemenyi_friedman
    from scipy.stats import studentized_range

    options = TestOptions(alpha, nan=nan, rtol=rtol)
    table = _table_of_means(table)
    ranks, notes = _rank(table, higher_is_better, options)
    num_tasks, num_methods = ranks.shape
    facts = _friedman(ranks, table)
    names = facts["average_ranks"].index
    pvalue = posthoc_nemenyi_friedman(ranks).to_numpy(dtype=np.float64)
    pvalues = pd.DataFrame(pvalue, index=names, columns=names)
    attainable = nemenyi_attainable_pvalue(num_methods, num_tasks)
    if num_tasks < FEW_TASKS:
        exact = "; Friedman's p is exact" if facts["exact"] else ""
        notes.append(
            f"With fewer than {FEW_TASKS} tasks Nemenyi's p is a rough approximation{exact}"
        )
    if attainable >= alpha:
        tasks = count(num_tasks, "task")
        notes.append(f"No pair of {num_methods} methods can differ significantly with {tasks}")
    quantile = float(studentized_range.isf(alpha, num_methods, math.inf))
    return FriedmanResult(
        **facts,
        pvalue=pvalues,
        significant=pvalues < alpha,
        critical_difference=quantile * _standard_error(num_methods, num_tasks),
        attainable_pvalue=attainable,
        tasks_needed=samples_needed(lambda n: nemenyi_attainable_pvalue(num_methods, n), alpha),
        alpha=alpha,
        notes=(*notes, *_rough(facts, num_tasks)),
    )


def friedman_wilcoxon(
    table: pd.DataFrame | TaskSamples,
    alpha: float = 0.05,
    *,
    higher_is_better: Directions = None,
    rtol: float = TIE_RTOL,
) -> FriedmanResult:
    """Compare methods over several tasks with Friedman's test and Wilcoxon's tests of all pairs.

    Each task counts once, with the mean of its scores. Friedman's test, and the F test of Iman and
    Davenport, ask if any methods differ. Pairs are tested with `wilcoxon_holm`: unlike Nemenyi's
    test, its verdict on a pair does not depend on the other methods (Benavoli et al. 2016). The
    result generalizes to similar tasks.

    Args:
        table: As for `friedman_nemenyi`. The differences of all tasks must have the same unit.
        alpha: Level of the tests.
        higher_is_better: As for `friedman_nemenyi`.
        rtol: Relative tolerance within which two means are equal.

    Returns:
        A `FriedmanResult`; `print` shows it.

    Raises:
        TypeError: If the table has an unknown form or contains something other than numbers.
        ValueError: If there are fewer than two tasks or three methods, names occur twice, or a
            score is not finite.

    Example:
        >>> scores = pd.DataFrame(
        ...     {"a": [0.9, 0.8, 0.7, 0.9], "b": [0.8, 0.7, 0.6, 0.8], "c": [0.7, 0.6, 0.5, 0.7]},
        ...     index=["CoLA", "SST-2", "MRPC", "RTE"],
        ... )
        >>> result = friedman_wilcoxon(scores)
        >>> print(f"{result.friedman_pvalue:.3f} {result.pvalue.loc['a', 'c']:.3f}")
        0.005 0.375

    References:
        J. Demsar (2006), Statistical comparisons of classifiers over multiple data sets, Journal of
        Machine Learning Research 7, 1-30.
        A. Benavoli, G. Corani, F. Mangili (2016), Should we really use post-hoc tests based on
        mean-ranks?, Journal of Machine Learning Research 17, 1-10.
    """
    table = _table_of_means(table)
    ranks, _ = _rank(table, higher_is_better, TestOptions(alpha, nan="raise", rtol=rtol))
    samples = {
        task: {name: [score] for name, score in row.items()} for task, row in table.iterrows()
    }
    tests = wilcoxon_holm(samples, None, alpha, higher_is_better=higher_is_better, rtol=rtol)
    facts = _friedman(ranks, table)
    return FriedmanResult(
        **facts,
        pvalue=tests.pvalue,
        significant=tests.significant,
        critical_difference=math.nan,
        attainable_pvalue=tests.attainable_pvalue,
        tasks_needed=tests.seeds_needed,
        alpha=alpha,
        notes=(*tests.notes, *_rough(facts, len(ranks))),
        signed_ranks=tests,
    )


def _friedman(ranks: FloatArray, table: pd.DataFrame) -> dict[str, Any]:
    """Return the ranks and the tests of Friedman and of Iman and Davenport."""
    from scipy.stats import f, friedmanchisquare

    num_tasks, num_methods = ranks.shape
    freedom = num_methods - 1
    statistic, pvalue = 0.0, 1.0
    if (ranks != ranks[:, :1]).any():  # if every task ties all methods, SciPy divides by zero
        statistic, pvalue = map(float, friedmanchisquare(*ranks.T))
    least = _same_order(num_tasks, num_methods)
    exact = num_tasks < FEW_TASKS and num_methods < _FEW_METHODS
    left = num_tasks * freedom - statistic
    f_statistic = (num_tasks - 1) * statistic / left if left > 1e-9 else math.inf
    names = labels(list(table.columns))
    return {
        "ranks": pd.DataFrame(ranks, index=table.index, columns=names),
        "average_ranks": pd.Series(ranks.mean(axis=0), index=names),
        "statistic": statistic,
        "friedman_pvalue": _exact_friedman(ranks) if exact else max(pvalue, least),
        "exact": exact,
        "f_statistic": f_statistic,
        "f_pvalue": max(float(f.sf(f_statistic, freedom, freedom * (num_tasks - 1))), least),
    }


def _same_order(num_tasks: int, num_methods: int) -> float:
    """Return the probability that all tasks rank the methods in the same order by chance."""
    return math.exp(-(num_tasks - 1) * math.lgamma(num_methods + 1))


def _rough(facts: dict[str, Any], num_tasks: int) -> Iterator[str]:
    """Yield a note if Friedman's p is an approximation for few tasks."""
    if num_tasks < FEW_TASKS and not facts["exact"]:
        least = _same_order(*facts["ranks"].shape)
        yield (
            f"With fewer than {FEW_TASKS} tasks Friedman's p is a rough approximation; its lower "
            f"bound is {least:.3g}, the probability that all tasks rank the methods in the same "
            "order"
        )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class SignedRankResult(PairwiseResult):
    """Result of `wilcoxon_holm`.

    It has the attributes and tables of `PairwiseResult`, with these differences: `samples` are the
    means of each task, negated where lower is better; `statistic` is the rank sum of the tasks
    where the second method, or the method compared with the control, is better minus that of the
    tasks where it is worse; `effect_size` is this difference divided by the sum of all ranks
    (matched-pairs rank-biserial correlation); `seeds_needed` is a number of tasks.
    """

    _ahead = "better"
    _unit = "task"

    def effect_sizes(self, confidence: float = 0.95) -> pd.DataFrame:
        """Raise an error: this effect size has no interval here."""
        raise ValueError("wilcoxon_holm gives no intervals of its effect sizes")

    def _design(self) -> str:
        tasks = len(next(iter(self.samples.values())))
        return f"over the means of {count(tasks, 'task')}"


def wilcoxon_holm(
    samples: TaskSamples | pd.DataFrame,
    control: Hashable | None = None,
    alpha: float = 0.05,
    *,
    higher_is_better: Directions = None,
    rtol: float = TIE_RTOL,
) -> SignedRankResult:
    """Compare methods over tasks with Wilcoxon's signed-rank test of means.

    For each pair, or each method and the control, the differences of their means on each task are
    ranked by size. p is exact, also with ties (a normal approximation for more than 300 tasks), and
    adjusted for several pairs with Holm's method. The number of tasks, not of seeds, decides what
    can be found: use `stratified_steel` for few tasks. A verdict does not depend on the other
    methods, unlike that of `friedman_nemenyi`; it generalizes to similar tasks. Differences of all
    tasks must have the same unit.

    Args:
        samples: As for `stratified_steel`; the scores of a method on a task are averaged.
        control: Method to compare all others with; by default all pairs are compared.
        alpha: Level of the test.
        higher_is_better: If False, lower scores are better; or `{task: bool}`. By default as for
            `stratified_steel_dwass`.
        rtol: Relative tolerance within which two means are equal.

    Returns:
        A `SignedRankResult`, positive where the second method of a pair is better, or a method is
        better than the control.

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
    tasks = read_tasks(samples, control, finite=1)
    if len(tasks) < 2:
        raise ValueError(f"`samples` must have at least two tasks. Received: {[*tasks]}")
    higher, notes = read_directions(tasks, higher_is_better)
    signs = np.array([[1 if higher[task] else -1] for task in tasks])
    names = list(next(iter(tasks.values())))
    means = signs * np.array([[x[name].mean() for name in names] for x in tasks.values()])
    largest = {task: float(np.abs(row).max()) for task, row in zip(tasks, means, strict=True)}
    if remark := unlike_units(largest, higher):
        notes.append(f"{capital(remark)}, and the ranks of differences depend on the units")
    against = control is not None
    ranks = [
        _signed_ranks(means[:, a], means[:, b], rtol) for a, b in index_pairs(len(names), against)
    ]
    statistic = np.array([signed.sum() for signed in ranks])
    total = np.array([np.abs(signed).sum() for signed in ranks])
    effect_size = np.divide(statistic, total, out=np.zeros_like(statistic), where=total > 0)
    pvalue = holm(np.array([_pvalue(signed) for signed in ranks]))
    bound = partial(signed_rank_attainable_pvalue, len(names), against_control=against)
    return SignedRankResult(
        procedure=PROCEDURES["wilcoxon-holm" if against else "wilcoxon-pairs"],
        statistic=table_of_pairs(statistic, names, against),
        pvalue=table_of_pairs(pvalue, names, against, symmetric=True),
        effect_size=table_of_pairs(effect_size, names, against),
        samples=dict(zip(names, means.T, strict=True)),
        control=control,
        alpha=alpha,
        attainable_pvalue=bound(len(tasks)),
        seeds_needed=samples_needed(bound, alpha),
        notes=tuple(notes),
    )


def _table_of_means(table: pd.DataFrame | TaskSamples) -> pd.DataFrame:
    """Return the means of the scores as a table of tasks x methods."""
    if not isinstance(table, pd.DataFrame) or has_groups(table):
        means = {
            task: {name: scores.mean() for name, scores in methods.items()}
            for task, methods in read_tasks(table).items()
        }
        table = pd.DataFrame.from_dict(means, orient="index")
    for axis, index in (("task", table.index), ("method", table.columns)):
        if not index.is_unique:
            raise ValueError(f"names of {axis}s must be unique. Received: {list(index)}")
    num_tasks, num_methods = table.shape
    if num_tasks < 2 or num_methods < 3:
        raise ValueError(
            "`table` must have at least two tasks (rows) and three methods (columns); for two "
            f"methods use scipy.stats.wilcoxon. Received: shape {table.shape}"
        )
    return table


def _rank(
    table: pd.DataFrame, higher_is_better: Directions, options: TestOptions
) -> tuple[FloatArray, list[str]]:
    """Return the ranks of the methods on each task, 1 for the best, and notes on the scores."""
    from scipy.stats import rankdata

    higher, notes = read_directions(table.index, higher_is_better)
    columns = [numeric_scores(table[name], name) for name in table.columns]
    ranks = []
    for task, row in zip(table.index, np.column_stack(columns), strict=True):
        missing = [name for name, value in zip(table.columns, row, strict=True) if np.isnan(value)]
        if missing and options.nan == "raise":
            raise ValueError(f"scores of {task!r} must not be NaN. Received: NaN for {missing}")
        if missing:
            notes.append(f"{task}: NaN ranked worst ({', '.join(map(str, missing))})")
        losses = np.where(np.isnan(row), np.inf, -row if higher[task] else row)
        ranks.append(rankdata(dense_ranks(losses, options.rtol)))
    return np.array(ranks), notes


def _exact_friedman(ranks: FloatArray) -> float:
    """Return the share of all orders of each task's ranks with a Friedman statistic as large.

    Given the ties, the statistic grows with the sum of squared rank sums of the methods.
    """
    doubled = np.rint(2 * ranks).astype(np.int64)  # makes midranks whole numbers
    squares, probabilities = _square_sums(tuple(sorted(map(tuple, np.sort(doubled).tolist()))))
    reached = squares >= (doubled.sum(axis=0) ** 2).sum()
    return min(1.0, float(probabilities[reached].sum()))


@functools.lru_cache(maxsize=8)
def _square_sums(tasks: tuple[tuple[int, ...], ...]) -> tuple[NDArray[np.int64], FloatArray]:
    """Return the distribution of the sum of squared rank sums over all orders of each task's ranks.

    Tasks are added one by one. Each adds its ranks in every order, so the order of the rank sums
    does not matter and equal sorted sums are merged.
    """
    sums: NDArray[np.int64] = np.array(tasks[:1])
    probabilities: FloatArray = np.ones(1)
    for ranks in tasks[1:]:
        orders = np.array([*set(itertools.permutations(ranks))])
        new = np.sort((sums[:, None] + orders).reshape(-1, len(ranks)), axis=1)
        keys = new @ (new.max() + 1) ** np.arange(len(ranks))
        _, first, same = np.unique(keys, return_index=True, return_inverse=True)
        weights = np.repeat(probabilities / len(orders), len(orders))
        sums, probabilities = new[first], np.bincount(same, weights).astype(np.float64)
    return (sums**2).sum(axis=1), probabilities


def _standard_error(num_methods: int, num_tasks: int) -> float:
    """Return the divisor of a difference of average ranks for the studentized range."""
    return math.sqrt(num_methods * (num_methods + 1) / (12 * num_tasks))


def nemenyi_attainable_pvalue(num_methods: int, num_tasks: int, num_seeds: int = 1) -> float:
    """Return Nemenyi's p for a method that is best on every task and one that is always last.

    Args:
        num_methods: Number of methods compared.
        num_tasks: Number of tasks.
        num_seeds: Not used; the test uses the means of the tasks.

    Returns:
        Smallest possible p.
    """
    from scipy.stats import studentized_range

    largest = (num_methods - 1) / _standard_error(num_methods, num_tasks)
    return float(studentized_range.sf(largest, num_methods, math.inf))


def signed_rank_attainable_pvalue(
    num_methods: int, num_tasks: int, num_seeds: int = 1, *, against_control: bool = True
) -> float:
    """Return the smallest p of `wilcoxon_holm`: `2 / 2^T` times the number of pairs, for T tasks.

    Args:
        num_methods: Number of methods compared, including the control.
        num_tasks: Number of tasks.
        num_seeds: Not used; the test uses the means of the tasks.
        against_control: If False, all pairs are compared.

    Example:
        >>> signed_rank_attainable_pvalue(3, 8)
        0.015625
    """
    pairs = num_methods - 1 if against_control else math.comb(num_methods, 2)
    return min(1.0, pairs * 2.0 ** (1 - num_tasks))


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
