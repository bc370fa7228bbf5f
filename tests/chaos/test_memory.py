"""Commands with little memory end with one line and exit code 2."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from relation_tf import cli, system
from relation_tf.system import lacks_memory
from tests.programs import COMMANDS, python

LIMIT = """
import resource, sys
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
limit = int(sys.argv.pop(1)) * 2**20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
"""
NO_KERAS = "assert 'keras' not in sys.modules"

ENOUGH = 2900 + 16 * max(0, (os.cpu_count() or 1) - 2)  # MiB without TensorFlow; threads reserve


@pytest.mark.skipif(system.resource is None, reason="needs the module resource")
def test_reports_need_little_memory(scored_folder: Path) -> None:
    answer = python(
        LIMIT + COMMANDS + NO_KERAS, scored_folder, str(ENOUGH), "report runs", "compare scores.csv"
    )
    assert (answer.returncode, answer.stderr) == (0, "")


def _caused_by(cause: Exception) -> Exception:
    error = ValueError("an import failed")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "lacks"),
    [
        (MemoryError(), True),
        (OSError(12, "Cannot allocate memory"), True),
        (ImportError("libx.so: failed to map segment from shared object"), True),
        (RuntimeError("can't start new thread"), True),
        (_caused_by(OSError(2, "No such file or directory")), False),
        (ValueError("out of memory"), False),
    ],
)
def test_lack_of_memory(error: Exception, lacks: bool) -> None:
    assert lacks_memory(error) == lacks


def test_an_error_that_lacks_memory_is_one_line(monkeypatch, capsys) -> None:
    def fail() -> None:
        raise MemoryError

    from relation_tf.cli import commands

    monkeypatch.setattr(commands, "run_app", fail)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == "relation-tf: not enough memory.\n"
