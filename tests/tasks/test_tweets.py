from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest

from relation_tf.errors import DataError
from relation_tf.tasks import find_source, find_task, read_task

FILE = "finalSentimentdata2.csv"
LABELS = ("fear", "sad", "anger", "joy")

# Rows of each label as published.
PUBLISHED = (801, 795, 767, 727)


def write(folder, rows=80, more="", end="\r\n"):
    lines = [",sentiment,text"]
    lines += [f'{9 * i},{LABELS[i % 4]},"tweet, {i} ""so""\u0085"' for i in range(1, rows + 1)]
    (folder / FILE).write_bytes((end.join(lines) + end + more).encode())
    return folder


def test_a_tenth_is_the_test_set(tmp_path):
    splits = read_task("tweets", write(tmp_path)).splits
    assert {name: len(split) for name, split in splits.items()} == {"train": 72, "test": 8}
    assert np.bincount(splits["test"].labels).tolist() == [2, 2, 2, 2]
    for split in splits.values():
        assert split.texts == ([f'tweet, {row} "so"\u0085' for row in split.index],)
        assert split.labels.tolist() == [row % 4 for row in split.index]


def test_line_ends_make_no_difference(tmp_path):
    (tmp_path / "lf").mkdir()
    crlf = read_task("tweets", write(tmp_path)).splits["test"]
    lf = read_task("tweets", write(tmp_path / "lf", end="\n")).splits["test"]
    assert crlf.texts == lf.texts
    assert crlf.index.tolist() == lf.index.tolist()


def test_the_folder_of_the_collection_comes_first(tmp_path):
    write(tmp_path)
    inner = tmp_path / "final_sentiment"
    inner.mkdir()
    write(inner)
    assert find_source("tweets", "files", tmp_path).files == {
        "train": inner / FILE,
        "test": inner / FILE,
    }


def test_what_stops_the_training_is_left_to_a_share_of_train():
    task = find_task("tweets")
    assert task.validation is None
    assert (task.scored, task.metrics) == ({"tweets": "test"}, ("accuracy",))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("1,love,so good\r\n", "expected sentiment fear or sad or anger or joy, found 'love'"),
        ("1,joy\r\n", "expected 3 comma-separated fields ('', 'sentiment', 'text'), found 2"),
        ("1,joy,so, good\r\n", "expected 3 comma-separated fields"),
        ('1,joy,"so good\r\n', "expected comma-separated fields"),
    ],
)
def test_bad_lines_are_never_left_out(tmp_path, row, message):
    with pytest.raises(DataError) as error:
        read_task("tweets", write(tmp_path, more=row), skip_bad_lines=True)
    assert f"{FILE}:82: {message}" in str(error.value)


def test_a_missing_column_is_named(tmp_path):
    (tmp_path / FILE).write_text(",sentiment,tweet\n1,joy,good\n")
    with pytest.raises(DataError, match=r":1: expected a column 'text', found '', 'sentiment'"):
        read_task("tweets", tmp_path)


def test_the_real_file_has_its_published_rows(shared):
    splits = read_task("tweets", shared("data/final_sentiment").parent).splits
    counts = {name: np.bincount(split.labels) for name, split in splits.items()}
    assert tuple(counts["train"] + counts["test"]) == PUBLISHED
    assert len(splits["test"]) == 309
    assert np.all(abs(counts["test"] - np.array(PUBLISHED) / 10) < 1)
    assert not set(splits["train"].index) & set(splits["test"].index)
    text = "".join(row for split in splits.values() for row in split.texts[0])
    assert "é" in text
    assert "\r" not in text
    # Results of one release compare with those of another only as long as these rows stay.
    rows = json.dumps(splits["test"].index.tolist()).encode()
    assert hashlib.sha256(rows).hexdigest()[:16] == "0275dd7c1e524c56"
