"""Means, ranks and the sentence above them on a page without a reference."""

from __future__ import annotations

import pytest

from relation_tf.report import compare, make_report
from tests.report.conftest import content, rows_of

LOW = [2.0, 3, 4, 5, 6]
MIDDLE = [11.0, 12, 13, 14, 15]
HIGH = [21.0, 22, 23, 24, 25]
NEAR = [2.1, 3.1, 4.1, 5.1, 6.1]
ABC = {"a": LOW, "b": MIDDLE, "c": HIGH}


@pytest.mark.parametrize(
    ("samples", "lower", "leader", "outcome"),
    [
        ({"x": {"a": LOW, "b": HIGH}}, [], "b has the higher", "b is significantly better"),
        ({"x": {"a": LOW, "b": HIGH}}, "x", "a has the lower", "a is significantly better"),
        ({"x": {"a": LOW, "b": NEAR}}, [], "b has the higher", "difference is not significant"),
        ({"x": {"a": LOW, "b": LOW}}, [], "a and b have", "difference is not significant"),
        ({"x": {"a": LOW[:3], "b": HIGH[:3]}}, [], "b has the higher", "so few seeds"),
        ({"x": {"a": LOW[:1], "b": HIGH[:1]}}, [], "b has the higher", "no test yet"),
        ({"x": ABC}, [], "c has the highest", "all 3 pairs"),
        ({"x": {"a": LOW, "b": LOW[::-1], "c": HIGH}}, [], "c has the highest", "2 of 3 pairs"),
        # An outlier makes c the highest mean, and only b is better than a.
        ({"x": ABC | {"c": [*LOW[:4], 500.0]}}, [], "c has the highest", "1 of 3 pairs"),
        ({"x": {"a": [1.0] * 9 + [500], "b": HIGH * 2, "c": LOW * 2}}, [], "a has the highest",
         "worse than b and"),
        ({"x": {"a": LOW, "b": NEAR, "c": LOW}}, [], "b has the highest", "no two methods differ"),
        ({"x": ABC, "y": ABC}, [], "c has the highest", "stratified Steel-Dwass"),
        ({"x": {"a": LOW, "b": HIGH}, "y": {"a": HIGH, "b": LOW}}, "y", "b has the better",
         "b is significantly better"),
        ({"x": {"a": LOW}}, [], "", ""),
    ],
)  # fmt: skip
def test_who_leads_and_what_differs(table_of, samples, lower, leader, outcome):
    headline = content(compare(table_of(samples), lower_is_better=lower))["headline"]
    assert headline.startswith(leader)
    assert outcome in headline
    assert bool(headline) == bool(leader)


@pytest.mark.parametrize(
    ("means", "lower", "expected"),
    [
        # The halves of MNLI have one network, which counts once.
        ({"MNLI-m": (40, 44), "MNLI-mm": (40, 44), "RTE": (50, 40)}, [],
         [[45.0, 1.5], [42.0, 1.5]]),
        ({"x": (40, 44), "y": (50, 60)}, ["x", "y"], [[45.0, 1], [52.0, 2]]),
        ({"MNLI-m": (40, 44), "MNLI-mm": (40, 44), "RTE": (40, 44)}, ["MNLI-m", "MNLI-mm", "RTE"],
         [[40.0, 1], [44.0, 2]]),
        # A network with two units is ranked by its first task.
        ({"MNLI-m": (90, 80), "MNLI-mm": (600, 500), "RTE": (90, 80)}, "MNLI-mm",
         [[1], [2]]),
        # Means that differ by rounding share a rank.
        ({"x": (0.1 + 0.2, 0.3), "y": (0.1 + 0.2, 0.3)}, [], [[0.3, 1.5], [0.3, 1.5]]),
    ],
)  # fmt: skip
def test_means_and_ranks(table_of, means, lower, expected):
    samples = {
        task: dict(zip("ab", ([mean + x / 2 for x in range(-2, 3)] for mean in own), strict=True))
        for task, own in means.items()
    }
    report = compare(table_of(samples), lower_is_better=lower)
    assert [[float(x) for x in rows_of(report, name)[0]] for name in "ab"] == expected


def test_the_table_has_the_ranks_of_the_figure(table_of):
    places = {"a": LOW[:1], "b": MIDDLE[:1], "c": HIGH[:1]}
    last = {"a": HIGH[:1], "b": MIDDLE[:1], "c": LOW[:1]}
    report = compare(table_of({f"x{i}": last if i < 4 else places for i in range(12)}))
    (panel,) = (x.panels[0] for x in report.data.pictures if x.name == "ranks")
    for name, rank in (("a", "2.33"), ("b", "2.00"), ("c", "1.67")):
        assert rows_of(report, name)[0][-1] == rank
        assert f"{name} {rank}" in panel.alt


def test_a_page_of_tables_names_neither_suites_nor_evaluation_rows(table_of, suite_of, fabricate):
    page = compare(table_of({"x": {"a": LOW, "b": HIGH}})).markdown()
    assert "in the suite" not in page
    assert "evaluation rows" not in page
    methods = [{"name": name, "mechanism": name} for name in ("attention", "relation")]
    folder = fabricate(suite_of(method=methods), lambda config, *_: config.seed / 10)
    assert "evaluation rows" in make_report(folder).markdown()


@pytest.mark.parametrize(
    ("lower", "words"),
    [([], "best mean."), (["x"], "best mean (lowest for x, highest for others)."),
     (["x", "y"], "lowest mean.")],
)  # fmt: skip
def test_a_note_says_which_mean_is_bold(table_of, lower, words):
    samples = {task: {"a": LOW, "b": HIGH} for task in "xy"}
    report = compare(table_of(samples), lower_is_better=lower)
    assert f"**Bold**: {words}" in report.markdown()
    assert f"bold: {words}" in report.latex()
