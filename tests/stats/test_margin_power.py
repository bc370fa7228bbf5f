"""Power of non-inferiority against plain simulations and known values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relation_tf.stats import (
    attainable_margin,
    non_inferiority,
    non_inferiority_power,
    seeds_for_margin,
    what_can_be_shown,
    what_margin_can_be_shown,
)


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
def test_power_equals_a_plain_simulation(margin, num_seeds, sds, num_methods):
    found = non_inferiority_power(margin, num_seeds, sds, num_methods=num_methods)
    naive = naive_power(margin, num_seeds, sds, num_methods, simulations=150)
    assert naive == pytest.approx(found.probability, abs=4 * np.sqrt(0.25 / 150))
    assert found.low < found.probability < found.high


def test_known_values():
    """Margin of 1 SD with five seeds: .27 on one task, .992 over eight."""
    assert non_inferiority_power(1, 5).probability == pytest.approx(0.267, abs=0.006)
    eight = non_inferiority_power(1, 5, [1.0] * 8).probability
    assert eight == pytest.approx(0.992, abs=0.001)


@settings(max_examples=20, deadline=None)
@given(
    st.integers(2, 9),
    st.lists(st.floats(0.1, 5), min_size=1, max_size=4),
    st.floats(0.1, 10),
    st.floats(0.55, 0.95),
)
def test_margins_powers_and_units_agree(num_seeds, sds, scale, power):
    options = {"simulations": 2_000}
    margin = attainable_margin(num_seeds, sds, power, **options)
    reached = non_inferiority_power(margin, num_seeds, sds, **options).low
    assert reached == pytest.approx(power, abs=2e-3)
    scaled = attainable_margin(num_seeds, [scale * sd for sd in sds], power, **options)
    assert scaled == pytest.approx(scale * margin)
    again = attainable_margin(num_seeds, sds, power, seed=0, **options)
    assert again == margin


def test_seeds_are_the_fewest_that_reach_the_power():
    for margin, sds in ((1.0, [1.0]), (0.5, [1.0, 1.0]), (2.0, 1.0)):
        needed = seeds_for_margin(margin, sds, simulations=5_000)
        assert attainable_margin(needed, sds, simulations=5_000) <= margin
        assert needed == 2 or attainable_margin(needed - 1, sds, simulations=5_000) > margin


def test_a_constant_task_adds_no_variance():
    assert attainable_margin(5, [1.0, 0.0]) == pytest.approx(attainable_margin(5, 0.5), rel=0.02)


def test_figures_of_sentences():
    assert "2.1 SD" in what_margin_can_be_shown(2, 5, unit="SD")
    both = what_can_be_shown(4, 5, margin=1.0, sd=np.ones(8))
    assert both.startswith(what_can_be_shown(4, 5))
    assert "power 0.9" in both
    assert "1,000 seeds" in what_margin_can_be_shown(2, 5, 0.001)
    assert "at least 2 seeds" in what_margin_can_be_shown(2, 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: non_inferiority_power("1", 5), "`margin` must be a number"),
        (lambda: non_inferiority_power(float("nan"), 5), "`margin` must be at least 0"),
        (lambda: non_inferiority_power(1, 1), "`num_seeds` must be a whole number, at least 2"),
        (lambda: non_inferiority_power(1, 5, [1, np.nan]), "`sd` must be a number or one number"),
        (lambda: non_inferiority_power(1, 5, [0.0]), "`sd` must be 0 or more, and above 0"),
        (lambda: attainable_margin(5, power=1.0), "`power` must be between 0 and 1"),
        (lambda: seeds_for_margin(0.0), "`margin` must be above 0"),
        (lambda: seeds_for_margin(0.001, simulations=100), "1,000 seeds do not reach this power"),
    ],
)
def test_wrong_input_is_refused(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()
