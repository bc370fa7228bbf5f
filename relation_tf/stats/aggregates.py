"""Estimates over tasks and seeds without a test: interquartile mean and P(improvement)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from relation_tf.stats.checks import check_count, check_probability
from relation_tf.stats.directions import Directions, refuse_unknown_direction
from relation_tf.stats.effect_size import Interval
from relation_tf.stats.null_distribution import RandomSource, random_seed
from relation_tf.stats.samples import FloatArray, check_finite, dense_ranks, numeric_scores

TaskScores: TypeAlias = Mapping[Any, ArrayLike]  # task -> scores of a method's seeds

DRAWS = 50_000
_CHUNK_NUMBERS = 2_000_000  # drawn scores at once


class Estimate(NamedTuple):
    """Estimate with an interval.

    Attributes:
        value: The estimate.
        low: Lower end of the interval.
        high: Upper end.
    """

    value: float
    low: float
    high: float


def interquartile_mean(
    scores: TaskScores,
    *,
    confidence: float = 0.95,
    draws: int = DRAWS,
    rng: RandomSource = None,
) -> Estimate:
    """Return the mean of the middle half of a method's scores over tasks and seeds.

    Of all N scores, the `floor(N / 4)` lowest and highest are left out. A collapsed run changes it
    less than a mean. The interval is the percentile interval of a bootstrap that draws the seeds of
    each task with replacement (stratified), so it is about other seeds on these tasks.

    Args:
        scores: Task -> scores of the method, the same number for each task, in comparable units.
        confidence: Nominal coverage of the interval, between 0 and 1. With few seeds per task, such
            as five, a bootstrap interval covers less often.
        draws: Number of bootstrap samples.
        rng: Seed or `numpy.random.Generator` of the draws; None is a fixed seed.

    Returns:
        The interquartile mean and its interval.

    Raises:
        TypeError: If a score is not a number.
        ValueError: If there is no task, the numbers of scores differ, a score is not finite, or an
            option is out of range.

    Example:
        >>> scores = {"CoLA": [0.1, 0.2, 0.3, 0.4], "RTE": [0.5, 0.6, 0.7, 0.8]}
        >>> print("{:.3f}, {:.2f} to {:.2f}".format(*interquartile_mean(scores)))
        0.450, 0.35 to 0.55

    References:
        R. Agarwal, M. Schwarzer, P. S. Castro, A. Courville, M. G. Bellemare (2021), Deep
        reinforcement learning at the edge of the statistical precipice, NeurIPS 34.
    """
    from scipy.stats import trim_mean

    by_task = [*_finite_scores(scores).values()]
    sizes = [seeds.size for seeds in by_task]
    if len({*sizes}) > 1:
        raise ValueError(
            "each task must have the same number of scores, because a task with more would count "
            f"more. Received: {sizes}"
        )

    def resampled(generator: np.random.Generator, count: int) -> FloatArray:
        drawn = [x[generator.integers(x.size, size=(count, x.size))] for x in by_task]
        return np.asarray(trim_mean(np.hstack(drawn), 0.25, axis=1))

    value = float(trim_mean(np.concatenate(by_task), 0.25))
    return Estimate(value, *_percentiles(resampled, sum(sizes), confidence, draws, rng))


def probability_of_improvement(
    first: TaskScores,
    second: TaskScores,
    *,
    higher_is_better: Directions = None,
    confidence: float = 0.95,
    draws: int = DRAWS,
    rng: RandomSource = None,
) -> Estimate:
    """Return the probability that a seed of the second method is better, mean over tasks.

    For each task this is P(second better) + P(equal) / 2. It does not tell the size of the
    difference. The interval is that of a bootstrap as in `interquartile_mean`, with independent
    draws for the two methods.

    Args:
        first: Task -> scores of the first method.
        second: Task -> scores of the second method, for the same tasks; the numbers of scores may
            differ.
        higher_is_better: If True (the default), higher scores are better; or `{task: bool}`.
            Required if a task has the name of a metric where lower is better.
        confidence: Nominal coverage of the interval, between 0 and 1. With few seeds per task, such
            as five, a bootstrap interval covers less often.
        draws: Number of bootstrap samples.
        rng: Seed or `numpy.random.Generator` of the draws; None is a fixed seed.

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
    one, other = _finite_scores(first), _finite_scores(second)
    if set(one) != set(other):
        raise ValueError(
            f"both methods must have the same tasks. Received: {list(one)} and {list(other)}"
        )
    signs = refuse_unknown_direction(first, higher_is_better)
    wins, number = [], 0
    for sign, (task, scores) in zip(signs, one.items(), strict=True):
        # Values that differ by rounding are tied.
        a, b = np.split(dense_ranks(np.concatenate([scores, other[task]])), [scores.size])
        wins.append(np.heaviside(sign * (b - a[:, None]), 0.5))
        number += a.size + b.size

    def shares(generator: np.random.Generator, count: int, seeds: int) -> FloatArray:
        """Return how often each seed is drawn, as a share; shape `(count, seeds)`."""
        return generator.multinomial(seeds, np.full(seeds, 1 / seeds), size=count) / seeds

    def resampled(generator: np.random.Generator, count: int) -> FloatArray:
        of_tasks = [
            np.einsum("di,ij,dj->d", shares(generator, count, m), won, shares(generator, count, n))
            for won in wins
            for m, n in [won.shape]
        ]
        return np.clip(np.mean(of_tasks, axis=0), 0.0, 1.0)  # rounding

    value = float(np.mean([won.mean() for won in wins]))
    return Estimate(value, *_percentiles(resampled, number, confidence, draws, rng))


def _finite_scores(scores: TaskScores) -> dict[Any, FloatArray]:
    """Return the scores of each task, checked.

    Raises:
        TypeError: If it is not a mapping, or a score is not a number.
        ValueError: If there is no task, or a score is not finite.
    """
    if not isinstance(scores, Mapping):
        raise TypeError(
            f"scores must be a dict of task -> scores. Received: {type(scores).__name__}"
        )
    if not scores:
        raise ValueError("scores must hold at least one task. Received: 0 tasks")
    by_task = {task: numeric_scores(seeds, task) for task, seeds in scores.items()}
    for task, seeds in by_task.items():
        check_finite(seeds, task)
    return by_task


def _percentiles(
    resampled: Callable[[np.random.Generator, int], FloatArray],
    num_scores: int,
    confidence: float,
    draws: int,
    rng: RandomSource,
) -> Interval:
    check_probability("confidence", confidence)
    check_count("draws", draws, 2)
    generator = np.random.default_rng(random_seed(rng, drawn=True))
    step = max(1, _CHUNK_NUMBERS // num_scores)
    counts = (min(step, draws - start) for start in range(0, draws, step))
    estimates = np.concatenate([resampled(generator, count) for count in counts])
    low, high = np.quantile(estimates, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(low), float(high))
