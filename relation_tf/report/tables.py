"""The numbers of a report as tables. Scores are fractions here; pages show them times 100."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from relation_tf.bench.published import Published
from relation_tf.bench.results import GLUE_AVERAGE, MEAN_OF_TASKS, Results
from relation_tf.networks.registry import find_mechanism
from relation_tf.stats import SteelDwassResult, steel_dwass
from relation_tf.stats.design import format_pvalue
from relation_tf.stats.pairwise import MAX_ARRANGEMENTS, num_arrangements
from relation_tf.tasks.task import Task

AVERAGES = (GLUE_AVERAGE, MEAN_OF_TASKS)
SCORE = "score"
MILLISECONDS = "milliseconds a batch"
PERMUTATIONS = 20_000


@dataclass(frozen=True)
class Comparison:
    """The Steel-Dwass test of a task.

    Attributes:
        result: With the asymptotic p, which gives the verdict.
        permutation: With the p of joint permutations: of all, or of many drawn at random.
    """

    result: SteelDwassResult
    permutation: SteelDwassResult

    def pairs(self) -> pd.DataFrame:
        """All pairs, one a row, as `SteelDwassResult.pairs` with more columns.

        These are `n_a`, `n_b` and `permutation_pvalue`.
        """
        pairs = self.result.pairs()
        sizes = {name: len(scores) for name, scores in self.result.samples.items()}
        pairs.insert(2, "n_a", pairs["a"].map(sizes))
        pairs.insert(3, "n_b", pairs["b"].map(sizes))
        permutation = self.permutation.pairs()["pvalue"]
        pairs.insert(6, "permutation_pvalue", permutation)
        return pairs

    def notes(self) -> list[str]:
        """What a reader has to know beside the numbers."""
        alpha = self.result.alpha
        doubtful = (
            f"{pair.a} and {pair.b}: the verdict hangs on the approximation "
            f"({format_pvalue(pair.pvalue, alpha)}; by permutation "
            f"{format_pvalue(pair.permutation_pvalue, alpha)})"
            for pair in rows_of(self.pairs())
            if pair.significant != (pair.permutation_pvalue < alpha)
        )
        return [*self.result.notes, *doubtful]

    def letters(self) -> dict[str, str]:
        """The letters of each method; none where no pair can be separated."""
        if not self.result.significant.to_numpy().any():
            return {}
        return {str(name): letters for name, letters in self.result.letters().items()}


def method_names(results: Results) -> list[str]:
    """The methods in the suite's order."""
    return [str(method.name) for method in results.suite.methods()]


def score_sets(results: Results) -> list[str]:
    """The names under which the suite's tasks are scored: MNLI is on two dev sets."""
    return [name for task in results.suite.tasks for name in results.suite.find_task(task).scored]


def metrics_of(results: Results) -> dict[str, tuple[str, ...]]:
    """The metrics of each name under which a task is scored."""
    return {name: task.metrics for task in _tasks_of(results) for name in task.scored}


def sets_noun(results: Results) -> str:
    """What the scored rows are called."""
    splits = [split for task in _tasks_of(results) for split in task.scored.values()]
    for kind in ("dev", "test"):
        if all(split.startswith(kind) for split in splits):
            return f"{kind} sets"
    return "tasks"


def scored_on(results: Results) -> str:
    """What the scores are worth, in a sentence or two."""
    by_stopping: dict[bool, list[str]] = {True: [], False: []}
    for task in _tasks_of(results):
        own = results.suite.setting(task.name, "validation") is None
        stops = own and task.validation in task.scored.values()
        by_stopping[stops].append(task.name)
    dev, test = by_stopping[True], by_stopping[False]
    sentences = []
    if dev:
        which = f" of {', '.join(dev)}" if test else ""
        sentences.append(
            f"The dev sets{which} both stop the training and give the scores: they are no unbiased "
            "estimate of test scores."
        )
    if test:
        which = f" of {', '.join(test)}" if dev else ""
        sentences.append(f"The scores{which} are of rows that neither train nor stop the training.")
    return " ".join(sentences)


def _tasks_of(results: Results) -> list[Task]:
    return [results.suite.find_task(name) for name in results.suite.tasks]


def columns(results: Results) -> list[str]:
    """What is scored, and the average where a seed has it."""
    return [
        *score_sets(results),
        *(name for name in AVERAGES if name in set(results.scores["task"])),
    ]


def all_scores(results: Results) -> pd.DataFrame:
    """Every metric of every run, and each seed's average.

    Columns: `task`, `method`, `seed`, `metric`, `value`.
    """
    averages = results.scores[results.scores["task"].isin(AVERAGES)]
    averages = averages.rename(columns={"score": "value"}).assign(
        metric=SCORE, task=averages["task"].astype(str)
    )
    tables = [results.metrics, averages[list(results.metrics.columns)]]
    return pd.concat([table for table in tables if len(table)] or tables[:1], ignore_index=True)


def compare(results: Results) -> dict[str, Comparison]:
    """The Steel-Dwass test of each task where at least two methods have at least two seeds."""
    comparisons = {}
    for task in columns(results):
        comparison = compare_samples(results.samples(task), results.suite.alpha)
        if comparison is not None:
            comparisons[task] = comparison
    return comparisons


def compare_samples(samples: Mapping[str, list[float]], alpha: float) -> Comparison | None:
    """The Steel-Dwass test of some samples; None unless two have two values or more."""
    sizes = sorted(len(values) for values in samples.values())
    if len(sizes) < 2 or sizes[-2] < 2:
        return None
    by_name: dict[Any, list[float]] = dict(samples)
    few = num_arrangements(np.array(sizes)) <= MAX_ARRANGEMENTS
    return Comparison(
        steel_dwass(by_name, alpha),
        steel_dwass(by_name, alpha, "exact")
        if few
        else steel_dwass(by_name, alpha, "monte-carlo", permutations=PERMUTATIONS),
    )


def summarize(results: Results, comparisons: Mapping[str, Comparison]) -> pd.DataFrame:
    """Mean and SD (with n - 1) over seeds of each task, method and metric.

    Columns: `task`, `method`, `metric`, `n`, `mean`, `sd`, `letters`. The metric "score" is the
    mean of a task's metrics, by which methods are ranked and tested.
    """
    scores = results.scores.rename(columns={"score": "value"}).assign(metric=SCORE)
    metrics = results.metrics
    long = pd.concat([table for table in (metrics, scores) if len(table)] or [metrics])
    rows = []
    key: Any
    for key, group in long.groupby(["task", "method", "metric"], sort=False, observed=True):
        task, method, metric = key
        values = group["value"].to_numpy(dtype=float)
        sd = float(np.std(values, ddof=1)) if len(values) > 1 else None
        letters = comparisons[task].letters().get(method, "") if task in comparisons else ""
        rows.append((task, method, metric, len(values), float(values.mean()), sd, letters))
    table = pd.DataFrame(
        rows, columns=["task", "method", "metric", "n", "mean", "sd", "letters"]
    ).astype({"sd": float})
    order = {name: rank for rank, name in enumerate([*columns(results), *method_names(results)])}
    return table.sort_values(
        ["task", "method"], key=lambda names: names.map(order), kind="stable", ignore_index=True
    )


def all_pvalues(comparisons: Mapping[str, Comparison]) -> pd.DataFrame:
    """Every pair of methods of every task: statistic, p, effect size and verdict."""
    tables = [
        comparison.pairs().assign(task=task)[["task", *comparison.pairs().columns]]
        for task, comparison in comparisons.items()
    ]
    if tables:
        return pd.concat(tables, ignore_index=True)
    names = ["a", "b", "n_a", "n_b", "statistic", "pvalue", "permutation_pvalue", "effect_size",
             "significant", "verdict"]  # fmt: skip
    return pd.DataFrame(columns=["task", *names])


def all_runs(results: Results) -> pd.DataFrame:
    """A row for each run that was asked: done, failed or not done, and how it went.

    A finished run is `diverged` where a cost in its history is not finite.
    """
    done = {(run["task"], run["method"], run["seed"]): run for run in results.runs}
    errors = dict(results.failures)
    rows = []
    for config in results.suite.runs():
        run, error = done.get(config.key), errors.get(str(config))
        status = "done" if run else "not done" if error is None else "failed"
        row = {"task": config.task, "method": config.method, "seed": config.seed, "status": status}
        rows.append(row | (_measured(results, run) if run else {}) | {"error": error})
    return pd.DataFrame(rows)


def how_run(runs: pd.DataFrame) -> pd.DataFrame:
    """What the finished runs of each task and method took: medians over seeds, the most memory."""
    done = runs[runs["status"] == "done"]
    if done.empty:
        return pd.DataFrame()
    table = done.groupby(["task", "method"], sort=False, as_index=False).agg(
        n=("seed", "size"),
        parameters=("parameters", "median"),
        without_embedding=("without_embedding", "median"),
        mechanism=("mechanism", "median"),
        epochs=("epochs", "median"),
        seconds_epoch=("seconds_epoch", "median"),
        tokens_second=("tokens_second", "median"),
        seconds_batch=("seconds_batch", "median"),
        seconds_compilation=("seconds_compilation", "median"),
        padding=("padding", "median"),
        peak_memory_mib=("peak_memory_mib", "max"),
        of_process=("peak_memory_of", lambda of: of.eq("process").any()),
        stopped=("stopped", _counted),
    )
    return table


def computed(results: Results) -> str:
    """How the networks were computed, in a sentence."""
    suite = results.suite
    which = {"readout": "only the token that is read", "all": "all tokens"}[suite.compute]
    reads_a_token = any(find_mechanism(m.mechanism).head == "first" for m in suite.method)
    parts = [f'{which} (compute = "{suite.compute}")'] if reads_a_token else []
    parts += [suite.precision, "the training step by XLA" if suite.xla else "without XLA"]
    return f"Computed: {', '.join(parts)}."


def beside_published(
    results: Results, summary: pd.DataFrame, how: pd.DataFrame, published: Published
) -> pd.DataFrame:
    """Published figures and ours, in points or milliseconds.

    A figure stands beside the method of its name, or the only one of its mechanism. Columns:
    `task`, `metric`, `method` (ours, or the paper's where there is none), `published`,
    `published_sd`, `mean`, `sd`, `n`, `difference`.
    """
    ours = _measured_points(summary, how)
    rows = []
    for figure in published.figure:
        name = _own_name(results, figure.method)
        n, mean, sd = ours.get((figure.task, name, figure.metric), (0, math.nan, math.nan))
        row = (figure.task, figure.metric, name, figure.value, figure.sd, mean, sd, n)
        rows.append((*row, mean - figure.value))
    return pd.DataFrame(
        rows,
        columns=["task", "metric", "method", "published", "published_sd", "mean", "sd", "n",
                 "difference"],
    ).astype({"published_sd": float})  # fmt: skip


def _measured_points(
    summary: pd.DataFrame, how: pd.DataFrame
) -> dict[tuple[str, str, str], tuple[int, float, float]]:
    points = {
        (row.task, row.method, row.metric): (row.n, 100 * row.mean, 100 * row.sd)
        for row in rows_of(summary)
    }
    for row in rows_of(how):
        points[row.task, row.method, MILLISECONDS] = (row.n, 1000 * row.seconds_batch, math.nan)
    return points


def _own_name(results: Results, name: str) -> str:
    """Our method of a name, or the only one of that mechanism; else the paper's own name."""
    methods = results.suite.methods()
    own = [str(method.name) for method in methods if method.mechanism == name]
    named = any(method.name == name for method in methods)
    return own[0] if len(own) == 1 and not named else name


def not_comparable(results: Results, published: Published) -> list[str]:
    """Why the published figures and ours cannot be compared; empty where they can."""
    suite = results.suite
    reasons = []
    ours = suite.embedding_dim if suite.embeddings == "glove" else None
    if ours != published.vectors:
        reasons.append(
            f"the paper's networks start from {_vectors(published.vectors)}, these from "
            f"{_vectors(ours)}"
        )
    if suite.source == "miniglue":
        reasons.append("these are of embedded data")
    elif sets_noun(results) != f"{published.split} sets":
        reasons.append(f"the paper's figures are of {published.split} sets, these of dev sets")
    return reasons


def _vectors(width: int | None) -> str:
    return "random embeddings" if width is None else f"word vectors of width {width}"


def rows_of(table: pd.DataFrame) -> Iterator[Any]:
    """The rows with their columns as attributes, of the types that the columns have here."""
    return table.itertuples(index=False)


def counted(values: Any) -> list[tuple[str, int]]:
    """Distinct values as text, with how often each occurs, the most frequent first."""
    return Counter(map(str, values)).most_common()


def _counted(values: pd.Series[str]) -> str:
    reasons = counted(values)
    if len(reasons) == 1:
        return reasons[0][0]
    return "; ".join(f"{reason} ({count})" for reason, count in reasons)


def _measured(results: Results, run: dict[str, Any]) -> dict[str, Any]:
    parameters, seconds, manifest = run["parameters"], run["seconds"], run["manifest"]
    tokens = run.get("tokens") or math.nan  # of text and in earlier versions not counted
    costs = results.history(run)[["loss", "val_loss"]].to_numpy(dtype=float)
    return {
        "epochs": run["epochs"],
        "kept_epoch": run["kept_epoch"],
        "stopped": run["stopped"],
        "diverged": not np.isfinite(costs).all(),
        "parameters": parameters["total"],
        "without_embedding": parameters["total"] - parameters["embedding"],
        "mechanism": parameters["mechanism"],
        "padding": run["padding"],
        "tokens": tokens,
        "tokens_second": tokens / seconds["epoch"],
        # Runs of earlier versions did not count their batches.
        **{f"seconds_{name}": value for name, value in ({"batch": math.nan} | seconds).items()},
        "peak_memory_mib": run["peak_memory_mib"],
        "peak_memory_of": run.get("peak_memory_of", "process"),
        "peak_device_memory_mib": run.get("peak_device_memory_mib"),
        "compute": run["config"]["compute"],
        "precision": run["config"]["precision"],
        "xla": manifest["xla"],
        "started": manifest["started"],
        "finished": manifest["finished"],
        "commit": manifest["commit"],
        "processor": manifest["processor"],
        "threads": manifest["threads"],
    }
