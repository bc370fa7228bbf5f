"""What is compared with what: means, tests of each task, and the tasks together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from relation_tf.report.scores import Scores
from relation_tf.stats import SteelDwassResult, steel_dwass
from relation_tf.stats.design import format_pvalue
from relation_tf.stats.pairwise import MAX_ARRANGEMENTS, num_arrangements

SCORE = "score"
PERMUTATIONS = 20_000


@dataclass(frozen=True)
class Comparison:
    """The Steel-Dwass test of a task.

    Attributes:
        result: With the asymptotic p, which gives the verdict.
        permutation: With the p of joint permutations: of all, or of many drawn at random.
        higher_is_better: Whether the highest score is the best.
    """

    result: SteelDwassResult
    permutation: SteelDwassResult
    higher_is_better: bool = True

    def pairs(self) -> pd.DataFrame:
        """All pairs, one a row, as `SteelDwassResult.pairs` with more columns.

        These are `n_a`, `n_b`, `permutation_pvalue`, and `better`: whose scores rank better,
        significantly or not; empty where neither's do.
        """
        pairs = self.result.pairs()
        sizes = {name: len(scores) for name, scores in self.result.samples.items()}
        pairs.insert(2, "n_a", pairs["a"].map(sizes))
        pairs.insert(3, "n_b", pairs["b"].map(sizes))
        permutation = self.permutation.pairs()["pvalue"]
        pairs.insert(6, "permutation_pvalue", permutation)
        towards_b = pairs["statistic"] * (1 if self.higher_is_better else -1)
        pairs["better"] = np.select([towards_b > 0, towards_b < 0], [pairs["b"], pairs["a"]], "")
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


def compare(scores: Scores) -> dict[str, Comparison]:
    """The Steel-Dwass test of each task where at least two methods have at least two seeds."""
    comparisons = {}
    for task in scores.tasks:
        comparison = compare_samples(
            scores.samples(task), scores.alpha, task not in scores.lower_is_better
        )
        if comparison is not None:
            comparisons[task] = comparison
    return comparisons


def compare_samples(
    samples: Mapping[str, list[float]], alpha: float, higher_is_better: bool = True
) -> Comparison | None:
    """The Steel-Dwass test of some samples; None unless two have two values or more."""
    sizes = sorted(len(values) for values in samples.values())
    if len(sizes) < 2 or sizes[-2] < 2:
        return None
    by_name: dict[Any, list[float]] = dict(samples)
    few = num_arrangements(np.array(sizes)) <= MAX_ARRANGEMENTS
    return Comparison(
        steel_dwass(by_name, alpha, higher_is_better=higher_is_better),
        steel_dwass(
            by_name,
            alpha,
            "exact" if few else "monte-carlo",
            higher_is_better=higher_is_better,
            permutations=PERMUTATIONS,
        ),
        higher_is_better,
    )


def summarize(
    scores: Scores, comparisons: Mapping[str, Comparison], metrics: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Mean and SD (with n - 1) over seeds of each task, method and metric.

    Args:
        scores: The scores, by which methods are ranked and tested; their metric is "score".
        comparisons: `compare` of them.
        metrics: The metrics that they are means of: columns `task`, `method`, `seed`, `metric` and
            `value`.

    Returns:
        Columns `task`, `method`, `metric`, `n`, `mean`, `sd`, `letters`.
    """
    own = scores.table.rename(columns={"score": "value"}).assign(metric=SCORE)
    tables = [table for table in (metrics, own) if table is not None and len(table)]
    long = pd.concat(tables or [own])
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
    order = {name: rank for rank, name in enumerate([*scores.tasks, *scores.methods])}
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
             "significant", "verdict", "better"]  # fmt: skip
    return pd.DataFrame(columns=["task", *names])


def rows_of(table: pd.DataFrame) -> Iterator[Any]:
    """The rows with their columns as attributes, of the types that the columns have here."""
    return table.itertuples(index=False)
