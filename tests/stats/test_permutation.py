"""Batched statistics and permutation p against loops, and the number of random arrangements."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata

from relation_tf.stats import permutation, steel_dwass
from relation_tf.stats.permutation import (
    PERMUTATIONS,
    affordable_permutations,
    arrangements,
    distribution,
    drawn_maxima,
    exact_maxima,
    net_wins,
    null_distribution,
    num_arrangements,
    observed_groups,
    permutation_pvalues,
    rank_sums,
    shuffled_groups,
    untied_groups,
)
from relation_tf.stats.samples import index_pairs, rank_samples

GROUPS = st.lists(
    st.lists(st.integers(0, 4), min_size=1, max_size=6), min_size=2, max_size=5
)  # mostly tied
MANY = st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=1), min_size=14, max_size=18)
UNTIED = st.permutations(range(12)).map(lambda order: [order[:3], order[3:7], order[7:]])


def observed(groups):
    return observed_groups(rank_samples(dict(enumerate(groups))))


def strata_of(groups):
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


@settings(deadline=None, max_examples=50)
@given(groups=GROUPS | UNTIED, seed=st.integers(0, 9))
def test_large_groups_are_counted_like_small_ones(groups, seed):
    arranged = shuffled_groups(*strata_of(groups), 7, np.random.default_rng(seed))
    pairs = index_pairs(len(groups))
    compared = net_wins(arranged, pairs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(permutation, "_MOST_COMPARISONS", 0)
        np.testing.assert_array_equal(net_wins(arranged, pairs), compared)


@pytest.mark.parametrize("sizes", [(1, 1), (2, 3), (1, 2, 2), (2, 2, 1, 1)])
def test_arrangements_are_complete_and_in_order(sizes):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    expected = sorted(set(itertools.permutations(labels.tolist())))
    total = num_arrangements(sizes)
    assert [tuple(row) for row in arrangements(sizes, np.arange(total)).tolist()] == expected


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
    expected = [np.mean(naive >= abs(statistic) - 1e-9) for statistic in statistics]
    exact = exact_maxima(strata_of(groups), pairs)
    times = naive.size // exact[0].size  # with equal groups, all pairs: one of each two or three
    np.testing.assert_allclose(np.repeat(exact[0], times), np.sort(naive), atol=1e-12)
    np.testing.assert_allclose(permutation_pvalues(statistics, exact), expected)
    drawn = drawn_maxima(strata_of(groups), pairs, 20_000, seed=1)
    np.testing.assert_allclose(permutation_pvalues(statistics, drawn), expected, atol=0.02)


def test_random_p_counts_the_observed_arrangement():
    statistics = np.array([2.0, 4.0])
    for drawn, expected in ((True, [3 / 4, 1 / 4]), (False, [2 / 3, 1 / 3])):
        null = distribution(np.array([1.0, 3.0, -2.0]), drawn=drawn)
        assert permutation_pvalues(statistics, null).tolist() == expected


@pytest.mark.parametrize("draws", [1, math.inf], ids=["listed", "shuffled"])
@pytest.mark.parametrize("codes", [(0, 1, 2, 3, 4, 5), (0, 0, 1, 2, 2, 3)], ids=["untied", "tied"])
def test_drawn_maxima_over_tasks_have_the_exact_distribution(codes, draws, monkeypatch):
    monkeypatch.setattr(permutation, "_DRAWS", draws)
    strata, pairs = ((codes, (2, 2, 2)),) * 3, index_pairs(3)
    exact, at_least = exact_maxima(strata, pairs)
    maxima, _ = drawn_maxima.__wrapped__(strata, pairs, 40_000, 0)
    values = np.unique(exact.round(6)) - 1e-6
    drawn = np.mean(maxima >= values[:, None], axis=1)
    assert drawn == pytest.approx(at_least[np.searchsorted(exact, values)], abs=0.01)


def test_fewer_arrangements_are_drawn_only_far_from_the_level():
    null = null_distribution("steel-dwass", [untied_groups([5] * 21)], permutations=200_000)
    statistics = np.array([0.0, null.critical_statistic(0.3)])
    near = null.pvalues(statistics)[1] + 0.002
    assert null.sufficient(statistics, near) == null
    chosen = null.sufficient(statistics, 0.05)
    assert chosen.permutations < null.permutations / 10
    assert chosen.pvalues(statistics) == pytest.approx(null.pvalues(statistics), abs=0.02)
    assert chosen.complete() == null.complete() == null


def test_intervals_at_another_level_use_all_arrangements(monkeypatch):
    monkeypatch.setattr(permutation, "_FEWEST_FIRST", 500)
    monkeypatch.setattr(permutation, "_FIRST_BUDGET", 1)
    monkeypatch.setattr(permutation, "PERMUTATIONS", 30_000)
    rng = np.random.default_rng(0)
    samples = {name: rng.normal(size=9) + 3 * place for place, name in enumerate("abcd")}
    fewer, whole = steel_dwass(samples), steel_dwass(samples, permutations=30_000)
    assert fewer.null.permutations < whole.null.permutations
    for confidence in (0.9, 0.99):
        limits = [x.confidence_interval(confidence).iloc[:, 2:] for x in (fewer, whole)]
        np.testing.assert_array_equal(*limits)


@pytest.mark.parametrize(
    ("methods", "seeds", "tasks", "expected"),
    [
        *[(2, 5, 1, 200_000), (10, 10, 10, 200_000), (9, 5, 20, 200_000), (2, 200, 1, 200_000)],
        *[(300, 5, 1, 5_266), (4, 1_000, 1, 16_886), (1_000, 5, 20, 2_000)],
    ],
)
def test_large_designs_have_fewer_random_arrangements(methods, seeds, tasks, expected):
    all_pairs, with_control = (
        affordable_permutations([[seeds] * methods] * tasks, index_pairs(methods, control))
        for control in (False, True)
    )
    assert all_pairs == expected
    assert with_control > expected or expected == PERMUTATIONS
