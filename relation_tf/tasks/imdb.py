"""IMDb: 50,000 reviews of films, negative or positive.

It is read in any of three forms, looked for in this order:

- one tab-separated file a split, with a header (`id`, `label`, `rating`, `review`) and without
  quoting;
- the folder as it is published, `aclImdb/{train,test}/{neg,pos}/<id>_<rating>.txt`, one file a
  review, in the order of their ids, the negative ones first, their tabs made blanks: the rows of
  the tables;
- `imdb.npz` of Keras, whose words are lower-case and without punctuation, with
  `imdb_word_index.json` beside it (see `relation_tf.tasks.keras_archives`), in the order of Keras's
  loader. All words are kept, also the `br` of the line breaks; there is no start token unless a
  suite asks for one.

The reviews of the first two are raw: of their HTML the line break, `<br />`, is in most of them and
is no word, so a space stands in its place. All else is left as it is.

There is no split that stops the training: a share of the training rows does.

References:
    Maas et al. 2011, "Learning Word Vectors for Sentiment Analysis" (ACL).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from relation_tf.errors import DataError
from relation_tf.tasks.keras_archives import archive_files, keras_orders, read_archive
from relation_tf.tasks.labelled_tables import labelled_rows, named_column
from relation_tf.tasks.tables import decode_record, read_tsv
from relation_tf.tasks.task import Collection, FileLayout, Task, TaskText, TextSplit

_LABELS = ("neg", "pos")
_LINE_BREAK = "<br />"
_REVIEW = re.compile(r"(\d{1,9})_\d{1,2}\.txt", re.ASCII)

IMDB = Task(
    name="IMDb",
    inputs=("review",),
    label="label",
    labels=_LABELS,
    metrics=("accuracy",),
    validation=None,
    scored={"IMDb": "test"},
)


def clean_review(text: str) -> str:
    """Return a review without its HTML line breaks.

    In place of each `<br />` a space is written; all else is left as it is.

    Args:
        text: The review as it is published.

    Returns:
        The text of the review.

    Example:
        >>> clean_review("A film.<br /><br />Truly.")
        'A film.  Truly.'
    """
    return text.replace(_LINE_BREAK, " ")


def _table_files(task: Task, train: Path) -> dict[str, Path]:
    return {"train": train, "test": train.with_name("test.tsv")}


def _read_tables(task: Task, files: Mapping[str, Path], skip_bad_lines: bool) -> TaskText:
    train, skipped = _table_rows(files["train"], skip_bad_lines)
    test, _ = _table_rows(files["test"], skip_bad_lines=False)
    return TaskText(task, {"train": train, "test": test}, skipped)


def _table_rows(path: Path, skip_bad_lines: bool) -> tuple[TextSplit, tuple[str, ...]]:
    table = read_tsv(path, skip_bad_lines=skip_bad_lines)
    texts = [clean_review(text) for text in named_column(table, "review")]
    return labelled_rows(IMDB, table, [texts], skip_bad_lines=skip_bad_lines)


def _folder_files(task: Task, folder: Path) -> dict[str, Path]:
    """The folders that are read: `train` has another, of unlabelled reviews."""
    parts = [f"{split}/{label}" for split in ("train", "test") for label in _LABELS]
    return {part: folder / part for part in parts}


def _read_folders(task: Task, files: Mapping[str, Path], skip_bad_lines: bool) -> TaskText:
    train, skipped = _folder_rows(files, "train", skip_bad_lines)
    test, _ = _folder_rows(files, "test", skip_bad_lines=False)
    return TaskText(task, {"train": train, "test": test}, skipped)


def _folder_rows(
    files: Mapping[str, Path], split: str, skip_bad_lines: bool
) -> tuple[TextSplit, tuple[str, ...]]:
    reviews: list[tuple[int, Path]] = []
    skipped: list[str] = []
    for number, label in enumerate(_LABELS):
        paths, messages = _reviews(files[f"{split}/{label}"], skip_bad_lines)
        reviews += [(number, path) for path in paths]
        skipped += messages
    texts: list[str] = []
    labels: list[int] = []
    index: list[int] = []
    for row, (number, path) in enumerate(reviews, 1):  # as the tables count after their header
        try:
            texts.append(_review(path))
        except DataError as error:
            if not skip_bad_lines:
                raise
            skipped.append(str(error))
            continue
        labels.append(number)
        index.append(row)
    if not texts:
        raise DataError(f"{files[f'{split}/{_LABELS[0]}'].parent}: expected reviews, found none")
    return TextSplit((texts,), np.array(labels, np.int32), np.array(index, int)), tuple(skipped)


def _reviews(folder: Path, skip_bad_lines: bool) -> tuple[list[Path], list[str]]:
    """The files of a folder in the order of their ids, and a message for each left out."""
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
    return [path for _, path in sorted(numbered)], skipped


def _review(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    return clean_review(decode_record(path, 1, data).replace("\t", " "))


def _archive_files(task: Task, archive: Path) -> dict[str, Path]:
    return archive_files(archive)


def _read_keras(task: Task, files: Mapping[str, Path], skip_bad_lines: bool) -> TaskText:
    arrays = {split: (f"x_{split}", f"y_{split}") for split in ("train", "test")}
    splits, notes = read_archive(files, arrays, len(_LABELS))
    orders = keras_orders(*map(len, splits.values()))
    splits = {name: splits[name].take(order) for name, order in zip(splits, orders, strict=True)}
    return TaskText(task, splits, notes=notes, spaced=True)


COLLECTION = Collection(
    {IMDB.name: IMDB},
    (
        FileLayout(
            "TSV", lambda task: ("imdb/train.tsv", "IMDb/train.tsv"), _table_files, _read_tables
        ),
        FileLayout(
            "folders", lambda task: ("aclImdb", "imdb/aclImdb"), _folder_files, _read_folders
        ),
        FileLayout(
            "Keras archive", lambda task: ("imdb/imdb.npz", "imdb.npz"), _archive_files, _read_keras
        ),
    ),
    "the Large Movie Review Dataset of Maas et al. 2011 (ai.stanford.edu/~amaas/data/sentiment)",
)
