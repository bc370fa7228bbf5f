"""When a run ends, and which weights it ends with. Free of Keras."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

Weights = Any


@dataclass(frozen=True)
class Stop:
    """The end of a run.

    Attributes:
        reason: Why, in words.
        epoch: The epoch whose weights are kept, from 1.
        weights: These weights, or None where they are the network's own at this moment.
        reached: Whether the run came to its target; None for a rule that has none.
    """

    reason: str
    epoch: int
    weights: Weights | None = None
    reached: bool | None = None


class StoppingRule(Protocol):
    """Told the monitored value after each epoch, it may end the run.

    Attributes:
        kept: The weights that it holds back, or None.
    """

    kept: Weights | None

    def update(self, epoch: int, value: float, weights: Callable[[], Weights]) -> Stop | None:
        """Take the value of an epoch (from 1); `weights()` gives a copy of the network's."""

    def finish(self, epoch: int, limit: str) -> Stop:
        """The run has come to a limit, such as `"100 epochs"`, at this epoch."""

    def state(self) -> dict[str, Any]:
        """What it remembers beside `kept`, as JSON has it."""

    def restore(self, state: Mapping[str, Any], kept: Weights | None) -> None:
        """Go on from what `state` and `kept` gave."""


class SmoothedCost:
    """The rule of the Relation paper's program, as its training logs show it.

    From epoch `window` on, the mean of the last `window` values is watched; after `patience` epochs
    without a new best mean training ends, and the last weights are kept.

    Args:
        patience: Epochs without a new best mean.
        higher_is_better: Whether the monitored value is a metric and not a cost.
        window: Epochs in the mean.

    Example:
        >>> rule = SmoothedCost(patience=1, window=2)
        >>> [rule.update(i + 1, cost, list) for i, cost in enumerate([3.0, 2.0, 1.0])]
        [None, None, None]
        >>> rule.update(4, 5.0, list).epoch
        4
    """

    kept: Weights | None = None

    def __init__(self, patience: int = 5, higher_is_better: bool = False, window: int = 10) -> None:
        self.patience = patience
        self.window = window
        self._sign = -1.0 if higher_is_better else 1.0
        self._values: deque[float] = deque(maxlen=window)
        self._best = math.inf
        self._waited = 0

    def update(self, epoch: int, value: float, weights: Callable[[], Weights]) -> Stop | None:
        """Take the value of an epoch."""
        self._values.append(_worst_if_nan(self._sign * value))
        if len(self._values) < self.window:
            return None
        mean = sum(self._values) / self.window
        if mean < self._best:
            self._best, self._waited = mean, 0
            return None
        self._waited += 1
        if self._waited < self.patience:
            return None
        return Stop(
            f"mean of the last {self.window} epochs not better for {self.patience} epochs", epoch
        )

    def finish(self, epoch: int, limit: str) -> Stop:
        """The last weights are kept here too."""
        return Stop(f"reached {limit}", epoch)

    def state(self) -> dict[str, Any]:
        """The last values, the best mean, and for how many epochs there was none better."""
        return {"values": list(self._values), "best": self._best, "waited": self._waited}

    def restore(self, state: Mapping[str, Any], kept: Weights | None) -> None:
        """Go on from `state`."""
        self._values.extend(state["values"])
        self._best, self._waited = state["best"], state["waited"]


class BestWeights:
    """The usual rule: no better value for `patience` epochs, and back to the best weights.

    A NaN is the worst value: it never is the best while there is a number.

    Args:
        patience: Epochs without a new best value.
        higher_is_better: Whether the monitored value is a metric and not a cost.

    Example:
        >>> rule = BestWeights(patience=1)
        >>> rule.update(1, 2.0, lambda: "first") is None
        True
        >>> rule.update(2, float("nan"), lambda: "second").weights
        'first'
    """

    def __init__(self, patience: int = 5, higher_is_better: bool = False) -> None:
        self.patience = patience
        self._sign = -1.0 if higher_is_better else 1.0
        self._best = math.inf
        self._epoch = 0
        self.kept: Weights | None = None

    def update(self, epoch: int, value: float, weights: Callable[[], Weights]) -> Stop | None:
        """Take the value of an epoch."""
        value = _worst_if_nan(self._sign * value)
        if value < self._best or self._epoch == 0:
            self._best, self._epoch, self.kept = value, epoch, weights()
        if epoch - self._epoch < self.patience:
            return None
        return Stop(f"not better for {self.patience} epochs", self._epoch, self.kept)

    def finish(self, epoch: int, limit: str) -> Stop:
        """Back to the best weights."""
        return Stop(f"reached {limit}", self._epoch, self.kept)

    def state(self) -> dict[str, Any]:
        """The best value and its epoch."""
        return {"best": self._best, "epoch": self._epoch}

    def restore(self, state: Mapping[str, Any], kept: Weights | None) -> None:
        """Go on from `state` and the best weights."""
        self._best, self._epoch, self.kept = state["best"], state["epoch"], kept


class AccuracyReached:
    """The rule of the Relation paper's learning times: an accuracy that holds.

    Training ends when the accuracy has been above the target in so many consecutive epochs; the
    last weights are kept. A run that comes to a limit before has not reached it.

    Args:
        target: The accuracy to be above, a fraction.
        epochs: In how many consecutive epochs.

    Example:
        >>> rule = AccuracyReached(0.8, epochs=2)
        >>> [rule.update(i + 1, accuracy, list) for i, accuracy in enumerate([0.9, 0.8, 0.81])]
        [None, None, None]
        >>> rule.update(4, 0.82, list).reached
        True
        >>> rule.finish(4, "4 epochs").reason
        'not reached in 4 epochs'

    References:
        Yamada, Baladram, Lin 2022, doi 10.3389/frai.2022.924688, Table 2.
    """

    kept: Weights | None = None

    def __init__(self, target: float = 0.8, epochs: int = 10) -> None:
        self.target = target
        self.epochs = epochs
        self._above = 0

    def update(self, epoch: int, value: float, weights: Callable[[], Weights]) -> Stop | None:
        """Take the accuracy of an epoch; one that is NaN is not above."""
        self._above = self._above + 1 if value > self.target else 0
        if self._above < self.epochs:
            return None
        reason = f"accuracy above {self.target:g} in {self.epochs} consecutive epochs"
        return Stop(reason, epoch, reached=True)

    def finish(self, epoch: int, limit: str) -> Stop:
        """The target was not reached."""
        return Stop(f"not reached in {limit}", epoch, reached=False)

    def state(self) -> dict[str, Any]:
        """In how many epochs the accuracy has been above the target."""
        return {"above": self._above}

    def restore(self, state: Mapping[str, Any], kept: Weights | None) -> None:
        """Go on from `state`."""
        self._above = state["above"]


def _worst_if_nan(cost: float) -> float:
    return math.inf if math.isnan(cost) else cost
