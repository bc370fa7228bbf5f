"""Reader of the published IMDb folder.

The folder is `aclImdb/{train,test}/{neg,pos}/<id>_<rating>.txt`, one file per review. Files are
read in the order of their ids, negative reviews first. Tabs become spaces, so rows are equal to
those of the tables. The HTML line break `<br />` is replaced by a space; other text is unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from relation_tf.errors import DataError
from relation_tf.tasks.readers import collect_rows
from relation_tf.tasks.tables import decode_record, readable
from relation_tf.tasks.task import Task, TaskText

LABELS = ("neg", "pos")

_LINE_BREAK = "<br />"
_REVIEW = re.compile(r"(\d{1,9})_\d{1,2}\.txt", re.ASCII)


def clean_review(text: str) -> str:
    """Replace each HTML line break (`<br />`) of a review by a space.

    Args:
        text: Published text of the review.

    Returns:
        The text of the review.

    Example:
        >>> clean_review("A film.<br /><br />Truly.")
        'A film.  Truly.'
    """
    return text.replace(_LINE_BREAK, " ")


def read_folders(task: Task, files: Mapping[str, Path], skip_bad_lines: bool) -> TaskText:
    """Read the published folders, such as `train/neg`."""
    splits = {}
    skipped: list[str] = []
    for split in ("train", "test"):
        paths = sorted((path for word in LABELS for path in _reviews(files[f"{split}/{word}"])),
                       key=_place)  # fmt: skip
        splits[split] = collect_rows(
            task,
            files[f"{split}/{LABELS[0]}"].parent,
            enumerate(paths, 2),  # line numbers of the tables, which have a header
            _label_and_review,
            skipped if skip_bad_lines and split == "train" else None,
        )
    return TaskText(task, splits, tuple(skipped))


def _reviews(folder: Path) -> list[Path]:
    with readable(folder):
        paths = [*folder.iterdir()]
    if not any(_REVIEW.fullmatch(path.name) for path in paths):
        raise DataError(f"{folder}: expected reviews named <id>_<rating>.txt, found none")
    return paths


def _place(path: Path) -> tuple[bool, str, int, str]:
    """Return the sort key of reviews (class, then id); other files come last."""
    name = _REVIEW.fullmatch(path.name)
    return name is None, path.parent.name, int(name[1]) if name else 0, path.name


def _label_and_review(_: int, path: Path) -> tuple[str, str]:
    if not _REVIEW.fullmatch(path.name):
        raise DataError(
            f"{path}: expected a review named <id>_<rating>.txt, found {path.name!r:.40}"
        )
    with readable(path):
        review = decode_record(path, 1, path.read_bytes())
    return path.parent.name, clean_review(review.replace("\t", " "))
