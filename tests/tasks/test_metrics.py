"""Scores, and metrics of weighted rows, which equal the metrics of repeated rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu import corpus_bleu

from glue_submit import evaluate
from relation_tf.errors import DataError
from relation_tf.registry import METRICS, Metric
from relation_tf.tasks import CustomTask, find_task, score


@pytest.mark.parametrize(
    ("task", "name", "predictions", "labels"),
    [
        ("CoLA", "CoLA", ["1", "0", "0", "1"], ["1", "0", "1", "1"]),
        ("MRPC", "MRPC", ["1", "0", "0", "1"], ["1", "0", "1", "1"]),
        ("MNLI", "MNLI-mm", ["neutral", "entailment"], ["neutral", "neutral"]),
        (
            "MNLI",
            "AX",
            ["neutral", "entailment", "neutral"],
            ["neutral", "entailment", "entailment"],
        ),
        ("STS-B", "STS-B", np.array([1.0, 2.0, 4.0], np.float32), [0.5, 3.0, 2.5]),
    ],
)
def test_glue_scores_equal_the_leaderboards(task, name, predictions, labels):
    scores = score(find_task(task), name, np.array(predictions), np.array(labels))
    assert scores == evaluate(name, predictions, labels)
    assert tuple(scores) == find_task(task).metrics_of(name)


def test_a_registered_metric_scores(monkeypatch):
    def error(predictions, labels):
        return np.mean(predictions != labels)

    metric = Metric(error, "error", higher_is_better=False)
    assert "test-error" not in METRICS
    monkeypatch.setitem(METRICS._entries, "test-error", metric)
    files = {"train": "a.csv", "test": "b.csv"}
    task = CustomTask(
        name="x", inputs=["a"], label="b", labels=["0", "1"], metrics=["test-error"], files=files
    ).task()
    assert score(task, "x", ["1", "1", "0", "0"], ["1", "0", "0", "0"]) == {"test-error": 0.25}


@pytest.mark.parametrize(
    ("task", "name", "message"),
    [
        ("MNLI", "MNLI", r"name must be MNLI-m or MNLI-mm or AX\. Received: 'MNLI'"),
        ("dates", "dates", "metric 'exact_match' needs the trained network"),
    ],
)
def test_errors_of_scoring(task, name, message):
    with pytest.raises(DataError, match=message):
        score(find_task(task), name, ["neutral"], ["neutral"])


@pytest.mark.parametrize(
    ("texts", "references"),
    [
        (["1989-03-03", "2012-03-05"], ["1989-03-03", "2012-03-03"]),
        (["1989-03", "2012-03-05-05"], ["1989-03-03", "2012-03-03"]),
        (["abcdef", "ab"], ["abcdeg", "ac"]),
        (["abcdef", ""], ["abcdefgh", "xyz"]),
        (["abcde"], ["abcde"]),
        (["ab", ""], ["xyz", "u"]),
    ],
)
def test_bleu_equals_sacrebleu(texts, references):
    own = METRICS["bleu"].function(np.array(texts, object), np.array(references, object))
    assert own == corpus_bleu(texts, [references], tokenize="char").score / 100


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
