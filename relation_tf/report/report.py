"""A report: one object, and its renderings as a page, Markdown, LaTeX, tables and JSON."""

from __future__ import annotations

import json
import math
import os
import shlex
import tempfile
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from errno import ENOTDIR
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from relation_tf import __version__
from relation_tf.bench.results import Results, read_results
from relation_tf.errors import SuiteError, did_you_mean
from relation_tf.files import align, write_bytes
from relation_tf.registry import PROCEDURES
from relation_tf.report import html, provenance
from relation_tf.report.answer import in_words
from relation_tf.report.context import ReportContext
from relation_tf.report.joining import doubts, join, join_results, unused_tests
from relation_tf.report.latex import latex
from relation_tf.report.markdown import markdown
from relation_tf.report.scores import Scores
from relation_tf.report.sources import ScoreSource, read_report, read_source


@dataclass(frozen=True, repr=False)
class Report:
    """A comparison of methods, ready to be shown.

    Printed it gives the means and the short answer; in a notebook it shows itself.

    Attributes:
        context: What it is about, with its sections.
        read_from: Folders that it was made of.
    """

    context: ReportContext
    read_from: Sequence[Path] = ()

    def __post_init__(self) -> None:
        """Make all sections, so that a broken file is found now."""
        _ = self.context.blocks

    def __str__(self) -> str:
        """The means, the short answer and the warnings, for a terminal."""
        fill = partial(textwrap.fill, width=100, subsequent_indent="  ")
        bullets = [fill(sentence, initial_indent="- ") for sentence in self.context.answer]
        warnings = [
            fill(f"Warning: {warning}", break_on_hyphens=False) for warning in self.context.warnings
        ]
        return "\n".join([*self._means(), *bullets, *warnings])

    def __repr__(self) -> str:
        return f"<Report: {self.context.title}>"

    def _means(self) -> list[str]:
        context = self.context
        if not context.cells:
            return []
        methods = context.scores.methods
        rows = [["", *methods]]
        for task, metrics in context.columns.items():
            cells = [context.cells.get((method, task)) for method in methods]
            told = [metrics] if metrics else []
            told += ["lower is better"] if task in context.scores.lower_is_better else []
            label = f"{task} ({', '.join(told)})" if told else task
            rows.append([label, *("-" if cell is None else cell.in_words() for cell in cells)])
        return [*align(rows), ""]

    @property
    def tables(self) -> Mapping[str, pd.DataFrame]:
        """The numbers in full: `scores`, `table` (means and deviations), `pvalues` and others."""
        return self.context.tables

    def html(self) -> str:
        """Return one page with everything in it, which needs no network."""
        return html.page(self.context)

    def markdown(self) -> str:
        """Return Markdown, with links to the pictures that `write` puts next to it."""
        return markdown(self.context)

    def latex(self) -> str:
        """Return the tables for a paper, with booktabs."""
        return latex(self.context)

    def _repr_html_(self) -> str:
        return html.notebook(self.context)

    def json(self) -> str:
        """The answer and all tables as JSON; what is not a finite number is null."""
        context = self.context
        content = {
            "title": context.title,
            "question": context.question,
            "in_points": context.scores.in_points,
            "timed": context.scores.timed,
            **({"points": context.scores.points} if context.scores.points else {}),
            "lower_is_better": sorted(context.scores.lower_is_better),
            "answer": context.answer,
            "warnings": context.warnings,
            "failures": [list(failure) for failure in context.failures],
            "figures": [picture.name for picture in context.pictures],
            "tables": {name: _records(table) for name, table in self.tables.items()},
        }
        return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"

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
        pictures = {each.name: each for each in self.context.pictures}
        texts = {"report.json": self.json()}
        for name, table in self.tables.items():
            texts[f"{name}.csv"] = table.to_csv(index=False, lineterminator="\n")
        texts |= {f"figures/{name}.svg": picture.svg() for name, picture in pictures.items()}
        texts |= {"report.md": self.markdown(), "report.tex": self.latex()}
        texts["report.html"] = self.html()
        files = {name: text.encode() for name, text in texts.items()}
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
        if (folder / "report.json").exists():
            ours |= {folder / f"report.{kind}" for kind in ("json", "html", "md", "tex")}
        for file in (folder / name for name in names):
            if file.exists() and file not in ours:
                raise SuiteError(
                    f"{file}: expected no such file where a report is written, which would write "
                    "over it"
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
    title = suite.title or suite.name
    return Report(ReportContext(Scores.of(results), results, title, suite.question))


def compare(
    *sources: ScoreSource,
    labels: Sequence[str] | None = None,
    merge: bool = False,
    lower_is_better: Iterable[str] = (),
    alpha: float | None = None,
    control: str | None = None,
    test: str | None = None,
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
        lower_is_better: The tasks whose lowest score is the best, besides those that reports name.
        alpha: The level of the tests, between 0 and 1; by default that of the suites, where all
            declare the same test, else .05.
        control: The method that all others are compared with, by default all are with all, or as
            the suites declare. It is to be decided on before the runs.
        test: The statistical procedure, a name of `relation_tf.registry.PROCEDURES`: by default
            that of the suites, else Steel-Dwass, or Steel's test with a control.
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
    scores, read = join(read, merge=merge, lower_is_better=lower_is_better, alpha=alpha)
    scores = _tested(scores, control, test)
    joined = join_results(read, scores)
    options = {
        "--labels": [*(labels or ())],
        "--merge": merge,
        "--lower-is-better": lower_is_better,
        "--alpha": alpha,
        "--control": control,
        "--test": test,
        "--title": title,
    }
    pretraining = [source.pretraining for source in read if source.pretraining]
    origin = {
        "sources": [source.origin for source in read],
        "pre-training": [provenance.in_a_line(each) for each in pretraining],
        "compared by": _command(sources, options),
        "compared with": [f"relation_tf {__version__}"],
    }
    context = ReportContext(
        scores,
        joined,
        title or in_words([source.label for source in read]),
        question,
        doubts=[*unused_tests(read, scores), *doubts(read, scores)],
        origin={key: values for key, values in origin.items() if values},
        manifests=[manifest for source in read for manifest in source.manifests],
        pretraining=pretraining,
    )
    return Report(context, [folder for source in read for folder in source.folders])


def _tested(scores: Scores, control: str | None, test: str | None) -> Scores:
    """Replace the test that the sources declare by what is requested.

    Raises:
        SuiteError: If the control is no method, or the test does not fit it.
        UnknownNameError: If no test has this name.
    """
    if control is not None:
        if control not in scores.methods:
            raise SuiteError(
                f"control: must be one of {in_words([*scores.methods])}. Received: "
                f"{control!r:.80}.{did_you_mean(control, scores.methods)}"
            )
        scores = replace(scores, control=control, test=None)
    if test is not None:
        wanted = "all-pairs" if scores.control is None else "against-control"
        compares = PROCEDURES.find(test).compares
        if compares != wanted:
            raise SuiteError(
                f"test: expected a procedure that compares {wanted}. Received: {test!r}, which "
                f"compares {compares}"
            )
        scores = replace(scores, test=test)
    return scores


def _command(sources: Sequence[ScoreSource], options: Mapping[str, Any]) -> list[str]:
    """Return the shell command of a comparison; none where a shell cannot ask for it."""
    if not all(isinstance(source, str | os.PathLike) for source in sources):
        return []
    words = ["relation-tf", "compare", *map(str, sources)]
    for option, value in options.items():
        names = value if isinstance(value, list) else []
        if any("," in name for name in names):
            return []
        if value:
            words += [option] if value is True else [option, ",".join(names) or str(value)]
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


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows, with None for what JSON has no number for."""
    return [
        {
            str(key): None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in row.items()
        }
        for row in table.to_dict("records")
    ]
