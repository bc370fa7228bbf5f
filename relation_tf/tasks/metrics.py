"""Built-in metrics. Those of predictions are defined as the GLUE leaderboard defines them."""

from __future__ import annotations

from collections.abc import Callable
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
