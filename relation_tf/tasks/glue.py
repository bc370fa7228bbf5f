"""Rows of GLUE's files, in the official `glue_data` layout.

Requirements of the leaderboard (label words, rows, metrics) are in `glue_submit.TASKS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from relation_tf.errors import DataError, quote
from relation_tf.tasks.readers import (
    ReadText,
    labelled_rows,
    named_column,
    numbered,
    split_reader,
    table_rows,
)
from relation_tf.tasks.tables import read_tsv
from relation_tf.tasks.task import Task, TextSplit


def glue_reader(columns: Sequence[str] | None = None) -> ReadText:
    """Return a reader of a task's files.

    Args:
        columns: Columns of labelled files without a header, such as those of CoLA.
    """
    read_rows = table_rows(read_tsv, columns)

    def rows(task: Task, path: Path, skipped: list[str] | None) -> TextSplit:
        return numbered(read_rows(task, path, skipped), 0)  # as the leaderboard does

    return split_reader(rows, answered=_answered_rows)


def _answered_rows(task: Task, path: Path) -> TextSplit:
    table = read_tsv(path)
    if "Premise" in table.columns:  # diagnostic-full.tsv has the rows of diagnostic.tsv, in order
        named = replace(task, inputs=("Premise", "Hypothesis"), label="Label")
        return numbered(labelled_rows(named, table), 0)
    # The index column is named "id" in the test file of QQP.
    index = named_column(table, "index" if "index" in table.columns else "id")
    for row, (line, word) in enumerate(zip(table.lines, index, strict=True)):
        if word != str(row):
            raise DataError(f"{path}:{line}: expected index {row}, found {quote(word)}")
    if not index:
        raise DataError(f"{path}: expected rows, found none")
    texts = tuple(named_column(table, name) for name in task.inputs)
    return TextSplit(texts, None, np.arange(len(index)))
