"""Verdicts on methods against a reference: better, no worse, worse or inconclusive."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from relation_tf.bench.results import failed_in_words
from relation_tf.errors import join_names
from relation_tf.report.learned import not_learned
from relation_tf.report.reliability import mostly_lost
from relation_tf.report.scores import Scores
from relation_tf.report.text import Statement, state
from relation_tf.stats import non_inferiority
from relation_tf.words import count

FAVORABLE = ("better", "no worse")
NOT_VARYING = "scores do not vary over seeds"
"""Reason of a verdict whose interval is infinite."""
_VERDICTS = (*FAVORABLE, "inconclusive", "worse")
_SHOWN = (
    ("better", False),
    ("no worse", False),
    ("no worse", True),
    ("worse", False),
    ("inconclusive", False),
)
_MOST_NAMES = 4
_CONTRARY = {  # verdicts on a task that a sentence on the mean must not hide
    "better": ["worse"],
    "no worse": ["worse"],
    "inconclusive": ["better", "worse"],
    "worse": ["better"],
}

Samples = dict[str, list[float]]


@dataclass(frozen=True)
class Verdicts:
    """Verdicts on all methods with at least two seeds.

    A table has a row per method and the columns of `relation_tf.stats.non_inferiority`, in the unit
    of a page, and `reason`: why a verdict is withheld, or `NOT_VARYING`.

    Attributes:
        reference: The method that the others are judged against.
        tasks: Table of each task.
        mean: Table of the mean difference over tasks; None if there is none.
        averaged: Tasks of this mean; tasks scored from one network count once.
        doubts: Warnings about missing scores.
        notes: Remarks on constant scores.
        diagnostics: Diagnostic sets, which no mean and no count includes.
        not_learned: Tasks and test sets without verdicts, because the reference does not learn
            them.
    """

    reference: str
    tasks: Mapping[str, pd.DataFrame]
    mean: pd.DataFrame | None
    averaged: Sequence[str]
    doubts: Sequence[Statement]
    notes: Sequence[str]
    diagnostics: Sequence[str] = ()
    not_learned: Sequence[str] = ()

    @property
    def methods(self) -> list[str]:
        """The judged methods."""
        return [*dict.fromkeys(str(name) for own in self.tasks.values() for name in own.index)]

    def counts(self, method: str) -> dict[str, int]:
        """Return the number of tasks by verdict, without diagnostic sets."""
        counted = (table for task, table in self.tasks.items() if task not in self.diagnostics)
        tables = map(by_method, counted)
        found = Counter(str(own[method].verdict) for own in tables if method in own)
        return {verdict: found[verdict] for verdict in _VERDICTS if found[verdict]}

    def table(self) -> pd.DataFrame:
        """Return all verdicts with the columns `task`, `method` and `reference`."""
        tables: dict[str, pd.DataFrame] = {**self.tasks}
        if self.mean is not None and len(self.averaged) > 1:
            tables[f"mean of {count(len(self.averaged), 'task')}"] = self.mean
        joined = pd.concat(tables, names=["task", "method"]).reset_index()
        joined.insert(2, "reference", self.reference)
        return joined


def judge(scores: Scores, failed: Mapping[tuple[str, str], Mapping[str, bool]]) -> Verdicts | None:
    """Judge all methods against the reference; None without a reference.

    A mean over tasks needs tasks with one unit and direction, and uses the tasks that all judged
    methods have. A diagnostic task that the reference does not learn has no verdict and is not in
    the mean. Failed runs could only have lowered a mean: a method with failed runs is neither
    better nor no worse, and no method is worse than a reference with failed runs.

    Args:
        scores: The scores.
        failed: Failed runs by task and method, from `failed_by_task`.
    """
    reference = scores.judged_against
    if reference is None:
        return None
    tasks: dict[str, pd.DataFrame] = {}
    notes: dict[str, list[str]] = {}
    unlearned = not_learned(scores, reference)
    samples = {
        task: _enough(scores.samples(task), scores.factor(task))
        for task in scores.own_tasks
        if task not in unlearned
    }
    samples = {task: own for task, own in samples.items() if reference in own and len(own) > 1}
    judged = {name for own in samples.values() for name in own} - {reference}
    for task, own in samples.items():
        found = non_inferiority(
            {**own}, reference, scores.margin_of(task), scores.alpha,
            higher_is_better=task not in scores.lower_is_better, num_methods=1 + len(judged),
        )  # fmt: skip
        tasks[task] = _withheld(found.table, reference, [task], failed)
        for note in found.notes:
            notes.setdefault(note, []).append(task)
    averaged = scores.by_network if scores.alike and not scores.timed else {}
    networks = {name: _enough(own) for name, own in averaged.items() if name not in unlearned}
    common = {task: own for task, own in networks.items() if {reference, *judged} <= {*own}}
    mean = None
    if common and judged:
        margins: dict[Any, float] = {task: _margin(task, scores) for task in common}
        found = non_inferiority(
            {task: {**own} for task, own in common.items()}, reference, margins, scores.alpha,
            higher_is_better=scores.main_tasks[0] not in scores.lower_is_better,
            num_methods=1 + len(judged),
        )  # fmt: skip
        # Also on tasks that are not in the mean because all runs of a method failed there.
        own_tasks = [task for task in scores.main_tasks if task not in unlearned]
        unvarying = {task: tasks[task]["low"].map(math.isinf).to_dict()
                     for task in common if task in tasks}  # fmt: skip
        mean = _withheld(found.table, reference, own_tasks, failed, unvarying)
    doubts = [*_doubts(scores, reference, judged, networks, common)]
    said = [f"{note} ({join_names(own)})." for note, own in notes.items()]
    return Verdicts(reference, tasks, mean, [*common], doubts, said, scores.diagnostics, unlearned)


def by_method(table: pd.DataFrame) -> dict[str, Any]:
    """Return the rows of a table by method, with columns as attributes."""
    return {str(row[0]): row for row in table.itertuples()}


def is_lower_within_margin(row: Any) -> bool:
    """Return True if the whole interval of a method is below 0, but above minus the margin."""
    return bool(row.verdict == "no worse" and row.high < 0)


def headline(
    verdicts: Verdicts, scores: Scores, costs: pd.DataFrame, failed: pd.DataFrame
) -> Statement:
    """Return the statement with the verdicts, and the times of few methods.

    Times are left out unless all runs are known to have had the processor for themselves.

    Args:
        verdicts: The verdicts.
        scores: Their scores.
        costs: Result of `summarize_costs`.
        failed: Result of `failed_runs`.
    """
    reference = verdicts.reference
    counts = {name: own for name in verdicts.methods if (own := verdicts.counts(name))}
    if not verdicts.tasks or (verdicts.mean is None and not counts):
        lost = mostly_lost(scores, failed)
        unlearned = any(
            len(own) > 1 and reference in own
            for own in (_enough(scores.samples(task)) for task in verdicts.not_learned)
        )
        reason = "not learned" if unlearned else "failed" if lost else "too few seeds"
        reason = "diagnostic sets" if verdicts.tasks else reason
        return state("no_verdict", reference=reference, reason=reason, lost=lost)
    if verdicts.mean is None:
        return state(
            "verdicts_by_task",
            reference=reference,
            margin=scores.margin,
            unit=scores.unit,
            margins=dict(scores.margins),
            counts=dict([*counts.items()][:_MOST_NAMES]),
            more=max(0, len(counts) - _MOST_NAMES),
        )
    one_task = scores.main_tasks if len(scores.main_tasks) == 1 else verdicts.averaged
    return state(
        "verdicts",
        reference=reference,
        tasks=[*one_task],
        margin=float(verdicts.mean["margin"].iloc[0]),
        mean_margin=bool(scores.margins) and len(verdicts.averaged) > 1,
        unit=scores.unit,
        lower_is_better=scores.main_tasks[0] in scores.lower_is_better,
        methods=len(verdicts.methods),
        groups=_groups(verdicts, verdicts.mean),
        times=_times(verdicts.mean, reference, costs),
    )


def _groups(verdicts: Verdicts, mean: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the methods of each verdict, with the numbers of tasks to state next to it.

    These are the tasks with a contrary verdict; for the only judged method, all tasks.
    """
    rows, groups = by_method(mean), []
    for verdict, within_margin in _SHOWN:
        own = {
            name: row
            for name, row in rows.items()
            if (row.verdict, is_lower_within_margin(row)) == (verdict, within_margin)
        }
        if own:
            shown = {}
            for name in own:
                counts = verdicts.counts(name)
                if len(rows) > 1:
                    counts = {x: n for x, n in counts.items() if x in _CONTRARY[verdict]}
                elif sum(counts.values()) < 2:
                    counts = {}
                shown[name] = counts
            reason = next(iter(own.values())).reason if len(rows) == 1 else ""
            groups.append({"verdict": verdict, "within_margin": within_margin,
                           "methods": shown, "reason": reason})  # fmt: skip
    return groups


def _times(mean: pd.DataFrame, reference: str, costs: pd.DataFrame) -> dict[str, float]:
    """Return the times per epoch of few judged methods, relative to the reference."""
    names = [*by_method(mean)]
    known = {reference, *names} <= {*costs.index} and bool(costs["alone"].all())
    if not known or len(names) > _MOST_NAMES:
        return {}
    seconds = costs["seconds_epoch"]
    return {name: float(seconds[name] / seconds[reference]) for name in names}


def _enough(samples: Mapping[str, Sequence[float]], factor: float = 1) -> Samples:
    """Return the samples with two scores or more."""
    return {
        name: [factor * score for score in own] for name, own in samples.items() if len(own) > 1
    }


def _margin(network: str, scores: Scores) -> float:
    own = [scores.margin_of(task) for task in scores.main_tasks if scores.network(task) == network]
    return sum(own) / len(own)


def _withheld(
    table: pd.DataFrame,
    reference: str,
    tasks: Sequence[str],
    failed: Mapping[tuple[str, str], Mapping[str, bool]],
    unvarying: Mapping[str, Mapping[Any, bool]] | None = None,
) -> pd.DataFrame:
    """Return a table of verdicts without those that failed runs make doubtful, with reasons.

    `unvarying` has for a mean the methods whose scores do not vary, by task.
    """
    reasons = []
    for name, row in by_method(table).items():
        who = name if row.verdict in FAVORABLE else reference
        runs = {run: own for task in tasks for run, own in failed.get((task, who), {}).items()}
        lost = f"{failed_in_words(len(runs), sum(runs.values()))} run{'s' if len(runs) > 1 else ''}"
        said = f"{lost}{f' of {reference}' if who == reference else ''}"
        where = [task for task, of in (unvarying or {}).items() if of.get(name, False)]
        some = f"scores on {join_names(where)} do not vary over seeds"
        constant = some if 0 < len(where) < len(unvarying or {}) else NOT_VARYING
        constant = constant if math.isinf(row.low) else ""
        reasons.append(said if runs and row.verdict != "inconclusive" else constant)
    verdicts = [
        "inconclusive" if reason else verdict
        for verdict, reason in zip(table["verdict"], reasons, strict=True)
    ]
    beyond = table["beyond_margin"] & np.array([each != "inconclusive" for each in verdicts])
    return table.assign(verdict=verdicts, beyond_margin=beyond, reason=reasons)


def _doubts(
    scores: Scores,
    reference: str,
    judged: set[Any],
    networks: Mapping[str, Samples],
    common: Mapping[str, Samples],
) -> Iterator[Statement]:
    if not judged:
        return
    yield from _one_margin(scores)
    others = [name for name in scores.methods if name not in {reference, *judged}]
    if others:
        learns = bool(not_learned(scores, reference))
        yield state("no_verdict_on", methods=others, reference=reference, reference_learns=learns)
    left = [task for task in networks if task not in common]
    if left:
        lacking = [
            name
            for name in scores.methods
            if name in {reference, *judged} and any(name not in networks[task] for task in left)
        ]
        yield state("verdicts_leave_out", tasks=left, methods=lacking)


def _one_margin(scores: Scores) -> Iterator[Statement]:
    """Yield a warning if one margin holds for tasks with different units."""
    there = {*scores.table["task"]}  # a family may lack a task
    tasks = [task for task in scores.main_tasks if task not in scores.margins and task in there]
    kinds = {(scores.factor(task), task in scores.lower_is_better): task for task in tasks}
    if scores.margin and (len(kinds) > 1 or scores.unlike_units(tasks)):
        other = [*kinds.values()][-1]
        option = f"--margin {shlex.quote(f'{other}=SCORE')}"
        if other not in scores.of_tables:
            option = f"margin = SCORE under [overrides.{other}] in the suite"
        yield state("one_margin", margin=scores.margin, tasks=tasks, other=other, option=option)
