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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from relation_tf.errors import DataError, require_package
from relation_tf.files import environment_folder, expand_home
from relation_tf.tasks.datasets import TEXTS
from relation_tf.tasks.hub import HUB
from relation_tf.tasks.sources import Folders, Missing, TaskSource
from relation_tf.tasks.tables import as_data_error, readable
from relation_tf.tasks.task import Dataset, FileLayout, HubDataset, Task, TaskText, TextSplit

_ROWS_AT_ONCE = 4096
# TensorFlow's default, in bytes: it logs a message about the other default of TFDS.
_BUFFER_SIZE = 262_144
_SECONDS_TO_ANSWER = 10.0
_LABEL = "label"  # feature of every dataset


@dataclass(frozen=True)
class Prepared:
    """Mapping of a task to a TFDS dataset.

    Attributes:
        name: TFDS dataset: builder, and after a slash its configuration.
        version: Version that is downloaded and read.
        splits: TFDS name of each split.
        features: Features with the texts, in the order of the inputs of the task.
        labels: Label word of each TFDS class; empty for regression.
        index: Feature with the row number, or None.
        text: Function that builds the text from the features; None if the features are the inputs.
        apart: TFDS datasets of splits that are in another dataset with the same features.
    """

    name: str
    version: str
    splits: Mapping[str, str]
    features: Sequence[str]
    labels: Mapping[str, str]
    index: str | None = None
    text: Callable[..., str] | None = None
    apart: Mapping[str, str] = field(default_factory=dict)

    @property
    def sets(self) -> list[str]:
        """TFDS datasets of all splits."""
        return [self.name, *self.apart.values()]

    def set_of(self, split: str) -> str:
        """Return the TFDS dataset of a split."""
        return self.apart.get(split, self.name)


def _prepared() -> Iterator[tuple[str, Prepared]]:
    yield from ((name, _of_glue(hub)) for name, hub in HUB.items())
    path = resources.files("relation_tf.tasks") / "tfds.toml"
    for name, fields in tomllib.loads(path.read_text("utf-8")).items():
        text = TEXTS[fields.pop("text")] if "text" in fields else None
        yield name, Prepared(text=text, **fields)


def _of_glue(hub: HubDataset) -> Prepared:
    return Prepared(
        name=f"glue/{hub.config}",
        version="2.0.0",
        splits=hub.splits,
        features=hub.inputs,
        labels=hub.labels,
        index=hub.index,
        apart={split: f"glue/{config}" for split, config in hub.apart.items()},
    )


PREPARED: dict[str, Prepared] = dict(_prepared())
"""Tasks that are available in TFDS."""


def folder_of(folder: str | Path | None) -> Path:
    """Return the TFDS folder: the given one, `TFDS_DATA_DIR`, or the default of TFDS."""
    if folder:
        return expand_home(folder)
    return environment_folder("TFDS_DATA_DIR", "~/tensorflow_datasets")


def _check_installed() -> None:
    require_package("TFDS", "tensorflow_datasets", "tensorflow")


def find(dataset: Dataset, folders: Folders) -> TaskSource | Missing:
    """Find a prepared task, for `relation_tf.registry.SOURCES`."""
    task = dataset.task
    if task.name not in PREPARED:
        return Missing("not available in TFDS")
    folder = folders.tfds / PREPARED[task.name].name
    with readable(folder):
        if not folder.exists():
            build = f"run `tfds build {' '.join(PREPARED[task.name].sets)}`"
            return Missing("", (str(folder),), build)
        return TaskSource(task, "tfds", LAYOUT, _files(task, folders.tfds))


def _files(task: Task, root: Path) -> dict[str, Path]:
    """Return the prepared folder of each split; answered splits can be missing."""
    prepared = PREPARED[task.name]
    files: dict[str, Path] = {}
    for split, name in prepared.splits.items():
        answered = split in task.answered.values()
        set_folder = root / prepared.set_of(split)
        if answered and not set_folder.exists():
            continue
        path = set_folder / prepared.version
        found = _splits_of(path)
        if name in found:
            files[split] = path
        elif not answered:
            raise DataError(f"{path}: expected a split {name!r}, found {', '.join(found)}")
    return files


def _splits_of(folder: Path) -> list[str]:
    """Return the TFDS names of the splits of a prepared dataset."""
    if not folder.exists():
        found = sorted(path.name for path in folder.parent.iterdir() if path.is_dir())
        raise DataError(
            f"{folder.parent}: expected version {folder.name}, found {', '.join(found) or 'none'}"
        )
    path = folder / "dataset_info.json"
    if not path.exists():
        raise DataError(
            f"{folder}: expected a prepared dataset, but {path.name} is missing; delete the folder "
            "and run `tfds build` again"
        )
    with as_data_error(f"{path}: expected a file written by TFDS"):
        info = json.loads(path.read_text(encoding="utf-8"))
        return [split["name"] for split in info["splits"]]


def _read(task: Task, files: Mapping[str, Path], skip_bad_lines: bool) -> TaskText:
    """Read a prepared task. TFDS has already skipped malformed lines."""
    _check_installed()
    prepared = PREPARED[task.name]
    splits = {split: _split(task, prepared, split, folder) for split, folder in files.items()}
    return TaskText(task, splits)


LAYOUT = FileLayout("TFDS", _read)


def _split(task: Task, prepared: Prepared, split: str, folder: Path) -> TextSplit:
    where = f"split {prepared.splits[split]} of {prepared.set_of(split)}"
    with as_data_error(f"{folder}: TFDS cannot read {where}"):
        columns, names = _columns(prepared, prepared.splits[split], folder)
    answered = split in task.answered.values()
    if prepared.index is not None:
        numbers = columns[prepared.index]
        order = np.argsort(numbers, kind="stable")
        wrong = np.flatnonzero(numbers[order] != np.arange(len(numbers)))
        # Predictions are numbered: the numbers must be 0, 1, 2, ... without gaps.
        if answered and len(wrong):
            found = numbers[order][wrong[0]]
            raise DataError(
                f"{folder}: {where}: expected {prepared.index} {wrong[0]}, found {found}"
            )
        columns = {name: column[order] for name, column in columns.items()}
    with as_data_error(f"{folder}: {where}: expected UTF-8"):
        texts = tuple([text.decode() for text in columns[name]] for name in prepared.features)
    if prepared.text is not None:
        texts = (list(map(prepared.text, *texts)),)
    values = columns[_LABEL]
    labels = None if answered else _labels(f"{folder}: {where}", task, prepared, values, names)
    return TextSplit(texts, labels, np.arange(len(texts[0])))


def _columns(
    prepared: Prepared, split: str, folder: Path
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Return the features of all rows, in the order of the folder, and the TFDS classes."""
    import tensorflow_datasets as tfds

    wanted = [*prepared.features, _LABEL, *([prepared.index] if prepared.index else [])]
    builder = tfds.builder_from_directory(folder)
    features = builder.info.features
    for name in wanted:
        if name not in features:
            found = ", ".join(map(repr, sorted(features)))
            raise DataError(f"{folder}: expected a feature {name!r}, found {found}")
    reading = tfds.ReadConfig(
        interleave_cycle_length=1,  # read the files in order
        try_autocache=False,  # rows are read once
        override_buffer_size=_BUFFER_SIZE,
    )
    rows = builder.as_dataset(split=split, batch_size=_ROWS_AT_ONCE, read_config=reading)
    batches: list[dict[str, Any]] = list(tfds.as_numpy(rows))
    if not batches:
        raise DataError(f"{folder}: expected rows of split {split}, found none")
    names = features[_LABEL].names if prepared.labels else []
    return {name: np.concatenate([rows[name] for rows in batches]) for name in wanted}, names


def _labels(
    where: str, task: Task, prepared: Prepared, values: np.ndarray, names: list[str]
) -> np.ndarray:
    """Convert values and class names of TFDS to labels as in `TextSplit`."""
    words = prepared.labels
    if set(names) != set(words):
        raise DataError(f"{where}: expected labels {', '.join(words)}, found {', '.join(names)}")
    largest = task.maximum if task.labels is None else len(names) - 1
    wrong = values[~((values >= 0) & (values <= largest))]
    if len(wrong):
        kind = "scores in [0, {:g}]" if task.labels is None else "labels from 0 to {}"
        raise DataError(f"{where}: expected {kind.format(largest)}, found {wrong[0]:g}")
    if task.labels is None:
        return values.astype(np.float32) / np.float32(task.maximum)
    return np.array([task.labels.index(words[name]) for name in names], np.int32)[values]
