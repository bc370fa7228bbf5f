"""Tasks generated from a seed: reversed strings, dates, and texts for speed measurements.

Targets:

- reversal: the letters of the source in reverse order. The split `long` has longer sources than the
  other splits.
- dates: the day in the source, written as `2012-03-03`. Numbers with slashes are month/day/year,
  numbers with dots are day.month.year. Two-digit years 70 to 99 are 1970 to 1999, and 00 to 69 are
  2000 to 2069. So each source has exactly one target.

No source occurs in two splits. `decode-512`, `training-512` and similar tasks are one text with
this number of letters and no target, see `one_text`.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from relation_tf.tasks.rows import PADDING, START, Ragged
from relation_tf.tasks.task import Dataset, FileLayout, Task, TaskText, TextSplit, Timed

_Row = TypeVar("_Row")

SEED = 2022
END = "[END]"

LENGTHS = {"decode": (128, 512, 2048, 8192), "training": (128, 512, 2048, 8192, 32768)}
"""Text lengths (letters) of the speed measurements, by the first word of their names."""

LETTERS = "abcdefghijklmnopqrstuvwxyz"
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September",
           "October", "November", "December")  # fmt: skip
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_FORMATS = (
    "{weekday}, {day} {month} {year}",
    "{weekday}, {month} {day}, {year}",
    "{day} {month} {year}",
    "{month} {day}, {year}",
    "{short} {ordinal}, {year}",
    "{ordinal} of {month} {year}",
    "the {ordinal} of {month}, {year}",
    "{wd} {day} {short} {year}",
    "{day}-{short}-{yy:02}",
    "{number}/{day}/{yy:02}",
    "{number:02}/{day:02}/{year}",
    "{day}.{number}.{year}",
    "{year}/{number}/{day}",
)
_FIRST_DAY = datetime.date(1970, 1, 1).toordinal()
_DAYS = datetime.date(2070, 1, 1).toordinal() - _FIRST_DAY


class Characters:
    """Character vocabulary: id 0 is padding, 1 start, 2 end; characters follow.

    Args:
        characters: Characters, in the order of their ids.

    Attributes:
        tokens: Token of each id.
        words: Id of each token.
        size: Number of ids.
        start: Id of the start token.
        end: Id of the end token.

    Example:
        >>> letters = Characters("abc")
        >>> rows = letters.encode(["cab"], ends=True)
        >>> rows.ids.tolist(), letters.decode(rows.pad(np.array([0])))
        ([1, 5, 3, 4, 2], ['cab'])
    """

    start, end = 1, 2

    def __init__(self, characters: str) -> None:
        self.tokens = (PADDING, START, END, *characters)
        self.words = {token: i for i, token in enumerate(self.tokens)}
        self.size = len(self.tokens)

    def encode(self, texts: Iterable[str], ends: bool = False) -> Ragged:
        """Return a row of ids for each text.

        Args:
            texts: Texts with these characters only.
            ends: If True, add start and end ids to each text.
        """
        rows = [[self.words[character] for character in text] for text in texts]
        if ends:
            rows = [[self.start, *row, self.end] for row in rows]
        return Ragged.of(rows)

    def decode(self, ids: np.ndarray) -> list[str]:
        """Return the text of each row of an array `(rows, tokens)`, up to the end id."""
        texts = []
        for row in ids.tolist():
            row = row[: row.index(self.end)] if self.end in row else row
            texts.append("".join(self.tokens[token] for token in row if token > self.end))
        return texts


@dataclass(frozen=True)
class GeneratedTask:
    """Text rows generated from a seed.

    Attributes:
        source: Characters of the sources.
        target: Characters of the targets, or None if rows have no target.
        splits: Rows (source and target) of `train`, `dev`, `test` and possibly other splits.
    """

    source: Characters
    target: Characters | None
    splits: Mapping[str, Sequence[tuple[str, ...]]]

    def encode(self, split: str) -> tuple[Ragged, ...]:
        """Return the ids of the sources and of the targets, the latter with start and end ids.

        The decoder input is the target without its last id; the labels are the target without its
        first id.
        """
        rows = self.splits[split]
        sources = self.source.encode(row[0] for row in rows)
        if self.target is None:
            return (sources,)
        return sources, self.target.encode((row[1] for row in rows), ends=True)


def reversal(
    seed: int = SEED,
    train: int = 10_000,
    dev: int = 1_000,
    test: int = 1_000,
    lengths: tuple[int, int] = (3, 10),
    long: tuple[int, int] = (11, 14),
) -> GeneratedTask:
    """Generate strings of letters with their reverse as the target.

    Args:
        seed: Seed of all rows.
        train: Number of rows of the split `train`.
        dev: Number of rows of `dev`.
        test: Number of rows of `test`, and of `long`.
        lengths: Shortest and longest string. Lengths are equally probable, except that strings are
            unique.
        long: Shortest and longest string of the split `long`.

    Raises:
        ValueError: If more than half of all strings of the longest length are required.

    Example:
        >>> reversal(train=2, dev=1, test=1).splits["train"]
        [('nqrrqxys', 'syxqrrqn'), ('qvj', 'jvq')]
    """
    random = np.random.RandomState(seed)

    def drawn(count: int, lengths: tuple[int, int]) -> list[tuple[str, str]]:
        def draw() -> tuple[str, str]:
            text = _word(random, random.randint(lengths[0], lengths[1] + 1))
            return text, text[::-1]

        return _different(draw, count, len(LETTERS) ** lengths[1])

    rows = _cut(drawn(train + dev + test, lengths), train, dev, test)
    letters = Characters(LETTERS)
    return GeneratedTask(letters, letters, {**rows, "long": drawn(test, long)})


def dates(
    seed: int = SEED, train: int = 10_000, dev: int = 1_000, test: int = 1_000
) -> GeneratedTask:
    """Generate dates in various formats, with the target in the format `2012-03-03`.

    Dates are from 1970 to 2069. A date of the test set can be in the training set in another
    format.

    Args:
        seed: Seed of all rows.
        train: Number of rows of the split `train`.
        dev: Number of rows of `dev`.
        test: Number of rows of `test`.

    Raises:
        ValueError: If more than half of all possible texts are required.

    Example:
        >>> dates(train=2, dev=1, test=1).splits["train"]
        [('2028/7/8', '2028-07-08'), ('Saturday, 2 May 2015', '2015-05-02')]
    """
    random = np.random.RandomState(seed)

    def draw() -> tuple[str, str]:
        day = datetime.date.fromordinal(_FIRST_DAY + random.randint(_DAYS))
        return write_date(day, random.randint(len(_FORMATS))), day.isoformat()

    pairs = _different(draw, train + dev + test, _DAYS * len(_FORMATS))
    written = "".join((*_FORMATS, *_MONTHS, *_WEEKDAYS, "stndrdth", "0123456789"))
    source = Characters("".join(sorted(set(written) - set("{}_:"))))
    return GeneratedTask(source, Characters("-0123456789"), _cut(pairs, train, dev, test))


def one_text(length: int, rows: int = 1) -> GeneratedTask:
    """Generate texts of one length to measure the speed of a network.

    The network is not trained: its time does not depend on the letters.

    Example:
        >>> one_text(6, rows=2).splits["train"]
        [('nqrrqx',), ('ysyqvj',)]
    """
    random = np.random.RandomState(SEED)
    texts = [(_word(random, length),) for _ in range(rows)]
    return GeneratedTask(Characters(LETTERS), None, {"train": texts})


def length_of(task: Task) -> int:
    """Return the number of letters of a task of `one_text`."""
    return int(task.name.partition("-")[2])


def write_date(day: datetime.date, format: int) -> str:
    """Return a date in one of the formats, numbered from 0.

    Example:
        >>> [write_date(datetime.date(2012, 3, 3), i) for i in (0, 4, 8, 9)]
        ['Saturday, 3 March 2012', 'Mar 3rd, 2012', '3-Mar-12', '3/3/12']
    """
    # strftime depends on the locale.
    month, weekday = _MONTHS[day.month - 1], _WEEKDAYS[day.weekday()]
    teen = 11 <= day.day <= 13
    suffix = "th" if teen else {1: "st", 2: "nd", 3: "rd"}.get(day.day % 10, "th")
    return _FORMATS[format].format(
        day=day.day,
        ordinal=f"{day.day}{suffix}",
        number=day.month,
        month=month,
        short=month[:3],
        year=day.year,
        yy=day.year % 100,
        weekday=weekday,
        wd=weekday[:3],
    )


GENERATED: Mapping[str, Callable[..., GeneratedTask]] = {
    "reversal": reversal,
    "dates": dates,
    **{
        f"{kind}-{length}": partial(one_text, length)
        for kind, lengths in LENGTHS.items()
        for length in lengths
    },
}
"""Function that generates each task, by task name."""


def _text(task: Task, files: Mapping[str, Path]) -> TaskText:
    """Return the generated rows as text."""
    splits = {
        name: TextSplit(tuple(map(list, zip(*rows, strict=True))), None, np.arange(len(rows)))
        for name, rows in GENERATED[task.name]().splits.items()
    }
    return TaskText(task, splits)


def _dataset(name: str, scored: Mapping[str, str], timed: Timed = "") -> Dataset:
    task = Task(
        name=name,
        inputs=("text",) if timed else ("source", "target"),
        label="",
        labels=None,
        metrics=("tokens_per_second",) if timed else ("exact_match",),
        validation="train" if timed else "dev",
        scored=scored,
        written=not timed,
        timed=timed,
    )
    return Dataset(task, (FileLayout(f"seed {SEED}", _text),), "it is generated")


DATASETS = (
    _dataset("reversal", {"reversal": "test", "reversal-long": "long"}),
    _dataset("dates", {"dates": "test"}),
    *(_dataset(name, {name: "train"}, "decoding") for name in GENERATED if "decode-" in name),
    *(_dataset(name, {name: "train"}, "training") for name in GENERATED if "training-" in name),
)


def _word(random: np.random.RandomState, length: int) -> str:
    return "".join(LETTERS[i] for i in random.randint(len(LETTERS), size=length))


def _different(draw: Callable[[], _Row], count: int, all_there_are: int) -> list[_Row]:
    """Return `count` different draws."""
    if count > all_there_are // 2:
        raise ValueError(
            f"at most half of all {all_there_are} possible rows can be generated. "
            f"Received: {count} rows"
        )
    found: dict[_Row, None] = {}
    while len(found) < count:
        found[draw()] = None
    return list(found)


def _cut(rows: Sequence[_Row], train: int, dev: int, test: int) -> dict[str, Sequence[_Row]]:
    return {
        "train": rows[:train],
        "dev": rows[train : train + dev],
        "test": rows[train + dev : train + dev + test],
    }
