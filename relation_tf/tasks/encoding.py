"""Tasks as token ids, cached by what they were made from."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
import tokenizers

from relation_tf.tasks import miniglue
from relation_tf.tasks.glue import GLUE, Task, TaskText, find_glue, read_task, split_files
from relation_tf.tasks.tsv import DataError
from relation_tf.tasks.vocabulary import Ragged, Vocabulary

_FORMAT = 1  # of the cached files


@dataclass(frozen=True)
class EncodedSplit:
    """A split as token ids.

    Attributes:
        inputs: The rows of each input.
        labels: As in `TextSplit`.
        index: As in `TextSplit`.
    """

    inputs: tuple[Ragged, ...]
    labels: np.ndarray | None
    index: np.ndarray

    def __len__(self) -> int:
        return len(self.index)

    @property
    def lengths(self) -> np.ndarray:
        """The tokens of each row, `(inputs, rows)`."""
        return np.stack([rows.lengths for rows in self.inputs])


@dataclass(frozen=True)
class EncodedTask:
    """A task as token ids.

    Attributes:
        task: The task.
        vocabulary: From its training text.
        splits: Its splits.
        digest: SHA-256 of the files.
        skipped: One message for each malformed line that was left out.
    """

    task: Task
    vocabulary: Vocabulary
    splits: Mapping[str, EncodedSplit]
    digest: str
    skipped: tuple[str, ...] = ()


def load_task(
    name: str,
    source: str = "glue",
    data: Path | None = None,
    *,
    max_words: int | None = None,
    max_length: int | None = None,
    skip_bad_lines: bool = False,
) -> EncodedTask:
    """Read a task and encode it, or take it from the cache.

    Args:
        name: One of the nine trained GLUE tasks.
        source: `"glue"` for files under `data`, `"miniglue"` for the embedded set.
        data: The folder that holds `glue_data/<Task>` or `<Task>`.
        max_words: Size of the vocabulary, padding and unknown included; by default every word.
        max_length: Keep no more than the first so many tokens of a text; by default all.
        skip_bad_lines: Leave out malformed lines of train files and count them.

    Raises:
        DataError: For an unknown task, files that are not there, or a malformed line.

    Example:
        >>> task = load_task("RTE", source="miniglue")
        >>> task.splits["train"].lengths.shape[0]
        2
    """
    if name not in GLUE:
        raise DataError(f"unknown task {name!r}: expected one of {', '.join(GLUE)}")
    if source == "miniglue":
        data = _miniglue()
    task, folder = GLUE[name], find_glue(name, data)
    digest = _digest(split_files(task, folder))
    settings = {
        "format": _FORMAT,
        "tokenizers": tokenizers.__version__,
        "task": name,
        "digest": digest,
        "max_words": max_words,
        "max_length": max_length,
        "skip_bad_lines": skip_bad_lines,
    }
    key = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
    path = _cache_folder() / f"{name}-{key[:32]}.npz"
    if not path.exists():
        text = read_task(name, folder, skip_bad_lines=skip_bad_lines)
        _write(path, *_encode(text, max_words, max_length), text.skipped)
    return _read(path, task, digest)


def _digest(files: Mapping[str, Path]) -> str:
    """SHA-256 of all files; where one cannot be read, reading it tells why."""
    digest = hashlib.sha256()
    for split, path in files.items():
        digest.update(split.encode())
        if path.exists():
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _encode(
    text: TaskText, max_words: int | None, max_length: int | None
) -> tuple[Vocabulary, dict[str, EncodedSplit]]:
    train = text.splits["train"].texts
    vocabulary = Vocabulary.train((sentence for column in train for sentence in column), max_words)
    splits = {
        name: EncodedSplit(
            tuple(vocabulary.encode(column, max_length) for column in split.texts),
            split.labels,
            split.index,
        )
        for name, split in text.splits.items()
    }
    return vocabulary, splits


def _write(
    path: Path,
    vocabulary: Vocabulary,
    splits: Mapping[str, EncodedSplit],
    skipped: tuple[str, ...],
) -> None:
    text = {"vocabulary": vocabulary.to_json(), "splits": list(splits), "skipped": skipped}
    arrays: dict[str, Any] = {"text": np.frombuffer(json.dumps(text).encode(), np.uint8)}
    for name, split in splits.items():
        arrays[f"{name}/index"] = split.index
        if split.labels is not None:
            arrays[f"{name}/labels"] = split.labels
        for i, rows in enumerate(split.inputs):
            arrays[f"{name}/ids{i}"], arrays[f"{name}/offsets{i}"] = rows.ids, rows.offsets
    # Another process may write the same file at this moment: the last rename wins, both are whole.
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".npz", delete=False) as file:
        np.savez(file, **arrays)
    Path(file.name).replace(path)


def _read(path: Path, task: Task, digest: str) -> EncodedTask:
    with np.load(path, allow_pickle=False) as arrays:
        text = json.loads(arrays["text"].tobytes())
        splits = {
            name: EncodedSplit(
                tuple(
                    Ragged(arrays[f"{name}/ids{i}"], arrays[f"{name}/offsets{i}"])
                    for i in range(len(task.inputs))
                ),
                arrays.get(f"{name}/labels"),
                arrays[f"{name}/index"],
            )
            for name in text["splits"]
        }
    vocabulary = Vocabulary.from_json(text["vocabulary"])
    return EncodedTask(task, vocabulary, splits, digest, tuple(text["skipped"]))


def _miniglue() -> Path:
    """The folder of the embedded set, generated at its first use."""
    folder = _cache_folder() / f"miniglue-{miniglue.VERSION}"
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
            made = Path(temporary) / "miniglue"
            miniglue.write(made)
            try:
                made.rename(folder)
            except OSError:
                # Another process was faster; its files are the same.
                if not folder.exists():
                    raise
    return folder


def _cache_folder() -> Path:
    default = platformdirs.user_cache_path("relation_tf")
    folder = Path(os.environ.get("RELATION_TF_CACHE", default))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
