"""Groups of runs and worker processes.

The process of a command never imports TensorFlow to train. A worker is a Python process that calls
functions of this package, one after the other, and sends events and results back. If it dies or
hangs, only its run is lost. `call` calls one function in a worker. Several processes, also of other
machines, can train the runs of a folder: each locks the runs that it trains, see `train_shared`.
"""

from __future__ import annotations

import errno
import functools
import io
import json
import linecache
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import types
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, BinaryIO

import cloudpickle  # type: ignore[import-untyped]

import relation_tf
from relation_tf import registry
from relation_tf.bench.options import RunOptions
from relation_tf.bench.run_folder import ERROR, RunFolder, unwritable, writing
from relation_tf.config.run import RunConfig, RunKey
from relation_tf.config.suite import Suite
from relation_tf.config.user_code import load_plugins
from relation_tf.errors import DivergedError, RelationError, SuiteError, one_line
from relation_tf.files import write_json
from relation_tf.registry import Registry
from relation_tf.settings import Function
from relation_tf.system import kill_group
from relation_tf.terminal import loading_quietly, stderr_to
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


_TRIES = 2  # of a run whose worker died
_STARTS = 5  # of workers that died before they began their run

Event = dict[str, Any]


def call(
    function: Callable[..., Any],
    *arguments: Any,
    runs: Iterable[AnyRun] = (),
    notify: Callable[[Any], None] | None = None,
) -> Any:
    """Call a function of this package in a worker process, and return its result.

    The process waits for the next call or group, until the end of the command, see `ends_workers`.

    Args:
        function: The function.
        *arguments: Its arguments.
        runs: The runs that it uses, whose custom layers are sent.
        notify: Called with what the function passes to its last argument, a callback; None for a
            function without one.

    Raises:
        RelationError: The error of the function.
        WorkerEndedError: If the process ended.
    """
    arrived = threading.Event()
    worker = Worker.idle_or_new(arrived)
    try:
        worker.send(Call(function, arguments, [*runs], notify is not None))
        while True:
            arrived.wait()
            arrived.clear()
            for event in worker.received():
                if isinstance(event, Returned):
                    _idle.append(worker)
                    return event.result()
                if notify is not None:
                    notify(event)
            if worker.ended is not None:
                raise WorkerEndedError(f"a worker {worker.ended.removeprefix('its ')}")
    except BaseException:  # also Ctrl-C
        if worker not in _idle:
            worker.kill()
        raise


def ends_workers(function: Function) -> Function:
    """Wrap a function of a command: at its end, the worker processes end that `call` has left."""

    @functools.wraps(function)
    def command(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        finally:
            while _idle:
                _idle.pop().kill()

    return command  # type: ignore[return-value]


class WorkerEndedError(SuiteError):
    """A worker process ended before its function returned."""


def run_locally(groups: Sequence[Group], notify: EventCallback, jobs: int = 1) -> None:
    """Train groups in worker processes of this machine.

    If a worker dies (killed, out of memory), its run is tried a second time and then counts as
    failed. The other runs of its group continue in another worker. A worker that dies before it
    begins the run is replaced up to four times.

    Args:
        groups: The groups, in the order in which they start.
        notify: Called with each event, see `Group.train`.
        jobs: Number of processes.

    Raises:
        SuiteError: If a folder cannot be written.
    """
    waiting, arrived = deque(groups), threading.Event()
    tries: Counter[tuple[RunKey, bool]] = Counter()
    workers: list[Worker] = []
    try:
        _hire(workers, min(jobs, len(waiting)), arrived)
        while workers:
            for worker in workers:
                if worker.group is None and waiting:
                    worker.start(waiting.popleft())
            arrived.wait()
            arrived.clear()
            for worker in workers[:]:
                for event in worker.events():
                    notify(event)
                if worker.ended is not None:
                    worker.kill()
                    workers.remove(worker)
                    waiting.extendleft(_remaining(worker, tries, notify))
            busy = sum(worker.group is not None for worker in workers)
            _hire(workers, min(jobs, busy + len(waiting)), arrived)
    finally:
        for worker in workers:
            worker.kill()


def _hire(workers: list[Worker], number: int, arrived: threading.Event) -> None:
    """Make workers, or end idle ones, to reach the number."""
    idle = [worker for worker in workers if worker.group is None]
    for worker in idle[: max(0, len(workers) - number)]:
        worker.kill()
        workers.remove(worker)
    while len(workers) < number:
        workers.append(Worker.idle_or_new(arrived))


def _remaining(
    worker: Worker, tries: Counter[tuple[RunKey, bool]], notify: EventCallback
) -> list[Group]:
    """Return the unfinished runs of a worker that ended, as one group or none.

    Args:
        worker: The worker.
        tries: How often a worker of a run ended, after and before the start of the run.
        notify: Called with the event of a run that is not tried again.
    """
    if worker.group is None:
        return []
    left, folder = worker.left, RunFolder(worker.group.folder)
    if left and folder.has_result(left[0]):  # finished but not reported
        notify({"event": "done", "run": left[0].key})
        left = left[1:]
    elif left:
        run = left[0]
        most = _TRIES if worker.is_running else _STARTS
        tries[run.key, worker.is_running] += 1
        if tries[run.key, worker.is_running] == most:
            with folder.locked(run) as free:  # else another process has started it again
                if free:
                    fail(folder, run, f"{worker.ended}, {most} times", notify)
                else:
                    notify({"event": "locked", "run": run.key})
            left = left[1:]
    return [replace(worker.group, runs=left)] if left else []


@dataclass(frozen=True)
class Call:
    """A function to call in another process.

    Attributes:
        function: The function.
        arguments: Its arguments.
        runs: The runs that it uses.
        reports: If True, its last argument is a callback for events.
    """

    function: Callable[..., Any]
    arguments: Sequence[Any]
    runs: Sequence[AnyRun]
    reports: bool

    def pack(self) -> bytes:
        """Return the call with what the other process needs of this one.

        Modules that have registered parts are imported there. Layers and callbacks of a script or
        notebook are sent, with the source of notebook cells for tracebacks.

        Raises:
            SuiteError: If a custom part cannot be sent.
        """
        used = {name for run in self.runs for name in run.user_parts}
        names = {name.split(":")[1].split(".")[0] for name in used if name.startswith("__main__:")}
        main = {name: part for name, part in vars(sys.modules["__main__"]).items() if name in names}
        modules, registered = set(), []
        for place, registry_of_parts in _registries().items():
            for name, origin in registry_of_parts.of_user().items():
                if origin in ("", "__main__"):
                    registered.append((place, name, registry_of_parts[name]))
                else:
                    modules.add(origin)
        cells = {
            name: source
            for name, source in linecache.cache.items()
            if len(source) == 4 and source[1] is None  # of no file
        }
        packed = io.BytesIO()
        try:
            _Pickler(packed).dump((self, sorted(modules), main, registered, cells, _of_keras()))
            return packed.getvalue()
        except Exception as error:  # of any object that a custom part refers to
            raise SuiteError(
                f"a custom part cannot be sent to the worker process: {one_line(error)}. Move it "
                "to a module"
            ) from error

    def answer(self, send: Callable[[Any], None]) -> None:
        """Call the function; send its events and, at last, its result or error."""
        try:
            result = self.function(*self.arguments, *([send] if self.reports else []))
        except RelationError as error:
            send(Returned(error=error))
        except Exception as error:  # of a plugin, for example
            send(Returned(error=RuntimeError(f"{one_line(error)}\n\n{traceback.format_exc()}")))
        else:
            send(Returned(result))


def _of_keras() -> dict[str, Any]:
    """Return what this script or notebook has registered with Keras, which loads models by it."""
    keras = sys.modules.get("keras")
    parts = keras.saving.get_custom_objects() if keras else {}
    return {
        name: part
        for name, part in parts.items()
        if getattr(part, "__module__", None) == "__main__"
    }


class _Pickler(cloudpickle.Pickler):
    """Keeps the names of the files of code, for tracebacks; cloudpickle 3.1 replaces them."""

    def reducer_override(self, obj: Any) -> Any:
        if not isinstance(obj, types.CodeType):
            return super().reducer_override(obj)
        make, arguments = self.dispatch_table[types.CodeType](obj)
        named = (
            obj.co_filename if argument == "<dynamic-code>" else argument for argument in arguments
        )
        return make, tuple(named)


def answer(packed: bytes, send: Callable[[Any], None]) -> None:
    """Answer a call of another process in this one."""
    try:
        with loading_quietly():
            called, modules, main, registered, cells, serializable = pickle.loads(packed)
        load_plugins(modules)
        vars(sys.modules["__main__"]).update(main)
        linecache.cache.update(cells)
        for place, name, entry in registered:
            _registries()[place].add(name, entry, "__main__")
        if serializable:
            import keras

            for registered_name, part in serializable.items():
                package, _, name = registered_name.rpartition(">")
                keras.saving.register_keras_serializable(package or "Custom", name)(part)
    except RelationError as error:
        send(Returned(error=error))
    except Exception as error:  # of a module that this process cannot import, for example
        what = "a custom part cannot be loaded in a worker process"
        send(Returned(error=SuiteError(f"{what}: {one_line(error)}")))
    else:
        called.answer(send)


@dataclass(frozen=True)
class Returned:
    """The end of a call: what the function returned, or its error."""

    value: Any = None
    error: Exception | None = None

    def result(self) -> Any:
        """Return the value, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.value


def _registries() -> dict[str, Registry[Any]]:
    """Return the registries of parts that shape runs, by name."""
    parts = vars(registry).items()
    return {name: part for name, part in parts if isinstance(part, Registry) and part.shapes_runs}


# Not `python -m`: `__main__` stays empty, for the parts of the user's script. -P: no file of the
# current folder replaces a module of this package or its dependencies.
_PROGRAM = (
    "import json, sys; path, sys.path[:0] = json.loads(sys.argv[1]), sys.argv[2:3]; "
    "sys.argv[:] = sys.argv[3:]; from relation_tf.bench.workers import serve; "
    "sys.path[:] = path; serve()"
)


class Worker:
    """A process that trains groups, one after the other, and reports events.

    Attributes:
        group: The current group.
        left: Unfinished runs of the group; the first one is the next or running one.
        is_running: If True, the first one has started.
        ended: Reason if the process ended unexpectedly, else None.

    Args:
        arrived: Set when the process sends or ends.
    """

    def __init__(self, arrived: threading.Event) -> None:
        self.group: Group | None = None
        self.left: list[AnyRun] = []
        self.is_running = False
        self.ended: str | None = None
        self.arrived = arrived
        self._events: deque[Any] = deque()
        root = str(Path(relation_tf.__file__).parents[1])
        arguments = [json.dumps([*map(str, sys.path)]), root, *sys.argv]
        # Killed processes leave theirs.
        self._temporary = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self._fault = ""
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if sys.__stderr__ is None else None,  # closed
            # Otherwise the first worker reserves nearly all memory of the GPU that workers share.
            env={"TF_FORCE_GPU_ALLOW_GROWTH": "true", **os.environ, "TMPDIR": self._temporary.name},
            start_new_session=True,  # a terminal sends Ctrl-C to this process only
        )
        threading.Thread(target=self._read, daemon=True).start()
        threading.Thread(target=self._end_children, daemon=True).start()

    @classmethod
    def idle_or_new(cls, arrived: threading.Event) -> Worker:
        """Return a process that `call` has left and that has not ended, or start one."""
        while _idle:
            worker = _idle.pop()
            worker.arrived = arrived
            if worker._process.poll() is None:
                return worker
            worker.kill()
        return cls(arrived)

    def start(self, group: Group) -> None:
        """Start a group."""
        self.send(Call(type(group).train, [group], group.runs, reports=True))
        self.group, self.left, self.is_running = group, list(group.runs), False

    def events(self) -> Iterator[Event]:
        """Yield new events; after the last one `group` is None.

        Raises:
            SuiteError: If no run can be written.
        """
        for event in self.received() if self.group is not None else ():
            if isinstance(event, Returned):
                self.group = None
                event.result()
                return
            if event["event"] in ("start", "done", "failed", "locked"):
                self.is_running = event["event"] == "start"
                self.left = self.left[0 if self.is_running else 1 :]
            yield event

    def send(self, call: Call) -> None:
        """Send a call to the process.

        Raises:
            SuiteError: If a custom part cannot be sent.
        """
        packed = call.pack()
        assert self._process.stdin is not None
        with suppress(OSError):  # it has ended: `received` reports that
            pickle.dump(packed, self._process.stdin)
            self._process.stdin.flush()
        self.arrived.set()  # of a process that ended before, nobody else sets this one

    def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            with self._process.stdout as answers, suppress(EOFError):
                while True:
                    self._events.append(pickle.load(answers))
                    self.arrived.set()
        except Exception as error:  # of a class that this process cannot import, for example
            self._fault = one_line(error)
            self._process.kill()
        finally:
            self._events.append(None)
            self.arrived.set()

    def _end_children(self) -> None:
        """Kill the processes that the worker has started, when it ends."""
        self._process.wait()
        kill_group(self._process.pid)

    def received(self) -> Iterator[Any]:
        """Yield new events, at last a `Returned`; set `ended` if the process ended."""
        while self._events:
            event = self._events.popleft()
            if event is None:
                self.ended = f"its process {self._how_it_ended()}"
            elif isinstance(event, _Text):
                print(event.text, end="")  # of a custom layer, for its author
            else:
                yield event

    def _how_it_ended(self) -> str:
        code = self._process.wait()
        if self._fault:
            return f"sent an answer that cannot be read: {self._fault}"
        if code >= 0:
            return f"ended with exit code {code}"
        name = signal.Signals(-code).name
        return f"was ended by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")

    def kill(self) -> None:
        """Kill the process; its run can be resumed."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        with suppress(OSError):  # a part of a call that it has not read
            self._process.stdin.close()
        self._temporary.cleanup()


_idle: list[Worker] = []


def serve() -> None:
    """Answer the calls of the parent process until it ends; it ends its workers on Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What others read from stdin or write to stdout must not mix with calls and answers.
    received, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    calls: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_read_calls, args=(received, calls), daemon=True).start()
    lock = threading.Lock()

    def send(event: Any) -> None:
        packed = _dumps(event)
        try:
            with lock:
                answers.write(packed)
                answers.flush()
        except BrokenPipeError:  # the parent has ended
            os._exit(1)

    sys.stdout = _Printed(send)
    while True:
        answer(calls.get(), send)


def _dumps(event: Any) -> bytes:
    """Pickle an event; of a result or error that cannot be sent, only its text."""
    try:
        return pickle.dumps(event)
    except Exception as error:  # of any object that a custom part returns
        if not isinstance(event, Returned):
            raise
        kind = SuiteError if isinstance(event.error, RelationError) else RuntimeError
        return pickle.dumps(Returned(error=kind(one_line(event.error or error))))


def _read_calls(received: BinaryIO, calls: SimpleQueue[bytes]) -> None:
    """Queue calls; at the end of the parent, end this process, which may be in a training."""
    with suppress(EOFError, OSError, pickle.UnpicklingError):
        while True:
            calls.put(pickle.load(received))
    os._exit(1)


@dataclass(frozen=True)
class _Text:
    """Text that a worker prints."""

    text: str


class _Printed(io.TextIOBase):
    """Standard output of a worker: the parent prints it."""

    def __init__(self, send: Callable[[Any], None]) -> None:
        super().__init__()
        self._send = send

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self._send(_Text(text))
        return len(text)
