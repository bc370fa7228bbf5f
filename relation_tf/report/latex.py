"""LaTeX tables of a report, with booktabs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from relation_tf.report.blocks import Cell, Paper, Table, inline, inline_cell, spans, within
from relation_tf.report.context import ReportContext

# Space between columns and width of a line of LaTeX's article (345 points), in widths of a digit:
# 5 points in normal size, 4.25 in small size.
_NORMAL = 2.4, 64.0
_SMALL = 1.4, 74.0
_ROWS = 45  # of a page
_LATEX = {
    **{each: f"\\{each}" for each in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "−": "$-$",
    "–": "--",
    "▲": r"$\uparrow$",
    "▼": r"$\downarrow$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
}  # fmt: skip
_SPANS = {
    "bold": r"\textbf{{{0}}}",
    "italic": r"\textit{{{0}}}",
    "code": r"\texttt{{{0}}}",
    "superscript": r"\textsuperscript{{{0}}}",
    "shaded": "Bold",
    "deviation": r" {{\footnotesize $\pm$ {0}}}",
}


def latex(context: ReportContext) -> str:
    """Return the tables that have a label and caption for papers.

    A table wider than a line of LaTeX's article gets a smaller font, and is split into parts if
    necessary, as is a table longer than a page.
    """
    slug = re.sub(r"[^a-z0-9]+", "-", context.title.lower()).strip("-") or "report"
    lines = [
        f"% {escape_latex(context.title)}",
        r"% Tables for a paper; they need \usepackage{booktabs}.",
    ]
    for blocks in context.blocks.values():
        for block in within(blocks):
            if isinstance(block, Table) and block.paper is not None:
                lines += _table(block, block.paper, slug)
    return "\n".join(lines) + "\n"


def escape_latex(value: Any) -> str:
    r"""Escape text for LaTeX, on one line.

    Example:
        >>> print(escape_latex("50 % of a_b"))
        50 \% of a\_b
    """
    text = " ".join(str(value).split())
    return re.sub(r"[\\&%$#_{}~^<>|±×−–▲▼↑↓]", lambda found: _LATEX[found[0]], text)


def _fit(
    names: Sequence[Sequence[str]], columns: Mapping[int, Sequence[str]]
) -> tuple[bool, list[list[int]]]:
    """Distribute columns over parts that fit a line; each part begins with the names.

    Returns:
        True if the table needs a small font, and the columns of each part.
    """

    def width(texts: Sequence[str], between: float) -> float:
        return max(map(len, texts)) + between

    between, room = _NORMAL
    if sum(width(texts, between) for texts in (*names, *columns.values())) <= room:
        return False, [[*columns]]
    between, room = _SMALL
    room -= sum(width(texts, between) for texts in names)
    parts: list[list[int]] = []
    left = 0.0
    for column, texts in columns.items():
        if not parts or width(texts, between) > left:
            parts.append([])
            left = room
        parts[-1].append(column)
        left -= width(texts, between)
    return True, parts


def _table(table: Table, paper: Paper, slug: str) -> Iterator[str]:
    columns, rows = table.flat()
    texts = [
        [column.heading, *(_plain(row[number]) for row in rows)]
        for number, column in enumerate(columns)
    ]
    names = [number for number, column in enumerate(columns) if column.kind != "number"]
    values = {number: texts[number] for number in range(len(columns)) if number not in names}
    small, parts = _fit([texts[number] for number in names], values)
    starts = range(0, max(len(rows), 1), _ROWS)
    for place, (start, part) in enumerate(product(starts, parts or [[]])):
        shown = [*names, *part]
        yield from ("", r"\begin{table}", r"\centering")
        caption = [*spans(paper.caption), " (continued)." if place else paper.details]
        yield rf"\caption{{{inline(caption, escape_latex, _SPANS)}}}"
        if not place:
            yield rf"\label{{tab:{slug}-{paper.label}}}"
        if small:
            yield r"\footnotesize\setlength{\tabcolsep}{3pt}"
        yield rf"\begin{{tabular}}{{{'l' * len(names)}{'r' * len(part)}}}"
        yield r"\toprule"
        yield _line(escape_latex(columns[number].heading) for number in shown)
        yield r"\midrule"
        for row in rows[start : start + _ROWS]:
            yield _line(_cell(row[number]) for number in shown)
        yield from (r"\bottomrule", r"\end{tabular}", r"\end{table}")


def _line(cells: Iterable[str]) -> str:
    return rf"{' & '.join(cells)} \\"


def _cell(cell: Cell) -> str:
    return inline_cell(cell, escape_latex, _SPANS, [cell.paper_note] if cell.paper_note else [])


def _plain(cell: Cell) -> str:
    """Return text of about the width of a cell."""
    note = f" ({cell.paper_note})" if cell.paper_note else ""
    return f"{cell.mark} {cell.in_words()}{cell.letters}{note}".strip()
