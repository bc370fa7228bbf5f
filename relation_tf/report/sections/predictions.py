"""Section with the predictions on scored rows, compared with the labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from relation_tf.registry import register_section
from relation_tf.report.blocks import Block, Figure, Folded, Paragraph, Section, Span, file_links
from relation_tf.report.context import ReportContext
from relation_tf.report.pictures.calibration import calibration, calibration_table
from relation_tf.report.pictures.drawing import Picture, Style
from relation_tf.report.pictures.predictions import (
    MOST_CLASSES,
    Answers,
    auc_table,
    confusion_matrices,
    confusion_table,
    roc_curves,
)
from relation_tf.report.predicted_rows import ReadRows
from relation_tf.words import listed

_MOST_MATRICES = 6  # methods; more matrices would fill the page


class Predicted(NamedTuple):
    """Evaluation of the predictions of a suite's runs.

    Attributes:
        tables: `auc`, `calibration` and `confusion`, each with a column `task`.
        pictures: ROC curves, calibration and confusion matrices of each task.
        notes: Figures that are left out, with the reason.
    """

    tables: dict[str, pd.DataFrame]
    pictures: list[Picture]
    notes: list[str]


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
            "Means over seeds. ROC: macro is the mean of each class against the rest; micro pools "
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


def predicted(rows: ReadRows, look: dict[str, Style]) -> Predicted:
    """Return tables and figures of the tasks with classes."""
    tables: dict[str, list[pd.DataFrame]] = {"auc": [], "calibration": [], "confusion": []}
    pictures: list[Picture | None] = []
    notes = [
        f"{name}: no figures, because it has {count:,} predictions."
        for name, count in rows.too_many.items()
    ]
    classified = [own for own in rows.sets if own.classes]
    for own in classified:
        answers = Answers(own.name, own.classes, own.runs)
        if lacking := rows.unread.get(own.name):
            notes.append(f"{own.name}: no predictions of {listed(lacking)}.")
        for kind, table in (
            ("auc", auc_table(answers)),
            ("calibration", calibration_table(answers)),
            ("confusion", confusion_table(answers)),
        ):
            tables[kind].append(table.assign(task=own.name)[["task", *table.columns]])
        pictures.append(roc_curves(answers, look))
        pictures.append(calibration(answers, look))
        if len(own.classes) <= MOST_CLASSES and len(own.runs) <= _MOST_MATRICES:
            pictures.append(confusion_matrices(answers))
        else:
            notes.append(f"{own.name}: no confusion matrices, see confusion.csv.")
    return Predicted(
        {kind: pd.concat(parts, ignore_index=True) for kind, parts in tables.items() if parts},
        [picture for picture in pictures if picture is not None],
        notes,
    )
