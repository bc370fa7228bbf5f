"""Section with the answer: verdicts against the reference, or means and costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from relation_tf.registry import register_section
from relation_tf.report.answer import progress, tested_among
from relation_tf.report.blocks import (
    Block,
    Bullets,
    Cell,
    Column,
    Folded,
    Heading,
    Paper,
    Paragraph,
    Row,
    Section,
    Span,
    Table,
    figure_with_note,
)
from relation_tf.report.context import ReportContext
from relation_tf.report.definitions import caption, definitions
from relation_tf.report.families import family_prefix, of_family
from relation_tf.report.pictures.significance import differences
from relation_tf.report.reliability import collapsed_note, rarely_seen
from relation_tf.report.runs import scored_on
from relation_tf.report.scores import Scores
from relation_tf.report.standings import standings
from relation_tf.report.verdicts import (
    FAVORABLE,
    NOT_VARYING,
    Verdicts,
    by_method,
    is_lower_within_margin,
)
from relation_tf.stats import StratifiedResult
from relation_tf.stats.comparisons import Estimand
from relation_tf.words import capital, count, listed, number, signed

_POSITIVE = "positive if the second is better"  # the sign of a difference in both figures


@register_section("answer")
class Answer(Section):
    """Verdicts on all methods, or their means, with costs, and their differences as a figure."""

    heading = "Short answer"
    notebook = True

    def blocks(self, context: ReportContext) -> Sequence[Block]:
        """Return a sentence, a table and a figure, and the folded verdicts by task."""
        blocks: list[Block] = []
        if context.results is not None:
            blocks += [Paragraph(sentence, "warning") for sentence in progress(context.runs)]
            for name, part in context.parts.items():
                missing = tested_among(part.scores, part.comparisons, part.num_declared)
                blocks += [
                    Paragraph(f"{family_prefix(name)}{sentence}", "warning") for sentence in missing
                ]
        answers = {name: _answer(part) for name, part in context.parts.items()}
        for name, own in answers.items():
            blocks += [Heading(capital(name)), *of_family(own, name)] if name and own else own
        blocks += _cautions(context)
        for name, part in context.parts.items():
            own = _verdicts_by_task(name, part)
            blocks += of_family(own, name) if name else own
        table = any(isinstance(block, Table) for block in blocks)
        return [*blocks, *([] if table else [Bullets(context.answer, "answer")])]

    def tables(self, context: ReportContext) -> Mapping[str, pd.DataFrame]:
        """Return the verdicts of all tasks."""
        return context.joined(_verdicts)


def _verdicts(context: ReportContext) -> dict[str, pd.DataFrame]:
    verdicts = context.verdicts
    return {"verdicts": verdicts.table()} if verdicts is not None and verdicts.tasks else {}


def _answer(context: ReportContext) -> list[Block]:
    """Return the sentence and the table of a family, with a note."""
    table = verdict_table(context)
    headline: list[Block] = [Paragraph(context.headline, "headline")] if context.headline else []
    headline += [Paragraph(sentence, "warning") for sentence in context.caveats]
    if table is None or context.verdicts is None:
        return [*headline, *_standing_blocks(context)]
    conditions = " ".join([*_conditions(context, context.verdicts), *quoted_test(context)])
    how = Folded("How to read the verdicts", [Paragraph(conditions, "note")])
    return [*headline, table, *_verdict_figure(context, context.verdicts), how]


def _verdict_figure(context: ReportContext, verdicts: Verdicts) -> list[Block]:
    """Return the mean differences from the reference as a figure; nothing without a mean."""
    mean, number = verdicts.mean, len(verdicts.averaged)
    if mean is None:
        return []
    title = f"Mean of {count(number, 'task')}" if number > 1 else verdicts.averaged[0]
    picture = differences(
        {title: mean.rename_axis("b").reset_index().assign(a=verdicts.reference)},
        context.styles,
        name="answer",
        unit=context.scores.unit,
        ends=("worse", "better"),
        positive=_POSITIVE,
        margins={title: float(mean["margin"].iloc[0])},
        digits={title: context.scores.digits(context.scores.main_tasks[0])},
    )
    margin = "; dashed line: the margin" if context.scores.margin else ""
    what = f"Difference from {verdicts.reference}{context.scores.in_unit}, positive: better,"
    return figure_with_note(picture, f"{what} with its interval{margin}.")


def _best_figure(context: ReportContext) -> list[Block]:
    """Return the differences from the best method as a figure; nothing without intervals.

    The intervals of all pairs hold at once, so the best method can be chosen after the runs.
    """
    scores = context.scores
    best = scores.control or _best(context)
    title, pairs, (estimand, assumption) = _compared(context)
    if pairs.empty or best is None:
        return []
    first, second = pairs[pairs["a"] == best], pairs[pairs["b"] == best]
    turned = second.assign(
        a=second["b"], b=second["a"],
        difference=-second["difference"], low=-second["high"], high=-second["low"],
    )  # fmt: skip
    table = pd.concat([first, turned])
    finite = np.isfinite(table[["low", "high"]].to_numpy(dtype=float))
    if not finite.any():
        return []
    ends = ("worse", "better")
    picture = differences(
        {title: table}, context.styles, name="answer", unit=scores.unit, ends=ends,
        positive=_POSITIVE,
        digits={title: scores.digits(scores.main_tasks[0])},
    )  # fmt: skip
    which = "the control" if scores.control else "the method with the best mean"
    note = (
        f"{capital(estimand)}{scores.in_unit} from {best}, {which}, positive: better, with "
        f"simultaneous intervals"
        f"{'' if finite.all() else '; an interval without an end is infinite'}. {assumption}"
    )
    return figure_with_note(picture, note.strip())


def _best(context: ReportContext) -> str | None:
    """Return the method with the best mean; None if the tasks have different units."""
    means = standings(context.scores)["mean"].dropna()
    if means.empty:
        return None
    lower = context.scores.main_tasks[0] in context.scores.lower_is_better
    return str(means.idxmin() if lower else means.idxmax())


def _compared(context: ReportContext) -> tuple[str, pd.DataFrame, Estimand]:
    """Return a title, the differences of all pairs over the tasks or on the only task, their kind.

    The columns are those of `differences`, positive where b is better.
    """
    several, scores = context.several, context.scores
    if several is not None and isinstance(several.result, StratifiedResult) and scores.alike:
        title = f"All {count(len(several.tasks), 'task')}"
        return title, several.result.confidence_interval(), several.result.estimand
    names = {"difference_low": "low", "difference_high": "high"}
    only = scores.main_tasks if len(scores.main_tasks) == 1 else []
    title = next(iter([*scores.averages, *only]), "")
    pairs = context.pvalues[context.pvalues["task"] == title].rename(columns=names)
    if title in scores.lower_is_better:
        low = pairs["low"]
        pairs = pairs.assign(difference=-pairs["difference"], low=-pairs["high"], high=-low)
    test = context.comparisons.get(title)
    known = None if test is None else test.estimand
    return title, pairs, known or Estimand("", "")


def _cautions(context: ReportContext) -> Iterator[Block]:
    """Yield what p covers, the rows behind the scores and the number of warnings."""
    over_tasks = any(part.several is not None for part in context.parts.values())
    if (context.tested or over_tasks) and not context.scores.timed:
        yield Paragraph([*_scope(context)], "note")
    if context.results is not None and (worth := scored_on(context.results)):
        yield Paragraph(worth, "note")
    things = len(context.warnings) + len(context.failures)
    if things:
        what = "scores" if context.results is None else "runs"
        text = f"{count(things, 'warning')} about these {what}: see "
        yield Paragraph([text, Span("Warnings and provenance", "section", "made"), "."], "warning")


def _scope(context: ReportContext) -> Iterator[str | Span]:
    """Yield what p covers, and where the uncertainty from the scored rows is."""
    yield (
        "Scope: p, intervals and verdicts generalize to other seeds on the same evaluation rows, "
        "not to other rows"
    )
    several = [part.several for part in context.parts.values() if part.several is not None]
    if any(test.generalizes for test in several):
        yield "; the test over tasks generalizes to similar tasks"
    if any("variance" in part.row_tables for part in context.parts.values()):
        yield "; for other rows, see "
        yield Span("Seeds and evaluation rows", "section", "variance")
    yield "."


def _verdicts_by_task(family: str, context: ReportContext) -> list[Block]:
    verdicts = context.verdicts
    if verdicts is None or len(verdicts.tasks) < 2:
        return []
    note = " ".join([_about_tasks(context.scores), *verdicts.notes])
    blocks: list[Block] = [_by_task(context, verdicts), Paragraph(note, "note")]
    title = f"Verdicts by task, {family}" if family else "Verdicts by task"
    return [Folded(title, blocks)]


def _about_tasks(scores: Scores) -> str:
    also = ", also where lower scores are better (↓)" if scores.lower_is_better else ""
    return (
        "Difference and interval in the unit of the table of scores, positive if the method is "
        f"better{also}. Within each task, alpha is corrected for the number of methods "
        "(Bonferroni), but not for the number of tasks."
    )


def verdict_table(context: ReportContext) -> Table | None:
    """Return the table of verdicts and costs; None without a verdict."""
    scores, verdicts = context.scores, context.verdicts
    if verdicts is None or not verdicts.tasks:
        return None
    reference, mean = verdicts.reference, verdicts.mean
    columns = [Column("Method", "method"), Column("Verdict")]
    if mean is not None:
        columns.append(Column("Difference", "number", note=_unit(scores, len(verdicts.averaged))))
    costs = _cost_columns(context, reference)
    judged = {} if mean is None else by_method(mean)
    rows = []
    for name in [reference, *verdicts.methods]:
        lost, daggers = collapsed_note(context.collapsed_of.get(name, 0))
        dagger = "".join(daggers)
        cells: list[Cell | str] = [Cell("reference", notes=lost, paper_note=dagger), ""]
        if name in judged:
            difference = _difference(judged[name], scores, scores.main_tasks[0])
            note = "; ".join([difference.paper_note, *daggers])
            cells = [
                _verdict(judged[name], rarely_seen(context.collapsed, scores, name, reference)),
                replace(difference, paper_note=note),
            ]
        elif name != reference:
            counts = [f"{verdict} on {times}" for verdict, times in verdicts.counts(name).items()]
            cells = [Cell(listed(counts), notes=lost, paper_note=dagger), ""]
        own = cells if mean is not None else cells[:1]
        rows.append(Row([name, *own, *(show(name) for show in costs.values())], [name]))
    by_task = " by number of tasks" if mean is None else ""
    paper = Paper(
        "verdicts",
        f"Verdicts against {reference}{by_task}",
        caption(scores, verdicts, differences=mean is not None, costs=bool(costs))
        + "".join(f" {own}" for own in (context.dagger, context.generated_data) if own),
    )
    return Table("Table: verdicts and costs", [*columns, *costs], rows, "verdicts", paper)


def _unit(scores: Scores, tasks: int) -> str:
    return ", ".join(filter(None, [scores.unit, f"mean of {tasks} tasks" if tasks > 1 else ""]))


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


def _difference(row: Any, scores: Scores, task: str) -> Cell:
    digits = scores.digits(task) + 1
    ends = f"{number(row.low, digits)} to {number(row.high, digits)}"
    return Cell(signed(row.difference, digits), notes=[ends], paper_note=ends)


def _by_task(context: ReportContext, verdicts: Verdicts) -> Table:
    columns = [Column("Task", "head"), *(Column(name, "number") for name in verdicts.methods)]
    rows = []
    for task, table in verdicts.tasks.items():
        judged = by_method(table)
        cells = [
            _with_difference(judged[name], context, task, verdicts.reference)
            if name in judged
            else ""
            for name in verdicts.methods
        ]
        rows.append(Row([context.scores.with_arrow(task), *cells], task=task))
    # With a mean over tasks, a paper shows the verdicts on the mean.
    paper = Paper(
        "verdicts-by-task",
        f"Verdicts against {verdicts.reference} by task",
        caption(context.scores, verdicts),
    )
    kept = paper if verdicts.mean is None else None
    return Table("Table: verdicts by task", columns, rows, "verdicts", kept)


def _with_difference(row: Any, context: ReportContext, task: str, reference: str) -> Cell:
    collapsed = rarely_seen(context.collapsed, context.scores, str(row.Index), reference, task)
    shown, difference = _verdict(row, collapsed), _difference(row, context.scores, task)
    notes = [f"{difference.text}, {difference.paper_note}", *shown.notes]
    return replace(shown, notes=notes, paper_note="; ".join(notes))


def _conditions(context: ReportContext, verdicts: Verdicts) -> Iterator[str]:
    """Yield the definitions of the verdicts, and remarks on tasks, costs and failed runs."""
    scores, tasks = context.scores, len(verdicts.averaged)
    yield from definitions(scores, verdicts)
    if len(verdicts.tasks) > 1 and not context.costs.empty:
        yield "Time and memory are geometric means over tasks."
    yield from _additional(context)
    tables = [*verdicts.tasks.values(), *([] if verdicts.mean is None else [verdicts.mean])]
    if not {reason for table in tables for reason in table["reason"]} <= {"", NOT_VARYING}:
        yield (
            "A method with failed runs is never better or no worse, and no method is worse than a "
            "reference with failed runs."
        )
    if not context.collapsed.empty:
        yield (
            "If runs of a method or of the reference collapsed, seeds this few do not show how "
            "often this happens, and other seeds can change the verdict: if 15 % of the runs of "
            "one of two equal methods collapse, better and no worse are wrong in 18 to 31 % of "
            "cases with 3 to 10 seeds."
        )
    if tasks > 1:
        yield "The mean gives each task equal weight."
        yield "The result does not generalize to other tasks."
    if len(verdicts.tasks) == 1:
        yield from verdicts.notes
    if tasks and scores.shared:
        shared = [f" ({listed(own)})" for own in scores.shared.values()]
        yield (
            f"Tasks with the same network or training rows{shared[0] if len(shared) == 1 else ''} "
            "count as one task, with their mean."
        )
    if scores.diagnostics:
        yield scores.diagnostics_remark


def quoted_test(context: ReportContext) -> Iterator[str]:
    """Yield which of the verdicts and tests to quote, because they can disagree."""
    verdicts, scores = context.verdicts, context.scores
    if verdicts is None or not verdicts.tasks or not context.comparisons:
        return
    over_tasks = "" if context.several is None else "the test over tasks or "
    against = f" against {verdicts.reference}" if context.whole is None else ""
    chosen = f"the reference{' and the margin' if scores.margin else ''}"
    quote = (
        f"The suite declared {chosen}, so quote the verdicts"
        if scores.reference_declared
        else f"If you chose {chosen} before the runs, quote the verdicts. Otherwise, quote "
        f"{over_tasks}the tests of single tasks, and name the test"
    )
    yield (
        f"The verdicts (Welch intervals of means{against}) and the tests of pairs ({context.test}) "
        f"can disagree. {quote}."
    )


def _standing_blocks(context: ReportContext) -> list[Block]:
    table = _standing_table(context)
    if table is None:
        return []
    read = " ".join(_how_to_read(context))
    how: list[str | Span] = [
        f"{read} To test whether methods are no worse than one of them, set ",
        Span("reference", "code"),
        " and ",
        Span("margin", "code"),
        " in the suite, or run ",
        Span("relation-tf compare SOURCE --reference NAME --margin MARGIN", "code"),
        ".",
    ]
    if context.scores.judged_against is not None:
        how = [read]
    return [table, *_best_figure(context), Paragraph(how, "note")]


def _how_to_read(context: ReportContext) -> Iterator[str]:
    """Yield what the table of means averages."""
    yield "Rank 1 is the best."
    if len(context.scores.main_tasks) > 1:
        yield "The table averages over the tasks that all methods have."
        if not context.scores.alike:
            guessed = bool(context.scores.unit_remark)
            what = "units of the tasks probably" if guessed else "units or directions of the tasks"
            yield f"There is no mean score, because the {what} differ."
        if not context.costs.empty:
            yield "Time and memory are geometric means."
    yield from _additional(context)


def _additional(context: ReportContext) -> Iterator[str]:
    costs = context.costs
    if not costs.empty and costs["above_base"].all() and not context.scores.timed:
        yield "Additional peak: memory above that of the process before its first run."


def _standing_table(context: ReportContext) -> Table | None:
    table, scores = standings(context.scores), context.scores
    if len(table) < 2:
        return None
    tasks = len(table.attrs["tasks"])
    columns = [Column("Method", "method")]
    means = bool(table["mean"].notna().all())
    if means:
        columns.append(Column("Mean", "number", note=_unit(scores, tasks)))
    columns.append(Column("Mean rank" if tasks > 1 else "Rank", "number"))
    costs = _cost_columns(context)
    digits = scores.digits(scores.main_tasks[0])
    rows = []
    for name, row in by_method(table).items():
        lost, _ = collapsed_note(context.collapsed_of.get(name, 0))
        cells: list[Cell | str] = [
            name,
            *([Cell(number(row.mean, digits), notes=lost)] if means else []),
        ]
        cells.append(f"{row.rank:.1f}" if tasks > 1 else f"{row.rank:g}")
        rows.append(Row([*cells, *(show(name) for show in costs.values())], [name]))
    return Table("Table: means and costs", [*columns, *costs], rows, "verdicts")


def _cost_columns(
    context: ReportContext, reference: str | None = None
) -> dict[Column, Callable[[str], str]]:
    """Return the columns of costs, as ratios to a reference if it is known."""
    costs = context.costs
    if costs.empty or (reference is not None and reference not in costs.index):
        return {}
    each = "pass" if context.scores.timed else "epoch"
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
    if context.scores.timed:  # later runs of a process reuse the memory of earlier ones
        del columns[memory]
    if not costs["alone"].all():
        del columns[time]
    return columns
