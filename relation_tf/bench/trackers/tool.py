"""Base class of the trackers of other packages, and the names of what they track."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from relation_tf.bench.checksums import FILES
from relation_tf.files import read_json, write_json

Status = Literal["finished", "failed", "interrupted"]

REPORT = "report"
"""Name of the tracked run that has the report of a suite."""


@dataclass(frozen=True)
class _Tracked:
    """A tracked run that is open.

    Attributes:
        run: The run of the other package.
        id: Its id there.
        config: Digest of its configuration.
        epoch: The last epoch that is tracked.
    """

    run: Any
    id: str
    config: str
    epoch: int = 0


class Tool(ABC):
    """A tracker of another package, which runs in a separate process, see `ToolProcess`.

    A run that starts again with the same configuration and software continues its tracked run.
    Epochs that are tracked already are skipped: they have the same values. With another
    configuration, version or commit, there is a new tracked run.

    Args:
        folder: The folder of the tracker, `OUT/tracking/<name>`.
        suite: Name of the suite.
    """

    def __init__(self, folder: Path, suite: str) -> None:
        self.folder, self.suite = folder, suite
        self._open: dict[str, _Tracked] = {}

    @abstractmethod
    def open_run(self, name: str, config: Mapping[str, Any], known: str | None) -> tuple[Any, str]:
        """Start or continue a tracked run.

        Args:
            name: Name of the run, such as `"CoLA/relation-64/seed-1"`, or `REPORT`.
            config: The configuration of the run.
            known: Id of the tracked run to continue, or None.

        Returns:
            The run of the other package, and its id.
        """

    @abstractmethod
    def log(self, run: Any, values: Mapping[str, float], epoch: int) -> None:
        """Log the values of an epoch."""

    @abstractmethod
    def end_run(self, run: Any, status: Status, values: Mapping[str, float], reason: str) -> None:
        """End a tracked run.

        Args:
            run: The run.
            status: Its status.
            values: Final scores and costs, if it is finished.
            reason: Why it failed.
        """

    @abstractmethod
    def log_report(self, run: Any, report: Path) -> None:
        """Log the files of a report."""

    def start(
        self, name: str, config: Mapping[str, Any], software: Mapping[str, Any] | None = None
    ) -> None:
        """Start or continue the tracking of a run."""
        if name in self._open:  # its worker died, and the run is tried again
            return
        same_values = json.dumps([config, software], sort_keys=True)
        digest = hashlib.sha256(same_values.encode()).hexdigest()
        record = self._record(name)
        before = read_json(record) if record.exists() else {}
        same = before.get("config") == digest
        run, identity = self.open_run(name, config, before["id"] if same else None)
        self._keep(name, _Tracked(run, identity, digest, before["epoch"] if same else 0))

    def epoch(self, name: str, epoch: int, row: Mapping[str, float]) -> None:
        """Log the history row of an epoch."""
        tracked = self._open.get(name)
        if tracked is not None and epoch > tracked.epoch:
            values = {key: value for key, value in row.items() if key != "epoch"}
            self.log(tracked.run, values, epoch)
            self._keep(name, replace(tracked, epoch=epoch))

    def end(self, name: str, result: Mapping[str, Any]) -> None:
        """End a run: log its result, or mark it as failed."""
        tracked = self._open.pop(name, None)
        if tracked is None:
            return
        if "error" in result:
            self.end_run(tracked.run, "failed", {}, str(result["error"]))
        else:
            self.end_run(tracked.run, "finished", summary(result), "")

    def report(self, folder: str) -> None:
        """Log the files of the report in a separate tracked run."""
        self.start(REPORT, {})
        self.log_report(self._open[REPORT].run, Path(folder))
        self.end(REPORT, {})

    def close(self) -> None:
        """End the runs that are open: the command was interrupted or has died."""
        errors = []
        while self._open:
            _, tracked = self._open.popitem()
            try:
                self.end_run(tracked.run, "interrupted", {}, "")
            except Exception as error:  # of a server, for example: end the other runs
                errors.append(error)
        if errors:
            raise errors[0]

    def _keep(self, name: str, tracked: _Tracked) -> None:
        self._open[name] = tracked
        record = {"id": tracked.id, "config": tracked.config, "epoch": tracked.epoch}
        path = self._record(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, record)

    def _record(self, name: str) -> Path:
        return self.folder / ".runs" / f"{name}.json"


def parameters(config: Mapping[str, Any]) -> dict[str, bool | int | float | str]:
    """Return a configuration as flat parameters; None and empty values are left out.

    Example:
        >>> parameters({"units": 64, "options": {"num_steps": 5}, "size": None, "vary": ["init"]})
        {'units': 64, 'options.num_steps': 5, 'vary': '["init"]'}
    """
    return {
        key: value if isinstance(value, bool | int | float | str) else json.dumps(value)
        for key, value in _flat(config, ".")
        if value not in (None, [], {})
    }


def summary(result: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a `result.json` by their path, without the sizes of files.

    Example:
        >>> summary({"seed": 1, "metrics": {"CoLA": {"matthews": 0.5}}, "files": {"a": 5}})
        {'metrics/CoLA/matthews': 0.5}
    """
    return {
        key: float(value)
        for key, value in _flat({**result, FILES: None}, "/")
        if isinstance(value, int | float) and key != "seed"
    }


def _flat(values: Mapping[str, Any], separator: str) -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from ((f"{key}{separator}{k}", v) for k, v in _flat(value, separator))
        else:
            yield key, value
