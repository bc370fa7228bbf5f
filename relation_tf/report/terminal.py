"""A report in a terminal: means, findings, warnings and, last, verdicts."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from relation_tf.files import align, align_within
from relation_tf.report.blocks import Table
from relation_tf.report.data import ReportData, named
from relation_tf.report.sections.answer import verdict_table
from relation_tf.report.standings import standings
from relation_tf.words import first_of, number

_MOST_LINES = 40  # of a table


def terminal(data: ReportData) -> str:
    """Return the means, findings, warnings and verdicts, in short."""
    width = min(100, _columns())
    fill = partial(
        textwrap.fill, width=width, subsequent_indent="  ", break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
    bullets = [fill(str(each), initial_indent="- ") for each in data.brief_answer]
    warnings = [
        fill(
            f"Warning: {_first_sentences(str(each), 2 * width)}",
            max_lines=4,
            placeholder=" ... (More in the report.)",
        )
        for each in data.warnings
    ]
    # What matters most is last: a terminal scrolls the rest away.
    directions = [fill(said)] if (said := data.scores.stated_directions) else []
    return "\n".join([*_means(data), *directions, *bullets, *warnings, *_verdicts(data, fill)])


def _verdicts(data: ReportData, fill: Callable[[str], str]) -> list[str]:
    """Return headline, caveats and table of verdicts; nothing without a reference."""
    lines = []
    for family, part in data.comparisons.items():
        if part.verdicts is not None and part.headline is not None:
            table = verdict_table(part)
            lines += [
                "",
                fill(str(named(family, part.headline))),
                *map(fill, map(str, part.caveats)),
            ]
            lines += [] if table is None else ["", *_without_costs(table)]
    return lines


def _means(data: ReportData) -> list[str]:
    if not data.cells:
        return []
    # Of a suite that is not finished, only what has scores.
    known = {name for name, _ in data.cells}
    methods = [name for name in data.drawn if name in known]
    rows, tested = [["", *methods]], {name for _, name in data.cells}
    columns = {task: own for task, own in data.columns.items() if task in tested}
    for task, metrics in [*columns.items()][:_MOST_LINES]:
        cells = [data.cells.get((method, task)) for method in methods]
        notes = [metrics] if metrics else []
        notes += ["lower is better"] if task in data.scores.lower_is_better else []
        label = f"{task} ({', '.join(notes)})" if notes else task
        rows.append([label, *("-" if cell is None else cell.with_notes() for cell in cells)])
    rows += _mean_of_tasks(data, methods)
    if len(align(rows)[0]) > _columns():
        rows = [[*column] for column in zip(*rows, strict=True)]  # a row for each method
    limits = []
    if len(methods) < len(known):
        first = "the first {}" if data.mean_ranks.empty else "the {} best"
        limits.append(f"{first.format(len(methods))} of {len(known):,} methods")
    if len(columns) > _MOST_LINES:
        limits.append(first_of(_MOST_LINES, len(columns), "tasks"))
    note = f"Shown: {' and '.join(limits)}. All are in table.csv." if limits else ""
    return [*align_within(rows, _columns()), *([note] if note else []), ""]


def _mean_of_tasks(data: ReportData, methods: Sequence[str]) -> list[list[str]]:
    """Return a row with the mean over tasks, unless a suite has averages of its seeds."""
    scores, table = data.scores, standings(data.scores)
    tasks = len(table.attrs["tasks"])
    if scores.averages or tasks < 2 or table["mean"].isna().any():
        return []
    digits = scores.digits(scores.main_tasks[0])
    means = {str(name): number(mean, digits) for name, mean in table["mean"].items()}
    return [[f"mean of {tasks} tasks", *(means.get(name, "-") for name in methods)]]


def _without_costs(table: Table) -> list[str]:
    """Return the lines of a table of verdicts without the costs that the terminal has no room for.

    Reports have them.
    """
    rows = [row for own in table.groups.values() for row in own]
    table = replace(table, rows=rows[:_MOST_LINES])
    parts = "\n".join(table.lines(_columns())).split("\n\n")
    heads = [part.partition("\n")[0] for part in parts]
    last = next((i for i, head in enumerate(heads) if "Difference" in head), 0)
    lines = "\n\n".join(parts[: last + 1]).split("\n")
    if len(rows) > _MOST_LINES:
        shown = first_of(_MOST_LINES, len(rows), "methods")
        lines.append(f"Shown: {shown}. All are in verdicts.csv.")
    return lines


def _columns() -> int:
    """Return the width of the terminal, by default 100."""
    return max(60, shutil.get_terminal_size((100, 24)).columns)


def _first_sentences(text: str, most: int) -> str:
    """Return the first sentence and further ones up to a number of characters."""
    first, *others = re.split(r"(?<=[.]) (?=[A-Z])", text)
    for sentence in others:
        if len(first) + len(sentence) >= most:
            return f"{first} (More in the report.)"
        first += f" {sentence}"
    return first
