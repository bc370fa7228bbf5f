"""Tasks as TensorFlow Datasets has prepared them. Free of TensorFlow until one is read.

A set is read from the folder that TFDS has prepared it in, `<folder>/<set>/<version>`, and never
from the network; `download` has TFDS prepare one.

TFDS writes rows in an order of its own. GLUE's rows carry their number (`idx`) and are put back in
the order of GLUE's files, so that a task from TFDS is the same, row by row, as one from the files.
Those of IMDb, AG News and TREC carry none: they keep the order of the prepared folder, which is
the same at each reading and another than that of the files. So which of their training rows stop
the training differs between the two.

In one training row of TREC a byte that is no UTF-8 (between "sister" and "city") is a space here.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from relation_tf.errors import DataError, did_you_mean
from relation_tf.tasks.datasets import TEXTS
from relation_tf.tasks.sources import Folders, Missing, TaskSource
from relation_tf.tasks.task import Dataset, FileLayout, Task, TaskText, TextSplit

_ROWS_AT_ONCE = 4096
# TensorFlow's own, in bytes; of TFDS's, which is another, it would tell the terminal.
_BUFFER_SIZE = 262_144
_SECONDS_TO_ANSWER = 10.0


@dataclass(frozen=True)
class Prepared:
    """A task as TFDS names it.

    Attributes:
        name: The set: a builder, and after a slash its configuration.
        version: The version that is downloaded and read.
        splits: TFDS's name of each of our splits.
        features: The features of a row that its texts are made of, in the order of the task's
            inputs.
        labels: Our label word for each class that TFDS names; empty for scores.
        label: The feature that holds the label.
        index: The feature that holds the number of the row, None where there is none.
        text: What makes the one text of a row of its features; None where they are the inputs.
        spaced: As in `TaskText`.
        apart: The sets of splits that TFDS keeps as a set of their own, of the same features.
    """

    name: str
    version: str
    splits: Mapping[str, str]
    features: Sequence[str]
    labels: Mapping[str, str]
    label: str = "label"
    index: str | None = None
    text: Callable[..., str] | None = None
    spaced: bool = False
    apart: Mapping[str, str] = field(default_factory=dict)

    def set_of(self, split: str) -> str:
        """The set that holds one of our splits."""
        return self.apart.get(split, self.name)


def _prepared() -> Iterator[tuple[str, Prepared]]:
    path = resources.files("relation_tf.tasks") / "tfds.toml"
    for name, fields in tomllib.loads(path.read_text("utf-8")).items():
        text = TEXTS[fields.pop("text")] if "text" in fields else None
        yield name, Prepared(text=text, **fields)


PREPARED: dict[str, Prepared] = dict(_prepared())
"""The tasks that TFDS has."""


def folder_of(folder: str | Path | None) -> Path:
    """The folder of TFDS: the one named, or `TFDS_DATA_DIR`, or its own default."""
    default = os.environ.get("TFDS_DATA_DIR", "~/tensorflow_datasets")
    return Path(folder or default).expanduser()


def download(name: str, folder: Path | None = None) -> Path:
    """Have TFDS download a task and prepare it; what is prepared already is left as it is.

    Args:
        name: The task, one of `PREPARED`.
        folder: The folder of TFDS, by default the one that TFDS uses.

    Returns:
        The prepared folder.

    Raises:
        DataError: Where TFDS has no such set, does not get it, or has left it half prepared.
    """
    if name not in PREPARED:
        raise DataError(
            f"task {name}: not in TFDS, which has {', '.join(PREPARED)}."
            f"{did_you_mean(name, PREPARED)}"
        )
    prepared, root = PREPARED[name], folder_of(folder)
    for set_name in (prepared.name, *prepared.apart.values()):
        path = root / set_name / prepared.version
        if path.exists():
            _splits_of(path)
            continue
        failed = f"task {name}: TFDS could not download {set_name} {prepared.version} into {root}"
        with _one_line(failed):
            _download(set_name, prepared.version, root)
    return root / prepared.name / prepared.version


def _download(set_name: str, version: str, root: Path) -> None:
    import tensorflow_datasets as tfds

    builder = tfds.builder(f"{set_name}:{version}", data_dir=root)
    _ask(builder.url_infos)
    # TFDS announces the download on standard output.
    with contextlib.redirect_stdout(sys.stderr):
        builder.download_and_prepare()


def _ask(urls: Collection[str]) -> None:
    """Raise where no host of a set answers.

    Without a network TFDS would try each address eleven times with growing pauses, minutes in all,
    and wait without a limit for a host that is silent.
    """
    import requests

    hosts = {urlsplit(url).netloc: url for url in urls}
    for url in hosts.values():
        with contextlib.suppress(requests.RequestException):
            requests.head(url, timeout=_SECONDS_TO_ANSWER)
            return
    raise ConnectionError(f"no answer from {', '.join(hosts)}")


def find(dataset: Dataset, folders: Folders) -> TaskSource | Missing:
    """Find a prepared task, for `relation_tf.registry.SOURCES`."""
    task = dataset.task
    if task.name not in PREPARED:
        return Missing("TFDS has no such set")
    folder = folders.tfds / PREPARED[task.name].name
    if not folder.exists():
        download = f"`relation-tf download {task.name}`, through TFDS"
        return Missing("", (str(folder),), download)
    return TaskSource(task, "tfds", LAYOUT, _files(task, folders.tfds))


def _files(task: Task, root: Path) -> dict[str, Path]:
    """Return the prepared folder of each split; answered splits only where they are there."""
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
    """The splits of a prepared set as TFDS names them."""
    if not folder.exists():
        found = sorted(path.name for path in folder.parent.iterdir() if path.is_dir())
        raise DataError(
            f"{folder.parent}: expected version {folder.name}, found {', '.join(found) or 'none'}"
        )
    path = folder / "dataset_info.json"
    if not path.exists():
        raise DataError(
            f"{folder}: expected a prepared set, {path.name} is not there; remove the folder and "
            "have it prepared again"
        )
    with _one_line(f"{path}: expected what TFDS writes of a set"):
        info = json.loads(path.read_text(encoding="utf-8"))
        return [split["name"] for split in info["splits"]]


def _read(task: Task, files: Mapping[str, Path], skip_bad_lines: bool) -> TaskText:
    """TFDS has left out malformed lines itself, so there are none to skip."""
    prepared = PREPARED[task.name]
    splits = {split: _split(task, prepared, split, folder) for split, folder in files.items()}
    return TaskText(task, splits, spaced=prepared.spaced)


LAYOUT = FileLayout("TFDS", _read)


def _split(task: Task, prepared: Prepared, split: str, folder: Path) -> TextSplit:
    where = f"split {prepared.splits[split]} of {prepared.set_of(split)}"
    with _one_line(f"{folder}: TFDS cannot read {where}"):
        columns, names = _columns(prepared, prepared.splits[split], folder)
    answered = split in task.answered.values()
    if prepared.index is not None:
        numbers = columns[prepared.index]
        order = np.argsort(numbers, kind="stable")
        wrong = np.flatnonzero(numbers[order] != np.arange(len(numbers)))
        # Answers are given by number: from 0 on, none twice and none left out.
        if answered and len(wrong):
            found = numbers[order][wrong[0]]
            raise DataError(
                f"{folder}: {where}: expected {prepared.index} {wrong[0]}, found {found}"
            )
        columns = {name: column[order] for name, column in columns.items()}
    with _one_line(f"{folder}: {where}: expected UTF-8"):
        texts = tuple([text.decode() for text in columns[name]] for name in prepared.features)
    if prepared.text is not None:
        texts = (list(map(prepared.text, *texts)),)
    values = columns[prepared.label]
    labels = None if answered else _labels(f"{folder}: {where}", task, prepared, values, names)
    return TextSplit(texts, labels, np.arange(len(texts[0])))


def _columns(
    prepared: Prepared, split: str, folder: Path
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Return the features of all rows, in the order of the folder, and TFDS's classes."""
    import tensorflow_datasets as tfds

    wanted = [*prepared.features, prepared.label, *([prepared.index] if prepared.index else [])]
    builder = tfds.builder_from_directory(folder)
    features = builder.info.features
    for name in wanted:
        if name not in features:
            found = ", ".join(map(repr, sorted(features)))
            raise DataError(f"{folder}: expected a feature {name!r}, found {found}")
    reading = tfds.ReadConfig(
        interleave_cycle_length=1,  # one file after the other
        try_autocache=False,  # they are read once
        override_buffer_size=_BUFFER_SIZE,
    )
    rows = builder.as_dataset(split=split, batch_size=_ROWS_AT_ONCE, read_config=reading)
    batches: list[dict[str, Any]] = list(tfds.as_numpy(rows))
    if not batches:
        raise DataError(f"{folder}: expected rows of split {split}, found none")
    names = features[prepared.label].names if prepared.labels else []
    return {name: np.concatenate([rows[name] for rows in batches]) for name in wanted}, names


def _labels(
    where: str, task: Task, prepared: Prepared, values: np.ndarray, names: list[str]
) -> np.ndarray:
    """Return labels as in `TextSplit`, from the values and the names of classes that TFDS has."""
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


@contextlib.contextmanager
def _one_line(failed: str) -> Iterator[None]:
    """Say in one line what failed; TFDS and TensorFlow raise errors of every kind."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise DataError(f"{failed}: {reason}") from error
