"""Tests of `plausible_share` against loops, a quadrature and sure cases."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from scipy.stats import studentized_range

from relation_tf.stats import plausible_share


def naive_share(a, b, n, num_methods, draws, ddof=1):
    """Return the share of significant samples, one sample at a time."""
    rng = np.random.default_rng(1)
    found = 0
    for _ in range(draws):
        samples = []
        for mean, sd in (a, b):
            scores = rng.normal(size=n)
            samples.append(mean + sd * (scores - scores.mean()) / scores.std(ddof=ddof))
        wins = sum(x > y for x in samples[0] for y in samples[1])
        found += dscf_pvalue(wins, n, num_methods) < 0.05
    return found / draws


@functools.cache
def dscf_pvalue(wins, n, num_methods):
    """Return the asymptotic p of a pair of methods with this number of wins."""
    rank_sum = wins + n * (n + 1) / 2
    statistic = math.sqrt(2) * (rank_sum - n * (2 * n + 1) / 2) / math.sqrt(n**2 * (2 * n + 1) / 12)
    return studentized_range.sf(abs(statistic), num_methods, math.inf)


@pytest.mark.parametrize(
    ("a", "b", "n", "num_methods", "ddof"),
    [
        ((1410, 34.8), (1270, 85.2), 5, 3, 1),
        ((9.74, 0.885), (7.12, 1.82), 5, 4, 1),
        ((0, 1), (1.2, 0.3), 6, 2, 0),
    ],
)
def test_equals_a_loop_over_samples(a, b, n, num_methods, ddof):
    draws = 2000
    share = plausible_share(a, b, n, num_methods, ddof=ddof)
    expected = naive_share(a, b, n, num_methods, draws, ddof)
    assert 0.05 < share < 0.95
    assert expected == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / draws))


def test_equals_a_quadrature_for_three_seeds():
    # A standardized normal sample of three lies uniformly on a circle in the plane of sum 0.
    angles = np.linspace(0, 2 * np.pi, 1500, endpoint=False)
    plane = np.array([[1, -1, 0], [1, 1, -2]]) / np.sqrt([[2], [6]])
    circle = math.sqrt(2) * np.column_stack([np.cos(angles), np.sin(angles)]) @ plane
    low, high = circle.max(axis=1), 2.5 + 0.7 * circle.min(axis=1)
    separated = np.mean(high[:, None] > low)
    # Two methods, alpha = .06: separation is required and enough, as p is .0495 then.
    assert plausible_share((0, 1), (2.5, 0.7), 3, 2, alpha=0.06) == pytest.approx(
        separated, abs=0.004
    )


@pytest.mark.parametrize(
    ("a", "b", "n", "num_methods", "share"),
    [
        ((0, 1), (3.6, 1), 5, 4, 1),  # r = 1.8 > 1.789
        ((0, 1), (0.89, 1), 5, 4, 0),  # r = .445 < .447
        ((0, 1), (9, 1), 5, 5, 0),  # five methods cannot reach p < .05
        ((5, 0), (4, 0), 5, 4, 1),
        ((5, 0), (5, 0), 5, 4, 0),
    ],
)
def test_certain_and_impossible_cases(a, b, n, num_methods, share):
    assert plausible_share(a, b, n, num_methods, draws=20_000) == share
    assert plausible_share(b, a, n, num_methods, draws=20_000) == share


def test_the_rarest_claim_of_the_relation_paper():
    # Relation against Linear Attention on WikiText-103 at 256 units, of three methods.
    share = plausible_share((3400, 107), (3520, 69.6), n=5, num_methods=3)
    assert f"{share:.1%}" == "0.2%"


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"a": 80.6}, TypeError, r"`a` must be \(mean, sd\). Received: a=80.6"),
        ({"b": (1, "x")}, TypeError, "`b` must be a number"),
        ({"b": (1, -1)}, ValueError, r"an SD of at least 0. Received: b=\(1, -1\)"),
        ({"n": 1}, ValueError, "Received: n=1"),
        ({"num_methods": 1}, ValueError, "Received: num_methods=1"),
        ({"draws": 0}, ValueError, "Received: draws=0"),
        ({"ddof": None}, ValueError, "Received: ddof=None"),
        ({"test": "t"}, ValueError, "Received: test='t'"),
    ],
)
def test_errors_of_bad_input(options, error, message):
    with pytest.raises(error, match=message):
        plausible_share(**{"a": (0, 1), "b": (1, 1), "n": 5, "num_methods": 3, **options})
