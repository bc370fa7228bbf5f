"""Tasks from datasets of the Hugging Face Hub: saved folders, files and local caches.

Nothing is downloaded. In this order these places are searched, for `"nyu-mll/glue"` and `"cola"`:

- In `--data`: `nyu-mll/glue/cola`, `glue/cola` and `cola`, as `DatasetDict.save_to_disk` writes it
  or with one file per split: `train.parquet` (also in shards, as on the Hub), `train.jsonl` or
  `train.csv`.
- The cache of `datasets.load_dataset`, `HF_DATASETS_CACHE`.
- The cache of `hf download --repo-type dataset`, `HF_HUB_CACHE`.

Rows of GLUE are in the order of their number (`idx`), which is that of GLUE's files, so all formats
and the TSV files give identical rows and the same digests of rows.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from importlib import resources
from pathlib import Path

import numpy as np

from glue_submit.tables import INDEX
from relation_tf.errors import DataError, join_names, quote
from relation_tf.files import environment_folder
from relation_tf.tasks.arrow import SHARD, STATE
from relation_tf.tasks.formats import read_table
from relation_tf.tasks.readers import (
    answered_rows,
    labelled_rows,
    named_column,
    numbered,
    split_reader,
)
from relation_tf.tasks.sources import Folders, Missing, TaskSource
from relation_tf.tasks.tables import Table, readable
from relation_tf.tasks.task import Dataset, FileLayout, HubDataset, Task, TextSplit

_GLUE = {"path": "nyu-mll/glue", "index": "idx"}
_SPLITS = {"train": "train", "dev": "validation", "test": "test"}
_SUFFIXES = (".parquet", ".arrow", ".jsonl", ".csv")


def _declared() -> Iterator[tuple[str, HubDataset]]:
    path = resources.files("relation_tf.tasks") / "hub.toml"
    for name, fields in tomllib.loads(path.read_text("utf-8")).items():
        yield name, HubDataset(**{**_GLUE, "splits": _SPLITS, **fields})


HUB: dict[str, HubDataset] = dict(_declared())
"""Tasks that are in a dataset of the Hub."""


def find(dataset: Dataset, folders: Folders, cached: bool = True) -> TaskSource | Missing:
    """Find a saved or cached task.

    Args:
        dataset: The task; its `hub`, or one of `HUB`.
        folders: The folder of `--data`.
        cached: If True, the caches of Hugging Face are searched, too.

    Raises:
        DataError: If a folder of the dataset lacks a split, or the configuration is ambiguous.
    """
    task = dataset.task
    hub = dataset.hub or HUB.get(task.name)
    if hub is None:
        return Missing("no Hugging Face dataset is known. Declare it as [[task]] with the key hub")
    places = []
    for folder in _places(hub, hub.config, folders.data, cached):
        places.append(folder)
        with readable(folder):
            found = _splits_in(folder)
        if found:
            apart = {
                split: [*_places(hub, config, folders.data, cached)]
                for split, config in hub.apart.items()
            }
            files = _files(hub, task, folder, found, apart)
            read = split_reader(partial(_labelled_rows, hub), answered=partial(_answered_rows, hub))
            layout = FileLayout("Hugging Face", read, by_rows=True)
            return TaskSource(task, "datasets", layout, files)
    obtain = (
        f"run `hf download {hub.path} --repo-type dataset`, or write it below --data with "
        "save_to_disk, or as one file per split (train.parquet, train.jsonl or train.csv)"
    )
    return Missing("", tuple(map(str, places)), obtain)


def _places(hub: HubDataset, config: str | None, data: Path | None, cached: bool) -> Iterator[Path]:
    """Yield the folders that can have the splits of a configuration."""
    below = [config] if config is not None else ["", "data"]
    if data is not None:
        for name in dict.fromkeys([hub.path, hub.path.rpartition("/")[2]]):
            yield from (data / name / each for each in below)
        yield from [data / config] if config is not None else []
    if cached:
        caches = environment_folder("XDG_CACHE_HOME", "~/.cache")
        home = environment_folder("HF_HOME", caches / "huggingface")
        yield _newest(environment_folder("HF_DATASETS_CACHE", home / "datasets"), hub, config)
        snapshot = _snapshot(environment_folder("HF_HUB_CACHE", home / "hub"), hub)
        yield from (snapshot / each for each in below)


def _newest(cache: Path, hub: HubDataset, config: str | None) -> Path:
    """Return the newest version of a configuration in the cache of `datasets`."""
    owner, _, name = hub.path.rpartition("/")
    # As `datasets` writes names: "AllenNLP/SciQ" is "AllenNLP___sci_q".
    name = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name)
    name = re.sub(r"([a-z\d])([A-Z])", r"\1_\2", name).lower()
    folder = cache / (f"{owner}___{name}" if owner else name)
    versions = [path.parent for path in folder.glob(f"{config or '*'}/*/*/dataset_info.json")]
    configs = sorted({path.parts[-3] for path in versions})
    if len(configs) > 1:
        raise DataError(
            f"{folder}: has several configurations, {join_names(configs)}. Name one: hub = "
            f"'{hub.path}/{configs[0]}'"
        )
    newest = max(versions, key=lambda path: path.stat().st_mtime, default=None)
    return newest or folder / (config or "")


def _snapshot(cache: Path, hub: HubDataset) -> Path:
    """Return the files of the main branch in the cache of the Hub."""
    folder = cache / f"datasets--{hub.path.replace('/', '--')}"
    main = folder / "refs" / "main"
    with readable(main):
        return folder / "snapshots" / main.read_text("utf-8").strip() if main.is_file() else folder


def _splits_in(folder: Path) -> dict[str, Path]:
    """Return the first file, or the folder, of each split in a folder.

    Raises:
        DataError: If it is the folder of one split, or has a split in two formats.
    """
    if (folder / STATE).is_file():
        raise DataError(
            f"{folder}: expected a folder for each split (DatasetDict.save_to_disk), found one "
            "split without a name"
        )
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        shard = SHARD.search(path.stem)
        if (path / STATE).is_file():
            split = path.name
        elif path.suffix not in _SUFFIXES or path.name.startswith("cache-"):
            continue  # the results of `Dataset.map` are in files cache-....arrow
        elif shard is not None and path.suffix not in (".parquet", ".arrow"):
            raise DataError(f"{path}: must be one file for each split, or Parquet")
        elif shard is not None and shard[1] != "00000" and _stem(path, shard) in found:
            continue
        else:
            split = _stem(path, shard)
        if split in found:
            raise DataError(
                f"{folder}: split {split!r} must be stored once, found {found[split].name} and "
                f"{path.name}"
            )
        found[split] = path
    return found


def _stem(path: Path, shard: re.Match[str] | None) -> str:
    """Return the split of a file: the cache writes `glue-train.arrow`, the Hub `train.parquet`."""
    return path.stem[: shard.start() if shard else None].rpartition("-")[2]


def _files(
    hub: HubDataset,
    task: Task,
    folder: Path,
    found: Mapping[str, Path],
    apart: Mapping[str, list[Path]],
) -> dict[str, Path]:
    """Return the file or folder of each split; answered splits can be missing."""
    files: dict[str, Path] = {}
    for split, name in hub.splits.items():
        own = found
        if split in apart:
            with readable(folder):
                own = next(filter(None, map(_splits_in, apart[split])), {})
        if name in own:
            files[split] = own[name]
        elif split not in task.answered.values():
            names = join_names([*map(repr, found)])
            raise DataError(f"{folder}: expected a split {quote(name)}, found {names}")
    return files


def _labelled_rows(hub: HubDataset, task: Task, path: Path, skipped: list[str] | None) -> TextSplit:
    words = tuple(hub.labels) or task.labels
    own = replace(task, inputs=tuple(hub.inputs), label=hub.label, labels=words)
    index = [hub.index] if hub.index is not None else []
    table = read_table(path, [hub.label, *hub.inputs, *index], words or (), skipped)
    if hub.labels:
        # CSV, JSON Lines and Parquet without metadata have the numbers of the classes.
        names = {str(number): name for number, name in enumerate(hub.labels)}
        values = [names.get(word, word) for word in named_column(table, hub.label)]
        table = replace(table, columns={**table.columns, hub.label: values})
    if hub.index is None:
        return numbered(labelled_rows(own, table, skipped), 1)
    rows = numbered(labelled_rows(own, _ordered(table, hub.index), skipped), 0)
    if not hub.labels or task.labels is None or rows.labels is None:
        return rows
    order = [task.labels.index(word) for word in hub.labels.values()]
    return replace(rows, labels=np.array(order, np.int32)[rows.labels])


def _answered_rows(hub: HubDataset, _: Task, path: Path) -> TextSplit:
    index = str(hub.index)
    table = _ordered(read_table(path, [*hub.inputs, index]), index)
    return answered_rows(table, index, hub.inputs)


def _ordered(table: Table, index: str) -> Table:
    """Return the records of a table in the order of their number."""
    words = named_column(table, index)
    for row, word in enumerate(words):
        if not INDEX.fullmatch(word):
            raise DataError(
                f"{table.place(row)}: column {quote(index)}: expected a row number, found "
                f"{quote(word)}"
            )
    order = np.argsort([int(word) for word in words], kind="stable").tolist()
    columns = {name: [column[row] for row in order] for name, column in table.columns.items()}
    return replace(table, columns=columns, lines=[table.lines[row] for row in order])
