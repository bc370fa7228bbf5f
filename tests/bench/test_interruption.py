"""A suite that is killed again and again ends as if nothing had been."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from relation_tf.tasks import miniglue

SUITE = """
name = "killed"
tasks = ["CoLA", "STS-B"]
seeds = 1
epochs = 50
patience = 50
batch_size = 8
embedding_dim = 64

[[method]]
mechanism = "relation"

[[method]]
mechanism = "attention"
options = {algorithm = "direct"}
"""
TIMES = ("seconds", "peak_memory_mib", "base_memory_mib", "peak_memory_of",
         "peak_device_memory_mib")  # fmt: skip


def command(folder, out, jobs):
    suite, data = folder / "killed.toml", folder / "data"
    options = ["--data", data, "--out", out, "--jobs", jobs]
    return [sys.executable, "-m", "relation_tf.cli", "run", suite, *map(str, options)]


def files(out):
    """All that runs leave, without what is of time."""
    found = {}
    for path in sorted(out.glob("runs/**/*")):
        name = str(path.relative_to(out))
        if path.name == "result.json":
            result = json.loads(path.read_text())
            found[name] = {key: value for key, value in result.items() if key not in TIMES}
        elif path.name == "history.csv":
            header, *rows = [line.split(",") for line in path.read_text().splitlines()]
            kept = [i for i, column in enumerate(header) if "seconds" not in column]
            found[name] = [[row[i] for i in kept] for row in (header, *rows)]
        elif path.is_file() and path.name != "manifest.json":
            found[name] = path.read_bytes()
    return found


def times(out, name="*"):
    """When each file of unfinished and finished runs was last written."""
    found = {}
    for path in out.glob(f"runs/*/*/*/{name}"):
        with contextlib.suppress(FileNotFoundError):  # it has just been renamed or removed
            found[path] = path.stat().st_mtime_ns
    return found


def wait_for_changes(process, out, name, count=1):
    """Wait until files have been written or removed that often, or the process has ended."""
    before = times(out, name)
    while count and process.poll() is None:
        time.sleep(0.01)
        now = times(out, name)
        count -= now != before
        before = now


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.parametrize("jobs", [1, 2])
def test_killed_at_ten_moments(tmp_path, jobs):
    miniglue.write(tmp_path / "data", seed=3, train_rows=800, dev_rows=100, test_rows=50)
    (tmp_path / "killed.toml").write_text(SUITE)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run(command(tmp_path, whole, 1), check=True, stdout=subprocess.DEVNULL)
    moments = random.Random(jobs)
    resumed = 0
    for _ in range(10):
        process = subprocess.Popen(
            command(tmp_path, killed, jobs), stdout=subprocess.DEVNULL, start_new_session=True
        )
        wait_for_changes(process, killed, "state.npz")
        wait_for_changes(process, killed, "*", moments.randrange(10))
        with contextlib.suppress(ProcessLookupError):  # it has ended
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        resumed += len(times(killed, "state.npz"))
    subprocess.run(command(tmp_path, killed, jobs), check=True, stdout=subprocess.DEVNULL)
    assert resumed
    assert files(killed) == files(whole)
    assert len([name for name in files(whole) if name.endswith("result.json")]) == 4
