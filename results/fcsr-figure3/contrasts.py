"""Longest window minus shortest, and points per layer of the CNN, with 95 % intervals."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from scipy.stats import linregress, t, ttest_ind

scores = pd.read_csv(Path(__file__).parent / "scores.csv")
scores = scores[scores["metric"] == "accuracy"]
own = {name: 100 * rows for name, rows in scores.groupby("method")["value"]}
for network, shortest, longest in (("cnn", "layers1", "layers9"), ("fcsr", "w1", "full")):
    for schedule in ("direct", "tuned"):
        one, two = (own[f"{network}-{schedule}-{window}"] for window in (shortest, longest))
        low, high = ttest_ind(two, one, equal_var=False).confidence_interval(0.95)
        print(f"{network}-{schedule}: {two.mean() - one.mean():+.1f} ({low:.1f} to {high:.1f})")

for schedule in ("direct", "tuned"):
    counts = [count for count in (1, 3, 5, 7, 9) for _ in own[f"cnn-{schedule}-layers{count}"]]
    values = [value for count in (1, 3, 5, 7, 9) for value in own[f"cnn-{schedule}-layers{count}"]]
    line = linregress(counts, values)
    half = t.ppf(0.975, len(values) - 2) * line.stderr
    low, high = line.slope - half, line.slope + half
    print(f"cnn-{schedule}, per layer: {line.slope:+.1f} ({low:.1f} to {high:.1f})")
