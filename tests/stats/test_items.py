"""Standard errors of scores from rows and seeds, and McNemar's test for several seeds."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, binomtest, norm
from statsmodels.stats.multitest import multipletests

from relation_tf.registry import METRICS, register_metric
from relation_tf.stats import mcnemar, mcnemar_holm, score_errors


def noisy(rng, labels, share, seeds):
    """Predictions that are right with a probability of each row."""
    right = rng.random((seeds, labels.size)) < share
    return np.where(right, labels, 1 - labels)


def naive_flips(first, second, labels):
    """Share of all choices of signs with a sum farther from 0, and half of those as far."""
    shares = [np.mean(np.atleast_2d(given) == labels, axis=0) for given in (first, second)]
    d = shares[1] - shares[0]
    observed, reached, total = abs(d.sum()), 0.0, 0
    if observed < 1e-12:
        return 1.0
    for signs in itertools.product([-1, 1], repeat=labels.size):
        found = abs(np.dot(signs, d))
        equal = math.isclose(found, observed, abs_tol=1e-12)
        reached += 0.5 if equal else found > observed
        total += 1
    return reached / total


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(1, 3))
def test_mcnemar_equals_all_signs(seed, seeds_a, seeds_b):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, 8)
    first, second = noisy(rng, labels, 0.6, seeds_a), noisy(rng, labels, 0.8, seeds_b)
    test = mcnemar(first, second, labels)
    assert test.pvalue == pytest.approx(naive_flips(first, second, labels), abs=1e-12)
    means = [(given == labels).mean() for given in (first, second)]
    assert test.difference == pytest.approx(means[1] - means[0])


def test_standard_errors_of_an_accuracy_equal_formulas():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 872)
    share = np.clip(rng.beta(4, 1, 872) + rng.normal(0, 0.05, (5, 1)), 0, 1)
    given = noisy(rng, labels, share, 5)
    right = given == labels
    errors = score_errors(given, labels, draws=4000)
    by_seed, by_row = right.mean(axis=1), right.mean(axis=0)
    assert errors.score == pytest.approx(right.mean())
    assert errors.seeds_sd == pytest.approx(by_seed.std(ddof=1))
    assert errors.seeds == pytest.approx(by_seed.std(ddof=1) / math.sqrt(5))
    assert errors.rows == pytest.approx(by_row.std() / math.sqrt(872), rel=0.05)
    # Two-way analysis of variance of the table of seeds x rows.
    rest = right - by_seed[:, None] - by_row + right.mean()
    interaction = (rest**2).sum() / (4 * 871) / (5 * 872)
    both = by_seed.var(ddof=1) / 5 + by_row.var(ddof=1) / 872 - interaction
    assert both > max(errors.rows, errors.seeds) ** 2
    assert errors.both == pytest.approx(math.sqrt(both), rel=0.06)
    assert (errors.num_rows, errors.num_seeds) == (872, 5)


def naive_errors(given, labels, function, draws, seed):
    """Two-way bootstrap with plain loops and its own draws."""
    rng = np.random.default_rng(seed)
    seeds, rows = given.shape
    by_rows, by_both = [], []
    for _ in range(draws):
        chosen = rng.integers(rows, size=rows)
        scores = [function(run[chosen], labels[chosen]) for run in given]
        by_rows.append(np.mean(scores))
        by_both.append(np.mean([scores[i] for i in rng.integers(seeds, size=seeds - 1)]))
    return np.var(by_rows, ddof=1), np.var(by_both, ddof=1)


def test_bootstrap_equals_plain_loops():
    rng, function = np.random.default_rng(1), METRICS["pearson"].function
    labels = np.round(rng.random(120) * 5, 1)
    given = np.round(labels + rng.normal(0, 2, (3, 120)), 1)
    errors = score_errors(given, labels, ["pearson"], draws=2000)
    rows, both = naive_errors(given, labels, function, 800, 5)
    assert errors.score == pytest.approx(np.mean([function(run, labels) for run in given]))
    assert errors.rows == pytest.approx(math.sqrt(rows), rel=0.1)
    corrected = max(rows, errors.seeds**2, 2 * (rows + errors.seeds**2) - both)
    assert errors.both == pytest.approx(math.sqrt(corrected), rel=0.1)


def test_other_metrics_are_computed_for_each_draw():
    @register_metric("test-error", higher_is_better=False)
    def error_rate(predictions, labels):
        return float((predictions != labels).mean())

    try:
        rng = np.random.default_rng(4)
        labels = rng.integers(0, 2, 50)
        given = noisy(rng, labels, 0.8, 3)
        slow = score_errors(given, labels, ["test-error"], draws=200)
        fast = score_errors(given, labels, ["accuracy"], draws=200)
        assert slow.score == pytest.approx(1 - fast.score)
        assert (slow.rows, slow.both) == pytest.approx((fast.rows, fast.both))
    finally:
        METRICS.remove("test-error")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: score_errors([[0, 1]], [0, 1, 1]), r"must have shape \(seeds, rows\)"),
        (lambda: score_errors([[1]], [1]), r"must have shape \(seeds, rows\)"),
        (lambda: score_errors(np.zeros((2, 2, 2)), [0, 1]), r"must have shape \(seeds, rows\)"),
        (
            lambda: score_errors([["a", "b"]], ["a", "c"], ["exact_match"]),
            "'exact_match' is not computed from predictions",
        ),
    ],
)
def test_wrong_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_pairs_of_methods_on_items_against_scipy():
    """The mid-p is the exact p minus the probability of the observed result."""
    rng = np.random.default_rng(0)
    scores = {name: rng.binomial(1, chance, 60) for name, chance in (("a", 0.5), ("b", 0.8))}
    result = mcnemar_holm(scores)
    won = int(((scores["b"] == 1) & (scores["a"] == 0)).sum())
    unlike = int((scores["a"] != scores["b"]).sum())
    expected = binomtest(won, unlike).pvalue - binom.pmf(won, unlike, 0.5)
    assert result.pvalue.loc["a", "b"] == pytest.approx(expected, abs=1e-12)
    assert result.statistic.loc["a", "b"] == 2 * won - unlike
    assert result.discordant().iloc[0].tolist()[:4] == ["a", "b", unlike - won, won]
    assert np.isnan(result.effect_size.loc["a", "b"])
    alone = mcnemar(scores)
    assert alone.pvalue == result.pvalue.loc["a", "b"]
    assert (alone.discordant, alone.num_rows) == (unlike, 60)


@pytest.mark.parametrize(("won", "lost"), [(9, 3), (4, 0), (0, 0)])
def test_interval_of_bonett_and_price(won, lost):
    """With p21 = (won + 1) / (n + 2) and p12 = (lost + 1) / (n + 2), for two pairs of methods."""
    n, scores = 40, {"a": np.zeros(40), "b": np.zeros(40), "c": np.zeros(40)}
    scores["b"][:won], scores["a"][40 - lost :] = 1, 1
    shown = mcnemar_holm(scores, control="a").confidence_interval().iloc[0]
    p21, p12 = (won + 1) / (n + 2), (lost + 1) / (n + 2)
    half = norm.isf(0.05 / 4) * math.sqrt((p12 + p21 - (p21 - p12) ** 2) / (n + 2))
    assert shown["difference"] == pytest.approx((won - lost) / n)
    assert [*shown[["low", "high"]]] == pytest.approx([p21 - p12 - half, p21 - p12 + half])


def test_three_methods_on_items_use_holm():
    rng = np.random.default_rng(1)
    scores = {name: rng.binomial(1, 0.4 + 0.2 * n, 80) for n, name in enumerate("abc")}
    single = [
        mcnemar_holm({x: scores[x], y: scores[y]}).pvalue.iloc[0, 1] for x, y in ("ab", "ac", "bc")
    ]
    together = mcnemar_holm(scores).pvalue.to_numpy()[np.triu_indices(3, 1)]
    assert together == pytest.approx(multipletests(single, method="holm")[1])
    control = mcnemar_holm(scores, control="a").pvalue
    assert control.tolist() == pytest.approx(multipletests(single[:2], method="holm")[1])
    with pytest.raises(ValueError, match="0 or 1 on the same items"):
        mcnemar_holm({"a": [0, 1], "b": [1]})
    with pytest.raises(ValueError, match="use mcnemar_holm"):
        mcnemar(scores)


def test_two_methods_on_their_common_items():
    lacking = {"a": [1, 0, 0, np.nan, 1], "b": [np.nan, 1, 1, 1, 0]}
    found = mcnemar(lacking)
    assert found == mcnemar({"a": [0, 0, 1], "b": [1, 1, 0]})
