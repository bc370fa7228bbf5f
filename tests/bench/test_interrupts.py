"""Tests of Ctrl-C while a network is built, traced and trained."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import keras
import pytest

from relation_tf.bench import plan_suite, read_results, run_suite, runner
from relation_tf.bench.pretraining import pretrain
from relation_tf.bench.trackers import Tracker
from relation_tf.config import Method
from relation_tf.networks import check_layer
from relation_tf.registry import TRACKERS, register_tracker
from relation_tf.training.pretraining_settings import PretrainingSettings

pytestmark = pytest.mark.tensorflow


@pytest.fixture(autouse=True)
def handler():
    """Python's own handler; a background shell may have left another one."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def press():
    """Press Ctrl-C where the caller converts a `KeyboardInterrupt`, as Keras's C++ parts do."""
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        raise TypeError("converted") from None


class Pressed(keras.layers.Layer):
    """A layer during which Ctrl-C is pressed, once."""

    place = ""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.dense = keras.layers.Dense(units)
        self.at("init")

    def at(self, place):
        if type(self).place == place:
            type(self).place = ""
            press()

    def build(self, shape):
        self.dense.build(shape)
        self.at("build")

    def call(self, x, training=False):
        self.at("tracing" if training else "call")
        return self.dense(x)


@pytest.mark.parametrize("place", ["init", "build", "call", "tracing"])
def test_a_run_is_not_failed(place, tmp_path, small_glue, suite, monkeypatch, capsys):
    """The suite ends at the first press; it must not continue after a `TypeError`."""
    monkeypatch.setattr(Pressed, "place", place)
    monkeypatch.setattr(runner, "check_layers", lambda *_: [])
    one = suite(tasks=["CoLA"], seeds=[1, 2], epochs=1)
    with pytest.raises(KeyboardInterrupt):
        run_suite(one, tmp_path, replace_methods=[Pressed, "relation"], data=small_glue)
    results = read_results(tmp_path)
    assert (results.runs, results.failures) == ([], [])
    assert "run the same command again to resume" in capsys.readouterr().out


def test_a_press_between_steps_stops_in_the_epoch(tmp_path, small_glue, suite, monkeypatch):
    from relation_tf.training.task_trainer import TaskTrainer

    train, steps = TaskTrainer.train, []

    def pressed(trainer, *batch):
        steps.append(batch)
        with contextlib.suppress(KeyboardInterrupt):  # it disappears
            signal.raise_signal(signal.SIGINT)
        return train(trainer, *batch)

    monkeypatch.setattr(TaskTrainer, "train", pressed)
    one = suite(tasks=["CoLA"], seeds=[1], epochs=1, method=[Method(mechanism="relation", units=4)])
    with pytest.raises(KeyboardInterrupt):
        run_suite(one, tmp_path, data=small_glue, quiet=True)
    assert len(steps) == 1


def test_a_press_in_a_tracker_stops_after_the_epoch(tmp_path, small_glue, suite):
    @register_tracker("pressed")
    class Presses(Tracker):
        epochs = 0

        def on_epoch(self, config, epoch, row):
            Presses.epochs += 1
            signal.raise_signal(signal.SIGINT)

    one = suite(tasks=["CoLA"], seeds=[1], epochs=9, method=[Method(mechanism="relation", units=4)])
    try:
        with pytest.raises(KeyboardInterrupt):
            run_suite(one, tmp_path, data=small_glue, quiet=True, track=["pressed"])
    finally:
        TRACKERS.remove("pressed")
    assert Presses.epochs == 1


def test_a_plan(tmp_path, small_glue, suite, monkeypatch):
    monkeypatch.setattr(Pressed, "place", "tracing")
    with pytest.raises(KeyboardInterrupt):
        plan_suite(
            suite(tasks=["CoLA"], epochs=1), tmp_path, replace_methods=[Pressed],
            data=small_glue, quiet=True,
        )  # fmt: skip


@pytest.mark.parametrize("place", ["init", "call"])
def test_the_check_of_a_layer(place, monkeypatch):
    """A press must not count as a fault of the layer."""
    monkeypatch.setattr(Pressed, "place", place)
    with pytest.raises(KeyboardInterrupt):
        check_layer(Pressed)


@pytest.mark.parametrize("place", ["build", "tracing"])
def test_pretraining(place, tmp_path, monkeypatch):
    monkeypatch.setattr(Pressed, "place", place)
    (tmp_path / "a.txt").write_text("so good it is\n" * 99)
    settings = PretrainingSettings(
        num_layers=1, units=4, length=8, batch_size=2, steps=2, vocabulary_size=50
    )
    layer = f"{Pressed.__module__}:Pressed"
    with pytest.raises(KeyboardInterrupt):
        pretrain([tmp_path / "a.txt"], tmp_path / "out", [layer], [1], settings, quiet=True)
    assert not list(tmp_path.rglob("error.json"))


SUITE = """
name = "pressed"
source = "miniglue"
tasks = ["WNLI"]
seeds = 1
epochs = 1
embedding_dim = 4

[[method]]
mechanism = "relation"
units = 4

[[method]]
mechanism = "bilstm"
units = 4
"""
# Python itself handles Ctrl-C until the module is imported.
PROGRAM = "from relation_tf import cli; print('started', flush=True); cli.main()"
PRESSES = int(os.environ.get("RELATION_TF_PRESSES", "6"))


def start(folder, jobs):
    """Start a run in a new folder, and wait until Python has started."""
    shutil.rmtree(folder / "out", ignore_errors=True)
    with (folder / "printed").open("wb") as printed:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, "run", "s.toml", "--out", "out", "--jobs", str(jobs)],
            cwd=folder, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
            stdout=printed, stderr=subprocess.STDOUT, start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip
    while "started\n" not in (folder / "printed").read_text():
        assert process.poll() is None
        time.sleep(0.01)
    return process


@pytest.mark.slow
@pytest.mark.timeout(60 * (PRESSES + 10))
def test_presses_at_random_moments(tmp_path):
    """From the start of the command to the last run; `RELATION_TF_PRESSES=100` for more."""
    (tmp_path / "s.toml").write_text(SUITE)
    moments, pressed = random.Random(PRESSES), 0
    seconds = {}
    for jobs in (1, 2):
        began = time.monotonic()
        assert start(tmp_path, jobs).wait() == 0, (tmp_path / "printed").read_text()
        seconds[jobs] = time.monotonic() - began
    while pressed < PRESSES:
        jobs = 2 if pressed % 4 == 3 else 1
        process = start(tmp_path, jobs)
        moment = moments.uniform(0, 0.9 * seconds[jobs])
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(moment)
        if "report: " in (tmp_path / "printed").read_text():  # the machine was faster than before
            assert process.wait() == 0
            seconds[jobs] = moment
            continue
        os.killpg(process.pid, signal.SIGINT)
        process.wait()
        printed = (tmp_path / "printed").read_text()
        pressed += 1
        print(f"press {pressed} after {moment:.2f} s: exit code {process.returncode}")
        assert process.returncode == 130, printed
        assert not re.search("Traceback|Exception ignored|failed", printed), printed
        assert not list(tmp_path.glob("out/**/error.json"))
