"""Directions that the names of metrics and tasks give."""

from __future__ import annotations

import pytest

from relation_tf.registry import METRICS, TASKS
from relation_tf.stats.metric_names import read_name

LOWER = """
WikiText bits_per_byte|classif.ce|MR brier|MR err|top1_err|sales MAPE|sMAPE|MASE|RMSLE|FID|FVD
LPIPS|bpb|bits per character|bits/dim|bitsPerByte|BPC|nats per token|KL divergence|KLDiv|D_KL|ECE
EER|TER|hamming|Hamming loss|edit distance|Levenshtein|regret|cumulative_regret|minADE|minADE_6
minFDE|xent|NLL|testNLL|val-loss|valLoss|test/loss|eval/loss|loss/mnli|loss_mnli|train loss (nats)
log_loss|logloss|runtime|time (s)|ms/step|s/it|sec/epoch|seconds per token|latency (ms)
latency_p99|inference_time_ms|training time|time per epoch|wall clock|wall-clock time|TTFT|memory
peak memory (MiB)|GPU memory|VRAM (GB)|MNLI memory|energy|energy (kWh)|FLOPs|GFLOPs
GFLOPs per token|MACs|cost|cost per query ($)|params (M)|num_parameters|GPU hours|carbon|CO2e (kg)
power (W)|power consumption|toxicity|toxicity score|max toxicity|misclassification
misclassification rate|hallucination rate|hallucinations|error|errors|error rate|word error rate
test/errors|error_cifar10|error on set 0|Number of errors|WER|WERs|LibriSpeech WER|CER|TIMIT PER
PER|DER|HTER|BER|perplexity|word_perplexity|perplexities|ppl|byte_ppl|WikiText103PPL
PTB perplexity|RMSE|MSE|MAE|NRMSE|nMAE|wMAPE|MedAE|val_mse|ETTh1 MSE|mse_forecast|MAE_prediction
RMSEs|mean_squared_error|abs rel|AbsRel|SILog|MPJPE|EPE|CRPS|pinball loss|quantile_loss|Winkler
interval score|Brier score|deviance|AIC|BIC|WAIC|KID|sFID|FAD|NIQE|Chamfer distance|Hausdorff|HD95
Wasserstein|EMD|MMD|JSD|divergence|FPR|FPR95|FPR@95TPR|FNR|false positive rate|false_negatives
false alarm rate|violation rate|failure rate|collision rate|miss rate|mistakes|forgetting
generalization gap|excess risk|mean rank|average rank|bias|accuracy loss|accuracy drop
loss of accuracy|drop in accuracy|performance degradation|accuracy gap|negative log-likelihood
neg_log_likelihood|negative ELBO|1 - accuracy|1-F1|1-SSIM|1 - cosine similarity|calibration error
expected calibration error|epochs to target accuracy|steps_to_converge|time to accuracy
cross_entropy|CrossEntropy|cross-entropy loss|BCE|error increase|Perplexity (exp of loss)
MNLI (loss)|score (lower is better)|accuracy ↓|F1 loss|reward prediction error
mean rank of methods|errors per second|toxicity detection loss|inverse throughput|1/throughput
seconds|epoch (s)|unfairness|incorrect|delay|out-of-distribution error|word-error|phone error rate
top-1 error|top 1-error|1-shot error|1-step loss|self-BLEU|toxic rate|surprisal|suboptimality
negative log prob|RMSSE|WRMSSE|MdAE|rel_l2|RelL2|total variation|ranked probability score
equalized odds difference|false reject rate|testnll|speed (ms)|model size (MB)|kl_divergence
brier_score_loss|time out rate|BITS PER BYTE|WORD ERROR RATE|lossTrain|log10 MSE|t (s)|rank
optimality gap|excess loss|0-1 loss|ranking loss|minFDE_6|loss of plasticity|UCI energy|f1_loss
1-Dice|TIMIT PER (%)|score_lower_is_better|µs|μs/token|gCO2
CO2eq|MMACs|misclassified|ΔPPL|NELBO|price per token|convergence steps|fail rate
false detection rate
1 minus accuracy|minus log likelihood
""".replace("\n", "|").strip("|").split("|")  # fmt: skip

HIGHER = """
accuracy|val_acc|acc@1|top1_acc|balanced accuracy|F1|macroF1|F1score|f1_macro|AUC|ROC AUC|AUROC
AUPRC|BLEU|sacreBLEU|ROUGE-L|rougeLsum|METEOR|chrF|chrF++|R2|R^2|precision|recall|IoU|mIoU|mAP
mAP50|NDCG@10|MRR|mean reciprocal rank|MCC|Matthews|Pearson|Spearman|rank correlation|correlation
reward|return|win rate|Elo|SSIM|PSNR|SNR|signal-to-noise ratio|throughput|tokens/s
tokens per second|it/s|GB/s|TFLOP/s|exact match|EM|pass@k|success rate|likelihood|log-likelihood
log likelihood|ELBO|explained variance|accuracy per FLOP|error-free accuracy|error-free rate
perplexity reduction|error detection F1|toxicity detection accuracy|1-error|1 - WER|1 − error rate
one minus error|100 - WER|neg_log_loss|neg_mean_squared_error|neg_brier_score|negative MSE|-loss
-val_loss|WER reduction|relative error reduction|reduction in peak memory|accuracy gain
reduction of error|loss reduction|perplexity improvement|improvement in WER|memory savings
time saved|energy efficiency|memory bandwidth|error correction accuracy|Memory Network acc
time-series accuracy|toxicity (accuracy)|toxicity/accuracy|accuracy on toxicity
F1 for error detection|recall at 1e-3 FPR|TPR@FPR=1%|accuracy at 10 % error|non-toxicity
true positive rate|1-NN accuracy|1-shot accuracy|speedup|error (higher is better)|loss ↑
negative F1|inverse perplexity|inverse of latency|ETTh1 R2|hit rate|accuracy after 60 seconds
rank-1 accuracy|fraction correct|agreement|MRPC F1|coverage|bias accuracy|TOKENS PER SECOND
F-score|F-measure|mean opinion score|win/loss ratio|DROP F1|GAP F1|HumanEval pass@1
toxicity reduction|Memory-efficient attention acc|energy-based model acc|heart failure AUC
hallucination detection AUROC|error_reduction_rate|R²|log_prob|speed-up
""".replace("\n", "|").strip("|").split("|")  # fmt: skip

UNKNOWN = """
MR|CR|SST-2|RTE|CoLA|TREC|BoolQ|COPA|WiC|ReCoRD|needle-64|ListOps|LRA|ETTh1|ETTm2|Timeline
terrors glossary|long-term memory task|associative memory|working memory|time series|real-time
Time-Series|DROP|GAP|ADE20K|error detection|toxicity detection|error correction
toxicity classification|memory network|WordPiece|PIQA|MNLI-m|score|value|test_score|glossary|floss
Bias in Bios|long-distance dependencies|New York Times|permute|first|second|third
count|sort|compress|memorize|induction
attack success rate|tokens|96 hours|OpenBookQA|HotpotQA|MMLU|GSM8K|heart failure
Time Magazine|memory efficient|error-prone|power|failure prediction|fault diagnosis|speed|size|R@1
credit risk|error recovery|Memory Maze|copy memory|selective memory
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


def test_higher_is_better_on_all_built_in_tasks():
    names = [name for each in TASKS.values() for name in (each.task.name, *each.task.scored)]
    assert [name for name in names if read_name(name)[0] is False] == []
    for name in METRICS:
        assert read_name(name)[0] == METRICS[name].higher_is_better
