"""Sections with methods, costs, settings, warnings, environment and data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from relation_tf.registry import register_section
from relation_tf.report.blocks import (
    Block,
    Cell,
    Code,
    Column,
    Facts,
    Row,
    Section,
    Show,
    Table,
    blocks,
    table_by_task,
)
from relation_tf.report.comparisons import rows_of
from relation_tf.report.data import ReportData
from relation_tf.report.provenance import data as tasks_data
from relation_tf.report.runs import computed_tokens, reads_one_token, varied
from relation_tf.tasks.task import Timed
from relation_tf.words import number

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
    """Costs of the runs, and the methods and settings of the suites."""

    heading = "Methods and settings"

    def blocks(self, data: ReportData) -> Sequence[Block]:
        """Return the table of costs and the suites."""
        results, costs = data.results, data.run_costs
        if results is None:
            return []
        timed, known = results.suite.timed, not costs.empty
        return blocks(
            "methods.jinja",
            suite=results.suite,
            tokens=computed_tokens(results.suite),
            one_token=reads_one_token(results.suite),
            varied=varied(results),
            costs=table_by_task("Table: costs of the runs", costs, _columns(timed))
            if known
            else None,
            timed=timed,
            of_process=bool(known and costs["of_process"].any()),
            above_base=bool(known and costs["above_base"].all()),
            suites=[
                (own.suite.name, Code(own.suite.to_toml())) for own in results.parts or [results]
            ],
        )


@register_section("made")
class Made(Section):
    """Warnings, environment and data."""

    heading = "Warnings and provenance"

    def blocks(self, data: ReportData) -> Sequence[Block]:
        """Return warnings, failures, environment and the data of each task."""
        rows = [] if data.results is None else [*rows_of(tasks_data(data.results))]
        return blocks(
            "made.jinja",
            data=data,
            facts=Facts(data.made, long=True) if data.made else None,
            table=_data(rows) if rows else None,
            skipped={row.task: row.skipped for row in rows if row.skipped},
            most=_MOST_LINES,
            files=[*data.tables],
        )


def _data(own: Sequence[Any]) -> Table:
    columns = [
        Column("Task", "head"),
        Column("Source"),
        Column("Rows"),
        Column("Vocabulary", "number"),
        Column("Initial word vectors"),
        Column("Skipped lines", "number"),
        Column("Digest"),
    ]
    rows = []
    for row in own:
        vocabulary = "; ".join(map(number, row.vocabulary)) or number(None)
        digests = " ".join(digest[:_DIGEST] for digest in row.digests)
        start = "; ".join(row.start)
        texts = [row.task, row.source, row.rows, vocabulary, start, str(len(row.skipped)), digests]
        rows.append(Row(texts, task=row.task))
    return Table("Table: data", columns, rows)
