"""WikiText headers: classify passages of an encyclopedia by the level of their header.

An instance is a header and the text below it, up to the next header of any level. The class is
"secondary" if the header has two marks (` = = Career = = `), and "other" if it is the title of an
article (` = Robert Boulter = `) or a deeper header. The text of an instance is the lines below its
header, without blank lines and without the header itself, as in the sample that the authors of the
Relation paper publish. (Their lines also have `<sos>` at the start, as with `start_token`, and
`<eos>` after each paragraph.)

A header without text below it is an instance with an empty text. The authors seem to count these
headers: of the instances of the validation and test texts and of the sample (below), 46.1 % are
secondary with them and 41.9 % without them; the authors count 46.2 % in their training text.

A header is a separate line: a space, marks (`=` with spaces between them), a space, words, and the
same number of marks. The lines before and after it are blank, or the file starts or ends there. So
lines of formulas are not headers, such as ` = 1 rad / s and a nominal impedance k = ` in the test
text.

On the training text of WikiText-103 the authors count 304,092 instances: 140,365 secondary and
163,727 other; the longest has 6,231 tokens. These numbers have not been verified on the complete
text; `relation-tf tasks WikiText-103 --data DIR` prints the numbers of this reader. In the
validation and test texts, 301 of 620 and 302 of 704 instances are secondary.

Early stopping uses the official validation text: with a share of the training rows, passages of one
article would be in both parts. (The paper uses such a share, 20 %.)

For WikiText-2 a sample can replace the training text: `train_head_noblank.txt`, its start without
blank lines. There headers are recognized by the marks only. Results are not comparable with others,
and a note says so.

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
_BLANKS = rb"[ \r]*"  # carriage returns count as spaces
# At most ten marks: without this limit a long line of marks needs quadratic time.
_LINE = rb" (?P<marks>=(?: =){0,9}) (?!= )(?:\S|\S.*\S)(?<! =) (?P=marks)" + _BLANKS + rb"$"
_ABOVE = rb"(?:\A" + _BYTE_ORDER_MARK + rb"(?:" + _BLANKS + rb"\n)?|" + _BLANKS + rb"\n)"
_BELOW = rb"(?=\n" + _BLANKS + rb"$|\Z)"
_BALANCED = re.compile(rb"^" + _BYTE_ORDER_MARK + _LINE, re.MULTILINE)
_HEADER = re.compile(rb"^" + _ABOVE + _LINE + _BELOW, re.MULTILINE)

_INSTANCE = np.dtype([("start", np.int64), ("end", np.int64), ("line", int), ("label", np.int32)])


def header_rows(task: Task, path: Path, skipped: list[str] | None) -> TextSplit:
    """Read the instances of a file; the text stays in the file. `index` is the line from 0."""
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
    """Yield the start and the number of marks of each header, and of both ends of the file."""
    yield 0, 0
    for found in header.finditer(data):
        yield found.start("marks") - 1, found["marks"].count(b"=")
    yield len(data), 0


def _passage_text(passage: bytes) -> str:
    """Return the lines below the header."""
    _, *below = passage.split(b"\n")
    return b"\n".join(filter(None, map(bytes.strip, below))).decode()
