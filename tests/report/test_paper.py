"""The paragraph for a paper: its data, and its references."""

from __future__ import annotations

import html
import json
import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from relation_tf.registry import PROCEDURES, register_procedure
from relation_tf.report import compare
from relation_tf.report.sections.paper import CITED, sentences_for_paper
from relation_tf.report.text import environment, references, state
from relation_tf.stats import friedman_wilcoxon, steel_dwass, stratified_steel_dwass, welch
from relation_tf.words import limit


def table(tasks, seeds, shift=2.0, methods="abc"):
    rng = np.random.default_rng(0)
    rows = [
        (task, method, seed, rng.normal() + place * shift)
        for task in tasks
        for place, method in enumerate(methods)
        for seed in range(seeds)
    ]
    return pd.DataFrame(rows, columns=["task", "method", "seed", "score"])


def stated(scores, **options):
    """Return the values of each sentence, by its kind."""
    (part,) = compare(scores, **options).data.comparisons.values()
    return {
        said.kind.removeprefix("paper_"): dict(said.values) for said in sentences_for_paper(part)
    }


def test_an_interval_that_equal_scores_widen_to_zero():
    scores = table("ABC", 5, methods="ab")
    assert "ties" not in stated(scores)
    scores.loc[scores["task"] == "C", "score"] = 1.0
    said = stated(scores)
    (pair,) = said["found"]["found"]
    assert pair["pvalue"] < 0.001
    assert pair["difference"][1] == 0
    assert "ties" in said


def test_one_task():
    scores = table(["A"], 6)
    said = stated(scores)
    result = steel_dwass({name: own["score"] for name, own in scores.groupby("method")})
    assert (said["compared"]["tasks"], said["compared"]["seeds"]) == (["A"], [6, 6])
    assert (said["test"]["test"], said["test"]["pvalues"]) == ("Steel-Dwass", "monte-carlo")
    assert said["scope"]["over"] == "seed"
    effects = result.effect_sizes().set_index(["a", "b"])
    intervals = result.confidence_interval().set_index(["a", "b"])
    found = said["found"]["found"]
    assert len(found) == result.pairs()["significant"].sum() > 0
    for pair in found:
        key = pair["worse"], pair["better"]
        assert pair["pvalue"] == result.pvalue.loc[key]
        assert pair["effect"] == pytest.approx([*effects.loc[key, ["delta", "low", "high"]]])
        assert pair["magnitude"] == "large"
        shown = [*intervals.loc[key, ["difference", "low", "high"]]]
        assert pair["difference"] == pytest.approx(shown)


@pytest.mark.parametrize("lower", [False, True])
def test_effects_and_differences_are_positive_for_the_better_method(lower):
    found = stated(table(["A"], 6), lower_is_better=["A"] if lower else [])["found"]["found"]
    assert ("ac" if lower else "ca") in {pair["better"] + pair["worse"] for pair in found}
    for pair in found:
        assert pair["effect"][0] > 0 < pair["difference"][0]


def test_several_tasks_with_seeds():
    scores = table(["A", "B"], 5, shift=0.5)
    said, result = stated(scores), stratified_steel_dwass(scores)
    assert (said["compared"]["tasks"], said["compared"]["seeds"]) == (["A", "B"], [5, 5])
    assert said["others"]["significant"] == result.pairs()["significant"].sum()
    assert said["others"]["attainable"] == result.attainable_pvalue
    assert said["scope"] == {"over": "tasks"}
    assert "friedman" not in said


def test_one_score_for_each_dataset():
    scores = table([f"d{i}" for i in range(12)], 1)
    said = stated(scores)
    result = friedman_wilcoxon(scores.pivot(index="task", columns="method", values="score"))
    assert said["scope"] == {"over": "datasets"}
    assert said["friedman"]["pvalue"] == result.friedman_pvalue
    assert said["friedman"]["f"] == result.f_statistic
    found = {pair["better"] for pair in said["found"]["found"]}
    assert found == {*result.pairs()["better"].dropna()}
    assert said["found"]["effect"] == "matched-pairs rank-biserial correlation"
    assert {"friedman1937", "iman1980"}.isdisjoint(said["test"]["cite"])
    page = compare(scores).latex()
    assert r"\cite{friedman1937,iman1980}" in page
    assert r"\cite{kerby2014}" in page


def test_pairs_of_the_best_method_come_first_and_the_others_are_counted():
    scores = table(["A"], 9, shift=4.0, methods="abcde")
    said = stated(scores)
    order = [(pair["better"], pair["pvalue"]) for pair in said["found"]["found"]]
    assert [better for better, _ in order] == [*"eeeedd"]
    assert order == sorted(order, key=lambda pair: (-ord(pair[0]), pair[1]))
    assert (said["others"]["significant"], said["others"]["more"]) == (10, 4)
    assert "more" not in {*stated(table(["A"], 9, shift=4.0)).get("others", {})}


def test_verdicts_against_a_reference():
    scores = table(["A", "B"], 5)
    report = compare(scores, reference="a", margin=0.5)
    (part,) = report.data.comparisons.values()
    verdicts = stated(scores, reference="a", margin=0.5)["verdicts"]
    assert (verdicts["reference"], verdicts["tasks"], verdicts["margin"]) == ("a", 2, 0.5)
    mean = part.verdicts.mean
    for name, (verdict, *numbers, reason) in verdicts["methods"].items():
        assert (verdict, reason) == (mean["verdict"][name], "")
        assert numbers == [*mean.loc[name, ["difference", "low", "high"]]]


def test_interquartile_means_of_tasks_in_one_unit():
    scores = table(["A", "B"], 5)
    (part,) = compare(scores, same_unit=True).data.comparisons.values()
    stated_means = stated(scores, same_unit=True)["aggregates"]["methods"]
    assert [*stated_means] == [*part.aggregates.index]
    assert [mean for mean, *_ in stated_means.values()] == part.aggregates["iqm"].tolist()
    assert "IQM" in [column.name for column in part.report.blocks["answer"][1].columns]


def test_the_interval_of_a_difference_has_the_level_of_the_test():
    page = compare(table(["A"], 8, shift=9, methods="ab"), alpha=0.01).markdown()
    assert "simultaneous 99 % interval" in page
    assert "simultaneous 95 % interval" not in page


def test_too_few_seeds_for_any_difference():
    others = stated(table(["A"], 2))["others"]
    assert (others["significant"], others["lacking"]) == (0, "seeds")
    assert others["attainable"] > 0.05


def test_without_a_test_there_is_no_paragraph():
    assert stated(table(["A"], 1)) == {}


def test_every_test_of_the_package_has_references():
    ours = {name for name in PROCEDURES if PROCEDURES.origin(name).startswith("relation_tf.")}
    assert {*CITED} == {name.removesuffix("-control") for name in ours}
    words, _, _ = environment().loader.get_source(environment(), "statements.jinja")
    cited = {key for keys in re.findall(r"\[@([\w,]+)\]", words) for key in keys.split(",")}
    cited |= {key for keys in CITED.values() for key in keys}
    assert cited | {"agarwal2021"} == {*references()}
    for entry in references().values():
        assert entry.startswith("@")
        assert entry.count("{") == entry.count("}")


@pytest.mark.parametrize(
    ("test", "cited"),
    [
        ("steel-dwass", {"romano2006", "cliff1993", "hodges1963"}),
        ("welch", {"romano2006", "cliff1993"}),
    ],
)
def test_effects_and_differences_are_cited(test, cited):
    page = compare(table(["A"], 6), test=test).latex()
    estimates = {"romano2006", "cliff1993", "hodges1963", "kerby2014", "bonett2012"}
    assert {key for key in estimates if rf"\cite{{{key}}}" in page} == cited


@pytest.mark.parametrize("column", ["acc_std", "std", "std_test_acc", "epochs"])
def test_one_score_for_each_dataset_can_be_a_mean(column):
    scores = table([f"d{i}" for i in range(8)], 1).drop(columns="seed")
    said = stated(scores.rename(columns={"score": "acc"}).assign(**{column: 0.1, "n": 5}))
    assert said["compared"]["means"] == ("std" in column)


@pytest.mark.parametrize(
    ("metric", "options", "lower"),
    [("acc", {}, []), ("loss", {}, ["A", "B"]), ("flurb", {"lower_is_better": ["A"]}, ["A"])],
)
def test_the_metric_and_its_direction_are_named(metric, options, lower):
    scores = table(["A", "B"], 6).rename(columns={"score": metric})
    (part,) = compare(scores, **options).data.comparisons.values()
    said = next(iter(sentences_for_paper(part))).values
    assert (said["metric"], said["lower"]) == (metric, lower)


def test_a_plugins_test_is_not_said_to_be_two_sided():
    @register_procedure("one-sided", compares="all-pairs", title="One-sided", symbol="t")
    def one_sided(samples, alpha=0.05, *, higher_is_better=True):
        return replace(welch(samples, alpha), procedure=PROCEDURES["one-sided"])

    try:
        pages = [compare(table(["A"], 6), test=name).markdown() for name in ("one-sided", "welch")]
    finally:
        PROCEDURES.remove("one-sided")
    assert ["two-sided" in page for page in pages] == [False, True]


def test_references_in_each_format():
    report = compare(table(["A"], 6))
    (paragraph,) = report.data.blocks["paper"]
    assert "Fligner 1991)" in report.markdown()
    assert "[@steel1960,dwass1960,critchlow1991]" in paragraph.texts[0]
    assert r"\cite{steel1960,dwass1960,critchlow1991}" in report.latex()


def numbers_in(value):
    """Iterate over the numbers of a record, and the lengths of its lists."""
    if isinstance(value, dict | list):
        yield len(value)
        for item in value.values() if isinstance(value, dict) else value:
            yield from numbers_in(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


CONSTANTS = (
    r"\([A-Z][^()]*[12]\d{3}\)|(?<!two-sided )95 %|3:1|\(n - 1\)|Rank 1 is|ranks, 1 is|"
    r"(above|below|excludes?) 0\b"
)


def names_in(value):
    """Iterate over the texts of a record other than its sentence, and the keys of its tables."""
    if isinstance(value, dict):
        yield from value
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from names_in(item)
    elif isinstance(value, str):
        yield value


@pytest.mark.parametrize(
    ("scores", "options"),
    [
        (table(["A"], 6), {}),
        (table(["A", "B"], 5, shift=0.5), {}),
        (table(["A", "B"], 5), {"reference": "a", "margin": 0.5}),
        (table(["A", "B"], 5), {"same_unit": True}),
        (table([f"d{i}" for i in range(12)], 1), {}),
        (table(["A", "B"], 5), {"control": "a", "test": "welch-control"}),
        (table(["A"], 2), {}),
        (table(["A"], 4, methods="abxy"), {"families": [["a", "b"], ["x", "y"]]}),
    ],
)
def test_each_sentence_names_the_field_with_its_numbers(scores, options):
    report = compare(scores, **options)
    content, page = json.loads(report.json()), report.html().partition("</header>")[2]
    pattern = r'<(span|p)[^>]* data-field="([\w.-]+)">(.*?)</\1>'
    said = [found[1:] for found in re.findall(pattern, page, re.DOTALL)]
    assert len(said) > 2
    for field, sentence in said:
        record = content
        for key in field.split("."):
            record = record[int(key) if isinstance(record, list) else key]
        text = html.unescape(re.sub("<[^>]*>", "", sentence))
        values = {name: value for name, value in record.items() if name != "text"}
        if "numbers" not in record:
            assert " ".join(text.split()) == record["text"].replace("`", "")
        for name in sorted({*names_in(values)}, key=len, reverse=True):
            text = text.replace(name, " ") if name else text
        pairs = values.get("significant", 0) + values.get("others", 0)
        known = [*numbers_in(values), pairs]
        text = re.sub(CONSTANTS, " ", text.replace("−", "-"))
        for number in re.findall(r"(?<![\w.])-?(?:\d[\d,]*\.?\d*|\.\d+)", text):
            shown = number.rstrip(".,").replace(",", "")
            digits = len(shown.partition(".")[2])
            close = [x for x in known if abs(abs(x) - abs(float(shown))) <= 0.5001 * 10**-digits]
            assert close or (shown == ".001" and min(known) < 0.001), (number, record)
    # Other words have no numbers but constants. Facts of the provenance are fields themselves.
    rest = re.sub(rf"(?s){pattern}|<(svg|table|style|script|dl)\b.*?</\4>", " ", page)
    rest = re.sub(r'<summary>\d+ caveats?</summary>|<h3>Family \d</h3>|<a href="[^"]*">', "", rest)
    rest = re.sub(CONSTANTS, " ", html.unescape(re.sub("<[^>]*>", "", rest)).replace("−", "-"))
    assert re.findall(r"[^.:]*\d[^.:]*", rest) == []


@pytest.mark.parametrize("seeds", [1, 3])
def test_p_is_stated_also_without_a_significant_pair(seeds):
    scores = table(["A"] if seeds > 1 else [f"d{i}" for i in range(6)], seeds, 0, methods="ab")
    (part,) = compare(scores).data.comparisons.values()
    said = stated(scores)
    assert "found" not in said
    assert said["others"]["pvalue"] == part.outcome.pairs["pvalue"].min()


@pytest.mark.parametrize(("name", "words"), [
    ("steel-dwass", "with the Steel-Dwass test"), ("steel", "with Steel's test"),
    ("stratified-steel-dwass", "the stratified Steel-Dwass test"),
    ("corrected-t", "the corrected resampled t test"),
    ("brunner-munzel", "the Brunner-Munzel test with Holm's"),
    ("wilcoxon-pairs", "with Wilcoxon's signed-rank test"),
])  # fmt: skip
def test_name_of_a_test_in_a_sentence(name, words):
    values = {"cite": [], "by_task": 0, "control": None, "pvalues": "", "drawn": None}
    values |= {"test": PROCEDURES[name].title, "alpha": 0.05, "shares": [], "units": False}
    assert words in str(state("paper_test", **values))


def test_an_infinite_f_is_left_out():
    rows = [(f"d{i}", name, i + place) for i in range(8) for place, name in enumerate("abc")]
    report = compare(pd.DataFrame(rows, columns=["task", "method", "score"]))
    assert "χ²" in report.markdown()
    assert "∞" not in report.markdown()


@pytest.mark.parametrize(
    ("value", "digits", "shown"),
    [
        (0.00004, 4, "+0.00004"), (-0.04, 1, "−0.04"), (0.0, 1, "0"), (-1e-17, 1, "0"),
        (0.16, 1, "+0.2"), (math.inf, 1, "+∞"), (math.nan, 1, "–"),
    ],
)  # fmt: skip
def test_a_limit_that_is_not_zero_does_not_look_like_zero(value, digits, shown):
    assert limit(value, digits) == shown


def test_intervals_exclude_zero_as_their_test_does():
    scores = pd.DataFrame({
        "method": [*"aaaabbbb"], "seed": [*range(4)] * 2,
        "acc": [10.0, 20, 30, 40, 40.01, 50, 60, 70],
    })  # fmt: skip
    report = compare(scores)
    (row,) = report.tables["pvalues"].itertuples()
    assert row.pvalue < 0.05
    assert row.difference_low == pytest.approx(0.01)
    assert "[+0.01, " in report.markdown().replace("\\", "")
    assert "interval +0.01 to" in report.markdown()
