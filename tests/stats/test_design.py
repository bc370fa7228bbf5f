"""Attainable p against published values and integrals; Dunnett's distribution against his table."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import dblquad
from scipy.stats import multivariate_normal

from relation_tf.stats import attainable_pvalue, design, seeds_needed
from relation_tf.stats.design import largest_exceeds, rank_loadings, stratified_attainable_pvalue
from relation_tf.stats.permutation import exact_maxima
from relation_tf.stats.samples import index_pairs

# Five seeds, 2 to 10 methods; then the seeds needed for .05.
ASYMPTOTIC = [0.0090, 0.0245, 0.0447, 0.0683, 0.0945, 0.1225, 0.1517, 0.1817, 0.2121]
EXACT = [0.0079, 0.0218, 0.0402, 0.0619, 0.0862, 0.1124, 0.1399, 0.1683, 0.1973]
SEEDS_ASYMPTOTIC = [3, 5, 5, 6, 6, 7, 7, 7, 8]
SEEDS_EXACT = [4, 5, 5, 6, 6, 6, 6, 7, 7]
# One control against all others, five seeds.
ONE_AGAINST_ALL = [0.0079, 0.0152, 0.0219, 0.0282, 0.0341, 0.0397, 0.0450, 0.0500, 0.0548]


@pytest.mark.parametrize(
    ("method", "test", "table"),
    [
        ("asymptotic", "steel-dwass", ASYMPTOTIC),
        ("exact", "steel-dwass", EXACT),
        ("exact", "steel", ONE_AGAINST_ALL),
    ],
)
def test_smallest_p_of_five_seeds(method, test, table):
    reached = [attainable_pvalue(k, 5, method, test=test) for k in range(2, 11)]
    assert reached == pytest.approx(table, abs=5.1e-5)


@pytest.mark.parametrize("k", [2, 4, 9])
@pytest.mark.parametrize("n", [2, 5, 8])
def test_exact_p_of_one_against_all_is_the_integral(k, n):
    # The n control scores range from x to y. The probability that another method overlaps with
    # them is 1 - x^n - (1 - y)^n.
    def both(x, y):
        return n * (n - 1) * (y - x) ** (n - 2) * (1 - x**n - (1 - y) ** n) ** (k - 1)

    separated = 1 - dblquad(both, 0, 1, 0, lambda y: y)[0]
    smallest = attainable_pvalue(k, n, "exact", test="steel")
    assert smallest == pytest.approx(separated, abs=1e-8)


@pytest.mark.parametrize(
    ("method", "table"), [("asymptotic", SEEDS_ASYMPTOTIC), ("exact", SEEDS_EXACT)]
)
def test_seeds_needed(method, table):
    assert [seeds_needed(k, method=method) for k in range(2, 11)] == table


def test_tiny_p_keeps_its_digits():
    assert attainable_pvalue(2, 20, "exact") == pytest.approx(2 / 137846528820, rel=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: attainable_pvalue(1, 5), "Received: num_methods=1"),
        (lambda: attainable_pvalue(3, (5, 5)), r"Received: num_seeds=\(5, 5\)"),
        (lambda: attainable_pvalue(3, 5, "monte-carlo"), "Received: method='monte-carlo'"),
        (lambda: seeds_needed(3, 1.5), "Received: alpha=1.5"),
    ],
)
def test_out_of_range(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(("k", "n"), [(2, 3), (5, 1), (20, 5), (50, 12)])
def test_many_methods_use_an_integral_that_equals_the_sums(monkeypatch, k, n):
    exact = design._any_pair_disjoint(k, n), design._one_disjoint(n, 6, k)
    monkeypatch.setattr(design, "_MOST_EXPANDED", 0)
    integral = design._any_pair_disjoint(k, n), design._one_disjoint(n, 6, k)
    assert integral == pytest.approx(exact, abs=1e-10)


@pytest.mark.parametrize(
    ("k", "seeds", "tasks"), [(2, 3, 2), (3, 2, 2), (3, 1, 3), (2, 1, 5), (4, 1, 3), (3, 2, 3)]
)
@pytest.mark.parametrize("test", ["steel-dwass", "steel"])
def test_bound_over_tasks_is_at_most_the_smallest_p(k, seeds, tasks, test):
    """The lower bound is close, and exact for two methods."""
    stratum = tuple(range(k * seeds)), (seeds,) * k
    maxima, at_least = exact_maxima((stratum,) * tasks, index_pairs(k, test == "steel"))
    smallest = at_least[np.searchsorted(maxima, maxima[-1] - 1e-9)]
    bound = stratified_attainable_pvalue(k, tasks, seeds, test=test)
    assert smallest >= bound * (1 - 1e-9)
    close = 0.01 if smallest < 0.05 else 0.25
    assert smallest == pytest.approx(bound, rel=1e-9 if k == 2 else close)


# Dunnett (1964), two-sided 5 %, infinite degrees of freedom, 1 to 9 methods plus a control.
DUNNETT = [1.96, 2.21, 2.35, 2.44, 2.51, 2.57, 2.61, 2.65, 2.69]


@pytest.mark.parametrize(("methods", "critical"), list(enumerate(DUNNETT, 1)))
def test_dunnetts_table(methods, critical):
    many_scores = np.full(methods, math.sqrt(0.5))  # a correlation of one half
    edges = largest_exceeds(np.array([critical - 0.005, critical + 0.005]), many_scores)
    assert edges[0] > 0.05 > edges[1]


def untied(*sizes):
    return [(range(sum(sizes)), sizes)]


@pytest.mark.parametrize("sizes", [(5, 5, 5), (3, 5, 9), (20, 2, 4, 6)])
@pytest.mark.parametrize("value", [-0.5, 0.8, 2.0])
def test_p_matches_the_multivariate_normal_distribution(sizes, value):
    loadings = rank_loadings(untied(*sizes))
    correlation = np.outer(loadings, loadings)
    np.fill_diagonal(correlation, 1)
    upper = np.full(len(loadings), value)
    within = multivariate_normal(cov=correlation).cdf(abs(upper), lower_limit=-abs(upper))
    (both,) = largest_exceeds(np.array([value]), loadings)
    assert both == pytest.approx(1 - within, abs=1e-4)


@pytest.mark.parametrize(
    ("sizes", "pool"),
    [((2, 2, 1), [1, 2, 3, 4, 5]), ((2, 1, 2), [1, 1, 2, 3, 3]), ((1, 2, 2), [1, 2, 2, 2, 3])],
)
def test_correlations_match_all_arrangements(sizes, pool):
    wins = []
    for order in itertools.permutations(pool):
        control, *others = np.split(np.array(order), np.cumsum(sizes)[:-1])
        wins.append([np.sign(other[:, None] - control).sum() for other in others])
    expected = np.corrcoef(np.transpose(wins))[0, 1]
    for tasks in (1, 3):  # equal tasks have the correlations of one
        loadings = rank_loadings([(pool, sizes)] * tasks)
        assert loadings[0] * loadings[1] == pytest.approx(expected)
