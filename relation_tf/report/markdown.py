"""Markdown of a report."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from relation_tf.report.blocks import (
    Block,
    Bullets,
    Cell,
    Code,
    Facts,
    Figure,
    Folded,
    Heading,
    Paragraph,
    Table,
    inline_cell,
)
from relation_tf.report.data import ReportData
from relation_tf.report.text import inline

_SPANS = {
    "bold": "**{0}**",
    "italic": "*{0}*",
    "superscript": "<sup>{0}</sup>",
    "link": "[{0}]({1})",
    "code": "`{0}`",
    "deviation": " ± {0}",
}


def markdown(data: ReportData) -> str:
    """Return Markdown with links to `figures/`."""
    parts = [f"# {escape_markdown(data.title)}"]
    for text in (data.question, data.scores.stated_directions):
        parts += [escape_markdown(text)] if text else []
    for name, blocks in data.blocks.items():
        heading = escape_markdown(data.sections[name].heading)
        parts += [f"## {heading}", *_blocks(blocks)]
    return "\n\n".join(parts) + "\n"


def escape_markdown(value: Any) -> str:
    r"""Escape text for Markdown, on one line and within a table cell.

    Example:
        >>> print(escape_markdown("a|b *c*"))
        a\|b \*c\*
    """
    text = re.sub(r"([\\`*_\[\]<>|#~$]|&(?=#?\w+;))", r"\\\1", " ".join(str(value).split()))
    return re.sub(r"^(\d+(?=[.)])|(?=[-+]))(.)(?=\s|$)", r"\1\\\2", text)  # no list


def _blocks(blocks: Sequence[Block]) -> Iterator[str]:
    for block in blocks:
        if isinstance(block, Paragraph):
            text = _inline(block.text)
            yield f"**{text}**" if block.style == "warning" else text
        elif isinstance(block, Heading):
            yield f"### {_inline(block.text)}"
        elif isinstance(block, Bullets):
            bold = "**" if block.style == "warning" else ""
            yield "\n".join(f"- {bold}{_inline(item)}{bold}" for item in block.items)
        elif isinstance(block, Facts):
            yield "\n".join(
                f"- {escape_markdown(name)}: {escape_markdown('; '.join(values))}"
                for name, values in block.pairs()
            )
        elif isinstance(block, Code):
            fence = "`" * max(3, 1 + max(map(len, re.findall("`+", block.text)), default=0))
            yield f"{fence}toml\n{block.text.strip()}\n{fence}"
        elif isinstance(block, Figure):
            picture = block.picture
            yield f"![{escape_markdown(picture.alt)}](figures/{picture.name}.svg)"
        elif isinstance(block, Table):
            yield _table(block)
        elif isinstance(block, Folded):
            yield f"### {inline(block.summary, escape_markdown, {})}"
            yield from _blocks(block.blocks)


def _table(table: Table) -> str:
    columns, rows = table.flat()
    heads = [escape_markdown(column.heading) for column in columns]
    rules = ["---:" if column.kind == "number" else "---" for column in columns]
    lines = [heads, rules, *([_cell(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(cell: Cell) -> str:
    return inline_cell(cell, escape_markdown, _SPANS, cell.notes)


def _inline(text: str) -> str:
    # Links to sections of the page have no target here.
    return re.sub(r"\[([^]]*)\]\(#\w+\)", r"\1", inline(text, escape_markdown, _SPANS, str))
