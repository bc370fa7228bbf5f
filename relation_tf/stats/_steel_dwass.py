"""The Steel-Dwass test: which methods differ, all pairs, by ranks."""

from __future__ import annotations

import html
import itertools
import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
import pandas as pd

from relation_tf.stats.design import (
    attainable_pvalue,
    check_alpha,
    format_level,
    format_pvalue,
    seeds_needed,
)
from relation_tf.stats.pairwise import (
    MAX_ARRANGEMENTS,
    dominance,
    exact_pvalues,
    monte_carlo_pvalues,
    num_arrangements,
    observed_counts,
    standardized_wins,
)
from relation_tf.stats.samples import (
    TIE_RTOL,
    FloatArray,
    NanPolicy,
    RankedSamples,
    Samples,
    rank_samples,
)

PvalueMethod: TypeAlias = Literal["asymptotic", "exact", "monte-carlo"]


@dataclass(frozen=True, eq=False, repr=False)
class SteelDwassResult:
    """What `steel_dwass` found.

    Attributes:
        statistic: Signed W*, a k x k table: positive where the column's method is higher.
        pvalue: p of every pair, a symmetric k x k table with 1 on its diagonal.
        significant: p < alpha, k x k.
        effect_size: Cliff's delta, k x k, with the statistic's sign.
        attainable_pvalue: Smallest p that this number of methods and scores can give without ties.
        seeds_needed: Fewest scores a method with which this many methods can give p < alpha.
        samples: Method -> its scores as given, in float64.
        alpha: Level of the test.
        method: How p was computed.
        notes: What a reader has to know beside the numbers.
    """

    statistic: pd.DataFrame
    pvalue: pd.DataFrame
    significant: pd.DataFrame
    effect_size: pd.DataFrame
    attainable_pvalue: float
    seeds_needed: int
    samples: dict[Hashable, FloatArray]
    alpha: float
    method: PvalueMethod
    notes: tuple[str, ...]

    def pairs(self) -> pd.DataFrame:
        """Lists all pairs, one a row.

        Returns:
            A table with columns `a`, `b`, `statistic`, `pvalue`, `effect_size` (both positive where
            b is higher), `significant`, and `verdict` in words.
        """
        pairs = list(itertools.combinations(self.samples, 2))
        upper = np.triu_indices(len(self.samples), 1)
        table = pd.DataFrame(
            {
                "a": [a for a, _ in pairs],
                "b": [b for _, b in pairs],
                "statistic": self.statistic.to_numpy()[upper],
                "pvalue": self.pvalue.to_numpy()[upper],
                "effect_size": self.effect_size.to_numpy()[upper],
                "significant": self.significant.to_numpy()[upper],
            }
        )
        signs = np.where(table["significant"], np.sign(table["statistic"]), 0).tolist()
        table["verdict"] = [
            self._verdict(a, b, sign) for (a, b), sign in zip(pairs, signs, strict=True)
        ]
        return table

    def letters(self) -> pd.Series[str]:
        """Compact letter display: methods share a letter where the test cannot separate them.

        Returns:
            Method -> its letters.
        """
        from scikit_posthocs import compact_letter_display

        letters: pd.Series[str] = compact_letter_display(self.pvalue, alpha=self.alpha)
        return letters.str.replace(" ", "")

    def _verdict(self, a: Hashable, b: Hashable, sign: float) -> str:
        if sign:
            return f"{b if sign > 0 else a} higher"
        return f"cannot be separated by {_seeds(self.samples[a].size, self.samples[b].size)}"

    def _summary(self) -> Iterator[str]:
        sizes = [scores.size for scores in self.samples.values()]
        yield (
            f"Steel-Dwass test, {self.method} p: {len(sizes)} methods x "
            f"{_seeds(min(sizes), max(sizes), ' to ')}, alpha = {self.alpha:g}"
        )
        best = format_pvalue(self.attainable_pvalue, self.alpha)
        yield (
            f"Without ties this design can reach {best} at best; "
            f"{format_level(self.alpha)} needs at least {self.seeds_needed} seeds."
        )
        yield "Statistic and effect size are positive where the second method is higher."
        yield from (f"Note: {note}" for note in self.notes)

    def __str__(self) -> str:
        title, *remarks = self._summary()
        table = self.pairs().to_string(index=False, formatters=_FORMATS)
        return "\n".join([title, table, *remarks])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        title, *remarks = (html.escape(line) for line in self._summary())
        table = self.pairs().to_html(index=False, formatters=_FORMATS, border=0)
        paragraphs = "".join(f"<p>{remark}</p>" for remark in remarks)
        return f"<div><p><b>{title}</b></p>{table}{paragraphs}</div>"


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
    being equal. Scores of several data sets must not be pooled. Give full precision: scores
    rounded for a table are tied.

    Args:
        samples: A dict of name -> scores, a `pandas.DataFrame` with a column a method, or a tuple
            with the scores of one method each (then named "1", "2", ...). A plain array is
            refused, as it does not say which axis holds the methods. Scores are numbers;
            infinities are ranked. An empty cell of a `DataFrame` is a NaN.
        alpha: Level of the test; p < alpha is significant.
        method: How p is computed.
        higher_is_better: At which end a NaN is ranked. Signs do not depend on it: "higher" always
            means a higher score.
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
    check_alpha(alpha)
    if method not in get_args(PvalueMethod):
        raise ValueError(
            f"`method` must be one of {', '.join(map(repr, get_args(PvalueMethod)))}. "
            f"Received: method={method!r}"
        )
    if permutations < 1:
        raise ValueError(
            f"`permutations` must be at least 1. Received: permutations={permutations}"
        )
    ranked = rank_samples(samples, higher_is_better=higher_is_better, nan=nan, rtol=rtol)
    counts = observed_counts(ranked)
    notes = [*ranked.notes, *_constant_pairs(ranked)]
    sizes = ranked.sizes.tolist()
    exact_attainable = attainable_pvalue(len(sizes), sizes, "exact")
    if method == "asymptotic":
        pvalues = _asymptotic_pvalues(ranked)
        attainable = attainable_pvalue(len(sizes), sizes)
        if attainable < alpha <= exact_attainable:
            notes.append(
                "the asymptotic p is too small for so few scores: without ties the exact "
                f"p is {exact_attainable:.3g} at best"
            )
    elif method == "exact":
        _check_enumerable(ranked)
        pvalues = exact_pvalues(counts)
        attainable = exact_attainable
    else:
        pvalues = monte_carlo_pvalues(counts, permutations, seed)
        attainable = max(exact_attainable, 1 / (permutations + 1))
        notes.append(f"p from {permutations:,} random permutations, seed {seed}")
    np.fill_diagonal(pvalues, 1.0)
    if method != "monte-carlo" and pvalues.min() < attainable - 1e-9:
        notes.append(
            f"p below {attainable:.3g} is due to ties: are the scores rounded or constant?"
        )

    names = pd.Index(list(ranked.scores), tupleize_cols=False)

    def table(values: FloatArray) -> pd.DataFrame:
        return pd.DataFrame(values, index=names, columns=names)

    return SteelDwassResult(
        statistic=table(standardized_wins(counts)[0]),
        pvalue=table(pvalues),
        significant=table(pvalues) < alpha,
        effect_size=table(dominance(counts)[0]),
        attainable_pvalue=attainable,
        seeds_needed=seeds_needed(
            len(sizes), alpha, "asymptotic" if method == "asymptotic" else "exact"
        ),
        samples=ranked.scores,
        alpha=alpha,
        method=method,
        notes=tuple(notes),
    )


def _asymptotic_pvalues(ranked: RankedSamples) -> FloatArray:
    from scikit_posthocs import posthoc_dscf

    # Ranks instead of scores, and numbers instead of names: the library would drop NaN, break
    # ties by rounding and read some names as something else.
    group = np.repeat(np.arange(ranked.sizes.size), ranked.sizes)
    long = pd.DataFrame({"group": group, "rank": np.concatenate(list(ranked.codes.values()))})
    with np.errstate(invalid="ignore"):
        pvalues = posthoc_dscf(long, val_col="rank", group_col="group").to_numpy(dtype=np.float64)
    # 0 / 0, where all scores of a pair are one value, as `_constant_pairs` says.
    return np.where(np.isnan(pvalues), 1.0, pvalues)


def _constant_pairs(ranked: RankedSamples) -> Iterator[str]:
    for a, b in itertools.combinations(ranked.codes, 2):
        if np.unique(np.concatenate((ranked.codes[a], ranked.codes[b]))).size == 1:
            yield f"{a} and {b}: all scores are equal, so p = 1"


def _check_enumerable(ranked: RankedSamples) -> None:
    total = num_arrangements(ranked.sizes)
    if total > MAX_ARRANGEMENTS:
        raise ValueError(
            f"method='exact' enumerates at most {MAX_ARRANGEMENTS:,} arrangements; use "
            f"method='monte-carlo'. Received: about 10^{math.log10(total):.1f} arrangements"
        )


def _seeds(fewest: int, most: int, between: str = " and ") -> str:
    if fewest != most:
        return f"{fewest}{between}{most} seeds"
    return f"{fewest} {'seed' if fewest == 1 else 'seeds'}"


_FORMATS = {
    "statistic": "{:+.3f}".format,
    "pvalue": "{:.4g}".format,
    "effect_size": "{:+.2f}".format,
}
