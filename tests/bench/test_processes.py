"""Workers that die, take too long or never start."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import pytest

from relation_tf.bench import processes, run_suite
from relation_tf.bench.groups import RunGroup
from relation_tf.bench.processes import End, Worker, first_error, run_in_workers

ROOT = Path(__file__).resolve().parents[2]


PARENT = """
import json
import sys
from pathlib import Path

from relation_tf.bench.processes import _Process
from relation_tf.config.run import RunConfig

if __name__ == "__main__":
    _Process().check([RunConfig.model_validate(json.loads(sys.argv[1]))], Path.cwd())
"""


def test_a_worker_ends_with_its_parent(tmp_path, suite):
    """It would train on, into a folder that the next command takes."""
    (tmp_path / "busy.py").write_text(
        'import time\nprint("busy", flush=True)\ntime.sleep(600)\n', encoding="utf-8"
    )
    (tmp_path / "parent.py").write_text(PARENT, encoding="utf-8")
    config = suite().runs()[0].model_copy(update={"plugins": ["busy"]})
    process = subprocess.Popen(
        [sys.executable, "parent.py", json.dumps(config.model_dump(mode="json"))],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with process.stdout:
        assert process.stdout.readline() == "busy\n"
        process.kill()
        assert process.stdout.read() == ""  # ends when the worker has ended
    assert process.wait() == -signal.SIGKILL


BASELINE = {"mechanism": "baseline", "units": 8}


def error_of(folder, run):
    return json.loads((folder / "runs" / run / "error.json").read_text())["error"]


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"optimizer": "adm"}, "unknown optimizer 'adm'"),
        ({"stopping_options": {"windw": 3}}, "unknown option 'windw'. Did you mean 'window'?"),
    ],
)
def test_wrong_options_are_one_line_before_the_first_run(tmp_path, suite, settings, message):
    """Workers call the function: they would otherwise end with a traceback."""
    error = first_error(suite(**settings).runs()[:1], tmp_path)
    assert error is not None
    assert message in error
    assert "\n" not in error


@pytest.mark.parametrize("chosen", [None, "false"])
def test_workers_share_the_memory_of_a_gpu(tmp_path, suite, monkeypatch, chosen):
    telling = 'import os\nraise RuntimeError(os.environ.get("TF_FORCE_GPU_ALLOW_GROWTH"))\n'
    (tmp_path / "telling.py").write_text(telling)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("TF_FORCE_GPU_ALLOW_GROWTH", raising=False)
    if chosen:
        monkeypatch.setenv("TF_FORCE_GPU_ALLOW_GROWTH", chosen)
    config = suite().runs()[0].model_copy(update={"plugins": ["telling"]})
    worker = processes._Process()
    try:
        error = worker.check([config], tmp_path)
    finally:
        worker.kill()
    assert error.endswith(f"RuntimeError: {chosen or 'true'}")


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_process_that_dies_costs_only_its_run(mortal, tmp_path, small_glue, suite):
    asked = suite(tasks=["CoLA"], seeds=[1, 2], epochs=1, method=[mortal, BASELINE])
    results = run_suite(asked, tmp_path / "out", data=small_glue, quiet=True, jobs=2)
    assert [run["method"] for run in results.runs] == ["baseline-8"] * 2
    for seed in (1, 2):
        error = error_of(tmp_path / "out", f"CoLA/Mortal-8/seed-{seed}")
        assert error == "its process was ended by SIGKILL (out of memory?), 2 times"


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_run_that_takes_too_long_is_ended(tmp_path, small_glue, suite):
    """No machine is so fast that the run could be done."""
    asked = suite(tasks=["CoLA"], seeds=[1], method=[BASELINE])
    options = {"data": small_glue, "quiet": True}
    assert run_suite(asked, tmp_path, **options, run_timeout=0.001).runs == []
    error = error_of(tmp_path, "CoLA/baseline-8/seed-1")
    assert error == "ended after --run-timeout 0.001 s"
    assert len(run_suite(asked, tmp_path, **options).runs) == 1


class Fated(Worker):
    """A worker that works, hangs, dies in its run, or is lost before it is ready."""

    def __init__(self, fate):
        super().__init__()
        self.fate, self.killed = fate, False
        self.ready = fate != "is lost"

    def check(self, configs, folder):
        return None

    def _send(self, group):
        self.runs = group.runs

    def _received(self):
        if self.fate == "hangs":
            return
        for run in self.runs:
            yield {"event": "start", "run": run.key}
            if self.fate == "dies":
                self.ended = End("it died", again=True)
                return
            yield {"event": "done", "run": run.key}
        yield None

    def kill(self):
        self.killed = True


@pytest.mark.parametrize(
    ("fates", "expected"),
    [
        (["works"], "start 1, done 1, start 2, done 2"),
        (["dies", "works"], "start 1, start 1, done 1, start 2, done 2"),
        (["dies", "dies", "works"], "start 1, start 1, failed 1, start 2, done 2"),
        (["is lost", "dies", "is lost", "works"], "start 1, start 1, done 1, start 2, done 2"),
        (["dies"] * 4, "start 1, start 1, failed 1, start 2, start 2, failed 2"),
        (["hangs", "works"], "failed 1, start 2, done 2"),
    ],
)
def test_worker_death_counts_only_during_a_run(tmp_path, suite, monkeypatch, fates, expected):
    runs = suite(tasks=["CoLA"], method=[BASELINE]).runs()
    left, workers, told, now = iter(fates), [], [], [0.0]
    clock = types.SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr(processes, "time", clock)

    def make():
        workers.append(Fated(next(left)))
        return workers[-1]

    def wait_for(present, seconds):
        for worker in present:
            if not worker.ready:
                worker.ended = End("it never started", again=True)
        now[0] += seconds + 1

    run_in_workers([RunGroup(runs, tmp_path)], 1, make, wait_for, told.append, 9)
    assert ", ".join(f"{event['event']} {event['run'][2]}" for event in told) == expected
    assert len(workers) == len(fates)
    assert all(worker.killed for worker in workers)
    errors = {json.loads(path.read_text())["error"] for path in tmp_path.rglob("error.json")}
    assert errors <= {"it died, 2 times", "ended after --run-timeout 9 s"}
    assert bool(errors) == ("failed" in expected)


def test_idle_workers_are_stopped(tmp_path, suite):
    runs = suite(tasks=["CoLA"], seeds=[1, 2, 3], method=[BASELINE]).runs()
    made, waited = [], []

    def make():
        # Idle workers that are not ready are ended first.
        made.append(Fated("is lost" if len(made) == 1 else "works"))
        return made[-1]

    def wait_for(present, seconds):
        waited.append([worker.killed for worker in made])

    groups = [RunGroup([run], tmp_path) for run in runs]
    run_in_workers(groups, 2, make, wait_for, lambda event: None, None)
    assert waited == [[False, False], [False, False], [False, True]]
    assert len(made) == 2


def test_an_error_of_the_command_ends_its_workers(tmp_path, suite):
    """As where a reader closes the output."""
    runs, worker = suite(tasks=["CoLA"], method=[BASELINE]).runs(), Fated("works")

    def notify(event):
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        run_in_workers([RunGroup(runs, tmp_path)], 1, lambda: worker, lambda *_: None, notify, None)
    assert worker.killed


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_waits_until_a_process_has_started():
    """Also if another thread receives the signal."""
    started, end = [], threading.Event()
    thread = threading.Thread(target=end.wait)

    def start():
        with processes._interrupts_delayed():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)  # Python raises KeyboardInterrupt at the end of it, if at all
            started.append(True)

    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            start()
    finally:
        end.set()
        thread.join()
    assert started == [True]


def test_the_time_of_a_run_begins_after_the_one_before(monkeypatch, tmp_path, suite):
    """The end of a run is read, and the start of the next one is not there yet."""
    clock = iter([0.0, 1.05, 1.1])
    monkeypatch.setattr(processes, "time", types.SimpleNamespace(monotonic=lambda: next(clock)))
    worker = Fated("works")
    monkeypatch.setattr(worker, "_received", lambda: iter([{"event": "done"}]))
    runs = suite().runs()[:2]
    worker.start(RunGroup(runs, tmp_path))
    assert [*worker.events()] == [{"event": "done"}]
    assert worker.left == runs[1:]
    assert worker.end(run_timeout=1.0) is None


def test_a_pipe_that_cannot_be_polled_is_the_end_of_its_process(monkeypatch):
    """As on Windows, where `poll` raises an error once the other end is closed."""

    class Broken:
        def poll(self):
            raise BrokenPipeError

    worker = processes._Process.__new__(processes._Process)
    Worker.__init__(worker)
    worker.connection = Broken()
    monkeypatch.setattr(worker, "_how_it_ended", lambda: "died")
    assert list(worker._received()) == []
    assert worker.ended == End("its process died", again=True)
