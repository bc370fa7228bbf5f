"""The published folder of IMDb, and its archive of Keras.

The folder is `aclImdb/{train,test}/{neg,pos}/<id>_<rating>.txt`, one file a review, read in the
order of their ids, the negative ones first, their tabs made spaces: the rows of the tables. The
reviews are raw: of their HTML the line break, `<br />`, is in most of them and is no word, so a
space replaces it. All else is left as it is.

The words of Keras's archive are lower-case and without punctuation, see
`relation_tf.tasks.keras_archives`. All words are kept, also the `br` of the line breaks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from relation_tf.errors import DataError
from relation_tf.tasks.keras_archives import keras_orders, read_archive
from relation_tf.tasks.readers import collect_rows
from relation_tf.tasks.tables import decode_record
from relation_tf.tasks.task import Task, TaskText

LABELS = ("neg", "pos")

_LINE_BREAK = "<br />"
_REVIEW = re.compile(r"(\d{1,9})_\d{1,2}\.txt", re.ASCII)


def clean_review(text: str) -> str:
    """Return a review without its HTML line breaks.

    Each `<br />` is replaced by a space; all else is left as it is.

    Args:
        text: The review as it is published.

    Returns:
        The text of the review.

    Example:
        >>> clean_review("A film.<br /><br />Truly.")
        'A film.  Truly.'
    """
    return text.replace(_LINE_BREAK, " ")


def read_folders(task: Task, files: Mapping[str, Path], skip_bad_lines: bool) -> TaskText:
    """Read the published folders, `train/neg` and so on."""
    splits = {}
    skipped: tuple[str, ...] = ()
    for split in ("train", "test"):
        skip = skip_bad_lines and split == "train"
        reviews: list[tuple[int, Path]] = []
        for label, word in enumerate(LABELS):
            paths, messages = _reviews(files[f"{split}/{word}"], skip)
            reviews += [(label, path) for path in paths]
            skipped += messages
        splits[split], messages = collect_rows(
            enumerate(reviews, 1),  # as the tables count after their header
            lambda row, review: (_review(review[1]), review[0]),
            files[f"{split}/{LABELS[0]}"].parent,
            expected="reviews",
            skip_bad_lines=skip,
        )
        skipped += messages
    return TaskText(task, splits, skipped)


def _reviews(folder: Path, skip_bad_lines: bool) -> tuple[list[Path], tuple[str, ...]]:
    """Return the files of a folder in the order of their ids, and messages on those left out."""
    numbered: list[tuple[int, Path]] = []
    skipped: list[str] = []
    try:
        paths = sorted(folder.iterdir())
    except OSError as error:
        raise DataError(f"{folder}: cannot be read: {error.strerror}") from error
    for path in paths:
        name = _REVIEW.fullmatch(path.name)
        if name:
            numbered.append((int(name[1]), path))
            continue
        message = f"{path}: expected a review named <id>_<rating>.txt, found {path.name!r:.40}"
        if not skip_bad_lines:
            raise DataError(message)
        skipped.append(message)
    if not numbered:
        raise DataError(f"{folder}: expected reviews named <id>_<rating>.txt, found none")
    return [path for _, path in sorted(numbered)], tuple(skipped)


def _review(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    return clean_review(decode_record(path, 1, data).replace("\t", " "))


def read_keras(task: Task, files: Mapping[str, Path], skip_bad_lines: bool) -> TaskText:
    """Read the archive, its rows in the order of Keras's loader."""
    arrays = {split: (f"x_{split}", f"y_{split}") for split in ("train", "test")}
    splits, notes = read_archive(files, arrays, len(LABELS))
    orders = keras_orders(*map(len, splits.values()))
    splits = {name: splits[name].take(order) for name, order in zip(splits, orders, strict=True)}
    return TaskText(task, splits, notes=notes, spaced=True)
