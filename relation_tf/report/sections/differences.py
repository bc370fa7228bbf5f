"""Sections with p and effect size of each pair of methods on each task."""

from __future__ import annotations

from collections.abc import Sequence

from relation_tf.registry import register_section
from relation_tf.report.blocks import (
    SHADED,
    Block,
    Figure,
    Folded,
    Paper,
    Paragraph,
    Section,
    Span,
    figure_with_note,
    pair_table,
    plural,
)
from relation_tf.report.comparisons import shown_pvalues
from relation_tf.report.context import ReportContext
from relation_tf.report.pictures.significance import effect_sizes, pvalue_matrix

_FEW_PAIRS = 10  # more are folded


@register_section("differences")
class Differences(Section):
    """Table of pairs of methods with their p."""

    heading = "Pairwise tests"

    def blocks(self, context: ReportContext) -> Sequence[Block]:
        """Return the table of p, with figures if all pairs are tested."""
        if not context.num_pairs:
            return []
        no_evidence = (
            "does not differ significantly, which is no evidence that the methods are equal"
        )
        details = (
            f". ▲: the first method is better, ▼: worse. Bold: {context.level}. A pair that is not "
            f"bold {no_evidence}."
        )
        scores = context.scores
        what = "all pairs within a column"
        if scores.control is not None:
            what = f"each method of a column against {scores.control}"
        test = f"{scores.procedure.title}, {what}"
        asymptotic = ". If only the asymptotic p is below the level, the permutation p is shown"
        note: list[str | Span] = [
            f"p of {test}. ▲: the first method has better ranks, ▼: worse ranks. ",
            SHADED,
            f": significant, {context.level}{asymptotic if scores.procedure.exact else ''}. "
            "The other pairs do not differ significantly; this is no evidence that they are equal.",
        ]
        return [
            pair_table(
                "Table: pairs of methods",
                scores.tasks,
                context.pvalues,
                scores.alpha,
                swatches=context.pairs_listed,
                paper=Paper("pairs", [Span("p", "italic"), f" ({context.test})"], details),
            ),
            Paragraph(note, "note"),
            *_pictures(context),
        ]


def _pictures(context: ReportContext) -> Sequence[Block]:
    scores = context.scores
    tests = {
        task: (
            shown_pvalues(comparison.result.pvalue, comparison.permutation.pvalue, scores.alpha),
            comparison.result.effect_size,
        )
        for task, comparison in context.comparisons.items()
        if comparison.result.control is None
    }
    picture = pvalue_matrix(tests, scores.methods, scores.alpha, scores.lower_is_better)
    note = (
        "Each name is at the end of its row and above its column. A mark points to the better "
        "method of a pair; shaded cells are significant."
    )
    blocks = figure_with_note(picture, note)
    return [Folded("The same p as figures, one per task", blocks)] if blocks else []


@register_section("effects")
class Effects(Section):
    """Cliff's delta of each pair."""

    heading = "Effect sizes"

    def blocks(self, context: ReportContext) -> Sequence[Block]:
        """Return the figure."""
        effects = {
            task: comparison.pairs()[["a", "b", "effect_size", "effect_low", "effect_high"]].rename(
                columns={"effect_low": "low", "effect_high": "high"}
            )
            for task, comparison in context.comparisons.items()
        }
        picture = effect_sizes(effects, context.look)
        if picture is None:
            return []
        return [
            Folded(
                f"{plural(context.num_pairs, 'pair')} of methods, by task",
                [Figure(picture)],
                open=context.num_pairs <= _FEW_PAIRS,
            ),
            Paragraph(
                "Cliff's delta of each pair, from −1 to 1: the probability that a seed of one "
                "method scores higher than a seed of the other, minus the reverse probability. "
                "Intervals are nominally 95 %; with few seeds the coverage can be lower.",
                "note",
            ),
        ]
