"""Tests of `--json`: one JSON document on stdout, documented keys, the same exit codes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from relation_tf.bench import RunFolder
from relation_tf.config import list_suites, load_suite
from relation_tf.tasks import miniglue

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "runs.md"
OF_GROUPS = ("task", "method", "requested", "done", "failed", "diverged")


def documented(command: str) -> list[str]:
    """Return the keys of an object in the table of commands on the page."""
    text = PAGE.read_text(encoding="utf-8")
    (row,) = re.findall(rf"^\| `{command}` \| (?:.*: )?(.*?)(?:\. .*)? \|$", text, re.M)
    return re.findall(r"`(\w+)`", re.sub(r"\(.*?\)", "", row))


def test_suites(call):
    code, out, err = call("suites", "--json")
    assert (code, err) == (0, "")
    suites = json.loads(out)["suites"]
    assert [each["suite"] for each in suites] == list_suites()
    assert all([*each] == documented("suites") for each in suites)
    (demo,) = (each for each in suites if each["suite"] == "demo")
    assert (demo["runs"], demo["seeds"], demo["note"]) == (180, [1, 2, 3, 4, 5], None)


def test_tasks(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    miniglue.write(tmp_path / "glue_data", train_rows=40, dev_rows=16, test_rows=6)
    with (tmp_path / "glue_data" / "RTE" / "train.tsv").open("a", encoding="utf-8") as file:
        file.write("broken\n")
    (tmp_path / "four.toml").write_text(
        'name = "four"\ntasks = ["CoLA", "STS-B", "RTE", "MR"]\n'
        '[[method]]\nmechanism = "relation"\n',
        encoding="utf-8",
    )
    command = ("tasks", "--suite", "four.toml", "--data", ".", "--tfds", tmp_path)
    code, out, err = call(*command, "--json")
    assert (code, err) == (0, "")
    tasks = {each["task"]: each for each in json.loads(out)["tasks"]}
    assert [*tasks] == ["CoLA", "STS-B", "RTE", "MR"]
    assert all([*each] == documented("tasks") for each in tasks.values())
    assert tasks["CoLA"]["status"] == "found"
    assert tasks["CoLA"]["rows"] == {"train": 40, "dev": 16, "test": 6}
    assert (tasks["CoLA"]["target"], tasks["CoLA"]["classes"]) == ("class", ["0", "1"])
    assert any("test" in note for note in tasks["CoLA"]["notes"])
    assert (tasks["STS-B"]["target"], tasks["STS-B"]["classes"]) == ("score", None)
    assert tasks["RTE"]["status"] == "unreadable"
    assert "train.tsv:42" in tasks["RTE"]["error"]
    assert tasks["MR"]["status"] == "not found"
    assert tasks["MR"]["rows"] is None


def test_status(call, tmp_path):
    RunFolder(tmp_path / "out").open(load_suite("demo", {"tasks": ["RTE"], "seeds": [1, 2]}))
    failed = tmp_path / "out" / "runs" / "RTE" / "relation-64" / "seed-1"
    failed.mkdir(parents=True)
    (failed / "error.json").write_text('{"error": "no memory", "traceback": ""}')
    code, out, err = call("status", tmp_path / "out", "--json")
    assert (code, err) == (0, "")
    status = json.loads(out)
    assert [*status] == documented("status")
    assert [status[kind] for kind in ("requested", "done", "failed")] == [8, 0, 1]
    assert all(tuple(group) == OF_GROUPS for group in status["groups"])
    (group,) = (group for group in status["groups"] if group["failed"])
    assert [*group.values()] == ["RTE", "relation-64", 2, 0, 1, 0]
    assert status["failures"] == [{"run": "RTE/relation-64/seed-1", "error": "no memory"}]


@pytest.mark.parametrize(
    "arguments",
    [["suites", "dmeo"], ["tasks", "COLA"], ["status", "no"]],
)
def test_errors_stay_one_line_on_stderr(call, arguments):
    code, out, err = call(*arguments, "--json")
    assert (code, out) == (2, "")
    assert err.startswith("relation-tf: ")
    assert err.count("\n") == 1
