"""What a worker does: all runs of a task and a method, one after the other.

Keras and TensorFlow are loaded when the first cell is run, not with this module.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import gc
import os
import platform
import re
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from relation_tf import __version__
from relation_tf.bench.checkpoint import STATE, Checkpoint
from relation_tf.bench.distribution import Distribution
from relation_tf.bench.pretrained import pretrained_digest
from relation_tf.bench.run_folder import RunFolder, write_json, write_table
from relation_tf.config.run import RunConfig
from relation_tf.errors import DataError, SuiteError
from relation_tf.networks.mechanisms import find_mechanism
from relation_tf.tasks.catalogue import find_task
from relation_tf.tasks.encoding import EncodedSplit, EncodedTask, load_task
from relation_tf.tasks.glove import Vectors, read_glove
from relation_tf.tasks.task import Task

if TYPE_CHECKING:
    from relation_tf.bench.replicas import Replicas
    from relation_tf.bench.step_timing import Passes, StepTimer
    from relation_tf.bench.training import CompiledNetwork, Trained

PACKAGES = ("tensorflow", "keras", "numpy", "scipy", "scikit-learn", "tokenizers", "pandas")
"""What results may depend on beside this package."""

COMMIT = "RELATION_TF_COMMIT"
"""Environment variable: the commit of a package that was sent from another machine."""

LOG = "tensorflow.log"

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)

EventCallback = Callable[[dict[str, Any]], None]

Inputs = tuple[EncodedTask, Vectors | None]


@dataclass(frozen=True)
class RunGroup:
    """The runs that share a compiled network, and where their data is.

    Attributes:
        runs: Runs of one task and one method, a seed each.
        folder: The suite's folder.
        data: `--data`.
        tfds_folder: `--tfds`.
        glove: `--glove`.
        skip_bad_lines: `--skip-bad-lines`.
        distribution: `--strategy` and `--devices`.
        deterministic: `--deterministic`.
        inputs: The task and its word vectors where they have been read already, or what went wrong.
    """

    runs: Sequence[RunConfig]
    folder: Path
    data: Path | None = None
    glove: Path | None = None
    skip_bad_lines: bool = False
    tfds_folder: Path | None = None
    distribution: Distribution | None = None
    deterministic: bool = False
    inputs: Inputs | Exception | None = None

    @property
    def of_several_hosts(self) -> bool:
        """Whether other hosts train along."""
        return self.distribution is not None and self.distribution.of_several_hosts


def run_group(cell: RunGroup, notify: EventCallback) -> None:
    """Run a cell; a run that fails leaves `error.json`, and the others go on.

    Args:
        cell: The runs.
        notify: Told what happens: `{"event": "start" | "note" | "epoch" | "done" | "failed", "run":
            key, ...}`.

    Raises:
        SuiteError: Where no run can be written, and where one of several hosts is lost or cannot go
            on: the others wait for it.
    """
    network: CompiledNetwork | StepTimer | None = None
    for config in cell.runs:
        notify({"event": "start", "run": config.key})
        folder = RunFolder(cell.folder).run(config)
        try:
            RunFolder(cell.folder).start(config)
            if network is None:
                network = compile_network(cell, config)
                for note in _notes(network):
                    notify({"event": "note", "run": config.key, "note": note})
            _run(network, config, folder, cell, notify)
            if config.custom_layer is not None or network.task.task.timed:
                # A layer of one's own may hold what no variable holds: an array drawn when it was
                # built, a seed that was traced. Each seed has a network of its own.
                network = None
        except (DataError, SuiteError) as error:
            _fail(cell, config, str(error), notify)
        except OSError as error:
            if error.errno not in _NO_ROOM and (folder / "config.json").exists():
                _fail(cell, config, one_line(error), notify, traceback.format_exc())
                network = None
                continue
            # No other run could be written either.
            raise unwritable(folder, error) from error
        except Exception as error:
            if cell.of_several_hosts:
                raise_if_lost(error)
            _fail(cell, config, one_line(error), notify, traceback.format_exc())
            network = None  # what is left of it may be broken


def _fail(
    cell: RunGroup, config: RunConfig, reason: str, notify: EventCallback, detail: str = ""
) -> None:
    fail(RunFolder(cell.folder).run(config), config, reason, notify, detail)
    if cell.of_several_hosts:
        # The others may be in the middle of the run, and would wait for this one for ever.
        raise SuiteError(f"{config} failed, and with it what several hosts do together: {reason}")


def raise_if_lost(error: Exception) -> None:
    """Say in a line that another host has gone, where it is that.

    Raises:
        SuiteError: Where it is.
    """
    import tensorflow as tf

    if isinstance(error, tf.errors.UnavailableError):
        raise SuiteError(
            "another host has ended or cannot be reached; it says why. Finished runs are kept; the "
            "same command on every host goes on from there"
        ) from error


def check_methods(
    configs: Sequence[RunConfig], folder: Path, distribution: Distribution | None = None
) -> None:
    """Build what the registry knows, so that an option that cannot be is said before the first run.

    A layer of one's own is left to its runs: it may do anything, and others go on if it fails.

    Raises:
        SuiteError: For the first method that cannot be.
    """
    by_method = {config.method: config for config in configs}
    known = [config for config in by_method.values() if _is_ours(config.custom_layer)]
    if not known:
        return
    start_tensorflow(folder / LOG, known[0].threads, distribution)
    from relation_tf.bench.step_timing import check_step_timing
    from relation_tf.bench.training import check_network

    for config in known:
        check = check_step_timing if find_task(config.entry).timed else check_network
        check(config)


def _is_ours(custom_layer: str | None) -> bool:
    return custom_layer is None or find_mechanism(custom_layer).factory != custom_layer


def ignore_interrupts() -> None:
    """Leave Ctrl-C to the parent, which ends its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextlib.contextmanager
def ended_by_interrupts() -> Iterator[None]:
    """Let Ctrl-C end the process at once, where TensorFlow waits and Python cannot hear it."""
    before = signal.getsignal(signal.SIGINT)
    mine = threading.current_thread() is threading.main_thread()
    if not mine or before is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def compile_network(cell: RunGroup, config: RunConfig) -> CompiledNetwork | StepTimer:
    """The network of a run, with its task read and its steps compiled."""
    log = cell.folder / LOG
    replicas = start_tensorflow(log, config.threads, cell.distribution, cell.deterministic)
    import keras

    from relation_tf.bench.step_timing import StepTimer
    from relation_tf.bench.training import CompiledNetwork

    # Frees what Keras keeps of the cell before.
    keras.backend.clear_session()
    if find_task(config.entry).timed:
        task, _ = _inputs(cell, config)
        return StepTimer(config, task)
    quietly = functools.partial(stderr_to, log)
    inputs = _inputs(cell, config)
    # What a layer of one's own has to say is for its author.
    with quietly() if config.custom_layer is None else contextlib.nullcontext():
        return CompiledNetwork(config, *inputs, quietly, replicas)


def _inputs(cell: RunGroup, config: RunConfig) -> Inputs:
    """The task and its word vectors; the cell before was mostly of the same ones."""
    global _last_inputs
    if isinstance(cell.inputs, Exception):
        raise cell.inputs
    if cell.inputs is not None:
        return cell.inputs
    key = what_is_read(cell, config)
    if _last_inputs is None or _last_inputs[0] != key:
        _last_inputs = None  # what is not needed goes before the next is read
        _last_inputs = key, read_inputs(cell, config)
    return _last_inputs[1]


_last_inputs: tuple[Any, Inputs] | None = None


def what_is_read(cell: RunGroup, config: RunConfig) -> tuple[Any, ...]:
    """Equal for two runs that read the same."""
    return (
        *(config.entry, config.reading(), config.data_digest),
        *(config.embeddings, config.embedding_dim, config.glove_digest),
        config.pretrained and pretrained_digest(config.pretrained),
        *(cell.data, cell.tfds_folder, cell.glove, cell.skip_bad_lines),
    )


def read_inputs(cell: RunGroup, config: RunConfig) -> Inputs:
    """Read the task of a run and its word vectors.

    Raises:
        DataError, SuiteError: Where they cannot be read.
    """
    task = load_task(
        config.entry,
        data=cell.data,
        tfds_folder=cell.tfds_folder,
        skip_bad_lines=cell.skip_bad_lines,
        **config.reading(),
    )
    if config.embeddings == "random":
        return task, None
    if cell.glove is None:
        raise SuiteError("embeddings = 'glove' needs --glove FILE; none was given")
    assert task.vocabulary is not None  # a suite of text has no word vectors
    return task, read_glove(cell.glove, task.vocabulary.words, config.embedding_dim)


def _notes(network: CompiledNetwork | StepTimer) -> Iterator[str]:
    """What a user should hear of the data, once for each task."""
    name, skipped = network.task.task.name, network.task.skipped
    if skipped:
        yield f"{name}: {len(skipped)} malformed lines left out, the first: {skipped[0]}"
    yield from (f"{name}: {note}" for note in network.task.notes)
    if network.vectors is not None:
        yield f"{name}: GloVe: {network.vectors}"
    if network.match is not None:
        yield f"{name}: {network.config.method}: {network.match}"


def start_tensorflow(
    log: Path,
    threads: int,
    distribution: Distribution | None = None,
    deterministic: bool = False,
) -> Replicas:
    """Load TensorFlow with fixed threads: equal seeds give equal bits on any number of cores.

    Args:
        log: The file for what it prints.
        threads: Of one operation.
        distribution: The devices that share each run, parted or met before their first use.
        deterministic: Whether its operations are to be deterministic, for as long as the process
            lasts.

    Returns:
        What trains a network.

    Raises:
        SuiteError: Where there are no such devices.
    """
    first = "relation_tf.bench.training" not in sys.modules
    with stderr_to(log):
        replicas = _replicas(threads, distribution)
    if first:
        import relation_tf.bench.training  # noqa: F401

        # Half a million objects stay as long as the process does: to look through them whenever a
        # network is thrown away takes a third of a second.
        gc.collect()
        gc.freeze()
    if deterministic:
        import tensorflow as tf

        tf.config.experimental.enable_op_determinism()
    return replicas


def _replicas(threads: int, distribution: Distribution | None) -> Replicas:
    import tensorflow as tf

    from relation_tf.bench.replicas import local_count, make_replicas

    # In a notebook TensorFlow may have been started before, with other threads; the manifest says
    # with how many.
    with contextlib.suppress(RuntimeError):
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(local_count(distribution))
    replicas = make_replicas(distribution)
    tf.config.list_logical_devices()
    return replicas


@contextlib.contextmanager
def loading_quietly() -> Iterator[None]:
    """Keep back what TensorFlow prints while it is loaded, by a layer of one's own for one."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    with tempfile.TemporaryDirectory() as folder, stderr_to(Path(folder) / LOG):
        yield


@contextlib.contextmanager
def stderr_to(path: Path) -> Iterator[None]:
    """Keep in a file what TensorFlow prints while it starts or compiles; no setting silences it."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with path.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _run(
    network: CompiledNetwork | StepTimer,
    config: RunConfig,
    folder: Path,
    cell: RunGroup,
    notify: EventCallback,
) -> None:
    from relation_tf.bench.step_timing import StepTimer

    if isinstance(network, StepTimer):
        _time(network, config, folder, cell, notify)
    else:
        _train(network, config, folder, cell, notify)


def _train(
    network: CompiledNetwork, config: RunConfig, folder: Path, cell: RunGroup, notify: EventCallback
) -> None:
    from relation_tf.bench.training import train_run, words_of

    started = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    peak_of = forget_peaks()

    def on_epoch(epoch: int, row: Any) -> None:
        notify({"event": "epoch", "run": config.key, "epoch": epoch, "val_loss": row["val_loss"]})

    # A layer of one's own may hold what no variable holds; its runs begin anew. So do those of
    # several hosts, which would have to agree on a state that one of them has.
    kept = config.custom_layer is None and not cell.of_several_hosts
    checkpoint = Checkpoint(folder / STATE, _made_by(config, cell)) if kept else None
    trained = train_run(network, config, on_epoch, checkpoint)
    for (split, name), outputs in trained.predictions.items():
        path = folder / "predictions" / f"{name}.{_kind(split)}.tsv"
        task = network.task.task.of(name)
        words = words_of(task, outputs, network.task.targets)
        scored = name in task.scored
        _write_predictions(path, task, network.task.splits[split], words, outputs, scored)
    columns = {key: [row[key] for row in trained.history] for key in trained.history[0]}
    write_table(folder / "history.csv", columns, ",")
    write_json(folder / "manifest.json", _manifest(network, config, cell, started, trained.resumed))
    result = _result(network, config, trained) | peaks() | {"peak_memory_of": peak_of}
    write_json(folder / "result.json", result)
    (folder / STATE).unlink(missing_ok=True)
    notify({"event": "done", "run": config.key, "seconds": trained.seconds["total"],
          "metrics": trained.metrics})  # fmt: skip


def _result(network: CompiledNetwork, config: RunConfig, trained: Trained) -> dict[str, Any]:
    from relation_tf.networks import count_parameters

    epochs = [row["seconds"] for row in trained.history]
    epoch = sorted(epochs)[len(epochs) // 2]
    train = [part.train_rows for part in network.parts]
    steps = sum(-(-len(rows) // config.batch_size) for rows in train)
    return {
        "task": config.task,
        "method": config.method,
        "seed": config.seed,
        "metrics": trained.metrics,
        "epochs": len(trained.history),
        "kept_epoch": trained.stop.epoch,
        "stopped": trained.stop.reason,
        "reached": trained.stop.reached,
        "parameters": count_parameters(network.model),
        "size": asdict(network.match) if network.match else None,
        "padding": trained.padding,
        # Of an epoch, without padding; a network that reads text splits it by itself.
        "tokens": sum(int(rows.lengths.sum()) for rows in train)
        if network.task.vocabulary
        else None,
        "seconds": {
            **trained.seconds,
            "epoch": epoch,
            "batch": epoch / steps,
            "compilation": network.compile_seconds,
        },
    }


def _time(
    network: StepTimer, config: RunConfig, folder: Path, cell: RunGroup, notify: EventCallback
) -> None:
    started = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    peak_of = forget_peaks()
    passes = network.time()
    columns = {"pass": range(1, 1 + len(passes.seconds)), "seconds": passes.seconds}
    write_table(folder / "history.csv", columns, ",")
    write_json(folder / "manifest.json", _manifest(network, config, cell, started))
    result = _result_of_passes(network, config, passes) | peaks() | {"peak_memory_of": peak_of}
    write_json(folder / "result.json", result)
    notify({"event": "done", "run": config.key, "seconds": sum(passes.seconds),
          "metrics": result["metrics"]})  # fmt: skip


def _result_of_passes(network: StepTimer, config: RunConfig, passes: Passes) -> dict[str, Any]:
    from relation_tf.networks import count_parameters

    (lengths,) = network.task.splits["train"].lengths
    (metric,) = network.task.task.metrics
    tokens = int(lengths.sum())
    return {
        "task": config.task,
        "method": config.method,
        "seed": config.seed,
        "metrics": {name: {metric: tokens / passes.typical} for name in network.task.task.scored},
        "epochs": len(passes.seconds),
        "kept_epoch": len(passes.seconds),
        "stopped": "timed",
        "reached": None,
        "parameters": count_parameters(network.model),
        "size": None,
        "padding": 0.0,
        "tokens": tokens,
        "state_bytes": passes.state_bytes,
        "seconds": {
            "training": 0.0,
            "evaluation": sum(passes.seconds),
            "total": sum(passes.seconds),
            "epoch": passes.typical,
            "batch": passes.typical / int(lengths.max()),
            "compilation": network.compile_seconds,
        },
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


def _manifest(
    network: CompiledNetwork | StepTimer,
    config: RunConfig,
    cell: RunGroup,
    started: str,
    resumed: Sequence[int] = (),
) -> dict[str, Any]:
    vectors = network.vectors
    return {
        "started": started,
        "finished": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "resumed_after_epochs": list(resumed),
        "command": command(),
        **software(),
        **machine(cell),
        "xla": network.xla,
        "seed": config.seed,
        "data": {
            "source": network.task.source.kind,
            "layout": network.task.source.layout.name,
            "digest": network.task.digest,
            "rows": {name: len(split) for name, split in network.task.splits.items()},
            "vocabulary": network.task.vocabulary.size if network.task.vocabulary else None,
            "validation": network.task.validation,
            "skipped_lines": list(network.task.skipped),
            "notes": list(network.task.notes),
        },
        "glove": None
        if vectors is None
        else {"found": str(vectors), "digest": config.glove_digest},
        "pretrained": None
        if config.start == "random"
        else {"folder": config.pretrained, "digest": config.pretrained_digest},
    }


def software() -> dict[str, Any]:
    """Versions and commit, for a manifest."""
    return {
        "python": platform.python_version(),
        "versions": {
            "relation_tf": __version__,
            **{name: metadata.version(name) for name in PACKAGES},
        },
        "commit": commit(),
    }


def machine(cell: RunGroup) -> dict[str, Any]:
    """Devices, threads and flags, for a manifest."""
    import tensorflow as tf

    from relation_tf.bench.replicas import make_replicas
    from relation_tf.bench.training import op_determinism

    return {
        "platform": platform.platform(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "devices": [device.device_type for device in tf.config.list_physical_devices()],
        "backend": "tensorflow",
        "threads": tf.config.threading.get_intra_op_parallelism_threads(),
        "onednn": os.environ.get("TF_ENABLE_ONEDNN_OPTS", "default"),
        "op_determinism": op_determinism(),
        "strategy": cell.distribution.strategy if cell.distribution else None,
        "replicas": make_replicas(cell.distribution).count,
    }


def _made_by(config: RunConfig, cell: RunGroup) -> dict[str, Any]:
    """What a half-done run goes on with; with anything else it would not end as it began."""
    return {"config": config.model_dump(mode="json"), **machine(cell), **software()}


def forget_peaks() -> Literal["run", "process"]:
    """Begin the peaks of memory anew; `"process"` where the system keeps the process's own."""
    import tensorflow as tf

    if tf.config.list_logical_devices("GPU"):
        tf.config.experimental.reset_memory_stats("GPU:0")
    try:
        _CLEAR_REFS.write_text("5")
        _high_water_mark()
    except (OSError, ValueError):
        return "process"
    return "run"


def peaks() -> dict[str, int | None]:
    """The most memory since `_forget_peaks`, resident and of the first GPU, in MiB."""
    import tensorflow as tf

    try:
        resident = _high_water_mark()
    except (OSError, ValueError):
        unit = 1 if sys.platform == "darwin" else 1024
        resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    device = None
    if tf.config.list_logical_devices("GPU"):
        device = tf.config.experimental.get_memory_info("GPU:0")["peak"] // 2**20
    return {"peak_memory_mib": resident // 2**20, "peak_device_memory_mib": device}


def _high_water_mark() -> int:
    """The peak of this process's resident memory, in bytes.

    Raises:
        OSError, ValueError: Where the system does not say.
    """
    _, _, rest = _STATUS.read_text().partition("VmHWM:")
    return int(rest.partition("kB")[0]) * 1024


# Of Linux. What is written to the first begins the peak that the second names anew.
_CLEAR_REFS, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


def command() -> str:
    """The command line, without the places of this machine."""
    program = Path(sys.argv[0])
    if program.name == "ipykernel_launcher.py":
        return "a notebook"  # its arguments are places of this machine
    name = "relation-tf" if program.parts[-2:] == ("relation_tf", "cli.py") else program.name
    return shlex.join([name, *sys.argv[1:]])


def one_line(error: Exception) -> str:
    """What went wrong: TensorFlow puts the places before it, Keras the arguments behind it."""
    message = str(error).partition("Arguments received by")[0]
    lines = re.sub(r"\x1b\[[0-9;]*m", "", message).split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f"{type(error).__name__}: {last}"


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
        f"{folder}: cannot be written: {error.strerror or error}. Finished runs are kept; the same "
        "command goes on from there"
    )


def commit() -> str | None:
    """The commit of the checkout that this package runs from, or was sent from."""
    return os.environ[COMMIT] or None if COMMIT in os.environ else _commit()


@functools.cache
def _commit(file: Path = Path(__file__)) -> str | None:
    """The commit of the checkout that a file of this package belongs to, if there is one.

    An environment may lie within somebody else's checkout, which does not track what is installed.
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
    """What this machine's processor is called."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor()
