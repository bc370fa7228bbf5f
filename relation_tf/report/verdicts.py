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
from relation_tf.report.reliability import mostly_failed
from relation_tf.report.scores import Scores
from relation_tf.stats import non_inferiority
from relation_tf.words import count, listed

FAVORABLE = ("better", "no worse")
NOT_VARYING = "scores do not vary over seeds"
"""Reason of a verdict whose interval is infinite."""
_VERDICTS = (*FAVORABLE, "inconclusive", "worse")
_SHOWN = (("better", False), ("no worse", False), ("no worse", True), ("worse", False))
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
    doubts: Sequence[str]
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


def headline(verdicts: Verdicts, scores: Scores, costs: pd.DataFrame, failed: pd.DataFrame) -> str:
    """Return one sentence with the verdicts, and the times of few methods.

    Times are left out unless all runs are known to have had the processor for themselves.

    Args:
        verdicts: The verdicts.
        scores: Their scores.
        costs: Result of `summarize_costs`.
        failed: Result of `failed_runs`.
    """
    reference = verdicts.reference
    if not verdicts.tasks and any(
        len(own) > 1 and reference in own
        for own in (_enough(scores.samples(task)) for task in verdicts.not_learned)
    ):
        return f"No verdict: {reference} does not learn the tasks with at least two seeds."
    if not verdicts.tasks and (lost := mostly_failed(scores, failed)):
        return f"No verdict. {lost}"
    if not verdicts.tasks:
        return f"No verdict yet: no task has two seeds of {reference} and of another method."
    if verdicts.mean is None:
        counted = [name for name in verdicts.methods if verdicts.counts(name)]
        if not counted:
            return f"No verdict against {reference}, except on diagnostic sets."
        parts = [_counted(name, verdicts) for name in counted[:_MOST_NAMES]]
        more = len(counted) - _MOST_NAMES
        parts += [f"{count(more, 'more method')} in the table"] if more > 0 else []
        within = f"margin: {margin_in_words(scores.margin, scores)}" if scores.margin else ""
        margins = _notes(within, own_margins(scores, verdicts).removeprefix("; "))
        return f"Verdicts against {reference} by task{margins}: {'; '.join(parts)}."
    one_task = scores.main_tasks[0] if len(scores.main_tasks) == 1 else verdicts.averaged[0]
    number = len(verdicts.averaged)
    where = f"on the mean of {number} tasks" if number > 1 else f"on {one_task}"
    found = _found(verdicts, verdicts.mean, where, scores)
    return f"{found}{_times(verdicts.mean, reference, costs)}."


def margin_in_words(margin: float, scores: Scores) -> str:
    """Return a margin with its unit, such as "1 point"."""
    if not scores.unit:
        return f"{margin:g}"
    return f"{margin:g} point" if margin == 1 else f"{margin:g} {scores.unit}"


def own_margins(scores: Scores, verdicts: Verdicts) -> str:
    """Return the margins of single tasks, and that of the mean, for a sentence."""
    if not scores.margins:
        return ""
    own = ", ".join(f"{margin:g} on {task}" for task, margin in scores.margins.items())
    if verdicts.mean is not None and len(verdicts.averaged) > 1:
        own += f", {verdicts.mean['margin'].iloc[0]:.3g} for the mean"
    return f"; {own}"


def _found(verdicts: Verdicts, mean: pd.DataFrame, where: str, scores: Scores) -> str:
    rows, reference = by_method(mean), verdicts.reference
    margin = float(mean["margin"].iloc[0])
    within = f"margin: {margin_in_words(margin, scores)}" if margin else ""
    lower = "higher" if scores.main_tasks[0] in scores.lower_is_better else "lower"
    if len(rows) == 1:
        ((name, row),) = rows.items()
        by_task = _by_task(name, verdicts, scores)
        return _one(name, row, reference, where, within, by_task, lower)
    names: dict[tuple[str, bool], list[str]] = {}
    for name, row in rows.items():
        names.setdefault((row.verdict, is_lower_within_margin(row)), []).append(name)
    said = [
        f"{_all(own, verdict, verdicts)} {'is' if len(own) == 1 else 'are'} "
        f"{f'{lower}, but within the margin' if is_lower else verdict}"
        for verdict, is_lower in _SHOWN
        if (own := names.get((verdict, is_lower)))
    ]
    if own := names.get(("inconclusive", False)):
        said.append(f"the result for {_all(own, 'inconclusive', verdicts)} is inconclusive")
    return f"Compared with {reference} {where}{_notes(within)}: {'; '.join(said)}"


def _one(
    name: str, row: Any, reference: str, where: str, within: str, by_task: str, lower: str
) -> str:
    if row.verdict in ("better", "worse"):
        return f"{name} is {row.verdict} than {reference} {where}{_notes(by_task)}"
    if is_lower_within_margin(row):
        notes = _notes(within, by_task)
        return f"{name} is {lower} than {reference} {where}, but within the margin{notes}"
    if row.reason:
        shown = f"The result for {name} compared with {reference} {where} is inconclusive"
        return f"{shown}: {row.reason}{_notes(within, by_task)}"
    if row.verdict == "no worse" or row.margin:
        shown = "" if row.verdict == "no worse" else "Inconclusive: the data do not show that "
        return f"{shown}{name} is no worse than {reference} {where}{_notes(within, by_task)}"
    own = by_task and f"{name}: {by_task}"
    return f"Neither {name} nor {reference} is shown to be better {where}{_notes(own)}"


def _notes(*notes: str) -> str:
    """Return notes in parentheses, without empty ones."""
    said = "; ".join(filter(None, notes))
    return said and f" ({said})"


def _by_task(method: str, verdicts: Verdicts, scores: Scores) -> str:
    """Return the number of tasks by verdict; empty for a single task."""
    counts = verdicts.counts(method)
    total = sum(counts.values())
    if total < 2:
        return ""
    # One network can be scored on several sets, which count as one task in the mean.
    of = "" if total == len(verdicts.averaged) else f" of {total} {scores.noun}"
    return ", ".join(f"{verdict} on {number}" for verdict, number in counts.items()) + of


def _times(mean: pd.DataFrame, reference: str, costs: pd.DataFrame) -> str:
    """Return the times per epoch of all judged methods, relative to the reference."""
    names = [*by_method(mean)]
    known = {reference, *names} <= {*costs.index} and bool(costs["alone"].all())
    if not known or len(names) > _MOST_NAMES:
        return ""
    ratios = costs["seconds_epoch"] / costs["seconds_epoch"][reference]
    first, *others = names
    takes = f"{'it' if len(names) == 1 else first} takes {ratios[first]:.2f}"
    each = listed([takes, *(f"{name} {ratios[name]:.2f}" for name in others)])
    return f"; {each} times as long per epoch as {reference}"


def _counted(method: str, verdicts: Verdicts) -> str:
    counts = verdicts.counts(method).items()
    return f"{method} {', '.join(f'{verdict} on {number}' for verdict, number in counts)}"


def _all(names: Sequence[str], verdict: str, verdicts: Verdicts) -> str:
    """Return the names of methods, or their number if they are many, and contrary verdicts."""
    if len(names) <= _MOST_NAMES:
        return listed([name + _contrary(name, verdict, verdicts) for name in names])
    contrary = sum(bool(_contrary(name, verdict, verdicts)) for name in names)
    what = f"{contrary} of them {' or '.join(_CONTRARY[verdict])} on at least one task"
    return f"{len(names)} of {len(verdicts.methods)} methods{_notes(what if contrary else '')}"


def _contrary(method: str, verdict: str, verdicts: Verdicts) -> str:
    """Return the number of tasks with a verdict against that on the mean, in parentheses."""
    counts = verdicts.counts(method)
    return _notes(
        ", ".join(
            f"{own} on {count(counts[own], 'task')}" for own in _CONTRARY[verdict] if own in counts
        )
    )


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
) -> Iterator[str]:
    if judged:
        yield from _one_margin(scores)
    others = [name for name in scores.methods if name not in {reference, *judged}]
    if others and judged:
        other = others[0] if len(others) == 1 else "any of them"
        learns = f" that {reference} learns" if not_learned(scores, reference) else ""
        yield (
            f"No verdict on {listed(others)}: no task{learns} has two seeds of {reference} and "
            f"two of {other}."
        )
    left = [task for task in networks if task not in common]
    if left and judged:
        lacking = [
            name
            for name in scores.methods
            if name in {reference, *judged} and any(name not in networks[task] for task in left)
        ]
        yield (
            f"Verdicts over tasks leave out {listed(left)}, where {listed(lacking)} "
            f"{'has' if len(lacking) == 1 else 'have'} fewer than two seeds."
        )


def _one_margin(scores: Scores) -> Iterator[str]:
    """Yield a warning if one margin holds for tasks with different units."""
    there = {*scores.table["task"]}  # a family may lack a task
    tasks = [task for task in scores.main_tasks if task not in scores.margins and task in there]
    kinds = {(scores.factor(task), task in scores.lower_is_better): task for task in tasks}
    if scores.margin and (len(kinds) > 1 or scores.unlike_units(tasks)):
        other = [*kinds.values()][-1]
        where = listed(tasks) if len(tasks) <= _MOST_NAMES else f"{len(tasks)} tasks"
        option = f"--margin {shlex.quote(f'{other}=SCORE')}"
        if other not in scores.of_tables:
            option = f"margin = SCORE under [overrides.{other}] in the suite"
        yield (
            f"The margin {scores.margin:g} applies to tasks with different units ({where}). Set "
            f"one for each task with another unit, such as {option}."
        )
