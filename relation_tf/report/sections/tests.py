"""Section with the details of all tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
)
from relation_tf.report.comparisons import PERMUTATIONS, Comparison, rows_of
from relation_tf.report.context import ReportContext
from relation_tf.report.pictures.drawing import signed
from relation_tf.stats.design import format_pvalue, pvalue_only


@register_section("tests")
class Tests(Section):
    """Test of each task."""

    heading = "Test details"

    def blocks(self, context: ReportContext) -> Sequence[Block]:
        """Return the procedure and the pairs of each task."""
        if not context.comparisons:
            return []
        design = design_sentence(context.scores, context.comparisons)
        return [
            *([Paragraph(design)] if design else []),
            Paragraph([*_procedure(context)]),
            *(_task(task, test, context) for task, test in context.comparisons.items()),
        ]


def _procedure(context: ReportContext) -> Iterator[str | Span]:
    scores = context.scores
    if context.results is not None:
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
        yield "The average is tested like a task, with one value per seed. "
    level, positive = context.level.removeprefix("p < "), "Cliff's delta is"
    if scores.procedure.exact:
        yield (
            "A difference is significant if the asymptotic p and the permutation p are both below "
            f"{level}. The permutation p comes from all permutations of the scores among "
            f"the methods, or from {PERMUTATIONS:,} random ones. "
        )
        positive = f"{scores.procedure.symbol} and Cliff's delta are"
    yield (
        f"{positive} positive if the second method scores higher. Each interval of delta is "
        "nominally a 95 % interval; the intervals are not corrected for their number."
    )
    if not context.pairs_listed:
        yield " There are too many pairs to list here: see "
        yield Span("pvalues.csv", "link", "pvalues.csv")
        yield "."


def _task(task: str, test: Comparison, context: ReportContext) -> Folded:
    alpha, pairs = context.scores.alpha, test.pairs()
    assert test.result.kruskal is not None  # a test of one task has it
    kruskal = format_pvalue(test.result.kruskal.pvalue, alpha)
    attainable = pvalue_only(test.attainable_pvalue, alpha)
    notes = "".join(f" {note}." for note in test.notes())
    needed = f"at least {test.seeds_needed}" if test.seeds_needed else "more than 10,000"
    reach = (
        " The smallest possible p with this number of methods and seeds is "
        f"{attainable} (without ties); {context.level} needs {needed} seeds."
    )
    bound = context.scores.procedure.attainable_pvalue is not None
    note = f"Kruskal-Wallis test, for information: {kruskal}.{reach if bound else ''}{notes}"
    return Folded(
        [Span(task), f": {pairs['significant'].sum()} of {len(pairs)} pairs significant"],
        [*([_pairs(task, test, context)] if context.pairs_listed else []), Paragraph(note, "note")],
        task=task,
    )


def _pairs(task: str, test: Comparison, context: ReportContext) -> Table:
    alpha, procedure = context.scores.alpha, context.scores.procedure
    permutation = ["p, permutation"] if procedure.exact else []
    numbers = ["Seeds", procedure.symbol, "p", *permutation, "Cliff's delta"]
    rows = []
    for pair in rows_of(test.pairs()):
        interval = f"{signed(pair.effect_low)} to {signed(pair.effect_high)}"
        rows.append(
            Row(
                [
                    pair.a,
                    pair.b,
                    f"{pair.n_a}, {pair.n_b}",
                    signed(pair.statistic),
                    Cell(pvalue_only(pair.pvalue, alpha), significant=pair.significant),
                    *([pvalue_only(pair.permutation_pvalue, alpha)] if procedure.exact else []),
                    Cell(signed(pair.effect_size), notes=[interval]),
                    Cell(pair.verdict, significant=pair.significant),
                ],
                [pair.a, pair.b],
            )
        )
    columns = [Column("First"), Column("Second"), *(Column(name, "number") for name in numbers)]
    return Table(f"Tests of {task}", [*columns, Column("Verdict")], rows)
