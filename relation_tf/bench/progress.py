"""Progress over runs and epochs, with an estimate of the time left. Does not import Keras."""

from __future__ import annotations

import html
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bars

from relation_tf.config.run import RunKey
from relation_tf.words import failed_in_words

if TYPE_CHECKING:
    from relation_tf.bench.run_folder import AnyRun

_PLAIN_EVERY = 5.0  # seconds between plain lines, which replace the bar in a log file
_UPDATE_EVERY = 0.1  # seconds between updates of a notebook's bar


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
        """Read an event of a run, see `Group.train`; pre-training also sends `"step"`."""
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


class _TerminalBar:
    def __init__(self, console: Console, total: int, completed: int) -> None:
        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            console=console,
        )
        self._bar = self._bars.add_task("runs", total=total, completed=completed, note="")
        self._bars.start()

    def update(self, completed: int, note: str) -> None:
        self._bars.update(self._bar, completed=completed, note=note)

    def stop(self) -> None:
        self._bars.stop()


class _NotebookBar:
    """A bar in one output that the notebook updates; rich's bar needs ipywidgets."""

    def __init__(self, total: int, completed: int) -> None:
        from IPython.display import display

        self._total, self._completed, self._note = total, completed, ""
        self._handle: Any = display(self, display_id=True)
        self._last = time.monotonic()

    def update(self, completed: int, note: str) -> None:
        self._completed, self._note = completed, note
        if time.monotonic() - self._last >= _UPDATE_EVERY:
            self._show()

    def stop(self) -> None:
        self._note = ""
        self._show()

    def _show(self) -> None:
        self._handle.update(self)
        self._last = time.monotonic()

    def __repr__(self) -> str:
        return f"{self._completed}/{self._total} runs {self._note}".rstrip()

    def _repr_html_(self) -> str:
        bar = f'<progress value="{self._completed}" max="{self._total}"></progress>'
        return f"{bar} {html.escape(repr(self))}"


_Bar = _TerminalBar | _NotebookBar


def _start_bar(console: Console, total: int, completed: int) -> _Bar | None:
    """Start a bar in a terminal or notebook; None elsewhere."""
    if console.quiet:
        return None
    if console.is_jupyter:
        return _NotebookBar(total, completed)
    return _TerminalBar(console, total, completed) if console.is_terminal else None


class Progress:
    """Shows progress: a bar in a terminal or notebook, plain lines elsewhere.

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
        self._done = self._done_before = total - len(pending) - diverged
        self._failed = self._diverged = diverged
        self._alike: dict[str, list[str]] = {}  # failed runs without traceback, by reason
        self._notes: set[str] = set()
        self._time_left = TimeLeft()
        self._began = self._last_line = time.monotonic()
        self._bar: _Bar | None = None

    def __enter__(self) -> Self:
        if self._done or self._failed:
            lost = f" and {self._failed} diverged" if self._failed else ""
            again = "; diverged runs are repeated only with other settings" if self._failed else ""
            done = f"{self._done} of {self._total} runs are done"
            self.say(f"{done}{lost} already, in {self._folder}{again}")
        if self._pending:
            self._bar = _start_bar(self._console, self._total, self._done)
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
            now = self._done - self._done_before
            rate = f", {60 * now / minutes:,.0f} runs an hour" if now else ""
            self.say(f"{self._done} of {self._total} runs done{failed}, {minutes:.1f} min{rate}")

    def say(self, text: str) -> None:
        """Print a line."""
        if not self._console.is_jupyter:
            # Wrap between words in a terminal; a log keeps whole lines.
            self._console.print(text, markup=False, soft_wrap=not self._console.is_terminal)
        elif not self._console.quiet:
            print(text)  # rich's own output does not wrap there

    def notify(self, event: dict[str, Any]) -> None:
        """Show an event of a run, see `Group.train`."""
        self._time_left.notify(event)
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
            self._show(f"at {name} step {event['step']:,} of {event['steps']:,}")
        elif event["event"] in ("done", "failed"):
            self._end(event, name)

    def _end(self, event: dict[str, Any], name: str) -> None:
        self._pending.discard(event["run"])
        if event["event"] == "failed":
            self._failed += 1
            self._diverged += event.get("diverged", False)
            alike = self._alike.setdefault(event["error"], [])
            if event["detail"] or not alike:
                self.say(f"failed: {name}: {event['error']}")
            if not event["detail"]:
                alike.append(name)
            if event["detail"]:
                self.say(f"        where: {self._folder / 'runs' / name / 'error.json'}")
        else:
            self._done += 1
        self._show(f"at {name}", always=not self._pending)

    def _show(self, note: str, always: bool = False) -> None:
        seconds = self._time_left.estimate(self._pending)
        left = "" if seconds is None else f"about {_duration(seconds)} left, "
        if self._bar is not None:
            self._bar.update(self._done, f"{left}{note}")
        elif always or time.monotonic() - self._last_line >= _PLAIN_EVERY:
            self._last_line = time.monotonic()
            self.say(f"{self._done}/{self._total} runs, {left}{note}")


def _duration(seconds: float) -> str:
    """Return a duration in steps of 1 s below a minute, 10 s below ten minutes, then 1 min.

    Example:
        >>> _duration(9.4), _duration(88), _duration(3725)
        ('9 s', '1 min 30 s', '1 h 2 min')
    """
    seconds = max(seconds, 0)
    step = 1 if seconds < 60 else 10 if seconds < 600 else 60
    total = step * round(seconds / step)
    parts = {"h": total // 3600, "min": total // 60 % 60, "s": total % 60}
    return " ".join(f"{number} {unit}" for unit, number in parts.items() if number) or "0 s"
