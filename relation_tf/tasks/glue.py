"""Rows of GLUE's files, in the official `glue_data` layout.

Requirements of the leaderboard (label words, rows, metrics) are in `glue_submit.TASKS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from relation_tf.tasks.readers import (
    ReadText,
    answered_rows,
    labelled_rows,
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
    index = "index" if "index" in table.columns else "id"
    return answered_rows(table, index, task.inputs)
