from __future__ import annotations

import numpy as np
import pytest

from relation_tf.errors import DataError
from relation_tf.tasks import find_source, find_task, read_task

TEST = '"2","Cup","Won."\n'


def write(data, train, test=TEST, file="train.csv"):
    folder = data / "ag_news_csv"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / file).write_bytes(train.encode())
    (folder / "test.csv").write_bytes(test.encode())


def test_title_and_description_are_one_text(tmp_path):
    train = (
        '"3","Oil, up","The ""old"" price,\nsecond\\time #39;s\u0085up"\n'
        '"1","","Talks"\n"4","Chips",""\n'
    )
    write(tmp_path, train)
    split = read_task("AG-News", tmp_path).splits["train"]
    expected = 'Oil, up The "old" price,\nsecond\\time #39;s\u0085up'
    assert split.texts == ([expected, "Talks", "Chips"],)
    assert split.labels.tolist() == [2, 0, 3]
    assert split.index.tolist() == [0, 2, 3]


def test_the_whole_training_file_comes_before_the_sample(tmp_path):
    write(tmp_path, TEST, file="train_sample.csv")
    assert find_source("AG-News", "files", tmp_path).files["train"].name == "train_sample.csv"
    write(tmp_path, TEST)
    files = find_source("AG-News", "files", tmp_path).files
    assert {split: path.name for split, path in files.items()} == {
        "train": "train.csv", "test": "test.csv",
    }  # fmt: skip


def test_a_sample_is_noted(tmp_path):
    write(tmp_path, '"1","","A text"\n', file="train_sample.csv")
    (note,) = read_task("AG-News", tmp_path).notes
    assert note == "trained on a sample of 1 of 120,000 rows (train_sample.csv)"
    write(tmp_path, '"1","","A text"\n')
    assert read_task("AG-News", tmp_path).notes == ()


def test_a_share_of_train_stops_the_training():
    task = find_task("AG-News")
    assert task.validation is None
    assert (task.scored, task.metrics) == ({"AG-News": "test"}, ("accuracy",))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('"0","a","b"', "expected class 1 or 2 or 3 or 4, found '0'"),
        ('"5","a","b"', "expected class 1 or 2 or 3 or 4, found '5'"),
        ('"1","a"', "expected 3 comma-separated fields"),
        ('"1","a "b" c","d"', "expected comma-separated fields, a quote within quotes written"),
    ],
)
def test_a_malformed_row_is_named_or_left_out_of_train_alone(tmp_path, row, message):
    write(tmp_path / "a", f"{TEST}{row}\n{TEST}")
    with pytest.raises(DataError) as error:
        read_task("AG-News", tmp_path / "a")
    assert f"train.csv:2: {message}" in str(error.value)
    text = read_task("AG-News", tmp_path / "a", skip_bad_lines=True)
    assert text.splits["train"].index.tolist() == [0, 2]
    assert text.skipped == (str(error.value),)
    write(tmp_path / "b", TEST, f"{TEST}{row}\n")
    with pytest.raises(DataError) as error:
        read_task("AG-News", tmp_path / "b", skip_bad_lines=True)
    assert f"test.csv:2: {message}" in str(error.value)


def test_the_real_files_have_their_published_rows(shared):
    shared("data/ag_news_csv/train_sample.csv")
    data = shared("data/ag_news_csv").parent
    splits = read_task("AG-News", data).splits
    assert np.bincount(splits["test"].labels).tolist() == [1900] * 4
    if find_source("AG-News", "files", data).files["train"].name == "train_sample.csv":
        assert np.bincount(splits["train"].labels).tolist() == [2410, 2517, 2453, 2396]
    assert all(row and row == row.strip() for split in splits.values() for row in split.texts[0])
