"""Tracker that writes a file of JSON Lines."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from relation_tf.bench.trackers.base import Tracker

if TYPE_CHECKING:
    from relation_tf.bench.results import Results
    from relation_tf.config import RunConfig


def _is_not_finite(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


class JsonLines(Tracker):
    """Tracker that appends a JSON object per event to `OUT/events.jsonl`."""

    def on_run_start(self, config: RunConfig) -> None:
        """Append the configuration."""
        self._append("run_start", config, {"config": config.model_dump(mode="json")})

    def on_epoch(self, config: RunConfig, epoch: int, row: Mapping[str, float]) -> None:
        """Append the epoch's row."""
        self._append("epoch", config, {**row, "epoch": epoch})

    def on_run_end(self, config: RunConfig, result: Mapping[str, Any]) -> None:
        """Append the result."""
        self._append("run_end", config, result)

    def on_suite_end(self, results: Results) -> None:
        """Append the number of finished and failed runs."""
        ended = {"runs": len(results.runs), "failed": len(results.failures)}
        self._append("suite_end", None, ended)

    def _append(self, event: str, config: RunConfig | None, values: Mapping[str, Any]) -> None:
        run = zip(("task", "method", "seed"), config.key, strict=True) if config else ()
        # JSON has no NaN: a loss that is not finite is null.
        known = {name: None if _is_not_finite(value) else value for name, value in values.items()}
        line = {"event": event, **dict(run), **known}
        with (self.folder / "events.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False, default=float) + "\n")
