from __future__ import annotations

import dataclasses
import inspect
import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer

import relation_tf
from glue_submit import Packed
from relation_tf import cli
from relation_tf.bench import Predictions, RunFolder, Submissions, run_suite
from relation_tf.bench.options import OF_PLANS, RunOptions
from relation_tf.cli.application import typed
from relation_tf.cli.arguments import parse_margins
from relation_tf.cli.runs import _measured, plan, pretrain, run
from relation_tf.config import list_suites, load_suite
from relation_tf.config.loading import make_suite
from relation_tf.registry import TASKS
from relation_tf.tasks import miniglue
from tests.bench.finished_runs import write_finished
from tests.programs import python

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
    """A working folder with data, a suite and its own cache."""
    monkeypatch.setenv("RELATION_TF_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    miniglue.write(tmp_path / "glue_data", train_rows=40, dev_rows=16, test_rows=6)
    (tmp_path / "small.toml").write_text(SUITE.format(seeds=2, epochs=2), encoding="utf-8")
    return tmp_path


@pytest.fixture
def call(monkeypatch, capsys):
    """Run a command; return its exit code and what it printed."""
    monkeypatch.setattr(sys, "path", [*sys.path])

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["relation-tf", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return ended.value.code or 0, *capsys.readouterr()

    return run


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
    assert "2 methods x 2 seeds: without ties no difference can be significant" in out
    assert "0/8 runs, starting\n" in out
    assert re.search(r"8 of 8 runs done, [\d.]+ min, [\d,]+ runs an hour", out)
    assert "report: out/report/report.html\nOpen it in a browser." in out
    assert (work / "out" / "report" / "report.html").exists()
    assert "no submissions" not in out  # two tasks are not made for the leaderboard

    assert "8 of 8 runs done, 0 failed" in call("status", "out")[1]

    code, out, _ = call(*SMALL, "--tasks", "RTE")
    assert code == 0
    assert "4 of 4 runs are done already" in out
    assert "starting" not in out
    assert out.endswith("4 of 4 requested runs are done; 0 other runs of the suite are pending\n")

    code, _, err = call(*SMALL, "--set", "dropout=0.25")
    assert code == 2
    assert "dropout = 0.5, but now dropout = 0.25" in err
    assert err.count("\n") == 1

    assert call("report", "out")[0] == 0


@pytest.mark.tensorflow
@pytest.mark.usefixtures("unchecked_layers")
def test_a_custom_layer_is_found_in_the_working_folder(work, monkeypatch, call):
    monkeypatch.delitem(sys.modules, "my_layer", raising=False)  # of another test
    (work / "my_layer.py").write_text(
        "import keras\n\n\nclass Mine(keras.layers.Dense):\n    pass\n", encoding="utf-8"
    )
    text = SUITE.format(seeds=1, epochs=1).replace('"baseline"', '"my_layer:Mine"')
    (work / "mine.toml").write_text(text, encoding="utf-8")
    assert call("run", "mine.toml", "--data", ".", "--tasks", "CoLA")[0] == 0
    runs = work / "runs" / "small" / "runs"
    assert (runs / "CoLA" / "Mine-8" / "seed-1" / "result.json").exists()


def test_predict_finds_custom_layers_in_the_working_folder(tmp_path, monkeypatch, call):
    monkeypatch.chdir(tmp_path)
    searched = []
    monkeypatch.setattr(
        "relation_tf.bench.predict_missing",
        lambda *_, **__: searched.append(sys.path[0]) or Predictions({}, {}),
    )
    assert call("predict", "runs")[0] == 0
    assert searched == [str(tmp_path)]


@pytest.mark.tensorflow
def test_failed_and_broken_runs(work, call):
    """They are named, set the exit code, and the others are reported."""
    with (work / "glue_data" / "CoLA" / "train.tsv").open("a", encoding="utf-8") as file:
        file.write("broken\n")
    code, out, _ = call(*SMALL, "--seeds", "1")
    assert code == 1
    assert out.count("failed: CoLA/relation-8/seed-1: ") == 1
    assert "train.tsv:41: expected 4 fields" in out
    assert "2 of 4 runs done, 2 failed" in out
    code, out, _ = call(*SMALL, "--seeds", "1", "--tasks", "RTE")
    assert (code, "failed: CoLA/" in out) == (0, False)
    assert "2 of 2 requested runs are done; " in out
    code, out, err = call("submit", "out")
    assert (code, out) == (2, "")
    assert " not written: " in err
    assert err.count("\n") == 1

    result = work / "out/runs/RTE/relation-8/seed-1/result.json"
    result.write_text(result.read_text()[:100])
    for command in ("report", "status"):
        code, out, _ = call(command, "out")
        assert code == 0
        assert ("1 of 8 runs done, 3 failed" if command == "status" else "report.html") in out
        assert "not reported: RTE/relation-8/seed-1: out/runs/RTE/relation-8/seed-1/result" in out
        assert "`relation-tf run` runs it again; and 2 more" in out
    assert "result.json: expected JSON" in (work / "out/report/report.html").read_text()
    _, out, _ = call(*SMALL, "--seeds", "1", "--tasks", "RTE")
    assert "relation-8/seed-1/result.json: expected JSON" in out
    assert ": run again" in out
    assert "2 of 2 requested runs are done" in out


@pytest.mark.slow
@pytest.mark.tensorflow
def test_one_run_on_two_devices(work):
    """In another process, whose CPU is divided before its first use."""
    process = start(*SMALL, "--tasks", "CoLA", "--seeds", "1", "--strategy", "mirrored",
                    "--devices", "2", "--deterministic")  # fmt: skip
    process.communicate()
    assert process.returncode == 0
    manifests = [json.loads(path.read_text()) for path in work.glob("out/runs/*/*/*/manifest.json")]
    assert len(manifests) == 2
    for manifest in manifests:
        assert (manifest["strategy"], manifest["replicas"]) == ("mirrored", 2)
        assert manifest["op_determinism"]


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


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_output_on_a_full_disk_is_one_line():
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "relation_tf.cli", "suites"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (
        2, "relation-tf: No space left on device.\n"
    )  # fmt: skip


@pytest.mark.slow  # test_processes.py has a fast one
@pytest.mark.tensorflow
def test_workers_end_with_a_command_that_is_killed(work):
    """They would train on, into a folder that the next command takes."""
    process = start(
        *SMALL, "--jobs", "2", "--set", "epochs=100000", "--set", "patience=100000",
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    with process.stdout:
        while "epoch" not in process.stdout.readline():
            assert process.poll() is None
        process.kill()
        process.stdout.read()  # ends when the last process that holds the pipe has ended
    assert process.wait() == -signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_ends_with_how_to_resume(call, tmp_path, monkeypatch, number):
    monkeypatch.setattr(
        "relation_tf.bench.runner.group_runs", lambda *_: signal.raise_signal(number)
    )
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        code, out, error = call("run", "demo", "--out", tmp_path, "--tasks", "WNLI", "--seeds", "1")
    finally:
        signal.signal(signal.SIGINT, before)
    assert code == 128 + number
    assert out.splitlines()[-1] == (
        f"0 of 4 runs are done, in {tmp_path}; run the same command again to resume."
    )
    ended = {signal.SIGINT: "Interrupted.", signal.SIGTERM: "Terminated."}
    assert error.splitlines()[-1] == ended[number]


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


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_keeps_finished_runs(work, jobs, number):
    (work / "small.toml").write_text(SUITE.format(seeds=40, epochs=20), encoding="utf-8")
    process = start(*SMALL, "--jobs", jobs, stderr=subprocess.STDOUT)
    while not re.match(r"[1-9]\d*/160 runs", line := process.stdout.readline()):
        assert line, process.wait()
    os.killpg(process.pid, number)  # as a terminal and schedulers do
    printed, _ = process.communicate()
    assert process.returncode == 128 + number, printed
    assert "Traceback" not in printed
    assert "run the same command again to resume" in printed
    done = list(work.glob("out/runs/*/*/*/result.json"))
    assert 0 < len(done) < 160
    stamps = {path: path.stat().st_mtime_ns for path in done}
    process = start(*SMALL, "--jobs", jobs, "--seeds", "1", stderr=subprocess.STDOUT)
    printed, _ = process.communicate()
    assert process.returncode == 0, printed
    assert {path: path.stat().st_mtime_ns for path in done} == stamps


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc to see processes")
def test_ctrl_c_while_workers_are_starting(work):
    """Their imports come before they can ignore it, and would end with a traceback."""
    process = start(*SMALL, "--jobs", "2", stderr=subprocess.STDOUT)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while not any("spawn_main" in _command_of(child) for child in children.read_text().split()):
        assert process.poll() is None, process.communicate()[0]
    os.killpg(process.pid, signal.SIGINT)
    printed, _ = process.communicate()
    assert process.returncode == 130, printed
    assert "Traceback" not in printed


def _command_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def test_a_program_is_named_as_it_can_be_typed(tmp_path, monkeypatch):
    """`make demo` leaves its environment off PATH."""
    monkeypatch.chdir(tmp_path)
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    monkeypatch.setattr(sys, "executable", str(programs / "python"))
    monkeypatch.setenv("PATH", "")
    assert typed("glue-submit") == "glue-submit"  # not installed there
    (programs / "glue-submit").write_text("")
    assert typed("glue-submit") == ".venv/bin/glue-submit"
    (programs / "glue-submit").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    assert typed("glue-submit") == "glue-submit"


def test_many_warnings_about_submissions_are_one_line():
    warnings = [f"{task}.tsv: all 9 predictions are 0" for task in ("RTE", "QNLI", "WNLI", "MRPC")]
    for number, lines in ((3, 4), (4, 2)):
        packed = Packed(Path("submissions/relation-64/seed-1.zip"), (), tuple(warnings[:number]))
        said = str(Submissions((packed,), ())).splitlines()
        assert len(said) == lines
        assert all("relation-64/seed-1" in line for line in said[1:])
    zips = [(method, seed) for seed in (10, 2, 1) for method in ("relation", "fofe", "attention")]
    packed = [
        Packed(Path(f"submissions/{method}/seed-{seed}.zip"), (), tuple(warnings))
        for method, seed in zips
    ]
    _, line = str(Submissions(tuple(packed), ())).splitlines()
    assert (
        "equal predictions: attention/seed-1, attention/seed-2, attention/seed-10, fofe/seed-1, "
        "fofe/seed-2, fofe/seed-10 and 3 more. `glue-submit" in line
    )


def test_without_a_command(call):
    assert call("--version") == (0, f"{relation_tf.__version__}\n", "")
    code, out, err = call()
    assert (code, err) == (2, "")
    assert "Usage" in out


COMMANDS = (
    "suites", "tasks", "check-layer", "status", "report", "compare", "predict",
    "submit", "run", "diagnose", "plan", "pretrain",
)  # fmt: skip


@pytest.mark.parametrize("width", [80, 110])
@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_pages(call, monkeypatch, command, width):
    """Short lines, values as metavars, examples of this command; `-h` is `--help`."""
    monkeypatch.setenv("COLUMNS", str(width))
    code, page, err = call(*command.split(), "--help")
    assert (code, err) == (0, "")
    assert call(*command.split(), "-h")[1] == page
    assert page.startswith(f"Usage: relation-tf {command}".strip())
    text, _, examples = page.partition("\n  Examples:\n")
    assert not re.search(r"<(str|bool|int|path|list)|A,B|1,2", text)
    assert max(map(len, text.splitlines())) < width
    assert not re.search(r"\w-\n", text)
    assert 1 <= len(examples.splitlines()) <= 3
    assert all(f"relation-tf {command}" in line for line in examples.splitlines())


def test_lines_are_wrapped_between_words_in_a_terminal(call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    whole = call("suites")[1], call("run", "dmeo")[2]
    assert max(map(len, whole[0].splitlines())) > 60
    assert whole[1].count("\n") == 1
    for stream in ("stdout", "stderr"):
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True)
    for text, before in zip((call("suites")[1], call("run", "dmeo")[2]), whole, strict=True):
        assert max(map(len, text.splitlines())) <= 60
        assert text.split() == before.split()


def test_a_suite_that_fails_before_its_first_run_leaves_no_folder(work, call):
    text = SUITE.format(seeds=1, epochs=1).replace("units = 8", "units = 8\noptions = {foo = 1}", 1)
    (work / "wrong.toml").write_text(text, encoding="utf-8")
    before = {*work.rglob("*")}
    code, _, err = call("run", "wrong.toml", "--data", ".")
    assert code == 2
    assert "foo" in err
    assert {path for path in {*work.rglob("*")} - before if "cache" not in path.parts} == set()


def test_help_texts_list_choices_and_defaults(call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "110")
    page = call("run", "--help")[1]
    assert "--tasks NAME[,NAME...]    Tasks to use.  [default: all]\n" in page
    assert "--out DIR                 Folder of the runs.  [default: runs/SUITE]\n" in page
    # By name: other tests and doctests register executors and procedures too.
    assert all(name in page for name in ("local", "ray", "wandb"))
    assert "ray" not in call("plan", "--help")[1].replace("--help", "")
    page = call("compare", "--help")[1]
    assert all(name in page for name in ("steel-dwass", "steel"))
    assert "--test-over-tasks NAME" in page
    page = call("plan", "--help")[1]
    assert "--out DIR                 Folder of finished runs to read, if any." in page


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
        ("run smal.toml", "small.toml"),
        ("run demo --tasks rte", "RTE"),
        ("run demo --methods relaton-64", "relation-64"),
        ("run demo --executor lcal", "local"),
        ("run demo --strategy miror", "mirrored"),
        ("run demo --plugin my_plugn", "my_plugin"),
        ("run demo --set epoch=3", "epochs"),
        ("run demo --set embeddings=golve", "glove"),
        ("run demo --set source=minigleu", "miniglue"),
        ("run demo --set test=steel-dwas", "steel-dwass"),
        ("run demo --set control=relaton-64", "relation-64"),
        ("tasks COLA", "CoLA"),
        ("tasks --suite dmo", "demo"),
        ("check-layer relatn", "relation"),
        ("check-layer relation --option unitz=3", "units"),
        ("check-layer relation_tf.layers:Relaton", "Relation"),
        ("check-layer relation_tf.layer:Relation", "relation_tf.layers"),
        ("check-layer my_plugn:Layer", "my_plugin"),
        ("compare scores.csv --test steel-dwas", "steel-dwass"),
        ("compare scores.csv --control atention", "attention"),
        ("compare scores.csv --lower-is-better rte", "RTE"),
        ("compare scores.csv --families atention,relation", "attention"),
        ("pretrain small.toml --objective maskd", "masked"),
        ("pretrain small.toml --norm prr", "pre"),
        ("pretrain small.toml --mechanisms relatn", "relation"),
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


def test_a_suite_that_can_show_nothing_is_marked(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "few.toml").write_text(
        'name = "few"\ntitle = "Few seeds"\nquestion = "Which?"\nsource = "miniglue"\n'
        'tasks = ["CoLA"]\nseeds = 3\n'
        '[[method]]\nmechanism = "relation"\n[[method]]\nmechanism = "attention"\n'
    )
    (line,) = " ".join(call("suites", "few.toml")[1].split()).splitlines()
    assert line == (
        "few.toml 6 runs Few seeds. "
        "No difference can be significant (p < .05): the smallest possible p is .100."
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "glue-small"], "task CoLA: needs --data DIR"),
        (["run", "demo", "--data", "."], "suite demo has source = 'miniglue', which reads no"),
        (["run", "demo", "--tfds", "."],
         "suite demo has source = 'miniglue', which reads no TFDS datasets. Received: --tfds ."),
        (["run", "diagnostics-small", "--data", "."],
         "has only generated tasks, which read no folder of files. Received: --data ."),
        (["run", "glue", "--set", 'source="files"', "--tfds", "."], "'files', which reads no TFDS"),
        (["run", "demo", "--skip-bad-lines"],
         "suite demo has source = 'miniglue', which reads no files. Received: --skip-bad-lines"),
        (["tasks", "CoLA", "--suite", "demo", "--data", "."], "'miniglue', which reads no folder"),
        (["run", "diagnostics-small", "--tasks", "count", "--fill-missing"],
         "none of the requested tasks is one of the GLUE leaderboard. Received: count"),
        (["run", "demo", "--plugin", "sys"], "plugin 'sys': is a folder without __init__.py"),
        (["run", "demo", "--set", "start_token=true", "--set", "max_length=1"],
         "key 'max_length': must be 2 or more for CoLA, because start_token counts"),
        (["run", "demo", "--set", "tuned=5"], "key 'tuned'"),
        (["run", "demo", "--plugin", "json5", "--set", "plugins=5"], "key 'plugins'"),
        (["check-layer", "__main__:Layer"], "'__main__:Layer': move it to a module"),
        (["suites", "x" * 300 + "/b"], ": File name too long.\n"),
        (["run", "dmeo"], "suite 'dmeo'. Did you mean 'demo'? Run `relation-tf suites` to list"),
        (["tasks", "COLA"], "Did you mean 'CoLA'? Run `relation-tf tasks` to list all tasks.\n"),
        (["run", "missing.toml"], "missing.toml: cannot be read"),
        (["run", "demo", "--set", "epochs"], "--set: must be KEY=VALUE. Received: 'epochs'"),
        (["run", "demo", "--set", "epochs=many"], "key 'epochs'"),
        (["run", "demo", "--set", f"seeds={'9' * 5000}"], "key 'seeds'"),
        (["run", "demo", "--set", f"seeds={'[' * 5000}"], "key 'seeds'"),
        (["run", "demo", "--set", "epoch=3"], "unknown key 'epoch'. Did you mean 'epochs'?"),
        (["run", "demo", "--set", "units=-1"], "unknown key 'units'. Set it in [[method]].\n"),
        (["run", "demo", "--set", "overrides.RTE.epochs=0"], "must set a whole key, such as"),
        (["run", "demo", "--seeds", "a"], "--seeds: must be integers such as 1,2. Received: 'a'"),
        (["run", "demo", "--methods", "relation64"], "Did you mean 'relation-64'?"),
        (["run", "demo", "--tasks", "rte"], "Did you mean 'RTE'?"),
        (["run", "demo", "--jobs", "0"], "--jobs must be 1 or more. Received: 0."),
        (["run", "demo", "--devices", "2"], "--devices needs --strategy mirrored."),
        (["run", "demo", "--executor", "lokal"], "unknown executor 'lokal'. Did you mean 'local'?"),
        (["run", "demo", "--track", "wanb"], "unknown tracker 'wanb'. Did you mean 'wandb'?"),
        (["run", "demo", "--plugin", "no_such_module"], "no_such_module"),
        (["run", "demo", "--speed", "9"], "No such option"),
        (["run", "demo", "--tasks", ","], "--tasks must have one or more of CoLA, SST-2, "),
        (["run", "demo", "--jobs", "x"], "'--jobs': must be an integer. See"),
        (["run", "demo", "--foo"], "No such option: --foo. See `relation-tf run --help`."),
        (["run"], "Missing argument"),
        (["run", "--speed"], "See `relation-tf run --help`.\n"),
        (["run", "demo", "--tasks"], "requires an argument. See `relation-tf run --help`.\n"),
        (["run", "demo", "--seeds", "a"], "See `relation-tf run --help`.\n"),
        (["tasks", "--set", "a=1"], "See `relation-tf tasks --help`.\n"),
        (["status", "a", "b"], "See `relation-tf status --help`.\n"),
        (["check-layer", "keras.layers.LSTM"], "Did you mean 'keras.layers:LSTM'?"),
        (["status", "."], ".: no suite.toml in this folder. DIR must be"),
        (["status", "runs/none"], "runs/none: no such folder. DIR must be a folder written by"),
        (["report", "nowhere"], "must be a folder written by `relation-tf run`"),
        (["run", "demo", "--devices", "2"], "relation-tf: --devices needs --strategy mirrored.\n"),
        (["submit", "nowhere"], "must be a folder written by `relation-tf run`"),
        (["compare", "nowhere.csv"], "nowhere.csv: no such file or folder"),
        (["compare", "x.csv", "--out", "~nobody-here/x"], "~nobody-here/x: "),
        (["tasks", "--data", "~nobody-here/x"], "~nobody-here/x: "),
        (["tasks", "--data", "nowhere"], "nowhere: no such folder, or no"),
        *[([*command, "--plugin", "absent"], "plugin 'absent' cannot be imported: no such module")
          for command in (["tasks"], ["check-layer", "relation"],
                          ["compare", "x.csv"])],
        (["check-layer", "relatoin"], "Did you mean 'relation'?"),
        (["check-layer", "my.py"], "'my.py'. A custom layer must be 'package.module:Name', such as "
                                   "'my:Name'."),
        (["check-layer", "nowhere:Layer"], "'nowhere:Layer': no nowhere.py in the current folder"),
        (["check-layer", "folder/my.py:Layer"], "Give its name without .py: 'folder.my'"),
        (["check-layer", "folder\\my.py:Layer"], "Give its name without .py: 'folder.my'"),
        (["check-layer", "C:\\folder\\my.py:Layer"], "Give its name without .py: 'my'"),
        (["check-layer", "relation", "--option", "a"],
         "--option: must be KEY=VALUE. Received: 'a'"),
        (["check-layer", "relation", "--option", "variant=foo"],
         "`variant` must be one of 'equations', 'released_code'. Received: variant='foo'"),
        (["check-layer", "relation", "--units", "0"], "'--units'"),
        (["pretrain", "b.txt"], "b.txt: cannot be read: No such file or directory.\n"),
        (["pretrain", "b.txt", "--seeds", "x"], "--seeds: must be integers such as 1,2."),
        (["pretrain", "b.txt", "--seeds", "1,99999999999"], "--seeds must be 0 to 2,147,483,647."),
        (["pretrain", "b.txt", "--mechanisms", ","], "--mechanisms must have one or more"),
        (["pretrain", "b.txt", "--held-out", "2"], "held-out: must be a file, or a share"),
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


def test_a_report_that_would_overwrite_its_source_is_not_printed(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"A,{method},{seed},0.{seed}\n" for method in "ab" for seed in (1, 2)]
    (tmp_path / "scores.csv").write_text("".join(["task,method,seed,score\n", *rows]))
    code, out, err = call("compare", "scores.csv", "--out", ".")
    assert (code, out) == (2, "")
    assert "scores.csv is a source of this comparison" in err


def test_folders_of_other_tasks(tmp_path, call):
    """Columns as wide as the longest name, and nothing to submit."""
    suite = SUITE.format(seeds=1, epochs=1).partition("tasks")[0] + (
        'tasks = ["MR", "fdu-kitchen_housewares"]\n[[method]]\nmechanism = "relation"\n'
    )
    RunFolder(tmp_path).open(make_suite("here", tomllib.loads(suite)))
    failed = tmp_path / "runs" / "MR" / "relation-64" / "seed-1"
    failed.mkdir(parents=True)
    (failed / "error.json").write_text('{"error": "no memory", "traceback": ""}')
    head, *rows = call("status", tmp_path)[1].splitlines()[:3]
    assert len(head) == len(rows[0]) == len(rows[1])
    assert rows[0].split("  ")[0] == "MR"
    assert rows[0].endswith("  0/5 (1 failed)")
    code, _, err = call("submit", tmp_path)
    assert code == 2
    assert "has no task of the GLUE leaderboard" in err
    RunFolder(tmp_path / "demo").open(load_suite("demo"))
    code, _, err = call("submit", tmp_path / "demo")
    assert code == 2
    assert "nothing to submit: there are no finished runs on tasks of the GLUE" in err


def test_runs_on_other_tasks_are_not_submitted(tmp_path, call):
    suite = make_suite("here", tomllib.loads(SUITE.format(seeds=1, epochs=1)) | {
        "tasks": ["MR", "RTE"], "method": [{"mechanism": "relation"}]})  # fmt: skip
    folder = RunFolder(tmp_path)
    folder.open(suite)
    (run, _) = suite.runs()
    write_finished(folder.start(run), run)
    code, out, err = call("submit", tmp_path)
    assert (code, out) == (2, "")
    assert "nothing to submit: there are no finished runs on tasks of the GLUE" in err


def test_filtered_run_lists_missing_predictions(tmp_path, call):
    command = ("run", "demo", "--out", tmp_path, "--set", "epochs=1", "--set", "seeds=1")
    code, out, _ = call(*command, "--tasks", "WNLI", "--methods", "baseline-64")
    assert code == 0
    unfinished = "CoLA, SST-2, MRPC, STS-B, QQP, MNLI, QNLI, RTE, WNLI"
    assert f"no submissions: not all runs of {unfinished} are done. `relation-tf submit" in out
    assert out.endswith("1 of 1 requested runs are done; 35 other runs of the suite are pending\n")
    # The table has only what was requested.
    assert re.search(r"^WNLI", out, re.MULTILINE)
    assert not re.search(r"^CoLA| relation-64", out, re.MULTILINE)


CUSTOM_TASK = """
[[task]]
name = "tones"
inputs = ["text"]
label = "tone"
labels = {labels}
files = {{ train = "tones/train.csv", test = "tones/test.csv" }}
"""


def suite_with(labels):
    suite = SUITE.format(seeds=2, epochs=2).replace('"CoLA"', '"tones"')
    return f"start_token = true\n{suite}{CUSTOM_TASK.format(labels=labels)}"


@pytest.fixture
def tones(work):
    """A suite with a custom task and one of the package."""
    (work / "tones").mkdir()
    for first, split in enumerate(("train", "test")):
        rows = "".join(f"{'so' if i % 2 else 'not so'} loud {i},{'loud' if i % 2 else 'calm'}\n"
                       for i in range(first, 40 + first))  # fmt: skip
        (work / "tones" / f"{split}.csv").write_text(f"text,tone\n{rows}", encoding="utf-8")
    suite = work / "own.toml"
    suite.write_text(suite_with(["calm", "loud"]), encoding="utf-8")
    return suite


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_custom_task(tones, call):
    """Train in worker processes, report from another, refuse a changed declaration."""
    command = ("run", "own.toml", "--data", ".", "--out", "out")
    assert "8 of 8 runs done" in call(*command, "--jobs", "2")[1]
    for arguments in (("status", "out"), ("report", "out")):
        assert "tones" in start(*arguments).communicate()[0]
    assert "tones" in (tones.parent / "out" / "report" / "report.html").read_text()
    tones.write_text(suite_with(["loud", "calm"]), encoding="utf-8")
    code, _, err = call(*command)
    assert code == 2
    assert "with [[task]].labels = ['calm', 'loud'], but now" in err
    assert err.count("\n") == 1


def test_tasks_as_a_suite_reads_them(tones, call):
    table = call("tasks", "--suite", "own.toml", "--data", ".")[1].splitlines()
    assert [line.split()[0] for line in table] == ["task", "tones", "RTE", "*", "*"]
    code, out, _ = call("tasks", "tones", "--suite", "own.toml", "--data", ".")
    assert code == 0
    assert "own files, tones/train.csv" in out
    assert "text: [START] not so loud" in out
    (tones.parent / "tones" / "train.csv").unlink()
    code, _, err = call("tasks", "tones", "--suite", "own.toml", "--data", ".")
    assert code == 2
    assert "not found. Searched: tones/train.csv" in err


def test_tasks_can_skip_malformed_rows(tones, call):
    with (tones.parent / "tones" / "train.csv").open("a") as file:
        file.write("a row with one field\n")
    command = ("tasks", "tones", "--suite", "own.toml", "--data", ".")
    code, _, err = call(*command)
    assert code == 2
    assert "--skip-bad-lines" in err
    assert call(*command, "--skip-bad-lines")[0] == 0


def test_tasks_without_data(tmp_path, monkeypatch, call):
    monkeypatch.setenv("RELATION_TF_CACHE", str(tmp_path / "cache"))
    few = {name: TASKS[name] for name in ("CoLA", "SST-2", "MR", "dates")}
    monkeypatch.setattr(TASKS, "_entries", few)
    printed = call("tasks", "--tfds", tmp_path)[1]
    assert "not found: CoLA, SST-2, MR" in printed
    assert "dates" in printed
    code, _, err = call("tasks", "CoLA", "--tfds", tmp_path)
    assert code == 2
    assert "needs --data DIR" in err
    assert "run `tfds build glue/cola`" in err
    assert "--set: needs --suite SUITE" in call("tasks", "--set", "tokens=wordpiece")[2]


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
    """Faults of a layer in the working folder set the exit code, warnings do not."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "checked_layer.py").write_text(LAYER, encoding="utf-8")
    command = ("check-layer", "checked_layer:Mine", "--units", "3", "--option", "scale=0.5")
    code, out, _ = call(*command)
    assert code == 0
    lines = out.splitlines()
    assert lines[0].startswith("checked_layer:Mine with units=3, width=6, scale=0.5 (")
    assert lines[-1].startswith("passed")
    code, out, _ = call(*command, "--option", "scale=nan")
    assert code == 1
    assert out.splitlines()[-1].startswith("failed: ")


@pytest.mark.tensorflow
def test_pretrain(work, call):
    (work / "a.txt").write_text("so good it is\n" * 99)
    command = (
        "pretrain", "a.txt", "--layers", "1", "--units", "4", "--length", "8", "--batch-size", "2",
        "--steps", "3", "--vocabulary", "60", "--mechanisms", "relation",
        "--seeds", "1,2",
    )  # fmt: skip
    code, out, err = call(*command)
    assert (code, err) == (0, "")
    assert "2 of 2 runs done" in out
    assert "scores: pretrained/scores.csv" in out
    assert len((work / "pretrained" / "scores.csv").read_text().splitlines()) == 3
    code, out, _ = call(*command)
    assert code == 0
    assert "2 of 2 runs are done already" in out
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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("compare", "s.csv", "--title", "caf\udce9"), "arguments must be UTF-8 text. Received: "),
        (("compare", "s.csv", "--out", ""), "--out must not be empty."),
        (("compare", "s.csv", "--out="), "--out must not be empty."),
        (("compare", "s.csv", ""), "an argument must not be empty."),
        (("status", ""), "an argument must not be empty."),
        (("status", "--json", ""), "an argument must not be empty."),
        (("run", "demo", "--set", "epochs=5\nseeds=1"), "key 'epochs': must be an integer. "),
        (("run", "demo", "--set", "a.b=1"), "a whole key, such as 'overrides={CoLA={epochs=20}}'."),
        (("diagnose", "relation", "--option", "a.b=1"), "must set a whole key. Received: 'a.b=1'"),
        (("tasks", "CoLA", "--suite", "diagnostics-small"),
         "unknown task of suite diagnostics-small 'CoLA'. Must be one of majority, "),
        (("run", "demo", "--out", ""), "--out must not be empty."),
        (("run", "demo", "--out", "~nobody-here/x"), "~nobody-here/x: there is no such user."),
        (("report", "~nobody-here/x"), "~nobody-here/x: there is no such user."),
        (("tasks", "CoLA", "--suite", "demo", "--set", "tokens=wordpiece", "--set",
          "pretrained=~nobody-here/x"), "~nobody-here/x: there is no such user."),
    ],
)  # fmt: skip
def test_impossible_arguments_are_one_line(work, call, arguments, said):
    code, out, err = call(*arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
    assert not (work / "comparison").exists()


def test_an_empty_title_and_a_quoted_home_are_accepted(work, call, monkeypatch):
    monkeypatch.setenv("HOME", str(work))
    (work / "s.csv").write_text("task,method,seed,score\nx,a,1,0.5\nx,b,1,0.7\n")
    assert call("compare", "s.csv", "--out", "~/there", "--title", "")[0] == 0
    assert (work / "there/report.html").exists()


@pytest.mark.tensorflow
def test_a_layer_that_cannot_be_measured_is_said():
    assert "Only 16 values (one vector) pass" in _measured("relation", 16, {})
    assert _measured("multi-head-attention", 6, {}).startswith("cannot be measured: ValueError: ")
