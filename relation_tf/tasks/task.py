"""What a task is, apart from where its text comes from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from relation_tf.tasks.rows import FileTexts


@dataclass(frozen=True)
class Task:
    """What is learned.

    Attributes:
        name: Its name.
        inputs: The text columns, one or two.
        label: The label column.
        labels: The label words in the order of the classes, or None for scores.
        metrics: What is computed of each scored split, by the names of `glue_submit`'s metrics.
        validation: The split that stops the training, or None where the set has none of its own
            and a share of the training rows is taken.
        scored: Labelled splits that are scored, by the name that the scores go by.
        answered: Unlabelled splits that are answered, by leaderboard name.
        maximum: The largest score of a regression, by which scores are divided; the least is 0.
        members: Where one network learns several tasks together, these; see `joined`. The group
            has no columns and labels itself, and the metrics that all members have.
        written: Whether the second input is what is to be written, a token at a time.
        timed: Whether nothing is learned, and what is scored is how fast a causal network goes
            through the text a token at a time.
    """

    name: str
    inputs: tuple[str, ...]
    label: str
    labels: tuple[str, ...] | None
    metrics: tuple[str, ...]
    validation: str | None
    scored: Mapping[str, str]
    answered: Mapping[str, str] = field(default_factory=dict)
    maximum: float = 5.0
    members: tuple[Task, ...] = ()
    written: bool = False
    timed: bool = False

    @property
    def generated(self) -> bool:
        """Whether its text is made, and in no file."""
        return self.written or self.timed

    def of(self, name: str) -> Task:
        """The task that is scored or answered by a name: this one, or the member of a group."""
        return next((task for task in self.members if name in {*task.scored, *task.answered}), self)

    def each(self) -> tuple[Task, ...]:
        """The members of a group, or this task."""
        return self.members or (self,)

    def split_of(self, task: Task, split: str) -> str:
        """What a split of one of `each` is called."""
        return split if task is self else _in_group(task, split)


def joined(name: str, tasks: Sequence[Task]) -> Task:
    """Tasks that one network learns together, as one task.

    Example:
        >>> from relation_tf.tasks import find_task
        >>> group = joined("two", [find_task("MR"), find_task("CR")])
        >>> group.scored, group.metrics
        ({'MR': 'MR:test', 'CR': 'CR:test'}, ('accuracy',))
    """
    common = [metric for metric in tasks[0].metrics if all(metric in t.metrics for t in tasks)]
    return Task(
        name=name,
        inputs=(),
        label="",
        labels=None,
        metrics=tuple(common),
        validation=None,
        scored={n: _in_group(t, split) for t in tasks for n, split in t.scored.items()},
        answered={n: _in_group(t, split) for t in tasks for n, split in t.answered.items()},
        members=tuple(tasks),
    )


def _in_group(task: Task, split: str) -> str:
    return f"{task.name}:{split}"


@dataclass(frozen=True)
class TextSplit:
    """Some rows of a task.

    Attributes:
        texts: The texts of each input column: a list, or `FileTexts` where a file is too large to
            hold.
        labels: Class numbers, or scores divided by the task's maximum; None where there are none.
        index: The number of each row: as the leaderboard counts, or in the file it comes from.
    """

    texts: tuple[Sequence[str], ...]
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
            tuple(_take(column, rows) for column in self.texts),
            None if self.labels is None else self.labels[rows],
            self.index[rows],
        )


def _take(texts: Sequence[str], rows: np.ndarray) -> Sequence[str]:
    if isinstance(texts, FileTexts):
        return texts.take(rows)
    return [texts[row] for row in rows]


@dataclass(frozen=True)
class TaskText:
    """A task with its text.

    Attributes:
        task: The task.
        splits: Its splits; "train" and the scored ones are always there, answered ones may not be.
        skipped: One message for each malformed line that was left out.
        notes: What makes results on it unlike published ones, such as a sample of its rows.
        spaced: Whether the words are apart by blanks already: punctuation inside one is part of it.
    """

    task: Task
    splits: Mapping[str, TextSplit]
    skipped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    spaced: bool = False


@dataclass(frozen=True)
class FileLayout:
    """One way in which the files of tasks may lie below a folder.

    Attributes:
        name: What listings call it, such as `"TSV"`.
        places: Where the first file or folder of a task may lie below the folder, in the order in
            which they are looked for.
        files: All that is read, by split or by what it is, from the place that was found; splits
            that are cut from one file share it. The digest of a task is that of these.
        read: A task from those files; the last argument asks to leave out malformed lines of
            training files.
    """

    name: str
    places: Callable[[Task], tuple[str, ...]]
    files: Callable[[Task, Path], dict[str, Path]]
    read: Callable[[Task, Mapping[str, Path], bool], TaskText]


@dataclass(frozen=True)
class Collection:
    """Tasks that are published together.

    Attributes:
        tasks: The tasks by name.
        layouts: How their files may lie, in the order in which they are looked for.
        obtain: Where the data is to be had, for messages.
    """

    tasks: Mapping[str, Task]
    layouts: tuple[FileLayout, ...]
    obtain: str
