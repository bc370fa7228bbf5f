from __future__ import annotations

import numpy as np
import pytest

from relation_tf.tasks import DataError, find_task, read_task, task_files

HEADER = "id\tlabel\trating\treview\n"


def write(folder, train, test="0\tpos\t9\tFine.\n"):
    folder.mkdir(parents=True)
    (folder / "train.tsv").write_bytes((HEADER + train).encode())
    (folder / "test.tsv").write_bytes((HEADER + test).encode())


def test_reviews_are_raw_but_for_line_breaks(tmp_path):
    raw = 'He said "no.<br /><br />A <i>so\u0085so</i> "film".'
    write(tmp_path / "imdb", f"0\tneg\t3\t{raw}\n1\tpos\t8\tGood\n")
    train = read_task("IMDb", tmp_path).splits["train"]
    assert train.texts == (['He said "no.  A <i>so\u0085so</i> "film".', "Good"],)
    assert train.labels.tolist() == [0, 1]


def test_the_other_name_of_the_folder(tmp_path):
    write(tmp_path / "IMDb", "0\tneg\t3\tBad\n")
    assert set(task_files("IMDb", tmp_path)) == {"train", "test"}
    (tmp_path / "IMDb" / "test.tsv").unlink()
    with pytest.raises(DataError, match=r"test\.tsv: expected the file of task IMDb"):
        read_task("IMDb", tmp_path)


def test_a_share_of_train_stops_the_training():
    task = find_task("IMDb")
    assert (task.validation, task.scored, task.metrics) == (None, {"IMDb": "test"}, ("accuracy",))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("0\tneg\t3\tBad\n1\tgood\t8\tFine\n", "train.tsv:3: expected label neg or pos, found 'go"),
        ("0\tneg\tBad\n", "train.tsv:2: expected 4 tab-separated fields"),
        ("0\tneg\t3\tso\tso\n", "train.tsv:2: expected 4 tab-separated fields"),
        ("", "train.tsv: expected labelled rows, found none"),
    ],
)
def test_a_malformed_row_is_named(tmp_path, rows, message):
    write(tmp_path / "imdb", rows)
    with pytest.raises(DataError) as error:
        read_task("IMDb", tmp_path)
    assert message in str(error.value)


def test_a_missing_column_is_named(tmp_path):
    write(tmp_path / "imdb", "")
    (tmp_path / "imdb" / "train.tsv").write_text("id\tlabel\ttext\n0\tpos\tFine\n")
    with pytest.raises(DataError, match=r"train\.tsv:1: expected a column 'review'"):
        read_task("IMDb", tmp_path)


def test_bad_training_lines_can_be_left_out_but_never_those_of_test(tmp_path):
    write(tmp_path / "a" / "imdb", "broken\n0\tso-so\t5\tFair\n1\tpos\t8\tGood\n")
    text = read_task("IMDb", tmp_path / "a", skip_bad_lines=True)
    assert text.splits["train"].texts == (["Good"],)
    assert text.splits["train"].index.tolist() == [3]
    assert len(text.skipped) == 2
    write(tmp_path / "b" / "imdb", "1\tpos\t8\tGood\n", "broken\n")
    with pytest.raises(DataError, match=r"test\.tsv:2"):
        read_task("IMDb", tmp_path / "b", skip_bad_lines=True)


def test_the_real_files_have_their_published_rows(shared):
    splits = read_task("IMDb", shared("data/imdb").parent).splits
    for split in splits.values():
        assert np.bincount(split.labels).tolist() == [12500, 12500]
    text = "".join(row for split in splits.values() for row in split.texts[0])
    assert "<br />" not in text
    assert "é" in text
    assert "\ufffd" not in text
