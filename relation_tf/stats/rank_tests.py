"""Rank tests of all pairs of methods (Steel-Dwass) or against a control (Steel), over tasks too."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from relation_tf.registry import PROCEDURES
from relation_tf.stats.checks import check_probability
from relation_tf.stats.comparisons import (
    Estimand,
    PairwiseResult,
    due_to_ties,
    pairwise_result,
    table_of_pairs,
)
from relation_tf.stats.design import (
    RankTest,
    attainable_pvalue,
    samples_needed,
    seeds_needed,
    stratified_attainable_pvalue,
)
from relation_tf.stats.directions import Directions, read_directions
from relation_tf.stats.null_distribution import (
    NullDistribution,
    PvalueMethod,
    RandomSource,
    null_distribution,
)
from relation_tf.stats.pairwise import Groups, Pairs, add, dominance, observed_groups, rank_sums
from relation_tf.stats.samples import (
    TIE_RTOL,
    FloatArray,
    NanPolicy,
    RankedSamples,
    Samples,
    TaskSamples,
    TaskScores,
    control_first,
    groups_of,
    in_task,
    rank_samples,
    read_tasks,
)
from relation_tf.stats.spread import is_constant, scaled_residuals, unequal_spread
from relation_tf.words import at_least, capital, count, number_of_seeds, pvalue_only


@dataclass(frozen=True)
class RankOptions:
    """Options of `steel_dwass`, `steel` and their forms over tasks.

    Attributes:
        alpha: Level of the test; p < alpha is significant.
        method: Computation of p: `"auto"`, `"exact"`, `"monte-carlo"` or `"asymptotic"`.
        nan: `"worst"` ranks NaN (a diverged run) worst, tied with infinity at that end, and adds a
            note; `"raise"` raises an error. No score is dropped.
        rtol: Relative tolerance of ties: neighboring scores within it are tied. 0.1 + 0.2 ties with
            0.3, and a float32 with the float64 before rounding. Scores within 1e-12 of the scale
            (the median absolute score other than zero) or within 1e-15 are always tied.
        permutations: Number of random arrangements for `monte-carlo`; by default 200,000, fewer for
            designs larger than about 10 methods, 10 seeds and 10 tasks (at least 2,000).
        rng: Seed of the random arrangements, or a `numpy.random.Generator` to draw it from. None
            stands for a fixed seed: the same scores always give the same p.
    """

    alpha: float = 0.05
    method: PvalueMethod = "auto"
    nan: NanPolicy = "worst"
    rtol: float = TIE_RTOL
    permutations: int | None = None
    rng: RandomSource = None

    def __post_init__(self) -> None:
        check_probability("alpha", self.alpha)

    def rank(self, samples: Samples, higher_is_better: bool = True) -> RankedSamples:
        """Return the ranks of the scores of one task."""
        return rank_samples(
            samples, higher_is_better=higher_is_better, nan=self.nan, rtol=self.rtol
        )

    def test(
        self, tasks: list[Groups], control: Hashable | None
    ) -> tuple[NullDistribution, FloatArray, FloatArray]:
        """Return the null distribution, and the standardized U and p of each tested pair."""
        test: RankTest = "steel-dwass" if control is None else "steel"
        null = null_distribution(test, tasks, self.method, self.permutations, self.rng)
        statistic = add(rank_sums(groups, null.pairs) for groups in tasks).statistic[:, 0]
        return null, statistic, null.pvalues(statistic)


@dataclass(frozen=True, eq=False, repr=False)
class StratifiedResult(PairwiseResult):
    """Result of `stratified_steel_dwass` or `stratified_steel`.

    It has the attributes and tables of `PairwiseResult`, with these differences: signs are positive
    where the column's method (or the method compared with the control) is better; the effect size
    is the mean of Cliff's delta over tasks, with the weights of the test; `samples` has the scores
    of all tasks; there is no Kruskal-Wallis test. The intervals are for a shift that is the same on
    each task: use them only if all tasks have the same unit.

    Attributes:
        tasks: Task -> method -> its scores as given.
        signs: Task -> 1, or -1 where lower scores are better.
    """

    tasks: TaskScores
    signs: Mapping[Hashable, int]

    _ahead = "better"

    @property
    def estimand(self) -> Estimand:
        """Difference that `confidence_interval` estimates."""
        return Estimand(
            "Hodges-Lehmann difference",
            "It assumes that the score distributions of two methods differ only in location, by "
            "the same shift on every task.",
        )

    def _by_task(self) -> list[list[FloatArray]]:
        return [
            [self.signs[task] * scores for scores in methods.values()]
            for task, methods in self.tasks.items()
        ]

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
    method: PvalueMethod = "auto",
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
    `friedman_nemenyi` or `win_tie_loss`. Use scores with full precision: rounding causes ties. To
    compare one method with each other method, declare `steel` before the runs; it has more power.

    Args:
        samples: A dict of name -> scores, a `pandas.DataFrame` with one column per method, or a
            tuple of scores per method (named "1", "2", ...). An array raises an error, because the
            axis of the methods is unknown. Scores must be numbers; infinities are ranked. An empty
            cell of a `DataFrame` is NaN.
        alpha: Level of the test; p < alpha is significant.
        method: Computation of p: `"auto"`, `"exact"`, `"monte-carlo"` or `"asymptotic"`.
        higher_is_better: If True, the higher method of a pair is better and NaN is ranked lowest;
            else the lower method is better and NaN is ranked highest. Signs do not depend on it:
            "higher" always means a higher score.
        nan: `"worst"` ranks NaN (a diverged run) worst and adds a note; `"raise"` raises an error.
        **options: `rtol`, `permutations` and `rng` of `RankOptions`.

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
    return _compare(samples, None, higher_is_better, RankOptions(alpha, method, nan, **options))


def steel(
    samples: Samples,
    control: Hashable,
    alpha: float = 0.05,
    method: PvalueMethod = "auto",
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
        method: Computation of p: `"auto"`, `"exact"`, `"monte-carlo"` or `"asymptotic"`.
        higher_is_better: If True, higher scores are better and NaN is ranked lowest; else lower
            scores are better and NaN is ranked highest. Signs do not depend on it.
        nan: `"worst"` ranks NaN (a diverged run) worst and adds a note; `"raise"` raises an error.
        **options: `rtol`, `permutations` and `rng` of `RankOptions`.

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
    return _compare(samples, control, higher_is_better, RankOptions(alpha, method, nan, **options))


def stratified_steel_dwass(
    samples: TaskSamples | pd.DataFrame,
    control: Hashable | None = None,
    alpha: float = 0.05,
    method: PvalueMethod = "auto",
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
            `steel_dwass` takes. Or a `pandas.DataFrame` with columns `task`, `method` and `score`.
            All tasks must have the same methods.
        control: Method to compare all others with, as in `stratified_steel`; by default all pairs
            are compared.
        alpha: Level of the test; p < alpha is significant.
        method: Computation of p: `"exact"` (all arrangements), `"monte-carlo"` (random ones),
            `"auto"` (exact if it takes about a second, else Monte Carlo), or `"asymptotic"` (the
            studentized range, as for `steel_dwass`).
        higher_is_better: If False, lower scores are better; or `{task: bool}`. By default, lower
            is better on tasks with the name of such a metric (perplexity, loss, error, RMSE ...),
            with a note, and higher on others.
        nan: `"worst"` ranks NaN (a diverged run) worst and adds a note; `"raise"` raises an error.
        **options: `rtol`, `permutations` and `rng` of `RankOptions`; ranks and ties are
            those of a task.

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
    return _compare_over_tasks(
        samples, control, higher_is_better, RankOptions(alpha, method, nan, **options)
    )


def stratified_steel(
    samples: TaskSamples | pd.DataFrame,
    control: Hashable,
    alpha: float = 0.05,
    method: PvalueMethod = "auto",
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
        method: Computation of p, as for `stratified_steel_dwass`; `"asymptotic"`: Dunnett's
            distribution with the correlations of rank statistics, averaged over tasks.
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
    return _compare_over_tasks(
        samples, control, higher_is_better, RankOptions(alpha, method, nan, **options)
    )


def _compare(
    samples: Samples, control: Hashable | None, higher_is_better: bool, options: RankOptions
) -> PairwiseResult:
    ranked = options.rank(control_first(groups_of(samples), control), higher_is_better)
    null, statistic, pvalue = options.test([observed_groups(ranked)], control)
    sizes, attainable = null.sizes[0], null.attainable_pvalue
    notes = list(_constant_pairs(ranked, null.pairs))
    if null.method == "asymptotic":
        exact = attainable_pvalue(len(sizes), sizes, "exact", test=null.test)
        if attainable < options.alpha <= exact:
            notes.append(
                "The asymptotic p is too small for so few scores: the smallest exact p without "
                f"ties is {pvalue_only(exact, options.alpha)}"
            )
    if due_to_ties(pvalue, attainable, null.standard_error(attainable)):
        notes.append(
            f"P-values below {f'{attainable:.3g}'.removeprefix('0')} are possible here only "
            "because scores are tied (rounded or constant)"
        )
    return pairwise_result(
        PROCEDURES[null.test],
        ranked,
        statistic * (math.sqrt(2) if control is None else 1),
        pvalue,
        alpha=options.alpha,
        higher_is_better=higher_is_better,
        control=control,
        asymptotic_pvalue=replace(null, method="asymptotic").pvalues(statistic),
        null=null,
        attainable_pvalue=attainable,
        seeds_needed=seeds_needed(len(sizes), options.alpha, "exact", test=null.test),
        notes=notes,
    )


def _constant_pairs(ranked: RankedSamples, pairs: Pairs) -> Iterator[str]:
    names = list(ranked.codes)
    for a, b in ((names[i], names[j]) for i, j in pairs):
        if len({*ranked.codes[a].tolist(), *ranked.codes[b].tolist()}) == 1:
            yield f"All scores of {a} and {b} are equal, so p = 1"


def _compare_over_tasks(
    samples: TaskSamples | pd.DataFrame,
    control: Hashable | None,
    higher_is_better: Directions,
    options: RankOptions,
) -> StratifiedResult:
    tasks = read_tasks(samples, control)
    higher, notes = read_directions(tasks, higher_is_better)
    signs = {task: 1 if higher[task] else -1 for task in tasks}
    ranked = {
        task: in_task(task, options.rank, {name: signs[task] * x for name, x in methods.items()})
        for task, methods in tasks.items()
    }
    groups = [observed_groups(task) for task in ranked.values()]
    null, statistic, pvalue = options.test(groups, control)
    methods, against = list(next(iter(tasks.values()))), control is not None
    pvalues = table_of_pairs(pvalue, methods, against, diagonal=1.0, below=1.0)
    return StratifiedResult(
        procedure=PROCEDURES[f"stratified-{null.test}"],
        statistic=table_of_pairs((1 if against else math.sqrt(2)) * statistic, methods, against),
        pvalue=pvalues,
        asymptotic_pvalue=None,
        significant=pvalues < options.alpha,
        effect_size=table_of_pairs(dominance(groups, null.pairs), methods, against),
        samples={name: np.concatenate([x[name] for x in tasks.values()]) for name in methods},
        control=control,
        alpha=options.alpha,
        method=null.method,
        null=null,
        higher_is_better=True,
        attainable_pvalue=null.attainable_pvalue,
        seeds_needed=samples_needed(
            lambda n: stratified_attainable_pvalue(len(methods), len(tasks), n, test=null.test),
            options.alpha,
            least=1,
        ),
        kruskal=None,
        notes=(*notes, *_notes(tasks, ranked)),
        tasks=tasks,
        signs=signs,
    )


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
        spread = np.concatenate([*residuals.values(), np.zeros(1)]).std() or 1.0
        for name, values in residuals.items():
            relative.setdefault(name, []).append(values / spread)
    joined = {name: np.concatenate(values) for name, values in relative.items()}
    if found := unequal_spread(joined):
        yield (
            f"{capital(str(found))} (scores of each task divided by their SD). The test "
            "assumes equal spread on each task, so its error rate can exceed alpha"
        )
