"""Every seed as a dot."""

from __future__ import annotations

from collections.abc import Sequence

from relation_tf.registry import register_section
from relation_tf.report.blocks import Block, Section, figure_with_note
from relation_tf.report.context import ReportContext
from relation_tf.report.pictures.runs import score_dots


@register_section("seeds")
class Seeds(Section):
    """The score of every seed."""

    heading = "Every seed"
    notebook = True

    def blocks(self, context: ReportContext) -> Sequence[Block]:
        """Return the picture."""
        scores = context.scores
        points = "Score in points. " if scores.fractions else ""
        points = f"Scores: {scores.times_100}. " if points and scores.points else points
        interval = ", the level one its 95 % t interval" if scores.seeds > 1 else ""
        note = f"{points}A mark is a seed; the upright line is the mean{interval}."
        return figure_with_note(score_dots(scores, context.look), note)
