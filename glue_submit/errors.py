"""The one exception that this package raises for bad input."""

from __future__ import annotations


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
