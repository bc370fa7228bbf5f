"""Weights & Biases."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import wandb

from relation_tf.bench.trackers.tool import REPORT, Status, Tool

_EXIT_CODES = {"finished": 0, "failed": 1, "interrupted": 255}


class WandB(Tool):
    """A run per run, in the group of the suite. A run that continues has the same id."""

    def __init__(self, folder: Path, suite: str) -> None:
        super().__init__(folder, suite)
        self._continued: set[str] = set()

    def open_run(
        self, name: str, config: Mapping[str, Any], known: str | None
    ) -> tuple[wandb.Run, str]:
        """Start or resume a run."""
        run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "relation_tf"),
            group=os.environ.get("WANDB_RUN_GROUP", self.suite),
            job_type=config.get("method", REPORT),
            name=name,
            id=known or secrets.token_hex(6),
            resume="allow",
            config=dict(config),
            dir=os.environ.get("WANDB_DIR", str(self.folder)),
            reinit="create_new",  # runs are open at the same time
            # The output and the load of this process are not those of the run.
            settings=wandb.Settings(console="off", silent=True, x_disable_stats=True),
        )
        if known:
            self._continued.add(run.id)
        return run, run.id

    def log(self, run: wandb.Run, values: Mapping[str, float], epoch: int) -> None:
        """Log the values of a step."""
        run.log(dict(values), step=epoch)

    def end_run(
        self, run: wandb.Run, status: Status, values: Mapping[str, float], reason: str
    ) -> None:
        """Set the summary, and the exit code, which marks failed runs."""
        # None replaces the reason of an earlier failure.
        failed = {"error": reason or None} if reason or run.id in self._continued else {}
        run.summary.update({**values, **failed})
        run.finish(exit_code=_EXIT_CODES[status])

    def log_report(self, run: wandb.Run, report: Path) -> None:
        """Log the report as an artifact."""
        artifact = wandb.Artifact(f"{self.suite}-report", type="report")
        artifact.add_dir(str(report))
        run.log_artifact(artifact)


make = WandB
