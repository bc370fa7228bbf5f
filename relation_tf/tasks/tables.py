"""Read named columns of a file: tab-separated as in GLUE, comma-separated, Arrow.

Arrow's formats are Parquet and what Hugging Face `datasets` saves. They only need pyarrow, so
reading cannot download anything. A folder of `Dataset.save_to_disk` has Arrow streams; class names
are in the metadata of the schema. Imports no Keras.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import gzip
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self, cast

from glue_submit.files import UNREADABLE
from relation_tf.errors import (
    DataError,
    RelationError,
    join_names,
    quote,
    reason_of,
    require_package,
)
from relation_tf.files import refuse_device

TEXT_SUFFIXES = (".csv", ".tsv")
"""Suffixes of text files."""

STATE = "state.json"
"""File in each folder of `Dataset.save_to_disk`."""

SHARD = re.compile(r"-(\d{5})-of-(\d{5})$")
"""End of the name of a file with a part of the rows, such as `train-00000-of-00002`."""

_HALF = re.compile("[\ud800-\udfff]")

# Field size limit of `csv` in characters. The default is 131,072; this is the largest C long on
# every platform.
_FIELD_LIMIT = 2**31 - 1


@contextlib.contextmanager
def readable(
    place: object,
    fault: str = "cannot be read",
    errors: type[Exception] | tuple[type[Exception], ...] = UNREADABLE,
) -> Iterator[None]:
    """Raise `DataError` with the place, on one line, if a file or archive cannot be read.

    Args:
        place: The file or folder.
        fault: What failed.
        errors: Errors to catch; `Exception` for other packages, which raise many kinds.
    """
    try:
        yield
    except RelationError:
        raise
    except errors as error:
        reason = reason_of(error).strip().partition("\n")[0] or type(error).__name__
        if isinstance(error, KeyError):
            reason = f"the key {error} is missing"
        raise DataError(f"{place}: {fault}: {reason}") from error


def open_binary(path: Path) -> BinaryIO:
    """Open a file; it is decompressed if its name ends in `.gz`, in any case."""
    return cast(BinaryIO, (gzip.open if path.suffix.lower() == ".gz" else Path.open)(path, "rb"))


def read_records(path: Path) -> list[bytes]:
    """Return the records of a text file, without line ends and byte order mark.

    LF ends a record; if the first one ends with CRLF (a Windows file), a CR before LF is removed.

    Raises:
        DataError: If the file is missing or empty.
    """
    with readable(path):
        refuse_device(path)
        data = path.read_bytes()
    records = data.removeprefix(codecs.BOM_UTF8).split(b"\n")
    if records[-1] == b"":
        records.pop()
    if not records:
        raise DataError(f"{path}: expected records, the file is empty")
    if records[0].endswith(b"\r"):
        records = [record.removesuffix(b"\r") for record in records]
    return records


def _without_blank_end(records: list[bytes], blank: bytes = b" \t\r") -> list[bytes]:
    """Remove lines of blanks at the end, but not the first line."""
    while len(records) > 1 and not records[-1].strip(blank):
        records.pop()
    return records


def decode_record(
    path: Path, line: int, record: bytes, encodings: Sequence[str] = ("UTF-8",)
) -> str:
    """Decode one or more lines with the first encoding for which they are valid.

    Args:
        path: File, for error messages.
        line: Number of the first line, for error messages.
        record: Bytes of the lines.
        encodings: Names of encodings.

    Raises:
        DataError: If the bytes are not valid in any encoding, or contain a NUL byte.
    """
    for encoding in encodings:
        try:
            text = record.decode(encoding)
        except UnicodeDecodeError as error:
            start = error.start
        else:
            break
    else:
        line += record.count(b"\n", 0, start)
        byte = start - record.rfind(b"\n", 0, start)
        raise DataError(
            f"{path}:{line}: expected {' or '.join(encodings)}, byte {byte} of the line is "
            f"0x{record[start]:02X}"
        )
    if "\0" in text:
        line += text.count("\n", 0, text.index("\0"))
        raise DataError(f"{path}:{line}: expected text, found a NUL byte")
    return text


def check_spelled(place: str, text: str) -> None:
    r"""Raise an error for NUL and lone surrogates, which JSON allows but text does not.

    Raises:
        DataError: If the text has such a character; the message starts with the place.

    Example:
        >>> check_spelled("a.parquet: row 1", "caf\u00e9")
    """
    if "\0" in text:
        raise DataError(f"{place}: expected text, found NUL")
    if half := _HALF.search(text):
        raise DataError(f"{place}: expected text, found a lone surrogate, {half[0]!a}")


@dataclass(frozen=True)
class Table:
    """The records of one file.

    Attributes:
        path: The file.
        columns: Values of each column, by name.
        lines: Line number of each record, from 1.
        has_lines: If False, the file has no lines: `lines` are those of a file with a header and
            the same rows, and messages name the row, from 1.
    """

    path: Path
    columns: dict[str, list[str]]
    lines: list[int]
    has_lines: bool = True

    @classmethod
    def without_lines(cls, path: Path, columns: dict[str, list[str]]) -> Self:
        """Return the table of a file without lines."""
        (rows,) = {*map(len, columns.values())}
        return cls(path, columns, [*range(2, 2 + rows)], has_lines=False)

    def __len__(self) -> int:
        return len(self.lines)

    def place(self, record: int) -> str:
        """Return the file and line of a record, for messages.

        Example:
            >>> table = Table(Path("a.parquet"), {"text": ["yes"]}, [2], has_lines=False)
            >>> table.place(0)
            'a.parquet: row 1'
        """
        line = self.lines[record]
        return f"{self.path}:{line}" if self.has_lines else f"{self.path}: row {line - 1}"

    def column(self, name: str) -> list[str]:
        """Return a column.

        Raises:
            DataError: If there is no column of this name.
        """
        check_columns(f"{self.path}:1", [name], self.columns)
        return self.columns[name]


def collect_table(
    path: Path, columns: Sequence[str] | None, rows: Iterable[tuple[int, Sequence[str]]]
) -> Table:
    """Collect the rows of a table.

    Args:
        path: The file.
        columns: Column names, by default the first row.
        rows: Line and fields of each row.

    Raises:
        DataError: If a column name occurs twice, or a row has another number of fields.
    """
    rows = iter(rows)
    if columns is None:
        _, columns = next(rows, (1, None))
        if columns is None:
            raise DataError(f"{path}:1: expected column names, found none")
        for name, times in Counter(columns).most_common(1):
            if times > 1:
                raise DataError(f"{path}:1: column names must be unique, found {quote(name)} twice")
    values: list[list[str]] = [[] for _ in columns]
    lines: list[int] = []
    for line, row in rows:
        if len(row) != len(columns):
            expected = f"{len(columns)} fields ({join_names([*map(repr, columns)])})"
            found = len(row) if any(row) or len(row) > 1 else "a blank line"
            hint = ". Separate columns with commas" * (len(columns) == 1 and ";" in columns[0])
            raise DataError(f"{path}:{line}: expected {expected}, found {found}{hint}")
        # Append to columns: a list per record is slow because of garbage collection.
        for column, field in zip(values, row, strict=True):
            column.append(field)
        lines.append(line)
    return Table(path, dict(zip(columns, values, strict=True)), lines)


def read_table(path: Path, columns: Sequence[str], labels: Sequence[str] = ()) -> Table:
    r"""Read a table: text files with `read_csv` or `read_tsv`, others as Arrow.

    Args:
        path: File or folder, see `read_arrow`.
        columns: Columns; a file with a header is read whole, and is not checked for them.
        labels: Label words, see `read_arrow`.

    Raises:
        DataError: If the file cannot be read.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "dev.csv"
        >>> _ = path.write_text("text,label\nyes,1\n")
        >>> read_table(path, ("text",)).columns
        {'text': ['yes'], 'label': ['1']}
    """
    if path.suffix in (".csv", ".tsv"):
        return (read_csv if path.suffix == ".csv" else read_tsv)(path)
    return read_arrow(path, columns, labels)


def read_tsv(path: Path, columns: Sequence[str] | None = None) -> Table:
    r"""Read a tab-separated file without quoting.

    Args:
        path: UTF-8 text file, see `read_records`.
        columns: Column names of a file without a header; by default the first record.

    Raises:
        DataError: If the file is missing or empty, or a line is malformed: not UTF-8, a NUL byte,
            or a wrong number of fields.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "dev.tsv"
        >>> _ = path.write_bytes(b'sentence\tlabel\nHe said "yes.\t1\n')
        >>> read_tsv(path).columns
        {'sentence': ['He said "yes.'], 'label': ['1']}
    """
    # A line with only a tab has two empty fields.
    records = enumerate(_without_blank_end(read_records(path), b" \r"), 1)
    rows = ((line, decode_record(path, line, record).split("\t")) for line, record in records)
    return collect_table(path, columns, rows)


def read_csv(
    path: Path, columns: Sequence[str] | None = None, *, blank_rows: bool = False
) -> Table:
    r"""Read a comma-separated file; quoted fields can contain commas, quotes and line ends.

    Args:
        path: UTF-8 text file. Rows end with LF outside quotes; if the first line ends with CRLF, a
            CR before LF is removed. Write a quote within a quoted field twice.
        columns: Column names of a file without a header; by default the first row.
        blank_rows: If True, blank rows are left out.

    Returns:
        The rows; `lines` are the lines where they start.

    Raises:
        DataError: If the file is missing or empty, or a row is malformed: not UTF-8, a NUL byte,
            unbalanced quotes, or a wrong number of fields. The message has the first line of the
            row.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "test.csv"
        >>> _ = path.write_bytes(b'"3","He said ""yes"", twice."\n')
        >>> read_csv(path, ("class", "text")).columns
        {'class': ['3'], 'text': ['He said "yes", twice.']}
    """
    text = decode_record(path, 1, b"\n".join(_without_blank_end(read_records(path))))
    reader = csv.reader((f"{line}\n" for line in text.split("\n")), strict=True)

    def rows() -> Iterator[tuple[int, list[str]]]:
        start = 1
        try:
            for row in reader:
                if any(row) or not blank_rows:
                    yield start, row
                start = reader.line_num + 1
        except csv.Error as error:
            raise DataError(
                f"{path}:{start}: expected comma-separated fields (write a quote within quotes "
                f"twice), found in line {reader.line_num}: {error}"
            ) from error

    limit = csv.field_size_limit(_FIELD_LIMIT)
    try:
        return collect_table(path, columns, rows())
    finally:
        csv.field_size_limit(limit)


def read_arrow(path: Path, columns: Sequence[str], labels: Sequence[str] = ()) -> Table:
    """Read some columns of a Parquet file, an Arrow stream or a folder of `save_to_disk`.

    Args:
        path: `.parquet`, `.arrow`, or a folder. The first of several shards, such as
            `train-00000-of-00002.parquet`, stands for all of them.
        columns: Columns of strings or numbers; numbers and booleans become their JSON text.
        labels: Label words. A column of classes with one of these names has the names of its
            classes; any other has their numbers.

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
    values: dict[str, list[Any]] = {name: [] for name in columns}
    for file in _files(path):
        with readable(file, errors=Exception):
            table = _table(file, columns)
            for name, column in values.items():
                column += _values(table, name, labels)
    texts = {
        name: [
            # Text without NUL needs no further check: Arrow's strings are UTF-8.
            value
            if type(value) is str and "\0" not in value
            else _text(f"{path}: row {row}", name, value)
            for row, value in enumerate(column, 1)
        ]
        for name, column in values.items()
    }
    return Table.without_lines(path, texts)


def _text(place: str, name: str, value: object) -> str:
    """Return a value of a column as text; numbers and booleans become their JSON text."""
    finite = not isinstance(value, float) or math.isfinite(value)
    if not isinstance(value, str | int | float) or not finite:
        raise DataError(
            f"{place}: expected {name!r} with a string or a number, found {value!r:.60}"
        )
    text = value if isinstance(value, str) else json.dumps(value)
    check_spelled(place, text)
    return text


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
        why = f"expected a split saved by save_to_disk, but {STATE} is missing"
        raise DataError(f"{folder}: {why}. Other texts must be in a CSV, TSV or Parquet file")
    with readable(path, errors=Exception):
        files = json.loads(path.read_bytes())["_data_files"]
        return [folder / file["filename"] for file in files]


def _table(file: Path, columns: Sequence[str]) -> Any:
    import pyarrow as pa
    import pyarrow.parquet

    if file.suffix == ".parquet":
        with pa.parquet.ParquetFile(file) as parquet:
            check_columns(file, columns, parquet.schema_arrow.names)
            table = parquet.read(columns=[*columns])
    else:
        with pa.OSFile(str(file)) as source:
            table = pa.ipc.open_stream(source).read_all()
        check_columns(file, columns, table.column_names)
        table = table.select([*columns])
    table.validate(full=True)  # wrong offsets of a damaged file would crash Python
    return table


def check_columns(place: object, columns: Iterable[str], found: Iterable[str]) -> None:
    """Check that a table has some columns.

    Raises:
        DataError: If one is missing; the message starts with the place.
    """
    found = [*found]
    for name in columns:
        if name not in found:
            names = join_names([*map(repr, found)])
            raise DataError(f"{place}: expected a column {quote(name)}, found {names}")


def _values(table: Any, name: str, labels: Sequence[str]) -> list[Any]:
    """Return the values of a column; numbers of classes become names if these are labels."""
    values: list[Any] = table.column(name).to_pylist()
    about = json.loads((table.schema.metadata or {}).get(b"huggingface", b"{}"))
    feature = about.get("info", {}).get("features", {}).get(name, {})
    words = dict(enumerate(feature.get("names", []) if isinstance(feature, dict) else []))
    if {*words.values()}.isdisjoint(labels):
        return values
    return [words.get(value, value) for value in values]
