"""Executors, and worker processes: if a worker dies or hangs, only its run is lost.

A worker is a process of this machine, or an actor of a cluster (`ray_cluster.py`). `--executor
NAME` chooses an executor: a function of the groups, a callback for events and the options of the
run. It must call `run_group` for each group, in any process that can access the folder of the
groups:

    from relation_tf.bench.groups import run_group
    from relation_tf.registry import register_executor

    @register_executor("backwards")
    def backwards(groups, notify, options):
        for group in reversed(groups):
            run_group(group, notify)

Use `run_in_workers` for workers that may die.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, TypeVar

from relation_tf.bench.groups import EventCallback, RunGroup, check_methods, fail, run_group
from relation_tf.bench.options import RunOptions
from relation_tf.bench.run_folder import RunFolder
from relation_tf.config.run import RunConfig, RunKey
from relation_tf.errors import RelationError, SuiteError
from relation_tf.interrupts import interrupts_delayed
from relation_tf.registry import register_executor
from relation_tf.system import interrupts_blocked

_TRIES = 2  # of a run whose worker died

Event = dict[str, Any]


@register_executor("local")
def run_locally(groups: Sequence[RunGroup], notify: EventCallback, options: RunOptions) -> None:
    """Execute groups in this process, or in `options.jobs` processes of this machine.

    Args:
        groups: The groups, in the order in which they start.
        notify: Called with each event, see `run_group`.
        options: Options of the run; `run_timeout` also limits the start of a run.

    Raises:
        SuiteError: If a method cannot be built or a folder cannot be written.
    """
    if options.in_processes:
        jobs, timeout = options.jobs or 1, options.run_timeout
        run_in_workers(groups, jobs, _Process, _wait_for_processes, notify, timeout)
        return
    runs = [run for group in groups for run in group.runs]
    check_methods(runs, groups[0].folder, options.distribution)
    for group in groups:
        run_group(group, notify)


@dataclass(frozen=True)
class End:
    """Why a worker ended.

    Attributes:
        reason: The reason, in words.
        again: If True, the run may be tried again.
        detail: Details for `error.json`.
    """

    reason: str
    again: bool
    detail: str = ""


class Worker(ABC):
    """Runs groups, one after the other, and reports events.

    Attributes:
        group: The current group.
        left: Unfinished runs of the group; the first one is running.
        began: Start time of that run, by `time.monotonic`.
        ready: If True, the worker can start a group.
        ended: Reason if the worker ended unexpectedly, else None.
    """

    def __init__(self) -> None:
        self.group: RunGroup | None = None
        self.left: list[RunConfig] = []
        self.began = 0.0
        self.ready = True
        self.ended: End | None = None

    def start(self, group: RunGroup) -> None:
        """Start a group."""
        self._send(group)
        self.group, self.left, self.began = group, list(group.runs), time.monotonic()

    def events(self) -> Iterator[Event]:
        """Yield new events; after the last one `group` is None.

        Raises:
            SuiteError: If no run can be written.
        """
        for event in self._received() if self.group is not None else ():
            if event is None:
                self.group = None
                return
            if event["event"] == "error":
                raise SuiteError(event["error"])
            if event["event"] in ("start", "done", "failed"):
                self.began = time.monotonic()
            if event["event"] in ("done", "failed"):
                self.left = self.left[1:]
            yield event

    def end(self, run_timeout: float | None) -> End | None:
        """Return why the worker ended or must be ended, else None."""
        if self.ended is not None or self.group is None or run_timeout is None:
            return self.ended
        if time.monotonic() - self.began > run_timeout:
            return End(f"ended after --run-timeout {run_timeout:g} s", again=False)
        return None

    @abstractmethod
    def check(self, configs: Sequence[RunConfig], folder: Path) -> str | None:
        """Build a network of each method; return the first error, or None.

        Raises:
            SuiteError: If the worker ends before it has built them.
        """

    @abstractmethod
    def _send(self, group: RunGroup) -> None:
        """Send a group to the worker."""

    @abstractmethod
    def _received(self) -> Iterator[Event | None]:
        """Yield new events, then None at the end of the group; set `ended` if the worker ended."""

    @abstractmethod
    def kill(self) -> None:
        """Kill the worker; its run can be resumed."""


AnyWorker = TypeVar("AnyWorker", bound=Worker)


def run_in_workers(
    groups: Sequence[RunGroup],
    count: int,
    make: Callable[[], AnyWorker],
    wait_for: Callable[[Sequence[AnyWorker], float], None],
    notify: EventCallback,
    run_timeout: float | None,
) -> None:
    """Run groups, each in one of several workers.

    If a worker dies (killed, out of memory), its run is tried a second time and then counts as
    failed. The other runs of its group continue in another worker.

    Args:
        groups: The groups, in the order in which they start.
        count: Number of workers at the same time.
        make: Makes a worker.
        wait_for: Waits until one of the workers reports an event, ends or becomes ready, or the
            given seconds have passed.
        notify: Called with each event, see `run_group`.
        run_timeout: Time limit in seconds for the start of a run and for the run.

    Raises:
        SuiteError: If a method cannot be built or a folder cannot be written.
    """
    waiting = deque(groups)
    tries: Counter[RunKey] = Counter()
    workers: list[AnyWorker] = []
    try:
        _hire(workers, min(count, len(waiting)), make)
        _check(workers[0], groups)
        while workers:
            for worker in workers:
                if worker.ready and worker.group is None and waiting:
                    worker.start(waiting.popleft())
            wait_for(workers, _seconds_left(workers, run_timeout))
            for worker in workers[:]:
                for event in worker.events():
                    notify(event)
                end = worker.end(run_timeout)
                if end is not None:
                    worker.kill()
                    workers.remove(worker)
                    waiting.extendleft(_remaining(worker, end, tries, notify))
            busy = sum(worker.group is not None for worker in workers)
            _hire(workers, min(count, busy + len(waiting)), make)
    finally:
        for worker in workers:
            worker.kill()


def _hire(workers: list[AnyWorker], count: int, make: Callable[[], AnyWorker]) -> None:
    """Make or end workers to reach the count; idle workers that are not ready end first."""
    idle = sorted((w for w in workers if w.group is None), key=lambda worker: worker.ready)
    for worker in idle[: max(0, len(workers) - count)]:
        worker.kill()
        workers.remove(worker)
    while len(workers) < count:
        workers.append(make())


def _check(worker: Worker, groups: Sequence[RunGroup]) -> None:
    """Build one network of each method in a worker, which has to load TensorFlow anyway."""
    one_of_each = {run.method: run for group in groups for run in group.runs}
    error = worker.check(list(one_of_each.values()), groups[0].folder)
    if error is not None:
        raise SuiteError(error)


def _seconds_left(workers: Sequence[Worker], run_timeout: float | None) -> float:
    """Return the seconds until the next run times out, at most an hour."""
    if run_timeout is None:
        return 3600.0
    began = [worker.began for worker in workers if worker.group is not None]
    left = min(began, default=time.monotonic()) + run_timeout - time.monotonic()
    return min(3600.0, max(0.0, left))


def _remaining(
    worker: Worker, end: End, tries: Counter[RunKey], notify: EventCallback
) -> list[RunGroup]:
    """Return the unfinished runs of a worker that ended, as one group or none."""
    if worker.group is None:
        return []
    left, folder = worker.left, RunFolder(worker.group.folder)
    if left and folder.has_result(left[0]):  # finished but not reported
        notify({"event": "done", "run": left[0].key})
        left = left[1:]
    elif left:
        run = left[0]
        tries[run.key] += 1
        if not end.again or tries[run.key] == _TRIES:
            often = f", {_TRIES} times" if end.again else ""
            fail(folder, run, end.reason + often, notify, end.detail)
            left = left[1:]
    return [replace(worker.group, runs=left)] if left else []


def first_error(configs: Sequence[RunConfig], folder: Path) -> str | None:
    """Return the message of the first method that cannot be built, see `check_methods`."""
    try:
        check_methods(configs, folder)
    except RelationError as error:
        return str(error)
    return None


class _Process(Worker):
    """A process of this machine."""

    def __init__(self) -> None:
        super().__init__()
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        with _interrupts_delayed():
            self._process.start()
        theirs.close()  # the process has the only other end: ours closes when it ends

    def check(self, configs: Sequence[RunConfig], folder: Path) -> str | None:
        try:
            self.connection.send((configs, folder))
            return self.connection.recv()
        except (EOFError, OSError):
            raise SuiteError(
                f"a worker process {self._how_it_ended()} before it built the networks. "
                "(A script that calls run_suite with jobs needs `if __name__ == '__main__':`.)"
            ) from None

    def _send(self, group: RunGroup) -> None:
        with suppress(BrokenPipeError):  # it has ended: the next `_received` reports that
            self.connection.send(group)

    def _received(self) -> Iterator[Event | None]:
        while True:
            try:
                if not self.connection.poll():  # raises an error on Windows if the process ended
                    return
                event = self.connection.recv()
            except (EOFError, OSError):
                self.ended = End(f"its process {self._how_it_ended()}", again=True)
                return
            yield event

    def _how_it_ended(self) -> str:
        self._process.join()
        code = self._process.exitcode
        if code is None or code >= 0:
            return f"ended with exit code {code}"
        name = signal.Signals(-code).name
        return f"was ended by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")

    def kill(self) -> None:
        self._process.kill()
        self._process.join()
        self.connection.close()


def _wait_for_processes(processes: Sequence[_Process], seconds: float) -> None:
    wait([process.connection for process in processes if process.group is not None], seconds)


@contextmanager
def _interrupts_delayed() -> Iterator[None]:
    """Delay Ctrl-C; a process that starts meanwhile never receives it.

    Its imports come before it can ignore Ctrl-C, which would end them with a traceback. The mask
    protects the new process; `interrupts_delayed` protects this one: other threads do not block
    the signal, and a process that receives only a part of its data ends with a traceback, too.
    """
    with interrupts_delayed(), interrupts_blocked():
        yield


def _serve(connection: Connection) -> None:
    """Run in a process: check networks if requested, then run groups."""
    # Otherwise the first worker reserves nearly all memory of the GPU that the workers share.
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        request = connection.recv()
        if isinstance(request, RunGroup):
            try:
                run_group(request, connection.send)
            except RelationError as error:
                connection.send({"event": "error", "error": str(error)})
            connection.send(None)
        else:
            connection.send(first_error(*request))


def _end_with_parent() -> None:
    """End this process if its parent was killed; the next command may take over its folder."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
