"""Means, tests of each task, and wins over tasks."""

from __future__ import annotations

import functools
import itertools
import math
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd

from relation_tf.bench.results import Results
from relation_tf.errors import OptionError
from relation_tf.registry import Procedure
from relation_tf.report.scores import Scores
from relation_tf.stats import PairwiseResult, pairwise_result, win_tie_loss
from relation_tf.stats.comparisons import table_of_pairs
from relation_tf.stats.design import samples_needed
from relation_tf.stats.samples import control_first, rank_samples
from relation_tf.steps import advance

SCORE = "score"
_PAIR_COLUMNS = [
    *("a", "b", "n_a", "n_b", "statistic", "pvalue", "asymptotic_pvalue"),
    *("difference", "difference_low", "difference_high"),
    *("effect_size", "effect_low", "effect_high"),
    *("significant", "better", "verdict", "ahead", "higher_is_better"),
]
_DIFFERENCES = ["difference", "difference_low", "difference_high"]


def letters_of(results: Sequence[PairwiseResult]) -> dict[str, str] | None:
    """Return the letters of each method.

    Args:
        results: Tests of one task, one for each family.

    Returns:
        The letters; empty without a significant pair or with a control. None if there are more
        groups than letters.
    """
    tests = [result for result in results if result.control is None]
    if not any(result.significant.to_numpy().any() for result in tests):
        return {}
    try:
        return {str(name): own for result in tests for name, own in result.letters().items()}
    except ValueError:
        return None


# Columns rather than a table for each result: tables of thousands of tasks take long to join.
_PAIRS: WeakKeyDictionary[PairwiseResult, dict[str, Sequence[Any]]] = WeakKeyDictionary()


def _pairs_of(result: PairwiseResult) -> dict[str, Sequence[Any]]:
    """Return the columns of the pairs, in the unit of the scores; computed once per result."""
    if result not in _PAIRS:
        _PAIRS[result] = _all_columns(result)
    return _PAIRS[result]


def _all_columns(result: PairwiseResult) -> dict[str, Sequence[Any]]:
    pairs, effects = result.columns(), result.effect_sizes()
    shifts = None if result.estimand is None else result.confidence_interval()
    towards_b = result.directions() * (1 if result.higher_is_better else -1)
    rows = zip(pairs["a"], pairs["b"], towards_b, strict=True)
    unknown = np.full(len(effects), np.nan)
    columns = {
        "asymptotic_pvalue": unknown,
        **pairs,
        "n_a": [len(result.samples[name]) for name in pairs["a"]],
        "n_b": [len(result.samples[name]) for name in pairs["b"]],
        "difference": unknown if shifts is None else shifts["difference"],
        "difference_low": unknown if shifts is None else shifts["low"],
        "difference_high": unknown if shifts is None else shifts["high"],
        "effect_low": effects["low"],
        "effect_high": effects["high"],
        "ahead": [b if sign > 0 else a if sign < 0 else "" for a, b, sign in rows],
        "higher_is_better": [result.higher_is_better] * len(effects),
    }
    return {name: columns[name] for name in _PAIR_COLUMNS}


def compare_methods(scores: Scores) -> dict[str, PairwiseResult]:
    """Return the test of each task where at least two methods have at least two seeds.

    With a control, tasks without its scores are left out.

    Raises:
        OptionError: If the test returns a result at another level.
    """
    comparisons = {}
    for number, task in enumerate(scores.tasks):
        advance("tests of tasks", number, len(scores.tasks))
        result = _test(scores, task)
        if result is not None:
            comparisons[task] = result
    return comparisons


def _test(scores: Scores, task: str) -> PairwiseResult | None:
    """Test a task; None unless two methods have two scores and the control has any."""
    samples: dict[Any, list[float]] = {**scores.samples(task)}
    control, procedure = scores.control, scores.procedure
    sizes = sorted(len(values) for values in samples.values())
    if len(sizes) < 2 or sizes[-2] < 2 or (control is not None and control not in samples):
        return None
    options: dict[str, Any] = {
        "alpha": scores.alpha,
        "higher_is_better": task not in scores.lower_is_better,
    }
    options |= {} if control is None else {"control": control}
    found = procedure.function(samples, **options)
    check_level("test", found, scores)
    if isinstance(found, PairwiseResult):
        return found
    return _adapt(found, samples, procedure, **options)


def check_level(option: str, found: Any, scores: Scores) -> None:
    """Check that a test has used the level of the report, if its result names one.

    Raises:
        OptionError: If it has not.
    """
    level = getattr(found, "alpha", scores.alpha)
    if level != scores.alpha:
        raise OptionError(
            option,
            f"must return a result at the level alpha = {scores.alpha:g}. Received: alpha = "
            f"{level:g}",
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
    """Convert another library's result with `pvalue` and, if present, `statistic`.

    The statistic can have any sign, or none: it gets the sign of the difference.
    """
    ranked = rank_samples(control_first(samples, control), higher_is_better=higher_is_better)
    count, fewest = len(samples), int(ranked.sizes.min())
    pvalue = values_of_pairs(found.pvalue, count)
    bound = procedure.attainable_pvalue
    unknown = np.full(pvalue.size, np.nan)
    statistic = np.abs(values_of_pairs(getattr(found, "statistic", unknown), count))
    unsigned = pairwise_result(
        procedure,
        ranked,
        unknown,
        pvalue,
        alpha=alpha,
        higher_is_better=higher_is_better,
        control=control,
        attainable_pvalue=0.0 if bound is None else bound(count, fewest),
        seeds_needed=0 if bound is None else samples_needed(partial(bound, count), alpha),
    )
    signed = unsigned.directions() * statistic
    return replace(
        unsigned, statistic=table_of_pairs(signed, list(ranked.scores), control is not None)
    )


def values_of_pairs(values: Any, num_methods: int) -> Any:
    """Return another library's values, one per pair or a square table, with one per pair."""
    numbers = np.array(values, dtype=float)
    return numbers.ravel() if numbers.ndim < 2 else numbers[np.triu_indices(num_methods, 1)]


def procedure_label(procedure: Procedure, control: str | None) -> str:
    """Return the name of a test, with its control."""
    return procedure.title if control is None else f"{procedure.title} against {control}"


def wins(scores: Scores, comparisons: Mapping[str, PairwiseResult]) -> pd.DataFrame | None:
    """Return the number of significant wins per pair of methods; None for a single task.

    A network with several tasks counts once, with its first task.
    """
    tests: dict[str, PairwiseResult] = {}
    for task in scores.main_tasks:
        if task in comparisons:
            tests.setdefault(scores.network(task), comparisons[task])
    return win_tie_loss(tests) if len(tests) > 1 else None


def summarize(
    scores: Scores,
    letters: Mapping[str, Mapping[str, str]] | None = None,
    metrics: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Return mean and SD (with n - 1) over seeds of each task, method and metric.

    Args:
        scores: The scores that are ranked and tested; their metric is "score".
        letters: Letters of the methods by task; equal letters mean no significant difference.
        metrics: Metrics of the scores: columns `task`, `method`, `seed`, `metric` and `value`.

    Returns:
        Columns `task`, `method`, `metric`, `n`, `mean`, `sd`, `letters`.
    """
    own = scores.table.rename(columns={"score": "value"}).assign(metric=SCORE)
    tables = [table for table in (metrics, own) if table is not None and len(table)]
    long = pd.concat(tables or [own])
    rows = []
    for (task, method, metric), group in cast(
        "Any", long.groupby(["task", "method", "metric"], sort=False, observed=True)
    ):
        values = group["value"].to_numpy(dtype=float)
        sd = np.std(values, ddof=1) if len(values) > 1 else math.nan
        own_letters = (letters or {}).get(task, {}).get(method, "")
        rows.append((task, method, metric, len(values), values.mean(), sd, own_letters))
    tasks, methods = (
        {name: place for place, name in enumerate(names)}
        for names in (scores.tasks, scores.methods)
    )
    rows.sort(key=lambda row: (tasks[row[0]], methods[row[1]]))
    return pd.DataFrame(rows, columns=["task", "method", "metric", "n", "mean", "sd", "letters"])


def all_metrics(scores: Scores, results: Results | None) -> pd.DataFrame:
    """Return the metrics and averages of all seeds.

    Args:
        scores: The scores; the metric of those without a known one is "score".
        results: The runs that gave the scores, if known.

    Returns:
        Columns `task`, `method`, `seed`, `metric` and `value`.
    """
    own = scores.table.rename(columns={"score": "value"}).assign(metric=SCORE)
    own = own[["task", "method", "seed", "metric", "value"]]
    if results is None:
        return own
    metrics, key = results.metrics, ["task", "method", "seed"]
    known = pd.MultiIndex.from_frame(metrics[key])
    others = own[~pd.MultiIndex.from_frame(own[key]).isin(known)]  # averages, scores of tables
    named = metrics.groupby("task", observed=True)["metric"].unique()
    only = {t: name for t in named.index if [name := scores.only_metric(t)] == [*named[t]]}
    others = others.assign(metric=[only.get(task, SCORE) for task in others["task"]])
    tables = [table for table in (metrics, others) if len(table)]
    return pd.concat(tables, ignore_index=True) if tables else metrics


def with_splits(table: pd.DataFrame, scores: Scores, results: Results | None) -> pd.DataFrame:
    """Return a table of `all_metrics` with the column `split` and the rows of other splits.

    Args:
        table: The table; returned as it is if no split is known.
        scores: The scores.
        results: The runs, which can have scores on test sets.
    """
    if not scores.splits:
        return table
    own = table.assign(split=table["task"].map(scores.splits).fillna(""))
    if results is None or results.test_metrics.empty:
        return own
    return pd.concat([own, results.test_metrics.assign(split="test")], ignore_index=True)


def all_pvalues(
    comparisons: Mapping[str, PairwiseResult], factor: Callable[[str], float] = lambda task: 1.0
) -> pd.DataFrame:
    """Return the pairs of methods on each task with all columns of a report.

    In addition to `task` and `PairwiseResult.pairs` these are `n_a`, `n_b`, `difference` (of b
    minus a, as `PairwiseResult.estimand` says, with the simultaneous interval from `difference_low`
    to `difference_high`; NaN for procedures without intervals), `effect_low` and `effect_high` (the
    interval of the effect size), `ahead` (the method with better ranks, in a test of means with the
    better mean, significant or not; empty if they are equal), and `higher_is_better` (if False, a
    positive statistic, difference or effect size means that b is worse).

    Args:
        comparisons: The test of each task, from `compare_methods`.
        factor: Function from a task to the factor of its differences, 100 for points.
    """
    if not comparisons:
        return pd.DataFrame(columns=["task", *_PAIR_COLUMNS])
    tables = []
    for number, result in enumerate(comparisons.values()):
        advance("intervals of tasks", number, len(comparisons))
        tables.append(_pairs_of(result))
    sizes = [len(table["a"]) for table in tables]
    columns: dict[str, Any] = {"task": np.repeat(np.array([*comparisons], dtype=object), sizes)}
    for name in _PAIR_COLUMNS:
        columns[name] = [*itertools.chain.from_iterable(table[name] for table in tables)]
    factors = np.repeat([factor(task) for task in comparisons], sizes)
    columns |= {name: np.multiply(columns[name], factors) for name in _DIFFERENCES}
    columns["better"] = pd.Series(columns["better"], dtype=object)
    return pd.DataFrame(columns)


def winners(pairs: pd.DataFrame) -> list[tuple[str, str]]:
    """Return the better and the worse method of each significant pair.

    Args:
        pairs: Columns `a`, `b` and `better`, as in `PairwiseResult.pairs`.
    """
    won = rows_of(pairs[pairs["better"].notna()])
    return [(row.better, row.a if row.better == row.b else row.b) for row in won]


def winners_on_all(pvalues: pd.DataFrame, tasks: Sequence[str]) -> set[tuple[str, str]]:
    """Return the pairs of `winners` that are significant on each of some tasks.

    Args:
        pvalues: Result of `all_pvalues`.
        tasks: At least one task.
    """
    return set.intersection(*({*winners(pvalues[pvalues["task"] == task])} for task in tasks))


def rows_of(table: pd.DataFrame) -> Iterator[Any]:
    """Iterate over rows with columns as attributes; typed Any."""
    # Lists are much faster than `itertuples` over arrays of text, and for few rows.
    columns = (table.iloc[:, place].tolist() for place in range(table.shape[1]))
    return map(_row_type(tuple(map(str, table.columns)))._make, zip(*columns, strict=True))


@functools.cache
def _row_type(columns: tuple[str, ...]) -> Any:
    return namedtuple("Row", columns, rename=True)
