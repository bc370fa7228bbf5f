"""The diagnostic tasks by name: generators with their symbols and rules."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

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


def _longer(task: Diagnostic) -> Diagnostic:
    """Return the task with test sets of 2, 4 and 8 times the length."""
    return replace(task, further=tuple((f"{n}x", task.draw, n * task.length) for n in (2, 4, 8)))


@functools.cache
def _names(prefix: str, number: int) -> tuple[str, ...]:
    return tuple(f"{prefix}{i}" for i in range(1, number + 1))


def mqar(name: str, length: int, pairs: int, symbols: int = _ZOOLOGY) -> Diagnostic:
    """Return multi-query associative recall; half of the symbols are keys, the others values."""
    keys = symbols // 2
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
    rules = (by_window, partial(by_seen_values, period=period))
    return _longer(Diagnostic(name, isolates, draw, length, symbols, Symbols.of(values),
                              rules=rules))  # fmt: skip


def copying(name: str, length: int, copied: int) -> Diagnostic:
    """Return selective copying."""
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
    draw = partial(draws.memorize, keys=keys, query=keys + 1)
    return Diagnostic(
        name, "memorize facts in the weights", draw, length,
        Symbols.of(_names("k", keys), [QUERY]), Symbols.of(_names("v", keys)),
        rules=(),  # The facts are in the weights: a table of tokens has the ability.
    )  # fmt: skip


def compression(name: str, length: int) -> Diagnostic:
    """Return compression to the vector of the last token."""
    letters = _names("s", _LETTERS - 1)  # with the last token, MAD's 16 symbols
    draw = partial(draws.compressing, symbols=_LETTERS - 1, last=_LETTERS)
    return Diagnostic(
        name, "compress a text to one vector", draw, length, Symbols.of(letters, ["C"]),
        Symbols.of(letters), from_last_token=True, rules=(by_last_tokens,),
    )  # fmt: skip


def one_needle(name: str, length: int) -> Diagnostic:
    """Return one token among noise, with a test set for each of five depths."""
    letters = _names("s", _LETTERS)
    draw = partial(draws.needle, symbols=_LETTERS, others=16, query=_LETTERS + 1)
    return Diagnostic(
        name, "keep one token among many", draw, length,
        Symbols.of(letters, [QUERY], _names("n", 16)), Symbols.of(letters), train=5_000,
        amount=("other tokens", length - 2),
        further=tuple((f"depth{depth}", partial(draw, depth=depth), length)
                      for depth in (0, 25, 50, 75, 100)),
    )  # fmt: skip


def _of_letters(name: str, length: int, isolates: str, draw: Draw, *more: str) -> Diagnostic:
    letters = _names("s", _LETTERS)
    symbols, rules = Symbols.of(letters, more, [QUERY]), (by_window, by_seen_values)
    return _longer(Diagnostic(name, isolates, draw, length, symbols, Symbols.of(letters),
                              rules=rules))  # fmt: skip


_MQAR = (
    *((64, 4), (128, 8), (256, 16), (256, 64)),
    *((64, 4, 64), (32, 2, 32), (32, 4, 32), (32, 8, 32)),
)  # fmt: skip
_RECALL = ("recall", "noisy-recall", "fuzzy-recall")
_OF_MAD = (*_RECALL, "selective-copy", "memorize", "compress")


def _all() -> Iterator[Diagnostic]:
    for length, pairs, *symbols in _MQAR:
        name = "-".join([f"mqar-{length}-{pairs}", *(f"v{number}" for number in symbols)])
        yield mqar(name, length, pairs, *symbols)
    for length in (16, 64, 256, 1024):
        yield one_needle(f"needle-{length}", length)
    yield from (in_context_recall(name, 128) for name in _RECALL)
    yield compression("compress", 32)
    query, noise = _LETTERS + 1, _names("n", 16)
    draw = partial(draws.induction, symbols=_LETTERS, special=query, query=query + 1)
    yield _of_letters("induction", 32, "find the token after an earlier token", draw, "S")
    draw = partial(draws.sorting, symbols=_LETTERS, query=query)
    yield _of_letters("sort", 16, "compare tokens", draw)
    draw = partial(draws.reversing, symbols=_LETTERS, query=query)
    yield _of_letters("reverse", 16, "order of tokens", draw)
    for name, modulus in (("parity", 2), ("modular-addition", 5)):
        digits, draw = Symbols.of("01234"[:modulus]), partial(draws.running_sum, modulus=modulus)
        yield _longer(Diagnostic(name, "track a state", draw, 32, digits, digits))
    yield _longer(Diagnostic(
        "dyck", "hierarchy: the innermost open bracket", partial(draws.brackets, kinds=2, depth=4),
        32, Symbols.of("([)]"), Symbols.of("(["),
    ))  # fmt: skip
    yield _longer(Diagnostic(
        "majority", "average over all tokens", draws.majority, 33, Symbols.of("01", [QUERY]),
        Symbols.of("01"),
    ))  # fmt: skip
    yield _longer(Diagnostic(
        "count", "add over all tokens", partial(draws.count, most=8, others=16), 32,
        Symbols.of(["x"], noise, [QUERY]), Symbols.of("012345678"),
    ))  # fmt: skip
    yield from (in_context_recall(f"{name}-small", 32) for name in _RECALL)
    yield compression("compress-small", 8)
    yield copying("selective-copy", 256, 16)
    yield copying("selective-copy-small", 32, 4)
    yield memorizing("memorize", 32, 128)
    yield memorizing("memorize-small", 16, 32)
    # Lists as in Long Range Arena, and lists with a depth of three in a few tokens.
    long: dict[str, Any] = {"depth": 9, "arguments": 10, "nested": 0.25}
    short: dict[str, Any] = {"depth": 3, "arguments": 4, "nested": 0.75, "fitted": True}
    for name, length, train, options in (
        ("listops", 2000, 2_000, long), ("listops-small", 48, 10_000, short)
    ):  # fmt: skip
        yield Diagnostic(
            name, "hierarchy: nested operations",
            partial(draws.nested_lists, shortest=0.25, **options), length,
            Symbols.of(draws.LIST_SYMBOLS), Symbols.of("0123456789"), train=train,
        )  # fmt: skip


DIAGNOSTICS: Mapping[str, Diagnostic] = {
    each.name: replace(each, train=12_800, held_out=1_280) if each.name in _OF_MAD else each
    for each in _all()
}
"""The diagnostic tasks by name."""

_OF_SCORE = {score: task for task in DIAGNOSTICS.values() for score in task.scored}


def task_of(scored: str) -> Diagnostic | None:
    """Return the diagnostic task that has a score of this name; None for other names.

    Example:
        >>> task_of("needle-64-depth25").name, task_of("mqar-8-8")
        ('needle-64', None)
    """
    return _OF_SCORE.get(scored)


def make(name: str) -> LabelledTokens:
    """Return the rows of a task; those of the last task are kept."""
    return _made(DIAGNOSTICS[name])


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
