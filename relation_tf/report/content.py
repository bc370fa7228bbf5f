"""What a report holds: the values that its pages show, its tables and its pictures."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd

from relation_tf.bench.results import Results
from relation_tf.config.published import Published, load_published
from relation_tf.report import learning_time, provenance
from relation_tf.report import runs as how_runs_went
from relation_tf.report.answer import (
    design_sentence,
    progress,
    ranked_over_tasks,
    short_answer,
    tested_among,
)
from relation_tf.report.comparisons import (
    PERMUTATIONS,
    SCORE,
    Comparison,
    all_pvalues,
    compare,
    over_tasks,
    rows_of,
    shown_pvalues,
    summarize,
    wins,
)
from relation_tf.report.layout import laid_out
from relation_tf.report.pictures.drawing import Picture, Style, styles
from relation_tf.report.pictures.runs import learning_curves, score_dots
from relation_tf.report.pictures.significance import (
    critical_difference,
    effect_sizes,
    pvalue_matrix,
)
from relation_tf.report.pictures.trade_offs import cost_against_length, score_against
from relation_tf.report.predicted import predicted
from relation_tf.report.published_comparison import beside_published, not_comparable
from relation_tf.report.scores import Scores
from relation_tf.stats import FriedmanNemenyiResult, SteelDwassResult
from relation_tf.stats.design import format_level, format_pvalue, pvalue_only
from relation_tf.stats.over_tasks import FEW_TASKS

_METRIC_NAMES = {"matthews": "Matthews", "accuracy": "acc.", "f1": "F1", "pearson": "Pearson",
                 "spearman": "Spearman", "exact_match": "exact match",
                 "tokens_per_second": "tokens/s"}  # fmt: skip
_MOST_PAIRS = 100  # the tests of more stand in their file only


class ScoreCell(NamedTuple):
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
        pvalue: Such as `.045` or `< .001`: the larger p where only one is below alpha.
        first: "better" or "worse", as the first method's scores rank; empty where neither.
        significant: Whether both p are below alpha.
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
    # Lengths of one text are no sample of tasks.
    several = None if scores.timed else over_tasks(scores)
    won = None if scores.timed else wins(scores, comparisons)
    look = styles(scores.methods)
    summary = summarize(scores, comparisons, None if results is None else results.metrics)
    pvalues = all_pvalues(comparisons)
    pictures = [
        score_dots(scores, look),
        *_significance(scores, comparisons, look),
        *([] if several is None else [_ranks(several, scores, look)]),
    ]
    values: dict[str, Any] = {
        "title": title,
        "question": question,
        "answer": [
            *short_answer(scores, comparisons),
            *(ranked_over_tasks(several, scores) if comparisons else ()),
        ],
        "design": design_sentence(scores, comparisons),
        "level": format_level(scores.alpha),
        "alpha": scores.alpha,
        "seeds": scores.seeds,
        "methods": scores.methods,
        "averages": scores.averages,
        "filter_tasks": scores.tasks,
        "widths": {},
        "in_points": scores.in_points,
        "timed": scores.timed,
        "lower_is_better": sorted(scores.lower_is_better),
        "columns": _columns(scores, results),
        "cells": _cells(scores, summary),
        "tests": _tests(comparisons),
        "pairs": (pairs := _pair_rows(pvalues, scores.alpha)),
        "tests_listed": len(pairs) <= _MOST_PAIRS,
        "control": scores.control,
        "test": "Steel-Dwass" if scores.control is None else f"Steel against {scores.control}",
        "several": None if several is None else _several(several, scores.alpha),
        "wins": [] if won is None else won.pairs().to_dict("records"),
        "mnli_twice": {"MNLI-m", "MNLI-mm"} <= {*scores.tasks},
        "permutations": PERMUTATIONS,
        **_NO_RUNS,
    }
    tables = {
        "scores": _all_scores(scores, results),
        "table": summary,
        "pvalues": pvalues,
        **({} if several is None else {"ranks": several.ranks.rename_axis("task").reset_index()}),
    }
    if results is not None:
        of_runs = _content_of_runs(scores, results, summary, look)
        values |= dict(of_runs.values)
        values["answer"] = [
            *of_runs.values["said"],
            *tested_among(scores, comparisons),
            *values["answer"],
        ]
        tables |= dict(of_runs.tables)
        pictures += of_runs.pictures
    drawn = [picture for picture in pictures if picture is not None and picture.panels]
    return Content(values, tables, drawn, look)


_NO_RUNS: Mapping[str, Any] = {
    "suite": None,
    "scored_on": "",
    "status": {},
    "times": {},
    "how": {},
    "methods_as": [],
    "computed": "",
    "settings": {},
    "published": None,
    "laid_out": [],
    "predicted": [],
    "predicted_notes": [],
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
    published = load_published(results.suite.published) if results.suite.published else None
    beside = None if published is None else beside_published(results, summary, how, published)
    answers = predicted(results, look)
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
        "methods_as": how_runs_went.methods_as_asked(results),
        "widths": {str(method.name): str(method.units) for method in results.suite.methods()},
        "filter_tasks": [*dict.fromkeys([*scores.tasks, *results.suite.tasks])],
        "settings": provenance.settings(results),
        "published": _published(results, published, beside),
        "laid_out": laid_out(results, scores, summary, how, summarized, published),
        "predicted": [*answers.tables["auc"]["task"].unique()] if answers.tables else [],
        "predicted_notes": answers.notes,
        "made": provenance.made([run["manifest"] for run in results.runs]),
        "data": provenance.data(results).to_dict("records"),
        "warnings": [*provenance.warnings(results, runs), *answers.warnings],
        "failures": results.failures,
    }
    tables = {
        "runs": runs,
        **({} if times.empty else {"times": times, "time-pvalues": time_pvalues}),
        **({} if beside is None or beside.empty else {"published": beside}),
        **answers.tables,
    }
    pictures = [learning_curves(results, look), *_trade_offs(results, scores, how, look)]
    drawn = [each for each in pictures if each is not None]
    return Content(values, tables, [*drawn, *answers.pictures], look)


def _significance(
    scores: Scores, comparisons: Mapping[str, Comparison], look: Mapping[str, Style]
) -> list[Picture | None]:
    """The p of all pairs, where all are tested, and the effect sizes."""
    tests = {
        task: (
            shown_pvalues(comparison.result.pvalue, comparison.permutation.pvalue, scores.alpha),
            comparison.result.statistic,
        )
        for task, comparison in comparisons.items()
        if isinstance(comparison.result, SteelDwassResult)
        and isinstance(comparison.permutation, SteelDwassResult)
    }
    effects = {
        task: comparison.pairs()[["a", "b", "effect_size", "effect_low", "effect_high"]].rename(
            columns={"effect_low": "low", "effect_high": "high"}
        )
        for task, comparison in comparisons.items()
    }
    return [
        pvalue_matrix(tests, scores.methods, scores.alpha, scores.lower_is_better),
        effect_sizes(effects, look),
    ]


def _ranks(
    several: FriedmanNemenyiResult, scores: Scores, look: Mapping[str, Style]
) -> Picture | None:
    # MNLI is one task of two dev sets.
    noun = scores.noun if {*several.ranks.index} <= {*scores.tasks} else "tasks"
    return critical_difference(
        {str(name): float(rank) for name, rank in several.average_ranks.items()},
        [[str(name) for name in clique] for clique in several.cliques()],
        several.critical_difference,
        f"{len(several.ranks)} {noun}",
        look,
    )


def _several(several: FriedmanNemenyiResult, alpha: float) -> dict[str, Any]:
    ranks = several.average_ranks.sort_values(kind="stable")
    return {
        "tasks": len(several.ranks),
        "ranks": [(str(name), float(rank)) for name, rank in ranks.items()],
        "friedman": format_pvalue(several.friedman_pvalue, alpha),
        "exact": several.exact,
        # Of few tasks it is too small to tell anything by.
        "iman": format_pvalue(several.f_pvalue, alpha) if len(several.ranks) >= FEW_TASKS else "",
        "critical_difference": several.critical_difference,
        "separated": [
            f"{row.better} better than {row.a if row.better == row.b else row.b}"
            for row in rows_of(several.pairs())
            if row.significant
        ],
        "attainable": format_pvalue(several.attainable_pvalue, alpha),
        "tasks_needed": several.tasks_needed,
        "notes": several.notes,
    }


def _trade_offs(
    results: Results, scores: Scores, how: pd.DataFrame, look: Mapping[str, Style]
) -> list[Picture | None]:
    """Score against time and parameters; time and memory against length."""
    if how.empty:
        return []
    if results.suite.timed:
        stepped = how.assign(
            milliseconds_per_step=1000 * how["seconds_batch"], state_kib=1024 * how["state_mib"]
        )
        columns = ["task", "method", "mean_length", "milliseconds_per_step", "state_kib"]
        return [cost_against_length(stepped[columns], look)]
    samples = {}
    for task in results.suite.tasks:
        # MNLI is scored on two sets, and trained once; of a group it is the mean of its tasks.
        firsts = [next(iter(each.scored)) for each in results.suite.find_task(task).each()]
        table = scores.table[scores.table["task"].isin(firsts)]
        means = table.groupby(["method", "seed"], sort=False)["score"].mean() * scores.factor
        samples[task] = {
            name: [*means[name]]
            for name in scores.methods
            if name in means.index.get_level_values(0)
        }
    costs = {
        column: {
            str(task): dict(zip(rows["method"], rows[column], strict=True))
            for task, rows in how.groupby("task", sort=False)
        }
        for column in ("seconds_epoch", "without_embedding")
    }
    length = how.assign(
        milliseconds_per_batch=1000 * how["seconds_batch"], memory_mib=how["peak_memory_mib"]
    )
    columns = ["task", "method", "mean_length", "milliseconds_per_batch", "memory_mib"]
    return [
        score_against("time", costs["seconds_epoch"], samples, "seconds an epoch", look),
        score_against(
            "parameters", costs["without_embedding"], samples, "parameters, no embedding", look
        ),
        cost_against_length(length[columns].dropna(subset="mean_length"), look),
    ]


def _all_scores(scores: Scores, results: Results | None) -> pd.DataFrame:
    """Every metric of every seed, and each seed's average.

    Columns: `task`, `method`, `seed`, `metric`, `value`.
    """
    own = scores.table.rename(columns={"score": "value"}).assign(metric=SCORE)
    own = own[["task", "method", "seed", "metric", "value"]]
    if results is None:
        return own
    key = ["task", "method", "seed"]
    known = pd.MultiIndex.from_frame(results.metrics[key])
    others = own[~pd.MultiIndex.from_frame(own[key]).isin(known)]  # averages, scores of tables
    tables = [table for table in (results.metrics, others) if len(table)]
    return pd.concat(tables, ignore_index=True) if tables else results.metrics


def _columns(scores: Scores, results: Results | None) -> dict[str, str]:
    """The columns of the table with the names of their metrics; an average has none."""
    tasks = [] if results is None else results.suite.learned()
    metrics = {name: task.metrics for task in tasks for name in task.scored}
    return {
        name: " / ".join(_METRIC_NAMES[metric] for metric in metrics.get(name, ()))
        for name in scores.tasks
    }


def _published(
    results: Results, published: Published | None, beside: pd.DataFrame | None
) -> dict[str, Any] | None:
    if published is None or beside is None:
        return None
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


def _cells(scores: Scores, summary: pd.DataFrame) -> dict[tuple[str, str], ScoreCell]:
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
        cells[method, task] = ScoreCell(
            means=" / ".join(_score(mean, task, scores) for mean in shown["mean"]),
            deviations=" / ".join(_score(sd, task, scores) for sd in shown["sd"])
            if own["n"] > 1
            else "",
            seeds=int(own["n"]) if own["n"] != scores.seeds else None,
            best=lowest[task] < highest[task] and math.isclose(own["mean"], best[task]),
            letters=str(own["letters"]),
        )
    return cells


def _score(value: float, task: str, scores: Scores) -> str:
    return f"{scores.factor * value:z.{scores.digits(task)}f}"


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
            "kruskal": format_pvalue(comparison.result.kruskal.pvalue, comparison.result.alpha),
            "attainable": format_pvalue(comparison.attainable_pvalue, comparison.result.alpha),
            "seeds_needed": comparison.seeds_needed,
        }
        for task, comparison in comparisons.items()
    ]


def _pair_rows(pvalues: pd.DataFrame, alpha: float) -> dict[tuple[str, str], dict[str, PairCell]]:
    """For each pair of methods the p of each task."""
    rows: dict[tuple[str, str], dict[str, PairCell]] = {}
    shown = shown_pvalues(pvalues["pvalue"], pvalues["permutation_pvalue"], alpha)
    for pair, pvalue in zip(rows_of(pvalues), shown, strict=True):
        first = "" if not pair.ahead else "better" if pair.ahead == pair.a else "worse"
        rows.setdefault((pair.a, pair.b), {})[pair.task] = PairCell(
            pvalue_only(pvalue, alpha),
            first,
            bool(pair.significant),
        )
    return rows
