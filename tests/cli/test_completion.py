"""Tests of Tab completion."""

from __future__ import annotations

import pytest

from tests.programs import python

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


def request(line: str) -> dict[str, str]:
    """Return the environment variables that bash sets for Tab at the end of a line."""
    words = line.split(" ")
    return {
        "_RELATION_TF_COMPLETE": "complete_bash",
        "COMP_WORDS": "\n".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }


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
@pytest.mark.usefixtures("work")
def test_names_are_offered(call, monkeypatch, line, offered):
    for name, value in request(line).items():
        monkeypatch.setenv(name, value)
    _, out, err = call()
    assert (out.split(), err) == (offered, "")


def test_nothing_slow_is_loaded(work):
    program = (
        "import atexit, sys; from relation_tf.cli import main\n"
        "atexit.register(lambda: print(sorted({'keras', 'tensorflow', 'matplotlib'} "
        "& sys.modules.keys()), file=sys.stderr))\nmain()"
    )
    answer = python(program, work, **request("relation-tf run demo --tasks C"))
    assert answer.stdout.split()
    assert answer.stderr == "[]\n"
