"""Kruskal-Wallis against its formula, and what its wrapper guards."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2, rankdata

from relation_tf.stats import kruskal_wallis, steel_dwass

GROUPS = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=5), min_size=2, max_size=4)


@settings(deadline=None, max_examples=50)
@given(GROUPS)
def test_is_the_formula(groups):
    result = kruskal_wallis(tuple(groups))
    pool = np.concatenate(groups)
    if len(set(pool.tolist())) == 1:
        assert (result.statistic, result.pvalue) == (0, 1)
        assert result.notes == ("all scores are equal, so p = 1",)
        return
    ranks = np.split(rankdata(pool), np.cumsum([len(group) for group in groups])[:-1])
    n = len(pool)
    between = sum(len(own) * (own.mean() - (n + 1) / 2) ** 2 for own in ranks)
    statistic = (n - 1) * between / ((np.concatenate(ranks) - (n + 1) / 2) ** 2).sum()
    assert result.statistic == pytest.approx(statistic)
    assert result.pvalue == pytest.approx(chi2.sf(statistic, len(groups) - 1))


def test_ties_by_tolerance_and_nan_ranked_worst():
    assert kruskal_wallis(([0.1 + 0.2, 0.5], [0.3, 0.5])).statistic == 0
    samples = {"a": [1, 2, math.nan], "b": [3, 4, 5]}
    result = kruskal_wallis(samples)
    assert result.statistic == kruskal_wallis({"a": [1, 2, 0], "b": [3, 4, 5]}).statistic
    assert result.notes == ("a: 1 of 3 scores are NaN, ranked worst",)
    high = kruskal_wallis(samples, higher_is_better=False)
    assert high.statistic == kruskal_wallis({"a": [1, 2, 9], "b": [3, 4, 5]}).statistic
    with pytest.raises(ValueError, match="must not be NaN"):
        kruskal_wallis(samples, nan="raise")


def test_printed_result():
    result = kruskal_wallis({"a": [1, 2, 3], "b": [4, 5, math.nan], "c": [6, 7, 8]})
    assert str(result).splitlines()[0] == "Kruskal-Wallis test of 3 methods"
    assert "Note: b: 1 of 3 scores are NaN" in str(result)
    assert "<p>Note: b: 1 of 3" in result._repr_html_()
    assert result.to_pandas().to_dict("records") == [
        {"statistic": result.statistic, "degrees_of_freedom": 2, "pvalue": result.pvalue}
    ]


def test_stands_beside_the_tests_of_pairs():
    samples = {"a": range(5), "b": range(5, 10), "c": range(10, 15)}
    tests = steel_dwass(samples)
    assert tests.kruskal.statistic == kruskal_wallis(samples).statistic == pytest.approx(12.5)
    assert "Kruskal-Wallis, for information: H(2) = 12.50, p = .002." in str(tests)
