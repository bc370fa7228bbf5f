"""Train runs: from the configuration of a run to its `result.json`.

`train_run` trains a run of a suite. A `RunGroup` has the runs of one task and one method, which
share a compiled network. Keras and TensorFlow are imported when the first run starts. An executor
calls `group.train` in any process that can access the folder of the runs, see `workers.py`.
"""

from __future__ import annotations

import errno
import math
import os
import sys
import tempfile
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import relation_tf
from glue_submit import SubmissionError, score
from glue_submit.scoring import find_labels
from relation_tf.bench.options import RunOptions
from relation_tf.bench.provenance import made_by, made_with, manifest
from relation_tf.bench.run_folder import (
    ERROR,
    MODEL,
    VOCABULARY,
    RunFolder,
    digest_of,
    kind_of,
    prediction_file,
    unwritable,
    write_result,
    writing,
)
from relation_tf.config.plugins import load_plugins
from relation_tf.config.run import RunConfig, RunKey
from relation_tf.config.suite import Suite
from relation_tf.errors import (
    DivergedError,
    RelationError,
    SuiteError,
    join_names,
    one_line,
)
from relation_tf.files import (
    read_json,
    replacing,
    write_bytes,
    write_json,
    write_table,
    write_text,
)
from relation_tf.networks.mechanisms import find_mechanism
from relation_tf.quiet import stderr_to
from relation_tf.tasks.catalogue import find_task
from relation_tf.tasks.sources import TaskSource, is_labelled, shortfalls
from relation_tf.tasks.task import Task
from relation_tf.training.checkpoint import STATE, Checkpoint
from relation_tf.training.pretrained import WEIGHTS, pretrained_digest
from relation_tf.training.session import LOG, Distribution, forget_peaks, peaks, start_tensorflow
from relation_tf.words import count

if TYPE_CHECKING:
    import numpy as np

    from relation_tf.bench.progress import Progress
    from relation_tf.bench.run_folder import AnyRun
    from relation_tf.tasks.encoding import EncodedTask
    from relation_tf.tasks.glove import Vectors
    from relation_tf.training.trainer import (
        ProgressCallback,
        SuiteTrainer,
        Trainer,
        TrainingResult,
    )

_LOOK_EVERY = 1.0  # seconds between two looks at the runs of other processes
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)

EventCallback = Callable[[dict[str, Any]], None]
Run = TypeVar("Run", bound="AnyRun")

Inputs: TypeAlias = "tuple[EncodedTask, Vectors | None]"


@dataclass(frozen=True)
class Group(ABC):
    """Runs that are trained one after the other.

    Attributes:
        runs: The runs.
        folder: The folder of all runs.
        began: Start of the command, see `RunFolder`.
    """

    runs: Sequence[Any]
    folder: Path
    began: float = field(default_factory=time.time, kw_only=True)

    @abstractmethod
    def train(self, notify: EventCallback) -> None:
        """Train the runs; TensorFlow's output goes to `tensorflow.log`.

        Args:
            notify: Called with each event: `{"event": "start" | "compile" | "note" | "epoch" |
                "step" | "done" | "failed" | "locked", "run": key, ...}`. A run that another process
                trains is locked.

        Raises:
            SuiteError: If no run can be written.
        """


@dataclass(frozen=True)
class RunGroup(Group):
    """Runs of one task and one method of a suite, which share a compiled network.

    Attributes:
        options: Options of the run.
        save_models: If True, keep the model of each run, see `write_model`.
    """

    runs: Sequence[RunConfig]
    options: RunOptions = field(default_factory=RunOptions)
    save_models: bool = False

    def train(self, notify: EventCallback) -> None:
        """Train the runs, see `Group`."""
        load_plugins(self.runs[0].plugins)
        compiled: list[SuiteTrainer] = []

        def train(config: RunConfig, path: Path) -> None:
            train_run(config, path, self, compiled, notify)

        with stderr_to(self.folder / LOG):
            train_each(self.runs, RunFolder(self.folder, self.began), train, notify)


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


def train_each(
    runs: Sequence[Run],
    folder: RunFolder,
    train: Callable[[Run, Path], None],
    notify: EventCallback,
) -> None:
    """Train runs one after the other. A failed run writes `error.json`; the other runs continue.

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
        with claimed(run, folder, notify) as is_ours:
            if is_ours:
                notify({"event": "start", "run": run.key})
                _train_or_fail(run, folder, train, notify)


@contextmanager
def claimed(run: AnyRun, folder: RunFolder, notify: EventCallback) -> Iterator[bool]:
    """Lock a run; yield False, after an event, if another process trains or has trained it.

    A run that has failed since the start of this command is not tried again.

    Raises:
        SuiteError: If another process has trained it with another configuration.
    """
    with folder.locked(run) as free:
        event: dict[str, Any] = {}
        if not free:
            event = {"event": "locked"}
        elif folder.has_result(run):
            folder.check_configuration(run)
            event = {"event": "done"}
        elif error := folder.new_error(run):
            event = {"event": "failed", **error, "detail": bool(error.get("traceback"))}
        if event:
            notify({**event, "run": run.key})
        yield not event


def _train_or_fail(
    run: Run, folder: RunFolder, train: Callable[[Run, Path], None], notify: EventCallback
) -> None:
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
        reason, detail = f"{one_line(error)}{_place(error)}", traceback.format_exc()
    else:
        notify({"event": "done", "run": run.key})
        return
    fail(folder, run, reason, notify, detail, diverged)


def _place(error: Exception) -> str:
    """Return the last line of the user's code that an error passed; empty without any."""
    package = str(Path(relation_tf.__file__).parent)
    installed = (sys.prefix, sys.base_prefix, package, "<frozen", "<string", "<__array")
    frames = traceback.extract_tb(error.__traceback__)
    users = [frame for frame in frames if not frame.filename.startswith(installed)]
    return (
        f" ({Path(users[-1].filename).name}:{users[-1].lineno}: {users[-1].line})" if users else ""
    )


def train_shared(
    pending: Sequence[Run],
    folder: RunFolder,
    progress: Progress,
    train: Callable[[Sequence[Run], EventCallback], None],
) -> None:
    """Train runs until each has ended, here or in another process that uses the same folder.

    Args:
        pending: The runs.
        folder: Their folder.
        progress: Notified of the events of all runs.
        train: Trains runs that no process has locked; gets a callback for events.
    """
    left, is_told = [*pending], False
    locked: set[RunKey] = set()

    def notify(event: dict[str, Any]) -> None:
        if event["event"] == "locked":
            locked.add(event["run"])
        else:
            progress.notify(event)

    while left:
        locked.clear()
        free = []
        for run in left:
            with claimed(run, folder, notify) as is_ours:
                free += [run] if is_ours else []
        if free:
            train(free, notify)
        elif locked:
            time.sleep(_LOOK_EVERY)
        left = [run for run in left if run.key in locked]
        if left and not is_told:
            runs = count(len(left), "run")
            progress.say(f"{runs} in training by other processes: waiting for the end")
            is_told = True


def build_methods(configs: Sequence[RunConfig], options: RunOptions) -> None:
    """Build the network of each method, so that wrong options are reported before the first run.

    Callbacks are created. Custom layers are not built; if one fails later, the other runs continue.

    Raises:
        SuiteError: For the first method that cannot be built.
    """
    load_plugins(configs[0].plugins)
    by_method = {config.method: config for config in configs}
    layers = {layer for config in by_method.values() for layer in config.custom_layers}
    free = {layer for layer in layers if find_mechanism(layer).factory == layer}
    known = [config for config in by_method.values() if not free & {*config.custom_layers}]
    log = Path(os.devnull)
    if known or configs[0].callbacks:
        threads = configs[0].threads
        start_tensorflow(log, threads, options.distribution, options.deterministic)
    if configs[0].callbacks:
        from relation_tf.training.callbacks import make_callbacks

        make_callbacks(configs[0])  # of all methods
    for config in known:
        try:
            with stderr_to(log):
                _trainer_class(config).check(config)
        except RelationError:
            raise
        except Exception as error:  # a plugin may raise anything
            raise SuiteError(f"method {config.method}: {one_line(error)}") from error


def compile_network(group: RunGroup, config: RunConfig) -> SuiteTrainer:
    """Read the task of a run and compile its trainer."""
    options = group.options
    log, threads = group.folder / LOG, config.threads
    replicas = start_tensorflow(log, threads, options.distribution, options.deterministic)
    import keras

    keras.backend.clear_session()  # frees the memory of the previous group
    return _trainer_class(config)(config, *_read_inputs(group, config), replicas)


def _trainer_class(config: RunConfig) -> Any:
    from relation_tf.training.task_trainer import TaskTrainer
    from relation_tf.training.timing import LayerTimer, StepTimer
    from relation_tf.training.transfer_trainer import TransferTrainer

    if config.transfers:
        return TransferTrainer
    timers = {"decoding": StepTimer, "training": LayerTimer}
    return timers.get(find_task(config.entry).timed, TaskTrainer)


_last_inputs: list[tuple[Any, Inputs]] = []  # of the last group: the next one often has the same


def _read_inputs(group: RunGroup, config: RunConfig) -> Inputs:
    """Read the task of a run and its word vectors.

    Raises:
        DataError, SuiteError: If they cannot be read, or have changed since the command started.
    """
    from relation_tf.tasks.encoding import load_task
    from relation_tf.tasks.glove import read_glove

    options = group.options
    key = (
        *(config.entry, config.reading(), config.data_digests, config.pretrained_digest),
        *(config.embeddings, config.embedding_dim, config.glove_digest, options),
    )
    if _last_inputs and _last_inputs[0][0] == key:
        return _last_inputs[0][1]
    _last_inputs.clear()  # free memory first
    task = load_task(
        config.entry, data=options.data, tfds_folder=options.tfds_folder, **config.reading()
    )
    check_task(config, task)
    vectors = None
    if config.embeddings != "random":
        # `run_suite` checks that --glove is given; tokens = "text" has no word vectors.
        assert options.glove is not None
        assert task.vocabulary is not None
        vectors = read_glove(options.glove, task.vocabulary.words, config.embedding_dim)
        if config.glove_digest not in (None, digest_of(options.glove)):
            raise _changed(f"--glove {options.glove}")
    _last_inputs.append((key, (task, vectors)))
    return task, vectors


def _notes(trainer: SuiteTrainer) -> Iterator[str]:
    """Yield messages about the data, once per task."""
    name = trainer.task.task.name
    yield from (f"{name}: {note}" for note in trainer.task.notes)
    if trainer.vectors is not None:
        yield f"{name}: GloVe: {trainer.vectors}"
    if trainer.match is not None:
        yield f"{name}: {trainer.config.method}: {trainer.match}"


def train_run(
    config: RunConfig,
    folder: Path,
    group: RunGroup,
    compiled: list[SuiteTrainer],
    notify: EventCallback,
) -> None:
    """Train a run and write its files; `result.json` is the last one.

    Args:
        config: The run.
        folder: Its folder, which contains its configuration.
        group: The group of the run.
        compiled: The compiled network of the last run, if this one can use it; then that of this
            run. Empty after a failed run, whose network may be broken.
        notify: Called with events, see `Group.train`.
    """
    from relation_tf.bench.tracking import TrackedRun, Trackers

    def warn(line: str) -> None:
        notify({"event": "note", "run": config.key, "note": line})

    def on_epoch(epoch: int, row: Mapping[str, float]) -> None:
        notify({"event": "epoch", "run": config.key, "epoch": epoch, "row": row})
        trackers.epoch_end(epoch, row)

    def write(trained: TrainingResult) -> tuple[dict[str, Any], dict[str, Any]]:
        import numpy as np

        write_predictions(folder / "predictions", trainer, trained.predictions)
        if group.save_models:
            write_model(folder, trainer)
        elif shortfalls(trainer.task.source):
            with replacing(folder / WEIGHTS) as file:
                np.savez(file, *trainer.weights(), allow_pickle=False)
        return made_with(trainer, config), _result(trainer, config, trained, folder)

    if config.pretrained_digest not in (None, encoder_digest(config)):
        raise _changed(str(config.pretrained))
    if compiled:
        trainer = compiled.pop()
    else:
        notify({"event": "compile", "run": config.key})
        trainer = compile_network(group, config)
        if group.save_models:
            check_can_be_saved(trainer)
        for note in _notes(trainer):
            warn(note)
    trainer.warn = warn
    # Other runs start again.
    resumable = config.has_state_only_in_variables and not config.transfers
    tracked = TrackedRun(config, group.folder.resolve(), trainer.optimizer)
    with Trackers(group.options.track, tracked, group.folder / LOG, warn) as trackers:
        distribution = group.options.distribution
        train_and_write(trainer, config, folder, on_epoch, write, distribution, resumable)
        tracked.finish(read_json(folder / "result.json"))
    if config.shares_network:
        compiled.append(trainer)


def train_and_write(
    trainer: Trainer,
    run: AnyRun,
    folder: Path,
    on_progress: ProgressCallback,
    write: Callable[[TrainingResult], tuple[dict[str, Any], dict[str, Any]]],
    distribution: Distribution | None = None,
    resumable: bool = True,
    checkpoint_every: float = 2.0,
) -> None:
    """Train a compiled network, from a checkpoint if there is one, and write the files of the run.

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
    facts_of_run = made_by(run, distribution)
    checkpoint = Checkpoint(state, facts_of_run, checkpoint_every) if resumable else None
    wall, cpu = time.perf_counter(), time.process_time()
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
    for name, values in metrics.items():
        for metric, value in values.items():
            if not math.isfinite(value):
                raise SuiteError(
                    f"metric {metric} on {name} is {value}. It must be a finite number: change a "
                    "metric that is not defined for all predictions"
                )


def check_can_be_saved(trainer: SuiteTrainer) -> None:
    """Check, before the training, that Keras can save the network of a run and load it again.

    Raises:
        SuiteError: If a custom layer is not registered or has no usable `get_config`.
    """
    if trainer.config.has_built_in_layer:
        return
    import keras

    try:
        keras.saving.deserialize_keras_object(
            keras.saving.serialize_keras_object(trainer.model), safe_mode=False
        )
    except Exception as error:  # a custom layer may raise anything
        config = trainer.config
        raise SuiteError(
            f"key 'save_models': must be false for method {config.method}, which Keras cannot save "
            f"and load. `relation-tf check-layer {config.mixer}` says what to change"
        ) from error


def write_model(folder: Path, trainer: SuiteTrainer) -> None:
    """Write the network of a finished run and its vocabulary into the folder of the run.

    The networks of a group of tasks are one model, see `relation_tf.networks.as_one`.
    """
    from relation_tf.tasks.vocabulary import Vocabulary

    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / MODEL
        trainer.model.save(path)
        write_bytes(folder / MODEL, path.read_bytes())
    if isinstance(vocabulary := trainer.task.vocabulary, Vocabulary):
        write_text(folder / VOCABULARY, vocabulary.to_json())


def write_predictions(
    folder: Path, trainer: SuiteTrainer, predictions: Mapping[tuple[str, str], Any]
) -> None:
    """Write a file of predictions for each scored or answered name.

    Args:
        folder: Folder of the files.
        trainer: The trainer of the run.
        predictions: Outputs by (split, name), see `TrainingResult`.
    """
    from relation_tf.training.steps import words_of

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
    told = {"error": reason, "detail": bool(detail), "diverged": diverged}
    notify({"event": "failed", "run": run.key, **told})


def score_tests(
    predictions: Path, source: TaskSource
) -> tuple[dict[str, dict[str, float]], dict[str, str]]:
    """Score the test predictions of a run on GLUE tasks.

    Args:
        predictions: Folder with the predictions of the run.
        source: Source of its task or group.

    Returns:
        The metrics by leaderboard name, without those without a labelled file; and for each name
        that cannot be scored with its labels the reason, such as another number of rows.
    """
    scores: dict[str, dict[str, float]] = {}
    faults: dict[str, str] = {}
    for member in source.members or (source,):
        for name, split in member.task.answered.items():
            file = predictions / prediction_file(name, split)
            there = split in member.files and member.kind == "files" and file.exists()
            if not there or (name in member.task.diagnostics and is_labelled(member, name)):
                continue
            labels = member.files[split].parents[1]
            if find_labels(labels, name, "test")[0].is_file():
                try:
                    scores[name] = {**score({name: file}, labels, split="test").tasks[name]}
                except SubmissionError as error:
                    faults[name] = str(error)
    return scores, faults


def encoder_digest(config: RunConfig) -> str | None:
    """Return the digest of a run's pre-trained encoder, or only of its vocabulary.

    Returns:
        None for a run without one.

    Raises:
        SuiteError: If there is no such encoder.
    """
    if config.pretrained is None:
        return None
    vocabulary = pretrained_digest(config.pretrained)
    if config.encoder_weights == "random":
        return vocabulary
    try:
        return pretrained_digest(config.pretrained, config.block_mechanism, config.seed_of("init"))
    except SuiteError as error:
        raise SuiteError(
            f"{error}; {config.method} needs it unless encoder_weights = 'random'"
        ) from error


def check_task(config: RunConfig, task: EncodedTask) -> None:
    """Check that a task was read from the files of its digests. Test sets may be added later.

    Raises:
        SuiteError: If they have changed.
    """
    expected = config.data_digests or {}
    changed = [key for key, digest in expected.items() if task.digests.get(key, digest) != digest]
    if changed:
        raise _changed(f"{task.task.name} ({join_names(changed)})")


def _changed(place: str) -> SuiteError:
    return SuiteError(f"{place}: its files changed after the command started. Run it again")
