"""Cells in workers that are used again: one that dies or hangs costs no more than its run.

A worker is a process of this machine, or one of a cluster (`ray_cluster.py`).
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, TypeVar

from relation_tf.bench.groups import EventCallback, RunGroup, check_methods, fail, run_group
from relation_tf.bench.run_folder import RunFolder
from relation_tf.config.run import RunConfig
from relation_tf.errors import SuiteError
from relation_tf.training.session import ignore_interrupts

_TRIES = 2  # of a run whose worker died

Key = tuple[str, str, int]
Event = dict[str, Any]


def run_in_processes(
    cells: Sequence[RunGroup], jobs: int, notify: EventCallback, run_timeout: float | None = None
) -> None:
    """Run cells, each in one of some processes of this machine.

    Args:
        cells: The cells, in the order in which they are given out.
        jobs: Processes at once.
        notify: Told what happens, as by `run_group`.
        run_timeout: Seconds after which a run, or what it waits for, is ended and has failed.

    Raises:
        SuiteError: For a method that cannot be built, or a folder that cannot be written.
    """
    run_in_workers(cells, jobs, _Process, _wait_for_processes, notify, run_timeout)


@dataclass(frozen=True)
class End:
    """Why a worker ended.

    Attributes:
        reason: In words.
        again: Whether its run is worth another try.
        detail: More of it, for `error.json`.
    """

    reason: str
    again: bool
    detail: str = ""


class Worker(ABC):
    """What runs cells, one after the other, and tells of them.

    Attributes:
        cell: The cell under way.
        left: Its runs that have not ended, the first one under way.
        began: When that run began, by `time.monotonic`.
        ready: Whether a cell can be given to it.
        ended: Why it has come to an end by itself.
    """

    def __init__(self) -> None:
        self.cell: RunGroup | None = None
        self.left: list[RunConfig] = []
        self.began = 0.0
        self.ready = True
        self.ended: End | None = None

    def start(self, cell: RunGroup) -> None:
        """Give it a cell."""
        self._send(cell)
        self.cell, self.left, self.began = cell, list(cell.runs), time.monotonic()

    def events(self) -> Iterator[Event]:
        """What it has told since; the cell is None once it is done.

        Raises:
            SuiteError: Where no run can be written.
        """
        for event in self._received() if self.cell is not None else ():
            if event is None:
                self.cell = None
                return
            if event["event"] == "error":
                raise SuiteError(event["error"])
            if event["event"] == "start":
                self.began = time.monotonic()
            elif event["event"] in ("done", "failed"):
                self.left = self.left[1:]
            yield event

    def end(self, run_timeout: float | None) -> End | None:
        """Why it came to an end, or has to; else None."""
        if self.ended is not None or self.cell is None or run_timeout is None:
            return self.ended
        if time.monotonic() - self.began > run_timeout:
            return End(f"ended after --run-timeout {run_timeout:g} s", again=False)
        return None

    @abstractmethod
    def check(self, configs: Sequence[RunConfig], folder: Path) -> str | None:
        """Build a network of each method; what is wrong with one, or None.

        Raises:
            SuiteError: Where it ends before it could.
        """

    @abstractmethod
    def _send(self, cell: RunGroup) -> None:
        """Let it run a cell."""

    @abstractmethod
    def _received(self) -> Iterator[Event | None]:
        """What has come from it, None at the end of the cell; sets `ended` where it has."""

    @abstractmethod
    def kill(self) -> None:
        """End it at once; runs can be taken up again."""


AnyWorker = TypeVar("AnyWorker", bound=Worker)


def run_in_workers(
    cells: Sequence[RunGroup],
    count: int,
    make: Callable[[], AnyWorker],
    wait_for: Callable[[Sequence[AnyWorker], float], None],
    notify: EventCallback,
    run_timeout: float | None,
) -> None:
    """Run cells, each in one of some workers.

    A run whose worker dies, killed or out of memory, is tried once more; then it has failed. The
    runs that follow it in its cell go on in another worker.

    Args:
        cells: The cells, in the order in which they are given out.
        count: Workers at once.
        make: Makes a worker.
        wait_for: Waits until one of some workers tells something, ends or is ready, or so many
            seconds have passed.
        notify: Told what happens, as by `run_group`.
        run_timeout: Seconds after which a run, or what it waits for, is ended and has failed.

    Raises:
        SuiteError: For a method that cannot be built, or a folder that cannot be written.
    """
    waiting = deque(cells)
    tries: dict[Key, int] = {}
    workers: list[AnyWorker] = []
    try:
        _staff(workers, min(count, len(waiting)), make)
        _check(workers[0], cells)
        while workers:
            for worker in workers:
                if worker.ready and worker.cell is None and waiting:
                    worker.start(waiting.popleft())
            wait_for(workers, _seconds_left(workers, run_timeout))
            for worker in workers[:]:
                for event in worker.events():
                    notify(event)
                end = worker.end(run_timeout)
                if end is not None:
                    worker.kill()
                    workers.remove(worker)
                    waiting.extendleft(_rest(worker, end, tries, notify))
            busy = sum(worker.cell is not None for worker in workers)
            _staff(workers, min(count, busy + len(waiting)), make)
    finally:
        for worker in workers:
            worker.kill()


def _staff(workers: list[AnyWorker], count: int, make: Callable[[], AnyWorker]) -> None:
    """Have so many workers: more, or fewer of those that have nothing to do."""
    idle = sorted((w for w in workers if w.cell is None), key=lambda worker: worker.ready)
    for worker in idle[: max(0, len(workers) - count)]:
        worker.kill()
        workers.remove(worker)
    while len(workers) < count:
        workers.append(make())


def _check(worker: Worker, cells: Sequence[RunGroup]) -> None:
    """Let a worker, which has TensorFlow to load anyway, build one network of each method."""
    one_of_each = {run.method: run for cell in cells for run in cell.runs}
    error = worker.check(list(one_of_each.values()), cells[0].folder)
    if error is not None:
        raise SuiteError(error)


def _seconds_left(workers: Sequence[Worker], run_timeout: float | None) -> float:
    """Until a run has had its time; an hour at most, since a system counts no time without end."""
    if run_timeout is None:
        return 3600.0
    began = [worker.began for worker in workers if worker.cell is not None]
    left = min(began, default=time.monotonic()) + run_timeout - time.monotonic()
    return min(3600.0, max(0.0, left))


def _rest(worker: Worker, end: End, tries: dict[Key, int], notify: EventCallback) -> list[RunGroup]:
    """What is left of the cell of a worker that ended: a cell, or none."""
    if worker.cell is None:
        return []
    cell, left = worker.cell, worker.left
    folder = RunFolder(cell.folder)
    if left and (folder.run(left[0]) / "result.json").exists():
        # It had finished, and not yet said so.
        notify({"event": "done", "run": left[0].key})
        left = left[1:]
    elif left:
        run = left[0]
        tries[run.key] = tries.get(run.key, 0) + 1
        if not end.again or tries[run.key] == _TRIES:
            often = f", {_TRIES} times" if end.again else ""
            fail(folder.run(run), run, end.reason + often, notify, end.detail)
            left = left[1:]
    return [replace(cell, runs=left)] if left else []


def checked(configs: Sequence[RunConfig], folder: Path) -> str | None:
    """What is wrong with a method, or None; see `check_methods`."""
    try:
        check_methods(configs, folder)
    except SuiteError as error:
        return str(error)
    return None


class _Process(Worker):
    """A process of this machine."""

    def __init__(self) -> None:
        super().__init__()
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        with _interrupts_held():
            self._process.start()
        # Their end is theirs alone, so that ours closes when they are gone.
        theirs.close()

    def check(self, configs: Sequence[RunConfig], folder: Path) -> str | None:
        try:
            self.connection.send((configs, folder))
            return self.connection.recv()
        except (EOFError, OSError):
            raise SuiteError(
                f"a process that was to build the networks {self._how_it_ended()} before it could. "
                "(A script that calls run_suite with jobs needs `if __name__ == '__main__':`.)"
            ) from None

    def _send(self, cell: RunGroup) -> None:
        with suppress(BrokenPipeError):  # dead already: what is received next says so
            self.connection.send(cell)

    def _received(self) -> Iterator[Event | None]:
        while self.connection.poll():
            try:
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
    wait([process.connection for process in processes if process.cell is not None], seconds)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Keep Ctrl-C for later; a process that is started meanwhile is never told of it.

    It has imports to do before it can ignore Ctrl-C by itself, which would end in a traceback.
    """
    resource_tracker.ensure_running()  # the first process starts it, and it lets Ctrl-C through
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(connection: Connection) -> None:
    """What a process does: check networks once where asked, then run cells."""
    ignore_interrupts()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        asked = connection.recv()
        if isinstance(asked, RunGroup):
            try:
                run_group(asked, connection.send)
            except SuiteError as error:
                connection.send({"event": "error", "error": str(error)})
            connection.send(None)
        else:
            connection.send(checked(*asked))


def _end_with_parent() -> None:
    """End this process where its parent was killed: it would train on, into a folder given up."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
