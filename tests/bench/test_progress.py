"""Progress in a notebook and in a terminal."""

from __future__ import annotations

import functools
import re
import sys
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


@pytest.fixture
def shown(monkeypatch):
    """Contents of the output of a notebook."""
    outputs = []

    class Handle:
        def update(self, bar):
            outputs.append(bar._repr_html_())

    def display(bar, display_id):
        assert display_id
        handle = Handle()
        handle.update(bar)
        return handle

    module = types.ModuleType("IPython.display")
    module.display = display
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr(progress, "_UPDATE_EVERY", 0.0)
    return outputs


def left(printed):
    """Return the last numbers of finished runs and the last time left."""
    return re.findall(r"^(\S+) runs, about (.*?) left, ", printed, re.MULTILINE)[-1]


def run_two(tmp_path, monkeypatch, **options):
    console = functools.partial(Console, width=200, **options)
    monkeypatch.setattr(progress, "Console", console)
    pending = load_suite("demo").runs()[:2]
    with Progress(tmp_path, 3, pending) as bar:
        for config in pending:
            event = {"run": config.key, "event": "epoch", "epoch": 1, "row": {"val_loss": 0.5}}
            bar.notify(event)
            bar.notify({"run": config.key, "event": "done"})


def test_a_notebook_has_one_bar(tmp_path, monkeypatch, shown, capsys):
    run_two(tmp_path, monkeypatch, force_jupyter=True)
    assert [re.search(r"(\d+)/3 runs", bar)[1] for bar in shown] == [*"1112233"]
    assert shown[0].startswith('<progress value="1" max="3">')
    assert "CoLA/attention-64/seed-1 epoch 1, " in shown[2]
    assert "3 of 3 runs" in capsys.readouterr().out


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_has_a_bar(tmp_path, monkeypatch, shown, capsys, terminal):
    run_two(tmp_path, monkeypatch, force_terminal=terminal, force_jupyter=False)
    printed = capsys.readouterr().out
    assert ("━" in printed) == terminal
    assert "3/3" in printed
    assert ("at CoLA/attention-64/seed-2" in printed) or terminal
    assert shown == []


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
            clock.now += 20.0
            bar.notify({"event": "step", "run": runs[0].key, "step": step, "steps": 100})
    # 2 s a step, and 130 steps.
    assert left(capsys.readouterr().out) == ("0/2", "4 min 20 s")


def test_runs_of_one_step_have_no_time_left(tmp_path, capsys, monkeypatch):
    """The first step of a run is not timed."""
    monkeypatch.setattr(progress, "_PLAIN_EVERY", 0.0)
    runs = [
        PretrainingRun(mechanism=name, mechanism_digest=None, seed=1)
        for name in ("relation", "mamba2")
    ]
    with Progress(tmp_path, 2, runs) as bar:
        bar.notify({"run": runs[0].key, "event": "step", "step": 1, "steps": 1})
        bar.notify({"run": runs[0].key, "event": "done"})
        bar.notify({"run": runs[1].key, "event": "compile"})
    assert "1/2 runs, compiling mamba2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0 s"), (59.4, "59 s"), (59.6, "1 min"), (89, "1 min 30 s"), (118, "2 min"),
     (599, "10 min"), (3550, "59 min"), (7230, "2 h")],
)  # fmt: skip
def test_durations_have_one_format(seconds, shown):
    assert progress._duration(seconds) == shown


@pytest.fixture
def clocked(tmp_path, clock, monkeypatch, capsys):
    """Return what is left after events at given times: `clocked(runs, [(second, event), ...])`."""
    monkeypatch.setattr(progress, "_PLAIN_EVERY", 0.0)

    def said(runs, events):
        with Progress(tmp_path, len(runs), runs) as bar:
            for clock.now, event in events:
                bar.notify(event)
            return left(capsys.readouterr().out)

    return said


def events_of(run, start, *, prepared=None, end):
    """Events of a run of two epochs; a run that is prepared loads packages and data first."""
    trained = (end - (prepared or start)) / 2
    row = {"val_loss": 0.5, "seconds": 0.9 * trained, "evaluation_seconds": 0.1 * trained}
    yield start, {"event": "start", "run": run.key}
    if prepared is not None:
        yield start, {"event": "compile", "run": run.key}
    for epoch in (1, 2):
        at = end - (2 - epoch) * trained
        yield at, {"event": "epoch", "run": run.key, "epoch": epoch, "row": row}
    yield end, {"event": "done", "run": run.key}


def runs_of(task, number):
    return [run for run in load_suite("demo").runs() if run.task == task][:number]


def in_order(*runs):
    return sorted((event for run in runs for event in run), key=lambda event: event[0])


def test_the_preparation_of_the_first_run_is_not_expected_again(clocked):
    runs = load_suite("demo").runs()[:3]
    events = in_order(events_of(runs[0], 0.0, prepared=60.0, end=70.0))
    assert clocked(runs, events) == ("1/3", "20 s")


def test_parallel_runs_share_the_time_left(clocked):
    runs = load_suite("demo").runs()[:8]
    for ended in (1, 4):
        events = in_order(
            *(events_of(run, 0.0, prepared=9.0, end=109 + number / 1000)
              for number, run in enumerate(runs[:4]))
        )  # fmt: skip
        until = [each for each in events if each[0] < 108.9995 + ended / 1000]
        assert clocked(runs, until) == (f"{ended}/8", "1 min 40 s")


def test_the_time_left_is_at_least_that_of_the_longest_run(clocked):
    """At 107 s a run of 100 s has 93 s left, next to one of 10 s."""
    long, short = runs_of("QQP", 2), runs_of("RTE", 2)
    events = in_order(
        events_of(long[0], 0.0, end=100.0),
        events_of(short[0], 0.0, end=10.0),
        [(100.0, {"event": "start", "run": long[1].key})],
        [next(events_of(short[1], 100.0, end=110.0))],
    )
    row = {"val_loss": 0.5, "seconds": 1.0}
    events.append((107.0, {"event": "epoch", "run": short[1].key, "epoch": 1, "row": row}))
    assert clocked(long + short, events) == ("2/4", "1 min 30 s")


def test_the_last_line_tells_diverged_from_failed_runs(tmp_path, capsys):
    pending = load_suite("demo").runs()[:2]
    with Progress(tmp_path, 3, pending, diverged=1) as bar:
        for config, diverged in zip(pending, (True, False), strict=True):
            event = {"event": "failed", "error": "broken", "detail": False, "diverged": diverged}
            bar.notify({"run": config.key, **event})
    assert "1 failed, 2 diverged" in capsys.readouterr().out
