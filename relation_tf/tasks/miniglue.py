"""A small GLUE made from a grammar and a seed, in the folder layout of the real one.

Every label is a fact about the whole sentence, or about two sentences together: the first words are
drawn without looking at it, so a reader of the first word alone can do no better than guess. The
files have the names, headers and column order of the official `glue_data` folder, and the test
files the numbers of rows that the leaderboard expects. All sentences come from the tables below;
nothing is taken from the real data sets.

What decides the label:

- CoLA: is the sentence right, or is one thing wrong in it (number of the verb or the determiner, no
  verb, word order)?
- SST-2: is it praise or blame? A negation turns it over.
- MRPC: do agent, deed and thing all agree, in the same words or in synonyms?
- STS-B: how many of quality, agent, deed, thing and place agree?
- QQP: do both questions ask for the same thing about the same pastime?
- MNLI and AX: is the quality in the second sentence one of the first's, the opposite of one, or
  another matter?
- QNLI: does the sentence give what was asked (day, town or aim) about the thing that was asked
  about?
- RTE: is the thing in the second sentence the kind that the first's belongs to, and the agent the
  same?
- WNLI: does the pronoun stand for the noun that the second sentence puts in its place?

MNLI's mismatched files differ from the matched ones in where things happen; AX negates more often.

As in the real data, one whole sentence of a pair gives part of the answer away: some meanings are
more common than others, and contradictions are more often negated. Were labels independent of each
single sentence, networks that multiply two sentence vectors would start at a saddle point, and with
a dropout of a half they do not leave it within a thousand steps.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glue_submit import TASKS

__all__ = ["VERSION", "write"]

VERSION = 1
"""Changes whenever the same arguments of `write` would give other bytes."""

Strings = NDArray[np.object_]
Integers = NDArray[np.int64]
Truths = NDArray[np.bool_]
Synonyms = Sequence[Sequence[str]]

# Openers stand before any statement and mean nothing that a label depends on.
_OPENERS = ("", "again", "clearly", "indeed", "perhaps")

# One row is one meaning, its columns are synonyms.
_AGENTS = (("sailor", "seaman"), ("doctor", "physician"), ("teacher", "tutor"))
_THINGS = (("boat", "ship"), ("car", "automobile"), ("picture", "photo"))
_DEEDS = (("bought", "purchased"), ("found", "discovered"), ("hid", "concealed"))
_PLACES = (("in the garden", "in the yard"), ("at the shop", "at the store"))


def _article(nouns: Synonyms) -> Synonyms:
    return [[f"an {n}" if n[0] in "aeiou" else f"a {n}" for n in row] for row in nouns]


class _Draw:
    """Random choices, one for each row of a table.

    Args:
        random: the source. `RandomState`, because its stream is frozen for good (NEP 19), while
            `Generator` may change with any NumPy.
        rows: number of rows.
    """

    def __init__(self, random: np.random.RandomState, rows: int) -> None:
        self.random = random
        self.rows = rows

    def index(self, size: int) -> Integers:
        """Numbers from 0 to `size` - 1."""
        return self.random.randint(size, size=self.rows, dtype=np.int64)

    def common(self, size: int) -> Integers:
        """Numbers from 0 to `size` - 1, the first much more often than the others."""
        uniform = self.random.random_sample(self.rows)
        return (size * (uniform * uniform * uniform)).astype(np.int64)

    def other(self, index: Integers, size: int, where: Truths) -> Integers:
        """`index`, but where told another number from 0 to `size` - 1."""
        return np.where(where, index + 1 + self.index(size - 1), index) % size

    def chance(self, probability: float | NDArray[np.float64]) -> Truths:
        """True with the given probability."""
        return self.random.random_sample(self.rows) < probability

    def ranks(self, size: int) -> Integers:
        """`size` arrays that hold, row by row, the numbers from 0 to `size` - 1 in any order."""
        return self.random.random_sample((self.rows, size)).argsort(axis=1, kind="stable").T

    def two_meanings(
        self, parts: Sequence[Synonyms], differing: Integers
    ) -> tuple[list[Integers], list[Integers]]:
        """A meaning for each part, twice; the two differ in as many parts as told."""
        sizes = [len(part) for part in parts]
        meanings = [self.common(size) for size in sizes]
        drawn = zip(meanings, sizes, self.ranks(len(parts)), strict=True)
        return meanings, [self.other(meaning, n, rank < differing) for meaning, n, rank in drawn]

    def wording(self, parts: Sequence[Synonyms], meanings: Sequence[Integers]) -> list[Strings]:
        """Words for the meaning of each part."""
        return [self.synonym(part, meaning) for part, meaning in zip(parts, meanings, strict=True)]

    def word(self, words: Sequence[str]) -> Strings:
        """Any of the words."""
        return _at(words, self.index(len(words)))

    def synonym(self, meanings: Synonyms, index: Integers) -> Strings:
        """Any of the words for the meaning at `index`."""
        return _at(meanings, index, self.index(len(meanings[0])))


def _at(table: Sequence[Any], *index: Integers) -> Strings:
    return np.array(table, dtype=object)[index]


def _join(*parts: Strings | str) -> Strings:
    """Parts side by side, those that are empty left out."""
    columns = (repeat(part) if isinstance(part, str) else part for part in parts)
    texts = [" ".join(filter(None, row)) for row in zip(*columns, strict=False)]
    return np.array(texts, dtype=object)


def _sentences(*parts: Strings | str, end: str = ".") -> Strings:
    """Parts side by side, with a capital and an end mark."""
    texts = (text[0].upper() + text[1:] + end for text in _join(*parts))
    return np.array(list(texts), dtype=object)


_DETERMINERS = ("this", "that", "every", "these", "many", "the", "my", "our")
_SINGULAR, _PLURAL = 3, 5  # where the singular and the plural determiners end
_PEOPLE = (
    ("doctor", "doctors"),
    ("teacher", "teachers"),
    ("lawyer", "lawyers"),
    ("sailor", "sailors"),
)
_VERBS = (
    ("is happy", "are happy"),
    ("is sad", "are sad"),
    ("was happy", "were happy"),
    ("was sad", "were sad"),
    ("has a boat", "have a boat"),
    ("has a car", "have a car"),
)
_WHERE = (
    ("in the garden", "the in garden"),
    ("near the river", "the near river"),
    ("at the shop", "the at shop"),
    ("beside the road", "the beside road"),
)


def _cola(draw: _Draw, labels: Integers) -> tuple[Strings, ...]:
    # The determiner may stand first, so it is drawn before the fault and the fault fitted to it.
    determiner = draw.index(len(_DETERMINERS))
    marked = determiner < _PLURAL
    plural = np.where(marked, determiner >= _SINGULAR, draw.chance(0.25))
    wrong, fault = labels == 0, draw.random.random_sample(draw.rows)
    bad_order = wrong & (fault < 0.05)
    no_verb = wrong & (fault >= 0.05) & (fault < 0.25)
    bad_determiner = wrong & (fault >= 0.25) & (fault < 0.65) & marked
    bad_verb = wrong & ~(bad_order | no_verb | bad_determiner)
    plural_noun = plural ^ bad_determiner
    plural_verb = plural_noun ^ bad_verb
    verb = _at(_VERBS, draw.index(len(_VERBS)), plural_verb.astype(np.int64))
    return (
        _sentences(
            draw.word(_OPENERS),
            _at(_DETERMINERS, determiner),
            _at(_PEOPLE, draw.index(len(_PEOPLE)), plural_noun.astype(np.int64)),
            np.where(no_verb, "", verb),
            _at(_WHERE, draw.index(len(_WHERE)), bad_order.astype(np.int64)),
        ),
    )


_WORKS = ("film", "plot", "story", "cast", "acting", "script", "music", "ending")
_OPINIONS = (
    ("dull", "boring", "clumsy", "weak", "awful", "bland", "stale", "dreadful"),
    ("charming", "funny", "moving", "clever", "superb", "lovely", "fresh", "brilliant"),
)
_DEGREES = ("", "very", "really", "quite")
_EXTENTS = ("", "from start to finish", "in every scene", "at times")


def _sst2(draw: _Draw, labels: Integers) -> tuple[Strings, ...]:
    opinion, second = draw.synonym(_OPINIONS, labels), draw.synonym(_OPINIONS, labels)
    opposite, degree = draw.synonym(_OPINIONS, 1 - labels), draw.word(_DEGREES)
    form = draw.random.random_sample(draw.rows)
    said = np.select(
        [form < 0.4, form < 0.7, form < 0.9],
        [_join(degree, opinion), _join(opinion, "and", second), _join("not", degree, opposite)],
        _join("not", opposite, "but", degree, opinion),
    )
    return (
        _sentences(
            draw.word(_OPENERS),
            draw.word(("the", "this")),
            draw.word(_WORKS),
            "is",
            said,
            draw.word(_EXTENTS),
        ),
    )


_REPORTS = (
    "", "friends say", "neighbours say", "officials say", "police say", "reporters say",
    "witnesses say", "yesterday",
)  # fmt: skip


def _mrpc(draw: _Draw, labels: Integers) -> tuple[Strings, ...]:
    parts = (_AGENTS, _DEEDS, _article(_THINGS))
    first, second = draw.two_meanings(parts, np.where(labels == 1, 0, 1 + draw.index(3)))

    def report(meanings: list[Integers]) -> Strings:
        return _sentences(draw.word(_REPORTS), "the", *draw.wording(parts, meanings))

    return report(first), report(second)


_QUALITIES = (("old", "aged"), ("young", "youthful"))
_DOINGS = (("buying", "purchasing"), ("cleaning", "washing"))


def _sts_b(draw: _Draw, labels: Integers) -> tuple[Strings, ...]:
    parts = (_QUALITIES, _AGENTS[:2], _DOINGS, _article(_THINGS[:2]), _PLACES)
    first, second = draw.two_meanings(parts, len(parts) - labels)

    def scene(meanings: list[Integers]) -> Strings:
        quality, agent, *rest = draw.wording(parts, meanings)
        return _sentences(draw.word(_OPENERS), "the", quality, agent, "is", *rest)

    return scene(first), scene(second)


_ASKING = (
    "how can I",
    "what is the best way to",
    "which is the easiest way to",
    "is there a good way to",
    "does anyone know how to",
    "can you tell me how to",
    "are there tricks to",
    "do you know how to",
)
_INTENTS = (("start", "begin"), ("stop", "quit"))
_PASTIMES = (("cooking", "baking"), ("running", "jogging"), ("painting", "drawing"))
_ASIDES = ("", "at home", "in the evening", "without a book", "with friends", "in summer")


def _qqp(draw: _Draw, labels: Integers) -> tuple[Strings, ...]:
    parts = (_INTENTS, _PASTIMES)
    first, second = draw.two_meanings(parts, np.where(labels == 1, 0, 1 + draw.index(2)))

    def question(meanings: list[Integers]) -> Strings:
        about = draw.wording(parts, meanings)
        return _sentences(draw.word(_ASKING), *about, draw.word(_ASIDES), end="?")

    return question(first), question(second)


# One row is one matter, its columns the two opposites.
_MATTERS = (
    (("rich", "wealthy"), ("poor", "penniless")),
    (("young", "youthful"), ("old", "aged")),
    (("happy", "glad"), ("sad", "unhappy")),
)
_MISMATCHED_PLACES = (("on the train",), ("after the meeting",))


def _mnli(
    draw: _Draw,
    labels: Integers,
    places: Synonyms = _PLACES,
    negated: tuple[float, ...] = (0.5, 0.1, 0.1),
) -> tuple[Strings, ...]:
    contradicted, neutral = labels == 0, labels == 2
    matter, side, agent = draw.common(len(_MATTERS)), draw.common(2), draw.index(len(_AGENTS))
    told = draw.other(matter, len(_MATTERS), neutral)
    told_side = np.where(neutral, draw.common(2), np.where(contradicted, 1 - side, side))
    negation = draw.chance(np.array(negated)[labels])
    return (
        _sentences(
            draw.word(_OPENERS),
            "the",
            draw.synonym(_AGENTS, agent),
            "is",
            _at(_MATTERS, matter, side, draw.index(2)),
            draw.synonym(places, draw.index(len(places))),
        ),
        _sentences(
            draw.word(_OPENERS),
            "the",
            draw.synonym(_AGENTS, agent),
            "is",
            np.where(negation, "not", ""),
            _at(_MATTERS, told, np.where(negation, 1 - told_side, told_side), draw.index(2)),
        ),
    )


def _mnli_mismatched(draw: _Draw, labels: Integers) -> tuple[Strings, ...]:
    return _mnli(draw, labels, places=_MISMATCHED_PLACES)


def _ax(draw: _Draw, labels: Integers) -> tuple[Strings, ...]:
    return _mnli(draw, labels, negated=(0.5, 0.5, 0.5))


_BASES = ("buy", "find", "hide")
_WH = (("when", "on what day"), ("where", "in what town"), ("why", "with what aim"))
_ANSWERS = (
    ("on Monday", "on Tuesday", "on Friday", "on Sunday"),
    ("in London", "in Paris", "in Rome", "in Madrid"),
    ("to save time", "to please a child", "to win a bet", "to help a stranger"),
)


def _qnli(draw: _Draw, labels: Integers) -> tuple[Strings, ...]:
    wh, agent = draw.common(len(_WH)), draw.index(len(_AGENTS))
    deed, thing = draw.index(len(_DEEDS)), draw.common(len(_THINGS))
    unanswered, off_topic = labels == 1, draw.chance(0.15)
    given = draw.other(wh, len(_WH), unanswered & ~off_topic)
    told = draw.other(thing, len(_THINGS), unanswered & off_topic)
    asked = draw.synonym(_WH, wh)
    agents, things = draw.synonym(_AGENTS, agent), draw.synonym(_THINGS, thing)
    direct = _join(asked, "did the", agents, _at(_BASES, deed), "the", things)
    indirect = _join(
        draw.word(("do you know", "can you say", "does anyone know", "is it known")),
        asked,
        "the",
        agents,
        _at(_DEEDS, deed, np.zeros_like(deed)),
        "the",
        things,
    )
    return (
        _sentences(np.where(draw.chance(0.5), direct, indirect), end="?"),
        _sentences(
            draw.word(_OPENERS),
            "the",
            draw.synonym(_AGENTS, agent),
            draw.synonym(_DEEDS, deed),
            "the",
            draw.synonym(_THINGS, told),
            draw.synonym(_ANSWERS, given),
        ),
    )


_KINDS = (("animal",), ("vehicle",), ("fruit",))
_MEMBERS = (
    ("horse", "dog", "goat", "cat"),
    ("bus", "truck", "van", "tram"),
    ("apple", "pear", "plum", "orange"),
)


def _rte(draw: _Draw, labels: Integers) -> tuple[Strings, ...]:
    agent, deed = draw.index(len(_AGENTS)), draw.index(len(_DEEDS))
    kind = draw.common(len(_KINDS))
    wrong, stranger = labels == 1, draw.chance(0.15)

    def event(agent: Integers, thing: Strings, place: Strings | str) -> Strings:
        return _sentences(
            draw.word(_OPENERS),
            "the",
            draw.synonym(_AGENTS, agent),
            draw.synonym(_DEEDS, deed),
            thing,
            place,
        )

    return (
        event(
            agent,
            draw.synonym(_article(_MEMBERS), kind),
            draw.synonym(_PLACES, draw.index(len(_PLACES))),
        ),
        event(
            draw.other(agent, len(_AGENTS), wrong & stranger),
            draw.synonym(_article(_KINDS), draw.other(kind, len(_KINDS), wrong & ~stranger)),
            "",
        ),
    )


_CONTENTS = ("trophy", "lamp", "vase", "clock")
_CONTAINERS = ("suitcase", "box", "bag", "drawer")
_FITS = (("does not fit in", "cannot go in"), ("rattles in", "slips out of"))
_SIZES = (("big", "large"), ("small", "tiny"))


def _wnli(draw: _Draw, labels: Integers) -> tuple[Strings, ...]:
    loose, small = draw.common(2), draw.common(2)
    contents, container = draw.word(_CONTENTS), draw.word(_CONTAINERS)
    # What does not fit is too big itself or its container too small; what is loose, the reverse.
    true = np.where(loose == small, contents, container)
    false = np.where(loose == small, container, contents)
    size = draw.synonym(_SIZES, small)
    return (
        _sentences(
            draw.word(_OPENERS),
            "the",
            contents,
            draw.synonym(_FITS, loose),
            "the",
            container,
            "because it is too",
            size,
        ),
        _sentences(draw.word(_OPENERS), "the", np.where(labels == 1, true, false), "is too", size),
    )


Grammar = Callable[[_Draw, Integers], tuple[Strings, ...]]


@dataclass(frozen=True)
class _File:
    """One file: its path, whose number of rows it has ("train", "dev" or a task), its grammar."""

    path: str
    rows: str
    grammar: Grammar


@dataclass(frozen=True)
class _FileFormat:
    """The files of one training set and of all that is predicted from it.

    Attributes:
        files: train first, so that no later file repeats a row of an earlier one.
        labels: what is written for each label number.
        texts: names of the text columns.
        columns: names of the columns of train and dev.
        test_columns: names of the columns of test.
        label: name of the label column.
        header: whether train and dev begin with the names of their columns.
    """

    files: tuple[_File, ...]
    labels: tuple[str, ...]
    texts: tuple[str, ...]
    columns: tuple[str, ...]
    test_columns: tuple[str, ...]
    label: str = "label"
    header: bool = True


def _files(task: str, grammar: Grammar) -> tuple[_File, ...]:
    rows = {"train": "train", "dev": "dev", "test": task}
    return tuple(_File(f"{task}/{split}.tsv", name, grammar) for split, name in rows.items())


_PAIR = ("index", "sentence1", "sentence2")
_STS_B = ("index", "genre", "filename", "year", "old_index", "source1", "source2", *_PAIR[1:])
_INFERENCE = ("entailment", "not_entailment")

_LAYOUTS = (
    _FileFormat(
        files=_files("CoLA", _cola),
        labels=("0", "1"),
        texts=("sentence",),
        columns=("source", "label", "star", "sentence"),
        test_columns=("index", "sentence"),
        header=False,
    ),
    _FileFormat(
        files=_files("SST-2", _sst2),
        labels=("0", "1"),
        texts=("sentence",),
        columns=("sentence", "label"),
        test_columns=("index", "sentence"),
    ),
    _FileFormat(
        files=_files("MRPC", _mrpc),
        labels=("0", "1"),
        texts=("#1 String", "#2 String"),
        columns=("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"),
        test_columns=("index", "#1 ID", "#2 ID", "#1 String", "#2 String"),
        label="Quality",
    ),
    _FileFormat(
        files=_files("STS-B", _sts_b),
        labels=("0.000", "1.000", "2.000", "3.000", "4.000", "5.000"),
        texts=_PAIR[1:],
        columns=(*_STS_B, "score"),
        test_columns=_STS_B,
        label="score",
    ),
    _FileFormat(
        files=_files("QQP", _qqp),
        labels=("0", "1"),
        texts=("question1", "question2"),
        columns=("id", "qid1", "qid2", "question1", "question2", "is_duplicate"),
        test_columns=("id", "question1", "question2"),
        label="is_duplicate",
    ),
    _FileFormat(
        files=(
            _File("MNLI/train.tsv", "train", _mnli),
            _File("MNLI/dev_matched.tsv", "dev", _mnli),
            _File("MNLI/dev_mismatched.tsv", "dev", _mnli_mismatched),
            _File("MNLI/test_matched.tsv", "MNLI-m", _mnli),
            _File("MNLI/test_mismatched.tsv", "MNLI-mm", _mnli_mismatched),
            _File("diagnostic/diagnostic.tsv", "AX", _ax),
        ),
        labels=("contradiction", "entailment", "neutral"),
        texts=_PAIR[1:],
        columns=(*_PAIR, "gold_label"),
        test_columns=_PAIR,
        label="gold_label",
    ),
    _FileFormat(
        files=_files("QNLI", _qnli),
        labels=_INFERENCE,
        texts=("question", "sentence"),
        columns=("index", "question", "sentence", "label"),
        test_columns=("index", "question", "sentence"),
    ),
    _FileFormat(
        files=_files("RTE", _rte),
        labels=_INFERENCE,
        texts=_PAIR[1:],
        columns=(*_PAIR, "label"),
        test_columns=_PAIR,
    ),
    _FileFormat(
        files=_files("WNLI", _wnli),
        labels=("0", "1"),
        texts=_PAIR[1:],
        columns=(*_PAIR, "label"),
        test_columns=_PAIR,
    ),
)

# Columns of the official files that hold neither text nor label, made from the number of the row.
_BOOKKEEPING: dict[str, Callable[[int], str]] = {
    "index": str,
    "id": str,
    "#1 ID": lambda row: str(2 * row),
    "#2 ID": lambda row: str(2 * row + 1),
    "qid1": lambda row: str(2 * row),
    "qid2": lambda row: str(2 * row + 1),
    "source": lambda row: "mini",
    "genre": lambda row: "main-mini",
    "filename": lambda row: "miniglue",
    "year": lambda row: "2026",
    "old_index": lambda row: f"{row:04d}",
    "source1": lambda row: "none",
    "source2": lambda row: "none",
}

_ATTEMPTS = 200


def _texts(
    file: _File, random: np.random.RandomState, labels: Integers, taken: set[tuple[str, ...]]
) -> tuple[Strings, ...]:
    """Texts for the labels; rows in `taken` are drawn anew until there are none."""
    texts = file.grammar(_Draw(random, labels.size), labels)
    for _ in range(_ATTEMPTS):
        repeated = np.flatnonzero([row in taken for row in zip(*texts, strict=True)])
        if not repeated.size:
            return texts
        fresh = file.grammar(_Draw(random, repeated.size), labels[repeated])
        for old, new in zip(texts, fresh, strict=True):
            old[repeated] = new
    raise ValueError(
        f"{file.path}: too few sentences to keep it apart from the files before it; ask for fewer "
        f"training or dev rows. Received: {len(taken)} different rows before it"
    )


def _write_layout(folder: Path, layout: _FileFormat, seed: int, rows: Mapping[str, int]) -> None:
    taken: set[tuple[str, ...]] = set()
    for file in layout.files:
        stream = np.random.SeedSequence([seed, zlib.crc32(file.path.encode())])
        random = np.random.RandomState(np.random.MT19937(stream))
        count = rows[file.rows]
        labels = random.permutation(np.arange(count) % len(layout.labels))
        texts = _texts(file, random, labels, taken)
        taken.update(zip(*texts, strict=True))

        is_test = file.rows not in ("train", "dev")
        names = layout.test_columns if is_test else layout.columns
        content: dict[str, Iterable[str]] = dict(zip(layout.texts, texts, strict=True))
        content[layout.label] = _at(layout.labels, labels)
        content["star"] = np.where(labels == 0, "*", "")
        columns = (
            content[name] if name in content else map(_BOOKKEEPING[name], range(count))
            for name in names
        )
        header = [names] if is_test or layout.header else []
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="utf-8", newline="\n") as text:
            text.writelines(
                "\t".join(row) + "\n" for row in chain(header, zip(*columns, strict=True))
            )


def _test_rows(test_rows: Mapping[str, int] | int | None) -> dict[str, int]:
    official = {name: task.test_rows for name, task in TASKS.items()}
    if test_rows is None:
        return official
    if isinstance(test_rows, int):
        return dict.fromkeys(official, test_rows)
    if unknown := test_rows.keys() - official.keys():
        raise ValueError(
            f"test_rows must name tasks out of {', '.join(official)}. "
            f"Received: {', '.join(sorted(unknown))}"
        )
    return {**official, **test_rows}


def write(
    folder: Path,
    seed: int = 0,
    train_rows: int = 1000,
    dev_rows: int = 400,
    test_rows: Mapping[str, int] | int | None = None,
) -> None:
    """Write all eleven tasks into a folder, as the official `glue_data` has them.

    The same arguments give the same bytes, whatever the machine and the release of NumPy. Labels
    are balanced. A pair or sentence of train does not occur in dev or test, nor one of dev in test
    (MNLI's five files and AX are kept apart likewise). Within one file it may occur twice.

    Args:
        folder: folder to write into; made if missing. Files of the same names are replaced.
        seed: which data, 0 or above.
        train_rows: rows of each train file.
        dev_rows: rows of each dev file; MNLI has two.
        test_rows: rows of each test file, one number for all or a number for each task by its
            leaderboard name (tasks left out keep the official size). `None` for the official sizes,
            which a submission needs.

    Raises:
        ValueError: if a number is negative, if `test_rows` names an unknown task, or if a grammar
            has too few sentences to keep the files apart.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     write(Path(folder), train_rows=3, dev_rows=3, test_rows=3)
        ...     print(Path(folder, "SST-2", "train.tsv").read_text(encoding="utf-8").expandtabs(1))
        sentence label
        This ending is very stale in every scene. 0
        This music is clumsy at times. 0
        The film is very brilliant at times. 1
        <BLANKLINE>
    """
    tests = _test_rows(test_rows)
    numbers = {"seed": seed, "train_rows": train_rows, "dev_rows": dev_rows}
    numbers |= {f"test_rows[{task!r}]": count for task, count in tests.items()}
    for name, number in numbers.items():
        if number < 0:
            raise ValueError(f"{name} must be 0 or above. Received: {name}={number}")
    rows = {"train": train_rows, "dev": dev_rows, **tests}
    for layout in _LAYOUTS:
        _write_layout(folder, layout, seed, rows)
