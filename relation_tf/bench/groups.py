"""Groups of runs: what an executor starts, and how several processes share the runs of a folder."""

from __future__ import annotations

import errno
import sys
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import relation_tf
from relation_tf.bench.options import RunOptions
from relation_tf.bench.run_folder import ERROR, RunFolder, unwritable, writing
from relation_tf.config.run import RunConfig, RunKey
from relation_tf.config.suite import Suite
from relation_tf.config.user_code import load_plugins
from relation_tf.errors import DivergedError, RelationError, one_line
from relation_tf.files import write_json
from relation_tf.quiet import stderr_to
from relation_tf.training.session import LOG
from relation_tf.words import count

if TYPE_CHECKING:
    from relation_tf.bench.progress import Progress
    from relation_tf.bench.run_folder import AnyRun

_LOOK_EVERY = 1.0  # seconds between two looks at the runs of other processes
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)

EventCallback = Callable[[dict[str, Any]], None]
TrainRun = Callable[[Any, Path], None]
"""Trains a run in its folder, which contains its configuration."""


@dataclass(frozen=True)
class Group(ABC):
    """Runs that are trained one after the other.

    Attributes:
        runs: The runs.
        folder: The folder of all runs.
        began: Start of the command, see `RunFolder`.
    """

    runs: Sequence[Any]
    folder: Path
    began: float = field(default_factory=time.time, kw_only=True)

    @abstractmethod
    def prepare(self, notify: EventCallback) -> TrainRun:
        """Return the function that trains a run, in the process that trains them."""

    def train(self, notify: EventCallback) -> None:
        """Train the runs; TensorFlow's output goes to `tensorflow.log`.

        A failed run writes `error.json`; the other runs continue.

        Args:
            notify: Called with each event: `{"event": "start" | "compile" | "note" | "epoch" |
                "step" | "done" | "failed" | "locked", "run": key, ...}`. A run that another process
                trains is locked.

        Raises:
            SuiteError: If no run can be written.
            BrokenPipeError: If the output was closed, such as by `head`; the run is not a failed
                one.
        """
        folder = RunFolder(self.folder, self.began)
        with stderr_to(self.folder / LOG):
            train_run = self.prepare(notify)
            for run in self.runs:
                with claimed(run, folder, notify) as is_ours:
                    if is_ours:
                        notify({"event": "start", "run": run.key})
                        _train_or_fail(run, folder, train_run, notify)


@dataclass(frozen=True)
class RunGroup(Group):
    """Runs of one task and one method of a suite, which share a compiled network.

    Attributes:
        options: Options of the run.
        save_models: If True, keep the model of each run.
    """

    runs: Sequence[RunConfig]
    options: RunOptions = field(default_factory=RunOptions)
    save_models: bool = False

    def prepare(self, notify: EventCallback) -> TrainRun:
        """Import the plugins of the runs, see `Group`."""
        from relation_tf.bench.train import train_run

        load_plugins(self.runs[0].plugins)
        return partial(train_run, group=self, compiled=[], notify=notify)


def group_runs(suite: Suite, pending: Sequence[RunConfig], jobs: int) -> list[list[RunConfig]]:
    """Group runs by task and method; split large groups if there are fewer groups than jobs.

    For timed tasks, all methods of a seed come before the next seed, so that other load on the
    machine slows all methods equally. If seeds vary the split, the runs of a group have one seed,
    because a group reads its data once.

    Args:
        suite: The suite.
        pending: Runs of the suite.
        jobs: Number of groups at the same time.

    Example:
        >>> from relation_tf.config import load_suite
        >>> suite = load_suite("demo", {"tasks": ["RTE"]})
        >>> [len(runs) for runs in group_runs(suite, suite.runs(), jobs=6)]
        [3, 2, 3, 2, 5, 5]
    """
    by_seed = "split" in suite.vary
    if suite.timed or by_seed:
        tasks = [*dict.fromkeys(run.task for run in pending)]
        pending = sorted(pending, key=lambda run: (tasks.index(run.task), run.seed))
    keyed = groupby(pending, key=lambda run: (run.task, run.method, run.seed if by_seed else None))
    groups = [[*runs] for _, runs in keyed]
    while 0 < len(groups) < min(jobs, len(pending)):
        largest = max(groups, key=len)
        place, half = groups.index(largest), -(-len(largest) // 2)
        groups[place : place + 1] = [largest[:half], largest[half:]]
    return groups


def train_shared(
    pending: Sequence[Any],
    folder: RunFolder,
    progress: Progress,
    execute: Callable[[Sequence[Any], EventCallback], None],
) -> None:
    """Train runs until each has ended, here or in another process that uses the same folder.

    Args:
        pending: The runs.
        folder: Their folder.
        progress: Notified of the events of all runs.
        execute: Trains runs that no process has locked; gets a callback for events.
    """
    left, is_waiting = [*pending], False
    locked: set[RunKey] = set()

    def notify(event: dict[str, Any]) -> None:
        if event["event"] == "locked":
            locked.add(event["run"])
        else:
            progress.notify(event)

    while left:
        locked.clear()
        free = []
        for run in left:
            with claimed(run, folder, notify) as is_ours:
                free += [run] if is_ours else []
        if free:
            execute(free, notify)
        elif locked:
            time.sleep(_LOOK_EVERY)
        left = [run for run in left if run.key in locked]
        if left and not is_waiting:
            runs = count(len(left), "run")
            progress.say(f"{runs} in training by other processes: waiting for the end")
            is_waiting = True


@contextmanager
def claimed(run: AnyRun, folder: RunFolder, notify: EventCallback) -> Iterator[bool]:
    """Lock a run; yield False, after an event, if another process trains or has trained it.

    A run that has failed since the start of this command is not tried again.

    Raises:
        SuiteError: If another process has trained it with another configuration.
    """
    with folder.locked(run) as free:
        event: dict[str, Any] = {}
        if not free:
            event = {"event": "locked"}
        elif folder.has_result(run):
            folder.check_configuration(run)
            event = {"event": "done"}
        elif error := folder.new_error(run):
            event = {"event": "failed", **error, "detail": bool(error.get("traceback"))}
        if event:
            notify({**event, "run": run.key})
        yield not event


def _train_or_fail(
    run: AnyRun, folder: RunFolder, train_run: TrainRun, notify: EventCallback
) -> None:
    path, diverged = folder.run(run), False
    try:
        folder.start(run)
        train_run(run, path)
    except BrokenPipeError:
        raise
    except RelationError as error:
        reason, detail, diverged = str(error), "", isinstance(error, DivergedError)
    except Exception as error:
        written = (path / "config.json").exists()
        if isinstance(error, OSError) and (error.errno in _NO_ROOM or not written):
            raise unwritable(path, error) from error  # no other run could be written either
        reason, detail = f"{one_line(error)}{_place(error)}", traceback.format_exc()
    else:
        notify({"event": "done", "run": run.key})
        return
    fail(folder, run, reason, notify, detail, diverged)


def _place(error: Exception) -> str:
    """Return the last line of the user's code that an error passed; empty without any."""
    package = str(Path(relation_tf.__file__).parent)
    installed = (sys.prefix, sys.base_prefix, package, "<frozen", "<string", "<__array")
    frames = traceback.extract_tb(error.__traceback__)
    users = [frame for frame in frames if not frame.filename.startswith(installed)]
    return (
        f" ({Path(users[-1].filename).name}:{users[-1].lineno}: {users[-1].line})" if users else ""
    )


def fail(
    folder: RunFolder, run: AnyRun, reason: str, notify: EventCallback, detail: str = "",
    diverged: bool = False,
) -> None:  # fmt: skip
    """Write `error.json` of a failed run and send the event.

    Raises:
        SuiteError: If the file cannot be written.
    """
    path = folder.run(run)
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)
        write_json(path / ERROR, {"error": reason, "traceback": detail, "diverged": diverged})
    event = {"event": "failed", "error": reason, "detail": bool(detail), "diverged": diverged}
    notify({**event, "run": run.key})
