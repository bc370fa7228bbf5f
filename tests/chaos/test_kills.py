"""Suites that are killed again and again end with the results of an uninterrupted run."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from relation_tf.tasks import miniglue
from tests.bench.kept_files import run_files

KILLS = int(os.environ.get("RELATION_TF_KILLS", "4"))  # of each suite

COMMON = """
name = "killed"
seeds = 1
epochs = 25
patience = 25
batch_size = 8
embedding_dim = 32
"""
CLASSIFICATION = """
tasks = ["CoLA", "STS-B"]

[[method]]
mechanism = "relation"
units = 32

[[method]]
mechanism = "attention"
units = 32
options = {algorithm = "direct"}
"""
SWEEP = """
tasks = ["WNLI"]

[[method]]
mechanism = "relation"
units = 32

[[method]]
mechanism = "baseline"
units = 32

[sweep]
learning_rate = [0.001, 0.01]
seeds = [11]
"""


def command(folder: Path, out: Path) -> list[str]:
    options = ["--data", folder / "data", "--out", out, "--jobs", "2"]
    return [
        *(sys.executable, "-m", "relation_tf.cli", "run"),
        *map(str, [folder / "killed.toml", *options]),
    ]


def times(out: Path, name: str = "*") -> dict[Path, int]:
    """Return when each file of unfinished and finished runs was last written."""
    found = {}
    for folder, _, files in os.walk(out):  # skips folders that have just been removed
        if "runs" in Path(folder).relative_to(out).parts:
            for path in (Path(folder, file) for file in fnmatch.filter(files, name)):
                with contextlib.suppress(FileNotFoundError):  # has just been renamed or removed
                    found[path] = path.stat().st_mtime_ns
    return found


def wait_for_changes(process: subprocess.Popen[bytes], out: Path, name: str, count: int) -> None:
    """Wait until files have been written or removed that often, or the process has ended."""
    before = times(out, name)
    while count and process.poll() is None:
        time.sleep(0.01)
        now = times(out, name)
        count -= now != before
        before = now


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.timeout(300 * (KILLS + 3))
@pytest.mark.parametrize(
    "suite",
    [
        pytest.param(CLASSIFICATION, id="classification"),
        pytest.param(SWEEP, id="sweep"),
    ],
)
def test_killed_at_random_moments(tmp_path: Path, suite: str) -> None:
    """With two workers; a command that ends before it is killed is compared, and starts again."""
    miniglue.write(tmp_path / "data", seed=3, train_rows=400, dev_rows=60, test_rows=30)
    (tmp_path / "killed.toml").write_text(COMMON + suite)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run(command(tmp_path, whole), check=True, stdout=subprocess.DEVNULL)
    moments = random.Random(KILLS)
    kills = resumed = finished = 0
    complete = False
    while kills < KILLS or not complete:
        process = subprocess.Popen(
            command(tmp_path, killed), stdout=subprocess.DEVNULL, start_new_session=True
        )
        if kills < KILLS:
            # The first kill comes directly after a checkpoint, then one in four later than one. The
            # rest do not wait for it: short runs can end without one.
            if not resumed or (kills + finished) % 4 == 0:
                wait_for_changes(process, killed, "state.npz", 1)
            wait_for_changes(process, killed, "*", moments.randrange(20) if kills else 0)
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                kills += 1
        if process.wait() == -signal.SIGKILL:
            resumed += bool(times(killed, "state.npz"))
            complete = False
            continue
        assert process.returncode == 0
        assert run_files(killed) == run_files(whole)
        assert not list(killed.rglob("*.tmp"))
        shutil.rmtree(killed)
        finished, complete = finished + 1, True
    assert resumed
