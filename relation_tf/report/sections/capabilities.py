"""Section on diagnostic tasks: what each method can and cannot do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from relation_tf.registry import register_section
from relation_tf.report.blocks import (
    Block,
    Bullets,
    Column,
    Figure,
    Paragraph,
    Row,
    Section,
    Table,
    figure_with_note,
)
from relation_tf.report.capabilities import LEVELS, Capabilities, capabilities
from relation_tf.report.comparisons import rows_of
from relation_tf.report.context import ReportContext
from relation_tf.report.learned import NEEDED, known_diagnostic, perfect_score
from relation_tf.report.pictures.capabilities import (
    MARKS,
    depth_picture,
    longer_picture,
    profile_picture,
    state_panel,
)
from relation_tf.report.pictures.drawing import Picture
from relation_tf.report.pictures.trade_offs import DOTTED, Point, score_picture
from relation_tf.report.trade_offs import collapsed_networks, mean_of
from relation_tf.report.verdicts import NOT_VARYING
from relation_tf.words import count, listed

_DEPTHS = (
    "Depths: score by the length of the text and the place of the only symbol, 0 %: at the start."
)
_LONGER = (
    "Longer texts: score on texts that are longer than in training. The line without "
    "markers is the best simple rule."
)
_STATE_FIGURE = (
    "Scores against state size: the mean with its 95 % interval, cut at 0 and 100, against the "
    "size of the state on the task."
)
_MOST_DESCRIBED = 6  # methods with a paragraph
_STATES = (
    "KiB: size of the state of the causal form after the longest text of these tasks; attention "
    "keeps all tokens. The heat map has the largest size over these tasks, the figure of scores "
    "against state size that of each task."
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
        said = [f"{name}: {' '.join(found.sentences(name))}" for name in others[:_MOST_DESCRIBED]]
        if left := len(others) - len(said):
            said.append(f"{count(left, 'more method')}: see capabilities.csv.")
        pictures = {
            _DEPTHS: depth_picture(_depths(found)),
            _LONGER: longer_picture(_longer(found), context.styles),
        }
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
    if found.table["reason"].eq(NOT_VARYING).any():
        yield f"A verdict is also inconclusive where the {NOT_VARYING}."
    if found.not_learned:
        yield (
            f"No verdicts on {listed(found.not_learned)}: {found.reference} itself does not "
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
        panels.append(state_panel(f"{task}: {number:,} {noun}", points, context.styles, task))
    title = "Scores against the size of the state, by task and method."
    stateless = _stateless(found)
    look = {name: style for name, style in context.styles.items() if name in found.methods}
    look = {name: style for name, style in look.items() if name not in stateless}
    note = [_STATE_FIGURE, DOTTED] if dotted else [_STATE_FIGURE]
    if stateless:
        note.append(f"Not drawn, because no state is known: {listed(stateless)}.")
    yield from _figures({" ".join(note): score_picture("score-state", title, panels, look)})


def _stateless(found: Capabilities) -> list[str]:
    """Return the methods without a known state."""
    return [name for name in found.methods if found.of(name)["state_kib"].isna().all()]


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


def _figures(pictures: Mapping[str, Picture | None]) -> Iterator[Block]:
    for note, picture in pictures.items():
        legend = None if picture is None else picture.legend
        yield from figure_with_note(picture, note, legend)
