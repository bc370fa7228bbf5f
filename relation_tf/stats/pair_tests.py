"""Tests of pairs of methods: Steel-Dwass and Steel (also over tasks), Brunner-Munzel, Welch.

A joint permutation of the scores of all methods, as in `steel_dwass`, is not valid if the methods
differ in spread: it assumes that all scores have one distribution. `brunner_munzel` and `welch` use
the scores of one pair at a time and adjust p over the pairs with Holm's method.

Share of false positives in percent (any pair significant, alpha = .05, normal scores with equal
means, 20,000 simulations each, `tests/stats/test_unequal_spread.py`):

| methods x seeds | SDs | Steel-Dwass, exact | Brunner-Munzel | Welch |
| --- | --- | --- | --- | --- |
| 4 x 5 | equal | 4.2 | 4.2 | 3.6 |
| 4 x 5 | one 3 times the others | 5.4 | 5.4 | 3.8 |
| 4 x 5 | one 10 times the others | 7.3 | 7.3 | 3.2 |
| 4 x 5 | one a tenth of the others | 11.9 | 11.9 | 4.3 |
| 4 x 10 | one a tenth of the others | 7.6 | 6.1 | 3.8 |
| 4 x 15 | one a tenth of the others | 9.2 | 4.6 | 3.7 |
| 2 x 5 | 10:1 | 6.1 | 6.2 | 5.3 |
| 2 x 10 | 10:1 | 8.9 | 6.6 | 5.2 |
| 2 x 15 | 10:1 | 9.3 | 5.4 | 5.1 |
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from relation_tf.registry import PROCEDURES
from relation_tf.stats.comparisons import Estimand, PairwiseResult, pairwise_result, table_of_pairs
from relation_tf.stats.design import (
    RankTest,
    attainable_pvalue,
    samples_needed,
    seeds_needed,
    stratified_attainable_pvalue,
)
from relation_tf.stats.directions import Directions, read_directions
from relation_tf.stats.permutation import (
    PERMUTATIONS,
    Distribution,
    Groups,
    NullDistribution,
    arrangements,
    chunks,
    distribution,
    dominance,
    null_distribution,
    observed_groups,
    permutation_pvalues,
    rank_sums,
    sum_statistics,
)
from relation_tf.stats.samples import (
    FloatArray,
    NanPolicy,
    RankedSamples,
    Samples,
    TaskSamples,
    TaskScores,
    TestOptions,
    check_finite,
    check_probability,
    error_of_sum,
    in_task,
    index_pairs,
    is_constant,
    rank_samples,
    read_tasks,
    scaled_residuals,
    unequal_spread,
)
from relation_tf.words import at_least, capital, count, number_of_seeds, pvalue_only

_MOST_SHIFTS = 2_000  # tested for an interval; of more, evenly spaced ones

Labels = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class StratifiedResult(PairwiseResult):
    """Result of `stratified_steel_dwass` or `stratified_steel`.

    It has the attributes and tables of `PairwiseResult`, with these differences: signs are positive
    where the column's method (or the method compared with the control) is better; the effect size
    is the mean of Cliff's delta over tasks, with the weights of the test; `samples` has the scores
    of all tasks. The intervals are for a shift that is the same on each task: use them only if all
    tasks have the same unit.

    Attributes:
        tasks: Task -> method -> its scores as given.
        signs: Task -> 1, or -1 where lower scores are better.
    """

    tasks: TaskScores
    signs: Mapping[Hashable, int]

    _ahead = "better"

    estimand = Estimand(
        "Hodges-Lehmann difference",
        "It assumes that the score distributions of two methods differ only in location, by the "
        "same shift on every task.",
    )

    def _by_task(self) -> list[list[FloatArray]]:
        return [[self.signs[t] * x for x in scores.values()] for t, scores in self.tasks.items()]

    def _trials(self, a: Hashable, b: Hashable) -> float:
        sizes = [(scores[a].size, scores[b].size) for scores in self.tasks.values()]
        total = sum(m * n / (m + n + 1) for m, n in sizes)
        return total**2 / sum((m * n / (m + n + 1)) ** 2 / min(m, n) for m, n in sizes)

    def _smallest(self) -> str:
        return at_least(self.attainable_pvalue, self.alpha)

    def _design(self) -> str:
        sizes = [scores.size for task in self.tasks.values() for scores in task.values()]
        return f"over {count(len(self.tasks), 'task')} x {number_of_seeds(sizes)}"


def steel_dwass(
    samples: Samples,
    alpha: float = 0.05,
    *,
    higher_is_better: bool = True,
    nan: NanPolicy = "worst",
    **options: Any,
) -> PairwiseResult:
    """Compare all pairs of methods with the Steel-Dwass test (Dwass-Steel-Critchlow-Fligner).

    For a pair of methods with n_i and n_j scores, ranked together, and the rank sum W of the second
    method, the statistic is

    `W* = sqrt(2) (W - n_j (n_i + n_j + 1) / 2) / sqrt(V)`,

    where V is the variance of W given the ties. The test is two-sided and has no continuity
    correction. p is family-wise:

    - `exact`: the share of all arrangements of the pooled scores (at most 1,000,000) with a
      largest |W*| of all pairs at least as large as this |W*|.
    - `monte-carlo`: the same share for random arrangements, with the observed one; without ties the
      p of the largest possible |W*| is exact, see `attainable_pvalue`.
    - `auto`: `exact` up to 1,000,000 arrangements (about a second), else `monte-carlo` (a second
      for four methods with 30 scores, 15 seconds for two with 1,000).
    - `asymptotic`: P(studentized range of k groups, infinite degrees of freedom > |W*|), for
      comparison with published work. With few scores it is too small: two methods with three seeds
      reach .0495, but their exact p is .10.

    Scores must be independent, such as one score per seed. A difference that is not significant is
    no evidence that two methods are equal. Do not pool scores of several datasets: use
    `friedman_nemenyi`. Use scores with full precision: rounding causes ties. To
    compare one method with each other method, declare `steel` before the runs; it has more power.

    Args:
        samples: A dict of name -> scores, or a `pandas.DataFrame` with one column per method (and
            `seed`, `fold` or `item`, which are not read). Scores must be numbers; infinities are
            ranked. An empty cell of a `DataFrame` is NaN.
        alpha: Level of the test; p < alpha is significant.
        higher_is_better: If True, the higher method of a pair is better and NaN is ranked lowest;
            else the lower method is better and NaN is ranked highest. Signs do not depend on it:
            "higher" always means a higher score.
        nan: `"worst"` ranks NaN (a diverged run) worst and adds a note; `"raise"` raises an error.
        **options: `method`, `rtol`, `permutations` and `rng` of `TestOptions`.

    Returns:
        A `PairwiseResult` with signed W*; `print` shows it.

    Raises:
        TypeError: If the samples have an unknown form or contain something other than numbers.
        ValueError: If there are fewer than two groups, a group is empty, an option is out of
            range, or `exact` needs more than 1,000,000 arrangements.

    Example:
        >>> mlp, relation = [0.79, 0.81, 0.80, 0.82, 0.83], [0.84, 0.86, 0.85, 0.87, 0.88]
        >>> result = steel_dwass({"mlp": mlp, "relation": relation})
        >>> print(f"{result.pvalue.loc['mlp', 'relation']:.4f}")
        0.0079
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
    return _compare(samples, None, higher_is_better, TestOptions(alpha, nan=nan, **options))


def steel(
    samples: Samples,
    control: Hashable,
    alpha: float = 0.05,
    *,
    higher_is_better: bool = True,
    nan: NanPolicy = "worst",
    **options: Any,
) -> PairwiseResult:
    """Compare each method with one control using Steel's many-one rank test.

    For a method with n_j scores, ranked together with the n_0 scores of the control, and the rank
    sum W of the method, the statistic is

    `Z = (W - n_j (n_0 + n_j + 1) / 2) / sqrt(V)`,

    where V is the variance of W given the ties of the two. The test is two-sided and has no
    continuity correction. p is family-wise, over all methods:

    - `exact`: the share of all arrangements of the pooled scores of all methods (at most 1,000,000)
      with a largest |Z| of all methods at least as large as this |Z|.
    - `monte-carlo`: the same share for random arrangements, with the observed one; without ties the
      p of the largest possible |Z| is exact, see `attainable_pvalue`.
    - `auto`: `exact` up to 1,000,000 arrangements, else `monte-carlo`.
    - `asymptotic`: P(the largest of k - 1 absolute normal statistics > |Z|), with the correlation
      of rank statistics with a common control for these numbers of scores and ties; for comparison
      with published work only.

    Scores must be independent, such as one score per seed. The family has fewer pairs than all
    pairs, so smaller p are possible: five methods with five seeds reach p = .028 instead of .062.
    Declare the control and the test before the runs. Methods are not compared with each other.

    Args:
        samples: Scores of each method, as in `steel_dwass`.
        control: Name of the control among the samples.
        alpha: Level of the test; p < alpha is significant.
        higher_is_better: If True, higher scores are better and NaN is ranked lowest; else lower
            scores are better and NaN is ranked highest. Signs do not depend on it.
        nan: `"worst"` ranks NaN (a diverged run) worst and adds a note; `"raise"` raises an error.
        **options: `method`, `rtol`, `permutations` and `rng` of `TestOptions`.

    Returns:
        A `PairwiseResult` with signed Z; `print` shows it.

    Raises:
        TypeError: If the samples have an unknown form or contain something other than numbers.
        ValueError: If the control is not among the samples, there are fewer than two groups, a
            group is empty, an option is out of range, or `exact` needs more than 1,000,000
            arrangements.

    Example:
        >>> scores = {
        ...     "attention": [0.79, 0.81, 0.80, 0.82, 0.83],
        ...     "relation": [0.84, 0.86, 0.85, 0.87, 0.88],
        ...     "mlp": [0.78, 0.82, 0.77, 0.81, 0.80],
        ... }
        >>> result = steel(scores, control="attention")
        >>> print(result.pvalue.round(4).to_dict())
        {'relation': 0.0106, 'mlp': 0.4638}
        >>> result.pairs()["verdict"].tolist()
        ['relation higher', 'no significant difference']

    References:
        R. G. D. Steel (1959), A multiple comparison rank sum test: treatments versus control,
        Biometrics 15, 560-572.
        F. W. Scholz (2023), On Steel's test with ties, arXiv:2308.05873, for the correlations.
    """
    return _compare(samples, control, higher_is_better, TestOptions(alpha, nan=nan, **options))


def stratified_steel_dwass(
    samples: TaskSamples | pd.DataFrame,
    control: Hashable | None = None,
    alpha: float = 0.05,
    *,
    higher_is_better: Directions = None,
    nan: NanPolicy = "worst",
    **options: Any,
) -> StratifiedResult:
    """Compare all pairs of methods over several tasks with a stratified Steel-Dwass test.

    For a pair of methods, U is the Mann-Whitney statistic of their scores on one task, and V its
    variance given the ties. Over tasks the statistic is

    `W* = sqrt(2) Sum_t w_t (U_t - n_i n_j / 2) / sqrt(Sum_t w_t^2 V_t)`,

    with the weights `w_t = 1 / (n_i + n_j + 1)` of van Elteren, which are the same for tasks with
    the same number of seeds. Each task can have its own scale, metric and number of seeds. Seeds of
    different tasks are never paired. The test is two-sided; p is family-wise: the share of
    arrangements with a largest |W*| of all pairs at least as large as this |W*|, where scores are
    permuted jointly over all methods within each task, and independently between tasks. With one
    task the test equals `steel_dwass`.

    The null hypothesis is that no method differs on any of these tasks. The test has power against
    a difference in the same direction on most tasks; differences in opposite directions cancel. It
    is about these tasks, not about new ones. It assumes scores with the same spread for all methods
    of a task.

    Args:
        samples: `{task: {method: scores}}`; the scores of a task can have any form that
            `steel_dwass` takes. Or a `pandas.DataFrame` with columns `task`, `method` and `score`,
            or with a column `task` and one for each method, a row for each seed. All tasks must
            have the same methods.
        control: Method to compare all others with, as in `stratified_steel`; by default all pairs
            are compared.
        alpha: Level of the test; p < alpha is significant.
        higher_is_better: If False, lower scores are better; or `{task: bool}`. By default, lower
            is better on tasks with the name of such a metric (perplexity, loss, error, RMSE ...),
            with a note, and higher on others.
        nan: `"worst"` ranks NaN (a diverged run) worst and adds a note; `"raise"` raises an error.
        **options: `method`, `rtol`, `permutations` and `rng` of `TestOptions`. `"auto"` is exact if
            this takes about a second, else Monte Carlo; `"asymptotic"` is as for one task, with a
            control with correlations averaged over tasks. Ranks and ties are those of a task.

    Returns:
        A `StratifiedResult`; `print` shows it. Signs are positive where the second method is
        better, also if lower scores are better.

    Raises:
        TypeError: If the samples have an unknown form or contain something other than numbers.
        ValueError: If there is no task, a task lacks a method or has fewer than two, an option is
            out of range, or `exact` needs too many arrangements.

    Example:
        >>> samples = {
        ...     "CoLA": {"mlp": [0.50, 0.52, 0.51], "relation": [0.55, 0.53, 0.54]},
        ...     "RTE": {"mlp": [0.60, 0.61, 0.63], "relation": [0.64, 0.62, 0.65]},
        ... }
        >>> result = stratified_steel_dwass(samples)
        >>> print(f"{result.statistic.loc['mlp', 'relation']:.3f}, {result.method}")
        3.491, exact
        >>> print(f"{result.pvalue.loc['mlp', 'relation']:.3f}")
        0.015

    References:
        P. van Elteren (1960), On the combination of independent two-sample tests of Wilcoxon,
        Bulletin de l'Institut International de Statistique 37, 351-361.
        E. L. Lehmann (1975), Nonparametrics: statistical methods based on ranks, 132-137.
        D. E. Critchlow, M. A. Fligner (1991), On distribution-free multiple comparisons in the
        one-way analysis of variance, Communications in Statistics - Theory and Methods 20, 127-139.
    """
    settings = TestOptions(alpha, nan=nan, **options)
    tasks = read_tasks(samples, control)
    higher, notes = read_directions(tasks, higher_is_better)
    signs = {task: 1 if higher[task] else -1 for task in tasks}
    ranked = {}
    for task, scores in tasks.items():
        signed = {name: signs[task] * x for name, x in scores.items()}
        ranked[task] = in_task(task, rank_samples, signed, options=settings)
    groups = [observed_groups(task) for task in ranked.values()]
    null, statistic = _standardized(groups, control, settings)
    methods, against = list(next(iter(tasks.values()))), control is not None
    attainable = functools.partial(
        stratified_attainable_pvalue, len(methods), len(tasks), test=null.test
    )
    scale = 1 if against else math.sqrt(2)
    return StratifiedResult(
        procedure=PROCEDURES[f"stratified-{null.test}"],
        statistic=table_of_pairs(scale * statistic, methods, against),
        pvalue=table_of_pairs(null.pvalues(statistic), methods, against, symmetric=True),
        effect_size=table_of_pairs(dominance(groups, null.pairs), methods, against),
        samples={name: np.concatenate([x[name] for x in tasks.values()]) for name in methods},
        control=control,
        alpha=alpha,
        method=null.method,
        null=null,
        attainable_pvalue=null.attainable_pvalue,
        seeds_needed=samples_needed(attainable, alpha, least=1),
        notes=(*notes, *_notes(tasks, ranked)),
        tasks=tasks,
        signs=signs,
    )


def stratified_steel(
    samples: TaskSamples | pd.DataFrame,
    control: Hashable,
    alpha: float = 0.05,
    *,
    higher_is_better: Directions = None,
    nan: NanPolicy = "worst",
    **options: Any,
) -> StratifiedResult:
    """Compare each method with one control over several tasks with a stratified Steel test.

    The statistic Z of a method is `W* / sqrt(2)` of `stratified_steel_dwass` for the pair of the
    control and the method. p is family-wise over all methods: the share of arrangements with a
    largest |Z| at least as large, where scores are permuted jointly over all methods within each
    task. With one task the test equals `steel`. Declare the control before the runs.

    Args:
        samples: As for `stratified_steel_dwass`.
        control: Name of the control, which has scores on every task.
        alpha: Level of the test; p < alpha is significant.
        higher_is_better: As for `stratified_steel_dwass`.
        nan: As for `stratified_steel_dwass`.
        **options: As for `stratified_steel_dwass`.

    Returns:
        A `StratifiedResult`, positive where a method is better than the control.

    Raises:
        TypeError: If the samples have an unknown form or contain something other than numbers.
        ValueError: If the control or a method has no scores on a task, an option is out of range,
            or `exact` needs too many arrangements.

    Example:
        >>> samples = {
        ...     "CoLA": {"attention": [0.50, 0.52, 0.51], "relation": [0.55, 0.53, 0.54]},
        ...     "RTE": {"attention": [0.60, 0.61, 0.63], "relation": [0.64, 0.62, 0.65]},
        ... }
        >>> result = stratified_steel(samples, control="attention")
        >>> result.pairs()["verdict"].tolist()
        ['relation better']

    References:
        R. G. D. Steel (1959), A multiple comparison rank sum test: treatments versus control,
        Biometrics 15, 560-572.
        P. van Elteren (1960), see `stratified_steel_dwass`.
    """
    return stratified_steel_dwass(
        samples, control, alpha, higher_is_better=higher_is_better, nan=nan, **options
    )


def _compare(
    samples: Samples, control: Hashable | None, higher_is_better: bool, options: TestOptions
) -> PairwiseResult:
    ranked = rank_samples(samples, control, higher_is_better=higher_is_better, options=options)
    null, statistic = _standardized([observed_groups(ranked)], control, options)
    sizes, attainable = null.sizes[0], null.attainable_pvalue
    codes = list(ranked.codes.items())
    notes = [
        f"All scores of {codes[i][0]} and {codes[j][0]} are equal, so p = 1"
        for i, j in null.pairs
        if len({*codes[i][1].tolist(), *codes[j][1].tolist()}) == 1
    ]
    if null.method == "asymptotic":
        exact = attainable_pvalue(len(sizes), sizes, "exact", test=null.test)
        if attainable < options.alpha <= exact:
            notes.append(
                "The asymptotic p is too small for so few scores: the smallest exact p without "
                f"ties is {pvalue_only(exact, options.alpha)}"
            )
    result = pairwise_result(
        null.test,
        ranked,
        statistic * (math.sqrt(2) if control is None else 1),
        null.pvalues(statistic),
        alpha=options.alpha,
        higher_is_better=higher_is_better,
        control=control,
        asymptotic_pvalue=replace(null, method="asymptotic").pvalues(statistic),
        method=null.method,
        null=null,
        attainable_pvalue=attainable,
        seeds_needed=seeds_needed(len(sizes), options.alpha, "exact", test=null.test),
        notes=notes,
    )
    if not result.tied:
        return result
    note = (
        f"P-values below {f'{attainable:.3g}'.removeprefix('0')} are possible here only because "
        f"scores are tied (rounded or constant); ties: {null.ties}"
    )
    return replace(result, notes=(*result.notes, note))


def _standardized(
    tasks: list[Groups], control: Hashable | None, options: TestOptions
) -> tuple[NullDistribution, FloatArray]:
    """Return the null distribution, and the standardized U of each tested pair."""
    test: RankTest = "steel-dwass" if control is None else "steel"
    null = null_distribution(test, tasks, options.method, options.permutations, options.rng)
    statistic = sum_statistics(rank_sums(groups, null.pairs) for groups in tasks)[:, 0]
    if options.permutations is None:
        null = null.sufficient(statistic, options.alpha)
    return null, statistic


def _notes(tasks: TaskScores, ranked: Mapping[Hashable, RankedSamples]) -> Iterator[str]:
    """Yield notes on NaN, and on methods with unequal spread on all tasks together."""
    for task, of_task in ranked.items():
        yield from (f"{task}: {note}" for note in of_task.notes)
    relative: dict[Hashable, list[FloatArray]] = {}
    for methods in tasks.values():
        finite = {name: scores[np.isfinite(scores)] for name, scores in methods.items()}
        residuals = {
            name: 0 * scores if is_constant(scores) else scaled_residuals(scores)
            for name, scores in finite.items()
            if scores.size > 1  # one score has no spread
        }
        deviation = np.concatenate([*residuals.values(), np.zeros(1)]).std() or 1.0
        for name, values in residuals.items():
            relative.setdefault(name, []).append(values / deviation)
    joined = {name: np.concatenate(values) for name, values in relative.items()}
    if spread := unequal_spread(joined):
        yield (
            f"{capital(str(spread))} (scores of each task divided by their SD). The test "
            "assumes equal spread on each task, so its error rate can exceed alpha"
        )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class BrunnerMunzelResult(PairwiseResult):
    """Result of `brunner_munzel`: a `PairwiseResult` with intervals of the median differences.

    The median difference is the shift of b after which P(b > a) + P(b = a) / 2 = 1/2, the null
    hypothesis of the test. An interval contains each shift that the test of the pair does not
    reject at the level `(1 - confidence) / number of pairs` (Bonferroni), so it includes 0 if the
    pair does not differ significantly. It can also include 0 if p, which is adjusted with Holm's
    method, is just below `1 - confidence`. The limits are two of the differences between a score of
    b and one of a. A limit is infinite if so few scores cannot reject any shift, or if a score is
    not finite. With more than 2,000 differences, intervals can be slightly wider.

    Attributes:
        permutations: Largest number of arrangements that are enumerated.
        seed: Seed of random arrangements.

    Example:
        >>> scores = {"a": [1, 2, 3, 4, 5], "b": [6, 7, 8, 9, 10.5]}
        >>> print(brunner_munzel(scores).confidence_interval().to_string(index=False))
        a b  difference  low  high
        a b         5.0  3.0   7.5
    """

    permutations: int
    seed: int

    estimand = Estimand(
        "median difference",
        "After this shift neither method is more likely to be ahead; spreads may differ.",
    )

    def _limits(self, level: float) -> FloatArray:
        rows = []
        for (a, b), pvalue in zip(self._tested, self._of_pairs("pvalue"), strict=True):
            first, second = self.samples[a], self.samples[b]
            if not np.isfinite([*first, *second]).all():
                rows.append((np.nan, -math.inf, math.inf))
                continue
            level_of_pair = level / len(self._tested)
            low, high = _accepted_shifts(first, second, level_of_pair, self.permutations, self.seed)
            if pvalue >= level:  # ties can make the test accept 0 only
                low, high = min(low, 0.0), max(high, 0.0)
            rows.append((float(np.median(np.subtract.outer(second, first))), low, high))
        return np.transpose(rows)


def brunner_munzel(
    samples: Samples,
    alpha: float = 0.05,
    *,
    control: Hashable | None = None,
    higher_is_better: bool = True,
    nan: NanPolicy = "worst",
    **options: Any,
) -> BrunnerMunzelResult:
    """Compare pairs of methods with the studentized permutation test of Brunner and Munzel.

    The placement of a score is the number of scores of the other method below it; ties count one
    half. For n scores of the first and m of the second method, with the placements' sample
    variances `S_1^2` and `S_2^2` and the sum P of the second method's placements, the statistic is

    `W = (P - n m / 2) / sqrt(n S_1^2 + m S_2^2)`.

    The null hypothesis is P(second > first) + P(equal) / 2 = 1/2. Spreads may differ, unlike in
    `steel_dwass`. If the scores of the two methods do not overlap, both variances are 0 and W is
    infinite; infinite values are equal to each other and larger than all others. p is the share
    of arrangements of the pair's n + m scores with |W| at least as large: of all arrangements if
    there are at most `permutations`, else of a random sample. Holm's method adjusts p for the
    number of pairs.

    p of a pair is exact if the two distributions are equal, and asymptotically valid if only their
    spread differs. With SDs of 10:1 the level is .05 from about 15 seeds. With 4 methods and 5
    seeds the test is no better than `steel_dwass`: in both only pairs without overlap can be
    significant. If the scores of one method are nearly equal, 5 scores of another are all on one
    side of them with probability 1/16, so no test by ranks can help. Use `welch` with few seeds.
    The module's docstring has measured error rates.

    Args:
        samples: Scores of each method, as in `steel_dwass`.
        alpha: Level of the test; p < alpha is significant.
        control: Method to compare all others with; by default all pairs are compared.
        higher_is_better: If True, higher scores are better and NaN is ranked lowest.
        nan: `"worst"` ranks NaN (a diverged run) worst and adds a note; `"raise"` raises an error.
        **options: `rtol`, `permutations` and `rng` of `TestOptions`. At most `permutations`
            arrangements (by default 200,000) are enumerated; for larger samples, as many random
            ones are used.

    Returns:
        A `BrunnerMunzelResult` with signed W; `print` shows it.

    Raises:
        TypeError: If the samples have an unknown form or contain something other than numbers.
        ValueError: If the control is not among the samples, there are fewer than two groups, a
            group is empty, or an option is out of range.

    Example:
        >>> scores = {"a": [1, 2, 3, 4, 5], "b": [6, 7, 8, 9, 10], "c": [0, 4.5, 7.5, 8.5, 20]}
        >>> brunner_munzel(scores).pairs()["pvalue"].round(4).tolist()
        [0.0238, 0.4444, 0.6508]

    References:
        E. Brunner, U. Munzel (2000), The nonparametric Behrens-Fisher problem: asymptotic theory
        and a small-sample approximation, Biometrical Journal 42, 17-25.
        K. Neubert, E. Brunner (2007), A studentized permutation test for the non-parametric
        Behrens-Fisher problem, Computational Statistics & Data Analysis 51, 5192-5204.
        S. Holm (1979), A simple sequentially rejective multiple test procedure, Scandinavian
        Journal of Statistics 6, 65-70.
    """
    settings = TestOptions(alpha, method="auto", nan=nan, **options)
    permutations = settings.permutations or PERMUTATIONS
    ranked = rank_samples(samples, control, higher_is_better=higher_is_better, options=settings)
    codes, sizes = list(ranked.codes.values()), ranked.sizes.tolist()
    pairs = index_pairs(len(codes), control is not None)
    drawn = sum(math.comb(sizes[i] + sizes[j], sizes[i]) > permutations for i, j in pairs)
    seed = int(settings.rng)
    statistics, pvalues = [], []
    for i, j in pairs:
        pooled = np.concatenate([codes[i], codes[j]])
        order = np.argsort(pooled, kind="stable")
        ties = tuple(np.unique(pooled, return_counts=True)[1].tolist())
        observed = _statistics((order >= sizes[i]).astype(np.int64)[None], ties)
        statistics.append(observed[0])
        null = _null(ties, sizes[j], permutations, seed)
        pvalues.append(permutation_pvalues(observed, null)[0])
    attainable = min(_attainable(sizes[i], sizes[j], permutations) for i, j in pairs)
    against = control is not None
    some = f"of {drawn} of {len(pairs)} pairs " * (drawn < len(pairs))
    random = f"{permutations:,} random permutations of each pair, seed {seed}"
    result = pairwise_result(
        "brunner-munzel-control" if against else "brunner-munzel",
        ranked,
        statistics,
        holm(np.array(pvalues)),
        alpha=alpha,
        method="monte-carlo" if drawn else "exact",
        higher_is_better=higher_is_better,
        control=control,
        attainable_pvalue=min(1.0, len(pairs) * attainable),
        seeds_needed=samples_needed(
            lambda n: attainable_with_holm(len(codes), n, against_control=against), alpha
        ),
        notes=[f"P-values {some}come from {random}"] if drawn else [],
    )
    return BrunnerMunzelResult(**vars(result), permutations=permutations, seed=seed)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class TTestResult(PairwiseResult, ABC):
    """Result of a t test of each pair, with intervals of the differences of means.

    Each interval is that of the t test, at the level `(1 - confidence) / number of pairs`
    (Bonferroni). It includes 0 if the pair does not differ significantly. It can also include 0 if
    p, which is adjusted with Holm's method, is just below `1 - confidence`. An interval is infinite
    if the pair is not tested.
    """

    @abstractmethod
    def _difference(self, first: FloatArray, second: FloatArray) -> Difference: ...

    def _limits(self, level: float) -> FloatArray:
        from scipy.special import stdtrit

        rows: list[tuple[float, float, float]] = []
        for a, b in self._tested:
            value, error, freedom = self._difference(self.samples[a], self.samples[b])
            quantile = float(-stdtrit(freedom, level / len(self._tested) / 2))
            half = quantile * error if error else math.inf
            rows.append((value, value - half, value + half))
        return np.transpose(rows)


class Difference(NamedTuple):
    """Difference of two means, second minus first.

    Attributes:
        value: The difference.
        error: Its standard error; 0 if it is unknown or 0, so that the pair is not tested.
        freedom: Degrees of freedom of t.
    """

    value: float
    error: float
    freedom: float


def t_tests(
    name: str,
    ranked: RankedSamples,
    difference: Callable[[FloatArray, FloatArray], Difference],
    *,
    control: Hashable | None,
    **attributes: Any,
) -> PairwiseResult:
    """Test each pair with a t test, adjusted with Holm's method.

    Args:
        name: Name of the registered procedure of all pairs; that with a control is `NAME-control`.
        ranked: The samples.
        difference: Function of the scores of two methods.
        control: Method to compare all others with, or None.
        **attributes: Other attributes of the result.
    """
    from scipy.special import stdtr

    groups = list(ranked.scores.items())
    statistics, pvalues, notes = [], [], []
    for i, j in index_pairs(len(groups), control is not None):
        (a, first), (b, second) = groups[i], groups[j]
        value, error, freedom = difference(first, second)
        statistics.append(value / error if error else 0.0)
        pvalues.append(float(2 * stdtr(freedom, -abs(statistics[-1]))) if error else 1.0)
        if not error:
            why = "the variance of a mean is unknown or 0"
            notes.append(f"{a} and {b}: not tested, because {why}")
    return pairwise_result(
        name if control is None else f"{name}-control",
        ranked,
        statistics,
        holm(np.array(pvalues)),
        control=control,
        notes=notes,
        **attributes,
    )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class WelchResult(TTestResult):
    """Result of `welch`, with Welch's intervals of the differences of means; see `TTestResult`.

    Example:
        >>> scores = {"a": [1, 2, 3, 4, 5], "b": [6, 7, 8, 9, 10]}
        >>> print(welch(scores).confidence_interval().round(2).to_string(index=False))
        a b  difference  low  high
        a b         5.0 2.69  7.31
    """

    estimand = Estimand(
        "difference of means", "It assumes approximately normal means; spreads may differ."
    )

    def _difference(self, first: FloatArray, second: FloatArray) -> Difference:
        return _welch(first, second)


def welch(
    samples: Samples,
    alpha: float = 0.05,
    *,
    control: Hashable | None = None,
    higher_is_better: bool = True,
) -> WelchResult:
    """Compare pairs of methods with Welch's t test of two means, adjusted with Holm's method.

    With means `m`, sample variances `s^2` and n scores per method, the statistic is

    `t = (m_2 - m_1) / sqrt(s_1^2 / n_1 + s_2^2 / n_2)`

    with the degrees of freedom of Welch and Satterthwaite. It assumes approximately normal means;
    spreads may differ. With normal scores it keeps its level for any SDs and numbers of seeds; the
    docstring of `relation_tf.stats.pair_tests` has measured error rates. If some runs collapse,
    it has little power.

    A pair is not tested (p = 1, with a note) if a method has one score, or all scores of each
    method are equal.

    Args:
        samples: Scores of each method, as in `steel_dwass`.
        alpha: Level of the test; p < alpha is significant.
        control: Method to compare all others with; by default all pairs are compared.
        higher_is_better: If True, higher scores are better.

    Returns:
        A `WelchResult` with signed t; `print` shows it.

    Raises:
        TypeError: If the samples have an unknown form or contain something other than numbers.
        ValueError: If the control is not among the samples, there are fewer than two groups, a
            group is empty, or a score is not finite: it has no mean with others.

    Example:
        >>> scores = {"a": [1, 2, 3, 4, 5], "b": [6, 7, 8, 9, 10], "c": [0, 4.5, 7.5, 8.5, 20]}
        >>> welch(scores).pairs()["pvalue"].round(4).tolist()
        [0.0032, 0.4036, 0.9778]

    References:
        B. L. Welch (1947), The generalization of "Student's" problem when several different
        population variances are involved, Biometrika 34, 28-35.
    """
    check_probability("alpha", alpha)
    ranked = rank_samples(samples, control, higher_is_better=higher_is_better)
    for name, scores in ranked.scores.items():
        check_finite(scores, name)
    result = t_tests(
        "welch", ranked, _welch, alpha=alpha, higher_is_better=higher_is_better, control=control
    )
    return WelchResult(**vars(result))


def _welch(first: FloatArray, second: FloatArray) -> Difference:
    known = min(first.size, second.size) > 1
    error, freedom = error_of_sum([first, second]) if known else (0.0, math.nan)
    return Difference(float(second.mean() - first.mean()), error, freedom)


def holm(pvalues: FloatArray) -> FloatArray:
    """Return p adjusted for several tests with Holm's step-down method.

    Args:
        pvalues: p of each test, shape `(P,)`.

    Returns:
        Family-wise p, in the order of the tests.

    Example:
        >>> holm(np.array([0.01, 0.04, 0.03])).round(4).tolist()
        [0.03, 0.06, 0.06]
    """
    order = np.argsort(pvalues, kind="stable")
    adjusted = np.empty(pvalues.size)
    factors = np.arange(pvalues.size, 0, -1)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(pvalues[order] * factors))
    return adjusted


def attainable_with_holm(
    num_methods: int, num_seeds: int, *, against_control: bool = False
) -> float:
    """Return the smallest p of `brunner_munzel` for equal numbers of scores without ties.

    Args:
        num_methods: Number of methods, including the control.
        num_seeds: Number of scores per method.
        against_control: If True, only pairs with the control are tested.

    Example:
        >>> round(attainable_with_holm(4, 5), 4)
        0.0476
    """
    pairs = len(index_pairs(num_methods, against_control))
    return min(1.0, pairs * _attainable(num_seeds, num_seeds, PERMUTATIONS))


def _attainable(n: int, m: int, permutations: int) -> float:
    """Return the smallest p of a pair: no overlap, in either order."""
    exact = 2 / math.comb(n + m, n)
    return exact if math.comb(n + m, n) <= permutations else max(exact, 1 / (permutations + 1))


# Pairs without ties and with the same numbers of scores share one distribution.
@functools.lru_cache(maxsize=64)
def _null(ties: tuple[int, ...], second: int, permutations: int, seed: int) -> Distribution:
    """Return the distribution of the absolute statistic of a pair's arrangements.

    Args:
        ties: Number of occurrences of each distinct score, in ascending order of the scores.
        second: Number of scores of the second method.
        permutations: Largest number of arrangements.
        seed: Seed of random arrangements.
    """
    sizes = sum(ties) - second, second
    number = math.comb(sum(ties), second)
    drawn = number > permutations
    rng = np.random.default_rng(seed)
    statistics = []
    for start, stop in chunks(min(number, permutations), [sizes]):
        if drawn:
            labels = rng.permuted(np.tile(np.repeat([0, 1], sizes), (stop - start, 1)), axis=1)
        else:
            labels = arrangements(sizes, np.arange(start, stop)).astype(np.int64)
        statistics.append(_statistics(labels, ties))
    return distribution(np.concatenate(statistics), drawn=drawn)


def _statistics(labels: Labels, ties: Sequence[int]) -> FloatArray:
    """Return Brunner and Munzel's statistic of each arrangement of a pair's sorted scores.

    All sums are of whole numbers (twice the placements), so a variance of 0 is found exactly.

    Args:
        labels: 1 where a sorted score is of the second method, else 0; shape `(B, N)`.
        ties: Number of occurrences of each distinct score, in ascending order.

    Returns:
        Statistics, shape `(B,)`; infinite if the methods do not overlap, 0 if all scores are equal.
    """
    _, of_first = _placements(1 - labels, labels, ties)
    total, of_second = _placements(labels, 1 - labels, ties)
    second = labels.sum(axis=1)
    excess = (total - (labels.shape[1] - second) * second) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(excess == 0, 0.0, excess / np.sqrt(of_first + of_second))


def _placements(method: Labels, other: Labels, ties: Sequence[int]) -> tuple[Labels, FloatArray]:
    """Return twice the sum of a method's placements, and their variance times their number.

    Args:
        method: 1 where a sorted score is of this method, else 0; shape `(B, N)`.
        other: 1 where it is of the other method, else 0.
        ties: Number of occurrences of each distinct score, in ascending order.

    Returns:
        Two arrays of shape `(B,)`. The variance of one score is 0.
    """
    ends = np.cumsum(ties)
    start, end = np.repeat(ends - ties, ties), np.repeat(ends, ties)
    below = np.pad(np.cumsum(other, axis=1), ((0, 0), (1, 0)))
    doubled = (below[:, start] + below[:, end]) * method
    size, total = method.sum(axis=1), doubled.sum(axis=1)
    squares = size * (doubled**2).sum(axis=1) - total**2
    return total, squares / (4 * np.maximum(size - 1, 1))


def _accepted_shifts(
    first: FloatArray, second: FloatArray, level: float, permutations: int, seed: int
) -> tuple[float, float]:
    """Return the smallest interval with all shifts of the second method that are not rejected.

    Between two ordered differences of scores the order of all scores, and with it p, does not
    change, so one shift of each such gap is tested. W can fall while the shift moves away from the
    median, so all gaps are tested, not only those around the limits.

    Args:
        first: Scores, shape `(n,)`.
        second: Scores, shape `(m,)`.
        level: Level of the test.
        permutations: As for `brunner_munzel`.
        seed: Seed of random arrangements.
    """
    edges = np.unique(np.subtract.outer(second, first))
    ends = np.concatenate([[-np.inf], edges, [np.inf]])
    gaps = np.arange(0, edges.size + 1, math.ceil((edges.size + 1) / _MOST_SHIFTS))
    middles = np.concatenate([[edges[0] - 1], (edges[1:] + edges[:-1]) / 2, [edges[-1] + 1]])[gaps]
    shifted = second - middles[:, None]
    pooled = np.hstack([np.broadcast_to(first, (gaps.size, first.size)), shifted])
    labels = (np.argsort(pooled, axis=1, kind="stable") >= first.size).astype(np.int64)
    ties = (1,) * pooled.shape[1]
    null = _null(ties, second.size, permutations, seed)
    accepted = permutation_pvalues(_statistics(labels, ties), null) >= level
    kept = np.flatnonzero(accepted)
    if not kept.size:  # only shifts at which scores are tied are accepted
        return float(edges[0]), float(edges[-1])
    # Gaps that were not tested next to an accepted one count as accepted.
    before = gaps[kept[0] - 1] + 1 if kept[0] else 0
    after = gaps[kept[-1] + 1] if kept[-1] + 1 < gaps.size else edges.size + 1
    return float(ends[before]), float(ends[after])
