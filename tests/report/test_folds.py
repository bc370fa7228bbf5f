"""Tables with folds of a cross-validation, and with items."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from relation_tf.errors import OptionError, SuiteError
from relation_tf.report import compare
from relation_tf.report.sections.verdicts import NOT_VARYING
from relation_tf.stats import corrected_resampled_t, mcnemar_holm
from tests.report.conftest import stated


def table(tasks=("A",)):
    rng = np.random.default_rng(0)
    rows = [
        (task, method, fold, 0.5 + place / 10 + rng.normal() / 20)
        for task in tasks
        for place, method in enumerate("ab")
        for fold in range(5)
    ]
    return pd.DataFrame(rows, columns=["dataset", "model", "fold", "acc"])


def test_folds_have_their_own_test_in_any_order():
    scores = table()
    shuffled = scores.sample(frac=1, random_state=0)
    expected = corrected_resampled_t({m: own["acc"] for m, own in scores.groupby("model")})
    for given in (scores, shuffled):
        (test,) = compare(given).data.comparisons[""].tests.values()
        assert test.pvalue.loc["a", "b"] == pytest.approx(expected.pvalue.loc["a", "b"])
        assert test.procedure.title.startswith("corrected resampled t test")


def items(**chances):
    """Return a table of 200 right and wrong items; by default, two of three methods are alike."""
    draws = np.random.default_rng(0).random(200)
    chances = chances or {"a": 0.6, "b": 0.65, "c": 0.85}
    right = {name: (draws < chance).astype(int) for name, chance in chances.items()}
    return pd.DataFrame({"item": range(200), **right})


def only_comparison(scores, **options):
    (part,) = compare(scores, **options).data.comparisons.values()
    return part


def test_a_fold_that_a_method_lacks_is_left_out():
    scores = table().iloc[1:]
    part = only_comparison(scores)
    assert part.pvalues[["n_a", "n_b"]].to_numpy().tolist() == [[4, 4]]
    assert part.tests["A"].ratio == 0.25  # of five folds


def test_a_method_that_lacks_folds_changes_no_other_pair():
    scores = table().pivot(index="fold", columns="model", values="acc").reset_index()
    third = scores.assign(c=np.where(scores["fold"] < 4, np.nan, scores["a"]))
    shown = only_comparison(third).pvalues.set_index(["a", "b"])
    alone = only_comparison(scores).pvalues.set_index(["a", "b"])
    for name in ("statistic", "difference", "n_a"):
        assert shown.loc[("a", "b"), name] == pytest.approx(alone.loc[("a", "b"), name])
    assert shown.loc[("a", "c"), ["n_a", "pvalue"]].tolist() == [1, 1]
    verdicts = only_comparison(third, reference="a", margin=0.1).verdicts
    assert [*verdicts.tasks["score"].index] == ["b"]


@pytest.mark.parametrize("scores", [table(), items(a=0.6, b=0.7)])
def test_scores_of_other_folds_or_items_have_no_test(scores):
    ids = scores.columns[scores.columns.isin(["fold", "item"])][0]
    names = scores[ids].astype(str)
    if ids == "fold":
        apart = scores.assign(fold=names.mask(scores["model"] == "b", "b" + names))
    else:
        apart = scores.melt("item", ["a", "b"], "model", "acc")
        apart["item"] = apart["model"] + apart["item"].astype(str)
    part = only_comparison(apart)
    assert part.tests == {}
    (said,) = (x for x in part.findings if x.kind == "no_test")
    assert (said.values["reason"], said.values["replicate"]) == ("unpaired", ids)


@pytest.mark.parametrize(("scores", "options"), [
    (table(), {"test": "welch"}),
    (table(), {"test": "steel", "control": "a"}),
    (items(), {"test": "steel-dwass"}),
    (table(["A", "B"]), {"test_over_tasks": "stratified-steel-dwass"}),
])  # fmt: skip
def test_a_test_of_independent_seeds_is_refused(scores, options):
    with pytest.raises(OptionError, match="needs independent seeds"):
        compare(scores, **options)
    if "item" not in scores:
        compare(scores, columns={"seed": "fold"}, **options)


def repeated():
    """Return 10 times 10 folds, as `cv_results_` of scikit-learn."""
    scores = np.random.default_rng(0).normal(size=(2, 100))
    scores[1] += 0.2
    folds = {f"split{i}_test_score": scores[:, i] for i in range(100)}
    return pd.DataFrame({"model": ["a", "b"], **folds})


def test_repeated_folds_need_their_share():
    with pytest.raises(OptionError, match="test_share"):
        str(compare(repeated()))
    part = only_comparison(repeated(), test_share=0.1)
    samples = dict(zip("ab", repeated().iloc[:, 1:].to_numpy(), strict=True))
    expected = corrected_resampled_t(samples, test_share=0.1)
    assert part.tests["score"].pvalue.loc["a", "b"] == expected.pvalue.loc["a", "b"]
    assert "test rows of a fold: 0.1." in compare(repeated(), test_share=0.1).markdown()
    shown = only_comparison(repeated(), reference="a", margin=0.1, test_share=0.1).verdicts
    low, high = expected.confidence_interval().loc[0, ["low", "high"]]
    assert [*shown.tasks["score"].loc["b", ["low", "high"]]] == pytest.approx([low, high])


@pytest.mark.parametrize("names", [["repeat", "fold"], ["cv_fold", "seed"]])
def test_repeats_and_folds_in_two_columns(names, tmp_path):
    """The share of the test rows follows from the number of folds of a repeat."""
    wide = (
        repeated()
        .set_index("model")
        .set_axis(pd.MultiIndex.from_product([range(10)] * 2, names=names), axis=1)
    )
    scores = wide.stack(names, future_stack=True).rename("acc").reset_index()
    report = compare(scores.sample(frac=1, random_state=0))
    (part,) = report.data.comparisons.values()
    expected = only_comparison(repeated(), test_share=0.1).tests["score"]
    assert part.tests["acc"].pvalue.loc["a", "b"] == pytest.approx(expected.pvalue.loc["a", "b"])
    report.write(tmp_path)
    pd.testing.assert_frame_equal(only_comparison(tmp_path).pvalues, part.pvalues)
    chosen = only_comparison(scores, test_share=0.2)
    assert chosen.tests["acc"].ratio == 0.25


def test_a_report_on_items_is_read_as_such(tmp_path):
    compare(items()).write(tmp_path)
    assert only_comparison(tmp_path).scores.replicate == "item"


def test_a_failed_item_is_left_out():
    scores = items().astype(object)
    scores.loc[3, "a"] = "failed"
    part = only_comparison(scores)
    assert part.scores.replicate == "item"
    assert part.pvalues["n_a"].tolist() == [199, 199, 200]


def test_one_common_item_is_not_tested():
    scores = items()[["item", "a", "b"]].astype(object)
    scores.loc[1:, "b"] = ""
    scores.loc[0, "b"] = 1 - scores.loc[0, "a"]
    rows = scores.assign(c=items()["c"])
    assert only_comparison(rows).tests["score"].pvalue.loc["a", "b"] == 1


def test_folds_and_items_have_no_bootstrap_of_seeds():
    assert only_comparison(table(["A", "B"]), same_unit=True).aggregates.empty


def test_another_score_than_0_and_1_has_no_test_of_items():
    with pytest.raises(OptionError, match="0 or 1 on the same items"):
        compare(table(), test="mcnemar")


def test_seeds_have_no_share():
    with pytest.raises(OptionError, match="test_share"):
        compare(table(), columns={"seed": "fold"}, test_share=0.1)
    with pytest.raises(OptionError, match="test_share"):
        compare(table(), test_share=1)


def test_seeds_and_folds_are_not_joined():
    folds, seeds = table(), table(["B"]).rename(columns={"fold": "seed"})
    with pytest.raises(SuiteError, match="seeds"):
        compare(folds, seeds)


@pytest.mark.parametrize(
    ("scores", "replicate", "seeds"), [(table(), "fold", "5 folds"), (items(), "item", "200 items")]
)
def test_one_name_for_what_the_scores_are(scores, replicate, seeds):
    report = compare(scores)
    (part,) = report.data.comparisons.values()
    assert part.scores.replicate == replicate
    assert stated(part)["paper_compared"]["replicate"] == replicate
    assert stated(part)["paper_scope"]["over"] == replicate
    for said in part.findings:
        assert said.values["seeds"] in (seeds, "")
    assert f"{replicate}s" in report.markdown()
    assert "other seeds on" not in report.markdown()
    assert "Scores by seed" not in report.markdown()


def test_items_have_no_standard_deviation():
    data = compare(items()).data
    assert data.summary["sd"].isna().all()
    assert not any(cell.deviation for cell in data.cells.values())
    assert "seeds" not in data.blocks


def test_the_mean_of_folds_has_no_interval():
    """A t interval assumes independent scores."""
    (picture,) = (x for x in compare(table()).data.pictures if x.name == "scores")
    assert "interval" not in picture.alt


def test_folds_of_several_tasks_are_compared_by_task():
    scores = table(["A", "B", "C"])
    part = only_comparison(scores)
    tests = {task: corrected_resampled_t(
        {name: own["acc"] for name, own in rows.groupby("model")}
    ) for task, rows in scores.groupby("dataset")}  # fmt: skip
    found = {
        task: x.pvalue.loc["a", "b"] for task, x in tests.items() if x.significant.loc["a", "b"]
    }
    assert len(found) > 0
    headline = part.headline.values["test"]
    assert (headline["of"], headline["significant"], headline["pairs"]) == ("tasks", len(found), 3)
    assert part.findings[0].kind == "pair"
    assert part.findings[-1].kind == "over_tasks"
    said = stated(part)
    assert said["paper_test"]["cite"] == ["nadeau2003"]
    assert {pair["task"]: pair["pvalue"] for pair in said["paper_found"]["found"]} == found
    chosen = only_comparison(scores, test_over_tasks="wilcoxon-pairs")
    assert chosen.headline.values["test"]["of"] == "methods"


def test_a_paired_test_has_the_difference_as_its_only_effect():
    for scores in (table(), items()):
        part = only_comparison(scores)
        assert part.pvalues[["effect_size", "effect_low", "effect_high"]].isna().all(axis=None)
        assert (part.pvalues["difference_low"] < part.pvalues["difference_high"]).all()
        found = stated(part)["paper_found"]
        assert [pair["effect"] for pair in found["found"]] == [None] * len(found["found"])
        page = compare(scores).markdown()
        assert "Cliff" not in page
        assert "(by ranks)" not in page


def test_paragraph_on_items():
    """Accuracies, numbers of items that only one method has right, and p, significant or not."""
    scores = items(a=0.6, b=0.62)
    expected = mcnemar_holm({name: scores[name] for name in "ab"})
    said = stated(only_comparison(scores))
    pvalue = expected.pvalue.loc["a", "b"]
    assert pvalue > 0.05
    assert said["paper_items"]["accuracies"] == pytest.approx(dict(scores[["a", "b"]].mean()))
    (counts,) = said["paper_items"]["counts"]
    only_b = int((scores["b"] > scores["a"]).sum())
    assert counts == {"a": "a", "b": "b", "only_a": 0, "only_b": only_b, "pvalue": pvalue}
    assert said["paper_others"]["pvalue"] == pvalue
    assert "mid-p" in said["paper_test"]["test"]


@pytest.mark.parametrize("lower", [[], ["score"]])
def test_verdicts_on_items_have_paired_intervals(lower):
    scores = items()
    part = only_comparison(scores, reference="a", margin=0.02, lower_is_better=lower)
    test = mcnemar_holm({name: scores[name] for name in "abc"}, control="a")
    expected = test.confidence_interval().set_index("b")
    sign = -1 if lower else 1
    for name in "bc":
        row, limits = part.verdicts.mean.loc[name], expected.loc[name]
        assert row["difference"] == pytest.approx(sign * limits["difference"])
        assert [row["low"], row["high"]] == pytest.approx(sorted(sign * limits[["low", "high"]]))
    assert part.verdicts.mean["verdict"]["c"] == ("worse" if lower else "better")
    assert stated(part)["paper_verdicts"]["margin"] == 0.02


def test_verdicts_on_folds_have_paired_intervals():
    scores = table(["A", "B"])
    part = only_comparison(scores, reference="a", margin=0.1)
    assert part.verdicts.mean is None
    for task, rows in scores.groupby("dataset"):
        samples = {name: own["acc"] for name, own in rows.groupby("model")}
        (expected,) = corrected_resampled_t(samples).confidence_interval().to_dict("records")
        shown = part.verdicts.tasks[task].loc["b"]
        for name in ("difference", "low", "high"):
            assert shown[name] == pytest.approx(expected[name])
    assert only_comparison(table(), control="a").verdicts is None


def test_over_several_tasks_a_mean_of_each_counts():
    report = compare(table(["A", "B", "C", "D", "E", "F"]))
    over = report.data.comparisons[""].over_tasks
    assert over.procedure.title.startswith("Wilcoxon's signed-rank test")
    assert over.generalizes


def test_no_verdict_if_differences_do_not_vary():
    scores = table()
    scores.loc[scores["model"] == "b", "acc"] = scores["acc"].to_numpy()[:5] + 0.1
    (row,) = only_comparison(scores, reference="a", margin=0.1).verdicts.mean.itertuples()
    assert (row.verdict, row.reason) == ("inconclusive", NOT_VARYING)
    assert np.isinf([row.low, row.high]).all()
