"""Score predictions for the dev or test sets with labelled files."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from glue_submit.checking import read_submission
from glue_submit.metrics import NOT_ENTAILMENT, evaluate, glue_average
from glue_submit.tables import (
    Predictions,
    Source,
    as_list,
    in_index_order,
    locate,
    read_lines,
    read_values,
)
from glue_submit.tasks import TASKS, SubmissionError, Task, get_task, short

Labels: TypeAlias = str | os.PathLike[str] | Mapping[str, Any]
"""A folder in the layout of `glue_data`, or the labels of each task by task name."""

# Labelled files in `glue_data` that are not `<Task>/dev.tsv`.
_FILES = {
    "MNLI-m": "MNLI/dev_matched.tsv",
    "MNLI-mm": "MNLI/dev_mismatched.tsv",
    "AX": "diagnostic/diagnostic-full.tsv",
}
# Their columns that are not "label"; CoLA has no header.
_COLUMNS: Mapping[str, str | int] = {
    "CoLA": 1, "MRPC": "Quality", "STS-B": "score", "QQP": "is_duplicate",
    "MNLI-m": "gold_label", "MNLI-mm": "gold_label", "AX": "Label",
}  # fmt: skip
_TWO_CLASSES = "diagnostic/AX-b.jsonl"
_OTHER_PLACES = {
    "MRPC": ("MRPC/msr_paraphrase_test.txt", "Quality"),
    "AX": (_TWO_CLASSES, "label"),
}


@dataclass(frozen=True, slots=True)
class Scores:
    """Metrics of each task, and the GLUE average; `str()` gives a table in percent.

    Attributes:
        tasks: Metrics by task name, as fractions.
        unlabelled: Tasks with predictions but without labels.
        missing: Tasks without a file in a zip for the leaderboard.
        split: `"dev"` or `"test"`: the sets that all tasks are scored on.
    """

    tasks: Mapping[str, Mapping[str, float]]
    unlabelled: tuple[str, ...] = ()
    split: str = "dev"
    missing: tuple[str, ...] = ()

    @property
    def average(self) -> float | None:
        """GLUE average as a fraction; `None` if one of the nine tasks is not scored."""
        return glue_average(self.tasks)

    def __str__(self) -> str:
        """Return a table: task, metric, value x 100; the split is in its heading."""
        rows = [(name, *row) for name, metrics in self.tasks.items() for row in metrics.items()]
        width = max(9, *(len(metric) for _, metric, _ in rows), 0)
        lines = [f"{'task':<8} {'metric':<{width}} {'x 100':>6}  ({self.split} sets)"]
        lines += [f"{name:<8} {metric:<{width}} {100 * value:6.2f}" for name, metric, value in rows]
        if (average := self.average) is not None:
            lines.append(f"{'GLUE':<8} {'average':<{width}} {100 * average:6.2f}")
        else:
            absent = [name for name in TASKS if name != "AX" and name not in self.tasks]
            lines.append(f"no GLUE average without {', '.join(absent)}")
        if self.missing:
            lines.append(f"not in the zip, so incomplete: {', '.join(self.missing)}")
        if self.unlabelled:
            lines.append(f"not scored, no labels: {', '.join(self.unlabelled)}")
        return "\n".join(lines)


def score(
    predictions: Predictions, labels: Labels | None = None, *, split: str | None = None
) -> Scores:
    """Score predictions for the dev or test sets: the metrics of each task and the GLUE average.

    Args:
        predictions: A zip for the leaderboard; or as for `pack`, for the rows of the dev or test
            sets; or several such folders, such as the runs of a method, with files
            `<Task>.<split>.tsv`. On dev, MNLI-m is dev_matched and MNLI-mm dev_mismatched. Tasks
            can be missing. Scores of STS-B can be outside [0, 5].
        labels: A folder in the layout of `glue_data` (or one that contains `glue_data`), or a
            mapping from task names to labels. By default the column `label` of the predictions,
            which files of a suite's runs have for dev. Labels of test sets are files
            `<Task>/test_gold.tsv` (columns `index`, and `label` or `score`; MNLI:
            `test_matched_gold.tsv`, `test_mismatched_gold.tsv`) or
            `MRPC/msr_paraphrase_test.txt`; those of AX `diagnostic/diagnostic-full.tsv`, or on test
            also `diagnostic/AX-b.jsonl` with two classes, see `evaluate`.
        split: `"dev"` or `"test"`, by default test for a zip and dev otherwise.

    Returns:
        The scores of the tasks that have predictions. Most test sets have no public labels:
        `unlabelled` has their names.

    Raises:
        SubmissionError: If there are no predictions, labels are missing, or a row is malformed; the
            message has the file, the line, and what was expected and found.

    Example:
        >>> from glue_submit import score
        >>> score({"RTE": ["entailment"]}, {"RTE": ["entailment"]}).tasks
        {'RTE': {'accuracy': 1.0}}
    """
    if split not in (None, "dev", "test"):
        raise SubmissionError(f"split must be dev or test. Received: {short(split)}")
    missing: tuple[str, ...] = ()
    if isinstance(predictions, str | os.PathLike) and Path(predictions).is_file():
        if split == "dev":
            raise SubmissionError(f"{predictions}: a submission has no predictions for dev sets")
        predictions, split = read_submission(Path(predictions)), "test"
        missing = tuple(name for name in TASKS if name not in predictions)
    split = split or "dev"
    sources = locate(predictions, split)
    if isinstance(labels, str | os.PathLike) and not Path(labels).is_dir():
        raise SubmissionError(
            f"labels must be a folder of labelled files. Received: {short(str(labels))}"
        )
    true = {name: _labels(source, labels, TASKS[name], split) for name, source in sources.items()}
    if all(known is None for known in true.values()):
        if split == "dev":
            raise SubmissionError(
                f"no predictions for a labelled dev set, only for {', '.join(true)}. Predictions "
                "for test sets need --split test and labels"
            )
        raise SubmissionError(
            f"no labels of the test sets of {', '.join(true)}: {short(str(labels or predictions))} "
            f"has no such file as {_places(next(iter(TASKS.values())), 'test')[0][0]}"
        )
    scores = {
        name: evaluate(
            name, in_index_order(sources[name], TASKS[name], len(known), TASKS[name].parse), known
        )
        for name, known in true.items()
        if known is not None
    }
    return Scores(scores, tuple(name for name in true if name not in scores), split, missing)


def read_labels(
    folder: str | os.PathLike[str], task_name: str, split: str = "dev"
) -> list[str | float]:
    r"""Read the labels of a task from the files of GLUE.

    Args:
        folder: A folder in the layout of `glue_data`, or one that contains `glue_data`.
        task_name: One of the names of `TASKS`.
        split: `"dev"` or `"test"`, see `score`.

    Returns:
        Label words, or for STS-B floats, in the order of the file, on test in that of the index.

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
    path, column = find_labels(folder, task_name, split)
    if path.name == Path(_TWO_CLASSES).name:
        return _two_classes(path)
    if path.stem.endswith("_gold"):
        return in_index_order(path, task, None, task.parse, str(column))
    return read_values(path, column, task.parse)


def _two_classes(path: Path) -> list[str | float]:
    """Read the labels of SuperGLUE's AX-b: JSON lines, in the order of GLUE's AX."""
    found: list[str | float] = []
    for index, line in enumerate(read_lines(path)):
        try:
            row = json.loads(line)
            label = row["label"] if str(row["idx"]) == str(index) else None
        except (ValueError, TypeError, KeyError):
            label = None
        if label not in ("entailment", NOT_ENTAILMENT):
            raise SubmissionError(
                f"{path}, line {index + 1}: expected idx {index} and a label entailment or "
                f"{NOT_ENTAILMENT}, found {short(line)}"
            )
        found.append(label)
    return found


def _places(task: Task, split: str) -> list[tuple[str, str | int]]:
    """Return the possible labelled files of a task and their label columns, in search order."""
    file = _FILES.get(task.name, f"{task.name}/dev.tsv")
    column = _COLUMNS.get(task.name, "label")
    if split == "dev":
        return [(file, column)]
    if task.name != "AX":
        file = file.replace("dev", "test").replace(".tsv", "_gold.tsv")
        column = "score" if task.labels is None else "label"
    others = [_OTHER_PLACES[task.name]] if task.name in _OTHER_PLACES else []
    return [(file, column), *others]


def find_labels(
    folder: str | os.PathLike[str], task_name: str, split: str
) -> tuple[Path, str | int]:
    """Return the labelled file of a task and its label column; the first place if none exists.

    Args:
        folder: A folder in the layout of `glue_data`, or one that contains `glue_data`.
        task_name: One of the names of `TASKS`.
        split: `"dev"` or `"test"`.
    """
    inner = Path(folder) / "glue_data"
    root = inner if inner.is_dir() else inner.parent
    places = [(root / file, column) for file, column in _places(get_task(task_name), split)]
    return next((place for place in places if place[0].is_file()), places[0])


def _labels(source: Source, labels: Labels | None, task: Task, split: str) -> list[Any] | None:
    """Return the labels of a task; None for AX and for test sets without labels."""
    if labels is None:
        if not isinstance(source, str | os.PathLike):
            raise SubmissionError(f"{task.name}: labels are missing; give labels (--labels DIR)")
        if "label" in read_lines(Path(source))[0].split("\t"):
            return in_index_order(source, task, None, task.parse, "label")
        if task.name == "AX":  # its files have labels only if the run had the labelled file
            return None
        raise SubmissionError(f"{source}: has no column 'label'; give labels (--labels DIR)")
    if isinstance(labels, Mapping):
        if task.name in labels:
            return as_list(labels[task.name], f"{task.name} labels")
        found = f"found labels for {', '.join(map(str, labels)) or 'no task'}"
    else:
        path, _ = find_labels(labels, task.name, split)
        if path.is_file():
            return read_labels(labels, task.name, split)
        found = f"no such file {path}"
    if task.name == "AX" or split == "test":
        return None
    raise SubmissionError(f"{task.name}: labels for its predictions are missing: {found}")
