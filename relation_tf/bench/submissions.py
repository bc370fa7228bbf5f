"""GLUE submissions of a suite, and predictions of test sets that were missing during training."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glue_submit import TASKS, Packed, SubmissionError, pack
from relation_tf.bench import workers
from relation_tf.bench.results import Results, read_result, read_results
from relation_tf.bench.run_folder import (
    DIGEST,
    MODEL,
    RunFolder,
    damage,
    differing_splits,
    digest_of,
    prediction_file,
    write_result,
    writing,
)
from relation_tf.bench.runner import check_folders
from relation_tf.bench.train import score_tests, write_predictions
from relation_tf.config import load_suite
from relation_tf.config.run import RunConfig
from relation_tf.config.suite import Suite
from relation_tf.config.user_code import check_unchanged, load_plugins
from relation_tf.errors import SuiteError, join_names
from relation_tf.files import expand_home, read_json, write_json
from relation_tf.tasks.catalogue import find_source, find_task
from relation_tf.tasks.datasets import leaderboard_file
from relation_tf.tasks.encoding import load_task
from relation_tf.tasks.sources import TaskSource
from relation_tf.terminal import advance, stderr_to
from relation_tf.training.pretraining_settings import WEIGHTS
from relation_tf.training.session import LOG, start_tensorflow

if TYPE_CHECKING:
    import numpy as np

    from relation_tf.training.task_trainer import TaskTrainer


@dataclass(frozen=True)
class Submissions:
    """Submissions of each method and seed.

    Attributes:
        packed: Zips that were written and checked.
        refused: Paths of the zips that were not written, and the reasons.
        left_out: Failed and damaged runs on tasks of the leaderboard, and the reasons.
    """

    packed: tuple[Packed, ...]
    refused: tuple[tuple[Path, str], ...]
    left_out: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        if self.packed:
            yield f"submissions: {len(self.packed)} written and checked"
        zips = defaultdict[str, list[str]](list)
        for packed in self.packed:
            for task in packed.filled:
                value = "mean score" if TASKS[task].labels is None else "majority class"
                line = f"{task}: filled with the {value} of the training set"
                zips[line].append(_name(packed.path))
            for warning in packed.warnings:
                zips[f"warning: {warning}"].append(_name(packed.path))
        for path, reason in self.refused:
            zips[f"not written: {reason}"].append(_name(path))
        yield from (f"{line}: {join_names(names)}" for line, names in zips.items())
        yield from (f"left out: {run}: {reason}" for run, reason in self.left_out)


def check_leaderboard(suite: Suite) -> None:
    """Check that a suite has a task of the GLUE leaderboard.

    Raises:
        SuiteError: If it has none.
    """
    if not any(suite.find_task(name).answered for name in suite.tasks):
        raise SuiteError(
            f"suite {suite.name} has no task of the GLUE leaderboard. Its tasks: "
            f"{', '.join(suite.tasks)}"
        )


def check_submittable(results: Results) -> None:
    """Check that there are finished runs on tasks of the GLUE leaderboard.

    Raises:
        SuiteError: If there are none, or the suite has no such task.
    """
    suite, folder = results.suite, results.folder
    check_leaderboard(suite)
    if not any(suite.find_task(run["task"]).answered for run in results.runs):
        raise SuiteError(
            f"{folder}: nothing to submit: there are no finished runs on tasks of the GLUE "
            "leaderboard" + "".join(f"; {run}: {why}" for run, why in results.failures[:1])
        )


def write_submissions(results: Results, *, fill_missing: bool = False) -> Submissions:
    """Write and check a zip for each method and seed: `OUT/submissions/<method>/seed-<s>.zip`.

    Next to each zip, `seed-<s>.json` has its SHA-256 and those of the predictions.

    Args:
        results: The results of a suite on GLUE tasks.
        fill_missing: If True, fill tasks without predictions with the majority class of the
            training set; each `Packed` lists the filled tasks.

    Returns:
        The written submissions, and the refused ones: with missing tasks or invalid predictions.

    Raises:
        SuiteError: If no run on a task of the leaderboard is finished.
    """
    check_submittable(results)
    predictions: dict[tuple[str, int], dict[str, Path]] = defaultdict(dict)
    faults: dict[tuple[str, int], dict[str, str]] = defaultdict(dict)
    for run in results.runs:
        key = run["method"], run["seed"]
        for name, split in results.suite.find_task(run["task"]).answered.items():
            files = predictions[key]  # also if it stays empty
            path = Path(run["folder"]) / "predictions" / prediction_file(name, split)
            rows = run["manifest"]["data"]["rows"].get(split)
            if not path.exists():
                faults[key][name] = f"{leaderboard_file(name)} was missing"
                continue
            files[name] = path
            if rows is not None and rows != TASKS[name].test_rows:
                faults[key][name] = (
                    f"{leaderboard_file(name)} had {rows:,} rows, not {TASKS[name].test_rows:,}"
                )
    packed, refused = [], []
    for number, (key, files) in enumerate(predictions.items()):
        advance("zips", number, len(predictions))
        method, seed = key
        path = results.folder / "submissions" / method / f"seed-{seed}.zip"
        wrong = {
            name: fault for name, fault in faults[key].items() if name in files or not fill_missing
        }
        older = ". The file of an earlier command is unchanged" if path.exists() else ""
        if wrong:
            others = [name for name in TASKS if name not in files and name not in wrong]
            reason = _reason(results, wrong, () if fill_missing else others)
            refused.append((path, f"{reason}{older}"))
            continue
        try:
            packed.append(pack(files, path, fill_missing=fill_missing))
            _record(packed[-1], files, results.folder)
        except SubmissionError as error:
            refused.append((path, f"{error}{older}"))
    left_out = (
        (run, reason)
        for run, reason in results.failures
        if results.suite.find_task(run.partition("/")[0]).answered
    )
    return Submissions(tuple(packed), tuple(refused), tuple(left_out))


def _record(packed: Packed, files: Mapping[str, Path], folder: Path) -> None:
    """Write the SHA-256 of a zip, and of the predictions that it was made from, next to it."""
    made_from = {
        name: {"predictions": path.relative_to(folder).as_posix(), DIGEST: digest_of(path)}
        for name, path in files.items()
    }
    record = {DIGEST: digest_of(packed.path), "made_from": made_from, "filled": [*packed.filled]}
    with writing(folder):
        write_json(packed.path.with_suffix(".json"), record)


def _reason(results: Results, faults: Mapping[str, str], others: Sequence[str]) -> str:
    """Return why there is no submission, and what to do."""
    files = "; ".join(f"{name}: {fault}" for name, fault in faults.items())
    files += f"; without a finished run: {', '.join(others)}" if others else ""
    return (
        f"{files}. When the files are complete: relation-tf submit {results.folder} --data DIR. "
        "--fill-missing fills tasks without a file"
    )


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


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
    digests, training_digests = source.digests(), source.training_digests(config.vocabulary, data)
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
