"""Worker processes: their end, custom layers of scripts, and several commands on one folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from relation_tf.bench import run_suite, workers
from relation_tf.bench.workers import Returned, RunGroup, Worker, run_locally
from tests.programs import ROOT

PARENT = """
from relation_tf.bench import workers
from relation_tf.config.user_code import load_plugins

workers.call(load_plugins, ["busy"])
"""
BUSY = """
import time

print("busy", flush=True)
time.sleep(600)
"""
BASELINE = {"mechanism": "baseline", "units": 8}


def test_a_worker_ends_with_its_parent(tmp_path):
    """Otherwise it would continue to train, in a folder that the next command uses."""
    (tmp_path / "busy.py").write_text(BUSY, encoding="utf-8")
    (tmp_path / "parent.py").write_text(PARENT, encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-u", "parent.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        stdout=subprocess.PIPE,
        text=True,
    )
    with process.stdout:
        assert process.stdout.readline() == "busy\n"
        process.kill()
        assert process.stdout.read() == ""
    assert process.wait() == -signal.SIGKILL


def talk(notify):
    print("printed")
    notify("a note")


def leave_a_child():
    if os.fork() == 0:
        time.sleep(600)
    os.kill(os.getpid(), signal.SIGKILL)


def return_what_cannot_be_sent():
    return lambda: None


class Unreadable:
    def __reduce__(self):
        return int, ("x",)


@pytest.mark.usefixtures("worker_processes")
def test_answers_of_a_worker(capsys):
    call, notes = workers.ends_workers(workers.call), []
    call(talk, notify=notes.append)
    assert (notes, capsys.readouterr().out) == (["a note"], "printed\n")
    with pytest.raises(RuntimeError, match="return_what_cannot_be_sent"):
        call(return_what_cannot_be_sent)
    with pytest.raises(workers.WorkerEndedError, match="answer that cannot be read: ValueError"):
        call(Unreadable)
    with pytest.raises(workers.WorkerEndedError, match="SIGKILL"):
        call(leave_a_child)  # without waiting for it


def end_while_idle():
    """Kill the worker of the last call; return when its threads know."""
    (worker,) = workers._idle
    worker._process.kill()
    worker._process.wait()
    assert worker.arrived.wait(60)
    return worker


@pytest.mark.usefixtures("worker_processes")
def test_a_worker_that_ended_while_idle_is_replaced(monkeypatch):
    @workers.ends_workers
    def command():
        first = workers.call(os.getpid)
        ended = end_while_idle()
        second = workers.call(os.getpid)
        assert first != second
        assert not Path(ended._temporary.name).exists()
        # Its end is not known yet when the next call begins.
        monkeypatch.setattr(end_while_idle()._process, "poll", lambda: None)
        with pytest.raises(workers.WorkerEndedError, match="SIGKILL"):
            workers.call(os.getpid)

    command()


# A script without `if __name__ == "__main__"`, read from stdin: its layers are in no file.
SCRIPT = '''
import linecache, os, signal
import keras
from relation_tf.bench import read_results, run_suite

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
FACTOR = 2.0

@keras.saving.register_keras_serializable()
class Mine(keras.layers.Dense):
    def call(self, x):
        print("called")
        return FACTOR * super().call(x)

CELL = """
class Broken(keras.layers.Dense):
    def build(self, shape):
        raise ValueError("no such width")
"""
linecache.cache["cell"] = len(CELL), None, CELL.splitlines(True), "cell"  # as a notebook does
exec(compile(CELL, "cell", "exec"))

class Pressed(keras.layers.Dense):
    def build(self, shape):
        if os.path.exists("out/runs"):  # not in the checks of layers
            os.kill(os.getppid(), signal.SIGINT)
            signal.pause()
        super().build(shape)

try:
    run_suite(
        "demo", "out", replace_methods=[Mine, Broken, Pressed], tasks=["WNLI"], seeds=[1],
        settings={"epochs": 1, "save_models": True}, allow_failing_checks=True, quiet=True,
    )
except KeyboardInterrupt:
    results = read_results("out")
    print([run["method"] for run in results.runs], results.failures)
'''


@pytest.mark.tensorflow
def test_layers_of_a_script_are_trained(tmp_path, monkeypatch):
    monkeypatch.setenv("RELATION_TF_CACHE", str(tmp_path))
    ended = subprocess.run(
        [sys.executable, "-"],
        input=SCRIPT,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    printed = ended.stdout.splitlines()
    (message,) = (line for line in printed if line != "called")
    assert "called" in printed
    assert message.startswith("['Mine-64'] [('WNLI/Broken-64/seed-1', ")
    assert '(cell:4: raise ValueError("no such width"))' in message
    assert message.count("seed-1") == 1
    assert "Traceback" not in ended.stderr
    assert [*(tmp_path / "out").rglob("model.keras")]


SHARED = """
import sys, time
from relation_tf.bench import run_suite, runner, train, workers
from tests.bench.finished_runs import write_finished
from tests.in_process import InThisProcess

def train_run(config, path, **rest):
    with open("trained.txt", "a") as file:
        file.write(f"{config}\\n")
    time.sleep(0.05)
    write_finished(path, config)

workers.Worker, train.train_run = InThisProcess, train_run
runner.build_methods = lambda *_: None
results = run_suite("demo", "out", tasks=["WNLI"], quiet=True)
assert len(results.runs) == 20
assert "tensorflow" not in sys.modules
"""


def test_four_commands_train_each_run_of_a_folder_once(tmp_path):
    program = [sys.executable, "-c", SHARED]
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    commands = [subprocess.Popen(program, cwd=tmp_path, env=variables) for _ in range(4)]
    assert [command.wait() for command in commands] == [0] * 4
    trained = (tmp_path / "trained.txt").read_text().splitlines()
    assert len(trained) == len({*trained}) == 20


def error_of(folder, run):
    return json.loads((folder / "runs" / run / "error.json").read_text())["error"]


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.usefixtures("worker_processes")
def test_a_process_that_dies_costs_only_its_run(mortal, tmp_path, small_glue, suite):
    asked = suite(tasks=["CoLA"], seeds=[1, 2], epochs=1, method=[mortal, BASELINE])
    results = run_suite(asked, tmp_path / "out", data=small_glue, quiet=True, jobs=2)
    assert [run["method"] for run in results.runs] == ["baseline-8"] * 2
    for seed in (1, 2):
        error = error_of(tmp_path / "out", f"CoLA/Mortal-8/seed-{seed}")
        assert error == "its process was ended by SIGKILL (out of memory?), 2 times"


class Fated(Worker):
    """A worker that works, dies in its run, or is lost before it is ready."""

    def __init__(self, fate, arrived):
        self.group, self.left, self.is_running, self.ended = None, [], False, None
        self.fate, self.arrived, self.killed = fate, arrived, False

    def send(self, call):
        self.runs = call.runs
        self.arrived.set()

    def received(self):
        if self.fate == "lost":
            self.ended = "it died"
            return
        for run in self.runs:
            yield {"event": "start", "run": run.key}
            if self.fate == "dies":
                self.ended = "it died"
                return
            yield {"event": "done", "run": run.key}
        yield Returned()

    def kill(self):
        self.killed = True


@pytest.mark.parametrize(
    ("fates", "expected"),
    [
        (["works"], "start 1, done 1, start 2, done 2"),
        (["dies", "works"], "start 1, start 1, done 1, start 2, done 2"),
        (["dies", "dies", "works"], "start 1, start 1, failed 1, start 2, done 2"),
        (["dies"] * 4, "start 1, start 1, failed 1, start 2, start 2, failed 2"),
        (["dies", *["lost"] * 3, "works"], "start 1, start 1, done 1, start 2, done 2"),
        (["lost"] * 5 + ["works"], "failed 1, start 2, done 2"),
    ],
)
def test_worker_death_counts_only_during_a_run(tmp_path, suite, monkeypatch, fates, expected):
    runs = suite(tasks=["CoLA"], method=[BASELINE]).runs()
    left, hired, told = iter(fates), [], []

    def make(arrived):
        hired.append(Fated(next(left), arrived))
        return hired[-1]

    monkeypatch.setattr(workers.Worker, "idle_or_new", make)
    run_locally([RunGroup(runs, tmp_path)], told.append)
    assert ", ".join(f"{event['event']} {event['run'][2]}" for event in told) == expected
    assert len(hired) == len(fates)
    assert all(worker.killed for worker in hired)
    errors = {json.loads(path.read_text())["error"] for path in tmp_path.rglob("error.json")}
    assert errors <= {"it died, 2 times", "it died, 5 times"}
    assert bool(errors) == ("failed" in expected)
