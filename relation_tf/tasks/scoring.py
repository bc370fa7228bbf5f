"""Scores of a task's predictions."""

from __future__ import annotations

from typing import Any

import numpy as np

from relation_tf.errors import DataError
from relation_tf.registry import METRICS
from relation_tf.tasks.task import Task


def score(task: Task, name: str, predictions: Any, labels: Any) -> dict[str, float]:
    """Compute a task's metrics for one of its scored splits.

    Args:
        task: The task.
        name: A name in `task.scored`.
        predictions: Label words, or scores of a regression, of shape `(rows,)`.
        labels: The true ones, likewise.

    Returns:
        The value of each of `task.metrics`, in the metric's own unit.

    Raises:
        DataError: For a name that the task does not score, and a metric that only the trained
            network computes.
        SubmissionError: For no rows, lengths that differ, or scores that are not finite.

    Example:
        >>> from relation_tf.tasks import find_task
        >>> score(find_task("MR"), "MR", ["1", "0"], ["1", "1"])
        {'accuracy': 0.5}
    """
    if name not in task.scored:
        raise DataError(
            f"task {task.name} is scored as {' or '.join(task.scored)}. Received: {name!r}"
        )
    given, true = np.asarray(predictions), np.asarray(labels)
    scores = {}
    for metric in task.metrics:
        function = METRICS.find(metric).function
        if function is None:
            raise DataError(f"task {task.name}: the trained network computes {metric!r} itself")
        scores[metric] = float(function(given, true))
    return scores
