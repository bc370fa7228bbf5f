"""Tasks from datasets of the Hugging Face Hub, saved below `--data`. Nothing is downloaded.

In this order these places are searched, for `"nyu-mll/glue"` and `"cola"`: `nyu-mll/glue/cola`,
`glue/cola` and `cola`, as `DatasetDict.save_to_disk` writes it or with a Parquet file per split:
`train.parquet` (also in shards, as on the Hub).

Rows of GLUE are in the order of their number (`idx`), which is that of GLUE's files, so all formats
and the TSV files give identical rows and the same digests of rows.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from importlib import resources
from pathlib import Path

import numpy as np

from glue_submit.tables import INDEX
from relation_tf.errors import DataError, join_names, quote
from relation_tf.tasks.datasets import answered_rows, labelled_rows, numbered, split_reader
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
    stored = _stored(places)
    if not stored:
        obtain = (
            f"run `hf download {hub.path} --repo-type dataset --local-dir DIR/{hub.path}`, or "
            "write it there with save_to_disk, or as one file per split (train.parquet), and use "
            "--data DIR"
        )
        return Missing("" if places else "needs --data DIR", tuple(map(str, places)), obtain)
    files: dict[str, Path] = {}
    for split, name in hub.splits.items():
        found = stored
        if split in hub.apart:
            found = _stored(_places(hub, hub.apart[split], folders.data))
        if name in found:
            files[split] = found[name]
        elif split not in task.answered.values():
            folder = next(iter(stored.values())).parent
            names = join_names([*map(repr, found)])
            raise DataError(f"{folder}: expected a split {quote(name)}, found {names}")

    read = split_reader(
        partial(_labelled_rows, hub),
        answered=lambda _, path: stored_answered_rows(
            hub, read_table(path, [*hub.inputs, str(hub.index)])
        ),
    )
    layout = FileLayout("Hugging Face", read, by_rows=True)
    return TaskSource(task, "datasets", layout, files)


def _places(hub: HubDataset, config: str | None, data: Path | None) -> list[Path]:
    """Return the folders that can have the splits of a configuration."""
    if data is None:
        return []
    below = [config] if config is not None else ["", "data"]
    names = dict.fromkeys([hub.path, hub.path.rpartition("/")[2]])
    return [data / name / each for name in names for each in below] + (
        [data / config] if config is not None else []
    )


def _stored(folders: Iterable[Path]) -> dict[str, Path]:
    """Return the first file, or the folder, of each split in the first folder that has any.

    Raises:
        DataError: If it has a split in two formats.
    """
    found: dict[str, Path] = {}
    for folder in folders:
        with readable(folder):
            for path in sorted(folder.iterdir()) if folder.is_dir() else []:
                shard = SHARD.search(path.stem)
                if (path / STATE).is_file():
                    split = path.name
                elif path.suffix == ".parquet":
                    split = path.stem[: shard.start() if shard else None]
                    if shard is not None and shard[1] != "00000" and split in found:
                        continue
                else:
                    continue
                if split in found:
                    raise DataError(
                        f"{folder}: split {split!r} must be stored once, found "
                        f"{found[split].name} and {path.name}"
                    )
                found[split] = path
        if found:
            break
    return found


def columns_of(hub: HubDataset) -> list[str]:
    """Return the columns of a labelled split."""
    return [hub.label, *hub.inputs, *([] if hub.index is None else [hub.index])]


def _labelled_rows(hub: HubDataset, task: Task, path: Path) -> TextSplit:
    return stored_rows(
        hub, task, read_table(path, columns_of(hub), [*hub.labels] or task.labels or ())
    )


def stored_rows(hub: HubDataset, task: Task, table: Table, first: int = 1) -> TextSplit:
    """Convert a table to labelled rows of a task, in the order of their number.

    Args:
        hub: Names of the columns and classes.
        task: The task.
        table: The table, with names or numbers of classes as labels.
        first: Number of the first row, if the table has no numbers.
    """
    if hub.index is not None:
        table, first = _ordered(table, hub.index), 0
    numbers = {str(number): word for number, word in enumerate(hub.labels.values())}
    words = {**numbers, **hub.labels}
    labels = [words.get(value, value) for value in table.column(hub.label)]
    table = replace(table, columns={**table.columns, hub.label: labels})
    named = replace(task, inputs=tuple(hub.inputs), label=hub.label)
    return numbered(labelled_rows(named, table), first)


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
