"""What a task is, apart from where its text comes from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Task:
    """What is learned.

    Attributes:
        name: Its name.
        inputs: The text columns, one or two.
        label: The label column.
        labels: The label words in the order of the classes, or None for scores in [0, 5].
        metrics: What is computed of each scored split, by the names of `glue_submit`'s metrics.
        validation: The split that stops the training, or None where the set has none of its own
            and a share of the training rows is taken.
        scored: Labelled splits that are scored, by the name that the scores go by.
        answered: Unlabelled splits that are answered, by leaderboard name.
    """

    name: str
    inputs: tuple[str, ...]
    label: str
    labels: tuple[str, ...] | None
    metrics: tuple[str, ...]
    validation: str | None
    scored: Mapping[str, str]
    answered: Mapping[str, str] = field(default_factory=dict)

    @property
    def maximum(self) -> float:
        """The largest score of a regression; labels are divided by it."""
        return 5.0


@dataclass(frozen=True)
class TextSplit:
    """Some rows of a task.

    Attributes:
        texts: A list of texts for each input column.
        labels: Class numbers, or scores divided by the task's maximum; None where there are none.
        index: The number of each row: as the leaderboard counts, or in the file it comes from.
    """

    texts: tuple[list[str], ...]
    labels: np.ndarray | None
    index: np.ndarray

    def __len__(self) -> int:
        return len(self.index)

    def take(self, rows: np.ndarray) -> TextSplit:
        """Some of the rows, in the order asked for.

        Example:
            >>> split = TextSplit((["a", "b", "c"],), np.array([0, 1, 0]), np.arange(3))
            >>> split.take(np.array([2, 0])).texts
            (['c', 'a'],)
        """
        return TextSplit(
            tuple([column[row] for row in rows] for column in self.texts),
            None if self.labels is None else self.labels[rows],
            self.index[rows],
        )


@dataclass(frozen=True)
class TaskText:
    """A task with its text.

    Attributes:
        task: The task.
        splits: Its splits; "train" and the scored ones are always there, answered ones may not be.
        skipped: One message for each malformed line that was left out.
        notes: What makes results on it unlike published ones, such as a sample of its rows.
    """

    task: Task
    splits: Mapping[str, TextSplit]
    skipped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Collection:
    """Tasks whose files are laid out and read alike.

    Attributes:
        tasks: The tasks by name.
        find: The file of each split of a task below the folder that a user names (None where none
            was named). Raises `DataError` where there is nothing, and says where it looked.
        read: A task from those files; the last argument asks to leave out malformed lines of
            training files.
    """

    tasks: Mapping[str, Task]
    find: Callable[[Task, Path | None], dict[str, Path]]
    read: Callable[[Task, Mapping[str, Path], bool], TaskText]
