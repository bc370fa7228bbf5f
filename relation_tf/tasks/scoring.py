"""How well a task is done."""

from __future__ import annotations

from typing import Any

from glue_submit import compute
from relation_tf.errors import DataError
from relation_tf.tasks.task import Task


def score(task: Task, name: str, predictions: Any, gold: Any) -> dict[str, float]:
    """Compute a task's metrics for one of its scored splits.

    Args:
        task: The task.
        name: Which of `task.scored`.
        predictions: Label words, or scores of a regression, of shape `(rows,)`.
        gold: The true ones, likewise.

    Returns:
        Each of `task.metrics`, as a fraction.

    Raises:
        DataError: For a name that the task does not score.
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
    return compute(task.metrics, predictions, gold)
