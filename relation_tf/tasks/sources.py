"""Sources of text: finders registered in `relation_tf.registry.SOURCES`, and what they return."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from relation_tf.tasks.task import Dataset, FileLayout, Task, TaskText


@dataclass(frozen=True)
class TaskSource:
    """The text of a task, found and not yet read.

    Attributes:
        task: The task.
        kind: The source that has it, such as `"files"`, `"tfds"` or `"miniglue"`; `"generated"`
            for text without files.
        layout: How the files lie.
        files: The file or folder of each split.
    """

    task: Task
    kind: str
    layout: FileLayout
    files: Mapping[str, Path]

    def read(self, skip_bad_lines: bool = False) -> TaskText:
        """Read the text.

        Args:
            skip_bad_lines: Leave out malformed lines of training files and count them. Lines that
                are scored or answered are never left out.

        Raises:
            DataError: For malformed lines: one message with file and line.
        """
        return self.layout.read(self.task, self.files, skip_bad_lines)

    def digest(self) -> str:
        """Return the SHA-256 of all files, or of the text if it is generated."""
        digest = hashlib.sha256()
        if self.kind == "generated":
            for name, made in self.read().splits.items():
                rows = map("\t".join, zip(*made.texts, strict=True))
                digest.update("\n".join([name, *rows]).encode())
            return digest.hexdigest()
        of_path = functools.cache(_digest)
        for split, path in self.files.items():
            digest.update(split.encode())
            digest.update(of_path(path))
        return digest.hexdigest()

    def __str__(self) -> str:
        return " ".join([self.layout.name, *map(str, [*self.files.values()][:1])])


@dataclass(frozen=True)
class Folders:
    """Folders that a source may search.

    Attributes:
        data: The folder that `--data` names, if it does.
        tfds: The folder of TensorFlow Datasets.
    """

    data: Path | None
    tfds: Path


@dataclass(frozen=True)
class Missing:
    """Why a source does not have a task, for the message.

    Attributes:
        reason: What is missing.
        searched: Files and folders that are not there.
        obtain: How to get the data.
    """

    reason: str = ""
    searched: tuple[str, ...] = ()
    obtain: str = ""

    def __str__(self) -> str:
        parts = [self.reason] if self.reason else []
        if self.searched:
            parts.append(f"looked for {', '.join(dict.fromkeys(self.searched))}: not there")
        return "; ".join(parts) + (f". To get it: {self.obtain}" if self.obtain else "")


def search(dataset: Dataset, kind: str, folders: Iterable[Path]) -> TaskSource | Missing:
    """Search folders for the files of a task, in all its layouts.

    Args:
        dataset: The task and its layouts.
        kind: The name of the source.
        folders: Where to search, in this order.

    Raises:
        DataError: If the first file of a layout is there and another one is missing.
    """
    searched: list[str] = []
    for folder in folders:
        for layout in dataset.layouts:
            files = layout.find(dataset.task, folder)
            if files is not None:
                return TaskSource(dataset.task, kind, layout, files)
            searched += [str(folder / place) for place in layout.places]
    return Missing("", tuple(searched), dataset.obtain)


def _digest(path: Path) -> bytes:
    if path.is_file():
        return digest_of_file(path)
    digest = hashlib.sha256()
    for file in sorted(file for file in path.rglob("*") if file.is_file()):
        digest.update(file.relative_to(path).as_posix().encode())
        digest.update(digest_of_file(file))
    return digest.digest()


def digest_of_file(path: Path) -> bytes:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()
