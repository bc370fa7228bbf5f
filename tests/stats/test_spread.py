"""Notes on methods whose SDs differ by more than 3:1."""

from __future__ import annotations

import numpy as np
import pytest

from relation_tf.stats import brunner_munzel, steel, steel_dwass, welch
from relation_tf.stats.samples import error_of_sum, is_constant, unequal_spread

WIDE = np.array([0.1, 0.4, 0.5, 0.6, 0.9])


def spread_of(**samples):
    return unequal_spread({name: np.array(scores) for name, scores in samples.items()})


def test_ratio_and_methods():
    found = spread_of(a=WIDE, b=WIDE / 5, c=WIDE / 2)
    assert (found.wide, found.narrow, found.ratio) == ("a", "b", pytest.approx(5))
    assert "150 times" in str(spread_of(a=WIDE, b=WIDE / 154))  # no exponent


def test_the_limit_is_three_to_one():
    assert spread_of(a=WIDE, b=WIDE / 2.99) is None
    assert spread_of(a=WIDE, b=WIDE / 3.01) is not None


def test_constant_scores():
    assert spread_of(a=WIDE, b=[0.1 + 0.2, 0.3, 0.3]).ratio == np.inf
    assert spread_of(a=[1.0, 1.0], b=[2.0, 2.0]) is None


@pytest.mark.parametrize("options", [{}, {"control": "a"}])
def test_only_tests_that_assume_equal_spread_have_the_note(options):
    samples = {"a": WIDE, "b": WIDE / 5}
    rank_test = steel if options else steel_dwass
    assert any("assumes equal spread" in note for note in rank_test(samples, **options).notes)
    assert rank_test({"a": WIDE, "b": WIDE}, **options).notes == ()
    for test in (welch, brunner_munzel):
        assert test(samples, **options).notes == ()


@pytest.mark.parametrize("scores", [[0.1] * 3, [0.1 + 0.2, 0.3], [0.0, 0.0], [7.0]])
def test_scores_that_differ_by_rounding_are_constant(scores):
    assert not is_constant(np.array([1e-20, 2e-20]))
    assert not is_constant(np.array([1.0, 1.0 + 1e-9]))
    assert is_constant(np.array(scores))
    assert error_of_sum([np.array([*scores, scores[0]]), np.array([0.3] * 3)])[0] == 0
