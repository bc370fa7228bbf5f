"""Tests of the comparisons that tests use."""

from __future__ import annotations

import pytest

from tests.backends import close, close_gradients


def test_tolerances_are_relative_to_the_largest_value() -> None:
    close([22.0, 1.08e-5], [22.0, 0.0])
    close_gradients([[5e-3], [100.0]], [[0.0], [100.0]])
    for wrong in ([22.0, 3e-4], [22.003, 0.0]):
        with pytest.raises(AssertionError):
            close(wrong, [22.0, 0.0])
    with pytest.raises(AssertionError):
        close_gradients([[0.02], [100.0]], [[0.0], [100.0]])
