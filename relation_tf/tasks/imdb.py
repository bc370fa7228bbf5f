"""IMDb: 50,000 reviews of films, negative or positive.

The set is published as one file a review; here it is read from one tab-separated file a split, with
a header (`id`, `label`, `rating`, `review`) and without quoting. The reviews are raw: of their HTML
the line break, `<br />`, is in most of them and is no word, so a space stands in its place. All
else is left as it is.

There is no split that stops the training: a share of the training rows does.

References:
    Maas et al. 2011, "Learning Word Vectors for Sentiment Analysis" (ACL).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from relation_tf.tasks.files import find_path
from relation_tf.tasks.labelled_tables import labelled_rows, named_column
from relation_tf.tasks.task import Collection, Task, TaskText, TextSplit
from relation_tf.tasks.tsv import read_tsv

_LABELS = ("neg", "pos")
_LINE_BREAK = "<br />"

IMDB = Task(
    name="IMDb",
    inputs=("review",),
    label="label",
    labels=_LABELS,
    metrics=("accuracy",),
    validation=None,
    scored={"IMDb": "test"},
)


def _find(task: Task, data: Path | None) -> dict[str, Path]:
    train = find_path(task.name, data, "imdb/train.tsv", "IMDb/train.tsv")
    return {"train": train, "test": train.with_name("test.tsv")}


def _read(task: Task, files: Mapping[str, Path], skip_bad_lines: bool) -> TaskText:
    train, skipped = _rows(files["train"], skip_bad_lines)
    test, _ = _rows(files["test"], skip_bad_lines=False)
    return TaskText(task, {"train": train, "test": test}, skipped)


def _rows(path: Path, skip_bad_lines: bool) -> tuple[TextSplit, tuple[str, ...]]:
    table = read_tsv(path, skip_bad_lines=skip_bad_lines)
    texts = [text.replace(_LINE_BREAK, " ") for text in named_column(table, "review")]
    return labelled_rows(table, "label", _LABELS, texts, skip_bad_lines=skip_bad_lines)


COLLECTION = Collection({IMDB.name: IMDB}, _find, _read)
