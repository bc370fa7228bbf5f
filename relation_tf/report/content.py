"""What a report holds: the values that its pages show, its tables and its pictures."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd

from relation_tf.bench.published import Published, load_published
from relation_tf.bench.results import Results
from relation_tf.report import learning_time, provenance
from relation_tf.report import runs as how_runs_went
from relation_tf.report.answer import design_sentence, progress, short_answer
from relation_tf.report.beside import beside_published, not_comparable
from relation_tf.report.comparisons import (
    PERMUTATIONS,
    SCORE,
    Comparison,
    all_pvalues,
    compare,
    rows_of,
    summarize,
)
from relation_tf.report.layout import laid_out
from relation_tf.report.pictures.drawing import Picture, Style, styles
from relation_tf.report.pictures.runs import learning_curves, score_dots, time_and_score
from relation_tf.report.scores import Scores, tasks_of
from relation_tf.stats.design import format_level, format_pvalue

_METRIC_NAMES = {"matthews": "Matthews", "accuracy": "acc.", "f1": "F1", "pearson": "Pearson",
                 "spearman": "Spearman"}  # fmt: skip


class Cell(NamedTuple):
    """A method's score on a task, as the table shows it.

    Attributes:
        means: Mean of each metric, as a page shows it.
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

    def in_words(self) -> str:
        """On one line, for a terminal."""
        return f"{self.means} ± {self.deviations}" if self.deviations else self.means


class PairCell(NamedTuple):
    """A pair of methods on a task.

    Attributes:
        pvalue: Such as `.045` or `< .001`.
        first: "better" or "worse", as the first method's scores rank; empty where neither.
        significant: Whether p is below alpha.
    """

    pvalue: str
    first: str
    significant: bool


@dataclass(frozen=True)
class Content:
    """What every rendering of a report shows.

    Attributes:
        values: What the templates ask for, by name.
        tables: The numbers in full, by the names of their files.
        pictures: The pictures, in order.
        look: How each method is drawn.
    """

    values: Mapping[str, Any]
    tables: Mapping[str, pd.DataFrame]
    pictures: list[Picture]
    look: Mapping[str, Style]


def content_of(
    scores: Scores, results: Results | None = None, title: str = "", question: str = ""
) -> Content:
    """What a report of some scores holds.

    Args:
        scores: What is compared.
        results: The runs that gave them, where they are known.
        title: Of the page.
        question: What the comparison is to answer.
    """
    comparisons = compare(scores)
    look = styles(scores.methods)
    summary = summarize(scores, comparisons, None if results is None else results.metrics)
    pvalues = all_pvalues(comparisons)
    pictures = [score_dots(scores, look)]
    values: dict[str, Any] = {
        "title": title,
        "question": question,
        "answer": short_answer(scores, comparisons),
        "design": design_sentence(scores),
        "level": format_level(scores.alpha),
        "alpha": scores.alpha,
        "seeds": scores.seeds,
        "methods": scores.methods,
        "averages": scores.averages,
        "in_points": scores.in_points,
        "lower_is_better": sorted(scores.lower_is_better),
        "columns": _columns(scores, results),
        "cells": _cells(scores, summary),
        "tests": _tests(comparisons),
        "pairs": _pair_rows(pvalues, scores.alpha),
        "permutations": PERMUTATIONS,
        **_NO_RUNS,
    }
    tables = {"scores": _all_scores(scores, results), "table": summary, "pvalues": pvalues}
    if results is not None:
        of_runs = _content_of_runs(scores, results, summary, look)
        values |= dict(of_runs.values)
        values["answer"] = [*of_runs.values["said"], *values["answer"]]
        tables |= dict(of_runs.tables)
        pictures += of_runs.pictures
    return Content(values, tables, [picture for picture in pictures if picture.panels], look)


_NO_RUNS: Mapping[str, Any] = {
    "suite": None,
    "scored_on": "",
    "status": {},
    "times": {},
    "how": {},
    "computed": "",
    "settings": {},
    "published": None,
    "laid_out": [],
    "made": {},
    "data": [],
    "warnings": [],
    "failures": [],
}


def _content_of_runs(
    scores: Scores, results: Results, summary: pd.DataFrame, look: dict[str, Style]
) -> Content:
    """What is known of runs beside their scores."""
    runs = how_runs_went.all_runs(results)
    how = how_runs_went.how_run(runs)
    times = learning_time.learning_times(results)
    tested = learning_time.compare_times(times, results)
    summarized = learning_time.summarize_times(times, results)
    time_pvalues = all_pvalues(tested)
    beside = _beside(results, summary, how)
    values = {
        "said": [
            *progress(runs),
            *learning_time.learning_sentences(summarized, tested, results),
        ],
        "suite": results.suite,
        "scored_on": how_runs_went.scored_on(results),
        "status": runs["status"].value_counts().to_dict(),
        "times": _by_task(summarized),
        "time_pairs": _pair_rows(time_pvalues, scores.alpha),
        "time_tasks": list(tested),
        "time_notes": [
            note
            for task, comparison in tested.items()
            for note in learning_time.notes(task, comparison)
        ],
        "limits": [
            f"{task} {learning_time.learning_limit(results, task)}" for task in results.suite.tasks
        ],
        "how": _by_task(how),
        "computed": how_runs_went.computed(results),
        "settings": provenance.settings(results),
        "published": _published(results, beside) if beside is not None else None,
        "laid_out": laid_out(results, scores, summary, how, summarized, _figures(results)),
        "made": provenance.made(results),
        "data": provenance.data(results).to_dict("records"),
        "warnings": provenance.warnings(results, runs),
        "failures": results.failures,
    }
    tables = {
        "runs": runs,
        **({} if times.empty else {"times": times, "time-pvalues": time_pvalues}),
        **({} if beside is None or beside.empty else {"published": beside}),
    }
    pictures = [learning_curves(results, look), time_and_score(results, scores, how, look)]
    return Content(values, tables, pictures, look)


def _all_scores(scores: Scores, results: Results | None) -> pd.DataFrame:
    """Every metric of every seed, and each seed's average.

    Columns: `task`, `method`, `seed`, `metric`, `value`.
    """
    own = scores.table.rename(columns={"score": "value"}).assign(metric=SCORE)
    own = own[["task", "method", "seed", "metric", "value"]]
    if results is None:
        return own
    averages = own[own["task"].isin(scores.averages)]
    tables = [table for table in (results.metrics, averages) if len(table)]
    return pd.concat(tables, ignore_index=True) if tables else results.metrics


def _columns(scores: Scores, results: Results | None) -> dict[str, str]:
    """The columns of the table with the names of their metrics; an average has none."""
    tasks = [] if results is None else tasks_of(results)
    metrics = {name: task.metrics for task in tasks for name in task.scored}
    return {
        name: " / ".join(_METRIC_NAMES[metric] for metric in metrics.get(name, ()))
        for name in scores.tasks
    }


def _beside(results: Results, summary: pd.DataFrame, how: pd.DataFrame) -> pd.DataFrame | None:
    published = _figures(results)
    return None if published is None else beside_published(results, summary, how, published)


def _figures(results: Results) -> Published | None:
    return load_published(results.suite.published) if results.suite.published else None


def _published(results: Results, beside: pd.DataFrame) -> dict[str, Any]:
    published = load_published(str(results.suite.published))
    samples = [
        f"{task} is {note}"
        for task in results.suite.tasks
        for note in provenance.notes(results, task)
    ]
    return {
        "source": published.source,
        "split": published.split,
        "missing": published.missing,
        "reasons": not_comparable(results, published) + samples,
        "rows": beside.to_dict("records"),
    }


def _cells(scores: Scores, summary: pd.DataFrame) -> dict[tuple[str, str], Cell]:
    """The cells of the table by (method, column); none where no run is done."""
    by_score = summary[summary["metric"] == SCORE].groupby("task")["mean"]
    highest, lowest = by_score.max(), by_score.min()
    cells = {}
    key: Any
    for key, group in summary.groupby(["task", "method"], sort=False):
        task, method = key
        own = group[group["metric"] == SCORE].iloc[0]
        shown = group[group["metric"] != SCORE]
        shown = group if shown.empty else shown
        best = lowest if task in scores.lower_is_better else highest
        cells[method, task] = Cell(
            means=" / ".join(_score(mean, scores) for mean in shown["mean"]),
            deviations=" / ".join(_score(sd, scores) for sd in shown["sd"]) if own["n"] > 1 else "",
            seeds=int(own["n"]) if own["n"] != scores.seeds else None,
            best=lowest[task] < highest[task] and math.isclose(own["mean"], best[task]),
            letters=str(own["letters"]),
        )
    return cells


def _score(value: float, scores: Scores) -> str:
    return f"{scores.factor * value:z.{scores.digits}f}"


def _by_task(table: pd.DataFrame) -> dict[str, list[dict[Hashable, Any]]]:
    if table.empty:
        return {}
    groups = table.groupby("task", sort=False)
    return {str(task): group.to_dict("records") for task, group in groups}


def _tests(comparisons: Mapping[str, Comparison]) -> list[dict[str, Any]]:
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
    for pair in rows_of(pvalues):
        first = "" if not pair.better else "better" if pair.better == pair.a else "worse"
        rows.setdefault((pair.a, pair.b), {})[pair.task] = PairCell(
            pvalue_only(pair.pvalue, alpha),
            first,
            bool(pair.significant),
        )
    return rows


def pvalue_only(value: float, alpha: float) -> str:
    """A p without "p =", for a column of them."""
    return format_pvalue(value, alpha).removeprefix("p ").removeprefix("= ")
