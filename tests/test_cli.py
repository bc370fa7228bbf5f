from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

import relation_tf
from relation_tf import cli
from relation_tf.bench import RunFolder
from relation_tf.config import list_suites, load_suite
from relation_tf.config.loading import make_suite
from relation_tf.tasks import miniglue

SUITE = """
name = "small"
title = "A small suite"
tasks = ["CoLA", "RTE"]
seeds = {seeds}
epochs = {epochs}
batch_size = 16
embedding_dim = 8

[[method]]
mechanism = "relation"
units = 8

[[method]]
mechanism = "baseline"
units = 8
"""


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A folder with data and a suite, and a cache of its own."""
    monkeypatch.setenv("RELATION_TF_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    miniglue.write(tmp_path / "glue_data", train_rows=40, dev_rows=16, test_rows=6)
    (tmp_path / "small.toml").write_text(SUITE.format(seeds=2, epochs=2), encoding="utf-8")
    return tmp_path


def call(monkeypatch, *arguments):
    """The exit code of a command."""
    monkeypatch.setattr(sys, "argv", ["relation-tf", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code or 0


@pytest.mark.tensorflow
def test_a_suite_from_the_shell(work, monkeypatch, capsys):
    run = ("run", "small.toml", "--data", ".", "--out", "out")
    assert call(monkeypatch, *run) == 0
    printed = capsys.readouterr()
    assert "2 methods x 2 seeds: Steel-Dwass can never reach p < .05" in printed.out
    assert re.search(r"8 of 8 runs done, [\d.]+ min, [\d,]+ runs an hour", printed.out)
    assert "report: out/report/report.html" in printed.out
    assert (work / "out" / "report" / "report.html").exists()
    assert "no submissions" not in printed.out  # two tasks are not made for the leaderboard
    assert "cannot be separated" in printed.out or "never reach" in printed.out

    assert call(monkeypatch, "status", "out") == 0
    assert "8 of 8 runs done, 0 failed" in capsys.readouterr().out

    assert call(monkeypatch, *run, "--tasks", "RTE") == 0
    printed = capsys.readouterr().out
    assert "4 of 4 runs are done already" in printed
    assert printed.endswith("4 of 4 asked for are done; 0 others of the suite are not\n")

    assert call(monkeypatch, *run, "--set", "dropout=0.25") == 2
    printed = capsys.readouterr()
    assert "dropout = 0.5, now asked is 0.25" in printed.err
    assert printed.err.count("\n") == 1

    assert call(monkeypatch, "report", "out") == 0


@pytest.mark.tensorflow
def test_a_layer_of_ones_own_lies_in_the_working_folder(work, monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "my_layer", raising=False)  # another test's
    (work / "my_layer.py").write_text(
        "import keras\n\n\nclass Mine(keras.layers.Dense):\n    pass\n", encoding="utf-8"
    )
    text = SUITE.format(seeds=1, epochs=1).replace('"baseline"', '"my_layer:Mine"')
    (work / "mine.toml").write_text(text, encoding="utf-8")
    assert call(monkeypatch, "run", "mine.toml", "--data", ".", "--tasks", "CoLA") == 0
    runs = work / "runs" / "small" / "runs"
    assert (runs / "CoLA" / "Mine-8" / "seed-1" / "result.json").exists()


@pytest.mark.tensorflow
def test_a_failed_run_is_exit_code_1(work, monkeypatch, capsys):
    with (work / "glue_data" / "CoLA" / "train.tsv").open("a", encoding="utf-8") as file:
        file.write("broken\n")
    run = ("run", "small.toml", "--data", ".", "--out", "out", "--seeds", "1")
    assert call(monkeypatch, *run) == 1
    printed = capsys.readouterr().out
    assert printed.count("failed: CoLA/relation-8/seed-1: ") == 1
    assert "train.tsv:41: expected 4 tab-separated fields" in printed
    assert "2 of 4 runs done, 2 failed" in printed
    capsys.readouterr()
    assert call(monkeypatch, "submit", "out") == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("relation-tf: no submission of ")
    assert printed.err.count("\n") == 1


@pytest.mark.tensorflow
def test_a_broken_run_is_named_and_the_others_are_reported(work, monkeypatch, capsys):
    run = ("run", "small.toml", "--data", ".", "--out", "out", "--tasks", "RTE", "--seeds", "1")
    assert call(monkeypatch, *run) == 0
    result = work / "out/runs/RTE/relation-8/seed-1/result.json"
    result.write_text(result.read_text()[:100])
    capsys.readouterr()
    for command, code in ((run, 1), (("report", "out"), 0), (("status", "out"), 0)):
        assert call(monkeypatch, *command) == code
        printed = capsys.readouterr().out
        shown = "1 of 8 runs done, 1 failed" if "status" in command else "out/report/report.html"
        assert shown in printed
        said = "not reported: RTE/relation-8/seed-1: out/runs/RTE/relation-8/seed-1/result.json: "
        assert said in printed
        assert "delete the folder to run it again" in printed
    assert "result.json: expected JSON" in (work / "out/report/report.html").read_text()


@pytest.mark.slow
@pytest.mark.tensorflow
def test_one_run_on_two_devices(work):
    """In a process of its own, whose CPU is parted before its first use."""
    command = [
        sys.executable, "-m", "relation_tf.cli", "run", "small.toml", "--data", ".", "--out", "out",
        "--tasks", "CoLA", "--seeds", "1", "--strategy", "mirrored", "--devices", "2",
        "--deterministic",
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    manifests = [json.loads(path.read_text()) for path in work.glob("out/runs/*/*/*/manifest.json")]
    assert len(manifests) == 2
    for manifest in manifests:
        assert (manifest["strategy"], manifest["replicas"]) == ("mirrored", 2)
        assert manifest["op_determinism"]


@pytest.mark.tensorflow
def test_output_that_is_closed_ends_the_command(work):
    command = [
        sys.executable, "-m", "relation_tf.cli", "run", "small.toml", "--data", ".", "--jobs", "2",
    ]  # fmt: skip
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )  # fmt: skip
    process.stdout.readline()
    process.stdout.close()
    with process.stderr:
        errors = process.stderr.read()
    assert process.wait(timeout=600) != 0
    assert "Traceback" not in errors


@pytest.mark.tensorflow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc to see processes")
def test_workers_end_with_a_command_that_is_killed(work):
    """They would train on, into a folder that the next command takes."""
    command = [
        sys.executable, "-m", "relation_tf.cli", "run", "small.toml", "--data", ".", "--jobs", "2",
        "--set", "epochs=100000", "--set", "patience=100000",
    ]  # fmt: skip
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )  # fmt: skip
    with process.stdout:
        while "epoch" not in process.stdout.readline():
            assert process.poll() is None
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.kill()
    process.wait(timeout=600)
    assert len(children) >= 2
    deadline = time.monotonic() + 300
    while any(_runs(pid) for pid in children):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_version(monkeypatch, capsys):
    assert call(monkeypatch, "--version") == 0
    assert capsys.readouterr().out.strip() == relation_tf.__version__


def test_no_command_shows_the_help(monkeypatch, capsys):
    assert call(monkeypatch) == 2
    printed = capsys.readouterr()
    assert "Usage" in printed.out
    assert printed.err == ""


def test_suites_lists_what_there_is(monkeypatch, capsys):
    assert call(monkeypatch, "suites") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list_suites()
    (demo,) = (line for line in lines if line.startswith("demo "))
    assert demo.split()[1:3] == ["180", "runs"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "glue-small"], "task CoLA: expected --data DIR"),
        (["run", "demo", "--data", "."], "suite demo has embedded data. Received: --data ."),
        (["run", "dmeo"], "unknown suite 'dmeo'"),
        (["run", "missing.toml"], "missing.toml: cannot be read"),
        (["run", "demo", "--set", "epochs"], "--set: expected KEY=VALUE. Received: 'epochs'"),
        (["run", "demo", "--set", "epochs=many"], "key 'epochs'"),
        (["run", "demo", "--set", "epoch=3"], "unknown key 'epoch'. Did you mean 'epochs'?"),
        (["run", "demo", "--seeds", "a"], "--seeds: expected numbers such as 1,2. Received: 'a'"),
        (["run", "demo", "--tasks", "cola"], "unknown task 'cola'"),
        (["run", "demo", "--methods", "x"], "unknown method 'x'"),
        (["run", "demo", "--jobs", "0"], "jobs: expected 1 or more. Received: 0"),
        (["run", "demo", "--strategy", "x"], "strategy: expected mirrored or multi-worker"),
        (["run", "demo", "--devices", "2"], "devices: expected --strategy mirrored beside it"),
        (["run", "demo", "--strategy", "mirrored", "--jobs", "2"], "jobs: expected 1 with"),
        (["run", "demo", "--strategy", "multi-worker"], "TF_CONFIG: --strategy multi-worker"),
        (["run", "demo", "--speed", "9"], "No such option"),
        (["run"], "Missing argument"),
        (["run", "demo", "--methods", "relation64"], "Did you mean 'relation-64'?"),
        (["run", "demo", "--tasks", "rte"], "Did you mean 'RTE'?"),
        (["status", "."], "expected a suite's folder, with a suite.toml in it\n"),
        (["status", "runs/none"], "a suite's folder, with a suite.toml in it. Received"),
        (["report", "nowhere"], "expected a suite's folder"),
        (["submit", "nowhere"], "expected a suite's folder"),
        (["compare", "nowhere.csv"], "nowhere.csv: cannot be read"),
        (["compare", "x.csv", "--out", "~nobody-here/x"], "~nobody-here/x: "),
    ],
)
def test_bad_input_is_one_line_and_exit_2(monkeypatch, capsys, tmp_path, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert call(monkeypatch, *arguments) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.err.startswith("relation-tf: ")
    assert printed.err.count("\n") == 1
    assert printed.out == ""
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written(monkeypatch, capsys, tmp_path):
    (tmp_path / "file").write_text("")
    assert call(monkeypatch, "run", "demo", "--out", str(tmp_path / "file" / "out")) == 2
    assert "cannot be written: a folder is expected here" in capsys.readouterr().err
    assert call(monkeypatch, "run", "demo", "--out", str(tmp_path / "file")) == 2
    assert "file: cannot be written: a folder is expected here" in capsys.readouterr().err
    # Before the sources are read, so that nothing is computed in vain.
    assert call(monkeypatch, "compare", "nowhere", "--out", str(tmp_path / "file")) == 2
    assert "file: cannot be written: a folder is expected here" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_keeps_finished_runs_and_the_same_command_goes_on(work, jobs):
    (work / "small.toml").write_text(SUITE.format(seeds=40, epochs=20), encoding="utf-8")
    command = [
        sys.executable, "-m", "relation_tf.cli", "run", "small.toml", "--data", ".",
        "--out", "out", "--jobs", jobs,
    ]  # fmt: skip
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        # What runs these tests in the background may have it ignored, and a child inherits that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    deadline = time.monotonic() + 600
    while not list(work.glob("out/runs/*/*/*/result.json")):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    printed, _ = process.communicate(timeout=600)
    assert process.returncode == 130, printed
    assert "Traceback" not in printed
    assert "the same command goes on from there" in printed
    done = list(work.glob("out/runs/*/*/*/result.json"))
    assert 0 < len(done) < 160
    stamps = {path: path.stat().st_mtime_ns for path in done}
    again = [*command, "--seeds", "1"]
    answer = subprocess.run(
        again, capture_output=True, text=True, timeout=600, check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )  # fmt: skip
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert {path: path.stat().st_mtime_ns for path in done} == stamps


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc to see processes")
def test_ctrl_c_while_workers_are_starting(work):
    """They are Python's before they are ours: what they import would end with a traceback."""
    command = [
        sys.executable, "-m", "relation_tf.cli", "run", "small.toml", "--data", ".", "--jobs", "2",
    ]  # fmt: skip
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while not any("spawn_main" in _command_of(child) for child in children.read_text().split()):
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.001)
    time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    printed, _ = process.communicate(timeout=600)
    assert process.returncode == 130, printed
    assert "Traceback" not in printed


def _command_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def test_folders_of_other_tasks(tmp_path, monkeypatch, capsys):
    """Columns as wide as the longest name, and nothing to submit."""
    suite = SUITE.format(seeds=1, epochs=1).partition("tasks")[0] + (
        'tasks = ["MR", "fdu-kitchen_housewares"]\n[[method]]\nmechanism = "relation"\n'
    )
    RunFolder(tmp_path).open(make_suite("here", tomllib.loads(suite)))
    assert call(monkeypatch, "status", str(tmp_path)) == 0
    head, *rows = capsys.readouterr().out.splitlines()[:3]
    assert len(head) == len(rows[0]) == len(rows[1])
    assert call(monkeypatch, "submit", str(tmp_path)) == 2
    assert "the leaderboard has none of the tasks of suite" in capsys.readouterr().err


def test_a_suite_without_runs_has_nothing_to_submit(tmp_path, monkeypatch, capsys):
    RunFolder(tmp_path).open(load_suite("demo"))
    assert call(monkeypatch, "submit", str(tmp_path)) == 2
    assert "nothing to submit: no finished runs" in capsys.readouterr().err


def test_what_a_filtered_run_lacks_for_a_submission_is_said(tmp_path, monkeypatch, capsys):
    """Of the nine tasks; what was asked for, and what else the suite has, is told apart."""
    run = ("run", "demo", "--out", str(tmp_path), "--set", "epochs=1", "--set", "seeds=1")
    assert call(monkeypatch, *run, "--tasks", "WNLI", "--methods", "baseline-64") == 0
    printed = capsys.readouterr().out
    lacking = "CoLA, SST-2, MRPC, STS-B, QQP, MNLI, QNLI, RTE and 1 more"
    assert f"submissions: none written, {lacking} lack predictions (--fill-missing" in printed
    assert printed.endswith("1 of 1 asked for are done; 35 others of the suite are not\n")


OWN_TASK = """
name = "own"
tasks = ["tones", "RTE"]
seeds = 2
epochs = 2
batch_size = 16
embedding_dim = 8
start_token = true

[[task]]
name = "tones"
inputs = ["text"]
label = "tone"
labels = {labels}
files = {{ train = "tones/train.csv", test = "tones/test.csv" }}

[[method]]
mechanism = "relation"
units = 8

[[method]]
mechanism = "baseline"
units = 8
"""


@pytest.fixture
def tones(work):
    """A suite with a task of one's own beside one of the package's."""
    (work / "tones").mkdir()
    rows = "".join(f"{'so' if i % 2 else 'not so'} loud {i},{'loud' if i % 2 else 'calm'}\n"
                   for i in range(40))  # fmt: skip
    for split in ("train", "test"):
        (work / "tones" / f"{split}.csv").write_text(f"text,tone\n{rows}", encoding="utf-8")
    suite = work / "own.toml"
    suite.write_text(OWN_TASK.format(labels='["calm", "loud"]'), encoding="utf-8")
    return suite


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_task_of_ones_own(tones, monkeypatch, capsys):
    """Trained by processes of their own, reported by another, told apart when it changes."""
    run = ("run", "own.toml", "--data", ".", "--out", "out")
    assert call(monkeypatch, *run, "--jobs", "2") == 0
    assert "8 of 8 runs done" in capsys.readouterr().out
    for arguments in (("status", "out"), ("report", "out")):
        again = subprocess.run(
            [sys.executable, "-m", "relation_tf.cli", *arguments],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert "tones" in again.stdout
    assert "tones" in (tones.parent / "out" / "report" / "report.html").read_text()
    tones.write_text(OWN_TASK.format(labels='["loud", "calm"]'), encoding="utf-8")
    assert call(monkeypatch, *run) == 2
    printed = capsys.readouterr().err
    assert "custom_task" in printed
    assert printed.count("\n") == 1


def test_tasks_as_a_suite_reads_them(tones, monkeypatch, capsys):
    assert call(monkeypatch, "tasks", "--suite", "own.toml", "--data", ".") == 0
    table = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in table] == ["task", "tones", "RTE"]
    assert call(monkeypatch, "tasks", "tones", "--suite", "own.toml", "--data", ".") == 0
    printed = capsys.readouterr().out
    assert "own files, tones/train.csv" in printed
    assert "text: [START] not so loud" in printed
    (tones.parent / "tones" / "train.csv").unlink()
    assert call(monkeypatch, "tasks", "tones", "--suite", "own.toml", "--data", ".") == 2
    assert "looked for tones/train.csv: not there" in capsys.readouterr().err


def test_tasks_without_data(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("RELATION_TF_CACHE", str(tmp_path / "cache"))
    assert call(monkeypatch, "tasks", "--tfds", str(tmp_path)) == 0
    printed = capsys.readouterr().out
    assert "not found: CoLA, SST-2, " in printed
    assert call(monkeypatch, "tasks", "CoLA", "--tfds", str(tmp_path)) == 2
    printed = capsys.readouterr().err
    assert "expected --data DIR" in printed
    assert "To get it: gluebenchmark.com/tasks or `relation-tf download CoLA`" in printed
    assert call(monkeypatch, "tasks", "--set", "tokens=wordpiece") == 2
    assert "name one with --suite" in capsys.readouterr().err


def test_what_tfds_does_not_have_cannot_be_downloaded(tmp_path, monkeypatch, capsys):
    assert call(monkeypatch, "download", "MR", "--tfds", str(tmp_path)) == 2
    printed = capsys.readouterr().err
    assert "task MR" in printed
    assert printed.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


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


def test_check_layer(tmp_path, monkeypatch, capsys):
    """A layer in the working folder: its faults decide the exit code, its warnings do not."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "checked_layer.py").write_text(LAYER, encoding="utf-8")
    command = ("check-layer", "checked_layer:Mine", "--units", "3", "--set", "scale=0.5")
    assert call(monkeypatch, *command) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("checked_layer:Mine with units=3, width=6, scale=0.5 (")
    assert any(line.split() == ["ok", "made", "Mine", "is", "made."] for line in lines)
    # Padding does no harm to a layer by tokens; where it holds NaN, its gradients do.
    assert [line.split()[1] for line in lines if line.startswith("warning")] == ["NaN"]
    assert call(monkeypatch, *command, "--set", "scale=nan") == 1
    assert "failed: " in capsys.readouterr().out.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["relatoin"], "Did you mean 'relation'?"),
        (["nowhere:Layer"], "mechanism 'nowhere:Layer': no nowhere.py in this folder, and no"),
        (["relation", "--set", "algorithm"], "--set: expected KEY=VALUE. Received: 'algorithm'"),
        (["relation", "--units", "0"], "'--units'"),
    ],
)
def test_check_layer_of_bad_input(monkeypatch, capsys, arguments, message):
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert call(monkeypatch, "check-layer", *arguments) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""
