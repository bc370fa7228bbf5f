from __future__ import annotations

import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relation_tf.errors import DataError
from relation_tf.tasks import plain_text
from relation_tf.tasks.plain_text import batch_rows, mask_tokens, read_lines, read_plain_text
from relation_tf.tasks.vocabulary import Vocabulary

SMALL = {"length": 8, "held_out": 0.25, "vocabulary_size": 60}
LINES = ["The relation of one word,", "to all the others!", "", "Öde Wörter sind auch Wörter."] * 9


@pytest.fixture
def text_file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("\n".join(LINES), encoding="utf-8")
    return path


def test_blocks_follow_each_other(text_file, tmp_path):
    (tmp_path / "b.txt").write_text("\n".join(LINES[::-1]), encoding="utf-8")
    text = read_plain_text([text_file, tmp_path / "b.txt"], **SMALL)
    ids = text.vocabulary.encode([line for line in LINES + LINES[::-1] if line]).ids
    blocks = np.concatenate([text.train, text.held_out])
    np.testing.assert_array_equal(blocks.ravel(), ids[: blocks.size])
    assert blocks.size == len(ids) // 8 * 8
    assert len(text.held_out) == round(0.25 * len(blocks))
    assert (blocks != 0).all()


def test_held_out_file_does_not_affect_the_vocabulary(text_file, tmp_path):
    (tmp_path / "b.txt").write_text("zebra " * 50)
    alone = read_plain_text([text_file], **SMALL)
    text = read_plain_text([text_file], **SMALL | {"held_out": tmp_path / "b.txt"})
    assert text.vocabulary.to_json() == alone.vocabulary.to_json()
    assert len(text.train) == len(alone.train) + len(alone.held_out)
    np.testing.assert_array_equal(
        text.held_out.ravel(), text.vocabulary.encode(["zebra " * 50]).ids[: text.held_out.size]
    )


def test_gzip_and_crlf_files(text_file, tmp_path):
    expected = [line for line in LINES if line]
    assert [*read_lines(text_file)] == expected
    data = text_file.read_bytes()
    packed = tmp_path / "a.txt.GZ"
    packed.write_bytes(gzip.compress(data))
    windows = tmp_path / "b.txt"
    windows.write_bytes(b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n"))
    assert [*read_lines(packed)] == [*read_lines(windows)] == expected


def test_long_lines_are_split(text_file, monkeypatch):
    text_file.write_text("eins zwei drei äöü fünf " * 9 + "\nund sechs\n" + "sieben " * 9)
    words = text_file.read_text().split()
    monkeypatch.setattr(plain_text, "_LONGEST", 10)
    parts = [*read_lines(text_file)]
    assert " ".join(parts).split() == words
    assert len(parts) > 20
    text_file.write_text("kurz\n" + "x" * 30)
    with pytest.raises(DataError, match=r"a\.txt:2: expected words shorter than 10 bytes"):
        [*read_lines(text_file)]


def test_encoded_once(text_file, monkeypatch):
    first = read_plain_text([text_file], **SMALL)
    monkeypatch.setattr(Vocabulary, "train", None)  # encoding again would fail
    again = read_plain_text([text_file], **SMALL | {"length": 4})
    np.testing.assert_array_equal(again.train.ravel()[:50], first.train.ravel()[:50])
    text_file.write_text(text_file.read_text() + "more")
    with pytest.raises(TypeError):
        read_plain_text([text_file], **SMALL)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"good\n\nb\xe4d\n", "a.txt:3: expected UTF-8, byte 2 of the line is 0xE4"),
        (b"good\nba\0d\n", "a.txt:2: expected text, found a NUL byte"),
        (b"short", "a.txt: expected text for at least one block of 8 tokens, found less"),
        (b"word " * 9, "a.txt: expected text for at least one block of 8 tokens, found less"),
    ],
)
def test_errors_of_bad_text(text_file, content, message):
    text_file.write_bytes(content)
    with pytest.raises(DataError) as error:
        read_plain_text([text_file], **SMALL)
    assert str(error.value) == f"{text_file.parent}/{message}"


def test_bad_files(text_file, tmp_path):
    with pytest.raises(DataError, match=r"b\.txt: cannot be read: No such file"):
        read_plain_text([text_file, tmp_path / "b.txt"], **SMALL)
    with pytest.raises(DataError, match=r"a\.txt: has the same text as .*a\.txt\. Give"):
        read_plain_text([text_file], **SMALL | {"held_out": text_file})
    with pytest.raises(DataError, match=r"held-out: must be .* Received: 1$"):
        read_plain_text([text_file], **SMALL | {"held_out": 1.0})
    packed = tmp_path / "c.gz"
    packed.write_bytes(gzip.compress(text_file.read_bytes())[:-20])
    with pytest.raises(DataError, match=r"c\.gz: cannot be read: "):
        read_plain_text([packed], **SMALL)


@given(st.integers(1, 5), st.integers(1, 40), st.floats(0.01, 1.0), st.integers(0, 2**32))
def test_masked_positions(blocks, length, share, seed):
    ids = np.random.default_rng(seed).integers(1, 50, (blocks, length), np.uint16)
    given_ids, at, words = mask_tokens(ids, 50, np.random.default_rng(seed), share)
    assert at.shape == words.shape == (blocks, max(1, round(share * length)))
    assert {given_ids.dtype, at.dtype, words.dtype} == {np.dtype(np.int32)}
    assert (np.diff(at, axis=1) > 0).all()
    np.testing.assert_array_equal(words, np.take_along_axis(ids, at, axis=1))
    left = np.ones(ids.shape, bool)
    np.put_along_axis(left, at, False, axis=1)
    np.testing.assert_array_equal(given_ids[left], ids[left])
    assert (given_ids[~left] > 0).all()
    assert (given_ids <= 50).all()


def test_masks_are_of_three_kinds():
    ids = np.full((2000, 100), 7)
    given_ids, at, _ = mask_tokens(ids, 1000, np.random.default_rng(0))
    hidden = np.take_along_axis(given_ids, at, axis=1)
    others = hidden[(hidden != 1000) & (hidden != 7)]
    kinds = [(hidden == 1000).mean(), others.size / hidden.size, (hidden == 7).mean()]
    np.testing.assert_allclose(kinds, [0.8, 0.1, 0.1], atol=0.005)
    assert (others.min(), others.max()) == (2, 999)  # any word, neither padding nor unknown
    # Each place is as likely as another.
    counts = np.bincount(at.ravel(), minlength=100)
    np.testing.assert_allclose(counts / 2000, 0.15, atol=0.04)


@given(st.integers(1, 30), st.integers(1, 12), st.integers(0, 5))
def test_steps_go_through_all_blocks(blocks, batch_size, seed):
    steps = -(-3 * blocks // batch_size)
    rows = np.concatenate([batch_rows(blocks, batch_size, seed, step) for step in range(steps)])
    for i in range(3):
        assert sorted(rows[i * blocks : (i + 1) * blocks]) == [*range(blocks)]
