"""What a measurement gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.timing import Spread, in_turn, ratio, spread


@dataclass(frozen=True)
class Measured:
    """A figure and what it was made of.

    Attributes:
        value: A ratio of medians, or what the row says, with the quartiles of the rounds.
        sides: What was measured of each side, by name.
        unit: Of the sides.
        note: What a reader has to know.
    """

    value: Spread
    sides: dict[str, Spread] = field(default_factory=dict)
    unit: str = "s"
    note: str = ""


def compare(what: Callable[[], Any], against: Callable[[], Any], note: str = "") -> Measured:
    """Two ways in turn; the value says how many times longer the other one takes."""
    taken = in_turn({"what": what, "against": against})
    sides = {name: spread(seconds) for name, seconds in taken.items()}
    return Measured(ratio(taken["against"], taken["what"]), sides, note=note)


def check_equal(a: Any, b: Any, tolerance: float = 1e-4) -> None:
    """A speed counts only where the results are the same."""
    from keras import ops

    a, b = ops.convert_to_numpy(a), ops.convert_to_numpy(b)
    scale = max(1.0, float(np.abs(b).max()))
    np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * scale)


def tokens(batch: int, length: int, width: int) -> np.ndarray:
    """Random tokens."""
    return np.random.default_rng(0).normal(size=(batch, length, width)).astype(np.float32)
