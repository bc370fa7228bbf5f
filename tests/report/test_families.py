"""Families of methods are tested and judged separately."""

from __future__ import annotations

import json
import re

import pandas as pd
import pytest

from relation_tf.errors import SuiteError
from relation_tf.report import compare, make_report
from relation_tf.report.sections.verdicts import verdict_table

NAMES = ("attention", "relation", "baseline")
LEVEL = {"attention": 0.6, "relation": 0.7, "baseline": 0.5}
METHODS = [{"mechanism": name, "units": [64, 128]} for name in NAMES]
VALUES = {"method": METHODS, "tasks": ["CoLA", "RTE"], "seeds": 5, "families": "units"}
FEW = VALUES | {"tasks": ["RTE"], "seeds": 3}
TWO = [["a", "b"], ["c", "d"]]


def score(config, *_):
    """Without overlap between the methods, and with other values for each width."""
    return LEVEL[config.mechanism] + config.seed * config.units / 1e5 + config.units / 1e4


@pytest.fixture(scope="module")
def report(suite_of, fabricate_in, tmp_path_factory):
    suite = suite_of(**VALUES, reference="attention", margin=1.0)
    return make_report(fabricate_in(tmp_path_factory.mktemp("families"))(suite, score))


@pytest.fixture(scope="module")
def alone(suite_of, fabricate_in, tmp_path_factory):
    """Reports of suites with the methods of one family only."""

    def make(units):
        methods = [{"mechanism": name, "units": units} for name in NAMES]
        suite = suite_of(
            method=methods, tasks=VALUES["tasks"], seeds=5, reference=f"attention-{units}",
            margin=1.0,
        )  # fmt: skip
        return make_report(fabricate_in(tmp_path_factory.mktemp(f"w{units}"))(suite, score))

    return {units: make(units) for units in (64, 128)}


def test_each_family_is_tested_as_if_alone(report, alone):
    for name in ("pvalues", "verdicts"):
        table = report.tables[name]
        assert table.columns[0] == "family"
        for units, own in alone.items():
            part = table[table["family"] == f"units {units}"].drop(columns="family")
            expected = own.tables[name]
            pd.testing.assert_frame_equal(part.reset_index(drop=True), expected)
    # Six methods at once could not show any difference with five seeds.
    assert report.tables["pvalues"]["significant"].all()
    key = ["task", "method", "metric"]
    letters = report.tables["table"].set_index(key)["letters"]
    for own in alone.values():
        expected = own.tables["table"].set_index(key)["letters"]
        assert letters.loc[expected.index].tolist() == expected.tolist()


@pytest.fixture
def bounded(suite_of, fabricate):
    values = {"reference": "attention-64", "lower_bound": "baseline-64", "margin": 1.0}

    def make(*names):
        methods = [{"mechanism": name} for name in names]
        return make_report(fabricate(suite_of(method=methods, tasks=["RTE"], **values), score))

    return make


def test_a_lower_bound_is_shown_and_not_compared(bounded):
    report = bounded(*NAMES)
    assert {*report.tables["pvalues"]["b"]} == {"relation-64"}
    assert {*report.tables["verdicts"]["method"]} == {"relation-64"}
    assert {*report.tables["table"]["method"]} == {f"{name}-64" for name in NAMES}
    table = verdict_table(report.data.comparisons[""])
    method, _, difference, *_ = table.rows[-1]
    assert (method.text, difference.text) == ("baseline-64", "−10.00")
    alone = bounded("attention", "baseline").tables
    assert "verdicts" not in alone
    assert alone["pvalues"].empty


def test_figures_and_sections_of_families_have_own_names(report, tmp_path):
    names = json.loads(report.json())["figures"]
    labels = re.findall(r"\\label\{([^}]+)\}", report.latex())
    headings = re.findall(r'<details class="section" id="([^"]+)"', report.html())
    for own in (names, labels, headings):
        assert len(own) == len({*own})
    report.write(tmp_path / "report")
    for figure in ("answer-units-64", "differences-units-128", "scores"):
        assert (tmp_path / "report" / "figures" / f"{figure}.svg").exists()
    written = pd.read_csv(tmp_path / "report" / "verdicts.csv")
    assert written["family"].unique().tolist() == ["units 64", "units 128"]


def test_an_unfinished_family(suite_of, fabricate):
    """One family has no runs, one only some of two methods: only the other is reported."""
    suite = suite_of(**VALUES)

    def some(config, *values):
        there = config.units == 64 and config.mechanism != "baseline"
        return score(config, *values) if there else None

    report = make_report(fabricate(suite, some))
    answer = json.loads(report.json())["answer"]
    assert "20 of 60 runs" in answer[0]
    assert not any("Units 128" in each for each in answer)
    assert any("the 2 of 3" in each for each in answer)
    assert report.tables["pvalues"]["family"].unique().tolist() == ["units 64"]
    assert report.html()
    empty = make_report(fabricate(suite, lambda *_: None, name="empty"))
    assert empty.tables["pvalues"].empty
    assert empty.latex()


def families_of(report):
    """Return the methods of each family in the order of their pairs; none without families."""
    pvalues = report.tables["pvalues"]
    if "family" not in pvalues:
        return {}
    return {
        name: [*dict.fromkeys([*own["a"], *own["b"]])]
        for name, own in pvalues.groupby("family", sort=False)
    }


def test_suites_are_joined_by_family(suite_of, fabricate):
    folders = [fabricate(suite_of(**FEW), score, name=name) for name in ("before", "after")]
    found = families_of(compare(*folders))
    assert [*found] == ["units 64", "units 128"]
    assert found["units 64"] == [
        f"{name}-64 ({source})" for source in ("before", "after") for name in NAMES
    ]
    other = fabricate(suite_of(**FEW | {"families": None}), score, name="none")
    assert not families_of(compare(folders[0], other))


@pytest.mark.parametrize("declared", [{"control": "attention"}, {"reference": "attention"},
                                      {"control": "attention", "test": "steel"}])  # fmt: skip
def test_a_lost_control_or_reference_is_not_used(suite_of, fabricate, declared):
    """As a mechanism it is two methods of each family."""
    suite = suite_of(**FEW, **declared)
    report = compare(*(fabricate(suite, score, name=name) for name in ("before", "after")))
    assert "verdicts" not in report.tables
    assert report.tables["pvalues"]["a"].nunique() > 2  # all pairs
    assert report.tables["pvalues"]["pvalue"].notna().any()
    assert "was fixed before" not in report.markdown()


def references_of(report):
    return [*dict.fromkeys(report.tables["verdicts"]["reference"])]


@pytest.fixture
def table(table_of):
    """Scores of four methods that do not overlap."""
    levels = {"a": 10, "b": 20, "c": 30, "d": 40}
    return table_of(
        {"x": {name: [level + seed for seed in range(5)] for name, level in levels.items()}}
    )


def test_a_comparison_sets_families_by_lists(table, tmp_path):
    path = tmp_path / "scores.csv"
    table.to_csv(path, index=False)
    report = compare(path, families=[["a", "b"], ["d", "c"]])
    assert families_of(report) == {"family 1": ["a", "b"], "family 2": ["c", "d"]}
    # The smallest p of two methods; that of four methods is .040.
    assert report.tables["pvalues"]["pvalue"].tolist() == pytest.approx([2 / 252] * 2)


def test_a_comparison_of_suites_sets_reference_and_families(suite_of, fabricate):
    folder = fabricate(suite_of(**FEW, reference="attention"), score)
    own = ["baseline-64", "baseline-128"]
    assert references_of(compare(folder, reference=own, margin=2.0)) == own
    families = [[f"{name}-{units}" for name in NAMES[1:]] + [f"attention-{units}"]
                for units in (128, 64)]  # fmt: skip
    report = compare(folder, families=families, reference=own)
    assert references_of(report) == own[::-1]
    with pytest.raises(SuiteError, match="reference: must name one method of each family"):
        compare(folder, reference="baseline-64")


@pytest.mark.parametrize("chosen", ["a,d", ["d", "a"], "d, a"])
def test_a_table_has_one_reference_or_control_per_family(table, chosen):
    assert references_of(compare(table, families=TWO, reference=chosen)) == ["a", "d"]
    controlled = compare(table, families=TWO, control=chosen).tables["pvalues"]
    assert controlled[["a", "b"]].values.tolist() == [["a", "b"], ["d", "c"]]


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ("a", "name one method of each family. Received: a"),
        ("a,b,c", "name one method of each family. Received: a, b, c"),
        ("a,dd", "be one of a, b, c or d. Received: 'dd'. Did you mean 'd'?"),
        ("", "be one of a, b, c or d. Received: ''."),
    ],
)
def test_a_wrong_reference_of_families_is_named(table, chosen, message):
    with pytest.raises(SuiteError) as error:
        compare(table, families=TWO, reference=chosen)
    assert str(error.value) == f"reference: must {message}"


@pytest.mark.parametrize(
    ("families", "message"),
    [
        ([["a", "b"]], "families: must have each method in one list. Missing: 'c'"),
        ([["a", "b"], ["a", "c", "d"]], "families: must have each method in one list. Received: "
         "'a' in 2 families"),
        ([["a", "b", "c"], ["d"]], "families: must give two or more methods in each family. "
         "Received: only d in family 2"),
        ([["a", "b"], ["c", "dd"]], "families: must contain only methods of the sources: a, b, "
         "c, d. Received: 'dd'. Did you mean 'd'?"),
        ([], "families: must have each method in one list. Missing: 'a'"),
    ],
)  # fmt: skip
def test_wrong_families_of_a_comparison_are_named(table, families, message):
    with pytest.raises(SuiteError) as error:
        compare(table, families=families)
    assert str(error.value) == message
