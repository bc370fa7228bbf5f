"""Rows of tasks from files: readers of tables and labelled lines, and the division of rows."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from glue_submit.tasks import NUMBER
from relation_tf.errors import DataError, join_names, quote
from relation_tf.tasks.tables import Table, collect_table, decode_record, read_records
from relation_tf.tasks.task import Task, TaskText, TextSplit

# Most of these files are older than UTF-8; some have lines in both encodings. Valid UTF-8 sequences
# of non-ASCII bytes are not meaningful text in Windows-1252, so UTF-8 is tried first.
_ENCODINGS = ("UTF-8", "Windows-1252")

_SEPARATORS = {" ": "a space", "\t": "a tab"}

SEED = 2022
"""Arbitrary constant; another value gives other rows."""

ReadRows = Callable[[Task, Path], TextSplit]
"""Function that reads labelled rows of a file."""

ReadText = Callable[[Task, Mapping[str, Path]], TaskText]


def split_reader(
    rows: ReadRows,
    *,
    held_out: tuple[str, float] | None = None,
    answered: Callable[[Task, Path], TextSplit] | None = None,
    note: str = "",
    spaced: bool = False,
) -> ReadText:
    """Return a function that reads a task file by file.

    Args:
        rows: Function that reads a labelled file.
        held_out: Split that is cut from the training file (see `cut`), with
            its number or share of rows.
        answered: Function that reads a file of unlabelled rows.
        note: Reason why results are not comparable with published results: a format string with the
            number of rows of each split by name, and the size of the training file as `megabytes`.
        spaced: If True, words are already separated by spaces, see `TaskText`.
    """

    def read(task: Task, files: Mapping[str, Path]) -> TaskText:
        splits: dict[str, TextSplit] = {}
        for split, path in files.items():
            if held_out is not None and split == held_out[0]:
                splits["train"], splits[split] = cut(splits["train"], held_out[1], path)
            elif answered is not None and split in task.answered.values():
                splits[split] = answered(task, path)
            else:
                splits[split] = rows(task, path)
        notes = []
        if note:
            counts = {name: len(split) for name, split in splits.items()}
            notes = [note.format(**counts, megabytes=files["train"].stat().st_size / 1e6)]
        return TaskText(task, splits, tuple(notes), spaced)

    return read


def line_rows(separator: str = " ") -> ReadRows:
    r"""Return a function that reads a file with a label and a text in each line.

    Lines are UTF-8 or else Windows-1252, and only LF ends a line. `index` is the line number, from
    0.

    Args:
        separator: Separator of label and text, a space or a tab. The text is the rest of the line
            and can be empty.

    Example:
        >>> import tempfile
        >>> from relation_tf.tasks import find_task
        >>> path = Path(tempfile.mkdtemp()) / "reviews.all"
        >>> _ = path.write_bytes(b"1 caf\xe9 , good .\n0 bad .\n")
        >>> split = line_rows()(find_task("MR"), path)
        >>> split.texts, split.labels.tolist()
        ((['café , good .', 'bad .'],), [1, 0])
    """

    def fields(task: Task, path: Path) -> Iterator[tuple[int, tuple[str, str]]]:
        for number, record in enumerate(read_records(path), 1):
            line = decode_record(path, number, record, _ENCODINGS)
            label, found, text = line.partition(separator)
            labels = task.labels or ()
            if not found or label not in labels:
                raise DataError(
                    f"{path}:{number}: expected {join_names(labels, ' or ')}, "
                    f"{_SEPARATORS[separator]} and a text, found {quote(line)}"
                )
            yield number, (label, text)

    return lambda task, path: collect_rows(task, path, fields(task, path))


def collect_rows(task: Task, path: Path, rows: Iterable[tuple[int, Sequence[str]]]) -> TextSplit:
    """Collect the rows of a task; the fields of a row are the label, then the texts."""
    return labelled_rows(task, collect_table(path, (task.label, *task.inputs), rows))


def table_rows(
    read: Callable[[Path, Sequence[str] | None], Table],
    columns: Sequence[str] | None = None,
    text: Callable[..., str] | None = None,
    of: Sequence[str] = (),
) -> ReadRows:
    """Return a function that reads the rows of a table.

    Args:
        read: `read_tsv` or `read_csv`.
        columns: Columns of files without a header.
        text: Function that builds the text of a row from the columns `of`; by default the texts are
            the columns with the names of the inputs.
        of: Columns passed to `text`.
    """

    def rows(task: Task, path: Path) -> TextSplit:
        table = read(path, columns)
        texts = text and [list(map(text, *map(table.column, of)))]
        return labelled_rows(task, table, texts)

    return rows


def labelled_rows(
    task: Task, table: Table, texts: Sequence[Sequence[str]] | None = None
) -> TextSplit:
    """Convert the rows of a table to texts and labels of a task.

    Args:
        task: The task, with the names of its columns and its labels.
        table: The table.
        texts: Texts of each input; by default the columns with the names of the inputs.

    Returns:
        The rows; `index` is the line number, from 0.

    Raises:
        DataError: If a column is missing, there are no rows, or a label is unknown.

    Example:
        >>> from pathlib import Path
        >>> from relation_tf.tasks import find_task
        >>> table = Table(Path("a.tsv"), {"label": ["pos", "neg"]}, [2, 3])
        >>> split = labelled_rows(find_task("IMDb"), table, texts=[["good", "bad"]])
        >>> split.labels.tolist(), split.index.tolist()
        ([1, 0], [1, 2])
    """
    if texts is None:
        texts = [*map(table.column, task.inputs)]
    words = table.column(task.label)
    if task.labels is None:
        expected = f"a number in [0, {task.maximum:g}]"
        labels: Mapping[str, float | None] = {word: _score(word, task.maximum) for word in words}
    else:
        expected = join_names([quote(label) for label in task.labels], " or ")
        labels = {word: i for i, word in enumerate(task.labels)}
    for row, word in enumerate(words):
        if labels.get(word) is None:
            place = f"{table.place(row)}: column {quote(task.label)}"
            raise DataError(f"{place}: expected {expected}, found {quote(word)}")
    if not words:
        raise DataError(f"{table.path}: expected labelled rows, found none")
    dtype = np.float32 if task.labels is None else np.int32
    numbers = np.array([labels[word] for word in words], dtype)
    return TextSplit(tuple(texts), numbers, np.array(table.lines) - 1)


def answered_rows(table: Table, index: str, inputs: Sequence[str]) -> TextSplit:
    """Return rows without labels. Predictions are numbered: no number can be missing.

    Args:
        table: The rows, in the order of their numbers.
        index: Column of the numbers, from 0.
        inputs: Columns of the texts.

    Raises:
        DataError: If there are no rows, or a number is missing.
    """
    numbers = table.column(index)
    for row, word in enumerate(numbers):
        if word != str(row):
            raise DataError(f"{table.place(row)}: expected {index} {row}, found {quote(word)}")
    if not numbers:
        raise DataError(f"{table.path}: expected rows, found none")
    return TextSplit(tuple(map(table.column, inputs)), None, np.arange(len(numbers)))


def numbered(rows: TextSplit, first: int) -> TextSplit:
    """Number the rows from `first` in their order, independent of the lines of a file."""
    return replace(rows, index=np.arange(first, first + len(rows)))


def _score(word: str, maximum: float) -> float | None:
    if not NUMBER.fullmatch(word):
        return None
    score = float(word)
    # float32, as in TFDS, gives exactly the same labels for files and TFDS.
    return float(np.float32(score) / np.float32(maximum)) if 0 <= score <= maximum else None


def cut(
    split: TextSplit, size: float, place: object = "the rows", seed: int | None = None
) -> tuple[TextSplit, TextSplit]:
    """Divide the rows of a split into two parts, stratified by class; the order is kept.

    Rows are sorted by the SHA-256 of `"<SEED>:<row number>"`, and the first rows of each class are
    taken. No random number generator is used: a file gives the same rows on every machine and with
    every NumPy release. The seed of a run has no effect unless it is given:
    `"<SEED>:<seed>:<row>"`.

    The rows taken from each class are proportional to its size (largest remainders round up; for
    equal remainders the first class). Regression scores are one class.

    Args:
        split: Labelled rows; `index` has the row numbers.
        size: Number of rows to take (`int`), or their share in (0, 1) (`float`).
        place: Origin of the rows for error messages, such as their file.
        seed: Seed of the choice; None for the rows of the package's fixed choice.

    Returns:
        The remaining rows, and the rows taken.

    Raises:
        DataError: If one of the two parts is empty.

    Example:
        >>> labels = np.array([0, 1] * 10)
        >>> rows = TextSplit(([f"text {i}" for i in range(20)],), labels, np.arange(20))
        >>> rest, taken = cut(rows, 0.2)
        >>> len(rest), taken.labels.tolist()
        (16, [0, 0, 1, 1])
    """
    count = size if isinstance(size, int) else round(size * len(split))
    if not 0 < count < len(split):
        cut_off = f"{size} rows" if isinstance(size, int) else f"a share of {size} of its rows"
        raise DataError(
            f"{place}: must have enough rows to cut off {cut_off}. Received: {len(split)} rows"
        )
    start = f"{SEED}:" if seed is None else f"{SEED}:{seed}:"
    digests = [hashlib.sha256(f"{start}{row}".encode()).digest() for row in split.index.tolist()]
    order = np.array(sorted(range(len(split)), key=digests.__getitem__))
    classes = np.zeros(len(split), int)
    if split.labels is not None and split.labels.dtype.kind != "f":
        classes = split.labels[order]
    labels, rows = np.unique(classes, return_counts=True)
    quotas, remainder = np.divmod(count * rows, len(split))
    quotas[np.argsort(-remainder, kind="stable")[: count - quotas.sum()]] += 1
    taken = np.zeros(len(split), bool)
    for label, quota in zip(labels, quotas, strict=True):
        taken[order[classes == label][:quota]] = True
    return split.take(np.flatnonzero(~taken)), split.take(np.flatnonzero(taken))
