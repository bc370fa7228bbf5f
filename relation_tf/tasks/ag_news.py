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
from relation_tf.tasks.labelled_tables import labelled_rows
from relation_tf.tasks.task import Collection, FileLayout, Task, TaskText, TextSplit

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


def join_title(title: str, description: str) -> str:
    """The text of a row.

    Example:
        >>> join_title("Oil falls", "Prices fell again.")
        'Oil falls Prices fell again.'
    """
    # Where a sample of the rows has no titles, they are part of its descriptions.
    return f"{title} {description}".strip()


def _files(task: Task, train: Path) -> dict[str, Path]:
    return {"train": train, "test": train.with_name("test.csv")}


def _read(task: Task, files: Mapping[str, Path], skip_bad_lines: bool) -> TaskText:
    train, skipped = _rows(files["train"], skip_bad_lines)
    test, _ = _rows(files["test"], skip_bad_lines=False)
    note = f"trained on a sample of {len(train):,} of 120,000 rows ({files['train'].name})"
    notes = () if files["train"].name == "train.csv" else (note,)
    return TaskText(task, {"train": train, "test": test}, skipped, notes)


def _rows(path: Path, skip_bad_lines: bool) -> tuple[TextSplit, tuple[str, ...]]:
    table = read_csv(path, _COLUMNS, skip_bad_lines=skip_bad_lines)
    texts = list(map(join_title, table.columns["title"], table.columns["description"]))
    return labelled_rows(AG_NEWS, table, [texts], skip_bad_lines=skip_bad_lines)


_PLACES = ("ag_news_csv/train.csv", "ag_news_csv/train_sample.csv")

COLLECTION = Collection(
    {AG_NEWS.name: AG_NEWS},
    (FileLayout("CSV", lambda task: _PLACES, _files, _read),),
    "ag_news_csv of Zhang, Zhao and LeCun 2015",
)
