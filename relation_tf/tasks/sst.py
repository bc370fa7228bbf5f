r"""Reader of the trees of the Stanford Sentiment Treebank.

Each line is a tree with a class at each node. The reader uses the class of the root and the words
of the leaves in lower case. Words are unchanged: brackets are `-lrb-` and `-rrb-`, a slash is `\/`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from relation_tf.errors import DataError, quote
from relation_tf.tasks.readers import collect_rows
from relation_tf.tasks.tables import decode_record, read_records
from relation_tf.tasks.task import Task, TextSplit

_CLASSES = tuple("01234")
_NEUTRAL = 2
_LONGEST = 20_000  # limit of characters; the longest tree of the dataset has 1,000

_LEAF = re.compile(r"\([0-4] ([^ ()]+)\)")
# A leaf, or a node with two folded children, each replaced by NUL. Lines do not contain NUL.
_NODE = re.compile("\\([0-4] (?:[^ ()\0]+|\0 \0)\\)")


def tree_rows(task: Task, path: Path, skipped: list[str] | None) -> TextSplit:
    """Read a file of trees; tasks with two classes skip neutral sentences."""

    def fields(line: int, record: bytes) -> tuple[str, str]:
        tree = decode_record(path, line, record)
        if not _is_tree(tree):
            raise DataError(
                f"{path}:{line}: expected a tree such as (3 (2 so) (4 good)), found {quote(tree)}"
            )
        return tree[1], " ".join(_LEAF.findall(tree)).lower()

    trees = enumerate(read_records(path), 1)
    five = collect_rows(replace(task, labels=_CLASSES), path, trees, fields, skipped)
    if task.labels == _CLASSES:
        return five
    labels = np.asarray(five.labels)
    rows = np.flatnonzero(labels != _NEUTRAL)
    if not len(rows):
        raise DataError(f"{path}: expected trees that are not neutral, found none")
    return replace(five.take(rows), labels=(labels[rows] > _NEUTRAL).astype(np.int32))


def _is_tree(tree: str) -> bool:
    """Return True if repeated folding of leaves and nodes reduces the text to one node.

    The time is quadratic in the length, so the length is limited.
    """
    folded = int(len(tree) <= _LONGEST)
    while folded:
        tree, folded = _NODE.subn("\0", tree)
    return tree == "\0"
