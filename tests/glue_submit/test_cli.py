"""The command `glue-submit`."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from glue_submit import TASKS, pack
from glue_submit.cli import main


@pytest.fixture
def run(monkeypatch, capsys):
    """Call the command; returns its exit code and what it printed to stdout and to stderr."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["glue-submit", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        return stopped.value.code or 0, *capsys.readouterr()

    return call


@pytest.fixture(scope="module")
def accepted(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli") / "submission.zip"
    pack({"WNLI": [0, 1] * 73}, path, fill_missing=True)
    return path


@pytest.mark.parametrize("command", ["pack", "check", "score"])
def test_help(run, command):
    assert command in run("--help")[1]
    code, page, _ = run(command, "--help")
    assert code == 0
    assert run(command, "-h")[1] == page
    assert f"Examples:\n    glue-submit {command} " in page
    assert "<" not in page


def test_the_home_folder_in_a_path(run, accepted, monkeypatch):
    monkeypatch.setenv("HOME", str(accepted.parent))
    assert run("check", f"~/{accepted.name}")[0] == 0


def test_pack_then_check(run, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    lines = [f"{index}\t{index % 2}\n" for index in range(146)]
    (folder / "WNLI.tsv").write_text(
        "".join(["index\tprediction\n", *lines]), encoding="utf-8", newline="\n"
    )
    out = tmp_path / "out.zip"
    code, _, message = run("pack", folder, "--out", out)
    assert (code, message.count("\n")) == (2, 1)
    assert "CoLA" in message
    assert not out.exists()
    code, said, _ = run("pack", folder, "--out", out, "--fill-missing")
    assert code == 0
    filled = [line.split()[1:4:2] for line in said.splitlines()[:-1]]
    assert filled == [[name, str(task.majority)] for name, task in TASKS.items() if name != "WNLI"]
    code, said, _ = run("check", out)
    assert code == 0
    assert said.splitlines()[-1] == f"{out}: accepted (10 warnings)"


def test_check_json(run, accepted, tmp_path):
    content = json.loads(run("check", accepted, "--json")[1])
    warnings = content.pop("warnings")
    assert content == {"path": str(accepted), "ok": True, "faults": []}
    assert (warnings[0]["file"], warnings[0]["line"]) == ("CoLA.tsv", None)
    broken = tmp_path / "broken.zip"
    broken.write_bytes(accepted.read_bytes()[:100])
    code, said, _ = run("check", broken)
    assert (code, said.splitlines()[-1]) == (1, f"{broken}: refused (1 fault)")


def test_score(run, tmp_path):
    labels = tmp_path / "glue_data" / "SST-2"
    labels.mkdir(parents=True)
    (labels / "dev.tsv").write_text("sentence\tlabel\na\t1\nb\t0\n", encoding="utf-8")
    (tmp_path / "SST-2.tsv").write_text("index\tprediction\n1\t1\n0\t1\n", encoding="utf-8")
    code, said, _ = run("score", tmp_path, "--labels", tmp_path / "glue_data")
    assert code == 0
    assert "SST-2    accuracy   50.00" in said.splitlines()
    (tmp_path / "SST-2.tsv").rename(tmp_path / "SST-2.dev.tsv")
    _, said, _ = run("score", tmp_path, "--labels", tmp_path / "glue_data", "--json")
    scores = {"tasks": {"SST-2": {"accuracy": 0.5}}, "average": None}
    assert json.loads(said) == {**scores, "unlabelled": [], "split": "dev", "missing": []}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["chek"], "No such command 'chek'. Did you mean 'check'?"),
        (["check", "--jsn", "a.zip"], "No such option: --jsn. Did you mean '--json'?"),
        (["score", "run"], "run: no such file or folder. Must be one zip, or folders of TASK.tsv"),
        (["score", ".", "--labels", "none"], ": no predictions. Must have TASK.tsv or"),
        (["check", "none.zip"], "none.zip: cannot be read: No such file or directory.\n"),
        (["score", "x" * 300], "x: File name too long"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(run, arguments, message):
    code, said, complaint = run(*arguments)
    assert (code, said, complaint.count("\n")) == (2, "", 1)
    assert complaint.startswith("glue-submit: ")
    assert message in complaint


COMMAND = [sys.executable, "-m", "glue_submit.cli", "--version"]


def test_output_that_is_closed_is_no_fault_of_a_file():
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(COMMAND, stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_folder_without_predictions_is_named(run, tmp_path):
    code, _, err = run("pack", tmp_path, "--fill-missing")
    assert code == 2
    assert err.startswith(f"glue-submit: {tmp_path}: no predictions. Must have TASK.tsv or ")
