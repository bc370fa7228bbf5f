"""Tables in Arrow's formats: Parquet, and what Hugging Face `datasets` saves. Imports no Keras.

Only pyarrow is needed, so reading cannot download anything. A folder of `Dataset.save_to_disk` has
Arrow streams; class names are in the metadata of the schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from relation_tf.errors import DataError, join_names, quote, require_package
from relation_tf.tasks.tables import Table, as_data_error, collect_table, text_of

STATE = "state.json"
"""File in each folder of `Dataset.save_to_disk`."""

SHARD = re.compile(r"-(\d{5})-of-(\d{5})$")
"""End of the name of a file with a part of the rows, such as `train-00000-of-00002`."""


def read_arrow(
    path: Path,
    columns: Sequence[str],
    labels: Sequence[str] = (),
    skipped: list[str] | None = None,
) -> Table:
    """Read some columns of a Parquet file, an Arrow stream or a folder of `save_to_disk`.

    Args:
        path: `.parquet`, `.arrow`, or a folder. The first of several shards, such as
            `train-00000-of-00002.parquet`, stands for all of them.
        columns: Columns of strings or numbers; numbers and booleans become their JSON text.
        labels: Label words. A column of classes with one of these names has the names of its
            classes; any other has their numbers.
        skipped: If given, malformed rows are skipped and a message for each is added.

    Raises:
        DataError: If a file cannot be read, a shard or a column is missing, or a value is no string
            and no number.
        MissingPackageError: If pyarrow is not installed.

    Example:
        >>> import tempfile
        >>> import pyarrow as pa
        >>> import pyarrow.parquet
        >>> path = Path(tempfile.mkdtemp()) / "dev.parquet"
        >>> pa.parquet.write_table(pa.table({"text": ["yes", "no"], "label": [1, 0]}), path)
        >>> read_arrow(path, ("text", "label")).columns
        {'text': ['yes', 'no'], 'label': ['1', '0']}
    """
    require_package("a Parquet or Arrow file", "pyarrow", "datasets")
    values: list[list[Any]] = [[] for _ in columns]
    for file in _files(path):
        with as_data_error(f"{file}: cannot be read"):
            table = _table(file, columns)
            for name, own in zip(columns, values, strict=True):
                own += _values(table, name, labels)

    def fields(line: int, row: Sequence[Any]) -> list[str]:
        # Text without NUL needs no further check: Arrow's strings are UTF-8.
        return [
            value
            if type(value) is str and "\0" not in value
            else text_of(f"{path}: row {line - 1}", name, value)
            for name, value in zip(columns, row, strict=True)
        ]

    records = enumerate(zip(*values, strict=True), 2)
    return collect_table(path, columns, records, fields, skipped, has_lines=False)


def _files(path: Path) -> list[Path]:
    """Return the files with the rows, in their order."""
    if path.is_dir():
        return _saved_files(path)
    shard = SHARD.search(path.stem)
    if shard is None:
        return [path]
    name, count = path.stem[: shard.start()], shard[2]
    found = sorted(path.parent.glob(f"{name}-[0-9]*-of-{count}*{path.suffix}"))
    if len(found) != int(count):
        raise DataError(f"{path}: expected {int(count)} files of this split, found {len(found)}")
    return found


def _saved_files(folder: Path) -> list[Path]:
    path = folder / STATE
    if not path.is_file():
        raise DataError(f"{folder}: expected a split saved by save_to_disk, but {STATE} is missing")
    with as_data_error(f"{path}: cannot be read"):
        names = [each["filename"] for each in json.loads(path.read_bytes())["_data_files"]]
        there = [file.name for file in folder.iterdir()]
    for name in names:
        if name not in there:
            raise DataError(f"{path}: expected names of files in this folder, found {name!r:.60}")
    return [folder / name for name in names]


def _table(file: Path, columns: Sequence[str]) -> Any:
    import pyarrow as pa
    import pyarrow.parquet

    if file.suffix == ".parquet":
        with pa.parquet.ParquetFile(file) as parquet:
            _check_columns(file, columns, parquet.schema_arrow.names)
            table = parquet.read(columns=[*columns])
    else:
        with pa.OSFile(str(file)) as source:
            table = pa.ipc.open_stream(source).read_all()
        _check_columns(file, columns, table.column_names)
        table = table.select([*columns])
    table.validate(full=True)  # wrong offsets of a damaged file would crash Python
    return table


def _check_columns(file: Path, columns: Sequence[str], found: Sequence[str]) -> None:
    for name in columns:
        if name not in found:
            names = join_names([*map(repr, found)])
            raise DataError(f"{file}: expected a column {quote(name)}, found {names}")


def _values(table: Any, name: str, labels: Sequence[str]) -> list[Any]:
    values: list[Any] = table.column(name).to_pylist()
    names = _class_names(table.schema, name)
    if {*names}.isdisjoint(labels):
        return values
    words = dict(enumerate(names))
    return [words.get(value, value) for value in values]


def _class_names(schema: Any, column: str) -> list[str]:
    """Return the names of the classes of a column, from the metadata of `datasets`."""
    about = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
    feature = about.get("info", {}).get("features", {}).get(column, {})
    names: list[str] = feature.get("names", []) if isinstance(feature, dict) else []
    return names
