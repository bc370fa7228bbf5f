"""Trackers: objects that receive the progress of runs, chosen by `--track NAME`.

A tracker runs in the process of the command, also on a cluster. It cannot change results: if one of
its methods fails, a warning is printed and the runs continue.

    from relation_tf.bench.trackers import Tracker
    from relation_tf.registry import register_tracker

    @register_tracker("print")
    class Print(Tracker):
        def on_epoch(self, config, epoch, row):
            print(config, epoch, row["val_loss"])
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from relation_tf.bench.results import Results
from relation_tf.bench.run_folder import RunFolder
from relation_tf.config import RunConfig
from relation_tf.files import read_json
from relation_tf.registry import TRACKERS, register_tracker


class Tracker:
    """Base class of trackers; subclasses override the methods that they need.

    Args:
        folder: The suite's folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def on_run_start(self, config: RunConfig) -> None:
        """Receive the configuration of a run that starts or resumes."""

    def on_epoch(self, config: RunConfig, epoch: int, row: Mapping[str, float]) -> None:
        """Receive the history row of an epoch: `loss`, `val_loss` and the validation metrics.

        On a cluster, at most two epochs per second arrive.
        """

    def on_run_end(self, config: RunConfig, result: Mapping[str, Any]) -> None:
        """Receive the content of `result.json`, or `{"error": reason}` of a run that failed."""

    def on_suite_end(self, results: Results) -> None:
        """Receive the results of all finished runs."""


@register_tracker("jsonl")
class JsonLines(Tracker):
    """Tracker that appends a JSON object per event to `OUT/events.jsonl`."""

    def on_run_start(self, config: RunConfig) -> None:
        """Append the configuration."""
        self._append("run_start", config, {"config": config.model_dump(mode="json")})

    def on_epoch(self, config: RunConfig, epoch: int, row: Mapping[str, float]) -> None:
        """Append the epoch's row."""
        self._append("epoch", config, {"epoch": epoch, **row})

    def on_run_end(self, config: RunConfig, result: Mapping[str, Any]) -> None:
        """Append the result."""
        self._append("run_end", config, result)

    def on_suite_end(self, results: Results) -> None:
        """Append the number of finished and failed runs."""
        ended = {"runs": len(results.runs), "failed": len(results.failures)}
        self._append("suite_end", None, ended)

    def _append(self, event: str, config: RunConfig | None, values: Mapping[str, Any]) -> None:
        run = zip(("task", "method", "seed"), config.key, strict=True) if config else ()
        line = {"event": event, **dict(run), **values}
        with (self.folder / "events.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False, default=float) + "\n")


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
            warning = f"tracker {name}: {type(error).__name__}: {error}"
            if warning not in self._warned:  # it may fail at every epoch
                self._warned.add(warning)
                self._warn(warning)
