"""Fixtures of the tests of runs."""

from __future__ import annotations

import functools
import sys
from dataclasses import replace

import pytest

from relation_tf.bench import runner
from relation_tf.tasks import dates, diagnostics, reversal
from relation_tf.tasks.generated import GENERATED


@pytest.fixture
def few_rows(monkeypatch):
    """Give generated tasks few rows."""
    few = {
        name: replace(each, train=64, held_out=20) for name, each in diagnostics.DIAGNOSTICS.items()
    }
    monkeypatch.setattr(diagnostics, "DIAGNOSTICS", few)
    rows = {"train": 40, "dev": 8, "test": 6}
    short = functools.partial(reversal, **rows, lengths=(2, 4), long=(5, 6))
    monkeypatch.setitem(GENERATED, "reversal", short)
    monkeypatch.setitem(GENERATED, "dates", functools.partial(dates, **rows))


MORTAL = """
import os

import keras

from neighbour import SIGNAL


class Mortal(keras.layers.Layer):
    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)

    def build(self, shape):
        os.kill(os.getpid(), SIGNAL)
"""


@pytest.fixture
def mortal(tmp_path, monkeypatch):
    """A method whose processes are killed; its module imports another one next to it."""
    (tmp_path / "mortal.py").write_text(MORTAL)
    (tmp_path / "neighbour.py").write_text("from signal import SIGKILL as SIGNAL\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(runner, "record_layer_checks", lambda *_: [])  # it would be killed, too
    yield {"mechanism": "mortal:Mortal", "units": 8}
    for name in ("mortal", "neighbour"):
        sys.modules.pop(name, None)
