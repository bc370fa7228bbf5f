"""The paragraph for a paper: its data, and its references."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from relation_tf.registry import PROCEDURES
from relation_tf.report import compare
from relation_tf.report.sections.paper import CITED, facts_for_paper
from relation_tf.report.text import references
from relation_tf.stats import friedman_wilcoxon, steel_dwass, stratified_steel_dwass


def table(tasks, seeds, shift=2.0):
    rng = np.random.default_rng(0)
    rows = [
        (task, method, seed, rng.normal() + place * shift)
        for task in tasks
        for place, method in enumerate("abc")
        for seed in range(seeds)
    ]
    return pd.DataFrame(rows, columns=["task", "method", "seed", "score"])


def facts(scores, **options):
    (part,) = compare(scores, **options).data.comparisons.values()
    return facts_for_paper(part)


def test_one_task():
    scores = table(["A"], 6)
    found = facts(scores)
    result = steel_dwass({name: own["score"] for name, own in scores.groupby("method")})
    assert (found["over"], found["tasks"], found["seeds"]) == ("task", ["A"], [6, 6])
    assert (found["test"], found["pvalues"]) == ("Steel-Dwass", "monte-carlo")
    effects = result.effect_sizes().set_index(["a", "b"])
    intervals = result.confidence_interval().set_index(["a", "b"])
    assert found["significant"] == len(found["found"]) == result.pairs()["significant"].sum() > 0
    for pair in found["found"]:
        key = pair["worse"], pair["better"]
        assert pair["pvalue"] == result.pvalue.loc[key]
        assert pair["effect"] == pytest.approx([*effects.loc[key, ["delta", "low", "high"]]])
        shown = [*intervals.loc[key, ["difference", "low", "high"]]]
        assert pair["difference"] == pytest.approx(shown)


def test_several_tasks_with_seeds():
    scores = table(["A", "B"], 5)
    found, result = facts(scores), stratified_steel_dwass(scores)
    assert (found["over"], found["tasks"], found["seeds"]) == ("tasks", ["A", "B"], [5, 5])
    assert found["significant"] == result.pairs()["significant"].sum()
    assert found["attainable"] == result.attainable_pvalue
    assert found["friedman"] is None


def test_one_score_for_each_dataset():
    scores = table([f"d{i}" for i in range(12)], 1)
    found = facts(scores)
    result = friedman_wilcoxon(scores.pivot(index="task", columns="method", values="score"))
    assert found["over"] == "datasets"
    assert found["friedman"]["pvalue"] == result.friedman_pvalue
    assert found["friedman"]["f"] == result.f_statistic
    assert {pair["better"] for pair in found["found"]} == {*result.pairs()["better"].dropna()}
    assert found["effect"] == "matched-pairs rank-biserial correlation"


def test_verdicts_against_a_reference():
    scores = table(["A", "B"], 5)
    report = compare(scores, reference="a", margin=0.5)
    (part,) = report.data.comparisons.values()
    verdicts = facts_for_paper(part)["verdicts"]
    assert (verdicts["reference"], verdicts["tasks"], verdicts["margin"]) == ("a", 2, 0.5)
    mean = part.verdicts.mean
    for name, (verdict, *numbers) in verdicts["methods"].items():
        assert verdict == mean["verdict"][name]
        assert numbers == [*mean.loc[name, ["difference", "low", "high"]]]


def test_too_few_seeds_for_any_difference():
    found = facts(table(["A"], 2))
    assert (found["significant"], found["lacking"]) == (0, "seeds")
    assert found["attainable"] > 0.05


def test_without_a_test_there_is_no_paragraph():
    assert facts(table(["A"], 1)) is None


def test_every_test_of_the_package_has_references():
    ours = {name for name in PROCEDURES if PROCEDURES.origin(name).startswith("relation_tf.")}
    assert {*CITED} == ours
    assert {key for keys in CITED.values() for key in keys} <= {*references()}
    for entry in references().values():
        assert entry.startswith("@")
        assert entry.count("{") == entry.count("}")


def test_references_in_each_format():
    report = compare(table(["A"], 6))
    blocks = report.data.blocks["paper"]
    assert "(Steel 1960, Dwass 1960, Critchlow and Fligner 1991)" in report.markdown()
    assert "[@steel1960,dwass1960,critchlow1991]" in blocks[0].text
