"""Tasks from datasets of the Hugging Face Hub, saved below `--data`. Nothing is downloaded.

In this order these places are searched, for `"nyu-mll/glue"` and `"cola"`: `nyu-mll/glue/cola`,
`glue/cola` and `cola`, as `DatasetDict.save_to_disk` writes it or with a Parquet file per split:
`train.parquet` (also in shards, as on the Hub).

Rows of GLUE are in the order of their number (`idx`), which is that of GLUE's files, so all formats
and the TSV files give identical rows and the same digests of rows.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from importlib import resources
from pathlib import Path

import numpy as np

from glue_submit.tables import INDEX
from relation_tf.errors import DataError, join_names, quote
from relation_tf.tasks.readers import (
    answered_rows,
    labelled_rows,
    numbered,
    split_reader,
)
from relation_tf.tasks.sources import Folders, Missing, TaskSource
from relation_tf.tasks.tables import SHARD, STATE, Table, read_table, readable
from relation_tf.tasks.task import Dataset, FileLayout, HubDataset, Task, TextSplit

_GLUE = {"path": "nyu-mll/glue", "index": "idx"}
_SPLITS = {"train": "train", "dev": "validation", "test": "test"}

_DECLARED = (resources.files("relation_tf.tasks") / "hub.toml").read_text("utf-8")

HUB: dict[str, HubDataset] = {
    name: HubDataset(**{**_GLUE, "splits": _SPLITS, **fields})
    for name, fields in tomllib.loads(_DECLARED).items()
}
"""Tasks that are in a dataset of the Hub."""


def find(dataset: Dataset, folders: Folders) -> TaskSource | Missing:
    """Find a saved task.

    Args:
        dataset: The task; its `hub`, or one of `HUB`.
        folders: The folder of `--data`.

    Raises:
        DataError: If a folder of the dataset lacks a split, or has it twice.
    """
    task = dataset.task
    hub = dataset.hub or HUB.get(task.name)
    if hub is None:
        return Missing("no Hugging Face dataset is known. Declare it as [[task]] with the key hub")
    places = _places(hub, hub.config, folders.data)
    for folder in places:
        if found := _splits_in(folder):
            break
    else:
        obtain = (
            f"run `hf download {hub.path} --repo-type dataset --local-dir DIR/{hub.path}`, or "
            "write it there with save_to_disk, or as one file per split (train.parquet), and use "
            "--data DIR"
        )
        return Missing("" if places else "needs --data DIR", tuple(map(str, places)), obtain)

    def splits_of(split: str) -> tuple[Path, Mapping[str, Path]]:
        if split not in hub.apart:
            return folder, found
        others = _places(hub, hub.apart[split], folders.data)
        return folder, next(filter(None, map(_splits_in, others)), {})

    read = split_reader(
        partial(_labelled_rows, hub),
        answered=lambda _, path: stored_answered_rows(
            hub, read_table(path, [*hub.inputs, str(hub.index)])
        ),
    )
    layout = FileLayout("Hugging Face", read, by_rows=True)
    return TaskSource(task, "datasets", layout, find_splits(hub, task, splits_of))


def _places(hub: HubDataset, config: str | None, data: Path | None) -> list[Path]:
    """Return the folders that can have the splits of a configuration."""
    if data is None:
        return []
    below = [config] if config is not None else ["", "data"]
    names = dict.fromkeys([hub.path, hub.path.rpartition("/")[2]])
    return [data / name / each for name in names for each in below] + (
        [data / config] if config is not None else []
    )


def _splits_in(folder: Path) -> dict[str, Path]:
    """Return the first file, or the folder, of each split in a folder.

    Raises:
        DataError: If it has a split in two formats.
    """
    found: dict[str, Path] = {}
    with readable(folder):
        for path in sorted(folder.iterdir()) if folder.is_dir() else []:
            shard = SHARD.search(path.stem)
            if (path / STATE).is_file():
                split = path.name
            elif path.suffix != ".parquet":
                continue
            else:
                split = path.stem[: shard.start() if shard else None]
                if shard is not None and shard[1] != "00000" and split in found:
                    continue
            if split in found:
                raise DataError(
                    f"{folder}: split {split!r} must be stored once, found {found[split].name} and "
                    f"{path.name}"
                )
            found[split] = path
    return found


def find_splits(
    hub: HubDataset, task: Task, splits_of: Callable[[str], tuple[Path, Mapping[str, Path]]]
) -> dict[str, Path]:
    """Return the file or folder of each split; answered splits can be missing.

    Args:
        hub: Names of the splits.
        task: The task.
        splits_of: Function of a split that returns the folder that should have it, and what the
            folder has, by name.

    Raises:
        DataError: If a split is missing.
    """
    files: dict[str, Path] = {}
    for split, name in hub.splits.items():
        folder, found = splits_of(split)
        if name in found:
            files[split] = found[name]
        elif split not in task.answered.values():
            names = join_names([*map(repr, found)])
            raise DataError(f"{folder}: expected a split {quote(name)}, found {names}")
    return files


def columns_of(hub: HubDataset) -> list[str]:
    """Return the columns of a labelled split."""
    return [hub.label, *hub.inputs, *([] if hub.index is None else [hub.index])]


def _labelled_rows(hub: HubDataset, task: Task, path: Path) -> TextSplit:
    words = tuple(hub.labels) or task.labels or ()
    table = read_table(path, columns_of(hub), words)
    if hub.labels:
        # Parquet without metadata has the numbers of the classes.
        names = {str(number): name for number, name in enumerate(hub.labels)}
        values = [names.get(word, word) for word in table.column(hub.label)]
        table = replace(table, columns={**table.columns, hub.label: values})
    return stored_rows(hub, task, table)


def stored_rows(hub: HubDataset, task: Task, table: Table, first: int = 1) -> TextSplit:
    """Convert a table to labelled rows of a task, in the order of their number.

    Args:
        hub: Names of the columns and classes.
        task: The task.
        table: The table, with class names as labels.
        first: Number of the first row, if the table has no numbers.
    """
    words = tuple(hub.labels) or task.labels
    named = replace(task, inputs=tuple(hub.inputs), label=hub.label, labels=words)
    if hub.index is not None:
        table, first = _ordered(table, hub.index), 0
    rows = numbered(labelled_rows(named, table), first)
    if not hub.labels or task.labels is None or rows.labels is None:
        return rows
    order = [task.labels.index(word) for word in hub.labels.values()]
    return replace(rows, labels=np.array(order, np.int32)[rows.labels])


def stored_answered_rows(hub: HubDataset, table: Table) -> TextSplit:
    """Convert a table to rows without labels, in the order of their number."""
    index = str(hub.index)
    return answered_rows(_ordered(table, index), index, hub.inputs)


def _ordered(table: Table, index: str) -> Table:
    """Return the records of a table in the order of their number."""
    words = table.column(index)
    for row, word in enumerate(words):
        if not INDEX.fullmatch(word):
            raise DataError(
                f"{table.place(row)}: column {quote(index)}: expected a row number, found "
                f"{quote(word)}"
            )
    order = np.argsort([int(word) for word in words], kind="stable").tolist()
    columns = {name: [column[row] for row in order] for name, column in table.columns.items()}
    return replace(table, columns=columns, lines=[table.lines[row] for row in order])
