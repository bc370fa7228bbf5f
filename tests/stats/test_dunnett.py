"""Tests of Dunnett's distribution against his table, scipy and a published p."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from relation_tf.stats.dunnett import largest_exceeds, rank_loadings

# Dunnett (1964), two-sided 5 %, infinite degrees of freedom, 1 to 9 methods plus a control.
TABLE = [1.96, 2.21, 2.35, 2.44, 2.51, 2.57, 2.61, 2.65, 2.69]


@pytest.mark.parametrize(("methods", "critical"), list(enumerate(TABLE, 1)))
def test_dunnetts_table(methods, critical):
    edges = largest_exceeds(np.array([critical - 0.005, critical + 0.005]), many(methods))
    assert edges[0] > 0.05 > edges[1]


def many(methods):
    """Return loadings for many scores: a correlation of one half."""
    return np.full(methods, math.sqrt(0.5))


@pytest.mark.parametrize("sizes", [(5, 5, 5), (3, 5, 9), (20, 2, 4, 6)])
@pytest.mark.parametrize("value", [-0.5, 0.8, 2.0])
def test_p_matches_the_multivariate_normal_distribution(sizes, value):
    loadings = rank_loadings(sizes)
    correlation = np.outer(loadings, loadings)
    np.fill_diagonal(correlation, 1)
    upper = np.full(len(loadings), value)
    within = multivariate_normal(cov=correlation).cdf(abs(upper), lower_limit=-abs(upper))
    (both,) = largest_exceeds(np.array([value]), loadings)
    assert both == pytest.approx(1 - within, abs=1e-4)


def test_one_method_gives_the_normal_distribution_even_in_the_tail():
    statistics = np.array([0.0, 1.0, 4.0, 10.0, 20.0])
    np.testing.assert_allclose(
        largest_exceeds(statistics, rank_loadings((5, 5))), 2 * norm.sf(statistics), rtol=1e-7
    )


@pytest.mark.parametrize(
    ("sizes", "pool"),
    [((2, 2, 1), [1, 2, 3, 4, 5]), ((2, 1, 2), [1, 1, 2, 3, 3]), ((1, 2, 2), [1, 2, 2, 2, 3])],
)
def test_correlations_match_all_arrangements(sizes, pool):
    wins = []
    for order in itertools.permutations(pool):
        control, *others = np.split(np.array(order), np.cumsum(sizes)[:-1])
        wins.append([np.sign(other[:, None] - control).sum() for other in others])
    loadings = rank_loadings(sizes, np.unique(pool, return_counts=True)[1].tolist())
    assert loadings[0] * loadings[1] == pytest.approx(np.corrcoef(np.transpose(wins))[0, 1])


def test_all_scores_equal():
    assert rank_loadings((2, 2), (4,)).tolist() == [0]
    assert rank_loadings((1, 1)).tolist() == [math.sqrt(1 / 3)]
