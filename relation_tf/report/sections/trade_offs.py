"""Section with scores against the speed and memory that other suites measured."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from relation_tf.registry import register_section
from relation_tf.report.blocks import Block, Cell, Column, Row, Section, Table, blocks
from relation_tf.report.comparison import Comparison
from relation_tf.report.comparisons import rows_of, winners, winners_on_all
from relation_tf.report.pictures.drawing import Picture
from relation_tf.report.pictures.trade_offs import Point, score_panel, score_picture
from relation_tf.report.trade_offs import (
    RANGE,
    MeanScore,
    cheaper_and_no_worse,
    favorable,
    left_out,
    mean_scores,
)
from relation_tf.words import capital, number


@register_section("trade-offs")
class TradeOffs(Section):
    """Score against speed, memory and state bytes of timed suites."""

    heading = "Score against speed and memory"
    by_family = True

    def blocks(self, part: Comparison) -> Sequence[Block]:
        """Return the methods that are no worse and cheaper, the figures and a table."""
        costs = part.timed_costs
        if part.report.timed_costs.empty:
            return []
        scores = mean_scores(part.scores, part.collapsed)
        kinds = {own.kind for by_method in scores.values() for own in by_method.values()}
        known = {*costs["method"]} if scores else set()
        return blocks(
            "trade-offs.jinja",
            part=part,
            measured=bool(known),
            without=[name for name in part.scores.methods if name not in known],
            gaps=[*_gaps(part, costs)] if known else [],
            unlearned=left_out(part.scores),
            ranges=RANGE in kinds,
            one_seed="" in kinds,
            averaged=any(title.startswith("mean of ") for title in scores),
            cheaper=_cheaper(part, costs) if known else None,
            pictures=[*_pictures(part, costs, scores)] if known else [],
            sources=[*_sources(costs)] if known else [],
            tables=[_table(part, costs, *own) for own in scores.items()] if known else [],
        )

    def tables(self, part: Comparison) -> Mapping[str, pd.DataFrame]:
        """Return the costs with the mean scores."""
        costs = part.timed_costs
        scores = mean_scores(part.scores, part.collapsed)
        if costs.empty or not scores:
            return {}
        rows = [
            {"score_of": title, "method": name, "score": own.value, "score_low": own.low,
             "score_high": own.high, "score_interval": own.kind}
            for title, by_method in scores.items()
            for name, own in by_method.items()
        ]  # fmt: skip
        return {"trade_offs": pd.DataFrame(rows).merge(costs, on="method")}


def _gaps(part: Comparison, costs: pd.DataFrame) -> Iterator[tuple[str, int | None, list[str]]]:
    """Yield a measure, a length (None for all) and the methods that were not measured there."""
    known = [name for name in part.scores.methods if name in {*costs["method"]}]
    for _, of_measure in costs.groupby("measure", sort=False):
        measured = {tokens: {*own["method"]} for tokens, own in _ends(of_measure)}
        what = str(of_measure["label"].iloc[0]).rpartition(",")[0]
        never = [name for name in known if not any(name in own for own in measured.values())]
        if never:
            yield what, None, never
        for tokens, own in measured.items():
            if some := [name for name in known if name not in own and name not in never]:
                yield what, tokens, some


def _sources(costs: pd.DataFrame) -> Iterator[dict[str, Any]]:
    for suite, own in costs.groupby("suite", sort=False):
        runs = own[own["measure"] == own["measure"].iloc[0]]["runs"].sum()
        processors = [*dict.fromkeys(own["processor"])]
        yield {"suite": suite, "runs": int(runs), "processors": processors,
               "slowed": bool(own["slowed"].any())}  # fmt: skip


def _cheaper(part: Comparison, costs: pd.DataFrame) -> dict[str, Any] | None:
    """Return by measure and length the methods that are no worse than the reference and cheaper.

    None instead of the lengths if other programs slowed runs down, and instead of the methods if
    the reference was not measured.
    """
    verdicts = part.verdicts
    if verdicts is None or verdicts.mean is None:
        return None
    good = [name for name in favorable(verdicts.mean) if name in {*costs["method"]}]
    return {
        str(own["label"].iloc[0]): None
        if _is_disturbed(own)
        else {
            tokens: {
                "methods": cheaper_and_no_worse(at_length, verdicts.mean, verdicts.reference),
                "lacking": [name for name in good if name not in {*at_length["method"]}],
            }
            for tokens, at_length in own.groupby("tokens")
        }
        for _, own in costs.groupby("measure", sort=False)
    }


def _is_disturbed(costs: pd.DataFrame) -> bool:
    """Return True for speeds of runs that shared the processor."""
    return bool(costs["slowed"].any() and costs["more_is_better"].all())


def _pictures(
    part: Comparison, costs: pd.DataFrame, scores: Mapping[str, Mapping[str, MeanScore]]
) -> Iterator[Picture]:
    """Yield a figure per measure, with panels for the shortest and the longest text."""
    for measure, of_measure in costs.groupby("measure", sort=False):
        label = str(of_measure["label"].iloc[0])
        panels = [
            score_panel(
                f"{title}; {tokens:,} tokens" if len(scores) > 1 else f"{tokens:,} tokens",
                _points(own, by_method),
                set() if _is_disturbed(of_measure) else _better(part, title),
                label,
                _unit(part, title),
                part.report.styles,
                more_is_better=bool(of_measure["more_is_better"].iloc[0]),
                spread="half of the 95 % interval",
            )
            for title, by_method in scores.items()
            for tokens, own in _ends(of_measure)
            if len(_points(own, by_method)) > 1
        ]
        title = f"Mean score against {label}, by method."
        picture = score_picture(f"trade-offs-{measure}", title, panels, part.report.styles)
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


def _better(part: Comparison, title: str) -> set[tuple[str, str]]:
    """Return the better and the worse method of each significant pair, on a network or over all."""
    scores = part.scores
    if title in scores.by_network:
        return winners_on_all(part.pvalues, scores.counted(title))
    if left_out(scores):
        return set()  # the test over tasks includes them
    outcome = part.outcome
    return set() if outcome is None else {*winners(outcome.pairs)}


def _unit(part: Comparison, title: str) -> str:
    lower = ", lower is better" if part.scores.lower_is_better_on(title) else ""
    return f"{part.scores.unit or 'score'}{lower}"


def _table(
    part: Comparison, costs: pd.DataFrame, title: str, scores: Mapping[str, MeanScore]
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
    lower = part.scores.lower_is_better_on(title)
    digits = part.scores.digits_on(title)
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
