"""Rank statistics summed over tasks and the joint null distribution of their maximum.

Each task is a stratum with the groups of `relation_tf.stats.pairwise`. A statistic over tasks is a
sum of deviations divided by the root of a sum of variances, so both sums are kept for each
arrangement.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from relation_tf.stats.design import RankTest, asymptotic_pvalues
from relation_tf.stats.dunnett import largest_exceeds, rank_loadings
from relation_tf.stats.null_distribution import (
    NullDistribution,
    PvalueMethod,
    RandomSource,
    affordable_permutations,
    choose_method,
    null_distribution,
)
from relation_tf.stats.pairwise import (
    ROUNDING,
    Codes,
    Groups,
    Pairs,
    chunks,
    enumerated_groups,
    index_pairs,
    net_wins,
    null_variances,
    num_arrangements,
    permutation_pvalues,
    shuffled_groups,
    standardize,
)
from relation_tf.stats.samples import FloatArray
from relation_tf.steps import advance

MAX_TERMS = 4_000_000  # numbers in an exact distribution: about half a second
_DECIMALS = 9  # sums that agree to this many decimals are equal
_DRAWS = 20  # from so many draws for each arrangement on, drawing from a list of them is faster

Stratum: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]  # sorted pooled codes, group sizes


class Terms(NamedTuple):
    """Weighted sums over tasks of each pair in each of B arrangements.

    Attributes:
        deviation: Sum of `w (U - n_i n_j / 2)`, shape `(P, B)`.
        variance: Sum of `w^2 V`, shape `(P, B)` or `(P, 1)`.
    """

    deviation: FloatArray
    variance: FloatArray

    @property
    def statistic(self) -> FloatArray:
        """Standardized statistics, shape `(P, B)`; 0 if the variance is zero."""
        return standardize(self.deviation, self.variance)


def weights(groups: Groups, pairs: Pairs) -> FloatArray:
    """Return van Elteren's weights of a task, `1 / (n_i + n_j + 1)`, shape `(P, 1)`."""
    return 1.0 / np.array([[len(groups[i]) + len(groups[j]) + 1] for i, j in pairs])


def task_terms(groups: Groups, pairs: Pairs) -> Terms:
    """Return the weighted deviations and variances of one task.

    Args:
        groups: k groups of shape `(n_i, B)`.
        pairs: P pairs of group indices.
    """
    weight = weights(groups, pairs)
    deviation = weight * net_wins(groups, pairs) / 2
    return Terms(deviation, weight**2 * null_variances(groups, pairs))


def add_terms(tasks: Iterable[Terms]) -> Terms:
    """Return the sums over tasks."""
    return functools.reduce(
        lambda total, task: Terms(total.deviation + task.deviation, total.variance + task.variance),
        tasks,
    )


def choose_null(
    test: RankTest,
    tasks: Sequence[Groups],
    method: PvalueMethod = "auto",
    permutations: int | None = None,
    rng: RandomSource = None,
) -> NullDistribution:
    """Choose the null distribution of a test over tasks.

    Args:
        test: `"steel-dwass"` for all pairs, `"steel"` for each method against one control.
        tasks: The observed arrangement of each task, `(n_i, 1)` for each group, a control first.
        method: Kind of the distribution; `"auto"` is `"exact"` if it takes about a second, else
            `"monte-carlo"`.
        permutations: Number of random arrangements, by default `affordable_permutations`.
        rng: A seed, or a generator from which a seed is drawn; None for a fixed seed.

    Raises:
        TypeError: If `rng` is something else.
        ValueError: If an option is out of range, or `"exact"` needs too many arrangements.
    """
    if len(tasks) == 1:
        sizes = [len(group) for group in tasks[0]]
        return null_distribution(test, sizes, method, permutations, rng)
    if permutations is None:
        sizes_by_task = [[len(group) for group in groups] for groups in tasks]
        permutations = affordable_permutations(sizes_by_task, _pairs(test, tasks))
    refusal = (
        "method='exact' needs too many arrangements for these tasks, methods and scores; "
        "use method='monte-carlo'"
    )
    return choose_method(
        test,
        method,
        permutations,
        rng,
        lambda: exact_maxima(_strata(tasks), _pairs(test, tasks)) is not None,
        refusal,
    )


def stratified_pvalues(
    null: NullDistribution, statistics: FloatArray, tasks: Sequence[Groups]
) -> FloatArray:
    """Return the family-wise p of statistics over tasks.

    Args:
        null: Result of `choose_null` for these tasks.
        statistics: Standardized statistics, shape `(P,)`.
        tasks: The observed arrangement of each task.

    Returns:
        p, shape `(P,)`.
    """
    if len(tasks) == 1:
        return null.pvalues(statistics, tasks[0])
    strata, pairs = _strata(tasks), _pairs(null.test, tasks)
    if null.method == "asymptotic":
        if null.test == "steel":
            return largest_exceeds(statistics, _mean_loadings(tasks, pairs))
        return asymptotic_pvalues(statistics, [len(group) for group in tasks[0]])
    if null.method == "monte-carlo":
        maxima = drawn_maxima(strata, pairs, null.permutations, null.seed)
        return permutation_pvalues(statistics, maxima, drawn=True)
    exact = exact_maxima(strata, pairs)
    assert exact is not None  # else `choose_null` takes Monte Carlo
    maxima, at_least = exact
    reached = np.searchsorted(maxima, np.abs(statistics) - ROUNDING)
    # Sums of probabilities have rounding errors, which must not decide whether p < alpha.
    return np.array([float(f"{pvalue:.12g}") for pvalue in at_least[reached]])


def _mean_loadings(tasks: Sequence[Groups], pairs: Pairs) -> FloatArray:
    """Return the loadings of Dunnett's distribution, averaged over tasks by variance.

    They are exact if all tasks have the same numbers of scores and no ties.
    """
    variances = np.array([task_terms(groups, pairs).variance[:, 0] for groups in tasks])
    squares = np.array(
        [
            rank_loadings(
                [len(group) for group in groups],
                np.unique(np.concatenate(groups), return_counts=True)[1].tolist(),
            )
            ** 2
            for groups in tasks
        ]
    )
    total = variances.sum(axis=0)
    mean = np.divide((variances * squares).sum(axis=0), total, where=total > 0, out=0 * total)
    return np.sqrt(mean)


def _pairs(test: RankTest, tasks: Sequence[Groups]) -> tuple[tuple[int, int], ...]:
    return tuple(index_pairs(len(tasks[0]), test == "steel"))


def _strata(tasks: Sequence[Groups]) -> tuple[Stratum, ...]:
    """Return the pooled codes and group sizes of each task, as a key of its null distribution."""
    return tuple(
        (tuple(np.sort(np.concatenate(groups), axis=None).tolist()), tuple(map(len, groups)))
        for groups in tasks
    )


@functools.lru_cache(maxsize=8)
def drawn_maxima(
    strata: tuple[Stratum, ...], pairs: Pairs, permutations: int, seed: int
) -> FloatArray:
    """Return the largest absolute statistic of all pairs in random arrangements.

    Methods are permuted within each task, independently between tasks.

    Args:
        strata: The tasks, sorted pooled codes and group sizes.
        pairs: P pairs of group indices, a tuple.
        permutations: Number of random arrangements.
        seed: Seed of the arrangements.

    Returns:
        Sorted maxima, shape `(permutations,)`; read-only, because the array is cached.
    """
    rng = np.random.default_rng(seed)
    alike = Counter(strata)
    listed = {
        stratum: _all_terms(stratum, pairs)
        for stratum, times in alike.items()
        if _is_listed(stratum, pairs, times * permutations)
    }

    def draw(stratum: Stratum, number: int) -> Terms:
        if stratum in listed:
            return _drawn_from(listed[stratum], number, rng)
        return task_terms(shuffled_groups(_pool(stratum[0]), stratum[1], number, rng), pairs)

    largest = np.empty(permutations)
    elements = max(len(codes) for codes, _ in alike)
    most = max(max(sizes) for _, sizes in alike)
    for start, stop in chunks(permutations, elements, most):
        terms = add_terms(draw(stratum, stop - start) for stratum in strata)
        largest[start:stop] = np.abs(terms.statistic).max(axis=0)
        advance("arrangements of the scores of all tasks", stop, permutations)
    largest.sort()
    largest.flags.writeable = False
    return largest


@functools.lru_cache(maxsize=8)
def exact_maxima(strata: tuple[Stratum, ...], pairs: Pairs) -> tuple[FloatArray, FloatArray] | None:
    """Return the exact distribution of the largest absolute statistic of all pairs.

    All arrangements of each task are enumerated. Tasks are independent, so the joint distribution
    of the sums is the convolution of those of the tasks: tasks are added one by one, and equal sums
    are merged. This holds with and without ties, because a statistic depends on an arrangement only
    through the sums of deviations and variances.

    Args:
        strata: The tasks, sorted pooled codes and group sizes.
        pairs: P pairs of group indices, a tuple.

    Returns:
        Sorted maxima and the probability that the maximum is at least as large, both shape `(M,)`;
        None if this needs too many numbers, see `MAX_TERMS`.
    """
    arrangements = sum(num_arrangements(sizes) for _, sizes in {*strata})
    if arrangements * len(pairs) > MAX_TERMS // 8:  # enumeration is slower than addition
        return None
    by_task = {stratum: _enumerate(stratum, pairs) for stratum in {*strata}}
    # The task with most sums comes last, because the last sums are not merged.
    tasks = sorted((by_task[stratum] for stratum in strata), key=lambda task: task[1].size)
    # Rows that are constant in each task, such as variances without ties, need no convolution.
    constant = np.all([(sums == sums[:, :1]).all(axis=1) for sums, _ in tasks], axis=0)
    total, probability = np.zeros((np.count_nonzero(~constant), 1)), np.ones(1)
    for number, (sums, share) in enumerate(tasks, start=1):
        if (total.size or 1) * share.size > MAX_TERMS:
            return None
        probability = np.multiply.outer(probability, share).ravel()
        total = total[:, :, None] + sums[~constant][:, None, :]
        total = total.reshape(len(total), probability.size)
        if number < len(tasks):
            total, probability = _merge(total, probability)
    rows = np.empty((constant.size, probability.size))
    rows[~constant] = total
    rows[constant] = sum(sums[constant][:, :1] for sums, _ in tasks)
    largest = np.abs(Terms(*np.split(rows, 2)).statistic).max(axis=0)
    order = np.argsort(largest, kind="stable")
    at_least = np.cumsum(probability[order][::-1])[::-1]
    return largest[order], at_least / at_least[0]


def _is_listed(stratum: Stratum, pairs: Pairs, draws: int) -> bool:
    """Return True if listing all arrangements of a task is faster than shuffling its scores."""
    arrangements = num_arrangements(stratum[1])
    return arrangements * len(pairs) <= MAX_TERMS and draws >= _DRAWS * arrangements


def _drawn_from(terms: Terms, number: int, rng: np.random.Generator) -> Terms:
    """Return the terms of random arrangements."""
    deviation, variance = terms
    drawn = rng.integers(deviation.shape[1], size=number)
    variances = variance if variance.shape[1] == 1 else variance.take(drawn, axis=1)
    return Terms(deviation.take(drawn, axis=1), variances)  # `take` is twice as fast as `[]`


@functools.lru_cache(maxsize=1)  # p and intervals use the same tasks without ties
def _all_terms(stratum: Stratum, pairs: Pairs) -> Terms:
    """Return the terms of all arrangements of a task."""
    pool, sizes = _pool(stratum[0]), stratum[1]
    parts = [
        task_terms(enumerated_groups(pool, sizes, start, stop), pairs)
        for start, stop in chunks(num_arrangements(sizes), pool.size, max(sizes))
    ]
    deviations, variances = zip(*parts, strict=True)
    tied = variances[0].shape[1] > 1
    return Terms(
        np.concatenate(deviations, axis=1),
        np.concatenate(variances, axis=1) if tied else variances[0],
    )


def _enumerate(stratum: Stratum, pairs: Pairs) -> tuple[FloatArray, FloatArray]:
    """Return the distinct terms of a task, shape `(2 P, M)`, and their probabilities."""
    deviation, variance = _all_terms(stratum, pairs)
    total = deviation.shape[1]
    terms = np.concatenate([deviation, np.broadcast_to(variance, deviation.shape)])
    return _merge(terms, np.full(total, 1 / total))


def _merge(terms: FloatArray, probability: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Merge equal columns and add their probabilities."""
    key = np.zeros(probability.size, dtype=np.intp)
    for row in np.round(terms, _DECIMALS):
        values, code = np.unique(row, return_inverse=True)
        if values.size > 1:
            # Numbered again for each row, so that the product cannot overflow.
            key = np.unique(key * values.size + code, return_inverse=True)[1]
    _, kept, merged = np.unique(key, return_index=True, return_inverse=True)
    return terms[:, kept], np.bincount(merged, probability).astype(np.float64)


def _pool(codes: tuple[int, ...]) -> Codes:
    return np.array(codes, dtype=np.min_scalar_type(codes[-1]))
