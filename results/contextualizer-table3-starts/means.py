"""Mean accuracy and standard deviation of each variant of a uniform start, by number of steps."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

HERE = Path(__file__).parent
dropout = pd.read_csv(HERE / "scores-dropout.csv")
dropout["method"] = dropout["method"].str.replace("uniform", "dropout")
scores = pd.concat([pd.read_csv(HERE / "scores.csv"), dropout])
scores = scores[scores["metric"] == "accuracy"]
scores["method"] = scores["method"].str.replace(" (fails checks)", "", regex=False)
scores[["variant", "steps"]] = scores["method"].str.rsplit("-k", n=1, expand=True)
for (variant, steps), own in scores.groupby(["variant", "steps"], sort=False)["value"]:
    print(f"{variant:20} K = {steps}: {100 * own.mean():.1f} ± {100 * own.std():.1f}")
