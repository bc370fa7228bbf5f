"""Section on diagnostic tasks: what each method can and cannot do."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pandas as pd

from relation_tf.registry import register_section
from relation_tf.report.blocks import Block, Column, Row, Section, Table, blocks
from relation_tf.report.capabilities import LEVELS, Capabilities, capabilities
from relation_tf.report.comparison import Comparison
from relation_tf.report.comparisons import rows_of
from relation_tf.report.learned import NEEDED, known_diagnostic, perfect_score
from relation_tf.report.pictures.capabilities import (
    MARKS,
    depth_picture,
    longer_picture,
    profile_picture,
    state_panel,
)
from relation_tf.report.pictures.drawing import Panel, Picture
from relation_tf.report.pictures.trade_offs import Point, score_picture
from relation_tf.report.trade_offs import collapsed_networks, mean_of
from relation_tf.report.verdicts import NOT_VARYING

_MOST_DESCRIBED = 6  # methods with a paragraph


@register_section("capabilities")
class CapabilityProfile(Section):
    """Scores on diagnostic tasks, with simple rules and verdicts, depths and longer texts."""

    heading = "Capabilities"
    open = True
    by_family = True

    def blocks(self, part: Comparison) -> Sequence[Block]:
        """Return the profile, sentences on the methods, and figures of further test sets."""
        found = _found(part)
        if found is None:
            return []
        others = [name for name in found.methods if name != found.reference]
        stateless = [name for name in found.methods if found.of(name)["state_kib"].isna().all()]
        states, dotted = _states(found, part, stateless)
        return blocks(
            "capabilities.jinja",
            found=found,
            described=[found.describe(name) for name in others[:_MOST_DESCRIBED]],
            more=max(0, len(others) - _MOST_DESCRIBED),
            profile=profile_picture(found.table),
            levels=f"{LEVELS[0].lower()}{LEVELS[1:]}",
            known_states=bool(found.table["state_kib"].notna().any()),
            marks=MARKS,
            constant=bool(found.table["reason"].eq(NOT_VARYING).any()),
            needed=f"{100 * NEEDED:.0f}",
            tasks=_tasks(found),
            depths=depth_picture(_depths(found)),
            longer=longer_picture(_longer(found), part.report.styles),
            states=states,
            dotted=dotted,
            stateless=stateless,
        )

    def tables(self, part: Comparison) -> Mapping[str, pd.DataFrame]:
        """Return the scores with those of simple rules, level and verdict."""
        found = _found(part)
        return {} if found is None else {"capabilities": found.table}


def _found(part: Comparison) -> Capabilities | None:
    runs = None if part.results is None else part.runs
    return capabilities(part.scores, part.verdicts, runs)


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


def _states(
    found: Capabilities, part: Comparison, stateless: Sequence[str]
) -> tuple[Picture | None, bool]:
    """Return the scores on tasks of several sizes against the size of the state.

    And whether some of them have a range over seeds instead of an interval.
    """
    panels: list[Panel] = []
    dotted = False
    for task in found.tasks:
        amount = known_diagnostic(task).amount
        own = found.table[(found.table["task"] == task) & found.table["state_kib"].notna()]
        if amount is None or len(own) < 2:
            continue
        intervals = _intervals(part, task)
        points = [
            Point(row.method, [row.state_kib], row.score, *intervals[row.method])
            for row in rows_of(own)
        ]
        dotted |= any(point.seeds is not None for point in points)
        noun, number = amount
        panels.append(state_panel(f"{task}: {number:,} {noun}", points, part.report.styles, task))
    look = {
        name: style
        for name, style in part.report.styles.items()
        if name in found.methods and name not in stateless
    }
    title = "Scores against the size of the state, by task and method."
    return score_picture("score-state", title, panels, look), dotted


def _intervals(
    part: Comparison, task: str
) -> Mapping[str, tuple[float, tuple[float, float] | None]]:
    """Return half of the 95 % interval of each method's mean, or its range, in points."""
    scores = part.scores
    lost = collapsed_networks(scores, part.collapsed)
    points = 100 / (scores.factor(task) * perfect_score(scores))
    means = {
        name: mean_of([own], collapsed=(task, name) in lost)
        for name, own in scores.by_network[task].items()
    }
    return {
        name: (points * own.half, own.seeds and (points * own.low, points * own.high))
        for name, own in means.items()
    }
