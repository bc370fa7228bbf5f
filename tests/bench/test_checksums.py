"""Tests of the checksums of a run's files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import relation_tf
from relation_tf.bench import RunFolder, read_results
from relation_tf.bench.run_folder import RESULT, damage, write_result
from relation_tf.config import Suite
from relation_tf.errors import SuiteError
from relation_tf.files import read_json, write_json
from tests.bench.finished_runs import finish_suite

Finished: TypeAlias = Callable[..., RunFolder]
Call: TypeAlias = Callable[..., tuple[int, str, str]]


@pytest.fixture
def finished(suite: Callable[..., Suite], tmp_path: Path) -> Finished:
    """Return a function that writes the folder of a suite with two finished runs of each task."""

    def write(*tasks: str, predictions: bool = False) -> RunFolder:
        asked = suite(tasks=[*tasks], seeds=[1])
        return finish_suite(tmp_path / "out", asked, predictions=predictions, checksums=True)

    return write


def flip(path: Path, place: int = -3) -> None:
    """Change one byte of a file."""
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


NAMES = ("config.json", "manifest.json", "history.csv")
CHANGES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "one bit": (flip, "damaged: its content has changed since the run"),
    "one byte less": (
        lambda path: os.truncate(path, path.stat().st_size - 1),
        "damaged: it had ",
    ),
    "deleted": (Path.unlink, "damaged: No such file"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", NAMES)
def test_a_changed_file_is_named_and_its_run_is_done_again(
    finished: Finished, name: str, change: str
) -> None:
    folder = finished("RTE")
    first, second = folder.suite().runs()
    assert folder.is_done(first)
    apply, said = CHANGES[change]
    apply(folder.run(first) / name)
    fault = damage(folder.run(first))
    assert fault is not None
    assert fault.startswith(f"{folder.run(first) / name}: {said}")
    assert not folder.is_done(first)
    assert folder.is_done(second)
    assert folder.damaged([first, second]) == [fault]
    results = read_results(folder.path)
    assert results.failures == [(str(first), f"{fault}; `relation-tf run` runs it again")]
    assert [run["method"] for run in results.runs] == [second.method]


def test_each_byte_of_a_result_counts(finished: Finished) -> None:
    """Every flipped bit is found, or changes nothing that is read."""
    folder = finished("RTE")
    run = folder.run(folder.suite().runs()[0])
    whole, content = (run / RESULT).read_bytes(), read_json(run / RESULT)
    for place in range(len(whole)):
        flip(run / RESULT, place)
        if damage(run) is None:
            assert read_json(run / RESULT) == content
        (run / RESULT).write_bytes(whole)
    assert damage(run) is None


def test_files_can_be_added_and_models_deleted(finished: Finished) -> None:
    folder = finished("RTE")
    config = folder.suite().runs()[0]
    run = folder.run(config)
    (run / "model.keras").write_bytes(b"weights")
    write_result(run, read_json(run / RESULT))
    (run / "notes.txt").write_text("mine")
    flip(run / "model.keras")
    assert not folder.is_done(config)
    (run / "model.keras").unlink()
    assert folder.is_done(config)


@pytest.mark.parametrize("name", ["model.keras", "vocabulary.json"])
def test_reports_check_sizes_of_models_and_other_uses_their_content(
    finished: Finished, name: str
) -> None:
    folder = finished("RTE")
    run = folder.run(folder.suite().runs()[0])
    (run / name).write_bytes(b"model")
    write_result(run, read_json(run / RESULT))
    assert damage(run, others=False) is None
    flip(run / name)
    said = f"{run / name}: damaged: its content has changed since the run"
    assert damage(run, others=False) == damage(run) == said
    assert not folder.is_done(folder.suite().runs()[0])
    assert read_results(folder.path).failures == []
    (run / name).write_bytes(b"models")
    ((_, fault),) = read_results(folder.path).failures
    assert "damaged: it had 5 bytes after the run, and has 6" in fault


def test_a_damaged_model_is_not_loaded(finished: Finished) -> None:
    folder = finished("RTE")
    run = folder.run(folder.suite().runs()[0])
    versions = {"relation_tf": relation_tf.__version__}
    write_json(run / "manifest.json", {**read_json(run / "manifest.json"), "versions": versions})
    (run / "model.keras").write_bytes(b"model")
    write_result(run, read_json(run / RESULT))
    flip(run / "model.keras")
    with pytest.raises(SuiteError, match=r"model\.keras: damaged: its content has changed"):
        relation_tf.load(run)
    write_json(run / RESULT, {**read_json(run / RESULT), "files": {"model.keras": {}}})
    with pytest.raises(SuiteError, match=r"result\.json: damaged: its content has changed"):
        relation_tf.load(run)


@pytest.mark.parametrize("name", [RESULT, "predictions/RTE.test.tsv"])
def test_commands_name_the_damaged_file(
    finished: Finished, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = finished("RTE", predictions=True)
    path = folder.run(folder.suite().runs()[0]) / name
    flip(path)
    for command in ("status", "report", "compare", "submit"):
        code, out, error = call(command, folder.path)
        assert code in (0, 1, 2)
        assert str(path) in out + error, command


def test_a_submission_without_a_damaged_run(finished: Finished, call: Call) -> None:
    folder = finished("RTE", predictions=True)
    run = folder.path / "runs/RTE/relation-8/seed-1"
    flip(run / "predictions/RTE.test.tsv")
    arguments = ["submit", folder.path, "--fill-missing"]
    code, out, _ = call(*arguments)
    assert code == 1
    assert f"{run}/predictions/RTE.test.tsv: damaged: " in out
    assert call(*arguments, "--allow-missing")[0] == 0
