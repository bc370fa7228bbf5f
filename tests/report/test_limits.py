"""Limits of a page: what is left out is named, and the CSV files have everything."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from relation_tf.report import blocks, compare
from relation_tf.report.sections import tests


def test_a_report_says_what_it_does_not_show(table_of, tmp_path):
    rng = np.random.default_rng(0)
    samples = {
        f"task-{i}": {name: [*rng.normal(size=4)] for name in ("first", "second")}
        for i in range(blocks.MOST_PANELS + 25)
    }
    report = compare(table_of(samples))
    folder = report.write(tmp_path / "report").parent
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "40 of 65 panels" in page
    assert "40 of 65 tasks" in str(report)
    assert pd.read_csv(folder / "scores.csv")["task"].nunique() == 65
    assert len(pd.read_csv(folder / "pvalues.csv")) == 65


@pytest.mark.parametrize(
    ("most", "methods", "tasks", "first"),
    [("MOST_ROWS", 9, 2, "5 of 9 rows"), ("MOST_COLUMNS", 3, 9, "5 of 10 columns")],
)
def test_the_first_rows_and_columns_of_a_table(table_of, monkeypatch, most, methods, tasks, first):
    monkeypatch.setattr(blocks, most, 5)
    rng = np.random.default_rng(0)
    samples = {
        f"t{i}": {f"m{j}": [*rng.normal(size=5)] for j in range(methods)} for i in range(tasks)
    }
    page = compare(table_of(samples)).markdown().partition("## Scores\n")[2]
    assert first in page
    assert ("m8" if methods > 5 else "t8") not in page.partition("Shown")[0]


def test_pairs_with_the_smallest_p(table_of, monkeypatch):
    for module in (blocks, tests):
        monkeypatch.setattr(module, "MOST_ROWS", 2)
    samples = {"A": [1, 2, 3, 4], "B": [11, 12, 13, 14], "C": [2.5, 3.5, 4.5, 5.5]}
    page = compare(table_of({"x": samples})).markdown().partition("## Pairwise tests")[2]
    assert "2 of 3 rows" in page
    shown = [line.split(" | ")[:2] for line in page.splitlines() if line[:4] in ("| A ", "| B ")]
    assert shown[:2] == [["| A", "B"], ["| B", "C"]]
