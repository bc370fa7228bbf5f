"""Longest window minus shortest, by network and training schedule, with 95 % Welch intervals."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from scipy.stats import ttest_ind

scores = pd.read_csv(Path(__file__).parent / "scores.csv")
scores = scores[scores["metric"] == "accuracy"]
own = {name: 100 * rows for name, rows in scores.groupby("method")["value"]}
for network, shortest, longest in (("cnn", "layers1", "layers9"), ("fcsr", "w1", "full")):
    for schedule in ("direct", "tuned"):
        one, two = (own[f"{network}-{schedule}-{window}"] for window in (shortest, longest))
        low, high = ttest_ind(two, one, equal_var=False).confidence_interval(0.95)
        print(f"{network}-{schedule}: {two.mean() - one.mean():+.1f} ({low:.1f} to {high:.1f})")
