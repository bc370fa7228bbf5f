"""Commands that receive Ctrl-C or SIGTERM at random moments end, and resume."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from glue_submit import TASKS
from relation_tf.config.suite import make_suite
from tests.bench.finished_runs import finish_suite
from tests.bench.kept_files import run_files
from tests.programs import ROOT

SIGNALS = int(os.environ.get("RELATION_TF_SIGNALS", "6"))

# Python itself handles signals until the module is imported.
PROGRAM = "from relation_tf import cli; print('started', flush=True); cli.main()"
SUITE = """
name = "small"
source = "miniglue"
tasks = ["WNLI", "CoLA"]
seeds = 1
epochs = 2
embedding_dim = 4

[[method]]
mechanism = "relation"
units = 4
"""
RUN = "run small.toml --out out --jobs"
PRETRAIN = (
    "pretrain text.txt --out out --mechanisms relation,linear-attention --layers 1 --units 8 "
    "--length 8 --batch-size 4 --steps 40 --vocabulary 60 --evaluate-every 10"
)
COMMANDS = {
    "run": f"{RUN} 1",
    "workers": f"{RUN} 2",
    "pretrain": PRETRAIN,
    "report": "report finished",
    "submit": "submit finished --fill-missing",
}
WRITTEN = ("out", "cache", "finished/report", "finished/submissions")
WAYS = {"Ctrl-C": signal.SIGINT, "SIGINT": signal.SIGINT, "SIGTERM": signal.SIGTERM}


@dataclass
class Place:
    """A folder in which a command is started again and again."""

    folder: Path

    def start(self, command: str) -> subprocess.Popen[bytes]:
        """Start a command, and wait until Python has imported the command line."""
        places = {"PYTHONPATH": ROOT, "RELATION_TF_CACHE": "cache", "TMPDIR": "temporary"}
        variables = {key: str(self.folder / path) for key, path in places.items()}
        variables["PYTHONUNBUFFERED"] = "1"
        with (self.folder / "printed").open("wb") as printed:
            process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, *command.split()],
                cwd=self.folder, env=os.environ | variables, start_new_session=True,
                stdout=printed, stderr=subprocess.STDOUT,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )  # fmt: skip
        while "started\n" not in self.printed():
            assert process.poll() is None
            time.sleep(0.01)
        return process

    def printed(self) -> str:
        return (self.folder / "printed").read_text("utf-8")

    def results(self) -> dict[str, Any]:
        """Return what the command has written, without times; there is no temporary file."""
        assert not list((self.folder / "temporary").iterdir())
        assert not list(self.folder.rglob("*.tmp"))
        found = run_files(self.folder / "out")
        for name in ("report", "submissions"):
            paths = (self.folder / "finished" / name).rglob("*")
            found |= {str(path): path.read_bytes() for path in paths if path.is_file()}
        assert found
        return found

    def clear(self) -> None:
        for name in WRITTEN:
            shutil.rmtree(self.folder / name, ignore_errors=True)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "temporary").mkdir()
    (tmp_path / "small.toml").write_text(SUITE)
    lines = (f"so good it is to see film {i} about the sea" for i in range(200))
    (tmp_path / "text.txt").write_text("\n".join(lines))
    methods = [{"mechanism": name, "units": 8} for name in ("relation", "baseline")]
    tasks = [name for name in TASKS if name not in ("MNLI-m", "MNLI-mm", "AX")]
    suite = make_suite("x", {"name": "s", "tasks": tasks, "seeds": [1, 2], "method": methods})
    finish_suite(tmp_path / "finished", suite, predictions=True, checksums=True)
    return Place(tmp_path)


def wait_for_the_group(leader: int) -> None:
    """Wait until no process of the group runs; the test's time limit ends it.

    Where nothing reaps orphans, such as in a container, ended processes stay as zombies.
    """
    while any(_runs_in(leader, path) for path in Path("/proc").glob("[0-9]*/stat")):
        time.sleep(0.01)


def _runs_in(group: int, path: Path) -> bool:
    with contextlib.suppress(OSError):
        state, _, its_group = path.read_text().rpartition(")")[2].split()[:3]
        return int(its_group) == group and state != "Z"
    return False


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.timeout(120 * (SIGNALS + 10))
@pytest.mark.parametrize("name", COMMANDS)
def test_signals_at_random_moments(place: Place, name: str) -> None:
    """From the start of a command to its end; what it has written is kept for the next start."""
    command = COMMANDS[name]
    count = (SIGNALS + [*COMMANDS].index(name)) // len(COMMANDS)
    moments, ends = random.Random(f"{name} {SIGNALS}"), 0
    began = time.monotonic()
    assert place.start(command).wait() == 0, place.printed()
    seconds = time.monotonic() - began
    whole, complete = place.results(), False
    place.clear()
    while ends < count or not complete:
        fresh = not any((place.folder / path).exists() for path in WRITTEN)
        began, moment = time.monotonic(), moments.uniform(0, seconds)
        process = place.start(command)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(moment if ends < count else None)
        took = time.monotonic() - began
        if process.poll() is None:
            way = moments.choice([*WAYS])
            # A terminal sends Ctrl-C to all processes of the group.
            (os.killpg if way == "Ctrl-C" else os.kill)(process.pid, WAYS[way])
            printed = place.printed()
            process.wait()
            if process.returncode != 0:  # it had not ended
                wait_for_the_group(process.pid)
                ends += 1
                complete = False
                assert process.returncode == 128 + WAYS[way], place.printed()
                assert not re.search("Traceback|Exception ignored|failed", place.printed())
                if moment > 0.9 * seconds:  # the machine is slower than before
                    seconds *= 1.1
                continue
            assert place.printed() == printed
        assert process.returncode == 0, place.printed()
        assert place.results() == whole
        complete = True
        place.clear()
        if fresh:
            seconds = took
