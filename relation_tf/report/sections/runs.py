"""How each method was run, and how the scores were made: settings, warnings, machine and data."""

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
    number,
    plural,
    table_by_task,
)
from relation_tf.report.comparisons import rows_of
from relation_tf.report.context import ReportContext
from relation_tf.report.provenance import data, settings
from relation_tf.report.runs import computed, methods_as_asked

_MOST_LINES = 100  # of those that were skipped
_DIGEST = 12


def _columns(*, timed: bool) -> Mapping[Column, Show]:
    """Return the columns of what runs took, each with how it shows a row of `how_run`."""

    def numeric(name: str, group: str = "") -> Column:
        return Column(name, "number", group)

    each, step = ("a pass", "a step") if timed else ("an epoch", "a batch")
    epoch_digits, step_digits = (3, 3) if timed else (2, 1)
    common: dict[Column, Show] = {
        Column("Method", "method"): lambda row: row.method,
        numeric("Runs"): lambda row: str(row.n),
        numeric("all", "Parameters"): lambda row: number(row.parameters),
        numeric("no embedding", "Parameters"): lambda row: number(row.without_embedding),
        numeric("mechanism", "Parameters"): lambda row: number(row.mechanism),
        numeric("Passes" if timed else "Epochs"): lambda row: f"{row.epochs:g}",
        numeric(f"s {each}", "Time"): lambda row: number(row.seconds_epoch, epoch_digits),
        numeric("tokens a second", "Time"): lambda row: number(row.tokens_second),
        numeric(f"ms {step}", "Time"): lambda row: number(1000 * row.seconds_batch, step_digits),
        numeric("s compiling", "Time"): lambda row: number(row.seconds_compilation, 2),
    }
    if timed:
        held: Show = lambda row: number(1024 * row.state_mib, 1)  # noqa: E731
        return common | {numeric("Held of the tokens, KiB"): held}
    return common | {
        numeric("Padding"): lambda row: f"{100 * row.padding:.1f} %",
        numeric("Memory, MiB"): lambda row: Cell(
            number(row.peak_memory_mib), notes=["of the process"] if row.of_process else []
        ),
        Column("Why stopped", "words"): lambda row: row.stopped,
    }


@register_section("run")
class HowRun(Section):
    """Methods, what their runs took, and the settings of the suite."""

    heading = "How each method was run"

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
        Column("Size asked"),
        Column("Options"),
    ]
    rows = [Row([*row.values()], [row["method"]]) for row in methods_as_asked(results)]
    return [Table("Methods as asked", columns, rows)] if rows else []


def _how(results: Results, how: pd.DataFrame) -> list[Block]:
    timed = results.suite.timed
    note = "A pass goes through the whole text; a step is a token of each row of a batch."
    if not timed:
        others = (
            ", or of the process, which has run others before" if how["of_process"].any() else ""
        )
        note = (
            "Time: of training, without what is answered and compiled; tokens without padding. "
            f"Padding: its share of the training batches. Memory: the highest of a run{others}."
        )
    return [
        Paragraph(computed(results)),
        table_by_task("Table: what runs took", how, _columns(timed=timed)),
        Paragraph(f"Medians over seeds. {note}", "note"),
    ]


@register_section("made")
class Made(Section):
    """Where the scores are from."""

    heading = "How it was made"

    def blocks(self, context: ReportContext) -> Sequence[Block]:
        """Return warnings, failures, facts about the machine, and the data of each task."""
        blocks: list[Block] = []
        if context.warnings:
            blocks.append(Bullets(context.warnings, "warning"))
        if context.failures:
            failed: list[Text] = [
                [Span(name, "code"), f": {error}"] for name, error in context.failures
            ]
            blocks += [Heading("Runs that failed"), Bullets(failed, "warning")]
        if context.made:
            blocks.append(Facts(context.made, long=True))
        if context.results is not None:
            blocks += _data(context.results)
        links = file_links(context.tables)
        return [*blocks, Paragraph(["The tables lie beside this page: ", *links], "note")]


def _data(results: Results) -> list[Block]:
    columns = [
        Column("Task", "head"),
        Column("Source"),
        Column("Rows"),
        Column("Vocabulary", "number"),
        Column("Word vectors start"),
        Column("Lines skipped", "number"),
        Column("Digest"),
    ]
    rows, folded = [], []
    for row in rows_of(data(results)):
        digests = [
            part for each in row.digests for part in (Span(each[:_DIGEST], "digest", each), " ")
        ]
        start, skipped = "; ".join(row.start), row.skipped
        texts = [row.task, row.source, row.rows, number(row.vocabulary), start, str(len(skipped))]
        rows.append(Row([*texts, Cell(digests)], task=row.task))
        if skipped:
            more = len(skipped) - _MOST_LINES
            lines = [*skipped[:_MOST_LINES], *([f"and {more} more"] if more > 0 else [])]
            summary = f"{row.task}: {plural(len(skipped), 'malformed line')} left out of training"
            folded.append(Folded(summary, [Bullets(lines)]))
    return [Heading("Data"), Table("Data", columns, rows), *folded] if rows else []
