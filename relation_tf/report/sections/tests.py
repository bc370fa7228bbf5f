"""Section with the details of the test of each task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from relation_tf.registry import register_section
from relation_tf.report.answer import design_sentence
from relation_tf.report.blocks import (
    Block,
    Cell,
    Column,
    Row,
    Section,
    Table,
    blocks,
    with_interval,
)
from relation_tf.report.comparison import Comparison
from relation_tf.report.comparisons import rows_of
from relation_tf.report.limits import MOST_ITEMS
from relation_tf.stats.permutation import MAX_ARRANGEMENTS, PERMUTATIONS
from relation_tf.words import pvalue_only, signed


@register_section("tests")
class Tests(Section):
    """Test of each task."""

    heading = "Test details"
    by_family = True

    def blocks(self, part: Comparison) -> Sequence[Block]:
        """Return the procedure and the pairs of each task."""
        if not part.tests:
            return []
        pairs = dict(iter(part.pvalues.groupby("task", sort=False)))
        nulls = [test.null for test in part.tests.values() if test.null is not None]
        drawn = {null.permutations for null in nulls if null.method == "monte-carlo"}
        return blocks(
            "tests.jinja",
            part=part,
            scores=part.scores,
            design=design_sentence(part.scores, part.tests),
            declared=_declared(part),
            permutations=bool(part.pvalues["asymptotic_pvalue"].notna().any()),
            most_arrangements=MAX_ARRANGEMENTS,
            drawn=sorted(drawn or {PERMUTATIONS}),
            bound=part.scores.procedure.attainable_pvalue is not None,
            most=MOST_ITEMS,
            tables={
                str(task): _pairs(str(task), own, part) if part.pairs_listed else None
                for task, own in [*pairs.items()][:MOST_ITEMS]
            },
            significant={task: int(own["significant"].sum()) for task, own in pairs.items()},
            pairs={task: len(own) for task, own in pairs.items()},
        )


def _declared(part: Comparison) -> bool:
    """Return True if all suites declare the test, and no option of a comparison changed it."""
    results = part.results
    if results is None or part.report.test_changed:
        return False
    used = results.suite.test, results.suite.control
    suites = [each.suite for each in results.parts or [results]]
    return any(used) and all((suite.test, suite.control) == used for suite in suites)


def _pairs(task: str, pairs: pd.DataFrame, part: Comparison) -> Table:
    scores = part.scores
    columns: Mapping[str, tuple[str, Callable[[Any], Cell | str]]] = {
        "Seeds": ("n_a", lambda pair: f"{pair.n_a}, {pair.n_b}"),
        scores.procedure.symbol: ("a", lambda pair: signed(pair.statistic)),
        "p": (
            "pvalue",
            lambda pair: Cell(pvalue_only(pair.pvalue, scores.alpha), significant=pair.significant),
        ),
        "p, asymptotic": (
            "asymptotic_pvalue",
            lambda pair: pvalue_only(pair.asymptotic_pvalue, scores.alpha),
        ),
        "Difference": (
            "difference",
            lambda pair: with_interval(
                pair.difference, pair.difference_low, pair.difference_high, scores.digits(task)
            ),
        ),
        "Cliff's delta": (
            "effect_size",
            lambda pair: with_interval(pair.effect_size, pair.effect_low, pair.effect_high),
        ),
    }
    shown = {name: show for name, (own, show) in columns.items() if pairs[own].notna().any()}
    rows = [
        Row(
            [
                *(pair.a, pair.b),
                *(show(pair) for show in shown.values()),
                Cell(pair.verdict, significant=pair.significant),
            ],
            [pair.a, pair.b],
        )
        for pair in rows_of(pairs)
    ]
    heads = [Column("First"), Column("Second"), *(Column(name, "number") for name in shown)]
    return Table(f"Tests of {task}", [*heads, Column("Verdict")], rows)
