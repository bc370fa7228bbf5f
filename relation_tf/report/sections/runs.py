"""How each method was run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from relation_tf.bench.results import Results
from relation_tf.registry import register_section
from relation_tf.report.blocks import (
    Block,
    Cell,
    Column,
    Facts,
    Paragraph,
    Row,
    Section,
    Table,
    number,
)
from relation_tf.report.comparisons import rows_of
from relation_tf.report.context import ReportContext
from relation_tf.report.runs import computed, methods_as_asked

_Show = Callable[[Any], Cell | str]
_MEMORY: _Show = lambda row: Cell(  # noqa: E731
    number(row.peak_memory_mib), notes=["of the process"] if row.of_process else []
)


def _columns(timed: bool) -> Mapping[Column, _Show]:
    """Return the columns of what runs took, each with how it shows a row of `how_run`."""

    def numeric(name: str, group: str = "") -> Column:
        return Column(name, "number", group)

    digits = 3 if timed else 2
    common: dict[Column, _Show] = {
        Column("Method", "method"): lambda row: row.method,
        numeric("Runs"): lambda row: str(row.n),
        numeric("all", "Parameters"): lambda row: number(row.parameters),
        numeric("no embedding", "Parameters"): lambda row: number(row.without_embedding),
        numeric("mechanism", "Parameters"): lambda row: number(row.mechanism),
        numeric("Passes" if timed else "Epochs"): lambda row: f"{row.epochs:g}",
        numeric("s a pass" if timed else "s an epoch", "Time"): lambda row: number(
            row.seconds_epoch, digits
        ),
        numeric("tokens a second", "Time"): lambda row: number(row.tokens_second),
        numeric("ms a step" if timed else "ms a batch", "Time"): lambda row: number(
            1000 * row.seconds_batch, 3 if timed else 1
        ),
        numeric("s compiling", "Time"): lambda row: number(row.seconds_compilation, 2),
    }
    if timed:
        return common | {
            numeric("Held of the tokens, KiB"): lambda row: number(1024 * row.state_mib, 1)
        }
    return common | {
        numeric("Padding"): lambda row: f"{100 * row.padding:.1f} %",
        numeric("Memory, MiB"): _MEMORY,
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
            Facts(context.settings),
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
    columns = _columns(results.suite.timed)
    rows = {
        str(task): [
            Row([show(row) for show in columns.values()], [row.method]) for row in rows_of(own)
        ]
        for task, own in how.groupby("task", sort=False)
    }
    note = "A pass goes through the whole text; a step is a token of each row of a batch."
    if not results.suite.timed:
        others = (
            ", or of the process, which has run others before" if how["of_process"].any() else ""
        )
        note = (
            "Time: of training, without what is answered and compiled; tokens without padding. "
            f"Padding: its share of the training batches. Memory: the highest of a run{others}."
        )
    return [
        Paragraph(computed(results)),
        Table("Table: what runs took", [*columns], rows),
        Paragraph(f"Medians over seeds. {note}", "note"),
    ]
