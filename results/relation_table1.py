"""Write the page on the Relation paper's Table 1: `python results/relation_table1.py`.

Reads scores.csv, factors.csv, samples.csv and submissions.csv of relation/. Writes the
tables into README.md of that folder between their markers, and the figure table1.svg.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import relation_table1_data as table1
from matplotlib.axes import Axes
from relation_table1_data import LIMITS, MARGIN, RIVALS, ROUNDING, SETTING, UNITS, Data
from reproduced import insert

from relation_tf.report.drawing import Panel, Picture, Style, styles
from relation_tf.words import GLUE_AVERAGE, count, pvalue_only, signed, spread


def conclusion(tested: pd.DataFrame, compared: pd.DataFrame) -> str:
    """Return one sentence: does the paper's conclusion hold?"""
    pairs = tested[["a", "b"]]
    own = tested[pairs.eq("relation").any(axis=1) & pairs.isin(["relation", *RIVALS]).all(axis=1)]
    below, above = own[own["ours"].isin(RIVALS)], own[own["ours"] == "relation"]
    close = compared["verdict"].isin(["better", "no worse"])
    if len(below):
        answer = "In part" if 2 * len(below) < len(own) else "No"
    else:
        answer = "Yes" if close.all() else "Not contradicted"
    where = "; ".join(f"{row.ours}, {row.units} units, {row.task}" for row in below.itertuples())
    verdicts = compared["verdict"].value_counts()
    return (
        "Does the paper's conclusion hold, that Relation is better than or comparable to attention "
        f"and linear attention? **{answer}**: of {len(own)} tests of Relation against the two "
        f"(GLUE average on dev sets, AX with two classes; {count(own['units'].nunique(), 'size')}),"
        f" {len(above)} find it significantly better and {len(below)} significantly worse"
        f"{f' ({where})' if where else ''}. Verdicts on the average with a margin of {MARGIN:g} "
        f"point: {', '.join(f'{verdicts[name]} {name}' for name in verdicts.index)}."
    )


def picture(found: pd.DataFrame) -> Picture:
    """Return the figure of both tables: a panel per task and metric, sizes from left to right."""
    looks = styles([*found["mechanism"].unique()])
    panels = []
    for (task, metric), own in found.groupby(["task", "metric"], sort=False):
        names = own["mechanism"] + "-" + own["units"].astype(str)
        pairs = zip(names, own["mean"], own["paper"], strict=True)
        values = ", ".join(f"{name} {mean:.1f} (paper {paper:.1f})" for name, mean, paper in pairs)
        panels.append(Panel(f"{task}, {metric}", f"{task}, {metric}: {values}.", _draw(own, looks)))
    alt = "Published and our scores on test sets by task, size and mechanism"
    return Picture("table1", alt, panels, (5.7, 1.7), left=0.45, legend=looks)


def _draw(found: pd.DataFrame, looks: Mapping[str, Style]) -> Callable[[Axes], None]:
    def draw(ax: Axes) -> None:
        for place, (name, own) in enumerate(found.groupby("mechanism", sort=False)):
            x = np.arange(len(UNITS)) + 0.22 * (place - 1.5)
            shown = {**looks[str(name)].mark, "markersize": 5, "markeredgewidth": 0.9}
            ax.errorbar(x - 0.04, own["paper"], 2 * own["paper_sd"], **shown, mfc="none")
            ax.errorbar(x + 0.04, own["mean"], own["sd"], **shown)
        ax.set_xticks(range(len(UNITS)), [f"{units} units" for units in UNITS])
        ax.grid(axis="y")

    return draw


def _markdown(table: pd.DataFrame) -> str:
    """Return a table with numbers on the right of their columns, or that it was not run."""
    if table.empty:
        return "Not run yet."
    texts = table.astype(str)
    rules = ["---" if texts[name].str[:1].str.isalpha().any() else "---:" for name in texts]
    lines = [[*texts.columns], rules, *texts.to_numpy().tolist()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _shown(found: pd.DataFrame) -> pd.DataFrame:
    """Return `task` with its metric if it has several, `mechanism`, `units`, `ours` and `paper`."""
    several = found.groupby("task")["metric"].transform("nunique") > 1
    task = found["task"] + (", " + found["metric"]).where(several, "")
    ours, paper = (
        [spread(*values) for values in found[names].to_numpy()]
        for names in (["mean", "sd"], ["paper", "paper_sd"])
    )
    shown = found.assign(task=task, ours=ours, paper=paper)
    return shown[["task", "mechanism", "units", "ours", "paper"]]


def _intervals(found: pd.DataFrame, names: Sequence[str] = LIMITS) -> list[str]:
    """Return texts such as `+0.5 (−0.1 to +1.1)`, bold if the interval excludes 0."""
    texts = []
    for value, low, high in found[[*names]].to_numpy():
        text = f"{signed(value, 1)} ({signed(low, 1)} to {signed(high, 1)})"
        texts.append(f"**{text}**" if low > 0 or high < 0 else text)
    return texts


def _wide(shown: pd.DataFrame, values: Sequence[str], column: str) -> pd.DataFrame:
    """Return a table with a column for each value of a column, in the order of appearance.

    Cells without a value are empty.
    """
    place = [name for name in shown if name not in (column, *values)]
    table = shown.pivot_table([*values], place, column, "first", sort=False)
    table = table[[*product(values, shown[column].unique())]]
    table.columns = [" ".join(map(str, names)).strip() for names in table.columns]
    return table.reset_index().fillna("")


def _show_cells(found: pd.DataFrame, outside: pd.DataFrame) -> str:
    total, unexplained = len(found), (outside["explanation"] == "unexplained").sum()
    exact, rounded = (table1.submissions_within(found, allowed) for allowed in (0, ROUNDING))
    table = _shown(found).assign(
        submission=found["submission"].map("{:.1f}".format),
        z=found["z"].map(signed),
        **{"explained by": outside["explanation"].reindex(found.index).fillna("")},
    )
    return (
        f"{found['within'].sum()} of {total} cells have |z| ≤ 2 ({100 * found['within'].mean():.0f}"
        f" %). Outside: {count(len(outside), 'cell')}, {unexplained} unexplained. Of the authors' "
        f"submissions, {exact} of {total} are within two of the paper's SDs of its mean, and "
        f"{rounded} with {ROUNDING:g} points allowed for rounding.\n\n{_markdown(table)}"
    )


def _show_dev(found: pd.DataFrame) -> str:
    names = {"ours": "ours (dev),", "paper": "paper (test),"}
    deviation = np.hypot(found["sd"], found["paper_sd"])
    distance = table1.z_scores(found["mean"] - found["paper"], deviation)
    outside = found[~table1.is_within(distance)].groupby(["task", "metric"], sort=False).size()
    counts = ", ".join(f"{' '.join(name)} {cells}" for name, cells in outside.items())
    table = _markdown(_wide(_shown(found).rename(columns=names), [*names.values()], "units"))
    return f"{table}\n\n{outside.sum()} of {len(found)} cells have |z| > 2: {counts}."


def _show_averages(found: pd.DataFrame) -> str:
    average, ax = (found[found["task"] == task] for task in (GLUE_AVERAGE, "AX"))
    names = {"ours": "average, ours (dev)", "paper": "average, paper (test)"}
    table = _shown(average).drop(columns="task").rename(columns=names).reset_index(drop=True)
    own = _shown(ax).reset_index(drop=True)
    table["AX, ours (two classes)"] = own["ours"]
    table["AX, submission (two classes)"] = ax["submission"].map("{:.1f}".format).to_numpy()
    table["AX, paper (three classes)"] = own["paper"]
    return _markdown(table)


def _show_claims(tested: pd.DataFrame, compared: pd.DataFrame) -> str:
    claimed = tested["claimed"].notna()
    counts = tested[claimed]["verdict"].value_counts().items()
    verdicts = ", ".join(f"{verdict} {number}" for verdict, number in counts)
    differing = (tested[~claimed]["verdict"] != "not significant").sum()
    table = tested[["task", "units"]].assign(
        pair=tested["a"] + ", " + tested["b"],
        paper=(tested["claimed"] + " higher").fillna("not significant"),
        ours=(tested["ours"] + " higher").fillna("not significant"),
        p=tested["pvalue"].map(pvalue_only),
    )
    margins = compared[["units", "rival", "verdict"]]
    margins.insert(2, "Relation − rival", _intervals(compared))
    return (
        f"The paper claims {claimed.sum()} significant differences. In our runs: {verdicts}. Of "
        f"{(~claimed).sum()} other pairs, {differing} differ significantly in our runs.\n\n"
        f"{_markdown(table)}\n\nGLUE average, with a margin of {MARGIN:g} point:\n\n"
        f"{_markdown(margins)}"
    )


def _show_growth(found: pd.DataFrame) -> str:
    columns = {"ours (dev)": _intervals(found), "paper (test)": found["paper"].map(signed)}
    return _markdown(found[["mechanism"]].assign(**columns))


def _show_effects(effect: pd.DataFrame, pooled: pd.DataFrame) -> str:
    every = pd.concat([effect, pooled.assign(task="mean of tasks", metric="")])
    table = every[["factor", *SETTING]].assign(shown=_intervals(every))
    return _markdown(_wide(table.rename(columns={"shown": ""}), [""], "factor"))


def _show_samples(found: pd.DataFrame) -> str:
    predicted = [
        f"{value:.1f} ({low:.1f} to {high:.1f})"
        for value, low, high in found[["predicted", "low", "high"]].to_numpy()
    ]
    columns = {
        "points per doubling": _intervals(found, ["slope", "slope_low", "slope_high"]),
        "doublings to all rows": found["doublings"].map("{:.1f}".format),
        "extrapolated (dev)": predicted,
        "paper (test)": found["paper"].map("{:.1f}".format),
    }
    return _markdown(found[["task", "mechanism"]].assign(**columns))


def _show_duplicates(found: pd.DataFrame) -> str:
    shown = _shown(found).assign(share=found["share"].map("{:.3g}".format))
    names = {"ours": "", "paper": "paper (test)"}
    return _markdown(_wide(shown.rename(columns=names), [""], "share"))


def page(data: Data) -> dict[str, str]:
    """Return the sentences and tables of the page, by marker."""
    runs, paper, submissions = data.runs, data.paper, data.submissions
    found, effect = table1.cells(runs, paper, submissions), table1.effects(runs, data.factors)
    tested, compared = table1.claims(runs, data.published), table1.rivals(runs)
    return {
        "conclusion": f"{conclusion(tested, compared)}\n\n![{picture(found).alt}](table1.svg)",
        "cells": _show_cells(found, table1.explained(found, effect)),
        "dev": _show_dev(table1.dev_cells(runs, paper)),
        "averages": _show_averages(table1.averages(runs, paper, submissions)),
        "claims": _show_claims(tested, compared),
        "growth": _show_growth(table1.growth(runs, paper)),
        "effects": _show_effects(effect, table1.pooled_effects(runs, data.factors)),
        "samples": _show_samples(table1.samples(runs, data.smaller, paper)),
        "duplicates": _show_duplicates(table1.duplicates(runs, paper)),
    }


def outputs() -> dict[Path, str]:
    """Return the page and the figure."""
    data = table1.read_data()
    readme, figure = table1.FOLDER / "README.md", table1.FOLDER / "table1.svg"
    text = readme.read_text("utf-8")
    for name, table in page(data).items():
        text = insert(text, table, f"<!-- begin: python results/relation_table1.py, {name} -->")
    found = table1.cells(data.runs, data.paper, data.submissions)
    return {readme: text, figure: picture(found).svg()}


def main() -> None:
    """Write the page and the figure."""
    try:
        written = outputs()
    except ValueError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    for path, text in written.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
