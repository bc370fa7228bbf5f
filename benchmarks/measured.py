"""Result of a measurement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.timing import Spread, in_turn, ratio, spread


@dataclass(frozen=True)
class Measured:
    """Measured value with its components.

    Attributes:
        value: Ratio of medians, or another value described by the row, with quartiles of rounds.
        sides: Measurements of each side, by name.
        unit: Unit of the sides.
        note: Remark for readers.
    """

    value: Spread
    sides: dict[str, Spread] = field(default_factory=dict)
    unit: str = "s"
    note: str = ""


def compare(what: Callable[[], Any], against: Callable[[], Any], note: str = "") -> Measured:
    """Time two functions in turn; the value is the time of `against` over the time of `what`."""
    taken = in_turn({"what": what, "against": against})
    sides = {name: spread(seconds) for name, seconds in taken.items()}
    return Measured(ratio(taken["against"], taken["what"]), sides, note=note)


def check_equal(a: Any, b: Any, tolerance: float = 1e-4) -> None:
    """Raise an error if two results differ; speeds are compared only for equal results."""
    from keras import ops

    a, b = ops.convert_to_numpy(a), ops.convert_to_numpy(b)
    scale = max(1.0, float(np.abs(b).max()))
    np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * scale)


def tokens(batch: int, length: int, width: int) -> np.ndarray:
    """Return random tokens, shape `(batch, length, width)`."""
    return np.random.default_rng(0).normal(size=(batch, length, width)).astype(np.float32)
