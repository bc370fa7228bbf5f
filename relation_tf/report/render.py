"""From results to files: one HTML page, Markdown with pictures, CSV tables."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from relation_tf.bench.published import load_published
from relation_tf.bench.results import Results, read_results
from relation_tf.report import learning_time, provenance, tables
from relation_tf.report.answer import design_sentence, short_answer
from relation_tf.report.pictures.drawing import Picture, styles, swatch
from relation_tf.report.pictures.runs import pictures
from relation_tf.stats.design import format_level, format_pvalue

_METRIC_NAMES = {"matthews": "Matthews", "accuracy": "acc.", "f1": "F1", "pearson": "Pearson",
                 "spearman": "Spearman"}  # fmt: skip


class Cell(NamedTuple):
    """A method's score on a task, as the table shows it.

    Attributes:
        means: Mean of each metric in points.
        deviations: Their standard deviations; empty for one seed.
        seeds: How many seeds, where it is not all.
        best: Whether no method has a higher mean score, and some a lower one.
        letters: Methods that share one cannot be separated.
    """

    means: str
    deviations: str
    seeds: int | None
    best: bool
    letters: str


class PairCell(NamedTuple):
    """A pair of methods on a task.

    Attributes:
        pvalue: Such as `.045` or `< .001`.
        first: "higher" or "lower", as the first method's scores rank; empty where neither.
        significant: Whether p is below alpha.
    """

    pvalue: str
    first: str
    significant: bool


def render(results: Results | str | Path, out: Path | None = None) -> Path:
    """Write the report of a suite.

    `report.html` is one page with everything in it; beside it lie `report.md`, its `figures/`, and
    the tables `scores.csv`, `table.csv`, `pvalues.csv` and `runs.csv`, whose scores are fractions;
    a suite of learning times has `times.csv` and `time-pvalues.csv` as well.

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
    folder = results.folder / "report" if out is None else out
    (folder / "figures").mkdir(parents=True, exist_ok=True)

    runs = tables.all_runs(results)
    comparisons = tables.compare(results)
    summary = tables.summarize(results, comparisons)
    pvalues = tables.all_pvalues(comparisons)
    how = tables.how_run(runs)
    drawn = pictures(results, how)
    beside = _beside(results, summary, how)
    times = learning_time.learning_times(results)
    time_comparisons = learning_time.compare_times(times, results)
    time_pvalues = tables.all_pvalues(time_comparisons)
    for name, table in {
        "scores": tables.all_scores(results),
        "table": summary,
        "pvalues": pvalues,
        "runs": runs,
        **({} if times.empty else {"times": times, "time-pvalues": time_pvalues}),
        **({} if beside is None or beside.empty else {"published": beside}),
    }.items():
        table.to_csv(folder / f"{name}.csv", index=False, lineterminator="\n", encoding="utf-8")
    for picture in drawn:
        file = folder / "figures" / f"{picture.name}.svg"
        file.write_text(picture.svg(), encoding="utf-8", newline="\n")
        if picture.name == "scores":
            file.with_suffix(".png").write_bytes(picture.png())

    content = {
        "suite": results.suite,
        "answer": short_answer(results, runs, comparisons),
        "design": design_sentence(results),
        "level": format_level(results.suite.alpha),
        "methods": tables.method_names(results),
        "columns": _columns(results),
        "scored_on": tables.scored_on(results),
        "cells": _cells(results, summary),
        "status": runs["status"].value_counts().to_dict(),
        "times": _by_task(learning_time.summarize_times(times, results)),
        "time_pairs": _pair_rows(time_pvalues, results.suite.alpha),
        "time_tasks": list(time_comparisons),
        "time_notes": [
            note
            for task, comparison in time_comparisons.items()
            for note in learning_time.notes(task, comparison)
        ],
        "limits": [
            f"{task} {learning_time.learning_limit(results, task)}" for task in results.suite.tasks
        ],
        "tests": _tests(comparisons),
        "pairs": _pair_rows(pvalues, results.suite.alpha),
        "permutations": tables.PERMUTATIONS,
        "pictures": {picture.name: picture for picture in drawn},
        "how": _by_task(how),
        "computed": tables.computed(results),
        "settings": provenance.settings(results),
        "published": _published(results, beside) if beside is not None else None,
        "made": provenance.made(results),
        "data": provenance.data(results).to_dict("records"),
        "warnings": provenance.warnings(results, runs),
        "failures": results.failures,
        "alpha": results.suite.alpha,
        "averages": tables.AVERAGES,
    }
    (folder / "report.md").write_text(_markdown(content), encoding="utf-8", newline="\n")
    page = folder / "report.html"
    page.write_text(_html(content, results, drawn), encoding="utf-8", newline="\n")
    return page


def escape_markdown(value: Any) -> str:
    r"""Text that Markdown shows as it is, on one line and within a table's cell.

    Example:
        >>> print(escape_markdown("a|b *c*"))
        a\|b \*c\*
    """
    return re.sub(r"([\\`*_\[\]<>|#~$])", r"\\\1", " ".join(str(value).split()))


def _html(content: Mapping[str, Any], results: Results, drawn: list[Picture]) -> str:
    environment = _environment(autoescape=True)
    return environment.get_template("report.html.jinja").render(
        **content,
        swatches={
            name: swatch(style) for name, style in styles(tables.method_names(results)).items()
        },
        panels={picture.name: picture.inline for picture in drawn},
    )


def _markdown(content: Mapping[str, Any]) -> str:
    environment = _environment(finalize=escape_markdown)
    return environment.get_template("report.md.jinja").render(**content)


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
        "pvalue": _pvalue,
    }
    return environment


def _columns(results: Results) -> dict[str, str]:
    """The columns of the table with the names of their metrics; an average has none."""
    metrics = tables.metrics_of(results)
    return {
        name: " / ".join(_METRIC_NAMES[metric] for metric in metrics.get(name, ()))
        for name in tables.columns(results)
    }


def _beside(results: Results, summary: pd.DataFrame, how: pd.DataFrame) -> pd.DataFrame | None:
    if results.suite.published is None:
        return None
    published = load_published(results.suite.published)
    return tables.beside_published(results, summary, how, published)


def _published(results: Results, beside: pd.DataFrame) -> dict[str, Any]:
    published = load_published(str(results.suite.published))
    return {
        "source": published.source,
        "split": published.split,
        "missing": published.missing,
        "reasons": tables.not_comparable(results, published) + _samples(results),
        "rows": beside.to_dict("records"),
    }


def _samples(results: Results) -> list[str]:
    return [
        f"{task} is {note}"
        for task in results.suite.tasks
        for note in provenance.notes(results, task)
    ]


def _cells(results: Results, summary: pd.DataFrame) -> dict[tuple[str, str], Cell]:
    """The cells of the table by (method, column); none where no run is done."""
    all_seeds = len(results.suite.seeds)
    scores = summary[summary["metric"] == tables.SCORE]
    best, worst = (scores.groupby("task")["mean"].agg(name) for name in ("max", "min"))
    cells = {}
    key: Any
    for key, group in summary.groupby(["task", "method"], sort=False):
        task, method = key
        own = group[group["metric"] == tables.SCORE].iloc[0]
        shown = group[group["metric"] != tables.SCORE] if task not in tables.AVERAGES else group
        cells[method, task] = Cell(
            means=" / ".join(f"{100 * mean:z.1f}" for mean in shown["mean"]),
            deviations=" / ".join(f"{100 * sd:.1f}" for sd in shown["sd"]) if own["n"] > 1 else "",
            seeds=int(own["n"]) if own["n"] != all_seeds else None,
            best=worst[task] < own["mean"] and math.isclose(own["mean"], best[task]),
            letters=str(own["letters"]),
        )
    return cells


def _by_task(table: pd.DataFrame) -> dict[str, list[dict[Hashable, Any]]]:
    if table.empty:
        return {}
    groups = table.groupby("task", sort=False)
    return {str(task): group.to_dict("records") for task, group in groups}


def _tests(comparisons: Mapping[str, tables.Comparison]) -> list[dict[str, Any]]:
    return [
        {
            "task": task,
            "pairs": comparison.pairs().to_dict("records"),
            "notes": comparison.notes(),
            "attainable": format_pvalue(
                comparison.result.attainable_pvalue, comparison.result.alpha
            ),
            "seeds_needed": comparison.result.seeds_needed,
        }
        for task, comparison in comparisons.items()
    ]


def _pair_rows(pvalues: pd.DataFrame, alpha: float) -> dict[tuple[str, str], dict[str, PairCell]]:
    """For each pair of methods the p of each task."""
    rows: dict[tuple[str, str], dict[str, PairCell]] = {}
    for pair in tables.rows_of(pvalues):
        first = "" if not pair.statistic else "lower" if pair.statistic > 0 else "higher"
        rows.setdefault((pair.a, pair.b), {})[pair.task] = PairCell(
            _pvalue(pair.pvalue, alpha),
            first,
            bool(pair.significant),
        )
    return rows


def _pvalue(value: float, alpha: float) -> str:
    """A p without "p =", for a column of them."""
    return format_pvalue(value, alpha).removeprefix("p ").removeprefix("= ")


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")


def _spread(value: float, deviation: float, digits: int = 1) -> str:
    """A mean and its standard deviation, where there is one."""
    mean = _number(value, digits)
    return mean if math.isnan(deviation) else f"{mean} ± {_number(deviation, digits)}"


def _number(value: float, digits: int = 0) -> str:
    return "–" if math.isnan(value) else f"{value:,.{digits}f}"
