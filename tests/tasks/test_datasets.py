"""Tests of declared datasets: files, splits, and rows of the real data.

Every reader is also given broken files by `tests/fuzz/test_readers.py`.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from relation_tf.errors import DataError
from relation_tf.tasks import find_source, read_task

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
        ("AG-News", pair(*AG, '"2","Cup","Won."\n'), '"5","a","b"', "column 'class': expected '1'"),
        ("AG-News", pair(*AG, '"2","Cup","Won."\n'), '"1","a"', "expected 3 fields"),
        ("Yelp-full", pair(*YELP, '"5","Good"\n'), '"0","a"', "column 'stars': expected '1'"),
        ("IMDb", pair(*IMDB, f"{HEADER}0\tneg\t3\tBad\n"), "0\tso-so\t5\tA", "column 'label'"),
        ("IMDb", pair(*IMDB, f"{HEADER}0\tneg\t3\tBad\n"), "x", "expected 4 fields"),
    ],
)
def test_malformed_line_is_an_error_or_skipped_in_train_only(tmp_path, name, files, line, message):
    (train, content), *others = files.items()
    number = content.count("\n") + 1
    write(tmp_path / "a", {**files, train: f"{content}{line}\n{content.splitlines()[-1]}\n"})
    with pytest.raises(DataError) as error:
        read_task(name, tmp_path / "a")
    assert f"{tmp_path / 'a' / train}:{number}: {message}" in str(error.value)
    text = read_task(name, tmp_path / "a", skip_bad_lines=True)
    assert text.skipped == (str(error.value).partition(". Correct the file, or skip")[0],)
    # Validation rows that are cut from the training file are its rows, too.
    kept = ("train", "dev") if name == "fdu-books" else ("train",)
    rows = [row for split in kept for row in text.splits[split].index]
    assert number - 1 not in rows
    assert number in rows
    test = others[-1][0]
    write(tmp_path / "b", {**files, test: f"{files[test]}{line}\n"})
    with pytest.raises(DataError, match=Path(test).name):
        read_task(name, tmp_path / "b", skip_bad_lines=True)


@pytest.mark.parametrize(
    ("name", "file", "content", "message"),
    [
        ("MR", "rt-polarity.all", SENTENCES + "\n", ":41: expected 0 or 1, a space"),
        ("tweets", "finalSentimentdata2.csv", TWEETS + "love,so good\n", ":82: column 'sentiment'"),
        ("tweets", "finalSentimentdata2.csv", "sentiment,tweet\njoy,a\n", ":1: expected a column"),
    ],
)
def test_scored_lines_are_never_skipped(tmp_path, name, file, content, message):
    with pytest.raises(DataError) as error:
        read_task(name, write(tmp_path, {file: content}), skip_bad_lines=True)
    assert f"{file}{message}" in str(error.value)


def test_too_few_rows_for_a_split(tmp_path):
    files = pair(*BOOKS, "1\tgood\n0\tbad\n" * 100)
    with pytest.raises(DataError, match=r"train: must have enough rows to cut off 200 rows\. Rec"):
        read_task("fdu-books", write(tmp_path, files))


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("AG-News", [(pair("ag_news_csv/train_sample.csv", AG[1], '"1","","a"\n'), "sample"),
                     ({AG[0]: '"1","","a"\n'}, "train.csv")]),
        ("Yelp-full", [(pair("yelp_full_sample/dev.json", "yelp_full_sample/test.json", "{}"),
                        "dev.json"), (pair(*YELP, '"1","a"\n'), "train.csv")]),
        ("tweets", [({"finalSentimentdata2.csv": "x"}, "finalSentimentdata2.csv"),
                    ({"final_sentiment/finalSentimentdata2.csv": "x"}, "final_sentiment/final")]),
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


def test_a_sample_is_noted(tmp_path):
    write(tmp_path, pair("ag_news_csv/train_sample.csv", AG[1], '"1","","A text"\n'))
    (note,) = read_task("AG-News", tmp_path).notes
    assert "1 of 120,000 rows" in note
    write(tmp_path, {AG[0]: '"1","","A text"\n'})
    assert read_task("AG-News", tmp_path).notes == ()


def test_titles_and_descriptions_of_news_are_one_text(tmp_path):
    train = '"3","Oil, up","""old"",\ntwo\\three"\n"1","","Talks"\n"4","Chips",""\n'
    split = read_task("AG-News", write(tmp_path, pair(*AG, train))).splits["train"]
    assert split.texts == (['Oil, up "old",\ntwo\\three', "Talks", "Chips"],)
    assert split.labels.tolist() == [2, 0, 3]
    assert split.index.tolist() == [0, 2, 3]
