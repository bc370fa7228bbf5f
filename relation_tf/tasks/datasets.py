r"""Datasets, as `datasets.toml` declares them: columns, classes, files, splits and readers.

GLUE: its nine trained tasks, in the official `glue_data` layout, see `relation_tf.tasks.glue`.

MR, CR, SUBJ, MPQA: sentences and phrases of two classes, one file each. The sets have no splits of
their own (papers on them cross-validate). Here 10 % of the rows, in each class, are the test set,
cut as `relation_tf.tasks.splits` says: in the order of the SHA-256 of
`"2022:<line number from 0>"`, so that the test rows are always the same. The rest is "train".

FDU-MTL: reviews of 16 domains, positive or negative. The authors took 200 rows of each domain's
training file as validation rows and did not mark them. The files are shuffled (labels follow in no
order), so it does not show which rows these were. Here "dev" is 200 rows, in each class in
proportion, cut from the training file in the same way.

IMDb: 50,000 reviews of films, negative or positive, in any of three forms, looked for in this
order: one tab-separated file a split, with a header (`id`, `label`, `rating`, `review`) and without
quoting; the folder as it is published, see `relation_tf.tasks.imdb`; and `imdb.npz` of Keras with
`imdb_word_index.json` next to it, see `relation_tf.tasks.keras_archives`.

AG News: news of the world, of sports, of business and of science, by title and description. Title
and description are one text, a space between them. Leftovers of the source (` #39;`, `&lt;`,
backslashes that stand for line breaks) are left in it, as in other work on the set. Where the whole
`train.csv` is not there, `train_sample.csv` next to it is the training set: some of its rows. A
result on it is not comparable with published ones, and a note says so.

Yelp Full: reviews with one to five stars, their escapes undone, see `relation_tf.tasks.yelp`. Where
the whole set is not there, two small files of 1,000 reviews each are read, with a note.

tweets: 3,090 tweets on Covid-19 from India, of fear, sadness, anger or joy, in one file. The test
set is cut as that of MR; the header is line 0.

Reuters: see `relation_tf.tasks.reuters`. WikiText headers: see `relation_tf.tasks.wikitext`.

TREC: questions by what they ask for. TREC has six classes: description, entity, abbreviation,
human, location, number. TREC-fine has the fifty into which they are divided, such as `NUM:date`.
The file as published gives both with each question; another form of it has the number of the class
alone, and the same questions in the same order. Either of them makes the same rows of TREC.

SST: sentences of film reviews. SST-1 has five classes from very negative to very positive,
SST-2-sentences the two that are left without the neutral sentences. Both have whole sentences and
labelled test rows; GLUE's SST-2 trains on phrases as well, and its test labels are not public. The
set is published as trees, see `relation_tf.tasks.sst`; another form has the same sentences written
out, in lower case and in another order. Both make the same rows, but a share of the training rows
is not the same rows of both.

Where there is no validation split, a share of the training rows is taken.

References:
    MR: Pang and Lee 2005, "Seeing stars" (ACL). SUBJ: Pang and Lee 2004, "A Sentimental Education"
    (ACL). CR: Hu and Liu 2004, "Mining and Summarizing Customer Reviews" (KDD). MPQA: Wiebe, Wilson
    and Cardie 2005, "Annotating Expressions of Opinions and Emotions in Language" (LREV 39).
    FDU-MTL: Liu, Qiu and Huang 2017, "Adversarial Multi-task Learning for Text Classification"
    (ACL). IMDb: Maas et al. 2011, "Learning Word Vectors for Sentiment Analysis" (ACL). AG News,
    Yelp: Zhang, Zhao and LeCun 2015, "Character-level Convolutional Networks for Text
    Classification" (NIPS). tweets: published on Kaggle as `finalSentimentdata2.csv`. TREC: Li and
    Roth 2002, "Learning Question Classifiers" (COLING). SST: Socher et al. 2013, "Recursive Deep
    Models for Semantic Compositionality Over a Sentiment Treebank" (EMNLP).
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import glue_submit
from relation_tf.tasks import imdb, reuters, sst, wikitext, yelp
from relation_tf.tasks.glue import glue_reader
from relation_tf.tasks.readers import (
    ReadRows,
    ReadText,
    line_rows,
    read_labelled_lines,
    split_reader,
    table_rows,
)
from relation_tf.tasks.tables import read_csv, read_tsv
from relation_tf.tasks.task import Dataset, FileLayout, Task, TextSplit

_SPLITTING = ("held_out", "note", "spaced")  # options of `split_reader`


def join_title(title: str, description: str) -> str:
    """Return the text of a row of AG News.

    Example:
        >>> join_title("Oil falls", "Prices fell again.")
        'Oil falls Prices fell again.'
    """
    # Where a sample of the rows has no titles, they are part of its descriptions.
    return f"{title} {description}".strip()


def _coarse_rows(task: Task, path: Path, skipped: list[str] | None) -> TextSplit:
    """Read TREC's fifty classes as the six."""
    fine = next(each.task.labels for each in DATASETS if each.task.name == "TREC-fine") or ()
    words = {word: word.partition(":")[0] for word in fine}
    return read_labelled_lines(task, path, words, skipped=skipped)


TEXTS: Mapping[str, Callable[..., str]] = {
    "news": join_title,
    "review": imdb.clean_review,
    "yelp": yelp.unescape,
}
"""Functions that make the text of a row, by the name that declarations use."""

_ROWS: Mapping[str, Callable[..., ReadRows]] = {
    "lines": line_rows,
    "tsv": partial(table_rows, read_tsv),
    "csv": partial(table_rows, read_csv),
    "coarse lines": lambda: _coarse_rows,
    "Yelp sample": lambda: yelp.sample_rows,
    "SST trees": lambda: sst.tree_rows,
    "WikiText headers": lambda: wikitext.header_rows,
}
_WHOLE: Mapping[str, ReadText] = {
    "IMDb folders": imdb.read_folders,
    "IMDb archive": imdb.read_keras,
    "Reuters archive": reuters.read_keras,
    "Reuters SGML": reuters.read_sgml,
}


def _reader(name: str, options: dict[str, Any]) -> ReadText:
    if name == "GLUE":
        return glue_reader(**options)
    if name in _WHOLE:
        return _WHOLE[name]
    if "text" in options:
        options["text"] = TEXTS[options["text"]]
    splitting = {key: options.pop(key) for key in _SPLITTING if key in options}
    return split_reader(_ROWS[name](**options), **splitting)


def _layout(
    name: str,
    reader: str,
    files: Mapping[str, str],
    folders: list[str],
    first: str = "",
    optional: tuple[str, ...] = (),
    **options: Any,
) -> FileLayout:
    return FileLayout(name, _reader(reader, options), files, tuple(folders), first, tuple(optional))


def _dataset(
    name: str,
    layout: list[dict[str, Any]],
    obtain: str,
    labels: int | list[str] | None = None,
    inputs: Sequence[str] = ("text",),
    label: str = "label",
    validation: str | None = None,
    scored: Mapping[str, str] | None = None,
    **fields: Any,
) -> Dataset:
    words = [*map(str, range(labels))] if isinstance(labels, int) else labels
    scored = scored or {name: "test"}
    official = glue_submit.TASKS[next(iter(scored))] if labels is None else None
    task = Task(
        name=name,
        inputs=tuple(inputs),
        label=label,
        labels=official.labels if official else tuple(words or ()),
        metrics=official.metrics if official else ("accuracy",),
        validation=validation,
        scored=scored,
        **fields,
    )
    own = [keys for keys in layout if name in keys.pop("tasks", (name,))]
    return Dataset(task, tuple(_layout(**keys) for keys in own), obtain)


def _declared() -> Iterator[Dataset]:
    path = resources.files("relation_tf.tasks") / "datasets.toml"
    for declaration in tomllib.loads(path.read_text("utf-8"))["dataset"]:
        for name, file in declaration.pop("each").items():
            yield _dataset(name, **json.loads(json.dumps(declaration).replace("$file", file)))


DATASETS: tuple[Dataset, ...] = tuple(_declared())

GLUE: Mapping[str, Task] = {
    dataset.task.name: dataset.task for dataset in DATASETS if dataset.task.answered
}
"""The nine trained tasks of GLUE."""
