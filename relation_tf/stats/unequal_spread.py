"""Tests of pairs of methods whose scores differ in spread: Brunner-Munzel and Welch.

A joint permutation of the scores of all methods, as in `steel_dwass`, is not valid if the methods
differ in spread: it assumes that all scores have one distribution. These tests use the scores of
one pair at a time and adjust p over the pairs with Holm's method.

Share of false positives in percent (any pair significant, alpha = .05, normal scores with equal
means, 20,000 simulations each, `tests/stats/test_unequal_spread.py`):

| methods x seeds | SDs | Steel-Dwass, exact | Brunner-Munzel | Welch |
| --- | --- | --- | --- | --- |
| 4 x 5 | equal | 4.2 | 4.2 | 3.6 |
| 4 x 5 | one 3 times the others | 5.4 | 5.4 | 3.8 |
| 4 x 5 | one 10 times the others | 7.3 | 7.3 | 3.2 |
| 4 x 5 | one a tenth of the others | 11.9 | 11.9 | 4.3 |
| 4 x 10 | one a tenth of the others | 7.6 | 6.1 | 3.8 |
| 4 x 15 | one a tenth of the others | 9.2 | 4.6 | 3.7 |
| 2 x 5 | 10:1 | 6.1 | 6.2 | 5.3 |
| 2 x 10 | 10:1 | 8.9 | 6.6 | 5.2 |
| 2 x 15 | 10:1 | 10.0 | 5.4 | 5.1 |
"""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from relation_tf.registry import PROCEDURES
from relation_tf.stats.checks import check_count, check_probability
from relation_tf.stats.comparisons import Estimand, PairwiseResult, as_kind, pairwise_result
from relation_tf.stats.design import samples_needed
from relation_tf.stats.null_distribution import PERMUTATIONS, RandomSource, random_seed
from relation_tf.stats.pairwise import arrangements, index_pairs, permutation_pvalues
from relation_tf.stats.samples import (
    TIE_RTOL,
    FloatArray,
    NanPolicy,
    Samples,
    check_finite,
    control_first,
    groups_of,
    rank_samples,
)
from relation_tf.stats.spread import error_of_sum

_CHUNK = 20_000  # arrangements at once
_MOST_LABELS = 2**22  # at once: scores times arrangements
_MOST_SHIFTS = 2_000  # tested for an interval; of more, evenly spaced ones

Labels = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class BrunnerMunzelResult(PairwiseResult):
    """Result of `brunner_munzel`: a `PairwiseResult` with intervals of the median differences.

    Attributes:
        permutations: Largest number of arrangements that are enumerated.
        seed: Seed of random arrangements.
    """

    permutations: int
    seed: int

    @property
    def estimand(self) -> Estimand:
        """Difference that `confidence_interval` estimates."""
        return Estimand(
            "median difference",
            "After this shift neither method is more likely to be ahead; spreads may differ.",
        )

    def confidence_interval(self, confidence: float | None = None) -> pd.DataFrame:
        """Return simultaneous confidence intervals of the median difference of two scores.

        The median difference is the shift of b after which P(b > a) + P(b = a) / 2 = 1/2, the null
        hypothesis of the test. An interval contains each shift that the test of the pair does not
        reject at the level `(1 - confidence) / number of pairs` (Bonferroni), so it includes 0 if
        the pair does not differ significantly. It can also include 0 if p, which is adjusted with
        Holm's method, is just below `1 - confidence`. The limits are two of the differences between
        a score of b and one of a. A limit is infinite if so few scores cannot reject any shift, or
        if a score is not finite. With more than 2,000 differences, intervals can be slightly wider.

        Args:
            confidence: Joint coverage of all intervals, between 0 and 1; by default 1 - alpha.

        Returns:
            A table with columns `a`, `b`, `difference` (median of all scores of b minus all scores
            of a), `low` and `high`.

        Raises:
            ValueError: If the confidence is out of range.

        Example:
            >>> scores = {"a": [1, 2, 3, 4, 5], "b": [6, 7, 8, 9, 10.5]}
            >>> print(brunner_munzel(scores).confidence_interval().to_string(index=False))
            a b  difference  low  high
            a b         5.0  3.0   7.5
        """
        joint = self._level(confidence)
        level = joint / len(self._named)
        rows = []
        for (a, b), pvalue in zip(self._named, self._of_pairs("pvalue"), strict=True):
            first, second = self.samples[a], self.samples[b]
            if not np.isfinite([*first, *second]).all():
                rows.append((np.nan, -math.inf, math.inf))
                continue
            low, high = _accepted_shifts(first, second, level, self.permutations, self.seed)
            if pvalue >= joint:  # ties can make the test accept 0 only
                low, high = min(low, 0.0), max(high, 0.0)
            median = float(np.median(np.subtract.outer(second, first)))
            rows.append((median, low, high))
        return self._intervals(rows)


def brunner_munzel(
    samples: Samples,
    alpha: float = 0.05,
    *,
    control: Hashable | None = None,
    higher_is_better: bool = True,
    nan: NanPolicy = "worst",
    rtol: float = TIE_RTOL,
    permutations: int = PERMUTATIONS,
    rng: RandomSource = None,
) -> BrunnerMunzelResult:
    """Compare pairs of methods with the studentized permutation test of Brunner and Munzel.

    The placement of a score is the number of scores of the other method below it; ties count one
    half. For n scores of the first and m of the second method, with the placements' sample
    variances `S_1^2` and `S_2^2` and the sum P of the second method's placements, the statistic is

    `W = (P - n m / 2) / sqrt(n S_1^2 + m S_2^2)`.

    The null hypothesis is P(second > first) + P(equal) / 2 = 1/2. Spreads may differ, unlike in
    `steel_dwass`. If the scores of the two methods do not overlap, both variances are 0 and W is
    infinite; infinite values are equal to each other and larger than all others. p is the share
    of arrangements of the pair's n + m scores with |W| at least as large: of all arrangements if
    there are at most `permutations`, else of a random sample. Holm's method adjusts p for the
    number of pairs.

    p of a pair is exact if the two distributions are equal, and asymptotically valid if only their
    spread differs. With SDs of 10:1 the level is .05 from about 15 seeds. With 4 methods and 5
    seeds the test is no better than `steel_dwass`: in both only pairs without overlap can be
    significant. If the scores of one method are nearly equal, 5 scores of another are all on one
    side of them with probability 1/16, so no test by ranks can help. Use `welch` with few seeds.
    The module's docstring has measured error rates.

    Args:
        samples: Scores of each method, as in `steel_dwass`.
        alpha: Level of the test; p < alpha is significant.
        control: Method to compare all others with; by default all pairs are compared.
        higher_is_better: If True, higher scores are better and NaN is ranked lowest.
        nan: `"worst"` ranks NaN (a diverged run) worst and adds a note; `"raise"` raises an error.
        rtol: Relative tolerance of ties: neighboring scores within it are tied.
        permutations: Largest number of arrangements that are enumerated, and the number of random
            arrangements for larger samples.
        rng: Seed of the random arrangements, or a `numpy.random.Generator` to draw it from. None
            is a fixed seed.

    Returns:
        A `BrunnerMunzelResult` with signed W; `print` shows it.

    Raises:
        TypeError: If the samples have an unknown form or contain something other than numbers.
        ValueError: If the control is not among the samples, there are fewer than two groups, a
            group is empty, or an option is out of range.

    Example:
        >>> scores = {"a": [1, 2, 3, 4, 5], "b": [6, 7, 8, 9, 10], "c": [0, 4.5, 7.5, 8.5, 20]}
        >>> brunner_munzel(scores).pairs()["pvalue"].round(4).tolist()
        [0.0238, 0.4444, 0.6508]

    References:
        E. Brunner, U. Munzel (2000), The nonparametric Behrens-Fisher problem: asymptotic theory
        and a small-sample approximation, Biometrical Journal 42, 17-25.
        K. Neubert, E. Brunner (2007), A studentized permutation test for the non-parametric
        Behrens-Fisher problem, Computational Statistics & Data Analysis 51, 5192-5204.
        S. Holm (1979), A simple sequentially rejective multiple test procedure, Scandinavian
        Journal of Statistics 6, 65-70.
    """
    check_probability("alpha", alpha)
    check_count("permutations", permutations)
    groups = control_first(groups_of(samples), control)
    ranked = rank_samples(groups, higher_is_better=higher_is_better, nan=nan, rtol=rtol)
    codes, sizes = list(ranked.codes.values()), ranked.sizes.tolist()
    pairs = index_pairs(len(codes), control is not None)
    drawn = any(math.comb(sizes[i] + sizes[j], sizes[i]) > permutations for i, j in pairs)
    seed = random_seed(rng, drawn=drawn)
    statistics, pvalues = [], []
    for i, j in pairs:
        pooled = np.concatenate([codes[i], codes[j]])
        order = np.argsort(pooled, kind="stable")
        ties = tuple(np.unique(pooled, return_counts=True)[1].tolist())
        null = _null(ties, sizes[j], permutations, seed)
        observed = _statistics((order >= sizes[i]).astype(np.int64)[None], ties)
        statistics.append(observed[0])
        drawn_pair = null.size < math.comb(pooled.size, sizes[i])
        pvalues.append(permutation_pvalues(observed, null, drawn=drawn_pair)[0])
    attainable = min(_attainable(sizes[i], sizes[j], permutations) for i, j in pairs)
    name = "brunner-munzel" if control is None else "brunner-munzel-control"
    bound = PROCEDURES[name].attainable_pvalue
    assert bound is not None
    notes = [f"P-values come from {permutations:,} random permutations of each pair, seed {seed}"]
    found = pairwise_result(
        PROCEDURES[name],
        ranked,
        statistics,
        holm(np.array(pvalues)),
        alpha=alpha,
        method="monte-carlo" if drawn else "exact",
        higher_is_better=higher_is_better,
        control=control,
        attainable_pvalue=min(1.0, len(pairs) * attainable),
        seeds_needed=samples_needed(functools.partial(bound, len(codes)), alpha),
        notes=notes if drawn else [],
    )
    return as_kind(found, BrunnerMunzelResult, permutations=permutations, seed=seed)


@dataclass(frozen=True, eq=False, repr=False)
class WelchResult(PairwiseResult):
    """Result of `welch`: a `PairwiseResult` with intervals of the differences of means."""

    @property
    def estimand(self) -> Estimand:
        """Difference that `confidence_interval` estimates."""
        return Estimand(
            "difference of means", "It assumes approximately normal means; spreads may differ."
        )

    def confidence_interval(self, confidence: float | None = None) -> pd.DataFrame:
        """Return simultaneous confidence intervals of the differences of means.

        Each interval is Welch's, at the level `(1 - confidence) / number of pairs` (Bonferroni). It
        includes 0 if the pair does not differ significantly. It can also include 0 if p, which is
        adjusted with Holm's method, is just below `1 - confidence`. An interval is infinite if the
        pair is not tested.

        Args:
            confidence: Joint coverage of all intervals, between 0 and 1; by default 1 - alpha.

        Returns:
            A table with columns `a`, `b`, `difference` (mean of b minus mean of a), `low`, `high`.

        Raises:
            ValueError: If the confidence is out of range.

        Example:
            >>> scores = {"a": [1, 2, 3, 4, 5], "b": [6, 7, 8, 9, 10]}
            >>> print(welch(scores).confidence_interval().round(2).to_string(index=False))
            a b  difference  low  high
            a b         5.0 2.69  7.31
        """
        from scipy.special import stdtrit

        level = self._level(confidence) / len(self._named)
        rows = []
        for a, b in self._named:
            first, second = self.samples[a], self.samples[b]
            error, freedom = _welch_error(first, second)
            half = -stdtrit(freedom, level / 2) * error if error else math.inf
            difference = second.mean() - first.mean()
            rows.append((difference, difference - half, difference + half))
        return self._intervals(rows)


def welch(
    samples: Samples,
    alpha: float = 0.05,
    *,
    control: Hashable | None = None,
    higher_is_better: bool = True,
) -> WelchResult:
    """Compare pairs of methods with Welch's t test of two means, adjusted with Holm's method.

    With means `m`, sample variances `s^2` and n scores per method, the statistic is

    `t = (m_2 - m_1) / sqrt(s_1^2 / n_1 + s_2^2 / n_2)`

    with the degrees of freedom of Welch and Satterthwaite. It assumes approximately normal means;
    spreads may differ. With normal scores it keeps its level for any SDs and numbers of seeds; the
    docstring of `relation_tf.stats.unequal_spread` has measured error rates. If some runs collapse,
    it has little power.

    A pair is not tested (p = 1, with a note) if a method has one score, or all scores of each
    method are equal.

    Args:
        samples: Scores of each method, as in `steel_dwass`.
        alpha: Level of the test; p < alpha is significant.
        control: Method to compare all others with; by default all pairs are compared.
        higher_is_better: If True, higher scores are better.

    Returns:
        A `WelchResult` with signed t; `print` shows it.

    Raises:
        TypeError: If the samples have an unknown form or contain something other than numbers.
        ValueError: If the control is not among the samples, there are fewer than two groups, a
            group is empty, or a score is not finite: it has no mean with others.

    Example:
        >>> scores = {"a": [1, 2, 3, 4, 5], "b": [6, 7, 8, 9, 10], "c": [0, 4.5, 7.5, 8.5, 20]}
        >>> welch(scores).pairs()["pvalue"].round(4).tolist()
        [0.0032, 0.4036, 0.9778]

    References:
        B. L. Welch (1947), The generalization of "Student's" problem when several different
        population variances are involved, Biometrika 34, 28-35.
    """
    from scipy.special import stdtr

    check_probability("alpha", alpha)
    ordered = control_first(groups_of(samples), control)
    ranked = rank_samples(ordered, higher_is_better=higher_is_better)
    names, groups = list(ranked.scores), list(ranked.scores.values())
    for name, scores in ranked.scores.items():
        check_finite(scores, name)
    statistics, pvalues, notes = [], [], []
    for i, j in index_pairs(len(groups), control is not None):
        error, freedom = _welch_error(groups[i], groups[j])
        statistic = float((groups[j].mean() - groups[i].mean()) / error) if error else 0.0
        statistics.append(statistic)
        pvalues.append(float(2 * stdtr(freedom, -abs(statistic))) if error else 1.0)
        if not error:
            notes.append(
                f"{names[i]} and {names[j]}: not tested, because the variance of a mean is unknown "
                "or 0"
            )
    found = pairwise_result(
        PROCEDURES["welch" if control is None else "welch-control"],
        ranked,
        statistics,
        holm(np.array(pvalues)),
        alpha=alpha,
        higher_is_better=higher_is_better,
        control=control,
        notes=notes,
    )
    return as_kind(found, WelchResult)


def _welch_error(first: FloatArray, second: FloatArray) -> tuple[float, float]:
    """Return the error of the difference and its degrees of freedom; error 0 if it is unknown."""
    return error_of_sum([first, second]) if min(first.size, second.size) > 1 else (0.0, math.nan)


def holm(pvalues: FloatArray) -> FloatArray:
    """Return p adjusted for several tests with Holm's step-down method.

    Args:
        pvalues: p of each test, shape `(P,)`.

    Returns:
        Family-wise p, in the order of the tests.

    Example:
        >>> holm(np.array([0.01, 0.04, 0.03])).round(4).tolist()
        [0.03, 0.06, 0.06]
    """
    order = np.argsort(pvalues, kind="stable")
    adjusted = np.empty(pvalues.size)
    factors = np.arange(pvalues.size, 0, -1)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(pvalues[order] * factors))
    return adjusted


def attainable_with_holm(
    num_methods: int, num_seeds: int, *, against_control: bool = False
) -> float:
    """Return the smallest p of `brunner_munzel` for equal numbers of scores without ties.

    Args:
        num_methods: Number of methods, including the control.
        num_seeds: Number of scores per method.
        against_control: If True, only pairs with the control are tested.

    Example:
        >>> round(attainable_with_holm(4, 5), 4)
        0.0476
    """
    check_count("num_methods", num_methods, 2)
    check_count("num_seeds", num_seeds)
    pairs = len(index_pairs(num_methods, against_control))
    return min(1.0, pairs * _attainable(num_seeds, num_seeds, PERMUTATIONS))


def _attainable(n: int, m: int, permutations: int) -> float:
    """Return the smallest p of a pair: no overlap, in either order."""
    exact = 2 / math.comb(n + m, n)
    return exact if math.comb(n + m, n) <= permutations else max(exact, 1 / (permutations + 1))


# Pairs without ties and with the same numbers of scores share one distribution.
@functools.lru_cache(maxsize=64)
def _null(ties: tuple[int, ...], second: int, permutations: int, seed: int) -> FloatArray:
    """Return sorted absolute statistics of a pair's arrangements.

    Args:
        ties: Number of occurrences of each distinct score, in ascending order of the scores.
        second: Number of scores of the second method.
        permutations: Largest number of arrangements.
        seed: Seed of random arrangements.
    """
    total = sum(ties)
    count = math.comb(total, second)
    drawn = min(count, permutations)
    step = max(1, min(_CHUNK, _MOST_LABELS // total))
    rng = np.random.default_rng(seed)
    one = np.repeat([0, 1], [total - second, second])
    statistics = []
    for start in range(0, drawn, step):
        rows = np.arange(start, min(start + step, drawn))
        if count <= permutations:
            labels = arrangements((total - second, second), rows).astype(np.int64)
        else:
            labels = rng.permuted(np.tile(one, (rows.size, 1)), axis=1)
        statistics.append(_statistics(labels, ties))
    null = np.sort(np.abs(np.concatenate(statistics)))
    null.flags.writeable = False
    return null


def _statistics(labels: Labels, ties: Sequence[int]) -> FloatArray:
    """Return Brunner and Munzel's statistic of each arrangement of a pair's sorted scores.

    All sums are of whole numbers (twice the placements), so a variance of 0 is found exactly.

    Args:
        labels: 1 where a sorted score is of the second method, else 0; shape `(B, N)`.
        ties: Number of occurrences of each distinct score, in ascending order.

    Returns:
        Statistics, shape `(B,)`; infinite if the methods do not overlap, 0 if all scores are equal.
    """
    _, of_first = _placements(1 - labels, labels, ties)
    total, of_second = _placements(labels, 1 - labels, ties)
    second = labels.sum(axis=1)
    excess = (total - (labels.shape[1] - second) * second) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(excess == 0, 0.0, excess / np.sqrt(of_first + of_second))


def _placements(method: Labels, other: Labels, ties: Sequence[int]) -> tuple[Labels, FloatArray]:
    """Return twice the sum of a method's placements, and their variance times their number.

    Args:
        method: 1 where a sorted score is of this method, else 0; shape `(B, N)`.
        other: 1 where it is of the other method, else 0.
        ties: Number of occurrences of each distinct score, in ascending order.

    Returns:
        Two arrays of shape `(B,)`. The variance of one score is 0.
    """
    ends = np.cumsum(ties)
    start, end = np.repeat(ends - ties, ties), np.repeat(ends, ties)
    below = np.pad(np.cumsum(other, axis=1), ((0, 0), (1, 0)))
    doubled = (below[:, start] + below[:, end]) * method
    size, total = method.sum(axis=1), doubled.sum(axis=1)
    squares = size * (doubled**2).sum(axis=1) - total**2
    return total, squares / (4 * np.maximum(size - 1, 1))


def _accepted_shifts(
    first: FloatArray, second: FloatArray, level: float, permutations: int, seed: int
) -> tuple[float, float]:
    """Return the smallest interval with all shifts of the second method that are not rejected.

    Between two ordered differences of scores the order of all scores, and with it p, does not
    change, so one shift of each such gap is tested. W can fall while the shift moves away from the
    median, so all gaps are tested, not only those around the limits.

    Args:
        first: Scores, shape `(n,)`.
        second: Scores, shape `(m,)`.
        level: Level of the test.
        permutations: As for `brunner_munzel`.
        seed: Seed of random arrangements.
    """
    edges = np.unique(np.subtract.outer(second, first))
    ends = np.concatenate([[-np.inf], edges, [np.inf]])
    gaps = np.arange(0, edges.size + 1, math.ceil((edges.size + 1) / _MOST_SHIFTS))
    middles = np.concatenate([[edges[0] - 1], (edges[1:] + edges[:-1]) / 2, [edges[-1] + 1]])[gaps]
    shifted = second - middles[:, None]
    pooled = np.hstack([np.broadcast_to(first, (gaps.size, first.size)), shifted])
    labels = (np.argsort(pooled, axis=1, kind="stable") >= first.size).astype(np.int64)
    ties = (1,) * pooled.shape[1]
    null = _null(ties, second.size, permutations, seed)
    drawn = null.size < math.comb(pooled.shape[1], second.size)
    accepted = permutation_pvalues(_statistics(labels, ties), null, drawn=drawn) >= level
    kept = np.flatnonzero(accepted)
    if not kept.size:  # only shifts at which scores are tied are accepted
        return float(edges[0]), float(edges[-1])
    # Gaps that were not tested next to an accepted one count as accepted.
    before = gaps[kept[0] - 1] + 1 if kept[0] else 0
    after = gaps[kept[-1] + 1] if kept[-1] + 1 < gaps.size else edges.size + 1
    return float(ends[before]), float(ends[after])
