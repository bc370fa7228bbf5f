"""The blocks that a section of the report consists of.

HTML, Markdown and LaTeX render the same blocks, so what a section says is in all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import pandas as pd

from relation_tf.report.comparisons import rows_of, shown_pvalues
from relation_tf.report.pictures.drawing import Picture, Style
from relation_tf.stats.design import pvalue_only

if TYPE_CHECKING:
    from relation_tf.report.context import ReportContext


@dataclass(frozen=True)
class Span:
    """Marked text within a sentence.

    Attributes:
        text: The text, without markup.
        kind: How it is shown. `"section"` links to the section of the page that `target` names;
            `"digest"` is code that shortens `target`; `"shaded"` names what marks a significant
            cell, which is bold in Markdown and LaTeX.
        target: Address of a link, name of a section, whole digest.
    """

    text: str
    kind: Literal[
        "bold", "italic", "code", "superscript", "link", "section", "digest", "shaded"
    ] = "bold"
    target: str = ""


Text: TypeAlias = str | Span | Sequence[str | Span]
SHADED = Span("Shaded", "shaded")


def spans(text: Text) -> list[str | Span]:
    """Return the parts of a text."""
    return [text] if isinstance(text, str | Span) else [*text]


def inline(text: Text, escape: Callable[[str], str], patterns: Mapping[str, str]) -> str:
    """Render a text.

    Args:
        text: The text.
        escape: Escapes what is shown as it is.
        patterns: By kind of span, what stands around its text `{0}` and target `{1}`; other kinds
            are shown as plain text.
    """
    shown = []
    for part in spans(text):
        if isinstance(part, Span):
            pattern = patterns.get(part.kind, "{0}")
            shown.append(pattern.format(escape(part.text), escape(part.target)))
        else:
            # Escaping may strip the spaces next to marked text.
            own = escape(part.strip())
            before, after = part[:1].isspace() * " ", part[-1:].isspace() * " "
            shown.append(f"{before}{own}{after}" if own else before)
    return "".join(shown)


@dataclass(frozen=True)
class Paragraph:
    """A paragraph.

    Attributes:
        text: What it says.
        style: `"note"` is small print, `"warning"` stands out.
    """

    text: Text
    style: Literal["", "note", "warning"] = ""


@dataclass(frozen=True)
class Heading:
    """A heading within a section."""

    text: str


@dataclass(frozen=True)
class Bullets:
    """A list.

    Attributes:
        items: A text for each item.
        style: `"warning"` stands out.
    """

    items: Sequence[Text]
    style: Literal["", "answer", "warning"] = ""


@dataclass(frozen=True)
class Facts:
    """Names and values.

    Attributes:
        items: By name one value, or several.
        long: If True, each name has a line of its own.
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
        legend: Methods to explain above it.
    """

    picture: Picture
    legend: Mapping[str, Style] = field(default_factory=dict)


@dataclass(frozen=True)
class Cell:
    """A cell of a table. An empty one is shown as a dash.

    Attributes:
        text: What it says.
        bold: If True, the best of its column.
        letters: Letters that it shares with others, raised.
        deviation: Standard deviation, shown after ±.
        notes: Small print.
        paper_note: What LaTeX shows in place of the notes.
        mark: `"▲"` or `"▼"` before the text.
        meaning: What the mark means, for screen readers.
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


def inline_cell(
    cell: Cell, escape: Callable[[str], str], patterns: Mapping[str, str], notes: Sequence[str]
) -> str:
    """Render a cell where small print is not set apart.

    Args:
        cell: The cell.
        escape: As for `inline`.
        patterns: As for `inline`, and `deviation`: what stands around a deviation.
        notes: The small print.
    """
    if not cell.text:
        return escape("–")
    text = inline(cell.text, escape, patterns)
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
        name: Its heading.
        kind: What its cells are: `"method"` is a row's head with the mark of a method.
        group: Heading over several columns.
        note: Small print below the heading.
        task: The task that the page's filter hides it with.
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
        """The name with that of its group, for tables with one row of headings."""
        return f"{self.group}, {self.name}" if self.group else self.name


@dataclass(frozen=True)
class Row:
    """A row of a table.

    Attributes:
        cells: A cell for each column; text stands for a plain one, None for an empty one.
        methods: Methods that the page's filter hides it with.
        task: The task that the page's filter hides it with.
    """

    cells: Sequence[Cell | str | None]
    methods: Sequence[str] = ()
    task: str = ""

    def __iter__(self) -> Iterator[Cell]:
        for cell in self.cells:
            yield cell if isinstance(cell, Cell) else Cell(cell or "")


@dataclass(frozen=True)
class Paper:
    """How LaTeX shows a table.

    Attributes:
        label: End of its label.
        caption: Begin of its caption, which parts of a wide table repeat.
        details: Rest of the caption.
    """

    label: str
    caption: Text
    details: str = "."


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        label: What it shows, for screen readers.
        columns: Its columns.
        rows: Its rows, or by task those of each task.
        style: `"scores"` fills the width of the page.
        paper: How LaTeX shows it; None for a table that papers do not need.
    """

    label: str
    columns: Sequence[Column]
    rows: Sequence[Row] | Mapping[str, Sequence[Row]]
    style: Literal["", "scores", "pairs"] = ""
    paper: Paper | None = None

    @property
    def groups(self) -> Mapping[str, Sequence[Row]]:
        """The rows by task, or all of them without one."""
        return self.rows if isinstance(self.rows, Mapping) else {"": self.rows}

    def flat(self) -> tuple[list[Column], list[list[Cell]]]:
        """Return columns and rows, with the task of a group as first column."""
        if not isinstance(self.rows, Mapping):
            return [*self.columns], [[*row] for row in self.rows]
        rows = [[Cell(task), *row] for task, own in self.rows.items() for row in own]
        return [Column("Task"), *self.columns], rows


@dataclass(frozen=True)
class Folded:
    """Blocks that a reader unfolds.

    Attributes:
        summary: What they are.
        blocks: The blocks.
        open: If True, unfolded from the start.
        task: The task that the page's filter hides it with.
    """

    summary: Text
    blocks: Sequence[Block]
    open: bool = False
    task: str = ""


Block: TypeAlias = Paragraph | Heading | Bullets | Facts | Figure | Table | Folded


class Section:
    """A section of the report; register a subclass with `register_section`.

    Attributes:
        heading: Its heading.
        after: The section that it follows, by default the last one before "How it was made".
        notebook: If True, its lists, tables and pictures are part of the view of a notebook.

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

    def blocks(self, context: ReportContext) -> Sequence[Block]:
        """Return what the section shows; nothing leaves it out."""
        raise NotImplementedError

    def answer(self, context: ReportContext) -> Sequence[str]:
        """Return sentences for the short answer."""
        return []

    def tables(self, context: ReportContext) -> Mapping[str, pd.DataFrame]:
        """Return tables to write as CSV, by the names of their files."""
        return {}


def figure_with_note(
    picture: Picture | None, note: str, legend: Mapping[str, Style] | None = None
) -> list[Block]:
    """Make the blocks of a picture and small print below it; none without a picture.

    Args:
        picture: The picture; one without panels is left out too.
        note: The small print.
        legend: Methods to explain above the picture.
    """
    if picture is None or not picture.panels:
        return []
    return [Figure(picture, legend or {}), Paragraph(note, "note")]


Show: TypeAlias = Callable[[Any], Cell | str]
"""Makes the cell of a column from a row of a data frame."""


def table_by_task(label: str, data: pd.DataFrame, columns: Mapping[Column, Show]) -> Table:
    """Make a table with a row for each task and method.

    Args:
        label: What it shows.
        data: A row for each task and method, with columns `task` and `method`.
        columns: The columns with their cells.
    """
    rows = {
        str(task): [
            Row([show(row) for show in columns.values()], [row.method]) for row in rows_of(own)
        ]
        for task, own in data.groupby("task", sort=False)
    }
    return Table(label, [*columns], rows)


def file_links(names: Iterable[str]) -> list[str | Span]:
    """Return links to tables that are written as CSV, as the end of a sentence."""
    links: list[str | Span] = []
    for name in names:
        links += [", ", Span(f"{name}.csv", "link", f"{name}.csv")]
    return [*links[1:], "."]


def within(blocks: Sequence[Block]) -> Iterator[Block]:
    """Iterate over blocks and those that are folded within them."""
    for block in blocks:
        yield block
        if isinstance(block, Folded):
            yield from within(block.blocks)


def number(value: float | None, digits: int = 0) -> str:
    """Format a number; NaN and None are a dash.

    Example:
        >>> number(1234.5, 1), number(float("nan"))
        ('1,234.5', '–')
    """
    return "–" if value is None or math.isnan(value) else f"{value:,.{digits}f}"


def spread(value: float, deviation: float, digits: int = 1) -> str:
    """Format a mean and its standard deviation, where there is one.

    Example:
        >>> spread(2.0, 0.5), spread(2.0, float("nan"))
        ('2.0 ± 0.5', '2.0')
    """
    mean = number(value, digits)
    return mean if math.isnan(deviation) else f"{mean} ± {number(deviation, digits)}"


def plural(count: int, noun: str) -> str:
    """Format a number with its noun.

    Example:
        >>> plural(1, "seed"), plural(3, "seed")
        ('1 seed', '3 seeds')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def pair_table(
    label: str,
    tasks: Sequence[str],
    pvalues: pd.DataFrame,
    alpha: float,
    *,
    marks: Mapping[str, str] = MappingProxyType({"▲": "better", "▼": "worse"}),
    swatches: bool = True,
    paper: Paper | None = None,
) -> Table:
    """Make a table with a row for each pair of methods and a column for each task.

    Args:
        label: What it shows.
        tasks: The columns.
        pvalues: `all_pvalues` of comparisons.
        alpha: Level of the tests.
        marks: Mark and word of the first method being ahead, and of the second.
        swatches: If True, methods have their mark.
        paper: How LaTeX shows it.
    """
    kind: Any = "method" if swatches else "head"
    columns = [Column("First", kind), Column("Second", kind)]
    columns += [Column(task, "number", task=task) for task in tasks]
    ahead, behind = marks.items()
    shown = shown_pvalues(pvalues["pvalue"], pvalues["permutation_pvalue"], alpha)
    pairs: dict[tuple[str, str], dict[str, Cell]] = {}
    for row, pvalue in zip(rows_of(pvalues), shown, strict=True):
        mark, word = ahead if row.ahead == row.a else behind
        pairs.setdefault((row.a, row.b), {})[row.task] = Cell(
            pvalue_only(pvalue, alpha),
            mark=mark if row.ahead else "",
            meaning=f"{row.a} {word}",
            significant=bool(row.significant),
        )
    rows = [Row([*names, *map(own.get, tasks)], names) for names, own in pairs.items()]
    return Table(label, columns, rows, "pairs", paper)
