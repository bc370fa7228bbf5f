"""Section with the details of all tests."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pandas as pd

from relation_tf.registry import register_section
from relation_tf.report.answer import design_sentence
from relation_tf.report.blocks import (
    Block,
    Cell,
    Column,
    Folded,
    Paragraph,
    Row,
    Section,
    Span,
    Table,
    file_links,
)
from relation_tf.report.comparisons import rows_of
from relation_tf.report.context import ReportContext
from relation_tf.report.limits import MOST_ITEMS
from relation_tf.stats import PairwiseResult
from relation_tf.stats.null_distribution import PERMUTATIONS
from relation_tf.stats.pairwise import MAX_ARRANGEMENTS
from relation_tf.words import count, first_of, format_pvalue, pvalue_only, signed


@register_section("tests")
class Tests(Section):
    """Test of each task."""

    heading = "Test details"
    by_family = True

    def blocks(self, context: ReportContext) -> Sequence[Block]:
        """Return the procedure and the pairs of each task."""
        if not context.comparisons:
            return []
        design = design_sentence(context.scores, context.comparisons)
        return [
            *([Paragraph(design)] if design else []),
            Paragraph([*_procedure(context)]),
            *_tasks(context),
        ]


def _procedure(context: ReportContext) -> Iterator[str | Span]:
    scores = context.scores
    if _declared(context):
        yield "The test was fixed before the runs: "
    yield context.test
    yield (
        ", all pairs of methods"
        if scores.control is None
        else ", a control that must be declared before the runs"
    )
    yield (
        f", two-sided, α = {scores.alpha}. Each task is tested separately, without a correction "
        "for the number of tasks; seeds are never pooled over tasks. "
    )
    if scores.averages:
        yield (
            "The average is tested like a task: its value for a seed is the mean over the tasks' "
            "runs with this seed. These runs are independent, so grouping them by seed is "
            "arbitrary. The test over tasks does not group them. "
        )
    positive = "Cliff's delta is"
    if context.pvalues["asymptotic_pvalue"].notna().any():
        yield (
            "p comes from all permutations of the scores among the methods if there are at most "
            f"{MAX_ARRANGEMENTS:,} of them, else from {_random(context)} random ones. "
            "The asymptotic p is for comparison with published work only. "
        )
        positive = f"{scores.procedure.symbol}, the difference and Cliff's delta are"
    yield (
        f"{positive} positive if the second method scores higher. Intervals of Cliff's delta are "
        "nominal 95 % intervals without correction for multiple comparisons, so they can exclude 0 "
        f"when p is not significant.{scores.direction_remark}"
    )
    if not context.pairs_listed:
        yield " There are too many pairs to list here: see "
        yield Span("pvalues.csv", "link", "pvalues.csv")
        yield "."


def _declared(context: ReportContext) -> bool:
    """Return True if all suites declare the test, and no option of a comparison changed it."""
    results = context.results
    if results is None or context.test_changed:
        return False
    used = results.suite.test, results.suite.control
    suites = [each.suite for each in results.parts or [results]]
    return any(used) and all((suite.test, suite.control) == used for suite in suites)


def _random(context: ReportContext) -> str:
    """Return the number of random permutations; designs of tasks can differ."""
    nulls = [test.null for test in context.comparisons.values() if test.null is not None]
    used = {null.permutations for null in nulls if null.method == "monte-carlo"} or {PERMUTATIONS}
    fewest, most = min(used), max(used)
    return f"{most:,}" if fewest == most else f"{fewest:,} to {most:,}"


def _tasks(context: ReportContext) -> Iterator[Block]:
    """Yield the details of each task; of very many, those of the first."""
    pairs = dict(iter(context.pvalues.groupby("task", sort=False)))
    for task, test in [*context.comparisons.items()][:MOST_ITEMS]:
        yield _task(task, test, pairs[task], context)
    if len(context.comparisons) > MOST_ITEMS:
        shown = first_of(MOST_ITEMS, len(context.comparisons), "tasks")
        yield Paragraph([f"Shown: {shown}. All are in ", *file_links(["pvalues"])], "note")


def _task(task: str, test: PairwiseResult, pairs: pd.DataFrame, context: ReportContext) -> Folded:
    alpha = context.scores.alpha
    assert test.kruskal is not None  # a test of one task has it
    kruskal = format_pvalue(test.kruskal.pvalue, alpha)
    attainable = pvalue_only(test.attainable_pvalue, alpha)
    notes = "".join(f" {note}." for note in test.notes)
    needed = f"at least {test.seeds_needed}" if test.seeds_needed else "more than 10,000"
    reach = (
        " The smallest possible p with this number of methods and seeds is "
        f"{attainable} (without ties); {context.level} needs {needed} seeds."
    )
    bound = context.scores.procedure.attainable_pvalue is not None
    note = f"Kruskal-Wallis test, for information: {kruskal}.{reach if bound else ''}{notes}"
    return Folded(
        [Span(task), f": {pairs['significant'].sum()} of {count(len(pairs), 'pair')} significant"],
        [
            *([_pairs(task, pairs, context)] if context.pairs_listed else []),
            Paragraph(note, "note"),
        ],
        task=task,
    )


def _pairs(task: str, pairs: pd.DataFrame, context: ReportContext) -> Table:
    scores = context.scores
    columns: dict[str, Callable[[Any], Cell | str]] = {
        "Seeds": lambda pair: f"{pair.n_a}, {pair.n_b}",
        scores.procedure.symbol: lambda pair: signed(pair.statistic),
        "p": lambda pair: Cell(
            pvalue_only(pair.pvalue, scores.alpha), significant=pair.significant
        ),
        "p, asymptotic": lambda pair: pvalue_only(pair.asymptotic_pvalue, scores.alpha),
        "Difference": lambda pair: _with_interval(
            pair.difference, pair.difference_low, pair.difference_high, scores.digits(task)
        ),
        "Cliff's delta": lambda pair: _with_interval(
            pair.effect_size, pair.effect_low, pair.effect_high, 2
        ),
    }
    empty = {"p, asymptotic": "asymptotic_pvalue", "Difference": "difference"}
    for heading, values in empty.items():
        if pairs[values].isna().all():
            del columns[heading]
    rows = [
        Row(
            [
                *(pair.a, pair.b),
                *(cell(pair) for cell in columns.values()),
                Cell(pair.verdict, significant=pair.significant),
            ],
            [pair.a, pair.b],
        )
        for pair in rows_of(pairs)
    ]
    heads = [Column("First"), Column("Second"), *(Column(name, "number") for name in columns)]
    return Table(f"Tests of {task}", [*heads, Column("Verdict")], rows)


def _with_interval(value: float, low: float, high: float, digits: int) -> Cell:
    limits = f"{signed(low, digits)} to {signed(high, digits)}"
    return Cell(signed(value, digits), notes=[] if math.isnan(low) else [limits])
