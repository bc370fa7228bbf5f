"""miniGLUE: a small GLUE generated from a grammar and a seed, in the layout of the real data.

Each label depends on the whole sentence, or on both sentences of a pair. The first words do not
depend on the label, so a classifier of the first word is at chance level. The files have the names,
headers and column order of the official `glue_data` folder; the test files have the official
numbers of rows. All sentences come from the tables of `miniglue.toml`; no text is taken from the
real datasets.

Questions that the labels answer:

- CoLA: Is the sentence correct? Errors: number of the verb or the determiner, no verb, word order.
- SST-2: Is the sentence positive or negative? A negation inverts the label.
- MRPC: Do agent, action and object all agree, in the same words or in synonyms?
- STS-B: How many of quality, agent, action, object and place agree?
- QQP: Do both questions request the same information about the same activity?
- MNLI and AX: Is the quality in the second sentence one of the first sentence, the opposite of one,
  or unrelated?
- QNLI: Does the sentence contain the requested information (day, town or purpose) about the object
  of the question?
- RTE: Is the object in the second sentence the category of the first object, with the same agent?
- WNLI: Does the pronoun refer to the noun in the second sentence?

The matched and mismatched files of MNLI differ in the places; AX has more negations.

As in the real data, a single sentence of a pair gives some information about the label: some
meanings are more common than others, and contradictions have more negations. Without this
information, networks that multiply two sentence vectors start at a saddle point and, with a dropout
of 0.5, do not leave it within a thousand steps.
"""

from __future__ import annotations

import tomllib
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib import resources
from itertools import chain, repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glue_submit import TASKS

VERSION = 2
"""Version of the data: increase it if the output of `write` changes."""

Strings = NDArray[np.object_]
Integers = NDArray[np.int64]
Truths = NDArray[np.bool_]
Synonyms = Sequence[Sequence[str]]

_DATA = tomllib.loads((resources.files("relation_tf.tasks") / "miniglue.toml").read_text("utf-8"))
_WORDS = SimpleNamespace(**_DATA["words"])


def _article(nouns: Synonyms) -> Synonyms:
    return [[f"an {n}" if n[0] in "aeiou" else f"a {n}" for n in row] for row in nouns]


class _Draw:
    """Random choices for each row of a table.

    Args:
        random: Random generator. `RandomState` has a frozen stream (NEP 19), while `Generator` can
            change in any NumPy release.
        rows: Number of rows.
    """

    def __init__(self, random: np.random.RandomState, rows: int) -> None:
        self.random = random
        self.rows = rows

    def index(self, size: int) -> Integers:
        """Return numbers from 0 to `size` - 1."""
        return self.random.randint(size, size=self.rows, dtype=np.int64)

    def common(self, size: int) -> Integers:
        """Return numbers from 0 to `size` - 1, with a much higher probability of the first ones."""
        uniform = self.random.random_sample(self.rows)
        return (size * (uniform * uniform * uniform)).astype(np.int64)

    def other(self, index: Integers, size: int, where: Truths) -> Integers:
        """Return `index`, replaced by another number from 0 to `size` - 1 at `where`."""
        return np.where(where, index + 1 + self.index(size - 1), index) % size

    def chance(self, probability: float | NDArray[np.float64]) -> Truths:
        """Return True with the given probability."""
        return self.random.random_sample(self.rows) < probability

    def ranks(self, size: int) -> Integers:
        """Return `size` arrays with a random permutation of 0 to `size` - 1 in each row."""
        return self.random.random_sample((self.rows, size)).argsort(axis=1, kind="stable").T

    def two_meanings(
        self, parts: Sequence[Synonyms], differing: Integers
    ) -> tuple[list[Integers], list[Integers]]:
        """Return two meanings for each part that differ in the given number of parts."""
        sizes = [len(part) for part in parts]
        meanings = [self.common(size) for size in sizes]
        drawn = zip(meanings, sizes, self.ranks(len(parts)), strict=True)
        return meanings, [self.other(meaning, n, rank < differing) for meaning, n, rank in drawn]

    def wording(self, parts: Sequence[Synonyms], meanings: Sequence[Integers]) -> list[Strings]:
        """Return words for the meaning of each part."""
        return [self.synonym(part, meaning) for part, meaning in zip(parts, meanings, strict=True)]

    def word(self, words: Sequence[str]) -> Strings:
        """Return random words."""
        return _at(words, self.index(len(words)))

    def synonym(self, meanings: Synonyms, index: Integers) -> Strings:
        """Return random words for the meaning at `index`."""
        return _at(meanings, index, self.index(len(meanings[0])))

    def opener(self) -> Strings:
        """Return openers that can precede any statement."""
        return self.word(_WORDS.openers)


def _at(table: Sequence[Any], *index: Integers) -> Strings:
    return np.array(table, dtype=object)[index]


def _join(*parts: Strings | str) -> Strings:
    """Join parts with spaces; omit empty parts."""
    columns = (repeat(part) if isinstance(part, str) else part for part in parts)
    texts = [" ".join(filter(None, row)) for row in zip(*columns, strict=False)]
    return np.array(texts, dtype=object)


def _sentences(*parts: Strings | str, end: str = ".") -> Strings:
    """Join parts to sentences with a capital letter and an end mark."""
    texts = (text[0].upper() + text[1:] + end for text in _join(*parts))
    return np.array(list(texts), dtype=object)


_SINGULAR, _PLURAL = 3, 5  # ends of the singular and the plural determiners


def _cola(draw: _Draw, labels: Integers) -> tuple[Strings, ...]:
    # The determiner can be the first word, so it is drawn before the error and independent of it.
    determiner = draw.index(len(_WORDS.determiners))
    marked = determiner < _PLURAL
    plural = np.where(marked, determiner >= _SINGULAR, draw.chance(0.25))
    wrong, fault = labels == 0, draw.random.random_sample(draw.rows)
    bad_order = wrong & (fault < 0.05)
    no_verb = wrong & (fault >= 0.05) & (fault < 0.25)
    bad_determiner = wrong & (fault >= 0.25) & (fault < 0.65) & marked
    bad_verb = wrong & ~(bad_order | no_verb | bad_determiner)
    plural_noun = plural ^ bad_determiner

    def form(table: Sequence[Any], second: Truths) -> Strings:
        return _at(table, draw.index(len(table)), second.astype(np.int64))

    verb = form(_WORDS.verbs, plural_noun ^ bad_verb)
    opener, noun = draw.opener(), form(_WORDS.people, plural_noun)
    noun_phrase = _join(_at(_WORDS.determiners, determiner), noun)
    place = form(_WORDS.where, bad_order)
    return (_sentences(opener, noun_phrase, np.where(no_verb, "", verb), place),)


def _sst2(draw: _Draw, labels: Integers) -> tuple[Strings, ...]:
    opinions = _WORDS.opinions
    opinion, second = draw.synonym(opinions, labels), draw.synonym(opinions, labels)
    opposite, degree = draw.synonym(opinions, 1 - labels), draw.word(_WORDS.degrees)
    form = draw.random.random_sample(draw.rows)
    said = np.select(
        [form < 0.4, form < 0.7, form < 0.9],
        [_join(degree, opinion), _join(opinion, "and", second), _join("not", degree, opposite)],
        _join("not", opposite, "but", degree, opinion),
    )
    work = draw.opener(), draw.word(("the", "this")), draw.word(_WORDS.works)
    return (_sentences(*work, "is", said, draw.word(_WORDS.extents)),)


def _mrpc(draw: _Draw, labels: Integers) -> tuple[Strings, ...]:
    parts = (_WORDS.agents, _WORDS.deeds, _article(_WORDS.things))
    first, second = draw.two_meanings(parts, np.where(labels == 1, 0, 1 + draw.index(3)))

    def report(meanings: list[Integers]) -> Strings:
        return _sentences(draw.word(_WORDS.reports), "the", *draw.wording(parts, meanings))

    return report(first), report(second)


def _sts_b(draw: _Draw, labels: Integers) -> tuple[Strings, ...]:
    things = _article(_WORDS.things[:2])
    parts = (_WORDS.qualities, _WORDS.agents[:2], _WORDS.doings, things, _WORDS.places)
    first, second = draw.two_meanings(parts, len(parts) - labels)

    def scene(meanings: list[Integers]) -> Strings:
        quality, agent, *rest = draw.wording(parts, meanings)
        return _sentences(draw.opener(), "the", quality, agent, "is", *rest)

    return scene(first), scene(second)


def _qqp(draw: _Draw, labels: Integers) -> tuple[Strings, ...]:
    parts = (_WORDS.intents, _WORDS.pastimes)
    first, second = draw.two_meanings(parts, np.where(labels == 1, 0, 1 + draw.index(2)))

    def question(meanings: list[Integers]) -> Strings:
        about = draw.wording(parts, meanings)
        return _sentences(draw.word(_WORDS.asking), *about, draw.word(_WORDS.asides), end="?")

    return question(first), question(second)


def _mnli(
    draw: _Draw,
    labels: Integers,
    places: Synonyms = _WORDS.places,
    negated: tuple[float, ...] = (0.5, 0.1, 0.1),
) -> tuple[Strings, ...]:
    matters, agents = _WORDS.matters, _WORDS.agents
    contradicted, neutral = labels == 0, labels == 2
    matter, side, agent = draw.common(len(matters)), draw.common(2), draw.index(len(agents))
    told = draw.other(matter, len(matters), neutral)
    told_side = np.where(neutral, draw.common(2), np.where(contradicted, 1 - side, side))
    negation = draw.chance(np.array(negated)[labels])

    def person() -> Strings:
        return _join(draw.opener(), "the", draw.synonym(agents, agent), "is")

    first = person(), _at(matters, matter, side, draw.index(2))
    premise = _sentences(*first, draw.synonym(places, draw.index(len(places))))
    second = person(), np.where(negation, "not", "")
    opposite = np.where(negation, 1 - told_side, told_side)
    return premise, _sentences(*second, _at(matters, told, opposite, draw.index(2)))


def _qnli(draw: _Draw, labels: Integers) -> tuple[Strings, ...]:
    all_agents, all_deeds, all_things = _WORDS.agents, _WORDS.deeds, _WORDS.things
    wh, agent = draw.common(len(_WORDS.wh)), draw.index(len(all_agents))
    deed, thing = draw.index(len(all_deeds)), draw.common(len(all_things))
    unanswered, off_topic = labels == 1, draw.chance(0.15)
    given = draw.other(wh, len(_WORDS.wh), unanswered & ~off_topic)
    told = draw.other(thing, len(all_things), unanswered & off_topic)
    asked = draw.synonym(_WORDS.wh, wh)
    agents, things = draw.synonym(all_agents, agent), draw.synonym(all_things, thing)
    direct = _join(asked, "did the", agents, _at(_WORDS.bases, deed), "the", things)
    past = _at(all_deeds, deed, np.zeros_like(deed))
    indirect = _join(draw.word(_WORDS.indirect), asked, "the", agents, past, "the", things)
    question = _sentences(np.where(draw.chance(0.5), direct, indirect), end="?")
    who = draw.opener(), "the", draw.synonym(all_agents, agent), draw.synonym(all_deeds, deed)
    what = "the", draw.synonym(all_things, told), draw.synonym(_WORDS.answers, given)
    return question, _sentences(*who, *what)


def _rte(draw: _Draw, labels: Integers) -> tuple[Strings, ...]:
    agents, deeds, kinds, places = _WORDS.agents, _WORDS.deeds, _WORDS.kinds, _WORDS.places
    agent, deed = draw.index(len(agents)), draw.index(len(deeds))
    kind = draw.common(len(kinds))
    wrong, stranger = labels == 1, draw.chance(0.15)

    def event(agent: Integers, thing: Strings, place: Strings | str) -> Strings:
        who = draw.opener(), "the", draw.synonym(agents, agent)
        return _sentences(*who, draw.synonym(deeds, deed), thing, place)

    member = draw.synonym(_article(_WORDS.members), kind)
    premise = event(agent, member, draw.synonym(places, draw.index(len(places))))
    other = draw.other(agent, len(agents), wrong & stranger)
    other_kind = draw.other(kind, len(kinds), wrong & ~stranger)
    return premise, event(other, draw.synonym(_article(kinds), other_kind), "")


def _wnli(draw: _Draw, labels: Integers) -> tuple[Strings, ...]:
    loose, small = draw.common(2), draw.common(2)
    contents, container = draw.word(_WORDS.contents), draw.word(_WORDS.containers)
    # "Does not fit": the object is too big or the container too small; "loose": the reverse.
    true = np.where(loose == small, contents, container)
    false = np.where(loose == small, container, contents)
    size = draw.synonym(_WORDS.sizes, small)
    fact = draw.opener(), "the", contents, draw.synonym(_WORDS.fits, loose), "the", container
    answer = draw.opener(), "the", np.where(labels == 1, true, false), "is too", size
    return _sentences(*fact, "because it is too", size), _sentences(*answer)


_GRAMMARS: dict[str, Callable[[_Draw, Integers], tuple[Strings, ...]]] = {
    "CoLA": _cola,
    "SST-2": _sst2,
    "MRPC": _mrpc,
    "STS-B": _sts_b,
    "QQP": _qqp,
    "MNLI": _mnli,
    "MNLI-mismatched": partial(_mnli, places=_WORDS.mismatched_places),
    "AX": partial(_mnli, negated=(0.5, 0.5, 0.5)),
    "QNLI": _qnli,
    "RTE": _rte,
    "WNLI": _wnli,
}
_ATTEMPTS = 200
_MOST_DRAWN = 10_000  # rows of a test file; the others repeat them


def _texts(
    path: str, grammar: str, random: np.random.RandomState, labels: Integers,
    taken: set[tuple[str, ...]],
) -> tuple[Strings, ...]:  # fmt: skip
    """Return texts for the labels; draw rows again while they are in `taken`."""
    make = _GRAMMARS[grammar]
    texts = make(_Draw(random, labels.size), labels)
    for _ in range(_ATTEMPTS):
        repeated = np.flatnonzero([row in taken for row in zip(*texts, strict=True)])
        if not repeated.size:
            return texts
        fresh = make(_Draw(random, repeated.size), labels[repeated])
        for old, new in zip(texts, fresh, strict=True):
            old[repeated] = new
    raise ValueError(
        f"{path}: must not repeat rows of earlier files, but there are not enough different "
        f"sentences. Use fewer training or dev rows. Received: {len(taken)} different rows in "
        "earlier files"
    )


def _write_set(folder: Path, kind: Mapping[str, Any], seed: int, rows: Mapping[str, int]) -> None:
    """Write the files of a `[[set]]` of the data file, train first.

    Later files do not repeat rows of earlier files.
    """
    name, label = kind["name"], kind.get("label", "label")
    usual = [[f"{name}/{part}.tsv", part if part != "test" else name, name] for part in
             ("train", "dev", "test")]  # fmt: skip
    taken: set[tuple[str, ...]] = set()
    for file, split, grammar in kind.get("files", usual):
        stream = np.random.SeedSequence([seed, zlib.crc32(file.encode())])
        random = np.random.RandomState(np.random.MT19937(stream))
        count, is_test = rows[split], split not in ("train", "dev")
        drawn = min(count, _MOST_DRAWN) if is_test else count
        labels = random.permutation(np.arange(drawn) % len(kind["labels"]))
        texts = _texts(file, grammar, random, labels, taken)
        taken.update(zip(*texts, strict=True))
        labels, texts = np.resize(labels, count), tuple(np.resize(x, count) for x in texts)
        names = kind["test_columns" if is_test else "columns"]
        content: dict[str, Iterable[str]] = dict(zip(kind["texts"], texts, strict=True))
        content[label] = _at(kind["labels"], labels)
        content["star"] = np.where(labels == 0, "*", "")
        columns = (content[n] if n in content else _bookkeeping(n, count) for n in names)
        header = [names] if is_test or kind.get("header", True) else []
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="utf-8", newline="\n") as text:
            text.writelines(
                "\t".join(row) + "\n" for row in chain(header, zip(*columns, strict=True))
            )


def _bookkeeping(column: str, count: int) -> Iterable[str]:
    form = _DATA["bookkeeping"][column]
    return (form.format(row=row, even=2 * row, odd=2 * row + 1) for row in range(count))


def write(
    folder: Path,
    seed: int = 0,
    train_rows: int = 1000,
    dev_rows: int = 400,
    test_rows: int | None = None,
) -> None:
    """Write all eleven tasks into a folder, in the layout of the official `glue_data`.

    The same arguments give the same bytes on every machine and with every NumPy release. Labels are
    balanced. Rows of train do not occur in dev or test, and rows of dev do not occur in test; the
    same holds for the five files of MNLI and AX. A row can occur twice within one file. A test file
    repeats its first 10,000 rows: of the official sizes only that of QQP.

    Args:
        folder: Output folder, created if missing. Existing files are replaced.
        seed: Seed of the data, 0 or above.
        train_rows: Rows of each train file.
        dev_rows: Rows of each dev file; MNLI has two.
        test_rows: Rows of each test file; default: the official sizes, required by a submission.

    Raises:
        ValueError: If a grammar has too few different sentences.

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
    tests = {
        name: task.test_rows if test_rows is None else test_rows for name, task in TASKS.items()
    }
    rows = {"train": train_rows, "dev": dev_rows, **tests}
    for kind in _DATA["set"]:
        _write_set(folder, kind, seed, rows)
