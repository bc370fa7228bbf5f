"""Learning curves."""

from __future__ import annotations

from collections.abc import Sequence

from relation_tf.registry import register_section
from relation_tf.report.blocks import Block, Section, figure_with_note
from relation_tf.report.context import ReportContext
from relation_tf.report.pictures.runs import learning_curves


@register_section("learning")
class LearningCurves(Section):
    """Validation cost and metric by epoch."""

    heading = "Learning curves"

    def blocks(self, context: ReportContext) -> Sequence[Block]:
        """Return the picture."""
        if context.results is None:
            return []
        note = "A line is a seed; the mark is the epoch whose weights are kept."
        picture = learning_curves(context.results, context.look)
        return figure_with_note(picture, note, context.look)
