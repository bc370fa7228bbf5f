"""Result of a test of pairs of methods: its tables, its text, and its construction from p."""

from __future__ import annotations

import functools
import html
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from relation_tf.registry import PROCEDURES, Procedure
from relation_tf.stats.estimates import delta_intervals, shift_intervals
from relation_tf.stats.permutation import (
    ROUNDING,
    NullDistribution,
    NullMethod,
    dominance,
    observed_groups,
)
from relation_tf.stats.samples import (
    FloatArray,
    RankedSamples,
    Replicate,
    Samples,
    check_probability,
    index_pairs,
    rank_samples,
    spread_notes,
)
from relation_tf.words import (
    capital,
    count,
    format_level,
    format_pvalue,
    number_of_seeds,
    pvalue_only,
)

NOT_SIGNIFICANT = "no significant difference"

_FORMATS: dict[str, Callable[[Any], str]] = {
    "statistic": "{:+.3f}".format,
    "pvalue": "{:.4g}".format,
    "effect_size": "{:+.2f}".format,
    "rank_a": "{:.2f}".format,
    "rank_b": "{:.2f}".format,
}


class PrintedResult(ABC):
    """Base class of results that print as a title, a table, remarks and notes."""

    @abstractmethod
    def _title(self) -> str: ...

    @abstractmethod
    def _printed(self) -> pd.DataFrame:
        """Return the table that is printed."""

    def _remarks(self) -> Iterator[str]:
        return iter(())

    def _lines(self) -> list[str]:
        return [*self._remarks(), *(f"Note: {note}" for note in getattr(self, "notes", ()))]

    def __str__(self) -> str:
        table = self._printed().to_string(index=False, formatters=_FORMATS)
        return "\n".join([self._title(), table, *self._lines()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        table = self._printed().to_html(index=False, formatters=_FORMATS, border=0)
        lines = "".join(f"<p>{html.escape(line)}</p>" for line in self._lines())
        return f"<div><p><b>{html.escape(self._title())}</b></p>{table}{lines}</div>"


def labels(names: Sequence[Hashable] | pd.Index[Any]) -> pd.Index[Any]:
    """Return names as an index in which a tuple is one label."""
    return pd.Index(names, tupleize_cols=False)


def name_pairs(
    names: Sequence[Hashable], against_first: bool = False, **columns: Any
) -> pd.DataFrame:
    """Return columns `a` and `b` of all pairs, or only of those with the first name.

    Args:
        names: The names.
        against_first: If True, only pairs with the first name.
        **columns: More columns; adding them to a table later is many times slower.
    """
    pairs = index_pairs(len(names), against_first)
    first, second = ([names[pair[place]] for pair in pairs] for place in (0, 1))
    return pd.DataFrame({"a": first, "b": second, **columns})


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


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PairwiseResult(PrintedResult):
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
        effect_size: Cliff's delta, with the sign of the difference; NaN for a test of pairs of
            scores, whose effect is the difference of means.
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
        notes: Remarks on the samples and on p.
    """

    procedure: Procedure
    statistic: Any
    pvalue: Any
    effect_size: Any
    samples: dict[Hashable, FloatArray]
    asymptotic_pvalue: Any = None
    control: Hashable | None = None
    alpha: float = 0.05
    method: NullMethod = "asymptotic"
    null: NullDistribution | None = None
    higher_is_better: bool = True
    attainable_pvalue: float = 0.0
    seeds_needed: int = 0
    notes: tuple[str, ...] = ()

    _ahead: ClassVar[str] = "higher"  # of a method with a positive sign
    _unit: ClassVar[str] = "seed"  # of `seeds_needed`
    _replicate: ClassVar[Replicate] = "seed"

    @functools.cached_property
    def significant(self) -> Any:
        """True where `pvalue` < alpha, of the form of `pvalue`."""
        return self.pvalue < self.alpha

    @property
    def tied(self) -> bool:
        """True if a p is smaller, as printed, than it can be without ties."""
        smallest, best = float(self.pvalue.to_numpy().min()), self.attainable_pvalue
        is_smaller = smallest < best and pvalue_only(smallest) != pvalue_only(best)
        return is_smaller and (self.null is None or self.null.ties > 0)

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
        names = ["statistic", "pvalue", *asymptotic, "effect_size", "significant"]
        values = {name: self._of_pairs(name) for name in names}
        signs = np.where(values["significant"], self.directions(), 0).tolist()
        better, verdicts = [], []
        for (a, b), sign in zip(self._tested, signs, strict=True):
            high, low = (b, a) if sign > 0 else (a, b)
            ahead = f"{high} {self._ahead}"
            if not self.higher_is_better:
                high, ahead = low, f"{ahead}, {low} better"
            better.append(high if sign else None)
            verdicts.append(ahead if sign else NOT_SIGNIFICANT)
        first, second = ([pair[place] for pair in self._tested] for place in (0, 1))
        return {"a": first, "b": second, **values, "better": better, "verdict": verdicts}

    def directions(self) -> FloatArray:
        """Return 1 for each tested pair whose second method is higher, -1 if lower, 0 if neither.

        Higher is by the sign of the statistic: by ranks, or by means in a test of means. If it is 0
        or unknown, higher is by ranks; if it is unknown and ranks are equal, by means.
        """
        statistic = self._of_pairs("statistic")
        known, effects = (np.nan_to_num(x) for x in (statistic, self._of_pairs("effect_size")))
        signs = np.sign(np.where(np.abs(known) > ROUNDING, known, effects))
        unknown = np.isnan(statistic) & (signs == 0)
        if unknown.any():
            means = {name: scores.mean() for name, scores in self.samples.items()}
            first, second = np.array([(means[a], means[b]) for a, b in self._tested]).T
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
        trials = np.array([self._trials(a, b) for a, b in self._tested])
        low, high = delta_intervals(delta, trials, confidence)
        return self._table(delta=delta, low=low, high=high, probability=(delta + 1) / 2)

    def _trials(self, a: Hashable, b: Hashable) -> float:
        """Return n for which the variance of Cliff's delta is at most `(1 - delta^2) / n`."""
        return min(self.samples[a].size, self.samples[b].size)

    def confidence_interval(self, confidence: float | None = None) -> pd.DataFrame:
        """Return simultaneous confidence intervals of the difference between methods of each pair.

        All tested pairs together have their differences in these intervals with at least this
        probability. The docstrings of the results of `brunner_munzel` and `welch` describe their
        intervals. Those of rank tests are for a shift: if the scores of two methods differ by a
        shift only, an interval contains each shift that the test does not reject, with the joint
        critical value of the largest statistic. Its limits are two of the ordered differences
        between the scores of b and of a. The estimate is their median (Hodges and Lehmann). No
        interval excludes 0 if p is at least `1 - confidence`; without ties it excludes 0 exactly if
        p is below. A limit is infinite if this number of methods and scores cannot give such a p.
        Methods whose scores are constant show no variance; their interval can be a point.

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
        level = self.alpha
        if confidence is not None:
            check_probability("confidence", confidence)
            level = 1 - confidence
        difference, low, high = self._limits(level)
        return self._table(difference=difference, low=low, high=high)

    def _limits(self, level: float) -> FloatArray:
        """Return differences, lower and upper limits at a joint level, shape `(3, P)`."""
        if self.null is None:
            raise ValueError(
                f"{self.procedure.title} has no confidence intervals; use steel_dwass, steel, "
                "welch or brunner_munzel"
            )
        null = self.null if level == self.alpha else self.null.complete()
        return shift_intervals(
            self._by_task(),
            null.pairs,
            null.critical_statistic(level),
            accept_zero=self._of_pairs("pvalue") >= level,
            worst=-np.inf if self.higher_is_better else np.inf,
        )

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
    def _tested(self) -> list[tuple[Hashable, Hashable]]:
        """Names of the tested pairs."""
        names = list(self.samples)
        pairs = index_pairs(len(names), self.control is not None)
        return [(names[i], names[j]) for i, j in pairs]

    def _of_pairs(self, attribute: str) -> NDArray[Any]:
        """Return the values of an attribute, one per pair."""
        values: NDArray[Any] = getattr(self, attribute).to_numpy()
        return values if self.control is not None else values[np.triu_indices(len(self.samples), 1)]

    def _table(self, **columns: Any) -> pd.DataFrame:
        """Return columns as a table with one row per pair."""
        return name_pairs(list(self.samples), self.control is not None, **columns)

    def _printed(self) -> pd.DataFrame:
        shown = self.pairs().drop(columns=["better", "asymptotic_pvalue"], errors="ignore")
        return shown.dropna(axis="columns", how="all")

    def _title(self) -> str:
        against = "" if self.control is None else f" of all against {self.control}"
        known = self.null is not None or self.method != "asymptotic"  # else a default
        return (
            f"{capital(self.procedure.title)}{against}{f', {self.method} p' if known else ''}: "
            f"{len(self.samples)} methods {self._design()}, alpha = {self.alpha:g}"
        )

    def _design(self) -> str:
        sizes = [scores.size for scores in self.samples.values()]
        return f"x {number_of_seeds(sizes, self._replicate)}"

    def _smallest(self) -> str:
        return format_pvalue(self.attainable_pvalue, self.alpha)

    def _remarks(self) -> Iterator[str]:
        if self.seeds_needed:
            needed = count(self.seeds_needed, self._unit)
            yield (
                f"Smallest possible p of this design without ties: {self._smallest()}; "
                f"{format_level(self.alpha)} needs at least {needed}."
            )
        known = not np.isnan(self._of_pairs("effect_size")).all()
        signed = "Statistic and effect size are" if known else "The statistic is"
        yield f"{signed} positive where the second method is {self._ahead}."


def pairwise_result(
    procedure: str,
    samples: RankedSamples | Samples,
    statistic: ArrayLike,
    pvalue: ArrayLike,
    *,
    control: Hashable | None = None,
    asymptotic_pvalue: ArrayLike | None = None,
    notes: Iterable[str] = (),
    **attributes: Any,
) -> PairwiseResult:
    """Build the result of a test of pairs from the statistic and p of each pair.

    Args:
        procedure: Registered name of the test.
        samples: Scores of k methods, as in `steel_dwass`, or the result of `rank_samples`.
        statistic: Statistic of each pair, positive where the second method is higher. Order: all
            pairs as in `itertools.combinations`, or the control with each method.
        pvalue: Family-wise p of each pair.
        control: The method that the others are compared with, or None for all pairs.
        asymptotic_pvalue: Asymptotic p of each pair, if p is another one.
        notes: Remarks for the reader.
        **attributes: Other attributes of `PairwiseResult`: `alpha`, `higher_is_better`, `method`,
            `null`, `attainable_pvalue` and `seeds_needed`.

    Returns:
        The result, which prints as a table.

    Example:
        >>> import itertools
        >>> from scipy.stats import ttest_ind
        >>> from relation_tf.registry import register_procedure
        >>> @register_procedure("doc-t", compares="all-pairs", title="Bonferroni", symbol="t")
        ... def t_with_bonferroni(samples, **options):
        ...     tests = [ttest_ind(b, a) for a, b in itertools.combinations(samples.values(), 2)]
        ...     pvalue = [min(1.0, test.pvalue * len(tests)) for test in tests]
        ...     statistic = [test.statistic for test in tests]
        ...     return pairwise_result("doc-t", samples, statistic, pvalue, **options)
        >>> scores = {"a": [1, 2, 3], "b": [2, 3, 4], "c": [7, 8, 9]}
        >>> t_with_bonferroni(scores).pairs()["better"].tolist()
        [None, 'c', 'c']
    """
    ranked, registered = samples, PROCEDURES[procedure]
    if not isinstance(ranked, RankedSamples):
        higher_is_better = attributes.get("higher_is_better", True)
        ranked = rank_samples(ranked, control, higher_is_better=higher_is_better)
    names, against = labels(list(ranked.scores)), control is not None
    effect_size = dominance([observed_groups(ranked)], index_pairs(len(names), against))
    asymptotic = None
    if asymptotic_pvalue is not None:
        asymptotic = table_of_pairs(asymptotic_pvalue, names, against, symmetric=True)
    significant = attributes.get("attainable_pvalue", 0.0) < attributes.get("alpha", 0.05)
    warned = registered.equal_spread and significant
    unequal = spread_notes(registered.title, ranked.scores) if warned else ()
    return PairwiseResult(
        procedure=registered,
        statistic=table_of_pairs(statistic, names, against),
        pvalue=table_of_pairs(pvalue, names, against, symmetric=True),
        effect_size=table_of_pairs(effect_size, names, against),
        samples=ranked.scores,
        asymptotic_pvalue=asymptotic,
        control=control,
        notes=(*ranked.notes, *unequal, *notes),
        **attributes,
    )


def table_of_pairs(
    values: ArrayLike,
    names: Sequence[Hashable] | pd.Index[Any],
    against_first: bool,
    *,
    symmetric: bool = False,
) -> Any:
    """Return a number per pair as a k x k table, or as a Series of all methods but the first.

    Args:
        values: Numbers of all pairs, in the order of `itertools.combinations`, or of the pairs with
            the first method.
        names: The k methods, as an index to save time, or as a sequence.
        against_first: If True, only the pairs with the first method are compared.
        symmetric: If True, the table is symmetric with 1 on the diagonal, such as p; else values
            below the diagonal have the opposite sign, and the diagonal is 0.
    """
    index, numbers = labels(names), np.asarray(values, dtype=np.float64)
    if against_first:
        return pd.Series(numbers, index=index[1:])
    square = np.eye(len(names)) if symmetric else np.zeros((len(names), len(names)))
    first, second = np.triu_indices(len(names), 1)
    square[first, second] = numbers
    square[second, first] = numbers if symmetric else -numbers
    return pd.DataFrame(square, index=index, columns=index)
