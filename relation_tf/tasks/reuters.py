r"""Reuters: 11,228 newswires of 1987 with one of 46 topics, the set that Keras has.

It is read as `reuters.npz` of Keras, with `reuters_word_index.json` beside it (see
`relation_tf.tasks.keras_archives`), or rebuilt from Reuters-21578, the files `reut2-000.sgm` to
`reut2-021.sgm`, by the rule that Keras made the archive by:

- of each newswire that has topics the first one is its class (1,821 of the 11,228 have more);
- the topics that 15 newswires or more have first are kept, 46 of 82, numbered as they come in the
  files: `TOPICS`, the names of `keras.datasets.reuters.get_label_names`;
- the text is the body, not the title, with its entities as they are written (`&lt;` gives the word
  `lt`, the `&#3;` at the end of most the word `3`): lower-case, punctuation but the apostrophe out,
  as Keras's `Tokenizer` does it;
- a newswire without a body has the next body of its file. This is so of 975, whereby
  184 test rows share their text with training rows (237 with all that are written twice). Where
  none follows, once, Keras cut the topic instead, which gave the word `rn`;
- `RandomState(113)` shuffles, and the last 20 % are the test set. The division of Reuters-21578
  itself (ModApte) plays no part.

What is known in public of the archive agrees: 8,982 rows to train on and 2,246 to test, the
training rows of every class, 30,979 words, the mean (144.54) and the longest (2,375) of the lengths
in words, the length and class of the first rows. So rows, order and classes are taken to be those
of Keras; the archive itself was not there to be compared with.

Reuters with all topics of each newswire (ModApte, 90 topics) has more than one label a row, which
networks with one class a row cannot learn; it is not read.

There is no split that stops the training: a share of the training rows does.

References:
    Lewis 1997, "Reuters-21578 text categorization test collection, Distribution 1.0".
    `keras.datasets.reuters` of Keras, and its issue 12072 on the topics.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from relation_tf.errors import DataError
from relation_tf.tasks.keras_archives import keras_orders, read_archive
from relation_tf.tasks.tables import decode_record, readable
from relation_tf.tasks.task import Task, TaskText, TextSplit

TOPICS: tuple[str, ...] = (
    "cocoa", "grain", "veg-oil", "earn", "acq", "wheat", "copper", "housing", "money-supply",
    "coffee", "sugar", "trade", "reserves", "ship", "cotton", "carcass", "crude", "nat-gas", "cpi",
    "money-fx", "interest", "gnp", "meal-feed", "alum", "oilseed", "gold", "tin", "strategic-metal",
    "livestock", "retail", "ipi", "iron-steel", "rubber", "heat", "jobs", "lei", "bop", "zinc",
    "orange", "pet-chem", "dlr", "gas", "silver", "wpi", "hog", "lead",
)  # fmt: skip
"""The name of each class."""

_TEST_SHARE = 0.2
_NEWSWIRES = 11_228
_PUNCTUATION = str.maketrans(dict.fromkeys('!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~', " "))
# No end is looked for beyond the next beginning: a broken file would take the square of its size.
_FIRST_TOPIC_OR_BODY = re.compile(
    r"<TOPICS><D>([^<]*)</D>|<BODY>([^<]*(?:<(?!/?BODY>)[^<]*)*)</BODY>"
)


def read_keras(task: Task, files: Mapping[str, Path], skip_bad_lines: bool) -> TaskText:
    """Read Keras's archive."""
    text = read_archive(task, files, {"all": ("x", "y")})
    return replace(text, splits=_keras_split(text.splits["all"]))


def read_sgml(task: Task, files: Mapping[str, Path], skip_bad_lines: bool) -> TaskText:
    """Read the files of Reuters-21578. Malformed ones are never skipped: they hold scored rows."""
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
    note = f"{len(rows):,} newswires of the {_NEWSWIRES:,} that Keras's set has"
    notes = () if len(rows) == _NEWSWIRES else (note,)
    (order,) = keras_orders(len(rows))
    return TaskText(task, _keras_split(rows.take(order)), notes=notes, spaced=True)


def _keras_split(rows: TextSplit) -> dict[str, TextSplit]:
    train, test = np.split(np.arange(len(rows)), [int(len(rows) * (1 - _TEST_SHARE))])
    return {"train": rows.take(train), "test": rows.take(test)}


def _newswires(path: Path) -> list[tuple[str, str]]:
    """The first topic and the words of each newswire with topics, in the order of the bodies."""
    with readable(path):
        # Latin-1 has a character for every byte.
        text = decode_record(path, 1, path.read_bytes(), ("Latin-1",))
    _check_closed(path, text)
    wires: list[tuple[str, str]] = []
    waiting: list[str] = []  # topics of newswires whose body is still to come
    for found in _FIRST_TOPIC_OR_BODY.finditer(text):
        if found[1] is not None:
            waiting.append(found[1])
        else:
            words = _words(found[2])
            wires += [(topic, words) for topic in waiting]
            waiting.clear()
    # Where no body follows, Keras cut "<D>earn</D>" behind its fifth character.
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
