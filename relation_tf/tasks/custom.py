"""Tasks that a suite or a plugin declares: columns of files, and groups of tasks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from relation_tf.errors import SuiteError, did_you_mean, quote
from relation_tf.files import stays_inside
from relation_tf.registry import METRICS, Metric
from relation_tf.settings import Settings, first_fault
from relation_tf.tasks.datasets import labelled_rows, numbered, split_reader
from relation_tf.tasks.tables import TEXT_SUFFIXES, read_table
from relation_tf.tasks.task import Dataset, FileLayout, HubDataset, Task, TextSplit

NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}"
Name = Annotated[str, Field(pattern=f"^{NAME_PATTERN}$")]
"""Name in suites and folders."""

_USES = {"files": "training", "validation": "early stopping", "scored": "scores"}
_SUFFIXES = ("", *TEXT_SUFFIXES, ".parquet")  # a folder of `save_to_disk` has none
_HUB = r"^[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*){0,2}$"
# Labels are written to tab-separated files of predictions, so they have no control characters.
_Word = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]+$")]


class CustomTask(Settings):
    """Custom task, declared as `[[task]]` in a suite.

    Attributes:
        name: Name in suites and folders.
        inputs: One or two text columns.
        label: Label column.
        labels: Label words in the order of the classes; empty for regression, which needs two
            inputs.
        maximum: Largest score of a regression; the smallest is 0.
        metrics: Registered metrics. For classes for example `"accuracy"` (default), `"matthews"` or
            `"f1"` (needs a label `"1"`); for regression `"pearson"` and `"spearman"` (default:
            both).
        files: File of each split, in `--data` or the current folder: `.csv` or `.tsv` with a
            header, `.parquet`, or the folder of a split that Hugging Face
            `datasets` saved with `save_to_disk`. `"train"` and a scored split are required; name a
            file for early stopping `"dev"`. With `hub`, the names of the dataset's splits.
        hub: Hugging Face dataset, `"owner/name"` or `"owner/name/configuration"`: read from
            `--data`, never downloaded.
        validation: Split for early stopping; default: `"dev"` if it exists, else a share of
            `"train"`.
        scored: Scored split; default: `"test"` if it exists, else `"dev"`.

    Example:
        >>> task = CustomTask(name="tones", inputs=["text"], label="tone", labels=["calm", "loud"],
        ...     files={"train": "tones/train.csv", "test": "tones/test.csv"}).task()
        >>> task.scored, task.validation, task.metrics
        ({'tones': 'test'}, None, ('accuracy',))
    """

    name: Name
    inputs: Annotated[list[str], Field(min_length=1, max_length=2)]
    label: str
    labels: list[_Word] = Field(default_factory=list)
    # Labels are float32 shares of the maximum.
    maximum: Annotated[float, Field(ge=1e-30, le=1e30)] = 5.0
    metrics: list[str] = Field(default_factory=list)
    files: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")], str]
    validation: str | None = None
    scored: str | None = None
    hub: Annotated[str, Field(pattern=_HUB)] | None = None

    def _faults(self) -> Iterator[str]:
        yield from self._faults_of_columns()
        yield from self._faults_of_files()

    def _faults_of_columns(self) -> Iterator[str]:
        if len(self.labels) == 1 or len(set(self.labels)) < len(self.labels):
            yield f"labels: must be two or more different labels. Received: {self.labels}"
        if not self.labels and len(self.inputs) == 1:
            yield (
                "inputs: must be two columns for a regression task (without the key 'labels'). "
                "Received: one"
            )
        if len({self.label, *self.inputs}) < 1 + len(self.inputs):
            received = [*self.inputs, self.label]
            yield f"inputs, label: must be different columns. Received: {received}"
        allowed = [name for name, metric in METRICS.items() if self._fits(metric)]
        for name in self.metrics:
            if name not in allowed:
                hint = did_you_mean(name, allowed)
                yield f"metrics: must be {' or '.join(allowed)}. Received: {name!r}.{hint}"
        if len(set(self.metrics)) < len(self.metrics):
            yield f"metrics: must be different metrics. Received: {self.metrics}"

    def _fits(self, metric: Metric) -> bool:
        return (
            metric.function is not None
            and metric.target == ("labels" if self.labels else "scores")
            and (metric.positive is None or metric.positive in self.labels)
        )

    def _faults_of_files(self) -> Iterator[str]:
        if "validation" in self.files:
            yield "files.validation: the split for early stopping must have the key 'dev'"
        named = {"validation": self.validation, "scored": self._scored}
        for key, needed in {"files": "train", **named}.items():
            if needed is not None and needed not in self.files:
                keys = "'test' or 'dev'" if key == "scored" and not self.scored else repr(needed)
                found = ", ".join(self.files) or "none"
                use = _USES[key]
                yield f"files: must have the key {keys}, the split for {use}. Received: {found}"
            if needed == "train" and key != "files":
                yield f"{key}: must be a split other than 'train'"
        for split, file in self.files.items():
            must = ""
            if self.hub is not None and not file.replace(".", "_").isidentifier():
                must = f"be the name of a split of {self.hub}, such as 'train'"
            elif self.hub is None and not (Path(file).name and Path(file).suffix in _SUFFIXES):
                must = f"end in one of {', '.join(_SUFFIXES[1:])}, or be a folder of save_to_disk"
            elif not stays_inside(file) or "\0" in file:
                must = "be the name of a file below --data"
            if must:
                yield f"files.{split}: must {must}. Received: {file!r}"
        if len({os.path.normpath(file) for file in self.files.values()}) < len(self.files):
            yield f"files: must be a different file for each split. Received: {self.files}"

    @property
    def _scored(self) -> str:
        has_only_dev = "dev" in self.files and "test" not in self.files
        return self.scored or ("dev" if has_only_dev else "test")

    def task(self) -> Task:
        """Return the task."""
        default = ("accuracy",) if self.labels else ("pearson", "spearman")
        return Task(
            name=self.name,
            inputs=tuple(self.inputs),
            label=self.label,
            labels=tuple(self.labels) or None,
            metrics=tuple(self.metrics) or default,
            validation=self.validation or ("dev" if "dev" in self.files else None),
            scored={self.name: self._scored},
            maximum=self.maximum,
        )

    def dataset(self) -> Dataset:
        """Return the task with its file layout."""
        layout = FileLayout(
            "own files", split_reader(self._rows), self.files, by_rows=self._by_rows()
        )
        hub = None
        if self.hub is not None:
            owner, name, config, *_ = *self.hub.split("/"), None, None
            path = owner if name is None else f"{owner}/{name}"
            hub = HubDataset(path, self.files, tuple(self.inputs), config, self.label)
        return Dataset(self.task(), (layout,), _OBTAIN, in_current_folder=True, hub=hub)

    def _by_rows(self) -> bool:
        return any(Path(file).suffix not in TEXT_SUFFIXES for file in self.files.values())

    def _rows(self, task: Task, path: Path) -> TextSplit:
        table = read_table(path, (task.label, *task.inputs), task.labels or ())
        rows = labelled_rows(task, table)
        return numbered(rows, 1) if self._by_rows() else rows


class TaskGroup(Settings):
    """Group of tasks (`[[group]]` of a suite) on which one network is trained jointly.

    The network is scored on each task.

    Attributes:
        name: Name in suites and folders.
        tasks: Two or more tasks.

    Example:
        >>> from relation_tf.tasks import find_task
        >>> find_task(TaskGroup(name="opinions", tasks=["MR", "SUBJ"])).scored
        {'MR': 'MR:test', 'SUBJ': 'SUBJ:test'}
    """

    name: Name
    tasks: list[str | CustomTask]

    def _faults(self) -> Iterator[str]:
        names = [entry if isinstance(entry, str) else entry.name for entry in self.tasks]
        twice = [name for name in names if names.count(name) > 1]
        if twice or len(names) < 2:
            found = f"{twice[0]!r} more than once" if twice else len(names)
            yield f"tasks: must be two or more different tasks. Received: {found}"


_OBTAIN = "put the files that the suite names into --data DIR or the current folder"


def declare_task(name: str, **fields: Any) -> Dataset:
    """Return the dataset that `relation_tf.registry.register_task` registers.

    Raises:
        SuiteError: If a field is unknown, missing or invalid.
    """
    fields = {key: [*value] if isinstance(value, tuple) else value for key, value in fields.items()}
    try:
        return CustomTask(name=name, **fields).dataset()
    except ValidationError as error:
        fault = first_fault(error, CustomTask)
        raise SuiteError(f"task {quote(str(name))}: register_task: {fault}") from error
