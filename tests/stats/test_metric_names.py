"""Directions that the names of metrics and tasks give."""

from __future__ import annotations

import pytest

from relation_tf.registry import METRICS, TASKS
from relation_tf.stats.metric_names import read_name

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


@pytest.mark.parametrize("name", LOWER)
def test_lower_is_better(name):
    assert read_name(name)[0] is False


@pytest.mark.parametrize("name", HIGHER)
def test_higher_is_better(name):
    assert read_name(name)[0] is True


@pytest.mark.parametrize("name", UNKNOWN)
def test_no_metric(name):
    assert read_name(name) == (None, "")


@pytest.mark.parametrize("name", EITHER)
def test_a_metric_of_either_direction_has_a_word(name):
    higher, word = read_name(name)
    assert higher is None
    assert word


def test_higher_is_better_on_all_built_in_tasks():
    names = [name for each in TASKS.values() for name in (each.task.name, *each.task.scored)]
    assert [name for name in names if read_name(name)[0] is False] == []
    for name in METRICS:
        assert read_name(name)[0] == METRICS[name].higher_is_better
