"""Brunner-Munzel and Welch tests of all pairs: enumeration, scipy, known values and error rates."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ttest_ind

from relation_tf.registry import PROCEDURES
from relation_tf.stats import brunner_munzel, pair_tests, welch
from relation_tf.stats.pair_tests import attainable_with_holm, holm
from relation_tf.stats.permutation import (
    PERMUTATIONS,
    null_distribution,
    permutation_pvalues,
    untied_groups,
)

PAIR = st.tuples(*[st.lists(st.integers(0, 4), min_size=1, max_size=4)] * 2)


def named(groups):
    return {str(number): group for number, group in enumerate(groups, 1)}


def naive_statistic(first, second):
    """Brunner and Munzel (2000) from midranks, with plain loops."""

    def rank(x, scores):
        return sum(y < x for y in scores) + (sum(y == x for y in scores) + 1) / 2

    pooled = [*first, *second]
    means, variances = [], []
    for scores in (first, second):
        joint = [rank(x, pooled) for x in scores]
        placements = [r - rank(x, scores) for r, x in zip(joint, scores, strict=True)]
        center = sum(placements) / len(scores)
        squares = sum((place - center) ** 2 for place in placements)
        variances.append(squares / (len(scores) - 1) if len(scores) > 1 else 0.0)
        means.append(sum(joint) / len(scores))
    n, m = len(first), len(second)
    scale = (n + m) * math.sqrt(n * variances[0] + m * variances[1]) / (n * m)
    difference = means[1] - means[0]
    if scale:
        return difference / scale
    return math.copysign(math.inf, difference) if difference else 0.0


def naive_pvalue(first, second):
    """Share of all arrangements of the pair with an absolute statistic at least as large."""
    pooled, reached, total = [*first, *second], 0, 0
    observed = abs(naive_statistic(first, second))
    for chosen in itertools.combinations(range(len(pooled)), len(second)):
        rest = [x for place, x in enumerate(pooled) if place not in chosen]
        found = abs(naive_statistic(rest, [pooled[place] for place in chosen]))
        reached += found >= observed - 1e-9
        total += 1
    return reached / total


@settings(deadline=None, max_examples=150)
@given(PAIR)
def test_a_pair_equals_enumeration(pair):
    result = brunner_munzel(named(pair))
    assert result.method == "exact"
    assert result.statistic.loc["1", "2"] == pytest.approx(naive_statistic(*pair), abs=1e-12)
    assert result.pvalue.loc["1", "2"] == pytest.approx(naive_pvalue(*pair), abs=1e-12)


def test_four_methods_with_five_seeds_can_be_significant():
    rows = {str(i): np.arange(5) + 5.0 * i for i in range(4)}
    result = brunner_munzel(rows)
    assert result.pairs()["pvalue"].tolist() == pytest.approx([6 * 2 / 252] * 6)
    assert (result.attainable_pvalue, result.seeds_needed) == (pytest.approx(0.04762, abs=1e-5), 5)
    against = brunner_munzel(rows, control="2")
    assert against.pvalue.tolist() == pytest.approx([3 * 2 / 252] * 3)
    assert against.procedure is PROCEDURES["brunner-munzel-control"]
    assert against.attainable_pvalue == attainable_with_holm(4, 5, against_control=True)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.lists(st.integers(0, 9), min_size=2, max_size=4), min_size=3, max_size=4))
def test_pairs_are_tested_separately_and_adjusted(groups):
    pairs = list(itertools.combinations(groups, 2))
    separate = np.array([naive_pvalue(*pair) for pair in pairs])
    np.testing.assert_allclose(brunner_munzel(named(groups)).pairs()["pvalue"], holm(separate))


def test_monte_carlo_is_near_the_exact_p():
    rng = np.random.default_rng(2)
    samples = {"a": rng.normal(size=6), "b": rng.normal(1, 3, size=6)}
    exact = brunner_munzel(samples)
    drawn = brunner_munzel(samples, permutations=900, rng=3)
    p = exact.pvalue.loc["a", "b"]
    assert (exact.method, drawn.method) == ("exact", "monte-carlo")
    assert drawn.pvalue.loc["a", "b"] == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / 900))
    again = brunner_munzel(samples, permutations=900, rng=3)
    assert again.pvalue.equals(drawn.pvalue)
    far = {"a": np.arange(6), "b": np.arange(6) + 10}
    least = brunner_munzel(far, permutations=100, rng=5)
    assert least.pvalue.loc["a", "b"] >= least.attainable_pvalue == 1 / 101


def test_the_note_counts_the_pairs_with_random_permutations():
    samples = {str(n): np.arange(n) * 1.1**n for n in (4, 3, 7, 8)}
    for permutations, said in ((35, ["P-values of 5 of 6 pairs come"]), (34, ["P-values come"]),
                               (10_000, [])):  # fmt: skip
        notes = brunner_munzel(samples, permutations=permutations).notes
        assert [note.partition(" from ")[0] for note in notes] == said


@pytest.mark.parametrize("sizes", [(5, 5), (2, 9)])
def test_welch_equals_scipy(sizes):
    rng = np.random.default_rng(4)
    first, second = rng.normal(size=sizes[0]), rng.normal(1, 5, size=sizes[1])
    expected = ttest_ind(second, first, equal_var=False)
    result = welch(named((first, second)))
    assert result.statistic.loc["1", "2"] == pytest.approx(expected.statistic)
    assert result.pvalue.loc["1", "2"] == pytest.approx(expected.pvalue, rel=1e-10)


@pytest.mark.parametrize("second", [[2.0, 2.0, 2.0], [3.0]], ids=["constant", "one score"])
def test_welch_does_not_test_without_a_variance(second):
    result = welch({"a": [1.0, 1.0, 1.0], "b": second, "c": [5.0, 6.0, 7.0]})
    assert result.pvalue.loc["a", "b"] == 1
    intervals = result.confidence_interval().set_index(["a", "b"])
    assert intervals.loc[("a", "b"), ["low", "high"]].tolist() == [-math.inf, math.inf]


def test_intervals_of_welch_equal_scipy_with_bonferroni():
    rng = np.random.default_rng(1)
    samples = {"a": rng.normal(0, 1, 5), "b": rng.normal(1, 2, 6), "c": rng.normal(3, 0.5, 4)}
    for options, level, num_pairs in (({}, 0.05, 3), ({"control": "b"}, 0.1, 2)):
        found = welch(samples, **options).confidence_interval(1 - level)
        assert len(found) == num_pairs
        for row in found.itertuples():
            test = ttest_ind(samples[row.b], samples[row.a], equal_var=False)
            expected = test.confidence_interval(1 - level / num_pairs)
            assert (row.low, row.high) == pytest.approx((expected.low, expected.high))
            assert row.difference == pytest.approx(samples[row.b].mean() - samples[row.a].mean())


def naive_shifts(first, second, level):
    """Smallest and largest edge of the shifts that the enumerated test does not reject."""
    edges = sorted(y - x for x in first for y in second)
    ends = [-math.inf, *edges, math.inf]
    middles = [edges[0] - 1, *map(np.mean, itertools.pairwise(edges)), edges[-1] + 1]
    kept = [
        place
        for place, shift in enumerate(middles)
        if naive_pvalue(first, [y - shift for y in second]) >= level
    ]
    return ends[kept[0]], ends[kept[-1] + 1]


@pytest.mark.parametrize("spread", [0.3, 1.0, 5.0])
def test_intervals_of_brunner_munzel_equal_enumeration(spread):
    rng = np.random.default_rng(2)
    first, second = rng.normal(0, 1, 4), rng.normal(1, spread, 4)
    found = brunner_munzel(named((first, second))).confidence_interval(0.9).iloc[0]
    assert (found.low, found.high) == pytest.approx(naive_shifts(first, second, 0.1))
    assert found.difference == pytest.approx(np.median(np.subtract.outer(second, first)))


@settings(deadline=None, max_examples=20)
@given(PAIR, PAIR)
def test_an_interval_of_a_pair_that_is_not_significant_has_0(pair, other):
    for test in (brunner_munzel, welch):
        result = test(dict(zip("abcd", (*pair, *other), strict=True)))
        joined = result.pairs().merge(result.confidence_interval(), on=["a", "b"])
        assert ((joined["low"] <= 0) & (joined["high"] >= 0))[~joined["significant"]].all()


def false_positives(num_methods, num_seeds, deviations, simulations=20_000):
    """Shares of simulations with a significant pair: Steel-Dwass, Brunner-Munzel and Welch."""
    rng = np.random.default_rng(num_methods * 100 + num_seeds)
    scores = [rng.normal(size=(simulations, num_seeds)) * sd for sd in deviations]
    pairs = list(itertools.combinations(scores, 2))
    shape = (1,) * (2 * num_seeds)
    null = pair_tests._null(shape, num_seeds, PERMUTATIONS, 0)
    labels = [np.argsort(np.hstack(pair), axis=1) >= num_seeds for pair in pairs]
    statistics = [pair_tests._statistics(order.astype(int), shape) for order in labels]
    brunner = permutation_pvalues(np.array(statistics), null)
    t = [ttest_ind(*pair, axis=1, equal_var=False).pvalue for pair in pairs]
    wins = np.array([(a[:, :, None] < b[:, None]).sum((1, 2)) for a, b in pairs])
    largest = abs(wins - num_seeds**2 / 2).max(axis=0)
    return [
        (largest >= critical_wins(num_methods, num_seeds)).mean(),
        *((p.min(axis=0) * len(pairs) < 0.05).mean() for p in (brunner, np.array(t))),
    ]


@functools.cache
def critical_wins(num_methods, num_seeds):
    """Smallest excess of wins of any pair with p < .05 under joint permutations."""
    groups = [untied_groups([num_seeds] * num_methods)]
    critical = null_distribution("steel-dwass", groups).critical_statistic(0.05)
    return critical * num_seeds * math.sqrt((2 * num_seeds + 1) / 12) - 1e-9


LEVELS = [  # methods, seeds, SDs, and the shares in the module's docstring, in percent
    (4, 5, (1, 1, 1, 1), (4.2, 4.2, 3.6)),
    (4, 5, (3, 1, 1, 1), (5.4, 5.4, 3.8)),
    (4, 5, (10, 1, 1, 1), (7.3, 7.3, 3.2)),
    (4, 5, (1, 10, 10, 10), (11.9, 11.9, 4.3)),
    (4, 10, (1, 10, 10, 10), (7.6, 6.1, 3.8)),
    (4, 15, (1, 10, 10, 10), (9.2, 4.6, 3.7)),
    (2, 5, (10, 1), (6.1, 6.2, 5.3)),
    (2, 10, (10, 1), (8.9, 6.6, 5.2)),
    (2, 15, (10, 1), (9.3, 5.4, 5.1)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("num_methods", "num_seeds", "deviations", "expected"), LEVELS)
def test_share_of_false_positives(num_methods, num_seeds, deviations, expected):
    shares = false_positives(num_methods, num_seeds, deviations)
    np.testing.assert_allclose(np.array(shares) * 100, expected, atol=0.6)
    rank_test, brunner, t = shares
    assert t < 0.06
    assert brunner < 0.06 or num_seeds < 15
    assert brunner < rank_test or num_seeds < 10
