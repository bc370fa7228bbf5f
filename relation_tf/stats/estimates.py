"""Estimates with intervals: means, effect sizes, shifts, and estimates over tasks and seeds."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from relation_tf.stats.directions import Directions, given_signs
from relation_tf.stats.permutation import dominance, observed_groups
from relation_tf.stats.samples import (
    FloatArray,
    Pairs,
    TestOptions,
    check_count,
    check_finite,
    check_probability,
    dense_ranks,
    index_pairs,
    numeric_scores,
    rank_samples,
)

TaskScores: TypeAlias = Mapping[Any, ArrayLike] | pd.DataFrame  # task -> scores of seeds

_CHUNK_NUMBERS = 2_000_000  # drawn scores at once
_ROUNDING = 1e-12  # relative, of sums of weights
_MOST_DIFFERENCES = 2**20  # at once


class Interval(NamedTuple):
    """Confidence interval, in the unit of the scores."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.low:.3g} to {self.high:.3g}"


class _WithLimits(NamedTuple):
    value: float
    low: float
    high: float


class Estimate(_WithLimits):
    """Estimate with an interval, a tuple of the three numbers; `print` shows a sentence.

    Attributes:
        value: The estimate.
        low: Lower end of the interval.
        high: Upper end.
        name: Name of the estimate.
        confidence: Nominal coverage of the interval.

    Example:
        >>> print(Estimate(0.431, 0.396, 0.467, "IQM"))
        IQM 0.431, 95 % 0.396 to 0.467
    """

    name: str
    confidence: float

    def __new__(
        cls, value: float, low: float, high: float, name: str = "", confidence: float = 0.95
    ) -> Estimate:
        """Return an estimate with its interval."""
        made = super().__new__(cls, value, low, high)
        made.name, made.confidence = name, confidence
        return made

    def _replace(self, **values: float) -> Estimate:
        numbers = {**self._asdict(), **values}
        return Estimate(**numbers, name=self.name, confidence=self.confidence)

    def __str__(self) -> str:
        limits = Interval(self.low, self.high)
        return f"{self.name} {self.value:.3g}, {100 * self.confidence:g} % {limits}".lstrip()


def mean_interval(scores: ArrayLike, confidence: float = 0.95) -> Interval:
    """Return the confidence interval of the mean from Student's t distribution.

    Coverage of the 95 % interval with five scores: .95 normal, .82 log-normal, .70 or less where
    one run in five collapses, by 10 SD or more: do not use it there. A 95 % bootstrap interval of
    normal scores covers .85. (20,000 simulations, `tests/stats/test_estimates.py`.)

    Args:
        scores: Finite scores of one method, shape `(n,)`, n at least 2.
        confidence: Coverage, between 0 and 1.

    Returns:
        Lower and upper end.

    Raises:
        TypeError: If a score is not a number.
        ValueError: If there are fewer than two scores, a score is not finite, or the confidence is
            out of range.

    Example:
        >>> low, high = mean_interval([0.81, 0.83, 0.82, 0.84, 0.80])
        >>> round(low, 4), round(high, 4)
        (0.8004, 0.8396)
    """
    from scipy.stats import t

    check_probability("confidence", confidence)
    values = numeric_scores(scores, "scores")
    check_finite(values, "scores", 2)
    mean, error = values.mean(), values.std(ddof=1) / math.sqrt(values.size)
    half = t.isf((1 - confidence) / 2, values.size - 1) * error
    return Interval(float(mean - half), float(mean + half))


def cliffs_delta(a: ArrayLike, b: ArrayLike) -> float:
    """Return Cliff's delta, `P(a > b) - P(a < b)`.

    Delta is 1 if every score of `a` is higher than every score of `b`, and -1 if every score is
    lower. Ties are determined as in `steel_dwass`. In its table `effect_size`, row i and column j
    contain `cliffs_delta(j, i)`: positive where the column's method is higher.

    Args:
        a: Scores of one method, shape `(n,)`.
        b: Scores of the other method, shape `(m,)`.

    Returns:
        Delta, from -1 to 1.

    Raises:
        TypeError: If a score is not a number.
        ValueError: If a sample is empty, has more than one axis or contains NaN.

    Example:
        >>> cliffs_delta([0.8, 0.9, 0.9], [0.7, 0.8])
        0.8333333333333334

    References:
        N. Cliff (1993), Dominance statistics: ordinal analyses to answer ordinal questions,
        Psychological Bulletin 114, 494-509.
    """
    ranked = rank_samples({"b": b, "a": a}, options=TestOptions(nan="raise"))
    return float(dominance([observed_groups(ranked)], index_pairs(2))[0])


def cliffs_delta_interval(a: ArrayLike, b: ArrayLike, confidence: float = 0.95) -> Interval:
    """Return a confidence interval of Cliff's delta that is suitable for few scores.

    The interval is Wilson's interval of the proportion `P = P(a > b)` with min(n, m) trials. For
    any two distributions the variance of the estimate of P is at most `P (1 - P) / min(n, m)`.
    The interval does not assume equal variances and never has zero width. For similar variances it
    is conservative. The interval of P(a > b) follows from `(delta + 1) / 2`.

    Coverage of the 95 % interval in percent, by true delta, with five scores each (40,000
    simulations, `tests/stats/test_estimates.py`):

    | scores | delta 0 | 0.5 | 0.8 | 0.9 | 0.95 |
    | --- | --- | --- | --- | --- | --- |
    | normal | 98.5 | 97.9 | 98.2 | 98.3 | 98.3 |
    | one SD three times as large | 97.1 | 97.5 | 96.9 | 97.5 | 95.2 |
    | one SD ten times as large | 95.0 | 97.8 | 94.3 | 97.4 | 90.8 |
    | log-normal | 98.5 | 97.6 | 96.6 | 97.3 | 92.6 |
    | one method fails in 20 % of the runs | 98.1 | 97.2 | 97.0 | 97.9 | 97.9 |

    Args:
        a: Scores of one method, shape `(n,)`.
        b: Scores of the other method, shape `(m,)`.
        confidence: Coverage, between 0 and 1.

    Returns:
        Lower and upper end, from -1 to 1.

    Raises:
        TypeError: If a score is not a number.
        ValueError: If a sample is empty, has more than one axis or contains NaN, or the confidence
            is out of range.

    Example:
        >>> low, high = cliffs_delta_interval([6, 7, 8, 9, 10], [1, 2, 3, 4, 5])
        >>> round(low, 2), round(high, 2)
        (0.13, 1.0)

    References:
        Z. W. Birnbaum, O. M. Klose (1957), Bounds for the variance of the Mann-Whitney statistic,
        Annals of Mathematical Statistics 28, 933-945.
        E. B. Wilson (1927), Probable inference, the law of succession, and statistical inference,
        Journal of the American Statistical Association 22, 209-212.
    """
    fewest = np.array(min(np.size(a), np.size(b)))
    low, high = delta_intervals(np.array(cliffs_delta(a, b)), fewest, confidence)
    return Interval(float(low), float(high))


def delta_intervals(
    delta: FloatArray, trials: FloatArray, confidence: float = 0.95
) -> tuple[FloatArray, FloatArray]:
    """Compute the intervals of `cliffs_delta_interval` from estimates of delta.

    Args:
        delta: Cliff's delta of each pair.
        trials: For each pair, n for which the variance of delta is at most `(1 - delta^2) / n`: the
            number of scores of the method with fewer scores.
        confidence: Coverage, between 0 and 1.

    Returns:
        Lower and upper ends.
    """
    from scipy.special import ndtri

    check_probability("confidence", confidence)
    z2 = float(ndtri((1 - confidence) / 2)) ** 2
    half = np.sqrt(z2 * (trials * (1 - delta**2) + z2))
    low, high = ((trials * delta + side * half) / (trials + z2) for side in (-1, 1))
    return np.maximum(low, -1.0), np.minimum(high, 1.0)


def shift_intervals(
    tasks: Sequence[Sequence[FloatArray]],
    pairs: Pairs,
    critical: float,
    *,
    accept_zero: NDArray[np.bool_],
    worst: float,
) -> FloatArray:
    """Return the shifts of Hodges and Lehmann and the limits of the shifts that are not rejected.

    The differences of all tasks are ordered together, with the weights of `RankSums`. A limit is
    infinite if no shift is rejected.

    Args:
        tasks: Scores of each method, for each task.
        pairs: P pairs of indices of methods.
        critical: Smallest standardized statistic that the test rejects, without ties.
        accept_zero: True for each pair whose interval must contain 0, shape `(P,)`: ties can make
            the test of the scores accept 0 where it rejects small shifts, which break the ties.
        worst: Value of a NaN. The difference of two infinite scores, which are tied at any shift,
            is NaN.

    Returns:
        Weighted medians of the differences, lower and upper limits, shape `(3, P)`.
    """
    ranked = [[np.where(np.isnan(scores), worst, scores) for scores in task] for task in tasks]
    rows_by_size = defaultdict(list)
    for row, (i, j) in enumerate(pairs):
        rows_by_size[tuple((scores[i].size, scores[j].size) for scores in tasks)].append(row)
    intervals = np.empty((3, len(pairs)))
    for sizes, rows in rows_by_size.items():
        weights = np.concatenate([np.full(m * n, 1 / (m + n + 1)) for m, n in sizes])
        deviation = critical * math.sqrt(weights.sum() / 12)  # (m + n + 1) w^2 = w
        step = max(1, _MOST_DIFFERENCES // weights.size)
        for part in (rows[start : start + step] for start in range(0, len(rows), step)):
            a, b = zip(*(pairs[row] for row in part), strict=True)
            differences = []
            for task in ranked:
                first, second = (np.stack([task[i] for i in groups]) for groups in (a, b))
                with np.errstate(invalid="ignore"):
                    difference = second[:, :, None] - first[:, None]
                differences.append(difference.reshape(len(part), -1))
            intervals[:, part] = _limits(np.concatenate(differences, axis=1), weights, deviation)
    _, low, high = intervals
    low[accept_zero & (low > 0)] = 0.0
    high[accept_zero & (high < 0)] = 0.0
    return intervals


def _limits(
    differences: FloatArray, weights: FloatArray, critical: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return medians and limits of differences of shape `(P, N)`.

    A shift is rejected if the weight of the differences above it exceeds half of all weights by the
    critical deviation.
    """
    undefined, half = np.isnan(differences), float(weights.sum()) / 2
    equal_weights, rows = bool((weights == weights[0]).all()), np.arange(len(differences))

    def ordered(values: FloatArray, fill: float) -> tuple[FloatArray, FloatArray]:
        """Return sorted values and the weight up to each."""
        filled = np.where(undefined, fill, values)
        if equal_weights:  # much faster
            return np.sort(filled, axis=1), np.cumsum(weights)[None]
        order = np.argsort(filled, axis=1, kind="stable")
        return np.take_along_axis(filled, order, axis=1), np.cumsum(weights[order], axis=1)

    def lower(values: FloatArray) -> FloatArray:
        ascending, up_to = ordered(values, -np.inf)
        below = np.pad(up_to, ((0, 0), (1, 0)))[:, :-1]
        rejected = (half - below >= critical).sum(axis=1)  # gaps between differences
        return np.where(rejected, ascending[rows, np.maximum(rejected - 1, 0)], -np.inf)

    ascending, up_to = ordered(differences, 0.0)
    first, second = ((up_to >= half * (1 + side * _ROUNDING)).argmax(axis=1) for side in (-1, 1))
    median = (ascending[rows, first] + ascending[rows, second]) / 2
    return median, lower(differences), -lower(-differences)


def interquartile_mean(scores: TaskScores, **bootstrap: Any) -> Estimate:
    """Return the mean of the middle half of a method's scores over tasks and seeds.

    Of all N scores, the `floor(N / 4)` lowest and highest are left out. A collapsed run changes it
    less than a mean. The interval is the percentile interval of a bootstrap that draws the seeds of
    each task with replacement (stratified), so it is about other seeds on these tasks.

    Args:
        scores: Task -> scores of the method, the same number for each task, in comparable units; or
            a `pandas.DataFrame` with a column for each task.
        **bootstrap: `confidence`, the nominal coverage of the interval, between 0 and 1 (0.95; with
            few seeds per task, such as five, a bootstrap interval covers less often); `draws`, the
            number of bootstrap samples (50,000); `rng`, seed of the draws (0).

    Returns:
        The interquartile mean and its interval.

    Raises:
        TypeError: If a score is not a number.
        ValueError: If there is no task, the numbers of scores differ, a score is not finite, or an
            option is out of range.

    Example:
        >>> scores = {"CoLA": [0.1, 0.2, 0.3, 0.4], "RTE": [0.5, 0.6, 0.7, 0.8]}
        >>> print(interquartile_mean(scores))
        IQM 0.45, 95 % 0.35 to 0.55

    References:
        R. Agarwal, M. Schwarzer, P. S. Castro, A. Courville, M. G. Bellemare (2021), Deep
        reinforcement learning at the edge of the statistical precipice, NeurIPS 34.
    """
    sizes = [seeds.size for seeds in finite_scores(scores).values()]
    if len({*sizes}) > 1:
        raise ValueError(
            "each task must have the same number of scores, because a task with more would count "
            f"more. Received: {sizes}"
        )
    return _estimate("IQM", stratified_bootstrap(scores, middle_mean, **bootstrap), **bootstrap)


def middle_mean(drawn: Sequence[FloatArray]) -> FloatArray:
    """Return the interquartile mean of each of B drawings, each task with shape `(B, seeds)`."""
    from scipy.stats import trim_mean

    return np.asarray(trim_mean(np.hstack(drawn), 0.25, axis=1))


def stratified_bootstrap(
    scores: TaskScores,
    statistic: Callable[[list[FloatArray]], FloatArray],
    **bootstrap: Any,
) -> FloatArray:
    """Return estimates over tasks with percentile intervals.

    Args:
        scores: Task -> scores of a method.
        statistic: Function of the scores of each task, with shape `(B, seeds)`, that returns an
            estimate, or several, for each of B drawings: shape `(B, ...)`.
        **bootstrap: As for `interquartile_mean`.

    Returns:
        Estimates, lower and upper limits, shape `(3, ...)`.

    Example:
        >>> tasks = {"A": [1, 2], "B": [3, 4]}
        >>> stratified_bootstrap(tasks, lambda drawn: np.hstack(drawn).mean(axis=1)).tolist()
        [2.5, 2.0, 3.0]
    """
    by_task = [*finite_scores(scores).values()]

    def resampled(generator: np.random.Generator, count: int) -> FloatArray:
        return statistic([x[generator.integers(x.size, size=(count, x.size))] for x in by_task])

    value = statistic([x[None] for x in by_task])[0]
    return _with_limits(value, resampled, sum(x.size for x in by_task), **bootstrap)


def probability_of_improvement(
    first: TaskScores,
    second: TaskScores,
    *,
    higher_is_better: Directions = None,
    **bootstrap: Any,
) -> Estimate:
    """Return the probability that a seed of the second method is better, mean over tasks.

    For each task this is P(second better) + P(equal) / 2. It does not tell the size of the
    difference. The interval is that of a bootstrap as in `interquartile_mean`, with independent
    draws for the two methods.

    Args:
        first: Task -> scores of the first method, as in `interquartile_mean`.
        second: Task -> scores of the second method, for the same tasks; the numbers of scores may
            differ.
        higher_is_better: If True (the default), higher scores are better; or `{task: bool}`.
            Required if a task has the name of a metric where lower is better.
        **bootstrap: As for `interquartile_mean`.

    Returns:
        The probability and its interval.

    Raises:
        TypeError: If a score is not a number.
        ValueError: If the tasks differ, a score is not finite, or an option is out of range.

    Example:
        >>> first = {"CoLA": [1, 2, 3], "RTE": [4, 5, 6]}
        >>> probability_of_improvement(first, {"CoLA": [2, 3, 4], "RTE": [7, 8, 9]}).value
        0.8888888888888888

    References:
        R. Agarwal, M. Schwarzer, P. S. Castro, A. Courville, M. G. Bellemare (2021), Deep
        reinforcement learning at the edge of the statistical precipice, NeurIPS 34.
    """
    scores_a, scores_b = finite_scores(first), finite_scores(second)
    if set(scores_a) != set(scores_b):
        received = f"{list(scores_a)} and {list(scores_b)}"
        raise ValueError(f"both methods must have the same tasks. Received: {received}")
    signs = given_signs(first, higher_is_better)
    wins, number = [], 0
    for sign, (task, scores) in zip(signs, scores_a.items(), strict=True):
        # Values that differ by rounding are tied.
        a, b = np.split(dense_ranks(np.concatenate([scores, scores_b[task]])), [scores.size])
        wins.append(np.heaviside(sign * (b - a[:, None]), 0.5))
        number += a.size + b.size

    def resampled(generator: np.random.Generator, count: int) -> FloatArray:
        means = []
        for won in wins:
            # How often each seed is drawn, as a share, shape `(count, seeds)`.
            shares = [generator.multinomial(k, np.full(k, 1 / k), count) / k for k in won.shape]
            means.append(np.einsum("di,ij,dj->d", shares[0], won, shares[1]))
        return np.clip(np.mean(means, axis=0), 0.0, 1.0)  # rounding

    value = float(np.mean([won.mean() for won in wins]))
    found = _with_limits(value, resampled, number, **bootstrap)
    return _estimate("probability of improvement", found, **bootstrap)


def finite_scores(scores: TaskScores) -> dict[Any, FloatArray]:
    """Return the scores of each task, checked.

    Raises:
        TypeError: If it is not a mapping, or a score is not a number.
        ValueError: If there is no task, or a score is not finite.
    """
    if not isinstance(scores, Mapping | pd.DataFrame):
        raise TypeError(
            f"scores must be a dict of task -> scores. Received: {type(scores).__name__}"
        )
    if not [*scores]:
        raise ValueError("scores must hold at least one task. Received: 0 tasks")
    by_task = {task: numeric_scores(seeds, task) for task, seeds in scores.items()}
    for task, seeds in by_task.items():
        check_finite(seeds, task)
    return by_task


def _estimate(name: str, limits: FloatArray, confidence: float = 0.95, **_: Any) -> Estimate:
    value, low, high = limits.tolist()
    return Estimate(value, low, high, name, confidence)


def _with_limits(
    value: ArrayLike,
    resampled: Callable[[np.random.Generator, int], FloatArray],
    num_scores: int,
    *,
    confidence: float = 0.95,
    draws: int = 50_000,
    rng: int = 0,
) -> FloatArray:
    """Return a value and the limits of the percentile interval of a bootstrap."""
    check_probability("confidence", confidence)
    check_count("draws", draws, 2)
    generator = np.random.default_rng(rng)
    step = max(1, _CHUNK_NUMBERS // num_scores)
    counts = (min(step, draws - start) for start in range(0, draws, step))
    estimates = np.concatenate([resampled(generator, count) for count in counts])
    limits = np.quantile(estimates, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    return np.stack([np.asarray(value), *limits])
