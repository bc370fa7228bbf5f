"""How the scores were made: warnings, failures, versions, machine and data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
    Span,
    Table,
    Text,
    number,
    plural,
)
from relation_tf.report.context import ReportContext
from relation_tf.report.provenance import data

_MOST_LINES = 100  # of those that were skipped
_DIGEST = 12


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
            failures: list[Text] = []
            for name, error in context.failures:
                failures.append([Span(name, "code"), f": {error}"])
            blocks += [Heading("Runs that failed"), Bullets(failures, "warning")]
        if context.made:
            blocks.append(Facts(context.made, long=True))
        if context.results is not None:
            blocks += _data(data(context.results).to_dict("records"))
        note: list[str | Span] = ["The tables lie beside this page: "]
        for name in context.tables:
            note += [Span(f"{name}.csv", "link", f"{name}.csv"), ", "]
        return [*blocks, Paragraph([*note[:-1], "."], "note")]


def _data(tasks: list[Any]) -> list[Block]:
    if not tasks:
        return []
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
    for task in tasks:
        digests: list[str | Span] = []
        for digest in task["digests"]:
            digests += [Span(digest[:_DIGEST], "digest", digest), " "]
        start, skipped = "; ".join(task["start"]), task["skipped"]
        vocabulary, name = number(task["vocabulary"]), task["task"]
        texts = [name, task["source"], task["rows"], vocabulary, start, str(len(skipped))]
        rows.append(Row([*texts, Cell(digests)], task=name))
        if skipped:
            more = len(skipped) - _MOST_LINES
            lines = [*skipped[:_MOST_LINES], *([f"and {more} more"] if more > 0 else [])]
            summary = f"{name}: {plural(len(skipped), 'malformed line')} left out of training"
            folded.append(Folded(summary, [Bullets(lines)]))
    return [Heading("Data"), Table("Data", columns, rows), *folded]
