"""Accuracy and epochs of each network; direct minus the paper's training, 95 % Welch intervals."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from scipy.stats import ttest_ind

HERE = Path(__file__).parent

scores = pd.read_csv(HERE / "scores.csv")
own = {name: 100 * rows for name, rows in scores.groupby("method")["value"]}
kept = pd.read_csv(HERE / "runs.csv").groupby("method")["kept_epoch"].agg(list)
for name, values in own.items():
    print(f"| {name} | {values.mean():.1f} ± {values.std():.1f} | {kept[name]} |")
for name in ("lstm-layers1", "lstm-layers5", "fcsr"):
    direct, paper = own[f"{name}-direct"], own[name]
    low, high = ttest_ind(direct, paper, equal_var=False).confidence_interval(0.95)
    print(f"{name}: {direct.mean() - paper.mean():+.1f} ({low:.1f} to {high:.1f})")
