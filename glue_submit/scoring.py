"""Score predictions for the dev sets with the labelled files of GLUE."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from glue_submit.errors import SubmissionError
from glue_submit.metrics import evaluate, glue_average
from glue_submit.tables import (
    Predictions,
    Source,
    as_list,
    converted,
    folders_of,
    in_index_order,
    locate,
    read_columns,
    read_lines,
)
from glue_submit.tasks import TASKS, Task, get_task, short

Labels: TypeAlias = str | os.PathLike[str] | Mapping[str, Any]
"""A folder in the layout of `glue_data`, or the labels of each task by task name."""

# Labelled files in `glue_data` and their label columns; CoLA has no header.
_LABEL_COLUMNS: Mapping[str, tuple[str, str | int]] = {
    "CoLA": ("CoLA/dev.tsv", 1),
    "SST-2": ("SST-2/dev.tsv", "label"),
    "MRPC": ("MRPC/dev.tsv", "Quality"),
    "STS-B": ("STS-B/dev.tsv", "score"),
    "QQP": ("QQP/dev.tsv", "is_duplicate"),
    "MNLI-m": ("MNLI/dev_matched.tsv", "gold_label"),
    "MNLI-mm": ("MNLI/dev_mismatched.tsv", "gold_label"),
    "QNLI": ("QNLI/dev.tsv", "label"),
    "RTE": ("RTE/dev.tsv", "label"),
    "WNLI": ("WNLI/dev.tsv", "label"),
    "AX": ("diagnostic/diagnostic-full.tsv", "Label"),
}


@dataclass(frozen=True, slots=True)
class Scores:
    """Metrics of each task, and the GLUE average; `str()` gives a table in percent.

    Attributes:
        tasks: Metrics by task name, as fractions.
        unlabelled: Tasks with predictions but without labels: AX, whose labels are published
            separately from its sentences.
    """

    tasks: Mapping[str, Mapping[str, float]]
    unlabelled: tuple[str, ...] = ()

    @property
    def average(self) -> float | None:
        """GLUE average as a fraction; `None` if one of the nine tasks is not scored."""
        return glue_average(self.tasks)

    def __str__(self) -> str:
        """Return a table: task, metric, value x 100."""
        lines = [f"{'task':<8} {'metric':<9} {'x 100':>6}"]
        for name, metrics in self.tasks.items():
            for metric, value in metrics.items():
                lines.append(f"{name:<8} {metric:<9} {100 * value:6.2f}")
        if (average := self.average) is not None:
            lines.append(f"{'GLUE':<8} {'average':<9} {100 * average:6.2f}")
        else:
            absent = [name for name in TASKS if name != "AX" and name not in self.tasks]
            lines.append(f"no GLUE average without {', '.join(absent)}")
        lines += [f"not scored, no labels: {name}" for name in self.unlabelled]
        return "\n".join(lines)


def score(predictions: Predictions, labels: Labels | None = None) -> Scores:
    """Score predictions for the dev sets: the metrics of each task and the GLUE average.

    Args:
        predictions: As for `pack`, for the rows of the dev sets, or several such folders, such as
            the runs of a method, with files `<Task>.dev.tsv` and `AX.test.tsv`; MNLI-m is
            dev_matched, MNLI-mm dev_mismatched. Tasks can be missing. Scores of STS-B can be
            outside [0, 5].
        labels: A folder in the layout of `glue_data` (or one that contains `glue_data`), or a
            mapping from task names to labels. By default the column `label` of the predictions,
            which files of a suite's runs have. AX is scored only if it has labels: its labelled
            file, `diagnostic/diagnostic-full.tsv`, or that column.

    Returns:
        The scores of the tasks that have predictions.

    Raises:
        SubmissionError: If there are no predictions, labels are missing, or a row is malformed; the
            message has the file, the line, and what was expected and found.

    Example:
        >>> from glue_submit import score
        >>> score({"RTE": ["entailment"]}, {"RTE": ["entailment"]}).tasks
        {'RTE': {'accuracy': 1.0}}
    """
    sources = locate(predictions, "dev")
    if not sources:
        raise SubmissionError(_without_predictions(predictions))
    true = {
        name: _own_labels(source, TASKS[name]) if labels is None else _labels(labels, TASKS[name])
        for name, source in sources.items()
    }
    scores = {}
    for name, own in true.items():
        if own is not None:
            if not own:
                raise SubmissionError(f"{name} labels: must have one or more rows. Received: none")
            task = TASKS[name]
            given = in_index_order(sources[name], task, len(own), task.parse)
            scores[name] = evaluate(name, given, own)
    return Scores(scores, tuple(name for name, own in true.items() if own is None))


def read_labels(folder: str | os.PathLike[str], task_name: str) -> list[str | float]:
    r"""Read the dev labels of a task from the files of GLUE.

    Args:
        folder: A folder in the layout of `glue_data`, or one that contains `glue_data`.
        task_name: One of the names of `TASKS`.

    Returns:
        Label words, or for STS-B floats, in the order of the file.

    Raises:
        SubmissionError: If the file does not exist or has other content.

    Example:
        >>> import pathlib, tempfile
        >>> from glue_submit.scoring import read_labels
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "SST-2", "dev.tsv")
        ...     file.parent.mkdir()
        ...     _ = file.write_text("sentence\tlabel\nso good\t1\n", encoding="utf-8")
        ...     read_labels(folder, "SST-2")
        ['1']
    """
    task = get_task(task_name)
    path, column = _labelled_file(Path(folder), task)
    cells = read_columns(path, column)
    return [converted(cell, task.parse, f"{path}, line {line}") for line, (cell,) in cells]


def _without_predictions(predictions: Predictions) -> str:
    """Return the message for predictions without a task; a suite's folder has a hint."""
    folders, names = folders_of(predictions), ", ".join(TASKS)
    if not folders:
        return f"predictions must have one or more of {names}. Received: {short(str(predictions))}"
    message = (
        f"{', '.join(map(str, folders))}: no predictions. Must have TASK.tsv or TASK.dev.tsv, "
        f"directly or in predictions/, for one or more of {names}"
    )
    for folder in folders:
        run = next(folder.glob("runs/*/*/seed-*/predictions"), None)
        if run is not None:
            chosen = folder / "runs" / "*" / run.parts[-3] / run.parts[-2]
            message += f". A suite has several runs: name those of a method and seed, as {chosen}"
            break
    return message


def _own_labels(source: Source, task: Task) -> list[Any] | None:
    """Return the labels of a file of predictions, in the order of its index.

    Files of AX have them only if the run found its labelled file; otherwise None is returned.
    """
    if not isinstance(source, str | os.PathLike):
        raise SubmissionError(f"{task.name}: labels are missing")
    path = Path(source)
    if "label" not in read_lines(path)[0].split("\t"):
        if task.name == "AX":
            return None
        raise SubmissionError(f"{path}: has no column 'label'; give labels (--labels DIR)")
    rows = sum(1 for _ in read_columns(path, "label"))
    return in_index_order(path, task, rows, task.parse, "label")


def _labelled_file(folder: Path, task: Task) -> tuple[Path, str | int]:
    file, column = _LABEL_COLUMNS[task.name]
    inner = folder / "glue_data"
    return (inner if inner.is_dir() else folder) / file, column


def _labels(labels: Labels, task: Task) -> list[Any] | None:
    """Return the labels of a task; None for AX without its labelled file."""
    if isinstance(labels, Mapping):
        if task.name in labels:
            return as_list(labels[task.name], f"{task.name} labels")
        found = f"found labels for {', '.join(map(str, labels)) or 'no task'}"
    else:
        folder = Path(labels)
        if not folder.is_dir():
            raise SubmissionError(
                f"labels must be a folder of labelled files. Received: {short(str(folder))}"
            )
        path, _ = _labelled_file(folder, task)
        if path.is_file():
            return read_labels(folder, task.name)
        found = f"no such file {path}"
    if task.name == "AX":
        return None
    raise SubmissionError(f"{task.name}: labels for its predictions are missing: {found}")
