"""Contextualizer minus Transformer, by size, with 95 % Welch intervals."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from scipy.stats import ttest_ind

scores = pd.read_csv(Path(__file__).parent / "scores.csv")
scores = scores[scores["metric"] == "accuracy"]
own = {name: 100 * rows for name, rows in scores.groupby("method")["value"]}
for size in ("0.5M", "1M", "1.5M", "2M"):
    one, two = own[f"transformer-{size}"], own[f"contextualizer-{size}"]
    low, high = ttest_ind(two, one, equal_var=False).confidence_interval(0.95)
    print(f"{size}: {two.mean() - one.mean():+.1f} ({low:.1f} to {high:.1f})")
