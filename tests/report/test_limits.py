"""Tests of limits of a page, and of the notes on what is left out."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from relation_tf.report import compare, limits
from relation_tf.report.blocks import Bullets, Column, Folded, Paper, Paragraph, Row, Table
from relation_tf.report.limits import limited, most_significant
from relation_tf.stats import null_distribution


def table(num_rows, num_columns=2, **options):
    columns = [Column(f"c{i}") for i in range(num_columns)]
    rows = [Row([f"{i},{j}" for j in range(num_columns)]) for i in range(num_rows)]
    return Table("label", columns, rows, **options)


def note(blocks):
    assert isinstance(blocks[-1], Paragraph)
    assert blocks[-1].style == "note"
    return blocks[-1].text


def test_small_blocks_are_kept():
    blocks = [table(300, 60), Bullets(["a"] * 60), Folded("more", [Paragraph("text")])]
    assert limited(blocks) == blocks


def test_the_first_rows_and_columns_of_a_table():
    shown = limited([table(301, 61, paper=Paper("x", "Caption", " of details."))])
    assert len(shown[0].rows) == 300
    assert {len(row.cells) for row in shown[0].rows} == {60} == {len(shown[0].columns)}
    words = "the first 300 of 301 rows and the first 60 of 61 columns"
    assert note(shown) == f"Shown: {words}. All are in the CSV files."
    assert shown[0].paper.details == f" of details. Shown: {words}."


def test_the_first_rows_of_a_table_by_task():
    rows = {task: table(120).rows for task in ("one", "two", "three", "four")}
    shown = limited([Table("label", [Column("a"), Column("b")], rows)])
    assert {task: len(own) for task, own in shown[0].rows.items()} == {
        "one": 120,
        "two": 120,
        "three": 60,
    }
    assert note(shown).startswith("Shown: the first 300 of 480 rows.")


def test_the_first_items_of_a_list():
    shown = limited([Bullets([*map(str, range(75))])])
    assert shown[0].items[-2:] == ["59", "15 more are not shown here."]


def test_blocks_within_collapsed_parts_and_their_number():
    shown = limited([Folded(str(i), [table(301)]) for i in range(62)])
    assert len(shown) == 61
    assert note(shown).startswith("Shown: the first 60 of 62 parts.")
    assert note(shown[0].blocks).startswith("Shown: the first 300 of 301 rows.")


def test_pairs_with_the_smallest_p(monkeypatch):
    monkeypatch.setattr(limits, "MOST_ROWS", 2)
    pairs = pd.DataFrame(
        {
            "task": ["x", "x", "x", "y", "y", "y"],
            "a": ["A", "A", "B"] * 2,
            "b": ["B", "C", "C"] * 2,
            "pvalue": [0.5, 0.2, 0.9, 0.1, 0.2, 0.8],
            "statistic": [1.0, 1.0, 1.0, 1.0, -3.0, 1.0],
        }
    )
    rows, said = most_significant(pairs)
    assert said == "the 2 of 3 pairs with the smallest p"
    assert [*zip(rows["a"], rows["b"], rows["task"], strict=True)] == [
        ("A", "B", "x"),
        ("A", "B", "y"),
        ("A", "C", "x"),
        ("A", "C", "y"),
    ]
    monkeypatch.setattr(limits, "MOST_ROWS", 3)
    same, said = most_significant(pairs)
    assert same is pairs
    assert not said


@pytest.fixture(scope="module")
def many_tasks(table_of):
    rng = np.random.default_rng(0)
    return table_of(
        {
            f"task-{i}": {name: [*rng.normal(size=4)] for name in ("first", "second")}
            for i in range(limits.MOST_PANELS + 25)
        }
    )


def test_a_report_says_what_it_does_not_show(many_tasks, tmp_path):
    report = compare(many_tasks)
    folder = report.write(tmp_path / "report").parent
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "Shown: the first 40 of 65 panels." in page
    details = (folder / "report.md").read_text(encoding="utf-8").partition("## Test details")[2]
    assert "Shown: the first 60 of 65 tasks. All are in [pvalues.csv](pvalues.csv).\n" in details
    assert "Shown: the first 40 of 65 tasks. All are in table.csv." in str(report)
    scores = pd.read_csv(folder / "scores.csv")
    assert scores["task"].nunique() == 65
    assert len(pd.read_csv(folder / "pvalues.csv")) == 65


def test_a_report_states_its_number_of_permutations(table_of, monkeypatch):
    monkeypatch.setattr(null_distribution, "_BUDGET", 30_000_000)
    rng = np.random.default_rng(0)
    samples = {f"m{i}": [*rng.normal(size=6)] for i in range(8)}
    report = compare(table_of({"x": samples, "y": samples}))
    (number,) = {test.null.permutations for test in report.context.comparisons.values()}
    assert 2_000 < number < null_distribution.PERMUTATIONS
    assert f"else from {number:,} random ones" in report.markdown()
