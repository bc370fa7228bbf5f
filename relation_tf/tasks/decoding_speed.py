"""Texts to be gone through a token at a time, as a network does that writes; nothing is learned.

`decode-512` is one text of 512 letters, drawn from a seed: any other of that length costs the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from relation_tf.tasks.generated import LETTERS, SEED, Characters
from relation_tf.tasks.rows import Ragged
from relation_tf.tasks.task import Dataset, FileLayout, Task, TaskText, TextSplit

LENGTHS = (128, 512, 2048, 8192)

ALPHABET = Characters(LETTERS)


def letters(length: int, rows: int = 1) -> Ragged:
    """Rows of so many letters.

    Example:
        >>> ALPHABET.decode(letters(6, rows=2).pad(np.arange(2)))
        ['nqrrqx', 'ysyqvj']
    """
    drawn = np.random.RandomState(SEED).randint(len(LETTERS), size=(rows, length))
    return ALPHABET.encode("".join(LETTERS[i] for i in row) for row in drawn)


def length_of(task: Task) -> int:
    """Return the number of letters of a task."""
    return int(task.name.partition("-")[2])


def _text(task: Task, files: Mapping[str, Path], skip_bad_lines: bool) -> TaskText:
    row = np.arange(1)
    texts = ALPHABET.decode(letters(length_of(task)).pad(row))
    return TaskText(task, {"train": TextSplit((texts,), None, row)})


_LAYOUT = FileLayout(f"seed {SEED}", _text)


def _task(name: str) -> Task:
    return Task(
        name=name,
        inputs=("text",),
        label="",
        labels=None,
        metrics=("tokens_per_second",),
        validation="train",
        scored={name: "train"},
        timed=True,
    )


DATASETS = tuple(
    Dataset(_task(f"decode-{length}"), (_LAYOUT,), "it is generated") for length in LENGTHS
)
