"""Tests of Tab completion, called as bash, zsh and fish call it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from relation_tf import cli

ROOT = Path(__file__).resolve().parents[2]
SHELLS = ("bash", "zsh", "fish")
SUITE = """
name = "small"
tasks = ["CoLA", "RTE"]
seeds = 2
[[method]]
mechanism = "relation"
[[method]]
mechanism = "baseline"
"""


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A working folder with a suite, folders of runs and of encoders, and a table of scores."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")  # the command changes it
    for place in (".", "runs/first", "runs/second", "kept"):
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
        (tmp_path / place / "suite.toml").write_text(SUITE, encoding="utf-8")
    for encoder in ("relation", "attention"):
        (tmp_path / "encoders" / "runs" / encoder / "seed-1").mkdir(parents=True)
    (tmp_path / "encoders" / "pretraining.json").write_text("{}", encoding="utf-8")
    rows = [f"MR,{name},{seed},.{seed}" for name in ("CNN", "GRU") for seed in (1, 2)]
    table = "\n".join(["task,method,seed,score", *rows])
    (tmp_path / "scores.csv").write_text(table, encoding="utf-8")
    (tmp_path / "renamed.csv").write_text(table.replace("method", "model"), encoding="utf-8")
    (tmp_path / "notes.txt").touch()
    return tmp_path


def request(shell: str, line: str) -> dict[str, str]:
    """Return the environment variables that a shell sets for Tab at the end of a line."""
    variables = {"_RELATION_TF_COMPLETE": f"complete_{shell}"}
    if shell == "bash":
        words = line.split(" ")
        return variables | {"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}
    variables["_TYPER_COMPLETE_ARGS"] = line
    return variables if shell == "zsh" else variables | {"_TYPER_COMPLETE_FISH_ACTION": "get-args"}


@pytest.fixture
def tab(work, monkeypatch, capsys):
    """Return a function that returns what Tab offers at the end of a line."""
    monkeypatch.setattr(sys, "path", [*sys.path])

    def offered(shell, line):
        monkeypatch.setattr(sys, "argv", ["relation-tf"])
        for name, value in request(shell, line).items():
            monkeypatch.setenv(name, value)
        with pytest.raises(SystemExit):
            cli.main()
        printed = capsys.readouterr()
        assert printed.err == ""
        if shell != "zsh":
            return [each.partition("\t")[0] for each in printed.out.splitlines() if each]
        return re.findall(r'^(?:_arguments \'\*: :\(\()?"(.*?)"(?=[:)\n])', printed.out, re.M)

    return offered


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("relation-tf che", ["check-layer"]),
        ("relation-tf run --jo", ["--jobs"]),
        ("relation-tf run dem", ["demo"]),
        ("relation-tf plan suite.", ["suite.toml"]),
        ("relation-tf suites glue-s", ["glue-small"]),
        ("relation-tf run demo --tasks CoLA,R", ["CoLA,RTE"]),
        ("relation-tf run demo --methods relation-", ["relation-64"]),
        ("relation-tf run suite.toml --methods r", ["relation", "relation-64"]),
        ("relation-tf tasks SST-2-", ["SST-2-sentences"]),
        ("relation-tf check-layer multi", ["multi-head-attention"]),
        ("relation-tf pretrain a.txt --mechanisms fofe,aft-l", ["fofe,aft-local"]),
        ("relation-tf run demo --set ep", ["epochs="]),
        ("relation-tf run demo --track js", ["jsonl"]),
        ("relation-tf run demo --executor ra", ["ray"]),
        ("relation-tf run demo --strategy ", ["mirrored", "multi-worker"]),
        ("relation-tf pretrain a.txt --objective c", ["causal"]),
        ("relation-tf diagnose relation --tasks major", ["majority"]),
        ("relation-tf status ", ["kept", "runs/first", "runs/second"]),
        ("relation-tf report runs/f", ["runs/first"]),
        ("relation-tf submit no", []),  # the shell then completes the names of files
        ("relation-tf generate enc", ["encoders"]),
        ("relation-tf generate encoders --method rel", ["relation"]),
        ("relation-tf compare ", ["kept", "runs/first", "runs/second", "renamed.csv",
                                  "scores.csv"]),
        ("relation-tf compare sc", ["scores.csv"]),
        ("relation-tf compare scores.csv --test we", ["welch", "welch-control"]),
        ("relation-tf compare scores.csv --test-over-tasks fr", ["friedman-nemenyi"]),
        ("relation-tf compare scores.csv --reference ", ["CNN", "GRU"]),
        ("relation-tf compare scores.csv --control CNN,", ["CNN,GRU"]),
        ("relation-tf compare kept scores.csv --reference ", ["relation-64", "baseline-64",
                                                             "CNN", "GRU"]),
        ("relation-tf compare renamed.csv --columns method=model --reference G", ["GRU"]),
        ("relation-tf compare renamed.csv --reference G", []),
        ("relation-tf compare scores.csv kept --lower-is-better ", ["MR", "CoLA", "RTE"]),
        ("relation-tf compare scores.csv --costs k", ["kept"]),
        ("relation-tf compare nowhere.csv --reference ", []),
        ("relation-tf run dmeo --tasks C", []),
    ],
)  # fmt: skip
def test_names_are_offered(tab, shell, line, offered):
    assert tab(shell, line) == offered


@pytest.mark.parametrize(
    "line",
    [
        "relation-tf run demo --tasks C",
        "relation-tf check-layer rel",
        "relation-tf run demo --track ",
        "relation-tf run demo --executor ",
        "relation-tf compare scores.csv kept --reference ",
        "relation-tf compare scores.csv --test ",
    ],
)
def test_nothing_slow_is_loaded(work, line):
    program = (
        "import atexit, sys; from relation_tf.cli import main\n"
        "atexit.register(lambda: print(sorted({'keras', 'tensorflow', 'matplotlib', 'ray'} "
        "& sys.modules.keys()), file=sys.stderr))\nmain()"
    )
    environment = {**os.environ, **request("bash", line), "PYTHONPATH": str(ROOT)}
    answer = subprocess.run(
        [sys.executable, "-c", program],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert answer.stdout.split()
    assert answer.stderr == "[]\n"


# Each sources the script that `--install-completion` writes, then presses Tab.
PRESSES = {
    "bash": """
        eval "$(_RELATION_TF_COMPLETE=source_bash relation-tf)"
        COMP_WORDS=(relation-tf status runs/f) COMP_CWORD=2
        _relation_tf_completion relation-tf && printf '%s\\n' "${COMPREPLY[@]}" """,
    "zsh": """
        compdef() {}; _arguments() { print -r -- "$@" }
        eval "$(_RELATION_TF_COMPLETE=source_zsh relation-tf)"
        words=(relation-tf status runs/f) CURRENT=3; _relation_tf_completion""",
    "fish": """
        _RELATION_TF_COMPLETE=source_fish relation-tf | source
        complete --do-complete 'relation-tf status runs/f' """,
}


@pytest.mark.parametrize("shell", SHELLS)
def test_the_shell_itself(work, shell):
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"needs {shell}")
    command = work / "bin" / "relation-tf"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m relation_tf.cli "$@"\n')
    command.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "HOME": str(work),
    }
    without = {"bash": "--norc", "zsh": "-f", "fish": "--no-config"}[shell]
    answer = subprocess.run(
        [program, without, "-c", PRESSES[shell]],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert re.findall(r"[\w/-]*runs[\w/-]*", answer.stdout) == ["runs/first"], answer
    assert answer.stderr == ""


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_can_be_installed(work, monkeypatch, capsys, shell):
    monkeypatch.setattr(sys, "argv", ["relation-tf", "--help"])
    with pytest.raises(SystemExit):
        cli.main()
    assert "--install-completion" in capsys.readouterr().out
    monkeypatch.setenv("_RELATION_TF_COMPLETE", f"source_{shell}")
    with pytest.raises(SystemExit):
        cli.main()
    assert "_RELATION_TF_COMPLETE" in capsys.readouterr().out
