"""Scores of the predictions of a task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from relation_tf.errors import DataError, join_names
from relation_tf.registry import METRICS
from relation_tf.tasks.task import Task


def score(task: Task, name: str, predictions: Any, labels: Any) -> dict[str, float]:
    """Compute the metrics of a task for one of its scored names.

    Args:
        task: The task.
        name: A name in `task.scorable`.
        predictions: Label words, or scores of a regression, of shape `(rows,)`.
        labels: True labels or scores, shape `(rows,)`.

    Returns:
        Value of each metric of this name, in the unit of the metric.

    Raises:
        DataError: If the name is not in `task.scorable`, or a metric needs the trained network.
        SubmissionError: If there are no rows, lengths differ, or scores are not finite.

    Example:
        >>> from relation_tf.tasks import find_task
        >>> score(find_task("MR"), "MR", ["1", "0"], ["1", "1"])
        {'accuracy': 0.5}
    """
    if name not in task.scorable:
        raise DataError(
            f"task {task.name}: name must be {' or '.join(task.scorable)}. Received: {name!r}"
        )
    given, true = np.asarray(predictions), np.asarray(labels)
    scores = {}
    for metric in task.metrics_of(name):
        function = METRICS.find(metric).function
        if function is None:
            raise DataError(f"task {task.name}: metric {metric!r} needs the trained network")
        scores[metric] = float(function(given, true))
    return scores


def no_score(unscored: Mapping[str, str]) -> str:
    """Name further test sets without a score, with the reason for the first.

    Args:
        unscored: The reason for each test set, in order of their lengths.

    Example:
        >>> no_score({"count-2x": "cannot predict 65 tokens", "count-4x": "cannot predict 129"})
        'no score on count-2x, count-4x: cannot predict 65 tokens'
    """
    return f"no score on {join_names([*unscored])}: {next(iter(unscored.values()))}"
