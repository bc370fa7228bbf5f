"""Ratios of the times per batch to FCSR, with 95 % Welch intervals of the log times."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import ttest_ind

runs = pd.read_csv(Path(__file__).parent / "runs.csv")
times = {name: np.log(own) for name, own in runs.groupby("method")["seconds_batch"]}
for name, own in times.items():
    test = ttest_ind(own, times["fcsr"], equal_var=False)
    low, high = np.exp(test.confidence_interval(0.95)) if name != "fcsr" else (1, 1)
    print(f"{name}: {np.exp(own.mean() - times['fcsr'].mean()):.2f} ({low:.2f} to {high:.2f})")
