"""Means, tests of each task, and tests over tasks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, cast

import numpy as np
import pandas as pd

from relation_tf.registry import PROCEDURES, Procedure
from relation_tf.report.scores import Scores
from relation_tf.stats import (
    FriedmanNemenyiResult,
    PairwiseResult,
    default_procedure,
    friedman_nemenyi,
    pairwise_result,
    win_tie_loss,
)
from relation_tf.stats.comparisons import PairTable, due_to_ties
from relation_tf.stats.design import format_level, format_pvalue, samples_needed
from relation_tf.stats.pairwise import MAX_ARRANGEMENTS, num_arrangements
from relation_tf.stats.samples import rank_samples

SCORE = "score"
PERMUTATIONS = 20_000


@dataclass(frozen=True)
class Comparison:
    """Test of a task: all pairs, or each method against a control.

    A pair is significant if both p are below alpha.

    Attributes:
        result: Result with the asymptotic p; its `significant` uses both p.
        permutation: Result with the p of joint permutations (all, or a random sample); equal to
            `result` for a procedure without permutations.
    """

    result: PairwiseResult
    permutation: PairwiseResult

    def pairs(self) -> pd.DataFrame:
        """Return `PairwiseResult.pairs` with more columns.

        These are `n_a`, `n_b`, `permutation_pvalue`, `effect_low` and `effect_high` (the interval
        of the effect size), and `ahead` (the method with better ranks, significant or not; empty
        if ranks are equal).
        """
        return self._pairs

    @cached_property
    def _pairs(self) -> pd.DataFrame:
        pairs = self.result.pairs()
        sizes = {name: len(scores) for name, scores in self.result.samples.items()}
        pairs.insert(2, "n_a", pairs["a"].map(sizes))
        pairs.insert(3, "n_b", pairs["b"].map(sizes))
        pairs.insert(6, "permutation_pvalue", self.permutation.pairs()["pvalue"])
        effects = self.result.effect_sizes()
        pairs.insert(8, "effect_low", effects["low"])
        pairs.insert(9, "effect_high", effects["high"])
        towards_b = pairs["effect_size"] * (1 if self.result.higher_is_better else -1)
        pairs["ahead"] = np.select([towards_b > 0, towards_b < 0], [pairs["b"], pairs["a"]], "")
        return pairs

    @property
    def attainable_pvalue(self) -> float:
        """Smallest p that both tests can reach without ties."""
        return max(self.result.attainable_pvalue, self.permutation.attainable_pvalue)

    @property
    def tied(self) -> bool:
        """True if a p is smaller than it can be without ties."""
        return due_to_ties(self.pairs()["pvalue"].to_numpy(), self.result.attainable_pvalue)

    @property
    def seeds_needed(self) -> int:
        """Number of seeds with which both p can be significant; 0 if unknown."""
        return max(self.result.seeds_needed, self.permutation.seeds_needed)

    def notes(self) -> list[str]:
        """Return remarks on ties, and on pairs where only one p is significant."""
        alpha = self.result.alpha
        level = format_level(alpha).removeprefix("p < ")
        doubtful = (
            f"{pair.a} and {pair.b}: not significant, because only one p is below {level} "
            f"({format_pvalue(pair.pvalue, alpha)}; by permutation "
            f"{format_pvalue(pair.permutation_pvalue, alpha)})"
            for pair in rows_of(self.pairs())
            if (pair.pvalue < alpha) != (pair.permutation_pvalue < alpha)
        )
        return [*self.result.notes, *doubtful]

    def letters(self) -> dict[str, str]:
        """Return the letters of each method; empty without a significant pair or with a control."""
        if self.result.control is not None:
            return {}
        if not self.result.significant.to_numpy().any():
            return {}
        return {str(name): letters for name, letters in self.result.letters().items()}


def compare(scores: Scores) -> dict[str, Comparison]:
    """Return the test of each task where at least two methods have at least two seeds.

    With a control, tasks without its scores are left out.
    """
    comparisons = {}
    for task in scores.tasks:
        comparison = compare_samples(
            scores.samples(task),
            scores.alpha,
            higher_is_better=task not in scores.lower_is_better,
            control=scores.control,
            procedure=scores.procedure,
        )
        if comparison is not None:
            comparisons[task] = comparison
    return comparisons


def compare_samples(
    samples: Mapping[str, list[float]],
    alpha: float,
    *,
    higher_is_better: bool = True,
    control: str | None = None,
    procedure: Procedure | None = None,
) -> Comparison | None:
    """Test samples; None unless two methods have two values and the control has any.

    Args:
        samples: The scores of each method.
        alpha: Level of the test.
        higher_is_better: If False, lower scores are better.
        control: Method to compare the others with.
        procedure: The test, by default Steel-Dwass, or Steel's test with a control.
    """
    sizes = sorted(len(values) for values in samples.values())
    if len(sizes) < 2 or sizes[-2] < 2 or (control is not None and control not in samples):
        return None
    by_name: dict[Any, list[float]] = dict(samples)
    procedure = procedure or PROCEDURES[default_procedure(control)]
    options: dict[str, Any] = {"alpha": alpha, "higher_is_better": higher_is_better}
    options |= {} if control is None else {"control": control}
    if not procedure.exact:
        found = procedure.function(by_name, **options)
        if not isinstance(found, PairwiseResult):
            found = _adapt(found, by_name, procedure, **options)
        return Comparison(found, found)
    few = num_arrangements(sizes) <= MAX_ARRANGEMENTS
    result, permutation = (
        procedure.function(by_name, method=method, permutations=PERMUTATIONS, **options)
        for method in ("asymptotic", "exact" if few else "monte-carlo")
    )
    # The only place that decides significance: verdicts, letters and wins use this result.
    return Comparison(
        replace(result, significant=result.significant & permutation.significant), permutation
    )


def _adapt(
    found: Any,
    samples: dict[Any, list[float]],
    procedure: Procedure,
    *,
    alpha: float,
    higher_is_better: bool,
    control: str | None = None,
) -> PairwiseResult:
    """Convert another library's result with `pvalue` and, if present, `statistic`."""
    first = {} if control is None else {control: samples[control]}
    ranked = rank_samples({**first, **samples}, higher_is_better=higher_is_better)
    count, fewest = len(samples), int(ranked.sizes.min())

    def of_pairs(values: Any) -> Any:
        numbers = np.array(values, dtype=float)
        return numbers.ravel() if numbers.ndim < 2 else numbers[np.triu_indices(count, 1)]

    pvalue = of_pairs(found.pvalue)
    bound = procedure.attainable_pvalue
    return pairwise_result(
        procedure,
        ranked,
        of_pairs(getattr(found, "statistic", np.full(pvalue.size, np.nan))),
        pvalue,
        alpha=alpha,
        higher_is_better=higher_is_better,
        control=control,
        attainable_pvalue=0.0 if bound is None else bound(count, fewest),
        seeds_needed=2 if bound is None else samples_needed(partial(bound, count), alpha),
    )


def test_name(procedure: Procedure, control: str | None) -> str:
    """Return the name of a test, with its control."""
    return procedure.title if control is None else f"{procedure.title} against {control}"


def over_tasks(scores: Scores) -> FriedmanNemenyiResult | None:
    """Return Friedman's and Nemenyi's tests of the means of the tasks that all methods have.

    MNLI counts once, with the mean of both sets. None for fewer than two such tasks or three
    methods.
    """
    means = scores.table.pivot_table(
        index="task", columns="method", values="score", aggfunc="mean", sort=False
    )
    tasks = [task for task in scores.own_tasks if task in means.index]
    means = means.reindex(index=tasks, columns=[*scores.methods]).dropna()
    lower = means.index.isin(scores.lower_is_better)
    means = means.mul(np.where(lower, -1, 1), axis=0).groupby(scores.network, sort=False).mean()
    if len(means) < 2 or len(scores.methods) < 3:
        return None
    return friedman_nemenyi(means, scores.alpha)


def wins(scores: Scores, comparisons: Mapping[str, Comparison]) -> pd.DataFrame | None:
    """Return the number of significant wins per pair of methods; None for a single task.

    A network with several tasks counts once, with its first task.
    """
    tests: dict[str, PairwiseResult] = {}
    for task in scores.own_tasks:
        if task in comparisons:
            tests.setdefault(scores.network(task), comparisons[task].result)
    return win_tie_loss(tests) if len(tests) > 1 else None


def summarize(
    scores: Scores, comparisons: Mapping[str, Comparison], metrics: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Return mean and SD (with n - 1) over seeds of each task, method and metric.

    Args:
        scores: The scores that are ranked and tested; their metric is "score".
        comparisons: The test of each task, from `compare`.
        metrics: Metrics of the scores: columns `task`, `method`, `seed`, `metric` and `value`.

    Returns:
        Columns `task`, `method`, `metric`, `n`, `mean`, `sd`, `letters`.
    """
    own = scores.table.rename(columns={"score": "value"}).assign(metric=SCORE)
    tables = [table for table in (metrics, own) if table is not None and len(table)]
    long = pd.concat(tables or [own])
    letters = {task: comparison.letters() for task, comparison in comparisons.items()}
    rows = []
    for (task, method, metric), group in cast(
        "Any", long.groupby(["task", "method", "metric"], sort=False, observed=True)
    ):
        values = group["value"].to_numpy(dtype=float)
        sd = np.std(values, ddof=1) if len(values) > 1 else math.nan
        own_letters = letters.get(task, {}).get(method, "")
        rows.append((task, method, metric, len(values), values.mean(), sd, own_letters))
    rows.sort(key=lambda row: (scores.tasks.index(row[0]), scores.methods.index(row[1])))
    return pd.DataFrame(rows, columns=["task", "method", "metric", "n", "mean", "sd", "letters"])


def all_pvalues(comparisons: Mapping[str, Comparison]) -> pd.DataFrame:
    """Return statistic, p, effect size and verdict of each pair of methods on each task."""
    if comparisons:
        tables = {task: comparison.pairs() for task, comparison in comparisons.items()}
        return pd.concat(tables, names=["task"]).reset_index("task").reset_index(drop=True)
    names = ["a", "b", "n_a", "n_b", "statistic", "pvalue", "permutation_pvalue", "effect_size",
             "effect_low", "effect_high", "significant", "better", "verdict", "ahead"]  # fmt: skip
    return pd.DataFrame(columns=["task", *names])


def shown_pvalues(pvalue: PairTable, permutation: PairTable, alpha: float) -> PairTable:
    """Return the p to show for each pair: below alpha only if both p are.

    Args:
        pvalue: The asymptotic p.
        permutation: The permutation p, shown if only the asymptotic p is below alpha.
        alpha: Level of the tests.
    """
    return pvalue.mask((pvalue < alpha) & (permutation >= alpha), permutation)


def rows_of(table: pd.DataFrame) -> Iterator[Any]:
    """Iterate over rows with columns as attributes; typed Any."""
    return table.itertuples(index=False)
