"""All tasks and sources by name. Does not import Keras."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import chain
from pathlib import Path

from relation_tf.errors import DataError
from relation_tf.files import environment_folder, expand_home
from relation_tf.registry import SOURCES, TASKS, register_source
from relation_tf.tasks import datasets, diagnostics, generated
from relation_tf.tasks.cache import made_once
from relation_tf.tasks.custom import CustomTask, TaskGroup
from relation_tf.tasks.sources import Folders, Missing, TaskSource, joined_source, search
from relation_tf.tasks.task import Dataset, MeasuredTask, Task, joined


class NotFoundError(DataError):
    """Error for a task without data in the searched locations."""


Entry = str | MeasuredTask | CustomTask | TaskGroup
"""Entry of a suite: a registered task, also with other metrics, a custom task, or a group."""

for _dataset in (*datasets.DATASETS, *generated.DATASETS, *diagnostics.DATASETS):
    TASKS.add(_dataset.task.name, _dataset, __name__)


def find_task(name: Entry) -> Task:
    """Return a registered task, a diagnostic task, a custom task, or a group of tasks as one task.

    Raises:
        UnknownNameError: If no task has this name.

    Example:
        >>> find_task("MR").scored
        {'MR': 'test'}
    """
    if isinstance(name, TaskGroup):
        return joined(name.name, [*map(find_task, name.tasks)])
    return _find_dataset(name).task


def _find_dataset(name: str | MeasuredTask | CustomTask) -> Dataset:
    if isinstance(name, CustomTask):
        return name.dataset()
    if isinstance(name, MeasuredTask):
        dataset = _find_dataset(name.name)
        return replace(dataset, task=replace(dataset.task, metrics=name.metrics))
    found: Dataset = TASKS.find(name)
    return found


def find_source(
    name: Entry,
    source: str = "auto",
    data: str | Path | None = None,
    tfds_folder: str | Path | None = None,
) -> TaskSource:
    """Find the data of a task.

    Args:
        name: A registered task, a custom task, or a group of tasks.
        source: A registered source: `"files"` (in `data`), `"datasets"` (saved by Hugging
            Face `datasets`), `"tfds"` (prepared by TensorFlow Datasets), `"auto"` (the
            first that has the task: files, saved datasets in `data`, TFDS) or `"miniglue"` (the
            built-in data, GLUE tasks only).
        data: Folder with the files.
        tfds_folder: TFDS folder; by default the default of TFDS.

    Returns:
        The source; its `kind` is always a registered name, or `"generated"`.

    Raises:
        NotFoundError: If the source does not have the task. The message lists the searched
            locations and how to get the data.
        UnknownNameError: If the task or source is unknown.
        DataError: If some files of a task exist and others are missing.

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
    declared = SOURCES.find(source)
    if declared.tasks and task.name not in declared.tasks:
        raise DataError(
            f"task {task.name}: source={source!r} only has {', '.join(declared.tasks)}. "
            "Other tasks need a folder of files: use source='files' or 'auto'"
        )
    prepared = (
        expand_home(tfds_folder)
        if tfds_folder
        else environment_folder("TFDS_DATA_DIR", "~/tensorflow_datasets")
    )
    found = declared.find(dataset, Folders(folder_of(data), prepared))
    if isinstance(found, TaskSource):
        # Runs record the kind; it must be a registered name to find the source again.
        return found if found.kind in SOURCES else replace(found, kind=source)
    reason = found or Missing(f"the source {source!r} does not have it")
    raise NotFoundError(f"task {task.name}: {reason}")


def folder_of(data: str | Path | None) -> Path | None:
    """Return the folder of `--data`.

    Raises:
        DataError: If it does not exist.
    """
    if data is None:
        return None
    folder = expand_home(data)
    if not os.path.isdir(folder):  # noqa: PTH112 - Path.is_dir raises for names that are too long
        raise DataError(f"{folder}: no such folder, or no permission to read it.")
    return folder


@register_source("auto")
def _find_anywhere(dataset: Dataset, folders: Folders) -> TaskSource | Missing:
    from relation_tf.tasks import hub, tfds

    if dataset.hub is not None:
        return hub.find(dataset, folders)
    name, finders = dataset.task.name, [_find_files]
    finders += [hub.find] if folders.data is not None and name in hub.HUB else []
    finders += [tfds.find] if name in tfds.PREPARED else []
    missing = []
    for find in finders:
        found = find(dataset, folders)
        if isinstance(found, TaskSource):
            return found
        missing.append(found)
    files, searched = missing[0], tuple(chain.from_iterable(each.searched for each in missing))
    prepared = f", or {missing[-1].obtain}" if name in tfds.PREPARED else ""
    return Missing(files.reason, searched, f"{files.obtain}{prepared}")


@register_source("files", reads=["data"])
def _find_files(dataset: Dataset, folders: Folders) -> TaskSource | Missing:
    if dataset.hub is not None:
        return Missing(f"{dataset.hub.path} is no file: use source = 'datasets' or 'auto'")
    places = [] if folders.data is None else [folders.data]
    found = search(dataset, "files", places + ([Path()] if dataset.in_current_folder else []))
    if isinstance(found, TaskSource) or folders.data is not None:
        return found
    wanted = " or ".join(place for layout in dataset.layouts for place in layout.places)
    return replace(found, reason=f"needs --data DIR, a folder that contains {wanted}")


@register_source("datasets", reads=["data"])
def _find_saved(dataset: Dataset, folders: Folders) -> TaskSource | Missing:
    if dataset.hub is None and dataset.in_current_folder:
        files = _find_files(dataset, folders)
        return replace(files, kind="datasets") if isinstance(files, TaskSource) else files
    from relation_tf.tasks import hub

    return hub.find(dataset, folders)


@register_source("tfds", reads=["tfds"])
def _find_prepared(dataset: Dataset, folders: Folders) -> TaskSource | Missing:
    from relation_tf.tasks import tfds

    return tfds.find(dataset, folders)


_GLUE = [dataset.task.name for dataset in datasets.DATASETS if dataset.task.answered]


@register_source("miniglue", reads=(), tasks=_GLUE, artificial=True)
def _find_embedded(dataset: Dataset, folders: Folders) -> TaskSource | Missing:
    from relation_tf.tasks import miniglue  # reports do not need its tables

    folder = made_once(f"miniglue-{miniglue.VERSION}", miniglue.write)
    return search(dataset, "miniglue", [folder])
