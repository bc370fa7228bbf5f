"""Means and mean ranks of the methods, and a sentence on the best one and the tests."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from relation_tf.registry import Procedure
from relation_tf.report.answer import better_of, lacking, no_difference
from relation_tf.report.comparisons import procedure_label
from relation_tf.report.over_tasks import OverTasks
from relation_tf.report.scores import Scores
from relation_tf.stats import PairwiseResult
from relation_tf.stats.samples import dense_ranks
from relation_tf.words import format_level, listed


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
    several: OverTasks | None,
    comparisons: Mapping[str, PairwiseResult],
    lost: Collection[str] = (),
) -> str:
    """Return a sentence with the best method and the number of pairs that differ significantly.

    Empty if fewer than two methods have a common task.

    Args:
        scores: The scores of a family.
        several: Test over tasks, if there is one.
        comparisons: The test of each task.
        lost: Methods of which at least half of the runs failed or learned nothing: none is best.
    """
    table = standings(scores)
    if len(table) < 2:
        return ""
    names, best = _best(table, scores)
    if wrong := [name for name in names if name in lost]:
        names, best = _best(table.drop([name for name in table.index if name in lost]), scores)
        whose = "its" if len(wrong) == 1 else "their"
        why = f"at least half of {whose} runs failed or learned nothing"
        best = f"Without {listed(wrong)} ({why}), {best}"
    outcome = outcome_of(scores, several, comparisons)
    if outcome is None:
        single = {task: test for task, test in comparisons.items() if task in scores.main_tasks}
        return f"{best}; {_by_task(single, scores)}."
    return f"{best}{_found(outcome, names, scores)}."


def none_learned(scores: Scores, lost: Collection[str]) -> str:
    """Return a sentence if at least half of the runs of each method were lost; else empty.

    Args:
        scores: The scores of a family.
        lost: The methods of which at least half of the runs failed or learned nothing.
    """
    if not lost or not {*scores.table["method"]} <= {*lost}:
        return ""
    task = "tasks" if len(scores.main_tasks) > 1 else "task"
    return (
        f"No method learned the {task}: at least half of the runs of each method failed or learned "
        "nothing, so a difference between them means nothing."
    )


def _best(table: pd.DataFrame, scores: Scores) -> tuple[list[str], str]:
    """Return the methods with the best mean, or the best rank without a mean, and a phrase."""
    tasks = table.attrs["tasks"]
    lower, what = True, "best mean rank" if len(tasks) > 1 else "best score"
    values = table["rank"]
    if table["mean"].notna().all():
        values, lower = table["mean"], scores.main_tasks[0] in scores.lower_is_better
        what = f"{'lowest' if lower else 'highest'} mean"
    best = values.min() if lower else values.max()
    names = [str(name) for name, value in values.items() if math.isclose(value, best)]
    where = f"over {len(tasks)} tasks" if len(tasks) > 1 else f"on {tasks[0]}"
    return names, f"{listed(names)} {'has' if len(names) == 1 else 'have'} the {what} {where}"


def outcome_of(
    scores: Scores, several: OverTasks | None, comparisons: Mapping[str, PairwiseResult]
) -> Outcome | None:
    """Return the pairs over all tasks or on the only one; None if there are tests by task only.

    Args:
        scores: As for `leading`.
        several: As for `leading`.
        comparisons: As for `leading`.
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


def _found(outcome: Outcome, names: list[str], scores: Scores) -> str:
    """Return the end of the sentence, after the best methods."""
    pairs, how = outcome.pairs, outcome.how
    different, total = int(pairs["better"].notna().sum()), len(pairs)
    if not different and outcome.lacking:
        return f", but no difference can be significant with so few {outcome.lacking} ({how})"
    if total == 1 and different:
        return f"; {better_of(pairs, 'is significantly better than')[0]} ({how})"
    if total == 1:
        return f"; the difference is not significant ({how})"
    if not different:
        return f", but {no_difference(scores)} ({how})"
    said, verb = "", "differs" if different == 1 else "differ"
    if scores.control is None and len(names) == 1:
        beaten = int((pairs["better"] == names[0]).sum())
        others = len({*pairs["a"], *pairs["b"]}) - 1
        said = f" and is significantly better than {_of(beaten, others)} other methods"
        own = pairs[(pairs["a"] == names[0]) | (pairs["b"] == names[0])]
        worse = [name for name in own["better"].dropna() if name != names[0]]
        if not beaten:
            said = " but is not significantly better than any other method"
        if worse:
            said += f" and is significantly worse than {listed(worse)}"
    return f"{said}; {_of(different, total)} pairs of methods {verb} significantly ({how})"


def _of(number: int, total: int) -> str:
    if number == total:
        return "both" if total == 2 else f"all {total}"
    return f"{number} of {total}"


def _by_task(comparisons: Mapping[str, PairwiseResult], scores: Scores) -> str:
    """Return what the tests of single tasks found."""
    if not comparisons:
        return "no test yet"
    better = [name for test in comparisons.values() for name in test.pairs()["better"]]
    different = sum(name is not None for name in better)
    how = f"{procedure_label(scores.procedure, scores.control)}, {format_level(scores.alpha)}"
    if not different:
        return f"{no_difference(scores)} on any task ({how})"
    if len(better) == 1:
        return f"the difference on the only tested task is significant ({how})"
    verb = "is" if different == 1 else "are"
    return (
        f"{_of(different, len(better))} differences between two methods on one task {verb} "
        f"significant ({how}, without a correction for the number of tasks)"
    )


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
