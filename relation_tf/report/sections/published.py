"""Published figures beside ours, and why some cannot be compared."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pandas as pd

from relation_tf.bench.results import Results
from relation_tf.config.published import Published
from relation_tf.registry import register_section
from relation_tf.report.blocks import Block, Column, Paragraph, Row, Section, Table, spread
from relation_tf.report.comparisons import rows_of
from relation_tf.report.context import ReportContext
from relation_tf.report.pictures.drawing import signed
from relation_tf.report.provenance import notes
from relation_tf.report.scores import Scores
from relation_tf.tasks.metrics import find_metric

MILLISECONDS = "milliseconds a batch"


@register_section("published")
class PublishedFigures(Section):
    """Published figures next to ours."""

    heading = "Beside the paper"

    def blocks(self, context: ReportContext) -> Sequence[Block]:
        """Return the table, and why the figures cannot be compared."""
        results, published = context.results, context.published
        if results is None or published is None or not context.cells:
            return []
        unlike = reasons(results, published)
        beside = beside_published(results, context.summary, context.how, published)
        blocks: list[Block] = []
        if unlike:
            blocks.append(Paragraph(f"Not comparable: {'; '.join(unlike)}.", "warning"))
        if len(beside):
            blocks.append(_table(beside, comparable=not unlike))
        split = f"; its figures are of {published.split} sets" if len(beside) else ""
        note = f"{published.source}{split}. {published.missing}".strip()
        return [*blocks, Paragraph(note, "note")]

    def tables(self, context: ReportContext) -> Mapping[str, pd.DataFrame]:
        """Return the figures and ours."""
        if context.results is None or context.published is None:
            return {}
        beside = beside_published(context.results, context.summary, context.how, context.published)
        return {} if beside.empty else {"published": beside}


def _table(beside: pd.DataFrame, comparable: bool) -> Table:
    columns = [Column("Task", "head"), Column("Metric"), Column("Method")]
    columns += [Column(name, "number") for name in ("Published", "Here", "Difference")]
    rows = []
    for row in rows_of(beside):
        shown = comparable and not math.isnan(row.difference)
        numbers = [
            spread(row.published, row.published_sd),
            spread(row.mean, row.sd),
            signed(row.difference) if shown else None,
        ]
        rows.append(Row([row.task, row.metric, row.method, *numbers], task=row.task))
    return Table("Table: published figures", columns, rows)


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
        (row.task, row.method, row.metric): (
            row.n,
            (factor := find_metric(row.metric).points) * row.mean,
            factor * row.sd,
        )
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


def reasons(results: Results, published: Published) -> list[str]:
    """Return why the published figures and ours cannot be compared; empty where they can."""
    suite = results.suite
    unlike = []
    ours = suite.embedding_dim if suite.embeddings == "glove" else None
    if ours != published.vectors:
        unlike.append(
            f"the paper's networks start from {_vectors(published.vectors)}, these from "
            f"{_vectors(ours)}"
        )
    if suite.source == "miniglue":
        unlike.append("these are of embedded data")
    elif Scores.of(results).noun != f"{published.split} sets":
        unlike.append(f"the paper's figures are of {published.split} sets, these of dev sets")
    return unlike + [f"{task} is {note}" for task in suite.tasks for note in notes(results, task)]


def _vectors(width: int | None) -> str:
    return "random embeddings" if width is None else f"word vectors of width {width}"
