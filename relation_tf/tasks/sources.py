"""Sources of text: the files of a task, their digests, and what they lack of GLUE's."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import glue_submit
from relation_tf.errors import DataError
from relation_tf.files import expand_home, refuse_device, stays_inside
from relation_tf.registry import SOURCES
from relation_tf.tasks.datasets import OFFICIAL_ROWS
from relation_tf.tasks.tables import readable
from relation_tf.tasks.task import (
    Dataset,
    FileLayout,
    Task,
    TaskText,
    TextSplit,
    VocabularyTexts,
    named_in_group,
)


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
        for name, split in self.read().splits.items():
            rows = map("\t".join, zip(*split.texts, strict=True))
            digest.update("\n".join([name, *rows]).encode())
        return digest.hexdigest()

    def training_digests(
        self, vocabulary: VocabularyTexts = "train", data: str | Path | None = None
    ) -> dict[str, str]:
        """Return the SHA-256 of each split or file that changes the training or is scored.

        Args:
            vocabulary: As for `load_task`. Without `"all"`, the unlabelled test files of a
                leaderboard are left out.
            data: Folder of the files.
        """
        if self.kind == "generated":
            return {"text": self.digest()}
        answered = {*self.task.answered.values()} if vocabulary != "all" else set()
        digests = {key: found for key, found in self.digests().items() if key not in answered}
        files = zip(vocabulary, vocabulary_files(vocabulary, data), strict=False)
        return digests | {f"vocabulary/{name}": digest_of_file(path).hex() for name, path in files}

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


def vocabulary_files(vocabulary: VocabularyTexts, data: str | Path | None) -> tuple[Path, ...]:
    """Return the text files of a vocabulary, none if it is that of rows of the task.

    Raises:
        DataError: If a file is missing or not in the folder of data, or there is no such folder.
    """
    if isinstance(vocabulary, str):
        return ()
    if data is None:
        raise DataError(f"vocabulary: --data must be the folder of {', '.join(vocabulary)}")
    paths = tuple(expand_home(data) / name for name in vocabulary)
    for name, path in zip(vocabulary, paths, strict=True):
        if not stays_inside(name) or not path.is_file():
            raise DataError(f"vocabulary: {path} must be a text file in the folder of --data")
    return paths


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
        return TaskText(
            task,
            named_in_group((text.task, text.splits) for text in texts),
            tuple(f"{text.task.name}: {note}" for text in texts for note in text.notes),
            all(text.spaced for text in texts),
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


# What the files lack of the official ones of GLUE.


def sample_note(source: TaskSource, rows: Mapping[str, int]) -> str | None:
    """Return a note if a GLUE task has fewer labelled rows than the official files.

    Args:
        source: Source of the task.
        rows: Number of rows of each split.

    Returns:
        None for complete data, for generated data and for other tasks.
    """
    if not _of_leaderboard(source):
        return None
    official = OFFICIAL_ROWS[source.task.name]
    fewer = [
        f"{rows[split]:,} of {count:,} {'training' if split == 'train' else split} rows"
        for split, count in official.items()
        if split in rows and rows[split] < count
    ]
    return f"a sample: {', '.join(fewer)}, not comparable with published results" if fewer else None


def shortfalls(source: TaskSource) -> list[str]:
    """Return a line for each missing or incomplete test file of a GLUE task or of a group's tasks.

    Args:
        source: Source of the task or group. Prepared TFDS datasets have the official rows.
    """
    lines = []
    for member in source.members or (source,):
        for name, split in member.task.answered.items() if _of_leaderboard(member) else ():
            expected = glue_submit.TASKS[name].test_rows
            if split not in member.files:
                place = member.layout.files.get(split, f"split {split!r}")
                lines.append(f"{name}: {place} is missing ({expected:,} rows)")
            elif (rows := _count_rows(member, split, expected)) != expected:
                file = member.files[split]
                lines.append(f"{name}: {file} has {rows:,} rows, not {expected:,}")
    return lines


def unscored(source: TaskSource) -> list[str]:
    """Return a note for each diagnostic set without labels of a task, or of a group's tasks."""
    notes = []
    for member in source.members or (source,):
        for name, split in member.task.answered.items():
            if split in member.files and not is_labelled(member, name):
                labelled = member.layout.labelled.get(split)
                why = (
                    f"{labelled} is missing" if labelled else f"{member.layout.name} has no labels"
                )
                notes.append(f"{name} is predicted but not scored: {why}")
    return notes


def is_labelled(source: TaskSource, name: str) -> bool:
    """Return False if the file of a diagnostic set has no labels."""
    split = source.task.answered[name]
    labelled = source.layout.labelled.get(split)
    return name not in source.task.diagnostics or bool(
        labelled and split in source.files and source.files[split].match(labelled)
    )


def _of_leaderboard(source: TaskSource) -> bool:
    """Return True for real data of a GLUE task."""
    kind = SOURCES.get(source.kind)
    return source.task.name in OFFICIAL_ROWS and not (kind is not None and kind.artificial)


def _count_rows(source: TaskSource, split: str, official: int) -> int:
    """Return the number of rows of a test file."""
    path = source.files[split]
    if source.layout.by_rows:
        return len(source.layout.read(source.task, {split: path}).splits[split])
    with readable(path):
        if not path.is_file():
            return official
        with path.open("rb") as file:
            return sum(1 for line in file if line.strip()) - 1  # the header
