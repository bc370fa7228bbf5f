r"""Reuters: 11,228 newswires of 1987 with one of 46 topics, the dataset of Keras.

It is rebuilt from Reuters-21578, files `reut2-000.sgm` to `reut2-021.sgm`, with the rules of the
archive `reuters.npz` of Keras:

- The class of a newswire is its first topic (1,821 of the 11,228 have several topics).
- Topics that are the first topic of at least 15 newswires are kept, 46 of 82. They are numbered in
  the order of the files: `TOPICS`, the names of `keras.datasets.reuters.get_label_names`.
- The text is the body without the title. Entities are not decoded (`&lt;` gives the word `lt`, and
  `&#3;` at the end of most bodies gives the word `3`). Text is lower-case without punctuation,
  except apostrophes, as with the Keras `Tokenizer`.
- A newswire without a body gets the next body in its file. This affects 975 newswires: 184 test
  rows have the same text as training rows (237 including other duplicates). In one case no body
  follows; Keras then used a part of the topic, which gave the word `rn`.
- Rows are shuffled with `RandomState(113)`; the last 20 % are the test set. The ModApte split of
  Reuters-21578 is not used.

Published facts about the archive agree: 8,982 training and 2,246 test rows, training rows per
class, 30,979 words, mean (144.54) and largest (2,375) length in words, length and class of the
first rows. Rows, order and classes are therefore assumed to be equal to those of Keras; the archive
itself was not available for a comparison.

Reuters with all topics of each newswire (ModApte, 90 topics) has several labels per row and is not
supported.

There is no validation split: a share of the training rows is used.

References:
    Lewis 1997, "Reuters-21578 text categorization test collection, Distribution 1.0".
    `keras.datasets.reuters` of Keras, and its issue 12072 on the topics.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from relation_tf.errors import DataError
from relation_tf.tasks.tables import decode_record, readable
from relation_tf.tasks.task import Task, TaskText, TextSplit

TOPICS: tuple[str, ...] = (
    "cocoa", "grain", "veg-oil", "earn", "acq", "wheat", "copper", "housing", "money-supply",
    "coffee", "sugar", "trade", "reserves", "ship", "cotton", "carcass", "crude", "nat-gas", "cpi",
    "money-fx", "interest", "gnp", "meal-feed", "alum", "oilseed", "gold", "tin", "strategic-metal",
    "livestock", "retail", "ipi", "iron-steel", "rubber", "heat", "jobs", "lei", "bop", "zinc",
    "orange", "pet-chem", "dlr", "gas", "silver", "wpi", "hog", "lead",
)  # fmt: skip
"""Names of the classes."""

_SEED = 113
_TEST_SHARE = 0.2
_NEWSWIRES = 11_228
_PUNCTUATION = str.maketrans(dict.fromkeys('!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~', " "))
# The search for an end stops at the next start: otherwise broken files need quadratic time.
_FIRST_TOPIC_OR_BODY = re.compile(
    r"<TOPICS><D>([^<]*)</D>|<BODY>([^<]*(?:<(?!/?BODY>)[^<]*)*)</BODY>"
)


def read_sgml(task: Task, files: Mapping[str, Path], skip_bad_lines: bool) -> TaskText:
    """Read the files of Reuters-21578. Malformed lines are an error: the files have scored rows."""
    topics = {topic: number for number, topic in enumerate(TOPICS)}
    wires = [
        (topics[topic], text)
        for path in files.values()
        for topic, text in _newswires(path)
        if topic in topics
    ]
    if not wires:
        raise DataError(
            f"{next(iter(files.values())).parent}: expected newswires with topics, found none"
        )
    labels, texts = zip(*wires, strict=True)
    rows = TextSplit((texts,), np.array(labels, np.int32), np.arange(len(texts)))
    note = f"{len(rows):,} of the {_NEWSWIRES:,} newswires of the Keras dataset"
    notes = () if len(rows) == _NEWSWIRES else (note,)
    # NumPy has frozen this generator, so the order never changes.
    order = np.random.RandomState(_SEED).permutation(len(rows))
    train, test = np.split(order, [int(len(rows) * (1 - _TEST_SHARE))])
    splits = {"train": rows.take(train), "test": rows.take(test)}
    return TaskText(task, splits, notes=notes, spaced=True)


def _newswires(path: Path) -> list[tuple[str, str]]:
    """Return the first topic and the words of each newswire, in the order of the bodies."""
    with readable(path):
        # Latin-1 can decode every byte.
        text = decode_record(path, 1, path.read_bytes(), ("Latin-1",))
    _check_closed(path, text)
    wires: list[tuple[str, str]] = []
    waiting: list[str] = []  # topics of newswires without a body so far
    for found in _FIRST_TOPIC_OR_BODY.finditer(text):
        if found[1] is not None:
            waiting.append(found[1])
        else:
            words = _words(found[2])
            wires += [(topic, words) for topic in waiting]
            waiting.clear()
    # If no body follows, Keras used "<D>earn</D>" from the sixth character.
    return wires + [(topic, _words(topic[2:])) for topic in waiting]


def _check_closed(path: Path, text: str) -> None:
    for tag in ("REUTERS", "TOPICS", "BODY"):
        opened, closed = len(re.findall(rf"<{tag}[ >]", text)), text.count(f"</{tag}>")
        if opened != closed or (tag == "REUTERS" and not opened):
            raise DataError(
                f"{path}: expected newswires, each from <{tag}> to </{tag}>, found {opened:,} "
                f"<{tag}> and {closed:,} </{tag}>"
            )


def _words(text: str) -> str:
    return " ".join(text.lower().translate(_PUNCTUATION).split())
