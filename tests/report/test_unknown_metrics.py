"""Tables of metrics without a known direction, and means over tasks of one metric."""

from __future__ import annotations

import shlex

import pandas as pd
import pytest

from relation_tf.errors import OptionError
from relation_tf.report import compare
from relation_tf.report.sections.paper import sentences_for_paper


def table(metric="flurb", tasks=("WikiText-2", "PTB"), scale=50.0):
    """Return scores of two methods with five seeds."""
    rows = [
        (task, method, seed, scale + shift + seed / 10)
        for task in tasks
        for method, shift in (("LSTM", 4), ("Transformer", 0))
        for seed in range(5)
    ]
    return pd.DataFrame(rows, columns=["task", "model", "seed", metric])


def warned(scores, **options):
    """Return the values of the warnings about directions."""
    warnings = compare(scores, **options).data.warnings
    return [x.values for x in warnings if x.kind == "assumed_direction"]


@pytest.mark.parametrize("metric", ["flurb", "score"])
def test_the_advice_of_a_warning_gives_all_tasks_of_a_metric_one_direction(metric):
    scores = table(metric)
    (warning,) = warned(scores)
    assert warning["tasks"] == ["WikiText-2", "PTB"]
    option, names = shlex.split(warning["option"])
    assert option == "--lower-is-better"
    assert names == ("flurb" if metric == "flurb" else "WikiText-2,PTB")
    turned = compare(scores, lower_is_better=names.split(","))
    assert turned.data.scores.lower_is_better == {"WikiText-2", "PTB"}
    assert not warned(scores, lower_is_better=names.split(","))
    assert not warned(scores, higher_is_better=names.split(","))


@pytest.mark.parametrize("metric", ["flurb", "score"])
def test_a_correction_of_some_tasks_leaves_a_warning_about_the_others(metric):
    scores = table(metric, ["A", "B", "C"])
    assert not warned(scores)
    (warning,) = warned(scores, lower_is_better=["A"])
    assert (warning["tasks"], warning["lower"]) == (["B", "C"], ["A"])
    names = shlex.split(warning["option"])[1].split(",")
    assert not warned(scores, lower_is_better=names)
    assert compare(scores, lower_is_better=names).data.scores.lower_is_better == {*"ABC"}
    (warning,) = warned(scores, lower_is_better=["A"], higher_is_better=["B"])
    assert warning["tasks"] == ["C"]
    assert shlex.split(warning["option"])[1] == "A,C"


def test_headline_and_paragraph_say_that_a_direction_is_assumed():
    scores = table(tasks=["A", "B"])

    def stated(**options):
        report = compare(scores, **options)
        (part,) = report.data.comparisons.values()
        assert str(report).count("Higher is assumed") == report.headline.count("Higher is assumed")
        return [
            [x.values["tasks"] for x in said if x.kind == "higher_assumed"]
            for said in (report.data.headlines, sentences_for_paper(part))
        ]

    assert stated() == [[["A", "B"]]] * 2
    assert stated(reference="LSTM") == [[["A", "B"]]] * 2
    assert stated(lower_is_better=["A"]) == [[["B"]]] * 2
    assert stated(lower_is_better=["flurb"]) == [[], []]
    scores = table("accuracy")
    assert stated() == [[], []]


@pytest.mark.parametrize("given", [True, "all", ["all"]])
def test_all_tasks_have_a_short_form_that_the_report_names(given):
    scores = table(tasks=["A", "B"])
    data = compare(scores).data
    (said,) = (x for x in data.headlines if x.kind == "higher_assumed")
    assert said.values["option"] == "--lower-is-better all"
    assert compare(scores, lower_is_better=given).data.scores.lower_is_better == {"A", "B"}
    losses = scores.rename(columns={"flurb": "loss"})
    assert not compare(losses, higher_is_better=given).data.scores.lower_is_better
    assert not compare(scores, lower_is_better=False).data.scores.lower_is_better
    named = table(tasks=["all", "B"])
    assert compare(named, lower_is_better="all").data.scores.lower_is_better == {"all"}
    scores.loc[0, "flurb"] = float("nan")
    compare(scores, lower_is_better=given, failed_as=1e6)
    with pytest.raises(OptionError, match="worst"):
        compare(scores, lower_is_better=given, failed_as=-1e6)


def test_tasks_of_one_metric_have_a_mean_whatever_their_names():
    means = {
        metric: compare(table(metric)).data.comparisons[""].standings["mean"].tolist()
        for metric in ("flurb", "perplexity")
    }
    assert means["flurb"] == means["perplexity"] == pytest.approx([54.2, 50.2])


@pytest.mark.parametrize(("scale", "percent"), [(9.0, True), (900.0, False)])
def test_a_warning_about_units_names_an_option_that_helps(scale, percent):
    scores = pd.concat([table(tasks=["A"], scale=scale), table(tasks=["B"], scale=0).assign(
        flurb=lambda rows: rows["flurb"] / 10)])  # fmt: skip
    (warning,) = (x for x in compare(scores).data.warnings if x.kind == "no_mean_over_tasks")
    assert warning.values["percent"] == percent
    assert "--same-unit" in str(warning)
    assert ("percent" in str(warning)) == percent
    assert not compare(scores, same_unit=True).data.scores.unit_remark
