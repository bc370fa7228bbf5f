"""FDU-MTL: reviews of 16 domains, positive or negative.

The authors took 200 rows of each domain's training file to stop the training and did not mark them.
The files are shuffled (labels follow in no order), so it does not show which rows these were. Here
"dev" is 200 rows, in each class in proportion, cut from the training file as
`relation_tf.tasks.splits` says: in the order of the SHA-256 of `"2022:<line number from 0>"`.

References:
    Liu, Qiu and Huang 2017, "Adversarial Multi-task Learning for Text Classification" (ACL).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from relation_tf.errors import DataError
from relation_tf.tasks.labelled_lines import read_labelled_lines
from relation_tf.tasks.splits import cut
from relation_tf.tasks.task import Collection, FileLayout, Task, TaskText

DEV_ROWS = 200
DOMAINS = (
    "apparel",
    "baby",
    "books",
    "camera_photo",
    "dvd",
    "electronics",
    "health_personal_care",
    "imdb",
    "kitchen_housewares",
    "magazines",
    "MR",
    "music",
    "software",
    "sports_outdoors",
    "toys_games",
    "video",
)

_PREFIX = "fdu-"
_LABELS = ("0", "1")

REVIEWS: dict[str, Task] = {
    name: Task(
        name=name,
        inputs=("text",),
        label="label",
        labels=_LABELS,
        metrics=("accuracy",),
        validation="dev",
        scored={name: "test"},
    )
    for name in (_PREFIX + domain for domain in DOMAINS)
}


def _places(task: Task) -> tuple[str, ...]:
    file = f"{task.name.removeprefix(_PREFIX)}.task.train"
    return f"fdu_mtl/{file}", file


def _files(task: Task, train: Path) -> dict[str, Path]:
    return {"train": train, "dev": train, "test": train.with_suffix(".test")}


def _read(task: Task, files: Mapping[str, Path], skip_bad_lines: bool) -> TaskText:
    rows, skipped = read_labelled_lines(
        files["train"], _LABELS, "\t", skip_bad_lines=skip_bad_lines
    )
    if len(rows) <= DEV_ROWS:
        raise DataError(
            f"{files['train']}: expected more than {DEV_ROWS} rows, so many of which stop the "
            f"training, found {len(rows)}"
        )
    train, dev = cut(rows, DEV_ROWS)
    test, _ = read_labelled_lines(files["test"], _LABELS, "\t")
    return TaskText(task, {"train": train, "dev": dev, "test": test}, skipped)


COLLECTION = Collection(
    REVIEWS,
    (FileLayout("lines", _places, _files, _read),),
    "FDU-MTL of Liu, Qiu and Huang 2017, <domain>.task.train and <domain>.task.test",
)
