"""Blocks of a report's sections: paragraphs, lists, tables and figures.

HTML, Markdown and LaTeX render the same blocks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import pandas as pd

from relation_tf.files import align_within
from relation_tf.report.comparisons import rows_of
from relation_tf.report.pictures.drawing import Picture, Style
from relation_tf.words import pvalue_only, signed

if TYPE_CHECKING:
    from relation_tf.report.context import ReportContext


@dataclass(frozen=True)
class Span:
    """Marked text within a sentence.

    Attributes:
        text: The text, without markup.
        kind: Style of the text. `"section"` links to the section with the name `target`;
            `"digest"` is a shortened `target`; `"shaded"` marks significant cells: "Shaded" in
            HTML, "Bold" in Markdown and LaTeX.
        target: Address of a link, name of a section, or full digest.
    """

    text: str
    kind: Literal[
        "bold", "italic", "code", "superscript", "link", "section", "digest", "shaded"
    ] = "bold"
    target: str = ""


_CODE = re.compile(r"(?<![^\s(])`([^`\n]+)`(?![^\s).,:;])")  # not inside of a name, such as a`b`c

Text: TypeAlias = str | Span | Sequence[str | Span]
SHADED = Span("Shaded", "shaded")


def spans(text: Text) -> list[str | Span]:
    """Return the parts of a text."""
    return [text] if isinstance(text, str | Span) else [*text]


def inline(text: Text, escape: Callable[[str], str], patterns: Mapping[str, str]) -> str:
    """Render a text.

    Args:
        text: The text.
        escape: Function that escapes plain text; text in backticks is shown as code.
        patterns: Format by kind of span, with its text `{0}` and target `{1}`; other kinds are
            shown as plain text.
    """
    shown = []
    for part in chain.from_iterable(map(_with_code, spans(text))):
        if isinstance(part, Span):
            pattern = patterns.get(part.kind, "{0}")
            shown.append(pattern.format(escape(part.text), escape(part.target)))
        else:
            # Escaping may strip the spaces next to marked text.
            own = escape(part.strip())
            before, after = part[:1].isspace() * " ", part[-1:].isspace() * " "
            shown.append(f"{before}{own}{after}" if own else before)
    return "".join(shown)


def _with_code(part: str | Span) -> list[str | Span]:
    """Return the parts of a plain text; code is in backticks, as in messages of the tests."""
    if isinstance(part, Span):
        return [part]
    pieces = enumerate(_CODE.split(part))
    return [Span(piece, "code") if place % 2 else piece for place, piece in pieces if piece]


@dataclass(frozen=True)
class Paragraph:
    """A paragraph.

    Attributes:
        text: The text.
        style: `"headline"` is large, `"note"` is small, `"warning"` is highlighted.
    """

    text: Text
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

    items: Sequence[Text]
    style: Literal["", "answer", "warning"] = ""


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

    text: Text = ""
    bold: bool = False
    letters: str = ""
    deviation: str = ""
    notes: Sequence[str] = ()
    paper_note: str = ""
    mark: str = ""
    meaning: str = ""
    significant: bool = False

    def in_words(self) -> str:
        """Return the text and deviation on one line, for a terminal."""
        shown = "".join(part if isinstance(part, str) else part.text for part in spans(self.text))
        return f"{shown} ± {self.deviation}" if self.deviation else shown

    def with_notes(self) -> str:
        """Return the text, deviation and notes on one line, a dash if empty."""
        return (self.in_words() or "-") + "".join(f" ({note})" for note in self.notes)


def inline_cell(
    cell: Cell, escape: Callable[[str], str], patterns: Mapping[str, str], notes: Sequence[str]
) -> str:
    """Render a cell on one line.

    Args:
        cell: The cell.
        escape: As for `inline`.
        patterns: As for `inline`, with the format of a `deviation`.
        notes: Notes to append.
    """
    if not cell.text:
        return escape("–")
    own = cell.text  # a text without spans can be a name with backticks
    text = escape(own) if isinstance(own, str) else inline(own, escape, patterns)
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
        """Name with the name of its group, for tables with one row of headings."""
        return f"{self.group}, {self.name}" if self.group else self.name


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
        caption: Begin of its caption, repeated for each part of a wide table.
        details: Rest of the caption.
    """

    label: str
    caption: Text
    details: str = "."


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
        heads = [
            f"{column.heading} ({column.note})" if column.note else column.heading
            for column in columns
        ]
        return align_within([heads, *([cell.with_notes() for cell in row] for row in rows)], width)


@dataclass(frozen=True)
class Folded:
    """Collapsible blocks.

    Attributes:
        summary: Heading, always visible.
        blocks: The blocks.
        open: If True, expanded at first.
        task: Task of the blocks, for the page's filter.
    """

    summary: Text
    blocks: Sequence[Block]
    open: bool = False
    task: str = ""


Block: TypeAlias = Paragraph | Heading | Bullets | Facts | Figure | Table | Folded


class Section:
    """A section of the report; register a subclass with `register_section`.

    Attributes:
        heading: Heading.
        after: Section before it; by default it is the last before "Warnings and provenance".
        notebook: If True, notebooks show it.
        open: If True, the page shows it expanded at first.
        by_family: If True and methods are in families, the section is repeated for each family,
            with the context of this family.

    Example:
        >>> from relation_tf.registry import SECTIONS, register_section
        >>> @register_section("doc-seeds")
        ... class Seeds(Section):
        ...     heading = "Number of seeds"
        ...     after = "scores"
        ...
        ...     def blocks(self, context):
        ...         return [Paragraph(f"Each method has {context.scores.seeds} seeds.")]
        >>> "doc-seeds" in SECTIONS
        True
        >>> _ = SECTIONS.remove("doc-seeds")
    """

    heading: str = ""
    after: str = ""
    notebook: bool = False
    open: bool = False
    by_family: bool = False

    def blocks(self, context: ReportContext) -> Sequence[Block]:
        """Return the blocks of the section; an empty list leaves the section out."""
        raise NotImplementedError

    def answer(self, context: ReportContext) -> Sequence[str]:
        """Return sentences for the short answer."""
        return []

    def tables(self, context: ReportContext) -> Mapping[str, pd.DataFrame]:
        """Return tables to write as CSV, by the name of their file."""
        return {}


def figure_with_note(
    picture: Picture | None, note: str, legend: Mapping[str, Style] | None = None
) -> list[Block]:
    """Return a figure and a note below it; nothing without a picture or panels.

    Args:
        picture: The picture.
        note: The note.
        legend: Methods to show in a legend above the picture.
    """
    if picture is None or not picture.panels:
        return []
    return [Figure(picture, legend or {}), Paragraph(note, "note")]


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


def file_links(names: Iterable[str]) -> list[str | Span]:
    """Return links to CSV tables, as the end of a sentence."""
    links: list[str | Span] = []
    for name in names:
        links += [", ", Span(f"{name}.csv", "link", f"{name}.csv")]
    return [*links[1:], "."]


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
