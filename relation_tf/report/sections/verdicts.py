"""Verdicts on methods against a reference: better, no worse, worse or inconclusive."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from relation_tf.registry import PROCEDURES
from relation_tf.report.blocks import (
    Block,
    Cell,
    Column,
    Paper,
    Row,
    Table,
    blocks,
    by_method,
    rows_of,
)
from relation_tf.report.diagnostics import not_learned
from relation_tf.report.drawing import Picture
from relation_tf.report.lost_runs import (
    collapsed_note,
    lost_networks,
    mostly_lost,
    ranks_failed,
    tasks_at_chance,
)
from relation_tf.report.scores import Scores, most_seeds
from relation_tf.report.sections.tests import differences
from relation_tf.report.text import Statement, render, state
from relation_tf.stats import default_procedure, non_inferiority
from relation_tf.stats.non_inferiority import COLUMNS, judge_interval
from relation_tf.words import count, failed_in_words, listed, number, signed

if TYPE_CHECKING:
    from relation_tf.report.data import Comparison

FAVORABLE = ("better", "no worse")
NOT_VARYING = "the scores of a task do not vary"
"""Reason of a verdict whose interval is infinite."""
POSITIVE = "positive if the second is better"
"""The sign of a difference in figures next to a headline."""
_VERDICTS = (*FAVORABLE, "inconclusive", "worse")
_MOST_NAMES = 4
_CONTRARY = {  # verdicts on a task that a sentence on the mean must not hide
    "better": ["worse"],
    "no worse": ["worse"],
    "inconclusive": ["better", "worse"],
    "worse": ["better"],
}

Samples = dict[str, list[float]]
Failed = Mapping[tuple[str, str], Mapping[str, bool]]


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
        warnings: Warnings about missing scores.
        diagnostics: Diagnostic sets, which no mean and no count includes.
        not_learned: Tasks and test sets without verdicts, because the reference does not learn
            them.
    """

    reference: str
    tasks: Mapping[str, pd.DataFrame]
    mean: pd.DataFrame | None
    averaged: Sequence[str]
    warnings: Sequence[Statement]
    diagnostics: Sequence[str] = ()
    not_learned: Sequence[str] = ()

    @property
    def methods(self) -> list[str]:
        """The judged methods."""
        return [*dict.fromkeys(str(name) for table in self.tasks.values() for name in table.index)]

    def counts(self, method: str) -> dict[str, int]:
        """Return the number of tasks by verdict, without diagnostic sets."""
        tables = (table for task, table in self.tasks.items() if task not in self.diagnostics)
        numbers = Counter(str(x["verdict"][method]) for x in tables if method in x.index)
        return {verdict: numbers[verdict] for verdict in _VERDICTS if numbers[verdict]}

    def table(self) -> pd.DataFrame:
        """Return all verdicts with the columns `task`, `method` and `reference`."""
        tables: dict[str, pd.DataFrame] = {**self.tasks}
        if self.mean is not None and len(self.averaged) > 1:
            tables[f"mean of {count(len(self.averaged), 'task')}"] = self.mean
        joined = pd.concat(tables, names=["task", "method"]).reset_index()
        joined.insert(2, "reference", self.reference)
        return joined


def judge(scores: Scores, failed: Failed) -> Verdicts | None:
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
    # The test against the control is the result.
    if scores.reference is None and (scores.paired or most_seeds(scores.table) < 2):
        return None
    tasks: dict[str, pd.DataFrame] = {}
    unlearned = not_learned(scores, reference)
    by_task: dict[str, Samples] = {}
    for task in scores.single_tasks:
        samples = _enough(scores.tested(task), 1 if scores.paired else scores.factor(task))
        if task not in unlearned and reference in samples and len(samples) > 1:
            by_task[task] = samples
    judged = {name for samples in by_task.values() for name in samples} - {reference}
    for task, samples in by_task.items():
        if scores.paired:
            table = _judge_pairs(scores, task, samples, reference, len(judged))
        else:
            table = non_inferiority(
                {**samples}, reference, scores.margin_of(task), scores.alpha,
                higher_is_better=task not in scores.lower_is_better, num_methods=1 + len(judged),
            ).table  # fmt: skip
        tasks[task] = _withheld(table, reference, [task], failed)
    has_mean = scores.comparable and not (scores.timed or scores.paired)
    averaged = scores.by_network if has_mean else {}
    networks = {name: _enough(means) for name, means in averaged.items() if name not in unlearned}
    common = {name: means for name, means in networks.items() if {reference, *judged} <= {*means}}
    mean = None
    if common and judged:
        margins: dict[Any, float] = {
            name: fmean(map(scores.margin_of, scores.shared.get(name, [name]))) for name in common
        }
        result = non_inferiority(
            {name: {**means} for name, means in common.items()}, reference, margins, scores.alpha,
            higher_is_better=scores.main_tasks[0] not in scores.lower_is_better,
            num_methods=1 + len(judged),
        )  # fmt: skip
        # Also on tasks that are not in the mean because all runs of a method failed there.
        single_tasks = [task for task in scores.main_tasks if task not in unlearned]
        mean = _withheld(result.table, reference, single_tasks, failed)
    if scores.paired and [*tasks] == scores.main_tasks[:1] == scores.main_tasks:
        mean, common = tasks[scores.main_tasks[0]], by_task
    warnings = [*_warnings(scores, reference, judged, networks, common)] if judged else []
    return Verdicts(reference, tasks, mean, [*common], warnings, scores.diagnostics, unlearned)


def _judge_pairs(
    scores: Scores, task: str, samples: Samples, reference: str, methods: int
) -> pd.DataFrame:
    """Judge by the intervals of the default test of folds or items; p of the margin is unknown."""
    test = PROCEDURES[default_procedure(reference, replicate=scores.replicate)].function
    higher, margin = task not in scores.lower_is_better, scores.margin_of(task)
    share = {"test_share": scores.test_share} if scores.replicate == "fold" else {}
    result = test(samples, control=reference, higher_is_better=higher, **share)
    # Intervals have the same level on all tasks.
    intervals = result.confidence_interval(1 - scores.alpha * (len(samples) - 1) / methods)
    table = intervals.set_index("b")[COLUMNS[:3]].rename_axis(None) * scores.factor(task)
    if not higher:
        table = -table.rename(columns={"low": "high", "high": "low"})
    verdicts = [judge_interval(x, y, margin) for x, y in table[["low", "high"]].to_numpy()]
    table = table.assign(margin=margin, pvalue=math.nan, verdict=verdicts)
    return table.assign(beyond_margin=table["high"] < -margin)[COLUMNS]


def _enough(samples: Mapping[str, Sequence[float]], factor: float = 1) -> Samples:
    """Return the samples with two scores or more."""
    enough = {name: xs for name, xs in samples.items() if np.isfinite(xs).sum() > 1}
    return {name: [factor * x for x in xs] for name, xs in enough.items()}


def _withheld(
    table: pd.DataFrame, reference: str, tasks: Sequence[str], failed: Failed
) -> pd.DataFrame:
    """Return a table of verdicts without those that failed runs make doubtful, with reasons."""
    reasons = []
    for name, row in by_method(table).items():
        method = name if row.verdict in FAVORABLE else reference
        runs: dict[str, bool] = {}
        for task in tasks:
            runs |= failed.get((task, method), {})
        reason = ""
        if runs and row.verdict != "inconclusive":
            lost = failed_in_words(len(runs), sum(runs.values()))
            reason = f"{lost} run{'s' if len(runs) > 1 else ''}"
            reason += f" of {reference}" if method == reference else ""
        elif math.isinf(row.low):
            reason = NOT_VARYING
        reasons.append(reason)
    verdicts = table["verdict"].where(np.array(reasons) == "", "inconclusive")
    beyond = table["beyond_margin"] & (verdicts != "inconclusive")
    return table.assign(verdict=verdicts, beyond_margin=beyond, reason=reasons)


def is_lower_within_margin(row: Any) -> bool:
    """Return True if the whole interval of a method is below 0, but above minus the margin."""
    return bool(row.verdict == "no worse" and row.high < 0)


def _warnings(
    scores: Scores,
    reference: str,
    judged: set[Any],
    networks: Mapping[str, Samples],
    common: Mapping[str, Samples],
) -> Iterator[Statement]:
    """Yield warnings about margins, and about methods and tasks without verdicts."""
    known = {*scores.table["task"]}  # a family may lack a task
    tasks = [task for task in scores.main_tasks if task not in scores.margins and task in known]
    kinds = {(scores.factor(task), task in scores.lower_is_better): task for task in tasks}
    if scores.margin and (len(kinds) > 1 or scores.unlike_units(tasks)):
        yield state("one_margin", margin=scores.margin, tasks=tasks)
    others = [name for name in scores.methods if name not in {reference, *judged}]
    if others:
        learns = bool(not_learned(scores, reference))
        yield state("no_verdict_on", methods=others, reference=reference, reference_learns=learns)
    left_out = [task for task in networks if task not in common]
    if left_out:
        lacking = [
            name
            for name in scores.methods
            if name in {reference, *judged} and any(name not in networks[task] for task in left_out)
        ]
        yield state("verdicts_leave_out", tasks=left_out, methods=lacking)


# ---- The headline ----


def headline(part: Comparison, verdicts: Verdicts) -> Statement:
    """Return the statement with the verdicts, and the times of few methods."""
    scores, reference = part.scores, verdicts.reference
    counts = {name: verdicts.counts(name) for name in verdicts.methods}
    counts = {name: numbers for name, numbers in counts.items() if numbers}
    if not verdicts.tasks or (verdicts.mean is None and not counts):
        lost = mostly_lost(scores, part.failed)
        by_task = [_enough(scores.samples(task)) for task in verdicts.not_learned]
        unlearned = any(len(samples) > 1 and reference in samples for samples in by_task)
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
    )


def _groups(verdicts: Verdicts, mean: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the methods of each verdict, with the numbers of tasks to state next to it.

    These are the tasks with a contrary verdict; for the only judged method, all tasks.
    """
    rows, groups = by_method(mean), []
    kinds = [(x, False) for x in ("better", "no worse", "worse", "inconclusive")]
    for verdict, within_margin in [*kinds[:2], ("no worse", True), *kinds[2:]]:
        shown = {}
        for name, row in rows.items():
            if (row.verdict, is_lower_within_margin(row)) == (verdict, within_margin):
                counts = verdicts.counts(name)
                if len(rows) > 1:
                    counts = {x: n for x, n in counts.items() if x in _CONTRARY[verdict]}
                shown[name] = counts if len(rows) > 1 or sum(counts.values()) > 1 else {}
        if shown:
            reason = rows[next(iter(shown))].reason if len(rows) == 1 else ""
            groups.append({"verdict": verdict, "within_margin": within_margin,
                           "methods": shown, "reason": reason})  # fmt: skip
    return groups


# ---- What limits the headline ----


def only_tested(part: Comparison) -> bool:
    """Return True if methods have one score on each task: a test, but no verdicts."""
    return part.outcome is not None and most_seeds(part.scores.table) < 2


def caveats(part: Comparison) -> Iterator[Statement]:
    """Yield statements that limit the headline; some of them only with verdicts.

    - `no_verdict`: no reason for a verdict, where the headline is that of the test.
    - `ranks_depend_on_units`: signed ranks of differences in different units.
    - `test_disagrees`: verdicts on the mean that the test of pairs does not give. The verdict "no
      worse", which allows for a margin that the test does not know, is left out.
    - `test_leaves_out_failed`: methods with failed runs that the test leaves out.
    - `collapsed_networks`: collapsed runs of the judged methods and of the reference.
    - `reference_at_chance`: tasks on which the reference is not above a constant prediction.
    - `still_improving`: tasks on which most runs of a method were still improving at the limit.
    - `mostly_failed`: methods of which at least half of the runs failed.
    """
    verdicts, test, failed = part.verdicts, part.outcome, part.failed
    if verdicts is not None:
        if only_tested(part):
            yield headline(part, verdicts)
        yield from _disagreement(part, verdicts)
    if part.over_tasks is not None and part.over_tasks.depends_on_units:
        yield state("ranks_depend_on_units", pairs=part.scores.control is None)
    if test is not None:
        left_out = failed[~failed["ranked"]] if ranks_failed(test.procedure) else failed
        runs = left_out.drop_duplicates(["method", "run"])["method"].value_counts(sort=False)
        if len(runs):
            yield state("test_leaves_out_failed", failed={str(x): int(runs[x]) for x in runs.index})
    if verdicts is not None:
        yield from without_learning(part, verdicts)
    yield from _still_improving(part.runs)
    lost = mostly_lost(part.scores, part.failed)
    if lost:
        yield state("mostly_failed", methods=lost)


def without_learning(part: Comparison, verdicts: Verdicts) -> Iterator[Statement]:
    """Yield `collapsed_networks` and `reference_at_chance`, see `caveats`."""
    collapsed = lost_networks(part.scores, part.collapsed)
    judged = (verdicts.reference, *verdicts.methods)
    methods = {name: collapsed[name] for name in judged if name in collapsed}
    if methods:
        yield state("collapsed_networks", methods=methods)
    at_chance = {*tasks_at_chance(part.report.predictions.sets, verdicts.reference)}
    tasks = [task for task in part.scores.main_tasks if task in at_chance]
    if tasks:
        yield state("reference_at_chance", reference=verdicts.reference, tasks=tasks)


def _disagreement(part: Comparison, verdicts: Verdicts) -> Iterator[Statement]:
    test, reference = part.outcome, verdicts.reference
    if verdicts.mean is None or test is None:
        return
    pairs = {
        row.a if row.b == reference else row.b: row
        for row in rows_of(test.pairs)
        if reference in (row.a, row.b)
    }
    different: dict[str, dict[str, float]] = {}
    for name, row in by_method(verdicts.mean).items():
        if name in pairs and row.verdict != "no worse":
            verdict = {name: "better", reference: "worse"}.get(pairs[name].better, "inconclusive")
            if verdict != row.verdict:
                different.setdefault(verdict, {})[name] = float(pairs[name].pvalue)
    if different:
        undecided = test.pairs["better"].isna().all()
        yield state(
            "test_disagrees",
            reference=reference,
            tasks=verdicts.averaged,
            how=test.how,
            found=different,
            lacking=test.lacking if undecided else "",
            declared=part.scores.reference_declared,
        )


def _still_improving(runs: pd.DataFrame) -> Iterator[Statement]:
    if "still_improving" not in runs:  # no runs, or from earlier versions
        return
    done = runs[runs["status"] == "done"]
    # NaN in runs of earlier versions, which did not record it.
    shares = done["still_improving"].eq(True).groupby([done["method"], done["task"]], sort=False)
    most: dict[str, list[str]] = {}
    for method, task in shares.mean().loc[lambda share: share > 0.5].index:
        most.setdefault(str(method), []).append(str(task))
    if most:
        yield state("still_improving", methods=most)


# ---- Tables and figure ----


def definitions(part: Comparison, verdicts: Verdicts) -> dict[str, Any]:
    """Return the numbers of the definitions of the verdicts: margin, level and correction."""
    scores, mean = part.scores, verdicts.mean
    tasks, methods = len(verdicts.averaged), len(verdicts.methods)
    return {
        "reference": verdicts.reference,
        "tasks": tasks,
        "methods": methods,
        "level": 100 * (1 - scores.alpha),
        "each_level": 100 * (1 - scores.alpha / max(1, methods)),
        "some_lower": any(task in scores.lower_is_better for task in verdicts.tasks),
        "all_lower": all(task in scores.lower_is_better for task in verdicts.tasks),
        "mean_margin": float(mean["margin"].iloc[0]) if mean is not None and tasks > 1 else None,
    }


def verdict_figure(part: Comparison, verdicts: Verdicts) -> Picture | None:
    """Return the mean differences from the reference as a figure; None without a mean."""
    mean, tasks = verdicts.mean, len(verdicts.averaged)
    if mean is None:
        return None
    title = f"Mean of {count(tasks, 'task')}" if tasks > 1 else verdicts.averaged[0]
    return differences(
        {title: mean.rename_axis("b").reset_index().assign(a=verdicts.reference)},
        part.report.styles,
        name="answer",
        unit=part.scores.unit,
        ends=("worse", "better"),
        positive=POSITIVE,
        margins={title: float(mean["margin"].iloc[0])},
        digits={title: part.scores.digits(part.scores.main_tasks[0])},
    )


def verdict_table(part: Comparison) -> Table | None:
    """Return the table of verdicts and costs; None without a verdict."""
    scores, verdicts = part.scores, part.verdicts
    if verdicts is None or not verdicts.tasks:
        return None
    reference, mean = verdicts.reference, verdicts.mean
    columns = [Column("Method", "method"), Column("Verdict")]
    if mean is not None:
        note = unit_of_means(part, len(verdicts.averaged))
        columns.append(Column("Difference", "number", note=note))
    costs = cost_columns(part, reference)
    judged = {} if mean is None else by_method(mean)
    rows = []
    for name in [reference, *verdicts.methods]:
        notes = collapsed_note(part.report.collapsed_networks.get(name, 0))
        cells = [Cell("reference", notes=notes), Cell()]
        if name in judged:
            difference = _difference_cell(judged[name], part, scores.main_tasks[0])
            cells = [
                _verdict_cell(judged[name]),
                replace(difference, notes=[*difference.notes, *notes]),
            ]
        elif name != reference:
            counts = [f"{verdict} on {times}" for verdict, times in verdicts.counts(name).items()]
            cells[0] = replace(cells[0], text=listed(counts))
        shown = cells if mean is not None else cells[:1]
        rows.append(Row([name, *shown, *(show(name) for show in costs.values())]))
    everything = part.report.scores
    for name in part.report.lower_bounds:
        samples = [everything.by_network[network] for network in verdicts.averaged]
        difference = _of_lower_bound(part, name, scores.main_tasks[0], samples)
        shown = [Cell("lower bound", notes=["not compared"]), difference]
        rows.append(Row([name, *(shown if mean is not None else shown[:1]), *[""] * len(costs)]))
    caption = render(
        "verdict-caption.jinja", scores=scores, differences=mean is not None, costs=bool(costs),
        generated=part.report.generated_data,
        by_task=mean is None, **definitions(part, verdicts),
    )  # fmt: skip
    paper = Paper("verdicts", caption)
    return Table("Table: verdicts and costs", [*columns, *costs], rows, "verdicts", paper)


def unit_of_means(part: Comparison, tasks: int) -> str:
    """Return the unit of means over a number of tasks, and this number."""
    mean = f"mean of {tasks} tasks" if tasks > 1 else ""
    return ", ".join(filter(None, [part.scores.unit, mean]))


def _verdict_cell(row: Any) -> Cell:
    """Return a verdict with its reason."""
    reason = str(row.reason)
    if row.verdict == "worse" and row.margin and row.beyond_margin:
        reason = "beyond the margin"
    if is_lower_within_margin(row):
        reason = "below 0, within the margin"
    notes = [reason] if reason else []
    return Cell(str(row.verdict), significant=row.verdict in FAVORABLE, notes=notes)


def _difference_cell(row: Any, part: Comparison, task: str) -> Cell:
    digits = part.scores.digits(task) + 1
    ends = f"{number(row.low, digits)} to {number(row.high, digits)}"
    return Cell(signed(row.difference, digits), notes=[ends])


def _of_lower_bound(
    part: Comparison, name: str, task: str, samples: Sequence[Mapping[str, Sequence[float]]]
) -> Cell:
    """Return the mean difference of a lower bound from the reference; empty without scores.

    Args:
        part: The comparison.
        name: The lower bound.
        task: A task with the unit and the direction of the scores.
        samples: Scores of each method, for each task of the mean.
    """
    scores, reference = part.scores, str(part.scores.judged_against)
    if not samples or any({name, reference} - {*methods} for methods in samples):
        return Cell()
    difference = fmean(fmean(x[name]) - fmean(x[reference]) for x in samples)
    sign = -1 if task in scores.lower_is_better else 1
    return Cell(signed(sign * difference, scores.digits(task) + 1))


def verdicts_by_task(part: Comparison) -> list[Block]:
    """Return the folded table of the verdicts by task; nothing for fewer than two."""
    verdicts, scores = part.verdicts, part.scores
    if verdicts is None or len(verdicts.tasks) < 2:
        return []
    bounds = part.report.lower_bounds
    columns = [Column("Task", "head"), *(Column(name, "number") for name in verdicts.methods)]
    columns += [Column(name, "number", note="lower bound, difference") for name in bounds]
    rows = []
    for task, table in verdicts.tasks.items():
        cells: dict[str, Cell] = {}
        for name, row in by_method(table).items():
            difference = _difference_cell(row, part, task)
            cell = _verdict_cell(row)
            notes = [", ".join([difference.text, *difference.notes]), *cell.notes]
            cells[name] = replace(cell, notes=notes)
        samples = _enough(part.report.scores.tested(task), scores.factor(task))
        cells |= {name: _of_lower_bound(part, name, task, [samples]) for name in bounds}
        rows.append(Row([scores.with_arrow(task), *map(cells.get, [*verdicts.methods, *bounds])]))
    caption = render(
        "verdict-caption.jinja", scores=scores, differences=False, costs=False, generated="",
        by_task=True, **definitions(part, verdicts),
    )  # fmt: skip
    # With a mean over tasks, a paper shows the verdicts on the mean.
    paper = Paper("verdicts-by-task", caption) if verdicts.mean is None else None
    shown = Table("Table: verdicts by task", columns, rows, "verdicts", paper)
    return blocks("verdicts-by-task.jinja", family=part.family, table=shown, scores=scores)


def cost_columns(
    part: Comparison, reference: str | None = None
) -> dict[Column, Callable[[str], str]]:
    """Return the columns of costs, as ratios to a reference if it is known."""
    costs = part.costs
    if costs.empty or (reference is not None and reference not in costs.index):
        return {}
    unit = "pass" if part.scores.timed else "epoch"

    def show(column: str, digits: int, reference: str | None = None) -> Callable[[str], str]:
        values = {str(name): float(cost) for name, cost in costs[column].items()}
        base = 1.0 if reference is None else values[reference]
        return lambda name: number(values[name] / base, digits) if name in values else ""

    if reference is None:
        time = Column(f"s per {unit}", "number")
        memory = Column("Peak memory, MiB", "number")
    else:
        time = Column("Time", "number", note=f"per {unit}, {reference} = 1")
        memory = Column("Memory", "number", note=f"peak, {reference} = 1")
    columns = {
        time: show("seconds_epoch", 2, reference),
        memory: show("memory_mib", 0 if reference is None else 2, reference),
        Column("Parameters", "number", note="without embedding"): show("without_embedding", 0),
    }
    if part.scores.timed:  # later runs of a process reuse the memory of earlier ones
        del columns[memory]
    if not costs["alone"].all():
        del columns[time]
    return columns
