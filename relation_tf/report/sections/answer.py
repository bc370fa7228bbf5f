"""Section with the answer: verdicts against the reference, or means and costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from relation_tf.registry import register_section
from relation_tf.report.answer import progress, tested_among
from relation_tf.report.blocks import Block, Cell, Column, Paper, Row, Section, Table, blocks
from relation_tf.report.comparison import Comparison
from relation_tf.report.data import ReportData, named
from relation_tf.report.families import of_family
from relation_tf.report.pictures.drawing import Picture
from relation_tf.report.pictures.significance import differences
from relation_tf.report.reliability import collapsed_note, rarely_seen
from relation_tf.report.runs import scored_sets
from relation_tf.report.text import render
from relation_tf.report.verdicts import (
    FAVORABLE,
    NOT_VARYING,
    Verdicts,
    by_method,
    is_lower_within_margin,
)
from relation_tf.stats import StratifiedResult
from relation_tf.stats.comparisons import Estimand
from relation_tf.words import count, listed, number, signed

_POSITIVE = "positive if the second is better"  # the sign of a difference in both figures


@register_section("answer")
class Answer(Section):
    """Verdicts on all methods, or their means, with costs, and their differences as a figure."""

    heading = "Short answer"
    notebook = True

    def blocks(self, data: ReportData) -> Sequence[Block]:
        """Return the headlines, tables and figures, and the folded verdicts by task."""
        incomplete = [] if data.results is None else [*progress(data.suite_runs)]
        for family, part in data.comparisons.items():
            if data.results is not None:
                incomplete += [named(family, each) for each in tested_among(part)]
        parts = data.comparisons.values()
        return blocks(
            "answer.jinja",
            data=data,
            incomplete=incomplete,
            answers=data.by_family(_answer),
            tables=any(len(part.standings) > 1 or verdict_table(part) for part in parts),
            tested=not data.scores.timed and any(part.tests or part.over_tasks for part in parts),
            generalizes=any(part.over_tasks and part.over_tasks.generalizes for part in parts),
            rows=any("variance" in part.rows for part in parts),
            scored=([], []) if data.results is None else scored_sets(data.results),
            by_task=[
                block
                for family, part in data.comparisons.items()
                for block in of_family(_verdicts_by_task(part), family)
            ],
        )

    def tables(self, data: ReportData) -> Mapping[str, pd.DataFrame]:
        """Return the verdicts of all tasks."""
        return data.joined(_verdicts)


def _verdicts(part: Comparison) -> dict[str, pd.DataFrame]:
    verdicts = part.verdicts
    return {"verdicts": verdicts.table()} if verdicts is not None and verdicts.tasks else {}


def _answer(part: Comparison) -> list[Block]:
    """Return headline, caveats, table and figure of a comparison."""
    table, verdicts = verdict_table(part), part.verdicts
    return blocks(
        "verdicts.jinja" if table is not None else "standings.jinja",
        part=part,
        scores=part.scores,
        verdicts=verdicts,
        table=table or _standing_table(part),
        additional=_additional(part),
        **(
            _how_verdicts_are_read(part, verdicts)
            if verdicts is not None and table is not None
            else {"figure": _best_figure(part)}
        ),
    )


def _how_verdicts_are_read(part: Comparison, verdicts: Verdicts) -> dict[str, Any]:
    """Return the values of the definitions of the verdicts, and their figure."""
    tables = [*verdicts.tasks.values(), *([] if verdicts.mean is None else [verdicts.mean])]
    reasons = {reason for table in tables for reason in table["reason"]}
    return {
        "figure": _verdict_figure(part, verdicts),
        "failed": not reasons <= {"", NOT_VARYING},
        **definitions(part, verdicts),
    }


def definitions(part: Comparison, verdicts: Verdicts) -> dict[str, Any]:
    """Return the numbers of the definitions of the verdicts: margin, level and correction."""
    scores, mean = part.scores, verdicts.mean
    tasks, methods = len(verdicts.averaged), len(verdicts.methods)
    return {
        "reference": verdicts.reference,
        "tasks": tasks,
        "methods": methods,
        "level": f"{100 * (1 - scores.alpha):g}",
        "each_level": f"{100 * (1 - scores.alpha / max(1, methods)):.1f}",
        "some_lower": any(task in scores.lower_is_better for task in verdicts.tasks),
        "all_lower": all(task in scores.lower_is_better for task in verdicts.tasks),
        "mean_margin": float(mean["margin"].iloc[0]) if mean is not None and tasks > 1 else None,
    }


def _verdict_figure(part: Comparison, verdicts: Verdicts) -> Picture | None:
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
        positive=_POSITIVE,
        margins={title: float(mean["margin"].iloc[0])},
        digits={title: part.scores.digits(part.scores.main_tasks[0])},
    )


def _best_figure(part: Comparison) -> dict[str, Any] | None:
    """Return the differences from the best method or the control; None without intervals.

    The intervals of all pairs hold at once, so the best method can be chosen after the runs.
    """
    scores, means = part.scores, part.standings["mean"].dropna()
    lower = scores.main_tasks and scores.main_tasks[0] in scores.lower_is_better
    best = scores.control
    if best is None and len(means):
        best = str(means.idxmin() if lower else means.idxmax())
    title, pairs, (estimand, assumption) = _compared(part)
    if pairs.empty or best is None:
        return None
    first, second = pairs[pairs["a"] == best], pairs[pairs["b"] == best]
    turned = second.assign(
        a=second["b"], b=second["a"],
        difference=-second["difference"], low=-second["high"], high=-second["low"],
    )  # fmt: skip
    table = pd.concat([first, turned])
    finite = np.isfinite(table[["low", "high"]].to_numpy(dtype=float))
    if not finite.any():
        return None
    picture = differences(
        {title: table}, part.report.styles, name="answer", unit=scores.unit,
        ends=("worse", "better"), positive=_POSITIVE,
        digits={title: scores.digits(scores.main_tasks[0])},
    )  # fmt: skip
    if picture is None or not picture.panels:
        return None
    return {"picture": picture, "best": best, "estimand": estimand, "assumption": assumption,
            "finite": bool(finite.all())}  # fmt: skip


def _compared(part: Comparison) -> tuple[str, pd.DataFrame, Estimand]:
    """Return a title, the differences of all pairs over the tasks or on the only task, their kind.

    The columns are those of `differences`, positive where b is better.
    """
    several, scores = part.over_tasks, part.scores
    if several is not None and isinstance(several.result, StratifiedResult) and scores.alike:
        title = f"All {count(len(several.tasks), 'task')}"
        return title, several.result.confidence_interval(), several.result.estimand
    names = {"difference_low": "low", "difference_high": "high"}
    only = scores.main_tasks if len(scores.main_tasks) == 1 else []
    title = next(iter([*scores.averages, *only]), "")
    pairs = part.pvalues[part.pvalues["task"] == title].rename(columns=names)
    if title in scores.lower_is_better:
        low = pairs["low"]
        pairs = pairs.assign(difference=-pairs["difference"], low=-pairs["high"], high=-low)
    test = part.tests.get(title)
    known = None if test is None else test.estimand
    return title, pairs, known or Estimand("", "")


def verdict_table(part: Comparison) -> Table | None:
    """Return the table of verdicts and costs; None without a verdict."""
    scores, verdicts = part.scores, part.verdicts
    if verdicts is None or not verdicts.tasks:
        return None
    reference, mean = verdicts.reference, verdicts.mean
    columns = [Column("Method", "method"), Column("Verdict")]
    if mean is not None:
        columns.append(Column("Difference", "number", note=_unit(part, len(verdicts.averaged))))
    costs = _cost_columns(part, reference)
    judged = {} if mean is None else by_method(mean)
    rows = []
    for name in [reference, *verdicts.methods]:
        notes, daggers = collapsed_note(part.report.collapsed_networks.get(name, 0))
        cells = [Cell("reference", notes=notes, paper_note="".join(daggers)), Cell()]
        if name in judged:
            difference = _difference(judged[name], part, scores.main_tasks[0])
            paper_note = "; ".join([difference.paper_note, *daggers])
            unsure = rarely_seen(part.collapsed, scores, name, reference)
            cells = [_verdict(judged[name], unsure), replace(difference, paper_note=paper_note)]
        elif name != reference:
            counts = [f"{verdict} on {times}" for verdict, times in verdicts.counts(name).items()]
            cells[0] = replace(cells[0], text=listed(counts))
        own = cells if mean is not None else cells[:1]
        rows.append(Row([name, *own, *(show(name) for show in costs.values())], [name]))
    caption = render(
        "verdict-caption.jinja", scores=scores, differences=mean is not None, costs=bool(costs),
        dagger=not part.report.collapsed.empty, generated=part.report.generated_data,
        by_task=mean is None, **definitions(part, verdicts),
    )  # fmt: skip
    paper = Paper("verdicts", caption)
    return Table("Table: verdicts and costs", [*columns, *costs], rows, "verdicts", paper)


def _unit(part: Comparison, tasks: int) -> str:
    mean = f"mean of {tasks} tasks" if tasks > 1 else ""
    return ", ".join(filter(None, [part.scores.unit, mean]))


def _verdict(row: Any, collapsed: Sequence[str]) -> Cell:
    """Return a verdict with its reason, and a note on collapsed runs, not for papers."""
    reason = str(row.reason)
    if row.verdict == "worse" and row.margin and row.beyond_margin:
        reason = "beyond the margin"
    if is_lower_within_margin(row):
        reason = "below 0, within the margin"
    return Cell(
        str(row.verdict),
        significant=row.verdict in FAVORABLE,
        notes=[*([reason] if reason else []), *collapsed],
        paper_note=reason,
    )


def _difference(row: Any, part: Comparison, task: str) -> Cell:
    digits = part.scores.digits(task) + 1
    ends = f"{number(row.low, digits)} to {number(row.high, digits)}"
    return Cell(signed(row.difference, digits), notes=[ends], paper_note=ends)


def _verdicts_by_task(part: Comparison) -> list[Block]:
    verdicts, scores = part.verdicts, part.scores
    if verdicts is None or len(verdicts.tasks) < 2:
        return []
    columns = [Column("Task", "head"), *(Column(name, "number") for name in verdicts.methods)]
    rows = []
    for task, table in verdicts.tasks.items():
        judged = by_method(table)
        cells = [
            _with_difference(judged[name], part, task, verdicts.reference) if name in judged else ""
            for name in verdicts.methods
        ]
        rows.append(Row([scores.with_arrow(task), *cells], task=task))
    caption = render(
        "verdict-caption.jinja", scores=scores, differences=False, costs=False, dagger=False,
        generated="", by_task=True, **definitions(part, verdicts),
    )  # fmt: skip
    # With a mean over tasks, a paper shows the verdicts on the mean.
    paper = Paper("verdicts-by-task", caption) if verdicts.mean is None else None
    shown = Table("Table: verdicts by task", columns, rows, "verdicts", paper)
    return blocks(
        "verdicts-by-task.jinja", family=part.family, table=shown, scores=scores, verdicts=verdicts
    )


def _with_difference(row: Any, part: Comparison, task: str, reference: str) -> Cell:
    collapsed = rarely_seen(part.collapsed, part.scores, str(row.Index), reference, task)
    shown, difference = _verdict(row, collapsed), _difference(row, part, task)
    notes = [f"{difference.text}, {difference.paper_note}", *shown.notes]
    return replace(shown, notes=notes, paper_note="; ".join(notes))


def _additional(part: Comparison) -> bool:
    """Return True if the memory is that above the process before its first run."""
    costs = part.costs
    return bool(not costs.empty and costs["above_base"].all() and not part.scores.timed)


def _standing_table(part: Comparison) -> Table | None:
    table, scores = part.standings, part.scores
    if len(table) < 2:
        return None
    tasks = len(table.attrs["tasks"])
    columns = [Column("Method", "method")]
    means = bool(table["mean"].notna().all())
    if means:
        columns.append(Column("Mean", "number", note=_unit(part, tasks)))
    columns.append(Column("Mean rank" if tasks > 1 else "Rank", "number"))
    costs = _cost_columns(part)
    digits = scores.digits(scores.main_tasks[0])
    rows = []
    for name, row in by_method(table).items():
        lost, _ = collapsed_note(part.report.collapsed_networks.get(name, 0))
        mean = [Cell(number(row.mean, digits), notes=lost)] if means else []
        rank = f"{row.rank:.1f}" if tasks > 1 else f"{row.rank:g}"
        rows.append(Row([name, *mean, rank, *(show(name) for show in costs.values())], [name]))
    return Table("Table: means and costs", [*columns, *costs], rows, "verdicts")


def _cost_columns(
    part: Comparison, reference: str | None = None
) -> dict[Column, Callable[[str], str]]:
    """Return the columns of costs, as ratios to a reference if it is known."""
    costs = part.costs
    if costs.empty or (reference is not None and reference not in costs.index):
        return {}
    each = "pass" if part.scores.timed else "epoch"
    of = "of the process" if costs["of_process"].any() else "peak"
    of = "additional peak" if costs["above_base"].all() else of

    def show(column: str, digits: int, reference: str | None = None) -> Callable[[str], str]:
        values = {str(name): float(cost) for name, cost in costs[column].items()}
        base = 1.0 if reference is None else values[reference]
        return lambda name: number(values[name] / base, digits) if name in values else ""

    if reference is None:
        time = Column(f"s per {each}", "number")
        memory = Column("Peak memory, MiB", "number", note="" if of == "peak" else of)
    else:
        time = Column("Time", "number", note=f"per {each}, {reference} = 1")
        memory = Column("Memory", "number", note=f"{of}, {reference} = 1")
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
