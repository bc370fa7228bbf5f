"""Section on diagnostic tasks: what each method can and cannot do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from relation_tf.registry import register_section
from relation_tf.report.answer import in_words
from relation_tf.report.blocks import Block, Bullets, Column, Figure, Paragraph, Row, Section, Table
from relation_tf.report.capabilities import LEVELS, Capabilities, capabilities
from relation_tf.report.comparisons import rows_of
from relation_tf.report.context import ReportContext
from relation_tf.report.learned import NEEDED, known_diagnostic, perfect_score
from relation_tf.report.pictures.capabilities import (
    MARKS,
    depth_picture,
    longer_picture,
    profile_picture,
)
from relation_tf.report.pictures.drawing import Picture
from relation_tf.report.pictures.trade_offs import DOTTED, Point, score_panel, score_picture
from relation_tf.report.trade_offs import collapsed_networks, mean_of
from relation_tf.stats.presentation import count

_MOST_DESCRIBED = 6  # methods with a paragraph
_STATES = (
    "KiB: size of the state of the causal form after the longest text of these tasks; attention "
    "keeps all tokens."
)


@register_section("capabilities")
class CapabilityProfile(Section):
    """Scores on diagnostic tasks, with simple rules and verdicts, depths and longer texts."""

    heading = "Capabilities"
    open = True
    by_family = True

    def blocks(self, context: ReportContext) -> Sequence[Block]:
        """Return the profile, sentences on the methods, and figures of further test sets."""
        found = _found(context)
        if found is None:
            return []
        others = [name for name in found.methods if name != found.reference]
        said = [f"{name}: {' '.join(found.in_words(name))}" for name in others[:_MOST_DESCRIBED]]
        if left := len(others) - len(said):
            said.append(f"{count(left, 'more method')}: see capabilities.csv.")
        pictures = [
            depth_picture(_depths(found)),
            longer_picture(_longer(found), context.styles),
        ]
        return [
            Bullets(said),
            Figure(profile_picture(found.table)),
            Paragraph(" ".join(_note(found)), "note"),
            _tasks(found),
            *_figures(pictures),
            *_states(found, context),
        ]

    def tables(self, context: ReportContext) -> Mapping[str, pd.DataFrame]:
        """Return the scores with those of simple rules, level and verdict."""
        found = _found(context)
        return {} if found is None else {"capabilities": found.table}


def _found(context: ReportContext) -> Capabilities | None:
    runs = None if context.results is None else context.runs
    return capabilities(context.scores, context.verdicts, runs)


def _note(found: Capabilities) -> Iterator[str]:
    yield f"Shade: {LEVELS[0].lower()}{LEVELS[1:]}"
    if found.table["state_kib"].notna().any():
        yield _STATES
    if found.reference is None:
        return
    marks = ", ".join(f"{mark} {verdict}" for verdict, mark in MARKS.items())
    yield f"Verdicts against {found.reference}: {marks}."
    if found.not_learned:
        yield (
            f"No verdicts on {in_words(found.not_learned)}: {found.reference} itself does not "
            f"reach {100 * NEEDED:.0f} % of the distance within these epochs."
        )


def _tasks(found: Capabilities) -> Table:
    """Return the tasks with the scores of simple rules and of the reference."""
    columns = [Column("Task", "head"), Column("Isolates", "words")]
    columns += [Column("Chance", "number"), Column("Simple rule", "number")]
    reference: dict[str, str] = {}
    if found.reference is not None:
        columns.append(Column(found.reference, "number"))
        own = found.of(found.reference)
        scores = own["score"].map("{:.1f}".format)
        reference = dict(zip(own["task"], scores, strict=True))
    simple = found.table.drop_duplicates("task").set_index("task")[["chance", "rule"]]
    rows = []
    for task in found.tasks:
        cells = [task, known_diagnostic(task).isolates, *simple.loc[task].map("{:.1f}".format)]
        shown = [reference.get(task, "")] if found.reference is not None else []
        rows.append(Row([*cells, *shown], task=task))
    return Table("Table: diagnostic tasks", columns, rows)


def _depths(found: Capabilities) -> pd.DataFrame:
    """Return the scores by length and depth, see `depth_picture`."""
    return pd.DataFrame(
        [
            {**row, "length": known_diagnostic(row["of"]).length, "depth": int(match[1])}
            for row in found.further.to_dict("records")
            if (match := re.fullmatch(r"depth(\d+)", row["suffix"]))
        ]
    )


def _longer(found: Capabilities) -> pd.DataFrame:
    """Return the scores by relative length, see `longer_picture`."""
    rows = [
        {**row, "task": row["of"], "times": int(match[1])}
        for row in found.further.to_dict("records")
        if (match := re.fullmatch(r"(\d+)x", row["suffix"]))
    ]
    there = {row["task"] for row in rows}
    own = found.table[found.table["task"].isin(there)].assign(times=1)
    return pd.concat([own, pd.DataFrame(rows)], ignore_index=True)


def _states(found: Capabilities, context: ReportContext) -> Iterator[Block]:
    """Yield the scores on tasks of several sizes against the size of the state."""
    panels, dotted = [], False
    for task in found.tasks:
        amount = known_diagnostic(task).amount
        own = found.table[(found.table["task"] == task) & found.table["state_kib"].notna()]
        if amount is None or len(own) < 2:
            continue
        intervals = _intervals(context, task)
        points = [
            Point(row.method, [row.state_kib], row.score, *intervals[row.method])
            for row in rows_of(own)
        ]
        dotted |= any(point.seeds is not None for point in points)
        noun, number = amount
        panels.append(score_panel(
            f"{task}: {number:,} {noun}", points, [], "state size, KiB", "points", context.styles,
            spread="half of the 95 % interval", task=task,
        ))  # fmt: skip
    title = "Scores against the size of the state, by task and method."
    yield from _figures([score_picture("score-state", title, panels, context.styles)])
    if dotted:
        yield Paragraph(DOTTED, "note")


def _intervals(
    context: ReportContext, task: str
) -> Mapping[str, tuple[float, tuple[float, float] | None]]:
    """Return half of the 95 % interval of each method's mean, or its range, in points."""
    scores = context.scores
    lost = collapsed_networks(scores, context.collapsed)
    points = 100 / (scores.factor(task) * perfect_score(scores))
    means = {
        name: mean_of([own], collapsed=(task, name) in lost)
        for name, own in scores.by_network[task].items()
    }
    return {
        name: (points * own.half, own.seeds and (points * own.low, points * own.high))
        for name, own in means.items()
    }


def _figures(pictures: Sequence[Picture | None]) -> Iterator[Block]:
    for picture in pictures:
        if picture is not None:
            yield Figure(picture, picture.legend)
