"""Tables with folds of a cross-validation."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from relation_tf.errors import OptionError
from relation_tf.report import compare
from relation_tf.stats import corrected_resampled_t


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
        assert test.procedure.title.startswith("Corrected resampled t test")


def test_a_fold_that_a_method_lacks_is_left_out():
    scores = table().iloc[1:]
    (test,) = compare(scores).data.comparisons[""].tests.values()
    assert [len(own) for own in test.samples.values()] == [4, 4]


def test_verdicts_need_independent_seeds():
    with pytest.raises(OptionError, match="folds of a cross-validation share training rows"):
        compare(table(), reference="a", margin=0.1)
    report = compare(table(), reference="a", margin=0.1, columns={"seed": "fold"})
    assert report.data.comparisons[""].verdicts is not None
    assert compare(table(), control="a").data.comparisons[""].verdicts is None


def test_over_several_tasks_a_mean_of_each_counts():
    report = compare(table(["A", "B", "C", "D", "E", "F"]))
    over = report.data.comparisons[""].over_tasks
    assert over.procedure.title == "Wilcoxon's signed-rank test with Holm"
    assert over.generalizes
