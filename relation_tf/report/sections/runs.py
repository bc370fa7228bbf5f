"""Sections with methods, costs, settings, warnings, environment and data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from relation_tf.bench.results import Results
from relation_tf.registry import register_section
from relation_tf.report.blocks import (
    Block,
    Bullets,
    Cell,
    Column,
    Facts,
    Folded,
    Heading,
    Paragraph,
    Row,
    Section,
    Show,
    Span,
    Table,
    Text,
    file_links,
    table_by_task,
)
from relation_tf.report.comparisons import rows_of
from relation_tf.report.context import ReportContext
from relation_tf.report.provenance import data, settings
from relation_tf.report.runs import TIMED, computed, requested_methods, varied
from relation_tf.tasks.task import Timed
from relation_tf.words import count, number

_MOST_LINES = 100  # skipped lines shown
_DIGEST = 12


def _columns(timed: Timed) -> Mapping[Column, Show]:
    """Return the columns of the table of costs; each formats a row of `how_run`."""

    def numeric(name: str, group: str = "") -> Column:
        return Column(name, "number", group)

    each, epoch_digits = ("pass", 3) if timed else ("epoch", 2)
    common: dict[Column, Show] = {
        Column("Method", "method"): lambda row: row.method,
        numeric("Runs"): lambda row: str(row.n),
        numeric("all", "Parameters"): lambda row: number(row.parameters),
        numeric("without embedding", "Parameters"): lambda row: number(row.without_embedding),
        numeric("mechanism", "Parameters"): lambda row: number(row.mechanism),
        numeric("Passes" if timed else "Epochs"): lambda row: f"{row.epochs:g}",
        numeric(f"s per {each}", "Time"): lambda row: number(row.seconds_epoch, epoch_digits),
        numeric("tokens per second", "Time"): lambda row: number(row.tokens_second),
        numeric("compilation, s", "Time"): lambda row: number(row.seconds_compilation, 2),
    }
    if timed == "decoding":
        return common | {
            numeric("ms per step", "Time"): lambda row: number(1000 * row.seconds_batch, 3),
            numeric("Memory for earlier tokens, KiB"): lambda row: number(1024 * row.state_mib, 1),
        }
    if timed:
        return common
    return common | {
        numeric("ms per batch", "Time"): lambda row: number(1000 * row.seconds_batch, 1),
        numeric("Padding"): lambda row: f"{100 * row.padding:.1f} %",
        numeric("Memory, MiB"): lambda row: Cell(
            number(row.memory_mib), notes=["of process"] if row.of_process else []
        ),
        Column("Reason for stopping", "words"): lambda row: row.stopped,
    }


@register_section("run")
class HowRun(Section):
    """Methods, costs of their runs, and settings of the suite."""

    heading = "Methods and settings"

    def blocks(self, context: ReportContext) -> Sequence[Block]:
        """Return two tables and the settings."""
        if context.results is None:
            return []
        return [
            *_methods(context.results),
            *([] if context.how.empty else _how(context.results, context.how)),
            Facts(settings(context.results)),
        ]


def _methods(results: Results) -> list[Block]:
    columns = [
        Column("Method", "method"),
        Column("Mechanism"),
        Column("Units", "number"),
        Column("Requested size"),
        Column("Options"),
    ]
    rows = [Row([*row.values()], [row["method"]]) for row in requested_methods(results)]
    return [Table("Table: methods", columns, rows)] if rows else []


def _how(results: Results, how: pd.DataFrame) -> list[Block]:
    timed = results.suite.timed
    note = TIMED[timed].passed if timed else ""
    if not timed:
        others = (
            ' "Of process" includes earlier runs in the same process.'
            if how["of_process"].any()
            else ""
        )
        base = ""
        if how["above_base"].all():
            base = ", minus the memory that the process used before its first run"
        note = (
            "Time: training, without evaluation and compilation. Tokens do not include padding. "
            f"Padding: share of padding tokens in the training batches. Memory: peak of a "
            f"run{base}.{others}"
        )
    return [
        Paragraph(f"{computed(results)} {varied(results)}".strip()),
        table_by_task("Table: costs of the runs", how, _columns(timed)),
        Paragraph(f"Values are medians over seeds; memory is the maximum. {note}", "note"),
    ]


@register_section("made")
class Made(Section):
    """Warnings, environment and data."""

    heading = "Warnings and provenance"

    def blocks(self, context: ReportContext) -> Sequence[Block]:
        """Return warnings, failures, environment and the data of each task."""
        blocks: list[Block] = []
        if context.warnings:
            blocks.append(Bullets(context.warnings, "warning"))
        if context.failures:
            failed: list[Text] = [
                [Span(name, "code"), f": {error}"] for name, error in context.failures
            ]
            blocks += [Heading("Failed runs"), Bullets(failed, "warning")]
        if context.made:
            blocks.append(Facts(context.made, long=True))
        if context.results is not None:
            blocks += _data(context.results)
        links = file_links(context.tables)
        return [*blocks, Paragraph(["Tables as CSV: ", *links], "note")]


def _data(results: Results) -> list[Block]:
    columns = [
        Column("Task", "head"),
        Column("Source"),
        Column("Rows"),
        Column("Vocabulary", "number"),
        Column("Initial word vectors"),
        Column("Skipped lines", "number"),
        Column("Digest"),
    ]
    rows, folded = [], []
    for row in rows_of(data(results)):
        digests = [
            part for each in row.digests for part in (Span(each[:_DIGEST], "digest", each), " ")
        ]
        start, skipped = "; ".join(row.start), row.skipped
        vocabulary = "; ".join(map(number, row.vocabulary)) or number(None)
        texts = [row.task, row.source, row.rows, vocabulary, start, str(len(skipped))]
        rows.append(Row([*texts, Cell(digests)], task=row.task))
        if skipped:
            more = len(skipped) - _MOST_LINES
            lines = [*skipped[:_MOST_LINES], *([f"and {more} more"] if more > 0 else [])]
            summary = f"{row.task}: {count(len(skipped), 'malformed line')} skipped in training"
            folded.append(Folded(summary, [Bullets(lines)]))
    return [Heading("Data"), Table("Table: data", columns, rows), *folded] if rows else []
