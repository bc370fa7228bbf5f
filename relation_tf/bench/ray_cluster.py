"""Cells on a Ray cluster: a run goes out with its data, and its files come back.

No disk is shared. This package and layers of one's own are sent as Ray's `py_modules`; a task is
encoded here, once, and lies in Ray's object store, from which each node maps one copy. Ray itself
is imported only when a cluster is asked for.
"""

from __future__ import annotations

import functools
import math
import os
import re
import shutil
import site
import socket
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from relation_tf.bench.groups import (
    EventCallback,
    Inputs,
    RunGroup,
    read_inputs,
    run_group,
    unwritable,
    what_is_read,
)
from relation_tf.bench.processes import End, Event, Worker, checked, run_in_workers
from relation_tf.bench.provenance import COMMIT, PACKAGES, commit, processor
from relation_tf.bench.run_folder import RunFolder
from relation_tf.config.run import RunConfig
from relation_tf.errors import SuiteError
from relation_tf.files import write_bytes
from relation_tf.networks.mechanisms import find_mechanism
from relation_tf.training.checkpoint import STATE
from relation_tf.training.session import LOG

_CONNECT = 10.0  # seconds for a head to answer; Ray itself asks for minutes
_LOOK = 30.0  # seconds without a word after which the nodes are counted again
_TELL_EVERY = 0.5  # seconds between two epochs that are told of
_STATE_EVERY = 300.0  # seconds between two states of a run that are sent
_STARTS = 3  # of each worker that may be lost until one comes up
_PIECES = 4  # of the work for each worker, so that none waits long for the last
_FOLDER = "relation_tf-worker-"
_GIB = 2**30

# The files of a run; no name leads out of its folder.
_FILE = re.compile(r"(predictions/)?\w[\w.-]*")


@dataclass(frozen=True)
class RunResources:
    """What is set aside for a run.

    Attributes:
        cpus: CPUs, by default as many as a run has threads.
        gpus: GPUs, from 0 to 1; with a fraction several runs share one.
        memory_gib: GiB of memory, by default none is counted.

    Raises:
        SuiteError: For numbers that cannot be.

    Example:
        >>> RunResources(gpus=1 / 3, memory_gib=4).of_runs_with(threads=2)
        {'CPU': 2.0, 'GPU': 0.3333, 'memory': 4294967296}
    """

    cpus: float | None = None
    gpus: float = 0.0
    memory_gib: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("run_cpus", self.cpus), ("run_memory", self.memory_gib)):
            if value is not None and not 0.001 <= value < math.inf:
                raise SuiteError(f"{name}: expected a number of 0.001 or more. Received: {value:g}")
        if self.gpus and not 0.001 <= self.gpus <= 1:
            raise SuiteError(f"run_gpus: expected a number from 0 to 1. Received: {self.gpus:g}")

    def of_runs_with(self, threads: int) -> dict[str, float]:
        """The resources by Ray's names, memory in bytes; without those of which there are none."""
        cpus = threads if self.cpus is None else self.cpus
        needed = {"CPU": _exact(cpus), "GPU": _exact(self.gpus)}
        needed["memory"] = int((self.memory_gib or 0) * _GIB)
        return {name: amount for name, amount in needed.items() if amount}


def _exact(amount: float) -> float:
    """As far as Ray counts, and not above it: three thirds fit into one."""
    return math.floor(amount * 10_000 + 1e-6) / 10_000


def run_on_ray(
    cells: Sequence[RunGroup],
    notify: EventCallback,
    address: str,
    resources: RunResources | None = None,
    jobs: int | None = None,
    run_timeout: float | None = None,
) -> None:
    """Run cells on a Ray cluster; what they give is the same as on this machine.

    A run whose worker or node dies is tried once more, from the last state that was sent; then it
    has failed. Interrupted, nothing runs on.

    Args:
        cells: The cells, in the order in which they are given out.
        notify: Told what happens, as by `run_group`.
        address: Of the cluster's head, `HOST:PORT`, or `"auto"` for the one of this machine.
        resources: What is set aside for a run.
        jobs: Runs at once, by default as many as there is room for.
        run_timeout: Seconds after which a run is ended and has failed.

    Raises:
        SuiteError: Where Ray is not installed, the cluster cannot be reached or has no node for a
            run, a node has other versions of what results depend on, a method cannot be built, or
            a folder cannot be written.
    """
    try:
        import ray
    except ImportError:
        raise SuiteError(
            "the Ray executor needs the package ray, which is not installed: "
            "pip install 'relation_tf[ray]'"
        ) from None
    for cell in cells:
        if find_mechanism(cell.runs[0].mechanism).input_type == "text":
            raise SuiteError(
                f"method {cell.runs[0].method}: saved models are not sent to a cluster, run them "
                f"without. Received: --address {address}"
            )
    needed = (resources or RunResources()).of_runs_with(max(cell.runs[0].threads for cell in cells))
    _connect(address, _environment(cells, needed))
    try:
        cluster = _Cluster(address, needed, notify, cells)
        count = jobs or cluster.room()
        cluster.starts = cluster.starts_left = _STARTS * count
        make = functools.partial(_Actor, cluster)
        parts = pieces(cells, count)
        run_in_workers(parts, count, make, cluster.wait_for, notify, run_timeout)
    except ray.exceptions.RayError as error:
        raise SuiteError(f"--address {address}: {_last_line(error)}") from error
    finally:
        ray.shutdown()


def pieces(cells: Sequence[RunGroup], workers: int) -> list[RunGroup]:
    """Cells in parts, where there are too few of them to keep all workers busy to the end.

    Example:
        >>> from relation_tf.config import load_suite
        >>> cells = [RunGroup(load_suite("demo").runs()[:5], Path("runs/demo"))]
        >>> [len(cell.runs) for cell in pieces(cells, workers=1)]
        [1, 1, 1, 1, 1]
        >>> [len(cell.runs) for cell in pieces(cells * 8, workers=3)]
        [3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2]
    """
    size = max(1, sum(len(cell.runs) for cell in cells) // (_PIECES * workers))
    return [
        replace(cell, runs=cell.runs[first : first + size])
        for cell in cells
        for first in range(0, len(cell.runs), size)
    ]


def _connect(address: str, environment: Mapping[str, Any]) -> None:
    """Join a cluster.

    Raises:
        SuiteError: Where that cannot be.
    """
    import ray

    if ray.is_initialized():
        raise SuiteError(
            "this process is connected to a Ray cluster already: call ray.shutdown() first"
        )
    if address != "auto":
        _knock(address)
    try:
        ray.init(
            address=address,
            runtime_env=environment,
            log_to_driver=False,
            logging_level="ERROR",
        )
    except Exception as error:  # of many kinds: ConnectionError, RuntimeError, RayError ...
        raise SuiteError(
            f"--address {address}: cannot join the cluster: {_last_line(error)}. This machine has "
            "to be a node of it (ray start --address ADDRESS --num-cpus 0), with the versions, the "
            "RAY_AUTH_MODE and the token of the others"
        ) from error


def _knock(address: str) -> None:
    """Ask whether anybody is there."""
    host, _, port = address.rpartition(":")
    if not re.fullmatch(r"[\w.-]+|\[[\da-fA-F:.]+\]", host) or not re.fullmatch(r"\d{1,5}", port):
        raise SuiteError(
            f"--address: expected HOST:PORT of a Ray cluster's head, or auto. Received: {address}"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT).close()
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SuiteError(f"--address {address}: no Ray cluster answers there: {reason}") from error


def _environment(cells: Sequence[RunGroup], needed: Mapping[str, float]) -> dict[str, Any]:
    """What a worker has that the node has not: code, and the variables that results depend on."""
    variables = {
        name: value
        for name, value in os.environ.items()
        if name == "KERAS_BACKEND" or name.startswith(("TF_", "XLA_"))
    }
    variables[COMMIT] = commit() or ""
    gpus = needed.get("GPU", 0)
    if not gpus:
        variables["CUDA_VISIBLE_DEVICES"] = ""  # of a node that has some; they are not ours
    elif gpus < 1:
        variables["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"  # the others need memory too
    code = [str(path) for path in _code(cells)]
    return {"py_modules": code, "excludes": ["__pycache__"], "env_vars": variables}


def _code(cells: Sequence[RunGroup]) -> list[Path]:
    """This package, layers of one's own, and what they have imported that lies beside them."""
    layers = {place.parent for name in _modules_of_layers(cells) if (place := _place(name))}
    beside = layers - _site_packages()
    names = {name for name in list(sys.modules) if "." not in name} - {"__main__"}
    loaded = {name: place for name in names if (place := _place(name))}
    ours = ("relation_tf", "glue_submit")
    return sorted(loaded[name] for name in loaded if name in ours or loaded[name].parent in beside)


def _place(module: str) -> Path | None:
    """The file of a module that is loaded, or the folder of a package; one in C has none."""
    loaded = sys.modules[module]
    places = [*getattr(loaded, "__path__", []), getattr(loaded, "__file__", None) or ""]
    return Path(places[0]) if len(places) > 1 or places[0].endswith(".py") else None


def _modules_of_layers(cells: Sequence[RunGroup]) -> set[str]:
    """The top-level modules of layers of one's own; all have been imported to take a digest."""
    layers = {cell.runs[0].custom_layer for cell in cells} - {None}
    return {re.split(r"[:.]", str(layer))[0] for layer in layers}


def _site_packages() -> set[Path]:
    """Where what is installed lies."""
    folders = [*site.getsitepackages(), site.getusersitepackages(), sysconfig.get_path("stdlib")]
    return set(map(Path, folders))


def _packages(cells: Sequence[RunGroup]) -> list[str]:
    """What has to be of the same version everywhere: packages of layers too that are installed."""
    places = {name: _place(name) for name in _modules_of_layers(cells)}
    names = [name for name, place in places.items() if place and place.parent in _site_packages()]
    found = metadata.packages_distributions() if names else {}
    return [*PACKAGES, *(package for name in names for package in found.get(name, []))]


def _installed(packages: Sequence[str]) -> dict[str, str | None]:
    versions: dict[str, str | None] = dict.fromkeys(packages)
    for package in packages:
        with suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return versions


class _Cluster:
    """The cluster as a suite sees it.

    Args:
        address: Of its head.
        needed: What a run needs, by Ray's names.
        notify: Told what is odd about it.
        cells: What is to run.

    Raises:
        SuiteError: Where no node has what is needed.
    """

    def __init__(
        self,
        address: str,
        needed: Mapping[str, float],
        notify: EventCallback,
        cells: Sequence[RunGroup],
    ) -> None:
        self.starts = self.starts_left = 0  # that may be lost until one comes up
        self._address, self._needed, self._notify = address, needed, notify
        self._some_run = cells[0].runs[0]
        self._installed = _installed(_packages(cells))
        self._processors: set[str] = set()
        self._inputs: tuple[Any, Any] | None = None
        self.room()

    def room(self) -> int:
        """How many runs the nodes could hold if nobody else used them.

        Raises:
            SuiteError: Where it is none.
        """
        import ray

        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        room = sum(
            min(int(node.get(name, 0) / amount) for name, amount in self._needed.items())
            for node in nodes
        )
        if not room:
            have = "; ".join(map(_shown, nodes))
            raise SuiteError(
                f"--address {self._address}: no node has what a run asks for, "
                f"{_shown(self._needed)}. The nodes have: {have}"
            )
        return room

    def actor(self) -> Any:
        """Have a worker started where there is room, now or later."""
        import ray

        options = {
            "num_cpus": self._needed["CPU"],
            "num_gpus": self._needed.get("GPU", 0),
            "memory": self._needed.get("memory"),
            "scheduling_strategy": "SPREAD",
        }
        return ray.remote(_Runner).options(**options).remote(sys.argv, _STATE_EVERY)

    def about(self, actor: Any) -> Any:
        """Ask a worker about its node."""
        return actor.about.remote(list(self._installed))

    def meet(self, about: Mapping[str, Any]) -> None:
        """Take note of a node.

        Raises:
            SuiteError: Where its packages are not of our versions.
        """
        differing = [
            f"{name} {there or 'missing'} ({self._installed[name]} here)"
            for name, there in about["installed"].items()
            if there != self._installed[name]
        ]
        if differing:
            raise SuiteError(
                f"node {about['node']}: results depend on the versions of packages, which have to "
                f"be the same everywhere. Received: {', '.join(differing)}"
            )
        self._processors.add(about["processor"])
        if len(self._processors) > 1:
            kinds = ", ".join(sorted(self._processors))
            note = f"nodes differ in their processors, on which last bits may depend: {kinds}"
            self._notify({"event": "note", "run": self._some_run.key, "note": note})

    def inputs(self, cell: RunGroup) -> Any:
        """A reference to what a cell reads; the cell before mostly read the same."""
        import ray

        key = what_is_read(cell, cell.runs[0])
        if self._inputs is None or self._inputs[0] != key:
            self._inputs = None  # the store is free of what is not needed
            inputs: Inputs | Exception
            try:
                inputs = read_inputs(cell, cell.runs[0])
            except Exception as error:  # the failure of each run of the cell, as anywhere
                inputs = error
            self._inputs = key, ray.put(inputs)
        return self._inputs[1]

    def wait_for(self, workers: Sequence[_Actor], seconds: float) -> None:
        """Until a worker has come up, tells something or is lost."""
        import ray

        awaited = [worker.awaited for worker in workers]
        if not ray.wait(awaited, timeout=min(seconds, _LOOK))[0]:
            if not any(worker.cell for worker in workers):
                self.room()  # the last node for them may have gone
            return
        for worker in workers:
            if not worker.ready and _has_come(worker.awaited):
                worker.arrive()


def _has_come(awaited: Any) -> bool:
    import ray

    return bool(ray.wait([awaited], timeout=0)[0])


def _shown(resources: Mapping[str, float]) -> str:
    """Resources in words."""
    memory = resources.get("memory")
    amounts = [f"{resources.get('CPU', 0):g} CPUs", f"{resources.get('GPU', 0):g} GPUs"]
    return " ".join([*amounts, *([f"{memory / _GIB:.3g} GiB"] if memory else [])])


class _Actor(Worker):
    """A worker of the cluster, as seen from here."""

    def __init__(self, cluster: _Cluster) -> None:
        super().__init__()
        self.ready = False
        self._cluster = cluster
        self._actor = cluster.actor()
        self.awaited = cluster.about(self._actor)  # and later what a cell tells

    def arrive(self) -> None:
        """Take note that it has come up, or never will: no run is to blame for that.

        Raises:
            SuiteError: Where no other would.
        """
        import ray

        try:
            self._cluster.meet(ray.get(self.awaited))
            self._cluster.starts_left = self._cluster.starts
            self.ready = True
        except ray.exceptions.RayError as error:
            self._cluster.starts_left -= 1
            lost = isinstance(error, ray.exceptions.RayActorError) and not error.actor_init_failed
            if not lost or self._cluster.starts_left < 0:
                raise SuiteError(f"a worker cannot be started: {_last_line(error)}") from error
            self.ended = _end(error)

    def check(self, configs: Sequence[RunConfig], folder: Path) -> str | None:
        import ray

        self.arrive()
        try:
            return ray.get(self._actor.check.remote(configs))
        except ray.exceptions.RayError as error:
            raise SuiteError(
                f"a worker was lost before it could build the networks: {_last_line(error)}"
            ) from error

    def _send(self, cell: RunGroup) -> None:
        folder = RunFolder(cell.folder)
        paths = {run.key: folder.run(run) / STATE for run in cell.runs}
        states = {key: path.read_bytes() for key, path in paths.items() if path.exists()}
        self.awaited = self._actor.run.remote(cell, self._cluster.inputs(cell), states)

    def _received(self) -> Iterator[Event | None]:
        import ray

        while _has_come(self.awaited):
            try:
                event = ray.get(next(self.awaited))
            except StopIteration:
                yield None
                return
            except ray.exceptions.RayError as error:
                self.ended = _end(error)
                return
            if self.left and "run" in event:
                assert self.cell is not None
                keep(event, RunFolder(self.cell.folder), self.left[0])
            yield event

    def kill(self) -> None:
        import ray

        if self.ready and self.cell is None:
            with suppress(ray.exceptions.RayError):
                ray.get(self._actor.tidy.remote(), timeout=_CONNECT)
        ray.kill(self._actor)


def keep(event: Event, folder: RunFolder, config: RunConfig) -> None:
    """Write what a worker sent of a run, its result last.

    Args:
        event: What it told; its `files`, `state` and `log` are taken out.
        folder: The suite's folder.
        config: The run.

    Raises:
        SuiteError: For a file that no run has, or where the folder cannot be written.
    """
    path = folder.run(config)
    files = event.pop("files", {})
    for name in files:
        if not _FILE.fullmatch(name):
            raise SuiteError(f"{path}: a worker sent a file that no run has. Received: {name!r}")
    try:
        if event["event"] == "start":
            folder.start(config)
        if "state" in event:
            write_bytes(path / STATE, event.pop("state"))
        for name in sorted(files, key=lambda name: name == "result.json"):
            write_bytes(path / name, files[name])
        if event["event"] == "done":
            (path / STATE).unlink(missing_ok=True)
        if "log" in event:
            with (folder.path / LOG).open("ab") as file:
                file.write(event.pop("log"))
    except OSError as error:
        raise unwritable(path, error) from error


def _end(error: Exception) -> End:
    reason = f"its worker on the cluster was lost ({type(error).__name__})"
    return End(reason, again=True, detail=str(error))


def _last_line(error: Exception) -> str:
    """What Ray says, which mostly comes with a traceback."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{lines[-1] if lines else type(error).__name__:.300}"


class _Runner:
    """What a worker does, in a process of a node's: Ray makes an actor of it.

    Args:
        command: The command line that made the suite, for manifests.
        state_every: Seconds between two states of a run that are sent.
    """

    def __init__(self, command: Sequence[str], state_every: float) -> None:
        sys.argv = list(command)
        self._state_every = state_every
        self._lock = ExitStack()
        self._folder = _own_folder(self._lock)
        tempfile.tempdir = str(self._folder.path)  # for what TensorFlow leaves when it is killed
        # Keras keeps names and seeds for each thread: all runs have the same one.
        self._thread = ThreadPoolExecutor(1)

    def about(self, packages: Sequence[str]) -> dict[str, Any]:
        """What is to be known of the node."""
        import ray

        node = ray.util.get_node_ip_address()
        return {"node": node, "processor": processor(), "installed": _installed(packages)}

    def tidy(self) -> None:
        """Leave nothing on the node."""
        shutil.rmtree(self._folder.path)

    def check(self, configs: Sequence[RunConfig]) -> str | None:
        """What is wrong with a method, or None."""
        return self._thread.submit(checked, configs, self._folder.path).result()

    def run(
        self, cell: RunGroup, inputs: Inputs | Exception, states: Mapping[Any, bytes]
    ) -> Iterator[Event]:
        """Run a group and report it, with the files of each run that ends."""
        here = replace(cell, folder=self._folder.path, inputs=inputs)
        folders = {run.key: self._folder.run(run) for run in cell.runs}
        for key, state in states.items():
            folders[key].mkdir(parents=True, exist_ok=True)
            (folders[key] / STATE).write_bytes(state)
        events: SimpleQueue[Event | None] = SimpleQueue()
        told = sent = time.monotonic()

        def notify(event: Event) -> None:
            nonlocal told, sent
            now, folder = time.monotonic(), folders[event["run"]]
            if event["event"] == "start":
                sent = now
            elif event["event"] == "epoch":
                if now - sent >= self._state_every and (folder / STATE).exists():
                    event["state"] = (folder / STATE).read_bytes()
                    sent = now
                elif now - told < _TELL_EVERY:
                    return
                told = now
            elif event["event"] in ("done", "failed"):
                event |= {"files": _files(folder), "log": _taken(self._folder.path / LOG)}
                shutil.rmtree(folder)
            events.put(event)

        def work() -> None:
            try:
                run_group(here, notify)
            except SuiteError as error:
                events.put({"event": "error", "error": str(error)})
            finally:
                events.put(None)

        done = self._thread.submit(work)
        while (event := events.get()) is not None:
            yield event
        done.result()


def _own_folder(lock: ExitStack) -> RunFolder:
    """A folder on the node, locked while its process lives; what killed ones left is removed."""
    for left in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*"):
        with suppress(OSError, SuiteError):
            is_new = time.time() - left.stat().st_mtime < 60  # and perhaps not locked yet
            if not is_new:
                with RunFolder(left).locked():
                    shutil.rmtree(left)
    folder = RunFolder(Path(tempfile.mkdtemp(prefix=_FOLDER)))
    lock.enter_context(folder.locked())
    return folder


def _files(folder: Path) -> dict[str, bytes]:
    """All that a run leaves but its state."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != STATE
    }


def _taken(log: Path) -> bytes:
    """What has been printed since the last time."""
    content = log.read_bytes() if log.exists() else b""
    log.unlink(missing_ok=True)
    return content
