"""Trackers, executors and plugins of a run."""

from __future__ import annotations

import json
import sys

import pytest

from relation_tf.bench import run_suite
from relation_tf.errors import SuiteError

pytestmark = pytest.mark.tensorflow

PLUGIN = """
from relation_tf.bench.groups import run_group
from relation_tf.bench.trackers import Tracker
from relation_tf.registry import register_executor, register_tracker

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


@register_tracker("plugin-broken")
class Broken:
    def __init__(self, folder):
        pass

    def on_epoch(self, config, epoch, row):
        raise OSError("no connection")


@register_executor("plugin-backwards")
def backwards(groups, notify, options):
    for group in reversed(groups):
        run_group(group, notify)
"""


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """The name of a module with trackers and an executor."""
    (tmp_path / "tracking_plugin.py").write_text(PLUGIN, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield "tracking_plugin"
    sys.modules.pop("tracking_plugin", None)


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_trackers_receive_what_happens(plugin, tmp_path, small_glue, suite, capsys, jobs):
    """A broken one prints a warning once, and changes no result."""
    asked, out = suite(tasks=["CoLA"], seeds=[1], epochs=2), tmp_path / "out"
    track = ["plugin-list", "plugin-broken", "jsonl"]
    results = run_suite(asked, out, data=small_glue, plugins=plugin, track=track, jobs=jobs)
    assert len(results.runs) == 2
    printed = capsys.readouterr().out
    assert printed.count("tracker plugin-broken: OSError: no connection") == 1
    events = sys.modules[plugin].EVENTS
    one_run = [("start", 1), *(("epoch", n, True) for n in (1, 2)), ("end", ["CoLA"])]
    assert sorted(events[:-1], key=str) == sorted([*one_run, *one_run], key=str)
    assert events[-1] == ("suite", 2)
    lines = [json.loads(line) for line in (out / "events.jsonl").read_text().splitlines()]
    kinds = [line["event"] for line in lines]
    assert sorted(kinds[:-1]) == sorted(["run_start", "epoch", "epoch", "run_end"] * 2)
    assert lines[-1] == {"event": "suite_end", "runs": 2, "failed": 0}
    metrics = {line["method"]: line["metrics"] for line in lines if line["event"] == "run_end"}
    assert metrics == {run["method"]: run["metrics"] for run in results.runs}

    # A plugin of trackers and executors changes no run: a new version of it takes finished ones.
    with (tmp_path / "tracking_plugin.py").open("a", encoding="utf-8") as file:
        file.write("CHANGED = True\n")
    assert len(run_suite(asked, out, data=small_glue, plugins=plugin, quiet=True).runs) == 2


METRIC = """
from relation_tf.registry import register_metric


@register_metric("plugin-metric")
def agreement(predictions, labels):
    return float((predictions == labels).mean())
"""


def test_a_changed_plugin_of_metrics_is_refused(plugin, tmp_path, small_glue, suite):
    file = tmp_path / "tracking_plugin.py"
    file.write_text(METRIC, encoding="utf-8")
    asked, out = suite(tasks=["CoLA"], seeds=[1], epochs=1), tmp_path / "out"
    run_suite(asked, out, data=small_glue, plugins=plugin, quiet=True)
    with file.open("a", encoding="utf-8") as opened:
        opened.write("CHANGED = True\n")
    with pytest.raises(SuiteError, match="was done with another version of its plugins"):
        run_suite(asked, out, data=small_glue, plugins=plugin, quiet=True)


def test_an_executor_of_a_plugin(plugin, tmp_path, small_glue, suite):
    asked = suite(tasks=["CoLA"], seeds=[1], epochs=1)
    options = {"data": small_glue, "plugins": plugin, "track": "jsonl", "quiet": True}
    results = run_suite(asked, tmp_path / "out", executor="plugin-backwards", **options)
    assert len(results.runs) == 2
    lines = (tmp_path / "out" / "events.jsonl").read_text().splitlines()
    starts = [json.loads(line)["method"] for line in lines if '"run_start"' in line]
    assert starts == ["baseline-8", "relation-8"]
