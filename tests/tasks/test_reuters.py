from __future__ import annotations

from collections import Counter

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


def test_fewer_newswires_than_keras_has_are_noted(tmp_path):
    data = write(tmp_path, *[wire(["earn"], "So")] * 5)
    (note,) = read_task("Reuters", data).notes
    assert "5 of the 11,228" in note


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (wire(["earn"], "So")[:-20], "from <REUTERS> to </REUTERS>, found 1 <REUTERS> and 0"),
        (
            wire(["earn"], "So").replace("</BODY>", ""),
            "from <BODY> to </BODY>, found 1 <BODY> and 0",
        ),
        (wire(["earn"], "So").replace("</TOPICS>", ""), "from <TOPICS> to </TOPICS>, found 1"),
        ("version https://git-lfs", "from <REUTERS> to </REUTERS>, found 0"),
    ],
)
def test_a_file_with_open_ends_is_named(tmp_path, content, message):
    data = write(tmp_path, content, file=3)
    with pytest.raises(DataError) as error:
        read_task("Reuters", data)
    assert str(error.value).startswith(f"{data / 'reuters21578' / 'reut2-003.sgm'}: expected ")
    assert message in str(error.value)


# The classes of the rows of Keras's set, as its users print them.
TRAIN_ROWS = [
    55, 432, 74, 3159, 1949, 17, 48, 16, 139, 101, 124, 390, 49, 172, 26, 20, 444, 39, 66, 549, 269,
    100, 15, 41, 62, 92, 24, 15, 48, 19, 45, 39, 32, 11, 50, 10, 49, 19, 19, 24, 36, 30, 13, 21, 12,
    18,
]  # fmt: skip

# Its first training row behind the start token, less the 3 that Keras adds to each rank.
FIRST_ROW = [
    27592, 28839, 5, 40, 7, 444, 2, 22, 204, 267, 2, 3092, 108, 13, 366, 183, 87, 64, 4, 86, 2, 16,
    99, 3, 16, 121, 12, 87, 64, 81, 19, 479, 23, 4, 45, 1, 46, 5, 861, 36, 206, 151, 3, 148, 3, 80,
    8, 12, 19, 152, 8, 12, 4, 45, 6, 4576, 1002, 501, 3, 255, 3, 269, 8, 12, 19, 131, 41, 8, 12, 13,
    5, 194, 1242, 87, 64, 49, 26, 206, 27, 29, 129, 3, 106, 12, 14, 9,
]  # fmt: skip


def test_the_real_newswires_give_the_set_of_keras(shared):
    text = read_task("Reuters", shared("data/reuters21578").parent)
    train, test = text.splits["train"], text.splits["test"]
    assert (len(train), len(test)) == (8982, 2246)
    assert np.bincount(train.labels).tolist() == TRAIN_ROWS
    assert train.labels[:10].tolist() == [3, 4, 3, 4, 4, 4, 4, 3, 3, 16]
    rows = [row.split() for split in (train, test) for row in split.texts[0]]
    lengths = [len(row) for row in rows]
    # A token more each, [START], in what Keras loads: 145.5398574927633 and 2,376.
    assert np.mean(lengths[:8982]) + 1 == 145.5398574927633
    assert max(lengths) + 1 == 2376
    counts = Counter(word for row in rows for word in row)
    assert len(counts) == 30_979
    # Words of one count may have any order among them.
    by_rank = sorted(counts.values(), reverse=True)
    assert [counts[word] for word in rows[0]] == [by_rank[rank - 1] for rank in FIRST_ROW]
    assert not text.notes
