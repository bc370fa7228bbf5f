"""Section with scores against the speed and memory that other suites measured."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from relation_tf.registry import register_section
from relation_tf.report.blocks import (
    Block,
    Bullets,
    Cell,
    Column,
    Figure,
    Paragraph,
    Row,
    Section,
    Table,
)
from relation_tf.report.comparisons import rows_of, winners, winners_on_all
from relation_tf.report.context import ReportContext
from relation_tf.report.pictures.drawing import Picture
from relation_tf.report.pictures.trade_offs import (
    DOMINATED,
    DOTTED,
    Point,
    score_panel,
    score_picture,
)
from relation_tf.report.standings import outcome_of
from relation_tf.report.trade_offs import (
    RANGE,
    MeanScore,
    cheaper_and_no_worse,
    favorable,
    left_out,
    mean_scores,
)
from relation_tf.words import capital, count, listed, number

_NOTE = (
    f"Horizontal line: range of the cost over the runs. {DOMINATED} Costs come from the timed "
    "suite at the stated length, not from the networks that were scored. State size: memory of the "
    "causal form for earlier tokens. Methods are matched by name."
)

_OVER_TASKS = "Over tasks: mean of their lowest scores to mean of their highest."


@register_section("trade-offs")
class TradeOffs(Section):
    """Score against speed, memory and state bytes of timed suites."""

    heading = "Score against speed and memory"
    by_family = True

    def blocks(self, context: ReportContext) -> Sequence[Block]:
        """Return the answer, the figures and a table."""
        costs = _costs(context)
        scores = mean_scores(context.scores, context.collapsed)
        if costs.empty or not scores:
            return [] if context.of_timed.empty else [*_without_costs(context)]
        notes = [*_missing(context, costs)]
        if unlearned := left_out(context.scores):
            own = f"{listed(unlearned)}, which {context.scores.judged_against} does not learn"
            notes.append(f"Not in the means: {own}. So no method is marked as dominated there: the "
                         "test over tasks has all tasks.")  # fmt: skip
        pictures = [*_pictures(context, costs, scores)]
        return [
            *_answer(context, costs),
            *(Figure(picture, {} if i else context.styles) for i, picture in enumerate(pictures)),
            Paragraph(" ".join([_note(scores), *notes, *_sources(costs)]), "note"),
            *(_table(context, costs, title, own) for title, own in scores.items()),
        ]

    def tables(self, context: ReportContext) -> Mapping[str, pd.DataFrame]:
        """Return the costs with the mean scores."""
        costs = _costs(context)
        scores = mean_scores(context.scores, context.collapsed)
        if costs.empty or not scores:
            return {}
        rows = [
            {"score_of": title, "method": name, "score": own.value, "score_low": own.low,
             "score_high": own.high, "score_interval": own.kind}
            for title, by_method in scores.items()
            for name, own in by_method.items()
        ]  # fmt: skip
        return {"trade_offs": pd.DataFrame(rows).merge(costs, on="method")}


def _costs(context: ReportContext) -> pd.DataFrame:
    """Return the costs of the methods of the context, which can be one family."""
    costs = context.of_timed
    return costs if costs.empty else costs[costs["method"].isin(context.scores.methods)]


def _note(scores: Mapping[str, Mapping[str, MeanScore]]) -> str:
    """Return what the lines and marks of the figures mean."""
    kinds = {own.kind for by_method in scores.values() for own in by_method.values()}
    said = ["Vertical line: mean score with its 95 % interval over seeds (t distribution)."]
    if RANGE in kinds:
        averaged = any(title.startswith("mean of ") for title in scores)
        said.append(DOTTED + (f" {_OVER_TASKS}" if averaged else ""))
    if "" in kinds:
        said.append("One seed: no vertical line.")
    return " ".join([*said, _NOTE])


def _without_costs(context: ReportContext) -> Iterator[Block]:
    if context.scores.methods:
        yield Paragraph(f"No costs: {listed(context.scores.methods)}.", "note")


def _missing(context: ReportContext, costs: pd.DataFrame) -> Iterator[str]:
    """Yield the methods with scores that have no costs, or not all."""
    names = context.scores.methods
    known = {*costs["method"]}
    if others := [name for name in names if name not in known]:
        yield f"No costs: {listed(others)}."
    for _, of_measure in costs.groupby("measure", sort=False):
        measured = {tokens: {*own["method"]} for tokens, own in _ends(of_measure)}
        lacking: dict[tuple[str, ...], list[str]] = {}
        for name in (name for name in names if name in known):
            if at := tuple(f"{n:,}" for n, own in measured.items() if name not in own):
                lacking.setdefault(at, []).append(name)
        what = str(of_measure["label"].iloc[0]).rpartition(",")[0]
        for at, own in lacking.items():
            where = "" if len(at) == len(measured) else f" at {at[0]} tokens"
            yield f"No {what}{where}: {listed(own)}."


def _sources(costs: pd.DataFrame) -> Iterator[str]:
    for suite, own in costs.groupby("suite", sort=False):
        runs = own[own["measure"] == own["measure"].iloc[0]]["runs"].sum()
        on = listed([*dict.fromkeys(own["processor"])])
        yield f"Costs: suite {suite}, {count(int(runs), 'run')}, on {on}."
        if own["slowed"].any():
            yield "Other programs or runs shared the processor: speeds may be wrong."


def _answer(context: ReportContext, costs: pd.DataFrame) -> Iterator[Block]:
    """Yield the methods that are no worse than the reference and cheaper, by measure."""
    verdicts = context.verdicts
    if verdicts is None or verdicts.mean is None:
        return
    where = "on the mean" if len(verdicts.averaged) > 1 else f"on {verdicts.averaged[0]}"
    yield Paragraph(
        f"Better or no worse than {verdicts.reference} {where}, and faster or smaller in every run:"
    )
    lines = []
    good = {name for name in favorable(verdicts.mean) if name in {*costs["method"]}}
    for _, of_measure in costs.groupby("measure", sort=False):
        label = str(of_measure["label"].iloc[0])
        if _is_disturbed(of_measure):
            lines.append(f"{label}: not compared, other programs or runs slowed them down")
            continue
        found = {
            f"{tokens:,} tokens": _named(own, verdicts.mean, verdicts.reference, good)
            for tokens, own in of_measure.groupby("tokens")
        }
        same = len({*found.values()}) == 1
        each = "; ".join(f"{length}: {names}" for length, names in found.items())
        lines.append(f"{label}: {next(iter(found.values())) if same else each}")
    yield Bullets(lines)


def _is_disturbed(costs: pd.DataFrame) -> bool:
    """Return True for speeds of runs that shared the processor."""
    return bool(costs["slowed"].any() and costs["more_is_better"].all())


def _named(costs: pd.DataFrame, table: pd.DataFrame, reference: str, good: set[str]) -> str:
    """Return the cheaper ones of the good methods, and those without a cost at this length."""
    methods = cheaper_and_no_worse(costs, table, reference)
    if methods is None:
        return f"{reference} was not measured"
    lacking = [name for name in table.index if name in good - {*costs["method"]}]
    said = listed(methods or ["none"])
    return f"{said} (not measured: {listed(lacking)})" if lacking else said


def _pictures(
    context: ReportContext, costs: pd.DataFrame, scores: Mapping[str, Mapping[str, MeanScore]]
) -> Iterator[Picture]:
    """Yield a figure per measure, with panels for the shortest and the longest text."""
    for measure, of_measure in costs.groupby("measure", sort=False):
        label = str(of_measure["label"].iloc[0])
        panels = [
            score_panel(
                f"{title}; {tokens:,} tokens" if len(scores) > 1 else f"{tokens:,} tokens",
                _points(own, by_method),
                set() if _is_disturbed(of_measure) else _better(context, title),
                label,
                _unit(context, title),
                context.styles,
                more_is_better=bool(of_measure["more_is_better"].iloc[0]),
                spread="half of the 95 % interval",
            )
            for title, by_method in scores.items()
            for tokens, own in _ends(of_measure)
            if len(_points(own, by_method)) > 1
        ]
        title = f"Mean score against {label}, by method."
        picture = score_picture(f"trade-offs-{measure}", title, panels, context.styles)
        if picture is not None:
            yield picture


def _ends(costs: pd.DataFrame) -> list[tuple[int, pd.DataFrame]]:
    """Return the rows of the shortest and of the longest text."""
    lengths = sorted({costs["tokens"].min(), costs["tokens"].max()})
    return [(int(tokens), costs[costs["tokens"] == tokens]) for tokens in lengths]


def _points(costs: pd.DataFrame, scores: Mapping[str, MeanScore]) -> list[Point]:
    return [
        Point(row.method, [row.low, row.typical, row.high], own.value, own.half, own.seeds)
        for row in rows_of(costs)
        if (own := scores.get(row.method)) is not None
    ]


def _better(context: ReportContext, title: str) -> set[tuple[str, str]]:
    """Return the better and the worse method of each significant pair, on a network or over all."""
    scores = context.scores
    if title in scores.by_network:
        return winners_on_all(context.pvalues, scores.counted(title))
    if left_out(scores):
        return set()  # the test over tasks includes them
    outcome = outcome_of(scores, context.several, context.comparisons)
    return set() if outcome is None else {*winners(outcome.pairs)}


def _unit(context: ReportContext, title: str) -> str:
    lower = ", lower is better" if context.scores.lower_is_better_on(title) else ""
    return f"{context.scores.unit or 'score'}{lower}"


def _table(
    context: ReportContext, costs: pd.DataFrame, title: str, scores: Mapping[str, MeanScore]
) -> Table:
    """Return a table with a column for each measure at the shortest and the longest text."""
    shown = [
        (own, f"{tokens:,} tokens")
        for _, of_measure in costs.groupby("measure", sort=False)
        for tokens, own in _ends(of_measure)
    ]
    columns = [Column("Method", "method"), Column(capital(title), "number")]
    columns += [
        Column(capital(str(own["label"].iloc[0])), "number", note=length) for own, length in shown
    ]
    by_method = [{row.method: row for row in rows_of(own)} for own, _ in shown]
    rows = []
    lower = context.scores.lower_is_better_on(title)
    digits = context.scores.digits_on(title)
    for name, score in sorted(scores.items(), key=lambda pair: pair[1].value, reverse=not lower):
        cells = [_cost(own.get(name)) for own in by_method]
        rows.append(Row([name, _score(score, digits), *cells], [name]))
    return Table("Table: scores and costs", columns, rows)


def _score(score: MeanScore, digits: int) -> Cell:
    mean, low, high = (number(value, digits) for value in score[:3])
    ends = f"{low} to {high}{', range' if score.kind == RANGE else ''}" if score.kind else ""
    return Cell(mean, notes=[ends] if ends else [], paper_note=ends)


def _cost(row: Any) -> Cell | str:
    if row is None:
        return ""
    size = math.floor(math.log10(abs(row.typical))) if row.typical else 0
    digits = max(0, 1 - size)  # two significant ones
    ends = f"{number(row.low, digits)} to {number(row.high, digits)}"
    same = row.low == row.high
    return Cell(number(row.typical, digits), notes=[] if same else [ends], paper_note=ends)
