"""Mean accuracy over domains, paired differences with 95 % intervals, and training losses."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from scipy.stats import ttest_1samp

FOLDER = Path(__file__).parent
scores = pd.read_csv(FOLDER / "scores.csv")
scores = scores[scores["task"].str.startswith("fdu-")]  # without the mean of all domains
points = 100 * scores.pivot_table(values="value", index="task", columns="method", sort=False)
figures = pd.read_csv(FOLDER.parents[1] / "published.csv").query("study == 'FCSR, Table 4'")
paper = figures.pivot_table(values="published", index="task", columns="method", sort=False)

print("Mean over domains, number of domains where the method is best (ties count for each);")
print("networks with the paper's training are compared with each other, FCSR, direct with all")
rounded = points.round(9)  # so that rounding does not decide ties
for name in points:
    own = points[name]
    others = rounded if name == "fcsr-direct" else rounded.drop(columns="fcsr-direct")
    best = (rounded[name] == others.max(axis=1)).sum()
    published = f", paper {paper[name].mean():.1f}" if name in paper else ""
    print(f"{name}: {own.mean():.1f}, best in {best} of {len(own)}{published}")


def show(first: str, second: str) -> None:
    """Print the mean difference over domains in points, with an interval from the pairs."""
    differences = points[first] - points[second]
    low, high = ttest_1samp(differences, 0).confidence_interval(0.95)
    wins = (differences > 0).sum()
    print(f"{first} minus {second}: {differences.mean():+.2f} ({low:.2f} to {high:.2f}), ", end="")
    print(f"higher in {wins} of {len(differences)} domains")


print("\nPaired differences over domains")
for method in ("fcsr", "fcsr-direct"):
    for other in points.columns.drop(method):
        show(method, other)
losses = pd.read_csv(FOLDER / "losses.csv").groupby("method", sort=False)["largest_loss"]
print("\nMean loss of the worst epoch")
counts = [lambda own: (own > 7).sum(), lambda own: (own > 100).sum()]
print(losses.agg(["max", *counts]).set_axis(["largest", "above 7", "above 100"], axis=1))
