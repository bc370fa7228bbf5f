"""LaTeX tables of a report, with booktabs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from relation_tf.report.blocks import Cell, Paper, Table, inline_cell, within
from relation_tf.report.data import ReportData
from relation_tf.report.text import inline

# Space between columns and width of a line of LaTeX's article (345 points), in widths of a digit:
# 5 points in normal size, 4.25 in small size.
_NORMAL = 2.4, 68.0
_SMALL = 1.4, 80.0
_ROWS = 45  # of a page
_WIDTHS = {  # of characters of Computer Modern, in digits; other capitals 1.5, others 1
    **dict.fromkeys("fijl .,:;'|", 0.6),
    **dict.fromkeys("rst-()", 0.8),
    **dict.fromkeys("mw+±×−=<>∞", 1.6),
}
_BOLD = 1.15
_LATEX = {
    **{each: f"\\{each}" for each in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "`": r"\textasciigrave{}",
    "-": "-{}",  # before another one: no dash
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
    "†": r"\dag{}",
    "∞": r"$\infty$",
}  # fmt: skip
_SPANS = {
    "bold": r"\textbf{{{0}}}",
    "italic": r"\textit{{{0}}}",
    "code": r"\texttt{{{0}}}",
    "superscript": r"\textsuperscript{{{0}}}",
    "deviation": r" {{\footnotesize $\pm$ {0}}}",
}


def latex(data: ReportData) -> str:
    """Return the tables that have a label and caption for papers.

    A table wider than a line of LaTeX's article gets a smaller font, and is split into parts if
    necessary, as is a table longer than a page.
    """
    lines = [
        f"% {escape_latex(data.title)}",
        r"% Tables for a paper; they need \usepackage{booktabs}.",
        f"% {escape_latex(data.scores.stated_directions)}",
    ]
    for blocks in data.blocks.values():
        for block in within(blocks):
            if isinstance(block, Table) and block.paper is not None:
                lines += _table(block, block.paper)
    return "\n".join(lines) + "\n"


def escape_latex(value: Any) -> str:
    r"""Escape text for LaTeX, on one line.

    Example:
        >>> print(escape_latex("50 % of a_b"))
        50 \% of a\_b
    """
    text = " ".join(str(value).split())
    return re.sub(r"[\\&%$#_{}~^<>|±×−–▲▼↑↓†∞`]|-(?=-)", lambda found: _LATEX[found[0]], text)


def _fit(names: Sequence[float], columns: Mapping[int, float]) -> tuple[bool, list[list[int]]]:
    """Distribute columns over parts that fit a line; each part begins with the names.

    Args:
        names: Widths of the columns with names.
        columns: Widths of the other columns.

    Returns:
        True if the table needs a small font, and the columns of each part.
    """
    between, room = _NORMAL
    if sum(width + between for width in (*names, *columns.values())) <= room:
        return False, [[*columns]]
    between, room = _SMALL
    room -= sum(width + between for width in names)
    parts: list[list[int]] = []
    left = 0.0
    for column, width in columns.items():
        if not parts or width + between > left:
            parts.append([])
            left = room
        parts[-1].append(column)
        left -= width + between
    return True, parts


def _table(table: Table, paper: Paper) -> Iterator[str]:
    columns, rows = table.flat()
    widths = [
        max(_width(column.heading), *(_cell_width(row[number]) for row in rows))
        for number, column in enumerate(columns)
    ]
    names = [number for number, column in enumerate(columns) if column.kind != "number"]
    values = {number: widths[number] for number in range(len(columns)) if number not in names}
    small, parts = _fit([widths[number] for number in names], values)
    starts = range(0, max(len(rows), 1), _ROWS)
    for place, (start, part) in enumerate(product(starts, parts or [[]])):
        shown = [*names, *part]
        yield from ("", r"\begin{table}", r"\centering")
        if place:
            yield r"\addtocounter{table}{-1}"  # parts of a table share its number
        caption = inline(paper.caption, escape_latex, _SPANS)
        yield rf"\caption{{{'Continued.' if place else caption}}}"
        if not place:
            yield rf"\label{{tab:{paper.label}}}"
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
    row = rf"{' & '.join(cells)} \\"
    # The command before a row (\\ or \midrule) would read [ or * as its argument.
    return f"{{}}{row}" if row.startswith(("[", "*")) else row


def _cell(cell: Cell) -> str:
    return inline_cell(cell, escape_latex, _SPANS, [cell.paper_note] if cell.paper_note else [])


def _cell_width(cell: Cell) -> float:
    text = _width(cell.text)
    deviation = f" ± {cell.deviation}" if cell.deviation else ""
    note = f" ({cell.paper_note})" if cell.paper_note else ""
    others = _width(f"{cell.mark and cell.mark + ' '}{cell.letters}{deviation}{note}")
    return text * (_BOLD if cell.bold or cell.significant else 1) + others


def _width(text: str) -> float:
    return sum(_WIDTHS.get(each, 1.5 if each.isupper() else 1.0) for each in text)
