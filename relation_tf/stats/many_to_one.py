"""Steel's many-one rank test: which methods differ from one, the control."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd
from numpy.typing import NDArray

from relation_tf.stats.comparisons import (
    PvalueMethod,
    RankComparisons,
    check_options,
    compare_pairs,
)
from relation_tf.stats.design import check_test
from relation_tf.stats.dunnett import Alternative, largest_exceeds, rank_loadings
from relation_tf.stats.samples import (
    TIE_RTOL,
    FloatArray,
    NanPolicy,
    RankedSamples,
    Samples,
    rank_samples,
)


@dataclass(frozen=True, eq=False, repr=False)
class SteelResult(RankComparisons["pd.Series[Any]"]):
    """What `steel` found: the fields of `RankComparisons`, and two more.

    `statistic` (signed Z), `pvalue`, `significant` and `effect_size` hold one number a method, the
    control left out: positive where the method is higher than the control.

    Attributes:
        control: The method that the others are compared with.
        alternative: Which side of a difference counts.
    """

    control: Hashable
    alternative: Alternative

    def _pairs(self) -> list[tuple[Hashable, Hashable]]:
        return [(self.control, name) for name in self.samples if name != self.control]

    def _of_pairs(self, table: pd.Series[Any]) -> NDArray[Any]:
        return table.to_numpy()

    def _title(self) -> str:
        side = "" if self.alternative == "two-sided" else f" ({self.alternative})"
        return f"Steel test of all against {self.control}{side}, {self._design()}"


def steel(
    samples: Samples,
    control: Hashable,
    alpha: float = 0.05,
    method: PvalueMethod = "asymptotic",
    *,
    alternative: Alternative = "two-sided",
    higher_is_better: bool = True,
    nan: NanPolicy = "worst",
    rtol: float = TIE_RTOL,
    permutations: int = 100_000,
    seed: int = 0,
) -> SteelResult:
    """Compares each method with one control by Steel's many-one rank test.

    Without continuity correction. For a method with n_j scores that are ranked together with the
    control's n_0, W the method's rank sum,

    `Z = (W - n_j (n_0 + n_j + 1) / 2) / sqrt(V)`,

    V being the variance of W given the ties of the two. p is family-wise, over all methods:

    - `asymptotic`: P(the largest of k - 1 normal statistics > Z), correlated as rank statistics
      with a common control are, at these numbers of scores and ties.
    - `exact`: the part of all arrangements of the pooled scores of all methods, up to 1,000,000 of
      them, in which the largest statistic of any method reaches this one.
    - `monte-carlo`: the same from random arrangements.

    The test is smaller than that of all pairs, so it can show more: five methods with five seeds
    reach p = .032 instead of .068. That holds where the control and the test were declared before
    the runs. Methods are not compared with each other.

    Args:
        samples: As for `steel_dwass`.
        control: The name of the control among the samples.
        alpha: Level of the test; p < alpha is significant.
        method: How p is computed.
        alternative: `"two-sided"`, or whether a method is `"greater"` or `"less"` than the control.
        higher_is_better: Which method of a pair is the better one, and at which end a NaN is
            ranked. Neither signs nor the alternative depend on it: both speak of the score.
        nan: `"worst"` ranks a NaN (a diverged run) worst and notes it; `"raise"` refuses it.
        rtol: Neighbouring scores that differ by at most this part of their size are tied.
        permutations: Number of random arrangements for `monte-carlo`.
        seed: Seed of the random arrangements for `monte-carlo`.

    Returns:
        A `SteelResult`; `print` shows it.

    Raises:
        TypeError: If the samples are in no accepted form or hold something other than numbers.
        ValueError: If the control is not among them, there are fewer than two groups, a group is
            empty, an option is out of range, or `exact` would need more than 1,000,000
            arrangements.

    Example:
        >>> scores = {
        ...     "attention": [0.79, 0.81, 0.80, 0.82, 0.83],
        ...     "relation": [0.84, 0.86, 0.85, 0.87, 0.88],
        ...     "mlp": [0.78, 0.82, 0.77, 0.81, 0.80],
        ... }
        >>> result = steel(scores, control="attention")
        >>> print(result.pvalue.round(4).to_dict())
        {'relation': 0.0173, 'mlp': 0.4725}
        >>> result.pairs()["verdict"].tolist()
        ['relation higher', 'cannot be separated by 5 seeds']

    References:
        R. G. D. Steel (1959), A multiple comparison rank sum test: treatments versus control,
        Biometrics 15, 560-572.
        F. W. Scholz (2023), On Steel's test with ties, arXiv:2308.05873, for the correlations.
    """
    check_options(alpha, method, permutations)
    check_test("steel", alternative)
    ranked = rank_samples(samples, higher_is_better=higher_is_better, nan=nan, rtol=rtol)
    if control not in ranked.codes:
        raise ValueError(
            f"`control` must be one of {list(ranked.codes)}. Received: control={control!r}"
        )
    ranked = _first(ranked, control)
    loadings = rank_loadings(ranked.sizes.tolist(), ranked.multiplicity.tolist())
    tests = compare_pairs(
        ranked,
        partial(largest_exceeds, loadings=loadings, alternative=alternative),
        test="steel",
        alternative=alternative,
        alpha=alpha,
        method=method,
        higher_is_better=higher_is_better,
        permutations=permutations,
        seed=seed,
    )
    names = pd.Index([name for name in ranked.scores if name != control], tupleize_cols=False)

    def table(of_pairs: FloatArray) -> pd.Series[Any]:
        return pd.Series(of_pairs, index=names)

    return SteelResult(
        statistic=table(tests.statistic),
        pvalue=table(tests.pvalue),
        significant=table(tests.pvalue) < alpha,
        effect_size=table(tests.effect_size),
        control=control,
        alternative=alternative,
        **tests.shared,
    )


def _first(ranked: RankedSamples, control: Hashable) -> RankedSamples:
    names = [control, *(name for name in ranked.codes if name != control)]
    return RankedSamples(
        {name: ranked.scores[name] for name in names},
        {name: ranked.codes[name] for name in names},
        ranked.notes,
    )
