"""The batched statistics against plain loops, and the enumeration of arrangements."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata

from relation_tf.stats.pairwise import (
    arrangements,
    exact_pvalues,
    monte_carlo_pvalues,
    num_arrangements,
    observed_counts,
    standardized_wins,
)
from relation_tf.stats.samples import rank_samples


def naive_statistic(first, second):
    """W* as the formula is written."""
    ranks = rankdata([*first, *second])
    n_i, n_j = len(first), len(second)
    n = n_i + n_j
    _, ties = np.unique(ranks, return_counts=True)
    variance = n_i * n_j / (12 * n * (n - 1)) * (n**3 - n - np.sum(ties**3 - ties))
    deviation = ranks[n_i:].sum() - n_j * (n + 1) / 2
    return np.sqrt(2) * deviation / np.sqrt(variance) if variance > 0 else 0.0


def naive_maximum(groups):
    return max(abs(naive_statistic(*pair)) for pair in itertools.combinations(groups, 2))


@settings(deadline=None, max_examples=50)
@given(st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=6), min_size=2, max_size=5))
def test_statistic_is_the_formulas(groups):
    statistic = standardized_wins(observed_counts(rank_samples(dict(enumerate(groups)))))[0]
    for i, j in itertools.combinations(range(len(groups)), 2):
        assert statistic[i, j] == pytest.approx(naive_statistic(groups[i], groups[j]), abs=1e-12)


@pytest.mark.parametrize("sizes", [(1, 1), (2, 3), (1, 2, 2), (2, 2, 1, 1)])
def test_arrangements_are_all_and_in_order(sizes):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    expected = sorted(set(itertools.permutations(labels.tolist())))
    total = num_arrangements(np.array(sizes))
    assert total == len(expected)
    dealt = arrangements(np.array(sizes), np.arange(total))
    assert [tuple(row) for row in dealt.tolist()] == expected


@pytest.mark.parametrize(
    "groups", [[[1, 2, 5], [3, 4, 6], [7, 8]], [[1, 1, 2], [2, 2, 3], [1, 3]], [[0, 0], [1, 1, 1]]]
)
def test_permutation_p_is_that_of_a_loop(groups):
    pool = np.concatenate(groups)
    labels = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    arranged = (np.array(order) for order in set(itertools.permutations(labels.tolist())))
    maxima = np.array(
        [naive_maximum([pool[order == i] for i in range(len(groups))]) for order in arranged]
    )
    counts = observed_counts(rank_samples(dict(enumerate(groups))))
    exact = exact_pvalues(counts)
    drawn = monte_carlo_pvalues(counts, 20_000, seed=1)
    for i, j in itertools.combinations(range(len(groups)), 2):
        expected = np.mean(maxima >= abs(naive_statistic(groups[i], groups[j])) - 1e-9)
        assert exact[i, j] == pytest.approx(expected, abs=1e-12)
        assert drawn[i, j] == pytest.approx(expected, abs=0.02)
