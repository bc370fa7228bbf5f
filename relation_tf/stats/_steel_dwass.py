"""The Steel-Dwass test: which methods differ, all pairs, by ranks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from relation_tf.stats.comparisons import (
    PvalueMethod,
    RankComparisons,
    check_options,
    compare_pairs,
)
from relation_tf.stats.design import asymptotic_pvalues
from relation_tf.stats.samples import TIE_RTOL, FloatArray, NanPolicy, Samples, rank_samples


@dataclass(frozen=True, eq=False, repr=False)
class SteelDwassResult(RankComparisons[pd.DataFrame]):
    """What `steel_dwass` found: the fields of `RankComparisons`.

    `statistic` (signed W*), `pvalue`, `significant` and `effect_size` are k x k tables: positive
    where the column's method is higher; p is symmetric with 1 on its diagonal.
    """

    def letters(self) -> pd.Series[str]:
        """Compact letter display: methods share a letter where the test cannot separate them.

        Returns:
            Method -> its letters.
        """
        from scikit_posthocs import compact_letter_display

        letters: pd.Series[str] = compact_letter_display(
            (~self.significant).astype(float), alpha=self.alpha
        )
        return letters.str.replace(" ", "")

    def _pairs(self) -> list[tuple[Hashable, Hashable]]:
        return list(itertools.combinations(self.samples, 2))

    def _of_pairs(self, table: pd.DataFrame) -> NDArray[Any]:
        return table.to_numpy()[np.triu_indices(len(table), 1)]

    def _title(self) -> str:
        return f"Steel-Dwass test, {self._design()}"


def steel_dwass(
    samples: Samples,
    alpha: float = 0.05,
    method: PvalueMethod = "asymptotic",
    *,
    higher_is_better: bool = True,
    nan: NanPolicy = "worst",
    rtol: float = TIE_RTOL,
    permutations: int = 100_000,
    seed: int = 0,
) -> SteelDwassResult:
    """Compares all pairs of methods by the Steel-Dwass test (Dwass-Steel-Critchlow-Fligner).

    Two-sided, without continuity correction. For a pair with n_i and n_j scores that are ranked
    together, W the rank sum of the second,

    `W* = sqrt(2) (W - n_j (n_i + n_j + 1) / 2) / sqrt(V)`,

    V being the variance of W given the ties. p is one of

    - `asymptotic`: P(studentized range of k groups, infinite degrees of freedom > |W*|).
    - `exact`: the part of all arrangements of the pooled scores, up to 1,000,000 of them, in which
      the largest |W*| of all pairs reaches this |W*|.
    - `monte-carlo`: the same from random arrangements.

    A pair that is not significant cannot be separated by these scores; that is no evidence of
    being equal. Scores of several data sets must not be pooled: see `friedman_nemenyi` and
    `win_tie_loss`. Give full precision: scores rounded for a table are tied. Where one method is to
    be compared with each other one, `steel` can show more, if it is declared before.

    Args:
        samples: A dict of name -> scores, a `pandas.DataFrame` with a column a method, or a tuple
            with the scores of one method each (then named "1", "2", ...). A plain array is
            refused, as it does not say which axis holds the methods. Scores are numbers;
            infinities are ranked. An empty cell of a `DataFrame` is a NaN.
        alpha: Level of the test; p < alpha is significant.
        method: How p is computed.
        higher_is_better: Which method of a pair is the better one, and at which end a NaN is
            ranked. Signs do not depend on it: "higher" always means a higher score.
        nan: `"worst"` ranks a NaN (a diverged run) worst, tied with the other NaN and with an
            infinity at that end, and notes it; `"raise"` refuses it. None is ever dropped.
        rtol: Neighbouring scores that differ by at most this part of their size are tied, so that
            0.1 + 0.2 ties with 0.3, and a float32 with the float64 that it was rounded from.
        permutations: Number of random arrangements for `monte-carlo`.
        seed: Seed of the random arrangements for `monte-carlo`.

    Returns:
        A `SteelDwassResult`; `print` shows it.

    Raises:
        TypeError: If the samples are in no accepted form or hold something other than numbers.
        ValueError: If there are fewer than two groups, a group is empty, an option is out of
            range, or `exact` would need more than 1,000,000 arrangements.

    Example:
        >>> mlp, relation = [0.79, 0.81, 0.80, 0.82, 0.83], [0.84, 0.86, 0.85, 0.87, 0.88]
        >>> result = steel_dwass({"mlp": mlp, "relation": relation})
        >>> print(f"{result.pvalue.loc['mlp', 'relation']:.4f}")
        0.0090
        >>> result.pairs()["verdict"][0]
        'relation higher'

    References:
        R. G. D. Steel (1960), A rank sum test for comparing all pairs of treatments,
        Technometrics 2, 197-207.
        M. Dwass (1960), Some k-sample rank-order tests, Contributions to Probability and
        Statistics, 198-202.
        D. E. Critchlow, M. A. Fligner (1991), On distribution-free multiple comparisons in the
        one-way analysis of variance, Communications in Statistics - Theory and Methods 20, 127-139.
    """
    check_options(alpha, method, permutations)
    ranked = rank_samples(samples, higher_is_better=higher_is_better, nan=nan, rtol=rtol)
    tests = compare_pairs(
        ranked,
        partial(asymptotic_pvalues, sizes=ranked.sizes.tolist()),
        test="steel-dwass",
        alpha=alpha,
        method=method,
        higher_is_better=higher_is_better,
        permutations=permutations,
        seed=seed,
    )
    names = pd.Index(list(ranked.scores), tupleize_cols=False)

    def table(of_pairs: FloatArray, diagonal: float = 0.0, below: float = -1.0) -> pd.DataFrame:
        square = np.full((len(names), len(names)), diagonal)
        first, second = np.triu_indices(len(names), 1)
        square[first, second] = of_pairs
        square[second, first] = below * of_pairs
        return pd.DataFrame(square, index=names, columns=names)

    pvalue = table(tests.pvalue, diagonal=1.0, below=1.0)
    return SteelDwassResult(
        statistic=table(math.sqrt(2) * tests.statistic),
        pvalue=pvalue,
        significant=pvalue < alpha,
        effect_size=table(tests.effect_size),
        **tests.shared,
    )
