"""Files of a submission: names, label words, row counts, metrics."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from types import MappingProxyType
from typing import Any

SCORE_RANGE = (0.0, 5.0)

NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
"""Like `float()`, but without NaN, infinities, underscores, blanks and non-ASCII digits."""


class SubmissionError(ValueError):
    """Predictions, labels or an argument that cannot be used; the message is one line.

    Example:
        >>> from glue_submit import SubmissionError, get_task
        >>> try:
        ...     get_task("MNLI")
        ... except SubmissionError as error:
        ...     print(str(error).rpartition(". ")[2])
        Received: 'MNLI'
    """


def short(value: object) -> str:
    """Return `value` for a message: quoted, on one line, shortened if long."""
    shown = repr(value).replace("\n", " ")
    return shown if len(shown) <= 80 else shown[:77] + "..."


@dataclass(frozen=True, slots=True)
class Task:
    """One file of a GLUE submission.

    Attributes:
        name: Name on the leaderboard, such as `"MNLI-mm"`.
        labels: Allowed label words; `None` for the scores of STS-B.
        test_rows: Number of rows of the official test set.
        metrics: Names of the metrics, in the order of the leaderboard.
        majority: Most frequent label of the official training set (mean score for STS-B), as
            written in the file.
        trained_on: Name of the training set: that of the task, or MNLI for MNLI-m, MNLI-mm and AX.

    Example:
        >>> from glue_submit import TASKS
        >>> TASKS["RTE"].file, TASKS["RTE"].labels, TASKS["RTE"].test_rows
        ('RTE.tsv', ('entailment', 'not_entailment'), 3000)
    """

    name: str
    labels: tuple[str, ...] | None
    test_rows: int
    metrics: tuple[str, ...]
    majority: str
    trained_on: str

    @property
    def file(self) -> str:
        """Name of the file in the archive."""
        return f"{self.name}.tsv"

    def parse(self, prediction: Any) -> str | float:
        """Read one prediction or label.

        Args:
            prediction: A label word; for tasks with the labels 0 and 1 also an integer or a
                boolean; for STS-B a number or its text. It can be a NumPy scalar.

        Returns:
            The label word, or for STS-B a finite float, which can be outside [0, 5].

        Raises:
            SubmissionError: If the prediction is something else.

        Example:
            >>> from glue_submit import TASKS
            >>> TASKS["CoLA"].parse(1), TASKS["STS-B"].parse("4.5")
            ('1', 4.5)
        """
        value = prediction.item() if getattr(prediction, "ndim", None) == 0 else prediction
        if self.labels is None:
            text = value if isinstance(value, str) else repr(value)
            if NUMBER.fullmatch(text) and math.isfinite(score := float(text)):
                return score
            raise SubmissionError(f"expected a number in [0, 5], found {short(value)}")
        # Integers are labels only if the label is a digit, because libraries order label words
        # differently.
        word = str(int(value)) if isinstance(value, int) else value
        if isinstance(word, str) and word in self.labels:
            return word
        raise SubmissionError(f"expected {' or '.join(self.labels)}, found {short(value)}")

    def spell(self, prediction: Any) -> str:
        """Write one prediction as in the submission file.

        Args:
            prediction: As for `parse`; for STS-B in [0, 5].

        Returns:
            The label word, or for STS-B three decimals.

        Raises:
            SubmissionError: If it is no prediction of this task, or is out of range.

        Example:
            >>> from glue_submit import TASKS
            >>> TASKS["STS-B"].spell(3.14159)
            '3.142'
        """
        value = self.parse(prediction)
        if isinstance(value, str):
            return value
        low, high = SCORE_RANGE
        if not low <= value <= high:
            raise SubmissionError(f"expected a number in [0, 5], found {short(value)}")
        return f"{value + 0.0:.3f}"  # -0.0 + 0.0 is 0.0, without a sign


_DIGITS = ("0", "1")
_NLI = ("entailment", "neutral", "contradiction")
_TWO_WAY = ("entailment", "not_entailment")
_ACCURACY = ("accuracy",)
_MATTHEWS = ("matthews",)
_F1 = ("f1", "accuracy")
_CORRELATION = ("pearson", "spearman")


TASKS: Mapping[str, Task] = MappingProxyType(
    {
        task.name: task
        for task in (
            Task("CoLA", _DIGITS, 1063, _MATTHEWS, "1", "CoLA"),
            Task("SST-2", _DIGITS, 1821, _ACCURACY, "1", "SST-2"),
            Task("MRPC", _DIGITS, 1725, _F1, "1", "MRPC"),
            Task("STS-B", None, 1379, _CORRELATION, "2.701", "STS-B"),
            Task("QQP", _DIGITS, 390965, _F1, "0", "QQP"),
            # 130,903 of 392,702 training rows are contradictions.
            Task("MNLI-m", _NLI, 9796, _ACCURACY, "contradiction", "MNLI"),
            Task("MNLI-mm", _NLI, 9847, _ACCURACY, "contradiction", "MNLI"),
            # QNLI is balanced; not_entailment is the more frequent in its dev set.
            Task("QNLI", _TWO_WAY, 5463, _ACCURACY, "not_entailment", "QNLI"),
            Task("RTE", _TWO_WAY, 3000, _ACCURACY, "entailment", "RTE"),
            Task("WNLI", _DIGITS, 146, _ACCURACY, "0", "WNLI"),
            Task("AX", _NLI, 1104, _MATTHEWS, "contradiction", "MNLI"),
        )
    }
)
"""The eleven tasks by name, in the order of the leaderboard."""


def get_task(name: str) -> Task:
    """Return a task by its name.

    Args:
        name: One of the names of `TASKS`.

    Returns:
        The task.

    Raises:
        SubmissionError: If there is no such task.

    Example:
        >>> from glue_submit import get_task
        >>> get_task("MRPC").metrics
        ('f1', 'accuracy')
    """
    if name not in TASKS:
        raise SubmissionError(f"task must be one of {', '.join(TASKS)}. Received: {short(name)}")
    return TASKS[name]


def row_table(rows: Mapping[str, int] | None) -> dict[str, int]:
    """Return the row count of each task: that of `rows`, or the official one.

    Args:
        rows: Counts by task name, 1 or more, instead of the official ones.

    Returns:
        Row count of each of the eleven tasks.

    Raises:
        SubmissionError: If a task is unknown or a count is below 1.

    Example:
        >>> from glue_submit.tasks import row_table
        >>> row_table({"QQP": 10})["QQP"], row_table(None)["WNLI"]
        (10, 146)
    """
    table = {task.name: task.test_rows for task in TASKS.values()}
    for name, count in (rows or {}).items():
        get_task(name)
        if not isinstance(count, Integral) or count < 1:
            raise SubmissionError(f"rows[{name!r}]: must be 1 or more. Received: {short(count)}")
        table[name] = count
    return table
