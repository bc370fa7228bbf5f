"""All tasks by name: what they are, and where their text is found. Free of Keras."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from relation_tf.errors import DataError
from relation_tf.tasks import (
    ag_news,
    decoding_speed,
    generated,
    glue,
    imdb,
    reuters,
    reviews,
    sentences,
    sst,
    tfds,
    trec,
    tweets,
    wikitext,
    yelp,
)
from relation_tf.tasks.cache import miniglue_folder
from relation_tf.tasks.custom import CustomTask
from relation_tf.tasks.group import TaskGroup, joined_source
from relation_tf.tasks.sources import TaskSource, search
from relation_tf.tasks.task import Collection, FileLayout, Task, TaskText, joined

SourceName = Literal["auto", "files", "tfds", "miniglue"]


class NotFoundError(DataError):
    """A task whose text is nowhere that was looked at."""


_COLLECTIONS: dict[str, Collection] = {
    name: module.COLLECTION
    for module in (
        glue,
        sentences,
        reviews,
        imdb,
        ag_news,
        yelp,
        tweets,
        reuters,
        trec,
        sst,
        wikitext,
        generated,
        decoding_speed,
    )
    for name in module.COLLECTION.tasks
}

TASK_NAMES: tuple[str, ...] = tuple(_COLLECTIONS)


Entry = str | CustomTask | TaskGroup
"""What a suite names: a task of `TASK_NAMES`, one of one's own, or several together."""


def find_task(name: Entry) -> Task:
    """Look up a task by its name, or take one of one's own, or several together.

    Raises:
        DataError: Where there is none of this name.

    Example:
        >>> find_task("MR").scored
        {'MR': 'test'}
    """
    if isinstance(name, TaskGroup):
        return joined(name.name, [*map(find_task, name.tasks)])
    collection = _collection(name)
    return collection.tasks[name if isinstance(name, str) else name.name]


def find_source(
    name: Entry,
    source: SourceName = "auto",
    data: str | Path | None = None,
    tfds_folder: str | Path | None = None,
) -> TaskSource:
    """Find the text of a task.

    Args:
        name: One of `TASK_NAMES`, a task of one's own, or a group of tasks.
        source: `"files"` below `data`, `"tfds"` for what TFDS has prepared, `"auto"` for the first
            of these two that is there, `"miniglue"` for the embedded set, which has GLUE's tasks
            alone.
        data: The folder below which files are looked for.
        tfds_folder: The folder of TFDS, by default the one that TFDS uses.

    Raises:
        NotFoundError: Where there is nothing; it says where it looked and how to get the data.
        DataError: For an unknown task or source, and where a file is missing beside others.

    Example:
        >>> find_source("RTE", "miniglue").layout.name
        'TSV'
    """
    if isinstance(name, TaskGroup):
        each = [find_source(entry, source, data, tfds_folder) for entry in name.tasks]
        return joined_source(find_task(name), each)
    task, collection = find_task(name), _collection(name)
    if task.generated:
        (layout,) = collection.layouts
        return TaskSource(task, "generated", layout, {})
    if source == "miniglue":
        return _embedded(task, collection)
    data = folder_of(data)
    looked: list[str] = []
    for kind, layout, folder in _places(
        task, collection, source, _data_folders(name, data), tfds.folder_of(tfds_folder)
    ):
        files = search(layout, task, folder)
        if files is not None:
            return TaskSource(task, kind, layout, files)
        looked += [str(folder / place) for place in layout.places(task)]
    raise NotFoundError(_nothing(task, collection, source, data, looked))


def folder_of(data: str | Path | None) -> Path | None:
    """The folder that `--data` names.

    Raises:
        DataError: Where there is none.
    """
    if data is None:
        return None
    folder = Path(data).expanduser()
    if not os.path.isdir(folder):  # noqa: PTH112 - of a name that is too long Path.is_dir raises
        raise DataError(f"{folder}: expected a folder of data, there is none")
    return folder


def _data_folders(name: str | CustomTask, data: Path | None) -> list[Path]:
    """Where files are looked for: one's own also where the command is called."""
    own = [Path()] if isinstance(name, CustomTask) else []
    return own if data is None else [data, *own]


def read_task(name: str, data: str | Path | None, skip_bad_lines: bool = False) -> TaskText:
    """Read a task from its files, see `find_source` and `TaskSource.read`."""
    return find_source(name, "files", data).read(skip_bad_lines)


def _places(
    task: Task,
    collection: Collection,
    source: str,
    folders: Sequence[Path],
    tfds_folder: Path,
) -> Iterator[tuple[Literal["files", "tfds"], FileLayout, Path]]:
    if source not in ("auto", "files", "tfds"):
        raise DataError(
            f"source must be one of auto, files, tfds, miniglue. Received: source={source!r}"
        )
    if source != "tfds":
        for folder in folders:
            for layout in collection.layouts:
                yield "files", layout, folder
    if source != "files" and task.name in tfds.PREPARED:
        yield "tfds", tfds.LAYOUT, tfds_folder


def _nothing(
    task: Task, collection: Collection, source: str, data: Path | None, looked: list[str]
) -> str:
    """One line: where it was looked, what was not given, how to get it."""
    wants = [place for layout in collection.layouts for place in layout.places(task)]
    parts = []
    if source != "tfds" and data is None:
        parts.append(f"expected --data DIR, a folder with {' or '.join(wants)}: none was given")
    if looked:
        parts.append(f"looked for {', '.join(dict.fromkeys(looked))}: not there")
    if source == "tfds" and task.name not in tfds.PREPARED:
        parts.append("TFDS has no such set")
    ways = [collection.obtain] if source != "tfds" else []
    if source != "files" and task.name in tfds.PREPARED:
        ways.append(f"`relation-tf download {task.name}`, through TFDS")
    get = f". To get it: {' or '.join(ways)}" if ways else ""
    return f"task {task.name}: {'; '.join(parts)}{get}"


def _embedded(task: Task, collection: Collection) -> TaskSource:
    if task.name not in glue.GLUE:
        raise DataError(
            f"task {task.name}: the embedded set has {', '.join(glue.GLUE)} alone, all others need "
            "a folder of files. Received: source='miniglue'"
        )
    (layout,) = collection.layouts
    files = search(layout, task, miniglue_folder())
    assert files is not None  # it was just written
    return TaskSource(task, "miniglue", layout, files)


def _collection(name: str | CustomTask) -> Collection:
    if isinstance(name, CustomTask):
        return name.collection()
    if name in _COLLECTIONS:
        return _COLLECTIONS[name]
    by_lower = {known.lower(): known for known in TASK_NAMES}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1)
    hint = f" Did you mean {by_lower[near[0]]!r}?" if near else ""
    raise DataError(f"unknown task {name!r}: expected one of {', '.join(TASK_NAMES)}.{hint}")
