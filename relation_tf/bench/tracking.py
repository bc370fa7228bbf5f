"""Trackers of other packages: `--track NAME` sends them the epochs of each run.

A tracker runs in the process that trains the run and is imported when the run starts. It cannot
change results: if it fails, a warning is printed and the run continues. Trackers of other packages
are Keras callbacks, see the suite key `callbacks`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

from relation_tf.errors import UnknownNameError, require_package, without_breaks
from relation_tf.terminal import stderr_to

if TYPE_CHECKING:
    from relation_tf.config import RunConfig

_EpochEnd = Callable[[int, dict[str, float]], None]


@dataclass
class TrackedRun:
    """A run that is tracked.

    Attributes:
        config: Its configuration.
        folder: The suite's folder.
        optimizer: Its optimizer; None for a run of several trainings and a timed run.
        scores: Its final scores, such as `"metrics/RTE/accuracy"`, when it is finished.
    """

    config: RunConfig
    folder: Path
    optimizer: Any = None
    scores: dict[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the run, such as `"RTE/relation-64/seed-1"`."""
        return str(self.config)

    @property
    def settings(self) -> dict[str, Any]:
        """The content of `config.json`."""
        return self.config.model_dump(mode="json")

    @property
    def model(self) -> Any:
        """What epoch metrics need of the model: an optimizer with a learning rate."""
        import keras

        return SimpleNamespace(
            optimizer=self.optimizer or keras.optimizers.SGD(self.config.learning_rate)
        )

    def finish(self, result: Mapping[str, Any]) -> None:
        """Set the scores of `result.json`."""
        self.scores |= {
            f"{kind}/{name}/{metric}": score
            for kind in ("metrics", "test_metrics")
            for name, scores in result[kind].items()
            for metric, score in scores.items()
        }


@contextmanager
def _tensorboard(run: TrackedRun) -> Iterator[_EpochEnd]:
    import keras
    import tensorflow as tf

    folder = run.folder / "tensorboard" / run.name
    writer = tf.summary.create_file_writer(str(folder))
    callback = keras.callbacks.TensorBoard(folder, write_graph=False)
    callback.set_model(run.model)
    callback.on_train_begin()
    try:
        with writer.as_default(step=0):
            tf.summary.text("settings", f"`{json.dumps(run.settings)}`")
        yield callback.on_epoch_end
        with writer.as_default(step=0):
            for name, score in run.scores.items():
                tf.summary.scalar(name, score)
    finally:
        callback.on_train_end()
        writer.close()


@contextmanager
def _wandb(run: TrackedRun) -> Iterator[_EpochEnd]:
    import wandb
    from wandb.integration.keras import WandbMetricsLogger

    quiet = wandb.Settings(console="off", silent=True)
    suite, settings = run.folder.name, run.settings
    with wandb.init(name=run.name, group=suite, config=settings, settings=quiet) as tracked:
        callback = WandbMetricsLogger()
        callback.set_model(run.model)
        yield callback.on_epoch_end
        tracked.summary.update(run.scores)


@contextmanager
def _mlflow(run: TrackedRun) -> Iterator[_EpochEnd]:
    import mlflow
    from mlflow.keras.callback import MlflowCallback

    mlflow.set_experiment(run.folder.name)
    with mlflow.start_run(run_name=run.name):
        mlflow.log_params(run.settings)
        yield MlflowCallback().on_epoch_end
        mlflow.log_metrics(run.scores)


@contextmanager
def _trackio(run: TrackedRun) -> Iterator[_EpochEnd]:
    import trackio

    quiet = {"embed": False, "auto_log_cpu": False, "auto_log_gpu": False}
    trackio.init(project=run.folder.name, name=run.name, config=run.settings, **quiet)
    try:
        yield lambda epoch, logs: trackio.log(logs, step=epoch)
        trackio.log(run.scores)
    finally:
        trackio.finish()


TRACKERS: Mapping[str, Callable[[TrackedRun], AbstractContextManager[_EpochEnd]]] = {
    "tensorboard": _tensorboard,
    "wandb": _wandb,
    "mlflow": _mlflow,
    "trackio": _trackio,
}
"""Trackers by the name of their package, which is also the name of the extra."""


def check_trackers(names: Sequence[str]) -> None:
    """Check that trackers exist and their packages are installed.

    Raises:
        UnknownNameError: If there is no tracker of a name.
        MissingPackageError: If a package is not installed; the message names the extra.
    """
    for name in names:
        if name not in TRACKERS:
            raise UnknownNameError("tracker", name, TRACKERS)
        require_package(f"--track {name}", name, name)


class Trackers:
    """The trackers of a run while it is trained.

    Args:
        names: Names of trackers.
        run: The run.
        log: File for the output of the packages.
        warn: Called with one line for each failure of a tracker.
    """

    def __init__(
        self, names: Sequence[str], run: TrackedRun, log: Path, warn: Callable[[str], None]
    ) -> None:
        self._names, self._run, self._log, self._warn = names, run, log, warn
        self._epoch_ends: dict[str, _EpochEnd] = {}
        self._open: dict[str, AbstractContextManager[_EpochEnd]] = {}

    def __enter__(self) -> Self:
        for name in self._names:
            with self._guarded(name):
                tracker = TRACKERS[name](self._run)
                self._epoch_ends[name] = tracker.__enter__()
                self._open[name] = tracker
        return self

    def epoch_end(self, epoch: int, row: Mapping[str, float]) -> None:
        """Send the loss and the validation metrics of an epoch."""
        from relation_tf.training.callbacks import without_times

        for name, epoch_end in self._epoch_ends.items():
            with self._guarded(name):
                epoch_end(epoch, without_times(row))

    def __exit__(self, *error: Any) -> None:
        for name, tracker in self._open.items():
            with self._guarded(name):
                tracker.__exit__(*error)

    @contextmanager
    def _guarded(self, name: str) -> Iterator[None]:
        """Turn an error into a warning."""
        try:
            with stderr_to(self._log), redirect_stdout(sys.stderr):
                yield
        except Exception as error:
            self._warn(f"tracker {name}: {type(error).__name__}: {without_breaks(error)}")
