"""Learning curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from relation_tf.registry import register_section
from relation_tf.report.blocks import Block, Figure, Paragraph, Section
from relation_tf.report.pictures.runs import learning_curves

if TYPE_CHECKING:
    from relation_tf.report.context import ReportContext


@register_section("learning")
class LearningCurves(Section):
    """Validation cost and metric by epoch."""

    heading = "Learning curves"

    def blocks(self, context: ReportContext) -> Sequence[Block]:
        """Return the picture."""
        if context.results is None:
            return []
        picture = learning_curves(context.results, context.look)
        if not picture.panels:
            return []
        note = "A line is a seed; the mark is the epoch whose weights are kept."
        return [Figure(picture, context.look), Paragraph(note, "note")]
