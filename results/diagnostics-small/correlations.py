"""Print rank correlations of scores on diagnostic tasks with accuracies on documents."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import false_discovery_control, spearmanr

RESULTS = Path(__file__).parents[1]
DOCUMENTS = ("IMDb", "Reuters")
LEAST_RANGE = 10  # points; tasks on which all mechanisms are closer say little


def means(study: str) -> pd.DataFrame:
    """Return the mean score of each method (row) on each task (column) of a study."""
    scores = pd.read_csv(RESULTS / study / "scores.csv")
    return scores.pivot_table(index="method", columns="task", values="value", sort=False)


diagnostic, documents = means("diagnostics-small"), means("modern-documents")
tasks = pd.read_csv(RESULTS / "diagnostics-small" / "capabilities.csv")["task"].unique()
# The baseline does not read the text of a document.
methods = [m for m in diagnostic.index.intersection(documents.index) if m != "baseline"]
tasks = [task for task in tasks if 100 * np.ptp(diagnostic.loc[methods, task]) >= LEAST_RANGE]
rows = [
    (task, document, *spearmanr(diagnostic.loc[methods, task], documents.loc[methods, document]))
    for document in DOCUMENTS
    for task in tasks
]
table = pd.DataFrame(rows, columns=["task", "documents", "rho", "pvalue"])
table["adjusted"] = false_discovery_control(table["pvalue"])
print(f"{len(methods)} mechanisms, {len(table)} correlations")
print(table.round(3).to_string(index=False))
