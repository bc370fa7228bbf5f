"""Two or more ways of computing one thing, timed in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

ROUNDS = 15
SECONDS = 20.0  # after which no further round begins, where there were five


@dataclass(frozen=True)
class Spread:
    """The median of some figures, and their quartiles."""

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
    """Seconds of each side, one after the other in each round, after one round that does not count.

    What disturbs the machine for a while disturbs all sides. A side has to return only when it is
    done.
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
    """How many times longer one side took: the ratio of medians, the quartiles of the rounds'."""
    rounds = spread([b / a for a, b in zip(what, against, strict=True)])
    return Spread(float(np.median(against) / np.median(what)), rounds.low, rounds.high, rounds.n)
