from __future__ import annotations

import numpy as np
import pytest

from relation_tf.errors import DataError
from relation_tf.tasks.datasets import TOPICS
from tests.tasks.equality import read_task

FILES = [f"reut2-{number:03}.sgm" for number in range(22)]
HEADER = '<!DOCTYPE lewis SYSTEM "lewis.dtd">\n'


def wire(topics, body):
    """Return a newswire in the format of Reuters-21578."""
    topics = "".join(f"<D>{topic}</D>" for topic in topics)
    body = "" if body is None else f"<BODY>{body}\n&#3;</BODY>"
    return (
        '<REUTERS TOPICS="YES" LEWISSPLIT="TRAIN" NEWID="1">\n<DATE>26-FEB-1987</DATE>\n'
        f"<TOPICS>{topics}</TOPICS>\n<PLACES><D>usa</D></PLACES>\n"
        f"<TEXT>&#2;\n<TITLE>THE TITLE</TITLE>{body}</TEXT>\n</REUTERS>\n"
    )


def write(data, *wires, file=0):
    folder = data / "reuters21578"
    folder.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        if not (folder / name).exists():
            (folder / name).write_text(HEADER + wire([], "No topic"))
    (folder / FILES[file]).write_bytes((HEADER + "".join(wires)).encode("latin-1"))
    return data


def newswires(data):
    """Return all texts with their labels, in the order of the files."""
    splits = read_task("Reuters", data).splits
    rows = [
        (index, text, int(label))
        for split in splits.values()
        for index, text, label in zip(split.index, split.texts[0], split.labels, strict=True)
    ]
    return [(text, label) for _, text, label in sorted(rows)]


def test_the_first_topic_of_each_newswire_is_its_class(tmp_path):
    data = write(
        tmp_path,
        wire(["earn"], "One"),
        wire([], "No topic"),
        wire(["acq", "earn"], "Two"),
        wire(["barley", "grain"], "Rare topic first"),
        wire(["lead"], "Three"),
    )
    assert newswires(data) == [("one 3", 3), ("two 3", 4), ("three 3", 45)]


def test_words_are_those_of_keras(tmp_path):
    body = "It's &lt;Caf\u00e9 \u00dc>,\r\n    up 1.5 pct-\tto_day; A/B\x02 (so)\u00a0now"
    ((text, _),) = newswires(write(tmp_path, wire(["earn"], body)))[:1]
    expected = "it's lt café ü up 1 5 pct to day a b\x02 so now 3"
    assert text == expected


def test_a_newswire_without_a_body_has_the_next_of_its_file(tmp_path):
    data = write(
        tmp_path,
        wire(["earn"], None),
        wire(["acq"], None),
        wire([], "Next body"),
        wire(["trade"], "Other"),
        wire(["money-fx"], None),
    )
    write(data, wire(["ship"], "Next file"), file=1)
    assert newswires(data) == [
        ("next body 3", 3),
        ("next body 3", 4),
        ("other 3", 11),
        ("ney fx", 19),
        ("next file 3", 13),
    ]


def test_rows_are_cut_as_keras_cuts_them(tmp_path, monkeypatch):
    from keras.datasets import reuters

    labels = np.random.default_rng(0).integers(0, 46, 58)
    wires = [wire([TOPICS[label]], str(i)) for i, label in enumerate(labels)]
    text = read_task("Reuters", write(tmp_path, *wires))
    path = tmp_path / "reuters.npz"
    np.savez(path, x=np.array([[i] for i in range(58)], object), y=labels)
    monkeypatch.setattr("keras.src.datasets.reuters.get_file", lambda **_: str(path))
    expected = reuters.load_data(num_words=99, start_char=None, oov_char=None, index_from=0)
    for split, (x, y) in zip(("train", "test"), expected, strict=True):
        assert text.splits[split].texts == ([f"{row} 3" for (row,) in x],)
        assert text.splits[split].index.tolist() == [row for (row,) in x]
        assert text.splits[split].labels.tolist() == y.tolist()
    assert text.spaced


def test_few_newswires_are_noted_and_a_file_without_any_is_refused(tmp_path):
    data = write(tmp_path, wire(["earn"], "So"))
    assert read_task("Reuters", data).notes == ("1 of the 11,228 newswires of the Keras dataset",)
    write(data, "version https://git-lfs")
    with pytest.raises(DataError, match=r"reut2-000\.sgm: expected newswires .*, found none"):
        read_task("Reuters", data)
