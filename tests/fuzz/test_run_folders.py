"""Tests of run folders with edited, truncated or replaced files: read, or a clear error."""

from __future__ import annotations

import functools
import itertools
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from relation_tf import cli
from relation_tf.bench import RunFolder, read_results
from relation_tf.config.suite import make_suite
from relation_tf.errors import SuiteError
from tests.bench.finished_runs import write_finished
from tests.fuzz.mutations import COUNTS, mutations, refusal

pytestmark = pytest.mark.fuzz

FILES = ("result.json", "config.json", "manifest.json", "history.csv")
SUITE = make_suite(
    "here",
    {
        "name": "small",
        "tasks": ["RTE"],
        "seeds": [1],
        "method": [{"mechanism": "relation", "units": 8}, {"mechanism": "baseline", "units": 8}],
    },
)
BROKEN = Path("runs/RTE/relation-8/seed-1")


@pytest.fixture
def folder(tmp_path) -> Path:
    """Write the folder of a suite with all runs done."""
    made = RunFolder(tmp_path / "out")
    made.open(SUITE)
    for config in SUITE.runs():
        write_finished(made.start(config), config)
    return made.path


def read(folder: Path) -> None:
    """Read a folder, and raise the error of one of its runs; the other run is read."""
    results = read_results(folder)
    assert len(results.runs) + len(results.failures) == 2
    for name, error in results.failures:
        assert name == "/".join(BROKEN.parts[1:])
        raise SuiteError(error)
    assert results.scores["score"].between(-1e300, 1e300).all()
    assert len(results.metrics) == 2
    for run in results.runs:
        assert len(results.history(run)) > 0


def contents(folder: Path) -> dict[str, bytes | None]:
    """Return all files of a folder with their content."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


@COUNTS
@pytest.mark.parametrize("file", FILES)
def test_a_broken_file_is_read_or_named(folder, file, count):
    read(folder)
    path = folder / BROKEN / file
    whole = path.read_bytes()
    messages = []
    for data in mutations(whole, count):
        path.write_bytes(data)
        messages.append(refusal(functools.partial(read, folder), SuiteError, str(path)))
    assert 0 < sum(message is not None for message in messages) < len(messages)
    path.write_bytes(whole)
    read(folder)


FOREIGN = [None, True, [], {}, [1], 0, "x", "1", -1, 1.5, 1e400, float("nan"), 10**400, {"a": None}]


def changes(values: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield copies of a file with a value replaced by an invalid one, or removed (`...`)."""
    if isinstance(values, dict):
        for key, value in values.items():
            for foreign in (..., *FOREIGN):
                yield (*place, key), foreign
            yield from changes(value, (*place, key))


def changed(values: dict[str, Any], place: tuple[Any, ...], foreign: Any) -> dict[str, Any]:
    copy = json.loads(json.dumps(values))
    inner = functools.reduce(lambda each, key: each[key], place[:-1], copy)
    if foreign is ...:
        del inner[place[-1]]
    else:
        inner[place[-1]] = foreign
    return copy


# 15 values for each key: every seventh is another one for the next key.
@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("file", FILES[:3])
def test_a_foreign_value_at_any_key_is_read_or_named(folder, file, every):
    from relation_tf.report import make_report

    def report() -> None:
        read(folder)
        make_report(folder)

    report()  # for the first time, which imports what it needs
    path = folder / BROKEN / file
    whole = json.loads(path.read_text())
    for place, foreign in itertools.islice(changes(whole), 0, None, every):
        path.write_text(json.dumps(changed(whole, place, foreign)))
        refusal(report, SuiteError, str(path))


CONTENTS = {
    "nothing": b"",
    "NaN": b"NaN",
    "deep": b"[" * 100_000,
    "another table": b"a,b\n1,2\n",
    "words in a table": b"epoch,loss,val_loss,val_accuracy\n1,good,0.5,0.5\n2,0.4,0.5,0.5\n",
    "a long header": b"x" * 2**20,
}


@pytest.fixture
def call(monkeypatch, capsys):
    """Return a function that runs a command and returns exit code, stderr and stdout."""

    def command(*arguments: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["relation-tf", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        printed, errors = capsys.readouterr()
        return ended.value.code or 0, errors, printed

    return command


def reports_the_others(found: tuple[int, str, str], name: str) -> None:
    code, errors, printed = found
    assert (code, errors) == (0, "")
    (line,) = (line for line in printed.splitlines() if line.startswith("not reported: "))
    assert name in line
    assert len(line) < 600
    assert line.isprintable()


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("data", CONTENTS.values(), ids=list(CONTENTS))
def test_a_file_of_other_contents_is_named_and_left_as_it_was(folder, call, file, data):
    (folder / BROKEN / file).write_bytes(data)
    before = contents(folder / "runs")
    with pytest.raises(SuiteError, match=f"{BROKEN}/{file}:") as error:
        read(folder)
    assert len(str(error.value)) < 600
    assert str(error.value).isprintable()
    assert call("status", folder)[:2] == (0, "")
    assert contents(folder / "runs") == before


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("in_place", ["a folder", "nothing", "a link to nothing"])
def test_a_file_that_is_not_there(folder, call, file, in_place):
    path = folder / BROKEN / file
    path.unlink()
    if in_place == "a folder":
        path.mkdir()
    elif in_place == "a link to nothing":
        path.symlink_to("nowhere")
    before = contents(folder / "runs")
    assert call("status", folder)[:2] == (0, "")
    if file == "result.json" and in_place != "a folder":
        assert len(read_results(folder).runs) == 1  # a run that is not done
    elif in_place == "a folder":
        reports_the_others(call("report", folder), f"{BROKEN}/{file}:")
    else:
        with pytest.raises(SuiteError, match=f"{BROKEN}/{file}:"):
            read(folder)
    assert contents(folder / "runs") == before


def test_a_result_of_another_run_is_named(folder):
    other = folder / "runs/RTE/baseline-8/seed-1/result.json"
    shutil.copy(other, folder / BROKEN / "result.json")
    with pytest.raises(SuiteError, match=r"result\.json: must have task, method and seed of run "):
        read(folder)


@pytest.mark.parametrize("in_place", ["a file", "a link"])
def test_error_names_a_file_instead_of_a_run_folder_and_keeps_it(folder, in_place):
    path = folder / BROKEN
    shutil.rmtree(path)
    if in_place == "a file":
        path.write_text("notes")
    else:
        path.symlink_to(folder / "runs/RTE/baseline-8/seed-1", target_is_directory=True)
        (path / "result.json").unlink()
    before = contents(folder)
    with pytest.raises(SuiteError, match=r"cannot be written: "):
        RunFolder(folder).start(SUITE.runs()[0])
    assert contents(folder) == before
