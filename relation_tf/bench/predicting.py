"""Predict test sets with the saved weights of finished runs."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relation_tf.bench import workers
from relation_tf.bench.results import read_result, read_results
from relation_tf.bench.run_folder import (
    MODEL,
    RunFolder,
    damage,
    differing_splits,
    prediction_file,
    write_result,
    writing,
)
from relation_tf.bench.runner import check_folders
from relation_tf.bench.train import score_tests, write_predictions
from relation_tf.config import load_suite
from relation_tf.config.run import RunConfig
from relation_tf.config.user_code import check_unchanged, load_plugins
from relation_tf.errors import SuiteError, join_names
from relation_tf.files import expand_home, read_json, write_json
from relation_tf.tasks.catalogue import find_source, find_task
from relation_tf.tasks.encoding import load_task
from relation_tf.tasks.sources import TaskSource
from relation_tf.terminal import advance, stderr_to
from relation_tf.training.pretraining_settings import WEIGHTS
from relation_tf.training.session import LOG, start_tensorflow

if TYPE_CHECKING:
    import numpy as np

    from relation_tf.training.task_trainer import TaskTrainer

_TOLERANCE = 0.005  # of a metric on the dev set; other machines round differently


@dataclass(frozen=True)
class Predictions:
    """Test predictions that `predict_missing` has added.

    Attributes:
        added: Leaderboard names that were predicted, by run.
        lacking: Runs without predictions, by reason.
    """

    added: dict[str, list[str]]
    lacking: dict[str, list[str]]

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        if self.added:
            names = dict.fromkeys(name for names in self.added.values() for name in names)
            yield f"predicted {', '.join(names)} for {_runs([*self.added])}"
        for reason, runs in self.lacking.items():
            yield f"not predicted: {_runs(runs)}: {reason}"
        if not self.added and not self.lacking:
            yield "All runs have their test predictions."


@workers.ends_workers
def predict_missing(
    folder: str | Path,
    data: str | Path | None = None,
    tfds_folder: str | Path | None = None,
) -> Predictions:
    """Predict the test sets that finished runs of a suite lack, with their saved weights.

    A test file that was added or changed after training is predicted, and scored if its labels are
    in the data folder. The network must reproduce the run's metrics on the dev set.

    Args:
        folder: The suite's folder.
        data: Folder of the task files.
        tfds_folder: TFDS folder.

    Returns:
        The runs with new predictions, and the others with the reason.

    Raises:
        SuiteError: If there are no such runs, another process trains one, the training data, a
            custom layer or a plugin has changed, or the weights do not fit.
        DataError: If a task is not found or cannot be read.
    """
    runs_of = RunFolder(expand_home(folder))
    suite = load_suite(runs_of.suite_file())
    check_folders(suite, data, tfds_folder)
    result = Predictions({}, {})
    with runs_of.locked("predictions", wait=True):
        results = read_results(runs_of.path)
        for name, error in results.failures:
            if suite.find_task(name.partition("/")[0]).answered:
                result.lacking.setdefault(error, []).append(name)
        configs = [RunConfig.of(run["config"]) for run in results.runs]
        configs = [config for config in configs if find_task(config.entry).answered]
        if not configs:
            raise SuiteError(
                f"{runs_of.path}: nothing to predict: there are no finished runs on tasks of the "
                "GLUE leaderboard"
            )
        done = 0
        for _, group in groupby(configs, key=lambda config: (config.task, config.method)):
            with ExitStack() as locks:
                runs = [_lock(runs_of, config, locks) for config in group]
                _predict_runs(runs_of.path, runs, data, tfds_folder, result)
            done += len(runs)
            advance("runs", done, len(configs))
    return result


def _lock(folder: RunFolder, config: RunConfig, locks: ExitStack) -> _FinishedRun:
    """Lock a run until its predictions are written, and read it."""
    if not locks.enter_context(folder.locked(config)):
        raise SuiteError(f"{folder.run(config)}: another process trains this run. Wait for it")
    path = folder.run(config)
    manifest = read_json(path / "manifest.json")
    return _FinishedRun(config, path, read_result(path)["metrics"], manifest)


def _predict_runs(
    folder: Path,
    runs: Sequence[_FinishedRun],
    data: str | Path | None,
    tfds_folder: str | Path | None,
    result: Predictions,
) -> None:
    """Predict the locked runs of one task and one method."""
    config = runs[0].config
    source = find_source(config.entry, config.source, data, tfds_folder)
    digests, training_digests = source.digests(), source.training_digests(config.vocabulary)
    pending = []
    for run in runs:
        run.check_data(source, training_digests)
        names, reason = run.find_pending(source, digests)
        if names:
            pending.append((run, names))
        if reason:
            result.lacking.setdefault(reason, []).append(str(run.config))
    if pending:
        load_plugins(config.plugins)
        check_unchanged(config, f"method {config.method}")
        workers.call(_predict_group, folder, pending, data, tfds_folder, runs=[config])
        result.added.update((str(run.config), names) for run, names in pending)


@dataclass(frozen=True)
class _FinishedRun:
    config: RunConfig
    folder: Path
    metrics: Mapping[str, Mapping[str, float]]
    manifest: Mapping[str, Any]

    @property
    def weights(self) -> Path:
        """File with the weights: that of the model, if the run kept it."""
        model = self.folder / MODEL
        return model if model.exists() else self.folder / WEIGHTS

    def find_pending(self, source: TaskSource, digests: Mapping[str, str]) -> tuple[list[str], str]:
        """Return the names to predict, and the reason why others have no predictions."""
        recorded = self.manifest["data"].get("digests", {})
        names, missing = [], []
        for name, split in source.task.answered.items():
            there = (self.folder / "predictions" / prediction_file(name, split)).exists()
            if split not in digests:
                missing += [] if there else [name]
            elif not there or recorded.get(split, digests[split]) != digests[split]:
                names.append(name)
        if names and (fault := damage(self.folder, others=False)):
            return [], fault
        if names and not self.weights.exists():
            return [], f"no {MODEL}: train the run again, with --set save_models=true"
        return names, f"no test file of {', '.join(missing)}" if missing else ""

    def check_data(self, source: TaskSource, digests: Mapping[str, str]) -> None:
        """Check that the training data are those of the run."""
        trained = self.config.data_digests
        if trained is not None and trained != digests:
            raise SuiteError(
                f"{self.folder}: this run was trained on other data "
                f"({', '.join(differing_splits(trained, digests))}) than {source}. Use the files "
                "of the training"
            )


def _predict_group(
    folder: Path,
    pending: Sequence[tuple[_FinishedRun, Sequence[str]]],
    data: str | Path | None,
    tfds_folder: str | Path | None,
) -> None:
    """Predict runs of one task and one method.

    Raises:
        SuiteError: If the weights of a run cannot be used.
    """
    config = pending[0][0].config
    load_plugins(config.plugins)
    start_tensorflow(folder / LOG, config.threads)
    import keras

    from relation_tf.training.task_trainer import TaskTrainer

    trainer: TaskTrainer | None = None
    with stderr_to(folder / LOG):
        for run, names in pending:
            if trainer is None or not config.shares_network:
                keras.backend.clear_session()
                reading = run.config.reading()
                task = load_task(config.entry, data=data, tfds_folder=tfds_folder, **reading)
                trainer = TaskTrainer(run.config, task)
            _predict_run(trainer, run, names)


def _predict_run(trainer: TaskTrainer, run: _FinishedRun, names: Sequence[str]) -> None:
    """Write the predictions of a run for some names, and its new result."""
    task = trainer.task.task
    tests = {*task.answered.values()}
    outputs, metrics = _outputs(trainer, run)
    old = {*names} & {*task.diagnostics}
    diagnosed = {name: metrics[name] for name in old & {*metrics}}
    answers = {
        (split, name): output
        for (split, name), output in outputs.items()
        if split in tests and name in names
    }
    with writing(run.folder):
        result = read_result(run.folder)
        result["metrics"] = _without(result["metrics"], old) | diagnosed
        # If the process is killed before the end, the old checksums must not name new files.
        write_result(run.folder, result, changing=("predictions", "manifest.json"))
        write_predictions(run.folder / "predictions", trainer, answers)
        scores, _ = score_tests(run.folder / "predictions", trainer.task.source)
        result["test_metrics"] = _without(result.get("test_metrics", {}), names) | scores
        before = run.manifest["data"]
        rows = {name: len(split) for name, split in trainer.task.splits.items()}
        predicted = {  # A test file that is absent now keeps what was recorded.
            **before,
            "rows": before.get("rows", {}) | rows,
            "digest": trainer.task.digest,
            "digests": before.get("digests", {}) | dict(trainer.task.digests),
        }
        write_json(run.folder / "manifest.json", {**run.manifest, "data": predicted})
        write_result(run.folder, result)


def _outputs(
    trainer: TaskTrainer, run: _FinishedRun
) -> tuple[dict[tuple[str, str], np.ndarray], dict[str, dict[str, float]]]:
    """Return the outputs and the metrics of a run's network.

    Raises:
        SuiteError: If the weights do not fit, or do not give the run's metrics.
    """
    import numpy as np

    path = run.weights
    try:
        if path.name == MODEL:
            trainer.model.load_weights(path)
        else:
            with np.load(path, allow_pickle=False) as file:
                trainer.restore([*file.values()])
    except Exception as error:  # any error in the file
        raise SuiteError(
            f"{path}: must have the weights of this run: {error}. Train the run again"
        ) from error
    outputs, metrics, _ = trainer.predict()
    for name in trainer.task.task.scored:
        for metric, value in run.metrics.get(name, {}).items():
            if not math.isclose(metrics[name][metric], value, abs_tol=_TOLERANCE):
                raise SuiteError(
                    f"{path}: these weights do not reproduce the run's {metric} on {name}: "
                    f"expected {value:.4f}, found {metrics[name][metric]:.4f}. If the layer has "
                    "state outside its weights, train the run again"
                )
    return outputs, metrics


def _without(scores: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: score for name, score in scores.items() if name not in names}


def _runs(names: Sequence[str]) -> str:
    return join_names(names) if len(names) <= 3 else f"{len(names)} runs, such as {names[0]}"
