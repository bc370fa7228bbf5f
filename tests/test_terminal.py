"""Tests of output in a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from relation_tf import terminal
from relation_tf.errors import SuiteError
from relation_tf.terminal import advance, check_backend_name, progress_shown
from tests.programs import python

pytestmark = pytest.mark.tensorflow

USE = "from relation_tf.layers import Relation; import keras; keras.ops.ones(1)"
KERAS = """
import os
os.write(2, b"a log message")
print(os.environ["TF_CPP_MIN_LOG_LEVEL"])
raise ModuleNotFoundError(name="tensorflow")
"""


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Return a function that runs a program whose folder is empty; it sets no level of logs."""
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)
    return lambda program: python(program, tmp_path)


@pytest.mark.slow
def test_the_package_starts_tensorflow_without_log_messages(start):
    answer = start(USE)
    assert (answer.returncode, answer.stderr) == (0, "")


def test_keras_is_imported_without_log_messages(start, tmp_path):
    (tmp_path / "keras.py").write_text(KERAS, encoding="utf-8")
    answer = start("try:\n from relation_tf.layers import Relation\nexcept ImportError:\n pass")
    assert (answer.stdout, answer.stderr) == ("3\n", "")


def test_a_wrong_name_of_the_backend_is_one_line(monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "pytorch")
    with pytest.raises(SuiteError, match="KERAS_BACKEND: must be one of tensorflow, jax"):
        check_backend_name()


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still: `clock.now` is the time in seconds."""

    class Clock:
        now = 100.0

        def monotonic(self):
            return self.now

    clock = Clock()
    monkeypatch.setattr(terminal, "time", clock)
    return clock


def console(*, terminal=False):
    return Console(file=io.StringIO(), force_terminal=terminal, width=80)


def test_a_log_file_has_no_steps(clock):
    shown = console()
    with progress_shown(shown):
        clock.now += 1000
        advance("tests of tasks", 1, 10)
    assert shown.file.getvalue() == ""


def test_a_terminal_shows_the_last_step(clock):
    shown = console(terminal=True)
    with progress_shown(shown):
        advance("tests of tasks", 1, 10)
        assert shown.file.getvalue() == ""
        clock.now += 4
        advance("tests of tasks", 2, 10)
    assert ": 2 of 10" in shown.file.getvalue()


def test_nothing_is_printed_outside(clock, capfd):
    shown = console()
    with pytest.raises(KeyError), progress_shown(shown):
        raise KeyError
    clock.now += 60
    advance("tests of tasks", 1, 10)
    assert shown.file.getvalue() == ""
    assert capfd.readouterr() == ("", "")
