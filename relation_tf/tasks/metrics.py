"""Built-in metrics. Those of predictions are defined as the GLUE leaderboard defines them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from glue_submit import compute
from relation_tf.registry import METRICS, Metric


def _as_glue(name: str) -> Callable[[Any, Any], float]:
    def metric(predictions: Any, labels: Any) -> float:
        return compute([name], predictions, labels)[name]

    return metric


_BUILTIN = {
    "accuracy": Metric(_as_glue("accuracy"), "acc."),
    "matthews": Metric(_as_glue("matthews"), "Matthews", low=-1.0),
    "f1": Metric(_as_glue("f1"), "F1", positive="1"),
    "pearson": Metric(_as_glue("pearson"), "Pearson", low=-1.0, target="scores"),
    "spearman": Metric(_as_glue("spearman"), "Spearman", low=-1.0, target="scores"),
    "exact_match": Metric(None, "exact match"),
    "tokens_per_second": Metric(None, "tokens/s", high=None, points=1.0),
}

for _name, _metric in _BUILTIN.items():
    METRICS.add(_name, _metric, __name__)


def find_metric(name: str) -> Metric:
    """Return a metric; one whose plugin is not imported counts as a fraction, higher is better.

    Args:
        name: Its name in suites and files.
    """
    return METRICS.get(name) or Metric(None, name)


def counted(metrics: Sequence[str]) -> Sequence[str]:
    """Return the metrics that a task's score is the mean of.

    These are all of them, or the first one where they differ in unit or direction and a mean
    would mean nothing.

    Args:
        metrics: The metrics of a task.

    Example:
        >>> counted(["f1", "accuracy"]), counted(["accuracy", "tokens_per_second"])
        (['f1', 'accuracy'], ['accuracy'])
    """
    kinds = {(each.points, each.higher_is_better) for each in map(find_metric, metrics)}
    return metrics if len(kinds) < 2 else metrics[:1]
