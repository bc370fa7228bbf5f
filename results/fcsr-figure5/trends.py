"""Points per head and per layer of the Transformer, and FCSR minus it, with 95 % intervals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import linregress, t, ttest_ind

scores = pd.read_csv(Path(__file__).parent / "scores.csv")
own = {name: 100 * rows.to_numpy() for name, rows in scores.groupby("method")["value"]}
own["transformer-layers1"] = own["transformer-heads1"]  # One head and one layer are one method.
for part in ("heads", "layers"):
    counts = [count for count in range(1, 7) for _ in own[f"transformer-{part}{count}"]]
    values = np.concatenate([own[f"transformer-{part}{count}"] for count in range(1, 7)])
    line = linregress(counts, values)
    half = t.ppf(0.975, len(values) - 2) * line.stderr
    low, high = line.slope - half, line.slope + half
    print(f"Points for each of 1 to 6 {part}: {line.slope:+.2f} ({low:.2f} to {high:.2f})")
for name in ("transformer-heads1", "transformer-heads6", "transformer-layers6", "fcsr-direct"):
    low, high = ttest_ind(own["fcsr"], own[name], equal_var=False).confidence_interval(0.95)
    print(f"fcsr - {name}: {(own['fcsr'] - own[name]).mean():+.1f} ({low:.1f} to {high:.1f})")
