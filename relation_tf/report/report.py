"""A report: one object, and its renderings as a page, Markdown, LaTeX, tables and JSON."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import tempfile
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from errno import ENOTDIR
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from relation_tf import __version__
from relation_tf.bench.results import Results, read_results
from relation_tf.errors import SuiteError
from relation_tf.files import write_bytes
from relation_tf.report import provenance
from relation_tf.report.answer import listed
from relation_tf.report.content import Content, content_of
from relation_tf.report.layout import LaidOut
from relation_tf.report.pictures.drawing import signed, swatch
from relation_tf.report.scores import Scores
from relation_tf.report.sources import (
    ScoreSource,
    doubts,
    join,
    join_results,
    read_report,
    read_source,
    unused_tests,
)
from relation_tf.stats.design import pvalue_only

# Between columns, and on a line of article (345 points), in digits of its type: 5 and 4.25 points.
_NORMAL = 2.4, 64.0
_SMALL = 1.4, 74.0


@dataclass(frozen=True, repr=False)
class Report:
    """A comparison of methods, ready to be shown.

    Printed it gives the means and the short answer; in a notebook it shows itself.

    Attributes:
        content: What it holds.
        read_from: Folders that it was made of.
    """

    content: Content
    read_from: Sequence[Path] = ()

    def __str__(self) -> str:
        """The means, the short answer and the warnings, for a terminal."""
        bullets = [
            textwrap.fill(sentence, 100, initial_indent="- ", subsequent_indent="  ")
            for sentence in self.content.values["answer"]
        ]
        warnings = [
            textwrap.fill(
                f"Warning: {warning}", 100, subsequent_indent="  ", break_on_hyphens=False
            )
            for warning in self.content.values["warnings"]
        ]
        return "\n".join([*self._means(), *bullets, *warnings])

    def __repr__(self) -> str:
        return f"<Report: {self.content.values['title']}>"

    def _means(self) -> list[str]:
        values = self.content.values
        if not values["cells"]:
            return []
        rows = [["", *values["methods"]]]
        for task, metrics in values["columns"].items():
            cells = [values["cells"].get((method, task)) for method in values["methods"]]
            told = [metrics] if metrics else []
            told += ["lower is better"] if task in values["lower_is_better"] else []
            label = f"{task} ({', '.join(told)})" if told else task
            rows.append([label, *("-" if cell is None else cell.in_words() for cell in cells)])
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

    def latex(self) -> str:
        """The tables for a paper, with booktabs: scores, the paper's own layout, pairs.

        A table that is wider than a line of LaTeX's article is set smaller, and where that is not
        enough, in parts.
        """
        environment = _environment(
            # What a macro of the template makes is escaped already.
            finalize=lambda value: value if isinstance(value, Markup) else escape_latex(value),
            block_start_string="<%",
            block_end_string="%>",
            variable_start_string="<<",
            variable_end_string=">>",
            comment_start_string="<#",
            comment_end_string="#>",
        )
        return environment.get_template("report.tex.jinja").render(
            **self._values,
            slug=re.sub(r"[^a-z0-9]+", "-", self._values["title"].lower()).strip("-") or "report",
            fits=self._fits(),
        )

    def _fits(self) -> dict[str, Any]:
        """How each of the tables for a paper fits a line."""
        values = self.content.values
        scores = {name: [name] for name in values["columns"]}
        for (_, name), cell in values["cells"].items():
            scores[name].append(cell.in_words() + cell.letters)
        pairs = {name: [name] for name in values["columns"]}
        for row in values["pairs"].values():
            for name, pair in row.items():
                pairs[name].append(f"^ {pair.pvalue}")
        return {
            "scores": _fit([["Method", *values["methods"]]], scores),
            "laid_out": [_fit_laid_out(table) for table in values["laid_out"]],
            "pairs": _fit([*zip(("First", "Second"), *values["pairs"], strict=True)], pairs),
        }

    def json(self) -> str:
        """The answer and all tables as JSON; what is not a finite number is null."""
        values = self.content.values
        content = {
            "title": values["title"],
            "question": values["question"],
            "in_points": values["in_points"],
            "timed": values["timed"],
            "lower_is_better": values["lower_is_better"],
            "answer": values["answer"],
            "warnings": values["warnings"],
            "failures": [list(failure) for failure in values["failures"]],
            "figures": [picture.name for picture in self.content.pictures],
            "tables": {name: _records(table) for name, table in self.tables.items()},
        }
        return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    def _repr_html_(self) -> str:
        return self._page("notebook.html.jinja")

    def write(self, folder: str | Path) -> Path:
        """Write all renderings into a folder.

        `report.html` is one page with everything in it; beside it lie `report.md` with its
        `figures/`, `report.tex`, `report.json`, and the tables as CSV, whose scores are as they
        came: fractions, where a suite made them.

        Args:
            folder: Where; made where it is not there. Tables and figures of an earlier report there
                are removed, nothing else. Other files are never overwritten.

        Returns:
            The path of `report.html`.

        Raises:
            SuiteError: Where the folder cannot be written, or has files of these names that no
                report wrote, or from which this one was read.
        """
        folder = Path(folder)
        files = self._files()
        with _writing(folder):
            earlier = {*_earlier(folder)}
            self._check_names(folder, files, earlier)
            (folder / "figures").mkdir(parents=True, exist_ok=True)
            for name, content in files.items():
                write_bytes(folder / name, content)
            for file in earlier - {*_earlier(folder)}:
                file.unlink(missing_ok=True)
        return folder / "report.html"

    def _files(self) -> dict[str, bytes]:
        """All files by their names; first the one that says which belong to a report."""
        texts = {
            "report.json": self.json(),
            **{
                f"{name}.csv": table.to_csv(index=False, lineterminator="\n")
                for name, table in self.tables.items()
            },
            **{f"figures/{each.name}.svg": each.svg() for each in self.content.pictures},
            "report.md": self.markdown(),
            "report.tex": self.latex(),
            "report.html": self.html(),
        }
        files = {name: text.encode() for name, text in texts.items()}
        pictures = {each.name: each for each in self.content.pictures}
        if "scores" in pictures:
            files["figures/scores.png"] = pictures["scores"].png()
        return files

    def _check_names(self, folder: Path, names: Iterable[str], earlier: Iterable[Path]) -> None:
        """Refuse to write over what is not an earlier report's, or where it was read from."""
        for source in self.read_from:
            if source.resolve() == folder.resolve():
                raise SuiteError(
                    f"{folder}: expected a folder that holds none of what is compared. Received: "
                    f"{source}"
                )
        ours = {*earlier}
        if (folder / "report.json").exists() or _of_before(folder):
            ours |= {folder / f"report.{kind}" for kind in ("json", "html", "md", "tex")}
        for file in (folder / name for name in names):
            if file.exists() and file not in ours and not _of_before(folder):
                raise SuiteError(
                    f"{file}: expected no such file where a report is written, which would write "
                    "over it"
                )

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
        >>> from relation_tf.bench import RunFolder
        >>> from relation_tf.config import load_suite
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


def compare(
    *sources: ScoreSource,
    labels: Sequence[str] | None = None,
    merge: bool = False,
    lower_is_better: Iterable[str] = (),
    alpha: float | None = None,
    control: str | None = None,
    title: str = "",
    question: str = "",
) -> Report:
    """Compare scores of any origin: suites side by side, or tables that no suite has made.

    A method that several sources have is called after its source as well, such as
    `relation-64 (before)`; with `merge` it is one method whose seeds the sources share.

    Args:
        sources: Each a suite's folder or its `Results`; a folder with a report's `scores.csv`; or a
            CSV file or `pandas.DataFrame` with the columns `task`, `method`, `seed` and `score` (or
            `value`), where several rows of a seed with a `metric` each count their mean.
        labels: What the sources are called, by default their folders or files.
        merge: Whether a method's seeds of several sources are those of one method.
        lower_is_better: The tasks whose lowest score is the best, beside those that a report says.
        alpha: The level of the tests, between 0 and 1; by default that of the suites, where all
            declare the same test, else .05.
        control: The method that all others are compared with, by default all are with all, or as
            the suites declare. It is to be decided on before the runs.
        title: Of the report, by default the labels.
        question: What the comparison is to answer.

    Raises:
        SuiteError, DataError: For a source that cannot be read or stand beside the others.

    Example:
        >>> import pandas as pd
        >>> rows = [("MR", method, seed, level + seed / 1000)
        ...         for method, level in (("CNN", 0.78), ("GRU", 0.79)) for seed in range(5)]
        >>> table = pd.DataFrame(rows, columns=["task", "method", "seed", "score"])
        >>> print(compare(table, title="Two of mine"))
                        CNN              GRU
        MR  0.7820 ± 0.0016  0.7920 ± 0.0016
        <BLANKLINE>
        - GRU is better than CNN on MR (p < .05).
    """
    if not sources:
        raise SuiteError("compare: expected at least one source of scores, found none")
    if alpha is not None and not 0 < alpha < 1:
        raise SuiteError(f"alpha: expected a number between 0 and 1. Received: {alpha!r}")
    # The letters of a name are no names.
    labels = [labels] if isinstance(labels, str) else labels
    lower_is_better = [lower_is_better] if isinstance(lower_is_better, str) else [*lower_is_better]
    if labels is not None and len(labels) != len(sources):
        raise SuiteError(
            f"labels: expected one for each of {len(sources)} sources. Received: {len(labels)}"
        )
    named: Sequence[str | None] = labels or [None] * len(sources)
    read = [
        read_source(source, label, number)
        for number, (source, label) in enumerate(zip(sources, named, strict=True), start=1)
    ]
    scores, names = join(read, merge=merge, lower_is_better=lower_is_better, alpha=alpha)
    if control is not None:
        if control not in scores.methods:
            raise SuiteError(
                f"control: expected one of {listed([*scores.methods])}. Received: {control!r:.80}"
            )
        scores = replace(scores, control=control)
    joined = join_results(read, names, scores)
    shown = title or listed([source.label for source in read])
    content = content_of(scores, joined, shown, question)
    own = content.values
    manifests = [manifest for source in read for manifest in source.manifests]
    warnings = [
        *unused_tests(read, names, scores),
        *doubts(read, scores),
        *own["warnings"],
        *provenance.unlike_machines(manifests),
        *provenance.unlike_pretraining(
            [source.pretraining for source in read if source.pretraining]
        ),
    ]
    made = {
        "sources": [source.origin for source in read],
        "pre-training": [
            provenance.in_a_line(source.pretraining) for source in read if source.pretraining
        ],
        "compared by": _command(
            sources,
            {
                "--labels": [*(labels or ())],
                "--merge": merge,
                "--lower-is-better": lower_is_better,
                "--alpha": alpha,
                "--control": control,
                "--title": title,
            },
        ),
        "compared with": [f"relation_tf {__version__}"],
    }
    of_suites = [run["manifest"] for run in joined.runs] if joined else []
    of_runs = provenance.made([*of_suites, *manifests])
    made = {key: values for key, values in made.items() if values} | of_runs
    return Report(
        replace(content, values={**own, "warnings": warnings, "made": made}),
        [folder for source in read for folder in source.folders],
    )


def _command(sources: Sequence[ScoreSource], options: Mapping[str, Any]) -> list[str]:
    """What gives the same comparison in a shell; none where a shell cannot ask for it."""
    words = ["relation-tf", "compare"]
    for source in sources:
        if not isinstance(source, str | os.PathLike):
            return []
        words.append(str(source))
    for option, value in options.items():
        if value is True:
            words.append(option)
        elif value and isinstance(value, list):
            if any("," in name for name in value):
                return []
            words += [option, ",".join(value)]
        elif value:
            words += [option, str(value)]
    return [shlex.join(words)]


def render(results: Results | str | Path, out: str | Path | None = None) -> Path:
    """Write the report of a suite; see `Report.write`.

    Args:
        results: Results, or a suite's folder.
        out: Where to write, by default `report/` in the suite's folder.

    Returns:
        The path of `report.html`.

    Raises:
        SuiteError: Where the folder is not one of a suite, a file in it is broken, or the report
            cannot be written.

    Example:
        >>> import tempfile
        >>> from relation_tf.bench import RunFolder
        >>> from relation_tf.config import load_suite
        >>> folder = Path(tempfile.mkdtemp())
        >>> RunFolder(folder).open(load_suite("demo"))
        >>> render(folder).relative_to(folder).as_posix()
        'report/report.html'
    """
    if not isinstance(results, Results):
        results = read_results(results)
    folder = results.folder / "report" if out is None else Path(out)
    check_folder(folder)
    return make_report(results).write(folder)


def check_folder(folder: Path) -> None:
    """Refuse a folder that cannot be written, before anything is computed for it.

    Raises:
        SuiteError: The message names what is in the way.
    """
    with _writing(folder):
        there = next(path for path in (folder, *folder.parents) if path.exists())
        if not there.is_dir():
            raise NotADirectoryError(ENOTDIR, "a folder is expected here", str(there))
        try:
            # What cannot be written below /proc, or on a disk that is full, only a trial tells.
            with tempfile.TemporaryDirectory(dir=there):
                pass
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(there)) from error


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        place = error.filename or folder
        raise SuiteError(f"{place!s:.160}: cannot be written: {error.strerror or error}") from error


def _earlier(folder: Path) -> list[Path]:
    """The tables and figures of an earlier report, as its report.json names them."""
    try:
        said = read_report(folder)
        names = [f"{name}.csv" for name in said["tables"]]
        for name in said["figures"]:
            names += [f"figures/{name}.svg", f"figures/{name}.png"]
    except (SuiteError, KeyError, TypeError):  # none, or none of ours
        return []
    # A name of a task cannot lead out of the folder, and a file that was changed must not.
    return [folder / name for name in names if name.count("/") == name.startswith("figures/")]


def _of_before(folder: Path) -> bool:
    """Whether a report lies there that is from before there was a `report.json`."""
    page = folder / "report.html"
    if (folder / "report.json").exists() or not page.is_file():
        return False
    return "relation_tf " in page.read_text(encoding="utf-8", errors="replace")


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows, with None for what JSON has no number for."""
    return [
        {
            str(key): None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in row.items()
        }
        for row in table.to_dict("records")
    ]


def escape_markdown(value: Any) -> str:
    r"""Text that Markdown shows as it is, on one line and within a table's cell.

    Example:
        >>> print(escape_markdown("a|b *c*"))
        a\|b \*c\*
    """
    return re.sub(r"([\\`*_\[\]<>|#~$])", r"\\\1", " ".join(str(value).split()))


def escape_latex(value: Any) -> str:
    r"""Text that LaTeX shows as it is, on one line.

    Example:
        >>> print(escape_latex("50 % of a_b"))
        50 \% of a\_b
    """
    text = " ".join(str(value).split())
    return re.sub(r"[\\&%$#_{}~^<>|±×−]", lambda found: _LATEX[found[0]], text)


_LATEX = {
    **{each: f"\\{each}" for each in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "−": "$-$",
}  # fmt: skip


class _Fit(NamedTuple):
    """Whether a table is set small, and its columns in parts that each fit a line."""

    small: bool
    parts: list[list[Any]]


def _fit(names: Iterable[Sequence[str]], columns: Mapping[Any, Sequence[str]]) -> _Fit:
    """Columns of text that stand after those of names in each part; a line has some room."""

    def width(texts: Sequence[str], between: float) -> float:
        return max(map(len, texts)) + between

    between, room = _NORMAL
    total = sum(width(texts, between) for texts in (*names, *columns.values()))
    if total <= room:
        return _Fit(small=False, parts=[[*columns]])
    between, room = _SMALL
    room -= sum(width(texts, between) for texts in names)
    parts: list[list[Any]] = []
    left = 0.0
    for column, texts in columns.items():
        if not parts or width(texts, between) > left:
            parts.append([])
            left = room
        parts[-1].append(column)
        left -= width(texts, between)
    return _Fit(small=True, parts=parts)


def _fit_laid_out(table: LaidOut) -> _Fit:
    columns = {column: [table.heading(column)] for column in table.columns}
    for (_, column), cell in table.cells.items():
        published = f" ({cell.published})" if cell.published else ""
        columns[column].append(f"{cell.mean} ± {cell.deviation}{cell.letters}{published}")
    return _fit([*zip(table.row_names, *table.rows, strict=True)], columns)


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
        "signed": signed,
        "pvalue": pvalue_only,
        "swatch": swatch,
    }
    return environment


def _spread(value: float, deviation: float, digits: int = 1) -> str:
    """A mean and its standard deviation, where there is one."""
    mean = _number(value, digits)
    return mean if math.isnan(deviation) else f"{mean} ± {_number(deviation, digits)}"


def _number(value: float, digits: int = 0) -> str:
    return "–" if math.isnan(value) else f"{value:,.{digits}f}"
