"""Train in the process of the tests: TensorFlow takes seconds to start in a worker process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from relation_tf.bench import train, workers
from relation_tf.bench.workers import Call

PROCESS = workers.Worker


class InThisProcess(PROCESS):
    """A worker that answers in this process, when it gets a call."""

    def __init__(self, arrived: threading.Event) -> None:
        self.group, self.left, self.is_running, self.ended = None, [], False, None
        train._last_inputs.clear()  # a worker serves one command
        self._arrived, self._answers = arrived, list[Any]()

    @classmethod
    def idle_or_new(cls, arrived: threading.Event) -> InThisProcess:
        return cls(arrived)

    def send(self, call: Call) -> None:
        call.answer(self._answers.append)
        self._arrived.set()

    def received(self) -> Iterator[Any]:
        while self._answers:
            yield self._answers.pop(0)

    def kill(self) -> None:
        pass


@pytest.fixture(scope="session", autouse=True)
def _in_this_process() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "Worker", InThisProcess)
        yield


@pytest.fixture
def worker_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Train in worker processes, as commands do."""
    monkeypatch.setattr(workers, "Worker", PROCESS)
    monkeypatch.setattr(workers, "_idle", [])  # those of other tests are no processes
