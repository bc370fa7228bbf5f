"""All tasks and sources by name. Free of Keras."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from relation_tf.errors import DataError
from relation_tf.registry import SOURCES, TASKS, register_source
from relation_tf.tasks import datasets, generated, tfds
from relation_tf.tasks.cache import miniglue_folder
from relation_tf.tasks.custom import CustomTask
from relation_tf.tasks.group import TaskGroup, joined_source
from relation_tf.tasks.sources import Folders, Missing, TaskSource, search
from relation_tf.tasks.task import Dataset, Task, TaskText, joined


class NotFoundError(DataError):
    """A task whose text is in none of the places that were searched."""


Entry = str | CustomTask | TaskGroup
"""An entry of a suite: a registered task, a task of its own, or several together."""

for _dataset in (*datasets.DATASETS, *generated.DATASETS):
    TASKS.add(_dataset.task.name, _dataset, __name__)


def find_task(name: Entry) -> Task:
    """Return a registered task, a suite's own one, or several as one.

    Raises:
        UnknownNameError: If no task of this name is registered.

    Example:
        >>> find_task("MR").scored
        {'MR': 'test'}
    """
    if isinstance(name, TaskGroup):
        return joined(name.name, [*map(find_task, name.tasks)])
    return _find_dataset(name).task


def _find_dataset(name: str | CustomTask) -> Dataset:
    if isinstance(name, CustomTask):
        return name.dataset()
    dataset: Dataset = TASKS.find(name)
    return dataset


def find_source(
    name: Entry,
    source: str = "auto",
    data: str | Path | None = None,
    tfds_folder: str | Path | None = None,
) -> TaskSource:
    """Find the text of a task.

    Args:
        name: A registered task, a suite's own task, or a group of tasks.
        source: A registered source: `"files"` below `data`, `"tfds"` for what TFDS has prepared,
            `"auto"` for the first of these two that has the task, `"miniglue"` for the embedded
            set, which has GLUE's tasks only.
        data: The folder below which files are looked for.
        tfds_folder: The folder of TFDS, by default the one that TFDS uses.

    Returns:
        The source; its `kind` is always a registered name, or `"generated"`.

    Raises:
        NotFoundError: If it has no such text; it says where it searched and how to get the data.
        UnknownNameError: For an unknown task or source.
        DataError: If a file is missing next to others.

    Example:
        >>> find_source("RTE", "miniglue").layout.name
        'TSV'
    """
    if isinstance(name, TaskGroup):
        each = [find_source(entry, source, data, tfds_folder) for entry in name.tasks]
        return joined_source(find_task(name), each)
    dataset = _find_dataset(name)
    task = dataset.task
    if task.generated:
        (layout,) = dataset.layouts
        return TaskSource(task, "generated", layout, {})
    found = SOURCES.find(source).find(
        dataset, Folders(folder_of(data), tfds.folder_of(tfds_folder))
    )
    if isinstance(found, TaskSource):
        # What a run records as its source must be a name that finds it again.
        return found if found.kind in SOURCES else replace(found, kind=source)
    reason = found or Missing(f"the source {source!r} does not have it")
    raise NotFoundError(f"task {task.name}: {reason}")


def folder_of(data: str | Path | None) -> Path | None:
    """Return the folder that `--data` names.

    Raises:
        DataError: If it does not exist.
    """
    if data is None:
        return None
    folder = Path(data).expanduser()
    if not os.path.isdir(folder):  # noqa: PTH112 - of a name that is too long Path.is_dir raises
        raise DataError(f"{folder}: expected a folder of data, there is none")
    return folder


def read_task(name: str, data: str | Path | None, skip_bad_lines: bool = False) -> TaskText:
    """Read a task from its files, see `find_source` and `TaskSource.read`."""
    return find_source(name, "files", data).read(skip_bad_lines)


@register_source("auto")
def _find_anywhere(dataset: Dataset, folders: Folders) -> TaskSource | Missing:
    files = _find_files(dataset, folders)
    if isinstance(files, TaskSource) or dataset.task.name not in tfds.PREPARED:
        return files
    prepared = tfds.find(dataset, folders)
    if isinstance(prepared, TaskSource):
        return prepared
    searched = (*files.searched, *prepared.searched)
    return Missing(files.reason, searched, f"{files.obtain} or {prepared.obtain}")


@register_source("files")
def _find_files(dataset: Dataset, folders: Folders) -> TaskSource | Missing:
    places = [] if folders.data is None else [folders.data]
    found = search(dataset, "files", places + ([Path()] if dataset.in_current_folder else []))
    if isinstance(found, TaskSource) or folders.data is not None:
        return found
    wanted = " or ".join(place for layout in dataset.layouts for place in layout.places)
    return replace(found, reason=f"expected --data DIR, a folder with {wanted}: none was given")


register_source("tfds", reads_data=False)(tfds.find)


@register_source("miniglue", reads_data=False)
def _find_embedded(dataset: Dataset, folders: Folders) -> TaskSource | Missing:
    if dataset.task.name not in datasets.GLUE:
        raise DataError(
            f"task {dataset.task.name}: the embedded set has {', '.join(datasets.GLUE)} alone, all "
            "others need a folder of files. Received: source='miniglue'"
        )
    return search(dataset, "miniglue", [miniglue_folder()])
