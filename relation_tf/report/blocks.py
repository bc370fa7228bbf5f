"""Blocks of a report's sections: paragraphs, lists, tables and figures.

HTML, Markdown and LaTeX render the same blocks. Their words are text with markup, see
`relation_tf.report.text`; cells, columns and facts are plain text.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import pandas as pd

from relation_tf.files import align_within
from relation_tf.report.drawing import Picture, Style
from relation_tf.report.text import Statement, chunks, in_markup, plain
from relation_tf.words import first_of


@dataclass(frozen=True)
class Paragraph:
    """A paragraph.

    Attributes:
        text: The text.
        style: `"note"` is small, `"warning"` is highlighted.
        numbers: The numbers that its words state, in their order.
    """

    text: str
    style: Literal["", "note", "warning"] = ""
    numbers: Sequence[float] = field(default=(), repr=False)


@dataclass(frozen=True)
class Sentences:
    """Statements in words. In HTML, each names its field of report.json, which has its numbers.

    Attributes:
        statements: The statements.
        style: `"headline"` is large, `"warning"` is highlighted.
        listed: If True, a list, otherwise a paragraph.
    """

    statements: Sequence[Statement]
    style: Literal["", "headline", "warning"] = ""
    listed: bool = False

    @property
    def texts(self) -> list[str]:
        """A text with markup for each item, or for the whole paragraph."""
        texts = [statement.text for statement in self.statements]
        return texts if self.listed else [" ".join(texts)]


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
    """

    items: Mapping[str, str | Sequence[str]]

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
        notes: Small notes; in LaTeX not in tables of pairs.
        mark: `"▲"` or `"▼"` before the text.
        meaning: Meaning of the mark, for screen readers.
        significant: If True, the cell is shaded.
    """

    text: str = ""
    bold: bool = False
    letters: str = ""
    deviation: str = ""
    notes: Sequence[str] = ()
    mark: str = ""
    meaning: str = ""
    significant: bool = False

    def with_notes(self) -> str:
        """Return the text, deviation and notes on one line, a dash if empty."""
        deviation = f" ± {self.deviation}" if self.deviation else ""
        return f"{self.text or '-'}{deviation}" + "".join(f" ({note})" for note in self.notes)


def inline_cell(cell: Cell, escape: Callable[[str], str], patterns: Mapping[str, str]) -> str:
    """Render a cell on one line.

    Args:
        cell: The cell.
        escape: Function that escapes plain text.
        patterns: Formats of `bold`, `superscript` and `deviation`.
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
    return text + "".join(f" ({escape(note)})" for note in cell.notes)


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        name: Heading.
        kind: Type of its cells; `"method"` is a row heading with the method's marker.
        note: Small note below the heading.
    """

    name: str
    kind: Literal["text", "words", "number", "head", "method"] = "text"
    note: str = ""

    @property
    def heading(self) -> str:
        """Name with its note."""
        return f"{self.name} ({self.note})" if self.note else self.name


@dataclass(frozen=True)
class Row:
    """A row of a table.

    Attributes:
        cells: A cell for each column; text is a plain cell, None an empty one.
        task: Task of the row, for tables by task.
    """

    cells: Sequence[Cell | str | None]
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
        rows: Rows.
        style: `"scores"` fills the width of the page; `"verdicts"` is narrow on small screens.
        paper: Label and caption in LaTeX; None leaves the table out of `report.tex`.
        by_task: If True, the rows of each task follow its name.
    """

    label: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    style: Literal["", "scores", "pairs", "verdicts"] = ""
    paper: Paper | None = None
    by_task: bool = False

    @property
    def groups(self) -> Iterator[tuple[str, Sequence[Row]]]:
        """Rows by task; all rows under an empty name if they are not by task."""
        groups = itertools.groupby(self.rows, lambda row: row.task if self.by_task else "")
        return ((task, [*rows]) for task, rows in groups)

    def flat(self) -> tuple[list[Column], list[list[Cell]]]:
        """Return columns and rows, with the task as first column if rows are by task."""
        if not self.by_task:
            return [*self.columns], [[*row] for row in self.rows]
        return [Column("Task"), *self.columns], [[Cell(row.task), *row] for row in self.rows]

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
    """

    summary: str
    blocks: Sequence[Block]


Block: TypeAlias = (
    Paragraph | Sentences | Heading | Bullets | Facts | Code | Figure | Table | Folded
)


def blocks(template: str, **values: Any) -> list[Block]:
    r"""Return the blocks of a template, see `relation_tf.report.text`.

    Args:
        template: Name of a file in `templates/`, or the text of a template.
        **values: Its variables; `place(x)` inserts a table, picture, block, list of these, or
            nothing for None, such as `place(sentences(statements))`.

    Example:
        >>> blocks("Two {{ noun }}.\n\n> A note.", noun="seeds")
        [Paragraph(text='Two seeds.', style=''), Paragraph(text='A note.', style='note')]
    """
    opened: list[tuple[str, list[Block]]] = [("", [])]
    styles: dict[str, Any] = {"!": "warning", ">": "note", "": ""}
    for kind, content, numbers in chunks(template, sentences=Sentences, **values):
        current = opened[-1][1]
        if kind == "placed":
            current += _placed(content)
        elif kind == "###":
            current.append(Heading(content))
        elif kind in {"-", "!-"}:
            current.append(Bullets(content, "warning" if kind == "!-" else ""))
        elif kind == "+++" and content:
            opened.append((content, []))
        elif kind == "+++":
            summary, inner = opened.pop()
            opened[-1][1].append(Folded(summary, inner))
        else:
            current.append(Paragraph(content, styles[kind], numbers))
    ((_, finished),) = opened
    return finished


def _placed(content: Any) -> list[Block]:
    if content is None:
        return []
    if isinstance(content, list):
        return _with_one_legend([block for item in content for block in _placed(item)])
    if isinstance(content, Picture):
        return [Figure(content, content.legend)] if content.panels else []
    if isinstance(content, Sentences) and not content.statements:
        return []
    return [content]


def _with_one_legend(blocks: Sequence[Block]) -> list[Block]:
    """Return the blocks, but figures without the legend of the figure before them."""
    result: list[Block] = []
    shown: Mapping[str, Style] = {}
    for block in blocks:
        if isinstance(block, Figure):
            repeated, shown = block.legend == shown, block.legend
            block = replace(block, legend={}) if repeated else block
        result.append(block)
    return result


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
    rows = [
        Row([show(row) for show in columns.values()], row.task)
        for _, task_rows in data.groupby("task", sort=False)
        for row in rows_of(task_rows)
    ]
    return Table(label, [*columns], rows, by_task=True)


def within(blocks: Sequence[Block]) -> Iterator[Block]:
    """Iterate over blocks, including collapsed ones."""
    for block in blocks:
        yield block
        if isinstance(block, Folded):
            yield from within(block.blocks)


def record(block: Block) -> dict[str, Any]:
    """Return what a block shows as JSON: words without markup, cells with their notes."""
    kind: dict[str, Any] = {"kind": type(block).__name__.lower()}
    if isinstance(block, Paragraph):
        numbers = [x if math.isfinite(x) else None for x in block.numbers]
        return kind | {"text": plain(block.text)} | ({"numbers": numbers} if numbers else {})
    if isinstance(block, Heading):
        return kind | {"text": plain(block.text)}
    if isinstance(block, Sentences):
        return kind | {"statements": [statement.record() for statement in block.statements]}
    if isinstance(block, Bullets):
        return kind | {"items": [*map(plain, block.items)]}
    if isinstance(block, Facts):
        return kind | {"items": dict(block.pairs())}
    if isinstance(block, Code):
        return kind | {"text": block.text}
    if isinstance(block, Figure):
        panels = {panel.title: panel.alt for panel in block.picture.panels}
        return kind | {"name": block.picture.name, "text": block.picture.alt, "panels": panels}
    if isinstance(block, Table):
        columns, rows = block.flat()
        cells = [[cell.with_notes() for cell in row] for row in rows]
        return kind | {
            "text": block.label,
            "columns": [column.heading for column in columns],
            "rows": cells,
        }
    return kind | {"text": plain(block.summary), "blocks": [*map(record, block.blocks)]}


MOST_ROWS = 300  # of a table
MOST_COLUMNS = 60  # of a table
MOST_PANELS = 40  # of a figure


def limited(blocks: Iterable[Block]) -> list[Block]:
    """Return the blocks of a section with at most as much as a page can show.

    What is left out is named in a note after the block. The limits are above the size of usual
    reports; CSV files have everything.
    """
    shown: list[Block] = []
    for block in blocks:
        cut: Block = block
        sizes: dict[str, tuple[int, int]] = {}
        if isinstance(block, Table):
            sizes = {
                "rows": (MOST_ROWS, len(block.rows)),
                "columns": (MOST_COLUMNS, len(block.columns)),
            }
            rows = [replace(row, cells=row.cells[:MOST_COLUMNS]) for row in block.rows[:MOST_ROWS]]
            cut = replace(block, columns=block.columns[:MOST_COLUMNS], rows=rows)
        elif isinstance(block, Figure):
            sizes = {"panels": (MOST_PANELS, len(block.picture.panels))}
            panels = block.picture.panels[:MOST_PANELS]
            cut = replace(block, picture=replace(block.picture, panels=panels))
        elif isinstance(block, Folded):
            cut = replace(block, blocks=limited(block.blocks))
        shown.append(cut)
        notes = [first_of(most, size, noun) for noun, (most, size) in sizes.items() if size > most]
        if notes:
            text = f"Shown: {' and '.join(notes)}. All are in the CSV files."
            shown.append(Paragraph(text, "note"))
    return shown


def of_family(blocks: Sequence[Block], family: str) -> list[Block]:
    """Return blocks with names of figures and labels of tables that are unique to a family.

    Args:
        blocks: The blocks.
        family: Name of the family; empty if there is only one.
    """
    slug = re.sub(r"[^a-z0-9]+", "-", family.lower()).strip("-")
    renamed: list[Block] = []
    for block in blocks:
        copy = block
        if family and isinstance(block, Folded):
            copy = replace(block, blocks=of_family(block.blocks, family))
        elif family and isinstance(block, Figure):
            picture = replace(block.picture, name=f"{block.picture.name}-{slug}")
            copy = replace(block, picture=picture)
        elif family and isinstance(block, Table):
            paper = block.paper and Paper(
                f"{block.paper.label}-{slug}",
                f"{block.paper.caption.rstrip('.')} ({in_markup(family)}).",
            )
            copy = replace(block, label=f"{block.label}, {family}", paper=paper)
        renamed.append(copy)
    return renamed


def rows_of(table: pd.DataFrame) -> Iterator[Any]:
    """Iterate over rows with columns as attributes; typed Any."""
    # Lists are much faster than `itertuples` over arrays of text, and for few rows.
    columns = (table.iloc[:, place].tolist() for place in range(table.shape[1]))
    return map(_row_type(tuple(map(str, table.columns)))._make, zip(*columns, strict=True))


@functools.cache
def _row_type(columns: tuple[str, ...]) -> Any:
    return namedtuple("Row", columns, rename=True)


def by_method(table: pd.DataFrame) -> dict[str, Any]:
    """Return the rows of a table by method, with columns as attributes."""
    return {str(row[0]): row for row in table.itertuples()}
