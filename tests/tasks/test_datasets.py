"""Tests of declared datasets: files, splits, and rows of the real data.

Every reader is also given broken files by `tests/fuzz/test_readers.py`.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from relation_tf.errors import DataError
from relation_tf.tasks import GLUE, find_source, find_task
from relation_tf.tasks.datasets import OFFICIAL_ROWS
from tests.tasks.equality import read_task, same_rows

REAL = json.loads((Path(__file__).parents[1] / "golden_values" / "real_rows.json").read_text())


def write(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def pair(train, test, content, other=None):
    return {train: content, test: content if other is None else other}


def rows_digest(split):
    digest = hashlib.sha256()
    for column in split.texts:
        for text in column:
            digest.update(text.encode() + b"\0")
    labels = split.labels
    digest.update(b"none" if labels is None else labels.tobytes() + str(labels.dtype).encode())
    digest.update(np.asarray(split.index).astype("int64").tobytes())
    return digest.hexdigest()[:16]


@pytest.mark.parametrize("name", REAL)
def test_rows_of_the_real_files_do_not_change(shared, name):
    """Check the digests of rows, so that results of releases stay comparable."""
    digest, splits = REAL[name]
    source = find_source(name, "files", shared("data"))
    if source.digest()[:16] != digest:
        pytest.skip("other files of this dataset")
    found = source.read().splits
    assert {split: rows_digest(rows) for split, rows in found.items()} == splits


SENTENCES = "".join(f"{i % 2} text {i} .\n" for i in range(40))
TWEETS = "sentiment,text\n" + "".join(
    f'{("fear", "sad", "anger", "joy")[i % 4]},"tweet, {i} ""so"""\n' for i in range(80)
)
REVIEWS = "".join(f"{i % 2}\treview {i} .\n" for i in range(230))
BOOKS = ("books.task.train", "books.task.test")


@pytest.mark.parametrize(
    ("name", "files", "held_out", "rows", "text", "first"),
    [
        ("MR", {"rt-polarity.all": SENTENCES}, "test", (36, 4), "text {} .", 0),
        ("tweets", {"finalSentimentdata2.csv": TWEETS}, "test", (72, 8), 'tweet, {} "so"', 1),
        ("fdu-books", pair(*BOOKS, REVIEWS, "1\tgood\n"), "dev", (30, 200), "review {} .", 0),
    ],
)
def test_held_out_split(tmp_path, name, files, held_out, rows, text, first):
    splits = read_task(name, write(tmp_path, files)).splits
    train, cut = splits["train"], splits[held_out]
    assert (len(train), len(cut)) == rows
    assert len(set(np.bincount(cut.labels))) == 1
    for split in (train, cut):
        assert split.texts == ([text.format(row - first) for row in split.index],)
    assert sorted([*train.index, *cut.index]) == list(range(first, sum(rows) + first))


AG = ("ag_news_csv/train.csv", "ag_news_csv/test.csv")
YELP = ("yelp_review_full_csv/train.csv", "yelp_review_full_csv/test.csv")
IMDB = ("imdb/train.tsv", "imdb/test.tsv")
HEADER = "id\tlabel\trating\treview\n"


@pytest.mark.parametrize(
    ("name", "files", "line", "message"),
    [
        ("fdu-books", pair(*BOOKS, REVIEWS), "broken", "expected 0 or 1, a tab and a text"),
        ("AG-News", pair(*AG, '"2","Cup","Won."\n'), '"1","a"', "expected 3 fields"),
        ("Yelp-full", pair(*YELP, '"5","Good"\n'), '"0","a"', "column 'stars': expected '1'"),
        ("MR", {"rt-polarity.all": SENTENCES}, "", "expected 0 or 1, a space"),
        ("tweets", {"finalSentimentdata2.csv": TWEETS}, "love,so good", "column 'sentiment'"),
    ],
)
def test_malformed_line_is_named(tmp_path, name, files, line, message):
    train, content = next(iter(files.items()))
    write(tmp_path, {**files, train: f"{content}{line}\n{content.splitlines()[-1]}\n"})
    with pytest.raises(DataError) as error:
        read_task(name, tmp_path)
    place = f"{tmp_path / train}:{content.count(chr(10)) + 1}"
    assert str(error.value).startswith(f"{place}: {message}")


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("AG-News", [(pair("ag_news_csv/train_sample.csv", AG[1], '"1","","a"\n'), "sample"),
                     ({AG[0]: '"1","","a"\n'}, "train.csv")]),
        ("IMDb", [({f"aclImdb/{s}/{w}/1_1.txt": "x" for s in ("train", "test")
                    for w in ("neg", "pos")}, "aclImdb"), (pair(*IMDB, "x"), "train.tsv")]),
        ("WikiText-2", [({f"wikitext-2-raw/{name}": "x" for name in
                          ("train_head_noblank.txt", "wiki.valid.raw", "wiki.test.raw")}, "head"),
                        ({"wikitext-2-raw/wiki.train.raw": "x"}, "wiki.train.raw"),
                        ({f"wikitext-2/wiki.{s}.tokens": "x" for s in ("train", "valid", "test")},
                         "wiki.train.tokens")]),
    ],
)  # fmt: skip
def test_order_of_layouts(tmp_path, name, steps):
    for files, expected in steps:
        write(tmp_path, files)
        first = next(iter(find_source(name, "files", tmp_path).files.values()))
        assert expected in str(first)


def test_titles_and_descriptions_of_news_are_one_text(tmp_path):
    train = '"3","Oil, up","""old"",\ntwo\\three"\n"1","","Talks"\n"4","Chips",""\n'
    split = read_task("AG-News", write(tmp_path, pair(*AG, train))).splits["train"]
    assert split.texts == (['Oil, up "old",\ntwo\\three', "Talks", "Chips"],)
    assert split.labels.tolist() == [2, 0, 3]
    assert split.index.tolist() == [0, 2, 3]


# GLUE.


@pytest.mark.parametrize("name", OFFICIAL_ROWS)
def test_every_task_of_glue_is_read(small_glue, name):
    task = find_task(name)
    text = read_task(name, small_glue)
    assert set(text.splits) == {"train", *task.scored.values(), *task.answered.values()}
    assert task.validation in task.scored.values()
    for split_name, split in text.splits.items():
        assert len(split.texts) == len(task.inputs)
        assert all(len(column) == len(split) > 0 for column in split.texts)
        assert (split.labels is None) == (split_name in task.answered.values())
        assert np.array_equal(split.index, np.arange(len(split)))


def test_two_networks_of_mnli_have_the_rows_of_one(small_glue):
    both = read_task("MNLI", small_glue)
    renamed = {
        "MNLI-m": {"dev": "dev_matched", "test": "test_matched", "diagnostic": "diagnostic"},
        "MNLI-mm": {"dev": "dev_mismatched", "test": "test_mismatched"},
    }
    for name, others in renamed.items():
        one = read_task(name, small_glue)
        assert one.splits.keys() == {"train", *others}
        for split, rows in one.splits.items():
            same_rows(rows, both.splits[others.get(split, split)])
        assert (one.task.validation, one.task.scored) == ("dev", {name: "dev"})
        assert (one.task.labels, one.task.metrics) == (both.task.labels, ("accuracy",))
    assert find_task("MNLI-m").diagnostics == {"AX": ("matthews",)}
    assert find_task("MNLI-mm").answered == {"MNLI-mm": "test"}


def test_labels_of_the_diagnostic_set_are_read_where_they_are(
    small_glue, tmp_path, label_diagnostic
):
    data = shutil.copytree(small_glue, tmp_path / "glue_data")
    before = find_source("MNLI", data=data)
    unlabelled = before.read().splits["diagnostic"]
    label_diagnostic(data)
    after = find_source("MNLI", data=data)
    labelled = after.read().splits["diagnostic"]
    assert labelled.texts == unlabelled.texts
    assert labelled.index.tolist() == unlabelled.index.tolist()
    assert [GLUE["MNLI"].labels[label] for label in labelled.labels[:4]] == [
        "contradiction", "neutral", "entailment", "contradiction",
    ]  # fmt: skip
    # They do not change the training, so runs stay valid.
    assert after.training_digests() == before.training_digests()
    assert after.digests() != before.digests()
    # With the words of all splits, the test files are part of the training.
    assert {*after.training_digests("all")} == {*after.digests()}
    (data / "diagnostic" / "diagnostic.tsv").unlink()
    assert find_source("MNLI", data=data).read().splits["diagnostic"].texts == unlabelled.texts


@pytest.mark.parametrize(
    ("name", "file", "line", "old", "new", "message"),
    [
        ("RTE", "train.tsv", 2, "entailment", "maybe",
         "train.tsv:2: column 'label': expected 'entailment' or 'not_entailment', found '"),
        ("STS-B", "dev.tsv", 1, "score", "points",
         "dev.tsv:1: expected a column 'score', found 'index', "),
        ("QQP", "test.tsv", 3, "1\t", "7\t", "test.tsv:3: expected id 1, found '7'"),
    ],
)  # fmt: skip
def test_a_malformed_file_of_glue(small_glue, tmp_path, name, file, line, old, new, message):
    path = shutil.copytree(small_glue / name, tmp_path / name) / file
    lines = path.read_text(encoding="utf-8").split("\n")
    lines[line - 1] = lines[line - 1].replace(old, new)
    path.write_text("\n".join(lines), encoding="utf-8", newline="\n")
    with pytest.raises(DataError) as error:
        read_task(name, tmp_path)
    assert message in str(error.value)


# IMDb.

FILM_REVIEWS = {"neg/0_2.txt": "Bad", "pos/0_8.txt": "Good"}


def write_reviews(folder, train, test=FILM_REVIEWS):
    files = {f"aclImdb/train/{name}": text for name, text in train.items()}
    return write(folder, files | {f"aclImdb/test/{name}": text for name, text in test.items()})


def test_folders_of_reviews_give_the_rows_of_the_tables(tmp_path):
    rows = [("neg", i, 2, f"Bad\u0085 <i>é</i> {i}.<br />\tSo") for i in (0, 1, 2, 9, 10, 11)]
    rows += [("pos", i, 9, f'Good "{i}".') for i in (0, 3, 100)]
    tabs = {f"{label}/{i}_{rating}.txt": text for label, i, rating, text in rows}
    lines = [f"{i}\t{label}\t{rating}\t{text}" for label, i, rating, text in rows]
    table = "".join(line.replace(".<br />\t", ".<br /> ") + "\n" for line in lines)
    test = f"{HEADER}0\tneg\t2\tBad\n0\tpos\t8\tGood\n"
    folders = read_task("IMDb", write_reviews(tmp_path / "a", tabs))
    tables = read_task("IMDb", write(tmp_path / "b", pair(*IMDB, HEADER + table, test)))
    assert tables.splits["train"].texts[0][0] == "Bad\u0085 <i>é</i> 0.  So"
    for split, expected in tables.splits.items():
        same_rows(folders.splits[split], expected)


def test_other_files_of_the_published_folder_are_ignored(tmp_path):
    write_reviews(tmp_path, FILM_REVIEWS)
    source = find_source("IMDb", "files", tmp_path)
    digest = source.digest()
    write_reviews(tmp_path, {"unsup/0_0.txt": "So", "labeledBow.feat": "9 0:1"})
    assert source.digest() == digest
    assert len(source.read().splits["train"]) == 2
    write_reviews(tmp_path, {"pos/0_8.txt": "Good!"})
    assert source.digest() != digest


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("neg/1.txt", "Bad", "expected a review named <id>_<rating>.txt, found '1.txt'"),
        ("neg/1_2.txt", b"so caf\xe9", "expected UTF-8, byte 7 of the line is 0xE9"),
        ("neg/1_2.txt/a", "so", "cannot be read: Is a directory"),
    ],
)
def test_a_bad_review_is_named(tmp_path, name, text, message):
    data = write_reviews(tmp_path / "a", FILM_REVIEWS | {name: text})
    with pytest.raises(DataError) as error:
        read_task("IMDb", data)
    path = data / "aclImdb" / "train" / name.removesuffix("/a")
    assert str(error.value).startswith(str(path))
    assert message in str(error.value)


def test_an_empty_folder_is_named(tmp_path):
    data = write_reviews(tmp_path, FILM_REVIEWS)
    review = data / "aclImdb" / "train" / "pos" / "0_8.txt"
    review.unlink()
    with pytest.raises(DataError, match=r"aclImdb/train/pos: expected reviews .*, found none"):
        read_task("IMDb", data)


# Yelp.

# In the file, and what is read.
TEXTS = {
    r"a\n\nb\r\nc": "a\n\nb\r\nc",
    r'the \""best\"".': 'the "best".',
    r'\""\"" so': '"" so',
    r"caf\u00e9 \u00E9": "café é",
    r"\ud83d\ude00!": "😀!",
    r"half \ud83d": "half \ufffd",
    r"zero \u0000": "zero \ufffd",
    r'C:\\new \\\""x': r"C:\new \"x",
    "so\u0085so, é": "so\u0085so, é",
    r"\x \u12": r"\x \u12",
    "end \\": "end \\",
}


def sample(train):
    test = json.dumps({"0": {"ori": "Good", "label": "4"}})
    return {"yelp_full_sample/dev.json": train, "yelp_full_sample/test.json": test}


@pytest.mark.parametrize("text", TEXTS)
def test_escapes_are_undone(tmp_path, text):
    # The quotes are doubled once, and again by a CSV writer.
    twice = text.replace('"', '""')
    entry = json.dumps({"0": {"ori": text, "label": "0"}})
    files = (pair(*YELP, f'"1","{text}"\n'), pair(*YELP, f'"1","{twice}"\n'), sample(entry))
    for number, own in enumerate(files):
        data = write(tmp_path / str(number), own)
        assert read_task("Yelp-full", data).splits["train"].texts == ([TEXTS[text]],)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (["ori", "label"], ": expected a JSON object: "),
        ({}, ": expected labelled rows, found none"),
        ({"7": {"ori": "Good", "label": "4"}, "8": {"ori": "a", "label": "5"}},
         """: entry '8': expected {"ori": text, "label": "0" to "4"}, found {'ori': 'a', """),
        ({"8": None}, """: entry '8': expected {"ori": text, "label": "0" to "4"}, found None"""),
    ],
)  # fmt: skip
def test_a_bad_sample_is_named(tmp_path, content, message):
    with pytest.raises(DataError) as error:
        read_task("Yelp-full", write(tmp_path, sample(json.dumps(content))))
    assert f"{tmp_path / 'yelp_full_sample' / 'dev.json'}{message}" in str(error.value)
