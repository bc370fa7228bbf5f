"""Estimates over tasks and seeds without a test: interquartile mean and P(improvement)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
    by_task = [*_finite_scores(scores).values()]
    if len({own.size for own in by_task}) > 1:
        raise ValueError(
            "each task must have the same number of scores, because a task with more would count "
            f"more. Received: {[own.size for own in by_task]}"
        )

    def resampled(generator: np.random.Generator, count: int) -> FloatArray:
        drawn = [own[generator.integers(own.size, size=(count, own.size))] for own in by_task]
        return _middle_mean(np.hstack(drawn))

    value = float(_middle_mean(np.concatenate(by_task)[None])[0])
    return Estimate(value, *_percentiles(resampled, by_task, confidence, draws, rng))


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
    pairs = _paired_tasks(first, second)
    signs = refuse_unknown_direction(first, higher_is_better)
    wins = [
        np.heaviside(sign * (b - a[:, None]), 0.5)
        for sign, (a, b) in zip(signs, (_ranks(*pair) for pair in pairs), strict=True)
    ]

    def resampled(generator: np.random.Generator, count: int) -> FloatArray:
        shares = [
            np.einsum("di,ij,dj->d", _shares(generator, count, len(own)), own,
                      _shares(generator, count, own.shape[1]))
            for own in wins
        ]  # fmt: skip
        return np.clip(np.mean(shares, axis=0), 0.0, 1.0)  # rounding

    value = float(np.mean([own.mean() for own in wins]))
    both = [scores for pair in pairs for scores in pair]
    return Estimate(value, *_percentiles(resampled, both, confidence, draws, rng))


def _ranks(first: FloatArray, second: FloatArray) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the joint ranks of both samples, in which values that differ by rounding are tied."""
    ranks = dense_ranks(np.concatenate([first, second]))
    return ranks[: first.size], ranks[first.size :]


def _paired_tasks(first: TaskScores, second: TaskScores) -> list[tuple[FloatArray, FloatArray]]:
    """Return the scores of two methods by task, in the order of the first.

    Raises:
        ValueError: If the tasks differ, or a score is not finite.
    """
    one, other = _finite_scores(first), _finite_scores(second)
    if set(one) != set(other):
        raise ValueError(
            f"both methods must have the same tasks. Received: {list(one)} and {list(other)}"
        )
    return [(own, other[task]) for task, own in one.items()]


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
    found = {task: numeric_scores(own, task) for task, own in scores.items()}
    for task, values in found.items():
        check_finite(values, task)
    return found


def _middle_mean(scores: FloatArray) -> FloatArray:
    """Return the interquartile mean of each row, shape `(draws,)`."""
    cut = scores.shape[1] // 4
    middle: FloatArray = np.sort(scores, axis=1)[:, cut : scores.shape[1] - cut].mean(axis=1)
    return middle


def _shares(generator: np.random.Generator, draws: int, seeds: int) -> NDArray[np.float64]:
    """Return how often each seed is drawn, as a share; shape `(draws, seeds)`."""
    return generator.multinomial(seeds, np.full(seeds, 1 / seeds), size=draws) / seeds


def _percentiles(
    resampled: Callable[[np.random.Generator, int], FloatArray],
    scores: Sequence[FloatArray],
    confidence: float,
    draws: int,
    rng: RandomSource,
) -> Interval:
    check_probability("confidence", confidence)
    check_count("draws", draws, 2)
    generator = np.random.default_rng(random_seed(rng, drawn=True))
    step = max(1, _CHUNK_NUMBERS // sum(own.size for own in scores))
    counts = (min(step, draws - start) for start in range(0, draws, step))
    found = np.concatenate([resampled(generator, count) for count in counts])
    low, high = np.quantile(found, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(low), float(high))
