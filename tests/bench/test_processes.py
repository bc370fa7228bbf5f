"""Workers that die, hang or never come up."""

from __future__ import annotations

import json
import sys

import pytest

from relation_tf.bench import run_suite
from relation_tf.bench.groups import RunGroup
from relation_tf.bench.processes import End, Worker, run_in_workers

MORTAL = """
import os
import signal
import time
from pathlib import Path

import keras


class Mortal(keras.layers.Layer):
    def __init__(self, units, how, once=False, **kwargs):
        super().__init__(**kwargs)
        self.units, self.how, self.once = units, how, once
        self.supports_masking = True

    def build(self, shape):
        self.kernel = self.add_weight(shape=(shape[-1], self.units))
        self.built = True
        been = Path(os.environ["MORTAL_FOLDER"]) / self.how
        if self.once and been.exists():
            return
        been.touch()
        if self.how == "hang":
            time.sleep(1000)
        os.kill(os.getpid(), getattr(signal, self.how))

    def call(self, x):
        return x @ self.kernel

    def get_config(self):
        return {**super().get_config(), "units": self.units, "how": self.how, "once": self.once}
"""


@pytest.fixture
def mortal(tmp_path, monkeypatch):
    """A method whose processes come to an end."""
    (tmp_path / "mortal.py").write_text(MORTAL)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("MORTAL_FOLDER", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def method(how, **options):
        return {
            "name": f"mortal-{how}", "mechanism": "mortal:Mortal", "units": 8,
            "options": {"how": how, **options},
        }  # fmt: skip

    yield method
    sys.modules.pop("mortal", None)


BASELINE = {"mechanism": "baseline", "units": 8}


def run(asked, tmp_path, small_glue, **options):
    return run_suite(asked, tmp_path / "out", data=small_glue, quiet=True, **options)


def error_of(tmp_path, run):
    return json.loads((tmp_path / "out" / "runs" / run / "error.json").read_text())["error"]


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.parametrize("signal", ["SIGKILL", "SIGSEGV"])
def test_a_process_that_dies_costs_its_run_alone(mortal, tmp_path, small_glue, suite, signal):
    asked = suite(tasks=["CoLA"], seeds=[1, 2], epochs=1, method=[mortal(signal), BASELINE])
    results = run(asked, tmp_path, small_glue, jobs=2)
    assert [run["method"] for run in results.runs] == ["baseline-8"] * 2
    why = " (out of memory?)" if signal == "SIGKILL" else ""
    for seed in (1, 2):
        error = error_of(tmp_path, f"CoLA/mortal-{signal}/seed-{seed}")
        assert error == f"its process was ended by {signal}{why}, 2 times"


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_process_that_dies_once_is_forgiven(mortal, tmp_path, small_glue, suite):
    asked = suite(
        tasks=["CoLA"], seeds=[1, 2], epochs=1, method=[mortal("SIGKILL", once=True), BASELINE]
    )
    results = run(asked, tmp_path, small_glue, jobs=2)
    assert len(results.runs) == 4
    assert results.failures == []


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_run_that_hangs_is_ended(mortal, tmp_path, small_glue, suite):
    asked = suite(tasks=["CoLA"], seeds=[1], epochs=1, method=[BASELINE, mortal("hang", once=True)])
    results = run(asked, tmp_path, small_glue, run_timeout=60)
    assert [run["method"] for run in results.runs] == ["baseline-8"]
    assert error_of(tmp_path, "CoLA/mortal-hang/seed-1") == "ended after --run-timeout 60 s"
    assert len(run(asked, tmp_path, small_glue).runs) == 2


class Fated(Worker):
    """A worker that does what is written: it works, dies in its run, or is lost before it is up."""

    def __init__(self, fate):
        super().__init__()
        self.fate, self.killed = fate, False
        self.ready = fate != "is lost"

    def check(self, configs, folder):
        return None

    def _send(self, cell):
        self.runs = cell.runs

    def _received(self):
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
    ],
)
def test_a_death_in_a_run_counts_and_one_before_does_not(tmp_path, suite, fates, expected):
    runs = suite(tasks=["CoLA"], method=[BASELINE]).runs()
    left, workers, told = iter(fates), [], []

    def make():
        workers.append(Fated(next(left)))
        return workers[-1]

    def wait_for(present, seconds):
        for worker in present:
            if not worker.ready:
                worker.ended = End("it never came up", again=True)

    run_in_workers([RunGroup(runs, tmp_path)], 1, make, wait_for, told.append, None)
    assert ", ".join(f"{event['event']} {event['run'][2]}" for event in told) == expected
    assert len(workers) == len(fates)
    assert all(worker.killed for worker in workers)
    errors = {json.loads(path.read_text())["error"] for path in tmp_path.rglob("error.json")}
    assert errors <= {"it died, 2 times"}


def test_workers_without_work_are_let_go(tmp_path, suite):
    runs = suite(tasks=["CoLA"], seeds=[1, 2, 3], method=[BASELINE]).runs()
    made, waited = [], []

    def make():
        # Of the workers that are idle those go first that are not up yet.
        made.append(Fated("is lost" if len(made) == 1 else "works"))
        return made[-1]

    def wait_for(present, seconds):
        waited.append([worker.killed for worker in made])

    cells = [RunGroup([run], tmp_path) for run in runs]
    run_in_workers(cells, 2, make, wait_for, lambda event: None, None)
    assert waited == [[False, False], [False, False], [False, True]]
    assert len(made) == 2
