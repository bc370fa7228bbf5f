"""Trackers of a run."""

from __future__ import annotations

import json
import math
import sys

import pytest

from relation_tf.bench import run_suite
from relation_tf.bench.trackers.jsonl import JsonLines
from relation_tf.config import load_suite

pytestmark = pytest.mark.tensorflow

PLUGIN = """
from relation_tf.bench.trackers import Tracker
from relation_tf.registry import register_tracker

EVENTS = []


@register_tracker("plugin-list")
class InMemory(Tracker):
    def on_run_start(self, config):
        EVENTS.append(("start", config.seed))

    def on_epoch(self, config, epoch, row):
        EVENTS.append(("epoch", epoch, "loss" in row))

    def on_run_end(self, config, result):
        EVENTS.append(("end", sorted(result["metrics"]) if "metrics" in result else result))

    def on_suite_end(self, results):
        EVENTS.append(("suite", len(results.runs)))

    def close(self):
        EVENTS.append(("closed",))


@register_tracker("plugin-broken")
class Broken:
    def __init__(self, folder):
        pass

    def on_epoch(self, config, epoch, row):
        raise OSError("no connection")
"""


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """The name of a module with trackers."""
    (tmp_path / "tracking_plugin.py").write_text(PLUGIN, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield "tracking_plugin"
    sys.modules.pop("tracking_plugin", None)


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_trackers_receive_all_events(plugin, tmp_path, small_glue, suite, capsys, jobs):
    """A broken one prints a warning once, and changes no result."""
    asked, out = suite(tasks=["CoLA"], seeds=[1], epochs=2), tmp_path / "out"
    track = ["plugin-list", "plugin-broken", "jsonl"]
    results = run_suite(asked, out, data=small_glue, plugins=plugin, track=track, jobs=jobs)
    assert len(results.runs) == 2
    printed = capsys.readouterr().out
    assert printed.count("tracker plugin-broken: OSError: no connection") == 1
    events = sys.modules[plugin].EVENTS
    one_run = [("start", 1), *(("epoch", n, True) for n in (1, 2)), ("end", ["CoLA"])]
    assert sorted(events[:-2], key=str) == sorted([*one_run, *one_run], key=str)
    assert events[-2:] == [("suite", 2), ("closed",)]
    lines = [json.loads(line) for line in (out / "events.jsonl").read_text().splitlines()]
    kinds = [line["event"] for line in lines]
    assert sorted(kinds[:-1]) == sorted(["run_start", "epoch", "epoch", "run_end"] * 2)
    assert lines[-1] == {"event": "suite_end", "runs": 2, "failed": 0}
    metrics = {line["method"]: line["metrics"] for line in lines if line["event"] == "run_end"}
    assert metrics == {run["method"]: run["metrics"] for run in results.runs}

    # A plugin of trackers changes no run: a new version of it takes finished ones.
    with (tmp_path / "tracking_plugin.py").open("a", encoding="utf-8") as file:
        file.write("CHANGED = True\n")
    assert len(run_suite(asked, out, data=small_glue, plugins=plugin, quiet=True).runs) == 2


def test_losses_that_are_not_finite_are_null(tmp_path):
    config = load_suite("demo").runs()[0]
    JsonLines(tmp_path).on_epoch(config, 1, {"loss": math.nan, "val_loss": math.inf, "f1": 0.5})
    (line,) = (tmp_path / "events.jsonl").read_text().splitlines()
    assert json.loads(line, parse_constant=pytest.fail)["loss"] is None


def test_an_epoch_is_that_of_the_whole_run(tmp_path):
    JsonLines(tmp_path).on_epoch(load_suite("demo").runs()[0], 12, {"epoch": 2, "loss": 0.5})
    (line,) = (tmp_path / "events.jsonl").read_text().splitlines()
    assert json.loads(line)["epoch"] == 12
