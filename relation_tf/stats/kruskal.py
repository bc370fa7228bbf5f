"""The Kruskal-Wallis test: any difference among several methods."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from relation_tf.stats.samples import RankedSamples


class Kruskal(NamedTuple):
    """The Kruskal-Wallis test of several methods.

    Attributes:
        statistic: H, corrected for ties.
        pvalue: p of H by the chi-square distribution; with few scores rather too large.
        degrees_of_freedom: Number of methods minus one.
    """

    statistic: float
    pvalue: float
    degrees_of_freedom: int


def kruskal_wallis(ranked: RankedSamples) -> Kruskal:
    """Return the Kruskal-Wallis test by ranks, corrected for ties.

    For information only: `steel_dwass` and `steel` keep their level without it.

    Args:
        ranked: k groups.

    Returns:
        The test; p is 1 where all scores are equal.

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
