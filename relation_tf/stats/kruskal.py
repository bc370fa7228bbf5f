"""Kruskal-Wallis test of any difference among several methods."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from relation_tf.stats.samples import RankedSamples


class Kruskal(NamedTuple):
    """Result of the Kruskal-Wallis test.

    Attributes:
        statistic: H, corrected for ties.
        pvalue: p of H from the chi-square distribution; tends to be too large with few scores.
        degrees_of_freedom: Number of methods minus one.
    """

    statistic: float
    pvalue: float
    degrees_of_freedom: int


def kruskal_wallis(ranked: RankedSamples) -> Kruskal:
    """Run the Kruskal-Wallis rank test, corrected for ties.

    The result is for information: `steel_dwass` and `steel` do not need it to keep their level.

    Args:
        ranked: Ranked scores of k methods.

    Returns:
        The result; p is 1 if all scores are equal.

    Example:
        >>> from relation_tf.stats.samples import rank_samples
        >>> found = kruskal_wallis(rank_samples({"a": [1, 2, 3], "b": [4, 5, 6], "c": [7, 8, 9]}))
        >>> round(found.statistic, 3), round(found.pvalue, 4)
        (7.2, 0.0273)

    References:
        W. H. Kruskal, W. A. Wallis (1952), Use of ranks in one-criterion variance analysis,
        Journal of the American Statistical Association 47, 583-621.
    """
    from scipy.stats import kruskal

    freedom = len(ranked.codes) - 1
    if ranked.multiplicity.size == 1:
        return Kruskal(0.0, 1.0, freedom)
    statistic, pvalue = kruskal(*(codes.astype(np.float64) for codes in ranked.codes.values()))
    return Kruskal(float(statistic), float(pvalue), freedom)
