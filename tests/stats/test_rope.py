"""ROPE probabilities against baycomp, numerical integration and plain loops."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import t

from relation_tf.stats import rope_probabilities
from relation_tf.stats.rope import _signed_ranks
from tests.golden import GOLDEN_VALUES

GOLDEN = json.loads((GOLDEN_VALUES / "rliable_baycomp.json").read_text(encoding="utf-8"))
FIRST, SECOND = (np.array(GOLDEN[name]) for name in ("first", "second"))  # seeds x tasks


@pytest.mark.parametrize(("rope", "runs", "expected"), GOLDEN["single"])
def test_one_task_equals_baycomp(rope, runs, expected):
    found = rope_probabilities(FIRST[:4, 0], SECOND[:4, 0], rope, correlation=runs / 4)
    if rope == 0:
        assert found.equivalent == pytest.approx(0, abs=1e-12)
        found = (found.first, found.second)
    assert tuple(found) == pytest.approx(tuple(expected), abs=1e-10)


@pytest.mark.parametrize(("rope", "expected"), GOLDEN["signed_rank"])
def test_several_tasks_equal_baycomp_with_the_same_draws(rope, expected):
    differences = SECOND.mean(axis=0) - FIRST.mean(axis=0)
    weights = np.random.RandomState(3).dirichlet([0.5, *np.ones(8)], 2000)
    found = _signed_ranks(differences, rope, weights)
    found = tuple(found) if rope else (found.first, found.second)
    assert found == pytest.approx(tuple(expected), abs=1e-10)


def test_several_tasks_are_within_the_monte_carlo_error_of_baycomp():
    rope, expected = GOLDEN["signed_rank"][-1]
    tasks = [dict(enumerate(scores.T)) for scores in (FIRST, SECOND)]
    found = rope_probabilities(*tasks, rope)
    p = expected[1]
    assert found.equivalent == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / 2000))
    assert sum(found) == pytest.approx(1)
    assert rope_probabilities(*tasks, rope) == found
    assert rope_probabilities(*tasks, rope, rng=1) != found


def test_without_correlation_the_posterior_is_that_of_a_t_test():
    difference = SECOND[:, 1] - FIRST[:, 1]
    scale = difference.std(ddof=1) / math.sqrt(5)
    density = t(4, difference.mean(), scale).pdf
    found = rope_probabilities(FIRST[:, 1], SECOND[:, 1], 0.02)
    assert found.equivalent == pytest.approx(quad(density, -0.02, 0.02)[0])
    assert found.second == pytest.approx(quad(density, 0.02, np.inf)[0])


def naive_signed_ranks(differences, rope, weights):
    counts = [0, 0, 0]
    values = [0.0, *differences]
    for w in weights:
        shares = [0.0, 0.0, 0.0]
        for i, a in enumerate(values):
            for j, b in enumerate(values):
                total, product = a + b, w[i] * w[j]
                if abs(total) == 2 * rope:
                    shares[1] += product / 2
                    shares[2 if total > 0 else 0] += product / 2
                else:
                    shares[2 if total > 2 * rope else 0 if total < -2 * rope else 1] += product
        counts[shares.index(max(shares))] += 1
    return [count / len(weights) for count in counts]


def test_signed_ranks_equal_plain_loops():
    differences = np.array([-2.0, 0.5, 1.0, 1.5, -1.0])  # some sums are exactly twice the rope
    weights = np.random.default_rng(0).dirichlet([0.5, *np.ones(5)], 300)
    found = _signed_ranks(differences, 1.0, weights)
    assert tuple(found) == pytest.approx(tuple(naive_signed_ranks(differences, 1.0, weights)))
    assert min(found) > 0


def test_direction_and_order():
    found = rope_probabilities(FIRST[:, 2], SECOND[:, 2], 0.01)
    lower = rope_probabilities(FIRST[:, 2], SECOND[:, 2], 0.01, higher_is_better=False)
    turned = rope_probabilities(SECOND[:, 2], FIRST[:, 2], 0.01)
    assert tuple(lower) == pytest.approx(tuple(found)[::-1])
    assert tuple(turned) == pytest.approx(tuple(found)[::-1])


@pytest.mark.parametrize(
    ("shift", "rope", "expected"),
    [(0, 0, (0.5, 0, 0.5)), (0, 1, (0, 1, 0)), (2, 1, (0, 0, 1)), (-2, 1, (1, 0, 0))],
)
def test_equal_differences(shift, rope, expected):
    assert rope_probabilities([1, 2, 3], [1 + shift, 2 + shift, 3 + shift], rope) == expected


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"rope": -1}, ValueError, "`rope` must be at least 0"),
        ({"correlation": 1}, ValueError, "`correlation` must be at least 0 and below 1"),
        ({"second": [1.0]}, ValueError, "the same seeds. Received: 2 and 1 scores"),
        ({"second": {"a": [1.0]}}, TypeError, "both methods must be dicts of task -> scores"),
        ({"first": [1.0], "second": [1.0]}, ValueError, "at least two scores of each method"),
        ({"first": {"a": [1]}, "second": {"a": [2]}}, ValueError, "at least two tasks"),
        ({"second": [1.0, np.nan]}, ValueError, "scores of 'second' must be finite"),
    ],
)
def test_arguments_are_checked(options, error, message):
    with pytest.raises(error, match=message):
        rope_probabilities(**{"first": [1.0, 2.0], "second": [1.0, 2.0], "rope": 0.1} | options)


def test_without_a_rope_equal_probabilities_favor_no_method():
    """Tasks without a difference: each draw gives both methods the same probability."""
    same = {task: [1.0, 2.0] for task in "xyz"}
    assert rope_probabilities(same, same, 0) == (0.5, 0, 0.5)


def test_rounding_does_not_make_constant_differences_vary():
    assert rope_probabilities([0.1, 0.2, 0.3], [0.2, 0.3, 0.4], 0.1) == (0.0, 1.0, 0.0)
    assert rope_probabilities([0.1, 0.2, 0.3], [0.2, 0.3, 0.4], 0.09) == (0.0, 0.0, 1.0)
    assert rope_probabilities([0.2, 0.3, 0.4], [0.1, 0.2, 0.3], 0.09) == (1.0, 0.0, 0.0)
    assert rope_probabilities([0.1 + 0.2] * 3, [0.3] * 3, 0) == (0.5, 0.0, 0.5)
    assert rope_probabilities([0.1 + 0.2, 0.3], [0.3, 0.3], 0) == (0.5, 0.0, 0.5)


@pytest.mark.parametrize("pair", [(0.80, 0.81), (0.81, 0.82), (0.82, 0.81)])
def test_rounding_does_not_decide_a_difference_equal_to_the_rope(pair):
    first, second = ({name: [score] for name in "AB"} for score in pair)
    found = rope_probabilities(first, second, 0.01)
    assert tuple(found) == (0, 1, 0)
