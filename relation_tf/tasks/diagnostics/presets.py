"""The diagnostic tasks: generators with their sizes."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from relation_tf.tasks.diagnostics.recall import (
    associative_recall,
    compressing,
    fuzzy_recall,
    induction,
    memorize,
    needle,
    recall,
    reversing,
    selective_copy,
    sorting,
)
from relation_tf.tasks.diagnostics.rows import QUERY, SEED, Diagnostic, LabelledTokens, Symbols
from relation_tf.tasks.diagnostics.rules import by_last_tokens, by_seen_values, by_window
from relation_tf.tasks.diagnostics.states import (
    LIST_SYMBOLS,
    brackets,
    count,
    majority,
    nested_lists,
    running_sum,
)
from relation_tf.tasks.task import Dataset, FileLayout, Task, TaskText, TextSplit


def _longer(task: Diagnostic) -> Diagnostic:
    """Return the task with test sets of 2, 4 and 8 times the length."""
    return replace(task, further=tuple((f"{n}x", task.draw, n * task.length) for n in (2, 4, 8)))


@functools.cache
def _names(prefix: str, number: int) -> tuple[str, ...]:
    return tuple(f"{prefix}{i}" for i in range(1, number + 1))


def _associative_recall(length: int, pairs: int, symbols: int) -> Diagnostic:
    """Return MQAR with as many keys as values; `symbols` is the number of both."""
    keys = symbols // 2
    return Diagnostic(
        f"mqar-{length}-{pairs}" if symbols == 8192 else f"mqar-{length}-{pairs}-v{symbols}",
        "recall: bind many keys to values",
        partial(associative_recall, pairs=pairs, keys=keys),
        length,
        Symbols.of(_names("k", keys), _names("v", keys)),
        Symbols.of(_names("v", keys)),
        train=20_000 if length > 32 else 10_000,
        amount=("pairs", pairs),
        rules=(by_window, partial(by_seen_values, first=2 * pairs)),
    )


def _recalls() -> Iterator[Diagnostic]:
    keys, values = _names("k", 8), _names("v", 8)
    answers = Symbols.of(values)
    for name, isolates, draw, symbols, period in (
        ("recall", "recall: bind keys to values in the text",
         partial(recall, keys=8, query=17), Symbols.of(keys, values, [QUERY]), 2),
        ("noisy-recall", "recall among noise",
         partial(recall, keys=8, query=17, noise=16),
         Symbols.of(keys, values, [QUERY], _names("n", 16)), 2),
        ("fuzzy-recall", "recall of keys and values of two tokens",
         partial(fuzzy_recall, keys=8, query=17), Symbols.of(keys, values, [QUERY]), 4),
    ):  # fmt: skip
        rules = (by_window, partial(by_seen_values, period=period))
        yield Diagnostic(name, isolates, draw, 128, symbols, answers, rules=rules)
        yield Diagnostic(f"{name}-small", isolates, draw, 32, symbols, answers, rules=rules)


def _copies() -> Iterator[Diagnostic]:
    letters = _names("s", 16)
    blanks, query = Symbols.of(letters, ["."], [QUERY]), Symbols.of(letters, [QUERY])
    answers = Symbols.of(letters)
    for name, length, copied in (("selective-copy", 256, 16), ("selective-copy-small", 32, 4)):
        yield Diagnostic(
            name,
            "select tokens, keep their order",
            partial(selective_copy, symbols=16, copied=copied, blank=17, query=18),
            length, blanks, answers, rules=(by_window, by_seen_values),
        )  # fmt: skip
    for name, length, keys in (("memorize", 32, 128), ("memorize-small", 16, 32)):
        yield Diagnostic(
            name,
            "memorize facts in the weights",
            partial(memorize, keys=keys, query=keys + 1),
            length,
            Symbols.of(_names("k", keys), [QUERY]),
            Symbols.of(_names("v", keys)),
            rules=(),  # The facts are in the weights: a table of tokens has the ability.
        )
    yield _longer(Diagnostic(
        "induction",
        "find the token after an earlier token",
        partial(induction, symbols=16, special=17, query=18),
        32, Symbols.of(letters, ["S"], [QUERY]), answers, rules=(by_window, by_seen_values),
    ))  # fmt: skip
    for name, isolates, draw in (
        ("sort", "compare tokens", partial(sorting, symbols=16, query=17)),
        ("reverse", "order of tokens", partial(reversing, symbols=16, query=17)),
    ):
        rules = (by_window, by_seen_values)
        yield _longer(Diagnostic(name, isolates, draw, 16, query, answers, rules=rules))
    letters = _names("s", 15)  # with the last token, MAD's 16 symbols
    for name, length in (("compress", 32), ("compress-small", 8)):
        yield Diagnostic(
            name,
            "compress a text to one vector",
            partial(compressing, symbols=15, last=16),
            length, Symbols.of(letters, ["C"]), Symbols.of(letters), train=12_800,
            from_last_token=True, rules=(by_last_tokens,),
        )  # fmt: skip


def _needles() -> Iterator[Diagnostic]:
    letters = _names("s", 16)
    symbols = Symbols.of(letters, [QUERY], _names("n", 16))
    draw = partial(needle, symbols=16, others=16, query=17)
    for length in (16, 64, 256, 1024):
        yield Diagnostic(
            f"needle-{length}",
            "keep one token among many",
            draw, length, symbols, Symbols.of(letters), train=5_000,
            amount=("other tokens", length - 2),
            further=tuple((f"depth{depth}", partial(draw, depth=depth), length)
                          for depth in (0, 25, 50, 75, 100)),
        )  # fmt: skip


def _states() -> Iterator[Diagnostic]:
    for name, modulus in (("parity", 2), ("modular-addition", 5)):
        digits = Symbols.of([str(digit) for digit in range(modulus)])
        draw = partial(running_sum, modulus=modulus)
        yield _longer(Diagnostic(name, "track a state", draw, 32, digits, digits))
    yield _longer(Diagnostic(
        "dyck", "hierarchy: the innermost open bracket", partial(brackets, kinds=2, depth=4), 32,
        Symbols.of("([)]"), Symbols.of("(["),
    ))  # fmt: skip
    bits = Symbols.of("01", [QUERY])
    yield _longer(
        Diagnostic("majority", "average over all tokens", majority, 33, bits, Symbols.of("01"))
    )
    yield _longer(Diagnostic(
        "count", "add over all tokens", partial(count, most=8, others=16), 32,
        Symbols.of(["x"], _names("n", 16), [QUERY]),
        Symbols.of([str(number) for number in range(9)]),
    ))  # fmt: skip
    lists = Symbols.of(LIST_SYMBOLS)
    long = partial(nested_lists, depth=9, arguments=10, nested=0.25)  # as in Long Range Arena
    short = partial(nested_lists, depth=3, arguments=4, nested=0.75, fitted=True)
    for name, draw, length, rows in (
        ("listops", long, 2000, 2_000), ("listops-small", short, 48, 10_000),
    ):  # fmt: skip
        yield Diagnostic(
            name,
            "hierarchy: nested operations",
            partial(draw, shortest=0.25),
            length, lists, Symbols.of([str(digit) for digit in range(10)]), train=rows,
        )  # fmt: skip


def _all() -> Iterator[Diagnostic]:
    for length, pairs in ((64, 4), (128, 8), (256, 16), (256, 64)):
        yield _associative_recall(length, pairs, 8192)
    yield _associative_recall(64, 4, 64)
    for pairs in (2, 4, 8):
        yield _associative_recall(32, pairs, 32)
    yield from _recalls()
    yield from _copies()
    yield from _needles()
    yield from _states()


DIAGNOSTICS: Mapping[str, Diagnostic] = {each.name: each for each in _all()}
"""All diagnostic tasks by name."""


def make(name: str) -> LabelledTokens:
    """Return the rows of a task; those of the last task are kept."""
    return _made(DIAGNOSTICS[name])


@functools.lru_cache(1)
def _made(diagnostic: Diagnostic) -> LabelledTokens:
    return diagnostic.make()


def _text(task: Task, files: Mapping[str, Path], skip_bad_lines: bool) -> TaskText:
    """Return the rows as text: the symbols, and the label of each token."""
    made = make(task.name)
    splits = {}
    for name, rows in made.splits.items():
        texts: tuple[Sequence[str], ...] = (
            made.source.decode(rows.ids), made.target.decode(rows.labels)
        )  # fmt: skip
        splits[name] = TextSplit(texts, None, np.arange(len(rows)))
    return TaskText(task, splits)


def _dataset(diagnostic: Diagnostic) -> Dataset:
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


DATASETS = tuple(map(_dataset, DIAGNOSTICS.values()))
