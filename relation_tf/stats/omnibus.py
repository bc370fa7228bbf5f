"""Whether any of several methods differ at all, before asking which."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from relation_tf.stats.presentation import Shown
from relation_tf.stats.samples import TIE_RTOL, NanPolicy, RankedSamples, Samples, rank_samples


@dataclass(frozen=True, eq=False, repr=False)
class KruskalWallisResult(Shown):
    """What `kruskal_wallis` found.

    Attributes:
        statistic: H, corrected for ties.
        pvalue: p of H by the chi-square distribution.
        degrees_of_freedom: Number of methods less one.
        notes: What a reader has to know beside the numbers.
    """

    statistic: float
    pvalue: float
    degrees_of_freedom: int
    notes: tuple[str, ...]

    def to_pandas(self) -> pd.DataFrame:
        """The test in one row: `statistic`, `degrees_of_freedom`, `pvalue`."""
        numbers = ("statistic", "degrees_of_freedom", "pvalue")
        return pd.DataFrame([{name: getattr(self, name) for name in numbers}])

    def _title(self) -> str:
        return f"Kruskal-Wallis test of {self.degrees_of_freedom + 1} methods"

    def _remarks(self) -> Iterator[str]:
        return (f"Note: {note}" for note in self.notes)


def kruskal_wallis(
    samples: Samples,
    *,
    higher_is_better: bool = True,
    nan: NanPolicy = "worst",
    rtol: float = TIE_RTOL,
) -> KruskalWallisResult:
    """Tests by ranks whether any methods differ (Kruskal-Wallis), corrected for ties.

    It stands beside the tests of pairs for information: `steel_dwass` and `steel` keep
    their level without it, and asking it first can only hide what they find. With few scores the
    chi-square p is rather too large.

    Args:
        samples: As for `steel_dwass`.
        higher_is_better: At which end a NaN is ranked.
        nan: `"worst"` ranks a NaN (a diverged run) worst and notes it; `"raise"` refuses it.
        rtol: Neighbouring scores that differ by at most this part of their size are tied.

    Returns:
        A `KruskalWallisResult`; `print` shows it.

    Raises:
        TypeError: If the samples are in no accepted form or hold something other than numbers.
        ValueError: If there are fewer than two groups, a group is empty or an option is out of
            range.

    Example:
        >>> result = kruskal_wallis({"a": [1, 2, 3], "b": [4, 5, 6], "c": [7, 8, 9]})
        >>> round(result.statistic, 3), round(result.pvalue, 4)
        (7.2, 0.0273)

    References:
        W. H. Kruskal, W. A. Wallis (1952), Use of ranks in one-criterion variance analysis,
        Journal of the American Statistical Association 47, 583-621.
    """
    return of_ranks(rank_samples(samples, higher_is_better=higher_is_better, nan=nan, rtol=rtol))


def of_ranks(ranked: RankedSamples) -> KruskalWallisResult:
    """`kruskal_wallis` of samples that are ranked already.

    Args:
        ranked: k groups.

    Returns:
        The result; p is 1 where all scores are equal.
    """
    from scipy.stats import kruskal

    freedom = len(ranked.codes) - 1
    if ranked.multiplicity.size == 1:
        notes = (*ranked.notes, "all scores are equal, so p = 1")
        return KruskalWallisResult(0.0, 1.0, freedom, notes)
    statistic, pvalue = kruskal(*(codes.astype(np.float64) for codes in ranked.codes.values()))
    return KruskalWallisResult(float(statistic), float(pvalue), freedom, ranked.notes)
