"""Section with the tests over several tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relation_tf.registry import register_section
from relation_tf.report.answer import better_of
from relation_tf.report.blocks import (
    Block,
    Column,
    Figure,
    Paragraph,
    Row,
    Section,
    Table,
    number,
)
from relation_tf.report.context import ReportContext
from relation_tf.report.pictures.significance import critical_difference
from relation_tf.stats import FriedmanNemenyiResult
from relation_tf.stats.design import format_pvalue
from relation_tf.stats.over_tasks import FEW_TASKS


@register_section("several")
class OverTasks(Section):
    """Friedman's and Nemenyi's tests, and the number of tasks each method wins."""

    heading = "Tests over several tasks"
    by_family = True

    def blocks(self, context: ReportContext) -> Sequence[Block]:
        """Return the tests, the figure of average ranks and the table of wins."""
        several = context.several
        return [
            *(() if several is None else _ranks(several, context)),
            *(_wins(context) if context.wins else ()),
        ]


def _both_mnli(context: ReportContext) -> bool:
    return {"MNLI-m", "MNLI-mm"} <= {*context.scores.tasks}


def _ranks(several: FriedmanNemenyiResult, context: ReportContext) -> list[Block]:
    scores, alpha, tasks = context.scores, context.scores.alpha, len(several.ranks)
    blocks: list[Block] = [Paragraph(_tests(several, context))]
    picture = critical_difference(
        {str(name): float(rank) for name, rank in several.average_ranks.items()},
        [[str(name) for name in clique] for clique in several.cliques()],
        several.critical_difference,
        # MNLI is one task of two dev sets.
        f"{tasks} {scores.noun if {*several.ranks.index} <= {*scores.tasks} else 'tasks'}",
        context.look,
    )
    if picture is not None:
        blocks.append(Figure(picture))
    notes = "".join(f" {note[:1].upper()}{note[1:]}." for note in several.notes)
    note = (
        "Average ranks, 1 is the best; bars join methods that do not differ significantly. "
        "Differences between ranks above "
        f"{number(several.critical_difference, 2)} are significant. With this number of tasks and "
        f"methods, Nemenyi's test can reach {format_pvalue(several.attainable_pvalue, alpha)} at "
        f"best; {context.level} needs at least {several.tasks_needed} tasks.{notes}"
    )
    return [*blocks, Paragraph(note, "note")]


def _tests(several: FriedmanNemenyiResult, context: ReportContext) -> str:
    alpha, tasks = context.scores.alpha, len(several.ranks)
    mnli = " (MNLI: mean of both sets)" if _both_mnli(context) else ""
    friedman = format_pvalue(several.friedman_pvalue, alpha)
    exact = "exact" if several.exact else "approximate"
    # With few tasks this p is too small to be valid.
    iman = f", Iman and Davenport {format_pvalue(several.f_pvalue, alpha)}"
    found = "; ".join(better_of(several.pairs()))
    verdict = (
        f"Significant by Nemenyi's test ({context.level}): {found}."
        if found
        else "Nemenyi's test finds no significant difference."
    )
    return (
        f"Friedman's test over the means of {tasks} tasks{mnli}: {friedman} ({exact})"
        f"{iman if tasks >= FEW_TASKS else ''}. {verdict} These tests generalize to similar "
        "tasks; the tests above compare seeds on one task."
    )


def _wins(context: ReportContext) -> list[Block]:
    head: Any = "method" if context.pairs_listed else "head"
    columns = [Column("First", head), Column("Second", head)]
    columns += [
        Column(name, "number") for name in ("First better", "Not significant", "First worse")
    ]
    rows = [
        Row(
            [row["a"], row["b"], *(str(row[key]) for key in ("wins", "ties", "losses"))],
            [row["a"], row["b"]],
        )
        for row in context.wins
    ]
    mnli = " MNLI counts once, by MNLI-m." if _both_mnli(context) else ""
    note = (
        "Number of tasks with and without a significant difference. Each task is tested "
        f"separately, without a correction for the number of tasks.{mnli}"
    )
    return [Table("Wins and losses", columns, rows), Paragraph(note, "note")]
