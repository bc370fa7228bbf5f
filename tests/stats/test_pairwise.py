"""Tests of batched statistics against loops, and of the enumeration of arrangements."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata

from relation_tf.stats import pairwise
from relation_tf.stats.null_distribution import drawn_maxima, exact_maxima, null_distribution
from relation_tf.stats.pairwise import (
    arrangements,
    index_pairs,
    net_wins,
    num_arrangements,
    observed_groups,
    permutation_pvalues,
    rank_sums,
    shuffled_groups,
)
from relation_tf.stats.samples import rank_samples

GROUPS = st.lists(
    st.lists(st.integers(0, 4), min_size=1, max_size=6), min_size=2, max_size=5
)  # mostly tied
MANY = st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=1), min_size=14, max_size=18)
UNTIED = st.permutations(range(12)).map(lambda order: [order[:3], order[3:7], order[7:]])


def observed(groups):
    return observed_groups(rank_samples(dict(enumerate(groups))))


def stratum(groups):
    return null_distribution("steel-dwass", [observed(groups)], "asymptotic").strata


def naive_statistic(first, second):
    """Return the standardized U from the rank-sum formula."""
    ranks = rankdata([*first, *second])
    n_i, n_j = len(first), len(second)
    n = n_i + n_j
    _, ties = np.unique(ranks, return_counts=True)
    variance = n_i * n_j / (12 * n * (n - 1)) * (n**3 - n - np.sum(ties**3 - ties))
    deviation = ranks[n_i:].sum() - n_j * (n + 1) / 2
    return deviation / np.sqrt(variance) if variance > 0 else 0.0


@pytest.mark.parametrize("against_first", [False, True])
@settings(deadline=None, max_examples=50)
@given(groups=GROUPS | MANY | UNTIED)
def test_statistics_match_the_formulas(against_first, groups):
    pairs = index_pairs(len(groups), against_first)
    wins = net_wins(observed(groups), pairs)[:, 0]
    statistic = rank_sums(observed(groups), pairs).statistic[:, 0]
    for row, (i, j) in enumerate(pairs):
        signs = [np.sign(y - x) for x, y in itertools.product(groups[i], groups[j])]
        assert wins[row] == sum(signs)
        assert statistic[row] == pytest.approx(naive_statistic(groups[i], groups[j]), abs=1e-12)


def test_many_scores_do_not_overflow():
    groups = observed([range(300), range(300, 600)])
    assert net_wins(groups, [(0, 1)]) == 300 * 300
    apart = observed([[0] * 300, [1] * 300])
    assert rank_sums(apart, [(0, 1)]).statistic == pytest.approx(599**0.5)


@settings(deadline=None, max_examples=50)
@given(groups=GROUPS | UNTIED, seed=st.integers(0, 9))
def test_large_groups_are_counted_like_small_ones(groups, seed):
    pool = np.sort(np.concatenate(observed(groups)), axis=None)
    arranged = shuffled_groups(pool, [*map(len, groups)], 7, np.random.default_rng(seed))
    pairs = index_pairs(len(groups))
    compared = net_wins(arranged, pairs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pairwise, "_MOST_COMPARISONS", 0)
        np.testing.assert_array_equal(net_wins(arranged, pairs), compared)


@pytest.mark.parametrize("sizes", [(1, 1), (2, 3), (1, 2, 2), (2, 2, 1, 1)])
def test_arrangements_are_complete_and_in_order(sizes):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    expected = sorted(set(itertools.permutations(labels.tolist())))
    total = num_arrangements(sizes)
    assert total == len(expected)
    dealt = arrangements(sizes, np.arange(total))
    assert [tuple(row) for row in dealt.tolist()] == expected


@pytest.mark.parametrize("against_first", [False, True])
@pytest.mark.parametrize(
    "groups",
    [
        [[1, 2, 5], [3, 4, 6], [7, 8]],
        [[1, 1, 2], [2, 2, 3], [1, 3]],
        [[0, 0], [1, 1, 1]],
        [[0, 1], [1, 1], [2, 3]],
        [[1, 4, 6], [2, 3, 5]],
    ],
)
def test_permutation_p_matches_a_loop(groups, against_first):
    pairs = index_pairs(len(groups), against_first)
    pool = np.concatenate(groups)
    labels = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    naive = np.array(
        [
            max(abs(naive_statistic(pool[order == i], pool[order == j])) for i, j in pairs)
            for order in map(np.array, set(itertools.permutations(labels.tolist())))
        ]
    )
    statistics = rank_sums(observed(groups), pairs).statistic[:, 0]
    strata = stratum(groups)
    exact, at_least = exact_maxima(strata, tuple(pairs))
    times = naive.size // exact.size  # with equal groups, all pairs: one of each two or three
    np.testing.assert_allclose(np.repeat(exact, times), np.sort(naive), atol=1e-12)
    drawn = drawn_maxima(strata, tuple(pairs), 20_000, seed=1)
    expected = [np.mean(naive >= abs(statistic) - 1e-9) for statistic in statistics]
    np.testing.assert_allclose(permutation_pvalues(statistics, exact, drawn=False), expected)
    reached = np.searchsorted(exact, np.abs(statistics) - 1e-9)
    np.testing.assert_allclose(at_least[reached], expected)
    np.testing.assert_allclose(
        permutation_pvalues(statistics, drawn, drawn=True), expected, atol=0.02
    )


def test_random_p_counts_the_observed_arrangement():
    maxima = np.array([1.0, 2.0, 3.0])
    assert permutation_pvalues(np.array([2.0, 4.0]), maxima, drawn=True).tolist() == [3 / 4, 1 / 4]
    assert permutation_pvalues(np.array([2.0]), maxima, drawn=False).tolist() == [2 / 3]


@pytest.mark.parametrize(
    "maxima", [lambda *a: exact_maxima(*a)[0], lambda *a: drawn_maxima(*a, 100, seed=1)]
)
def test_maxima_of_equal_ranks_are_computed_once(maxima):
    pairs = tuple(index_pairs(2))
    first = maxima(stratum([[0.1, 0.2], [0.3, 0.4]]), pairs)
    assert maxima(stratum([[8, 5], [7, 6]]), pairs) is first
    tied = maxima(stratum([[8, 5], [5, 6]]), pairs)
    assert tied is not first
    assert maxima(stratum([[8, 5, 7], [6]]), pairs) is not first
