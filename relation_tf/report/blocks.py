"""Blocks of a report's sections: paragraphs, lists, tables and figures.

HTML, Markdown and LaTeX render the same blocks. Their words are text with markup, see
`relation_tf.report.text`; cells, columns and facts are plain text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import pandas as pd

from relation_tf.files import align_within
from relation_tf.report.comparisons import rows_of
from relation_tf.report.pictures.drawing import Picture, Style
from relation_tf.report.text import TASK, chunks, plain
from relation_tf.words import pvalue_only, signed


@dataclass(frozen=True)
class Paragraph:
    """A paragraph.

    Attributes:
        text: The text.
        style: `"headline"` is large, `"note"` is small, `"warning"` is highlighted.
    """

    text: str
    style: Literal["", "headline", "note", "warning"] = ""


@dataclass(frozen=True)
class Heading:
    """A heading within a section."""

    text: str


@dataclass(frozen=True)
class Bullets:
    """A list.

    Attributes:
        items: A text for each item.
        style: `"warning"` is highlighted.
    """

    items: Sequence[str]
    style: Literal["", "warning"] = ""


@dataclass(frozen=True)
class Facts:
    """Names and values.

    Attributes:
        items: One or several values for each name.
        long: If True, each name is on a separate line.
    """

    items: Mapping[str, str | Sequence[str]]
    long: bool = False

    def pairs(self) -> list[tuple[str, list[str]]]:
        """Return each name with its values."""
        return [(k, [v] if isinstance(v, str) else [*v]) for k, v in self.items.items()]


@dataclass(frozen=True)
class Code:
    """The text of a file, such as a suite."""

    text: str


@dataclass(frozen=True)
class Figure:
    """A picture.

    Attributes:
        picture: The picture.
        legend: Methods to show in a legend above it.
    """

    picture: Picture
    legend: Mapping[str, Style] = field(default_factory=dict)


@dataclass(frozen=True)
class Cell:
    """A cell of a table. An empty one is shown as a dash.

    Attributes:
        text: The text.
        bold: If True, the best of its column.
        letters: Letters of methods that do not differ significantly, as superscript.
        deviation: Standard deviation, shown after ±.
        notes: Small notes.
        paper_note: Replacement of the notes in LaTeX.
        mark: `"▲"` or `"▼"` before the text.
        meaning: Meaning of the mark, for screen readers.
        significant: If True, the cell is shaded.
    """

    text: str = ""
    bold: bool = False
    letters: str = ""
    deviation: str = ""
    notes: Sequence[str] = ()
    paper_note: str = ""
    mark: str = ""
    meaning: str = ""
    significant: bool = False

    def with_notes(self) -> str:
        """Return the text, deviation and notes on one line, a dash if empty."""
        deviation = f" ± {self.deviation}" if self.deviation else ""
        return f"{self.text or '-'}{deviation}" + "".join(f" ({note})" for note in self.notes)


def inline_cell(
    cell: Cell, escape: Callable[[str], str], patterns: Mapping[str, str], notes: Sequence[str]
) -> str:
    """Render a cell on one line.

    Args:
        cell: The cell.
        escape: Function that escapes plain text.
        patterns: Formats of `bold`, `superscript` and `deviation`.
        notes: Notes to append.
    """
    if not cell.text:
        return escape("–")
    text = escape(cell.text)
    if cell.bold or cell.significant:
        text = patterns["bold"].format(text)
    if cell.mark:
        text = f"{escape(cell.mark)} {text}"
    if cell.letters:
        text += patterns["superscript"].format(escape(cell.letters))
    if cell.deviation:
        text += patterns["deviation"].format(escape(cell.deviation))
    return text + "".join(f" ({escape(note)})" for note in notes)


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        name: Heading.
        kind: Type of its cells; `"method"` is a row heading with the method's marker.
        group: Heading over several columns.
        note: Small note below the heading.
        task: Task of the column, for the page's filter.
        average: If True, an average over other columns.
    """

    name: str
    kind: Literal["text", "words", "number", "head", "method"] = "text"
    group: str = ""
    note: str = ""
    task: str = ""
    average: bool = False

    @property
    def heading(self) -> str:
        """Name with that of its group and its note, for tables with one row of headings."""
        name = f"{self.group}, {self.name}" if self.group else self.name
        return f"{name} ({self.note})" if self.note else name


@dataclass(frozen=True)
class Row:
    """A row of a table.

    Attributes:
        cells: A cell for each column; text is a plain cell, None an empty one.
        methods: Methods of the row, for the page's filter.
        task: Task of the row, for the page's filter.
    """

    cells: Sequence[Cell | str | None]
    methods: Sequence[str] = ()
    task: str = ""

    def __iter__(self) -> Iterator[Cell]:
        for cell in self.cells:
            yield cell if isinstance(cell, Cell) else Cell(cell or "")


@dataclass(frozen=True)
class Paper:
    """Label and caption of a table in LaTeX.

    Attributes:
        label: Its label, without `tab:`.
        caption: Its caption.
    """

    label: str
    caption: str


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        label: Description for screen readers.
        columns: Columns.
        rows: Rows, or the rows of each task.
        style: `"scores"` fills the width of the page; `"verdicts"` is narrow on small screens.
        paper: Label and caption in LaTeX; None leaves the table out of `report.tex`.
    """

    label: str
    columns: Sequence[Column]
    rows: Sequence[Row] | Mapping[str, Sequence[Row]]
    style: Literal["", "scores", "pairs", "verdicts"] = ""
    paper: Paper | None = None

    @property
    def groups(self) -> Mapping[str, Sequence[Row]]:
        """Rows by task; all rows under an empty name if they have no task."""
        return self.rows if isinstance(self.rows, Mapping) else {"": self.rows}

    def flat(self) -> tuple[list[Column], list[list[Cell]]]:
        """Return columns and rows, with the task as first column if rows are grouped by task."""
        if not isinstance(self.rows, Mapping):
            return [*self.columns], [[*row] for row in self.rows]
        rows = [[Cell(task), *row] for task, own in self.rows.items() for row in own]
        return [Column("Task"), *self.columns], rows

    def lines(self, width: int) -> list[str]:
        """Return the lines of the table for a terminal, with the notes of its cells."""
        columns, rows = self.flat()
        heads = [column.heading for column in columns]
        return align_within([heads, *([cell.with_notes() for cell in row] for row in rows)], width)


@dataclass(frozen=True)
class Folded:
    """Collapsible blocks.

    Attributes:
        summary: Heading, always visible.
        blocks: The blocks.
        task: Task of the blocks, for the page's filter.
    """

    summary: str
    blocks: Sequence[Block]
    task: str = ""


Block: TypeAlias = Paragraph | Heading | Bullets | Facts | Code | Figure | Table | Folded


def blocks(template: str, **values: Any) -> list[Block]:
    r"""Return the blocks of a template, see `relation_tf.report.text`.

    Args:
        template: Name of a file in `templates/`, or the text of a template.
        **values: Its variables; `place(x)` inserts a table, picture, block, list of these, or
            nothing for None.

    Example:
        >>> blocks("Two {{ noun }}.\n\n> A note.", noun="seeds")
        [Paragraph(text='Two seeds.', style=''), Paragraph(text='A note.', style='note')]
    """
    opened: list[tuple[str, list[Block]]] = [("", [])]
    styles: dict[str, Any] = {"!": "warning", ">": "note", "#": "headline", "": ""}
    for kind, content in chunks(template, **values):
        own = opened[-1][1]
        if kind == "placed":
            own += _placed(content)
        elif kind == "###":
            own.append(Heading(content))
        elif kind in {"-", "!-"}:
            own.append(Bullets(content, "warning" if kind == "!-" else ""))
        elif kind == "+++" and content:
            opened.append((content, []))
        elif kind == "+++":
            summary, inner = opened.pop()
            _, task, title = summary.split(TASK) if TASK in summary else ("", "", summary)
            opened[-1][1].append(Folded(title, inner, plain(task)))
        else:
            own.append(Paragraph(content, styles[kind]))
    ((_, found),) = opened
    return found


def _placed(content: Any) -> list[Block]:
    if content is None:
        return []
    if isinstance(content, list):
        return _with_one_legend([block for each in content for block in _placed(each)])
    if isinstance(content, Picture):
        return [Figure(content, content.legend)] if content.panels else []
    return [content]


def _with_one_legend(blocks: Sequence[Block]) -> list[Block]:
    """Return the blocks, but figures without the legend of the figure before them."""
    own: list[Block] = []
    shown: Mapping[str, Style] = {}
    for block in blocks:
        if isinstance(block, Figure):
            repeated, shown = block.legend == shown, block.legend
            block = replace(block, legend={}) if repeated else block
        own.append(block)
    return own


class Section:
    """A section of the report; register a subclass with `register_section`.

    Attributes:
        heading: Heading.
        after: Section before it; by default it is the last before "Warnings and provenance".
        notebook: If True, notebooks show it.
        open: If True, the page shows it expanded at first.
        by_family: If True, the section is repeated for each family of methods: `blocks` and
            `tables` get its `Comparison` instead of the `ReportData` of all methods.

    Example:
        >>> from relation_tf.registry import SECTIONS, register_section
        >>> @register_section("doc-seeds")
        ... class Seeds(Section):
        ...     heading = "Number of seeds"
        ...     after = "scores"
        ...
        ...     def blocks(self, data):
        ...         return blocks("Each method has {{ n }} seeds.", n=data.scores.seeds)
        >>> "doc-seeds" in SECTIONS
        True
        >>> _ = SECTIONS.remove("doc-seeds")
    """

    heading: str = ""
    after: str = ""
    notebook: bool = False
    open: bool = False
    by_family: bool = False

    def blocks(self, data: Any) -> Sequence[Block]:
        """Return the blocks of the section; an empty list leaves the section out."""
        raise NotImplementedError

    def tables(self, data: Any) -> Mapping[str, pd.DataFrame]:
        """Return tables to write as CSV, by the name of their file."""
        return {}


Show: TypeAlias = Callable[[Any], Cell | str]
"""Function from a row of a data frame to the cell of a column."""


def table_by_task(label: str, data: pd.DataFrame, columns: Mapping[Column, Show]) -> Table:
    """Return a table with one row per task and method.

    Args:
        label: Description for screen readers.
        data: One row per task and method, with columns `task` and `method`.
        columns: The columns with the functions of their cells.
    """
    rows = {
        str(task): [
            Row([show(row) for show in columns.values()], [row.method]) for row in rows_of(own)
        ]
        for task, own in data.groupby("task", sort=False)
    }
    return Table(label, [*columns], rows)


def within(blocks: Sequence[Block]) -> Iterator[Block]:
    """Iterate over blocks, including collapsed ones."""
    for block in blocks:
        yield block
        if isinstance(block, Folded):
            yield from within(block.blocks)


def pair_table(
    label: str,
    tasks: Sequence[str],
    pvalues: pd.DataFrame,
    alpha: float,
    digits: Callable[[str], int],
    *,
    ahead: str = "better",
    swatches: bool = True,
    paper: Paper | None = None,
    heading: Callable[[str], str] = str,
) -> Table:
    """Return a table with one row per pair of methods and one column per task.

    A cell has p, a mark (▲: the second method tends to have the higher value, ▼: the lower) and, as
    a note, the difference, second minus first method, with its simultaneous interval.

    Args:
        label: Description for screen readers.
        tasks: The columns.
        pvalues: Result of `all_pvalues`.
        alpha: Level of the tests.
        digits: Function from a task to the number of decimals of its differences.
        ahead: Word for the better method, for screen readers.
        swatches: If True, methods have their marker.
        paper: Label and caption in LaTeX.
        heading: Function from a task to the heading of its column.
    """
    kind: Any = "method" if swatches else "head"
    columns = [Column("First", kind), Column("Second", kind)]
    columns += [Column(heading(task), "number", task=task) for task in tasks]
    pairs: dict[tuple[str, str], dict[str, Cell]] = {}
    for row in rows_of(pvalues):
        mark = "▲" if (row.ahead == row.b) == row.higher_is_better else "▼"
        pairs.setdefault((row.a, row.b), {})[row.task] = Cell(
            pvalue_only(row.pvalue, alpha),
            mark=mark if row.ahead else "",
            meaning=f"{row.ahead} {ahead}",
            significant=bool(row.significant),
            notes=_difference_note(row, digits(row.task)),
        )
    rows = [Row([*names, *map(own.get, tasks)], names) for names, own in pairs.items()]
    return Table(label, columns, rows, "pairs", paper)


def _difference_note(row: Any, digits: int) -> list[str]:
    """Return the difference of a pair with its interval; nothing if both limits are infinite."""
    limits = row.difference_low, row.difference_high
    if not math.isfinite(row.difference) or all(map(math.isinf, limits)):
        return []
    low, high = (signed(limit, digits) for limit in limits)
    return [f"{signed(row.difference, digits)} [{low}, {high}]"]


def with_interval(value: float, low: float, high: float, digits: int = 2) -> Cell:
    """Return a cell with a value and its interval, unless that is unknown."""
    limits = f"{signed(low, digits)} to {signed(high, digits)}"
    return Cell(signed(value, digits), notes=[] if math.isnan(low) else [limits])
