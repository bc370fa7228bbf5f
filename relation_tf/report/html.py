"""HTML of a report, as a page or for a notebook."""

from __future__ import annotations

from itertools import groupby
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from relation_tf.report.blocks import Block, Column, Paragraph, Span, Table, Text, inline, spans
from relation_tf.report.context import ReportContext
from relation_tf.report.pictures.drawing import swatch

_SPANS = {
    "bold": "<b>{0}</b>",
    "italic": "<i>{0}</i>",
    "code": "<code>{0}</code>",
    "superscript": "<sup>{0}</sup>",
    "link": '<a href="{1}">{0}</a>',
    "section": '<a href="#{1}">{0}</a>',
    "digest": '<code title="{1}">{0}</code>',
}


def page(context: ReportContext) -> str:
    """Return a self-contained HTML page."""
    suite = None if context.results is None else context.results.begun
    return _render(
        "page.html.jinja",
        context,
        tasks=dict.fromkeys([*context.scores.tasks, *(suite.tasks if suite else ())]),
        files=[
            "report.md",
            "report.tex",
            "report.json",
            *(f"{name}.csv" for name in context.tables),
        ],
        widths={method.name: str(method.units) for method in (suite.methods() if suite else ())},
    )


def notebook(context: ReportContext) -> str:
    """Return the short answer, the scores and the figure of all seeds."""
    blocks = [
        block
        for name, own in context.blocks.items()
        if context.sections[name].notebook
        for block in own
        if not _has_link(block)
    ]
    return _render("notebook.html.jinja", context, blocks=blocks)


def _render(template: str, context: ReportContext, **values: Any) -> str:
    environment = Environment(
        loader=PackageLoader("relation_tf", "report"),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"inline": _inline, "swatch": swatch, "heads": _heads}
    environment.globals["swatches"] = {name: swatch(look) for name, look in context.styles.items()}
    return environment.get_template(template).render(context=context, **values)


def _has_link(block: Block) -> bool:
    """Return True for a paragraph with a link to a section, which may not be shown."""
    parts = spans(block.text) if isinstance(block, Paragraph) else []
    return any(isinstance(part, Span) and part.kind == "section" for part in parts)


def _inline(text: Text) -> Markup:
    return Markup(inline(text, escape, _SPANS))


class _Head(NamedTuple):
    """Heading of one column or of a group of columns."""

    column: Column | None
    group: str = ""
    span: int = 1
    rows: int = 1


def _heads(table: Table) -> list[list[_Head]]:
    """Return the rows of headings: two if some columns are grouped."""
    if not any(column.group for column in table.columns):
        return [[_Head(column) for column in table.columns]]
    first = []
    for group, columns in groupby(table.columns, key=lambda column: column.group):
        own = [*columns]
        first += [_Head(None, group, len(own))] if group else [_Head(each, rows=2) for each in own]
    return [first, [_Head(column) for column in table.columns if column.group]]
