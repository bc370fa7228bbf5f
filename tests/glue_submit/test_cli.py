"""The command `glue-submit`."""

from __future__ import annotations

import json
import sys

import pytest
from typer.testing import CliRunner

from glue_submit import TASKS, pack
from glue_submit.cli import app, main


@pytest.fixture
def run():
    return lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def accepted(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli") / "submission.zip"
    pack({"WNLI": [0, 1] * 73}, path, fill_missing=True)
    return path


@pytest.mark.parametrize("command", ["pack", "check", "score"])
def test_help(run, command):
    assert command in run("--help").stdout
    assert run(command, "--help").exit_code == 0


def test_pack_then_check(run, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    lines = [f"{index}\t{index % 2}\n" for index in range(146)]
    (folder / "WNLI.tsv").write_text(
        "".join(["index\tprediction\n", *lines]), encoding="utf-8", newline="\n"
    )
    out = tmp_path / "out.zip"
    refused = run("pack", folder, "--out", out)
    assert refused.exit_code == 2
    assert refused.stderr.count("\n") == 1
    assert "CoLA" in refused.stderr
    assert not out.exists()
    done = run("pack", folder, "--out", out, "--fill-missing")
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        *(f"filled: {name} with {task.majority}" for name, task in TASKS.items() if name != "WNLI"),
        f"{out}: written and checked, 11 files",
    ]
    checked = run("check", out)
    assert (checked.exit_code, checked.stdout) == (0, f"{out}: accepted\n")


def test_check_json(run, accepted, tmp_path):
    content = json.loads(run("check", accepted, "--json").stdout)
    assert content == {"path": str(accepted), "ok": True, "faults": [], "warnings": []}
    broken = tmp_path / "broken.zip"
    broken.write_bytes(accepted.read_bytes()[:100])
    done = run("check", broken, "--json")
    assert done.exit_code == 1
    (fault,) = json.loads(done.stdout)["faults"]
    assert (fault["file"], fault["line"]) == (None, None)


def test_check_exit_codes(run, tmp_path):
    text = tmp_path / "text.zip"
    text.write_text("no zip", encoding="utf-8")
    done = run("check", text)
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        "fault: expected a zip archive. Received: File is not a zip file",
        f"{text}: refused (1 fault)",
    ]
    assert run("check", tmp_path / "none.zip").exit_code == 2
    assert run("check").exit_code == 2
    assert run("chek", text).exit_code == 2


def test_score(run, tmp_path):
    labels = tmp_path / "glue_data" / "SST-2"
    labels.mkdir(parents=True)
    (labels / "dev.tsv").write_text("sentence\tlabel\na\t1\nb\t0\n", encoding="utf-8")
    (tmp_path / "SST-2.tsv").write_text("index\tprediction\n1\t1\n0\t1\n", encoding="utf-8")
    done = run("score", tmp_path, "--labels", tmp_path / "glue_data")
    assert done.exit_code == 0
    assert "SST-2    accuracy   50.00" in done.stdout.splitlines()
    done = run("score", tmp_path, "--labels", tmp_path / "glue_data", "--json")
    assert json.loads(done.stdout) == {
        "tasks": {"SST-2": {"accuracy": 0.5}},
        "average": None,
        "unlabelled": [],
    }
    assert run("score", tmp_path, "--labels", tmp_path / "none").exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing command"),
        (["chek"], "No such command"),
        (["check"], "Missing argument"),
        (["check", "--fast", "a.zip"], "No such option"),
        (["score", "run"], "Missing option"),
        (["check", "none.zip"], "none.zip: expected a zip file. Received: no such file"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(monkeypatch, capsys, arguments, message):
    monkeypatch.setattr(sys, "argv", ["glue-submit", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    captured = capsys.readouterr()
    assert stopped.value.code == 2
    assert captured.out == ""
    assert captured.err.startswith("glue-submit: ")
    assert message in captured.err
    assert captured.err.count("\n") == 1
