"""The same bits each time, and what the manifest says of how they were made."""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys

import pytest

from relation_tf.bench import run_suite, train
from relation_tf.bench.train import conditions_of
from relation_tf.config import load_suite


def made(folder):
    """The manifest of each run, and the bytes of what it answered."""
    manifests = [json.loads(path.read_text()) for path in sorted(folder.rglob("manifest.json"))]
    return manifests, [path.read_bytes() for path in sorted(folder.rglob("*.tsv"))]


def test_the_recorded_command_has_no_folders_of_this_machine(monkeypatch, tmp_path):
    typed = [
        f"{tmp_path}/bin/relation-tf", "run", "demo", "--data", f"{tmp_path}/my data",
        f"--out={tmp_path}/out", "--set", f"pretrained={tmp_path}/encoders",
        "--glove", "vectors/a.txt",
    ]  # fmt: skip
    monkeypatch.setattr(sys, "argv", typed)
    assert shlex.split(train.command()) == [
        "relation-tf", "run", "demo", "--data", "my data", "--out=out",
        "--set", "pretrained=encoders", "--glove", "vectors/a.txt",
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.usefixtures("worker_processes")
def test_equal_seeds_give_equal_bits(tmp_path, small_glue, suite):
    """Without op determinism and with it, which cannot be turned off again in a process."""
    asked = suite(tasks=["CoLA"], seeds=[1])
    for name in ("one", "another"):
        run_suite(asked, tmp_path / name, data=small_glue)
    run_suite(asked, tmp_path / "deterministic", data=small_glue, deterministic=True)
    asked = asked.model_copy(update={"xla": True})
    options = {"data": small_glue, "deterministic": True}
    run_suite(asked, tmp_path / "without XLA", **options)
    found = {path.name: made(path) for path in tmp_path.iterdir()}
    for flag, first, again in (
        (False, "one", "another"),
        (True, "deterministic", "without XLA"),
    ):
        assert len(found[first][1]) == 4
        assert found[first][1] == found[again][1]
        for manifest in (*found[first][0], *found[again][0]):
            assert manifest["op_determinism"] is flag
            assert manifest["xla"] is False


@pytest.mark.tensorflow
def test_op_determinism_that_others_turned_on_is_recorded(network, monkeypatch):
    from relation_tf.training import session, task_trainer

    monkeypatch.setattr(session, "op_determinism", lambda: True)
    monkeypatch.setattr(task_trainer, "op_determinism", lambda: True)
    assert train.machine()["op_determinism"]
    made, _ = network(xla=True)
    assert not made.xla


@pytest.mark.tensorflow
def test_a_run_resumes_with_another_kernel_or_number_of_cores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second, *_ = load_suite("demo").runs()
    before = conditions_of(first)
    monkeypatch.setattr(platform, "platform", lambda: "Linux-99")
    monkeypatch.setattr(os, "cpu_count", lambda: 99)
    assert conditions_of(first) == before
    assert conditions_of(second) != before
    monkeypatch.setattr(platform, "libc_ver", lambda: ("glibc", "99"))
    assert conditions_of(first) != before
