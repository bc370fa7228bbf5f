"""Sources of text: where the files of a task are, and their digests."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from relation_tf.errors import DataError
from relation_tf.files import refuse_device
from relation_tf.tasks.tables import readable
from relation_tf.tasks.task import Dataset, FileLayout, Task, TaskText, TextSplit, named_in_group


@dataclass(frozen=True)
class TaskSource:
    """Location of the text of a task; `read` reads it.

    Attributes:
        task: The task.
        kind: Name of the source, such as `"files"`, `"tfds"` or `"miniglue"`; `"generated"` for
            tasks without files.
        layout: Layout of the files.
        files: File or folder of each split.
        members: Sources of the tasks of a group.
    """

    task: Task
    kind: str
    layout: FileLayout
    files: Mapping[str, Path]
    members: tuple[TaskSource, ...] = ()

    def read(self) -> TaskText:
        """Read the text.

        Raises:
            DataError: If a line is malformed; the message has the file and the line.
        """
        return self.layout.read(self.task, self.files)

    def digest(self) -> str:
        """Return the SHA-256 of all files, or of the text if it is generated."""
        if self.kind != "generated":
            return joined_digest(self.digests())
        digest = hashlib.sha256()
        for name, made in self.read().splits.items():
            rows = map("\t".join, zip(*made.texts, strict=True))
            digest.update("\n".join([name, *rows]).encode())
        return digest.hexdigest()

    def training_digests(self, vocabulary: str = "train") -> dict[str, str]:
        """Return the SHA-256 of each split that changes the training or is scored.

        Args:
            vocabulary: Without `"all"`, the unlabelled test files of a leaderboard are left out.
        """
        if self.kind == "generated":
            return {"text": self.digest()}
        answered = {*self.task.answered.values()} if vocabulary != "all" else set()
        return {key: found for key, found in self.digests().items() if key not in answered}

    def digests(self) -> dict[str, str]:
        """Return the SHA-256 of each split, empty for generated text.

        It is that of the file or folder, or that of the rows if the layout says so.

        Raises:
            DataError: If a file cannot be read, or a row is malformed.
        """
        if self.members:
            return named_in_group((source.task, source.digests()) for source in self.members)
        if self.layout.by_rows:
            return self.row_digests()
        of_path = functools.cache(digest_of_path)
        return {split: of_path(path).hex() for split, path in self.files.items()}

    def row_digests(self) -> dict[str, str]:
        """Return the SHA-256 of the texts and labels of each split, equal in every file format."""
        return {name: digest_of_rows(rows).hex() for name, rows in self.read().splits.items()}

    def __str__(self) -> str:
        return " ".join([self.layout.name, *map(str, [*self.files.values()][:1])])


def joined_digest(digests: Mapping[str, str]) -> str:
    """Return one SHA-256 for the digests of all splits."""
    joined = hashlib.sha256()
    for split, digest in digests.items():
        joined.update(split.encode())
        joined.update(bytes.fromhex(digest))
    return joined.hexdigest()


@dataclass(frozen=True)
class Folders:
    """Folders that a source can search.

    Attributes:
        data: Folder of `--data`, or None.
        tfds: Folder of TensorFlow Datasets.
    """

    data: Path | None
    tfds: Path


@dataclass(frozen=True)
class Missing:
    """Reason why a source does not have a task, for error messages.

    Attributes:
        reason: Description of the problem.
        searched: Missing files and folders.
        obtain: Instructions to get the data.
    """

    reason: str = ""
    searched: tuple[str, ...] = ()
    obtain: str = ""

    def __str__(self) -> str:
        parts = [self.reason or "not found"]
        if self.searched:
            places = ", ".join(dict.fromkeys(self.searched))
            parts.append(f"{'Also searched' if self.reason else 'Searched'}: {places}")
        return ". ".join(parts) + (f". To get the data: {self.obtain}." if self.obtain else "")


def search(dataset: Dataset, kind: str, folders: Iterable[Path]) -> TaskSource | Missing:
    """Search folders for the files of a task, in all its layouts.

    Args:
        dataset: The task and its layouts.
        kind: Name of the source.
        folders: Folders to search, in this order.

    Raises:
        DataError: If the first file of a layout exists and another file is missing.
    """
    searched: list[str] = []
    for folder in folders:
        for layout in dataset.layouts:
            files = layout.find(dataset.task, folder)
            if files is not None:
                return TaskSource(dataset.task, kind, layout, files)
            searched += [str(folder / place) for place in layout.places]
    return Missing("", tuple(searched), dataset.obtain)


def joined_source(group: Task, sources: Sequence[TaskSource]) -> TaskSource:
    """Return the source of a group.

    Args:
        group: The group.
        sources: Sources of its members, in the same order.

    Raises:
        DataError: If the sources are of different kinds.
    """
    kinds = {source.task.name: source.kind for source in sources}
    if len(set(kinds.values())) > 1:
        found = ", ".join(f"{name} from {kind}" for name, kind in kinds.items())
        raise DataError(
            f"group {group.name}: all tasks must be from the same kind of source. Received: {found}"
        )

    def read(task: Task, paths: Mapping[str, Path]) -> TaskText:
        texts = [source.read() for source in sources]
        spaced = {text.spaced for text in texts}
        return TaskText(
            task,
            named_in_group((text.task, text.splits) for text in texts),
            tuple(f"{text.task.name}: {note}" for text in texts for note in text.notes),
            spaced.pop() if len(spaced) == 1 else None,
        )

    layout = FileLayout(", ".join(dict.fromkeys(source.layout.name for source in sources)), read)
    files = named_in_group((source.task, source.files) for source in sources)
    return TaskSource(group, sources[0].kind, layout, files, tuple(sources))


def digest_of_rows(rows: TextSplit) -> bytes:
    """Return the SHA-256 of the texts and labels of a split, without the row numbers."""
    digest = hashlib.sha256()
    for column in rows.texts:
        digest.update(b"%d\0" % len(column))
        for text in column:
            digest.update(text.encode() + b"\0")  # texts have no NUL
    if rows.labels is not None:
        digest.update(rows.labels.astype(rows.labels.dtype.newbyteorder("<")).tobytes())
    return digest.digest()


def digest_of_path(path: Path) -> bytes:
    """Return the SHA-256 of a file, or of all files of a folder with their names.

    Raises:
        DataError: If a file or folder cannot be read.
    """
    with readable(path):
        if path.is_file():
            return digest_of_file(path)
        digest = hashlib.sha256()
        for file in sorted(_files_below(path)):
            digest.update(os.fsencode(file.relative_to(path).as_posix()))
            digest.update(digest_of_file(file))
        return digest.digest()


def _files_below(folder: Path) -> Iterator[Path]:
    def refuse(error: OSError) -> None:
        raise error

    for place, _, names in os.walk(folder, onerror=refuse):  # `rglob` omits unreadable folders
        yield from (file for name in names if (file := Path(place, name)).is_file())


def digest_of_file(path: Path) -> bytes:
    """Return the SHA-256 of a file."""
    refuse_device(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()
