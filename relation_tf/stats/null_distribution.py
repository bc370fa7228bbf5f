"""Joint null distribution of the rank statistics of all tested pairs, on one task or several.

Each task is a stratum: its pooled scores and the sizes of its groups. An arrangement assigns the
scores of each task to its groups, independently between tasks. p is the share of arrangements with
a largest absolute statistic of all tested pairs that is at least as large.
"""

from __future__ import annotations

import functools
import math
import numbers
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from relation_tf.stats.checks import check_count, check_option
from relation_tf.stats.design import (
    RankTest,
    asymptotic_pvalues,
    largest_statistic,
    smallest_pvalue,
)
from relation_tf.stats.dunnett import largest_exceeds, rank_loadings
from relation_tf.stats.pairwise import (
    BLOCK_ELEMENTS,
    MAX_ARRANGEMENTS,
    ROUNDING,
    Codes,
    Groups,
    Pairs,
    RankSums,
    add,
    chunks,
    enumerated_groups,
    index_pairs,
    num_arrangements,
    permutation_pvalues,
    rank_sums,
    shuffled_groups,
    tie_sums_of,
    untied_groups,
)
from relation_tf.stats.samples import FloatArray
from relation_tf.steps import advance

NullMethod: TypeAlias = Literal["asymptotic", "exact", "monte-carlo"]
PvalueMethod: TypeAlias = Literal["auto", "asymptotic", "exact", "monte-carlo"]
RandomSource: TypeAlias = int | np.random.Generator | None
Stratum: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]  # sorted pooled codes, group sizes
SumsOfPairs: TypeAlias = Callable[[slice], RankSums]  # of some pairs in drawn arrangements

PERMUTATIONS = 200_000  # the standard error of a p of .05 is .0005
_FEWEST = 2_000  # the standard error of a p of .05 is .005
# Work in comparisons of two scores. 10 methods x 10 seeds x 10 tasks have 200,000 arrangements.
_BUDGET = 30_000_000_000
_PAIR = 100  # statistic of a pair
_SCORE = 60  # drawing a score
_COUNTED = 128  # comparing a score of large groups by counts
_MAX_TERMS = 4_000_000  # numbers in an exact distribution over tasks: about half a second
_DECIMALS = 9  # sums that agree to this many decimals are equal
_DRAWS = 20  # from so many draws for each arrangement on, drawing from a list of them is faster
_PRECISION = 1e-12  # of a critical statistic


@dataclass(frozen=True)
class NullDistribution:
    """Null distribution of the largest absolute statistic of all tested pairs.

    Attributes:
        test: `"steel-dwass"` for all pairs, `"steel"` for each method against one control.
        strata: For each task, its sorted pooled scores (as ranks) and the number of scores of each
            method, the control first.
        method: Kind of the distribution.
        permutations: Number of random arrangements for `"monte-carlo"`.
        seed: Seed of the random arrangements.
        loadings: Of the methods in Dunnett's distribution, for the asymptotic p of `"steel"`.
    """

    test: RankTest
    strata: tuple[Stratum, ...]
    method: NullMethod
    permutations: int = PERMUTATIONS
    seed: int = 0
    loadings: tuple[float, ...] = ()

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Indices of the methods of each tested pair."""
        return tuple(index_pairs(len(self.sizes[0]), self.test == "steel"))

    @property
    def sizes(self) -> list[tuple[int, ...]]:
        """Numbers of scores of the methods on each task."""
        return [sizes for _, sizes in self.strata]

    def pvalues(self, statistics: FloatArray) -> FloatArray:
        """Return the family-wise p of statistics of any shape, see `RankSums.statistic`."""
        if self.method == "asymptotic":
            if self.test == "steel":
                return largest_exceeds(statistics, np.array(self.loadings))
            return asymptotic_pvalues(statistics, self.sizes[0])
        if self.method == "exact":
            exact = exact_maxima(self.strata, self.pairs)
            assert exact is not None  # else `null_distribution` takes Monte Carlo
            maxima, at_least = exact
            reached = np.searchsorted(maxima, np.abs(statistics) - ROUNDING)
            # Rounding errors of sums of probabilities must not decide whether p < alpha.
            rounded = [float(f"{p:.12g}") for p in at_least.take(reached, mode="clip").flat]
            return np.reshape(rounded, np.shape(statistics))
        maxima = drawn_maxima(self.strata, self.pairs, self.permutations, self.seed)
        found = permutation_pvalues(statistics, maxima, drawn=True)
        if len(self.strata) == 1 and len({*self.strata[0][0]}) == len(self.strata[0][0]):
            # The p of the largest statistic is known.
            separated = np.abs(statistics) > largest_statistic(self.sizes, self.test) - ROUNDING
            found = np.where(separated, smallest_pvalue(self.sizes, self.test), found)
        return found

    def untied(self) -> NullDistribution:
        """Return the distribution for the same numbers of scores without ties."""
        alike = self.method == "asymptotic" or len(self.strata) == 1
        return null_distribution(
            self.test,
            [untied_groups(sizes) for sizes in self.sizes],
            self.method if alike else "auto",
            self.permutations,
            self.seed,
        )

    def critical_statistic(self, level: float) -> float:
        """Return the smallest statistic with p < level without ties; infinite if there is none."""
        return _critical_statistic(self, level)

    @property
    def attainable_pvalue(self) -> float:
        """Smallest p without ties, or a lower bound of it over tasks."""
        if self.method != "asymptotic":
            return smallest_pvalue(self.sizes, self.test)
        largest = largest_statistic(self.sizes, self.test)
        return float(self.untied().pvalues(np.array(largest)))

    def standard_error(self, pvalue: float) -> float:
        """Return the standard error of a p from random arrangements, else 0."""
        if self.method != "monte-carlo":
            return 0.0
        return math.sqrt(pvalue * (1 - pvalue) / self.permutations)


@functools.lru_cache(maxsize=256)
def _critical_statistic(null: NullDistribution, level: float) -> float:
    untied = null.untied()

    def is_rejected(statistic: float) -> bool:
        return bool(untied.pvalues(np.array(statistic)) < level)

    low, high = 0.0, largest_statistic(null.sizes, null.test)
    if not is_rejected(high):
        return math.inf
    while high - low > _PRECISION:
        middle = (low + high) / 2
        low, high = (low, middle) if is_rejected(middle) else (middle, high)
    return high


def affordable_permutations(tasks: Sequence[Sequence[int]], pairs: Pairs) -> int:
    """Return the number of random arrangements for a design.

    It is 200,000 if these need at most as much work as for 10 methods, 10 seeds and 10 tasks. For
    larger designs it falls in proportion to the work of an arrangement, to 2,000 at least. It
    depends only on the numbers of methods, tasks and scores.

    Args:
        tasks: Number of scores of each method, the control first, for each task.
        pairs: P pairs of method indices.

    Example:
        >>> affordable_permutations([[10] * 10] * 10, index_pairs(10))
        200000
        >>> affordable_permutations([[5] * 300], index_pairs(300))
        5266
    """
    work = 0
    for sizes, times in Counter(map(tuple, tasks)).items():
        m, n = np.array(sizes)[np.array(pairs).T]
        compared = np.minimum(m * n, _COUNTED * (m + n)).sum()
        work += times * (int(compared) + _PAIR * len(pairs) + _SCORE * sum(sizes))
    return min(PERMUTATIONS, max(_FEWEST, _BUDGET // work))


def null_distribution(
    test: RankTest,
    tasks: Sequence[Groups],
    method: PvalueMethod = "auto",
    permutations: int | None = None,
    rng: RandomSource = None,
) -> NullDistribution:
    """Choose the null distribution of a test.

    Args:
        test: `"steel-dwass"` for all pairs, `"steel"` for each method against one control.
        tasks: The observed arrangement of each task, `(n_i, 1)` for each group, a control first.
        method: Kind of the distribution; `"auto"` is `"exact"` if it takes about a second (on one
            task up to 1,000,000 arrangements), else `"monte-carlo"`.
        permutations: Number of random arrangements, by default `affordable_permutations`.
        rng: A seed, or a generator from which a seed is drawn; None for a fixed seed.

    Raises:
        TypeError: If `rng` is something else.
        ValueError: If an option is out of range, or `"exact"` needs more arrangements.
    """
    check_option("method", method, PvalueMethod)
    kind: NullMethod = "asymptotic" if method == "asymptotic" else "monte-carlo"
    strata = tuple(
        (tuple(np.sort(np.concatenate(groups), axis=None).tolist()), tuple(map(len, groups)))
        for groups in tasks
    )
    null = NullDistribution(test, strata, "asymptotic")
    if permutations is None:
        permutations = affordable_permutations(null.sizes, null.pairs)
    check_count("permutations", permutations)
    if method in ("auto", "exact"):
        is_exact = exact_maxima(strata, null.pairs) is not None
        if method == "exact" and not is_exact:
            arrangements = sum(math.log10(num_arrangements(sizes)) for sizes in null.sizes)
            raise ValueError(
                f"method='exact' has too many arrangements (one task allows {MAX_ARRANGEMENTS:,}); "
                f"use method='monte-carlo'. Received: about 10^{arrangements:.1f} arrangements"
            )
        kind = "exact" if is_exact else "monte-carlo"
    return replace(
        null,
        method=kind,
        permutations=int(permutations),
        seed=random_seed(rng, drawn=kind == "monte-carlo"),
        loadings=tuple(_loadings(tasks, null.pairs)) if test == "steel" else (),
    )


def _loadings(tasks: Sequence[Groups], pairs: Pairs) -> FloatArray:
    """Return the loadings of Dunnett's distribution, averaged over tasks by variance.

    They are exact if all tasks have the same numbers of scores and no ties.
    """
    of_tasks = np.array(
        [
            rank_loadings(
                [len(group) for group in groups],
                np.unique(np.concatenate(groups), return_counts=True)[1].tolist(),
            )
            for groups in tasks
        ]
    )
    if len(tasks) == 1:
        return of_tasks[0]
    variances = np.array([rank_sums(groups, pairs).variance[:, 0] for groups in tasks])
    total = variances.sum(axis=0)
    squares = (variances * of_tasks**2).sum(axis=0)
    return np.sqrt(np.divide(squares, total, where=total > 0, out=0 * total))


def random_seed(rng: RandomSource, *, drawn: bool) -> int:
    """Return a seed for random arrangements.

    Args:
        rng: A seed, or a generator from which a seed is drawn; None for a fixed seed.
        drawn: If False, no arrangements are drawn, and a generator is not used.

    Raises:
        TypeError: If `rng` is something else.
    """
    if isinstance(rng, np.random.Generator):
        return int(rng.integers(2**63)) if drawn else 0
    if rng is not None and not (isinstance(rng, numbers.Integral) and rng >= 0):
        raise TypeError(
            "`rng` must be a seed (a whole number, at least 0), a numpy.random.Generator or None. "
            f"Received: rng={rng!r}"
        )
    return int(rng or 0)


@functools.lru_cache(maxsize=8)  # tasks without ties and of the same sizes share a distribution
def drawn_maxima(
    strata: tuple[Stratum, ...], pairs: Pairs, permutations: int, seed: int
) -> FloatArray:
    """Return the largest absolute statistic of all pairs in random arrangements.

    Args:
        strata: The tasks, as in `NullDistribution`.
        pairs: P pairs of group indices, a tuple.
        permutations: Number of random arrangements.
        seed: Seed of the arrangements.

    Returns:
        Sorted maxima, shape `(permutations,)`; read-only, because the array is cached.
    """
    rng = np.random.default_rng(seed)
    alike = Counter(strata)
    listed = {
        stratum: _all_sums(stratum, pairs)
        for stratum, times in alike.items()
        if len(strata) > 1 and _is_listed(stratum, pairs, times * permutations)
    }

    def draw(stratum: Stratum, number: int) -> SumsOfPairs:
        if stratum not in listed:
            return _sums_of(shuffled_groups(*_pool(stratum), number, rng), pairs)
        deviation, variance = listed[stratum]
        drawn = rng.integers(deviation.shape[1], size=number)

        def sums(rows: slice) -> RankSums:  # `take` is twice as fast as `[]`
            untied = variance.shape[1] == 1
            variances = variance[rows] if untied else variance[rows].take(drawn, axis=1)
            return RankSums(deviation[rows].take(drawn, axis=1), variances)

        return sums

    largest = np.empty(permutations)
    elements = max(len(codes) for codes, _ in alike)
    most = max(max(sizes) for _, sizes in alike)
    for start, stop in chunks(permutations, elements, most):
        tasks = [draw(stratum, stop - start) for stratum in strata]
        largest[start:stop] = _largest(tasks, len(pairs), stop - start)
        advance("arrangements of the scores", stop, permutations)
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
        strata: The tasks, as in `NullDistribution`.
        pairs: P pairs of group indices, a tuple.

    Returns:
        Sorted maxima and the probability that the maximum is at least as large, both shape `(M,)`;
        None if this takes more than about a second.
    """
    if len(strata) == 1:
        return _enumerated_maxima(strata[0], pairs)
    arrangements = sum(num_arrangements(sizes) for _, sizes in {*strata})
    if arrangements * len(pairs) > _MAX_TERMS // 8:  # enumeration is slower than addition
        return None
    by_task = {stratum: _distinct_sums(stratum, pairs) for stratum in {*strata}}
    # The task with most sums comes last, because the last sums are not merged.
    tasks = sorted((by_task[stratum] for stratum in strata), key=lambda task: task[1].size)
    # Rows that are constant in each task, such as variances without ties, need no convolution.
    constant = np.all([(sums == sums[:, :1]).all(axis=1) for sums, _ in tasks], axis=0)
    total, probability = np.zeros((np.count_nonzero(~constant), 1)), np.ones(1)
    for number, (sums, share) in enumerate(tasks, start=1):
        if (total.size or 1) * share.size > _MAX_TERMS:
            return None
        probability = np.multiply.outer(probability, share).ravel()
        total = total[:, :, None] + sums[~constant][:, None, :]
        total = total.reshape(len(total), probability.size)
        if number < len(tasks):
            total, probability = _merge(total, probability)
    rows = np.empty((constant.size, probability.size))
    rows[~constant] = total
    rows[constant] = sum(sums[constant][:, :1] for sums, _ in tasks)
    largest = np.abs(RankSums(*np.split(rows, 2)).statistic).max(axis=0)
    order = np.argsort(largest, kind="stable")
    at_least = np.cumsum(probability[order][::-1])[::-1]
    return largest[order], at_least / at_least[0]


def _enumerated_maxima(stratum: Stratum, pairs: Pairs) -> tuple[FloatArray, FloatArray] | None:
    """Return the result of `exact_maxima` for one task."""
    sizes = stratum[1]
    total = num_arrangements(sizes)
    if total > MAX_ARRANGEMENTS:
        return None
    if len(set(sizes)) == 1 and len(pairs) == math.comb(len(sizes), 2):
        # The names of the groups do not matter: the arrangements in which the lowest score belongs
        # to the first group, which come first, represent all others.
        total //= len(sizes)
    largest = np.empty(total)
    for start, stop in chunks(total, sum(sizes), max(sizes)):
        groups = enumerated_groups(*_pool(stratum), start, stop)
        largest[start:stop] = _largest([_sums_of(groups, pairs)], len(pairs), stop - start)
        advance("arrangements of the scores", stop, total)
    return np.sort(largest), np.arange(total, 0, -1) / total


def _sums_of(groups: Groups, pairs: Pairs) -> SumsOfPairs:
    tie_sums = tie_sums_of(groups)
    return lambda rows: rank_sums(groups, pairs[rows], tie_sums)


def _largest(tasks: Sequence[SumsOfPairs], num_pairs: int, number: int) -> FloatArray:
    """Return the largest absolute statistic of all pairs in each arrangement, shape `(number,)`."""
    step = max(1, BLOCK_ELEMENTS // number)
    parts = [slice(start, start + step) for start in range(0, num_pairs, step)]
    found = [np.abs(add(sums(rows) for sums in tasks).statistic).max(axis=0) for rows in parts]
    largest: FloatArray = np.max(found, axis=0)
    return largest


def _is_listed(stratum: Stratum, pairs: Pairs, draws: int) -> bool:
    """Return True if listing all arrangements of a task is faster than shuffling its scores."""
    arrangements = num_arrangements(stratum[1])
    return arrangements * len(pairs) <= _MAX_TERMS and draws >= _DRAWS * arrangements


@functools.lru_cache(maxsize=1)  # p and intervals use the same tasks without ties
def _all_sums(stratum: Stratum, pairs: Pairs) -> RankSums:
    """Return the sums of all arrangements of a task."""
    pool, sizes = _pool(stratum)
    parts = [
        rank_sums(enumerated_groups(pool, sizes, start, stop), pairs)
        for start, stop in chunks(num_arrangements(sizes), pool.size, max(sizes))
    ]
    deviations, variances = zip(*parts, strict=True)
    tied = variances[0].shape[1] > 1
    return RankSums(
        np.concatenate(deviations, axis=1),
        np.concatenate(variances, axis=1) if tied else variances[0],
    )


def _distinct_sums(stratum: Stratum, pairs: Pairs) -> tuple[FloatArray, FloatArray]:
    """Return the distinct sums of a task, shape `(2 P, M)`, and their probabilities."""
    deviation, variance = _all_sums(stratum, pairs)
    total = deviation.shape[1]
    sums = np.concatenate([deviation, np.broadcast_to(variance, deviation.shape)])
    return _merge(sums, np.full(total, 1 / total))


def _merge(sums: FloatArray, probability: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Merge equal columns and add their probabilities."""
    key = np.zeros(probability.size, dtype=np.intp)
    for row in np.round(sums, _DECIMALS):
        values, code = np.unique(row, return_inverse=True)
        if values.size > 1:
            # Numbered again for each row, so that the product cannot overflow.
            key = np.unique(key * values.size + code, return_inverse=True)[1]
    _, kept, merged = np.unique(key, return_index=True, return_inverse=True)
    return sums[:, kept], np.bincount(merged, probability).astype(np.float64)


def _pool(stratum: Stratum) -> tuple[Codes, tuple[int, ...]]:
    codes, sizes = stratum
    return np.array(codes, dtype=np.min_scalar_type(codes[-1])), sizes
