"""Estimate of the time left from the events of runs. Does not import Keras."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from relation_tf.config.run import RunKey


@dataclass
class _Clock:
    """Times a run.

    Attributes:
        began: When the timing began, as `time.monotonic`.
        first: Share of the run that was done then.
        share: Share that is done now; None if the run reports no steps.
    """

    began: float
    first: float = 0.0
    share: float | None = None


class TimeLeft:
    """Estimates the time left from the runs' own times."""

    def __init__(self) -> None:
        self._clocks: dict[RunKey, _Clock] = {}  # of the running runs
        # Finished shares of runs and their seconds, by task or mechanism.
        self._spent: dict[str, tuple[float, float]] = {}
        self._parallel = 1  # most runs at a time

    def notify(self, event: dict[str, Any]) -> None:
        """Read an event of a run, see `RunGroup.train`; pre-training also sends `"step"`."""
        run, kind, now = event["run"], event["event"], time.monotonic()
        if kind == "start":
            self._clocks[run] = _Clock(now)
        elif kind == "compile" and not self._spent:  # the first runs also load packages and data
            self._clocks.pop(run, None)
        elif kind == "epoch" and run not in self._clocks:
            row = event["row"]
            seconds = row.get("seconds", 0.0) + row.get("evaluation_seconds", 0.0)
            self._clocks[run] = _Clock(now - seconds)
        elif kind == "step":
            share = event["step"] / event["steps"]
            if run not in self._clocks or self._clocks[run].share is None:
                # Steps before an interruption took no time in this process.
                self._clocks[run] = _Clock(now, first=share)
            self._clocks[run].share = share
        elif kind in ("done", "failed"):
            ended = self._clocks.pop(run, None)
            if ended is not None and kind == "done":
                _add(self._spent, run, 1 - ended.first, now - ended.began)
        self._parallel = max(self._parallel, len(self._clocks))

    def estimate(self, pending: Collection[RunKey]) -> float | None:
        """Return the seconds left, from the mean of runs of the same task, or of all tasks.

        None if no time is known, such as before the first run ends.
        """
        now, spent = time.monotonic(), {**self._spent}
        for run, timed in self._clocks.items():
            if timed.share is not None:
                _add(spent, run, timed.share - timed.first, now - timed.began)
        shares, seconds = (sum(own[place] for own in spent.values()) for place in (0, 1))
        if not shares or not pending:  # also runs of one step, whose time is not known
            return None
        pace = {kind: took / done for kind, (done, took) in spent.items() if done}
        left = []
        for run in pending:
            usual = pace.get(run[0], seconds / shares)
            clock = self._clocks.get(run)
            if clock is None:
                left.append(usual)
            elif clock.share is None:
                left.append(max(0.0, usual - (now - clock.began)))
            else:
                left.append(usual * (1 - clock.share))
        return max(*left, sum(left) / self._parallel)


def _add(spent: dict[str, tuple[float, float]], run: RunKey, share: float, seconds: float) -> None:
    """Add the share of a run and its seconds to those of its task or mechanism."""
    shares, before = spent.get(run[0], (0.0, 0.0))
    spent[run[0]] = shares + share, before + seconds
