"""MLflow."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read when it is imported

from mlflow import MlflowClient
from mlflow.entities import Metric, Param

from relation_tf.bench.trackers.tool import Status, Tool, parameters

_STATUS = {"finished": "FINISHED", "failed": "FAILED", "interrupted": "KILLED"}
_AT_ONCE = 100  # parameters that a request may have
_LONGEST = 6000  # characters of a parameter


class MLflow(Tool):
    """A run per run, in the experiment of the suite."""

    def __init__(self, folder: Path, suite: str) -> None:
        super().__init__(folder, suite)
        server = os.environ.get("MLFLOW_TRACKING_URI")
        self._client = MlflowClient(tracking_uri=server or f"sqlite:///{folder / 'mlflow.db'}")
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", suite)
        found = self._client.get_experiment_by_name(name)
        artifacts = None if server else (folder / "artifacts").as_uri()
        self._experiment = (
            found.experiment_id if found else self._client.create_experiment(name, artifacts)
        )

    def open_run(self, name: str, config: Mapping[str, Any], known: str | None) -> tuple[str, str]:
        """Create a run with its parameters, or continue it."""
        if known is not None:
            self._client.update_run(known, status="RUNNING")
            if "error" in self._client.get_run(known).data.tags:  # of an earlier failure
                self._client.delete_tag(known, "error")
            return known, known
        tags = {key: str(config[key]) for key in ("task", "method", "seed") if key in config}
        run = self._client.create_run(
            self._experiment, run_name=name, tags={"suite": self.suite, **tags}
        ).info.run_id
        values = parameters(config).items()
        params = [Param(key, str(value)[:_LONGEST]) for key, value in values]
        for start in range(0, len(params), _AT_ONCE):
            self._client.log_batch(run, params=params[start : start + _AT_ONCE])
        return run, run

    def log(self, run: str, values: Mapping[str, float], epoch: int) -> None:
        """Log metrics with the epoch as step."""
        now = time.time_ns() // 1_000_000
        metrics = [Metric(key, value, now, epoch) for key, value in values.items()]
        self._client.log_batch(run, metrics=metrics)

    def end_run(self, run: str, status: Status, values: Mapping[str, float], reason: str) -> None:
        """Log the final values and the status."""
        self.log(run, values, int(values.get("epochs", 0)))
        if reason:
            self._client.set_tag(run, "error", reason)
        self._client.set_terminated(run, _STATUS[status])

    def log_report(self, run: str, report: Path) -> None:
        """Log the report as artifacts."""
        self._client.log_artifacts(run, str(report), "report")


make = MLflow
