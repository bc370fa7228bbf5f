"""All runs of one task and one method, one after the other.

Keras and TensorFlow are loaded when the first group is run, not with this module.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relation_tf.bench.options import RunOptions
from relation_tf.bench.provenance import made_by, manifest, one_line
from relation_tf.bench.run_folder import RunFolder
from relation_tf.config.plugins import load_plugins
from relation_tf.config.run import RunConfig
from relation_tf.errors import RelationError, SuiteError
from relation_tf.files import write_json, write_table
from relation_tf.networks.mechanisms import find_mechanism
from relation_tf.quiet import stderr_to
from relation_tf.tasks.catalogue import find_task
from relation_tf.tasks.encoding import EncodedSplit, EncodedTask, load_task
from relation_tf.tasks.glove import Vectors, read_glove
from relation_tf.tasks.task import Task
from relation_tf.training.checkpoint import STATE, Checkpoint
from relation_tf.training.pretrained import pretrained_digest
from relation_tf.training.session import (
    LOG,
    forget_peaks,
    peaks,
    raise_if_lost,
    start_tensorflow,
)

if TYPE_CHECKING:
    from relation_tf.training.trainer import SuiteTrainer, TrainingResult

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)

EventCallback = Callable[[dict[str, Any]], None]

Inputs = tuple[EncodedTask, Vectors | None]


@dataclass(frozen=True)
class RunGroup:
    """Runs that share a compiled network, and how they are run.

    Attributes:
        runs: Runs of one task and one method, with different seeds.
        folder: The suite's folder.
        options: Options of the run.
        inputs: The task and its word vectors if they have been read already, or the error.
    """

    runs: Sequence[RunConfig]
    folder: Path
    options: RunOptions = field(default_factory=RunOptions)
    inputs: Inputs | Exception | None = None

    @property
    def of_several_hosts(self) -> bool:
        """If True, other hosts take part in the training."""
        distribution = self.options.distribution
        return distribution is not None and distribution.of_several_hosts


def run_group(group: RunGroup, notify: EventCallback) -> None:
    """Run a group; a run that fails leaves `error.json`, and the others go on.

    Args:
        group: The runs.
        notify: Told what happens: `{"event": "start" | "note" | "epoch" | "done" | "failed", "run":
            key, ...}`.

    Raises:
        SuiteError: Where no run can be written, and where one of several hosts is lost or cannot go
            on: the others wait for it.
    """
    trainer: SuiteTrainer | None = None
    load_plugins(group.runs[0].plugins)
    for config in group.runs:
        notify({"event": "start", "run": config.key})
        folder = RunFolder(group.folder).run(config)
        try:
            RunFolder(group.folder).start(config)
            if trainer is None:
                trainer = compile_network(group, config)
                for note in _notes(trainer):
                    notify({"event": "note", "run": config.key, "note": note})
            _run(trainer, config, folder, group, notify)
            if not trainer.reusable:
                trainer = None
        except RelationError as error:
            _fail(group, config, str(error), notify)
        except OSError as error:
            if error.errno not in _NO_ROOM and (folder / "config.json").exists():
                _fail(group, config, one_line(error), notify, traceback.format_exc())
                trainer = None
                continue
            # No other run could be written either.
            raise unwritable(folder, error) from error
        except Exception as error:
            if group.of_several_hosts:
                raise_if_lost(error)
            _fail(group, config, one_line(error), notify, traceback.format_exc())
            trainer = None  # what is left of it may be broken


def _fail(
    group: RunGroup, config: RunConfig, reason: str, notify: EventCallback, detail: str = ""
) -> None:
    fail(RunFolder(group.folder).run(config), config, reason, notify, detail)
    if group.of_several_hosts:
        # The others may be in the middle of the run, and would wait for this one for ever.
        raise SuiteError(f"{config} failed, and with it what several hosts do together: {reason}")


def check_methods(
    configs: Sequence[RunConfig], folder: Path, options: RunOptions | None = None
) -> None:
    """Build what the registry knows, so that an option that cannot be is said before the first run.

    Custom layers are not checked: they may do anything, and other runs continue if one fails.

    Raises:
        SuiteError: For the first method that cannot be.
    """
    load_plugins(configs[0].plugins)
    by_method = {config.method: config for config in configs}
    known = [config for config in by_method.values() if _is_ours(config.custom_layer)]
    if not known:
        return
    options = options or RunOptions()
    start_tensorflow(folder / LOG, known[0].threads, options.distribution)
    for config in known:
        _trainer_class(config).check(config)


def _is_ours(custom_layer: str | None) -> bool:
    return custom_layer is None or find_mechanism(custom_layer).factory != custom_layer


def compile_network(group: RunGroup, config: RunConfig) -> SuiteTrainer:
    """Read the task of a run and compile its trainer."""
    log = group.folder / LOG
    options = group.options
    replicas = start_tensorflow(log, config.threads, options.distribution, options.deterministic)
    import keras

    keras.backend.clear_session()  # frees what Keras keeps of the group before
    quietly = functools.partial(stderr_to, log)
    inputs = _inputs(group, config)
    # What a layer from outside the package prints is for its author.
    with quietly() if config.has_built_in_layer else contextlib.nullcontext():
        return _trainer_class(config)(config, *inputs, quietly, replicas)


def _trainer_class(config: RunConfig) -> Any:
    from relation_tf.training.step_timing import StepTimer
    from relation_tf.training.task_trainer import TaskTrainer

    return StepTimer if find_task(config.entry).timed else TaskTrainer


def _inputs(group: RunGroup, config: RunConfig) -> Inputs:
    """The task and its word vectors; the group before was mostly of the same ones."""
    global _last_inputs
    if isinstance(group.inputs, Exception):
        raise group.inputs
    if group.inputs is not None:
        return group.inputs
    key = what_is_read(group, config)
    if _last_inputs is None or _last_inputs[0] != key:
        _last_inputs = None  # what is not needed goes before the next is read
        _last_inputs = key, read_inputs(group, config)
    return _last_inputs[1]


_last_inputs: tuple[Any, Inputs] | None = None


def what_is_read(group: RunGroup, config: RunConfig) -> tuple[Any, ...]:
    """Return a key that is equal for two runs that read the same."""
    options = group.options
    return (
        *(config.entry, config.reading(), config.data_digest),
        *(config.embeddings, config.embedding_dim, config.glove_digest),
        config.pretrained and pretrained_digest(config.pretrained),
        *(options.data, options.tfds_folder, options.glove, options.skip_bad_lines),
    )


def read_inputs(group: RunGroup, config: RunConfig) -> Inputs:
    """Read the task of a run and its word vectors.

    Raises:
        DataError, SuiteError: Where they cannot be read.
    """
    task = load_task(
        config.entry,
        data=group.options.data,
        tfds_folder=group.options.tfds_folder,
        skip_bad_lines=group.options.skip_bad_lines,
        **config.reading(),
    )
    if config.embeddings == "random":
        return task, None
    if group.options.glove is None:
        raise SuiteError("embeddings = 'glove' needs --glove FILE")
    assert task.vocabulary is not None  # a suite of text has no word vectors
    return task, read_glove(group.options.glove, task.vocabulary.words, config.embedding_dim)


def _notes(trainer: SuiteTrainer) -> Iterator[str]:
    """What a user should hear of the data, once for each task."""
    name, skipped = trainer.task.task.name, trainer.task.skipped
    if skipped:
        yield f"{name}: {len(skipped)} malformed lines left out, the first: {skipped[0]}"
    yield from (f"{name}: {note}" for note in trainer.task.notes)
    if trainer.vectors is not None:
        yield f"{name}: GloVe: {trainer.vectors}"
    if trainer.match is not None:
        yield f"{name}: {trainer.config.method}: {trainer.match}"


def _run(
    trainer: SuiteTrainer, config: RunConfig, folder: Path, group: RunGroup, notify: EventCallback
) -> None:
    from relation_tf.training.classification import words_of

    started = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    peak_of = forget_peaks()

    def on_epoch(epoch: int, row: Mapping[str, float]) -> None:
        notify({"event": "epoch", "run": config.key, "epoch": epoch, "row": row})

    # A layer from outside the package may hold what no variable holds; its runs start again. So do
    # those of several hosts, which would have to agree on a state that one of them has.
    kept = config.has_built_in_layer and not group.of_several_hosts
    distribution = group.options.distribution
    checkpoint = Checkpoint(folder / STATE, made_by(config, distribution)) if kept else None
    trained = trainer.run(config.seed, on_epoch, checkpoint)
    for (split, name), outputs in trained.predictions.items():
        path = folder / "predictions" / f"{name}.{_kind(split)}.tsv"
        task = trainer.task.task.of(name)
        words = words_of(task, outputs, trainer.task.targets)
        scored = name in task.scored
        _write_predictions(path, task, trainer.task.splits[split], words, outputs, scored)
    columns = {key: [row[key] for row in trained.history] for key in trained.history[0]}
    write_table(folder / "history.csv", columns, ",")
    facts = manifest(trainer, config, distribution, started, trained.resumed)
    write_json(folder / "manifest.json", facts)
    result = _result(trainer, config, trained) | peaks() | {"peak_memory_of": peak_of}
    write_json(folder / "result.json", result)
    (folder / STATE).unlink(missing_ok=True)
    notify({"event": "done", "run": config.key, "seconds": trained.seconds["total"],
          "metrics": trained.metrics})  # fmt: skip


def _result(trainer: SuiteTrainer, config: RunConfig, trained: TrainingResult) -> dict[str, Any]:
    from relation_tf.networks import count_parameters

    assert trained.stop is not None  # of a suite's run
    return {
        "task": config.task,
        "method": config.method,
        "seed": config.seed,
        "metrics": trained.metrics,
        "epochs": len(trained.history),
        "kept_epoch": trained.stop.epoch,
        "stopped": trained.stop.reason,
        "reached": trained.stop.reached,
        "parameters": count_parameters(trainer.model),
        "size": asdict(trainer.match) if trainer.match else None,
        "padding": trained.padding,
        "tokens": trainer.tokens,
        **trained.facts,
        "seconds": {**trained.seconds, "compilation": trainer.compile_seconds},
    }


def _kind(split: str) -> str:
    """What a file of predictions is called: MNLI's "dev_matched" is its dev set, AX a test set."""
    split = split.rpartition(":")[2]  # of a group's task
    return "test" if split == "diagnostic" else split.partition("_")[0]


def _write_predictions(
    path: Path, task: Task, split: EncodedSplit, words: Any, outputs: Any, scored: bool
) -> None:
    columns: dict[str, Any] = {"index": split.index.tolist(), "prediction": words.tolist()}
    if task.labels is not None and split.labels is not None and scored:
        columns["label"] = [task.labels[i] for i in split.labels.tolist()]
        for i, label in enumerate(task.labels):
            columns[f"probability_{label}"] = outputs[:, i].tolist()
    write_table(path, columns, "\t")


def fail(
    folder: Path, config: RunConfig, reason: str, notify: EventCallback, detail: str = ""
) -> None:
    """Write down why a run failed, and tell.

    Raises:
        SuiteError: Where it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "error.json", {"error": reason, "traceback": detail})
    except OSError as error:
        raise unwritable(folder, error) from error
    notify({"event": "failed", "run": config.key, "error": reason, "detail": bool(detail)})


def unwritable(folder: Path, error: OSError) -> SuiteError:
    """What to say where a folder cannot be written."""
    return SuiteError(
        f"{folder}: cannot be written: {error.strerror or error}. Finished runs are kept; run "
        "the same command again to resume"
    )
