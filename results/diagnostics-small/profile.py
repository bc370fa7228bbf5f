"""Print the scores of each mechanism on each task as a Markdown table, with verdicts."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

FOLDER = Path(__file__).parent
SIGNS = {"better": "+", "no worse": "=", "worse": "−", "inconclusive": "?"}

found = pd.read_csv(FOLDER / "capabilities.csv")
scores = pd.read_csv(FOLDER / "scores.csv")
spreads = 100 * scores.groupby(["task", "method"])["value"].std()
methods = [*dict.fromkeys(found["method"])]
print("| task | chance |", *(f"{method} |" for method in methods))
print("| --- | ---: |", "---: | " * len(methods))
for task, rows in found.groupby("task", sort=False):
    cells = [
        f"{row.score:.1f} ± {spreads[task, row.method]:.1f} {SIGNS.get(row.verdict, '')}".strip()
        for row in rows.itertuples()
    ]
    print(f"| {task} | {rows['chance'].iloc[0]:.1f} |", *(f"{cell} |" for cell in cells))
