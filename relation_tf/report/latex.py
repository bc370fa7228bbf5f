"""LaTeX tables of a report, with booktabs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from relation_tf.report.blocks import Cell, Paper, Table, inline_cell, within
from relation_tf.report.data import ReportData
from relation_tf.report.text import inline

_ROWS = 45  # of a page
_NO_WIDER = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}"
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

    A table wider than a line is shrunk to fit, and one longer than a page is split into parts.
    """
    lines = [
        f"% {escape_latex(data.title)}",
        r"% Tables for a paper; they need \usepackage{booktabs,graphicx}.",
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


def _table(table: Table, paper: Paper) -> Iterator[str]:
    columns, rows = table.flat()
    kinds = "".join("r" if column.kind == "number" else "l" for column in columns)
    for start in range(0, max(len(rows), 1), _ROWS):
        yield from ("", r"\begin{table}", r"\centering")
        if start:
            yield r"\addtocounter{table}{-1}"  # parts of a table share its number
        caption = inline(paper.caption, escape_latex, _SPANS)
        yield rf"\caption{{{'Continued.' if start else caption}}}"
        if not start:
            yield rf"\label{{tab:{paper.label}}}"
        yield rf"{_NO_WIDER}{{\begin{{tabular}}{{{kinds}}}"
        yield r"\toprule"
        yield _line(escape_latex(column.heading) for column in columns)
        yield r"\midrule"
        for row in rows[start : start + _ROWS]:
            yield _line(map(_cell, row))
        yield from (r"\bottomrule", r"\end{tabular}}", r"\end{table}")


def _line(cells: Iterable[str]) -> str:
    row = rf"{' & '.join(cells)} \\"
    # The command before a row (\\ or \midrule) would read [ or * as its argument.
    return f"{{}}{row}" if row.startswith(("[", "*")) else row


def _cell(cell: Cell) -> str:
    return inline_cell(cell, escape_latex, _SPANS, [cell.paper_note] if cell.paper_note else [])
