"""Rank tests over several tasks that use every seed: stratified Steel-Dwass and Steel."""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from relation_tf.registry import PROCEDURES
from relation_tf.stats.checks import check_probability
from relation_tf.stats.comparisons import Estimand, PairwiseResult, table_of_pairs
from relation_tf.stats.design import DesignMethod, RankTest, attainable_pvalue, samples_needed
from relation_tf.stats.directions import Directions, read_directions
from relation_tf.stats.null_distribution import (
    NullDistribution,
    PvalueMethod,
    RandomSource,
)
from relation_tf.stats.pairwise import (
    Groups,
    Pairs,
    index_pairs,
    net_wins,
    observed_groups,
    untied_groups,
)
from relation_tf.stats.samples import (
    TIE_RTOL,
    FloatArray,
    NanPolicy,
    RankedSamples,
    TaskSamples,
    rank_samples,
)
from relation_tf.stats.shifts import differences_of, shift_interval
from relation_tf.stats.spread import is_constant, scaled_residuals, unequal_spread
from relation_tf.stats.stratified_null import (
    add_terms,
    choose_null,
    stratified_pvalues,
    task_terms,
    weights,
)
from relation_tf.stats.task_samples import TaskScores, in_task, read_tasks
from relation_tf.words import at_least, capital, count, format_level, number_of_seeds


@dataclass(frozen=True, eq=False, repr=False)
class StratifiedResult(PairwiseResult):
    """Result of `stratified_steel_dwass` or `stratified_steel`.

    It has the attributes and tables of `PairwiseResult`, with these differences: signs are positive
    where the column's method (or the method compared with the control) is better; the effect size
    is the mean of Cliff's delta over tasks, with the weights of the test; `samples` has the scores
    of all tasks; there is no Kruskal-Wallis test.

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

    def confidence_interval(self, confidence: float | None = None) -> pd.DataFrame:
        """Return simultaneous confidence intervals of a shift that is the same on each task.

        Use it only if all tasks have the same unit. It inverts the test as
        `PairwiseResult.confidence_interval` does, with the differences of all tasks: the estimate
        is their median and the limits are two of them, ordered and with the weights of the test.
        Without ties an interval excludes 0 exactly if p is below `1 - confidence`.

        Args:
            confidence: Joint coverage of all intervals, between 0 and 1; by default 1 - alpha.

        Returns:
            A table with columns `a`, `b`, `difference` (positive where b is better), `low` and
            `high`.

        Raises:
            ValueError: If the confidence is out of range.
        """
        level = self._level(confidence)
        null = self.null
        assert null is not None
        untied = [untied_groups([x.size for x in own.values()]) for own in self.tasks.values()]
        kind: PvalueMethod = "asymptotic" if null.method == "asymptotic" else "auto"
        null = choose_null(null.test, untied, kind, null.permutations, null.seed)
        rows = []

        @functools.cache  # pairs with the same numbers of scores share the critical value
        def rejected(statistic: float) -> bool:
            return bool(stratified_pvalues(null, np.array([statistic]), untied)[0] < level)

        for (a, b), pvalue in zip(self._named, self._of_pairs("pvalue"), strict=True):
            differences, weights, variance = self._differences(a, b)

            def rejects(deviation: float, scale: float = math.sqrt(variance)) -> bool:
                return rejected(deviation / scale)

            rows.append(shift_interval(differences, weights, rejects, accepts_zero=pvalue >= level))
        difference, low, high = zip(*rows, strict=True)
        return self._table(difference=difference, low=low, high=high)

    def _trials(self, a: Hashable, b: Hashable) -> float:
        sizes = [(own[a].size, own[b].size) for own in self.tasks.values()]
        total = sum(m * n / (m + n + 1) for m, n in sizes)
        return total**2 / sum((m * n / (m + n + 1)) ** 2 / min(m, n) for m, n in sizes)

    def _differences(self, a: Hashable, b: Hashable) -> tuple[FloatArray, FloatArray, float]:
        """Return all differences, their weights, and the variance of their weight above 0."""
        differences, weight, variance = [], [], 0.0
        for task, own in self.tasks.items():
            sign = self.signs[task]
            found = differences_of(sign * own[a], sign * own[b], -np.inf)
            total = own[a].size + own[b].size + 1
            differences.append(found)
            weight.append(np.full(found.size, 1 / total))
            variance += found.size / (12 * total)
        return np.concatenate(differences), np.concatenate(weight), variance

    def _title(self) -> str:
        sizes = [scores.size for task in self.tasks.values() for scores in task.values()]
        against = "" if self.control is None else f" of all against {self.control}"
        return (
            f"{self.procedure.title}{against}, {self.method} p: {len(self.samples)} methods over "
            f"{count(len(self.tasks), 'task')} x {number_of_seeds(sizes)}, alpha = {self.alpha:g}"
        )

    def _remarks(self) -> Iterator[str]:
        best = at_least(self.attainable_pvalue, self.alpha)
        needed = count(self.seeds_needed, "seed") if self.seeds_needed else "more seeds"
        needed = f"at least {needed}" if self.seeds_needed else needed
        yield (
            f"Smallest possible p of this design without ties: {best}. {format_level(self.alpha)} "
            f"needs {needed} on this number of tasks."
        )
        yield (
            "Statistic and effect size are positive where the second method is better. The "
            "result applies to these tasks only."
        )
        yield from (f"Note: {note}" for note in self.notes)


def stratified_steel_dwass(
    samples: TaskSamples | pd.DataFrame,
    control: Hashable | None = None,
    alpha: float = 0.05,
    method: PvalueMethod = "auto",
    *,
    higher_is_better: Directions = None,
    nan: NanPolicy = "worst",
    rtol: float = TIE_RTOL,
    permutations: int | None = None,
    rng: RandomSource = None,
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
        nan: `"worst"` ranks NaN (a diverged run) worst on its task and adds a note; `"raise"`
            raises an error.
        rtol: Relative tolerance of ties: neighboring scores of a task within it are tied.
        permutations: Number of random arrangements for Monte Carlo; by default 200,000, fewer for
            designs larger than about 10 methods, 10 seeds and 10 tasks (at least 2,000).
        rng: A seed or a `numpy.random.Generator` for Monte Carlo; None for a fixed seed.

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
    tasks = read_tasks(samples, control)
    higher, notes = read_directions(tasks, higher_is_better)
    signs = {task: 1 if higher[task] else -1 for task in tasks}
    ranked = {
        task: in_task(
            task,
            rank_samples,
            {name: signs[task] * x for name, x in own.items()},
            nan=nan,
            rtol=rtol,
        )
        for task, own in tasks.items()
    }
    found = _compare(tasks, ranked, signs, control, alpha, method, permutations, rng)
    return replace(found, notes=(*notes, *found.notes))


def stratified_steel(
    samples: TaskSamples | pd.DataFrame,
    control: Hashable,
    alpha: float = 0.05,
    method: PvalueMethod = "auto",
    *,
    higher_is_better: Directions = None,
    nan: NanPolicy = "worst",
    rtol: float = TIE_RTOL,
    permutations: int | None = None,
    rng: RandomSource = None,
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
        nan: `"worst"` ranks NaN worst on its task and adds a note; `"raise"` raises an error.
        rtol: Relative tolerance of ties: neighboring scores of a task within it are tied.
        permutations: Number of random arrangements for Monte Carlo; by default 200,000, fewer for
            designs larger than about 10 methods, 10 seeds and 10 tasks (at least 2,000).
        rng: A seed or a `numpy.random.Generator` for Monte Carlo; None for a fixed seed.

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
        samples,
        control,
        alpha,
        method,
        higher_is_better=higher_is_better,
        nan=nan,
        rtol=rtol,
        permutations=permutations,
        rng=rng,
    )


def stratified_attainable_pvalue(
    num_methods: int, num_tasks: int, num_seeds: int, *, test: RankTest = "steel-dwass"
) -> float:
    """Return the smallest p of a stratified test without ties, or a lower bound of it.

    It is the probability that the scores of two methods of any pair do not overlap on any task, in
    the same order everywhere. With one task or two methods it is exact, otherwise the lower bound
    of Dawson and Sankoff (1967, "An inequality for probabilities") from one and two such pairs.

    Args:
        num_methods: Number of methods compared, including the control.
        num_tasks: Number of tasks.
        num_seeds: Number of seeds per method and task.
        test: `"steel-dwass"` for all pairs, `"steel"` for each method against one control.

    Example:
        >>> print(f"{stratified_attainable_pvalue(4, 2, 3):.4f}")
        0.0265
    """
    if num_tasks == 1:
        return attainable_pvalue(num_methods, num_seeds, "exact", test=test)
    return _largest([(num_seeds,) * num_methods] * num_tasks, test)[1]


def _attainable(null: NullDistribution, sizes: Sequence[Sequence[int]]) -> float:
    """Return the smallest p of a design without ties, given the group sizes of each task."""
    exact = null.method != "asymptotic"
    if len(sizes) == 1:
        kind: DesignMethod = "exact" if exact else "asymptotic"
        return attainable_pvalue(len(sizes[0]), sizes[0], kind, test=null.test)
    statistic, smallest = _largest(sizes, null.test)
    untied = [untied_groups(own) for own in sizes]
    return smallest if exact else float(stratified_pvalues(null, np.array([statistic]), untied)[0])


def _largest(tasks: Sequence[Sequence[int]], test: RankTest) -> tuple[float, float]:
    """Return the largest statistic of several tasks without ties, and a lower bound of its p."""
    reached: dict[float, list[tuple[int, int]]] = defaultdict(list)
    for i, j in index_pairs(len(tasks[0]), test == "steel"):
        # Without overlap, U deviates by m n / 2; its variance is m n (m + n + 1) / 12.
        total = sum(own[i] * own[j] / (own[i] + own[j] + 1) for own in tasks)
        reached[round(math.sqrt(3 * total), 9)].append((i, j))
    largest = max(reached)
    return largest, _any_disjoint(np.array(tasks), np.array(reached[largest]))


def _any_disjoint(sizes: Any, pairs: Any) -> float:
    """Return a lower bound of P(any pair does not overlap, in the same order on all tasks).

    Args:
        sizes: Sizes of the groups, shape `(tasks, groups)`.
        pairs: Indices of the groups of each pair, shape `(pairs, 2)`.
    """
    low, high = np.concatenate([pairs, pairs[:, ::-1]]).T  # each order is an event
    one = _in_order(sizes[:, low], sizes[:, high])
    if (sizes[:, pairs] == sizes[:, pairs[:1]]).all():  # equal events: join one with each
        first, second = np.zeros(len(low) - 1, int), np.arange(1, len(low))
        times = len(low) / 2
    else:
        first, second = np.triu_indices(len(low), 1)
        times = 1.0
    a, b, c, d = low[first], high[first], low[second], high[second]
    m, n, o, p = (sizes[:, group] for group in (a, b, c, d))
    two = np.select(
        [(a == d) & (b == c), a == c, b == d, b == c, a == d],
        [-np.inf, _in_order(m, n + p), _in_order(m + o, n), _in_order(m, n, p), _in_order(o, m, n)],
        default=one[first] + one[second],
    )
    scale = one.max()  # the probabilities may be too small for floats
    of_one, of_two = np.exp(one - scale).sum(), times * np.exp(two - scale).sum()
    ratio = math.floor(2 * of_two / of_one) + 1
    return min(1.0, float(np.exp(scale) * 2 / (ratio + 1) * (of_one - of_two / ratio)))


def _in_order(*groups: Any) -> Any:
    """Return log P(groups of scores do not overlap, in the given order on all tasks).

    Args:
        groups: Sizes, each of shape `(tasks, events)`.
    """
    from scipy.special import gammaln

    logs = sum(gammaln(size + 1) for size in groups) - gammaln(sum(groups) + 1)
    return logs.sum(axis=0)


def _compare(
    tasks: TaskScores,
    ranked: Mapping[Hashable, RankedSamples],
    signs: Mapping[Hashable, int],
    control: Hashable | None,
    alpha: float,
    method: PvalueMethod,
    permutations: int | None,
    rng: RandomSource,
) -> StratifiedResult:
    check_probability("alpha", alpha)
    methods = list(next(iter(tasks.values())))
    against = control is not None
    test: RankTest = "steel" if against else "steel-dwass"
    pairs = index_pairs(len(methods), against)
    groups = [observed_groups(each) for each in ranked.values()]
    sizes = [each.sizes.tolist() for each in ranked.values()]
    statistic = add_terms([task_terms(each, pairs) for each in groups]).statistic[:, 0]
    null = choose_null(test, groups, method, permutations, rng)
    pvalue = stratified_pvalues(null, statistic, groups)
    pvalues = table_of_pairs(pvalue, methods, against, diagonal=1.0, below=1.0)
    return StratifiedResult(
        procedure=PROCEDURES[f"stratified-{test}"],
        statistic=table_of_pairs((1 if against else math.sqrt(2)) * statistic, methods, against),
        pvalue=pvalues,
        asymptotic_pvalue=None,
        significant=pvalues < alpha,
        effect_size=table_of_pairs(_mean_dominance(groups, pairs), methods, against),
        samples={name: np.concatenate([own[name] for own in tasks.values()]) for name in methods},
        control=control,
        alpha=alpha,
        method=null.method,
        null=null,
        higher_is_better=True,
        attainable_pvalue=_attainable(null, sizes),
        seeds_needed=samples_needed(
            lambda n: stratified_attainable_pvalue(len(methods), len(tasks), n, test=test),
            alpha,
            least=1,
        ),
        kruskal=None,
        notes=tuple(_notes(tasks, ranked)),
        tasks=tasks,
        signs=signs,
    )


def _notes(tasks: TaskScores, ranked: Mapping[Hashable, RankedSamples]) -> Iterator[str]:
    """Yield notes on NaN, and on methods with unequal spread on all tasks together."""
    for task, each in ranked.items():
        yield from (f"{task}: {note}" for note in each.notes)
    relative: dict[Hashable, list[FloatArray]] = {}
    for own in tasks.values():
        finite = {name: scores[np.isfinite(scores)] for name, scores in own.items()}
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


def _mean_dominance(tasks: Sequence[Groups], pairs: Pairs) -> FloatArray:
    """Return the mean of Cliff's delta over tasks, weighted as in the test, shape `(P,)`."""
    wins = np.zeros(len(pairs))
    most = np.zeros(len(pairs))
    for groups in tasks:
        weight = weights(groups, pairs)[:, 0]
        wins += weight * net_wins(groups, pairs)[:, 0]
        most += weight * [len(groups[i]) * len(groups[j]) for i, j in pairs]
    return wins / most
