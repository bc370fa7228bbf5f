"""Tests that p equals that of scikit-posthocs, SciPy and statsmodels, and has not changed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scikit_posthocs import posthoc_nemenyi_friedman
from scipy.stats import wilcoxon
from statsmodels.stats.multitest import multipletests

from relation_tf.stats import friedman_nemenyi, wilcoxon_holm
from relation_tf.stats.unequal_spread import holm

SCORES = pd.DataFrame(
    np.random.default_rng(62).normal(size=(12, 4)).round(3) + np.arange(4) / 2, columns=list("abcd")
)
NEMENYI = [
    0.8587787670204389,
    0.22910353693815166,
    0.08257259272939921,
    0.6853421409087448,
    0.3894010874026901,
    0.9647412017885856,
]
WILCOXON = [0.5185546875000008, 0.10253906250000012, 0.18457031250000028]


def test_nemenyi():
    found = friedman_nemenyi(SCORES).pvalue.to_numpy()
    first, second = np.triu_indices(4, 1)
    assert found[first, second] == pytest.approx(NEMENYI, rel=0, abs=1e-12)
    expected = posthoc_nemenyi_friedman(SCORES.to_numpy()).to_numpy()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_wilcoxon_with_holm():
    samples = {
        task: {name: [score] for name, score in row.items()} for task, row in SCORES.iterrows()
    }
    found = wilcoxon_holm(samples, "a").pvalue
    assert found.to_list() == pytest.approx(WILCOXON, rel=0, abs=1e-12)
    separate = [wilcoxon(SCORES[name] - SCORES["a"], method="exact").pvalue for name in "bcd"]
    expected = multipletests(separate, method="holm")[1]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("pvalues", [[0.01], [0.01, 0.04, 0.03], [0.2, 0.2, 0.0, 1.0, 0.05]])
def test_holm(pvalues):
    expected = multipletests(pvalues, method="holm")[1]
    np.testing.assert_allclose(holm(np.array(pvalues)), expected, rtol=0, atol=1e-12)
