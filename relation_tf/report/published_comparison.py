"""Published figures beside ours, and why some cannot be compared."""

from __future__ import annotations

import math

import pandas as pd

from relation_tf.bench.results import Results
from relation_tf.config.published import Published
from relation_tf.report.comparisons import rows_of
from relation_tf.report.scores import Scores

MILLISECONDS = "milliseconds a batch"


def beside_published(
    results: Results, summary: pd.DataFrame, how: pd.DataFrame, published: Published
) -> pd.DataFrame:
    """Published figures and ours, in points or milliseconds.

    A figure stands beside the method of its name, or the only one of its mechanism. Columns:
    `task`, `metric`, `method` (ours, or the paper's where there is none), `published`,
    `published_sd`, `mean`, `sd`, `n`, `difference`.
    """
    ours = _measured_points(summary, how)
    rows = []
    for figure in published.figure:
        name = own_name(results, figure.method)
        n, mean, sd = ours.get((figure.task, name, figure.metric), (0, math.nan, math.nan))
        row = (figure.task, figure.metric, name, figure.value, figure.sd, mean, sd, n)
        rows.append((*row, mean - figure.value))
    return pd.DataFrame(
        rows,
        columns=["task", "metric", "method", "published", "published_sd", "mean", "sd", "n",
                 "difference"],
    ).astype({"published_sd": float})  # fmt: skip


def _measured_points(
    summary: pd.DataFrame, how: pd.DataFrame
) -> dict[tuple[str, str, str], tuple[int, float, float]]:
    points = {
        (row.task, row.method, row.metric): (row.n, 100 * row.mean, 100 * row.sd)
        for row in rows_of(summary)
    }
    for row in rows_of(how):
        points[row.task, row.method, MILLISECONDS] = (row.n, 1000 * row.seconds_batch, math.nan)
    return points


def own_name(results: Results, name: str) -> str:
    """Our method of a name, or the only one of that mechanism; else the paper's own name."""
    methods = results.suite.methods()
    own = [str(method.name) for method in methods if method.mechanism == name]
    named = any(method.name == name for method in methods)
    return own[0] if len(own) == 1 and not named else name


def not_comparable(results: Results, published: Published) -> list[str]:
    """Why the published figures and ours cannot be compared; empty where they can."""
    suite = results.suite
    reasons = []
    ours = suite.embedding_dim if suite.embeddings == "glove" else None
    if ours != published.vectors:
        reasons.append(
            f"the paper's networks start from {_vectors(published.vectors)}, these from "
            f"{_vectors(ours)}"
        )
    if suite.source == "miniglue":
        reasons.append("these are of embedded data")
    elif Scores.of(results).noun != f"{published.split} sets":
        reasons.append(f"the paper's figures are of {published.split} sets, these of dev sets")
    return reasons


def _vectors(width: int | None) -> str:
    return "random embeddings" if width is None else f"word vectors of width {width}"
