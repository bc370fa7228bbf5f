"""Built-in metrics and scores. Metrics follow the definitions of the GLUE leaderboard.

Metrics of weighted rows are computed for many runs and many weightings at once. A weight is the
number of times that a row occurs, as in a bootstrap sample. Each function takes predictions (runs,
rows), labels (rows,) and weights (draws, rows), and returns (runs, draws). As in
`glue_submit.compute`, an undefined metric counts as 0.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glue_submit import compute
from relation_tf.errors import DataError, join_names, require_package
from relation_tf.registry import METRICS, Metric
from relation_tf.tasks.task import Task

FloatArray = NDArray[np.float64]
Values = NDArray[np.generic]


def _as_glue(name: str) -> Callable[[Any, Any], float]:
    return lambda predictions, labels: compute([name], predictions, labels)[name]


def bleu(predictions: Any, labels: Any) -> float:
    """Compute corpus BLEU over characters with sacrebleu, as a fraction.

    Sequence tasks are written character by character, and most of their texts have less than the
    four words that BLEU over words needs. The signature is
    `nrefs:1|case:mixed|eff:no|tok:char|smooth:exp|version:` and the version of sacrebleu.

    Args:
        predictions: Texts, `(rows,)`.
        labels: The reference of each text, `(rows,)`.

    Raises:
        MissingPackageError: If sacrebleu is not installed.

    Example:
        >>> round(bleu(["1989-03-03", "2012-03-05"], ["1989-03-03", "2012-03-03"]), 4)
        0.9401

    References:
        - Papineni et al. 2002, "BLEU: a Method for Automatic Evaluation of Machine Translation".
        - Post 2018, "A Call for Clarity in Reporting BLEU Scores" (WMT).
    """
    check_installed(["bleu"])
    from sacrebleu.metrics import BLEU

    metric: Any = BLEU(tokenize="char")
    return float(metric.corpus_score([*predictions], [[*labels]]).score / 100)


def check_installed(metrics: Container[str]) -> None:
    """Check, before a run, that the package of each metric is installed.

    Args:
        metrics: Names of metrics.

    Raises:
        MissingPackageError: If one is not.

    Example:
        >>> check_installed(["accuracy"])
    """
    if "bleu" in metrics:
        require_package("BLEU", "sacrebleu", "bleu")


def _weighted_accuracy(predictions: Values, labels: Values, weights: FloatArray) -> FloatArray:
    """Return the share of right predictions."""
    return ((predictions == labels) @ weights.T) / weights.sum(axis=1)


def _weighted_f1(predictions: Values, labels: Values, weights: FloatArray) -> FloatArray:
    """Return F1 of label 1, `2 TP / (predicted + true)`."""
    given, true = predictions.astype(str) == "1", labels.astype(str) == "1"
    hits = (given & true) @ weights.T
    return _divide(2 * hits, given @ weights.T + true @ weights.T)


def _weighted_matthews(predictions: Values, labels: Values, weights: FloatArray) -> FloatArray:
    """Return the Matthews correlation of two or more classes.

    With c right of s rows, p_k predictions and t_k labels of class k:
    `(c s - sum p_k t_k) / sqrt((s^2 - sum p_k^2) (s^2 - sum t_k^2))` (Gorodkin 2004).
    """
    rows = weights.sum(axis=1)
    covariance = ((predictions == labels) @ weights.T) * rows
    given, true = (np.broadcast_to(rows**2, covariance.shape).copy() for _ in range(2))
    for label in np.union1d(predictions, labels):
        predicted, labelled = (predictions == label) @ weights.T, (labels == label) @ weights.T
        covariance -= predicted * labelled
        given -= predicted**2
        true -= labelled**2
    return _divide(covariance, np.sqrt(given * true))


def _weighted_pearson(predictions: Values, labels: Values, weights: FloatArray) -> FloatArray:
    """Return Pearson's correlation."""
    true = labels.astype(np.float64)
    return np.array([_correlate(run, true, weights) for run in predictions.astype(np.float64)])


def _weighted_spearman(predictions: Values, labels: Values, weights: FloatArray) -> FloatArray:
    """Return Spearman's correlation: Pearson's of the ranks of all copies of the rows."""
    true = _ranks(labels, weights)
    return np.array([_correlate(_ranks(run, weights), true, weights) for run in predictions])


def _ranks(values: Values, weights: FloatArray) -> FloatArray:
    """Return twice the mean rank of the copies of each row, up to a constant; (draws, rows)."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    order = np.argsort(place, kind="stable")
    below = np.pad(np.cumsum(weights[:, order], axis=1), ((0, 0), (1, 0)))
    return (below[:, ends - counts] + below[:, ends])[:, place]


def _correlate(x: FloatArray, y: FloatArray, weights: FloatArray) -> FloatArray:
    rows = weights.sum(axis=1, keepdims=True)
    deviations = []
    for values in (x, y):
        deviation = values - (weights * values).sum(axis=1, keepdims=True) / rows
        rounding = np.abs(deviation) < 1e-12 * np.abs(values).max()  # of equal values
        deviations.append(np.where(rounding, 0.0, deviation))
    x, y = deviations
    squares = (weights * x**2).sum(axis=1) * (weights * y**2).sum(axis=1)
    return _divide((weights * x * y).sum(axis=1), np.sqrt(squares))


def _divide(top: FloatArray, bottom: FloatArray) -> FloatArray:
    return np.divide(top, bottom, out=np.zeros(np.broadcast(top, bottom).shape), where=bottom > 0)


_BUILTIN = {
    "accuracy": Metric(_as_glue("accuracy"), "acc.", weighted=_weighted_accuracy),
    "matthews": Metric(_as_glue("matthews"), "Matthews", low=-1.0, weighted=_weighted_matthews),
    "f1": Metric(_as_glue("f1"), "F1", positive="1", weighted=_weighted_f1),
    "pearson": Metric(
        _as_glue("pearson"), "Pearson", low=-1.0, target="scores", weighted=_weighted_pearson
    ),
    "spearman": Metric(
        _as_glue("spearman"), "Spearman", low=-1.0, target="scores", weighted=_weighted_spearman
    ),
    "exact_match": Metric(None, "exact match", target="sequences"),
    "token_accuracy": Metric(_as_glue("accuracy"), "token acc.", target="tokens"),
    "bleu": Metric(bleu, "BLEU", target="sequences"),
    "tokens_per_second": Metric(None, "tokens/s", high=None, points=1.0),
}

for _name, _metric in _BUILTIN.items():
    METRICS.add(_name, _metric, __name__)


def find_metric(name: str) -> Metric:
    """Return a metric by name.

    If its plugin is not imported, the metric is treated as a fraction where higher is better.

    Args:
        name: Name in suites and files.
    """
    return METRICS.get(name) or Metric(None, name)


def averaged(metrics: Sequence[str]) -> Sequence[str]:
    """Return the metrics of a task that are averaged to its score.

    Returns all metrics, or only the first if they differ in unit or direction.

    Args:
        metrics: Metrics of a task.

    Example:
        >>> averaged(["f1", "accuracy"]), averaged(["accuracy", "tokens_per_second"])
        (['f1', 'accuracy'], ['accuracy'])
    """
    kinds = {(each.points, each.higher_is_better) for each in map(find_metric, metrics)}
    return metrics if len(kinds) < 2 else metrics[:1]


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
    scores = {}
    for metric in task.metrics_of(name):
        function = METRICS.find(metric).function
        if function is None:
            raise DataError(f"task {task.name}: metric {metric!r} needs the trained network")
        scores[metric] = float(function(np.asarray(predictions), np.asarray(labels)))
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
