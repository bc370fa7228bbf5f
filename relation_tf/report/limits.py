"""Limits of a page: the first rows, columns, panels and items, with a note on the rest.

Complete tables are in the CSV files. The limits are above the size of usual reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import pandas as pd

from relation_tf.report.blocks import Block, Bullets, Figure, Folded, Paragraph, Row, Table
from relation_tf.words import first_of

MOST_ROWS = 300  # of a table
MOST_COLUMNS = 60  # of a table
MOST_PANELS = 40  # of a figure
MOST_ITEMS = 60  # of a list, and collapsed parts of a section


def limited(blocks: Iterable[Block]) -> list[Block]:
    """Return the blocks of a section with at most as much as a page can show.

    What is left out is named in a note after the block.
    """
    shown: list[Block] = []
    for block in blocks:
        if isinstance(block, Table):
            shown += _limited_table(block)
        elif isinstance(block, Figure) and len(block.picture.panels) > MOST_PANELS:
            first = block.picture.panels[:MOST_PANELS]
            shown.append(replace(block, picture=replace(block.picture, panels=first)))
            shown.append(_note(first_of(MOST_PANELS, len(block.picture.panels), "panels")))
        elif isinstance(block, Bullets) and len(block.items) > MOST_ITEMS:
            more = f"{len(block.items) - MOST_ITEMS:,} more are not shown here."
            shown.append(replace(block, items=[*block.items[:MOST_ITEMS], more]))
        elif isinstance(block, Folded):
            shown.append(replace(block, blocks=limited(block.blocks)))
        else:
            shown.append(block)
    folded = [block for block in shown if isinstance(block, Folded)]
    if len(folded) > MOST_ITEMS:
        left_out = folded[MOST_ITEMS:]
        shown = [block for block in shown if not any(block is each for each in left_out)]
        shown.append(_note(first_of(MOST_ITEMS, len(folded), "parts")))
    return shown


def most_significant(pvalues: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return the rows of the pairs to list, and a note if these are not all pairs.

    Of more pairs than a table has rows, those with the smallest p are listed, the smallest first.

    Args:
        pvalues: Rows of pairs by task, with columns `a`, `b`, `pvalue` and `statistic`.
    """
    best = (
        pvalues.assign(size=-pvalues["statistic"].abs())
        .groupby(["a", "b"], sort=False)[["pvalue", "size"]]
        .min()
    )
    if len(best) <= MOST_ROWS:
        return pvalues, ""
    first = best.sort_values(["pvalue", "size"], kind="stable").index[:MOST_ROWS]
    places = pd.Series(range(MOST_ROWS), index=first)
    place = places.reindex(pd.MultiIndex.from_frame(pvalues[["a", "b"]])).to_numpy()
    rows = pvalues.assign(place=place).dropna(subset="place").sort_values("place", kind="stable")
    said = f"the {MOST_ROWS} of {len(best):,} pairs with the smallest p"
    return rows.drop(columns="place"), said


def _limited_table(table: Table) -> Iterator[Block]:
    groups, columns, paper, notes = table.groups, table.columns, table.paper, []
    total = sum(map(len, groups.values()))
    if total > MOST_ROWS:
        groups = _first_rows(groups)
        notes.append(first_of(MOST_ROWS, total, "rows"))
    if len(columns) > MOST_COLUMNS:
        groups = {
            task: [replace(row, cells=row.cells[:MOST_COLUMNS]) for row in own]
            for task, own in groups.items()
        }
        notes.append(first_of(MOST_COLUMNS, len(columns), "columns"))
        columns = columns[:MOST_COLUMNS]
    if notes and paper is not None:
        paper = replace(paper, caption=f"{paper.caption} Shown: {' and '.join(notes)}.")
    rows = groups if isinstance(table.rows, Mapping) else groups[""]
    yield replace(table, columns=columns, rows=rows, paper=paper)
    if notes:
        yield _note(" and ".join(notes))


def _first_rows(groups: Mapping[str, Sequence[Row]]) -> dict[str, Sequence[Row]]:
    left, rows = MOST_ROWS, {}
    for task, own in groups.items():
        if left > 0:
            rows[task] = own[:left]
        left -= len(own)
    return rows


def _note(what: str) -> Paragraph:
    return Paragraph(f"Shown: {what}. All are in the CSV files.", "note")
