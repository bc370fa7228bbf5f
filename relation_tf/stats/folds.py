"""Tests of methods in pairs of scores: on folds of a cross-validation and on test items."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from relation_tf.errors import OptionError
from relation_tf.stats.comparisons import Estimand, PairwiseResult, pairwise_result
from relation_tf.stats.items import mcnemar, read_items
from relation_tf.stats.pair_tests import Difference, TTestResult, holm, t_tests
from relation_tf.stats.samples import (
    FloatArray,
    RankedSamples,
    Samples,
    check_finite,
    check_probability,
    index_pairs,
    rank_samples,
)
from relation_tf.words import count

_MOST_FOLDS = 20  # beyond, they are probably those of a repeated cross-validation


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class CorrectedTResult(TTestResult):
    """Result of `corrected_resampled_t`, with intervals of mean differences; see `TTestResult`.

    Attributes:
        ratio: Number of test rows of a fold divided by its training rows.
    """

    ratio: float

    _replicate = "fold"
    estimand = Estimand(
        "difference of means", "It assumes approximately normal means of the differences."
    )

    def _difference(self, first: FloatArray, second: FloatArray) -> Difference:
        return _corrected(first, second, self.ratio)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class McNemarResult(PairwiseResult):
    """Result of `mcnemar_holm`, with intervals of the differences of accuracies.

    The intervals are those of Bonett and Price, with Bonferroni's correction; p uses Holm's. They
    can disagree near alpha, because McNemar's test has no interval.

    References:
        D. G. Bonett, R. M. Price (2012), Adjusted Wald confidence interval for a difference of
        binomial proportions based on paired data, Journal of Educational and Behavioral Statistics
        37, 479-488.
    """

    _replicate = "item"
    estimand = Estimand(
        "difference of accuracies",
        "The interval is Bonett and Price's for paired items; it can disagree with p near alpha.",
    )

    def discordant(self) -> pd.DataFrame:
        """Return the numbers of items that only a or only b has right, and p, of each pair."""
        only_b, only_a = ((sign * self._differences > 0).sum(axis=1) for sign in (1, -1))
        return self._table(only_a=only_a, only_b=only_b, pvalue=self._of_pairs("pvalue"))

    @property
    def _differences(self) -> FloatArray:
        return np.array([self.samples[b] - self.samples[a] for a, b in self._tested])

    def _limits(self, level: float) -> FloatArray:
        from scipy.special import ndtri

        # One more item that only the first method has right, and one of the second.
        added = np.pad(self._differences, ((0, 0), (1, 1)), constant_values=((0, 0), (-1, 1)))
        number = np.isfinite(added).sum(axis=1)
        half = -ndtri(level / len(added) / 2) * np.nanstd(added, axis=1) / np.sqrt(number)
        ends = (np.clip(np.nanmean(added, axis=1) + side * half, -1, 1) for side in (-1, 1))
        with np.errstate(invalid="ignore"):  # no common items
            return np.array([np.nansum(self._differences, axis=1) / (number - 2), *ends])


def _without_delta(result: PairwiseResult) -> dict[str, Any]:
    """Return the attributes of a test of pairs of scores: Cliff's delta ignores the pairs."""
    return {**vars(result), "effect_size": math.nan * result.effect_size}


def _differences(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the differences on the folds or items that both methods have."""
    differences = second - first
    return differences[~np.isnan(differences)]


def _ranked(samples: Samples, control: Hashable | None, unit: str) -> RankedSamples:
    """Return the samples, with notes on missing scores."""
    ranked = rank_samples(samples, control)
    missing = {name: int(np.isnan(group).sum()) for name, group in ranked.scores.items()}
    notes = [f"{name}: no score on {count(x, unit)}" for name, x in missing.items() if x]
    return replace(ranked, notes=(*notes,))


def corrected_resampled_t(
    samples: Samples,
    alpha: float = 0.05,
    *,
    control: Hashable | None = None,
    higher_is_better: bool = True,
    test_share: float | None = None,
) -> CorrectedTResult:
    """Compare methods on the folds of a cross-validation with the corrected resampled t test.

    Folds share training rows, so their scores are not independent, and tests that treat them as
    seeds find differences too often. With the differences d of two methods on k folds, and the
    ratio r of test rows to training rows of a fold, the statistic is

    `t = mean(d) / sqrt((1 / k + r) var(d))`

    with k - 1 degrees of freedom. p is adjusted for several pairs with Holm's method. A pair whose
    differences do not vary over the folds, or with fewer than two common folds, is not tested
    (p = 1, with a note).

    Args:
        samples: Scores of each method, as in `steel_dwass`; fold i of all methods is at place i. A
            pair is tested without the folds where one of its methods has NaN, with a note.
        alpha: Level of the test.
        control: Method to compare all others with; by default all pairs are compared.
        higher_is_better: If True, higher scores are better.
        test_share: Share of the rows in the test set of a fold, in (0, 1): 0.1 for 10 folds, also
            if these are repeated. Default: one in all folds, as in one k-fold cross-validation;
            required for more than 20 folds.

    Returns:
        A `CorrectedTResult` with signed t; `print` shows it.

    Raises:
        TypeError: If the samples have an unknown form or contain something other than numbers.
        ValueError: If methods have different numbers of folds, or fewer than two, a score is not
            finite, the control is not among the samples, or an option is out of range.

    Example:
        >>> mlp = [0.70, 0.72, 0.69, 0.71, 0.73]
        >>> relation = [0.75, 0.76, 0.73, 0.77, 0.77]
        >>> result = corrected_resampled_t({"mlp": mlp, "relation": relation})
        >>> print(f"{result.pvalue.loc['mlp', 'relation']:.4f}")
        0.0016

    References:
        C. Nadeau, Y. Bengio (2003), Inference for the generalization error, Machine Learning 52,
        239-281.
    """
    check_probability("alpha", alpha)
    ranked = _ranked(samples, control, "fold")
    sizes = {name: group.size for name, group in ranked.scores.items()}
    for name, group in ranked.scores.items():
        check_finite(np.where(np.isnan(group), 0, group), name, 2)
    if len({*sizes.values()}) > 1:
        raise ValueError(f"all methods must have the same folds. Received: numbers {sizes}")
    folds = max(sizes.values())
    if test_share is not None:
        check_probability("test_share", test_share)
    elif folds > _MOST_FOLDS:
        raise OptionError(
            "test_share",
            f"must be given for more than {_MOST_FOLDS} folds, such as 0.1 for repeated 10-fold "
            f"cross-validation. Received: {folds} folds",
        )
    share = 1 / folds if test_share is None else test_share
    ratio = share / (1 - share)
    result = t_tests(
        "corrected-t",
        ranked,
        partial(_corrected, ratio=ratio),
        alpha=alpha,
        higher_is_better=higher_is_better,
        control=control,
    )
    return CorrectedTResult(**_without_delta(result), ratio=ratio)


def _corrected(first: FloatArray, second: FloatArray, ratio: float) -> Difference:
    differences = _differences(first, second)
    mean = float(differences.mean()) if differences.size else math.nan
    error = 0.0
    if differences.size > 1 and np.ptp(differences) > 1e-12 * np.nanmax(np.abs([first, second])):
        error = math.sqrt((1 / differences.size + ratio) * differences.var(ddof=1))
    return Difference(mean, error, differences.size - 1)


def mcnemar_holm(
    samples: Samples,
    alpha: float = 0.05,
    *,
    control: Hashable | None = None,
    higher_is_better: bool = True,
) -> McNemarResult:
    """Compare methods on the same test items with McNemar's mid-p test.

    Each pair is tested with `mcnemar`. p is adjusted for several pairs with Holm's method.
    The result generalizes to other items for these trained models, not to other seeds.

    Args:
        samples: Scores of each method, as in `steel_dwass`: 1 or True for a right item, else 0;
            item i of all methods is at place i. A pair is tested without the items where one of its
            methods has NaN, with a note.
        alpha: Level of the test.
        control: Method to compare all others with; by default all pairs are compared.
        higher_is_better: If True, 1 is the better score.

    Returns:
        A `McNemarResult`. The statistic is the number of items on which only the second method
        has a 1, minus that of the first.

    Raises:
        TypeError: If the samples have an unknown form or contain something other than numbers.
        ValueError: If methods have different numbers of items, a score is not 0 or 1, the control
            is not among the samples, or an option is out of range.

    Example:
        >>> first, second = [1] * 11 + [0] * 9, [1] * 10 + [0] + [1] * 8 + [0]
        >>> result = mcnemar_holm({"small": first, "large": second})
        >>> print(f"{result.pvalue.loc['small', 'large']:.4f}")
        0.0215
    """
    check_probability("alpha", alpha)
    ranked = _ranked(read_items(samples), control, "item")
    groups = list(ranked.scores.values())
    unlike = [
        _differences(groups[i], groups[j]) for i, j in index_pairs(len(groups), control is not None)
    ]
    # Right only with the second method, or only with the first one.
    pvalues = [mcnemar(x < 0, x > 0, np.ones(x.size)).pvalue if x.size > 1 else 1.0 for x in unlike]
    result = pairwise_result(
        "mcnemar" if control is None else "mcnemar-control",
        ranked,
        [float(x.sum()) for x in unlike],
        holm(np.array(pvalues)),
        alpha=alpha,
        higher_is_better=higher_is_better,
        control=control,
    )
    return McNemarResult(**_without_delta(result))
