"""Progress in a terminal and in a log file or notebook."""

from __future__ import annotations

import functools
import re
import types

import pytest
from rich.console import Console

from relation_tf.bench import progress
from relation_tf.bench.pretraining import PretrainingRun
from relation_tf.bench.progress import Progress
from relation_tf.config import load_suite


@pytest.fixture
def clock(monkeypatch):
    """Replace the clock by one that shows `clock.now`."""
    shown = types.SimpleNamespace(now=0.0, monotonic=lambda: shown.now)
    monkeypatch.setattr(progress, "time", shown)
    return shown


def left(printed):
    """Return the last numbers of finished runs and the last time left."""
    return re.findall(r"^(\S+) runs, about (.*?) left, ", printed, re.MULTILINE)[-1]


@pytest.mark.parametrize("kind", ["terminal", "jupyter", "neither"])
def test_a_terminal_has_a_bar(tmp_path, monkeypatch, capsys, kind):
    options = {"force_terminal": kind == "terminal", "force_jupyter": kind == "jupyter"}
    monkeypatch.setattr(progress, "Console", functools.partial(Console, width=200, **options))
    pending = load_suite("demo").runs()[:2]
    with Progress(tmp_path, 3, pending) as bar:
        for config in pending:
            event = {"run": config.key, "event": "epoch", "epoch": 1, "row": {"val_loss": 0.5}}
            bar.notify(event)
            bar.notify({"run": config.key, "event": "done"})
    printed = capsys.readouterr().out
    assert ("━" in printed) == (kind == "terminal")
    assert "3/3" in printed
    assert "3 of 3 runs done, " in printed


def test_starting_and_compiling_are_shown(tmp_path, clock, suite, capsys):
    run = suite(tasks=["CoLA"]).runs()[0]
    pretraining = PretrainingRun(mechanism="relation", mechanism_digest=None, seed=1)
    for each, compiling in ((run, "relation-8 for CoLA"), (pretraining, "relation")):
        with Progress(tmp_path, 2, [each]) as bar:
            assert capsys.readouterr().out.endswith("\n1/2 runs, starting\n")
            clock.now += 20.0
            bar.notify({"event": "compile", "run": each.key})
            assert capsys.readouterr().out == f"1/2 runs, compiling {compiling}\n"


def test_steps_of_a_run_give_the_time_left(tmp_path, clock, capsys):
    runs = [
        PretrainingRun(mechanism="relation", mechanism_digest=None, seed=seed) for seed in (1, 2)
    ]
    with Progress(tmp_path, 2, runs) as bar:
        for step in (50, 60, 70):  # it resumes: its first steps take no time
            clock.now = step
            bar.notify({"event": "step", "run": runs[0].key, "step": step, "steps": 100})
        # 70 s for 20 steps; 130 steps are left.
        assert left(capsys.readouterr().out) == ("0/2", "7 min 40 s")
        clock.now = 100
        bar.notify({"event": "done", "run": runs[0].key})
        bar.notify({"event": "failed", "run": runs[1].key, "error": "broken", "detail": False})
    assert left(capsys.readouterr().out) == ("1/2", "0 s")


def test_the_last_line_tells_diverged_from_failed_runs(tmp_path, capsys):
    pending = load_suite("demo").runs()[:2]
    with Progress(tmp_path, 3, pending, diverged=1) as bar:
        for config, diverged in zip(pending, (True, False), strict=True):
            event = {"event": "failed", "error": "broken", "detail": False, "diverged": diverged}
            bar.notify({"run": config.key, **event})
    assert "1 failed, 2 diverged" in capsys.readouterr().out
