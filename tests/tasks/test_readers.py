from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relation_tf.errors import DataError
from relation_tf.tasks import Table, TextSplit, find_task
from relation_tf.tasks.datasets import cut, labelled_rows, line_rows

MR, IMDB = map(find_task, ("MR", "IMDb"))
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\0"), max_size=20)


def read(folder, content, separator=" "):
    path = folder / "lines.all"
    path.write_bytes(content)
    return line_rows(separator)(MR, path)


@given(
    lines=st.lists(st.tuples(st.integers(0, 1), TEXT), min_size=1, max_size=8),
    separator=st.sampled_from([" ", "\t"]),
)
@settings(max_examples=80, deadline=None)
def test_reads_back_any_text(tmp_path_factory, lines, separator):
    content = "".join(f"{label}{separator}{text}\n" for label, text in lines).encode()
    split = read(tmp_path_factory.mktemp("lines"), content, separator)
    assert split.texts == ([text for _, text in lines],)
    assert split.labels.tolist() == [label for label, _ in lines]
    assert split.index.tolist() == list(range(len(lines)))


def test_utf8_and_windows_1252_in_one_file(tmp_path):
    split = read(tmp_path, b"1 caf\xe9 \x85 it\x92s\n0 caf\xc3\xa9 \xc2\x85\n")
    assert split.texts == (["café … it’s", "café \u0085"],)


def test_crlf_byte_order_mark_and_no_last_end(tmp_path):
    split = read(tmp_path, b"\xef\xbb\xbf1 good\r\n0 bad")
    assert split.texts == (["good", "bad"],)
    # In a file whose lines end at LF a carriage return is text.
    assert read(tmp_path, b"1 good\n0 bad\r\n").texts == (["good", "bad\r"],)


@pytest.mark.parametrize(
    ("content", "separator", "message"),
    [
        (b"1 good\n\n0 bad\n", " ", ":2: expected 0 or 1, a space and a text, found ''"),
        (b"1\tgood\n", " ", r":1: expected 0 or 1, a space and a text, found '1\tgood'"),
        (b"1 good\n", "\t", ":1: expected 0 or 1, a tab and a text, found '1 good'"),
        (b"good " * 20, " ", "found 'good good good good good good good g...'"),
        (b"1 good\n0 b\x81d\n", " ", ":2: expected UTF-8 or Windows-1252, byte 4 of the line is "
         "0x81"),
        (b"1 good\0\n", " ", ":1: expected text, found a NUL byte"),
    ],
)  # fmt: skip
def test_a_malformed_line_is_named(tmp_path, content, separator, message):
    with pytest.raises(DataError) as error:
        read(tmp_path, content, separator)
    assert str(tmp_path / "lines.all") in str(error.value)
    assert message in str(error.value)


def table(*words):
    lines = list(range(2, 2 + len(words)))
    return Table(Path("reviews.tsv"), {"label": list(words)}, lines)


@pytest.mark.parametrize("word", ["", "Pos", "neg\n"])
def test_another_label_is_named(word):
    with pytest.raises(DataError) as error:
        labelled_rows(IMDB, table("pos", word), texts=[["good", "bad"]])
    message = f"reviews.tsv:3: column 'label': expected 'neg' or 'pos', found {word!r}"
    assert str(error.value) == message.replace("\n", "\\n")


# Division of rows.


def rows(labels, dtype=np.int32):
    texts = [str(i) for i in range(len(labels))]
    return TextSplit((texts, texts), np.array(labels, dtype), np.arange(len(labels)))


@given(st.lists(st.integers(0, 3), min_size=2, max_size=80), st.data())
@settings(max_examples=100, deadline=None)
def test_every_row_is_in_one_part_and_classes_keep_their_shares(labels, data):
    count = data.draw(st.integers(1, len(labels) - 1))
    rest, taken = cut(rows(labels), count)
    assert len(taken) == count
    assert sorted([*rest.index, *taken.index]) == list(range(len(labels)))
    for part in (rest, taken):
        assert np.all(np.diff(part.index) > 0)
        assert part.labels.tolist() == [labels[i] for i in part.index]
        assert part.texts == ([str(i) for i in part.index],) * 2
    for label in set(labels):
        fair = count * labels.count(label) / len(labels)
        assert abs((taken.labels == label).sum() - fair) < 1


def test_rows_never_change():
    _, taken = cut(rows([0] * 700 + [1] * 300), 0.1)
    digest = hashlib.sha256(json.dumps(taken.index.tolist()).encode()).hexdigest()
    assert taken.index[:5].tolist() == [0, 2, 6, 32, 50]
    assert digest.startswith("b5fdaecae8aa2c63")


def test_seeds_give_other_rows():
    labels = [0] * 700 + [1] * 300
    taken = [set(cut(rows(labels), 0.1, seed=seed)[1].index.tolist()) for seed in (None, 1, 2, 1)]
    assert taken[1] == taken[3]
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert 0 < len(taken[i] & taken[j]) < 30  # about ten by chance


@pytest.mark.parametrize(("count", "size"), [(1, 0.5), (4, 0.1), (4, 4), (4, 9)])
def test_neither_part_may_be_empty(count, size):
    with pytest.raises(DataError, match=f"Received: {count} rows"):
        cut(rows([0] * count), size)
