"""Directions of tasks by name or option, the same in all functions over tasks."""

from __future__ import annotations

import runpy
import tomllib

import numpy as np
import pytest

from relation_tf.registry import METRICS, TASKS
from relation_tf.stats import (
    friedman_nemenyi,
    non_inferiority,
    stratified_steel_dwass,
    wilcoxon_holm,
)
from relation_tf.stats.directions import read_directions, read_name, suggest_direction, unlike_units

PERPLEXITY = "WikiText perplexity"
LOW, HIGH = [30.0, 30.5, 31.0, 31.5, 32.0], [40.0, 40.5, 41.0, 41.5, 42.0]
SAMPLES = {task: {"a": HIGH, "b": LOW} for task in (PERPLEXITY, "validation loss")}
NOTE = "Lower is better"


def test_words_do_not_depend_on_the_order_of_their_kinds(monkeypatch):
    loads = tomllib.loads
    monkeypatch.setattr(tomllib, "loads", lambda text: dict(reversed(loads(text).items())))
    read = runpy.run_path(read_name.__code__.co_filename)["read_name"]
    names = (PERPLEXITY, "error F1", "MR", "negative accuracy", "loss reduction")
    assert [*map(read, names)] == [*map(read_name, names)]


@pytest.mark.parametrize("control", [None, "a"])
def test_a_lower_perplexity_is_better_by_name_with_a_note(control):
    for higher, better in ((None, "b"), (True, "a")):
        found = stratified_steel_dwass(SAMPLES, control, higher_is_better=higher)
        assert found.pairs()["better"].tolist() == [better]
        assert (NOTE in str(found)) == (higher is None)
    assert non_inferiority(SAMPLES, "a", margin=1.0).table.loc["b", "difference"] == 10
    assert non_inferiority(SAMPLES, "a", 1.0, higher_is_better=True).verdict["b"] == "worse"


def test_ranks_and_means_of_tasks_follow_the_name():
    tasks = {f"error on set {n}": {"a": [3.0 + n], "b": [2.0], "c": [1.0]} for n in range(6)}
    assert friedman_nemenyi(tasks).average_ranks.to_dict() == {"a": 3, "b": 2, "c": 1}
    turned = friedman_nemenyi(tasks, higher_is_better={"error on set 0": True})
    assert turned.ranks.loc["error on set 0"].to_dict() == {"a": 1, "b": 2, "c": 3}
    assert turned.ranks.loc["error on set 1"].to_dict() == {"a": 3, "b": 2, "c": 1}
    found = wilcoxon_holm(tasks, "a", alpha=0.1)
    assert found.pairs()["better"].tolist() == ["b", "c"]


def test_a_partial_direction_leaves_the_other_tasks_to_their_names():
    directions, (note,) = read_directions(["MR", "WER", "score"], {"score": False})
    assert directions == {"MR": True, "WER": False, "score": False}
    assert "score (declared), WER" in note
    assert read_directions([None], None) == ({None: True}, ["Higher is better (assumed)"])
    assert read_directions([None], False) == ({None: False}, [])


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"WikiText perplexty": False}, ValueError, "Did you mean 'WikiText perplexity'"),
        ("no", TypeError, "must be True or False. Received: 'no' for 'WikiText perplexity'"),
        ({PERPLEXITY: 1}, TypeError, "must be True or False. Received: 1"),
    ],
)
def test_wrong_directions_are_named(given, error, message):
    with pytest.raises(error, match=message):
        stratified_steel_dwass(SAMPLES, higher_is_better=given)


@pytest.mark.parametrize(
    ("largest", "higher", "unlike"),
    [
        ({"MR": 0.8, "SST": 0.9}, True, False),
        ({"CoLA": 4.0, "SST": 92.0}, True, False),
        ({"MR": 0.8, "SST": 92.0}, True, True),
        ({"CoLA": 0.0, "SST": 92.0}, True, False),
        ({"MR": 0.9, "SST": 1.5}, True, False),
        ({"perplexity": 30.0, "loss": 3.4}, False, True),
        ({"PTB perplexity": 30.0, "WikiText perplexity": 60.0}, False, False),
    ],
)
def test_tasks_of_unlike_units(largest, higher, unlike):
    assert bool(unlike_units(largest, dict.fromkeys(largest, higher))) == unlike
    assert unlike_units({"MR": 0.8, "WER": 0.1}, {"MR": True, "WER": False})


def test_a_mean_of_points_and_perplexity_has_a_note():
    near = np.array([0.80, 0.81, 0.82])
    mixed = {"MR": {"a": near, "b": near + 0.01}, PERPLEXITY: {"a": HIGH, "b": LOW}}
    found = non_inferiority(mixed, "a", margin=0.01)
    alone = non_inferiority({"MR": mixed["MR"], "SST-2": mixed["MR"]}, "a", margin=0.01)
    assert ["units" in str(result) for result in (found, alone)] == [True, False]


@pytest.mark.parametrize(
    ("task", "metrics", "expected"),
    [
        ("PTB perplexity", ["acc"], (True, "column")),
        ("MR", ["acc", "f1"], (True, "column")),
        ("PTB perplexity", ["accuracy", "f1"], (True, "registered")),
        ("MR", [], (True, "assumed")),
    ],
)
def test_a_column_of_metrics_precedes_the_name(task, metrics, expected):
    assert suggest_direction(task, metrics) == expected


LOWER = """
WikiText bits_per_byte|classif.ce|MR err|top1_err|sMAPE|bits per character|bitsPerByte
nats per token|KL divergence|minADE_6|val-loss|loss/mnli|train loss (nats)|time (s)|ms/step|s/it
latency (ms)|latency_p99|inference_time_ms|time per epoch|wall-clock time|memory|peak memory (MiB)
GPU memory|energy (kWh)|GFLOPs per token|params (M)|power (W)|word error rate|error_cifar10
error on set 0|Number of errors|LibriSpeech WER|TIMIT PER|PER|WikiText103PPL|PTB perplexity
mse_forecast|mean_squared_error|FPR@95TPR|false positive rate|accuracy loss|accuracy drop
loss of accuracy|drop in accuracy|accuracy gap|1 - accuracy|1 - cosine similarity
cross-entropy loss|Perplexity (exp of loss)|score (lower is better)|accuracy ↓
reward prediction error|mean rank of methods|errors per second|toxicity detection loss|seconds
hours to 90% acc|seconds per F1 point
epoch (s)|out-of-distribution error|top-1 error|1-shot error|1-step loss|RelL2
equalized odds difference|speed (ms)|model size (MB)|brier_score_loss|lossTrain|log10 MSE|0-1 loss
price per token|minus log likelihood|J/token|bytes/param|translation edit rate|RMSD > 2A (%)
error (length < 512)|WER within 10 minutes|error under 0.1 noise|loss for length < 512
epochs to loss < 0.1|No. of errors|no. errors|no augmentation error|anti-spoofing EER
time to answer (s)|time to failure MAE|negLL|val_negLL|MS MARCO loss|top-1 error ImageNet
error (top-1)|loss/param|collision avoidance error|loss (no dropout)
""".replace("\n", "|").strip("|").split("|")  # fmt: skip

HIGHER = """
accuracy|val_acc|acc@1|top1_acc|balanced accuracy|F1score|f1_macro|R^2|mAP50|signal-to-noise ratio
tokens/s|tokens per second|GB/s|pass@k|accuracy per FLOP|error-free accuracy|error-free rate
perplexity reduction|error detection F1|1-error|1 - WER|1 − error rate|one minus error|neg_log_loss
neg_mean_squared_error|neg_brier_score|negative MSE|-val_loss|relative error reduction
reduction in peak memory|accuracy gain|perplexity improvement|memory savings|accuracy on toxicity
F1 for error detection|recall at 1e-3 FPR|TPR@FPR=1%|accuracy at 10 % error|1-NN accuracy
error (higher is better)|loss ↑|negative F1|inverse perplexity|accuracy after 60 seconds
rank-1 accuracy|DROP F1|GAP F1|HumanEval pass@1|toxicity reduction|Memory-efficient attention acc
R²|RMSD < 2A (%)|RMSD<=2|RMSD ≤ 2 Å|RMSD within 2Å|error under 3 px|PSNR > 30 dB
accuracy (<1B params)|F1 within 60 seconds|accuracy > 1B params|accuracy/param|tokens/$|accuracy/J
model FLOPs utilization|MSE skill score|ELBO (nats)|log-likelihood (nats)|no-loss rate
no failure rate|NegMAE|val_negMAE|F1 (no error bars)|CoNLL03 PER/F1|MS MARCO MRR@10
MAE ViT-B ImageNet top-1|MAE-L top-1|MAE ImageNet top-1 accuracy|wrong answer detection F1
acc/GFLOPs
""".replace("\n", "|").strip("|").split("|")  # fmt: skip

UNKNOWN = """
MR|SST-2|CoLA|ETTh1|long-term memory task|associative memory|time series|DROP|GAP|test_score
long-distance dependencies|96 hours|OpenBookQA|GSM8K|R@1|house price prediction|epochs 3 and 4
MS-TCN|No free lunch
""".replace("\n", "|").strip("|").split("|")  # fmt: skip

EITHER = """
attack success rate|ASR|jailbreak rate|WikiText-103|batch size|standard deviation
""".replace("\n", "|").strip("|").split("|")  # fmt: skip


@pytest.mark.parametrize(
    ("names", "expected"),
    [(LOWER, False), (HIGHER, True), (UNKNOWN, None), (EITHER, None)],
    ids=["lower", "higher", "unknown", "either"],
)
def test_directions_by_names_of_metrics(names, expected):
    read = {name: read_name(name) for name in names}
    assert {name: higher for name, (higher, _) in read.items() if higher != expected} == {}
    if expected is None:  # a metric that is lower is better in some uses has a word
        assert {bool(word) for _, word in read.values()} == {names is EITHER}


def test_higher_is_better_on_all_built_in_tasks():
    names = [name for task in TASKS.values() for name in (task.task.name, *task.task.scored)]
    assert [name for name in names if read_name(name)[0] is False] == []
    assert {name: read_name(name)[0] for name in METRICS} == {
        name: metric.higher_is_better for name, metric in METRICS.items()
    }
