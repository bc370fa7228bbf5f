"""Families of methods are tested and judged separately."""

from __future__ import annotations

import re

import pandas as pd
import pytest

from relation_tf.errors import SuiteError
from relation_tf.report import compare, make_report

NAMES = ("attention", "relation", "baseline")
LEVEL = {"attention": 0.6, "relation": 0.7, "baseline": 0.5}
METHODS = [{"mechanism": name, "units": [64, 128]} for name in NAMES]
VALUES = {"method": METHODS, "tasks": ["CoLA", "RTE"], "seeds": 5, "families": "units"}


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


def test_collapsed_runs_are_those_of_the_whole_report(report, monkeypatch):
    columns = ["task", "method", "seed", "reason"]
    runs = [("CoLA", f"relation-{units}", 1, "learned nothing") for units in (64, 128)]
    lost = pd.DataFrame(runs, columns=columns)
    monkeypatch.setitem(report.context.__dict__, "collapsed", lost)
    for family in report.context.scores.families:
        own = report.context._only(family).collapsed
        assert own["method"].to_list() == [f"relation-{family.name.removeprefix('units ')}"]


def test_letters_are_of_the_family(report, alone):
    letters = report.context.summary.set_index(["task", "method", "metric"])["letters"]
    for own in alone.values():
        expected = own.context.summary.set_index(["task", "method", "metric"])["letters"]
        assert letters.loc[expected.index].tolist() == expected.tolist()
    assert "methods of a family that share a letter" in report.markdown()


def test_sentences_name_the_family(report, alone):
    for units, own in alone.items():
        assert f"Units {units}: {own.context.headline}" in report.context.headline
        assert f"Units {units}: {own.context.headline}" in " ".join(str(report).split())
        for sentence in own.context.answer:
            assert f"Units {units}: {sentence}" in report.context.answer


def test_sections_are_repeated_for_each_family(report):
    markdown, latex, page = report.markdown(), report.latex(), report.html()
    for heading in ("Short answer", "Pairwise tests", "Test details"):
        section = markdown.split(f"## {heading}\n")[1].split("\n## ")[0]
        assert section.count("### Units 64\n") == section.count("### Units 128\n") == 1
    names = [picture.name for picture in report.context.pictures]
    assert len(names) == len({*names})
    assert {"answer-units-64", "differences-units-128", "scores"} <= {*names}
    labels = re.findall(r"\\label\{([^}]+)\}", latex)
    assert len(labels) == len({*labels})
    assert any(label.endswith("verdicts-units-64") for label in labels)
    assert "(units 64)" in latex
    # Methods look the same in all families.
    for units, part in zip((64, 128), report.context.parts.values(), strict=True):
        assert part.styles is report.context.styles
        assert f"Verdicts by task, units {units}" in page
    headings = re.findall(r'<details class="section" id="([^"]+)"', page)
    assert len(headings) == len({*headings})


def test_files_are_written(report, tmp_path):
    report.write(tmp_path / "report")
    written = pd.read_csv(tmp_path / "report" / "verdicts.csv")
    assert written["family"].unique().tolist() == ["units 64", "units 128"]
    assert (tmp_path / "report" / "figures" / "differences-units-128.svg").exists()


def test_learning_times_are_tested_within_families(suite_of, fabricate):
    def reached(config, files):
        files["result"]["reached"] = True
        files["result"]["seconds"]["input"] = 0.1
        seconds = 100 * LEVEL[config.mechanism] + config.seed / 10 + config.units
        files["result"]["seconds"]["training"] = seconds

    suite = suite_of(**{**VALUES, "tasks": ["RTE"]}, stopping="accuracy_reached")
    context = make_report(fabricate(suite, score, reached)).context
    pvalues = context.tables["time-pvalues"]
    assert pvalues.groupby("family").size().to_dict() == {"units 128": 3, "units 64": 3}
    assert pvalues["significant"].all()
    assert len(context.tables["times"]) == 30
    assert any(each.startswith("Units 64: Time to target on RTE") for each in context.answer)


def test_an_unfinished_family(suite_of, fabricate):
    """One family has no runs: only the other is reported."""
    suite = suite_of(**VALUES)

    def some(config, *values):
        return score(config, *values) if config.units == 64 else None

    report = make_report(fabricate(suite, some))
    answer = report.context.answer
    assert answer[0].startswith("Preliminary: 30 of 60 runs are done")
    assert not any("Units 128" in sentence for sentence in answer)
    assert report.tables["pvalues"]["family"].unique().tolist() == ["units 64"]
    assert report.html()
    empty = make_report(fabricate(suite, lambda *_: None, name="empty"))
    assert empty.tables["pvalues"].empty
    assert empty.latex()


def test_suites_are_joined_by_family(suite_of, fabricate):
    folders = [fabricate(suite_of(**VALUES), score, name=name) for name in ("before", "after")]
    context = compare(*folders).context
    assert [family.name for family in context.scores.families] == ["units 64", "units 128"]
    assert [*context.parts["units 64"].scores.methods] == [
        f"{name}-64 ({source})" for source in ("before", "after") for name in NAMES
    ]
    other = fabricate(suite_of(method=METHODS, tasks=["CoLA", "RTE"]), score, name="none")
    assert not compare(folders[0], other).context.scores.families


@pytest.mark.parametrize("declared", [{"control": "attention"}, {"reference": "attention"},
                                      {"control": "attention", "test": "steel"}])  # fmt: skip
@pytest.mark.parametrize("other", ["the same suite", "a table"])
def test_a_lost_control_or_reference_is_named(suite_of, fabricate, declared, other, tmp_path):
    """As a mechanism it is no method, or two methods of each family."""
    suite = suite_of(**VALUES, **declared)
    source = fabricate(suite, score, name="after")
    if other == "a table":
        source = tmp_path / "other.csv"
        source.write_text("task,method,seed,score\n" + "".join(
            f"RTE,mine,{seed},0.{seed}\n" for seed in range(1, 6)
        ))  # fmt: skip
    report = compare(fabricate(suite, score, name="before"), source)
    said = "reference attention" if "reference" in declared else "against attention"
    assert report.context.scores.judged_against is None
    assert report.context.test == "Steel-Dwass"
    assert report.tables["pvalues"]["pvalue"].notna().any()
    assert any(said in each for each in report.context.warnings)
    assert "No verdict yet" not in report.markdown()
    assert "was fixed before the runs" not in report.markdown()


def test_a_mechanism_is_the_reference_of_each_family(suite_of, fabricate):
    folder = fabricate(suite_of(**VALUES), score)
    context = compare(folder, reference="baseline", margin=2.0).context
    references = [part.verdicts.reference for part in context.parts.values()]
    assert references == ["baseline-64", "baseline-128"]
    context = compare(folder, control="baseline").context
    controls = [part.scores.control for part in context.parts.values()]
    assert controls == ["baseline-64", "baseline-128"]
    for name, message in (
        ("basline", "Did you mean 'baseline'"),
        ("baseline-64", "such as baseline-64,baseline-128. Received: baseline-64, no method of "),
    ):
        with pytest.raises(SuiteError, match=message):
            compare(folder, reference=name)


@pytest.fixture
def table(table_of):
    """Scores of four methods that do not overlap."""
    levels = {"a": 10, "b": 20, "c": 30, "d": 40}
    return table_of(
        {"x": {name: [level + seed for seed in range(5)] for name, level in levels.items()}}
    )


def test_a_comparison_sets_families_by_lists(table):
    report = compare(table, families=[["a", "b"], ["d", "c"]])
    pvalues = report.tables["pvalues"].set_index("family")
    assert pvalues[["a", "b"]].T.to_dict("list") == {
        "family 1": ["a", "b"],
        "family 2": ["c", "d"],
    }
    # The smallest p of two methods; that of four methods is .040.
    assert pvalues["pvalue"].tolist() == pytest.approx([2 / 252] * 2)
    assert "Family 2: d has the highest mean on x" in report.context.headline


def test_the_command_of_a_comparison_names_its_families(table, tmp_path):
    path = tmp_path / "scores.csv"
    table.to_csv(path, index=False)
    report = compare(path, families=[["a", "b"], ["c", "d"]], control=None)
    assert report.context.made["compare command"] == [
        f"relation-tf compare {path} --families 'a,b;c,d'"
    ]


def test_a_comparison_of_suites_sets_families_by_key(suite_of, fabricate):
    suite = suite_of(**{**VALUES, "families": None, "tasks": ["RTE"]})
    folder = fabricate(suite, score)
    context = compare(folder, families="units", reference="attention").context
    assert [family.name for family in context.scores.families] == ["units 64", "units 128"]
    assert context.headline.count("relation-64 is better") == 1
    assert context.headline.count("relation-128 is better") == 1


def test_a_declared_reference_holds_in_new_families(suite_of, fabricate):
    suite = suite_of(**VALUES, reference="attention", margin=1.0)
    folder = fabricate(suite, score)
    families = [
        ["attention-64", "relation-64", "attention-128", "relation-128"],
        ["baseline-64", "baseline-128"],
    ]
    with pytest.raises(SuiteError, match="reference: must name one method of each family"):
        compare(folder, families=families)
    context = compare(folder, families="units", reference="baseline").context
    assert [part.scores.reference for part in context.parts.values()] == [
        "baseline-64", "baseline-128",
    ]  # fmt: skip


@pytest.mark.parametrize("chosen", ["a,d", ["d", "a"], "d, a"])
@pytest.mark.parametrize("key", ["reference", "control"])
def test_a_table_has_one_reference_or_control_per_family(table, key, chosen):
    report = compare(table, families=[["a", "b"], ["c", "d"]], **{key: chosen}).context
    parts = [part.scores for part in report.parts.values()]
    assert [getattr(part, key) for part in parts] == ["a", "d"]
    assert [part.judged_against for part in parts] == ["a", "d"]


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ("a", "reference: must name one method of each family, such as a,c. Received: a, no "
         "method of family 2 (c, d)"),
        ("a,b,c", "reference: must name one method of each family, such as a,c. Received: a, b, c, "
         "several methods of family 1 (a, b)"),
        ("a,dd", "reference: must name one method of each family, such as a,c. Received: 'dd'. "
         "Did you mean 'd'?"),
        ("", "reference: must name one method of each family, such as a,c. Received: ''."),
    ],
)  # fmt: skip
def test_a_wrong_reference_of_families_is_named(table, chosen, message):
    with pytest.raises(SuiteError) as error:
        compare(table, families=[["a", "b"], ["c", "d"]], reference=chosen)
    assert str(error.value) == message


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
        ("units", "families: must list the methods of each family, such as 'a,b;c,d', because the "
         "settings of a are unknown (it is not from a suite). Received: 'units'"),
        ([], "families: must have each method in one list. Missing: 'a'"),
    ],
)  # fmt: skip
def test_wrong_families_of_a_comparison_are_named(table, families, message):
    with pytest.raises(SuiteError) as error:
        compare(table, families=families)
    assert str(error.value) == message


def test_families_of_few_methods_have_no_example(tmp_path):
    path = tmp_path / "s.csv"
    path.write_text("task,method,seed,score\nA,a,1,.5\nA,b,1,.6\n", encoding="utf-8")
    with pytest.raises(SuiteError, match="must list the methods of each family, because the"):
        compare(path, families="units")


@pytest.mark.parametrize(
    ("options", "suggested"),
    [
        ({}, "--test welch`"),
        ({"control": "a"}, "--test welch-control --control a`"),
        (
            {"families": [["a", "b"], ["c", "d"]], "control": ["a", "c"]},
            "--test welch-control --control a,c`",
        ),
    ],
)
def test_a_warning_of_unequal_spread_suggests_a_valid_command(table_of, options, suggested):
    levels = {name: [10.0 + i, 11, 12, 13, 14] for i, name in enumerate("abcd")}
    levels |= {"b": [1.0, 30, 60, 90, 95], "d": [2.0, 31, 62, 91, 96]}
    context = compare(table_of({"T": levels}), **options).context
    assert any(each.endswith(f"{suggested}.") for each in context.warnings)


def test_the_number_of_tested_methods_is_that_of_the_family(suite_of, fabricate):
    suite = suite_of(**VALUES)
    left = next(str(method.name) for method in suite.methods() if method.units == 64)
    report = make_report(
        fabricate(suite, lambda run, *values: None if run.method == left else score(run, *values))
    )
    size = len(suite.methods()) // 2
    said = f"Units 64: Tests include only the {size - 1} of {size} methods that have scores."
    assert said in report.markdown()
