"""The diagnostic tasks by name and of any size: generators with their symbols and rules."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from relation_tf.errors import DataError
from relation_tf.tasks.diagnostics import draws
from relation_tf.tasks.diagnostics.rows import (
    QUERY,
    SEED,
    Diagnostic,
    Draw,
    LabelledTokens,
    Symbols,
    by_last_tokens,
    by_seen_values,
    by_window,
)
from relation_tf.tasks.task import Dataset, FileLayout, Task, TaskText, TextSplit

_ZOOLOGY = 8192  # symbols
_LETTERS = 16
_MOST_COUNTED = 8


def _longer(task: Diagnostic) -> Diagnostic:
    """Return the task with test sets of 2, 4 and 8 times the length."""
    return replace(task, further=tuple((f"{n}x", task.draw, n * task.length) for n in (2, 4, 8)))


@functools.cache
def _names(prefix: str, number: int) -> tuple[str, ...]:
    return tuple(f"{prefix}{i}" for i in range(1, number + 1))


def _require(name: str, condition: bool, rule: str) -> None:
    if not condition:
        raise DataError(f"task {name}: {rule}")


def mqar(name: str, length: int, pairs: int, symbols: int = _ZOOLOGY) -> Diagnostic:
    """Return multi-query associative recall; half of the symbols are keys, the others values."""
    keys = symbols // 2
    _require(name, pairs > 1, "at least two pairs are needed: one value needs no key")
    _require(name, length >= 4 * pairs, f"{pairs} pairs need at least {4 * pairs} tokens")
    _require(name, keys >= pairs, f"{pairs} pairs need at least {2 * pairs} symbols")
    return _longer(Diagnostic(
        name,
        "recall: bind many keys to values",
        partial(draws.associative_recall, pairs=pairs, keys=keys),
        length,
        Symbols.of(_names("k", keys), _names("v", keys)),
        Symbols.of(_names("v", keys)),
        train=20_000 if length > 32 else 10_000,
        amount=("pairs", pairs),
        rules=(by_window, partial(by_seen_values, first=2 * pairs)),
    ))  # fmt: skip


def in_context_recall(name: str, length: int) -> Diagnostic:
    """Return `recall`, `noisy-recall` or `fuzzy-recall`, by the start of the name."""
    keys, values = _names("k", 8), _names("v", 8)
    symbols = Symbols.of(keys, values, [QUERY])
    draw: Draw = partial(draws.recall, keys=8, query=17)
    isolates, period = "recall: bind keys to values in the text", 2
    if name.startswith("noisy"):
        isolates, draw = "recall among noise", partial(draws.recall, keys=8, query=17, noise=16)
        symbols = Symbols.of(keys, values, [QUERY], _names("n", 16))
    if name.startswith("fuzzy"):
        isolates, period = "recall of keys and values of two tokens", 4
        draw = partial(draws.fuzzy_recall, keys=8, query=17)
    fewest = 4 * period
    rule = f"the number of tokens must be a multiple of {period}, at least {fewest}"
    _require(name, length >= fewest and length % period == 0, rule)
    rules = (by_window, partial(by_seen_values, period=period))
    return _longer(Diagnostic(name, isolates, draw, length, symbols, Symbols.of(values),
                              rules=rules))  # fmt: skip


def copying(name: str, length: int, copied: int) -> Diagnostic:
    """Return selective copying."""
    _require(name, copied > 1, "at least two copied tokens are needed: one has no order")
    rule = f"{copied} copied tokens need at least {2 * copied} tokens"
    _require(name, length >= 2 * copied, rule)
    letters = _names("s", _LETTERS)
    blank = _LETTERS + 1
    draw = partial(
        draws.selective_copy, symbols=_LETTERS, copied=copied, blank=blank, query=blank + 1
    )
    return _longer(Diagnostic(
        name, "select tokens, keep their order", draw, length,
        Symbols.of(letters, ["."], [QUERY]), Symbols.of(letters), rules=(by_window, by_seen_values),
    ))  # fmt: skip


def memorizing(name: str, length: int, keys: int) -> Diagnostic:
    """Return memorization of facts."""
    _require(name, length % 2 == 0, "the number of tokens must be even")
    draw = partial(draws.memorize, keys=keys, query=keys + 1)
    return Diagnostic(
        name, "memorize facts in the weights", draw, length,
        Symbols.of(_names("k", keys), [QUERY]), Symbols.of(_names("v", keys)),
        rules=(),  # The facts are in the weights: a table of tokens has the ability.
    )  # fmt: skip


def compression(name: str, length: int) -> Diagnostic:
    """Return compression to the vector of the last token."""
    _require(name, length > 1, "at least two tokens are needed")
    letters = _names("s", _LETTERS - 1)  # with the last token, MAD's 16 symbols
    draw = partial(draws.compressing, symbols=_LETTERS - 1, last=_LETTERS)
    return Diagnostic(
        name, "compress a text to one vector", draw, length, Symbols.of(letters, ["C"]),
        Symbols.of(letters), from_last_token=True, rules=(by_last_tokens,),
    )  # fmt: skip


def one_needle(name: str, length: int) -> Diagnostic:
    """Return one token among noise, with a test set for each of five depths."""
    _require(name, length >= 6, "at least 6 tokens are needed, for five depths")
    letters = _names("s", _LETTERS)
    draw = partial(draws.needle, symbols=_LETTERS, others=16, query=_LETTERS + 1)
    return Diagnostic(
        name, "keep one token among many", draw, length,
        Symbols.of(letters, [QUERY], _names("n", 16)), Symbols.of(letters), train=5_000,
        amount=("other tokens", length - 2),
        further=tuple((f"depth{depth}", partial(draw, depth=depth), length)
                      for depth in (0, 25, 50, 75, 100)),
    )  # fmt: skip


def _digits(name: str, length: int, modulus: int) -> Diagnostic:
    digits = Symbols.of([str(digit) for digit in range(modulus)])
    draw = partial(draws.running_sum, modulus=modulus)
    return _longer(Diagnostic(name, "track a state", draw, length, digits, digits))


def _of_letters(name: str, length: int, isolates: str, draw: Draw, *more: str) -> Diagnostic:
    letters = _names("s", _LETTERS)
    symbols, rules = Symbols.of(letters, more, [QUERY]), (by_window, by_seen_values)
    return _longer(Diagnostic(name, isolates, draw, length, symbols, Symbols.of(letters),
                              rules=rules))  # fmt: skip


def _induction(name: str, length: int) -> Diagnostic:
    _require(name, length >= 4, "at least 4 tokens are needed")
    special = _LETTERS + 1
    draw = partial(draws.induction, symbols=_LETTERS, special=special, query=special + 1)
    return _of_letters(name, length, "find the token after an earlier token", draw, "S")


def _dyck(name: str, length: int) -> Diagnostic:
    _require(name, length >= 4, "at least 4 tokens are needed")
    draw = partial(draws.brackets, kinds=2, depth=4)
    isolates = "hierarchy: the innermost open bracket"
    return _longer(Diagnostic(name, isolates, draw, length, Symbols.of("([)]"), Symbols.of("([")))


def _majority(name: str, length: int) -> Diagnostic:
    bits = Symbols.of("01")
    source = Symbols.of("01", [QUERY])
    return _longer(
        Diagnostic(name, "average over all tokens", draws.majority, length, source, bits)
    )


def _count(name: str, length: int) -> Diagnostic:
    _require(name, length > _MOST_COUNTED, f"more than {_MOST_COUNTED} tokens are needed")
    numbers = Symbols.of([str(number) for number in range(_MOST_COUNTED + 1)])
    source = Symbols.of(["x"], _names("n", 16), [QUERY])
    draw = partial(draws.count, most=_MOST_COUNTED, others=16)
    return _longer(Diagnostic(name, "add over all tokens", draw, length, source, numbers))


_SORTING, _REVERSING = (
    partial(draw, symbols=_LETTERS, query=_LETTERS + 1) for draw in (draws.sorting, draws.reversing)
)
BY_LENGTH: dict[str, Callable[[str, int], Diagnostic]] = {
    **dict.fromkeys(("recall", "noisy-recall", "fuzzy-recall"), in_context_recall),
    "compress": compression,
    "induction": _induction,
    "sort": partial(_of_letters, isolates="compare tokens", draw=_SORTING),
    "reverse": partial(_of_letters, isolates="order of tokens", draw=_REVERSING),
    "parity": partial(_digits, modulus=2),
    "modular-addition": partial(_digits, modulus=5),
    "dyck": _dyck,
    "majority": _majority,
    "count": _count,
}
"""Function of the name and the number of tokens, by family."""


def lists(name: str, length: int, draw: Draw, train: int) -> Diagnostic:
    """Return nested lists, see `nested_lists`."""
    digits = Symbols.of([str(digit) for digit in range(10)])
    isolates = "hierarchy: nested operations"
    return Diagnostic(
        name, isolates, draw, length, Symbols.of(draws.LIST_SYMBOLS), digits, train=train
    )


LONG_LISTS = partial(draws.nested_lists, shortest=0.25, depth=9, arguments=10, nested=0.25)
"""Lists as in Long Range Arena."""
SHORT_LISTS = partial(
    draws.nested_lists, shortest=0.25, depth=3, arguments=4, nested=0.75, fitted=True
)  # fmt: skip
"""Lists with a depth of three in a few tokens."""

_NUMBER = r"([1-9]\d{0,4})"
_SIZED: tuple[tuple[str, Callable[..., Diagnostic]], ...] = (
    (f"mqar-{_NUMBER}-{_NUMBER}", mqar),
    (f"mqar-{_NUMBER}-{_NUMBER}-v{_NUMBER}", mqar),
    (f"needle-{_NUMBER}", one_needle),
    (f"selective-copy-n{_NUMBER}-c{_NUMBER}", copying),
    (f"memorize-n{_NUMBER}-k{_NUMBER}", memorizing),
    *((f"{family}-n{_NUMBER}", make) for family, make in BY_LENGTH.items()),
)


@functools.cache
def by_size(name: str) -> Diagnostic | None:
    """Return the task that a name with sizes describes; None for other names.

    The names are `mqar-LENGTH-PAIRS`, `mqar-LENGTH-PAIRS-vSYMBOLS`, `needle-LENGTH`,
    `selective-copy-nLENGTH-cCOPIED`, `memorize-nLENGTH-kKEYS`, and `FAMILY-nLENGTH` for each family
    of `BY_LENGTH`.

    Raises:
        DataError: If there is no task of these sizes.

    Example:
        >>> by_size("needle-200").length, by_size("recall-n64").length, by_size("CoLA")
        (200, 64, None)
    """
    for pattern, make in _SIZED:
        if match := re.fullmatch(pattern, name):
            return make(name, *map(int, match.groups()))
    return None


_LENGTHS = {
    "recall": 128, "noisy-recall": 128, "fuzzy-recall": 128, "compress": 32, "induction": 32,
    "sort": 16, "reverse": 16, "parity": 32, "modular-addition": 32, "dyck": 32, "majority": 33,
    "count": 32,
}  # fmt: skip
_SHORT = {"recall": 32, "noisy-recall": 32, "fuzzy-recall": 32, "compress": 8}
_WITH_SIZES = (
    "mqar-64-4", "mqar-128-8", "mqar-256-16", "mqar-256-64", "mqar-64-4-v64", "mqar-32-2-v32",
    "mqar-32-4-v32", "mqar-32-8-v32", "needle-16", "needle-64", "needle-256", "needle-1024",
)  # fmt: skip
_OF_MAD = ("recall", "noisy-recall", "fuzzy-recall", "selective-copy", "memorize", "compress")


def _all() -> Iterator[Diagnostic]:
    yield from filter(None, map(by_size, _WITH_SIZES))
    yield from (BY_LENGTH[name](name, length) for name, length in _LENGTHS.items())
    yield from (BY_LENGTH[name](f"{name}-small", length) for name, length in _SHORT.items())
    yield copying("selective-copy", 256, 16)
    yield copying("selective-copy-small", 32, 4)
    yield memorizing("memorize", 32, 128)
    yield memorizing("memorize-small", 16, 32)
    yield lists("listops", 2000, LONG_LISTS, 2_000)
    yield lists("listops-small", 48, SHORT_LISTS, 10_000)


DIAGNOSTICS: Mapping[str, Diagnostic] = {
    each.name: replace(each, train=12_800, held_out=1_280) if each.name in _OF_MAD else each
    for each in _all()
}
"""The listed diagnostic tasks by name; `find_diagnostic` also finds those of other sizes."""


def find_diagnostic(name: str) -> Diagnostic | None:
    """Return a listed diagnostic task or one whose name has its sizes; None for other names.

    Raises:
        DataError: If there is no task of these sizes.

    Example:
        >>> find_diagnostic("mqar-48-3-v16").amount, find_diagnostic("CoLA")
        (('pairs', 3), None)
    """
    return DIAGNOSTICS.get(name) or by_size(name)


def task_of(scored: str) -> Diagnostic | None:
    """Return the diagnostic task that has a score of this name; None for other names.

    Example:
        >>> task_of("needle-200-depth25").name, task_of("parity-n64").name, task_of("mqar-8-8")
        ('needle-200', 'parity-n64', None)
    """
    for name in (scored, scored.rpartition("-")[0]):
        try:
            found = find_diagnostic(name)
        except DataError:  # another task, in a table of scores, whose name is like one with sizes
            continue
        if found is not None and scored in found.scored:
            return found
    return None


def make(name: str) -> LabelledTokens:
    """Return the rows of a task; those of the last task are kept."""
    found = find_diagnostic(name)
    if found is None:
        raise ValueError(f"name must be a diagnostic task. Received: {name!r}")
    return _made(found)


@functools.lru_cache(1)
def _made(diagnostic: Diagnostic) -> LabelledTokens:
    return diagnostic.make()


def _text(task: Task, files: Mapping[str, Path]) -> TaskText:
    """Return the rows as text: the symbols, and the label of each token."""
    made = make(task.name)
    splits = {}
    for name, rows in made.splits.items():
        texts: tuple[Sequence[str], ...] = (
            made.source.decode(rows.ids), made.target.decode(rows.labels)
        )  # fmt: skip
        splits[name] = TextSplit(texts, None, np.arange(len(rows)))
    return TaskText(task, splits)


def dataset_of(diagnostic: Diagnostic) -> Dataset:
    """Return the task as a dataset of the catalogue."""
    metrics = ("token_accuracy",)
    task = Task(
        name=diagnostic.name,
        inputs=("tokens", "labels"),
        label="",
        labels=None,
        metrics=metrics,
        validation="dev",
        scored=diagnostic.scored,
        diagnostics=dict.fromkeys([*diagnostic.scored][1:], metrics),
        token_labels=True,
        from_last_token=diagnostic.from_last_token,
    )
    return Dataset(task, (FileLayout(f"seed {SEED}", _text),), "it is generated")


DATASETS = tuple(map(dataset_of, DIAGNOSTICS.values()))
