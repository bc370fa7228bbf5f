"""Report object and its rendering as HTML, Markdown, LaTeX, tables and JSON."""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from errno import ENOTDIR
from functools import cached_property, partial
from pathlib import Path, PureWindowsPath
from typing import Any

import pandas as pd

from relation_tf.bench.results import Results, read_results
from relation_tf.errors import SuiteError
from relation_tf.files import align, align_within, expand_home, stays_inside, write_bytes
from relation_tf.interrupts import interrupts_delayed
from relation_tf.report import html
from relation_tf.report.answer import first_sentences
from relation_tf.report.blocks import Table
from relation_tf.report.context import ReportContext
from relation_tf.report.families import family_prefix
from relation_tf.report.joining import failing_layers
from relation_tf.report.latex import latex
from relation_tf.report.markdown import markdown
from relation_tf.report.sections.answer import verdict_table
from relation_tf.report.sources import read_report, read_source
from relation_tf.report.standings import standings
from relation_tf.report.trade_offs import read_costs
from relation_tf.steps import advance
from relation_tf.words import first_of, number

_MOST_LINES = 40  # of a table in a terminal
_MOST_INDENTED = 10_000  # rows; more in report.json are written without line breaks


@dataclass(frozen=True, repr=False)
class Report:
    """Comparison of methods.

    `print` shows the means and, last, the verdicts; a notebook displays tables and figures.

    Attributes:
        context: Data and sections of the report.
        read_from: Files and folders of the sources.
    """

    context: ReportContext
    read_from: Sequence[Path] = ()

    def __post_init__(self) -> None:
        """Compute all sections, so that invalid files raise an error now."""
        _ = self.context.blocks

    def __str__(self) -> str:
        """Return the means, findings, warnings and verdicts, in short, for a terminal."""
        width = min(100, _columns())
        fill = partial(
            textwrap.fill, width=width, subsequent_indent="  ", break_long_words=False,
            break_on_hyphens=False,
        )  # fmt: skip
        context = self.context
        bullets = [fill(sentence, initial_indent="- ") for sentence in context.brief_answer]
        warnings = [
            fill(
                f"Warning: {first_sentences(warning, 2 * width)}",
                max_lines=4,
                placeholder=" ... (More in the report.)",
            )
            for warning in context.warnings
        ]
        # What matters most is last: a terminal scrolls the rest away.
        directions = [fill(said)] if (said := context.scores.stated_directions) else []
        return "\n".join([*self._means(), *directions, *bullets, *warnings, *self._verdicts(fill)])

    def __repr__(self) -> str:
        return f"<Report: {self.context.title}>"

    def _verdicts(self, fill: Callable[[str], str]) -> list[str]:
        """Return headline, caveats and table of verdicts; nothing without a reference."""
        lines = []
        for family, part in self.context.parts.items():
            if part.verdicts is not None:
                table = verdict_table(part)
                said = f"{family_prefix(family)}{part.headline}"
                lines += ["", fill(said), *map(fill, part.caveats)]
                lines += [] if table is None else ["", *_without_costs(table)]
        return lines

    def _means(self) -> list[str]:
        context = self.context
        if not context.cells:
            return []
        # Of a suite that is not finished, only what has scores.
        known = {name for name, _ in context.cells}
        methods = [name for name in context.drawn if name in known]
        rows, tested = [["", *methods]], {name for _, name in context.cells}
        columns = {task: own for task, own in context.columns.items() if task in tested}
        for task, metrics in [*columns.items()][:_MOST_LINES]:
            cells = [context.cells.get((method, task)) for method in methods]
            notes = [metrics] if metrics else []
            notes += ["lower is better"] if task in context.scores.lower_is_better else []
            label = f"{task} ({', '.join(notes)})" if notes else task
            rows.append([label, *("-" if cell is None else cell.with_notes() for cell in cells)])
        rows += self._mean_of_tasks(methods)
        if len(align(rows)[0]) > _columns():
            rows = [[*column] for column in zip(*rows, strict=True)]  # a row for each method
        limits = []
        if len(methods) < len(known):
            first = "the first {}" if context.mean_ranks.empty else "the {} best"
            limits.append(f"{first.format(len(methods))} of {len(known):,} methods")
        if len(columns) > _MOST_LINES:
            limits.append(first_of(_MOST_LINES, len(columns), "tasks"))
        note = f"Shown: {' and '.join(limits)}. All are in table.csv." if limits else ""
        return [*align_within(rows, _columns()), *([note] if note else []), ""]

    def _mean_of_tasks(self, methods: Sequence[str]) -> list[list[str]]:
        """Return a row with the mean over tasks, unless a suite has averages of its seeds."""
        scores, table = self.context.scores, standings(self.context.scores)
        tasks = len(table.attrs["tasks"])
        if scores.averages or tasks < 2 or table["mean"].isna().any():
            return []
        digits = scores.digits(scores.main_tasks[0])
        means = {str(name): number(mean, digits) for name, mean in table["mean"].items()}
        return [[f"mean of {tasks} tasks", *(means.get(name, "-") for name in methods)]]

    @property
    def tables(self) -> Mapping[str, pd.DataFrame]:
        """All tables: `scores`, `table` (means and standard deviations), `pvalues` and others."""
        return self.context.tables

    def html(self) -> str:
        """Return a self-contained HTML page."""
        return html.page(self.context)

    def markdown(self) -> str:
        """Return Markdown, with links to the figures that `write` saves."""
        return markdown(self.context)

    def latex(self) -> str:
        """Return LaTeX tables for a paper; they need booktabs."""
        return latex(self.context)

    def _repr_html_(self) -> str:
        return html.notebook(self.context)

    def json(self) -> str:
        """Return the short answer and all tables as JSON; numbers that are not finite are null."""
        context = self.context
        content = {
            "title": context.title,
            "question": context.question,
            "in_points": context.scores.in_points,
            "timed": context.scores.timed,
            **({"points": context.scores.points} if context.scores.points else {}),
            **({"artificial": True} if context.scores.artificial else {}),
            "networks": {
                task: context.scores.networks.get(task, task)
                for own in context.scores.shared.values()
                for task in own
            },
            "lower_is_better": sorted(context.scores.lower_is_better),
            "directions": {t: own._asdict() for t, own in context.scores.directions.items()},
            "headline": context.headline,
            "caveats": context.caveats,
            "answer": context.answer,
            "warnings": context.warnings,
            "failures": [list(failure) for failure in context.failures],
            "figures": [picture.name for picture in context.pictures],
            "tables": {name: _records(table) for name, table in self._written.items()},
        }
        long = any(len(table) > _MOST_INDENTED for table in self.tables.values())
        return (
            json.dumps(content, indent=None if long else 1, ensure_ascii=False, allow_nan=False)
            + "\n"
        )

    def write(self, folder: str | Path) -> Path:
        """Write the report into a folder in all formats.

        If they cannot all be written, such as on a full disk, an earlier report is kept as it is.

        The files are `report.html` (self-contained), `report.md` with `figures/`, `report.tex`,
        `report.json`, and tables as CSV. Scores in CSV have their original unit: fractions for
        scores of suites.

        Args:
            folder: The folder; created if missing. Tables and figures of an earlier report are
                replaced. Other files are never overwritten.

        Returns:
            The path of `report.html`.

        Raises:
            SuiteError: If the folder cannot be written, has files of these names that are not from
                a report, or is a source of this report.
        """
        folder = expand_home(folder)
        self.check_files(folder)
        makers, files = self._files(), {}
        for done, (name, make) in enumerate(makers.items()):
            advance("files of the report", done, len(makers))
            files[name] = make()
        with _writing(folder), _new_or_unchanged(folder) as draft:
            for name, content in files.items():
                write_bytes(draft / name, content.encode() if isinstance(content, str) else content)
            earlier = _earlier(folder)
            with interrupts_delayed():
                for name in files:
                    (draft / name).replace(os.path.realpath(folder / name))
            for file in {*earlier} - {*_earlier(folder)}:
                file.unlink(missing_ok=True)
        return folder / "report.html"

    @cached_property
    def _written(self) -> dict[str, pd.DataFrame]:
        """The tables as written; scores are exact, because comparisons read them."""
        tables = self.tables.items()
        return {name: own if name == "scores" else _rounded(own) for name, own in tables}

    def _files(self) -> dict[str, Callable[[], str | bytes]]:
        """Return functions that make the files, by name; report.json first, which lists them."""
        pictures = {each.name: each for each in self.context.pictures}
        files: dict[str, Callable[[], str | bytes]] = {"report.json": self.json}
        for name, table in self._written.items():
            files[f"{name}.csv"] = partial(_csv, table)
        files |= {f"figures/{name}.svg": picture.svg for name, picture in pictures.items()}
        files |= {"report.md": self.markdown, "report.tex": self.latex, "report.html": self.html}
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
            self._check_names(folder, self._files(), _earlier(folder))

    def _check_names(self, folder: Path, names: Collection[str], earlier: Sequence[Path]) -> None:
        changed = [folder, *(folder / name for name in names), *earlier]
        for source in self.read_from:
            if source.resolve() in {path.resolve() for path in changed}:
                raise SuiteError(
                    f"{source} is a source of this comparison, and the report would overwrite it. "
                    f"Choose another folder, such as {folder / 'comparison'}"
                )
        ours = {*earlier, folder / "report.json"}
        if earlier:  # every report has tables
            ours |= {folder / f"report.{kind}" for kind in ("html", "md", "tex")}
        for file in (folder / name for name in names):
            if file.exists() and file not in ours:
                raise SuiteError(
                    f"{file} was not written by a report, and this report would overwrite it. "
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
        >>> print(make_report(folder))
        Higher is better on all 10 tasks.
        - Preliminary: 0 of 180 runs are done, 180 not done.
        - No results yet.
        <BLANKLINE>
        No verdict yet: no task has two seeds of attention-64 and of another method.
    """
    if not isinstance(results, Results):
        results = read_results(results)
    suite = results.suite
    title = suite.title or suite.name
    source = read_source(results)
    doubts = [*failing_layers([source]), *source.notes]
    context = ReportContext(
        source.scores, source.results, title, suite.question, doubts,
        of_timed=read_costs(costs, source.scores.methods),
    )  # fmt: skip
    return Report(context)


def _without_costs(table: Table) -> list[str]:
    """Return the lines of a table of verdicts without the costs that the terminal has no room for.

    Reports have them.
    """
    rows = [row for own in table.groups.values() for row in own]
    table = replace(table, rows=rows[:_MOST_LINES])
    parts = "\n".join(table.lines(_columns())).split("\n\n")
    heads = [part.partition("\n")[0] for part in parts]
    last = next((i for i, head in enumerate(heads) if "Difference" in head), 0)
    lines = "\n\n".join(parts[: last + 1]).split("\n")
    if len(rows) > _MOST_LINES:
        shown = first_of(_MOST_LINES, len(rows), "methods")
        lines.append(f"Shown: {shown}. All are in verdicts.csv.")
    return lines


def _columns() -> int:
    """Return the width of the terminal, by default 100."""
    return max(60, shutil.get_terminal_size((100, 24)).columns)


def render(results: Results | str | Path, out: str | Path | None = None) -> Path:
    """Write the report of a suite; see `Report.write`.

    Args:
        results: Results, or a suite's folder.
        out: Output folder, by default `report/` in the suite's folder.

    Returns:
        The path of `report.html`.

    Raises:
        SuiteError: If the folder is not a suite's folder, a file in it is invalid, or the report
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
    folder = results.folder / "report" if out is None else expand_home(out)
    check_folder(folder)
    return make_report(results).write(folder)


def check_folder(folder: Path) -> None:
    """Check that a folder can be written, before a report is computed.

    Raises:
        SuiteError: The message names the path and the reason.
    """
    with _writing(folder):
        there = next(path for path in (folder, *folder.parents) if path.exists())
        if not there.is_dir():
            raise NotADirectoryError(ENOTDIR, "must be a folder, not a file", str(there))
        try:
            # Only a trial shows that /proc or a full disk cannot be written.
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


@contextmanager
def _new_or_unchanged(folder: Path) -> Iterator[Path]:
    """Create a folder and, in it, one for the files of a draft; after an error, remove what is new.

    What a killed process has left is replaced.
    """
    new = [path for path in (folder / "figures", folder, *folder.parents) if not path.exists()]
    draft = folder / ".relation-tf-draft"
    try:
        (folder / "figures").mkdir(parents=True, exist_ok=True)
        shutil.rmtree(draft, ignore_errors=True)
        (draft / "figures").mkdir(parents=True)
        yield draft
    except BaseException:
        if new:
            shutil.rmtree(new[-1], ignore_errors=True)
        raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _earlier(folder: Path) -> list[Path]:
    """Return the tables and figures of an earlier report, from its report.json."""
    try:
        said = read_report(folder)
        names = [f"{name}.csv" for name in said["tables"]]
        for name in said["figures"]:
            names += [f"figures/{name}.svg", f"figures/{name}.png"]
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
    for name, own in table.items():
        if own.dtype.kind == "f":
            rounded[name] = [x if x.is_integer() else float(f"{x:.10g}") for x in own.tolist()]
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
