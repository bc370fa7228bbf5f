"""Section with the predictions on scored rows, compared with the labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from relation_tf.bench.results import Results
from relation_tf.errors import SuiteError
from relation_tf.registry import register_section
from relation_tf.report.answer import in_words
from relation_tf.report.blocks import Block, Figure, Folded, Paragraph, Section, Span, file_links
from relation_tf.report.context import ReportContext
from relation_tf.report.pictures.calibration import calibration, calibration_table
from relation_tf.report.pictures.drawing import Picture, Style
from relation_tf.report.pictures.predictions import (
    MOST_CLASSES,
    Answers,
    Predictions,
    auc_table,
    confusion_matrices,
    confusion_table,
    roc_curves,
)

_MOST_MATRICES = 6  # methods; more matrices would fill the page
_MOST_NAMED = 6  # methods in one sentence
_MOST_ANSWERS = 500_000  # of a task; drawing this many takes a few seconds


class Predicted(NamedTuple):
    """Evaluation of the predictions of a suite's runs.

    Attributes:
        tables: `auc`, `calibration` and `confusion`, each with a column `task`.
        pictures: ROC curves, calibration and confusion matrices of each task.
        notes: Figures that are left out, with the reason.
        warnings: Runs that predict the same class for all rows.
    """

    tables: dict[str, pd.DataFrame]
    pictures: list[Picture]
    notes: list[str]
    warnings: list[str]


@register_section("predictions")
class PredictionPictures(Section):
    """ROC curves, calibration and confusion matrices of each task."""

    heading = "Predictions"

    def blocks(self, context: ReportContext) -> Sequence[Block]:
        """Return the figures of each task."""
        found = context.predicted
        if found is None or not found.tables:
            return []
        blocks: list[Block] = []
        for task in found.tables["auc"]["task"].unique():
            own = [each for each in found.pictures if each.name.partition("-")[2] == task]
            confusion = any(each.name.startswith("confusion-") for each in own)
            what = ", confusion matrices" if confusion else ""
            figures = [Figure(picture, picture.legend) for picture in own]
            summary: list[str | Span] = [Span(task), f": ROC curves, calibration{what}"]
            blocks.append(Folded(summary, figures, task=task))
        note: list[str | Span] = [
            "Means over seeds. ROC: macro is the mean of each class against the rest, micro pools "
            "all rows and classes. Calibration: accuracy against confidence (the highest "
            "probability); below the diagonal a method is overconfident; ECE is the expected "
            "calibration error.",
            *(f" {note}" for note in found.notes),
            " Tables: ",
            *file_links(found.tables),
        ]
        return [*blocks, Paragraph(note, "note")]

    def tables(self, context: ReportContext) -> Mapping[str, pd.DataFrame]:
        """Return the data of the figures."""
        return {} if context.predicted is None else context.predicted.tables


def predicted(results: Results, look: dict[str, Style]) -> Predicted:
    """Return tables and figures of the tasks with labels in their files of predictions.

    Regressions and runs of earlier versions have no labels.

    Raises:
        SuiteError: If a file of predictions is invalid.
    """
    tables: dict[str, list[pd.DataFrame]] = {"auc": [], "calibration": [], "confusion": []}
    pictures: list[Picture | None] = []
    notes = []
    constant: dict[str, dict[str, tuple[int, int]]] = {}
    for task in results.suite.tasks:
        group = results.suite.find_task(task)
        for name, split in group.scored.items():
            labels = group.of(name).labels
            if labels is None:
                continue
            classes = [str(label) for label in labels]
            rows = _rows(results, task, split)
            if rows > _MOST_ANSWERS:
                notes.append(f"{name}: no figures, because it has {rows:,} predictions.")
                continue
            kind = split.rpartition(":")[2].partition("_")[0]  # as in the names of files
            found = _read(results, task, f"{name}.{kind}.tsv", classes)
            if not found:
                continue
            constant[name] = _constant(found)
            answers = Answers(name, classes, found)
            for kind, table in (
                ("auc", auc_table(answers)),
                ("calibration", calibration_table(answers)),
                ("confusion", confusion_table(answers)),
            ):
                tables[kind].append(table.assign(task=name)[["task", *table.columns]])
            pictures.append(roc_curves(answers, look))
            pictures.append(calibration(answers, look))
            if len(classes) <= MOST_CLASSES and len(found) <= _MOST_MATRICES:
                pictures.append(confusion_matrices(answers))
            else:
                notes.append(f"{name}: no confusion matrices, see confusion.csv.")
    return Predicted(
        {kind: pd.concat(parts, ignore_index=True) for kind, parts in tables.items() if parts},
        [picture for picture in pictures if picture is not None],
        notes,
        _warnings(constant),
    )


def _constant(answers: Predictions) -> dict[str, tuple[int, int]]:
    """Return by method the numbers of runs that predict one class only, and of all runs."""
    counts = {}
    for method, runs in answers.items():
        chosen = [np.argmax(shares, axis=1) for _, shares in runs.values()]
        counts[method] = sum(len(np.unique(x)) == 1 < len(x) for x in chosen), len(runs)
    return counts


def _warnings(constant: Mapping[str, Mapping[str, tuple[int, int]]]) -> list[str]:
    """Return one sentence on all tasks where runs predict one class only."""
    whole = [task for task, own in constant.items() if all(n == of for n, of in own.values())]
    said = [f"all runs on {in_words(whole)}"] if whole else []
    methods = dict.fromkeys(method for own in constant.values() for method in own)
    some = []
    for method in methods:
        counts = {task: own.get(method, (0, 0)) for task, own in constant.items()}
        on = [f"{x} ({n} of {of})" for x, (n, of) in counts.items() if n and x not in whole]
        some += [f"{method} on {', '.join(on)}"] if on else []
    said += some[:_MOST_NAMED]
    if len(some) > _MOST_NAMED:
        said.append(f"{len(some) - _MOST_NAMED} more methods")
    return [f"Runs that predict one class for all rows: {'; '.join(said)}."] if said else []


def _rows(results: Results, task: str, split: str) -> int:
    """Return the number of predictions of all runs of a task on a split."""
    own = (run["manifest"]["data"]["rows"] for run in results.runs if run["task"] == task)
    return sum(int(rows.get(split, 0)) for rows in own)


def _read(results: Results, task: str, file: str, classes: list[str]) -> Predictions:
    answers: dict[str, dict[int, tuple[np.ndarray, np.ndarray]]]
    answers = {str(method.name): {} for method in results.suite.methods()}
    for run in results.runs:
        path = Path(run["folder"]) / "predictions" / file
        if run["task"] == task and path.is_file():
            read = _read_run(path, classes)
            if read is not None:
                answers[run["method"]][run["seed"]] = read
    return {name: runs for name, runs in answers.items() if runs}


def _read_run(path: Path, classes: list[str]) -> tuple[np.ndarray, np.ndarray] | None:
    """Return labels and probabilities; None if the file has no labels."""
    columns = [f"probability_{name}" for name in classes]
    try:
        table = pd.read_csv(
            path,
            sep="\t",
            dtype={"label": str} | dict.fromkeys(columns, float),
            usecols=lambda name: name == "label" or name in columns,
            keep_default_na=False,
            na_values={name: ["nan"] for name in columns},
            quoting=3,
        )
    except (OSError, ValueError) as error:
        raise SuiteError(
            f"{path}: must have one row per prediction: {str(error).splitlines()[0]:.100}"
        ) from error
    if "label" not in table:
        return None
    missing = [name for name in columns if name not in table]
    labels = pd.Index(classes).get_indexer(pd.Index(table["label"]))
    if missing or (labels < 0).any():
        must = f"have a column {missing[0]!r}" if missing else f"have labels {', '.join(classes)}"
        raise SuiteError(f"{path}: must {must:.160}")
    return labels.astype(np.intp), table[columns].to_numpy(dtype=float)
