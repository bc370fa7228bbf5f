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
    """A working folder with a suite."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")  # the command changes it
    (tmp_path / "suite.toml").write_text(SUITE, encoding="utf-8")
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
        ("relation-tf run demo --tasks CoLA,RT", ["CoLA,RTE"]),
        ("relation-tf tasks SST-2-", ["SST-2-sentences"]),
        ("relation-tf diagnose relation --tasks major", ["majority"]),
        ("relation-tf status ", []),  # the shell then completes the names of files
    ],
)
def test_names_are_offered(tab, shell, line, offered):
    assert tab(shell, line) == offered


def test_nothing_slow_is_loaded(work):
    program = (
        "import atexit, sys; from relation_tf.cli import main\n"
        "atexit.register(lambda: print(sorted({'keras', 'tensorflow', 'matplotlib', 'ray'} "
        "& sys.modules.keys()), file=sys.stderr))\nmain()"
    )
    environment = {
        **os.environ,
        **request("bash", "relation-tf run demo --tasks C"),
        "PYTHONPATH": str(ROOT),
    }
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
        COMP_WORDS=(relation-tf plan suite.) COMP_CWORD=2
        _relation_tf_completion relation-tf && printf '%s\\n' "${COMPREPLY[@]}" """,
    "zsh": """
        compdef() {}; _arguments() { print -r -- "$@" }
        eval "$(_RELATION_TF_COMPLETE=source_zsh relation-tf)"
        words=(relation-tf plan suite.) CURRENT=3; _relation_tf_completion""",
    "fish": """
        _RELATION_TF_COMPLETE=source_fish relation-tf | source
        complete --do-complete 'relation-tf plan suite.' """,
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
    assert re.findall(r"suite\.\w+", answer.stdout) == ["suite.toml"], answer
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
