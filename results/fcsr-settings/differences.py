"""Accuracy of tuned networks, and differences in points with 95 % Welch intervals."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from scipy.stats import ttest_ind

RESULTS = Path(__file__).parents[1]


def scores_of(folder: str) -> dict[str, pd.Series]:
    """Return the accuracies on apparel of each method."""
    scores = pd.read_csv(RESULTS / folder / "scores.csv")
    scores = scores[scores["task"] == "fdu-apparel"]
    return dict(iter(scores.groupby("method")["value"]))


def show(name: str, first: pd.Series, second: pd.Series) -> None:
    """Print the difference of two means and its interval, in points."""
    low, high = ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    difference = first.mean() - second.mean()
    print(f"{name}: {100 * difference:+.1f} ({100 * low:.1f} to {100 * high:.1f})")


subset, own, untuned = map(scores_of, ("fcsr-settings", "fcsr-settings-vectors", "fcsr-vectors"))
for folder, scores in (("GloVe subset", subset), ("own vectors", own)):
    print(f"\n{folder}")
    for name, values in scores.items():
        print(f"| {name} | {100 * values.mean():.1f} ± {100 * values.std():.1f} |")
        if name != "fcsr":
            show(f"fcsr minus {name}", scores["fcsr"], values)
print()
for name in subset:
    show(f"{name}, own vectors minus GloVe subset", own[name], subset[name])
for name in subset:
    show(f"{name}, tuned minus the paper's training", own[name], untuned[name])
    show(f"{name}, tuned minus direct training", own[name], untuned[f"{name}-direct"])
