from __future__ import annotations

import gzip
import zipfile

import numpy as np
import pytest

from relation_tf.errors import DataError
from relation_tf.tasks import read_glove
from relation_tf.tasks.glove import check_glove

WORDS = {"[PAD]": 0, "[UNK]": 1, "the": 2, "cat": 3, "zyx": 4}
TEXT = "the 1 2\ncat 3 4\n"


def write(tmp_path, text):
    path = tmp_path / "glove.txt"
    path.write_text(text, encoding="utf-8")
    return path


def gzipped(tmp_path, text):
    path = tmp_path / "glove.txt.gz"
    path.write_bytes(gzip.compress(text.encode()))
    return path


def zipped(tmp_path, *texts, name="glove.6B.zip", **members):
    """Write a zip with texts as `0.txt`, `1.txt`, ..., and named members."""
    path = tmp_path / name
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, text in [
            *((f"{i}.txt", text) for i, text in enumerate(texts)),
            *members.items(),
        ]:
            archive.writestr(member, text)
    return path


def vectors_of(path, words=WORDS, width=2):
    vectors = read_glove(path, words, width)
    return dict(zip(vectors.ids.tolist(), vectors.values.tolist(), strict=True))


@pytest.mark.parametrize("header", ["", "4 2\n"])
@pytest.mark.parametrize("pack", [write, gzipped, zipped])
def test_takes_the_words_of_the_vocabulary(tmp_path, header, pack):
    path = pack(tmp_path, f"{header}the 1 2\ndog 3 4\ncat -1 0.5\nthe 9 9\n")
    check_glove(path, 2)
    vectors = read_glove(path, WORDS, width=2)
    start = np.full((5, 2), 7, np.float32)
    filled = vectors.fill(start)
    assert filled.tolist() == [[7, 7], [7, 7], [1, 2], [-1, 0.5], [7, 7]]
    assert start.tolist() == [[7, 7]] * 5
    assert vectors.values.dtype == "float32"
    assert (len(vectors.ids), vectors.vocabulary_size) == (2, 3)


def test_words_with_blanks(tmp_path):
    path = write(tmp_path, "the 1 2\n. . . 3 4\ncat 5 6\n")
    assert vectors_of(path, {**WORDS, ". . .": 5}) == {2: [1, 2], 5: [3, 4], 3: [5, 6]}


BROKEN = [
    ("the 1 2\ncat 1\n", r":2: expected a word and 2 numbers, found 1 after 'cat'"),
    ("the 1 2 3\n", ":1: expected a word and 2 numbers, found 3 after 'the'"),
    ("the 1 2\n\ncat 1 2\n", ":2: expected a word and 2 numbers, found 0 after ''"),
    ("dog 1 2\nthe 1 x\n", ":2: expected numbers after the word: .* b'x'"),
    ("the 1 nan\n", ":1: expected finite numbers"),
    ("the nan 1 2\n", ":1: expected a word and 2 numbers, found 3 after .the."),
    ("the 1 1e39\n", ":1: expected finite numbers"),
    ("", ": expected word vectors, found none"),
    ("the 1 2\n" + "x" * 2**21, r":2: expected a word and 2 numbers, found 0 after 'x{1,40}$"),
]


@pytest.mark.parametrize(("text", "message"), BROKEN)
@pytest.mark.filterwarnings("error")
def test_error_names_a_broken_line(tmp_path, text, message):
    with pytest.raises(DataError, match=rf"glove\.txt{message}") as error:
        read_glove(write(tmp_path, text), WORDS, width=2)
    assert len(str(error.value)) < len(str(tmp_path)) + 150


@pytest.mark.parametrize("header", ["", "2 {width}\n"])
def test_archive_member_with_the_width_is_used(tmp_path, header):
    texts = {
        f"glove.6B.{width}d.txt": header.format(width=width)
        + f"the {' '.join(['1'] * width)}\ncat {' '.join(['2'] * width)}\n"
        for width in (2, 3, 5)
    }
    path = zipped(tmp_path, **texts, README="see 1 2\n")
    for width in (2, 3, 5):
        assert vectors_of(path, width=width) == {2: [1] * width, 3: [2] * width}
    names = ", ".join(texts)
    with pytest.raises(
        DataError, match=rf"6B\.zip: expected one file .* width 4, found 0 among {names}$"
    ):
        check_glove(path, 4)


def test_an_archive_without_a_file_of_the_width_is_named(tmp_path):
    with pytest.raises(DataError, match=r"width 2, found 0 among none"):
        read_glove(zipped(tmp_path), WORDS, width=2)
    with pytest.raises(DataError, match=r"width 2, found 0 among 0\.txt, 1\.txt"):
        read_glove(zipped(tmp_path, TEXT, TEXT), WORDS, width=2)
    with pytest.raises(DataError, match=r"none.txt: cannot be read: No such file"):
        read_glove(tmp_path / "none.txt", WORDS, width=2)


MANY = "".join(f"word{i} {i * 0.37:.4f} {i * 7919 % 1009}\n" for i in range(5000))


def test_a_cut_gzip_file_is_named(tmp_path):
    path = gzipped(tmp_path, MANY)
    path.write_bytes(path.read_bytes()[:-2000])
    check_glove(path, 2)
    with pytest.raises(DataError, match=r"txt\.gz: cannot be read: .*end"):
        read_glove(path, WORDS, width=2)
