"""Run a tracker of another package in a separate process."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from relation_tf.bench.provenance import software
from relation_tf.bench.trackers.base import Tracker
from relation_tf.errors import require_package

if TYPE_CHECKING:
    from relation_tf.config import RunConfig

_END = 60.0  # seconds to send the remaining data at the end


@dataclass(frozen=True)
class ToolFactory:
    """Factory of the tracker of another package.

    Attributes:
        package: Name of the package, of the extra and of the tracker.
    """

    package: str

    def __call__(self, folder: Path) -> ToolProcess:
        """Return the tracker of a suite's folder."""
        return ToolProcess(self.package, folder)

    def check_installed(self) -> None:
        """Check that the package is installed; W&B's folder of runs also has its name.

        Raises:
            MissingPackageError: If it is not.
        """
        require_package(f"--track {self.package}", self.package, self.package)


class ToolProcess(Tracker):
    """A `Tool` in a separate process, which starts at the first event.

    There, it cannot change the memory, the time or the random state of a run, load TensorFlow into
    the process of the command, or delay a run while it waits for a network.

    Args:
        name: Name of the tracker.
        folder: The suite's folder.
    """

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__(folder)
        self._name = name
        self._process: subprocess.Popen[bytes] | None = None
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()
        self._reader: threading.Thread | None = None
        self._errors: SimpleQueue[str] = SimpleQueue()

    def on_run_start(self, config: RunConfig) -> None:
        """Send the configuration, and the versions with which it gives the same values."""
        self._send("start", str(config), config.model_dump(mode="json"), software())

    def on_epoch(self, config: RunConfig, epoch: int, row: Mapping[str, float]) -> None:
        """Send the epoch's row."""
        self._send("epoch", str(config), epoch, dict(row))

    def on_run_end(self, config: RunConfig, result: Mapping[str, Any]) -> None:
        """Send the result."""
        self._send("end", str(config), dict(result))

    def on_report(self, report: Path) -> None:
        """Send the folder of the report."""
        self._send("report", str(report.resolve()))

    def close(self) -> None:
        """Wait until all events are tracked, or stop the process after a minute.

        Raises:
            RuntimeError: If the process did not end, or has crashed.
        """
        if self._process is None:
            return
        self._lines.put(None)
        try:
            code = self._process.wait(_END)
        except subprocess.TimeoutExpired:
            raise RuntimeError(
                f"stopped, because it had not ended {_END:g} s after the runs. Its messages: "
                f"{self._log}"
            ) from None
        finally:
            self._process.kill()
            self._process.wait()
            if self._reader is not None:
                self._reader.join(1)  # a process that the tool has started can keep the pipe open
        if code:
            raise RuntimeError(
                f"its process ended with exit code {code}. Its messages: {self._log}"
            )

    def take_errors(self) -> Iterator[str]:
        """Yield the errors of the tool since the last call."""
        while not self._errors.empty():
            yield self._errors.get()

    @property
    def _log(self) -> Path:
        return self.folder / "tracking" / f"{self._name}.log"

    def _send(self, *event: Any) -> None:
        if self._process is None:
            self._process = self._start()
        self._lines.put(json.dumps(event, default=float).encode() + b"\n")

    def _start(self) -> subprocess.Popen[bytes]:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "relation_tf.bench.trackers"]
        with self._log.open("ab") as log:
            # In a separate session, so that Ctrl-C does not end it before its runs are marked.
            process = subprocess.Popen(
                [*command, self._name, str(self.folder.resolve())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        threading.Thread(target=self._write, args=(process,), daemon=True).start()
        self._reader = threading.Thread(target=self._read, args=(process,), daemon=True)
        self._reader.start()
        return process

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        """Read the errors in a thread: Windows has no pipes that do not block."""
        assert process.stdout is not None
        with process.stdout as pipe:
            for line in pipe:
                self._errors.put(line.decode("utf-8", "replace").rstrip("\r\n"))

    def _write(self, process: subprocess.Popen[bytes]) -> None:
        """Write the events in a thread: a pipe takes only few before it blocks."""
        assert process.stdin is not None
        with suppress(OSError), process.stdin as pipe:
            for line in iter(self._lines.get, None):
                pipe.write(line)
                pipe.flush()
