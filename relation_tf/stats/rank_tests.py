"""Rank tests of pairs of methods: Steel-Dwass (all pairs) and Steel (against a control)."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator

from relation_tf.registry import PROCEDURES
from relation_tf.stats.checks import check_probability
from relation_tf.stats.comparisons import PairwiseResult, due_to_ties, pairwise_result
from relation_tf.stats.design import RankTest, asymptotic_pvalues, attainable_pvalue, seeds_needed
from relation_tf.stats.null_distribution import (
    PERMUTATIONS,
    PvalueMethod,
    RandomSource,
    null_distribution,
)
from relation_tf.stats.pairwise import Pairs, index_pairs, observed_groups, standardized_wins
from relation_tf.stats.samples import (
    TIE_RTOL,
    NanPolicy,
    RankedSamples,
    Samples,
    control_first,
    groups_of,
    rank_samples,
)
from relation_tf.stats.unequal_spread import brunner_munzel
from relation_tf.words import pvalue_only


def steel_dwass(
    samples: Samples,
    alpha: float = 0.05,
    method: PvalueMethod = "auto",
    *,
    equal_spread: bool = True,
    higher_is_better: bool = True,
    nan: NanPolicy = "worst",
    rtol: float = TIE_RTOL,
    permutations: int | None = None,
    rng: RandomSource = None,
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
        equal_spread: If True, all methods are assumed to have the same spread. If False, return the
            result of the studentized test `brunner_munzel`, which has only the method `"auto"`.
        higher_is_better: If True, the higher method of a pair is better and NaN is ranked lowest;
            else the lower method is better and NaN is ranked highest. Signs do not depend on it:
            "higher" always means a higher score.
        nan: `"worst"` ranks NaN (a diverged run) worst, tied with infinity at that end, and adds a
            note; `"raise"` raises an error. No score is dropped.
        rtol: Relative tolerance of ties: neighboring scores within it are tied. 0.1 + 0.2 ties with
            0.3, and a float32 with the float64 before rounding. Scores within 1e-12 of the scale
            (the median absolute score other than zero) or within 1e-15 are always tied.
        permutations: Number of random arrangements for `monte-carlo`; by default 200,000, fewer for
            designs larger than about 10 methods, 10 seeds and 10 tasks (at least 2,000).
        rng: Seed of the random arrangements, or a `numpy.random.Generator` to draw it from. None
            stands for a fixed seed: the same scores always give the same p.

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
    if not equal_spread:
        if method != "auto":
            raise ValueError(f"`method` must be 'auto' if equal_spread=False. Received: {method!r}")
        return brunner_munzel(
            samples,
            alpha,
            higher_is_better=higher_is_better,
            nan=nan,
            rtol=rtol,
            permutations=PERMUTATIONS if permutations is None else permutations,
            rng=rng,
        )
    ranked = rank_samples(samples, higher_is_better=higher_is_better, nan=nan, rtol=rtol)
    return _compare(ranked, None, alpha, method, higher_is_better, permutations, rng)


def steel(
    samples: Samples,
    control: Hashable,
    alpha: float = 0.05,
    method: PvalueMethod = "auto",
    *,
    higher_is_better: bool = True,
    nan: NanPolicy = "worst",
    rtol: float = TIE_RTOL,
    permutations: int | None = None,
    rng: RandomSource = None,
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
        rtol: Relative tolerance of ties: neighboring scores within it are tied.
        permutations: Number of random arrangements for `monte-carlo`; by default 200,000, fewer for
            designs larger than about 10 methods, 10 seeds and 10 tasks (at least 2,000).
        rng: Seed of the random arrangements, or a `numpy.random.Generator` to draw it from. None
            stands for a fixed seed: the same scores always give the same p.

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
    groups = control_first(groups_of(samples), control)
    ranked = rank_samples(groups, higher_is_better=higher_is_better, nan=nan, rtol=rtol)
    return _compare(ranked, control, alpha, method, higher_is_better, permutations, rng)


def _compare(
    ranked: RankedSamples,
    control: Hashable | None,
    alpha: float,
    method: PvalueMethod,
    higher_is_better: bool,
    permutations: int | None,
    rng: RandomSource,
) -> PairwiseResult:
    check_probability("alpha", alpha)
    test: RankTest = "steel-dwass" if control is None else "steel"
    groups, sizes = observed_groups(ranked), ranked.sizes.tolist()
    null = null_distribution(test, sizes, method, permutations, rng)
    pairs = index_pairs(len(groups), control is not None)
    statistic = standardized_wins(groups, pairs)[:, 0]
    asymptotic = asymptotic_pvalues(statistic, sizes, test, ranked.multiplicity.tolist())
    notes = list(_constant_pairs(ranked, pairs))
    exact = attainable = attainable_pvalue(len(sizes), sizes, "exact", test=test)
    pvalue = null.pvalues(statistic, groups)
    if null.method == "asymptotic":
        attainable = attainable_pvalue(len(sizes), sizes, "asymptotic", test=test)
        if attainable < alpha <= exact:
            notes.append(
                "The asymptotic p is too small for so few scores: the smallest exact p without "
                f"ties is {pvalue_only(exact, alpha)}"
            )
    if due_to_ties(pvalue, attainable, null.standard_error(attainable)):
        notes.append(
            f"P-values below {f'{attainable:.3g}'.removeprefix('0')} are possible here only "
            "because scores are tied (rounded or constant)"
        )
    return pairwise_result(
        PROCEDURES[test],
        ranked,
        statistic * (math.sqrt(2) if control is None else 1),
        pvalue,
        alpha=alpha,
        higher_is_better=higher_is_better,
        control=control,
        asymptotic_pvalue=asymptotic,
        null=null,
        attainable_pvalue=attainable,
        seeds_needed=seeds_needed(len(sizes), alpha, "exact", test=test),
        notes=notes,
    )


def _constant_pairs(ranked: RankedSamples, pairs: Pairs) -> Iterator[str]:
    names = list(ranked.codes)
    for a, b in ((names[i], names[j]) for i, j in pairs):
        if len({*ranked.codes[a].tolist(), *ranked.codes[b].tolist()}) == 1:
            yield f"All scores of {a} and {b} are equal, so p = 1"
