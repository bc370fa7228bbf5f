"""Section with p and difference of each pair of methods on each task."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from relation_tf.registry import register_section
from relation_tf.report.answer import cautions
from relation_tf.report.blocks import (
    SHADED,
    Block,
    Bullets,
    Paper,
    Paragraph,
    Section,
    Span,
    figure_with_note,
    file_links,
    pair_table,
)
from relation_tf.report.context import ReportContext
from relation_tf.report.limits import MOST_PANELS, most_significant
from relation_tf.report.pictures.significance import differences
from relation_tf.stats import WelchResult
from relation_tf.words import first_of, listed


@register_section("differences")
class Differences(Section):
    """Table of pairs of methods with their p."""

    heading = "Pairwise tests"
    by_family = True

    def blocks(self, context: ReportContext) -> Sequence[Block]:
        """Return the table of p and the figure of the differences."""
        if not context.num_pairs:
            return []
        scores = context.scores
        lower = ""
        if scores.lower_is_better:
            lower = f" (better for {listed(sorted(scores.lower_is_better))})"
        details = f"; bold: {context.level}. ▲: the second method scores higher, ▼: lower{lower}."
        caption: list[str | Span] = [
            Span("p", "italic"),
            f" of each pair of methods ({context.test})",
        ]
        what = "all pairs of a column"
        if scores.control is not None:
            what = f"each method of a column against {scores.control}"
        test = f"{scores.procedure.title}, {what}"
        note: list[str | Span] = [
            f"p: {test}. ▲: the second method has higher scores (by {_measure(context)}), "
            "▼: lower. ",
            SHADED,
            f": significant, {context.level}. The other pairs do not differ significantly; this is "
            f"no evidence that they are equal.{_intervals(context)}",
        ]
        remarks = [*cautions(scores, context.comparisons)]
        most, which = most_significant(context.pvalues)
        if which:
            details += f" Shown: {which}."
            note = [f"Shown: {which}. All are in ", *file_links(["pvalues"]), " ", *note]
        return [
            pair_table(
                "Table: pairs of methods",
                scores.tasks,
                most,
                scores.alpha,
                scores.digits,
                swatches=context.pairs_listed,
                paper=Paper("pairs", caption, details),
                heading=scores.with_arrow,
            ),
            Paragraph(note, "note"),
            *([Bullets(remarks)] if remarks else []),
            *_figure(context),
        ]


def _measure(context: ReportContext) -> str:
    """Return what decides which method is ahead."""
    results = context.comparisons.values()
    return "means" if any(isinstance(found, WelchResult) for found in results) else "ranks"


def _intervals(context: ReportContext) -> str:
    """Describe the intervals in the table; empty if the test has none."""
    found = context.pvalues[["difference_low", "difference_high"]]
    estimand = next(iter(context.comparisons.values())).estimand
    if estimand is None:
        return ""
    confidence = f"{100 * (1 - context.scores.alpha):g} %"
    if np.isinf(found).all(axis=None):
        return f" So few seeds give no finite {confidence} intervals of the differences."
    return (
        f" After p: the {estimand.name}{context.scores.in_unit}, second minus first method, with "
        f"its {confidence} interval, simultaneous for all pairs of a column. An interval excludes "
        f"0 only if the pair is significant. {estimand.assumption}{context.scores.direction_remark}"
    )


def _figure(context: ReportContext) -> Sequence[Block]:
    """Return the differences of all pairs as a figure; nothing if the test has no differences."""
    table = context.pvalues.rename(columns={"difference_low": "low", "difference_high": "high"})
    by_task = dict(iter(table.groupby("task", sort=False)))
    tasks = [*context.comparisons][:MOST_PANELS]
    picture = differences(
        {task: by_task[task] for task in tasks},
        context.styles,
        unit=context.scores.unit,
        digits={task: context.scores.digits(task) for task in tasks},
    )
    note = "The same differences as a figure, in the unit of the table of scores."
    if len(tasks) < len(context.comparisons):
        shown = first_of(len(tasks), len(context.comparisons), "tasks")
        note += f" Shown: {shown}. All are in pvalues.csv."
    return figure_with_note(picture, note)
