"""Section with the short answer."""

from __future__ import annotations

from collections.abc import Sequence

from relation_tf.registry import register_section
from relation_tf.report.blocks import Block, Bullets, Paragraph, Section, Span, plural
from relation_tf.report.context import ReportContext
from relation_tf.report.runs import scored_on


@register_section("answer")
class Answer(Section):
    """Sentences that summarize the tests."""

    heading = "Short answer"
    notebook = True

    def blocks(self, context: ReportContext) -> Sequence[Block]:
        """Return the sentences and the number of warnings."""
        blocks: list[Block] = [Bullets(context.answer, "answer")]
        if context.results is not None and (worth := scored_on(context.results)):
            blocks.append(Paragraph(worth, "note"))
        things = len(context.warnings) + len(context.failures)
        if things:
            what = "scores" if context.results is None else "runs"
            text = f"{plural(things, 'warning')} about these {what}: see "
            link = Span("Warnings and provenance", "section", "made")
            blocks.append(Paragraph([text, link, "."], "warning"))
        return blocks
