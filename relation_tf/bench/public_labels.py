"""Scores on test sets with public labels, from the predictions of a finished training.

Only this module reads these labels, after training and prediction: they cannot change weights,
stopping or dev scores. Does not import Keras.
"""

from __future__ import annotations

from pathlib import Path

from glue_submit import SubmissionError, score
from glue_submit.scoring import find_labels
from relation_tf.bench.run_folder import prediction_file
from relation_tf.tasks.official import is_labelled
from relation_tf.tasks.sources import TaskSource


def score_tests(
    predictions: Path, source: TaskSource
) -> tuple[dict[str, dict[str, float]], dict[str, str]]:
    """Score the test predictions of a run on GLUE tasks.

    Args:
        predictions: Folder with the predictions of the run.
        source: Source of its task or group.

    Returns:
        The metrics by leaderboard name, without those without a labelled file; and for each name
        that cannot be scored with its labels the reason, such as another number of rows.
    """
    scores: dict[str, dict[str, float]] = {}
    faults: dict[str, str] = {}
    for own in source.members or (source,):
        for name, split in own.task.answered.items():
            file = predictions / prediction_file(name, split)
            there = split in own.files and own.kind == "files" and file.exists()
            if not there or (name in own.task.diagnostics and is_labelled(own, name)):
                continue
            labels = own.files[split].parents[1]
            if find_labels(labels, name, "test")[0].is_file():
                try:
                    scores[name] = {**score({name: file}, labels, split="test").tasks[name]}
                except SubmissionError as error:
                    faults[name] = str(error)
    return scores, faults
