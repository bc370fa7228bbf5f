"""A report: one object, and its renderings as a page, Markdown, LaTeX, tables and JSON."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from relation_tf.bench.results import Results, read_results
from relation_tf.report.content import Content, content_of, pvalue_only
from relation_tf.report.pictures.drawing import swatch
from relation_tf.report.scores import Scores


@dataclass(frozen=True, repr=False)
class Report:
    """A comparison of methods, ready to be shown.

    Printed it gives the means and the short answer; in a notebook it shows itself.

    Attributes:
        content: What it holds.
    """

    content: Content

    def __str__(self) -> str:
        """The means and the short answer, for a terminal."""
        bullets = [
            textwrap.fill(sentence, 100, initial_indent="- ", subsequent_indent="  ")
            for sentence in self.content.values["answer"]
        ]
        return "\n".join([*self._means(), *bullets])

    def __repr__(self) -> str:
        return f"<Report: {self.content.values['title']}>"

    def _means(self) -> list[str]:
        values = self.content.values
        if not values["cells"]:
            return []
        rows = [["", *values["methods"]]]
        for task in values["columns"]:
            cells = [values["cells"].get((method, task)) for method in values["methods"]]
            rows.append([task, *("-" if cell is None else cell.in_words() for cell in cells)])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
            for row in rows
        ] + [""]

    @property
    def tables(self) -> Mapping[str, pd.DataFrame]:
        """The numbers in full: `scores`, `table` (means and deviations), `pvalues` and others."""
        return self.content.tables

    def html(self) -> str:
        """One page with everything in it, that needs no network."""
        return self._page("report.html.jinja")

    def markdown(self) -> str:
        """Markdown, with links to the pictures that `write` lays beside it."""
        return (
            _environment(finalize=escape_markdown)
            .get_template("report.md.jinja")
            .render(**self._values)
        )

    def _repr_html_(self) -> str:
        return self._page("notebook.html.jinja")

    def write(self, folder: str | Path) -> Path:
        """Write all renderings into a folder.

        `report.html` is one page with everything in it; beside it lie `report.md`, its `figures/`,
        and the tables as CSV, whose scores are as they came: fractions, where a suite made them.

        Args:
            folder: Where; made where it is not there.

        Returns:
            The path of `report.html`.
        """
        folder = Path(folder)
        (folder / "figures").mkdir(parents=True, exist_ok=True)
        for name, table in self.tables.items():
            table.to_csv(folder / f"{name}.csv", index=False, lineterminator="\n", encoding="utf-8")
        for picture in self.content.pictures:
            file = folder / "figures" / f"{picture.name}.svg"
            file.write_text(picture.svg(), encoding="utf-8", newline="\n")
            if picture.name == "scores":
                file.with_suffix(".png").write_bytes(picture.png())
        (folder / "report.md").write_text(self.markdown(), encoding="utf-8", newline="\n")
        page = folder / "report.html"
        page.write_text(self.html(), encoding="utf-8", newline="\n")
        return page

    @cached_property
    def _values(self) -> dict[str, Any]:
        pictures = {picture.name: picture for picture in self.content.pictures}
        return {**self.content.values, "pictures": pictures, "tables": list(self.tables)}

    @cached_property
    def _drawn(self) -> dict[str, list[Markup]]:
        """The panels of each picture, drawn once for all pages."""
        return {picture.name: picture.inline for picture in self.content.pictures}

    def _page(self, template: str) -> str:
        return (
            _environment(autoescape=True)
            .get_template(template)
            .render(
                **self._values,
                swatches={name: swatch(style) for name, style in self.content.look.items()},
                panels=self._drawn,
            )
        )


def make_report(results: Results | str | Path) -> Report:
    """The report of a suite.

    Args:
        results: Results, or a suite's folder.

    Raises:
        SuiteError: Where the folder is not one of a suite, or a file in it is broken.

    Example:
        >>> import tempfile
        >>> from relation_tf.bench import RunFolder, load_suite
        >>> folder = Path(tempfile.mkdtemp())
        >>> RunFolder(folder).open(load_suite("demo"))
        >>> print(make_report(folder))
        - Preliminary: 0 of 180 runs are done, 180 not done.
        - There is nothing to say yet.
    """
    if not isinstance(results, Results):
        results = read_results(results)
    suite = results.suite
    return Report(
        content_of(Scores.of(results), results, suite.title or suite.name, suite.question)
    )


def render(results: Results | str | Path, out: str | Path | None = None) -> Path:
    """Write the report of a suite; see `Report.write`.

    Args:
        results: Results, or a suite's folder.
        out: Where to write, by default `report/` in the suite's folder.

    Returns:
        The path of `report.html`.

    Raises:
        SuiteError: Where the folder is not one of a suite, or a file in it is broken.

    Example:
        >>> import tempfile
        >>> from relation_tf.bench import RunFolder, load_suite
        >>> folder = Path(tempfile.mkdtemp())
        >>> RunFolder(folder).open(load_suite("demo"))
        >>> render(folder).relative_to(folder).as_posix()
        'report/report.html'
    """
    if not isinstance(results, Results):
        results = read_results(results)
    return make_report(results).write(results.folder / "report" if out is None else out)


def escape_markdown(value: Any) -> str:
    r"""Text that Markdown shows as it is, on one line and within a table's cell.

    Example:
        >>> print(escape_markdown("a|b *c*"))
        a\|b \*c\*
    """
    return re.sub(r"([\\`*_\[\]<>|#~$])", r"\\\1", " ".join(str(value).split()))


def _environment(**options: Any) -> Environment:
    environment = Environment(
        loader=PackageLoader("relation_tf", "report"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        **options,
    )
    environment.filters |= {
        "number": _number,
        "spread": _spread,
        "signed": _signed,
        "pvalue": pvalue_only,
    }
    return environment


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")


def _spread(value: float, deviation: float, digits: int = 1) -> str:
    """A mean and its standard deviation, where there is one."""
    mean = _number(value, digits)
    return mean if math.isnan(deviation) else f"{mean} ± {_number(deviation, digits)}"


def _number(value: float, digits: int = 0) -> str:
    return "–" if math.isnan(value) else f"{value:,.{digits}f}"
