"""A report as HTML, Markdown, LaTeX, and in a terminal."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib import resources
from typing import Any

import pandas as pd
from markupsafe import Markup, escape

from relation_tf.files import align, align_within
from relation_tf.report.blocks import (
    Block,
    Bullets,
    Cell,
    Code,
    Column,
    Facts,
    Figure,
    Folded,
    Heading,
    Paper,
    Paragraph,
    Sentences,
    Table,
    inline_cell,
    within,
)
from relation_tf.report.data import ReportData
from relation_tf.report.drawing import Picture, swatch
from relation_tf.report.sections.answer import standings
from relation_tf.report.sections.verdicts import verdict_table
from relation_tf.report.text import escape_latex, inline, templates
from relation_tf.words import first_of, number

_IN_HTML = {
    "bold": "<b>{0}</b>",
    "italic": "<i>{0}</i>",
    "code": "<code>{0}</code>",
    "superscript": "<sup>{0}</sup>",
    "link": '<a href="{1}">{0}</a>',
}


def page(data: ReportData) -> str:
    """Return a self-contained HTML page."""
    files = ["report.md", "report.tex", "report.json", *(f"{name}.csv" for name in data.tables)]
    return _render("page.html.jinja", data, files=files)


def notebook(data: ReportData) -> str:
    """Return the short answer, the scores and the figure of all seeds."""
    blocks = [
        block
        for name, section_blocks in data.blocks.items()
        if data.sections[name].notebook
        for block in section_blocks
        # Links to other sections would not work.
        if not (isinstance(block, Paragraph) and "](#" in block.text)
    ]
    return _render("notebook.html.jinja", data, blocks=blocks)


def _render(template: str, data: ReportData, **values: Any) -> str:
    environment = templates(trim_blocks=True, keep_trailing_newline=True)
    environment.filters["inline"] = lambda text: Markup(inline(text, escape, _IN_HTML))
    environment.filters["swatch"] = swatch
    environment.globals["swatches"] = {name: swatch(style) for name, style in data.styles.items()}
    return environment.get_template(template).render(data=data, **values)


_IN_MARKDOWN = {
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
            text = _inline_markdown(block.text)
            yield f"**{text}**" if block.style == "warning" else text
        elif isinstance(block, Sentences):
            bold, point = "**" if block.style == "warning" else "", "- " if block.listed else ""
            yield "\n".join(f"{point}{bold}{_inline_markdown(x)}{bold}" for x in block.texts)
        elif isinstance(block, Heading):
            yield f"### {_inline_markdown(block.text)}"
        elif isinstance(block, Bullets):
            bold = "**" if block.style == "warning" else ""
            yield "\n".join(f"- {bold}{_inline_markdown(item)}{bold}" for item in block.items)
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
            yield _table_in_markdown(block)
        elif isinstance(block, Folded):
            yield f"### {inline(block.summary, escape_markdown, {})}"
            yield from _blocks(block.blocks)


def _table_in_markdown(table: Table) -> str:
    columns, rows = table.flat()
    heads = [escape_markdown(column.heading) for column in columns]
    rules = ["---:" if column.kind == "number" else "---" for column in columns]
    cells = [[inline_cell(cell, escape_markdown, _IN_MARKDOWN) for cell in row] for row in rows]
    lines = [heads, rules, *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _inline_markdown(text: str) -> str:
    # Links to sections of the page have no target here.
    return re.sub(r"\[([^]]*)\]\(#\w+\)", r"\1", inline(text, escape_markdown, _IN_MARKDOWN, str))


_MOST_ACROSS = 9  # columns of scores in LaTeX; with more, tasks are rows
_NO_WIDER = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}"
_IN_LATEX = {
    "bold": r"\textbf{{{0}}}",
    "italic": r"\textit{{{0}}}",
    "code": r"\texttt{{{0}}}",
    "superscript": r"\textsuperscript{{{0}}}",
    "deviation": r" {{\footnotesize $\pm$ {0}}}",
    "cite": r"\cite{{{0}}}",
}


_FIGURES_OF_PAPERS = ("answer", "aggregates", "seeds")  # sections
_MOST_PANELS = 12  # of a figure in LaTeX, which fits a page


def figures_for_paper(data: ReportData) -> list[Picture]:
    """Return the figures of `report.tex`: those that fit a page."""
    blocks = [block for name in _FIGURES_OF_PAPERS for block in within(data.blocks.get(name, ()))]
    pictures = [block.picture for block in blocks if isinstance(block, Figure)]
    return [picture for picture in pictures if len(picture.panels) <= _MOST_PANELS]


def latex(data: ReportData) -> str:
    """Return a document with the paragraph, tables and figures for papers.

    It needs `references.bib` and the PDF files of `figures_for_paper` next to it. A table wider
    than a line is shrunk to fit. Letters that the font lacks are shown as their code points.
    """
    lines = ["", rf"\section*{{{escape_latex(data.title)}}}", r"\lackingnote"]
    for block in data.blocks.get("paper", ()):
        if isinstance(block, Sentences | Heading):
            texts = block.texts if isinstance(block, Sentences) else [block.text]
            lines += ["", *(inline(text, escape_latex, _IN_LATEX) for text in texts)]
    lines += ["", f"% {escape_latex(data.scores.stated_directions)}"]
    for blocks in data.blocks.values():
        for block in within(blocks):
            if isinstance(block, Table) and block.paper is not None:
                lines += _table_in_latex(block, block.paper)
    for picture in figures_for_paper(data):
        lines += _figure_in_latex(picture)
    lines += ["", *_REFERENCES] if any(r"\cite{" in line for line in lines) else []
    letters = sorted({letter for line in lines for letter in line if not letter.isascii()})
    declared = [rf"\letter{{{ord(letter):04X}}}{{{letter}}}" for letter in letters]
    preamble = (resources.files("relation_tf.report") / "templates/preamble.tex").read_text("utf-8")
    head = [preamble + "\n".join([*declared, r"\begin{document}"])]
    return "\n".join([*head, *lines, r"\end{document}"]) + "\n"


_REFERENCES = (r"\bibliographystyle{plain}", r"\bibliography{references}")


def _figure_in_latex(picture: Picture) -> Iterator[str]:
    drawn = rf"\includegraphics{{figures/{picture.name}.pdf}}"
    yield from ("", r"\begin{figure}[htbp]", r"\centering")
    yield rf"{_NO_WIDER}{{{drawn}}}"
    yield rf"\caption{{{escape_latex(picture.alt)}}}"
    yield rf"\label{{fig:{picture.name}}}"
    yield r"\end{figure}"


def _table_in_latex(table: Table, paper: Paper) -> Iterator[str]:
    columns, rows = table.flat()
    if table.style == "pairs":
        rows = [[replace(cell, notes=[]) for cell in row] for row in rows]
    if table.style == "scores" and len(columns) > _MOST_ACROSS:
        across = [Column("Task"), *(Column(row[0].text, "number") for row in rows)]
        turned = zip(*(row[1:] for row in rows), strict=True)
        rows = [
            [Cell(column.heading), *cells]
            for column, cells in zip(columns[1:], turned, strict=True)
        ]
        columns = across
    marks: dict[str, str] = {}
    if table.style == "scores":
        rows = [[_marked(cell, marks) for cell in row] for row in rows]
    kinds = "".join("r" if column.kind == "number" else "l" for column in columns)
    yield from ("", r"\begin{table}[htbp]", r"\centering")
    yield rf"\caption{{{inline(paper.caption, escape_latex, _IN_LATEX)}}}"
    yield rf"\label{{tab:{paper.label}}}"
    yield rf"{_NO_WIDER}{{\begin{{tabular}}{{{kinds}}}"
    yield r"\toprule"
    yield _line(escape_latex(column.heading) for column in columns)
    yield r"\midrule"
    for row in rows:
        yield _line(inline_cell(cell, escape_latex, _IN_LATEX) for cell in row)
    yield from (r"\bottomrule", r"\end{tabular}}")
    if marks:
        notes = "; ".join(f"{mark} {note}" for note, mark in marks.items())
        yield rf"\par\smallskip{{\footnotesize {escape_latex(notes)}}}"
    yield r"\end{table}"


def _marked(cell: Cell, marks: dict[str, str]) -> Cell:
    """Return a cell with a mark in place of its notes; long notes would widen the column."""
    note, mark = ", ".join(cell.notes), f"({len(marks) + 1})"
    mark = marks.setdefault(note, mark) if note else ""
    return replace(cell, letters=cell.letters + mark, notes=[])


def _line(cells: Iterable[str]) -> str:
    row = rf"{' & '.join(cells)} \\"
    # The command before a row (\\ or \midrule) would read [ or * as its argument.
    return f"{{}}{row}" if row.startswith(("[", "*")) else row


_MOST_LINES = 40  # of a table


def terminal(data: ReportData) -> str:
    """Return the means, findings, warnings and verdicts, in short."""
    width = min(100, _columns())
    fill = partial(
        textwrap.fill, width=width, subsequent_indent="  ", break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
    bullets = [fill(str(statement), initial_indent="- ") for statement in data.brief_findings]
    more = " ... (More in the report.)"
    warnings = [fill(f"Warning: {x}", max_lines=12, placeholder=more) for x in data.warnings]
    # What matters most is last: a terminal scrolls the rest away.
    directions = data.scores.stated_directions
    notes = [fill(f"Read {layout}.") for layout in data.origin.get("read as", ())]
    notes += [fill(directions)] if directions else []
    return "\n".join([*_means(data), *notes, *bullets, *warnings, *_verdicts(data, fill)])


def _verdicts(data: ReportData, fill: Callable[[str], str]) -> list[str]:
    """Return headline, caveats and, with a reference, the table of verdicts.

    Without a reference and a test over tasks, the findings have the headline's outcome.
    """
    lines = []
    for family, part in data.comparisons.items():
        headlines = [fill(str(statement.of(family))) for statement in part.headlines]
        if headlines and (part.verdicts is not None or part.over_tasks is not None):
            table = verdict_table(part)
            lines += ["", *headlines, *map(fill, map(str, part.caveats))]
            lines += [] if table is None else ["", *_without_costs(table)]
        else:
            lines += [fill(f"Caveat: {caveat.of(family)}") for caveat in part.caveats]
    return lines


def _means(data: ReportData) -> list[str]:
    if not data.cells:
        return []
    # Of a suite that is not finished, only what has scores.
    known, tested = ({*names} for names in zip(*data.cells, strict=True))
    methods = [name for name in data.drawn if name in known]
    rows = [["", *methods]]
    columns = {task: metrics for task, metrics in data.columns.items() if task in tested}
    for task, metrics in [*columns.items()][:_MOST_LINES]:
        cells = [data.cells.get((method, task)) for method in methods]
        notes = [metrics] if metrics else []
        notes += ["lower is better"] if task in data.scores.lower_is_better else []
        label = f"{task} ({', '.join(notes)})" if notes else task
        rows.append([label, *("-" if cell is None else cell.with_notes() for cell in cells)])
    rows += _mean_of_tasks(data, methods)
    if len(align(rows)[0]) > _columns():
        rows = [[*column] for column in zip(*rows, strict=True)]  # a row for each method
    limits = []
    if len(methods) < len(known):
        first = "the first {}" if data.mean_ranks.empty else "the {} best"
        limits.append(f"{first.format(len(methods))} of {len(known):,} methods")
    if len(columns) > _MOST_LINES:
        limits.append(first_of(_MOST_LINES, len(columns), "tasks"))
    note = f"Shown: {' and '.join(limits)}. All are in table.csv." if limits else ""
    return [*align_within(rows, _columns()), *([note] if note else []), ""]


def _mean_of_tasks(data: ReportData, methods: Sequence[str]) -> list[list[str]]:
    """Return rows with means over tasks, unless a suite has averages of its seeds."""
    scores, table = data.scores, standings(data.scores)
    tasks = len(table.attrs["tasks"])
    if scores.averages or tasks < 2 or table["mean"].isna().any():
        return []
    digits = scores.digits(scores.main_tasks[0])
    parts = [part.aggregates for part in data.comparisons.values() if len(part.aggregates)]
    middle = [("IQM", pd.concat(parts)["iqm"].dropna())] if parts else []
    return [
        [f"{label} of {tasks} tasks", *(number(means.get(name), digits) for name in methods)]
        for label, means in [("mean", table["mean"]), *middle]
        if len(means)
    ]


def _without_costs(table: Table) -> list[str]:
    """Return the lines of a table of verdicts without the costs, which reports have."""
    last = 3 if any(column.name == "Difference" for column in table.columns) else 2
    rows = [replace(row, cells=row.cells[:last]) for row in table.rows[:_MOST_LINES]]
    lines = replace(table, columns=table.columns[:last], rows=rows).lines(_columns())
    if len(table.rows) > _MOST_LINES:
        shown = first_of(_MOST_LINES, len(table.rows), "methods")
        lines.append(f"Shown: {shown}. All are in verdicts.csv.")
    return lines


def _columns() -> int:
    """Return the width of the terminal, by default 100."""
    return max(60, shutil.get_terminal_size((100, 24)).columns)
