"""Progress over runs and epochs, with an estimate of the time left. Does not import Keras."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar

from relation_tf.config.run import RunKey
from relation_tf.words import failed_in_words

if TYPE_CHECKING:
    from relation_tf.bench.run_folder import AnyRun

_PLAIN_EVERY = 10.0  # seconds between lines in a log file or notebook, which replace the bar


class Progress:
    """Shows progress: a bar in a terminal, lines elsewhere.

    Args:
        folder: The suite's folder, named in messages.
        total: Number of requested runs, finished ones included.
        pending: Requested runs that are not finished.
        diverged: Number of the other runs that have diverged.
        quiet: If True, print nothing.
    """

    def __init__(
        self, folder: Path, total: int, pending: Sequence[AnyRun], diverged: int = 0, *,
        quiet: bool = False,
    ) -> None:  # fmt: skip
        self._console = Console(quiet=quiet, highlight=False)
        self._folder, self._total = folder, total
        self._names = {run.key: str(run) for run in pending}
        self._pending = {*self._names}
        self._done = total - len(pending) - diverged
        self._failed = self._diverged = diverged
        self._alike: dict[str, list[str]] = {}  # failed runs without traceback, by reason
        self._notes: set[str] = set()
        self._trained = 0.0  # runs, or shares of runs, that this command has trained
        self._shares: dict[RunKey, tuple[float, float]] = {}  # of running ones: at first, and now
        self._began = self._last_line = time.monotonic()
        self._bar: Bar | None = None

    def __enter__(self) -> Self:
        if self._done or self._failed:
            lost = f" and {self._failed} diverged" if self._failed else ""
            again = "; diverged runs are repeated only with other settings" if self._failed else ""
            done = f"{self._done} of {self._total} runs are done"
            self.say(f"{done}{lost} already, in {self._folder}{again}")
        if self._pending:
            if self._console.is_terminal and not (self._console.is_jupyter or self._console.quiet):
                columns = TextColumn("runs"), BarColumn(), MofNCompleteColumn()
                note = TextColumn("{task.fields[note]}")
                self._bar = Bar(*columns, note, console=self._console)
                self._bar.add_task("runs", total=self._total, completed=self._done, note="")
                self._bar.start()
            self._show("starting", always=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            self.say(
                f"{self._done} of {self._total} runs are done, in {self._folder}; "
                "run the same command again to resume."
            )
        elif kind is None and self._total:
            for first, *others in filter(None, self._alike.values()):
                if others:
                    runs = "1 more run" if len(others) == 1 else f"{len(others)} more runs"
                    self.say(f"failed for the same reason as {first}: {runs}")
            minutes = (time.monotonic() - self._began) / 60
            failed = f", {failed_in_words(self._failed, self._diverged)}" if self._failed else ""
            self.say(f"{self._done} of {self._total} runs done{failed}, {minutes:.1f} min")

    def say(self, text: str) -> None:
        """Print a line."""
        if not self._console.is_jupyter:
            # Wrap between words in a terminal; a log keeps whole lines.
            self._console.print(text, markup=False, soft_wrap=not self._console.is_terminal)
        elif not self._console.quiet:
            print(text)  # rich's own output does not wrap there

    def notify(self, event: dict[str, Any]) -> None:
        """Show an event of a run, see `Group.train`."""
        name = self._names[event["run"]]
        if event["event"] == "note" and event["note"] not in self._notes:
            self._notes.add(event["note"])
            self.say(event["note"])
        elif event["event"] == "compile":
            first, method, _ = event["run"]
            self._show(f"compiling {method}" + (f" for {first}" if first != method else ""))
        elif event["event"] == "epoch":
            self._show(
                f"at {name} epoch {event['epoch']}, validation loss {event['row']['val_loss']:.4f}"
            )
        elif event["event"] == "step":
            share = event["step"] / event["steps"]
            # Steps before an interruption took no time in this command.
            self._shares[event["run"]] = self._shares.get(event["run"], (share,))[0], share
            self._show(f"at {name} step {event['step']:,} of {event['steps']:,}")
        elif event["event"] in ("done", "failed"):
            self._end(event, name)

    def _end(self, event: dict[str, Any], name: str) -> None:
        self._pending.discard(event["run"])
        first, _ = self._shares.pop(event["run"], (0.0, 0.0))
        if event["event"] == "failed":
            self._failed += 1
            self._diverged += event.get("diverged", False)
            alike = self._alike.setdefault(event["error"], [])
            if event["detail"] or not alike:
                self.say(f"failed: {name}: {event['error']}")
            if event["detail"]:
                self.say(f"        where: {self._folder / 'runs' / name / 'error.json'}")
            else:
                alike.append(name)
        else:
            self._done += 1
            self._trained += 1 - first
        self._show(f"at {name}", always=not self._pending)

    def _show(self, note: str, always: bool = False) -> None:
        now, shares = time.monotonic(), self._shares.values()
        if trained := self._trained + sum(share - first for first, share in shares):
            left = len(self._pending) - sum(share for _, share in shares)
            note = f"about {_duration((now - self._began) * left / trained)} left, {note}"
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=self._done, note=note)
        elif always or now - self._last_line >= _PLAIN_EVERY:
            self._last_line = now
            self.say(f"{self._done}/{self._total} runs, {note}")


def _duration(seconds: float) -> str:
    """Return a duration in steps of 1 s below a minute, 10 s below ten minutes, then 1 min.

    Example:
        >>> _duration(9.4), _duration(88), _duration(3725)
        ('9 s', '1 min 30 s', '1 h 2 min')
    """
    step = 1 if seconds < 60 else 10 if seconds < 600 else 60
    total = step * round(seconds / step)
    parts = {"h": total // 3600, "min": total // 60 % 60, "s": total % 60}
    return " ".join(f"{number} {unit}" for unit, number in parts.items() if number) or "0 s"
