"""Cells in processes that are used again: one that dies or hangs costs no more than its run."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from relation_tf.bench.run_folder import RunFolder
from relation_tf.bench.suite import RunConfig, SuiteError
from relation_tf.bench.worker import Cell, Tell, check_methods, fail, ignore_interrupts, run_cell

_TRIES = 2  # of a run whose process died

Key = tuple[str, str, int]


def run_in_processes(
    cells: Sequence[Cell], jobs: int, tell: Tell, run_timeout: float | None = None
) -> None:
    """Run cells, each in one of some processes.

    A run whose process dies, killed or out of memory, is tried once more; then it has failed. The
    runs that follow it in its cell go on in another process.

    Args:
        cells: The cells, in the order in which they are given out.
        jobs: Processes at once.
        tell: Told what happens, as by `run_cell`.
        run_timeout: Seconds after which a run, or what it waits for, is ended and has failed.

    Raises:
        SuiteError: For a method that cannot be built, or a folder that cannot be written.
    """
    waiting = deque(cells)
    tries: dict[Key, int] = {}
    workers = [_Worker() for _ in range(min(jobs, len(cells)))]
    try:
        _check(workers[0], cells)
        while waiting or any(worker.cell is not None for worker in workers):
            for worker in workers:
                if worker.cell is None and waiting:
                    worker.start(waiting.popleft())
            _wait(workers, run_timeout)
            for number, worker in enumerate(workers):
                for event in worker.events():
                    tell(event)
                end = worker.end(run_timeout)
                if end is not None:
                    rest = _after(worker, end, tries, tell)
                    if rest is not None:
                        waiting.appendleft(rest)
                    workers[number] = _Worker()
    finally:
        for worker in workers:
            worker.kill()


def _check(worker: _Worker, cells: Sequence[Cell]) -> None:
    """Let a process, which has TensorFlow to load anyway, build one network of each method."""
    one_of_each = {run.method: run for cell in cells for run in cell.runs}
    try:
        worker.connection.send((list(one_of_each.values()), cells[0].folder))
        error = worker.connection.recv()
    except (EOFError, OSError):
        worker.process.join()
        raise SuiteError(
            f"a process that was to build the networks {_ended(worker.process.exitcode)} before it "
            "could. (A script that calls run_suite with jobs needs `if __name__ == '__main__':`.)"
        ) from None
    if error is not None:
        raise SuiteError(error)


def _wait(workers: Sequence[_Worker], run_timeout: float | None) -> None:
    """Until a process tells something or ends, or a run has had its time."""
    busy = [worker for worker in workers if worker.cell is not None]
    left = [worker.began + run_timeout - time.monotonic() for worker in busy] if run_timeout else []
    # An hour at most, since a system counts no time without end.
    wait([worker.connection for worker in busy], min(3600.0, max(0.0, min(left))) if left else None)


def _after(worker: _Worker, end: _End, tries: dict[Key, int], tell: Tell) -> Cell | None:
    """What is left of the cell of a process that ended in the middle of it."""
    worker.kill()
    assert worker.cell is not None
    cell, left = worker.cell, worker.left
    folder = RunFolder(cell.folder)
    if left and (folder.run(left[0]) / "result.json").exists():
        # It had finished, and not yet said so.
        tell({"event": "done", "run": left[0].key})
        left = left[1:]
    elif left:
        run = left[0]
        tries[run.key] = tries.get(run.key, 0) + 1
        if not end.again or tries[run.key] == _TRIES:
            often = f", {_TRIES} times" if end.again else ""
            fail(folder.run(run), run, end.reason + often, tell)
            left = left[1:]
    return replace(cell, runs=left) if left else None


@dataclass(frozen=True)
class _End:
    """Why a process ended, and whether its run is worth another try."""

    reason: str
    again: bool


class _Worker:
    """A process that runs cells, one after the other, and tells of them."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self.process.start()
        # Their end is theirs alone, so that ours closes when they are gone.
        theirs.close()
        self.cell: Cell | None = None
        self.left: list[RunConfig] = []  # runs of the cell, the first one under way
        self.began = 0.0
        self._dead = False

    def start(self, cell: Cell) -> None:
        """Give it a cell."""
        self.cell, self.left, self.began = cell, list(cell.runs), time.monotonic()
        with suppress(BrokenPipeError):  # dead already: `end` finds that out
            self.connection.send(cell)

    def events(self) -> Iterator[dict[str, Any]]:
        """What it has told since; the cell is None once it is done.

        Raises:
            SuiteError: Where no run can be written.
        """
        while self.cell is not None and self.connection.poll():
            try:
                event = self.connection.recv()
            except (EOFError, OSError):
                self._dead = True
                return
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

    def end(self, run_timeout: float | None) -> _End | None:
        """Why it came to an end in the middle of a cell, or has to; else None."""
        if self.cell is None:
            return None
        if self._dead:
            self.process.join()
            return _End(f"its process {_ended(self.process.exitcode)}", again=True)
        if run_timeout is not None and time.monotonic() - self.began > run_timeout:
            return _End(f"ended after --run-timeout {run_timeout:g} s", again=False)
        return None

    def kill(self) -> None:
        """End it at once; runs can be taken up again."""
        self.process.kill()
        self.process.join()
        self.connection.close()


def _ended(exitcode: int | None) -> str:
    """How a process ended, in words."""
    if exitcode is None or exitcode >= 0:
        return f"ended with exit code {exitcode}"
    name = signal.Signals(-exitcode).name
    why = " (out of memory?)" if name == "SIGKILL" else ""
    return f"was ended by {name}{why}"


def _serve(connection: Connection) -> None:
    """What a process does: check networks once where asked, then run cells."""
    ignore_interrupts()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        asked = connection.recv()
        if isinstance(asked, Cell):
            try:
                run_cell(asked, connection.send)
            except SuiteError as error:
                connection.send({"event": "error", "error": str(error)})
            connection.send(None)
        else:
            connection.send(_checked(*asked))


def _checked(configs: Sequence[RunConfig], folder: Path) -> str | None:
    try:
        check_methods(configs, folder)
    except SuiteError as error:
        return str(error)
    return None


def _end_with_parent() -> None:
    """End this process where its parent was killed: it would train on, into a folder given up."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
