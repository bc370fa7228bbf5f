"""What a terminal shows of a comparison without a reference."""

from __future__ import annotations

import pytest

from relation_tf.report import compare

LOW, HIGH = [1.0, 2, 3, 4, 5], [11.0, 12, 13, 14, 15]


def shown(report):
    """Return the lines without line breaks of paragraphs."""
    return " ".join(str(report).split())


def test_over_tasks_it_ends_with_the_headline(table_of):
    report = compare(table_of({task: {"a": LOW, "b": HIGH, "c": LOW} for task in "AB"}))
    assert shown(report).endswith(report.headline)
    assert [x.kind for x in report.data.brief_findings] == ["over_tasks"]
    report = compare(table_of({task: {"a": LOW, "b": HIGH} for task in "AB"}))
    assert shown(report).endswith(report.headline)
    assert report.data.brief_findings == []  # the headline has the only pair
    report = compare(table_of({task: {"a": LOW, "b": HIGH} for task in "AB"}), reference="a")
    assert [x.kind for x in report.data.brief_findings] == ["over_tasks"]


def test_interquartile_means_are_below_the_means(table_of):
    samples = {task: {"a": LOW, "b": HIGH} for task in "AB"}
    report = compare(table_of(samples), same_unit=True)
    rows = [line.split() for line in str(report).splitlines() if " of 2 tasks  " in line]
    assert [row[0] for row in rows] == ["mean", "IQM"]
    iqm = report.tables["aggregates"].set_index("method")["iqm"]
    assert [float(x) for x in rows[1][-2:]] == pytest.approx([*iqm[["a", "b"]]], abs=0.05)
    assert "IQM of" not in str(compare(table_of(samples)))


def test_the_command_of_a_warning_is_not_cut(table_of, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    wide = {"first method": LOW, "second method": [x / 10 for x in LOW]}
    report = compare(table_of({f"a task with a long name {i}": wide for i in range(9)}))
    (warning,) = report.warnings
    assert "`--test welch`" in shown(report)
    assert warning in shown(report)


def test_too_few_seeds_are_named_once_without_a_warning_about_false_positives(table_of):
    report = compare(table_of({"A": {"a": [1.0, 1.1, 1.2], "b": [2.0, 4.0, 6.0]}}))
    assert [x.kind for x in report.data.findings] == ["too_few_seeds"]
    assert report.warnings == []
    five = compare(table_of({"A": {"a": [1.0, 1.1, 1.2, 1.3], "b": [2.0, 4.0, 6.0, 9.0]}}))
    assert [x.kind for x in five.data.warnings] == ["unequal_spread"]
