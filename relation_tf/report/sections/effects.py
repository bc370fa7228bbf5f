"""Effect sizes."""

from __future__ import annotations

from collections.abc import Sequence

from relation_tf.registry import register_section
from relation_tf.report.blocks import Block, Figure, Folded, Paragraph, Section, plural
from relation_tf.report.context import ReportContext
from relation_tf.report.pictures.significance import effect_sizes

_FEW_PAIRS = 10  # more are folded


@register_section("effects")
class Effects(Section):
    """Cliff's delta of each pair."""

    heading = "How large the differences are"

    def blocks(self, context: ReportContext) -> Sequence[Block]:
        """Return the picture."""
        effects = {
            task: comparison.pairs()[["a", "b", "effect_size", "effect_low", "effect_high"]].rename(
                columns={"effect_low": "low", "effect_high": "high"}
            )
            for task, comparison in context.comparisons.items()
        }
        picture = effect_sizes(effects, context.look)
        if picture is None:
            return []
        pairs = len(context.pairs)
        return [
            Folded(
                f"{plural(pairs, 'pair')} of methods, by task",
                [Figure(picture)],
                open=pairs <= _FEW_PAIRS,
            ),
            Paragraph(
                "Cliff's delta of each pair: how much more often a seed of one method scores "
                "higher than one of the other than the reverse, from −1 to 1, with a nominal 95 % "
                "interval, which of few seeds covers somewhat less in unfavourable cases.",
                "note",
            ),
        ]
