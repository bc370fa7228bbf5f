"""Trackio."""

from __future__ import annotations

import contextvars
import functools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from relation_tf.bench.trackers.tool import REPORT, Status, Tool


class Trackio(Tool):
    """A run per run, in the project of the suite."""

    def __init__(self, folder: Path, suite: str) -> None:
        super().__init__(folder, suite)
        os.environ.setdefault("TRACKIO_DIR", str(folder))  # read when it is imported

    def open_run(self, name: str, config: Mapping[str, Any], known: str | None) -> tuple[Any, str]:
        """Start a run, or resume the last one of this name."""
        import trackio

        start = functools.partial(
            trackio.init,
            project=self.suite,
            name=name,
            group=config.get("method", REPORT),
            config=dict(config),
            resume="never" if known is None else "must",
            embed=False,
            # The load of this process is not that of the run.
            auto_log_gpu=False,
            auto_log_cpu=False,
        )
        # In its own context, because a new run ends the current one of its context.
        run = contextvars.copy_context().run(start)
        return run, run.id

    def log(self, run: Any, values: Mapping[str, float], epoch: int) -> None:
        """Log the values of a step."""
        run.log(dict(values), step=epoch)

    def end_run(self, run: Any, status: Status, values: Mapping[str, float], reason: str) -> None:
        """Log the final values at the last epoch, or an alert: runs have no status."""
        import trackio

        if values:
            run.log(dict(values), step=int(values.get("epochs", 0)))
        if status != "finished":
            run.alert(status, reason, level=trackio.AlertLevel.ERROR)
        run.finish()

    def log_report(self, run: Any, report: Path) -> None:
        """Log the report as an artifact."""
        run.log_artifact(report, name="report", type="report")


make = Trackio
