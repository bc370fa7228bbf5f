r"""Datasets declared in `datasets.toml`: columns, classes, files, splits and readers.

GLUE: the nine tasks with training data, in the official `glue_data` layout, see
`relation_tf.tasks.glue`. MNLI is one network with two dev sets. MNLI-m and MNLI-mm are two networks
that are trained on the same rows; each stops on its own dev set, and MNLI-m answers AX.

MR, CR, SUBJ, MPQA: sentences and phrases of two classes, one file each. The datasets have no
official splits (papers use cross-validation). Here 10 % of the rows of each class are the test set,
chosen by the SHA-256 of `"2022:<line number from 0>"`, see `relation_tf.tasks.splits`. The test
rows are always the same. The other rows are "train".

FDU-MTL: reviews of 16 domains, positive or negative. The authors used 200 unmarked rows of each
training file for validation; these rows are unknown. Here "dev" has 200 rows of the training file,
stratified by class and chosen in the same way.

IMDb: 50,000 film reviews, negative or positive. Two formats are searched in this order: one
tab-separated file per split, with a header (`id`, `label`, `rating`, `review`) and without quoting;
and the published folder, see `relation_tf.tasks.imdb`.

AG News: news about the world, sports, business and science. The text is title and description,
joined by a space. Artifacts of the source (` #39;`, `&lt;`, backslashes for line breaks) are kept,
as in other work. If `train.csv` is missing, `train_sample.csv` next to it is used: some of the
rows. A note then says that results are not comparable with published results.

Yelp Full: reviews with one to five stars, without escapes, see `relation_tf.tasks.yelp`. If the
full dataset is missing, two small files with 1,000 reviews each are used, with a note.

tweets: 3,090 tweets on Covid-19 from India (fear, sadness, anger or joy) in one file. The test set
is chosen as for MR; the header is line 0.

Reuters: see `relation_tf.tasks.reuters`. WikiText headers: see `relation_tf.tasks.wikitext`.

SST-2-sentences: sentences of film reviews, positive or negative, without neutral ones. Test rows
have labels; GLUE's SST-2 also trains on phrases, and its test labels are not public. The text is
lower-case, as in the files of Kim 2014.

If a dataset has no validation split, a share of the training rows is used.

References:
    MR: Pang and Lee 2005, "Seeing stars" (ACL). SUBJ: Pang and Lee 2004, "A Sentimental Education"
    (ACL). CR: Hu and Liu 2004, "Mining and Summarizing Customer Reviews" (KDD). MPQA: Wiebe, Wilson
    and Cardie 2005, "Annotating Expressions of Opinions and Emotions in Language" (LREV 39).
    FDU-MTL: Liu, Qiu and Huang 2017, "Adversarial Multi-task Learning for Text Classification"
    (ACL). IMDb: Maas et al. 2011, "Learning Word Vectors for Sentiment Analysis" (ACL). AG News,
    Yelp: Zhang, Zhao and LeCun 2015, "Character-level Convolutional Networks for Text
    Classification" (NIPS). tweets: published on Kaggle as `finalSentimentdata2.csv`. SST: Socher
    et al. 2013, "Recursive Deep Models for Semantic Compositionality Over a Sentiment Treebank"
    (EMNLP).
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib import resources
from typing import Any

import glue_submit
from relation_tf.tasks import imdb, reuters, wikitext, yelp
from relation_tf.tasks.glue import glue_reader
from relation_tf.tasks.readers import (
    ReadRows,
    ReadText,
    line_rows,
    split_reader,
    table_rows,
)
from relation_tf.tasks.tables import read_csv, read_tsv
from relation_tf.tasks.task import Dataset, FileLayout, Task

_SPLITTING = ("held_out", "note", "spaced")  # options of `split_reader`
_PLACES = ("files", "folders", "first", "optional", "labelled")  # of `FileLayout`


def join_title(title: str, description: str) -> str:
    """Return the text of a row of AG News.

    Example:
        >>> join_title("Oil falls", "Prices fell again.")
        'Oil falls Prices fell again.'
    """
    # Where a sample of the rows has no titles, they are part of its descriptions.
    return f"{title} {description}".strip()


TEXTS: Mapping[str, Callable[..., str]] = {
    "news": join_title,
    "review": imdb.clean_review,
    "yelp": yelp.unescape,
}
"""Functions that build the text of a row, by their name in `datasets.toml`."""

_ROWS: Mapping[str, Callable[..., ReadRows]] = {
    "lines": line_rows,
    "tsv": partial(table_rows, read_tsv),
    "csv": partial(table_rows, read_csv),
    "Yelp sample": lambda: yelp.sample_rows,
    "WikiText headers": lambda: wikitext.header_rows,
}
_WHOLE: Mapping[str, ReadText] = {
    "IMDb folders": imdb.read_folders,
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


def _layout(name: str, reader: str, **options: Any) -> FileLayout:
    places = {key: options.pop(key) for key in _PLACES if key in options}
    return FileLayout(name, _reader(reader, options), **places)


def _dataset(
    name: str,
    layout: list[dict[str, Any]],
    obtain: str,
    labels: int | list[str] | None = None,
    inputs: Sequence[str] = ("text",),
    label: str = "label",
    validation: str | None = None,
    scored: Mapping[str, str] | None = None,
    diagnostics: Sequence[str] = (),
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
        diagnostics={each: glue_submit.TASKS[each].metrics for each in diagnostics},
        **fields,
    )
    own = [keys for keys in layout if name in keys.pop("tasks", (name,))]
    return Dataset(task, tuple(_layout(**keys) for keys in own), obtain)


def _declared() -> Iterator[Dataset]:
    path = resources.files("relation_tf.tasks") / "datasets.toml"
    declared = tomllib.loads(path.read_text("utf-8"))
    for own in declared["dataset"]:
        declaration = {**declared["shared"].get(own.pop("like", ""), {}), **own}
        for name, file in declaration.pop("each").items():
            yield _dataset(name, **json.loads(json.dumps(declaration).replace("$file", file)))


DATASETS: tuple[Dataset, ...] = tuple(_declared())


def counted_as(task: str) -> str:
    """Return the name under which a trained task counts over tasks: MNLI for MNLI-m and MNLI-mm.

    Example:
        >>> counted_as("MNLI-mm"), counted_as("IMDb")
        ('MNLI', 'IMDb')
    """
    return glue_submit.TASKS[task].trained_on if task in glue_submit.TASKS else task


def counted_once(tasks: Iterable[str]) -> dict[str, list[str]]:
    """Return trained tasks by the name under which they count over tasks, their own if alone.

    Example:
        >>> counted_once(["MNLI-m", "RTE", "MNLI-mm"])
        {'MNLI': ['MNLI-m', 'MNLI-mm'], 'RTE': ['RTE']}
    """
    found: dict[str, list[str]] = {}
    for task in tasks:
        found.setdefault(counted_as(task), []).append(task)
    return {name if len(own) > 1 else own[0]: own for name, own in found.items()}


GLUE: Mapping[str, Task] = {
    each.task.name: each.task
    for each in DATASETS
    if each.task.answered and each.task.name == counted_as(each.task.name)
}
"""The nine GLUE tasks with training data; MNLI is one network."""
