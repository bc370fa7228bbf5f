"""Comma-separated files with quoted fields, which may hold commas, quotes and line ends."""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from relation_tf.errors import DataError, join_names
from relation_tf.tasks.tables import (
    Table,
    check_header,
    collect_table,
    decode_record,
    read_records,
)

# In characters; the limit that `csv` starts with, 131,072, is one of all its users. The largest
# number that a C long holds on every platform.
_FIELD_LIMIT = 2**31 - 1


def read_csv(
    path: Path, columns: Sequence[str] | None = None, *, skip_bad_lines: bool = False
) -> Table:
    r"""Read a file.

    Args:
        path: UTF-8 text; a row ends at LF (CRLF where the first line ends so) outside quotes, and a
            quote within a quoted field is written twice.
        columns: The names of the columns of a file without a header; by default the first row.
        skip_bad_lines: Leave out a malformed row, and say so in `skipped`. One that ends in the
            midst of a quoted field takes the lines up to the next quote with it.

    Returns:
        The rows; `lines` are those that they start in.

    Raises:
        DataError: For a file that is missing or empty, and for a malformed row, named by the line
            it starts in: not UTF-8, a NUL byte, quotes that do not match, or another number of
            fields than there are columns.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "test.csv"
        >>> _ = path.write_bytes(b'"3","He said ""yes"", twice."\n')
        >>> read_csv(path, ("class", "text")).columns
        {'class': ['3'], 'text': ['He said "yes", twice.']}
    """
    lines = _Lines(path)
    reader = csv.reader(lines, strict=True)
    with _long_fields():
        if columns is None:
            columns = _next_row(lines, reader)
            check_header(path, columns)
        names = join_names([*map(repr, columns)])
        expected = f"{len(columns)} comma-separated fields ({names})"
        rows = _rows(lines, reader)
        return collect_table(path, columns, rows, skip_bad_lines, expected)


def _rows(
    lines: _Lines, reader: Iterator[list[str]]
) -> Iterator[tuple[int, Callable[[], list[str]]]]:
    while not lines.at_end:
        yield lines.number + 1, lambda: _next_row(lines, reader)


class _Lines(Iterator[str]):
    """The lines of a file with their ends; goes on behind one that cannot be decoded."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.number = 0
        self._records = read_records(path)

    @property
    def at_end(self) -> bool:
        return self.number == len(self._records)

    def __next__(self) -> str:
        if self.at_end:
            raise StopIteration
        record = self._records[self.number]
        self.number += 1
        return decode_record(self.path, self.number, record) + "\n"


def _next_row(lines: _Lines, reader: Iterator[list[str]]) -> list[str]:
    start = lines.number + 1
    try:
        return next(reader)
    except csv.Error as error:
        raise DataError(
            f"{lines.path}:{start}: expected comma-separated fields, a quote within quotes written "
            f"twice, found in line {lines.number}: {error}"
        ) from error


@contextlib.contextmanager
def _long_fields() -> Iterator[None]:
    """Let fields be of any length, and leave the limit to others as it was."""
    limit = csv.field_size_limit(_FIELD_LIMIT)
    try:
        yield
    finally:
        csv.field_size_limit(limit)
