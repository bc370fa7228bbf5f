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
RAM|peak RAM|disk usage|file size|model size|checkpoint size (MB)|price|API price|USD|price (USD)
J/token|mJ/inference|J per token|us per call|us/call|ns/op|ns per op|speed (us)|cost per token
energy per token|Wh per query|bytes per token|bytes/param|WQL|SER|UER|LSD|ERGAS|DTW|n_wrong
num wrong|wrong answers|wrong answer rate|epochs|iterations|steps|Number of epochs|training steps
translation edit rate|leakage|data leakage rate|memorization rate|infeasibility rate|infeasible
overfitting|tour length|description length|Cllr|RMSD > 2A (%)|error (length < 512)|error (p<0.05)
WER within 10 minutes|error under 0.1 noise|WER under noise|loss for length < 512|nats|nats/dim
epochs to loss < 0.1|time to <5% error|No. of errors|no. errors|no augmentation error
anti-spoofing EER|time to answer|time to first token|time to answer (s)|survival time MAE
time to failure MAE|negLL|val_negLL|MS MARCO loss|MAE (ImageNet regression)|loss fixed lr
error closed set|model/params|memory utilization|errors per joule|top-1 error ImageNet|error (top-1)
errors per kWh|skill error|loss/param|GFLOPs/token|CRPS|train/flops|collision avoidance error
loss (no dropout)|RAM (GB)|GPU RAM|nJ/op|pJ per op|error (fixed seeds)|errors fixed seeds
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
RMSD < 2A (%)|% RMSD<2Å|RMSD<=2|RMSD ≤ 2 Å|RMSD within 2Å|error under 3 px|% error below 5%|WER < 5%
PSNR > 30 dB|accuracy (<1B params)|accuracy under 10 ms|F1 within 60 seconds|accuracy > 1B params
tokens per joule|tokens/J|samples per kWh|samples/kWh|FLOPS/W|GFLOPS/W|GFLOPS per watt|TOPS/W
accuracy/param|accuracy per param|tokens per parameter|queries per dollar|tokens/$|accuracy/J
FLOPs/byte|FLOPS utilization|model FLOPs utilization|GPU utilization|MFU|MSE skill score
Brier skill score|CRPSS|ranked probability skill score|ELBO (nats)|ELBO/nats|log-likelihood (nats)
Hamming score|Levenshtein ratio|Levenshtein score|collision avoidance rate|timeouts avoided
failures prevented|gap closed|gap recovered|bugs fixed|no-loss rate|no failure rate|anti-forgetting
NegMAE|negNLL|val_negMAE|negmse|NegLoss|time to event concordance|survival time C-index|C-index
time to answer accuracy|time to failure|mean time between failures|accuracy (error bars)
accuracy (standard error)|F1 (no error bars)|CoNLL03 PER/F1|PER-F1|MS MARCO MRR@10|msmarco nDCG
MAE ViT-B ImageNet top-1|MAE-L top-1|MAE ImageNet top-1 accuracy|profit (USD)|SER accuracy
wrong answer detection F1|accuracy fixed lr|accuracy closed-book|acc/GFLOPs|mAP/GFLOP
errors corrected
""".replace("\n", "|").strip("|").split("|")  # fmt: skip

UNKNOWN = """
MR|CR|SST-2|RTE|CoLA|TREC|BoolQ|COPA|WiC|ReCoRD|needle-64|ListOps|LRA|ETTh1|ETTm2|Timeline
terrors glossary|long-term memory task|associative memory|working memory|time series|real-time
Time-Series|DROP|GAP|ADE20K|error detection|toxicity detection|error correction
toxicity classification|memory network|WordPiece|PIQA|MNLI-m|score|value|test_score|glossary|floss
Bias in Bios|long-distance dependencies|New York Times|permute|first|second|third
count|sort|compress|memorize|induction
tokens|96 hours|OpenBookQA|HotpotQA|MMLU|GSM8K|heart failure
Time Magazine|memory efficient|error-prone|power|failure prediction|fault diagnosis|speed|R@1
credit risk|error recovery|Memory Maze|copy memory|selective memory
MS MARCO|ms_marco|MS-COCO|MSMARCO|leakage detection|house prices|house price prediction
predictive entropy|survival time|memorization|epochs 3 and 4|skill|steps-10
Atari RAM|breakout-ram|MS-TCN|No free lunch|US elections
""".replace("\n", "|").strip("|").split("|")  # fmt: skip

EITHER = """
attack success rate|ASR|ASR (%)|jailbreak rate|jailbreak success rate|refusal rate|refusals|size
WikiText-103|PTB|enwik8
batch size|standard deviation|uncertainty|variance|std|score std|MAD|L1|L2|L2 norm
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
