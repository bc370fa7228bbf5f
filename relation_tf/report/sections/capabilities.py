"""Capabilities of methods: scores on diagnostic tasks between a simple rule and a perfect score."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from relation_tf.registry import register_section
from relation_tf.report.blocks import Block, Column, Row, Section, Table, blocks, by_method, rows_of
from relation_tf.report.diagnostics import (
    NEEDED,
    chance_of,
    diagnostic_of,
    known_diagnostic,
    perfect_score,
    rule_of,
    share_of,
)
from relation_tf.report.drawing import SHADE, Panel, Picture, Style
from relation_tf.report.scores import Scores
from relation_tf.report.sections.costs import (
    RANGE,
    MeanScore,
    Point,
    collapsed_networks,
    mean_of,
    score_panel,
    score_picture,
)
from relation_tf.report.sections.verdicts import FAVORABLE, NOT_VARYING, Verdicts
from relation_tf.report.text import Statement, state

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from relation_tf.report.data import Comparison

MARKS = {"better": "+", "no worse": "=", "worse": "−", "inconclusive": "?"}
"""Mark of each verdict in a cell."""
_MOST_DESCRIBED = 6  # methods with a paragraph
_CELL, _LETTER = 0.42, 0.072  # side of a cell and width of a letter, in inches
_FURTHER = "Scores of methods on other depths and longer texts than in training."
_LIMITS = (0.0, 100.0)  # of the scores, in points
SOLVED, AT_RULE = 0.95, 0.10
"""Share of the distance from a simple rule to a perfect score: at least, and at most."""
LEVELS = (
    "Share of the distance from the best simple rule (the most frequent label; an answer from the "
    "position, from the last four tokens or with a value in the text) to a perfect score: "
    f"solved, at least {SOLVED:.0%}; no better than the rule, at most {AT_RULE:.0%}; succeeds, at "
    f"least {NEEDED:.0%}."
).replace("%", " %")
"""Meaning of the levels."""


@dataclass(frozen=True)
class Capabilities:
    """Scores of methods on diagnostic tasks.

    Attributes:
        table: A row per task and method, with the columns `task`, `method`, `score` (mean over
            seeds, in points), `chance` and `rule` (scores of the most frequent label and of the
            best simple rule, in points), `share` (0 for that rule, 1 for a perfect score), `level`
            ("solved", "partly" or "rule"), `verdict` against the reference and its `reason`, which
            are empty without one, and `state_kib`, the size of the state (NaN if unknown).
        further: The same for additional test sets: depths, and longer texts.
        reference: The method that the others are judged against, or None.
        not_learned: Tasks that the reference does not learn; they have no verdicts.
    """

    table: pd.DataFrame
    further: pd.DataFrame
    reference: str | None
    not_learned: Sequence[str] = ()

    @property
    def tasks(self) -> list[str]:
        """The tasks, in order."""
        return [*dict.fromkeys(self.table["task"])]

    @property
    def methods(self) -> list[str]:
        """The methods, in order."""
        return [*dict.fromkeys(self.table["method"])]

    def of(self, method: str) -> pd.DataFrame:
        """Return the rows of a method."""
        return self.table[self.table["method"] == method]

    def describe(self, method: str) -> Statement:
        """Return a statement on what a method can do."""
        rows = self.of(method)
        levels = {x: [*rows.loc[rows["level"] == x, "task"]] for x in ("solved", "partly", "rule")}
        judged = rows[~rows["task"].isin(self.not_learned)]
        constant = judged["reason"] == NOT_VARYING
        kinds = {
            "good": judged["verdict"].isin(FAVORABLE),
            "worse": judged["verdict"] == "worse",
            "inconclusive": judged["verdict"].eq("inconclusive") & ~constant,
            "constant": judged["verdict"].eq("inconclusive") & constant,
        }
        compared = self.reference is not None and method != self.reference
        return state(
            "capability",
            method=method,
            levels={level: tasks for level, tasks in levels.items() if tasks},
            reference=self.reference,
            not_learned=[task for task in self.not_learned if task in {*rows["task"]}],
            verdicts={
                kind: [*judged.loc[chosen, "task"]] for kind, chosen in kinds.items() if compared
            },
            limits=self._limits(rows),
        )

    def _limits(self, rows: pd.DataFrame) -> list[tuple[str, str, list[int], list[int]]]:
        """Return ability, noun, and the sizes that succeed and fail, for tasks of several sizes."""
        series: dict[tuple[str, str], dict[int, float]] = {}
        for row in rows_of(rows):
            diagnostic = known_diagnostic(row.task)
            if diagnostic.amount is not None:
                noun, number = diagnostic.amount
                smallest = series.setdefault((diagnostic.isolates.partition(":")[0], noun), {})
                smallest[number] = min(row.share, smallest.get(number, math.inf))
        return [
            (
                ability,
                noun,
                sorted(number for number, share in values.items() if share >= NEEDED),
                sorted(number for number, share in values.items() if share < NEEDED),
            )
            for (ability, noun), values in series.items()
            if len(values) > 1
        ]


def capabilities(
    scores: Scores, verdicts: Verdicts | None, runs: pd.DataFrame | None = None
) -> Capabilities | None:
    """Return the capabilities of all methods; None without diagnostic tasks.

    Args:
        scores: The scores.
        verdicts: Verdicts against a reference, if there is one.
        runs: Result of `all_runs`, for the size of the state.
    """
    states: dict[Any, float] = {}
    if runs is not None and "state_mib" in runs:
        by_run = runs.groupby(["task", "method"], observed=True)["state_mib"]
        states = (1024 * by_run.max()).to_dict()
    reference = None if verdicts is None else verdicts.reference
    perfect = perfect_score(scores)
    rows: list[dict[str, Any]] = []
    further: list[dict[str, Any]] = []
    for name in scores.single_tasks:
        task, samples = diagnostic_of(name), scores.samples(name)
        if task is None or name in scores.lower_is_better:  # a user's table of the same name
            continue
        judged = {} if verdicts is None else by_method(verdicts.tasks.get(name, pd.DataFrame()))
        for method, values in samples.items():
            score = float(np.mean(values)) / perfect
            share = share_of(score, name)
            row = {
                "task": name, "method": method, "score": 100 * score,
                "chance": 100 * chance_of(name), "rule": 100 * rule_of(name), "share": share,
                "level": "solved" if share >= SOLVED
                else "rule" if share <= AT_RULE else "partly",
                "verdict": str(judged[method].verdict) if method in judged else "",
                "reason": str(judged[method].reason) if method in judged else "",
                "state_kib": states.get((task, method), math.nan),
            }  # fmt: skip
            (rows if name == task else further).append(row)
    if not rows:
        return None
    tasks = {row["task"] for row in rows}
    unlearned = [] if verdicts is None else [x for x in verdicts.not_learned if x in tasks]
    return Capabilities(pd.DataFrame(rows), pd.DataFrame(further), reference, unlearned)


def describe(scores: Scores, verdicts: Verdicts | None, method: str) -> str:
    """Return sentences on what a method can do on the diagnostic tasks; empty without any."""
    result = capabilities(scores, verdicts)
    return "" if result is None else str(result.describe(method)).removeprefix(f"{method}: ")


@register_section("capabilities")
class CapabilityProfile(Section):
    """Scores on diagnostic tasks, with simple rules and verdicts, depths and longer texts."""

    heading = "Capabilities"
    open = True
    by_family = True

    def blocks(self, part: Comparison) -> Sequence[Block]:
        """Return the profile, sentences on the methods, and figures of further test sets."""
        result = _capabilities(part)
        if result is None:
            return []
        others = [name for name in result.methods if name != result.reference]
        stateless = [name for name in result.methods if result.of(name)["state_kib"].isna().all()]
        styles = {x: style for x, style in part.report.styles.items() if x in result.methods}
        points = _states(result, part)
        return blocks(
            "capabilities.jinja",
            capabilities=result,
            described=[result.describe(name) for name in others[:_MOST_DESCRIBED]],
            more=max(0, len(others) - _MOST_DESCRIBED),
            profile=profile_picture(result.table),
            levels=f"{LEVELS[0].lower()}{LEVELS[1:]}",
            known_states=bool(result.table["state_kib"].notna().any()),
            marks=MARKS,
            constant=bool(result.table["reason"].eq(NOT_VARYING).any()),
            needed=f"{100 * NEEDED:.0f}",
            tasks=_tasks(result),
            further=profile_picture(result.further, "further", _FURTHER)
            if len(result.further)
            else None,
            states=_state_picture(points, {x: styles[x] for x in styles if x not in stateless}),
            dotted=any(point.score.kind == RANGE for scored in points.values() for point in scored),
            stateless=stateless,
        )

    def tables(self, part: Comparison) -> Mapping[str, pd.DataFrame]:
        """Return the scores with those of simple rules, level and verdict."""
        result = _capabilities(part)
        return {} if result is None else {"capabilities": result.table}


def _capabilities(part: Comparison) -> Capabilities | None:
    return capabilities(part.scores, part.verdicts, part.runs if part.results else None)


def _tasks(result: Capabilities) -> Table:
    """Return the tasks with the scores of simple rules and of the reference."""
    columns = [Column("Task", "head"), Column("Isolates", "words")]
    columns += [Column("Chance", "number"), Column("Simple rule", "number")]
    reference: dict[str, str] = {}
    if result.reference is not None:
        columns.append(Column(result.reference, "number"))
        reference = {row.task: f"{row.score:.1f}" for row in rows_of(result.of(result.reference))}
    rows = []
    for row in rows_of(result.table.drop_duplicates("task")):
        cells = [row.task, known_diagnostic(row.task).isolates]
        cells += [f"{row.chance:.1f}", f"{row.rule:.1f}", reference.get(row.task, "")]
        rows.append(Row(cells[: len(columns)]))
    return Table("Table: diagnostic tasks", columns, rows)


def profile_picture(
    table: pd.DataFrame,
    name: str = "capabilities",
    title: str = "Scores on diagnostic tasks, shaded from a simple rule to a perfect score.",
) -> Picture:
    """Return a heat map of methods and tasks with the score of each cell, and its verdict.

    Args:
        table: `Capabilities.table` or `Capabilities.further`. The shade is the share of the way
            from a simple rule to a perfect score; a missing cell stays empty. The largest state of
            a method stands next to its name. The last rows show what needs no learning.
        name: Name of the picture's file.
        title: Its alternative text.

    Example:
        >>> row = {"task": "count", "method": "relation", "score": 97.5, "rule": 15.0,
        ...        "chance": 14.0, "share": 0.97, "verdict": "no worse", "state_kib": 0.13}
        >>> alt = profile_picture(pd.DataFrame([row])).panels[0].alt
        >>> for part in alt.split("; "):
        ...     print(part)
        Scores by method and task: relation, 0.13 KiB: count 98 (no worse)
        best simple rule: count 15
        most frequent label: count 14.
    """
    tasks = table.drop_duplicates("task")
    untrained = [
        tasks.assign(method=name, score=tasks[column], share=0.0, verdict="", state_kib=math.nan)
        for column, name in (("rule", "best simple rule"), ("chance", "most frequent label"))
    ]
    table = pd.concat([table, *untrained])
    columns = [*tasks["task"]]
    descriptions: dict[str, list[str]] = {}
    words: dict[tuple[int, int], str] = {}
    for place, (method, group) in enumerate(table.groupby("method", sort=False)):
        kib = group["state_kib"].max()
        row_name = f"{method}" if math.isnan(kib) else f"{method}, {kib:.2g} KiB"
        for row in rows_of(group):
            mark = MARKS.get(row.verdict, "")
            words[place, columns.index(row.task)] = f"{row.score:.0f}" + (mark and f"\n{mark}")
            verdict = row.verdict and f" ({row.verdict})"
            descriptions.setdefault(row_name, []).append(f"{row.task} {row.score:.0f}{verdict}")
    shares = table.pivot(index="method", columns="task", values="share")
    shares = shares.reindex(index=table["method"].unique(), columns=columns)
    alt = "; ".join(f"{method}: {', '.join(cells)}" for method, cells in descriptions.items())
    left, bottom = (0.3 + _LETTER * max(map(len, names)) for names in (descriptions, columns))
    draw = partial(_draw_cells, shares.to_numpy(), words, [*descriptions], columns)
    size = (left + _CELL * len(columns) + 0.1, 0.3 + _CELL * len(descriptions) + bottom)
    panel = Panel("", f"Scores by method and task: {alt}.", draw)
    return Picture(name, title, [panel], size, left=left, bottom=bottom)


def _draw_cells(
    shares: np.ndarray,
    words: Mapping[tuple[int, int], str],
    rows: Sequence[str],
    columns: Sequence[str],
    ax: Axes,
) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    down, across = shares.shape
    shades = LinearSegmentedColormap.from_list("shades", [f"{SHADE}00", f"{SHADE}80"])
    # In steps, so that the file is small; text stays legible in the colors of both pages.
    ax.pcolormesh(np.ceil(10 * shares.clip(0, 1)) / 10, cmap=shades, vmin=0, vmax=1)
    ax.set(xlim=(0, across), ylim=(down, 0))
    ax.set_aspect("equal", anchor="NW")
    ax.spines[:].set_visible(True)
    ax.set_xticks(np.arange(across) + 0.5, columns, fontsize=8, rotation=90)
    ax.set_yticks(np.arange(down) + 0.5, rows, fontsize=8)
    ax.tick_params(length=0)
    for (row, column), text in words.items():
        ax.text(column + 0.5, row + 0.5, text, fontsize=8, ha="center", va="center")


def _states(result: Capabilities, part: Comparison) -> dict[str, list[Point]]:
    """Return the scores on tasks of several sizes, with the size of the state, in points."""
    scores = part.scores
    points: dict[str, list[Point]] = {}
    lost = collapsed_networks(scores, part.collapsed)
    for task in result.tasks:
        rows = result.table[(result.table["task"] == task) & result.table["state_kib"].notna()]
        if known_diagnostic(task).amount is not None and len(rows) > 1:
            factor = 100 / (scores.factor(task) * perfect_score(scores))
            for row in rows_of(rows):
                samples = [scores.by_network[task][row.method]]
                mean = mean_of(samples, collapsed=(task, row.method) in lost)
                value, low, high = (factor * x for x in mean[:3])
                score = MeanScore(value, low, high, mean.kind)
                points.setdefault(task, []).append(Point(row.method, [row.state_kib], score))
    return points


def _state_picture(
    points: Mapping[str, Sequence[Point]], styles: Mapping[str, Style]
) -> Picture | None:
    panels: list[Panel] = []
    for task, shown in points.items():
        noun, size = known_diagnostic(task).amount or ("", 0)
        title = f"{task}: {size:,} {noun}"
        label = "state size, KiB"
        panels.append(score_panel(title, shown, label, "points", styles, limits=_LIMITS))
    title = "Scores against the size of the state, by task and method."
    return score_picture("score-state", title, panels, styles) if panels else None
