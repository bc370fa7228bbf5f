"""WikiText headers: whether a passage of an encyclopedia stands under a secondary header.

An instance is a header and the text under it, up to the next header of any level. It is "secondary"
where the header has two marks (` = = Career = = `), and "other" where it is the title of an article
(` = Robert Boulter = `) or deeper. The marks would give that away, so they are left out and the
words of the header kept; then come the lines below it, without blank ones.

A header is a line of its own: a blank, marks (`=`, blanks between), a blank, words, and as many
marks again. Above it and below it is a blank line, the start or the end of the file. That is what
tells it from lines of a formula, ` = 1 rad / s and a nominal impedance k = ` in the test text.

On the training text of WikiText-103 the Relation paper's program counts 304,092 instances, 140,365
of them secondary and 163,727 other, the longest of 6,231 tokens. These figures have not been
checked on the whole text; `relation-tf tasks WikiText-103 --data DIR` prints ours. In the texts to
validate and to test, 301 of 620 and 302 of 704 are secondary.

What stops the training is the data's own validation text: a share of the training rows would put
passages of one article on both sides. (The paper takes such a share, 20 %.)

Of WikiText-2 there may be a sample in place of the training text, `train_head_noblank.txt`: its
start, with the blank lines dropped. There the marks alone tell a header. A result on it is not
comparable with others, and a note says so.

References:
    Merity, Xiong, Bradbury and Socher 2017, "Pointer Sentinel Mixture Models" (ICLR). The task:
    Yamada, Baladram and Lin 2022, "Relation is an option for processing context information"
    (Frontiers in Artificial Intelligence 5).
"""

from __future__ import annotations

import itertools
import mmap
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from relation_tf.errors import DataError
from relation_tf.tasks.rows import FileTexts
from relation_tf.tasks.tables import decode_record, leave_out, readable
from relation_tf.tasks.task import Task, TextSplit

SAMPLE = "train_head_noblank.txt"

_SECONDARY = 2  # marks

_BYTE_ORDER_MARK = rb"(?:\xef\xbb\xbf)?"
_BLANKS = rb"[ \r]*"  # carriage returns are blanks, whether all lines end in one or a few
# No header has more than ten marks; to try any number takes the square of a line of them.
_LINE = rb" (?P<marks>=(?: =){0,9}) (?!= )(?P<words>\S|\S.*\S)(?<! =) (?P=marks)" + _BLANKS + rb"$"
_ABOVE = rb"(?:\A" + _BYTE_ORDER_MARK + rb"(?:" + _BLANKS + rb"\n)?|" + _BLANKS + rb"\n)"
_BELOW = rb"(?=\n" + _BLANKS + rb"$|\Z)"
_BALANCED = re.compile(rb"^" + _BYTE_ORDER_MARK + _LINE, re.MULTILINE)
_HEADER = re.compile(rb"^" + _ABOVE + _LINE + _BELOW, re.MULTILINE)

_INSTANCE = np.dtype([("start", np.int64), ("end", np.int64), ("line", int), ("label", np.int32)])


def header_rows(task: Task, path: Path, skipped: list[str] | None) -> TextSplit:
    """Read the instances of a file, their text left in it; `index` is the line from 0."""
    header = _BALANCED if path.name == SAMPLE else _HEADER

    def instances(data: mmap.mmap) -> Iterator[tuple[int, int, int, bool]]:
        line = 0
        for (start, marks), (end, _) in itertools.pairwise(_bounds(data, header)):
            passage = data[start:end]
            try:
                if marks:
                    decode_record(path, line + 1, passage)
                    yield start, end, line, marks == _SECONDARY
            except DataError as error:
                leave_out(error, skipped)
            line += passage.count(b"\n")

    with readable(path), path.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    with data:
        rows = np.fromiter(instances(data), _INSTANCE)
    if not len(rows):
        lone = " between blank lines" if header is _HEADER else ""
        raise DataError(f"{path}: expected headers such as ' = = Title = = '{lone}, found none")
    texts = FileTexts(path, rows["start"].copy(), rows["end"].copy(), _passage_text)
    return TextSplit((texts,), rows["label"].copy(), rows["line"].copy())


def _bounds(data: mmap.mmap, header: re.Pattern[bytes]) -> Iterator[tuple[int, int]]:
    """Return the start and the number of marks of each header, between the ends of the file."""
    yield 0, 0
    for found in header.finditer(data):
        yield found.start("marks") - 1, found["marks"].count(b"=")
    yield len(data), 0


def _passage_text(passage: bytes) -> str:
    """Return the words of the header and the lines under it, a line each."""
    header, _, body = passage.partition(b"\n")
    found = _BALANCED.match(header)
    assert found is not None  # a passage starts at a header
    lines = (line.strip() for line in body.split(b"\n"))
    return b"\n".join([found["words"], *filter(None, lines)]).decode()
