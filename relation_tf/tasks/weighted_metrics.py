"""The metrics of GLUE for weighted rows, for many runs and many weightings at once.

A weight is the number of times that a row occurs, as in a bootstrap sample. Each function takes
predictions (runs, rows), labels (rows,) and weights (draws, rows), and returns (runs, draws). As in
`glue_submit.compute`, an undefined metric counts as 0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Values = NDArray[np.generic]


def accuracy(predictions: Values, labels: Values, weights: FloatArray) -> FloatArray:
    """Return the share of right predictions."""
    return ((predictions == labels) @ weights.T) / weights.sum(axis=1)


def f1(predictions: Values, labels: Values, weights: FloatArray) -> FloatArray:
    """Return F1 of label 1, `2 TP / (predicted + true)`."""
    given, true = predictions.astype(str) == "1", labels.astype(str) == "1"
    hits = (given & true) @ weights.T
    return _divide(2 * hits, given @ weights.T + true @ weights.T)


def matthews(predictions: Values, labels: Values, weights: FloatArray) -> FloatArray:
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


def pearson(predictions: Values, labels: Values, weights: FloatArray) -> FloatArray:
    """Return Pearson's correlation."""
    given, true = predictions.astype(np.float64), labels.astype(np.float64)
    given, true = given - given.mean(axis=1, keepdims=True), true - true.mean()
    rows = weights.sum(axis=1)
    x, y = given @ weights.T / rows, true @ weights.T / rows  # weighted means
    covariance = (given * true) @ weights.T / rows - x * y
    return _divide(
        covariance,
        np.sqrt(_positive(given**2 @ weights.T / rows - x**2, given))
        * np.sqrt(_positive(true**2 @ weights.T / rows - y**2, true[None])),
    )


def spearman(predictions: Values, labels: Values, weights: FloatArray) -> FloatArray:
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
    x = x - (weights * x).sum(axis=1, keepdims=True) / rows
    y = y - (weights * y).sum(axis=1, keepdims=True) / rows
    squares = (weights * x**2).sum(axis=1) * (weights * y**2).sum(axis=1)
    return _divide((weights * x * y).sum(axis=1), np.sqrt(squares))


def _positive(variance: FloatArray, values: FloatArray) -> FloatArray:
    """Set variances to 0 that are rounding errors of equal values."""
    least = 1e-14 * (values**2).max(axis=1, keepdims=True)
    return np.where(variance > least, variance, 0.0)


def _divide(top: FloatArray, bottom: FloatArray) -> FloatArray:
    return np.divide(top, bottom, out=np.zeros(np.broadcast(top, bottom).shape), where=bottom > 0)
