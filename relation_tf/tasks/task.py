"""Tasks, their text and where it is found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from relation_tf.errors import DataError
from relation_tf.tasks.rows import FileTexts


@dataclass(frozen=True)
class Task:
    """A task that a network learns.

    Attributes:
        name: Its name.
        inputs: The text columns, one or two.
        label: The label column.
        labels: The label words in the order of the classes, or None for scores.
        metrics: Registered metrics, computed for each scored split.
        validation: The validation split, or None if a share of the training rows is taken.
        scored: Labelled splits that are scored, by the name of their scores.
        answered: Unlabelled splits that are predicted, by leaderboard name.
        maximum: The largest score of a regression, by which scores are divided; the least is 0.
        members: The tasks of a group that one network learns together, see `joined`. The group
            itself has no columns and labels, and only the metrics that all members have.
        written: If True, the second input is the target, which is decoded token by token.
        timed: If True, nothing is learned; the score is the speed at which a causal network
            decodes the text token by token.
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
        """True if its text is generated and in no file."""
        return self.written or self.timed

    def of(self, name: str) -> Task:
        """Return the task with a scored or answered name: this one, or a member of the group."""
        return next((task for task in self.members if name in {*task.scored, *task.answered}), self)

    def each(self) -> tuple[Task, ...]:
        """Return the members of a group, or this task."""
        return self.members or (self,)

    def split_of(self, task: Task, split: str) -> str:
        """Return the name of a split of one of `each`."""
        return split if task is self else _in_group(task, split)


def joined(name: str, tasks: Sequence[Task]) -> Task:
    """Return tasks that one network learns together as one task.

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
        texts: The texts of each input column: a list, or `FileTexts` for files too large for
            memory.
        labels: Class numbers, or scores divided by the task's maximum; None where there are none.
        index: The number of each row: as the leaderboard counts, or in the file it comes from.
    """

    texts: tuple[Sequence[str], ...]
    labels: np.ndarray | None
    index: np.ndarray

    def __len__(self) -> int:
        return len(self.index)

    def take(self, rows: np.ndarray) -> TextSplit:
        """Return some of the rows, in the given order.

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
        notes: Reasons why results differ from published ones, such as a sample of the rows.
        spaced: If True, words are separated by spaces already; punctuation in one is part of it.
    """

    task: Task
    splits: Mapping[str, TextSplit]
    skipped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    spaced: bool = False


@dataclass(frozen=True)
class FileLayout:
    """One way in which the files of a task may lie below a folder.

    Attributes:
        name: Its name in listings, such as `"TSV"`.
        read: From a task, the files and `skip_bad_lines` (leave out malformed lines of training
            files) to the task's text.
        files: All that is read, by split or by content: paths below one of `folders`. Splits that
            are cut from one file share it. The digest of a task is that of these files.
        folders: Folders below that of the data, in the order in which they are searched.
        first: The path that is looked for; by default the first of `files`.
        optional: Keys of files that may be missing.

    Example:
        >>> layout = FileLayout("CSV", read=None, files={"train": "a.csv"}, folders=("mine", ""))
        >>> layout.places
        ('mine/a.csv', 'a.csv')
    """

    name: str
    read: Callable[[Task, Mapping[str, Path], bool], TaskText]
    files: Mapping[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ("",)
    first: str = ""
    optional: tuple[str, ...] = ()

    @property
    def places(self) -> tuple[str, ...]:
        """The paths that are looked for below the folder of the data, in their order."""
        first = self.first or next(iter(self.files.values()))
        return tuple(str(Path(folder, first)) for folder in self.folders)

    def find(self, task: Task, data: Path) -> dict[str, Path] | None:
        """Return the files below the folder of the data; None if the first is not there.

        Raises:
            DataError: If another one is missing.
        """
        for folder, place in zip(self.folders, self.places, strict=True):
            if (data / place).exists():
                files = {key: data / folder / file for key, file in self.files.items()}
                missing = [key for key, path in files.items() if not path.exists()]
                for key in missing:
                    if key not in self.optional:
                        raise DataError(
                            f"{files[key]}: expected the file of task {task.name}, it is not there"
                        )
                    del files[key]
                return files
        return None


@dataclass(frozen=True)
class Dataset:
    """A task, and where its text is found.

    Attributes:
        task: The task.
        layouts: How its files may lie, in the order in which they are looked for.
        obtain: How to get the data, for messages.
        in_current_folder: If True, files are also looked for in the current folder.
    """

    task: Task
    layouts: tuple[FileLayout, ...]
    obtain: str
    in_current_folder: bool = False
