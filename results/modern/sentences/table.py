"""Print scores with verdicts against attention, and chosen learning rates, as Markdown.

`python results/modern/sentences/table.py FOLDER`, where FOLDER has the tables of a report on the
suite `modern`, and its suite with the tuned learning rates. Scores are in points.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

from relation_tf.config import load_suite

SIGNS = {"better": "+", "no worse": "=", "worse": "−", "inconclusive": "?"}

folder = Path(sys.argv[1])
suite = load_suite(str(folder / "suite.toml"))
scores = pd.read_csv(folder / "scores.csv")
verdicts = pd.read_csv(folder / "verdicts.csv").set_index(["task", "method"])
rates = {(own.task, own.method): own.settings["learning_rate"] for own in suite.tuned}
points = 100 * scores.groupby(["task", "method"])["value"].agg(["mean", "std"])
tasks = suite.tasks
mean = [task for task in verdicts.index.unique("task") if task not in tasks]

columns = [*(f"{task} | learning rate" for task in tasks), *mean]
print("| mechanism |", " | ".join(columns), "|")
print("| --- |", " | ".join(["---:"] * (2 * len(tasks) + len(mean))), "|")
for method in dict.fromkeys(scores["method"]):
    cells = [method]
    for task in tasks:
        sign = "" if method == suite.reference else SIGNS[verdicts.loc[task, method]["verdict"]]
        own = points.loc[task, method]
        cells += [f"{own['mean']:.1f} ± {own['std']:.1f} {sign}".strip()]
        cells += [f"{rates[task, method]:g}"]
    for task in mean if method != suite.reference else ():
        own = verdicts.loc[task, method]
        difference = f"{own['difference']:+.1f} ({own['low']:.1f} to {own['high']:.1f})"
        cells += [f"{difference.replace('-', '−')} {SIGNS[own['verdict']]}"]
    if method == suite.reference:
        cells += [""] * len(mean)
    print("|", " | ".join(cells), "|")
