"""Tests of the progress of long computations."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from relation_tf import steps
from relation_tf.steps import advance, progress_shown


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still: `clock.now` is the time in seconds."""

    class Clock:
        now = 100.0

        def monotonic(self):
            return self.now

    clock = Clock()
    monkeypatch.setattr(steps, "time", clock)
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
