"""Tests of the Makefile, with a program instead of Python."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).resolve().parents[1] / "Makefile"
PYTHON = '#!/bin/sh\necho "${KERAS_BACKEND:-tensorflow}" >> ran\n[ "$KERAS_BACKEND" != "$FAILS" ]\n'


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
@pytest.mark.parametrize(("target", "parts"), [("test", 3), ("test-all", 4)])
@pytest.mark.parametrize("fails", ["", "jax", "none"])
def test_every_part_runs_if_one_fails(tmp_path: Path, target: str, parts: int, fails: str) -> None:
    shutil.copy(MAKEFILE, tmp_path)
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(PYTHON)
    python.chmod(0o755)
    for name in ("setup.cfg", "pyproject.toml", "constraints.txt"):
        (tmp_path / name).touch()
    for name in ("base", "test", "all"):
        (tmp_path / ".venv" / f"{name}.stamp").touch()
    done = subprocess.run(
        ["make", target], cwd=tmp_path, env={"PATH": os.environ["PATH"], "FAILS": fails}, timeout=60
    )
    assert (done.returncode == 0) is (fails == "none")
    ran = (tmp_path / "ran").read_text().split()
    assert len(ran) == parts
    assert ran[-2:] == ["jax", "torch"]
