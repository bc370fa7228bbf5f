"""Processes that die or hang."""

from __future__ import annotations

import json
import sys

import pytest

from relation_tf.bench import run_suite

pytestmark = pytest.mark.tensorflow

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
def test_a_process_that_dies_once_is_forgiven(mortal, tmp_path, small_glue, suite):
    asked = suite(
        tasks=["CoLA"], seeds=[1, 2], epochs=1, method=[mortal("SIGKILL", once=True), BASELINE]
    )
    results = run(asked, tmp_path, small_glue, jobs=2)
    assert len(results.runs) == 4
    assert results.failures == []


@pytest.mark.slow
def test_a_run_that_hangs_is_ended(mortal, tmp_path, small_glue, suite):
    asked = suite(tasks=["CoLA"], seeds=[1], epochs=1, method=[BASELINE, mortal("hang", once=True)])
    results = run(asked, tmp_path, small_glue, run_timeout=30)
    assert [run["method"] for run in results.runs] == ["baseline-8"]
    assert error_of(tmp_path, "CoLA/mortal-hang/seed-1") == "ended after --run-timeout 30 s"
    assert len(run(asked, tmp_path, small_glue).runs) == 2
