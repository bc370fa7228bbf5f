"""Small submissions: every task with a handful of rows."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from glue_submit import TASKS


@pytest.fixture(scope="session")
def rows() -> dict[str, int]:
    return {name: 4 + number for number, name in enumerate(TASKS)}


@pytest.fixture(scope="session")
def predictions(rows: dict[str, int]) -> dict[str, list[str]]:
    """Cycle through each task's labels."""
    words = {name: task.labels or ("0.000", "3.142", "5.000") for name, task in TASKS.items()}
    return {
        name: [words[name][index % len(words[name])] for index in range(count)]
        for name, count in rows.items()
    }


@pytest.fixture(scope="session")
def members(predictions: dict[str, list[str]]) -> dict[str, bytes]:
    """Give the eleven files as another program would write them."""
    return {
        f"{name}.tsv": "".join(
            ["index\tprediction\n", *(f"{i}\t{value}\n" for i, value in enumerate(column))]
        ).encode()
        for name, column in predictions.items()
    }


@pytest.fixture
def write_zip(tmp_path: Path) -> Callable[[Mapping[str, bytes]], Path]:
    def write(members: Mapping[str, bytes]) -> Path:
        path = tmp_path / "submission.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        return path

    return write


@pytest.fixture
def folder(members: dict[str, bytes], tmp_path: Path) -> Path:
    """Give a folder of predictions."""
    path = tmp_path / "run"
    path.mkdir()
    for name, content in members.items():
        (path / name).write_bytes(content)
    return path
