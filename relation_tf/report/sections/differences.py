"""Sections with p and effect size of each pair of methods on each task."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

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
from relation_tf.report.context import ReportContext
from relation_tf.report.pictures.significance import effect_sizes, pvalue_matrix

_FEW_PAIRS = 10  # more are folded


@register_section("differences")
class Differences(Section):
    """Table of pairs of methods with their p."""

    heading = "Pairwise tests"
    by_family = True

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
        note: list[str | Span] = [
            f"p of {test}. ▲: the first method has better ranks, ▼: worse ranks. ",
            SHADED,
            f": significant, {context.level}. The other pairs do not differ significantly; this is "
            f"no evidence that they are equal.{_intervals(context)}",
        ]
        return [
            pair_table(
                "Table: pairs of methods",
                scores.tasks,
                context.pvalues,
                scores.alpha,
                scores.digits,
                swatches=context.pairs_listed,
                paper=Paper("pairs", [Span("p", "italic"), f" ({context.test})"], details),
            ),
            Paragraph(note, "note"),
            *_pictures(context),
        ]


def _intervals(context: ReportContext) -> str:
    """Describe the intervals in the table; empty if the test has none."""
    found = context.pvalues[["difference_low", "difference_high"]]
    if found.isna().all(axis=None):
        return ""
    confidence = f"{100 * (1 - context.scores.alpha):g} %"
    if np.isinf(found).all(axis=None):
        return f" So few seeds give no finite {confidence} intervals of the differences."
    unit = " in points" if context.scores.fractions == [*context.scores.tasks] else ""
    return (
        f" In small type or parentheses: difference{unit}, second minus first method, with a "
        f"simultaneous {confidence} interval for all pairs of a column. The intervals "
        "(Hodges-Lehmann) assume that scores differ by a shift; they exclude 0 only if the pair "
        "is significant."
    )


def _pictures(context: ReportContext) -> Sequence[Block]:
    scores = context.scores
    tests = {
        task: (result.pvalue, result.effect_size)
        for task, result in context.comparisons.items()
        if result.control is None
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
    by_family = True

    def blocks(self, context: ReportContext) -> Sequence[Block]:
        """Return the figure."""
        columns = {"effect_low": "low", "effect_high": "high"}
        table = context.pvalues[["task", "a", "b", "effect_size", *columns]].rename(columns=columns)
        effects = {task: table[table["task"] == task] for task in context.comparisons}
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
