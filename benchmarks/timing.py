"""Timing of two or more functions in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

ROUNDS = 15
SECONDS = 20.0  # time limit: no new round starts after it, except for the first five rounds


@dataclass(frozen=True)
class Spread:
    """Median and quartiles of measurements."""

    median: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        return f"{self.median:.3g} ({self.low:.3g} to {self.high:.3g})"


def spread(figures: list[float]) -> Spread:
    low, median, high = np.quantile(figures, [0.25, 0.5, 0.75])
    return Spread(float(median), float(low), float(high), len(figures))


def in_turn(
    sides: Mapping[str, Callable[[], object]],
    rounds: int = ROUNDS,
    seconds: float = SECONDS,
) -> dict[str, list[float]]:
    """Return the seconds of each side; sides run in turn in each round, after a warm-up round.

    Temporary load on the machine affects all sides. Functions must be synchronous.
    """
    for side in sides.values():
        side()
    taken: dict[str, list[float]] = {name: [] for name in sides}
    began = time.perf_counter()
    for done in range(rounds):
        if done >= 5 and time.perf_counter() - began > seconds:
            break
        for name, side in sides.items():
            start = time.perf_counter()
            side()
            taken[name].append(time.perf_counter() - start)
    return taken


def ratio(against: list[float], what: list[float]) -> Spread:
    """Return the time of `against` over the time of `what`: ratio of medians, and quartiles."""
    rounds = spread([b / a for a, b in zip(what, against, strict=True)])
    return Spread(float(np.median(against) / np.median(what)), rounds.low, rounds.high, rounds.n)
