"""tweets: 3,090 tweets on Covid-19 from India, of fear, sadness, anger or joy, in one file.

The set has no splits. Here 10 % of the rows, in each class, are the test set, cut as
`relation_tf.tasks.splits` says: in the order of the SHA-256 of `"2022:<line number from 0>"`, the
header being line 0, so that the same rows are tested for ever. The rest is "train", from which a
share is taken to stop the training.

References:
    Covid-19 tweets from India, published on Kaggle as `finalSentimentdata2.csv`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from relation_tf.tasks.csv_tables import read_csv
from relation_tf.tasks.labelled_tables import labelled_rows
from relation_tf.tasks.splits import cut
from relation_tf.tasks.task import Collection, FileLayout, Task, TaskText

TEST_SHARE = 0.1

_LABELS = ("fear", "sad", "anger", "joy")
_FILE = "finalSentimentdata2.csv"

TWEETS = Task(
    name="tweets",
    inputs=("text",),
    label="sentiment",
    labels=_LABELS,
    metrics=("accuracy",),
    validation=None,
    scored={"tweets": "test"},
)


def _files(task: Task, path: Path) -> dict[str, Path]:
    return {"train": path, "test": path}


def _read(task: Task, files: Mapping[str, Path], skip_bad_lines: bool) -> TaskText:
    """Malformed lines are never left out: they may be of the rows that are scored."""
    table = read_csv(files["test"])
    rows, _ = labelled_rows(task, table)
    train, test = cut(rows, TEST_SHARE, files["test"])
    return TaskText(task, {"train": train, "test": test})


COLLECTION = Collection(
    {TWEETS.name: TWEETS},
    (FileLayout("CSV", lambda task: (f"final_sentiment/{_FILE}", _FILE), _files, _read),),
    f"{_FILE}, published on Kaggle",
)
