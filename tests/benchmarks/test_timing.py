"""Tests of the timing in turns."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.lengths import imdb_lengths
from benchmarks.timing import in_turn, ratio


def test_sides_take_turns_after_a_round_that_does_not_count():
    calls = []
    sides = {name: lambda name=name: calls.append(name) for name in "ab"}
    taken = in_turn(sides, rounds=6)
    assert "".join(calls) == "ab" * 7
    assert [len(seconds) for seconds in taken.values()] == [6, 6]


def test_a_ratio_of_medians_with_the_quartiles_of_rounds():
    found = ratio([2.0, 4.0, 9.0], [1.0, 2.0, 3.0])
    assert (found.median, found.low, found.high, found.n) == (2.0, 2.0, 2.5, 3)


def test_lengths_as_the_papers_counted_them():
    lengths = imdb_lengths()
    assert len(lengths) == 25_000
    assert lengths.mean() == pytest.approx(230, abs=0.5)
    assert lengths.max() == 2494
    assert lengths.min() >= 1
    assert (np.diff(lengths) >= 0).all()
