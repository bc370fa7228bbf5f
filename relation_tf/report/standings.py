"""Means and mean ranks of the methods, and a sentence on the best one and the tests."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from relation_tf.registry import Procedure
from relation_tf.report.comparisons import procedure_label, winners
from relation_tf.report.over_tasks import OverTasks
from relation_tf.report.scores import Scores
from relation_tf.report.text import Statement, state
from relation_tf.stats import PairwiseResult
from relation_tf.stats.samples import dense_ranks
from relation_tf.words import format_level


class Outcome(NamedTuple):
    """Pairs of methods with one verdict each, as the opening sentence reports them.

    Attributes:
        pairs: Columns `a`, `b` and `better` (None without a significant difference).
        how: Name and level of the test.
        lacking: Unit of which there are too few for any p below the level; empty with enough.
        procedure: The test.
    """

    pairs: pd.DataFrame
    how: str
    lacking: str
    procedure: Procedure


def leading(
    scores: Scores,
    table: pd.DataFrame,
    outcome: Outcome | None,
    tests: Mapping[str, PairwiseResult],
    lost: Collection[str] = (),
) -> Statement | None:
    """Return a statement on the best method and the number of pairs that differ significantly.

    None if fewer than two methods have a common task.

    Args:
        scores: The scores of a family.
        table: Result of `standings`.
        outcome: Result of `outcome_of`.
        tests: The test of each task.
        lost: Methods of which at least half of the runs failed or learned nothing: none is best.
    """
    if len(table) < 2:
        return None
    tasks = table.attrs["tasks"]
    measure = "mean" if table["mean"].notna().all() else "rank"
    lower = measure == "rank" or scores.main_tasks[0] in scores.lower_is_better
    left_out = [name for name in _best(table[measure], lower) if name in lost]
    if left_out:
        table = table.drop([name for name in table.index if name in lost])
    best = _best(table[measure], lower)
    return state(
        "leading",
        methods=best,
        measure=measure,
        lower_is_better=lower,
        tasks=tasks,
        lost=left_out,
        test=_test(outcome, best, tests, scores),
    )


def _best(values: pd.Series[float], lower: bool) -> list[str]:
    """Return the methods with the best value."""
    best = values.min() if lower else values.max()
    return [str(name) for name, value in values.items() if math.isclose(value, best)]


def _test(
    outcome: Outcome | None,
    best: Sequence[str],
    tests: Mapping[str, PairwiseResult],
    scores: Scores,
) -> dict[str, Any]:
    """Return the numbers of pairs, and of methods that the only best one is better than."""
    beaten, worse_than = None, []
    if outcome is None:
        own = [test.pairs() for task, test in tests.items() if task in scores.main_tasks]
        pairs = pd.concat(own) if own else pd.DataFrame({"better": []})
        test = procedure_label(scores.procedure, scores.control)
        how, few = f"{test}, {format_level(scores.alpha)}", ""
    else:
        pairs, how, few = outcome.pairs, outcome.how, outcome.lacking
        if scores.control is None and len(best) == 1:
            beaten = int((pairs["better"] == best[0]).sum())
            worse_than = [better for better, worse in winners(pairs) if worse == best[0]]
    return {
        "of": "tasks" if outcome is None else "methods",
        "how": how,
        "significant": int(pairs["better"].notna().sum()),
        "pairs": len(pairs),
        "lacking": few,
        "control": scores.control,
        "beaten": beaten,
        "others": len({*pairs["a"], *pairs["b"]}) - 1 if len(pairs) else 0,
        "only": winners(pairs)[0] if len(pairs) == 1 and len(winners(pairs)) else None,
        "worse_than": worse_than,
    }


def none_learned(scores: Scores, lost: Collection[str]) -> Statement | None:
    """Return a statement if at least half of the runs of each method were lost.

    Args:
        scores: The scores of a family.
        lost: The methods of which at least half of the runs failed or learned nothing.
    """
    if not lost or not {*scores.table["method"]} <= {*lost}:
        return None
    return state("none_learned", tasks=len(scores.main_tasks))


def outcome_of(
    scores: Scores, several: OverTasks | None, comparisons: Mapping[str, PairwiseResult]
) -> Outcome | None:
    """Return the pairs over all tasks or on the only one; None if there are tests by task only.

    Args:
        scores: The scores of a family.
        several: Test over tasks, if there is one.
        comparisons: The test of each task.
    """
    level = format_level(scores.alpha)
    if several is not None:
        how = f"{several.procedure.title}, {level}"
        few = lacking(several.result, f"{several.procedure.unit}s", scores)
        return Outcome(several.pairs, how, few, several.procedure)
    if len(scores.main_tasks) == 1 and scores.main_tasks[0] in comparisons:
        test = comparisons[scores.main_tasks[0]]
        how = f"{procedure_label(scores.procedure, scores.control)}, {level}"
        few = lacking(test, "seeds", scores)
        return Outcome(test.pairs(), how, few, scores.procedure)
    return None


def lacking(result: Any, unit: str, scores: Scores) -> str:
    """Return the unit if no p can be below the level; tests of plugins may not know it."""
    return unit if getattr(result, "attainable_pvalue", 0.0) >= scores.alpha else ""


def standings(scores: Scores) -> pd.DataFrame:
    """Return the `mean` and the mean `rank` (1 is the best) of each method over common tasks.

    Tasks scored from one network count once. Without a common task the table is empty; `mean` is
    NaN if the tasks have different units, and for speeds.

    Returns:
        A row per method with scores; `attrs["tasks"]` is a list of the tasks.
    """
    means = pd.DataFrame(
        {
            network: {name: _mean(values) for name, values in own.items()}
            for network, own in scores.common.items()
        },
        dtype=float,
    ).dropna(axis="columns")
    signs = [-1 if scores.lower_is_better_on(network) else 1 for network in map(str, means)]
    # Means that differ by rounding are tied, as in the tests.
    codes = means.mul(signs).apply(lambda own: pd.Series(dense_ranks(own.to_numpy()), own.index))
    ranks = codes.rank(ascending=False).mean(axis="columns")
    alike = scores.alike and not scores.timed
    table = pd.DataFrame({"mean": means.mean(axis="columns") if alike else np.nan, "rank": ranks})
    table.attrs["tasks"] = [*means]
    return table if len(means.columns) else table.iloc[:0]


def _mean(scores: Sequence[float]) -> float:
    """Return the mean of the scores other than NaN; NaN if there is none."""
    known = [score for score in scores if not math.isnan(score)]
    return math.fsum(known) / len(known) if known else math.nan
