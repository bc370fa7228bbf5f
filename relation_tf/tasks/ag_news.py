r"""AG News: news of the world, of sports, of business and of science, by title and description.

Title and description are one text, a space between them. Leftovers of the source (` #39;`, `&lt;`,
backslashes that stand for line breaks) are left in it, as in other work on the set.

Where the whole `train.csv` is not there, `train_sample.csv` beside it is the training set: some of
its rows. A result on it is not comparable with published ones, and a note says so.

There is no split that stops the training: a share of the training rows does.

References:
    Zhang, Zhao and LeCun 2015, "Character-level Convolutional Networks for Text Classification"
    (NIPS).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from relation_tf.tasks.csv_tables import read_csv
from relation_tf.tasks.files import find_path
from relation_tf.tasks.labelled_tables import labelled_rows
from relation_tf.tasks.task import Collection, Task, TaskText, TextSplit

# World, sports, business, and science and technology.
_LABELS = ("1", "2", "3", "4")
_COLUMNS = ("class", "title", "description")

AG_NEWS = Task(
    name="AG-News",
    inputs=("text",),
    label="class",
    labels=_LABELS,
    metrics=("accuracy",),
    validation=None,
    scored={"AG-News": "test"},
)


def _find(task: Task, data: Path | None) -> dict[str, Path]:
    train = find_path(task.name, data, "ag_news_csv/train.csv", "ag_news_csv/train_sample.csv")
    return {"train": train, "test": train.with_name("test.csv")}


def _read(task: Task, files: Mapping[str, Path], skip_bad_lines: bool) -> TaskText:
    train, skipped = _rows(files["train"], skip_bad_lines)
    test, _ = _rows(files["test"], skip_bad_lines=False)
    note = f"trained on a sample of {len(train):,} of 120,000 rows ({files['train'].name})"
    notes = () if files["train"].name == "train.csv" else (note,)
    return TaskText(task, {"train": train, "test": test}, skipped, notes)


def _rows(path: Path, skip_bad_lines: bool) -> tuple[TextSplit, tuple[str, ...]]:
    table = read_csv(path, _COLUMNS, skip_bad_lines=skip_bad_lines)
    pairs = zip(table.columns["title"], table.columns["description"], strict=True)
    # The sample has no titles: they are part of its descriptions.
    texts = [f"{title} {description}".strip() for title, description in pairs]
    return labelled_rows(table, "class", _LABELS, texts, skip_bad_lines=skip_bad_lines)


COLLECTION = Collection({AG_NEWS.name: AG_NEWS}, _find, _read)
