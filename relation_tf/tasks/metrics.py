"""Built-in metrics. Metrics of predictions follow the definitions of the GLUE leaderboard."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any

from glue_submit import compute
from relation_tf.errors import MissingPackageError
from relation_tf.registry import METRICS, Metric
from relation_tf.tasks import weighted_metrics as weighted


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
    metric = _sacrebleu()(tokenize="char")
    return metric.corpus_score([*predictions], [[*labels]]).score / 100


def _sacrebleu() -> Any:
    try:
        from sacrebleu.metrics import BLEU
    except ImportError as error:
        raise MissingPackageError("BLEU", "sacrebleu", "bleu") from error
    return BLEU


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
        _sacrebleu()


_BUILTIN = {
    "accuracy": Metric(_as_glue("accuracy"), "acc.", weighted=weighted.accuracy),
    "matthews": Metric(_as_glue("matthews"), "Matthews", low=-1.0, weighted=weighted.matthews),
    "f1": Metric(_as_glue("f1"), "F1", positive="1", weighted=weighted.f1),
    "pearson": Metric(
        _as_glue("pearson"), "Pearson", low=-1.0, target="scores", weighted=weighted.pearson
    ),
    "spearman": Metric(
        _as_glue("spearman"), "Spearman", low=-1.0, target="scores", weighted=weighted.spearman
    ),
    "exact_match": Metric(None, "exact match", target="sequences"),
    "token_accuracy": Metric(None, "token acc.", target="tokens"),
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


def counted(metrics: Sequence[str]) -> Sequence[str]:
    """Return the metrics of a task that are averaged to its score.

    Returns all metrics, or only the first if they differ in unit or direction.

    Args:
        metrics: Metrics of a task.

    Example:
        >>> counted(["f1", "accuracy"]), counted(["accuracy", "tokens_per_second"])
        (['f1', 'accuracy'], ['accuracy'])
    """
    kinds = {(each.points, each.higher_is_better) for each in map(find_metric, metrics)}
    return metrics if len(kinds) < 2 else metrics[:1]
