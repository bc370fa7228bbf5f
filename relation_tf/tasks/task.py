"""Tasks, their text and their files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import numpy as np
from pydantic import Field

from relation_tf.errors import DataError
from relation_tf.settings import Positive, Settings, Share
from relation_tf.tasks.tables import readable

Timed = Literal["", "decoding", "training"]
Tokens = Literal["word", "wordpiece"]
VocabularyTexts = Literal["train", "all"] | Annotated[list[str], Field(min_length=1)]
VocabularySize = Annotated[int, Field(ge=3, lt=2**31)]
Value = TypeVar("Value")


class Reading(Settings):
    """Settings of reading a task, the same in a suite and for `relation_tf.tasks.load_task`.

    `relation_tf.config.run.TrainingSettings` describes them.
    """

    source: str = "auto"
    tokens: Tokens = "word"
    start_token: bool = False
    vocabulary: VocabularyTexts = "train"
    vocabulary_size: VocabularySize | None = None
    max_length: Positive | None = None
    validation_split: Share | None = None


@dataclass(frozen=True)
class Task:
    """Task on which a network is trained.

    Attributes:
        name: Name of the task.
        inputs: One or two text columns.
        label: Label column.
        labels: Label words in the order of the classes, or None for regression.
        metrics: Registered metrics, computed for each scored split.
        validation: Validation split, or None to use a share of the training rows.
        scored: Scored (labelled) splits, by score name.
        answered: Predicted splits, by leaderboard name; usually unlabelled.
        diagnostics: Metrics of the scores that are in no average and no test over tasks: of scored
            names, and of answered names whose file has labels, such as GLUE's AX.
        maximum: Largest score of a regression; scores are divided by it. The smallest is 0.
        members: Tasks of a group for joint training, see `joined`. The group itself has no columns
            and labels, and only the metrics that all members have.
        written: If True, the second input is the target, which is decoded token by token.
        token_labels: If True, the second input has a label for each token of the first; 0 means no
            label.
        from_last_token: If True, all labels are predicted from the vector of the last token alone,
            and a position. Only with `token_labels`.
        timed: What is timed: `"decoding"`, one token after the other, or `"training"`, forward and
            backward passes. The network is not trained, and the score is its speed. Empty for
            other tasks.
    """

    name: str
    inputs: tuple[str, ...]
    label: str
    labels: tuple[str, ...] | None
    metrics: tuple[str, ...]
    validation: str | None
    scored: Mapping[str, str]
    answered: Mapping[str, str] = field(default_factory=dict)
    diagnostics: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    maximum: float = 5.0
    members: tuple[Task, ...] = ()
    written: bool = False
    token_labels: bool = False
    from_last_token: bool = False
    timed: Timed = ""

    @property
    def generated(self) -> bool:
        """True if the text is generated from a seed, without files."""
        return self.written or self.token_labels or self.timed != ""

    def of(self, name: str) -> Task:
        """Return the task of a scored or answered name: this task, or a member of the group."""
        return next((task for task in self.members if name in {*task.scored, *task.answered}), self)

    @property
    def scorable(self) -> dict[str, str]:
        """Splits that can have scores, by name: the scored ones, then the diagnostics."""
        further = {name: self.answered[name] for name in self.diagnostics if name in self.answered}
        return {**self.scored, **further}

    def metrics_of(self, name: str) -> tuple[str, ...]:
        """Return the metrics of one of `scorable`."""
        task = self.of(name)
        return task.diagnostics.get(name, task.metrics)

    def each(self) -> tuple[Task, ...]:
        """Return the members of a group, or this task."""
        return self.members or (self,)

    def split_of(self, task: Task, split: str) -> str:
        """Return the name, in this task, of a split of one of `each`."""
        return split if task is self else _in_group(task, split)


@dataclass(frozen=True)
class MeasuredTask:
    """A registered task with other metrics.

    Attributes:
        name: The task.
        metrics: Registered metrics.
    """

    name: str
    metrics: tuple[str, ...]


def joined(name: str, tasks: Sequence[Task]) -> Task:
    """Combine tasks for joint training into one task.

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
        diagnostics={n: metrics for t in tasks for n, metrics in t.diagnostics.items()},
        members=tuple(tasks),
    )


def named_in_group(members: Iterable[tuple[Task, Mapping[str, Value]]]) -> dict[str, Value]:
    """Return what members have for each split, by the names of the splits in their group."""
    return {
        _in_group(task, split): value for task, values in members for split, value in values.items()
    }


def _in_group(task: Task, split: str) -> str:
    return f"{task.name}:{split}"


@dataclass(frozen=True)
class TextSplit:
    """Rows of a task.

    Attributes:
        texts: Texts of each input column.
        labels: Class numbers, or scores divided by the maximum of the task; None if unlabelled.
        index: Number of each row on the leaderboard, or in its file.
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
            tuple([column[row] for row in rows] for column in self.texts),
            None if self.labels is None else self.labels[rows],
            self.index[rows],
        )


@dataclass(frozen=True)
class TaskText:
    """Text of a task.

    Attributes:
        task: The task.
        splits: Splits of the task: always "train" and the scored splits; answered splits can be
            missing.
        notes: Reasons why results are not comparable with published results, such as a sample of
            the rows.
        spaced: If True, words are already divided by spaces, and punctuation within a word belongs
            to it. False for a group if one of its tasks has other text.
    """

    task: Task
    splits: Mapping[str, TextSplit]
    notes: tuple[str, ...] = ()
    spaced: bool = False


@dataclass(frozen=True)
class FileLayout:
    """Layout of the files of a task in a folder.

    Attributes:
        name: Name in listings, such as `"TSV"`.
        read: Function of a task and its files that returns the text of the task.
        files: Paths of all files, relative to one of `folders`, by split or content. Splits that
            are cut from one file share it. The digest of a task is computed from these files.
        folders: Folders to search, relative to the data folder, in this order.
        first: Path that identifies the layout; by default the first of `files`.
        optional: Keys of optional files.
        labelled: Files with the same rows and labels, used instead of those of `files` if they
            exist, by key.
        by_rows: If True, digests are those of the rows, else those of the files. Use True if the
            rows can be stored in several formats, or if the reader can change, such as that of a
            registered task. `read` must then number the rows independently of the file: digests
            do not include the numbers, which choose the rows of a validation split.

    Example:
        >>> layout = FileLayout("CSV", read=None, files={"train": "a.csv"}, folders=("mine", ""))
        >>> layout.places
        ('mine/a.csv', 'a.csv')
    """

    name: str
    read: Callable[[Task, Mapping[str, Path]], TaskText]
    files: Mapping[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ("",)
    first: str = ""
    optional: tuple[str, ...] = ()
    labelled: Mapping[str, str] = field(default_factory=dict)
    by_rows: bool = False

    @property
    def places(self) -> tuple[str, ...]:
        """Paths to search, relative to the data folder, in this order."""
        first = self.first or next(iter(self.files.values()))
        return tuple(str(Path(folder, first)) for folder in self.folders)

    def find(self, task: Task, data: Path) -> dict[str, Path] | None:
        """Return the files in the data folder; None if the first file does not exist.

        Raises:
            DataError: If another file is missing, or a folder cannot be read.
        """
        for folder, place in zip(self.folders, self.places, strict=True):
            if _exists(data / place):
                files = {key: data / folder / file for key, file in self.files.items()}
                labelled = {key: data / folder / file for key, file in self.labelled.items()}
                files |= {key: path for key, path in labelled.items() if _exists(path)}
                missing = [key for key, path in files.items() if not _exists(path)]
                for key in missing:
                    if key not in self.optional:
                        raise DataError(
                            f"{files[key]}: this file of task {task.name} does not exist"
                        )
                    del files[key]
                return files
        return None


def _exists(path: Path) -> bool:
    with readable(path):
        return path.exists()


@dataclass(frozen=True)
class HubDataset:
    """A task as a dataset of the Hugging Face Hub names it.

    Attributes:
        path: Repository, such as `"nyu-mll/glue"`.
        splits: Name in the dataset of each split of the task.
        inputs: Columns with the texts, in the order of the inputs of the task.
        config: Configuration of the dataset, such as `"cola"`; None if it has only one.
        label: Label column.
        labels: Label word of the task for each class name of the dataset, in the order of its class
            numbers. Empty if the dataset has the words of the task, and for regression.
        index: Column with the row number, or None.
        apart: Configurations of splits that are in another one, with the same columns.
    """

    path: str
    splits: Mapping[str, str]
    inputs: Sequence[str]
    config: str | None = None
    label: str = "label"
    labels: Mapping[str, str] = field(default_factory=dict)
    index: str | None = None
    apart: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Dataset:
    """Task with the layouts of its files.

    Attributes:
        task: The task.
        layouts: Possible layouts of its files, in search order.
        obtain: Instructions to get the data, for messages.
        in_current_folder: If True, the current folder is searched, too.
        hub: Hugging Face dataset that a custom task names.
    """

    task: Task
    layouts: tuple[FileLayout, ...]
    obtain: str
    in_current_folder: bool = False
    hub: HubDataset | None = None
