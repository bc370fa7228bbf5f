"""Train runs: from the configuration of a run to its `result.json`, with the facts of its manifest.

`train_run` trains a run of a suite, in a worker process. Keras and TensorFlow are imported when the
first run starts.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import platform
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from glue_submit import SubmissionError, score
from glue_submit.scoring import find_labels
from relation_tf import __version__
from relation_tf.bench.run_folder import (
    MODEL,
    STATE,
    VOCABULARY,
    digest_of,
    kind_of,
    prediction_file,
    write_result,
)
from relation_tf.bench.workers import EventCallback, RunGroup
from relation_tf.config.run import RunConfig
from relation_tf.errors import SuiteError, join_names
from relation_tf.files import write_bytes, write_json, write_table, write_text
from relation_tf.tasks.catalogue import find_task
from relation_tf.tasks.sources import TaskSource, is_labelled
from relation_tf.tasks.task import Task
from relation_tf.training.pretrained import encoder_digest
from relation_tf.training.session import LOG, forget_peaks, peaks, start_tensorflow

if TYPE_CHECKING:
    import numpy as np

    from relation_tf.bench.run_folder import AnyRun
    from relation_tf.tasks.encoding import EncodedTask
    from relation_tf.tasks.glove import Vectors
    from relation_tf.training.trainer import ProgressCallback, SuiteTrainer, Trainer, TrainingResult

Inputs: TypeAlias = "tuple[EncodedTask, Vectors | None]"


def compile_network(group: RunGroup, config: RunConfig) -> SuiteTrainer:
    """Read the task of a run and compile its trainer."""
    start_tensorflow(group.folder / LOG, config.threads, group.options.deterministic)
    import keras

    keras.backend.clear_session()  # frees the memory of the previous group
    return trainer_class(config)(config, *_read_inputs(group, config))


def trainer_class(config: RunConfig) -> Any:
    """Return the class of the trainer of a run."""
    from relation_tf.training.task_trainer import TaskTrainer, TransferTrainer
    from relation_tf.training.timing import LayerTimer, StepTimer

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
    expected = config.data_digests or {}  # test sets may be added later
    changed = [key for key, digest in expected.items() if task.digests.get(key, digest) != digest]
    if changed:
        raise _changed(f"{task.task.name} ({join_names(changed)})")
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

    def warn(line: str) -> None:
        notify({"event": "note", "run": config.key, "note": line})

    def on_epoch(epoch: int, row: Mapping[str, float]) -> None:
        notify({"event": "epoch", "run": config.key, "epoch": epoch, "row": row})

    def write(trained: TrainingResult) -> tuple[dict[str, Any], dict[str, Any]]:
        write_predictions(folder / "predictions", trainer, trained.predictions)
        if group.save_models:
            write_model(folder, trainer)
        return inputs_of(trainer, config), _result(trainer, config, trained, folder)

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
    train_and_write(trainer, config, folder, on_epoch, write, resumable)
    if config.shares_network:
        compiled.append(trainer)


def train_and_write(
    trainer: Trainer,
    run: AnyRun,
    folder: Path,
    on_progress: ProgressCallback,
    write: Callable[[TrainingResult], tuple[dict[str, Any], dict[str, Any]]],
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
        resumable: If True, write checkpoints, from which an interrupted run resumes.
        checkpoint_every: Seconds between two checkpoints.
    """
    from relation_tf.training.trainer import Checkpoint

    started = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    peak_of = forget_peaks()
    state = folder / STATE
    checkpoint = Checkpoint(state, conditions_of(run), checkpoint_every) if resumable else None
    wall, cpu = time.perf_counter(), time.process_time()
    trained = trainer.run(run.seed, on_progress, checkpoint)
    # CPU time below wall time shows that other programs had the processor.
    load = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
    memory = {**peaks(), "peak_memory_of": peak_of}  # without the memory for writing
    facts, result = write(trained)
    columns = {key: [row[key] for row in trained.history] for key in trained.history[0]}
    write_table(folder / "history.csv", columns, ",")
    write_json(folder / "manifest.json", manifest(started, trained.resumed) | facts)
    seconds = {**trained.seconds, "compilation": trainer.compile_seconds, **load}
    write_result(folder, {**result, "seconds": seconds, **memory})
    state.unlink(missing_ok=True)


def _result(
    trainer: SuiteTrainer, config: RunConfig, trained: TrainingResult, folder: Path
) -> dict[str, Any]:
    from relation_tf.networks import count_parameters

    assert trained.stop is not None  # of a suite's run
    for name, values in trained.metrics.items():
        for metric, value in values.items():
            if not math.isfinite(value):  # although the outputs are: means and tests need numbers
                raise SuiteError(
                    f"metric {metric} on {name} is {value}. It must be a finite number: change a "
                    "metric that is not defined for all predictions"
                )
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


def _changed(place: str) -> SuiteError:
    return SuiteError(f"{place}: its files changed after the command started. Run it again")


PACKAGES = ("tensorflow", "keras", "numpy", "scipy", "scikit-learn", "tokenizers", "pandas")
"""Other packages that results may depend on."""


def manifest(started: str, resumed: Sequence[int]) -> dict[str, Any]:
    """Return the entries that the manifests of all finished runs have."""
    return {
        "started": started,
        "finished": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "resumed_after": [*resumed],
        "command": command(),
        **software(),
        **machine(),
    }


def inputs_of(trainer: SuiteTrainer, config: RunConfig) -> dict[str, Any]:
    """Return the manifest entries of a suite's run: data and initial weights."""
    task, vectors = trainer.task, trainer.vectors
    glove = {"found": str(vectors), "digest": config.glove_digest}
    encoder = {"folder": config.pretrained, "digest": config.pretrained_digest}
    return {
        "xla": trainer.xla,
        "seed": config.seed,
        "data": {
            "source": task.source.kind,
            "layout": task.source.layout.name,
            "digest": task.digest,
            "digests": dict(task.digests),
            "rows": {name: len(split) for name, split in task.splits.items()},
            "vocabulary": task.vocabulary.size if task.vocabulary else None,
            "validation": task.validation,
            "notes": list(task.notes),
        },
        "glove": None if vectors is None else glove,
        "pretrained": None if config.encoder_weights == "random" else encoder,
    }


def software() -> dict[str, Any]:
    """Return versions and commit, for a manifest."""
    return {
        "python": platform.python_version(),
        "versions": {"relation_tf": __version__, **{name: version_of(name) for name in PACKAGES}},
        "commit": commit(),
    }


@functools.cache
def version_of(package: str) -> str:
    """Return the version of a package, or of the one that installs its module.

    The module `tensorflow` is also in tensorflow-cpu and tf-nightly.

    Example:
        >>> version_of("keras").split(".")[0]
        '3'
    """
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return metadata.version(metadata.packages_distributions()[package][0])


def machine() -> dict[str, Any]:
    """Return devices, threads and flags, for a manifest."""
    import tensorflow as tf

    from relation_tf.training.session import op_determinism

    return {
        "platform": platform.platform(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "devices": [device.device_type for device in tf.config.list_physical_devices()],
        "backend": "tensorflow",
        "threads": tf.config.threading.get_intra_op_parallelism_threads(),
        "onednn": os.environ.get("TF_ENABLE_ONEDNN_OPTS", "default"),
        "op_determinism": op_determinism(),
    }


def conditions_of(run: AnyRun) -> dict[str, Any]:
    """Return the facts that must be unchanged when an interrupted run resumes."""
    here = machine()
    del here["platform"], here["cores"]  # a newer kernel or more cores change no result
    here["libc"] = [*platform.libc_ver()]
    return {"config": run.model_dump(mode="json"), **here, **software()}


def command() -> str:
    """Return the command line; of full paths of this machine, only the last part."""
    program = Path(sys.argv[0])
    if program.name == "ipykernel_launcher.py":
        return "a notebook"  # its arguments are paths of this machine
    is_ours = program.parts[-3:] == ("relation_tf", "cli", "__main__.py")
    name = "relation-tf" if is_ours else program.name
    return shlex.join([name, *map(_without_folder, sys.argv[1:])])


def _without_folder(argument: str) -> str:
    """Return an argument, `--option=PATH` or `PATH`, with only the last part of a full path."""
    option, equals, value = argument.rpartition("=")
    path = Path(value)
    return f"{option}{equals}{path.name}" if path.is_absolute() else argument


@functools.cache
def commit(file: Path = Path(__file__)) -> str | None:
    """Return the commit of the checkout that tracks a file of this package, if there is one.

    An installed package inside another checkout is not tracked by it.
    """
    try:
        _git(file.parent, "ls-files", "--error-unmatch", file.name)
        return _git(file.parent, "describe", "--always", "--dirty", "--abbrev=12")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *arguments: str) -> str:
    answer = subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=10, check=True
    )
    return answer.stdout.strip()


@functools.cache
def processor() -> str:
    """Return the name of this machine's processor."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace")
        if name := re.search(r"^model name\s*:(.*)", lines, re.MULTILINE):
            return name[1].strip()
    return platform.processor()
