r"""Datasets declared in `datasets.toml`: columns, classes, files, splits, and their readers.

GLUE: the nine tasks with training data, in the official `glue_data` layout. MNLI is one network
with two dev sets. MNLI-m and MNLI-mm are two networks that are trained on the same rows; each stops
on its own dev set, and MNLI-m answers AX. Requirements of the leaderboard (label words, rows,
metrics) are in `glue_submit.TASKS`.

MR, CR, SUBJ, MPQA: sentences and phrases of two classes, one file each. The datasets have no
official splits (papers use cross-validation). Here 10 % of the rows of each class are the test set,
chosen by the SHA-256 of `"2022:<line number from 0>"`, see `cut`. The
test rows are always the same. The other rows are "train".

FDU-MTL: reviews of 16 domains, positive or negative. The authors used 200 unmarked rows of each
training file for validation; these rows are unknown. Here "dev" has 200 rows of the training file,
stratified by class and chosen in the same way.

IMDb: 50,000 film reviews, negative or positive. Two formats are searched in this order: one
tab-separated file per split, with a header (`id`, `label`, `rating`, `review`) and without quoting;
and the published folder `aclImdb/{train,test}/{neg,pos}/<id>_<rating>.txt`, one file per review.
Files are read in the order of their ids, negative reviews first. Tabs become spaces, so rows are
equal to those of the tables. The HTML line break `<br />` is replaced by a space; other text is
unchanged.

AG News: news about the world, sports, business and science. The text is title and description,
joined by a space. Artifacts of the source (` #39;`, `&lt;`, backslashes for line breaks) are kept,
as in other work. If `train.csv` is missing, `train_sample.csv` next to it is used: some of the
rows. A note then says that results are not comparable with published results.

Yelp Full: reviews with one to five stars. The texts are JSON strings (a line break is `\n`, `é` is
`\u00e9`) with quotes doubled for CSV (`\""`); the reader decodes these escapes. If the full dataset
is missing, two small files with 1,000 reviews each are used, with a note: JSON objects of
`{"ori": text, "label": "0" to "4"}`.

tweets: 3,090 tweets on Covid-19 from India (fear, sadness, anger or joy) in one file. The test set
is chosen as for MR; the header is line 0.

Reuters: newswires and their topics, see `read_sgml`. WikiText: passages of an encyclopedia and the
levels of their headers, see `header_rows`.

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

import functools
import hashlib
import itertools
import json
import mmap
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

import glue_submit
from glue_submit.tasks import NUMBER
from relation_tf.errors import DataError, join_names, quote
from relation_tf.tasks.tables import (
    Table,
    collect_table,
    decode_record,
    read_csv,
    read_records,
    read_tsv,
    readable,
)
from relation_tf.tasks.task import Dataset, FileLayout, Task, TaskText, TextSplit

# Rows of tables and labelled lines, and their division.

# Most of these files are older than UTF-8; some have lines in both encodings. Valid UTF-8 sequences
# of non-ASCII bytes are not meaningful text in Windows-1252, so UTF-8 is tried first.
_ENCODINGS = ("UTF-8", "Windows-1252")

_SEPARATORS = {" ": "a space", "\t": "a tab"}

SEED = 2022
"""Arbitrary constant; another value gives other rows."""

ReadRows = Callable[[Task, Path], TextSplit]
"""Function that reads labelled rows of a file."""

ReadText = Callable[[Task, Mapping[str, Path]], TaskText]


def split_reader(
    rows: ReadRows,
    *,
    held_out: tuple[str, float] | None = None,
    answered: Callable[[Task, Path], TextSplit] | None = None,
    note: str = "",
    spaced: bool = False,
) -> ReadText:
    """Return a function that reads a task file by file.

    Args:
        rows: Function that reads a labelled file.
        held_out: Split that is cut from the training file (see `cut`), with
            its number or share of rows.
        answered: Function that reads a file of unlabelled rows.
        note: Reason why results are not comparable with published results: a format string with the
            number of rows of each split by name, and the size of the training file as `megabytes`.
        spaced: If True, words are already separated by spaces, see `TaskText`.
    """

    def read(task: Task, files: Mapping[str, Path]) -> TaskText:
        splits: dict[str, TextSplit] = {}
        for split, path in files.items():
            if held_out is not None and split == held_out[0]:
                splits["train"], splits[split] = cut(splits["train"], held_out[1], path)
            elif answered is not None and split in task.answered.values():
                splits[split] = answered(task, path)
            else:
                splits[split] = rows(task, path)
        notes = []
        if note:
            counts = {name: len(split) for name, split in splits.items()}
            notes = [note.format(**counts, megabytes=files["train"].stat().st_size / 1e6)]
        return TaskText(task, splits, tuple(notes), spaced)

    return read


def line_rows(separator: str = " ") -> ReadRows:
    r"""Return a function that reads a file with a label and a text in each line.

    Lines are UTF-8 or else Windows-1252, and only LF ends a line. `index` is the line number, from
    0.

    Args:
        separator: Separator of label and text, a space or a tab. The text is the rest of the line
            and can be empty.

    Example:
        >>> import tempfile
        >>> from relation_tf.tasks import find_task
        >>> path = Path(tempfile.mkdtemp()) / "reviews.all"
        >>> _ = path.write_bytes(b"1 caf\xe9 , good .\n0 bad .\n")
        >>> split = line_rows()(find_task("MR"), path)
        >>> split.texts, split.labels.tolist()
        ((['café , good .', 'bad .'],), [1, 0])
    """

    def fields(task: Task, path: Path) -> Iterator[tuple[int, tuple[str, str]]]:
        for number, record in enumerate(read_records(path), 1):
            line = decode_record(path, number, record, _ENCODINGS)
            label, found, text = line.partition(separator)
            labels = task.labels or ()
            if not found or label not in labels:
                raise DataError(
                    f"{path}:{number}: expected {join_names(labels, ' or ')}, "
                    f"{_SEPARATORS[separator]} and a text, found {quote(line)}"
                )
            yield number, (label, text)

    return lambda task, path: collect_rows(task, path, fields(task, path))


def collect_rows(task: Task, path: Path, rows: Iterable[tuple[int, Sequence[str]]]) -> TextSplit:
    """Collect the rows of a task; the fields of a row are the label, then the texts."""
    return labelled_rows(task, collect_table(path, (task.label, *task.inputs), rows))


def table_rows(
    read: Callable[[Path, Sequence[str] | None], Table],
    columns: Sequence[str] | None = None,
    text: str | None = None,
    of: Sequence[str] = (),
) -> ReadRows:
    """Return a function that reads the rows of a table.

    Args:
        read: `read_tsv` or `read_csv`.
        columns: Columns of files without a header.
        text: Name in `TEXTS` of the function that builds the text of a row from the columns `of`;
            by default the texts are the columns with the names of the inputs.
        of: Columns passed to `text`.
    """

    def rows(task: Task, path: Path) -> TextSplit:
        table = read(path, columns)
        texts = text and [list(map(TEXTS[text], *map(table.column, of)))]
        return labelled_rows(task, table, texts)

    return rows


def labelled_rows(
    task: Task, table: Table, texts: Sequence[Sequence[str]] | None = None
) -> TextSplit:
    """Convert the rows of a table to texts and labels of a task.

    Args:
        task: The task, with the names of its columns and its labels.
        table: The table.
        texts: Texts of each input; by default the columns with the names of the inputs.

    Returns:
        The rows; `index` is the line number, from 0.

    Raises:
        DataError: If a column is missing, there are no rows, or a label is unknown.

    Example:
        >>> from pathlib import Path
        >>> from relation_tf.tasks import find_task
        >>> table = Table(Path("a.tsv"), {"label": ["pos", "neg"]}, [2, 3])
        >>> split = labelled_rows(find_task("IMDb"), table, texts=[["good", "bad"]])
        >>> split.labels.tolist(), split.index.tolist()
        ([1, 0], [1, 2])
    """
    if texts is None:
        texts = [*map(table.column, task.inputs)]
    words = table.column(task.label)
    if task.labels is None:
        expected = f"a number in [0, {task.maximum:g}]"
        labels: Mapping[str, float | None] = {word: _score(word, task.maximum) for word in words}
    else:
        expected = join_names([quote(label) for label in task.labels], " or ")
        labels = {word: i for i, word in enumerate(task.labels)}
    for row, word in enumerate(words):
        if labels.get(word) is None:
            place = f"{table.place(row)}: column {quote(task.label)}"
            raise DataError(f"{place}: expected {expected}, found {quote(word)}")
    if not words:
        raise DataError(f"{table.path}: expected labelled rows, found none")
    dtype = np.float32 if task.labels is None else np.int32
    numbers = np.array([labels[word] for word in words], dtype)
    return TextSplit(tuple(texts), numbers, np.array(table.lines) - 1)


def answered_rows(table: Table, index: str, inputs: Sequence[str]) -> TextSplit:
    """Return rows without labels. Predictions are numbered: no number can be missing.

    Args:
        table: The rows, in the order of their numbers.
        index: Column of the numbers, from 0.
        inputs: Columns of the texts.

    Raises:
        DataError: If there are no rows, or a number is missing.
    """
    numbers = table.column(index)
    for row, word in enumerate(numbers):
        if word != str(row):
            raise DataError(f"{table.place(row)}: expected {index} {row}, found {quote(word)}")
    if not numbers:
        raise DataError(f"{table.path}: expected rows, found none")
    return TextSplit(tuple(map(table.column, inputs)), None, np.arange(len(numbers)))


def numbered(rows: TextSplit, first: int) -> TextSplit:
    """Number the rows from `first` in their order, independent of the lines of a file."""
    return replace(rows, index=np.arange(first, first + len(rows)))


def _score(word: str, maximum: float) -> float | None:
    if not NUMBER.fullmatch(word):
        return None
    score = float(word)
    # float32, as in TFDS, gives exactly the same labels for files and TFDS.
    return float(np.float32(score) / np.float32(maximum)) if 0 <= score <= maximum else None


def cut(
    split: TextSplit, size: float, place: object = "the rows", seed: int | None = None
) -> tuple[TextSplit, TextSplit]:
    """Divide the rows of a split into two parts, stratified by class; the order is kept.

    Rows are sorted by the SHA-256 of `"<SEED>:<row number>"`, and the first rows of each class are
    taken. No random number generator is used: a file gives the same rows on every machine and with
    every NumPy release. The seed of a run has no effect unless it is given:
    `"<SEED>:<seed>:<row>"`.

    The rows taken from each class are proportional to its size (largest remainders round up; for
    equal remainders the first class). Regression scores are one class.

    Args:
        split: Labelled rows; `index` has the row numbers.
        size: Number of rows to take (`int`), or their share in (0, 1) (`float`).
        place: Origin of the rows for error messages, such as their file.
        seed: Seed of the choice; None for the rows of the package's fixed choice.

    Returns:
        The remaining rows, and the rows taken.

    Raises:
        DataError: If one of the two parts is empty.

    Example:
        >>> labels = np.array([0, 1] * 10)
        >>> rows = TextSplit(([f"text {i}" for i in range(20)],), labels, np.arange(20))
        >>> rest, taken = cut(rows, 0.2)
        >>> len(rest), taken.labels.tolist()
        (16, [0, 0, 1, 1])
    """
    count = size if isinstance(size, int) else round(size * len(split))
    if not 0 < count < len(split):
        cut_off = f"{size} rows" if isinstance(size, int) else f"a share of {size} of its rows"
        raise DataError(
            f"{place}: must have enough rows to cut off {cut_off}. Received: {len(split)} rows"
        )
    start = f"{SEED}:" if seed is None else f"{SEED}:{seed}:"
    digests = [hashlib.sha256(f"{start}{row}".encode()).digest() for row in split.index.tolist()]
    order = np.array(sorted(range(len(split)), key=digests.__getitem__))
    classes = np.zeros(len(split), int)
    if split.labels is not None and split.labels.dtype.kind != "f":
        classes = split.labels[order]
    labels, rows = np.unique(classes, return_counts=True)
    quotas, remainder = np.divmod(count * rows, len(split))
    quotas[np.argsort(-remainder, kind="stable")[: count - quotas.sum()]] += 1
    taken = np.zeros(len(split), bool)
    for label, quota in zip(labels, quotas, strict=True):
        taken[order[classes == label][:quota]] = True
    return split.take(np.flatnonzero(~taken)), split.take(np.flatnonzero(taken))


# GLUE.


def glue_reader(columns: Sequence[str] | None = None) -> ReadText:
    """Return a reader of the files of a GLUE task; CoLA's labelled files need their columns."""
    read_rows = table_rows(read_tsv, columns)
    # The leaderboard numbers rows from 0.
    return split_reader(lambda *of: numbered(read_rows(*of), 0), answered=_answered_rows)


def _answered_rows(task: Task, path: Path) -> TextSplit:
    table = read_tsv(path)
    if "Premise" in table.columns:  # diagnostic-full.tsv has the rows of diagnostic.tsv, in order
        named = replace(task, inputs=("Premise", "Hypothesis"), label="Label")
        return numbered(labelled_rows(named, table), 0)
    # The index column is named "id" in the test file of QQP.
    index = "index" if "index" in table.columns else "id"
    return answered_rows(table, index, task.inputs)


# AG News.


def join_title(title: str, description: str) -> str:
    """Return the text of a row of AG News.

    Example:
        >>> join_title("Oil falls", "Prices fell again.")
        'Oil falls Prices fell again.'
    """
    # Where a sample of the rows has no titles, they are part of its descriptions.
    return f"{title} {description}".strip()


# IMDb.

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
    return text.replace("<br />", " ")


def read_folders(task: Task, files: Mapping[str, Path]) -> TaskText:
    """Read the published folders, such as `train/neg`."""
    splits = {}
    for split in ("train", "test"):
        texts = [_reviews(files[f"{split}/{word}"]) for word in task.labels or ()]
        labels = np.repeat(np.arange(len(texts), dtype=np.int32), [*map(len, texts)])
        # Row numbers of the tables, which have a header.
        index = np.arange(1, len(labels) + 1)
        splits[split] = TextSplit(([*itertools.chain(*texts)],), labels, index)
    return TaskText(task, splits)


def _reviews(folder: Path) -> list[str]:
    """Return the reviews of a folder in the order of their ids."""
    with readable(folder):
        paths = {path.name: path for path in folder.iterdir()}
    if not paths:
        raise DataError(f"{folder}: expected reviews named <id>_<rating>.txt, found none")
    for name, path in paths.items():
        if not _REVIEW.fullmatch(name):
            raise DataError(
                f"{path}: expected a review named <id>_<rating>.txt, found {name!r:.40}"
            )
    reviews = []
    for name in sorted(paths, key=lambda name: (int(name.partition("_")[0]), name)):
        with readable(paths[name]):
            review = decode_record(paths[name], 1, paths[name].read_bytes())
        reviews.append(clean_review(review.replace("\t", " ")))
    return reviews


# Yelp.

_ESCAPE = re.compile(r'\\(["\\/bfnrt]|u[0-9A-Fa-f]{4})')


def sample_rows(task: Task, path: Path) -> TextSplit:
    """Read a file of the sample; `index` is the number of the entry from 0."""
    with readable(path), readable(path, "expected a JSON object", Exception):
        entries = json.loads(path.read_bytes()).items()
    labels = {str(i): label for i, label in enumerate(task.labels or ())}

    def fields() -> Iterator[tuple[int, tuple[str, str]]]:
        for number, (key, entry) in enumerate(entries, 1):
            match entry:
                case {"ori": str(text), "label": str(label)} if label in labels:
                    yield number, (labels[label], unescape(text))
                case _:
                    raise DataError(
                        f'{path}: entry {key!r:.40}: expected {{"ori": text, "label": "0" to '
                        f'"4"}}, found {entry!r:.76}'
                    )

    return collect_rows(task, path, fields())


def unescape(text: str) -> str:
    r"""Decode the escapes of JSON strings and doubled quotes.

    Example:
        >>> unescape(r'the \""best\"" caf\u00e9')
        'the "best" café'
    """
    text = text.replace('\\""', '\\"')
    text = _ESCAPE.sub(lambda escape: _decoded(escape[0]), text)
    if not text.isascii():  # combine surrogate pairs; lone surrogates are not valid text
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


@functools.cache
def _decoded(escape: str) -> str:
    return str(json.loads(f'"{escape}"'))


# Reuters.

TOPICS: tuple[str, ...] = (
    "cocoa", "grain", "veg-oil", "earn", "acq", "wheat", "copper", "housing", "money-supply",
    "coffee", "sugar", "trade", "reserves", "ship", "cotton", "carcass", "crude", "nat-gas", "cpi",
    "money-fx", "interest", "gnp", "meal-feed", "alum", "oilseed", "gold", "tin", "strategic-metal",
    "livestock", "retail", "ipi", "iron-steel", "rubber", "heat", "jobs", "lei", "bop", "zinc",
    "orange", "pet-chem", "dlr", "gas", "silver", "wpi", "hog", "lead",
)  # fmt: skip
"""Names of the classes."""

_NEWSWIRES = 11_228
_PUNCTUATION = str.maketrans(dict.fromkeys('!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~', " "))
# The search for an end stops at the next start: otherwise broken files need quadratic time.
_FIRST_TOPIC_OR_BODY = re.compile(
    r"<TOPICS><D>([^<]*)</D>|<BODY>([^<]*(?:<(?!/?BODY>)[^<]*)*)</BODY>"
)


def read_sgml(task: Task, files: Mapping[str, Path]) -> TaskText:
    r"""Read Reuters: 11,228 newswires of 1987 with one of 46 topics, the dataset of Keras.

    It is rebuilt from Reuters-21578, files `reut2-000.sgm` to `reut2-021.sgm`, with the rules of
    the archive `reuters.npz` of Keras:

    - The class of a newswire is its first topic (1,821 of the 11,228 have several topics).
    - Topics that are the first topic of at least 15 newswires are kept, 46 of 82. They are numbered
      in the order of the files: `TOPICS`, the names of `keras.datasets.reuters.get_label_names`.
    - The text is the body without the title. Entities are not decoded (`&lt;` gives the word `lt`,
      and `&#3;` at the end of most bodies gives the word `3`). Text is lower-case without
      punctuation, except apostrophes, as with the Keras `Tokenizer`.
    - A newswire without a body gets the next body in its file. This affects 975 newswires: 184 test
      rows have the same text as training rows (237 including other duplicates). In one case no body
      follows; Keras then used a part of the topic, which gave the word `rn`.
    - Rows are shuffled with `RandomState(113)`; the last 20 % are the test set. The ModApte split
      of Reuters-21578 is not used.

    Published facts about the archive agree: 8,982 training and 2,246 test rows, training rows per
    class, 30,979 words, mean (144.54) and largest (2,375) length in words, length and class of the
    first rows. Rows, order and classes are therefore assumed to be equal to those of Keras; the
    archive itself was not available for a comparison.

    Reuters with all topics of each newswire (ModApte, 90 topics) has several labels per row and is
    not supported.

    References:
        Lewis 1997, "Reuters-21578 text categorization test collection, Distribution 1.0".
        `keras.datasets.reuters` of Keras, and its issue 12072 on the topics.
    """
    topics = {topic: number for number, topic in enumerate(TOPICS)}
    wires = [
        (topics[topic], text)
        for path in files.values()
        for topic, text in _newswires(path)
        if topic in topics
    ]
    if not wires:
        raise DataError(
            f"{next(iter(files.values())).parent}: expected newswires with topics, found none"
        )
    labels, texts = zip(*wires, strict=True)
    rows = TextSplit((texts,), np.array(labels, np.int32), np.arange(len(texts)))
    note = f"{len(rows):,} of the {_NEWSWIRES:,} newswires of the Keras dataset"
    notes = () if len(rows) == _NEWSWIRES else (note,)
    # NumPy has frozen this generator, so the order never changes.
    order = np.random.RandomState(113).permutation(len(rows))
    train, test = np.split(order, [int(len(rows) * 0.8)])
    splits = {"train": rows.take(train), "test": rows.take(test)}
    return TaskText(task, splits, notes=notes, spaced=True)


def _newswires(path: Path) -> list[tuple[str, str]]:
    """Return the first topic and the words of each newswire, in the order of the bodies."""
    with readable(path):
        # Latin-1 can decode every byte.
        text = decode_record(path, 1, path.read_bytes(), ("Latin-1",))
    if "<REUTERS" not in text:
        raise DataError(f"{path}: expected newswires (<REUTERS ...>), found none")
    wires: list[tuple[str, str]] = []
    waiting: list[str] = []  # topics of newswires without a body so far
    for found in _FIRST_TOPIC_OR_BODY.finditer(text):
        if found[1] is not None:
            waiting.append(found[1])
        else:
            words = _words(found[2])
            wires += [(topic, words) for topic in waiting]
            waiting.clear()
    # If no body follows, Keras used "<D>earn</D>" from the sixth character.
    return wires + [(topic, _words(topic[2:])) for topic in waiting]


def _words(text: str) -> str:
    return " ".join(text.lower().translate(_PUNCTUATION).split())


# WikiText.

_SAMPLE = "train_head_noblank.txt"

_SECONDARY = 2  # marks

_BYTE_ORDER_MARK = rb"(?:\xef\xbb\xbf)?"
_BLANKS = rb"[ \r]*"  # carriage returns count as spaces
# At most ten marks: without this limit a long line of marks needs quadratic time.
_LINE = rb" (?P<marks>=(?: =){0,9}) (?!= )(?:\S|\S.*\S)(?<! =) (?P=marks)" + _BLANKS + rb"$"
_ABOVE = rb"(?:\A" + _BYTE_ORDER_MARK + rb"(?:" + _BLANKS + rb"\n)?|" + _BLANKS + rb"\n)"
_BELOW = rb"(?=\n" + _BLANKS + rb"$|\Z)"
_BALANCED = re.compile(rb"^" + _BYTE_ORDER_MARK + _LINE, re.MULTILINE)
_HEADER = re.compile(rb"^" + _ABOVE + _LINE + _BELOW, re.MULTILINE)


def header_rows(task: Task, path: Path) -> TextSplit:
    """Read passages of WikiText, classified by the level of their header.

    An instance is a header and the text below it, up to the next header of any level. The class is
    "secondary" if the header has two marks (` = = Career = = `), and "other" if it is the title of
    an article (` = Robert Boulter = `) or a deeper header. The text of an instance is the lines
    below its header, without blank lines and without the header itself, as in the sample that the
    authors of the Relation paper publish. (Their lines also have `<sos>` at the start, as with
    `start_token`, and `<eos>` after each paragraph.)

    A header without text below it is an instance with an empty text. The authors seem to count
    these headers: of the instances of the validation and test texts and of the sample (below),
    46.1 % are secondary with them and 41.9 % without them; the authors count 46.2 % in their
    training text.

    A header is a separate line: a space, marks (`=` with spaces between them), a space, words, and
    the same number of marks. The lines before and after it are blank, or the file starts or ends
    there. So lines of formulas are not headers, such as ` = 1 rad / s and a nominal impedance k = `
    in the test text.

    On the training text of WikiText-103 the authors count 304,092 instances: 140,365 secondary and
    163,727 other; the longest has 6,231 tokens. These numbers have not been verified on the
    complete text; `relation-tf tasks WikiText-103 --data DIR` prints the numbers of this reader. In
    the validation and test texts, 301 of 620 and 302 of 704 instances are secondary.

    Early stopping uses the official validation text: with a share of the training rows, passages of
    one article would be in both parts. (The paper uses such a share, 20 %.)

    For WikiText-2 a sample can replace the training text: `train_head_noblank.txt`, its start
    without blank lines. There headers are recognized by the marks only. Results are not comparable
    with others, and a note says so.

    `index` is the line from 0.

    References:
        Merity, Xiong, Bradbury and Socher 2017, "Pointer Sentinel Mixture Models" (ICLR). The task:
        Yamada, Baladram and Lin 2022, "Relation is an option for processing context information"
        (Frontiers in Artificial Intelligence 5).
    """
    header = _BALANCED if path.name == _SAMPLE else _HEADER
    texts: list[str] = []
    labels, lines, line = [], [], 0
    with readable(path), path.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    with data:
        for (start, marks), (end, _) in itertools.pairwise(_bounds(data, header)):
            passage = data[start:end]
            if marks:
                decode_record(path, line + 1, passage)
                below = map(bytes.strip, passage.split(b"\n")[1:])
                texts.append(b"\n".join(filter(None, below)).decode())
                labels.append(marks == _SECONDARY)
                lines.append(line)
            line += passage.count(b"\n")
    if not texts:
        lone = " between blank lines" if header is _HEADER else ""
        raise DataError(f"{path}: expected headers such as ' = = Title = = '{lone}, found none")
    return TextSplit((texts,), np.array(labels, np.int32), np.array(lines, int))


def _bounds(data: mmap.mmap, header: re.Pattern[bytes]) -> Iterator[tuple[int, int]]:
    """Yield the start and the number of marks of each header, and of both ends of the file."""
    yield 0, 0
    for found in header.finditer(data):
        yield found.start("marks") - 1, found["marks"].count(b"=")
    yield len(data), 0


# Declarations.

_PLACES = ("files", "folders", "first", "optional", "labelled")  # of `FileLayout`

TEXTS: Mapping[str, Callable[..., str]] = {
    "news": join_title,
    "review": clean_review,
    "yelp": unescape,
}
"""Functions that build the text of a row, by their name in `datasets.toml`."""


def _by_file(
    rows: Callable[..., ReadRows],
    held_out: tuple[str, float] | None = None,
    note: str = "",
    spaced: bool = False,
    **options: Any,
) -> ReadText:
    return split_reader(rows(**options), held_out=held_out, note=note, spaced=spaced)


_READERS: Mapping[str, Callable[..., ReadText]] = {
    "GLUE": glue_reader,
    "IMDb folders": lambda: read_folders,
    "Reuters SGML": lambda: read_sgml,
    "lines": partial(_by_file, line_rows),
    "tsv": partial(_by_file, partial(table_rows, read_tsv)),
    "csv": partial(_by_file, partial(table_rows, read_csv)),
    "Yelp sample": partial(_by_file, lambda: sample_rows),
    "WikiText headers": partial(_by_file, lambda: header_rows),
}


def _layout(name: str, reader: str, **options: Any) -> FileLayout:
    places = {key: options.pop(key) for key in _PLACES if key in options}
    return FileLayout(name, _READERS[reader](**options), **places)


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
    layouts = [keys for keys in layout if name in keys.pop("tasks", (name,))]
    return Dataset(task, tuple(_layout(**keys) for keys in layouts), obtain)


def _declared() -> Iterator[Dataset]:
    path = resources.files("relation_tf.tasks") / "datasets.toml"
    declared = tomllib.loads(path.read_text("utf-8"))
    for keys in declared["dataset"]:
        declaration = {**declared["shared"].get(keys.pop("like", ""), {}), **keys}
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
    return {name if len(of_name) > 1 else of_name[0]: of_name for name, of_name in found.items()}


GLUE: Mapping[str, Task] = {
    each.task.name: each.task
    for each in DATASETS
    if each.task.answered and each.task.name == counted_as(each.task.name)
}
"""The nine GLUE tasks with training data; MNLI is one network."""

OFFICIAL_ROWS: Mapping[str, Mapping[str, int]] = {
    "CoLA": {"train": 8_551, "dev": 1_043},
    "SST-2": {"train": 67_349, "dev": 872},
    "MRPC": {"train": 3_668, "dev": 408},
    "STS-B": {"train": 5_749, "dev": 1_500},
    "QQP": {"train": 363_846, "dev": 40_430},
    "MNLI": {"train": 392_702, "dev_matched": 9_815, "dev_mismatched": 9_832},
    "MNLI-m": {"train": 392_702, "dev": 9_815},
    "MNLI-mm": {"train": 392_702, "dev": 9_832},
    "QNLI": {"train": 104_743, "dev": 5_463},
    "RTE": {"train": 2_490, "dev": 277},
    "WNLI": {"train": 635, "dev": 71},
}
"""Rows of the labelled splits of GLUE; those of the test sets are in `glue_submit.TASKS`."""


def leaderboard_file(name: str) -> str:
    """Return the test file of a leaderboard name, relative to the folder of GLUE's files.

    Example:
        >>> leaderboard_file("MNLI-mm")
        'MNLI/test_mismatched.tsv'
    """
    dataset = next(each for each in DATASETS if name in each.task.answered)
    return dataset.layouts[0].files[dataset.task.answered[name]]
