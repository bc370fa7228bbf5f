"""Uncertainty from test rows: a bootstrap over rows and seeds, and a test of two methods by rows.

A p of seeds generalizes to other seeds on the same test rows. The functions of this module need the
predictions of each seed for each row.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from relation_tf.registry import METRICS
from relation_tf.stats.samples import FloatArray, Samples, check_count, read_groups
from relation_tf.words import count, format_pvalue, signed

_CHUNK_WEIGHTS = 2_000_000  # weights of rows at once: 16 MB
_NEGLIGIBLE = 1e-40  # probabilities below it are left out of a convolution


@dataclass(frozen=True)
class ScoreErrors:
    """Standard errors of a method's mean score over seeds, by source.

    Attributes:
        score: Mean over seeds.
        num_rows: Number of test rows.
        num_seeds: Number of seeds.
        seeds_sd: Standard deviation over seeds (n - 1); NaN for one seed.
        seeds: Standard error for other seeds on the same rows, `seeds_sd / sqrt(num_seeds)`.
        rows: Standard error for other rows with the same seeds.
        both: Standard error for other rows and other seeds; NaN for one seed.
    """

    score: float
    num_rows: int
    num_seeds: int
    seeds_sd: float
    seeds: float
    rows: float
    both: float

    def __str__(self) -> str:
        return (
            f"score {self.score:.4g} with standard error {self.seeds:.2g} for other seeds, "
            f"{self.rows:.2g} for other rows, {self.both:.2g} for both"
        )


def score_errors(
    predictions: ArrayLike,
    labels: ArrayLike,
    metrics: Sequence[str] = ("accuracy",),
    *,
    draws: int = 1000,
    rng: int = 0,
) -> ScoreErrors:
    """Estimate the standard error of a score from test rows, from seeds, and from both.

    Rows are drawn with replacement, the same rows for all seeds: this gives the variance V_r for
    other rows. That for other seeds is V_s = SD^2 / n. Drawing both gives a variance V_rs that
    counts the interaction of rows and seeds three times, where V_r and V_s count it once each and
    the truth is once (Owen 2007). The variance for other rows and other seeds is therefore
    `2 (V_r + V_s) - V_rs`, at least the larger of V_r and V_s. For V_rs, n - 1 of n seeds are
    drawn, which makes the variance over few seeds unbiased (McCarthy and Snowden 1985).

    Args:
        predictions: Predicted labels or numbers of each seed, shape `(seeds, rows)`.
        labels: True labels or numbers, shape `(rows,)`.
        metrics: Names of registered metrics; the score is their mean.
        draws: Number of bootstrap samples. The relative Monte Carlo error of a standard error is
            about `1 / sqrt(2 draws)`.
        rng: Seed of the draws.

    Returns:
        The standard errors, in the unit of the metrics.

    Raises:
        ValueError: If shapes do not match, there are fewer than two rows, or an option is out of
            range.
        UnknownNameError: If a metric is unknown.

    Example:
        >>> labels = np.tile(["no", "yes"], 436)
        >>> right = np.random.default_rng(0).random((5, 872)) < 0.8
        >>> errors = score_errors(np.where(right, labels, "?"), labels)
        >>> round(errors.score, 3), round(errors.rows, 3)
        (0.798, 0.006)

    References:
        A. B. Owen (2007), The pigeonhole bootstrap, Annals of Applied Statistics 1, 386-411.
        P. J. McCarthy, C. B. Snowden (1985), The bootstrap and finite population sampling, Vital
        and Health Statistics 2 (95).
    """
    predicted, true = _as_arrays(predictions, labels)
    check_count("draws", draws, 2)
    seeds, rows = predicted.shape
    generator = np.random.default_rng(rng)
    scores = _scores(predicted, true, metrics, np.ones((1, rows)))[:, 0]
    drawn = np.hstack(
        [_scores(predicted, true, metrics, weights) for weights in _weights(generator, draws, rows)]
    )
    has_seeds = seeds > 1
    deviation = float(scores.std(ddof=1)) if has_seeds else math.nan
    of_rows, of_seeds, both = float(drawn.mean(axis=0).var(ddof=1)), deviation**2 / seeds, math.nan
    if has_seeds:
        chosen = generator.integers(seeds, size=(draws, seeds - 1))
        of_both = float(drawn[chosen, np.arange(draws)[:, None]].mean(axis=1).var(ddof=1))
        both = math.sqrt(max(of_rows, of_seeds, 2 * (of_rows + of_seeds) - of_both))
    return ScoreErrors(
        score=float(scores.mean()),
        num_rows=rows,
        num_seeds=seeds,
        seeds_sd=deviation,
        seeds=math.sqrt(of_seeds),
        rows=math.sqrt(of_rows),
        both=both,
    )


@dataclass(frozen=True)
class RowTest:
    """Result of `mcnemar`.

    Attributes:
        difference: Accuracy of the second method minus that of the first, means over seeds.
        pvalue: Two-sided p.
        discordant: Number of rows on which the two methods differ in their numbers of right seeds
            (as shares of their seeds).
        num_rows: Number of test rows.
    """

    difference: float
    pvalue: float
    discordant: int
    num_rows: int

    def __str__(self) -> str:
        return (
            f"difference {signed(self.difference, 4)}, {format_pvalue(self.pvalue)}, "
            f"{self.discordant} of {count(self.num_rows, 'row')} differ"
        )


def mcnemar(
    first: ArrayLike | Samples, second: ArrayLike | None = None, labels: ArrayLike | None = None
) -> RowTest:
    """Compare two methods on the same test rows: McNemar's mid-p test, also for several seeds.

    For each row let d be the share of seeds of the second method that are right, minus that of the
    first. Under the null hypothesis the methods can be exchanged on each row, so each d is as
    likely as -d. p is the probability that random signs give a sum at least as far from 0, from the
    binomial distributions of the rows with equal |d|. Sums equal to the observed one count one half
    (mid-p): McNemar's exact p is too large; with the mid-p the error rate is closer to alpha, and
    rarely above it (Fagerland et al. 2013). p generalizes to other rows for these trained networks,
    not to other seeds.

    Args:
        first: Predictions of the first method, shape `(seeds, rows)`, or `(rows,)` for one seed. Or
            without the other arguments the scores of both methods, as in `mcnemar_holm`.
        second: Predictions of the second method for the same rows, likewise; the number of seeds
            may differ.
        labels: True labels, shape `(rows,)`.

    Returns:
        Difference, p, and numbers of rows.

    Raises:
        ValueError: If shapes do not match, or a table has more than two methods.

    Example:
        >>> labels = np.zeros(20, dtype=int)
        >>> first, second = np.repeat([0, 1], [12, 8]), np.repeat([0, 1, 0], [11, 1, 8])
        >>> test = mcnemar(first, second, labels)
        >>> round(test.difference, 2), test.discordant, round(test.pvalue, 4)
        (0.35, 9, 0.0215)

    References:
        Q. McNemar (1947), Note on the sampling error of the difference between correlated
        proportions or percentages, Psychometrika 12, 153-157.
        M. W. Fagerland, S. Lydersen, P. Laake (2013), The McNemar test for binary matched-pairs
        data: mid-p and asymptotic are better than exact conditional, BMC Medical Research
        Methodology 13, 91.
    """
    if second is None or labels is None:
        groups = read_items(first)  # type: ignore[arg-type]
        if len(groups) > 2:
            raise ValueError(f"for more than two methods use mcnemar_holm. Received: {[*groups]}")
        right = np.array([*groups.values()])
        right = right[:, ~np.isnan(right).any(axis=0)]
        return mcnemar(right[0], right[1], np.ones(right.shape[1]))
    a, truth = _as_arrays(first, labels)  # type: ignore[arg-type]
    b, _ = _as_arrays(second, labels)
    # Whole numbers: the shares' difference times both numbers of seeds.
    shift = (b == truth).sum(axis=0) * len(a) - (a == truth).sum(axis=0) * len(b)
    sizes, counts = np.unique(np.abs(shift[shift != 0]), return_counts=True)
    pvalue = sign_flips(int(shift.sum()), sizes.tolist(), counts.tolist(), mid_p=True)
    return RowTest(
        difference=float(shift.mean() / (len(a) * len(b))),
        pvalue=pvalue,
        discordant=int(counts.sum()),
        num_rows=truth.size,
    )


def read_items(samples: Samples) -> dict[Hashable, FloatArray]:
    """Return scores of 0 or 1 on the same items; NaN where a method has none.

    Raises:
        TypeError: As `read_groups`.
        ValueError: As `read_groups`, or if another score occurs, or methods differ in length.
    """
    groups = read_groups(samples)
    pooled = np.concatenate([*groups.values()])
    is_known = np.isin(pooled, (0, 1)) | np.isnan(pooled)
    if len({group.size for group in groups.values()}) > 1 or not is_known.all():
        raise ValueError("all methods must have a score of 0 or 1 on the same items")
    return groups


def sign_flips(
    total: int, sizes: Sequence[int], counts: Sequence[int], mid_p: bool = False
) -> float:
    """Return the two-sided p of a sum of whole numbers with random signs.

    Args:
        total: Observed sum.
        sizes: Distinct absolute values, all positive.
        counts: Number of occurrences of each.
        mid_p: If True, sums equal to the observed one count one half.

    Example:
        >>> sign_flips(4, sizes=[1, 2], counts=[2, 1])
        0.25
    """
    from scipy.stats import binom

    if not total:
        return 1.0
    divisor = math.gcd(*sizes)
    # Of n values of size v with random signs, the sum is v (2 Binomial(n, 1/2) - n).
    start, chances = 0, np.ones(1)  # chances of start, start + 1, ...: half the distance to -sum
    for size, number in zip(sizes, counts, strict=True):
        step = size // divisor
        of_size = binom.pmf(np.arange(number + 1), number, 0.5)
        kept = np.flatnonzero(of_size > _NEGLIGIBLE)
        before, chances = chances, np.zeros(chances.size + (kept[-1] - kept[0]) * step)
        for place in kept:
            first = (place - kept[0]) * step
            chances[first : first + before.size] += of_size[place] * before
        start += int(kept[0]) * step
    most = sum(size // divisor * number for size, number in zip(sizes, counts, strict=True))
    sums = np.abs(2 * (start + np.arange(chances.size)) - most)
    observed = abs(total) // divisor
    reached = chances[sums > observed].sum() + chances[sums == observed].sum() * (
        0.5 if mid_p else 1.0
    )
    return float(min(1.0, reached))


def _weights(rng: np.random.Generator, draws: int, rows: int) -> Iterator[FloatArray]:
    """Yield how often each row is drawn, in chunks of shape `(draws, rows)`."""
    step = max(1, _CHUNK_WEIGHTS // rows)
    for start in range(0, draws, step):
        count = min(step, draws - start)
        chosen = rng.integers(rows, size=(count, rows)) + np.arange(count)[:, None] * rows
        counts = np.bincount(chosen.ravel(), minlength=count * rows)
        yield counts.reshape(count, rows).astype(np.float64)


def _scores(
    predictions: NDArray[Any], labels: NDArray[Any], metrics: Sequence[str], weights: FloatArray
) -> FloatArray:
    """Return the mean of the metrics for each seed and weighting, shape `(seeds, draws)`."""
    total = np.zeros((len(predictions), len(weights)))
    for name in metrics:
        metric = METRICS.find(name)
        if metric.weighted is not None:
            total += metric.weighted(predictions, labels, weights)
            continue
        if metric.function is None:
            raise ValueError(f"`metrics`: {name!r} is not computed from predictions and labels")
        for draw, counts in enumerate(weights.astype(np.intp)):
            rows = np.repeat(np.arange(labels.size), counts)
            total[:, draw] += [metric.function(run[rows], labels[rows]) for run in predictions]
    return total / len(metrics)


def _as_arrays(predictions: ArrayLike, labels: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    runs, true = np.atleast_2d(np.asarray(predictions)), np.asarray(labels)
    if runs.ndim != 2 or true.shape != runs.shape[1:] or true.size < 2 or not len(runs):
        raise ValueError(
            "predictions must have shape (seeds, rows) and labels (rows,), with two rows or more. "
            f"Received: shapes {runs.shape} and {true.shape}"
        )
    return runs, true
