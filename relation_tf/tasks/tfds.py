"""Tasks from TensorFlow Datasets (TFDS). TensorFlow is imported only to read a task.

A dataset is read from its prepared folder, `<folder>/<set>/<version>`, never from the network. The
command `tfds build` of TFDS downloads and prepares a dataset.

TFDS changes the order of rows. GLUE rows have a number (`idx`) and are restored to the order of the
GLUE files, so tasks from TFDS and from files have identical rows. Rows of IMDb and AG News
have no number and keep the order of the prepared folder, which differs from the order of the files.
A validation share of the training rows therefore contains different rows.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from relation_tf.errors import DataError, join_names, require_package
from relation_tf.tasks.datasets import TEXTS
from relation_tf.tasks.hub import HUB, columns_of, stored_answered_rows, stored_rows
from relation_tf.tasks.sources import Folders, Missing, TaskSource
from relation_tf.tasks.tables import Table, readable
from relation_tf.tasks.task import Dataset, FileLayout, HubDataset, Task, TaskText

_ROWS_AT_ONCE = 4096
# TensorFlow's default, in bytes: it logs a message about the other default of TFDS.
_BUFFER_SIZE = 262_144


@dataclass(frozen=True)
class Prepared(HubDataset):
    """A task as TFDS names it: builder, configurations, features, classes.

    Attributes:
        version: Version that is read.
        text: Name of the function in `TEXTS` that builds the text from the features; empty if the
            features are the inputs.
    """

    version: str = "2.0.0"
    text: str = ""

    def set_of(self, split: str = "train") -> str:
        """Return the TFDS dataset of a split: builder, and after a slash its configuration."""
        return "/".join(filter(None, [self.path, self.apart.get(split, self.config)]))


_DECLARED = (resources.files("relation_tf.tasks") / "tfds.toml").read_text("utf-8")

PREPARED: dict[str, Prepared] = {
    **{name: Prepared(**{**vars(hub), "path": "glue"}) for name, hub in HUB.items()},
    **{name: Prepared(**fields) for name, fields in tomllib.loads(_DECLARED).items()},
}
"""Tasks that are available in TFDS."""


def find(dataset: Dataset, folders: Folders) -> TaskSource | Missing:
    """Find a prepared task, for `relation_tf.registry.SOURCES`."""
    task = dataset.task
    if task.name not in PREPARED:
        return Missing("not available in TFDS")
    prepared = PREPARED[task.name]
    folder = folders.tfds / prepared.set_of()
    with readable(folder):
        if not folder.exists():
            sets = dict.fromkeys(map(prepared.set_of, ("train", *prepared.apart)))
            return Missing("", (str(folder),), f"run `tfds build {' '.join(sets)}`")

        files = {}
        for split in prepared.splits:
            path = folders.tfds / prepared.set_of(split) / prepared.version
            if path.exists():
                if _is_listed(path, prepared.splits[split], split in task.answered.values()):
                    files[split] = path
            elif path.parent.exists() or split not in task.answered.values():
                versions = sorted(each.name for each in path.parent.iterdir() if each.is_dir())
                found = ", ".join(versions) or "none"
                raise DataError(f"{path.parent}: expected version {path.name}, found {found}")
        return TaskSource(task, "tfds", LAYOUT, files)


def _is_listed(folder: Path, name: str, optional: bool) -> bool:
    """Return whether a prepared dataset has a split.

    Raises:
        DataError: If a split that is not optional is missing, or the dataset is incomplete.
    """
    path = folder / "dataset_info.json"
    if not path.exists():
        raise DataError(
            f"{folder}: expected a prepared dataset, but {path.name} is missing; delete the folder "
            "and run `tfds build` again"
        )
    with readable(path, "expected a file written by TFDS", Exception):
        names = [split["name"] for split in json.loads(path.read_text(encoding="utf-8"))["splits"]]
    if name not in names and not optional:
        found = join_names([*map(repr, names)])
        raise DataError(f"{folder}: expected a split {name!r}, found {found}")
    return name in names


def _read(task: Task, files: Mapping[str, Path]) -> TaskText:
    """Read a prepared task."""
    require_package("TFDS", "tensorflow_datasets", "tensorflow")
    prepared, splits = PREPARED[task.name], {}
    for split, folder in files.items():
        table, named = _table(prepared, split, folder), prepared
        if prepared.text:
            (name,) = task.inputs
            texts = [*map(TEXTS[prepared.text], *map(table.column, prepared.inputs))]
            table = replace(table, columns={**table.columns, name: texts})
            named = replace(prepared, inputs=[name])
        if split in task.answered.values():
            splits[split] = stored_answered_rows(named, table)
        else:
            splits[split] = stored_rows(named, task, table, first=0)
    return TaskText(task, splits)


LAYOUT = FileLayout("TFDS", _read)


def _table(prepared: Prepared, split: str, folder: Path) -> Table:
    """Return the features of all rows as text, in the order of the folder."""
    import tensorflow_datasets as tfds

    name = prepared.splits[split]
    with readable(folder, f"TFDS cannot read split {name} of {prepared.set_of(split)}", Exception):
        builder = tfds.builder_from_directory(folder)
        reading = tfds.ReadConfig(
            interleave_cycle_length=1,  # read the files in order
            try_autocache=False,  # rows are read once
            override_buffer_size=_BUFFER_SIZE,
        )
        rows = builder.as_dataset(split=name, batch_size=_ROWS_AT_ONCE, read_config=reading)
        batches: list[dict[str, Any]] = list(tfds.as_numpy(rows))
        columns = {
            column: [
                value.decode() if isinstance(value, bytes) else str(value)
                for batch in batches
                for value in batch[column].tolist()
            ]
            for column in columns_of(prepared)
        }
    return Table.without_lines(folder / name, columns)
