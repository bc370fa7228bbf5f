"""Simulated power of rank tests and of margins against experiments, closed forms and limits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from relation_tf.stats import (
    attainable_margin,
    non_inferiority,
    non_inferiority_power,
    power,
    seeds_for_margin,
    seeds_for_power,
    steel,
    steel_dwass,
)


@pytest.mark.parametrize("test", ["steel-dwass", "steel"])
@pytest.mark.parametrize(("num_methods", "num_seeds"), [(2, 4), (3, 3), (3, 4)])
def test_power_is_the_share_of_significant_experiments(test, num_methods, num_seeds):
    simulations, alpha, shift = 25, 0.2, 1.5
    counts = np.int8(num_methods), np.int8(num_seeds)
    found = power(*counts, shift, alpha, test=test, simulations=simulations)
    rng = np.random.default_rng(0)
    different = []
    for scores in rng.standard_normal((simulations, num_methods, num_seeds)):
        scores[0] += shift
        samples = dict(enumerate(scores))
        if test == "steel-dwass":
            result = steel_dwass(samples, alpha)
            significant, effect = result.significant.loc[0], result.effect_size.loc[0]
        else:
            result = steel(samples, 0, alpha)
            significant, effect = result.significant, result.effect_size
        different.append((significant & (effect < 0))[range(1, num_methods)].to_numpy())
    different = np.array(different)
    assert found.one.probability == different[:, 0].mean()
    assert found.any.probability == different.any(axis=1).mean()
    assert found.all.probability == different.all(axis=1).mean()


def test_power_of_two_methods_without_overlap_has_a_closed_form():
    # Four and four at alpha .03: only scores without overlap are significant (p = .0209).
    shift, n = 1.5, 4
    chance, _ = quad(
        lambda x: n * norm.pdf(x, shift) * norm.sf(x, shift) ** (n - 1) * norm.cdf(x) ** n, -9, 9
    )
    found = power(2, n, shift, alpha=0.03, simulations=20_000)
    assert found.one.probability == pytest.approx(chance, abs=0.012)
    assert found.one.low < chance < found.one.high


@pytest.mark.parametrize("differs_from", ["one", "any", "all"])
def test_seeds_for_power_reach_it_and_one_fewer_do_not(differs_from):
    n = seeds_for_power(4, 1.5, 0.7, differs_from=differs_from, simulations=2_000)
    reached, missed = (
        getattr(power(4, seeds, 1.5, simulations=2_000), differs_from) for seeds in (n, n - 1)
    )
    assert missed.low < 0.7 <= reached.low


def test_seeds_for_power_are_at_least_seeds_needed():
    assert seeds_for_power(5, 100) == 6  # seeds_needed(5)
    # With three seeds the exact p is at least .100, although the asymptotic p can be .0495.
    assert seeds_for_power(2, 8) == 4


def naive_power(margin, num_seeds, sds, num_methods, simulations):
    """Draw scores, call the test, and count favorable verdicts on one method."""
    rng = np.random.default_rng(1)
    names = ["r", *(f"m{i}" for i in range(num_methods - 1))]
    favorable = 0
    for _ in range(simulations):
        tasks = {
            task: {name: rng.normal(50, sd, num_seeds) for name in names}
            for task, sd in enumerate(sds)
        }
        result = non_inferiority(tasks, "r", margin)
        favorable += result.verdict["m0"] in ("better", "no worse")
    return favorable / simulations


@pytest.mark.parametrize(
    ("margin", "num_seeds", "sds", "num_methods"),
    [(1.5, 5, [1.0], 2), (1.0, 3, [1.0, 2.0, 0.5], 2), (2.0, 4, [1.0, 1.5], 4)],
)
def test_power_of_a_margin_equals_a_plain_simulation(margin, num_seeds, sds, num_methods):
    found = non_inferiority_power(margin, num_seeds, sds, num_methods=num_methods)
    naive = naive_power(margin, num_seeds, sds, num_methods, simulations=150)
    assert naive == pytest.approx(found.probability, abs=4 * np.sqrt(0.25 / 150))
    assert found.low < found.probability < found.high


def test_seeds_are_the_fewest_that_reach_the_power():
    for margin, sds in ((1.0, [1.0]), (0.5, [1.0, 1.0]), (2.0, 1.0)):
        needed = seeds_for_margin(margin, sds, simulations=5_000)
        assert attainable_margin(needed, sds, simulations=5_000) <= margin
        assert needed == 2 or attainable_margin(needed - 1, sds, simulations=5_000) > margin


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: power(1, 5, 1), "Received: num_methods=1"),
        (lambda: power(3, 5, -1), "shift=-1"),
        (lambda: power(3, 5, "2"), "`shift` must be a number. Received: shift='2'"),
        (lambda: power(3, 5, 1, test="pairs"), "Received: test='pairs'"),
        (lambda: seeds_for_power(3, 0), "Received: shift=0"),
        (lambda: seeds_for_power(2, 9, 0.999, simulations=3_687), "must be at least 3,688 to sho"),
        (lambda: seeds_for_power(3, 1, differs_from="two"), "Received: differs_from='two'"),
        (lambda: seeds_for_power(2, 1e-9, simulations=20), "1,000 seeds do not reach this power"),
        (lambda: non_inferiority_power(math.nan, 5), "`margin` must be at least 0"),
        (lambda: non_inferiority_power(1, 5, [1, np.nan]), "`sd` must be a number or one number"),
        (lambda: non_inferiority_power(1, 5, [0.0]), "`sd` must be 0 or more, and above 0"),
        (lambda: seeds_for_margin(0.0), "`margin` must be above 0"),
    ],
)
def test_wrong_input_is_refused(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()
