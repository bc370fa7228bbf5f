"""The corrected resampled t test against its formula, and its level on a cross-validation."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import t
from statsmodels.stats.multitest import multipletests

from relation_tf.stats import corrected_resampled_t, mcnemar_holm

RNG = np.random.default_rng(0)
SCORES = {name: RNG.normal(size=10) + place / 2 for place, name in enumerate("abc")}


@pytest.mark.parametrize("control", [None, "b"])
@pytest.mark.parametrize("test_share", [None, 0.3])
def test_formula(control, test_share):
    result = corrected_resampled_t(SCORES, control=control, test_share=test_share)
    share = 0.1 if test_share is None else test_share
    pairs = [*itertools.combinations("abc", 2)] if control is None else [("b", "a"), ("b", "c")]
    raw, expected = [], []
    for a, b in pairs:
        d = SCORES[b] - SCORES[a]
        error = np.sqrt((1 / 10 + share / (1 - share)) * d.var(ddof=1))
        raw.append(2 * t.sf(abs(d.mean() / error), 9))
        half = t.isf(0.05 / len(pairs) / 2, 9) * error
        expected.append((d.mean(), d.mean() - half, d.mean() + half))
    shown = result.pairs()
    np.testing.assert_allclose(shown["pvalue"], multipletests(raw, method="holm")[1])
    intervals = result.confidence_interval()[["difference", "low", "high"]]
    np.testing.assert_allclose(intervals, expected)


def test_without_variance_a_pair_is_not_tested():
    result = corrected_resampled_t({"a": [0.5, 0.6, 0.7], "b": [0.6, 0.7, 0.8]})
    assert result.pvalue.loc["a", "b"] == 1
    assert any("not tested" in note for note in result.notes)


def test_level_with_folds_of_one_data_set():
    """Ten folds of 100 rows; both methods are equally good. Plain t tests reject far more often."""
    rng = np.random.default_rng(1)
    corrected = plain = 0
    for _ in range(300):
        rows = rng.normal(size=(2, 100)) + 0.5 * rng.normal(size=(2, 1))
        folds = rows.reshape(2, 10, 10).mean(axis=2)
        corrected += (
            corrected_resampled_t({"a": folds[0], "b": folds[1]}).pvalue.loc["a", "b"] < 0.05
        )
        d = folds[1] - folds[0]
        plain += 2 * t.sf(abs(d.mean() / (d.std(ddof=1) / np.sqrt(10))), 9) < 0.05
    assert corrected < plain


@pytest.mark.parametrize(("samples", "options", "message"), [
    ({"a": [1, 2, 3], "b": [1, 2]}, {}, "same folds"),
    ({"a": [1], "b": [2]}, {}, "at least 2 numbers"),
    ({"a": [1, 2], "b": [2, np.inf]}, {}, "must be finite"),
    ({"a": range(21), "b": [0] * 21}, {}, "test_share: must be given"),
    ({"a": [1, 2], "b": [2, 4]}, {"test_share": 1.5}, "`test_share` must be between 0 and 1"),
])  # fmt: skip
def test_wrong_arguments(samples, options, message):
    with pytest.raises(ValueError, match=message):
        corrected_resampled_t(samples, **options)


def test_a_pair_is_tested_on_the_folds_of_both():
    """The third method lacks folds; this changes neither the other pair nor the share."""
    lacking = SCORES | {"c": np.where(np.arange(10) < 7, np.nan, SCORES["c"])}
    full, result = corrected_resampled_t(SCORES), corrected_resampled_t(lacking)
    assert result.ratio == full.ratio
    first = result.confidence_interval().set_index(["a", "b"])
    np.testing.assert_array_equal(first.iloc[0], full.confidence_interval().iloc[0, 2:])
    kept = {name: own[7:] for name, own in SCORES.items()}
    expected = corrected_resampled_t(kept, test_share=0.1)
    assert result.statistic.loc["a", "c"] == pytest.approx(expected.statistic.loc["a", "c"])
    interval = expected.confidence_interval().set_index(["a", "b"])
    np.testing.assert_allclose(first.loc[("a", "c")], interval.loc[("a", "c")])
    assert len(result.notes) == 1


def test_a_pair_without_two_common_folds_is_not_tested():
    nan = np.nan
    result = corrected_resampled_t({"a": [0.5, 0.6, 0.8, nan], "b": [0.1, 0.2, nan, nan],
                                    "c": [nan, nan, 0.7, 0.7]})  # fmt: skip
    assert result.pvalue.loc["a", ["b", "c"]].tolist() == [1, 1]  # b: equal differences
    limits = result.confidence_interval().set_index(["a", "b"])
    assert limits.loc[("b", "c")].isna().all()


def test_items_that_a_method_lacks():
    rng = np.random.default_rng(2)
    right = {name: rng.integers(0, 2, 40).astype(float) for name in "abc"}
    lacking = right | {"c": np.where(np.arange(40) < 30, right["c"], np.nan)}
    full, result = mcnemar_holm(right), mcnemar_holm(lacking)
    kept = mcnemar_holm({name: own[:30] for name, own in right.items()})
    found, *expected = (test.confidence_interval().iloc[:, 2:] for test in (result, full, kept))
    np.testing.assert_array_equal(found.iloc[0], expected[0].iloc[0])
    np.testing.assert_array_equal(found.iloc[1:], expected[1].iloc[1:])
    assert result.statistic.loc["a", "c"] == kept.statistic.loc["a", "c"]
    apart = mcnemar_holm({"a": [1, 0, np.nan, np.nan], "b": [np.nan, np.nan, 1, 0]})
    assert apart.pvalue.loc["a", "b"] == 1
