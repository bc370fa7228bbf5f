"""Run groups: all runs of one task and one method, in sequence.

Keras and TensorFlow are imported when the first group starts.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import math
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from relation_tf.bench.checksums import write_result
from relation_tf.bench.inputs import check_encoder, check_task, check_vectors
from relation_tf.bench.models import check_can_be_saved, write_model
from relation_tf.bench.options import RunOptions
from relation_tf.bench.provenance import made_by, made_with, manifest
from relation_tf.bench.public_labels import score_tests
from relation_tf.bench.run_folder import (
    ERROR,
    RunFolder,
    kind_of,
    prediction_file,
    unwritable,
    writing,
)
from relation_tf.bench.tracking import TrackedRun, Trackers
from relation_tf.config.plugins import load_plugins
from relation_tf.config.run import RunConfig
from relation_tf.config.suite import Suite
from relation_tf.errors import DivergedError, RelationError, SuiteError, one_line
from relation_tf.files import read_json, replacing, write_json, write_table
from relation_tf.interrupts import interrupts_delayed
from relation_tf.networks.mechanisms import find_mechanism
from relation_tf.quiet import stderr_to
from relation_tf.tasks.catalogue import find_source, find_task
from relation_tf.tasks.encoding import EncodedTask, load_task
from relation_tf.tasks.glove import Vectors, read_glove
from relation_tf.tasks.official import shortfalls
from relation_tf.tasks.task import Task
from relation_tf.training.checkpoint import STATE, Checkpoint
from relation_tf.training.distribution import Distribution
from relation_tf.training.pretrained import WEIGHTS, pretrained_digest
from relation_tf.training.session import (
    LOG,
    forget_peaks,
    peaks,
    start_tensorflow,
)

if TYPE_CHECKING:
    import numpy as np

    from relation_tf.bench.run_folder import AnyRun
    from relation_tf.training.trainer import (
        ProgressCallback,
        SuiteTrainer,
        Trainer,
        TrainingResult,
    )

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)

EventCallback = Callable[[dict[str, Any]], None]
Run = TypeVar("Run", bound="AnyRun")

Inputs = tuple[EncodedTask, Vectors | None]


@dataclass(frozen=True)
class RunGroup:
    """Runs that share a compiled network, and their options.

    Attributes:
        runs: Runs of one task and one method, with different seeds.
        folder: The suite's folder.
        options: Options of the run.
        inputs: The task and its word vectors if they are read already, or the error.
        save_models: If True, keep the model of each run, see `relation_tf.bench.models`.
        out: The suite's folder on the machine of the command.
    """

    runs: Sequence[RunConfig]
    folder: Path
    options: RunOptions = field(default_factory=RunOptions)
    inputs: Inputs | Exception | None = None
    save_models: bool = False
    out: Path | None = None


def group_runs(suite: Suite, pending: Sequence[RunConfig], jobs: int) -> list[list[RunConfig]]:
    """Group runs by task and method; split large groups if there are fewer groups than jobs.

    For timed tasks, all methods of a seed come before the next seed, so that other load on the
    machine slows all methods equally. If seeds vary the split, the runs of a group have one seed,
    because a group reads its data once.

    Args:
        suite: The suite.
        pending: Runs of the suite.
        jobs: Number of groups at the same time.

    Example:
        >>> from relation_tf.config import load_suite
        >>> suite = load_suite("demo", {"tasks": ["RTE"]})
        >>> [len(runs) for runs in group_runs(suite, suite.runs(), jobs=6)]
        [3, 2, 3, 2, 5, 5]
    """
    by_seed = "split" in suite.vary
    if suite.timed or by_seed:
        tasks = [*dict.fromkeys(run.task for run in pending)]
        pending = sorted(pending, key=lambda run: (tasks.index(run.task), run.seed))
    keyed = groupby(pending, key=lambda run: (run.task, run.method, run.seed if by_seed else None))
    groups = [[*runs] for _, runs in keyed]
    while 0 < len(groups) < min(jobs, len(pending)):
        largest = max(groups, key=len)
        place, half = groups.index(largest), -(-len(largest) // 2)
        groups[place : place + 1] = [largest[:half], largest[half:]]
    return groups


def run_group(group: RunGroup, notify: EventCallback) -> None:
    """Run a group. A failed run writes `error.json`; the other runs continue.

    Args:
        group: The runs.
        notify: Called with each event: `{"event": "start" | "compile" | "note" | "epoch" |
            "done" | "failed", "run": key, ...}`.

    Raises:
        SuiteError: If no run can be written.
    """
    load_plugins(group.runs[0].plugins)
    compiled: list[SuiteTrainer] = []  # the network of a failed run may be broken

    def train(config: RunConfig, folder: Path) -> None:
        check_encoder(config)
        if compiled:
            trainer = compiled.pop()
        else:
            notify({"event": "compile", "run": config.key})
            trainer = compile_network(group, config)
            if group.save_models:
                check_can_be_saved(trainer)
            for note in _notes(trainer):
                notify({"event": "note", "run": config.key, "note": note})
        _run(trainer, config, folder, group, notify)
        if trainer.reusable:
            compiled.append(trainer)

    run_each(group.runs, RunFolder(group.folder), train, notify)


def run_each(
    runs: Sequence[Run],
    folder: RunFolder,
    train: Callable[[Run, Path], None],
    notify: EventCallback,
) -> None:
    """Train runs in sequence. A failed run writes `error.json`; the other runs continue.

    Args:
        runs: The runs.
        folder: The folder of all runs.
        train: Called with a run and its folder, which contains its configuration.
        notify: Called with the start and the end of each run.

    Raises:
        SuiteError: If no run can be written.
        BrokenPipeError: If the output was closed, such as by `head`; the run is not a failed one.
    """
    for run in runs:
        notify({"event": "start", "run": run.key})
        path, diverged = folder.run(run), False
        try:
            folder.start(run)
            train(run, path)
        except BrokenPipeError:
            raise
        except RelationError as error:
            reason, detail, diverged = str(error), "", isinstance(error, DivergedError)
        except Exception as error:
            written = (path / "config.json").exists()
            if isinstance(error, OSError) and (error.errno in _NO_ROOM or not written):
                raise unwritable(path, error) from error  # no other run could be written either
            reason, detail = one_line(error), traceback.format_exc()
        else:
            notify({"event": "done", "run": run.key})
            continue
        fail(folder, run, reason, notify, detail, diverged)


def check_methods(
    configs: Sequence[RunConfig], folder: Path, distribution: Distribution | None = None
) -> None:
    """Build the network of each method, so that wrong options are reported before the first run.

    Callbacks are created. Custom layers are not checked; if one fails later, the other runs
    continue.

    Raises:
        SuiteError: For the first method that cannot be built.
    """
    load_plugins(configs[0].plugins)
    by_method = {config.method: config for config in configs}
    layers = {layer for config in by_method.values() for layer in config.custom_layers}
    free = {layer for layer in layers if find_mechanism(layer).factory == layer}
    known = [config for config in by_method.values() if not free & {*config.custom_layers}]
    if known or configs[0].callbacks:
        start_tensorflow(folder / LOG, configs[0].threads, distribution)
    if configs[0].callbacks:
        from relation_tf.training.callbacks import make_callbacks

        make_callbacks(configs[0])  # of all methods
    for config in known:
        try:
            with interrupts_delayed():
                _trainer_class(config).check(config)
        except RelationError:
            raise
        except Exception as error:  # a plugin may raise anything
            raise SuiteError(f"method {config.method}: {one_line(error)}") from error


def compile_network(group: RunGroup, config: RunConfig) -> SuiteTrainer:
    """Read the task of a run and compile its trainer."""
    log = group.folder / LOG
    options = group.options
    replicas = start_tensorflow(log, config.threads, options.distribution, options.deterministic)
    import keras

    keras.backend.clear_session()  # frees the memory of the previous group
    quietly = functools.partial(stderr_to, log)
    if isinstance(group.inputs, Exception):
        raise group.inputs
    inputs = group.inputs or _inputs.of(group, config)
    # Custom layers may print messages for their author.
    hidden = quietly() if config.has_built_in_layer else contextlib.nullcontext()
    with hidden, interrupts_delayed():
        return _trainer_class(config)(config, *inputs, quietly, replicas)


def _trainer_class(config: RunConfig) -> Any:
    from relation_tf.training.layer_timing import LayerTimer
    from relation_tf.training.step_timing import StepTimer
    from relation_tf.training.task_trainer import TaskTrainer
    from relation_tf.training.transfer_trainer import TransferTrainer

    if config.transfers:
        return TransferTrainer
    timers = {"decoding": StepTimer, "training": LayerTimer}
    return timers.get(find_task(config.entry).timed, TaskTrainer)


class LastInputs:
    """Cache of the inputs of the last group; the next group often reads the same inputs.

    Args:
        read: Function that reads the inputs of a run of a group.
    """

    def __init__(self, read: Callable[[RunGroup, RunConfig], Any]) -> None:
        self._read = read
        self._key: Any = None
        self._inputs: Any = None

    def of(self, group: RunGroup, config: RunConfig) -> Any:
        """Return the inputs of a run of a group."""
        options = group.options
        key = (
            *(config.entry, config.reading(), config.data_digests, _test_files(config, options)),
            *(config.embeddings, config.embedding_dim, config.glove_digest),
            config.pretrained and pretrained_digest(config.pretrained),
            *(options.data, options.tfds_folder, options.glove, options.skip_bad_lines),
        )
        if self._key != key:
            self._key = self._inputs = None  # free memory first
            self._inputs = self._read(group, config)
            self._key = key
        return self._inputs


def read_inputs(group: RunGroup, config: RunConfig) -> Inputs:
    """Read the task of a run and its word vectors.

    Raises:
        DataError, SuiteError: If they cannot be read, or have changed since the command started.
    """
    task = load_task(
        config.entry,
        data=group.options.data,
        tfds_folder=group.options.tfds_folder,
        skip_bad_lines=group.options.skip_bad_lines,
        **config.reading(),
    )
    check_task(config, task)
    if config.embeddings == "random":
        return task, None
    # `run_suite` checks that --glove is given; tokens = "text" has no word vectors.
    assert group.options.glove is not None
    assert task.vocabulary is not None
    vectors = read_glove(group.options.glove, task.vocabulary.words, config.embedding_dim)
    check_vectors(config, group.options.glove)
    return task, vectors


def _test_files(config: RunConfig, options: RunOptions) -> list[tuple[Path, int]]:
    """Return the test files of a run, which its digests do not cover, and their times."""
    found = find_source(config.entry, config.source, options.data, options.tfds_folder)
    return [
        (path, path.stat().st_mtime_ns)
        for split, path in found.files.items()
        if split in found.task.answered.values()
    ]


_inputs = LastInputs(read_inputs)


def _notes(trainer: SuiteTrainer) -> Iterator[str]:
    """Yield messages about the data, once per task."""
    name, skipped = trainer.task.task.name, trainer.task.skipped
    if skipped:
        yield f"{name}: {len(skipped)} malformed rows skipped, the first: {skipped[0]}"
    yield from (f"{name}: {note}" for note in trainer.task.notes)
    if trainer.vectors is not None:
        yield f"{name}: GloVe: {trainer.vectors}"
    if trainer.match is not None:
        yield f"{name}: {trainer.config.method}: {trainer.match}"


def _run(
    trainer: SuiteTrainer, config: RunConfig, folder: Path, group: RunGroup, notify: EventCallback
) -> None:
    def on_epoch(epoch: int, row: Mapping[str, float]) -> None:
        notify({"event": "epoch", "run": config.key, "epoch": epoch, "row": row})
        trackers.epoch_end(epoch, row)

    def write(trained: TrainingResult) -> tuple[dict[str, Any], dict[str, Any]]:
        import numpy as np

        write_predictions(folder / "predictions", trainer, trained.predictions)
        rows = {name: len(split) for name, split in trainer.task.splits.items()}
        if group.save_models:
            write_model(folder, trainer)
        elif shortfalls(trainer.task.source, rows):
            with replacing(folder / WEIGHTS) as file:
                np.savez(file, *trainer.weights(), allow_pickle=False)
        return made_with(trainer, config), _result(trainer, config, trained, folder)

    def warn(line: str) -> None:
        notify({"event": "note", "run": config.key, "note": line})

    trainer.warn = warn
    resumable = config.has_state_only_in_variables  # other runs start again
    tracked = TrackedRun(config, group.out or group.folder, trainer.optimizer)
    with Trackers(group.options.track, tracked, group.folder / LOG, warn) as trackers:
        train_run(trainer, config, folder, on_epoch, write, group.options.distribution, resumable)
        trackers.finish(read_json(folder / "result.json"))


def train_run(
    trainer: Trainer,
    run: AnyRun,
    folder: Path,
    on_progress: ProgressCallback,
    write: Callable[[TrainingResult], tuple[dict[str, Any], dict[str, Any]]],
    distribution: Distribution | None = None,
    resumable: bool = True,
    checkpoint_every: float = 2.0,
) -> None:
    """Train a run, from its checkpoint if there is one, and write its files, the result last.

    Args:
        trainer: The compiled network.
        run: The run.
        folder: The folder of the run.
        on_progress: Called after each epoch or step.
        write: Writes other files of the run, such as predictions; returns further entries of
            `manifest.json` and the entries of `result.json`.
        distribution: Devices that share the run.
        resumable: If True, write checkpoints, from which an interrupted run resumes.
        checkpoint_every: Seconds between two checkpoints.
    """
    started = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    peak_of = forget_peaks()
    state = folder / STATE
    made = made_by(run, distribution)
    checkpoint = Checkpoint(state, made, checkpoint_every) if resumable else None
    wall, cpu = time.perf_counter(), time.process_time()
    with interrupts_delayed():
        trained = trainer.run(run.seed, on_progress, checkpoint)
    # CPU time below wall time shows that other programs had the processor.
    load = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
    memory = {**peaks(), "peak_memory_of": peak_of}  # without the memory for writing
    facts, result = write(trained)
    columns = {key: [row[key] for row in trained.history] for key in trained.history[0]}
    write_table(folder / "history.csv", columns, ",")
    write_json(folder / "manifest.json", manifest(started, trained.resumed, distribution) | facts)
    seconds = {**trained.seconds, "compilation": trainer.compile_seconds, **load}
    write_result(folder, {**result, "seconds": seconds, **memory})
    state.unlink(missing_ok=True)


def _result(
    trainer: SuiteTrainer, config: RunConfig, trained: TrainingResult, folder: Path
) -> dict[str, Any]:
    from relation_tf.networks import count_parameters

    assert trained.stop is not None  # of a suite's run
    _check_finite(trained.metrics)
    test_metrics, faults = score_tests(folder / "predictions", trainer.task.source)
    for fault in faults.values():
        trainer.warn(f"no score on the test set: {fault}")
    splits = trainer.task.task.scorable
    return {
        "task": config.task,
        "method": config.method,
        "seed": config.seed,
        "metrics": trained.metrics,
        "splits": {name: kind_of(splits[name]) for name in trained.metrics},
        "test_metrics": test_metrics,
        "epochs": len(trained.history),
        "kept_epoch": trained.stop.epoch,
        "stopped": trained.stop.reason,
        "reached": trained.stop.reached,
        "parameters": count_parameters(trainer.model),
        "size": asdict(trainer.match) if trainer.match else None,
        "padding": trained.padding,
        "tokens": trainer.tokens,
        **trained.facts,
    }


def _check_finite(metrics: Mapping[str, Mapping[str, float]]) -> None:
    """Check the metrics of a run, by scored name.

    Raises:
        SuiteError: If one is not finite, although the outputs are: means and tests need numbers.
    """
    for name, own in metrics.items():
        for metric, value in own.items():
            if not math.isfinite(value):
                raise SuiteError(
                    f"metric {metric} on {name} is {value}. It must be a finite number: change a "
                    "metric that is not defined for all predictions"
                )


def write_predictions(
    folder: Path, trainer: SuiteTrainer, predictions: Mapping[tuple[str, str], Any]
) -> None:
    """Write a file of predictions for each scored or answered name.

    Args:
        folder: Folder of the files.
        trainer: The trainer of the run.
        predictions: Outputs by (split, name), see `TrainingResult`.
    """
    from relation_tf.training.classification import words_of

    for (part, name), outputs in predictions.items():
        task, split = trainer.task.task.of(name), trainer.task.splits[part]
        words = words_of(task, outputs, trainer.task.targets)
        columns: dict[str, Any] = {"index": split.index.tolist(), "prediction": words.tolist()}
        if split.labels is not None:
            columns |= _truth(task, split.labels, outputs)
        folder.mkdir(exist_ok=True)
        write_table(folder / prediction_file(name, part), columns, "\t")


def _truth(task: Task, labels: np.ndarray, outputs: np.ndarray) -> dict[str, list[Any]]:
    """Return columns with the true labels and the probability of each class."""
    if task.labels is None:
        return {"label": (labels * task.maximum).tolist()}
    return {
        "label": [task.labels[label] for label in labels.tolist()],
        **{f"probability_{x}": outputs[:, i].tolist() for i, x in enumerate(task.labels)},
    }


def fail(
    folder: RunFolder, run: AnyRun, reason: str, notify: EventCallback, detail: str = "",
    diverged: bool = False,
) -> None:  # fmt: skip
    """Write `error.json` of a failed run and send the event.

    Raises:
        SuiteError: If the file cannot be written.
    """
    path = folder.run(run)
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)
        write_json(path / ERROR, {"error": reason, "traceback": detail, "diverged": diverged})
    event = {"error": reason, "detail": bool(detail), "diverged": diverged}
    notify({"event": "failed", "run": run.key, **event})
