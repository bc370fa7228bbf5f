from __future__ import annotations

import pytest

from relation_tf.errors import DataError
from relation_tf.tasks import find_source, read_task

HEADER = "id\tlabel\trating\treview\n"


def write(folder, train, test="0\tpos\t9\tFine.\n"):
    folder.mkdir(parents=True)
    (folder / "train.tsv").write_bytes((HEADER + train).encode())
    (folder / "test.tsv").write_bytes((HEADER + test).encode())


def test_reviews_are_raw_but_for_line_breaks(tmp_path):
    raw = '"No.<br /><br />A <i>so\u0085so</i>'
    write(tmp_path / "imdb", f"0\tneg\t3\t{raw}\n1\tpos\t8\tGood\n")
    train = read_task("IMDb", tmp_path).splits["train"]
    assert train.texts == (['"No.  A <i>so\u0085so</i>', "Good"],)
    assert train.labels.tolist() == [0, 1]


REVIEWS = {"neg/0_2.txt": "Bad", "pos/0_8.txt": "Good"}


def write_folders(data, train, test=REVIEWS):
    for split, reviews in (("train", train), ("test", test)):
        for name, text in reviews.items():
            path = data / "aclImdb" / split / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return data


def test_folders_give_the_rows_of_the_tables(tmp_path):
    rows = [("neg", i, 2, f"Bad\u0085 é {i}.<br />\tSo") for i in (0, 1, 2, 9, 10, 11)]
    rows += [("pos", i, 9, f'Good "{i}".') for i in (0, 3, 100)]
    tabs = {f"{label}/{i}_{rating}.txt": text for label, i, rating, text in rows}
    lines = [f"{i}\t{label}\t{rating}\t{text}" for label, i, rating, text in rows]
    blanks = "".join(line.replace(".<br />\t", ".<br /> ") + "\n" for line in lines)
    folders = read_task("IMDb", write_folders(tmp_path / "a", tabs))
    write(tmp_path / "b" / "imdb", blanks, "0\tneg\t2\tBad\n0\tpos\t8\tGood\n")
    tables = read_task("IMDb", tmp_path / "b")
    for split, expected in tables.splits.items():
        assert folders.splits[split].texts == expected.texts
        assert folders.splits[split].labels.tolist() == expected.labels.tolist()
        assert folders.splits[split].index.tolist() == expected.index.tolist()
    assert not folders.spaced


def test_other_files_of_the_published_folder_are_ignored(tmp_path):
    write_folders(tmp_path / "imdb", REVIEWS)
    write_folders(tmp_path / "imdb", {"unsup/0_0.txt": "So", "labeledBow.feat": "9 0:1"})
    source = find_source("IMDb", "files", tmp_path)
    assert set(source.files) == {"train/neg", "train/pos", "test/neg", "test/pos"}
    assert len(source.read().splits["train"]) == 2
    digest = source.digest()
    write_folders(tmp_path / "imdb", {"unsup/1_0.txt": "So"})
    assert source.digest() == digest
    write_folders(tmp_path / "imdb", {"pos/0_8.txt": "Good!"})
    assert source.digest() != digest


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("neg/1.txt", "Bad", "expected a review named <id>_<rating>.txt, found '1.txt'"),
        ("pos/.DS_Store", "", "expected a review named <id>_<rating>.txt, found '.DS_Store'"),
        ("pos/٣_8.txt", "", "expected a review named <id>_<rating>.txt"),
        ("neg/1_2.txt", b"so caf\xe9", "expected UTF-8, byte 7 of the line is 0xE9"),
        ("neg/1_2.txt", "so\0", "expected text, found a NUL byte"),
        ("neg/1_2.txt/a", "so", "cannot be read: Is a directory"),
    ],
)
def test_bad_review_is_an_error_or_skipped_in_train_only(tmp_path, name, text, message):
    good = {"neg/0_2.txt": "Bad", "pos/2_8.txt": "Good"}
    data = write_folders(tmp_path / "a", good | {name: text})
    with pytest.raises(DataError) as error:
        read_task("IMDb", data)
    path = data / "aclImdb" / "train" / name.removesuffix("/a")
    assert str(error.value).startswith(str(path))
    assert message in str(error.value)
    skipping = read_task("IMDb", data, skip_bad_lines=True)
    assert skipping.splits["train"].texts == (["Bad", "Good"],)
    assert skipping.skipped == (str(error.value),)
    data = write_folders(tmp_path / "b", good, good | {name: text})
    with pytest.raises(DataError, match=r"aclImdb/test/"):
        read_task("IMDb", data, skip_bad_lines=True)


def test_an_empty_folder_is_named(tmp_path):
    data = write_folders(tmp_path, REVIEWS)
    review = data / "aclImdb" / "train" / "pos" / "0_8.txt"
    review.unlink()
    with pytest.raises(DataError, match=r"aclImdb/train/pos: expected reviews .*, found none"):
        read_task("IMDb", data)
    review.parent.rmdir()
    with pytest.raises(
        DataError, match=r"aclImdb/train/pos: this file of task IMDb does not exist"
    ):
        read_task("IMDb", data)
    review.parent.write_text("no folder")
    with pytest.raises(DataError, match=r"aclImdb/train/pos: cannot be read: Not a directory"):
        read_task("IMDb", data)
