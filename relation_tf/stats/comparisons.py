"""What the tests of pairs of methods by ranks share: how p is found, and what a result is."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from relation_tf.stats.design import (
    RankTest,
    attainable_pvalue,
    check_alpha,
    check_option,
    format_level,
    format_pvalue,
    seeds_needed,
)
from relation_tf.stats.dunnett import Alternative
from relation_tf.stats.effect_size import delta_interval
from relation_tf.stats.omnibus import KruskalWallisResult, of_ranks
from relation_tf.stats.pairwise import (
    MAX_ARRANGEMENTS,
    Pairs,
    all_pairs,
    dominance,
    exact_maxima,
    monte_carlo_maxima,
    num_arrangements,
    observed_groups,
    one_against_all,
    permutation_pvalues,
    standardized_wins,
)
from relation_tf.stats.presentation import Shown, count
from relation_tf.stats.samples import FloatArray, RankedSamples

_FEW_SCORES = 10

PvalueMethod: TypeAlias = Literal["asymptotic", "exact", "monte-carlo"]
PairTable = TypeVar("PairTable", pd.DataFrame, "pd.Series[Any]")

PAIRS: dict[RankTest, Callable[[int], Pairs]] = {
    "steel-dwass": all_pairs,
    "steel": one_against_all,
}
TAILS: dict[Alternative, Callable[[FloatArray], FloatArray]] = {
    "two-sided": np.abs,
    "greater": np.positive,
    "less": np.negative,
}


@dataclass(frozen=True, eq=False, repr=False)
class RankComparisons(Shown, Generic[PairTable]):
    """What a test of pairs of methods by ranks found.

    Attributes:
        statistic: Signed, positive where the second method of a pair is higher.
        pvalue: RankTest-wise p of every pair.
        significant: p < alpha.
        effect_size: Cliff's delta, with the sign of the difference.
        attainable_pvalue: Smallest p that this number of methods and scores can give without ties.
        seeds_needed: Fewest scores a method with which this many methods can give p < alpha; of an
            asymptotic p, with which the exact p can too.
        samples: Method -> its scores as given, in float64.
        alpha: Level of the test.
        method: How p was computed.
        higher_is_better: Whether the higher score is the better one.
        kruskal: The Kruskal-Wallis test of all methods, for information.
        notes: What a reader has to know beside the numbers.
    """

    statistic: PairTable
    pvalue: PairTable
    significant: PairTable
    effect_size: PairTable
    attainable_pvalue: float
    seeds_needed: int
    samples: dict[Hashable, FloatArray]
    alpha: float
    method: PvalueMethod
    higher_is_better: bool
    kruskal: KruskalWallisResult
    notes: tuple[str, ...]

    def pairs(self) -> pd.DataFrame:
        """Lists the family's pairs, one a row.

        Returns:
            A table with columns `a`, `b`, `statistic`, `pvalue`, `effect_size` (both positive where
            b is higher), `significant`, `better` (the better method of a significant pair, else
            None), and `verdict` in words.
        """
        table = self._names()
        for column in ("statistic", "pvalue", "effect_size", "significant"):
            table[column] = self._of_pairs(getattr(self, column))
        signs = np.where(table["significant"], np.sign(table["effect_size"]), 0).tolist()
        rows = list(zip(table["a"], table["b"], signs, strict=True))
        turned = 1 if self.higher_is_better else -1
        better = [(b if sign * turned > 0 else a) if sign else None for a, b, sign in rows]
        table["better"] = pd.Series(better, dtype=object)
        table["verdict"] = [self._verdict(*row) for row in rows]
        return table

    def effect_sizes(self, confidence: float = 0.95) -> pd.DataFrame:
        """How large the differences of the family's pairs are, with confidence intervals.

        Each interval stands for itself: they do not cover all pairs together.

        Args:
            confidence: Coverage of each interval, between 0 and 1.

        Returns:
            A table with columns `a`, `b`, `delta` (Cliff's delta, positive where b is higher),
            `low` and `high` (its interval, as `cliffs_delta_interval`), and `probability`, that b
            is higher than a, a tie counting half; `(low + 1) / 2` and `(high + 1) / 2` are its
            interval.
        """
        table = self._names()
        table["delta"] = self._of_pairs(self.effect_size)
        sizes = {name: scores.size for name, scores in self.samples.items()}
        table[["low", "high"]] = [
            delta_interval(delta, min(sizes[a], sizes[b]), confidence)
            for a, b, delta in zip(table["a"], table["b"], table["delta"], strict=True)
        ]
        table["probability"] = (table["delta"] + 1) / 2
        return table

    def to_pandas(self) -> pd.DataFrame:
        """The table of `pairs`."""
        return self.pairs()

    @abstractmethod
    def _pairs(self) -> list[tuple[Hashable, Hashable]]:
        """The names of each pair."""

    @abstractmethod
    def _of_pairs(self, table: PairTable) -> NDArray[Any]:
        """The numbers of each pair, in the order of `_pairs`."""

    def _names(self) -> pd.DataFrame:
        first, second = zip(*self._pairs(), strict=True)
        return pd.DataFrame({"a": pd.Series(list(first)), "b": pd.Series(list(second))})

    def _verdict(self, a: Hashable, b: Hashable, sign: float) -> str:
        if not sign:
            return f"cannot be separated by {_seeds(self.samples[a].size, self.samples[b].size)}"
        high, low = (b, a) if sign > 0 else (a, b)
        return f"{high} higher" if self.higher_is_better else f"{high} higher, {low} better"

    def _shown(self) -> pd.DataFrame:
        return self.pairs().drop(columns="better")

    def _design(self) -> str:
        sizes = [scores.size for scores in self.samples.values()]
        seeds = _seeds(min(sizes), max(sizes), " to ")
        return f"{self.method} p: {len(sizes)} methods x {seeds}, alpha = {self.alpha:g}"

    def _remarks(self) -> Iterator[str]:
        best = format_pvalue(self.attainable_pvalue, self.alpha)
        yield (
            f"Without ties this design can reach {best} at best; "
            f"{format_level(self.alpha)} needs at least {self.seeds_needed} seeds."
        )
        yield "Statistic and effect size are positive where the second method is higher."
        kruskal = self.kruskal
        yield (
            f"Kruskal-Wallis, for information: H({kruskal.degrees_of_freedom}) = "
            f"{kruskal.statistic:.2f}, {format_pvalue(kruskal.pvalue, self.alpha)}."
        )
        if self.method == "asymptotic" and self._of_pairs(self.significant).any():
            fewest = min(scores.size for scores in self.samples.values())
            if fewest < _FEW_SCORES:
                yield (
                    "p is approximate: of so few scores, look at method='exact' or 'monte-carlo' "
                    "too; a report counts a pair where both are below alpha."
                )
        yield from (f"Note: {note}" for note in self.notes)


@dataclass(frozen=True)
class PairTests:
    """The numbers of a family's pairs, in its order, and what both results hold beside them.

    Attributes:
        statistic: Standardized U, shape `(P,)`.
        pvalue: RankTest-wise p, shape `(P,)`.
        effect_size: Cliff's delta, shape `(P,)`.
        shared: The fields of a `RankComparisons` that are no table of pairs.
    """

    statistic: FloatArray
    pvalue: FloatArray
    effect_size: FloatArray
    shared: dict[str, Any]


def compare_pairs(
    ranked: RankedSamples,
    asymptotic: Callable[[FloatArray], FloatArray],
    *,
    test: RankTest,
    alternative: Alternative = "two-sided",
    alpha: float,
    method: PvalueMethod,
    higher_is_better: bool,
    permutations: int,
    seed: int,
) -> PairTests:
    """Tests a test of pairs.

    Args:
        ranked: k groups; of one against all, the control first.
        asymptotic: Gives the asymptotic p of standardized U.
        test: Which pairs are compared.
        alternative: Which side of a difference counts.
        alpha: Level of the test.
        method: How p is computed.
        higher_is_better: Whether the higher score is the better one.
        permutations: Number of random arrangements for `monte-carlo`.
        seed: Their seed.

    Returns:
        The tests.

    Raises:
        ValueError: If `exact` would need more than 1,000,000 arrangements.
    """
    groups, tail = observed_groups(ranked), TAILS[alternative]
    pairs = PAIRS[test](len(groups))
    statistic = standardized_wins(groups, pairs)[:, 0]
    sizes = ranked.sizes.tolist()
    notes = [*ranked.notes, *_constant_pairs(ranked, pairs)]

    def smallest(how: Literal["asymptotic", "exact"]) -> float:
        return attainable_pvalue(len(sizes), sizes, how, test=test, alternative=alternative)

    attainable = smallest("asymptotic" if method == "asymptotic" else "exact")
    if method == "asymptotic":
        pvalue = asymptotic(statistic)
        if attainable < alpha <= smallest("exact"):
            notes.append(
                "the asymptotic p is too small for so few scores: without ties the exact "
                f"{format_pvalue(smallest('exact'), alpha).replace('p =', 'p is')} at best, so no "
                "pair is separated by both p"
            )
    elif method == "exact":
        check_enumerable(ranked.sizes)
        maxima = exact_maxima(groups, pairs, tail)
        pvalue = permutation_pvalues(tail(statistic), maxima, drawn=False)
    else:
        maxima = monte_carlo_maxima(groups, pairs, permutations, seed, tail)
        pvalue = permutation_pvalues(tail(statistic), maxima, drawn=True)
        attainable = max(attainable, 1 / (permutations + 1))
        notes.append(f"p from {permutations:,} random permutations, seed {seed}")
    if method != "monte-carlo" and due_to_ties(pvalue, attainable):
        notes.append(f"p below {attainable:.3g} is due to ties: rounded or constant scores")
    shared = {
        "attainable_pvalue": attainable,
        "seeds_needed": seeds_needed(
            len(sizes),
            alpha,
            None if method == "asymptotic" else "exact",
            test=test,
            alternative=alternative,
        ),
        "samples": ranked.scores,
        "alpha": alpha,
        "method": method,
        "higher_is_better": higher_is_better,
        "kruskal": of_ranks(ranked),
        "notes": tuple(notes),
    }
    return PairTests(statistic, pvalue, dominance(groups, pairs)[:, 0], shared)


def due_to_ties(pvalues: FloatArray, attainable: float) -> bool:
    """Whether some p is below what scores without ties can give.

    Args:
        pvalues: Of all pairs.
        attainable: The smallest p without ties.
    """
    # Ties of other methods shift the asymptotic p a little, which is nothing to speak of.
    return bool(pvalues.min() < 0.999 * attainable)


def check_options(alpha: float, method: PvalueMethod, permutations: int) -> None:
    """Refuses options of a test of pairs that are out of range.

    Args:
        alpha: Level of the test.
        method: How p is computed.
        permutations: Number of random arrangements.

    Raises:
        ValueError: If one is.
    """
    check_alpha(alpha)
    check_option("method", method, PvalueMethod)
    if permutations < 1:
        raise ValueError(
            f"`permutations` must be at least 1. Received: permutations={permutations}"
        )


def check_enumerable(sizes: NDArray[np.intp]) -> None:
    """Refuses an `exact` p that would take too many arrangements.

    Args:
        sizes: Number of scores of every method.

    Raises:
        ValueError: If there are more than `MAX_ARRANGEMENTS`.
    """
    total = num_arrangements(sizes)
    if total > MAX_ARRANGEMENTS:
        raise ValueError(
            f"method='exact' enumerates at most {MAX_ARRANGEMENTS:,} arrangements; use "
            f"method='monte-carlo'. Received: about 10^{math.log10(total):.1f} arrangements"
        )


def _constant_pairs(ranked: RankedSamples, pairs: Pairs) -> Iterator[str]:
    names = list(ranked.codes)
    for a, b in ((names[i], names[j]) for i, j in pairs):
        if len({*ranked.codes[a].tolist(), *ranked.codes[b].tolist()}) == 1:
            yield f"{a} and {b}: all scores are equal, so p = 1"


def _seeds(fewest: int, most: int, between: str = " and ") -> str:
    return count(most, "seed") if fewest == most else f"{fewest}{between}{most} seeds"
