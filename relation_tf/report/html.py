"""HTML of a report, as a page or for a notebook."""

from __future__ import annotations

from itertools import groupby
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from relation_tf.report.blocks import Column, Paragraph, Table
from relation_tf.report.data import ReportData
from relation_tf.report.pictures.drawing import swatch
from relation_tf.report.text import inline

_SPANS = {
    "bold": "<b>{0}</b>",
    "italic": "<i>{0}</i>",
    "code": "<code>{0}</code>",
    "superscript": "<sup>{0}</sup>",
    "link": '<a href="{1}">{0}</a>',
}


def page(data: ReportData) -> str:
    """Return a self-contained HTML page."""
    suite = None if data.results is None else data.results.begun
    return _render(
        "page.html.jinja",
        data,
        tasks=dict.fromkeys([*data.scores.tasks, *(suite.tasks if suite else ())]),
        files=[
            "report.md",
            "report.tex",
            "report.json",
            *(f"{name}.csv" for name in data.tables),
        ],
        widths={method.name: str(method.units) for method in (suite.methods() if suite else ())},
    )


def notebook(data: ReportData) -> str:
    """Return the short answer, the scores and the figure of all seeds."""
    blocks = [
        block
        for name, own in data.blocks.items()
        if data.sections[name].notebook
        for block in own
        # Links to other sections would not work.
        if not (isinstance(block, Paragraph) and "](#" in block.text)
    ]
    return _render("notebook.html.jinja", data, blocks=blocks)


def _render(template: str, data: ReportData, **values: Any) -> str:
    environment = Environment(
        loader=PackageLoader("relation_tf", "report/templates"),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"inline": _inline, "swatch": swatch, "heads": _heads}
    environment.globals["swatches"] = {name: swatch(look) for name, look in data.styles.items()}
    return environment.get_template(template).render(data=data, **values)


def _inline(text: str) -> Markup:
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
