"""Warnings about scores for which a test or an interval is not reliable."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from relation_tf.report.comparisons import rows_of
from relation_tf.report.predicted_rows import PredictedRows
from relation_tf.report.scores import Scores
from relation_tf.report.text import Statement, state
from relation_tf.stats import PairwiseResult
from relation_tf.stats.spread import unequal_spread
from relation_tf.tasks.metrics import find_metric
from relation_tf.words import count, listed

if TYPE_CHECKING:
    from relation_tf.report.comparison import Comparison

_MOST_NAMED = 6  # tasks or methods in one warning
_ERRORS_ABOVE = 3  # standard errors by which the median run must beat the most frequent class


def collapsed_runs(sets: Sequence[PredictedRows], metrics: pd.DataFrame) -> pd.DataFrame:
    """Return the runs that learned nothing.

    A run is collapsed if all its predictions are equal, or if its accuracy is not above the share
    of the most frequent class, on a task where the median run is, by three standard errors. Without
    predictions, a correlation of exactly 0 is that of equal predictions. A low score alone is no
    sign: it can be the method's.

    Args:
        sets: Predictions of the runs on scored sets.
        metrics: Metrics of each score: columns `task`, `method`, `seed`, `metric` and `value`.

    Returns:
        Columns `task`, `method`, `seed` and `reason`.
    """
    found: dict[tuple[str, str, int], str] = {}
    for own in sets:
        for key, reason in _without_learning(own):
            found[own.name, *key] = reason
    read = {own.name for own in sets}
    for row in rows_of(metrics[metrics["value"] == 0]):
        if row.task not in read and find_metric(row.metric).low == -1:
            found[row.task, row.method, row.seed] = f"{row.metric} is 0"
    runs = [(*key, reason) for key, reason in found.items()]
    return pd.DataFrame(runs, columns=["task", "method", "seed", "reason"])


def _without_learning(own: PredictedRows) -> Iterator[tuple[tuple[str, int], str]]:
    """Yield method, seed and reason of the collapsed runs on a scored set."""
    accuracies = {}
    for method, runs in own.runs.items():
        for seed, (labels, outputs) in runs.items():
            chosen = outputs.argmax(axis=1) if own.classes else outputs
            if chosen.size > 1 and (chosen == chosen[0]).all():
                yield (method, seed), f"all predictions are {own.words(chosen[:1])[0]}"
            elif own.classes:
                accuracies[method, seed] = (chosen == labels).mean(), labels
    if not accuracies:
        return
    median = np.median([accuracy for accuracy, _ in accuracies.values()])
    for key, (accuracy, labels) in accuracies.items():
        most = np.bincount(labels).max() / labels.size
        error = math.sqrt(most * (1 - most) / labels.size)
        if accuracy <= most and median > most + _ERRORS_ABOVE * error:
            yield key, "accuracy is not above the share of the most frequent class"


def trained_networks(runs: pd.DataFrame, scores: Scores) -> pd.DataFrame:
    """Return a row per trained network: sets scored with the same network count once.

    Args:
        runs: Columns `task`, `method` and `seed`, with a row per scored set.
        scores: The scores; rows of averages and diagnostic sets are left out.

    Returns:
        Columns `task` (of the network), `method` and `seed`.
    """
    own = runs.loc[runs["task"].isin(scores.main_tasks), ["task", "method", "seed"]]
    trained = own["task"].map(lambda task: scores.networks.get(task, task))
    return own.assign(task=trained).drop_duplicates(ignore_index=True)


def mostly_lost(
    scores: Scores, collapsed: pd.DataFrame, failed: pd.DataFrame | None = None
) -> dict[str, tuple[int, int]]:
    """Return the methods of which at least half of the trained networks learned nothing.

    Args:
        scores: The scores.
        collapsed: Result of `collapsed_runs`.
        failed: Result of `failed_runs`, to count diverged runs and failed runs of tables as well.

    Returns:
        The number of these networks, and of all networks, by method.
    """
    lost = collapsed
    if failed is not None:
        lost = pd.concat([lost, failed[failed["diverged"] | failed["error"].isna()]])
    both = pd.concat([scores.table, lost])
    own, of = (trained_networks(runs, scores)["method"].value_counts() for runs in (lost, both))
    return {str(name): (own[name], of[name]) for name in own.index if 2 * own[name] >= of[name]}


def rarely_seen(
    collapsed: pd.DataFrame, scores: Scores, method: str, reference: str, task: str | None = None
) -> list[str]:
    """Return a note on a verdict if runs of one of its methods collapsed; else nothing.

    Args:
        collapsed: Result of `collapsed_runs`.
        scores: The scores.
        method: The judged method.
        reference: The reference.
        task: The task of a verdict on one task.
    """
    lost, runs = (
        trained_networks(own[own["task"].eq(task or own["task"])], scores)["method"].value_counts()
        for own in (collapsed, scores.table)
    )
    both = {method: "", reference: f" of {reference}"}
    shares = [f"{lost[name]} of {runs[name]}{of}" for name, of in both.items() if name in lost]
    often = f"{count(scores.seeds, 'seed')} do not show how often"
    return [f"{listed(shares)} collapsed; {often}"] if shares else []


def collapsed_note(number: int) -> tuple[list[str], list[str]]:
    """Return a note on a number of collapsed runs, and its form for papers; empty for none."""
    return ([f"{number} collapsed"], [f"{number}†"]) if number else ([], [])


def collapse_warnings(collapsed: pd.DataFrame, scores: Scores) -> Iterator[Statement]:
    """Yield a warning that names the collapsed runs.

    Args:
        collapsed: Result of `collapsed_runs`.
        scores: The scores.
    """
    if collapsed.empty:
        return
    lost, runs = Counter(collapsed["task"]), Counter(scores.table["task"])
    whole = [task for task in lost if lost[task] == runs[task]]
    others = collapsed[~collapsed["task"].isin(whole)].groupby(["method", "task"], sort=False)
    some = [(*place, sorted(seeds)) for place, seeds in others["seed"]]
    more = max(0, len(some) - _MOST_NAMED)
    yield state("collapsed_runs", tasks=whole, runs=some[:_MOST_NAMED], more=more)


def spread_warnings(
    comparisons: Mapping[str, PairwiseResult], control: str | None
) -> Iterator[Statement]:
    """Yield a warning if the SDs of two methods differ by more than 3:1 and the test ignores it.

    Args:
        comparisons: The test of each task, from `compare_methods`.
        control: The control, see `Scores.controls`.
    """
    found = {}
    for task, result in comparisons.items():
        if result.procedure.equal_spread and (spread := unequal_spread(result.samples)):
            found[task] = str(spread)
    if found:
        yield state(
            "unequal_spread",
            tasks=dict([*found.items()][:_MOST_NAMED]),
            more=max(0, len(found) - _MOST_NAMED),
            test=result.procedure.title,
            companion="welch" if result.control is None else "welch-control",
            control="" if control is None else shlex.quote(control),
        )


def complete_fault(scores: Scores) -> str:
    """Return why `--complete-methods` is not possible; empty if it is."""
    lacking = scores.lacking_tasks()
    if not lacking:
        return ""
    judged = [(family.control, family.reference) for family in scores.families]
    for name in (name for pair in judged or [(scores.control, scores.reference)] for name in pair):
        if name in lacking:
            return f"needs scores of {name} on all tasks. It has none on {listed(lacking[name])}"
    for methods in [family.methods for family in scores.families] or [scores.methods]:
        if sum(name not in lacking for name in methods) < 2:
            return (
                "needs at least two methods with scores on all tasks. Incomplete: "
                f"{listed([name for name in methods if name in lacking])}"
            )
    return ""


def incomplete_warnings(
    scores: Scores, parts: Iterable[Comparison], source: str
) -> list[Statement]:
    """Return a warning if some methods lack whole tasks, which the tests over tasks leave out.

    Args:
        scores: The scores.
        parts: The comparisons of its families.
        source: Argument of `relation-tf compare` for these scores.
    """
    lacking = scores.lacking_tasks()
    if not lacking:
        return []
    used = {}
    for part in parts:
        left_out = {task for own in part.scores.lacking_tasks().values() for task in own}
        if left_out:
            kept = [task for task in part.scores.main_tasks if task not in left_out]
            several = len({*map(part.scores.network, kept)}) > 1
            used[part.family] = kept if several else []
    complete = [name for name in scores.methods if name not in lacking]
    return [
        state(
            "incomplete_methods",
            lacking=lacking,
            used=used,
            source=source,
            complete=[] if complete_fault(scores) else complete,
        )
    ]
