"""Tests with broken data files: a reader returns valid data or raises a one-line error."""

from __future__ import annotations

import functools
import gzip
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from relation_tf.errors import DataError
from relation_tf.tasks import read_glove
from relation_tf.tasks.catalogue import find_source
from relation_tf.tasks.custom import CustomTask
from relation_tf.tasks.task import TaskText
from tests.fuzz.mutations import COUNTS, mutations, refusal, zipped

pytestmark = pytest.mark.fuzz


def parquet(rows: Mapping[str, object]) -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.table(rows), stream)
    return stream.getvalue()


SGML = (
    b'<!DOCTYPE lewis SYSTEM "lewis.dtd">\n<REUTERS TOPICS="YES">\n<TOPICS><D>earn</D></TOPICS>\n'
    b"<TEXT>\n<TITLE>A</TITLE><BODY>Net profit &lt;X> rose.\n&#3;</BODY></TEXT>\n</REUTERS>\n"
)
WIKITEXT = b" \n = Title = \n \n Some text = here . \n \n = = Career = = \n \n More text . \n"


def own(suffix: str) -> CustomTask:
    return CustomTask(
        name="tones",
        inputs=["text"],
        label="tone",
        labels=["calm", "loud"],
        files={"train": f"train.{suffix}", "test": f"test.{suffix}"},
    )


@dataclass(frozen=True)
class Case:
    """Valid files of a task, and the names of the files to mutate."""

    task: str | CustomTask
    files: Mapping[str, bytes]
    broken: tuple[str, ...]


def pair(first: str, second: str, data: bytes) -> dict[str, bytes]:
    return {first: data, second: data}


RTE = (
    b"index\tsentence1\tsentence2\tlabel\n0\tA cat.\tAn animal.\tentailment\n"
    b"1\tA dog.\tA cat.\tnot_entailment\n"
)
ANSWERED = b"index\tsentence1\tsentence2\n0\tA cat.\tAn animal.\n1\tA dog.\tA cat.\n"
NEWS = b'"3","Oil","Prices ""fell"",\nagain."\n"1","","War and peace \xc3\xa9"\n"4","a","b"\n'

CASES = {
    "GLUE with a header": Case(
        "RTE",
        {**pair("RTE/train.tsv", "RTE/dev.tsv", RTE), "RTE/test.tsv": ANSWERED},
        ("RTE/train.tsv", "RTE/test.tsv"),
    ),
    "AG News": Case(
        "AG-News",
        pair("ag_news_csv/train.csv", "ag_news_csv/test.csv", NEWS),
        ("ag_news_csv/train.csv",),
    ),
    "Yelp sample": Case(
        "Yelp-full",
        pair(
            "yelp_full_sample/dev.json",
            "yelp_full_sample/test.json",
            json.dumps(
                {"0": {"ori": 'So \\""good\\"".\\n', "label": "4"}, "1": {"ori": "é", "label": "0"}}
            ).encode(),
        ),
        ("yelp_full_sample/dev.json",),
    ),
    "own Parquet": Case(
        own("parquet"),
        pair(
            "train.parquet", "test.parquet", parquet({"text": ["a é", "b"], "tone": ["calm"] * 2})
        ),
        ("train.parquet",),
    ),
    "Reuters SGML": Case(
        "Reuters",
        {f"reut2-{number:03}.sgm": SGML for number in range(22)},
        ("reut2-000.sgm",),
    ),
    "WikiText": Case(
        "WikiText-2",
        {f"wikitext-2/wiki.{split}.tokens": WIKITEXT for split in ("train", "valid", "test")},
        ("wikitext-2/wiki.train.tokens", "wikitext-2/wiki.test.tokens"),
    ),
    "sentences": Case(
        "MR", {"rt-polarity.all": b"1 good .\n0 bad \xe9 .\n" * 8}, ("rt-polarity.all",)
    ),
}


def write(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def check_text(text: TaskText) -> None:
    """Check the invariants of the output of every reader."""
    task = text.task
    assert {"train", *task.scored.values()} <= text.splits.keys()
    for name, split in text.splits.items():
        assert len(split) > 0
        assert len(split.texts) == len(task.inputs)
        for column in split.texts:
            assert len(column) == len(split)
            for value in column:
                assert type(value) is str
                assert "\0" not in value
                value.encode()
        assert len(np.unique(split.index)) == len(split)
        if name in task.answered.values():
            assert split.labels is None
            continue
        assert split.labels is not None
        assert len(split.labels) == len(split)
        assert np.isfinite(split.labels).all()
        largest = 1 if task.labels is None else len(task.labels) - 1
        assert 0 <= split.labels.min() <= split.labels.max() <= largest


def read(case: Case, folder: Path) -> None:
    check_text(find_source(case.task, "auto", folder).read())


@COUNTS
@pytest.mark.parametrize("name", CASES)
def test_a_broken_file_is_read_or_named(tmp_path, name, count):
    case = CASES[name]
    write(tmp_path, case.files)
    read(case, tmp_path)
    messages = []
    for broken in case.broken:
        path = tmp_path / broken
        for data in mutations(case.files[broken], count // len(case.broken)):
            path.write_bytes(data)
            reading = functools.partial(read, case, tmp_path)
            messages.append(refusal(reading, DataError, str(path.parent)))
        path.write_bytes(case.files[broken])
    assert 0 < sum(message is not None for message in messages) < len(messages)


MEGABYTE = 2**20
LONG = {
    "nothing": b"",
    "a line": b"x" * MEGABYTE,
    "quotes": b'"' * (MEGABYTE - 1),
    "a quote that is never closed": b'1,a\n2,"' + b"b\n" * (MEGABYTE // 16),
    "columns": b"\t".join(b"%d" % number for number in range(150_000)),
    "marks of headers": b" " + b"= " * (MEGABYTE // 2) + b"x " + b"= " * 1000,
    "marks and blanks": (b" = x" + b" =" + b" " * 1000) * 1000,
    "tags that open": b"<REUTERS " + b"<BODY>" * 80_000 + b"</REUTERS>" + b"</BODY>" * 80_000,
    "a long number": b'{"text": ' + b"9" * MEGABYTE + b"}",
}  # fmt: skip


@pytest.mark.parametrize("data", LONG.values(), ids=list(LONG))
def test_a_long_or_odd_file_is_read_at_once_or_named(tmp_path, data):
    for number, case in enumerate(CASES.values()):
        folder = tmp_path / str(number)
        write(folder, case.files)
        path = folder / case.broken[0]
        path.write_bytes(data)
        refusal(find_source(case.task, "auto", folder).read, DataError, str(path.parent))


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("GLUE with a header", b"\t".join(b"c%d" % i for i in range(99)), " and 91 more"),
        ("Reuters SGML", SGML.replace(b"Net", b"N\0t"), ":5: expected text, found a NUL byte"),
        ("sentences", b"1 good\n0 bad\n", "rt-polarity.all: must have enough rows to cut off"),
    ],
)  # fmt: skip
def test_received_value_is_shown_readably(tmp_path, name, data, message):
    case = CASES[name]
    write(tmp_path, case.files)
    path = tmp_path / case.broken[0]
    path.write_bytes(data)
    found = refusal(functools.partial(read, case, tmp_path), DataError, str(path))
    assert found is not None
    assert message in found


WORDS = {"[PAD]": 0, "[UNK]": 1, "the": 2, "cat": 3, "caf\u00e9": 4}
GLOVE = "the 0.1 -2 3e-2\ndog 1 2 3\ncat 4 5 6\n. . . 7 8 9\ncafé 1 0 1\nthe 9 9 9\n".encode()


GLOVES = {
    "glove.txt": GLOVE,
    "header.txt": b"6 3\n" + GLOVE,
    "glove.txt.gz": gzip.compress(GLOVE, mtime=0),
    "glove.zip": zipped({"glove.txt": GLOVE}),
    "many.zip": zipped({"glove.3d.txt": GLOVE, "glove.2d.txt": b"the 1 2\n"}),
}


def vectors(path: Path) -> None:
    found = read_glove(path, WORDS, 3)
    assert found.values.shape == (len(found.ids), 3)
    assert np.isfinite(found.values).all()
    assert set(found.ids.tolist()) <= {2, 3, 4}
    assert len(set(found.ids.tolist())) == len(found.ids)


@COUNTS
@pytest.mark.parametrize("name", GLOVES)
def test_broken_word_vectors_are_read_or_named(tmp_path, name, count):
    path = tmp_path / name
    path.write_bytes(GLOVES[name])
    vectors(path)
    messages = []
    for data in mutations(GLOVES[name], count):
        path.write_bytes(data)
        messages.append(refusal(functools.partial(vectors, path), DataError, str(path)))
    assert list(tmp_path.iterdir()) == [path]
    assert 0 < sum(message is not None for message in messages) < len(messages)
