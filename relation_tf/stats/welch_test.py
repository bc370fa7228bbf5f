"""Welch's t test of pairs of methods, with Holm's adjustment and simultaneous intervals."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from relation_tf.registry import PROCEDURES
from relation_tf.stats.checks import check_probability
from relation_tf.stats.comparisons import Estimand, PairwiseResult, as_kind, pairwise_result
from relation_tf.stats.pairwise import index_pairs
from relation_tf.stats.samples import (
    FloatArray,
    Samples,
    check_finite,
    control_first,
    groups_of,
    rank_samples,
)
from relation_tf.stats.spread import error_of_sum
from relation_tf.stats.unequal_spread import holm


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
            found = _welch(first, second)
            half = math.inf if found is None else float(-stdtrit(found.freedom, level / 2))
            half *= 1 if found is None else found.error
            difference = float(second.mean() - first.mean())
            rows.append((difference, difference - half, difference + half))
        differences, lows, highs = zip(*rows, strict=True)
        return self._table(difference=differences, low=lows, high=highs)


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
    check_probability("alpha", alpha)
    ordered = control_first(groups_of(samples), control)
    ranked = rank_samples(ordered, higher_is_better=higher_is_better)
    names, groups = list(ranked.scores), list(ranked.scores.values())
    for name, own in ranked.scores.items():
        check_finite(own, name)
    pairs = index_pairs(len(groups), control is not None)
    tests = [_welch(groups[i], groups[j]) for i, j in pairs]
    notes = [
        f"{names[i]} and {names[j]}: not tested, because the variance of a mean is unknown or 0"
        for (i, j), test in zip(pairs, tests, strict=True)
        if test is None
    ]
    found = pairwise_result(
        PROCEDURES["welch" if control is None else "welch-control"],
        ranked,
        [0.0 if test is None else test.statistic for test in tests],
        holm(np.array([1.0 if test is None else test.pvalue for test in tests])),
        alpha=alpha,
        higher_is_better=higher_is_better,
        control=control,
        notes=notes,
    )
    return as_kind(found, WelchResult)


class _Welch(NamedTuple):
    statistic: float
    pvalue: float  # two-sided
    error: float  # standard error of the difference
    freedom: float


def _welch(first: FloatArray, second: FloatArray) -> _Welch | None:
    """Return Welch's t test; None if the variance is unknown or 0."""
    from scipy.special import stdtr

    if min(first.size, second.size) < 2:
        return None
    error, freedom = error_of_sum([first, second])
    if not error:
        return None
    t = float((second.mean() - first.mean()) / error)
    return _Welch(t, float(2 * stdtr(freedom, -abs(t))), error, freedom)
