"""Pairs of sequences made from a seed, without any file: reversed strings, and dates.

What decides the target:

- reversal: the letters of the source from the last to the first. The split `long` has longer
  sources than any other.
- dates: the day that the source names, as `2012-03-03`. Numbers between slashes are month, day and
  year, those between dots day, month and year; of two digits, 70 to 99 are years after 1900 and 00
  to 69 those after 2000. So each source names one day.

No source stands in two splits.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

import numpy as np

from relation_tf.tasks.rows import Ragged
from relation_tf.tasks.task import Dataset, FileLayout, Task, TaskText, TextSplit
from relation_tf.tasks.vocabulary import PADDING, START

_Row = TypeVar("_Row")

SEED = 2022
END = "[END]"

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
    """Characters to ids: 0 for padding, 1 for the start, 2 for the end, then one each.

    Args:
        characters: The characters, in the order of their ids.

    Example:
        >>> letters = Characters("abc")
        >>> rows = letters.encode(["cab"], ends=True)
        >>> rows.ids.tolist(), letters.decode(rows.pad(np.array([0])))
        ([1, 5, 3, 4, 2], ['cab'])
    """

    def __init__(self, characters: str) -> None:
        self.tokens = (PADDING, START, END, *characters)
        self._ids = {character: i for i, character in enumerate(self.tokens)}

    @property
    def size(self) -> int:
        """Number of ids."""
        return len(self.tokens)

    @property
    def words(self) -> dict[str, int]:
        """The id of each token."""
        return dict(self._ids)

    @property
    def start(self) -> int:
        """Id of the start."""
        return self._ids[START]

    @property
    def end(self) -> int:
        """Id of the end."""
        return self._ids[END]

    def encode(self, texts: Iterable[str], ends: bool = False) -> Ragged:
        """A row of ids for each text.

        Args:
            texts: Texts of these characters.
            ends: Whether start and end stand around each.

        Raises:
            ValueError: For another character.
        """
        rows = [[self._id(character, text) for character in text] for text in texts]
        if ends:
            rows = [[self.start, *row, self.end] for row in rows]
        ids = np.array([one for row in rows for one in row], np.int32)
        return Ragged(ids, np.cumsum([0, *map(len, rows)], dtype=np.int64))

    def _id(self, character: str, text: str) -> int:
        if character not in self._ids:
            raise ValueError(
                f"a text must have the characters {''.join(self.tokens[3:])!r}. "
                f"Received: {character!r} in {text!r}"
            )
        return self._ids[character]

    def decode(self, ids: np.ndarray) -> list[str]:
        """The text of each row of an array `(rows, tokens)`, up to its end."""
        texts = []
        for row in ids.tolist():
            row = row[: row.index(self.end)] if self.end in row else row
            texts.append("".join(self.tokens[token] for token in row if token > self.end))
        return texts


@dataclass(frozen=True)
class SequencePairs:
    """Sources and their targets.

    Attributes:
        sources: A row of ids each.
        targets: The same, from start to end: all but the last id of a row go in, all but the
            first are to come out.
    """

    sources: Ragged
    targets: Ragged

    def __len__(self) -> int:
        return len(self.sources)


@dataclass(frozen=True)
class GeneratedTask:
    """A task from one sequence to another.

    Attributes:
        name: Of the task.
        source: Characters of the sources.
        target: Characters of the targets.
        splits: `train`, `dev`, `test`, and what else there is.
    """

    name: str
    source: Characters
    target: Characters
    splits: Mapping[str, SequencePairs]


def reversal(
    seed: int = SEED,
    train: int = 10_000,
    dev: int = 1_000,
    test: int = 1_000,
    lengths: tuple[int, int] = (3, 10),
    long: tuple[int, int] = (11, 14),
) -> GeneratedTask:
    """Strings of letters to be written from the last letter to the first.

    Args:
        seed: Decides all rows.
        train: Rows of the split `train`.
        dev: Rows of `dev`.
        test: Rows of `test`, and of `long`.
        lengths: The shortest and the longest string; lengths are equally probable, except that no
            string comes twice.
        long: The same for the split `long`.

    Returns:
        The task.

    Raises:
        ValueError: Where more than half of all strings of the longest length are asked for, or the
            long ones are not longer.

    Example:
        >>> task = reversal(train=2, dev=1, test=1)
        >>> rows = task.splits["train"]
        >>> task.source.decode(rows.sources.pad(np.arange(2)))
        ['nqrrqxys', 'qvj']
        >>> task.target.decode(rows.targets.pad(np.arange(2)))
        ['syxqrrqn', 'jvq']
    """
    shortest, longest = lengths
    if not 1 <= shortest <= longest < long[0] <= long[1]:
        raise ValueError(
            "lengths must be 1 or more, and those of `long` above the others. "
            f"Received: lengths={lengths}, long={long}"
        )
    random = np.random.RandomState(seed)

    def drawn(count: int, lengths: tuple[int, int]) -> list[str]:
        def draw() -> str:
            length = random.randint(lengths[0], lengths[1] + 1)
            return "".join(LETTERS[i] for i in random.randint(len(LETTERS), size=length))

        return _different(draw, count, len(LETTERS) ** lengths[1])

    texts = _cut(drawn(train + dev + test, lengths), {"train": train, "dev": dev, "test": test})
    texts["long"] = drawn(test, long)
    letters = Characters(LETTERS)
    pairs = {split: [(text, text[::-1]) for text in own] for split, own in texts.items()}
    return _task("reversal", letters, letters, pairs)


def dates(
    seed: int = SEED, train: int = 10_000, dev: int = 1_000, test: int = 1_000
) -> GeneratedTask:
    """Dates as people write them, to be written as `2012-03-03`.

    Days are of 1970 to 2069; a day of the test set may stand in the training set in other words.

    Args:
        seed: Decides all rows.
        train: Rows of the split `train`.
        dev: Rows of `dev`.
        test: Rows of `test`.

    Returns:
        The task.

    Raises:
        ValueError: Where that is more than half of all the texts that can be made.

    Example:
        >>> task = dates(train=2, dev=1, test=1)
        >>> rows = task.splits["train"]
        >>> task.source.decode(rows.sources.pad(np.arange(2)))
        ['2028/7/8', 'Saturday, 2 May 2015']
        >>> task.target.decode(rows.targets.pad(np.arange(2)))
        ['2028-07-08', '2015-05-02']
    """
    random = np.random.RandomState(seed)

    def draw() -> tuple[str, str]:
        day = datetime.date.fromordinal(_FIRST_DAY + random.randint(_DAYS))
        return write_date(day, random.randint(len(_FORMATS))), day.isoformat()

    pairs = _different(draw, train + dev + test, _DAYS * len(_FORMATS))
    written = "".join((*_FORMATS, *_MONTHS, *_WEEKDAYS, "stndrdth", "0123456789"))
    source = Characters("".join(sorted(set(written) - set("{}_:"))))
    cut = _cut(pairs, {"train": train, "dev": dev, "test": test})
    return _task("dates", source, Characters("-0123456789"), cut)


def write_date(day: datetime.date, format: int) -> str:
    """A day in one of the formats, by number from 0.

    Example:
        >>> [write_date(datetime.date(2012, 3, 3), i) for i in (0, 4, 8, 9)]
        ['Saturday, 3 March 2012', 'Mar 3rd, 2012', '3-Mar-12', '3/3/12']
    """
    # No strftime, whose names are those of the machine's language.
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


GENERATED: Mapping[str, Callable[..., GeneratedTask]] = MappingProxyType(
    {"reversal": reversal, "dates": dates}
)
"""Functions that generate each task, by its name."""


def _text(task: Task, files: Mapping[str, Path], skip_bad_lines: bool) -> TaskText:
    """Return the generated rows as text."""
    made = GENERATED[task.name]()
    splits = {}
    for name, pairs in made.splits.items():
        rows = np.arange(len(pairs))
        texts = (
            made.source.decode(pairs.sources.pad(rows)),
            made.target.decode(pairs.targets.pad(rows)),
        )
        splits[name] = TextSplit(texts, None, rows)
    return TaskText(task, splits)


_LAYOUT = FileLayout(f"seed {SEED}", _text)


def _written(name: str, scored: Mapping[str, str]) -> Task:
    return Task(
        name=name,
        inputs=("source", "target"),
        label="",
        labels=None,
        metrics=("exact_match",),
        validation="dev",
        scored=scored,
        written=True,
    )


DATASETS = tuple(
    Dataset(_written(name, scored), (_LAYOUT,), "it is generated")
    for name, scored in {
        "reversal": {"reversal": "test", "reversal-long": "long"},
        "dates": {"dates": "test"},
    }.items()
)


def _different(draw: Callable[[], _Row], count: int, all_there_are: int) -> list[_Row]:
    """Return so many draws, none twice."""
    if count > all_there_are // 2:
        raise ValueError(
            f"there are {all_there_are} rows to draw from, of which no more than half are drawn. "
            f"Received: {count} rows"
        )
    found: dict[_Row, None] = {}
    while len(found) < count:
        found[draw()] = None
    return list(found)


def _cut(rows: Sequence[_Row], sizes: Mapping[str, int]) -> dict[str, Sequence[_Row]]:
    ends = np.cumsum(list(sizes.values())).tolist()
    return {
        split: rows[end - size : end]
        for (split, size), end in zip(sizes.items(), ends, strict=True)
    }


def _task(
    name: str,
    source: Characters,
    target: Characters,
    pairs: Mapping[str, Sequence[tuple[str, str]]],
) -> GeneratedTask:
    splits = {
        split: SequencePairs(
            source.encode(text for text, _ in own),
            target.encode((text for _, text in own), ends=True),
        )
        for split, own in pairs.items()
    }
    return GeneratedTask(name, source, target, MappingProxyType(splits))
