"""Tests with broken suite files: the suite can be run, or the error is clear."""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path

import pytest

from relation_tf.config import load_suite
from relation_tf.config.rules import MAX_RUNS
from relation_tf.config.suite import make_suite
from relation_tf.errors import SuiteError
from tests.fuzz.mutations import COUNTS, mutations, refusal

pytestmark = pytest.mark.fuzz

LINES = 11  # ten faults and how many more

HEAD = 'name = "x"\ntasks = ["RTE"]\n'
METHOD = '[[method]]\nmechanism = "relation"\n'
OWN = """
[[task]]
name = "tones"
inputs = ["text"]
label = "tone"
labels = ["calm", "loud"]
files = {{ train = "{file}.csv", test = "test.csv" }}
"""
WHOLE = f"""
name = "whole"
title = "Café"
tasks = ["RTE", "CoLA", "tones"]
seeds = [1, 2]
epochs = 3
dropout = 0.25
monitor = "val_loss"
initializer = {{ class_name = "HeNormal", config = {{ seed = 3 }} }}
overrides = {{ RTE = {{ epochs = 2 }} }}

[[method]]
mechanism = "relation"
units = [8, 16]

[[method]]
mechanism = "contextualizer"
size = ["50K", 60_000]
sized_by = "rank"
grid = {{ num_steps = [1, 5], initial_context = ["ones"] }}

[[method]]
mechanism = "attention"
name = "mine"
options = {{ variant = "equations" }}
{OWN.format(file="train")}
"""


def load(path: Path) -> None:
    """Check that an accepted suite can be written, read again and planned."""
    suite = load_suite(path)
    made = make_suite("again", tomllib.loads(suite.to_toml()))
    assert made == suite
    methods = suite.methods()
    assert len(suite.tasks) * len(methods) * len(suite.seeds) <= MAX_RUNS
    if len(methods) < 100:
        folders = {Path(run.task, run.method, str(run.seed)) for run in suite.runs()}
        assert all(".." not in folder.parts and len(folder.parts) == 3 for folder in folders)


@COUNTS
def test_a_broken_suite_is_read_or_named(tmp_path, count):
    path = tmp_path / "whole.toml"
    path.write_text(WHOLE, encoding="utf-8")
    load(path)
    messages = []
    for data in mutations(WHOLE.encode(), count):
        path.write_bytes(data)
        messages.append(refusal(functools.partial(load, path), SuiteError, str(path), LINES))
    assert list(tmp_path.iterdir()) == [path]
    assert 0 < sum(message is not None for message in messages) < len(messages)


HUGE = "0x" + "f" * 10_000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = " + "[" * 5000, "invalid TOML: maximum recursion depth exceeded"),
        (f"{HEAD}epochs = {'9' * 5000}\n{METHOD}", "invalid TOML: Exceeds the limit"),
        (f"{HEAD}epochs = {HUGE}\n{METHOD}", "key 'epochs': must be less than 2147483648."),
        (f"{HEAD}{METHOD}units = {HUGE}", "key 'method.1.units': must be less than 2147483648."),
        (f'{HEAD}{METHOD}size = "{"9" * 400}M"', "key 'method.1.size': must be a number of param"),
        (f'{HEAD}"a[b" = 1\n{METHOD}', "unknown key 'a[b'. Known: source, tokens, "),
        (f'{HEAD}"a\\u001b[2J" = 1\n{METHOD}', r"unknown key 'a\x1b[2J'. "),
        (f'{HEAD}"{"k" * 5000}" = 1\n{METHOD}', "unknown key 'kkkk"),
        (f"{HEAD}learning_rate = inf\n{METHOD}", "'learning_rate': must be a finite number"),
        (f"{HEAD}seeds = [{'-1, ' * 5000}]\n{METHOD}", "and 4,990 more faults"),
        (f'name = "x"\ntasks = ["{"R" * 5000}"]\n{METHOD}', "key 'tasks': unknown task 'RRR"),
        (f'name = "x"\ntasks = ["R\\u0007TE"]\n{METHOD}', r"key 'tasks': unknown task 'R\x07TE'"),
        (f'{HEAD}{METHOD}grid = {{ a = [] }}', "key 'method.1.grid.a': must have at least 1 item"),
        (f'{HEAD}{METHOD}grid = {{ variant = ["../../x"] }}', "cannot be a folder name"),
        (f'{HEAD}{METHOD}grid = {{ variant = ["{"x" * 300}"] }}', "cannot be a folder name"),
        (f'{HEAD}published = "{"p" * 300}"\n{METHOD}', "published figures 'ppp"),
        (f'{HEAD}published = "a\\u0000b"\n{METHOD}', r"published figures 'a\x00b'"),
        (HEAD.replace("RTE", "tones") + METHOD + OWN.format(file="a\\u0000b"), "name of a file"),
        (HEAD.replace("RTE", "tones") + METHOD + OWN.format(file="a") + "maximum = inf",
         "key 'task.1.maximum': must be a finite number"),
        ("\0", "invalid TOML: "),
        ("", "key 'name' is missing"),
        (HEAD, "suite.toml: no methods. Add at least one [[method]] table."),
        ("a = 1\nb = &", "suite.toml:2:5: invalid TOML: Invalid value"),
    ],
)  # fmt: skip
def test_invalid_suite_names_the_fault(tmp_path, text, message):
    path = tmp_path / "suite.toml"
    path.write_text(text, encoding="utf-8")
    found = refusal(functools.partial(load, path), SuiteError, str(path), LINES)
    assert found is not None
    assert message in found


@pytest.mark.parametrize("name", ["a/b", "..", "", "x" * 300, "a\n", "-a"])
@pytest.mark.parametrize("key", ["name", "method.1.name", "task.1.name"])
def test_names_that_make_no_folder(name, key):
    values = {**tomllib.loads(WHOLE), "tasks": ["RTE"]}
    (values[key.split(".")[0]][0] if "." in key else values)["name"] = name
    message = refusal(functools.partial(make_suite, "here", values), SuiteError, "here", LINES)
    assert message
    assert f"here: key '{key}': must be a name of at most 80 letters" in message


MILLION = list(range(1, 1_000_001))
TENS = {f"option{number}": list(range(10)) for number in range(12)}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": 1_000_000}, "key 'seeds': must be at most 100,000 seeds. Received: 1000000"),
        ({"seeds": 10**300}, "key 'seeds': must be at most 100,000 seeds. Received: 1000000"),
        ({"seeds": MILLION}, "at most 100,000 runs (tasks x methods x seeds). Received: 1,000,000"),
        ({"method": [{"mechanism": "relation", "units": MILLION}]}, "Received: 5,000,000"),
        ({"method": [{"mechanism": "relation", "grid": TENS}]}, "Received: 5,000,000,000,000"),
        (
            {"method": [{"mechanism": "relation", "grid": {**TENS, "more": MILLION[: 10**5]}}]},
            "Received: more than 10^15",
        ),
    ],
)
def test_too_many_runs_are_refused_at_once(changes, message):
    values = {"name": "x", "tasks": ["RTE"], "method": [{"mechanism": "relation"}], **changes}
    found = refusal(functools.partial(make_suite, "here", values), SuiteError, "here")
    assert found is not None
    assert message in found


def test_a_file_that_is_no_text(tmp_path):
    path = tmp_path / "suite.toml"
    path.write_bytes(b'name = "caf\xe9"')
    assert refusal(functools.partial(load, path), SuiteError, str(path))
    folder = tmp_path / "folder.toml"
    folder.mkdir()
    assert refusal(functools.partial(load, folder), SuiteError, str(folder))
    assert refusal(functools.partial(load, tmp_path / f"{'n' * 300}.toml"), SuiteError, "nnn.toml")
