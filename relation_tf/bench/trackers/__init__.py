"""Trackers: objects that receive the progress of runs, chosen by `--track NAME`.

A tracker runs in the process of the command, also on a cluster; those of other packages in a
process each (`process.py`). It cannot change results: if one of its methods fails, a warning is
printed and the runs continue.

    from relation_tf.bench.trackers import Tracker
    from relation_tf.registry import register_tracker

    @register_tracker("print")
    class Print(Tracker):
        def on_epoch(self, config, epoch, row):
            print(config, epoch, row["val_loss"])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from relation_tf.bench.run_folder import RunFolder
from relation_tf.bench.trackers.base import Tracker
from relation_tf.bench.trackers.jsonl import JsonLines
from relation_tf.bench.trackers.process import ToolFactory, ToolProcess
from relation_tf.errors import without_breaks
from relation_tf.files import read_json
from relation_tf.registry import TRACKERS

if TYPE_CHECKING:
    from relation_tf.bench.results import Results
    from relation_tf.config import RunConfig

__all__ = ["Tracker", "Trackers", "check_trackers", "track_report"]

TRACKERS.add("jsonl", JsonLines, __name__)
for _package in ("tensorboard", "wandb", "mlflow", "trackio"):
    TRACKERS.add(_package, ToolFactory(_package), __name__)


def check_trackers(names: Sequence[str]) -> None:
    """Check that trackers are registered, and their packages installed.

    Raises:
        UnknownNameError: If no tracker of a name is registered.
        SuiteError: If a package is not installed; the message names the extra.
    """
    for name in names:
        factory = TRACKERS.find(name)
        if isinstance(factory, ToolFactory):
            factory.check_installed()


def track_report(
    names: Sequence[str], folder: Path, report: Path, warn: Callable[[str], None]
) -> None:
    """Send the report of a suite to trackers.

    Args:
        names: Registered names.
        folder: The suite's folder.
        report: The folder of the report.
        warn: Called with one line for each different failure of a tracker.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> track_report(["jsonl"], folder, folder / "report", print)
    """
    with Trackers(names, folder, (), warn) as trackers:
        trackers.report(report)


class Trackers:
    """Trackers of a call; pass the events of its runs to each of them.

    Args:
        names: Registered names.
        folder: The suite's folder.
        runs: The runs that may start.
        warn: Called with one line for each different failure of a tracker.
    """

    def __init__(
        self,
        names: Sequence[str],
        folder: Path,
        runs: Sequence[RunConfig],
        warn: Callable[[str], None],
    ) -> None:
        self._folder, self._warn, self._warned = RunFolder(folder), warn, set[str]()
        self._runs = {config.key: config for config in runs}
        self._trackers: dict[str, Tracker] = {}
        for name in names:
            self._guard(name, self._add, name, folder)

    def _add(self, name: str, folder: Path) -> None:
        self._trackers[name] = TRACKERS[name](folder)

    def notify(self, event: Mapping[str, Any]) -> None:
        """Send an event of `run_group` to all trackers."""
        if not self._trackers:
            return
        config = self._runs[event["run"]]
        if event["event"] == "start":
            self._call("on_run_start", config)
        elif event["event"] == "epoch":
            self._call("on_epoch", config, event["epoch"], event["row"])
        elif event["event"] == "done":
            self._call("on_run_end", config, read_json(self._folder.run(config) / "result.json"))
        elif event["event"] == "failed":
            self._call("on_run_end", config, {"error": event["error"]})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._call("close")

    def report(self, report: Path) -> None:
        """Send the folder of the report to all trackers."""
        self._call("on_report", report)

    def end(self, results: Results) -> None:
        """Send the results of the suite to all trackers."""
        self._call("on_suite_end", results)

    def _call(self, method: str, *arguments: Any) -> None:
        for name, tracker in self._trackers.items():
            handle = getattr(tracker, method, None)  # all methods are optional
            if handle is not None:
                self._guard(name, handle, *arguments)

    def _guard(self, name: str, action: Callable[..., Any], *arguments: Any) -> None:
        try:
            action(*arguments)
        except Exception as error:
            self._say(name, f"{type(error).__name__}: {without_breaks(error)}")
        tracker = self._trackers.get(name)
        if isinstance(tracker, ToolProcess):
            for line in tracker.take_errors():
                self._say(name, line)

    def _say(self, name: str, fault: str) -> None:
        warning = f"tracker {name}: {fault}"
        if warning not in self._warned:  # it may fail at every epoch
            self._warned.add(warning)
            self._warn(warning)
