"""Readers that datasets are declared with: labelled lines, and tables with a header or without."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np

from relation_tf.errors import DataError, join_names, quote
from relation_tf.tasks.splits import cut
from relation_tf.tasks.tables import Table, decode_record, read_records
from relation_tf.tasks.task import Task, TaskText, TextSplit

# Most of these files are older than UTF-8, and some hold lines of both kinds. Bytes that are valid
# UTF-8 and are not ASCII make no sense in Windows-1252.
_ENCODINGS = ("UTF-8", "Windows-1252")

_SEPARATORS = {" ": "a space", "\t": "a tab"}

_Record = TypeVar("_Record")
_Rows = tuple[TextSplit, tuple[str, ...]]

ReadRows = Callable[[Task, Path, bool], _Rows]
"""Reads the labelled rows of one file, and one message for each malformed line; the last argument
asks to leave such lines out."""

ReadText = Callable[[Task, Mapping[str, Path], bool], TaskText]


class _ReadTable(Protocol):
    def __call__(
        self, path: Path, columns: Sequence[str] | None = None, *, skip_bad_lines: bool = False
    ) -> Table: ...


def split_reader(
    rows: ReadRows,
    *,
    held_out: tuple[str, float] | None = None,
    answered: Callable[[Task, Path], TextSplit] | None = None,
    note: str = "",
    spaced: bool = False,
) -> ReadText:
    """Return a function that reads a task file by file.

    Malformed lines are left out of the training file only, and not if scored rows are cut from it.

    Args:
        rows: Reads a labelled file.
        held_out: A split that is cut from the training file as `relation_tf.tasks.splits` does it,
            and its number of rows or share of them.
        answered: Reads a file of unlabelled rows.
        note: Why results differ from published ones: a format string with the number of rows of
            each split by its name, and the size of the training file as `megabytes`.
        spaced: As in `TaskText`.
    """

    def read(task: Task, files: Mapping[str, Path], skip_bad_lines: bool) -> TaskText:
        if held_out is not None and held_out[0] in task.scored.values():
            skip_bad_lines = False
        splits: dict[str, TextSplit] = {}
        skipped: tuple[str, ...] = ()
        for split, path in files.items():
            if held_out is not None and split == held_out[0]:
                splits["train"], splits[split] = cut(splits["train"], held_out[1], path)
            elif answered is not None and split in task.answered.values():
                splits[split] = answered(task, path)
            else:
                splits[split], bad = rows(task, path, skip_bad_lines and split == "train")
                skipped += bad
        counts = {name: len(split) for name, split in splits.items()}
        megabytes = files["train"].stat().st_size / 1e6
        notes = (note.format(**counts, megabytes=megabytes),) if note else ()
        return TaskText(task, splits, skipped, notes, spaced)

    return read


def collect_rows(
    records: Iterable[tuple[int, _Record]],
    parse: Callable[[int, _Record], tuple[str, int]],
    place: Path,
    *,
    expected: str = "labelled rows",
    skip_bad_lines: bool = False,
) -> _Rows:
    """Parse records to rows of one text.

    Args:
        records: Numbers of rows, and what is parsed.
        parse: From a number and a record to a text and a class; raises `DataError`.
        place: Where the records are from, for the message.
        expected: What they are, likewise.
        skip_bad_lines: If True, leave out malformed records.

    Returns:
        The rows, and a message for each record left out.

    Raises:
        DataError: For a malformed record, and if there is no row.
    """
    texts: list[str] = []
    labels: list[int] = []
    index: list[int] = []
    skipped: list[str] = []
    for number, record in records:
        try:
            text, label = parse(number, record)
        except DataError as error:
            if not skip_bad_lines:
                raise
            skipped.append(str(error))
            continue
        texts.append(text)
        labels.append(label)
        index.append(number)
    if not texts:
        raise DataError(f"{place}: expected {expected}, found none")
    rows = TextSplit((texts,), np.array(labels, np.int32), np.array(index, int))
    return rows, tuple(skipped)


def read_labelled_lines(
    path: Path, labels: Sequence[str], separator: str, *, skip_bad_lines: bool = False
) -> _Rows:
    r"""Read a file with a label and a text in each line.

    Args:
        path: Text, each line UTF-8 or else Windows-1252; a line ends at LF and nowhere else.
        labels: The label words in the order of the classes.
        separator: What separates label and text, a space or a tab. The text is the rest of the
            line, and may be empty.
        skip_bad_lines: If True, leave out malformed lines.

    Returns:
        The rows, their `index` the number of the line from 0, and a message for each line left out.

    Raises:
        DataError: For a file that is missing or holds no row, and for a malformed line.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "reviews.all"
        >>> _ = path.write_bytes(b"1 caf\xe9 , good .\n0 bad .\n")
        >>> split, skipped = read_labelled_lines(path, ("0", "1"), " ")
        >>> split.texts, split.labels.tolist()
        ((['café , good .', 'bad .'],), [1, 0])
    """
    classes = {word: i for i, word in enumerate(labels)}

    def parse(number: int, record: bytes) -> tuple[str, int]:
        line = decode_record(path, number + 1, record, _ENCODINGS)
        label, found, text = line.partition(separator)
        if not found or label not in classes:
            raise DataError(
                f"{path}:{number + 1}: expected {join_names(labels, ' or ')}, "
                f"{_SEPARATORS[separator]} and a text, found {quote(line)}"
            )
        return text, classes[label]

    return collect_rows(enumerate(read_records(path)), parse, path, skip_bad_lines=skip_bad_lines)


def line_rows(separator: str = " ", labels: Sequence[str] | None = None) -> ReadRows:
    """Return `read_labelled_lines` with some label words, by default the task's."""

    def rows(task: Task, path: Path, skip_bad_lines: bool) -> _Rows:
        words = labels or task.labels or ()
        return read_labelled_lines(path, words, separator, skip_bad_lines=skip_bad_lines)

    return rows


def table_rows(
    read: _ReadTable,
    columns: Sequence[str] | None = None,
    text: Callable[..., str] | None = None,
    of: Sequence[str] = (),
) -> ReadRows:
    """Return a function that reads the rows of a table.

    Args:
        read: `read_tsv` or `read_csv`.
        columns: The columns of files without a header.
        text: Makes the one text of a row from the columns `of`; by default the columns with the
            names of the inputs are the texts.
        of: The arguments of `text`.
    """

    def rows(task: Task, path: Path, skip_bad_lines: bool) -> _Rows:
        table = read(path, columns, skip_bad_lines=skip_bad_lines)
        texts = text and [list(map(text, *(named_column(table, name) for name in of)))]
        return labelled_rows(task, table, texts, skip_bad_lines=skip_bad_lines)

    return rows


def named_column(table: Table, name: str) -> list[str]:
    """Return a column of a table.

    Raises:
        DataError: If it has no column of this name.
    """
    if name not in table.columns:
        found = join_names([*map(repr, table.columns)])
        raise DataError(f"{table.path}:1: expected a column {quote(name)}, found {found}")
    return table.columns[name]


def labelled_rows(
    task: Task,
    table: Table,
    texts: Sequence[Sequence[str]] | None = None,
    *,
    skip_bad_lines: bool = False,
) -> _Rows:
    """Return the rows of a table as a task's texts and labels.

    Args:
        task: The task, with the names of its columns and its labels.
        table: The table.
        texts: The texts of each input, row by row; by default the columns of the inputs' names.
        skip_bad_lines: If True, leave out rows with another label.

    Returns:
        The rows, their `index` the number of the line from 0, and a message for each line left out,
        also when the table was read.

    Raises:
        DataError: If there is no such column or no row, and for another label.

    Example:
        >>> from pathlib import Path
        >>> from relation_tf.tasks import find_task
        >>> table = Table(Path("a.tsv"), {"label": ["pos", "neg"]}, [2, 3], ())
        >>> split, _ = labelled_rows(find_task("IMDb"), table, [["good", "bad"]])
        >>> split.labels.tolist(), split.index.tolist()
        ([1, 0], [1, 2])
    """
    if texts is None:
        texts = [named_column(table, name) for name in task.inputs]
    kept: list[int] = []
    labels: list[float] = []
    skipped = list(table.skipped)
    classes = None if task.labels is None else {word: i for i, word in enumerate(task.labels)}
    for row, word in enumerate(named_column(table, task.label)):
        label = classes.get(word) if classes is not None else _score(word, task.maximum)
        if label is not None:
            kept.append(row)
            labels.append(label)
            continue
        message = (
            f"{table.path}:{table.lines[row]}: expected {join_names([task.label])} "
            f"{_expected(task)}, found {quote(word)}"
        )
        if not skip_bad_lines:
            raise DataError(message)
        skipped.append(message)
    if not kept:
        raise DataError(f"{table.path}: expected labelled rows, found none")
    if len(kept) < len(table):
        texts = [[column[row] for row in kept] for column in texts]
    numbers = np.array(labels, np.float32 if classes is None else np.int32)
    index = np.array([table.lines[row] - 1 for row in kept], int)
    return TextSplit(tuple(texts), numbers, index), tuple(skipped)


def _expected(task: Task) -> str:
    if task.labels is None:
        return f"a number in [0, {task.maximum:g}]"
    return join_names(task.labels, " or ")


def _score(word: str, maximum: float) -> float | None:
    try:
        score = float(word)
    except ValueError:
        return None
    # In float32, in which TFDS keeps scores: to the last bit its labels are those of the files.
    return float(np.float32(score) / np.float32(maximum)) if 0 <= score <= maximum else None
