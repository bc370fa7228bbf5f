"""Tasks as token ids, cached by what they were made from."""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import platformdirs
import tokenizers

from relation_tf.tasks import miniglue
from relation_tf.tasks.catalogue import find_task, read_task, task_files
from relation_tf.tasks.glue import GLUE
from relation_tf.tasks.rows import Ragged, Texts
from relation_tf.tasks.splits import cut
from relation_tf.tasks.task import Task, TaskText, TextSplit
from relation_tf.tasks.tsv import DataError
from relation_tf.tasks.vocabulary import Vocabulary

Tokens = Literal["word", "wordpiece", "text"]

VALIDATION = 0.1
"""The share of the training rows that stops the training where a task has no rows for it."""

_SOURCES = ("files", "miniglue")
_FORMAT = 3  # raised with any change of the files, or of how text is read, cut or split


@dataclass(frozen=True)
class EncodedSplit:
    """A split as a network reads it.

    Attributes:
        inputs: The rows of each input: token ids, or text where `tokens="text"` was asked for.
        labels: As in `TextSplit`.
        index: As in `TextSplit`.
    """

    inputs: tuple[Ragged | Texts, ...]
    labels: np.ndarray | None
    index: np.ndarray

    def __len__(self) -> int:
        return len(self.index)

    @property
    def lengths(self) -> np.ndarray:
        """The tokens (or of text the characters) of each row, `(inputs, rows)`."""
        return np.stack([rows.lengths for rows in self.inputs])


@dataclass(frozen=True)
class EncodedTask:
    """A task as a network reads it.

    Attributes:
        task: The task.
        vocabulary: From its training rows, or None where the inputs are text.
        splits: Its splits.
        validation: The split that stops the training; "validation" where it was cut from "train".
        digest: SHA-256 of the files.
        skipped: One message for each malformed line that was left out.
        notes: What makes results on it unlike published ones.
    """

    task: Task
    vocabulary: Vocabulary | None
    splits: Mapping[str, EncodedSplit]
    validation: str
    digest: str
    skipped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def load_task(
    name: str,
    source: str = "files",
    data: Path | None = None,
    *,
    tokens: Tokens = "word",
    validation: float | None = None,
    max_words: int | None = None,
    max_length: int | None = None,
    skip_bad_lines: bool = False,
) -> EncodedTask:
    """Read a task and encode it, or take it from the cache.

    Args:
        name: One of `TASK_NAMES`.
        source: `"files"` for files under `data`; `"miniglue"` for the embedded set, which has
            GLUE's tasks alone.
        data: The folder below which files are looked for.
        tokens: `"word"`, `"wordpiece"`, or `"text"` for networks that read text themselves.
        validation: The share of the training rows, in (0, 1), that is cut off to stop the
            training, in each class alike, always the same rows. By default the task's own
            validation split does that, or a share of `VALIDATION` where it has none.
        max_words: Size of the vocabulary, padding and unknown included; by default every word has
            an id, and WordPiece has 8,000.
        max_length: Keep no more than the first so many tokens of a text; by default all.
        skip_bad_lines: Leave out malformed lines of training files and count them.

    Raises:
        DataError: For an unknown task or source, settings that do not go together, files that are
            not there, or a malformed line.

    Example:
        >>> task = load_task("RTE", source="miniglue")
        >>> task.splits["train"].lengths.shape[0], task.validation
        (2, 'dev')
    """
    task = find_task(name)
    _check(task, source, tokens, validation, max_words, max_length)
    if source == "miniglue":
        data = _miniglue()
    digest = _digest(task_files(name, data))
    own = task.validation if validation is None else None
    share = None if own is not None else validation or VALIDATION
    settings = {
        "format": _FORMAT,
        "tokenizers": tokenizers.__version__,
        "task": name,
        "digest": digest,
        "tokens": tokens,
        "validation": share,
        "max_words": max_words,
        "max_length": max_length,
        "skip_bad_lines": skip_bad_lines,
    }
    key = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
    path = _cache_folder() / f"{name}-{key[:32]}.npz"
    if not path.exists():
        text = read_task(name, data, skip_bad_lines)
        splits = dict(text.splits)
        if share is not None:
            splits["train"], splits["validation"] = cut(splits["train"], share)
        _write(path, *_encode(splits, tokens, max_words, max_length), text)
    return _read(path, task, own or "validation", digest)


def _check(
    task: Task,
    source: str,
    tokens: str,
    validation: float | None,
    max_words: int | None,
    max_length: int | None,
) -> None:
    """Refuse settings that mean nothing, alone or together."""
    if source not in _SOURCES:
        raise DataError(f"source must be one of {', '.join(_SOURCES)}. Received: source={source!r}")
    if source == "miniglue" and task.name not in GLUE:
        raise DataError(
            f"task {task.name}: the embedded set has {', '.join(GLUE)} alone, all others need "
            "source='files' and a folder of files. Received: source='miniglue'"
        )
    if tokens not in get_args(Tokens):
        raise DataError(
            f"tokens must be one of {', '.join(get_args(Tokens))}. Received: tokens={tokens!r}"
        )
    if validation is not None and not 0 < validation < 1:
        raise DataError(
            "validation must be a share of the training rows, above 0 and below 1. "
            f"Received: validation={validation!r}"
        )
    for argument, value in {"max_words": max_words, "max_length": max_length}.items():
        if tokens == "text" and value is not None:
            raise DataError(
                f"{argument} has no meaning with tokens='text': a network that reads text splits "
                f"and cuts it by itself. Received: {argument}={value}"
            )


def _digest(files: Mapping[str, Path]) -> str:
    """SHA-256 of all files."""
    digest = hashlib.sha256()
    for split, path in files.items():
        digest.update(split.encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _encode(
    splits: Mapping[str, TextSplit],
    tokens: Tokens,
    max_words: int | None,
    max_length: int | None,
) -> tuple[Vocabulary | None, dict[str, EncodedSplit]]:
    vocabulary: Vocabulary | None = None
    encode: Callable[[list[str]], Any] = Texts.join
    if tokens != "text":
        columns = splits["train"].texts
        vocabulary = Vocabulary.train(itertools.chain(*columns), max_words, tokens)
        encode = functools.partial(vocabulary.encode, max_length=max_length)
    encoded = {
        name: EncodedSplit(tuple(map(encode, split.texts)), split.labels, split.index)
        for name, split in splits.items()
    }
    return vocabulary, encoded


def _write(
    path: Path,
    vocabulary: Vocabulary | None,
    splits: Mapping[str, EncodedSplit],
    source: TaskText,
) -> None:
    words = None if vocabulary is None else vocabulary.to_json()
    text = {
        "vocabulary": words,
        "splits": list(splits),
        "skipped": source.skipped,
        "notes": source.notes,
    }
    arrays: dict[str, Any] = {"text": np.frombuffer(json.dumps(text).encode(), np.uint8)}
    for name, split in splits.items():
        arrays[f"{name}/index"] = split.index
        if split.labels is not None:
            arrays[f"{name}/labels"] = split.labels
        for i, rows in enumerate(split.inputs):
            arrays[f"{name}/rows{i}"] = rows.data if isinstance(rows, Texts) else rows.ids
            arrays[f"{name}/offsets{i}"] = rows.offsets
    # Another process may write the same file at this moment: the last rename wins, both are whole.
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".npz", delete=False) as file:
        np.savez(file, **arrays)
    Path(file.name).replace(path)


def _read(path: Path, task: Task, validation: str, digest: str) -> EncodedTask:
    with np.load(path, allow_pickle=False) as arrays:
        text = json.loads(arrays["text"].tobytes())
        words = text["vocabulary"]
        rows = Texts if words is None else Ragged
        splits = {
            name: EncodedSplit(
                tuple(
                    rows(arrays[f"{name}/rows{i}"], arrays[f"{name}/offsets{i}"])
                    for i in range(len(task.inputs))
                ),
                arrays.get(f"{name}/labels"),
                arrays[f"{name}/index"],
            )
            for name in text["splits"]
        }
    vocabulary = None if words is None else Vocabulary.from_json(words)
    skipped, notes = tuple(text["skipped"]), tuple(text["notes"])
    return EncodedTask(task, vocabulary, splits, validation, digest, skipped, notes)


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
