"""Tables with a label in one column and text in others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from relation_tf.tasks.task import TextSplit
from relation_tf.tasks.tsv import DataError, Table


def named_column(table: Table, name: str) -> list[str]:
    """A column of a table.

    Raises:
        DataError: Where it has none of this name.
    """
    if name not in table.columns:
        found = ", ".join(map(repr, table.columns))
        raise DataError(f"{table.path}:1: expected a column {name!r}, found {found}")
    return table.columns[name]


def labelled_rows(
    table: Table,
    label: str,
    labels: Sequence[str],
    texts: Sequence[str],
    *,
    skip_bad_lines: bool = False,
) -> tuple[TextSplit, tuple[str, ...]]:
    """The rows of a table as one text and one class each.

    Args:
        table: The table.
        label: The name of the column of labels.
        labels: The label words in the order of the classes.
        texts: The text of each row.
        skip_bad_lines: Leave out a row with another label.

    Returns:
        The rows, their `index` the number of the line from 0, and a message for each line left out,
        also when the table was read.

    Raises:
        DataError: Where there is no such column or no row, and for another label.

    Example:
        >>> from pathlib import Path
        >>> table = Table(Path("a.tsv"), {"label": ["pos", "neg"]}, [2, 3], ())
        >>> split, _ = labelled_rows(table, "label", ("neg", "pos"), ["good", "bad"])
        >>> split.labels.tolist(), split.index.tolist()
        ([1, 0], [1, 2])
    """
    classes = {word: i for i, word in enumerate(labels)}
    kept: list[int] = []
    skipped = list(table.skipped)
    words = named_column(table, label)
    for row, word in enumerate(words):
        if word in classes:
            kept.append(row)
            continue
        message = (
            f"{table.path}:{table.lines[row]}: expected {label} {' or '.join(labels)}, found "
            f"{word if len(word) < 40 else word[:36] + '...'!r}"
        )
        if not skip_bad_lines:
            raise DataError(message)
        skipped.append(message)
    if not kept:
        raise DataError(f"{table.path}: expected labelled rows, found none")
    numbers = np.array([classes[words[row]] for row in kept], np.int32)
    index = np.array([table.lines[row] - 1 for row in kept], int)
    return TextSplit(([texts[row] for row in kept],), numbers, index), tuple(skipped)
