"""Run groups on a Ray cluster without a shared disk.

This package, custom layers, callbacks and plugins are sent as Ray's `py_modules`. A task is
encoded once on this machine; each node maps one copy from Ray's object store. Workers send the
files of their runs back. Ray is imported only if a cluster is used.
"""

from __future__ import annotations

import functools
import math
import os
import re
import site
import socket
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from relation_tf.bench.groups import (
    EventCallback,
    Inputs,
    LastInputs,
    RunGroup,
    read_inputs,
)
from relation_tf.bench.options import OF_CLUSTERS, RunOptions
from relation_tf.bench.processes import End, Event, Worker, run_in_workers
from relation_tf.bench.provenance import COMMIT, commit, software
from relation_tf.bench.ray_worker import RayWorker
from relation_tf.bench.run_folder import RunFolder, writing
from relation_tf.config import RunConfig
from relation_tf.errors import SuiteError, reason_of, require_package
from relation_tf.files import write_bytes
from relation_tf.networks.mechanisms import find_mechanism
from relation_tf.registry import register_executor
from relation_tf.training.checkpoint import STATE
from relation_tf.training.session import LOG

_CONNECT = 10.0  # seconds for a head to answer; Ray itself waits for minutes
_LOOK = 30.0  # seconds without an event after which the nodes are counted again
_STATE_EVERY = 300.0  # seconds between two checkpoints of a run that are sent
_STARTS = 3  # lost starts per worker that are allowed until one succeeds
_PIECES = 4  # groups per worker, so that all workers finish at about the same time
_GIB = 2**30

# Allowed names of a run's files; none is outside its folder.
_FILE = re.compile(r"(predictions/)?\w[\w.-]*")


@register_executor("ray", options=OF_CLUSTERS, needs=["address"])
def run_on_ray(groups: Sequence[RunGroup], notify: EventCallback, options: RunOptions) -> None:
    """Run groups on a Ray cluster; results are the same as on this machine.

    If a worker or node dies, its run is tried a second time from the last checkpoint that was sent
    and then counts as failed. An interruption ends all workers.

    Args:
        groups: The groups, in the order in which they start.
        notify: Called with each event, see `run_group`.
        options: Options of the run: address, reserved resources, jobs and timeout.

    Raises:
        SuiteError: If Ray is not installed, the cluster cannot be reached or has no node for a
            run, a node has other versions of relevant packages, a method cannot be built, or a
            folder cannot be written.
    """
    require_package("the Ray executor", "ray", "ray")
    import ray

    for group in groups:
        if find_mechanism(group.runs[0].mechanism).input_type == "text":
            raise SuiteError(
                f"method {group.runs[0].method}: saved models are not sent to a cluster; run this "
                "method on this machine (--executor local)"
            )
    address = str(options.address)
    needed = reserved(options, max(group.runs[0].threads for group in groups))
    _connect(address, _environment(groups, needed))
    try:
        cluster = _Cluster(address, needed, notify, groups)
        count = options.jobs or cluster.room()
        cluster.starts = cluster.starts_left = _STARTS * count
        make = functools.partial(_Actor, cluster)
        parts, timeout = pieces(groups, count), options.run_timeout
        run_in_workers(parts, count, make, cluster.wait_for, notify, timeout)
    except ray.exceptions.RayError as error:
        raise SuiteError(f"--address {address}: {_last_line(error)}") from error
    finally:
        ray.shutdown()


def reserved(options: RunOptions, threads: int) -> dict[str, float]:
    """Return the resources of a run by Ray's names, memory in bytes, without zeros.

    Example:
        >>> options = RunOptions(executor="ray", address="auto", run_gpus=1 / 3, run_memory=4)
        >>> reserved(options, threads=2)
        {'CPU': 2.0, 'GPU': 0.3333, 'memory': 4294967296}
    """
    cpus = threads if options.run_cpus is None else options.run_cpus
    # To the digits that Ray counts, rounded down: three thirds fit into one.
    needed = {
        name: math.floor(amount * 10_000 + 1e-6) / 10_000
        for name, amount in (("CPU", cpus), ("GPU", options.run_gpus or 0))
    }
    needed["memory"] = int((options.run_memory or 0) * _GIB)
    return {name: amount for name, amount in needed.items() if amount}


def pieces(groups: Sequence[RunGroup], workers: int) -> list[RunGroup]:
    """Split groups if there are too few of them to keep all workers busy to the end.

    Example:
        >>> from relation_tf.config import load_suite
        >>> groups = [RunGroup(load_suite("demo").runs()[:5], Path("runs/demo"))]
        >>> [len(group.runs) for group in pieces(groups, workers=1)]
        [1, 1, 1, 1, 1]
        >>> [len(group.runs) for group in pieces(groups * 8, workers=3)]
        [3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2]
    """
    size = max(1, sum(len(group.runs) for group in groups) // (_PIECES * workers))
    return [
        replace(group, runs=group.runs[first : first + size])
        for group in groups
        for first in range(0, len(group.runs), size)
    ]


def _connect(address: str, environment: Mapping[str, Any]) -> None:
    """Join a cluster.

    Raises:
        SuiteError: If that fails.
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
            f"--address {address}: cannot join the cluster: {_last_line(error)}. This machine must "
            "be a node of it (ray start --address ADDRESS --num-cpus 0), with the same versions, "
            "RAY_AUTH_MODE and token as the others"
        ) from error


def _knock(address: str) -> None:
    """Check that something listens at an address."""
    host, _, port = address.rpartition(":")
    if not re.fullmatch(r"[\w.-]+|\[[\da-fA-F:.]+\]", host) or not re.fullmatch(r"\d{1,5}", port):
        raise SuiteError(
            f"--address: must be HOST:PORT of a Ray cluster's head, or auto. Received: {address}"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT).close()
    except (OSError, OverflowError) as error:
        reason = reason_of(error)
        raise SuiteError(f"--address {address}: no Ray cluster answers there: {reason}") from error


def _environment(groups: Sequence[RunGroup], needed: Mapping[str, float]) -> dict[str, Any]:
    """Return Ray's runtime environment: code, and environment variables that affect results."""
    variables = {
        name: value
        for name, value in os.environ.items()
        if name == "KERAS_BACKEND" or name.startswith(("TF_", "XLA_"))
    }
    variables[COMMIT] = commit() or ""
    gpus = needed.get("GPU", 0)
    if not gpus:
        variables["CUDA_VISIBLE_DEVICES"] = ""  # hide GPUs that were not reserved
    elif gpus < 1:
        variables["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"  # leave memory for the other runs
    code = [str(path) for path in _code(groups)]
    return {"py_modules": code, "excludes": ["__pycache__"], "env_vars": variables}


def _code(groups: Sequence[RunGroup]) -> list[Path]:
    """Return this package, custom modules, and what these have imported from their folders."""
    custom = {place.parent for name in _custom_modules(groups) if (place := _place(name))}
    folders = custom - _site_packages()
    names = {name for name in list(sys.modules) if "." not in name} - {"__main__"}
    loaded = {name: place for name in names if (place := _place(name))}
    ours = ("relation_tf", "glue_submit")
    return sorted(loaded[name] for name in loaded if name in ours or loaded[name].parent in folders)


def _place(module: str) -> Path | None:
    """Return the file of a loaded module or the folder of a package; None for one in C."""
    loaded = sys.modules[module]
    places = [*getattr(loaded, "__path__", []), getattr(loaded, "__file__", None) or ""]
    return Path(places[0]) if len(places) > 1 or places[0].endswith(".py") else None


def _custom_modules(groups: Sequence[RunGroup]) -> set[str]:
    """Return the top-level modules of custom parts; all are imported already."""
    runs = [group.runs[0] for group in groups]
    names = {name for run in runs for name in (*run.custom_layers, *run.plugins)}
    names |= {each.callback for run in runs for each in run.callbacks}
    return {re.split(r"[:.]", name)[0] for name in names}


def _site_packages() -> set[Path]:
    """Return the folders of installed packages."""
    folders = [*site.getsitepackages(), site.getusersitepackages(), sysconfig.get_path("stdlib")]
    return set(map(Path, folders))


class _Cluster:
    """A Ray cluster.

    Args:
        address: Address of its head.
        needed: Resources of a run, by Ray's names.
        notify: Called with notes about the cluster.
        groups: The groups to run.

    Raises:
        SuiteError: If no node has the resources.
    """

    def __init__(
        self,
        address: str,
        needed: Mapping[str, float],
        notify: EventCallback,
        groups: Sequence[RunGroup],
    ) -> None:
        self.starts = self.starts_left = 0  # starts that may fail until one succeeds
        self._address, self._needed, self._notify = address, needed, notify
        self._some_run = groups[0].runs[0]
        self._installed = software()["versions"]
        self._processors: set[str] = set()
        self._inputs = LastInputs(self._put)
        self.room()

    def room(self) -> int:
        """Return the number of runs that fit on the idle nodes.

        Raises:
            SuiteError: If none fits.
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
                f"--address {self._address}: no node has the resources of a run, "
                f"{_shown(self._needed)}. The nodes have: {have}"
            )
        return room

    def actor(self) -> Any:
        """Start a worker on a node with room, now or later."""
        import ray

        options = {
            "num_cpus": self._needed["CPU"],
            "num_gpus": self._needed.get("GPU", 0),
            "memory": self._needed.get("memory"),
            "scheduling_strategy": "SPREAD",
        }
        return ray.remote(RayWorker).options(**options).remote(sys.argv, _STATE_EVERY)

    def admit(self, about: Mapping[str, Any]) -> None:
        """Check a node, and note other processors.

        Raises:
            SuiteError: If its packages have other versions than here.
        """
        differing = [
            f"{name} {there} ({self._installed[name]} here)"
            for name, there in about["installed"].items()
            if there != self._installed[name]
        ]
        if differing:
            raise SuiteError(
                f"node {about['node']}: package versions must be the same on all nodes, because "
                f"results depend on them. Received: {', '.join(differing)}"
            )
        self._processors.add(about["processor"])
        if len(self._processors) > 1:
            kinds = ", ".join(sorted(self._processors))
            note = (
                f"nodes have different processors, so results may differ in the last bits: {kinds}"
            )
            self._notify({"event": "note", "run": self._some_run.key, "note": note})

    def inputs(self, group: RunGroup) -> Any:
        """Return a reference to the inputs of a group."""
        return self._inputs.of(group, group.runs[0])

    @staticmethod
    def _put(group: RunGroup, config: RunConfig) -> Any:
        import ray

        inputs: Inputs | Exception
        try:
            inputs = read_inputs(group, config)
        except Exception as error:  # each run of the group fails with this error
            inputs = error
        return ray.put(inputs)

    def wait_for(self, workers: Sequence[_Actor], seconds: float) -> None:
        """Wait until a worker has started, reports an event or is lost."""
        import ray

        awaited = [worker.awaited for worker in workers]
        if not ray.wait(awaited, timeout=min(seconds, _LOOK))[0]:
            if not any(worker.group for worker in workers):
                self.room()  # fails if no node is left
            return
        for worker in workers:
            if not worker.ready and _has_arrived(worker.awaited):
                worker.arrive()


def _has_arrived(awaited: Any) -> bool:
    import ray

    return bool(ray.wait([awaited], timeout=0)[0])


def _shown(resources: Mapping[str, float]) -> str:
    """Return resources in words."""
    memory = resources.get("memory")
    amounts = [f"{resources.get('CPU', 0):g} CPUs", f"{resources.get('GPU', 0):g} GPUs"]
    return " ".join([*amounts, *([f"{memory / _GIB:.3g} GiB"] if memory else [])])


class _Actor(Worker):
    """A worker of the cluster, controlled by this process."""

    def __init__(self, cluster: _Cluster) -> None:
        super().__init__()
        self.ready = False
        self._cluster = cluster
        self._actor = cluster.actor()
        self.awaited = self._actor.about.remote()  # later the events of a group

    def arrive(self) -> None:
        """Record the start of the worker, or its failure, which does not count for a run.

        Raises:
            SuiteError: If no other worker would start either.
        """
        import ray

        try:
            self._cluster.admit(ray.get(self.awaited))
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

    def _send(self, group: RunGroup) -> None:
        folder = RunFolder(group.folder)
        paths = {run.key: folder.run(run) / STATE for run in group.runs}
        states = {key: path.read_bytes() for key, path in paths.items() if path.exists()}
        self.awaited = self._actor.run.remote(group, self._cluster.inputs(group), states)

    def _received(self) -> Iterator[Event | None]:
        import ray

        while _has_arrived(self.awaited):
            try:
                event = ray.get(next(self.awaited))
            except StopIteration:
                yield None
                return
            except ray.exceptions.RayError as error:
                self.ended = _end(error)
                return
            if self.left and "run" in event:
                assert self.group is not None
                keep(event, RunFolder(self.group.folder), self.left[0])
            yield event

    def kill(self) -> None:
        import ray

        if self.ready and self.group is None:
            with suppress(ray.exceptions.RayError):
                ray.get(self._actor.tidy.remote(), timeout=_CONNECT)
        ray.kill(self._actor)


def keep(event: Event, folder: RunFolder, config: RunConfig) -> None:
    """Write the files that a worker sent, the result last.

    Args:
        event: The event; its `files`, `state` and `log` are removed from it.
        folder: The suite's folder.
        config: The run.

    Raises:
        SuiteError: If a file is none of a run, or the folder cannot be written.
    """
    path = folder.run(config)
    files = event.pop("files", {})
    for name in files:
        if not _FILE.fullmatch(name):
            raise SuiteError(f"{path}: a worker sent an unknown file. Received: {name!r}")
    with writing(path):
        if event["event"] == "start":
            folder.start(config)
        if "state" in event:
            write_bytes(path / STATE, event.pop("state"))
        for name in sorted(files, key=lambda name: name == "result.json"):
            (path / name).parent.mkdir(exist_ok=True)
            write_bytes(path / name, files[name])
        if event["event"] == "done":
            (path / STATE).unlink(missing_ok=True)
        if "log" in event:
            with (folder.path / LOG).open("ab") as file:
                file.write(event.pop("log"))


def _end(error: Exception) -> End:
    reason = f"its worker on the cluster was lost ({type(error).__name__})"
    return End(reason, again=True, detail=str(error))


def _last_line(error: Exception) -> str:
    """Return the last line of Ray's message, which often starts with a traceback."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{lines[-1] if lines else type(error).__name__:.300}"
