from __future__ import annotations

import numpy as np
import pytest

from relation_tf.tasks import DataError, read_glove

WORDS = {"[PAD]": 0, "[UNK]": 1, "the": 2, "cat": 3, "zyx": 4}


def write(tmp_path, text):
    path = tmp_path / "glove.txt"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("header", ["", "3 2\n"])
def test_takes_the_words_of_the_vocabulary(tmp_path, header):
    path = write(tmp_path, f"{header}the 1 2\ndog 3 4\ncat -1 0.5\nthe 9 9\n")
    vectors = read_glove(path, WORDS, width=2)
    start = np.full((5, 2), 7, np.float32)
    filled = vectors.fill(start)
    assert filled.tolist() == [[7, 7], [7, 7], [1, 2], [-1, 0.5], [7, 7]]
    assert start.tolist() == [[7, 7]] * 5
    assert str(vectors) == "2 of 3 words found (66.7%)"


def test_words_with_blanks(tmp_path):
    path = write(tmp_path, "the 1 2\n. . . 3 4\ncat 5 6\n")
    vectors = read_glove(path, {**WORDS, ". . .": 5}, width=2)
    assert dict(zip(vectors.ids.tolist(), vectors.values.tolist(), strict=True)) == {
        2: [1, 2], 5: [3, 4], 3: [5, 6],
    }  # fmt: skip


def test_no_word_found(tmp_path):
    vectors = read_glove(write(tmp_path, "dog 3 4\n"), WORDS, width=2)
    assert vectors.values.shape == (0, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("the 1 2\ncat 1\n", r":2: expected a word and 2 numbers, found 1 after 'cat'"),
        ("the 1 2 3\n", ":1: expected a word and 2 numbers, found 3 after 'the'"),
        ("the 1 x\n", ":1: expected numbers after the word"),
        ("the 1 nan\n", ":1: expected finite numbers"),
    ],
)
def test_a_broken_line_is_named(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        read_glove(write(tmp_path, text), WORDS, width=2)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        read_glove(tmp_path / "none.txt", WORDS, width=2)


def test_the_real_subset_has_its_words(shared):
    path = shared("data/glove/glove.6B.50d.subset.txt")
    vectors = read_glove(path, WORDS, width=50)
    assert vectors.ids.tolist() == [WORDS["the"]]
