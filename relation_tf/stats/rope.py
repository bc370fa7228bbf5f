"""Bayesian comparison of two methods with a region of practical equivalence (ROPE)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from relation_tf.stats.aggregates import TaskScores, finite, paired_tasks
from relation_tf.stats.checks import check_count, check_number
from relation_tf.stats.directions import Directions, refuse_unknown_direction
from relation_tf.stats.null_distribution import RandomSource, random_seed
from relation_tf.stats.samples import TIE_RTOL, FloatArray
from relation_tf.stats.spread import is_constant

_PRIOR = 0.5  # weight of one task without a difference


class RopeProbabilities(NamedTuple):
    """Posterior probabilities; they sum to 1.

    Attributes:
        first: The first method is better by more than the ROPE.
        equivalent: The difference is within the ROPE.
        second: The second method is better by more than the ROPE.
    """

    first: float
    equivalent: float
    second: float


def rope_probabilities(
    first: ArrayLike | TaskScores,
    second: ArrayLike | TaskScores,
    rope: float,
    *,
    correlation: float = 0.0,
    higher_is_better: Directions = None,
    draws: int = 50_000,
    rng: RandomSource = None,
) -> RopeProbabilities:
    """Return the probabilities that two methods are practically equivalent, or which one is better.

    One task: the Bayesian t test of the differences of paired seeds (Corani and Benavoli 2015).
    With a flat prior, the mean difference has a t distribution with n - 1 degrees of freedom, the
    mean of the n differences, and the scale `SD sqrt(1 / n + c / (1 - c))`. The correlation c of
    the differences is 0 for seeds on one split: the two runs of a seed share the order of batches,
    but seeds share nothing. For k-fold cross-validation it is 1 / k. The probabilities have a
    closed form.

    Several tasks: the Bayesian signed-rank test (Benavoli et al. 2014) of the tasks' mean
    differences, with a prior of half a task without a difference. The tasks are the sample, so it
    is about new tasks of this kind; seeds only make the means precise. A probability is the share
    of draws from the posterior in which that outcome is the most probable. The hierarchical model
    of Corani et al. (2017) would also use the variance over seeds, but needs Markov chains.

    Args:
        first: Scores of the first method by seed, shape `(n,)`, or a dict of task -> scores.
        second: Scores of the second method, likewise; for one task, of the same seeds in the same
            order.
        rope: Largest difference that does not matter, in the unit of the scores, at least 0.
        correlation: Correlation of the differences of one task, at least 0 and below 1.
        higher_is_better: If True (the default), higher scores are better; over tasks also
            `{task: bool}`. Required if a task has the name of a metric where lower is better.
        draws: Number of draws from the posterior for several tasks.
        rng: Seed or `numpy.random.Generator` of the draws; None is a fixed seed.

    Returns:
        Three probabilities.

    Raises:
        TypeError: If a score or option is not a number, or only one method is a dict.
        ValueError: If there are fewer than two pairs of scores or tasks, a score is not finite, or
            an option is out of range.

    Example:
        >>> first, second = [0.80, 0.81, 0.79, 0.80, 0.82], [0.82, 0.84, 0.83, 0.82, 0.83]
        >>> [round(p, 3) for p in rope_probabilities(first, second, rope=0.01)]
        [0.001, 0.024, 0.974]
        >>> tasks = {"CoLA": first, "RTE": second, "MRPC": first}
        >>> rope_probabilities(tasks, tasks, rope=0.01).equivalent
        1.0

    References:
        G. Corani, A. Benavoli (2015), A Bayesian approach for comparing cross-validated algorithms
        on multiple data sets, Machine Learning 100, 285-304.
        A. Benavoli, G. Corani, F. Mangili, M. Zaffalon, F. Ruggeri (2014), A Bayesian Wilcoxon
        signed-rank test based on the Dirichlet process, ICML.
        G. Corani, A. Benavoli, J. Demsar, F. Mangili, M. Zaffalon (2017), Statistical comparison of
        classifiers through Bayesian hierarchical modelling, Machine Learning 106, 1817-1837.
    """
    check_number("rope", rope)
    check_number("correlation", correlation)
    if not 0 <= rope < math.inf:
        raise ValueError(f"`rope` must be at least 0 and finite. Received: rope={rope}")
    if not 0 <= correlation < 1:
        raise ValueError(
            f"`correlation` must be at least 0 and below 1. Received: correlation={correlation}"
        )
    check_count("draws", draws)
    if isinstance(first, Mapping) != isinstance(second, Mapping):
        raise TypeError("both methods must be dicts of task -> scores, or neither")
    over_tasks = isinstance(first, Mapping)
    differences = _task_differences(first, second) if over_tasks else _differences(first, second)
    tasks = [*first] if isinstance(first, Mapping) else [None]
    signs = refuse_unknown_direction(tasks, higher_is_better)
    differences = differences * np.array(signs)
    if differences.size < 2:
        what = "tasks" if over_tasks else "scores of each method"
        raise ValueError(f"at least two {what} are needed. Received: {differences.size}")
    if not over_tasks:
        return _of_one_task(differences, rope, correlation)
    generator = np.random.default_rng(random_seed(rng, drawn=True))
    weights = generator.dirichlet([_PRIOR, *np.ones(differences.size)], draws)
    return _signed_ranks(differences, rope, weights)


def _task_differences(first: Any, second: Any) -> FloatArray:
    means = np.array([(a.mean(), b.mean()) for a, b in paired_tasks(first, second)])
    return _subtracted(*means.T)


def _differences(first: Any, second: Any) -> FloatArray:
    a, b = finite(first, "first"), finite(second, "second")
    if a.size != b.size:
        raise ValueError(
            f"both methods must have the same seeds. Received: {a.size} and {b.size} scores"
        )
    return _subtracted(a, b)


def _subtracted(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return `b - a`; a difference by rounding is 0."""
    return np.where(np.isclose(a, b, rtol=TIE_RTOL, atol=0), 0.0, b - a)


def _of_one_task(differences: FloatArray, rope: float, correlation: float) -> RopeProbabilities:
    from scipy.special import stdtr

    n, mean = differences.size, float(differences.mean())
    scale = differences.std(ddof=1) * math.sqrt(1 / n + correlation / (1 - correlation))
    if is_constant(differences):
        beyond = abs(mean) > rope and not math.isclose(abs(mean), rope)
        first, second = float(beyond and mean < 0), float(beyond and mean > 0)
        if rope == mean == 0:
            first = second = 0.5
    else:
        first = float(stdtr(n - 1, (-rope - mean) / scale))
        second = float(stdtr(n - 1, (mean - rope) / scale))
    return RopeProbabilities(first, max(0.0, 1 - first - second), second)


def _beyond(sums: FloatArray, limit: float) -> FloatArray:
    """Return the sums minus a limit; 0 if they differ by rounding only."""
    near = np.isclose(sums, limit, rtol=TIE_RTOL, atol=1e-12 * np.abs(sums).max())
    return np.where(near, 0.0, sums - limit)


def _signed_ranks(differences: FloatArray, rope: float, weights: FloatArray) -> RopeProbabilities:
    """Return the shares of draws in which each outcome is the most probable.

    For weights w of the differences d, the first of which is a prior without a difference, the
    probability of `second` is the sum of `w_i w_j` over all i, j with `d_i + d_j > 2 rope`; a sum
    equal to `2 rope` counts one half.

    Args:
        differences: Mean differences of q tasks.
        rope: Largest difference that does not matter.
        weights: Draws from a Dirichlet distribution, shape `(draws, q + 1)`.
    """
    values = np.array([0.0, *differences])
    sums = values[:, None] + values
    first, second = (
        ((weights @ np.heaviside(_beyond(side * sums, 2 * rope), 0.5)) * weights).sum(axis=1)
        for side in (-1, 1)
    )
    if rope == 0:
        share = float(np.heaviside(second - first, 0.5).mean())
        return RopeProbabilities(1 - share, 0.0, share)
    winners = np.argmax([first, 1 - first - second, second], axis=0)
    return RopeProbabilities(*(np.bincount(winners, minlength=3) / winners.size).tolist())
