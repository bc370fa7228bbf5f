"""Differences of accuracy in points with 95 % Welch intervals, ROC areas, and training losses."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from scipy.stats import ttest_ind

FOLDER = Path(__file__).parent
MEAN = "mean of these tasks"  # of each seed, as in report.md
NETWORKS = ("cnn", "bilstm", "transformer", "s-lstm")
scores = pd.read_csv(FOLDER / "scores.csv")
own = {key: 100 * rows for key, rows in scores.groupby(["task", "method"], sort=False)["value"]}


def show(task: str, first: str, second: str) -> None:
    """Print the difference of two methods and its interval, in points."""
    ours, others = own[task, first], own[task, second]
    low, high = ttest_ind(ours, others, equal_var=False).confidence_interval(0.95)
    difference = ours.mean() - others.mean()
    print(f"{task}, {first} minus {second}: {difference:+.1f} ({low:.1f} to {high:.1f})")


for name in scores["task"].unique():
    show(name, "fcsr-direct", "fcsr")
for method in ("fcsr", "fcsr-direct"):
    for other in NETWORKS:
        show(MEAN, method, other)
print("\nArea under the ROC curve, mean over classes and seeds")
areas = pd.read_csv(FOLDER / "auc.csv")
print(areas.pivot_table(values="macro", index="method", columns="task", sort=False).round(3))
losses = pd.read_csv(FOLDER / "losses.csv").set_index("method")["largest_loss"]
of_fcsr, others = losses["fcsr"], losses.drop("fcsr")
high = (of_fcsr > 100).sum()
print(
    f"\nMean loss of the worst epoch: fcsr at least {of_fcsr.min():.1f}, and above 100 in {high} of"
)
print(f"{len(of_fcsr)} runs; other methods at most {others.max():.1f}")
