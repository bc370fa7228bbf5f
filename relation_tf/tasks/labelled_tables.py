"""Tables with a label in one column and text in others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from relation_tf.errors import DataError, join_names, quote
from relation_tf.tasks.tables import Table
from relation_tf.tasks.task import Task, TextSplit


def named_column(table: Table, name: str) -> list[str]:
    """A column of a table.

    Raises:
        DataError: Where it has none of this name.
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
) -> tuple[TextSplit, tuple[str, ...]]:
    """The rows of a table as a task's texts and labels.

    Args:
        task: The task, which says what the columns are called and what labels there are.
        table: The table.
        texts: The texts of each input, row by row; by default the columns of the inputs' names.
        skip_bad_lines: Leave out a row with another label.

    Returns:
        The rows, their `index` the number of the line from 0, and a message for each line left out,
        also when the table was read.

    Raises:
        DataError: Where there is no such column or no row, and for another label.

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
