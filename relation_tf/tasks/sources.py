"""Where the text of a task is: files of the user's, a prepared TFDS folder, or the embedded set."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from relation_tf.errors import DataError
from relation_tf.tasks.task import FileLayout, Task, TaskText


@dataclass(frozen=True)
class TaskSource:
    """The text of a task, found and not yet read.

    Attributes:
        task: The task.
        kind: `"files"`, `"tfds"`, `"miniglue"` or `"generated"`.
        layout: How the files lie.
        files: The file or folder of each split.
    """

    task: Task
    kind: Literal["files", "tfds", "miniglue", "generated"]
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
        """SHA-256 of all files, or of the text where it is generated."""
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


def search(layout: FileLayout, task: Task, folder: Path) -> dict[str, Path] | None:
    """The files of a task below a folder in one layout, None where its first place is not there.

    Raises:
        DataError: Where a file beside the first is missing.
    """
    for place in layout.places(task):
        if (folder / place).exists():
            files = layout.files(task, folder / place)
            for path in files.values():
                if not path.exists():
                    raise DataError(
                        f"{path}: expected the file of task {task.name}, it is not there"
                    )
            return files
    return None


def _digest(path: Path) -> bytes:
    if path.is_file():
        return digest_of_file(path)
    digest = hashlib.sha256()
    for file in _files_below(path):
        digest.update(file.relative_to(path).as_posix().encode())
        digest.update(digest_of_file(file))
    return digest.digest()


def _files_below(folder: Path) -> Iterator[Path]:
    return iter(sorted(path for path in folder.rglob("*") if path.is_file()))


def digest_of_file(path: Path) -> bytes:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()
