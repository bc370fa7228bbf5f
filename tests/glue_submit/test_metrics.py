"""GLUE's metrics and its average."""

from __future__ import annotations

import numpy as np
import pytest

from glue_submit import SubmissionError, compute, evaluate, glue_average, task_score


@pytest.mark.parametrize(
    ("name", "given_", "labels", "expected"),
    [
        # TP 3, TN 2, FP 1, FN 1: (3*2 - 1*1) / sqrt(4 * 4 * 3 * 3)
        ("CoLA", [1, 1, 1, 0, 0, 0, 1], [1, 1, 1, 1, 0, 0, 0], {"matthews": 5 / 12}),
        # TP 2, FP 1, FN 1: F1 = 2*2 / (2*2 + 1 + 1)
        ("QQP", list("11100"), list("11010"), {"f1": 2 / 3, "accuracy": 3 / 5}),
        # Ranks 1 2 3 4 against 1 2 4 3: rho = 1 - 6 * 2 / (4 * 15)
        ("STS-B", [0.0, 1.0, 2.0, 3.0], list("1254"), {"pearson": 6 / 50**0.5, "spearman": 0.8}),
    ],
)
def test_metrics_by_hand(name, given_, labels, expected):
    scores = evaluate(name, given_, labels)
    assert [*scores] == [*expected]
    assert scores == pytest.approx(expected)


@pytest.mark.parametrize(
    ("name", "given_", "labels", "expected"),
    [
        ("CoLA", [1, 1, 1], [1, 0, 1], {"matthews": 0.0}),
        ("CoLA", [1, 0, 1], [1, 1, 1], {"matthews": 0.0}),
        ("CoLA", [1, 1], [1, 1], {"matthews": 0.0}),
        ("MRPC", [0, 0], [0, 0], {"f1": 0.0, "accuracy": 1.0}),
        ("MRPC", [0, 0], [1, 1], {"f1": 0.0, "accuracy": 0.0}),
        ("STS-B", [2.5, 2.5, 2.5], [1, 2, 3], {"pearson": 0.0, "spearman": 0.0}),
        ("STS-B", [1, 2, 3], [2.5, 2.5, 2.5], {"pearson": 0.0, "spearman": 0.0}),
        ("STS-B", [1], [2], {"pearson": 0.0, "spearman": 0.0}),
    ],
)
@pytest.mark.filterwarnings("error")
def test_where_a_metric_is_undefined_it_is_zero(name, given_, labels, expected):
    assert evaluate(name, given_, labels) == expected


@pytest.mark.parametrize(
    ("name", "given_", "labels", "message"),
    [
        ("CoLA", [1, 2], [1, 0], "CoLA predictions, position 1: expected 0 or 1, found 2"),
        ("RTE", ["entailment"], [1], "RTE labels, position 0: expected entailment or"),
        ("STS-B", [float("nan")], [1.0], "position 0: expected a number"),
        ("CoLA", [1], [1, 0], "Received: 1 and 2"),
        ("CoLA", [1], None, "CoLA labels: must be a sequence or array. Received: None"),
        ("cola", [1], [1], "Received: 'cola'"),
        (None, [1], [1], "task must be one of CoLA, "),
    ],
)
def test_refusals(name, given_, labels, message):
    with pytest.raises(SubmissionError) as caught:
        evaluate(name, given_, labels)
    assert message in str(caught.value)


def test_compute_takes_integer_labels_and_numbers_as_text():
    assert compute(["f1", "accuracy"], [1, 1, 0], np.array([1, 0, 0])) == {
        "f1": pytest.approx(2 / 3), "accuracy": pytest.approx(2 / 3),
    }  # fmt: skip
    booleans = [True, True, False]
    for given_ in (booleans, np.array(booleans), np.array(booleans, object)):
        assert compute(["accuracy", "f1"], given_, [1, 0, 0]) == {
            "accuracy": pytest.approx(2 / 3), "f1": pytest.approx(2 / 3),
        }  # fmt: skip
    assert compute(["f1"], ["1", "2", "x"], ["1", "x", "1"]) == {"f1": pytest.approx(2 / 3)}
    assert compute(["pearson"], ["1", "2"], [2, 4]) == {"pearson": pytest.approx(1.0)}


@pytest.mark.parametrize(
    ("metrics", "given_", "labels", "message"),
    [
        (["recall"], [1], [1], "metric must be one of matthews, accuracy, f1, pearson, spearman. "
         "Received: 'recall'"),
        (["accuracy", "f1"], [1.0, 0.0], [1, 0], "accuracy: labels must be words or integers. "
         "Received: 1.0"),
        (["matthews"], [1, 0], np.array([1.5, 0.0], object), "Received: 1.5"),
        (["f1"], np.array([b"1", b"0"]), ["1", "0"], "f1: labels must be words or integers"),
        (["accuracy"], ["a", float("nan")], ["a", "b"], "Received: nan"),
        (["accuracy"], [[1, 0]], [[1, 0]], "must have one column each"),
        (["pearson"], [1.0, float("nan")], [1.0, 2.0], "must be finite numbers. Received: nan"),
        (["pearson"], ["good", "bad"], [1.0, 2.0], "values must be numbers: "),
    ],
)  # fmt: skip
def test_compute_refuses(metrics, given_, labels, message):
    with pytest.raises(SubmissionError) as caught:
        compute(metrics, given_, labels)
    assert message in str(caught.value)


def test_glue_average_reproduces_published_rows():
    # BERT-large of Devlin et al. 2019 on the leaderboard: 80.5 with WNLI at 65.1.
    scores = {
        "CoLA": {"matthews": 60.5},
        "SST-2": {"accuracy": 94.9},
        "MRPC": {"f1": 89.3, "accuracy": 85.4},
        "STS-B": {"pearson": 87.6, "spearman": 86.5},
        "QQP": {"f1": 72.1, "accuracy": 89.3},
        "MNLI-m": {"accuracy": 86.7},
        "MNLI-mm": {"accuracy": 85.9},
        "QNLI": {"accuracy": 92.7},
        "RTE": {"accuracy": 70.1},
        "WNLI": {"accuracy": 65.1},
        "AX": {"matthews": 39.6},
    }
    assert glue_average(scores) == pytest.approx(80.5, abs=0.05)
    without_ax = {name: metrics for name, metrics in scores.items() if name != "AX"}
    assert glue_average(without_ax) == glue_average(scores)
    for name in without_ax:
        assert glue_average({key: scores[key] for key in scores if key != name}) is None


def test_invalid_input_of_averages():
    with pytest.raises(SubmissionError, match="Received: 'MNLI'"):
        glue_average({"MNLI": {"accuracy": 1.0}})
    with pytest.raises(SubmissionError, match="at least one name"):
        task_score({})


def test_nearly_equal_numbers_keep_their_ranks():
    close = [1.2697867137638703, 1.2697867137638705, 2.4125]
    assert evaluate("STS-B", close, [1, 2, 3])["spearman"] == pytest.approx(1.0)
