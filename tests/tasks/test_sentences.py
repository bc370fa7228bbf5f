from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest

from relation_tf.errors import DataError
from relation_tf.tasks import find_task, read_task
from relation_tf.tasks.sentences import SENTENCES

# Rows of label 0 and label 1, as data sets are published.
PUBLISHED = {"MR": (5331, 5331), "CR": (1368, 2407), "SUBJ": (5000, 5000), "MPQA": (7294, 3312)}

# SHA-256 of the numbers of the test rows. Results of one release compare with those of another only
# as long as these stay.
TEST_ROWS = {
    "MR": "e4505e8232b84667",
    "CR": "9d023f3af3d3cddf",
    "SUBJ": "10890df44cf9ac66",
    "MPQA": "1a7476c931049c97",
}


def write(folder, rows=40):
    lines = "".join(f"{i % 2} text {i} .\n" for i in range(rows))
    (folder / "rt-polarity.all").write_text(lines)
    return folder


def test_a_tenth_is_the_test_set(tmp_path):
    text = read_task("MR", write(tmp_path))
    train, test = text.splits["train"], text.splits["test"]
    assert test.labels.tolist().count(0) == test.labels.tolist().count(1) == 2
    assert len(train) == 36
    for split in (train, test):
        assert split.texts == ([f"text {row} ." for row in split.index],)
        assert split.labels.tolist() == [row % 2 for row in split.index]


def test_what_stops_the_training_is_left_to_a_share_of_train():
    assert {task.validation for task in SENTENCES.values()} == {None}
    assert all(task.scored == {name: "test"} for name, task in SENTENCES.items())
    assert find_task("MPQA").metrics == ("accuracy",)


def test_bad_lines_are_never_left_out(tmp_path):
    path = write(tmp_path) / "rt-polarity.all"
    path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(DataError, match=r"rt-polarity\.all:41: expected 0 or 1, a space"):
        read_task("MR", tmp_path, skip_bad_lines=True)


def rows_digest(split):
    return hashlib.sha256(json.dumps(split.index.tolist()).encode()).hexdigest()[:16]


@pytest.mark.parametrize("name", SENTENCES)
def test_the_real_files_have_their_published_rows(shared, name):
    splits = read_task(name, shared("data/sentence_classification").parent).splits
    counts = {split: np.bincount(rows.labels) for split, rows in splits.items()}
    assert tuple(counts["train"] + counts["test"]) == PUBLISHED[name]
    total = sum(PUBLISHED[name])
    assert len(splits["test"]) == round(total / 10)
    assert np.all(abs(counts["test"] - np.array(PUBLISHED[name]) / 10) < 1)
    assert not set(splits["train"].index) & set(splits["test"].index)
    assert rows_digest(splits["test"]) == TEST_ROWS[name]


def test_the_real_files_keep_their_characters(shared):
    splits = read_task("MR", shared("data/sentence_classification").parent).splits
    text = "".join(row for split in splits.values() for row in split.texts[0])
    assert "é" in text
    assert "…" in text
    assert not set(text) & set("\u0085\ufffd")
