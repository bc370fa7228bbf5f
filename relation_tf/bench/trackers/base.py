"""Base class of trackers. Does not import Keras."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relation_tf.bench.results import Results
    from relation_tf.config import RunConfig


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

    def on_report(self, report: Path) -> None:
        """Receive the folder of the report, which the command writes after all runs.

        The instance is not the one that received the runs.
        """

    def close(self) -> None:
        """End tracking: after the last run, after an interruption and after the report."""
