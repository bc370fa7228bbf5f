"""Result of a test of pairs of methods, and its construction from p-values."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from relation_tf.registry import Procedure
from relation_tf.stats.checks import check_probability
from relation_tf.stats.effect_size import delta_intervals
from relation_tf.stats.null_distribution import NullDistribution, NullMethod
from relation_tf.stats.pairwise import ROUNDING, dominance, index_pairs, observed_groups
from relation_tf.stats.presentation import Shown, labels, name_pairs, pair_names
from relation_tf.stats.samples import FloatArray, RankedSamples
from relation_tf.stats.shifts import shift_intervals
from relation_tf.stats.spread import spread_notes
from relation_tf.words import count, format_level, format_pvalue, number_of_seeds

NOT_SIGNIFICANT = "no significant difference"


class Estimand(NamedTuple):
    """The difference that `confidence_interval` of a result estimates.

    Attributes:
        name: The difference, such as `"difference of means"`.
        assumption: A sentence with what its intervals assume.
    """

    name: str
    assumption: str


_SHIFT = Estimand(
    "Hodges-Lehmann difference",
    "It assumes that the score distributions of two methods differ only in location.",
)


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


@dataclass(frozen=True, eq=False, repr=False)
class PairwiseResult(Shown):
    """Result of `steel_dwass`, `steel` or another test of pairs of methods.

    For a test of all pairs, `statistic`, `pvalue`, `significant` and `effect_size` are k x k
    tables. Statistic and effect size are positive where the column's method is higher; p is
    symmetric with 1 on the diagonal. For a test against a control they have one number per method,
    without the control; it is positive where the method is higher.

    Attributes:
        procedure: Registration of the test.
        statistic: Signed statistic.
        pvalue: Family-wise p of each pair.
        asymptotic_pvalue: Asymptotic p, for comparison with published work only; None for a
            procedure without one.
        significant: True where `pvalue` < alpha.
        effect_size: Cliff's delta, with the sign of the difference.
        samples: Method -> its scores as given, in float64; a control comes first.
        control: The method that the others are compared with, or None for all pairs.
        alpha: Level of the test.
        method: Computation of p of a permutation test: `"exact"`, `"monte-carlo"` or
            `"asymptotic"`; the last also for other tests.
        null: Null distribution of a rank test, from which p is computed; None for other procedures.
        higher_is_better: If True, higher scores are better.
        attainable_pvalue: Smallest p possible with this number of methods and scores, without ties,
            or a lower bound of it; 0 if none is known.
        seeds_needed: Fewest scores per method with which an exact p < alpha is possible; 0 if no
            bound is known.
        kruskal: Kruskal-Wallis test of all methods, for information; None over tasks.
        notes: Remarks on the samples and on p.
    """

    procedure: Procedure
    statistic: Any
    pvalue: Any
    asymptotic_pvalue: Any
    significant: Any
    effect_size: Any
    samples: dict[Hashable, FloatArray]
    control: Hashable | None
    alpha: float
    method: NullMethod
    null: NullDistribution | None
    higher_is_better: bool
    attainable_pvalue: float
    seeds_needed: int
    kruskal: Kruskal | None
    notes: tuple[str, ...]

    _ahead: ClassVar[str] = "higher"  # of a method with a positive sign
    _unit: ClassVar[str] = "seed"  # of `seeds_needed`

    @property
    def tied(self) -> bool:
        """True if a p is smaller than it can be without ties."""
        best = self.attainable_pvalue
        error = 0.0 if self.null is None else self.null.standard_error(best)
        return due_to_ties(self.pvalue.to_numpy(), best, error)

    @property
    def estimand(self) -> Estimand | None:
        """Difference that `confidence_interval` estimates; None for procedures without it."""
        return None if self.null is None else _SHIFT

    def pairs(self) -> pd.DataFrame:
        """Return the tested pairs, one per row.

        Returns:
            A table with columns `a`, `b`, `statistic` and `effect_size` (positive where b is
            higher), `pvalue`, `asymptotic_pvalue` (if there is one), `significant`, `better` (the
            better method of a significant pair, else None), and `verdict` in words.
        """
        columns = self.columns()
        return pd.DataFrame(columns | {"better": pd.Series(columns["better"], dtype=object)})

    def columns(self) -> dict[str, Any]:
        """Return the columns of `pairs` as lists and arrays, which are faster than a table.

        Example:
            >>> from relation_tf.stats import steel_dwass
            >>> steel_dwass({"a": [1, 2, 3, 4, 5], "b": [6, 7, 8, 9, 10]}).columns()["better"]
            ['b']
        """
        asymptotic = [] if self.asymptotic_pvalue is None else ["asymptotic_pvalue"]
        shown = ["statistic", "pvalue", *asymptotic, "effect_size", "significant"]
        values = {name: self._of_pairs(name) for name in shown}
        signs = np.where(values["significant"], self.directions(), 0).tolist()
        rows = [(a, b, sign) for (a, b), sign in zip(self._named, signs, strict=True)]
        turned = 1 if self.higher_is_better else -1
        return {
            "a": [a for a, _ in self._named],
            "b": [b for _, b in self._named],
            **values,
            "better": [(b if sign * turned > 0 else a) if sign else None for a, b, sign in rows],
            "verdict": [self._verdict(*row) for row in rows],
        }

    def directions(self) -> FloatArray:
        """Return 1 for each tested pair whose second method is higher, -1 if lower, 0 if neither.

        Higher is by the sign of the statistic: by ranks, or by means in a test of means. If it is 0
        or unknown, higher is by ranks; if it is unknown and ranks are equal, by means.
        """
        statistic = self._of_pairs("statistic")
        known = np.nan_to_num(statistic)
        signs = np.sign(np.where(np.abs(known) > ROUNDING, known, self._of_pairs("effect_size")))
        if (unknown := np.isnan(statistic) & (signs == 0)).any():
            means = {name: scores.mean() for name, scores in self.samples.items()}
            first, second = np.array([(means[a], means[b]) for a, b in self._named]).T
            signs = np.where(unknown, 1.0 * (second > first) - (second < first), signs)
        return signs

    def effect_sizes(self, confidence: float = 0.95) -> pd.DataFrame:
        """Return the effect sizes of the tested pairs with confidence intervals.

        The coverage holds for each interval separately; their joint coverage is lower.

        Args:
            confidence: Coverage of each interval, between 0 and 1.

        Returns:
            A table with columns `a`, `b`, `delta` (Cliff's delta, positive where b is higher),
            `low` and `high` (its interval, see `cliffs_delta_interval`), and `probability`
            (P(b > a) + P(a = b) / 2, with the interval `(low + 1) / 2` to `(high + 1) / 2`).
        """
        delta = self._of_pairs("effect_size")
        trials = np.array([self._trials(a, b) for a, b in self._named])
        low, high = delta_intervals(delta, trials, confidence)
        return self._table(delta=delta, low=low, high=high, probability=(delta + 1) / 2)

    def _trials(self, a: Hashable, b: Hashable) -> float:
        """Return n for which the variance of Cliff's delta is at most `(1 - delta^2) / n`."""
        return min(self.samples[a].size, self.samples[b].size)

    def confidence_interval(self, confidence: float | None = None) -> pd.DataFrame:
        """Return simultaneous confidence intervals of the shift between the methods of each pair.

        If the scores of two methods differ by a shift only, all tested pairs together have their
        shifts in these intervals with at least this probability. An interval contains each shift
        that the test does not reject, with the joint critical value of the largest statistic: its
        limits are two of the ordered differences between the scores of b and of a. The estimate is
        their median (Hodges and Lehmann). No interval excludes 0 if p is at least
        `1 - confidence`; without ties it excludes 0 exactly if p is below. A limit is infinite if
        this number of methods and scores cannot give such a p. Methods whose scores are constant
        show no variance; their interval can be a point.

        Args:
            confidence: Joint coverage of all intervals, between 0 and 1; by default 1 - alpha.

        Returns:
            A table with columns `a`, `b`, `difference` (b minus a, in the unit of the scores),
            `low` and `high`.

        Raises:
            ValueError: If the procedure has no intervals, or the confidence is out of range.

        Example:
            >>> from relation_tf.stats import steel_dwass
            >>> scores = {"a": [0.1, 0.3, 0.2, 0.5], "b": [1.6, 1.8, 1.1, 1.4]}
            >>> print(steel_dwass(scores).confidence_interval().round(2).to_string(index=False))
            a b  difference  low  high
            a b        1.25  0.6   1.7

        References:
            J. L. Hodges, E. L. Lehmann (1963), Estimates of location based on rank tests, Annals of
            Mathematical Statistics 34, 598-611.
            R. G. Miller (1981), Simultaneous Statistical Inference, 2nd ed., sections 4.2 and 4.3.
        """
        if self.null is None:
            raise ValueError(
                f"{self.procedure.title} has no confidence intervals; use steel_dwass, steel, "
                "welch or brunner_munzel"
            )
        level = self._level(confidence)
        difference, low, high = shift_intervals(
            self._by_task(),
            self.null.pairs,
            self.null.critical_statistic(level),
            accept_zero=self._of_pairs("pvalue") >= level,
            worst=-np.inf if self.higher_is_better else np.inf,
        )
        return self._table(difference=difference, low=low, high=high)

    def _by_task(self) -> list[list[FloatArray]]:
        """Return the scores of each method, for each task."""
        return [[*self.samples.values()]]

    def letters(self) -> pd.Series[str]:
        """Return a compact letter display: methods that do not differ significantly share a letter.

        Returns:
            Letters of each method.

        Raises:
            ValueError: If only pairs with a control were tested, or there are more than 52 groups.
        """
        from scikit_posthocs import compact_letter_display

        if self.control is not None:
            raise ValueError("letters need a test of all pairs; this test is against a control")
        letters: pd.Series[str] = compact_letter_display(
            (~self.significant).astype(float), alpha=self.alpha
        )
        return letters.str.replace(" ", "")

    @functools.cached_property
    def _named(self) -> list[tuple[Hashable, Hashable]]:
        """Names of the tested pairs."""
        return pair_names(list(self.samples), self.control is not None)

    def _of_pairs(self, attribute: str) -> NDArray[Any]:
        """Return the values of an attribute, one per pair."""
        values: NDArray[Any] = getattr(self, attribute).to_numpy()
        return values if self.control is not None else values[np.triu_indices(len(self.samples), 1)]

    def _table(self, **columns: Any) -> pd.DataFrame:
        """Return columns as a table with one row per pair."""
        return name_pairs(list(self.samples), self.control is not None, **columns)

    def _intervals(self, rows: Sequence[tuple[float, float, float]]) -> pd.DataFrame:
        """Return the difference of each pair and its limits as a table."""
        difference, low, high = zip(*rows, strict=True)
        return self._table(difference=difference, low=low, high=high)

    def _level(self, confidence: float | None) -> float:
        """Return the joint level of intervals with a coverage, by default that of the test."""
        if confidence is None:
            return self.alpha
        check_probability("confidence", confidence)
        return 1 - confidence

    def _verdict(self, a: Hashable, b: Hashable, sign: float) -> str:
        if not sign:
            return NOT_SIGNIFICANT
        high, low = (b, a) if sign > 0 else (a, b)
        ahead = f"{high} {self._ahead}"
        return ahead if self.higher_is_better else f"{ahead}, {low} better"

    def _shown(self) -> pd.DataFrame:
        return self.pairs().drop(columns=["better", "asymptotic_pvalue"], errors="ignore")

    def _title(self) -> str:
        against = "" if self.control is None else f" of all against {self.control}"
        known = self.null is not None or self.method != "asymptotic"  # else a default
        return (
            f"{self.procedure.title}{against}{f', {self.method} p' if known else ''}: "
            f"{len(self.samples)} methods {self._design()}, alpha = {self.alpha:g}"
        )

    def _design(self) -> str:
        return f"x {number_of_seeds([scores.size for scores in self.samples.values()])}"

    def _smallest(self) -> str:
        return format_pvalue(self.attainable_pvalue, self.alpha)

    def _remarks(self) -> Iterator[str]:
        if self.seeds_needed:
            needed = count(self.seeds_needed, self._unit)
            yield (
                f"Smallest possible p of this design without ties: {self._smallest()}; "
                f"{format_level(self.alpha)} needs at least {needed}."
            )
        yield f"Statistic and effect size are positive where the second method is {self._ahead}."


Kind = TypeVar("Kind", bound=PairwiseResult)


def pairwise_result(
    procedure: Procedure,
    ranked: RankedSamples,
    statistic: ArrayLike,
    pvalue: ArrayLike,
    *,
    alpha: float = 0.05,
    higher_is_better: bool = True,
    control: Hashable | None = None,
    asymptotic_pvalue: ArrayLike | None = None,
    method: NullMethod = "asymptotic",
    null: NullDistribution | None = None,
    attainable_pvalue: float = 0.0,
    seeds_needed: int = 0,
    notes: Iterable[str] = (),
) -> PairwiseResult:
    """Build the result of a test of pairs from the statistic and p of each pair.

    Args:
        procedure: Registration of the test, an entry of `PROCEDURES`.
        ranked: Result of `rank_samples` for k methods, a control first.
        statistic: Statistic of each pair, positive where the second method is higher. Order: all
            pairs as in `itertools.combinations`, or the control with each method.
        pvalue: Family-wise p of each pair.
        alpha: Level of the test.
        higher_is_better: If True, higher scores are better.
        control: The method that the others are compared with, or None for all pairs.
        asymptotic_pvalue: Asymptotic p of each pair, if p is another one.
        method: Computation of p; for a rank test, `null` gives it.
        null: Null distribution of a rank test.
        attainable_pvalue: Smallest p that this design can give, 0 if no bound is known.
        seeds_needed: Fewest scores per method that can give p < alpha, 0 if unknown.
        notes: Remarks for the reader.

    Returns:
        The result, which prints as a table.

    Example:
        >>> import itertools
        >>> from scipy.stats import ttest_ind
        >>> from relation_tf.registry import PROCEDURES, register_procedure
        >>> from relation_tf.stats.samples import rank_samples
        >>> @register_procedure("doc-t", compares="all-pairs", title="Bonferroni", symbol="t")
        ... def t_with_bonferroni(samples, alpha=0.05, *, higher_is_better=True):
        ...     ranked = rank_samples(samples, higher_is_better=higher_is_better)
        ...     pairs = list(itertools.combinations(ranked.scores.values(), 2))
        ...     tests = [ttest_ind(b, a) for a, b in pairs]
        ...     pvalue = [min(1.0, found.pvalue * len(pairs)) for found in tests]
        ...     statistic = [found.statistic for found in tests]
        ...     return pairwise_result(PROCEDURES["doc-t"], ranked, statistic, pvalue,
        ...                            alpha=alpha, higher_is_better=higher_is_better)
        >>> scores = {"a": [1, 2, 3], "b": [2, 3, 4], "c": [7, 8, 9]}
        >>> t_with_bonferroni(scores).pairs()["better"].tolist()
        [None, 'c', 'c']
    """
    groups = observed_groups(ranked)
    names = labels(list(ranked.scores))
    unequal = spread_notes(procedure.title, ranked.scores) if procedure.equal_spread else ()
    pairs = index_pairs(len(names), control is not None)
    against = control is not None
    pvalues = table_of_pairs(pvalue, names, against, diagonal=1.0, below=1.0)
    return PairwiseResult(
        procedure=procedure,
        statistic=table_of_pairs(statistic, names, against),
        pvalue=pvalues,
        asymptotic_pvalue=None
        if asymptotic_pvalue is None
        else table_of_pairs(asymptotic_pvalue, names, against, diagonal=1.0, below=1.0),
        significant=pvalues < alpha,
        effect_size=table_of_pairs(dominance([groups], pairs), names, against),
        samples=ranked.scores,
        control=control,
        alpha=alpha,
        method=method if null is None else null.method,
        null=null,
        higher_is_better=higher_is_better,
        attainable_pvalue=attainable_pvalue,
        seeds_needed=seeds_needed,
        kruskal=kruskal_wallis(ranked),
        notes=(*ranked.notes, *unequal, *notes),
    )


def as_kind(result: PairwiseResult, kind: type[Kind], **attributes: Any) -> Kind:
    """Return a result as a subclass of `PairwiseResult`, with the attributes that only it has."""
    return kind(
        **{field.name: getattr(result, field.name) for field in fields(result)}, **attributes
    )


def table_of_pairs(
    values: ArrayLike,
    names: Sequence[Hashable] | pd.Index[Any],
    against_first: bool,
    *,
    diagonal: float = 0.0,
    below: float = -1.0,
) -> Any:
    """Return a number per pair as a k x k table, or as a Series of all methods but the first.

    Args:
        values: Numbers of all pairs, in the order of `itertools.combinations`, or of the pairs with
            the first method.
        names: The k methods, as an index to save time, or as a sequence.
        against_first: If True, only the pairs with the first method are compared.
        diagonal: Value on the diagonal.
        below: Factor of the values below the diagonal: -1 turns the sign, 1 keeps it.
    """
    index, numbers = labels(names), np.asarray(values, dtype=np.float64)
    if against_first:
        return pd.Series(numbers, index=index[1:])
    square = np.full((len(names), len(names)), diagonal)
    first, second = np.triu_indices(len(names), 1)
    square[first, second] = numbers
    square[second, first] = below * numbers
    return pd.DataFrame(square, index=index, columns=index)


def due_to_ties(pvalues: FloatArray, attainable: float, error: float = 0.0) -> bool:
    """Return True if a p is smaller than scores without ties can give.

    Args:
        pvalues: p of each pair.
        attainable: Smallest possible p without ties.
        error: Standard error of the p.
    """
    # Tolerance: ties between other methods change p slightly.
    return bool(pvalues.min() < 0.999 * attainable - 5 * error)
