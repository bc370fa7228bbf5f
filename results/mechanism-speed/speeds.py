"""Median tokens per second, and slope of log time on log length, of each mechanism as Markdown."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

LONG = 2048  # tokens from which the slope is taken

runs = pd.read_csv(Path(__file__).parent / "runs.csv").query("status == 'done'")
runs["tokens"] = runs["tokens"].astype(int)
speeds = runs.pivot_table("tokens_second", "method", "tokens", "median", sort=False)
print("| mechanism |", *(f"{length:,} |" for length in speeds), "slope | times attention |")
print("| --- |", "---: | " * (len(speeds.columns) + 1) + "---: |")
attention = speeds.loc["attention"].iloc[-1]
for method, row in speeds.iterrows():
    seconds = (row.index / row)[row.index >= LONG]
    slope = np.polyfit(np.log(seconds.index), np.log(seconds), 1)[0]
    print(f"| {method} |", *(f"{speed:,.0f} |" for speed in row), end=" ")
    print(f"{slope:.2f} | {row.iloc[-1] / attention:,.1f} |")
