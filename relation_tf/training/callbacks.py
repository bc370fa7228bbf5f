"""Keras callbacks of a run.

Trainers have a loop of this package, so callbacks are called at the begin and end of training and
of epochs, not for batches. They see the network and the
optimizer of the run, and may change them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import keras

from relation_tf.config.run import CallbackEntry
from relation_tf.errors import SuiteError, without_breaks
from relation_tf.networks.mechanisms import load
from relation_tf.registry import make_part

if TYPE_CHECKING:
    from relation_tf.training.trainer import Clock, SuiteTrainer


def make_callback(entry: CallbackEntry) -> keras.callbacks.Callback:
    """Create a callback of a run.

    Raises:
        SuiteError: If it is no Keras callback, or its constructor refuses the options.
    """
    try:
        factory = load(entry.callback, "callback")
    except ValueError as error:
        raise SuiteError(f"key 'callbacks': {error}") from error
    callback = make_part("callback", entry.callback, factory, {}, entry.options)
    if not isinstance(callback, keras.callbacks.Callback):
        raise SuiteError(
            "key 'callbacks': must be subclasses of keras.callbacks.Callback. "
            f"Received: {entry.callback}"
        )
    return callback


END_OF_CALLBACK = "the end that a callback requested"


class Callbacks:
    """The callbacks of a run while it is trained.

    If one fails, the run continues with a warning. The time of callbacks is not part of the run's.

    Args:
        trainer: The trainer of the run.
        steps: Steps per epoch.
        clock: The clock of the run.
    """

    def __init__(self, trainer: SuiteTrainer, steps: int, clock: Clock) -> None:
        self._model, self._warn, self._clock = trainer.model, trainer.warn, clock
        self._callbacks: list[tuple[str, keras.callbacks.Callback]] = []
        config = trainer.config
        for entry in config.callbacks:
            with self._guarded(entry.callback, "its constructor"):
                self._callbacks.append((entry.callback, make_callback(entry)))
        if not self._callbacks:
            return
        # Of the attributes that `fit` sets, callbacks of Keras use these two.
        self._model.optimizer, self._model.stop_training = trainer.optimizer, False
        params = {"epochs": config.epochs, "steps": steps, "verbose": 0, "run": str(config)}
        self.call("set_params", params)
        self.call("set_model", self._model)

    @property
    def ends(self) -> bool:
        """If True, a callback has set `stop_training`."""
        return bool(self._callbacks and self._model.stop_training)

    def train_end(self, row: Mapping[str, float]) -> None:
        """Call `on_train_end`; the network has the weights that the stopping rule keeps."""
        self.call("on_train_end", without_times(row))
        if self._callbacks:
            self._model.optimizer = None  # else a saved model would have its variables

    def call(self, hook: str, *arguments: Any) -> None:
        """Call a method of all callbacks."""
        if not self._callbacks:
            return
        spent = self._clock.seconds()
        for name, callback in self._callbacks:
            with self._guarded(name, hook):
                getattr(callback, hook)(*arguments)
        self._clock.set_to(spent)

    @contextmanager
    def _guarded(self, name: str, where: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            fault = f"{type(error).__name__} in {where}: {without_breaks(error)}"
            self._warn(f"callback {name}: {fault}")


def without_times(row: Mapping[str, float]) -> dict[str, float]:
    """Return a row of the history without its epoch and times."""
    return {name: value for name, value in row.items() if name != "epoch" and "seconds" not in name}
