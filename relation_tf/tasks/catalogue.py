"""All tasks by name: what they are, where their files lie, and their text. Free of Keras."""

from __future__ import annotations

import difflib
from pathlib import Path

from relation_tf.tasks import ag_news, glue, imdb, reviews, sentences, tweets, yelp
from relation_tf.tasks.task import Collection, Task, TaskText
from relation_tf.tasks.tsv import DataError

_COLLECTIONS: dict[str, Collection] = {
    name: module.COLLECTION
    for module in (glue, sentences, reviews, imdb, ag_news, yelp, tweets)
    for name in module.COLLECTION.tasks
}

TASK_NAMES: tuple[str, ...] = tuple(_COLLECTIONS)


def find_task(name: str) -> Task:
    """Look up a task.

    Raises:
        DataError: Where there is none of this name.

    Example:
        >>> find_task("MR").scored
        {'MR': 'test'}
    """
    return _collection(name).tasks[name]


def task_files(name: str, data: Path | None) -> dict[str, Path]:
    """The file of each split of a task; splits that are cut from one file share it.

    Args:
        name: One of `TASK_NAMES`.
        data: The folder below which files are looked for.

    Raises:
        DataError: For an unknown task, and where a file is not there.
    """
    collection = _collection(name)
    files = collection.find(collection.tasks[name], data)
    for path in files.values():
        if not path.exists():
            raise DataError(f"{path}: expected the file of task {name}, it is not there")
    return files


def read_task(name: str, data: Path | None, skip_bad_lines: bool = False) -> TaskText:
    """Read a task from its files.

    Args:
        name: One of `TASK_NAMES`.
        data: The folder below which files are looked for.
        skip_bad_lines: Leave out malformed lines of training files and count them. Lines that are
            scored or answered are never left out.

    Raises:
        DataError: For an unknown task, files that are not there, and malformed lines: one message
            with file and line.
    """
    files = task_files(name, data)
    collection = _collection(name)
    return collection.read(collection.tasks[name], files, skip_bad_lines)


def _collection(name: str) -> Collection:
    if name in _COLLECTIONS:
        return _COLLECTIONS[name]
    by_lower = {known.lower(): known for known in TASK_NAMES}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1)
    hint = f" Did you mean {by_lower[near[0]]!r}?" if near else ""
    raise DataError(f"unknown task {name!r}: expected one of {', '.join(TASK_NAMES)}.{hint}")
