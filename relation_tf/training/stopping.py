"""Stopping rules: end of a run, and the weights that it keeps. Does not import Keras."""

from __future__ import annotations

import inspect
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relation_tf.errors import DivergedError
from relation_tf.registry import METRICS, STOPPING_RULES, make_part, register_stopping_rule

Weights = Any


@dataclass(frozen=True)
class Stop:
    """The end of a run.

    Attributes:
        reason: Reason in words.
        epoch: The epoch whose weights are kept, from 1.
        weights: These weights; None for the current weights of the network.
        reached: If True, the run reached its target; None for a rule without a target.
    """

    reason: str
    epoch: int
    weights: Weights | None = None
    reached: bool | None = None


class StoppingRule(ABC):
    """A rule that is updated after each epoch and may end the run.

    Attributes:
        kept: The best weights so far, or None.
        remembered: Names of the other attributes that change from epoch to epoch, with JSON values.
            They are saved in checkpoints.
    """

    kept: Weights | None = None
    remembered: Sequence[str] = ()

    @abstractmethod
    def update(self, epoch: int, value: float, weights: Callable[[], Weights]) -> Stop | None:
        """Update with the value of an epoch (from 1); `weights()` copies the network's weights."""

    def finish(self, epoch: int, limit: str) -> Stop:
        """Return the end of a run at a limit, such as `"100 epochs"`, with its last weights."""
        return Stop(f"reached {limit}", epoch)

    def state(self) -> dict[str, Any]:
        """Return the remembered attributes."""
        return {name: getattr(self, name) for name in self.remembered}

    def restore(self, state: Mapping[str, Any], kept: Weights | None) -> None:
        """Restore a state returned by `state`, and `kept`."""
        vars(self).update(state, kept=kept)


def make_rule(settings: Any) -> tuple[StoppingRule, str]:
    """Make the stopping rule of a run.

    Args:
        settings: The run's settings.

    Returns:
        The rule, and its column of the history.

    Raises:
        SuiteError, UnknownNameError: For an unknown rule or wrong `stopping_options`.
    """
    declared = STOPPING_RULES.find(settings.stopping)
    column = declared.column(settings) if callable(declared.column) else declared.column
    accepted = inspect.signature(declared.factory).parameters
    arguments = {key: getattr(settings, key) for key in declared.keys if key in accepted}
    if "higher_is_better" in accepted:
        metric = METRICS.get(re.sub("^(val|running)_", "", column))
        arguments["higher_is_better"] = metric is not None and metric.higher_is_better
    rule = make_part(
        "stopping", settings.stopping, declared.factory, arguments, settings.stopping_options
    )
    return rule, column


def check_losses(row: Mapping[str, float], epochs_before: int = 0) -> None:
    """Check the losses of an epoch.

    Args:
        row: Row of the history.
        epochs_before: Number of epochs of earlier trainings of the same run.

    Raises:
        DivergedError: If one is not finite.
    """
    lost = [name for name in ("loss", "val_loss") if not math.isfinite(row[name])]
    if lost:
        losses = " and ".join(f"{name} is {row[name]:g}" for name in lost)
        raise DivergedError(f"diverged in epoch {row['epoch'] + epochs_before:.0f}: {losses}")


def records_accuracy(settings: Any) -> bool:
    """Return True if the stopping rule needs the training accuracy."""
    return "accuracy" in STOPPING_RULES.find(settings.stopping).metrics


@register_stopping_rule(
    "smoothed_early_stopping",
    keys=("patience", "monitor"),
    column=lambda settings: settings.monitor,
    fewest_epochs=lambda settings: settings.stopping_options.get("window", 10) + settings.patience,
    description="no better mean of 10 (`window`) epochs for `patience` epochs; last weights",
)
class SmoothedEarlyStopping(StoppingRule):
    """Early stopping on a moving mean, as in the training logs of the Relation paper's program.

    Monitors the mean of the last `window` values, from epoch `window` on. Training ends after
    `patience` epochs without a new best mean; keeps the last weights.

    Args:
        patience: Epochs without a new best mean.
        higher_is_better: If True, higher values are better.
        window: Number of epochs in the mean.

    Example:
        >>> rule = SmoothedEarlyStopping(patience=1, window=2)
        >>> [rule.update(i + 1, loss, list) for i, loss in enumerate([3.0, 2.0, 1.0])]
        [None, None, None]
        >>> rule.update(4, 5.0, list).epoch
        4
    """

    remembered = ("values", "best", "waited")

    def __init__(self, patience: int = 5, higher_is_better: bool = False, window: int = 10) -> None:
        if not isinstance(window, int) or window < 1:
            raise ValueError(f"window must be an integer, 1 or more. Received: {window!r}")
        self.patience = patience
        self.window = window
        self._sign = -1.0 if higher_is_better else 1.0
        self.values: list[float] = []
        self.best = math.inf
        self.waited = 0

    def update(self, epoch: int, value: float, weights: Callable[[], Weights]) -> Stop | None:
        """Update with the value of an epoch."""
        self.values = [*self.values, _worst_if_nan(self._sign * value)][-self.window :]
        if len(self.values) < self.window:
            return None
        mean = sum(self.values) / self.window
        if mean < self.best:
            self.best, self.waited = mean, 0
            return None
        self.waited += 1
        if self.waited < self.patience:
            return None
        return Stop(
            f"no improvement of the {self.window}-epoch mean for {self.patience} epochs (patience)",
            epoch,
        )


@register_stopping_rule(
    "early_stopping",
    keys=("patience", "monitor"),
    column=lambda settings: settings.monitor,
    fewest_epochs=lambda settings: (
        1 if "enough" in settings.stopping_options else 1 + settings.patience
    ),
    description="no better value for `patience` epochs; best weights",
)
class EarlyStopping(StoppingRule):
    """Early stopping: no better value for `patience` epochs; restores the best weights.

    NaN is the worst value.

    Args:
        patience: Epochs without a new best value.
        higher_is_better: If True, higher values are better.
        enough: Value at which training ends, such as 1 for an accuracy. Default: none.

    Example:
        >>> rule = EarlyStopping(patience=1)
        >>> rule.update(1, 2.0, lambda: "first") is None
        True
        >>> rule.update(2, float("nan"), lambda: "second").weights
        'first'
    """

    remembered = ("best", "epoch")

    def __init__(
        self, patience: int = 5, higher_is_better: bool = False, enough: float | None = None
    ) -> None:
        self.patience = patience
        self._sign = -1.0 if higher_is_better else 1.0
        if enough is not None and not isinstance(enough, int | float):
            raise ValueError(f"enough must be a number. Received: {enough!r}")
        self.enough = enough
        self.best = math.inf
        self.epoch = 0

    def update(self, epoch: int, value: float, weights: Callable[[], Weights]) -> Stop | None:
        """Update with the value of an epoch."""
        value = _worst_if_nan(self._sign * value)
        if value < self.best or self.epoch == 0:
            self.best, self.epoch, self.kept = value, epoch, weights()
        if self.enough is not None and value <= self._sign * self.enough:
            return Stop(f"reached {self.enough:g}, which is enough", epoch, self.kept)
        if epoch - self.epoch < self.patience:
            return None
        return Stop(f"no improvement for {self.patience} epochs (patience)", self.epoch, self.kept)

    def finish(self, epoch: int, limit: str) -> Stop:
        """Keep the best weights."""
        return Stop(f"reached {limit}", self.epoch, self.kept)


@register_stopping_rule(
    "accuracy_reached",
    keys=("watched_accuracy", "target_accuracy", "target_epochs"),
    column=lambda settings: {"validation": "val_accuracy", "running": "running_accuracy"}[
        settings.watched_accuracy
    ],
    fewest_epochs=lambda settings: settings.target_epochs,
    description="an accuracy above the target in `target_epochs` consecutive epochs; last weights",
    metrics=("accuracy",),
    target=lambda settings: (
        f"{settings.watched_accuracy} accuracy above {settings.target_accuracy:g}"
    ),
)
class AccuracyReached(StoppingRule):
    """Stop at a target accuracy, as for the learning times of the Relation paper.

    Training ends when the accuracy is above the target in `target_epochs` consecutive epochs; keeps
    the last weights. A run that ends at a limit has not reached the target.

    Args:
        target_accuracy: The accuracy to exceed, a fraction.
        target_epochs: Number of consecutive epochs.

    Example:
        >>> rule = AccuracyReached(0.8, target_epochs=2)
        >>> [rule.update(i + 1, accuracy, list) for i, accuracy in enumerate([0.9, 0.8, 0.81])]
        [None, None, None]
        >>> rule.update(4, 0.82, list).reached
        True
        >>> rule.finish(4, "4 epochs").reason
        'not reached in 4 epochs'

    References:
        Yamada, Baladram, Lin 2022, doi 10.3389/frai.2022.924688, Table 2.
    """

    remembered = ("above",)

    def __init__(self, target_accuracy: float = 0.8, target_epochs: int = 10) -> None:
        self.target = target_accuracy
        self.epochs = target_epochs
        self.above = 0

    def update(self, epoch: int, value: float, weights: Callable[[], Weights]) -> Stop | None:
        """Update with the accuracy of an epoch; NaN is not above the target."""
        self.above = self.above + 1 if value > self.target else 0
        if self.above < self.epochs:
            return None
        reason = f"accuracy above {self.target:g} in {self.epochs} consecutive epochs"
        return Stop(reason, epoch, reached=True)

    def finish(self, epoch: int, limit: str) -> Stop:
        """Return the end of a run that did not reach the target."""
        return Stop(f"not reached in {limit}", epoch, reached=False)


def _worst_if_nan(cost: float) -> float:
    return math.inf if math.isnan(cost) else cost
