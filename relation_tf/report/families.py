"""Blocks of a section that is repeated for each family of methods."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from relation_tf.report.blocks import Block, Figure, Folded, Table
from relation_tf.report.text import in_markup


def of_family(blocks: Sequence[Block], family: str) -> list[Block]:
    """Return blocks with names of figures and labels of tables that are unique to a family.

    Args:
        blocks: The blocks.
        family: Name of the family; empty if there is only one.
    """
    slug = re.sub(r"[^a-z0-9]+", "-", family.lower()).strip("-")

    def own(block: Block) -> Block:
        if isinstance(block, Folded):
            return replace(block, blocks=[own(each) for each in block.blocks])
        if isinstance(block, Figure):
            return replace(
                block, picture=replace(block.picture, name=f"{block.picture.name}-{slug}")
            )
        if isinstance(block, Table):
            paper = block.paper and replace(
                block.paper,
                label=f"{block.paper.label}-{slug}",
                caption=f"{block.paper.caption.rstrip('.')} ({in_markup(family)}).",
            )
            return replace(block, label=f"{block.label}, {family}", paper=paper)
        return block

    return [own(block) for block in blocks] if family else [*blocks]
