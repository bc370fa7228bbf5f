"""Joint null distribution of the rank statistics of all tested pairs."""

from __future__ import annotations

import bisect
import functools
import math
import numbers
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from relation_tf.stats.checks import check_count, check_option
from relation_tf.stats.design import (
    RankTest,
    asymptotic_pvalues,
    attainable_pvalue,
    largest_statistic,
)
from relation_tf.stats.pairwise import (
    MAX_ARRANGEMENTS,
    ROUNDING,
    Groups,
    Pairs,
    index_pairs,
    num_arrangements,
    permutation_maxima,
    permutation_pvalues,
    untied_groups,
)
from relation_tf.stats.samples import FloatArray

NullMethod: TypeAlias = Literal["asymptotic", "exact", "monte-carlo"]
PvalueMethod: TypeAlias = Literal["auto", "asymptotic", "exact", "monte-carlo"]
RandomSource: TypeAlias = int | np.random.Generator | None

PERMUTATIONS = 200_000  # the standard error of a p of .05 is .0005
_FEWEST = 2_000  # the standard error of a p of .05 is .005
# Work in comparisons of two scores. 10 methods x 10 seeds x 10 tasks have 200,000 arrangements.
_BUDGET = 30_000_000_000
_PAIR = 100  # statistic of a pair
_SCORE = 60  # drawing a score
_COUNTED = 128  # comparing a score of large groups by counts


@dataclass(frozen=True)
class NullDistribution:
    """Null distribution of the largest absolute statistic of all tested pairs.

    Attributes:
        test: `"steel-dwass"` for all pairs, `"steel"` for each method against one control.
        method: Kind of the distribution.
        permutations: Number of random arrangements for `"monte-carlo"`.
        seed: Seed of the random arrangements.
    """

    test: RankTest
    method: NullMethod
    permutations: int = PERMUTATIONS
    seed: int = 0

    def pvalues(self, statistics: FloatArray, groups: Groups) -> FloatArray:
        """Return the family-wise p of statistics of any size.

        Args:
            statistics: Standardized U statistics, any shape.
            groups: An arrangement of the pooled scores, `(n_i, 1)` each, the control first.

        Returns:
            p, same shape as the statistics.
        """
        sizes = [len(group) for group in groups]
        multiplicity = np.unique(np.concatenate(groups), return_counts=True)[1]
        if self.method == "asymptotic":
            return asymptotic_pvalues(statistics, sizes, self.test, multiplicity.tolist())
        drawn = self.method == "monte-carlo"
        pairs = index_pairs(len(groups), self.test == "steel")
        maxima = permutation_maxima(
            groups, pairs, self.permutations if drawn else None, self.seed if drawn else 0
        )
        found = permutation_pvalues(statistics, maxima, drawn=drawn)
        if drawn and multiplicity.max() == 1:  # the p of the largest statistic is known
            separated = np.abs(statistics) > largest_statistic(sizes, self.test) - ROUNDING
            best = attainable_pvalue(len(sizes), sizes, "exact", test=self.test)
            found = np.where(separated, best, found)
        return found

    def num_rejected(self, sizes: Sequence[int], m: int, n: int, level: float) -> int:
        """Return how many of the values U = 0, 1, ... of a pair have p < level, without ties.

        Args:
            sizes: Number of scores of each method, the control first.
            m: Number of scores of the first method of the pair.
            n: Number of scores of the second one.
            level: Level of the test.

        Returns:
            Number of values, up to half of m n; as many of the largest values are rejected.
        """
        return _num_rejected(self, tuple(sizes), m, n, level)

    def standard_error(self, pvalue: float) -> float:
        """Return the standard error of a p from random arrangements, else 0."""
        if self.method != "monte-carlo":
            return 0.0
        return math.sqrt(pvalue * (1 - pvalue) / self.permutations)


@functools.lru_cache(maxsize=256)  # tasks with the same numbers of scores share it
def _num_rejected(
    null: NullDistribution, sizes: tuple[int, ...], m: int, n: int, level: float
) -> int:
    groups, deviation = untied_groups(sizes), math.sqrt(m * n * (m + n + 1) / 12)

    def accepted(wins: int) -> bool:
        statistic = np.array((m * n / 2 - wins) / deviation)
        return bool(null.pvalues(statistic, groups) >= level)

    return bisect.bisect_left(range((m * n + 1) // 2), True, key=accepted)


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
    sizes: Sequence[int],
    method: PvalueMethod = "auto",
    permutations: int | None = None,
    rng: RandomSource = None,
) -> NullDistribution:
    """Choose the null distribution of a design.

    Args:
        test: `"steel-dwass"` for all pairs, `"steel"` for each method against one control.
        sizes: Number of scores of each method, the control first.
        method: Kind of the distribution; `"auto"` is `"exact"` up to 1,000,000 arrangements, else
            `"monte-carlo"`.
        permutations: Number of random arrangements, by default `affordable_permutations`.
        rng: A seed, or a generator from which a seed is drawn; None for a fixed seed.

    Raises:
        TypeError: If `rng` is something else.
        ValueError: If an option is out of range, or `"exact"` needs more arrangements.
    """
    if permutations is None:
        permutations = affordable_permutations([sizes], index_pairs(len(sizes), test == "steel"))
    total = num_arrangements(sizes)
    possible = total <= MAX_ARRANGEMENTS
    refusal = (
        f"method='exact' allows at most {MAX_ARRANGEMENTS:,} arrangements; use method="
        f"'monte-carlo'. Received: about 10^{math.log10(total):.1f} arrangements"
    )
    return choose_method(test, method, permutations, rng, lambda: possible, refusal)


def choose_method(
    test: RankTest,
    method: PvalueMethod,
    permutations: int,
    rng: RandomSource,
    enumerable: Callable[[], bool],
    refusal: str,
) -> NullDistribution:
    """Return the null distribution of a requested method, or the best one for `"auto"`.

    Args:
        test: `"steel-dwass"` for all pairs, `"steel"` for each method against one control.
        method: Kind of the distribution; `"auto"` is `"exact"` if it is enumerable, else
            `"monte-carlo"`.
        permutations: Number of random arrangements.
        rng: A seed, or a generator from which a seed is drawn; None for a fixed seed.
        enumerable: Returns True if the exact distribution can be enumerated; called only if needed.
        refusal: Message of the error if `"exact"` is requested and not enumerable.

    Raises:
        TypeError: If `rng` is something else.
        ValueError: If an option is out of range, or the exact distribution is not enumerable.
    """
    check_option("method", method, PvalueMethod)
    check_count("permutations", permutations)
    kind: NullMethod = "exact"
    if method in ("asymptotic", "monte-carlo"):
        kind = method
    elif not enumerable():
        if method == "exact":
            raise ValueError(refusal)
        kind = "monte-carlo"
    seed = random_seed(rng, drawn=kind == "monte-carlo")
    return NullDistribution(test, kind, int(permutations), seed)


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
