"""Accuracy by width of the vectors, and differences in points with 95 % Welch intervals."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from scipy.stats import ttest_ind

RESULTS = Path(__file__).parents[1]
NETWORKS = ("cnn", "bilstm", "fcsr")


def scores_of(folder: str) -> dict[str, pd.Series]:
    """Return the accuracies (%) on apparel of each method."""
    scores = pd.read_csv(RESULTS / folder / "scores.csv")
    scores = scores[scores["task"] == "fdu-apparel"]
    return {name: 100 * rows for name, rows in scores.groupby("method")["value"]}


def show(name: str, first: pd.Series, second: pd.Series) -> None:
    """Print the difference of two means and its interval, in points."""
    low, high = ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    print(f"{name}: {first.mean() - second.mean():+.1f} ({low:.1f} to {high:.1f})")


subset = scores_of("fcsr-table4-glove")
for width, folder in ((100, "fcsr-vectors"), (300, "fcsr-vectors-300")):
    own = scores_of(folder)
    print(f"\nWidth {width}")
    for name in NETWORKS:
        paper, direct = own[name], own[f"{name}-direct"]
        print(f"| {name} | {paper.mean():.1f} ± {paper.std():.1f} "
              f"| {direct.mean():.1f} ± {direct.std():.1f} |")  # fmt: skip
        show("direct minus the paper's training", direct, paper)
        if width == 100:
            show("vectors trained here minus GloVe subset", paper, subset[name])
    for name in NETWORKS[:2]:
        show(f"fcsr minus {name}, both direct", own["fcsr-direct"], own[f"{name}-direct"])
        show(f"fcsr minus {name}, the paper's training", own["fcsr"], own[name])
