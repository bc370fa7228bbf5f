"""Checksums of the files of a finished run, in its `result.json`. Does not import Keras."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from relation_tf.errors import SuiteError, reason_of
from relation_tf.files import read_json, write_json
from relation_tf.tasks.sources import digest_of_file
from relation_tf.training.checkpoint import STATE
from relation_tf.training.pretrained import WEIGHTS

RESULT, MODEL, VOCABULARY = "result.json", "model.keras", "vocabulary.json"
FILES = "files"
DIGEST = "sha256"
_MODELS = (MODEL, VOCABULARY, WEIGHTS)


def write_result(folder: Path, result: Mapping[str, Any], changing: tuple[str, ...] = ()) -> None:
    """Write `result.json` with the size and SHA-256 of each file of the run.

    The file also has the SHA-256 of its own content. It is written last: it makes a run a finished
    run.

    Args:
        folder: The folder of the run.
        result: The entries; earlier checksums are replaced.
        changing: Files and folders that will change, whose checksums are left out.
    """
    files = {
        name: {"bytes": path.stat().st_size, DIGEST: digest_of(path)}
        for name, path in _files(folder)
        if name.partition("/")[0] not in changing
    }
    content = {key: value for key, value in result.items() if key != DIGEST} | {FILES: files}
    write_json(folder / RESULT, {**content, DIGEST: _digest(content)})


def damage(folder: Path, models: bool = True) -> str | None:
    r"""Return which file of a finished run has changed since it was written, and how.

    Files without a checksum are not checked: those of runs of earlier versions, and those that were
    added later. Models and weights may be deleted.

    Args:
        folder: The folder of a run with a `result.json`.
        models: If False, only the sizes of models and weights are checked: reports do not read
            them, and reading them can take longer than the report.

    Returns:
        A sentence that starts with the path of the file, or None.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as name:
        ...     folder = Path(name)
        ...     _ = (folder / "history.csv").write_text("epoch,loss\n1,0.5\n")
        ...     write_result(folder, {"seed": 1})
        ...     before = damage(folder)
        ...     _ = (folder / "history.csv").write_text("epoch,loss\n1,0.4\n")
        ...     before, damage(folder).removeprefix(str(folder))
        (None, '/history.csv: damaged: its content has changed since the run')
    """
    files, fault = _recorded(folder)
    if fault is not None:
        return fault
    for name, recorded in files.items():
        if name in _MODELS and not (folder / name).exists():
            continue
        if fault := _fault(folder / name, recorded, content=models or name not in _MODELS):
            return f"{folder / name}: damaged: {fault}"
    return None


def damage_of_model(folder: Path) -> str | None:
    """Return how the model of a finished run has changed since it was written; None if unknown.

    Args:
        folder: The folder of a run, or an exported model, whose other files may be missing.
    """
    files, fault = _recorded(folder)
    if fault is not None:
        return fault
    for name in _MODELS:
        known = name in files and (folder / name).exists()
        if known and (fault := _fault(folder / name, files[name], content=True)):
            return f"{folder / name}: damaged: {fault}"
    return None


def _recorded(folder: Path) -> tuple[Mapping[str, Any], str | None]:
    """Return the recorded sizes and digests by name, and the fault of `result.json`."""
    try:
        result = read_json(folder / RESULT)
    except SuiteError as error:
        return {}, str(error)
    content = {key: value for key, value in result.items() if key != DIGEST}
    if (FILES in result or DIGEST in result) and result.get(DIGEST) != _digest(content):
        return {}, f"{folder / RESULT}: damaged: its content has changed since the run"
    return result.get(FILES, {}), None


def _fault(path: Path, recorded: Mapping[str, Any], content: bool) -> str | None:
    try:
        size = path.stat().st_size
        if size != recorded["bytes"]:
            return f"it had {recorded['bytes']:,} bytes after the run, and has {size:,}"
        if content and digest_of(path) != recorded[DIGEST]:
            return "its content has changed since the run"
    except OSError as error:
        return reason_of(error)
    return None


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the names and paths of the files of a run, but not temporary files."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in (RESULT, STATE) and not path.name.startswith("."):
            yield path.relative_to(folder).as_posix(), path


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file, as hexadecimal digits."""
    return digest_of_file(path).hex()


def _digest(content: Mapping[str, Any]) -> str:
    written = json.dumps(content, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(written.encode("utf-8", "surrogatepass")).hexdigest()
