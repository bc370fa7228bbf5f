"""Section with the predictions on scored rows, compared with the labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from relation_tf.registry import register_section
from relation_tf.report.blocks import Block, Section, blocks
from relation_tf.report.data import ReportData
from relation_tf.report.pictures.calibration import calibration, calibration_table
from relation_tf.report.pictures.drawing import Picture
from relation_tf.report.pictures.predictions import (
    MOST_CLASSES,
    Answers,
    auc_table,
    confusion_matrices,
    confusion_table,
    roc_curves,
)
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

    def blocks(self, data: ReportData) -> Sequence[Block]:
        """Return the figures of each task."""
        found = predicted(data)
        if not found.tables:
            return []
        pictures: dict[str, list[Picture]] = {}
        for picture in found.pictures:
            pictures.setdefault(picture.name.partition("-")[2], []).append(picture)
        return blocks(
            "predictions.jinja", pictures=pictures, notes=found.notes, files=[*found.tables]
        )

    def tables(self, data: ReportData) -> Mapping[str, pd.DataFrame]:
        """Return the data of the figures."""
        return predicted(data).tables


def predicted(data: ReportData) -> Predicted:
    """Return tables and figures of the tasks with classes."""
    rows, look = data.predictions, data.styles
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
