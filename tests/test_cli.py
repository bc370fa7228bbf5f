from __future__ import annotations

import dataclasses
import inspect
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer

import relation_tf
from relation_tf.bench import run_suite
from relation_tf.bench.options import OF_PLANS, RunOptions
from relation_tf.cli.application import parse_margins
from relation_tf.cli.commands import plan, pretrain, run
from relation_tf.config import list_suites
from relation_tf.registry import TASKS
from relation_tf.tasks import miniglue
from tests.programs import python

SUITE = """
name = "small"
title = "A small suite"
tasks = ["CoLA", "RTE"]
seeds = 1
epochs = 1
batch_size = 16
embedding_dim = 8

[[method]]
mechanism = "relation"
units = 8
"""


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A working folder with data, a suite and its own cache."""
    monkeypatch.setenv("RELATION_TF_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    miniglue.write(tmp_path / "glue_data", train_rows=40, dev_rows=16, test_rows=6)
    (tmp_path / "small.toml").write_text(SUITE, encoding="utf-8")
    return tmp_path


def counts(printed):
    """Return the printed numbers of finished and of requested runs, without those of warnings."""
    found = re.findall(r"(\d+) of (\d+) (?:requested )?runs(?! had)", printed)
    return [(int(a), int(b)) for a, b in found]


def start(*arguments, **options):
    """Start a command in its own process group; its stdout is a pipe."""
    return subprocess.Popen(
        [sys.executable, "-m", "relation_tf.cli", *arguments],
        stdout=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        # A shell may have it ignored for background jobs, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), **options,
    )  # fmt: skip


SMALL = ("run", "small.toml", "--data", ".", "--out", "out")


@pytest.mark.tensorflow
def test_run_status_and_report(work, call):
    code, out, _ = call(*SMALL)
    assert code == 0
    assert "0/2 runs, starting\n" in out
    assert counts(out)[-1] == (2, 2)
    assert "report: out/report/report.html\n" in out
    assert (work / "out" / "report" / "report.html").exists()
    assert "no submissions" not in out  # two tasks are not made for the leaderboard
    assert counts(call("status", "out")[1]) == [(2, 2)]

    code, out, _ = call(*SMALL, "--tasks", "RTE")
    assert (code, counts(out)[0], counts(out)[-1]) == (0, (1, 1), (1, 1))
    assert "starting" not in out

    code, _, err = call(*SMALL, "--set", "dropout=0.25")
    assert code == 2
    assert "dropout = 0.5, but now dropout = 0.25" in err
    assert err.count("\n") == 1
    assert call("report", "out")[0] == 0


@pytest.mark.tensorflow
def test_failed_and_broken_runs(work, call):
    """They are named, set the exit code, and the others are reported."""
    with (work / "glue_data" / "CoLA" / "train.tsv").open("a", encoding="utf-8") as file:
        file.write("broken\n")
    code, out, _ = call(*SMALL)
    assert (code, (1, 2) in counts(out)) == (1, True)
    assert out.count("failed: CoLA/relation-8/seed-1: ") == 1
    assert "train.tsv:41: expected 4 fields" in out
    code, out, _ = call(*SMALL, "--tasks", "RTE")
    assert (code, "failed: CoLA/" in out, (1, 1) in counts(out)) == (0, False, True)

    result = work / "out/runs/RTE/relation-8/seed-1/result.json"
    result.write_text(result.read_text()[:100])
    for command in ("report", "status"):
        code, out, _ = call(command, "out")
        assert code == 0
        assert "RTE/relation-8/seed-1: out/runs/RTE/relation-8/seed-1/result.json: " in out
    assert counts(out) == [(0, 2)]
    _, out, _ = call(*SMALL, "--tasks", "RTE")
    assert (1, 1) in counts(out)


@pytest.mark.slow
@pytest.mark.tensorflow
def test_output_that_is_closed_ends_the_command(work):
    process = start(*SMALL, "--jobs", "2", stderr=subprocess.PIPE)
    process.stdout.readline()
    process.stdout.close()
    with process.stderr:
        errors = process.stderr.read()
    assert process.wait() == 141
    assert "Traceback" not in errors


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize(
    ("number", "ended"), [(signal.SIGINT, "Interrupted."), (signal.SIGTERM, "Terminated.")]
)
def test_an_interrupted_run_ends_with_how_to_resume(call, tmp_path, monkeypatch, number, ended):
    monkeypatch.setattr(
        "relation_tf.bench.runner.group_runs", lambda *_: signal.raise_signal(number)
    )
    code, out, error = call("run", "demo", "--out", tmp_path, "--tasks", "WNLI", "--seeds", "1")
    assert code == 128 + number
    assert counts(out.splitlines()[-1]) == [(0, 4)]
    assert out.endswith(" to resume.\n")
    assert error.splitlines()[-1] == ended


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_python_ends_changes_nothing(tmp_path, number):
    """The exit code is that of the command; there is no search for garbage, which takes long."""
    program = f"""
import atexit, gc, signal
atexit.register(lambda: print("frozen", gc.get_freeze_count() > 0))
atexit.register(signal.raise_signal, {number:d})  # functions run in the opposite order
signal.signal(signal.SIGINT, signal.default_int_handler)
from relation_tf import cli
cli.main()
"""
    ended = python(program, tmp_path, "--version")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines()[-1] == "frozen True"


def test_without_a_command(call):
    assert call("--version") == (0, f"{relation_tf.__version__}\n", "")
    code, out, err = call()
    assert (code, err) == (2, "")
    assert "Usage" in out


COMMANDS = (
    "suites", "tasks", "check-layer", "status", "report", "compare",
    "submit", "run", "diagnose", "plan", "pretrain",
)  # fmt: skip


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_pages(call, monkeypatch, command):
    """Short lines, values as metavars, examples of this command; `-h` is `--help`."""
    monkeypatch.setenv("COLUMNS", "80")
    code, page, err = call(*command.split(), "--help")
    assert (code, err) == (0, "")
    assert call(*command.split(), "-h")[1] == page
    assert page.startswith(f"Usage: relation-tf {command}".strip())
    text, _, examples = page.partition("\n  Examples:\n")
    assert not re.search(r"<(str|bool|int|path|list)|A,B|1,2", text)
    assert max(map(len, text.splitlines())) < 80
    assert not re.search(r"\w-\n", text)
    assert 1 <= len(examples.splitlines()) <= 3
    assert all(f"relation-tf {command}" in line for line in examples.splitlines())


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], (None, {})),
        (["1"], (1.0, {})),
        (["1", "WikiText perplexity=0.5", "a=b=2"], (1.0, {"WikiText perplexity": 0.5, "a=b": 2})),
    ],
)
def test_margins_are_parsed(values, expected):
    assert parse_margins(values) == expected


@pytest.mark.parametrize("values", [["MR"], ["1", "2"], ["=1"], ["MR=high"], ["MR=1", "MR=2"]])
def test_wrong_margins_are_refused(values):
    with pytest.raises(typer.BadParameter, match="--margin: must be a number, or TASK=NUMBER"):
        parse_margins(values)


@pytest.mark.parametrize(
    ("arguments", "suggestion"),
    [
        ("stats", "status"),
        ("run demo --methds relation-64", "--methods"),
        ("run dmeo", "demo"),
        ("run demo --methods relaton-64", "relation-64"),
        ("run demo --set epoch=3", "epochs"),
        ("check-layer relatn", "relation"),
        ("compare scores.csv --lower-is-better rte", "RTE"),
    ],
)
def test_near_names_are_suggested(call, monkeypatch, tmp_path, arguments, suggestion):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_plugin.py").touch()
    (tmp_path / "small.toml").touch()
    rows = [f"RTE,{name},{seed},.{seed}" for name in ("attention", "relation") for seed in (1, 2)]
    (tmp_path / "scores.csv").write_text("\n".join(["task,method,seed,score", *rows]))
    code, _, err = call(*arguments.split())
    assert code == 2
    assert f"Did you mean {suggestion!r}" in err


def test_suites_are_listed(call):
    lines = call("suites")[1].splitlines()
    assert [line.split()[0] for line in lines] == list_suites()
    (demo,) = (line for line in lines if line.startswith("demo "))
    assert demo.split()[1:3] == ["180", "runs"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "diagnostics-small", "--data", "."],
         "has only generated tasks, which read no folder of files. Received: --data ."),
        (["run", "diagnostics-small", "--data", ".", "--fill-missing"],
         "suite diagnostics-small has no task of the GLUE leaderboard. Its tasks: "),
        (["suites", "x" * 300 + "/b"], ": File name too long.\n"),
        (["run", "missing.toml"], "missing.toml: cannot be read"),
        (["run", "demo", "--set", "epochs"], "--set: must be KEY=VALUE. Received: 'epochs'"),
        (["run", "demo", "--seeds", "a"], "--seeds: must be integers such as 1,2. Received: 'a'"),
        (["run", "demo", "--tasks", ","], "--tasks must have one or more of CoLA, SST-2, "),
        (["run", "demo", "--jobs", "x"], "'--jobs': must be an integer. See"),
        (["status", "runs/none"], "runs/none: no such folder. DIR must be a folder written by"),
        (["compare", "x.csv", "--plugin", "absent"], "plugin 'absent' cannot be imported: no suc"),
        (["check-layer", "my.py"], "'my.py'. A custom layer must be 'package.module:Name', such as "
                                   "'my:Name'."),
        (["pretrain", "b.txt"], "b.txt: cannot be read: No such file or directory.\n"),
        (["compare", "s.csv", "--title", "caf\udce9"], "arguments must be UTF-8 text. Received: "),
        (["status", "--json", ""], "an argument must not be empty."),
        (["run", "demo", "--set", "a.b=1"], "a whole key, such as 'overrides={CoLA={epochs=20}}'."),
        (["run", "demo", "--tfds", "."],
         "suite demo has source = 'miniglue', which reads no TFDS datasets. Received: --tfds ."),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_and_exit_2(call, monkeypatch, tmp_path, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = call(*arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.startswith("relation-tf: ")
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written(call, tmp_path):
    (tmp_path / "file").write_text("")
    for command in (
        ("run", "demo", "--out", tmp_path / "file" / "out"),
        ("run", "demo", "--out", tmp_path / "file"),
        # Checked before the sources are read.
        ("compare", "nowhere", "--out", tmp_path / "file"),
    ):
        code, _, err = call(*command)
        assert code == 2
        assert err.endswith("cannot be written: must be a folder, not a file.\n")


CUSTOM_TASK = """
[[task]]
name = "tones"
inputs = ["text"]
label = "tone"
labels = ["calm", "loud"]
files = { train = "tones/train.csv", test = "tones/test.csv" }
"""


@pytest.fixture
def tones(work):
    """A suite with a custom task and one of the package."""
    (work / "tones").mkdir()
    for first, split in enumerate(("train", "test")):
        rows = "".join(f"{'so' if i % 2 else 'not so'} loud {i},{'loud' if i % 2 else 'calm'}\n"
                       for i in range(first, 40 + first))  # fmt: skip
        (work / "tones" / f"{split}.csv").write_text(f"text,tone\n{rows}", encoding="utf-8")
    suite = work / "own.toml"
    text = SUITE.replace('"CoLA"', '"tones"')
    suite.write_text(f"start_token = true\n{text}{CUSTOM_TASK}", encoding="utf-8")
    return suite


def test_tasks_as_a_suite_reads_them(tones, call):
    table = call("tasks", "--suite", "own.toml", "--data", ".")[1].splitlines()
    assert [line.split()[0] for line in table] == ["task", "tones", "RTE", "*", "*"]
    code, out, _ = call("tasks", "tones", "--suite", "own.toml", "--data", ".")
    assert code == 0
    assert "tones/train.csv" in out
    assert "[START] not so loud" in out
    (tones.parent / "tones" / "train.csv").unlink()
    code, _, err = call("tasks", "tones", "--suite", "own.toml", "--data", ".")
    assert code == 2
    assert "not found. Searched: tones/train.csv" in err


def test_tasks_without_data(tmp_path, monkeypatch, call):
    monkeypatch.setenv("RELATION_TF_CACHE", str(tmp_path / "cache"))
    few = {name: TASKS[name] for name in ("CoLA", "SST-2", "MR", "dates")}
    monkeypatch.setattr(TASKS, "_entries", few)
    printed = call("tasks", "--tfds", tmp_path)[1]
    assert "CoLA, SST-2, MR" in printed
    assert "\ndates " in printed
    code, _, err = call("tasks", "CoLA", "--tfds", tmp_path)
    assert code == 2
    assert "needs --data DIR" in err
    assert "run `tfds build glue/cola`" in err


LAYER = """
import keras


@keras.saving.register_keras_serializable()
class Mine(keras.layers.Layer):
    def __init__(self, units, scale=1.0, **kwargs):
        super().__init__(**kwargs)
        self.scale = scale
        self.dense = keras.layers.Dense(units)

    def build(self, shape):
        self.dense.build(shape)

    def call(self, x, mask=None):
        return self.scale * self.dense(x)
"""


def test_a_deleted_working_folder_is_named(tmp_path, monkeypatch, call):
    (tmp_path / "deleted").mkdir()
    monkeypatch.chdir(tmp_path / "deleted")
    (tmp_path / "deleted").rmdir()
    code, _, err = call("check-layer", "mine:Mine")
    assert (code, err) == (2, "relation-tf: the current folder no longer exists.\n")


def test_check_layer(tmp_path, monkeypatch, call):
    """Faults of a layer in the working folder set the exit code."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "checked_layer.py").write_text(LAYER, encoding="utf-8")
    command = ("check-layer", "checked_layer:Mine", "--units", "3", "--option")
    code, out, _ = call(*command, "scale=wide")
    assert code == 1
    lines = out.splitlines()
    assert lines[0].startswith("checked_layer:Mine with units=3, width=6, scale='wide' (")
    assert lines[-1].startswith("failed: ")
    checked = []
    monkeypatch.setattr(
        "relation_tf.networks.check_layer",
        lambda *arguments: checked.append(arguments) or SimpleNamespace(passed=True),
    )
    assert call(*command, "scale=0.5")[0] == 0
    assert checked == [("checked_layer:Mine", 3, 6, {"scale": 0.5})]


@pytest.mark.tensorflow
def test_pretrain(work, call):
    (work / "a.txt").write_text("so good it is\n" * 99)
    command = (
        "pretrain", "a.txt", "--layers", "1", "--units", "4", "--length", "8", "--batch-size", "2",
        "--steps", "3", "--vocabulary", "60", "--mechanisms", "relation",
        "--seeds", "1",
    )  # fmt: skip
    code, out, err = call(*command)
    assert (code, err) == (0, "")
    assert counts(out)[-1] == (1, 1)
    assert len((work / "pretrained" / "scores.csv").read_text().splitlines()) == 2
    code, out, _ = call(*command)
    assert (code, counts(out)[0]) == (0, (1, 1))
    code, _, err = call(*command, "--norm", "post")
    assert code == 2
    assert "done with norm = 'pre', but now norm = 'post'" in err
    assert err.count("\n") == 1
    assert json.loads((work / "pretrained" / "pretraining.json").read_text())["held_out"] == 0.05


def test_options_are_those_of_the_settings_classes():
    """Names, defaults and order: the command, Python and the settings have the same."""
    declared = {each.name: each.default for each in dataclasses.fields(RunOptions)}

    def defaults(function):
        parameters = inspect.signature(function).parameters.values()
        return {each.name: each.default for each in parameters if each.name in declared}

    assert defaults(run_suite) == declared
    assert defaults(run) == {
        name: value or None if isinstance(value, tuple) else value
        for name, value in declared.items()
        if name != "quiet"
    }
    assert {*defaults(plan)} == {*OF_PLANS} - {"quiet"}
    assert inspect.signature(pretrain).parameters["warmup"].default == 0.1
