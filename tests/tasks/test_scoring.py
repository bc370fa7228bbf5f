from __future__ import annotations

import numpy as np
import pytest

from glue_submit import evaluate
from relation_tf.errors import DataError
from relation_tf.tasks import find_task, score


@pytest.mark.parametrize(
    ("task", "name", "predictions", "gold"),
    [
        ("CoLA", "CoLA", ["1", "0", "0", "1"], ["1", "0", "1", "1"]),
        ("MRPC", "MRPC", ["1", "0", "0", "1"], ["1", "0", "1", "1"]),
        ("MNLI", "MNLI-mm", ["neutral", "entailment"], ["neutral", "neutral"]),
        ("STS-B", "STS-B", np.array([1.0, 2.0, 4.0], np.float32), [0.5, 3.0, 2.5]),
    ],
)
def test_of_glue_as_the_leaderboard_does(task, name, predictions, gold):
    scores = score(find_task(task), name, np.array(predictions), np.array(gold))
    assert scores == evaluate(name, predictions, gold)
    assert tuple(scores) == find_task(task).metrics


def test_of_other_tasks():
    assert score(find_task("MR"), "MR", ["1", "1", "0"], ["1", "0", "0"]) == {
        "accuracy": pytest.approx(2 / 3)
    }


def test_a_split_that_is_not_scored_is_refused():
    with pytest.raises(DataError, match=r"scored as MNLI-m or MNLI-mm\. Received: 'AX'"):
        score(find_task("MNLI"), "AX", ["neutral"], ["neutral"])
