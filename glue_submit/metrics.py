"""GLUE metrics and the GLUE average."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeAlias

from glue_submit.tables import as_list, convert_all
from glue_submit.tasks import TASKS, SubmissionError, Task, get_task, short

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Column: TypeAlias = NDArray[Any]

TWO_CLASSES = "matthews-two-classes"
"""Metric of AX with the labels of SuperGLUE's AX-b."""

NOT_ENTAILMENT = "not_entailment"


def evaluate(task_name: str, predictions: Any, labels: Any) -> dict[str, float]:
    """Compute a task's metrics as GLUE defines them.

    CoLA and AX: Matthews correlation. SST-2, MNLI, QNLI, RTE, WNLI: accuracy. MRPC and QQP: F1 of
    label 1, and accuracy. STS-B: Pearson and Spearman correlation. Where all predictions or all
    labels are equal, Matthews and the correlations are undefined; they count as 0, as does F1
    where label 1 occurs nowhere.

    With labels of two classes (SuperGLUE's AX-b) the metric of AX is `"matthews-two-classes"`:
    neutral and contradiction are `"not_entailment"`.

    Args:
        task_name: One of the names of `TASKS`.
        predictions: Label words, or for STS-B numbers; a sequence or array of shape `(n,)`. Labels
            0 and 1 may be integers.
        labels: The true labels, in the same form.

    Returns:
        Value of each metric by name, as a fraction: 0 to 1, or -1 to 1 for correlations.

    Raises:
        SubmissionError: If the task or a label is unknown, a score is not finite, there are no
            rows, or lengths differ.

    Example:
        >>> from glue_submit import evaluate
        >>> evaluate("MRPC", [1, 1, 0, 0], [1, 0, 0, 0])
        {'f1': 0.6666666666666666, 'accuracy': 0.75}

    References:
        Wang et al. 2019, "GLUE: A Multi-Task Benchmark and Analysis Platform for Natural Language
        Understanding" (ICLR).
    """
    task = get_task(task_name)
    given = _column(task, predictions, "predictions")
    try:
        if task.name == "AX" and NOT_ENTAILMENT in as_list(labels, "AX labels"):
            two = [word if word == "entailment" else NOT_ENTAILMENT for word in given.tolist()]
            true = convert_all(labels, "AX labels", TASKS["RTE"].parse)  # has the same classes
            return {TWO_CLASSES: compute(["matthews"], two, true)["matthews"]}
        return compute(task.metrics, given, _column(task, labels, "labels"))
    except SubmissionError as error:
        raise SubmissionError(f"{task.name}: {error}") from None


def compute(metrics: Sequence[str], predictions: Any, labels: Any) -> dict[str, float]:
    """Compute metrics of any task, defined as in GLUE.

    Args:
        metrics: `"matthews"`, `"accuracy"`, `"f1"` (of label 1), `"pearson"`, `"spearman"`.
        predictions: Labels (words, integers or booleans), or numbers for the correlations; a
            sequence or array of shape `(n,)`.
        labels: The true labels, in the same form.

    Returns:
        Value of each metric by name, as from `evaluate`.

    Raises:
        SubmissionError: If a metric is unknown, a label is a float, a number is not finite, there
            are no rows, or lengths differ.

    Example:
        >>> from glue_submit import compute
        >>> compute(["accuracy", "matthews"], ["a", "b", "b"], ["a", "b", "a"])
        {'accuracy': 0.6666666666666666, 'matthews': 0.5}
    """
    import numpy as np

    # NumPy would make text of None or NaN in a list of words.
    given, true = (
        np.asarray(values, None if hasattr(values, "dtype") else object)
        for values in (predictions, labels)
    )
    if given.ndim != 1 or true.ndim != 1:
        raise SubmissionError(
            "predictions and labels must have one column each. "
            f"Received: shapes {given.shape} and {true.shape}"
        )
    if len(given) != len(true) or not len(true):
        raise SubmissionError(
            "predictions and labels must have the same length, 1 or more. "
            f"Received: {len(given)} and {len(true)}"
        )
    return {name: _compute(name, given, true) for name in metrics}


def task_score(metrics: Mapping[str, float]) -> float:
    """Average the metrics of a task, as GLUE does before the average over tasks.

    Args:
        metrics: Value of each metric by name, as from `evaluate`.

    Returns:
        The mean.

    Raises:
        SubmissionError: If there are no metrics.

    Example:
        >>> from glue_submit import task_score
        >>> task_score({"f1": 0.5, "accuracy": 0.75})
        0.625
    """
    if not metrics:
        raise SubmissionError(f"metrics must have at least one name. Received: {short(metrics)}")
    return sum(metrics.values()) / len(metrics)


def glue_average(scores: Mapping[str, Mapping[str, float]]) -> float | None:
    """Average over GLUE's nine tasks.

    Two metrics of a task, and MNLI-m and MNLI-mm, are averaged first. AX does not count.

    Args:
        scores: Metrics of each task, by task name.

    Returns:
        The mean, in the unit of the metrics; `None` if one of the nine tasks is missing.

    Raises:
        SubmissionError: If a task is unknown.

    Example:
        >>> from glue_submit import TASKS, glue_average
        >>> glue_average({name: {"accuracy": 0.5} for name in TASKS})
        0.5
        >>> glue_average({"CoLA": {"matthews": 0.5}}) is None
        True
    """
    for name in scores:
        get_task(name)
    averaged = [task for task in TASKS.values() if task.name != "AX"]
    if any(task.name not in scores for task in averaged):
        return None
    groups: dict[str, list[float]] = {}
    for task in averaged:
        groups.setdefault(task.trained_on, []).append(task_score(scores[task.name]))
    return sum(sum(group) / len(group) for group in groups.values()) / len(groups)


def _column(task: Task, values: Any, what: str) -> Column:
    import numpy as np

    parsed = convert_all(values, f"{task.name} {what}", task.parse)
    return np.array(parsed, dtype=np.float64 if task.labels is None else np.str_)


def _compute(name: str, predictions: Column, labels: Column) -> float:
    if name in ("pearson", "spearman"):
        given, true = _numbers(predictions), _numbers(labels)
    elif name in ("matthews", "accuracy", "f1"):
        given, true = _words(name, predictions), _words(name, labels)
    else:
        known = "matthews, accuracy, f1, pearson, spearman"
        raise SubmissionError(f"metric must be one of {known}. Received: {short(name)}")
    if name == "accuracy":
        return float((given == true).mean())
    if name == "f1":
        given, true = given == "1", true == "1"
        total = given.sum() + true.sum()
        return float(2 * (given & true).sum() / total) if total else 0.0
    if any((column == column[0]).all() for column in (given, true)):
        return 0.0
    if name == "matthews":
        from sklearn.metrics import matthews_corrcoef

        return float(matthews_corrcoef(true, given))
    from scipy import stats

    with warnings.catch_warnings():
        # SciPy warns about nearly constant scores; the value is still valid.
        warnings.simplefilter("ignore", stats.NearConstantInputWarning)
        correlate: Any = stats.pearsonr if name == "pearson" else stats.spearmanr
        return float(correlate(given, true).statistic)


def _words(name: str, values: Column) -> Column:
    import numpy as np

    if values.dtype.kind == "U":
        return values
    words = []
    for value in values.tolist():  # "1.0" differs from "1"
        if not isinstance(value, str | bool | Integral | np.bool_):
            raise SubmissionError(
                f"{name}: labels must be words or integers. Received: {short(value)}"
            )
        words.append(str(int(value) if isinstance(value, bool | np.bool_) else value))
    return np.array(words)


def _numbers(values: Column) -> Column:
    import numpy as np

    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise SubmissionError(f"values must be numbers: {error}") from None
    if not np.isfinite(numbers).all():
        first = float(numbers[~np.isfinite(numbers)][0])
        raise SubmissionError(f"values must be finite numbers. Received: {short(first)}")
    return numbers
