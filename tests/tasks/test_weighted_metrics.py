"""Metrics of weighted rows equal the metrics of repeated rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relation_tf.registry import METRICS

WEIGHTED = ["accuracy", "f1", "matthews", "pearson", "spearman"]


def repeated(metric, predictions, labels, weights):
    """Compute the metric for each run and weighting from copies of the rows."""
    found = np.empty((len(predictions), len(weights)))
    for i, run in enumerate(predictions):
        for j, counts in enumerate(weights.astype(int)):
            rows = np.repeat(np.arange(labels.size), counts)
            found[i, j] = METRICS[metric].function(run[rows], labels[rows])
    return found


@pytest.mark.parametrize("metric", WEIGHTED)
@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), kinds=st.integers(1, 3), rows=st.integers(2, 12))
def test_weights_are_copies_of_rows(metric, seed, kinds, rows):
    rng = np.random.default_rng(seed)
    labels, predictions = rng.integers(kinds, size=rows), rng.integers(kinds, size=(2, rows))
    if METRICS[metric].target == "scores":
        labels, predictions = labels / 3, predictions * 1.7
    else:
        labels, predictions = labels.astype(str), predictions.astype(str)
    weights = rng.multinomial(rows, np.full(rows, 1 / rows), size=3).astype(float)
    found = METRICS[metric].weighted(predictions, labels, weights)
    expected = repeated(metric, predictions, labels, weights)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_classes_are_words():
    given, true = (
        np.array([["good", "bad", "none", "bad"]]),
        np.array(["good", "bad", "bad", "none"]),
    )
    weights = np.array([[1.0, 2.0, 3.0, 0.0]])
    for metric in ("accuracy", "matthews"):
        found = METRICS[metric].weighted(given, true, weights)
        np.testing.assert_allclose(found, repeated(metric, given, true, weights))
