"""Ranks over tasks against Demsar's example, scipy and plain loops."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import friedmanchisquare, rankdata, studentized_range

from relation_tf.stats import (
    friedman_nemenyi,
    steel,
    steel_dwass,
    stratified_steel_dwass,
    win_tie_loss,
)

# Demsar (2006), Table 6: AUC of four variants of C4.5 on 14 datasets. In "voting" two methods have
# the same printed value but different ranks; one last digit is changed to get these ranks.
DEMSAR = pd.DataFrame(
    [
        [0.763, 0.768, 0.771, 0.798],
        [0.599, 0.591, 0.590, 0.569],
        [0.954, 0.971, 0.968, 0.967],
        [0.628, 0.661, 0.654, 0.657],
        [0.882, 0.888, 0.886, 0.898],
        [0.936, 0.931, 0.916, 0.931],
        [0.661, 0.668, 0.609, 0.685],
        [0.583, 0.583, 0.563, 0.625],
        [0.775, 0.838, 0.866, 0.875],
        [1.000, 1.000, 1.000, 1.000],
        [0.940, 0.962, 0.965, 0.962],
        [0.619, 0.666, 0.614, 0.669],
        [0.972, 0.981, 0.9751, 0.975],
        [0.957, 0.978, 0.946, 0.970],
    ],
    columns=["C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf"],
)
TABLES = (
    st.integers(3, 5)
    .flatmap(
        lambda methods: st.lists(
            st.lists(st.integers(0, 4), min_size=methods, max_size=methods), min_size=2, max_size=8
        )
    )
    .map(lambda rows: pd.DataFrame(rows, columns=[f"m{i}" for i in range(len(rows[0]))]))
)


def test_demsars_example():
    result = friedman_nemenyi(DEMSAR, alpha=0.1)
    assert result.average_ranks.round(3).tolist() == [3.143, 2.000, 2.893, 1.964]
    assert result.critical_difference == pytest.approx(1.12, abs=0.005)
    assert friedman_nemenyi(DEMSAR).critical_difference == pytest.approx(1.25, abs=0.005)
    # "C4.5 is significantly worse than C4.5+m and C4.5+m+cf"; no other difference is significant.
    better = result.pairs().set_index(["a", "b"])["better"].dropna()
    assert better.to_dict() == {
        ("C4.5", "C4.5+m"): "C4.5+m",
        ("C4.5", "C4.5+m+cf"): "C4.5+m+cf",
    }
    assert result.cliques() == [("C4.5+m+cf", "C4.5+m", "C4.5+cf"), ("C4.5+cf", "C4.5")]


@settings(deadline=None, max_examples=20)
@given(TABLES)
def test_results_match_the_formulas(table):
    result = friedman_nemenyi(table)
    n, k = table.shape
    ranks = rankdata(-table.to_numpy(), axis=1)
    np.testing.assert_array_equal(result.ranks, ranks)
    np.testing.assert_allclose(result.average_ranks, ranks.mean(axis=0))
    if (ranks == ranks[:, :1]).all():
        assert (result.statistic, result.f_statistic) == (0, 0)
        assert result.friedman_pvalue == pytest.approx(1)
    else:
        statistic, _ = friedmanchisquare(*table.to_numpy().T)
        assert result.statistic == pytest.approx(statistic)
    for a, b in itertools.combinations(table, 2):
        distance = abs(result.average_ranks[a] - result.average_ranks[b])
        quantile = distance / math.sqrt(k * (k + 1) / (12 * n))
        expected = studentized_range.sf(quantile, k, np.inf)
        assert result.pvalue.loc[a, b] == pytest.approx(expected, abs=1e-9)
        assert result.significant.loc[a, b] == (distance > result.critical_difference)
        assert result.pvalue.loc[a, b] >= result.attainable_pvalue - 1e-9


@settings(deadline=None, max_examples=20)
@given(TABLES, st.randoms(use_true_random=False))
def test_invariances(table, random):
    result = friedman_nemenyi(table)
    warped = friedman_nemenyi(np.exp(table) + np.arange(len(table))[:, None])
    np.testing.assert_allclose(warped.pvalue, result.pvalue)
    turned = friedman_nemenyi(-table, higher_is_better=False)
    np.testing.assert_allclose(turned.average_ranks, result.average_ranks)
    order = list(table)
    random.shuffle(order)
    shuffled = friedman_nemenyi(table[order].iloc[::-1])
    np.testing.assert_allclose(shuffled.pvalue.loc[list(table), list(table)], result.pvalue)
    assert shuffled.statistic == pytest.approx(result.statistic)


@settings(deadline=None, max_examples=20)
@given(TABLES, st.sampled_from([0.05, 0.3, 0.8]))
def test_cliques_are_the_largest_groups_without_a_significant_difference(table, alpha):
    result = friedman_nemenyi(table, alpha)
    together = [
        set(group)
        for size in range(2, table.shape[1] + 1)
        for group in itertools.combinations(table, size)
        if not any(result.significant.loc[a, b] for a, b in itertools.combinations(group, 2))
    ]
    largest = [group for group in together if not any(group < other for other in together)]
    cliques = result.cliques()
    assert sorted(map(sorted, cliques)) == sorted(map(sorted, largest))
    for clique in cliques:
        assert result.average_ranks[list(clique)].is_monotonic_increasing


@pytest.mark.parametrize(("num_methods", "num_tasks"), [(3, 2), (3, 4), (5, 3), (8, 12)])
def test_attainable_p_occurs_if_all_tasks_have_the_same_ranks(num_methods, num_tasks):
    table = pd.DataFrame([np.arange(num_methods)] * num_tasks)
    result = friedman_nemenyi(table)
    assert result.pvalue.min(axis=None) == pytest.approx(result.attainable_pvalue)
    assert math.isinf(result.f_statistic)
    assert result.f_pvalue == pytest.approx(math.factorial(num_methods) ** -(num_tasks - 1))


@settings(deadline=None, max_examples=20)
@given(
    st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=2, max_size=4).map(
        pd.DataFrame
    )
)
def test_no_p_is_below_the_share_of_equal_arrangements(table):
    """Enumerate all orders of each task's scores and count statistics equal to the observed one."""
    rows = [list(itertools.permutations(row)) for row in rankdata(-table, axis=1).tolist()]
    spread = np.array([np.var(np.sum(ranks, axis=0)) for ranks in itertools.product(*rows)])
    observed = np.var(rankdata(-table, axis=1).sum(axis=0))
    exact = np.mean(spread >= observed - 1e-9)
    result = friedman_nemenyi(table)
    floor = 6.0 ** -(len(table) - 1)
    assert exact >= floor - 1e-12
    assert result.f_pvalue >= floor * (1 - 1e-9)
    assert result.exact
    assert result.friedman_pvalue == pytest.approx(exact)


def test_friedmans_p_of_many_tasks_or_methods_is_approximate():
    many = friedman_nemenyi(DEMSAR)
    assert not many.exact
    assert many.friedman_pvalue == friedmanchisquare(*DEMSAR.to_numpy().T).pvalue
    rows = [[1, 2, 3, 4, 5, 6], [2, 1, 3, 5, 4, 6], [1, 2, 4, 3, 5, 6]]
    wide = friedman_nemenyi(pd.DataFrame(rows, columns=list("abcdef")))
    assert not wide.exact
    near = friedman_nemenyi(DEMSAR.iloc[:9])
    assert near.friedman_pvalue == pytest.approx(
        friedmanchisquare(*DEMSAR.iloc[:9].to_numpy().T).pvalue, rel=0.25
    )


def test_tasks_needed():
    needed = friedman_nemenyi(DEMSAR).tasks_needed
    for tasks, reached in ((needed, True), (needed - 1, False)):
        attainable = friedman_nemenyi(DEMSAR.iloc[:tasks]).attainable_pvalue
        assert (attainable < 0.05) == reached
    few, many = (friedman_nemenyi(DEMSAR.iloc[:n], higher_is_better=True) for n in (2, 14))
    assert [len(few.notes), len(many.notes)] == [2, 0]


def test_ties_by_tolerance_and_nan():
    table = pd.DataFrame(
        [[0.1 + 0.2, 0.3, 0.1], [0.5, math.nan, 0.4]], index=["x", "y"], columns=list("abc")
    )
    with pytest.raises(ValueError, match=r"scores of 'y' must not be NaN. Received: NaN for \['b'"):
        friedman_nemenyi(table)
    result = friedman_nemenyi(table, nan="worst")
    assert result.ranks.to_numpy().tolist() == [[1.5, 1.5, 3], [1, 3, 2]]
    assert any("NaN" in note for note in result.notes)
    lowest = friedman_nemenyi(table, nan="worst", higher_is_better=False)
    assert lowest.ranks.loc["y"].tolist() == [2, 3, 1]


@pytest.mark.parametrize(
    ("table", "error", "message"),
    [
        ([[1, 2, 3]] * 3, TypeError, "Received: list"),
        ({"t": [1, 2, 3]}, TypeError, "Received: list for 't'"),
        (DEMSAR.iloc[:1], ValueError, r"Received: shape \(1, 4\)"),
        (DEMSAR.iloc[:, :2], ValueError, r"scipy.stats.wilcoxon. Received: shape \(14, 2\)"),
        (DEMSAR.astype(str), TypeError, "'C4.5' must be numbers"),
        (
            pd.DataFrame({"task": ["x"] * 60, "method": ["a"] * 60, "score": [0.5] * 60}),
            TypeError,
            r"pivot it first: table.pivot_table\('score', 'task', 'method'\). Received: columns "
            r"\['task', 'method', 'score'\]",
        ),
        (DEMSAR.iloc[[0, 0]], ValueError, r"names of tasks must be unique. Received: \[0, 0\]"),
        (DEMSAR.iloc[:, [0, 0, 1]], ValueError, "names of methods must be unique"),
    ],
)
def test_bad_tables(table, error, message):
    with pytest.raises(error, match=message) as caught:
        friedman_nemenyi(table)
    assert "\n" not in str(caught.value)


LOW, MIDDLE, HIGH = range(5), range(10, 15), range(20, 25)


def test_wins_ties_and_losses():
    tests = {
        "accuracy": steel_dwass({"a": LOW, "b": HIGH, "c": HIGH}),
        "loss": steel_dwass({"a": HIGH, "b": LOW}, higher_is_better=False),
        "against c": steel({"a": LOW, "b": MIDDLE, "c": HIGH}, "c"),
    }
    counts = win_tie_loss(tests)
    assert counts.to_dict("list") == {
        "a": ["a", "a", "b"],
        "b": ["b", "c", "c"],
        "wins": [0, 0, 0],
        "ties": [0, 0, 1],
        "losses": [2, 2, 1],
    }


@pytest.mark.parametrize("column", ["task", "method"])
def test_rows_without_names_are_refused(column):
    table = pd.DataFrame({"task": ["t"] * 4, "method": [*"aabb"], "score": [1.0, 2.0, 3.0, 4.0]})
    table.loc[3, column] = None
    with pytest.raises(ValueError, match="must have a name in each row"):
        stratified_steel_dwass(table)
