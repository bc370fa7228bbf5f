"""Every file of a run folder, damaged in 16 ways: each command reads it or names the file."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from relation_tf import cli
from relation_tf.bench import RunFolder, read_results
from relation_tf.bench.checksums import RESULT, write_result
from relation_tf.config.loading import make_suite
from relation_tf.files import read_json
from tests.bench.finished_runs import write_finished, write_predictions

FILES = ("result.json", "config.json", "manifest.json", "history.csv", "predictions/RTE.test.tsv")
COMMANDS = ("status", "report", "submit", "compare")


def _at(place: float, change: Callable[[int], int]) -> Callable[[bytes], bytes]:
    """Return a function that changes the byte at a share of the length."""

    def damage(content: bytes) -> bytes:
        index = int(place * (len(content) - 1))
        return content[:index] + bytes([change(content[index])]) + content[index + 1 :]

    return damage


def _next_digit(content: bytes) -> bytes:
    place = next(i for i in range(len(content) // 2, len(content)) if content[i : i + 1].isdigit())
    return content[:place] + str((content[place] - 47) % 10).encode() + content[place + 1 :]


def _halves(content: bytes) -> tuple[bytes, bytes]:
    middle = len(content) // 2
    return content[:middle], content[middle:]


WAYS: dict[str, Callable[[bytes], bytes]] = {
    "first bit": _at(0, lambda byte: byte ^ 1),
    "middle bit": _at(0.5, lambda byte: byte ^ 1),
    "last bit": _at(1, lambda byte: byte ^ 1),
    "high bit": _at(0.3, lambda byte: byte ^ 128),
    "zero byte": _at(0.7, lambda byte: 0),
    "a digit": _next_digit,
    "a byte less": lambda content: _halves(content)[0] + _halves(content)[1][1:],
    "a byte more": lambda content: b"7".join(_halves(content)),
    "first half": lambda content: _halves(content)[0],
    "second half": lambda content: _halves(content)[1],
    "empty": lambda content: b"",
    "zeros": lambda content: bytes(len(content)),
    "twice": lambda content: content * 2,
    "lines reversed": lambda content: b"\n".join(content.split(b"\n")[::-1]),
    "other line ends": lambda content: content.replace(b"\n", b"\r\n"),
    "text at the end": lambda content: content + b"lost+found",
}  # fmt: skip


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the folder of a suite with two finished runs, with checksums."""
    folder = RunFolder(tmp_path_factory.mktemp("original") / "out")
    methods = [{"mechanism": name, "units": 8} for name in ("relation", "baseline")]
    folder.open(make_suite("x", {"name": "s", "tasks": ["RTE"], "seeds": [1], "method": methods}))
    for config in folder.suite().runs():
        run = folder.start(config)
        write_finished(run, config)
        write_predictions(run, config.task)
        write_result(run, read_json(run / RESULT))
    return folder.path


def call(arguments: list[Any], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["relation-tf", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code or 0)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", FILES)
def test_no_damage_is_silent(
    original: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    way: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = shutil.copytree(original, tmp_path / "out")
    file = folder / "runs/RTE/relation-8/seed-1" / name
    content = WAYS[way](file.read_bytes())
    assert content != file.read_bytes()
    before = read_json(file) if name == RESULT else None
    file.write_bytes(content)
    if name == RESULT and len(read_results(folder).runs) == 2:
        assert read_json(file) == before  # such as another line end
        return
    for command in COMMANDS:
        arguments = [command, folder, *(["--fill-missing"] if command == "submit" else [])]
        assert call(arguments, monkeypatch) in (0, 1, 2)
        said = capsys.readouterr()
        assert str(file) in said.out + said.err, command
        assert "Traceback" not in said.out + said.err
