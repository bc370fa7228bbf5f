"""Tab-separated files as GLUE has them: no quoting, a record ends at LF and nowhere else."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from relation_tf.errors import DataError, join_names, quote

_HALF = re.compile("[\ud800-\udfff]")


def read_records(path: Path) -> list[bytes]:
    """The records of a text file, without their ends and without a byte order mark.

    CRLF is taken for LF only where the first record ends so, since a file from Windows ends all its
    records alike. Nothing else ends a record.

    Raises:
        DataError: For a file that is missing or empty.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    records = data.removeprefix(codecs.BOM_UTF8).split(b"\n")
    if records[-1] == b"":
        records.pop()
    if not records:
        raise DataError(f"{path}: expected records, the file is empty")
    if records[0].endswith(b"\r"):
        records = [record.removesuffix(b"\r") for record in records]
    return records


def decode_record(
    path: Path, line: int, record: bytes, encodings: Sequence[str] = ("UTF-8",)
) -> str:
    """The text of a record in the first of the encodings that it is valid in.

    Raises:
        DataError: For bytes that are valid in none, and for a NUL byte.
    """
    for encoding in encodings:
        try:
            text = record.decode(encoding)
        except UnicodeDecodeError as error:
            start = error.start
        else:
            break
    else:
        raise DataError(
            f"{path}:{line}: expected {' or '.join(encodings)}, byte {start + 1} of the line is "
            f"0x{record[start]:02X}"
        )
    if "\0" in text:
        raise DataError(f"{path}:{line}: expected text, found a NUL byte")
    return text


def check_spelled(place: str, text: str) -> None:
    r"""Refuse what JSON can spell and no text holds: NUL, and half of a character.

    Raises:
        DataError: The message starts with the place.

    Example:
        >>> check_spelled("a.jsonl:1", "caf\u00e9")
    """
    if "\0" in text:
        raise DataError(f"{place}: expected text, found NUL")
    if half := _HALF.search(text):
        raise DataError(f"{place}: expected text, found half of a character, {half[0]!a}")


@dataclass(frozen=True)
class Table:
    """The records of one file.

    Attributes:
        path: The file.
        columns: The values of each column, by its name.
        lines: The line number of each record, from 1.
        skipped: One message for each line that was left out.
    """

    path: Path
    columns: dict[str, list[str]]
    lines: list[int]
    skipped: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.lines)


def read_tsv(
    path: Path, columns: Sequence[str] | None = None, *, skip_bad_lines: bool = False
) -> Table:
    r"""Read a file.

    Args:
        path: UTF-8 text, its records as in `read_records`.
        columns: The names of the columns of a file without a header; by default the first record.
        skip_bad_lines: Leave out a malformed line, and say so in `skipped`.

    Raises:
        DataError: For a file that is missing or empty, and for a malformed line: not UTF-8, a NUL
            byte, or another number of fields than there are columns.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "dev.tsv"
        >>> _ = path.write_bytes(b'sentence\tlabel\nHe said "yes.\t1\n')
        >>> read_tsv(path).columns
        {'sentence': ['He said "yes.'], 'label': ['1']}
    """
    records = read_records(path)
    first_line = 1
    if columns is None:
        columns = decode_record(path, 1, records.pop(0)).split("\t")
        check_header(path, columns)
        first_line = 2
    rows = (
        (line, partial(_fields, path, line, record))
        for line, record in enumerate(records, first_line)
    )
    expected = f"{len(columns)} tab-separated fields ({join_names(columns)})"
    return collect_table(path, columns, rows, skip_bad_lines, expected)


def _fields(path: Path, line: int, record: bytes) -> list[str]:
    return decode_record(path, line, record).split("\t")


def check_header(path: Path, columns: Sequence[str]) -> None:
    """Refuse a header that names a column twice.

    Raises:
        DataError: The message names the column.
    """
    for name, times in Counter(columns).items():
        if times > 1:
            raise DataError(
                f"{path}:1: expected columns of different names, found {quote(name)} twice"
            )


def collect_table(
    path: Path,
    columns: Sequence[str],
    rows: Iterable[tuple[int, Callable[[], Sequence[str]]]],
    skip_bad_lines: bool,
    expected: str = "",
) -> Table:
    """Collect the rows of a table.

    Args:
        path: The file.
        columns: The names of the columns.
        rows: The line of each row, and a function that returns its fields or raises `DataError`.
        skip_bad_lines: If True, leave out malformed rows.
        expected: The fields of a row, for the message.
    """
    values: list[list[str]] = [[] for _ in columns]
    lines: list[int] = []
    skipped: list[str] = []
    for line, read in rows:
        try:
            fields = read()
            if len(fields) != len(columns):
                raise DataError(f"{path}:{line}: expected {expected}, found {len(fields)}")
        except DataError as error:
            if not skip_bad_lines:
                raise
            skipped.append(str(error))
            continue
        # Field by field: Python's garbage collection takes its time over a list for each record.
        for column, field in zip(values, fields, strict=True):
            column.append(field)
        lines.append(line)
    return Table(path, dict(zip(columns, values, strict=True)), lines, tuple(skipped))
