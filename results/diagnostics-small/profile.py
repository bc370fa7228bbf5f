"""Print a summary of the mechanisms, and their scores on each task, as Markdown tables."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

FOLDER = Path(__file__).parent
SIGNS = {"better": "+", "no worse": "=", "inconclusive": "?", "worse": "−"}
TABLES = (
    ("majority", "count", "sort", "needle-16", "needle-64", "memorize-small", "compress-small"),
    ("mqar-32-2-v32", "mqar-32-4-v32", "mqar-32-8-v32", "recall-small", "noisy-recall-small",
     "fuzzy-recall-small"),
    ("induction", "reverse", "selective-copy-small", "dyck", "parity", "modular-addition",
     "listops-small"),
)  # fmt: skip

found = pd.read_csv(FOLDER / "capabilities.csv").set_index(["task", "method"])
scores = pd.read_csv(FOLDER / "scores.csv")
runs = pd.read_csv(FOLDER / "runs.csv")
spreads = 100 * scores.groupby(["task", "method"])["value"].std()
verdicts = pd.read_csv(FOLDER / "verdicts.csv").set_index(["task", "method"])
(MEAN,) = (task for task in verdicts.index.unique("task") if task.startswith("mean of"))
improving = runs.groupby(["method", "task"])["still_improving"].mean() > 0.5
methods = [*dict.fromkeys(found.index.get_level_values("method"))]


def show(columns: list[str], rows: list[list[str]]) -> None:
    """Print a table whose first column is text."""
    for cells in (columns, ["---", *["---:"] * (len(columns) - 1)], *rows):
        print("|", " | ".join(cells), "|")
    print()


def summary(method: str) -> list[str]:
    """Return the difference of the mean from the reference's, and numbers of tasks."""
    own = found.xs(method, level="method")
    size = own["state_kib"].max()
    cells = [method, "" if pd.isna(size) else f"{size:.1f}" if size >= 1 else f"{size:.2f}"]
    if (MEAN, method) in verdicts.index:
        mean = verdicts.loc[MEAN, method]
        values = f"{mean['difference']:+.1f} ({mean['low']:.1f} to {mean['high']:.1f})"
        cells += [f"{values} {SIGNS[mean['verdict']]}".replace("-", "−")]
        cells += [str((own["verdict"] == name).sum()) for name in SIGNS]
    else:
        cells += [""] * (1 + len(SIGNS))
    return [*cells, str(improving[method].sum())]


def cell(task: str, method: str) -> str:
    """Return mean, standard deviation and sign of the verdict."""
    row = found.loc[task, method]
    sign = SIGNS.get(row["verdict"], "")
    return f"{row['score']:.1f} ± {spreads[task, method]:.1f} {sign}".strip()


show(
    ["mechanism", "state, KiB", f"difference, {MEAN}", *SIGNS, "still improving"],
    [summary(method) for method in methods],
)
for tasks in TABLES:
    rules = [
        [f"*{label}*", *(f"{found.loc[task][column].iloc[0]:.1f}" for task in tasks)]
        for label, column in (("most frequent label", "chance"), ("best simple rule", "rule"))
    ]
    lines = [[method, *(cell(task, method) for task in tasks)] for method in methods]
    show(["mechanism", *tasks], [*rules, *lines])
