"""A worker of a Ray cluster: runs groups in a process of a node and sends their files."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from relation_tf.bench.groups import Inputs, RunGroup, run_group
from relation_tf.bench.processes import Event, first_error
from relation_tf.bench.provenance import processor, software
from relation_tf.bench.run_folder import RunFolder
from relation_tf.config import RunConfig
from relation_tf.errors import RelationError, SuiteError
from relation_tf.training.checkpoint import STATE
from relation_tf.training.session import LOG

_EPOCH_EVERY = 0.5  # seconds between two epochs that are reported
_FOLDER = "relation_tf-worker-"


class RayWorker:
    """Runs groups; Ray makes an actor of it.

    Args:
        command: The command line of the suite, for manifests.
        state_every: Seconds between two states of a run that are sent.
    """

    def __init__(self, command: Sequence[str], state_every: float) -> None:
        sys.argv = list(command)
        self._state_every = state_every
        self._lock = ExitStack()
        self._folder = _own_folder(self._lock)
        tempfile.tempdir = str(self._folder.path)  # for temporary files of TensorFlow
        # Keras stores names and seeds per thread: all runs use the same thread.
        self._thread = ThreadPoolExecutor(1)

    def about(self) -> dict[str, Any]:
        """Return the node's address, processor and package versions."""
        import ray

        node = ray.util.get_node_ip_address()
        return {"node": node, "processor": processor(), "installed": software()["versions"]}

    def tidy(self) -> None:
        """Remove the worker's folder from the node."""
        shutil.rmtree(self._folder.path)

    def check(self, configs: Sequence[RunConfig]) -> str | None:
        """Build a network of each method; return the first error, or None."""
        return self._thread.submit(first_error, configs, self._folder.path).result()

    def run(
        self, group: RunGroup, inputs: Inputs | Exception, states: Mapping[Any, bytes]
    ) -> Iterator[Event]:
        """Run a group; yield its events, with the files of each run that ends."""
        here = replace(group, folder=self._folder.path, inputs=inputs)
        folders = {run.key: self._folder.run(run) for run in group.runs}
        for key, state in states.items():
            folders[key].mkdir(parents=True, exist_ok=True)
            (folders[key] / STATE).write_bytes(state)
        events: SimpleQueue[Event | None] = SimpleQueue()
        reported = sent = time.monotonic()

        def notify(event: Event) -> None:
            nonlocal reported, sent
            now, folder = time.monotonic(), folders[event["run"]]
            if event["event"] == "start":
                sent = now
            elif event["event"] == "epoch":
                if now - sent >= self._state_every and (folder / STATE).exists():
                    event["state"] = (folder / STATE).read_bytes()
                    sent = now
                elif now - reported < _EPOCH_EVERY:
                    return
                reported = now
            elif event["event"] in ("done", "failed"):
                event |= {"files": _files(folder), "log": _take(self._folder.path / LOG)}
                shutil.rmtree(folder)
            events.put(event)

        def work() -> None:
            try:
                run_group(here, notify)
            except RelationError as error:
                events.put({"event": "error", "error": str(error)})
            finally:
                events.put(None)

        done = self._thread.submit(work)
        while (event := events.get()) is not None:
            yield event
        done.result()


def _own_folder(lock: ExitStack) -> RunFolder:
    """Create a folder, locked until the process ends, and remove folders of killed workers."""
    for left in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*"):
        with suppress(OSError, SuiteError):
            is_new = time.time() - left.stat().st_mtime < 60  # its owner may not have locked it
            if not is_new:
                with RunFolder(left).locked():
                    shutil.rmtree(left)
    folder = RunFolder(Path(tempfile.mkdtemp(prefix=_FOLDER)))
    lock.enter_context(folder.locked())
    return folder


def _files(folder: Path) -> dict[str, bytes]:
    """Return the files of a run, except its state."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != STATE
    }


def _take(log: Path) -> bytes:
    """Return the contents of the log and empty it."""
    content = log.read_bytes() if log.exists() else b""
    log.unlink(missing_ok=True)
    return content
