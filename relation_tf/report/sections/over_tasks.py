"""Section with the tests over several tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from relation_tf.registry import register_section
from relation_tf.report.blocks import (
    Block,
    Cell,
    Column,
    Paper,
    Row,
    Section,
    Table,
    blocks,
    with_interval,
)
from relation_tf.report.comparison import Comparison
from relation_tf.report.comparisons import rows_of, winners
from relation_tf.report.over_tasks import OverTasks, lacks_methods
from relation_tf.report.pictures.drawing import Picture
from relation_tf.report.pictures.significance import critical_difference
from relation_tf.report.text import render
from relation_tf.stats import FriedmanNemenyiResult, SignedRankResult, StratifiedResult
from relation_tf.stats.comparisons import NOT_SIGNIFICANT
from relation_tf.stats.over_tasks import FEW_TASKS
from relation_tf.words import at_least, pvalue_only, signed


@register_section("several")
class OverTasksSection(Section):
    """Test of all tasks together, and the number of tasks each method wins."""

    heading = "Tests over several tasks"
    by_family = True

    def blocks(self, part: Comparison) -> Sequence[Block]:
        """Return the test with its pairs or average ranks, and the table of wins."""
        several, scores = part.over_tasks, part.scores
        wins = None if part.wins is None else _wins(part, part.wins)
        too_few = not scores.timed and lacks_methods(scores)
        if several is None and wins is None and not too_few:
            return []
        values: dict[str, Any] = {"part": part, "scores": scores, "several": several}
        if several is not None:
            values |= _values(several, part)
            if not isinstance(several.result, FriedmanNemenyiResult) and part.pairs_listed:
                values["table"] = _pairs(several, part)
        return blocks("over-tasks.jinja", wins=wins, too_few=too_few, **values)


def _values(several: OverTasks, part: Comparison) -> dict[str, Any]:
    """Return what the text states about a test."""
    result, scores = several.result, part.scores
    best = getattr(result, "attainable_pvalue", 0.0)  # plugins may not know it
    kinds = {
        "stratified": isinstance(result, StratifiedResult),
        "signed_rank": isinstance(result, SignedRankResult),
        "ranks": isinstance(result, FriedmanNemenyiResult),
    }
    own: dict[str, Any] = {"best": at_least(best, scores.alpha) if best else ""}
    if kinds["stratified"]:
        own["drawn"] = result.null.permutations if result.method == "monte-carlo" else None
    if kinds["ranks"]:
        own |= {
            "picture": _critical_difference(result, several, part),
            "few_tasks": len(result.ranks) < FEW_TASKS,
            "better": winners(result.pairs()),
        }
    counted = {
        network: (tasks, scores.counted(network))
        for network, tasks in scores.shared.items()
        if network in several.tasks
    }
    return {"result": result, "counted": counted, "table": None, **kinds, **own}


def _critical_difference(
    result: FriedmanNemenyiResult, several: OverTasks, part: Comparison
) -> Picture | None:
    return critical_difference(
        {str(name): float(rank) for name, rank in result.average_ranks.items()},
        [[str(name) for name in clique] for clique in result.cliques()],
        result.critical_difference,
        # A network with two dev sets is one task.
        f"{len(several.tasks)} {'tasks' if part.scores.shared else part.scores.noun}",
        part.report.styles,
    )


def _pairs(several: OverTasks, part: Comparison) -> Table:
    rows = []
    for pair in rows_of(several.pairs):
        verdict = f"{pair.better} better" if pair.better else NOT_SIGNIFICANT
        p = Cell(pvalue_only(pair.pvalue, part.scores.alpha), significant=pair.significant)
        effect = with_interval(pair.effect_size, pair.effect_low, pair.effect_high)
        found = Cell(verdict, significant=pair.significant)
        cells = [pair.a, pair.b, signed(pair.statistic), p, effect, found]
        rows.append(Row(cells, [pair.a, pair.b]))
    numbers = [Column(name, "number") for name in (several.procedure.symbol, "p", "Effect")]
    columns = [Column("First", "method"), Column("Second", "method"), *numbers, Column("Verdict")]
    paper = Paper("over-tasks", render("over-tasks-caption.jinja", several=several, part=part))
    return Table("Pairs of methods over all tasks", columns, rows, paper=paper)


def _wins(part: Comparison, wins: pd.DataFrame) -> Table:
    head: Any = "method" if part.pairs_listed else "head"
    columns = [Column("First", head), Column("Second", head)]
    columns += [
        Column(name, "number") for name in ("First better", "Not significant", "First worse")
    ]
    rows = [
        Row([row.a, row.b, str(row.wins), str(row.ties), str(row.losses)], [row.a, row.b])
        for row in rows_of(wins)
    ]
    return Table("Wins and losses", columns, rows)
