"""Read predictions and labels: TSV files, sequences and data frames."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from glue_submit.files import read_bytes
from glue_submit.tasks import TASKS, SubmissionError, Task, get_task, short

Source: TypeAlias = Any
"""A path, or a sequence or array."""

Predictions: TypeAlias = (
    str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Mapping[str, Source]
)
"""A folder of `<Task>.tsv` files, several folders, or the source of each task by task name."""

T = TypeVar("T")

# At most nine digits, because int() is slow for very long numbers.
INDEX = re.compile(r"0|[1-9][0-9]{0,8}")


def read_lines(path: Path) -> list[str]:
    """Read the lines of a UTF-8 file; as in the files of GLUE, only LF ends a record.

    A byte order mark, the CR of a CRLF and blank lines at the end are removed. Bytes that are not
    UTF-8, which sentences can contain, become escapes, which differ from all label words.

    Args:
        path: The file.

    Returns:
        The lines, without their ends.

    Raises:
        SubmissionError: If the file cannot be read or is empty.
    """
    try:
        content = read_bytes(path)
    except OSError as error:
        raise SubmissionError(f"{path}: cannot be read: {error.strerror}") from error
    text = content.decode("utf-8-sig", "backslashreplace")
    lines = text.replace("\r\n", "\n").rstrip("\n").split("\n")
    if lines == [""]:
        raise SubmissionError(f"{path}: expected rows, found an empty file")
    return lines


def read_columns(path: Path, *columns: str | int) -> tuple[int, list[list[str]]]:
    """Read columns of a tab-separated file without quoting.

    Args:
        path: The file.
        *columns: Names in the header, or positions from 0 in a file without a header.

    Returns:
        The number of the first line with cells, from 1, and the cells of each column.

    Raises:
        SubmissionError: If the file cannot be read, or a column, a cell or all rows are missing.
    """
    lines = read_lines(path)
    header = lines[0].split("\t")
    names = [column for column in columns if isinstance(column, str)]
    if not {*names} <= {*header}:
        raise SubmissionError(
            f"{path}, line 1: expected a header with {' and '.join(map(repr, names))}, "
            f"found {short(lines[0])}"
        )
    positions = [header.index(each) if isinstance(each, str) else each for each in columns]
    first = 2 if names else 1
    if len(lines) < first:
        raise SubmissionError(f"{path}: expected rows after the header, found none")
    rows = lines[first - 1 :]
    try:
        return first, [[row.split("\t")[position] for row in rows] for position in positions]
    except IndexError:
        most = max(positions)
        number = next(i for i, row in enumerate(rows, first) if row.count("\t") < most)
        raise SubmissionError(
            f"{path}, line {number}: expected {most + 1} columns or more, "
            f"found {short(lines[number - 1])}"
        ) from None


def read_values(path: Path, column: str | int, convert: Callable[[object], T]) -> list[T]:
    """Read a column of a file as `read_columns` does, and convert each cell.

    Raises:
        SubmissionError: As `read_columns`, or if `convert` refuses a cell.
    """
    first, (cells,) = read_columns(path, column)
    return _convert_cells(path, first, cells, convert)


def locate(predictions: Predictions, split: str) -> dict[str, Source]:
    """Find the predictions of each task.

    Args:
        predictions: A folder, searched for `<Task>.tsv` and `<Task>.<split>.tsv`, also in its
            folder `predictions`; several folders; or a mapping.
        split: Name of the split in files of a suite's runs: "dev" or "test". AX has only "test".

    Returns:
        The sources that were found, in the order of `TASKS`.

    Raises:
        SubmissionError: If a folder does not exist, a task has two files or is unknown, or there
            are no predictions.
    """
    names = ", ".join(TASKS)
    if isinstance(predictions, Mapping):
        for name in predictions:
            get_task(name)
        if not predictions:
            raise SubmissionError(f"predictions must have one or more of {names}. Received: none")
        return {name: predictions[name] for name in TASKS if name in predictions}
    given = [predictions] if isinstance(predictions, str | os.PathLike) else predictions
    folders = [*map(Path, given)]
    for folder in folders:
        if not folder.is_dir():
            fault = "not a folder" if folder.exists() else "no such file or folder"
            raise SubmissionError(f"{folder}: {fault}. Must be one zip, or folders of TASK.tsv")
    places = [place for folder in folders for place in (folder, folder / "predictions")]
    found = {}
    for task in TASKS.values():
        allowed = task.file, f"{task.name}.{'test' if task.name == 'AX' else split}.tsv"
        files = [place / name for place in places for name in allowed if (place / name).is_file()]
        if len(files) > 1:
            raise SubmissionError(
                f"{task.name}: expected one file of predictions, found {files[0]} and {files[1]}"
            )
        if files:
            found[task.name] = files[0]
    if not found:
        raise SubmissionError(
            f"{', '.join(map(str, folders))}: no predictions. Must have TASK.tsv or "
            f"TASK.{split}.tsv, directly or in predictions/, for one or more of {names}"
        )
    return found


def in_index_order(
    source: Source,
    task: Task,
    rows: int | None,
    convert: Callable[[object], T],
    column: str = "prediction",
) -> list[T]:
    """Read the predictions of a task, or another column, in the order of their index.

    Args:
        source: A path of a file with an `index`, whose rows can be in any order, or a sequence or
            array of shape `(rows,)` in the order of the index.
        task: The task, for messages.
        rows: Required number of rows, by default any; the index goes from 0 to `rows - 1`.
        convert: Function of a prediction: `task.spell` or `task.parse`.
        column: Name of the column of a file.

    Returns:
        `rows` converted predictions.

    Raises:
        SubmissionError: If the number of rows is wrong, an index is missing or repeated, or
            `convert` refuses a prediction; the message names the place.
    """
    if not isinstance(source, str | os.PathLike):
        what = f"{task.name} predictions"
        values = as_list(source, what)
        if rows not in (None, len(values)):
            raise SubmissionError(f"{what}: expected {rows} rows, found {len(values)}")
        return convert_all(values, what, convert)
    path = Path(source)
    first, (indices, cells) = read_columns(path, "index", column)
    values = _convert_cells(path, first, cells, convert)
    rows = len(values) if rows is None else rows
    if len(indices) == rows and indices == [*map(str, range(rows))]:
        return values
    return [values[row] for row in _order(path, first, indices, rows)]


def _order(path: Path, first: int, indices: Sequence[str], rows: int) -> list[int]:
    """Return the position of each index from 0 to `rows - 1` in the column of indices."""
    placed: dict[int, int] = {}
    for row, index in enumerate(indices):
        position = int(index) if INDEX.fullmatch(index) else rows
        if position < rows and position not in placed:
            placed[position] = row
            continue
        fault = f"expected an index from 0 to {rows - 1}, found {short(index)}"
        if position < rows:
            fault = f"expected each index once, found {index} again"
        raise SubmissionError(f"{path}, line {first + row}: {fault}")
    if len(placed) != rows:
        gap = next(position for position in range(rows) if position not in placed)
        raise SubmissionError(
            f"{path}: must have {rows} rows (index 0 to {rows - 1}). Found {len(placed)} "
            f"row{'' if len(placed) == 1 else 's'}; the first missing index is {gap}."
        )
    return [placed[position] for position in range(rows)]


def _convert_cells(
    path: Path, first: int, cells: Sequence[str], convert: Callable[[object], T]
) -> list[T]:
    """Convert the cells of a column; equal ones once, because a file can have 390,965 rows."""
    known: dict[str, T] = {}
    for line, cell in enumerate(cells, first):
        if cell not in known:
            known[cell] = converted(cell, convert, f"{path}, line {line}")
    return [known[cell] for cell in cells]


def convert_all(values: Any, what: str, convert: Callable[[object], T]) -> list[T]:
    """Convert each value of a sequence.

    Args:
        values: A sequence or array of shape `(n,)`.
        what: Name of the sequence, for messages.
        convert: Function of a value: `task.spell` or `task.parse`.

    Returns:
        The `n` converted values.

    Raises:
        SubmissionError: If the values are not a sequence, or `convert` refuses a value.
    """
    return [
        converted(value, convert, f"{what}, position {position}")
        for position, value in enumerate(as_list(values, what))
    ]


def as_list(values: Any, what: str) -> list[Any]:
    """Return a sequence, array or series as a list of Python objects, by position.

    Args:
        values: A sequence, array or series of shape `(n,)`.
        what: Name of the values, for messages.

    Returns:
        The `n` values.

    Raises:
        SubmissionError: If the values are something else.
    """
    plain = values.tolist() if hasattr(values, "tolist") else values
    if not isinstance(plain, Sequence) or isinstance(plain, str | bytes):
        raise SubmissionError(f"{what}: must be a sequence or array. Received: {short(values)}")
    return list(plain)


def converted(value: object, convert: Callable[[object], T], where: str) -> T:
    """Convert a value; errors name its place.

    Args:
        value: The value.
        convert: `task.spell` or `task.parse`.
        where: The place.

    Returns:
        The converted value.

    Raises:
        SubmissionError: If `convert` refuses it.
    """
    try:
        return convert(value)
    except SubmissionError as error:
        raise SubmissionError(f"{where}: {error}") from None
