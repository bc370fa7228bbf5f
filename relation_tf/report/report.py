"""Report object and its rendering as HTML, Markdown, LaTeX, tables and JSON."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from errno import ENOTDIR
from functools import cached_property, partial
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING, Any

import pandas as pd

from relation_tf.errors import SuiteError
from relation_tf.files import expand_home, stays_inside, write_bytes
from relation_tf.report.blocks import record
from relation_tf.report.data import ReportData
from relation_tf.report.formats import figures_for_paper, latex, markdown, notebook, page, terminal
from relation_tf.report.sections.costs import read_costs
from relation_tf.report.sources import failing_layers, read_report, read_source
from relation_tf.report.text import references, state
from relation_tf.system import interrupts_delayed
from relation_tf.terminal import advance

if TYPE_CHECKING:
    from relation_tf.bench.results import Results

_MOST_INDENTED = 10_000  # rows; more in report.json are written without line breaks


@dataclass(frozen=True, repr=False)
class Report:
    """Comparison of methods.

    `print` shows the means and, last, the verdicts; a notebook displays tables and figures.

    Attributes:
        data: Data and sections of the report.
        read_from: Files and folders of the sources.
    """

    data: ReportData
    read_from: Sequence[Path] = ()

    def __post_init__(self) -> None:
        """Compute all sections, so that invalid files raise an error now."""
        _ = self.data.blocks

    def __str__(self) -> str:
        """Return the means, findings, warnings and verdicts, in short, for a terminal."""
        return terminal(self.data)

    def __repr__(self) -> str:
        return f"<Report: {self.data.title}>"

    @property
    def tables(self) -> Mapping[str, pd.DataFrame]:
        """All tables: `scores`, `table` (means and standard deviations), `pvalues` and others."""
        return self.data.tables

    @property
    def headline(self) -> str:
        """The verdicts, or the best method and the tests, in one sentence for each family."""
        return " ".join(map(str, self.data.headlines))

    @property
    def warnings(self) -> list[str]:
        """Warnings about differences between runs or scores, and about failures."""
        return [*map(str, self.data.warnings)]

    def html(self) -> str:
        """Return a self-contained HTML page."""
        return page(self.data)

    def markdown(self) -> str:
        """Return Markdown, with links to the figures that `write` saves."""
        return markdown(self.data)

    def latex(self) -> str:
        """Return a LaTeX document with the paragraph, tables and figures for a paper."""
        return latex(self.data)

    def _repr_html_(self) -> str:
        return notebook(self.data)

    def json(self) -> str:
        """Return all that pages say and all tables as JSON; numbers not finite are null."""
        data = self.data
        scores = data.scores
        statements = {
            "headline": data.headlines,
            "caveats": data.caveats,
            "answer": data.findings,
            "warnings": data.warnings,
        }
        content = {
            "title": data.title,
            "question": data.question,
            "in_points": scores.in_points,
            "timed": scores.timed,
            **({"points": scores.points} if scores.points else {}),
            **({"artificial": True} if scores.artificial else {}),
            **({"replicate": scores.replicate} if scores.paired else {}),
            **({} if scores.test_share is None else {"test_share": scores.test_share}),
            "networks": {
                task: scores.networks.get(task, task)
                for tasks in scores.shared.values()
                for task in tasks
            },
            "lower_is_better": sorted(scores.lower_is_better),
            "directions": {task: x._asdict() for task, x in scores.directions.items()},
            "headline": " ".join(map(str, statements["headline"])),
            **{name: [*map(str, x)] for name, x in statements.items() if name != "headline"},
            "statements": {name: [x.record() for x in xs] for name, xs in statements.items()},
            "failures": [list(failure) for failure in data.failures],
            "sections": {
                name: {"heading": data.sections[name].heading, "blocks": [*map(record, blocks)]}
                for name, blocks in data.blocks.items()
            },
            "figures": [picture.name for picture in data.pictures],
            "tables": {name: _records(table) for name, table in self._written.items()},
        }
        long = any(len(table) > _MOST_INDENTED for table in self.tables.values())
        return (
            json.dumps(
                content,
                indent=None if long else 1,
                ensure_ascii=False,
                allow_nan=False,
                default=lambda number: number.item(),  # of NumPy
            )
            + "\n"
        )

    def write(self, folder: str | Path, *, pdf: bool = False) -> Path:
        """Write the report into a folder in all formats.

        The files are `report.html` (self-contained), `report.md` with `figures/`, `report.tex` with
        `references.bib`, `report.json`, and tables as CSV. Scores in CSV have their original unit:
        fractions for scores of suites.

        Args:
            folder: The folder; created if missing. Tables and figures of an earlier report are
                replaced. Other files are never overwritten.
            pdf: If True, also make `report.pdf` with pdflatex or tectonic.

        Returns:
            The path of `report.html`.

        Raises:
            SuiteError: If the folder cannot be written, has files of these names that are not from
                a report, or is a source of this report; or, after the other files are written, if
                there is no `report.pdf`, because no LaTeX is installed or it fails.
        """
        folder = expand_home(folder)
        self.check_files(folder)
        makers, files = self._files(), {}
        for done, (name, make) in enumerate(makers.items()):
            advance("files of the report", done, len(makers))
            files[name] = make()
        with _writing(folder), interrupts_delayed():
            earlier = _earlier(folder)
            (folder / "figures").mkdir(parents=True, exist_ok=True)
            for name, content in files.items():
                write_bytes(
                    folder / name, content.encode() if isinstance(content, str) else content
                )
            for file in {*earlier} - {*_earlier(folder)}:
                file.unlink(missing_ok=True)
            if earlier:
                (folder / "report.pdf").unlink(missing_ok=True)
        if pdf:
            from relation_tf.report.typesetting import write_pdf

            with _writing(folder):
                write_pdf(folder)
        return folder / "report.html"

    @cached_property
    def _written(self) -> dict[str, pd.DataFrame]:
        """The tables as written; scores are exact, because comparisons read them."""
        tables = self.tables.items()
        return {name: table if name == "scores" else _rounded(table) for name, table in tables}

    def _files(self) -> dict[str, Callable[[], str | bytes]]:
        """Return functions that make the files, by name; report.json first, which lists them."""
        pictures = {picture.name: picture for picture in self.data.pictures}
        files: dict[str, Callable[[], str | bytes]] = {"report.json": self.json}
        for name, table in self._written.items():
            files[f"{name}.csv"] = partial(_csv, table)
        files |= {f"figures/{name}.svg": picture.svg for name, picture in pictures.items()}
        files |= {"report.md": self.markdown, "report.tex": self.latex, "report.html": self.html}
        files["references.bib"] = lambda: "\n".join(references().values()) + "\n"
        for picture in figures_for_paper(self.data):
            files[f"figures/{picture.name}.pdf"] = picture.pdf
        if "scores" in pictures:
            files["figures/scores.png"] = pictures["scores"].png
        return files

    def check_files(self, folder: str | Path) -> None:
        """Check that `write` overwrites only files of an earlier report, and no sources.

        Args:
            folder: The folder of `write`.

        Raises:
            SuiteError: The message names the file.
        """
        folder = expand_home(folder)
        with _writing(folder):
            earlier, files = _earlier(folder), [folder / name for name in self._files()]
            files += [folder / "report.pdf"]
            changed = {path.resolve() for path in (folder, *files, *earlier)}
            ours = {*earlier, folder / "report.json"}
            if earlier:  # every report has tables
                ours |= {folder / f"report.{kind}" for kind in ("html", "md", "tex", "pdf")}
                ours.add(folder / "references.bib")
            foreign = [file for file in files if file.exists() and file not in ours]
        for source in (source for source in self.read_from if source.resolve() in changed):
            raise SuiteError(
                f"{source} is a source of this comparison, and the report would overwrite it. "
                f"Choose another folder, such as {folder / 'comparison'}"
            )
        if foreign:
            raise SuiteError(
                f"{foreign[0]} was not written by a report, and this report would overwrite it. "
                "Choose another folder"
            )


def make_report(
    results: Results | str | Path, costs: Sequence[Results | str | Path] = ()
) -> Report:
    """Return the report of a suite.

    Args:
        results: Results, or a suite's folder.
        costs: Timed suites, see `compare`.

    Raises:
        SuiteError: If a folder is not a suite's folder, or a file in it is invalid.

    Example:
        >>> import tempfile
        >>> from relation_tf.bench import RunFolder
        >>> from relation_tf.config import load_suite
        >>> folder = Path(tempfile.mkdtemp())
        >>> RunFolder(folder).open(load_suite("demo"))
        >>> print(make_report(folder))  # doctest: +NORMALIZE_WHITESPACE
        Higher is better on all tasks.
        - Preliminary: 0 of 180 runs are done, 180 not done.
        - No results yet.
        <BLANKLINE>
        No verdict: no task has two scores of attention-64 and of another method. Verdicts need
          several seeds or folds, or items with scores of 0 and 1.
    """
    results = _read(results)
    suite = results.suite
    title = suite.title or suite.name
    source = read_source(results)
    notes = (state("note", text=note) for note in source.notes)
    warnings = [*failing_layers([source]), *notes]
    data = ReportData(
        source.scores, source.results, title, suite.question, warnings,
        timed_costs=read_costs(costs, source.scores.methods),
    )  # fmt: skip
    return Report(data)


def _read(results: Results | str | Path) -> Results:
    from relation_tf.bench.results import read_results

    return read_results(results) if isinstance(results, str | os.PathLike) else results


def check_folder(folder: Path) -> None:
    """Check that a folder can be written, before a report is computed.

    Raises:
        SuiteError: The message names the path and the reason.
    """
    with _writing(folder):
        existing = next(path for path in (folder, *folder.parents) if path.exists())
        if not existing.is_dir():
            raise NotADirectoryError(ENOTDIR, "must be a folder, not a file", str(existing))
        try:
            # Only a trial shows that /proc or a full disk cannot be written.
            with tempfile.TemporaryDirectory(dir=existing):
                pass
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(existing)) from error


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        place = error.filename or folder
        raise SuiteError(f"{place!s:.160}: cannot be written: {error.strerror or error}") from error


def _earlier(folder: Path) -> list[Path]:
    """Return the tables and figures of an earlier report, from its report.json."""
    try:
        content = read_report(folder)
        names = [f"{name}.csv" for name in content["tables"]]
        for name in content["figures"]:
            names += [f"figures/{name}.{kind}" for kind in ("svg", "png", "pdf")]
    except (SuiteError, KeyError, TypeError):  # no report.json, or from another program
        return []
    # Names from a modified report.json must not lead out of the folder.
    depths = {
        name: len(PureWindowsPath(name).parts) - name.startswith("figures/") for name in names
    }
    return [folder / name for name in names if stays_inside(name) and depths[name] == 1]


def _csv(table: pd.DataFrame) -> str:
    return table.to_csv(index=False, lineterminator="\n")


def _rounded(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with fractions of ten digits, so that 0.6 is not 0.5999999999999943."""
    rounded = table.copy()
    for name, column in table.items():
        if column.dtype.kind == "f":
            rounded[name] = [x if x.is_integer() else float(f"{x:.10g}") for x in column.tolist()]
    return rounded


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows, with None for numbers that are not finite."""
    return [
        {
            str(key): None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in row.items()
        }
        for row in table.to_dict("records")
    ]
