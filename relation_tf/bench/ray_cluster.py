"""Train groups on a Ray cluster whose nodes share a disk with the folder of the runs.

Ray is imported only if a cluster is used. Nodes import this package and custom modules from the
same paths as the command, and read the data there.
"""

from __future__ import annotations

import math
import os
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from relation_tf.bench.options import RunOptions
from relation_tf.bench.train import software
from relation_tf.bench.workers import (
    Call,
    End,
    EventCallback,
    Returned,
    RunGroup,
    Worker,
    answer,
    run_in_workers,
)
from relation_tf.errors import SuiteError, reason_of, require_package

_CONNECT = 10.0  # seconds for a head to answer; Ray itself waits for minutes
_LOOK = 30.0  # seconds without an event after which the nodes are counted again
_PIECES = 4  # groups per worker, so that all workers finish at about the same time
_GIB = 2**30


def run_on_ray(groups: Sequence[RunGroup], notify: EventCallback, options: RunOptions) -> None:
    """Train groups on a Ray cluster; results are the same as on this machine.

    If a worker or node dies, its run is tried a second time, from its last checkpoint, and then
    counts as failed. An interruption ends all workers.

    Args:
        groups: The groups, in the order in which they start.
        notify: Called with each event, see `Group.train`.
        options: Options of the run: address, reserved resources, jobs and timeout.

    Raises:
        SuiteError: If Ray is not installed, the cluster cannot be reached or has no node for a
            run, or a node has no access to the folder or other versions of relevant packages.
    """
    require_package("the Ray executor", "ray", "ray")
    import ray

    address = str(options.address)
    needed = reserved(options, max(group.runs[0].threads for group in groups))
    _connect(address, needed)

    last_event = time.monotonic()

    def wait_for(workers: Sequence[_Actor], seconds: float) -> None:
        nonlocal last_event
        awaited = [worker.awaited for worker in workers if worker.group is not None]
        if ray.wait(awaited, timeout=min(seconds, _LOOK))[0]:
            last_event = time.monotonic()
        elif time.monotonic() - last_event >= _LOOK:
            _room(address, needed)  # fails if no node is left
            last_event = time.monotonic()

    try:
        count = options.jobs or _room(address, needed)
        parts = pieces(groups, count)
        timeout = options.run_timeout
        run_in_workers(parts, count, lambda: _Actor(needed), wait_for, notify, timeout)
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


def _connect(address: str, needed: Mapping[str, float]) -> None:
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
    variables = {
        name: value
        for name, value in os.environ.items()
        if name == "KERAS_BACKEND" or name.startswith(("TF_", "XLA_", "RELATION_TF_"))
    }
    variables["PYTHONPATH"] = os.pathsep.join(str(Path(place).resolve()) for place in sys.path)
    gpus = needed.get("GPU", 0)
    if not gpus:
        variables["CUDA_VISIBLE_DEVICES"] = ""  # hide GPUs that were not reserved
    elif gpus < 1:
        variables["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"  # leave memory for the other runs
    environment = {"env_vars": variables}
    try:
        ray.init(address, runtime_env=environment, log_to_driver=False, logging_level="ERROR")
    except Exception as error:  # of many kinds: ConnectionError, RuntimeError, RayError ...
        raise SuiteError(
            f"--address {address}: cannot join the cluster: {_last_line(error)}. This machine must "
            "be a node of it (ray start --address ADDRESS --num-cpus 0), with the same versions, "
            "RAY_AUTH_MODE and token as the others"
        ) from error


def _knock(address: str) -> None:
    """Check that something listens at an address."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT).close()
    except (OSError, OverflowError, ValueError) as error:
        raise SuiteError(
            f"--address {address}: no Ray cluster answers there: {reason_of(error)}. It must be "
            "HOST:PORT of a Ray cluster's head, or auto"
        ) from error


def _room(address: str, needed: Mapping[str, float]) -> int:
    """Return the number of runs that fit on the idle nodes.

    Raises:
        SuiteError: If none fits.
    """
    import ray

    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    room = sum(
        min(int(node.get(name, 0) / amount) for name, amount in needed.items()) for node in nodes
    )
    if not room:
        has = [{name: node.get(name, 0) for name in needed} for node in nodes]
        raise SuiteError(
            f"--address {address}: no node has the resources of a run, {dict(needed)}. The nodes "
            f"have: {has}"
        )
    return room


class _Actor(Worker):
    """A worker of the cluster, controlled by this process.

    Args:
        needed: Resources of a run, by Ray's names.
    """

    def __init__(self, needed: Mapping[str, float]) -> None:
        import ray

        super().__init__()
        options = {
            "num_cpus": needed["CPU"],
            "num_gpus": needed.get("GPU", 0),
            "memory": needed.get("memory"),
            "scheduling_strategy": "SPREAD",
        }
        self._actor = ray.remote(RayWorker).options(**options).remote(sys.argv, Path.cwd())
        self.awaited: Any = None  # the events of the group

    def send(self, call: Call) -> None:
        (group,) = call.arguments
        versions = software()["versions"]
        self.awaited = self._actor.answer.remote(call.pack(), group.folder, versions)

    def received(self) -> Iterator[Any]:
        import ray

        try:
            while ray.wait([self.awaited], timeout=0)[0]:
                yield ray.get(next(self.awaited))
        except StopIteration:
            return
        except ray.exceptions.RayActorError as error:
            if error.actor_init_failed:
                raise
            reason = f"its worker on the cluster was lost ({type(error).__name__})"
            self.ended = End(reason, again=True, detail=str(error))

    def kill(self) -> None:
        import ray

        ray.kill(self._actor)


class RayWorker:
    """Trains groups in a process of a node; Ray makes an actor of it.

    Args:
        command: The command line of the suite, for manifests.
        folder: Working directory of the command.
    """

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        sys.argv = list(command)
        self._working_directory = folder
        # Keras stores names and seeds per thread: all runs use the same thread.
        self._thread = ThreadPoolExecutor(1)

    def answer(self, packed: bytes, folder: Path, versions: Mapping[str, str]) -> Iterator[Any]:
        """Answer a call, see `relation_tf.bench.workers`.

        Args:
            packed: The call.
            folder: The suite's folder.
            versions: Versions of packages on the machine of the command.
        """
        import ray

        try:
            os.chdir(self._working_directory)
            with (folder / "suite.toml").open("rb"):
                pass
            fault = _differing(software()["versions"], versions)
        except OSError as error:
            fault = f"must have the folders of the command, on a shared disk: {reason_of(error)}"
        if fault:
            node = ray.util.get_node_ip_address()
            yield Returned(error=SuiteError(f"node {node}: {fault}"))
            return
        events: SimpleQueue[Any] = SimpleQueue()
        job = self._thread.submit(answer, packed, events.put)
        job.add_done_callback(lambda _: events.put(Returned()))  # also after `SystemExit`
        while not isinstance(event := events.get(), Returned):
            yield event
        yield event


def _differing(there: Mapping[str, str], here: Mapping[str, str]) -> str:
    """Return how versions differ from those of the command; empty if they do not."""
    names = [f"{name} {there[name]} ({here[name]} here)" for name in here
             if there[name] != here[name]]  # fmt: skip
    fault = "package versions must be the same on all nodes, because results depend on them"
    return f"{fault}. Received: {', '.join(names)}" if names else ""


def _last_line(error: Exception) -> str:
    """Return the last line of Ray's message, which often starts with a traceback."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{lines[-1] if lines else type(error).__name__:.300}"
