"""Section with the tests over several tasks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from relation_tf.registry import register_section
from relation_tf.report.answer import better_of
from relation_tf.report.blocks import (
    Block,
    Cell,
    Column,
    Figure,
    Paper,
    Paragraph,
    Row,
    Section,
    Table,
)
from relation_tf.report.comparisons import rows_of
from relation_tf.report.context import ReportContext
from relation_tf.report.over_tasks import OverTasks, too_few_methods
from relation_tf.report.pictures.significance import critical_difference
from relation_tf.stats import FriedmanNemenyiResult, SignedRankResult, StratifiedResult
from relation_tf.stats.comparisons import NOT_SIGNIFICANT
from relation_tf.stats.over_tasks import FEW_TASKS
from relation_tf.words import (
    at_least,
    capital,
    count,
    format_pvalue,
    listed,
    number,
    pvalue_only,
    signed,
)


@register_section("several")
class OverTasksSection(Section):
    """Test of all tasks together, and the number of tasks each method wins."""

    heading = "Tests over several tasks"
    by_family = True

    def blocks(self, context: ReportContext) -> Sequence[Block]:
        """Return the test with its pairs or average ranks, and the table of wins."""
        several = context.several
        blocks: list[Block] = []
        if not context.scores.timed and (too_few := too_few_methods(context.scores)):
            blocks.append(Paragraph(too_few, "warning"))
        elif several is not None and isinstance(several.result, FriedmanNemenyiResult):
            blocks += _ranks(several.result, several, context)
        elif several is not None:
            blocks += [
                Paragraph("".join(_described(several, context))),
                *([_pairs(several, context)] if context.pairs_listed else []),
                Paragraph(" ".join(_remarks(several, context)), "note"),
            ]
        return [*blocks, *(_wins(context) if context.wins else ())]


def _described(several: OverTasks, context: ReportContext) -> Iterator[str]:
    """Yield the test in words."""
    against = "" if context.scores.control is None else f" against {context.scores.control}"
    yield f"{several.procedure.title}{against} over {count(len(several.tasks), 'task')}"
    result = several.result
    if isinstance(result, StratifiedResult):
        yield (
            " uses every seed: it ranks the scores within each task and adds the rank differences "
            "over tasks. It never pairs seeds of different tasks. p is corrected for the number of "
            "pairs (family-wise). It is computed from "
        )
        drawn = result.null if result.method == "monte-carlo" else None
        yield "all" if drawn is None else f"{drawn.permutations:,} random"
        yield " permutations of the scores within tasks. The result applies to these tasks only."
    elif isinstance(result, SignedRankResult):
        yield (
            " ranks the differences of means across tasks; p is adjusted for the number of methods "
            "by Holm's method. It generalizes to similar tasks."
        )
    else:
        yield "."


def _remarks(several: OverTasks, context: ReportContext) -> Iterator[str]:
    yield _sign(several)
    if isinstance(several.result, StratifiedResult):
        yield (
            "Effect: mean Cliff's delta over tasks, with a nominal 95 % interval for each pair. It "
            "is not corrected for the number of pairs, so it can exclude 0 where p is not "
            "significant."
        )
    best = getattr(several.result, "attainable_pvalue", 0.0)  # plugins may not know it
    if best:
        yield (
            "The smallest possible p with this number of methods, tasks and seeds is "
            f"{at_least(best, context.scores.alpha)} (without ties)."
        )
    yield from _counting(several, context)


def _sign(several: OverTasks) -> str:
    return f"{several.procedure.symbol} and the effect are positive if the second method is better."


def _counting(several: OverTasks, context: ReportContext) -> Iterator[str]:
    """Yield sentences on the tasks that count once or not at all, and notes."""
    for network, tasks in context.scores.shared.items():
        if network in several.tasks:
            counted = context.scores.counted(network)
            how = "by their mean per seed" if len(counted) > 1 else f"by {counted[0]}"
            yield f"{listed(tasks)} have the same network or training rows and count once, {how}."
    if context.scores.diagnostics:
        yield context.scores.diagnostics_remark
    if several.left_out:
        yield f"Left out, because a method has no scores: {listed(several.left_out)}."
    yield from (f"{capital(note)}." for note in several.notes)


def _pairs(several: OverTasks, context: ReportContext) -> Table:
    alpha = context.scores.alpha
    rows = []
    for pair in rows_of(several.pairs):
        limits = f"{signed(pair.effect_low)} to {signed(pair.effect_high)}"
        verdict = f"{pair.better} better" if pair.better else NOT_SIGNIFICANT
        cells = [
            pair.a,
            pair.b,
            signed(pair.statistic),
            Cell(pvalue_only(pair.pvalue, alpha), significant=pair.significant),
            Cell(
                signed(pair.effect_size),
                notes=[] if math.isnan(pair.effect_low) else [limits],
            ),
            Cell(verdict, significant=pair.significant),
        ]
        rows.append(Row(cells, [pair.a, pair.b]))
    numbers = [Column(name, "number") for name in (several.procedure.symbol, "p", "Effect")]
    columns = [Column("First", "method"), Column("Second", "method"), *numbers, Column("Verdict")]
    title = "Pairs of methods over all tasks"
    details = (
        f": {several.procedure.title} over {count(len(several.tasks), 'task')}; bold: "
        f"significant, {context.level}. {_sign(several)}"
    )
    return Table(title, columns, rows, paper=Paper("over-tasks", title, details))


def _ranks(
    result: FriedmanNemenyiResult, several: OverTasks, context: ReportContext
) -> list[Block]:
    scores, alpha = context.scores, context.scores.alpha
    blocks: list[Block] = [Paragraph(_tests(result, context))]
    picture = critical_difference(
        {str(name): float(rank) for name, rank in result.average_ranks.items()},
        [[str(name) for name in clique] for clique in result.cliques()],
        result.critical_difference,
        # A network with two dev sets is one task.
        f"{len(several.tasks)} {'tasks' if scores.shared else scores.noun}",
        context.styles,
    )
    if picture is not None:
        blocks.append(Figure(picture))
    note = (
        "Average ranks, 1 is the best; bars join methods that do not differ significantly. "
        "Differences between ranks above "
        f"{number(result.critical_difference, 2)} are significant. With this number of tasks and "
        f"methods, Nemenyi's test can reach {format_pvalue(result.attainable_pvalue, alpha)} at "
        f"best; {context.level} needs at least {result.tasks_needed} tasks. Its verdict on a pair "
        "depends on the other methods in the comparison (Benavoli, Corani and Mangili 2016)."
    )
    return [*blocks, Paragraph(" ".join([note, *_counting(several, context)]), "note")]


def _tests(several: FriedmanNemenyiResult, context: ReportContext) -> str:
    alpha, tasks = context.scores.alpha, len(several.ranks)
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
        f"Friedman's test over the means of {tasks} tasks: {friedman} ({exact})"
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
    counted = "".join(
        f" {listed(tasks)} count once; the result of {tasks[0]} is used."
        for tasks in context.scores.shared.values()
    )
    note = (
        "Number of tasks with and without a significant difference. Each task is tested "
        f"separately, without a correction for the number of tasks.{counted}"
    )
    return [Table("Wins and losses", columns, rows), Paragraph(note, "note")]
