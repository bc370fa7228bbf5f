"""Exact match against the length of the strings, as figures/lengths.svg."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

FOLDER = Path(__file__).parent
NAMES = {
    "gru-none": "GRU, no attention",
    "lstm-none": "LSTM, no attention",
    "gru-dot": "GRU, Luong (dot)",
    "gru-concat": "GRU, Luong (concat)",
    "gru-general": "GRU, Luong (general)",
    "lstm-general": "LSTM, Luong (general)",
    "gru-additive": "GRU, Bahdanau",
}

plt.rcParams |= {"svg.hashsalt": "lengths", "svg.fonttype": "none"}
scores = pd.read_csv(FOLDER / "scores.csv").query("method in @NAMES")
scores["letters"] = scores["task"].str.removeprefix("reversal-").astype(int)
figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
for marker, (method, name) in zip("osPXD^v", NAMES.items(), strict=True):
    own = 100 * scores.query("method == @method").groupby("letters")["value"].agg(["mean", "std"])
    dashed = "--" if "none" in method else "-"
    axes.errorbar(
        own.index, own["mean"], own["std"], label=name, marker=marker, ls=dashed, capsize=3
    )
axes.set(xlabel="letters", ylabel="exact match, %", ylim=(-3, 103))
axes.set_xticks([10, 20, 30], ["3 to 10", "11 to 20", "21 to 30"])
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False, fontsize=8)
(FOLDER / "figures").mkdir(exist_ok=True)
figure.savefig(FOLDER / "figures" / "lengths.svg", metadata={"Date": None})
