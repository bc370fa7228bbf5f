"""Transformers of 1M parameters: the order of normalization, with 95 % Welch intervals."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from scipy.stats import ttest_ind

RESULTS = Path(__file__).parent.parent


def _scores(study: str, method: str) -> pd.Series:
    table = pd.read_csv(RESULTS / study / "scores.csv")
    return 100 * table[(table["method"] == method) & (table["metric"] == "accuracy")]["value"]


first = _scores("contextualizer-table2-training", "normalization-first")
for method in ("transformer-1M", "contextualizer-1M"):
    other = _scores("contextualizer-table2", method)
    low, high = ttest_ind(first, other, equal_var=False).confidence_interval(0.95)
    difference = f"{first.mean() - other.mean():+.1f} ({low:.1f} to {high:.1f})"
    print(f"normalization first minus {method}: {difference}")
