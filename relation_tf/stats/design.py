"""What a number of methods and seeds can show, known before any run."""

from __future__ import annotations

import itertools
import math
import operator
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal, TypeAlias, get_args

DesignMethod: TypeAlias = Literal["asymptotic", "exact"]


def attainable_pvalue(
    num_methods: int, num_seeds: int | Sequence[int], method: DesignMethod = "asymptotic"
) -> float:
    """Smallest Steel-Dwass p that a design can give.

    It is reached where the scores of two methods do not overlap at all. Scores without ties are
    assumed: ties change the variance, and two different constants reach a smaller p.

    For k methods with n seeds each, `exact` is the probability that in a random order of all
    scores any two of the methods do not overlap,
    `1 - k Int_0^1 n (1-t)^(n-1) [1 - (1-t)^n - t^n]^(k-1) dt`.

    Args:
        num_methods: Number of methods compared, all pairs.
        num_seeds: Number of scores of every method, or a sequence of one number a method.
        method: p from the studentized range, or from all joint permutations.

    Returns:
        The smallest p.

    Raises:
        ValueError: If a number or the method is out of range.

    Example:
        >>> round(attainable_pvalue(4, 5), 4), round(attainable_pvalue(5, 5), 4)
        (0.0447, 0.0683)

    References:
        M. Dwass (1960), Some k-sample rank-order tests, Contributions to Probability and
        Statistics, 198-202.
    """
    sizes = _sizes(num_methods, num_seeds)
    if method not in get_args(DesignMethod):
        raise ValueError(f"`method` must be 'asymptotic' or 'exact'. Received: method={method!r}")
    if method == "exact":
        return _exact_attainable(sizes)
    from scipy.stats import studentized_range

    # |W*| of two separated groups grows with both sizes, so the two largest groups reach most.
    *_, m, n = sorted(sizes)
    return float(studentized_range.sf(math.sqrt(6 * m * n / (m + n + 1)), num_methods, math.inf))


def seeds_needed(num_methods: int, alpha: float = 0.05, method: DesignMethod = "asymptotic") -> int:
    """Fewest seeds a method with which the Steel-Dwass test can give p < alpha.

    The answer is about the p of the `method` named. For two methods and alpha 0.05 that is 3
    seeds by the asymptotic p (0.0495), whose exact value is 0.10: 4 in truth, as
    `method="exact"` says. `what_can_be_shown` recommends the larger of the two.

    Args:
        num_methods: Number of methods compared, all pairs.
        alpha: Level of the test, between 0 and 1.
        method: p from the studentized range, or from all joint permutations.

    Returns:
        Number of seeds, the same for every method.

    Raises:
        ValueError: If a number or the method is out of range.

    Example:
        >>> seeds_needed(4), seeds_needed(5), seeds_needed(9)
        (5, 6, 7)
    """
    check_alpha(alpha)
    return next(n for n in itertools.count(1) if attainable_pvalue(num_methods, n, method) < alpha)


def what_can_be_shown(num_methods: int, num_seeds: int, alpha: float = 0.05) -> str:
    """Says in a sentence what the Steel-Dwass test of a design can show, before it is run.

    Args:
        num_methods: Number of methods compared, all pairs.
        num_seeds: Number of scores of every method.
        alpha: Level of the test, between 0 and 1.

    Returns:
        One sentence.

    Raises:
        ValueError: If a number is out of range.

    Example:
        >>> print(what_can_be_shown(5, 5))  # doctest: +NORMALIZE_WHITESPACE
        5 methods x 5 seeds: Steel-Dwass can never reach p < .05 (p = .068 at best without ties,
        where two methods' seeds do not overlap at all); use at least 6 seeds or compare fewer
        methods.
    """
    check_alpha(alpha)
    asymptotic = attainable_pvalue(num_methods, num_seeds)
    exact = attainable_pvalue(num_methods, num_seeds, "exact")
    needed = max(seeds_needed(num_methods, alpha), seeds_needed(num_methods, alpha, "exact"))
    level = format_level(alpha)
    design = f"{num_methods} methods x {num_seeds} {'seed' if num_seeds == 1 else 'seeds'}"
    best = format_pvalue(asymptotic, alpha)
    if max(asymptotic, exact) < alpha:
        return (
            f"{design}: Steel-Dwass can reach {best} at best, only where two methods' seeds do "
            f"not overlap at all; at least {needed} seeds are needed for {level}."
        )
    if asymptotic < alpha:
        reason = f"exact {format_pvalue(exact, alpha)} at best; the asymptotic {best} is too small"
    elif exact < alpha:
        reason = (
            f"asymptotic {best} at best without ties, where two methods' seeds do not overlap at "
            f"all; by permutation {format_pvalue(exact, alpha)} can be reached"
        )
    else:
        reason = f"{best} at best without ties, where two methods' seeds do not overlap at all"
    fewer = num_methods > 2 and attainable_pvalue(2, num_seeds, "exact") < alpha
    return (
        f"{design}: Steel-Dwass can never reach {level} ({reason}); "
        f"use at least {needed} seeds{' or compare fewer methods' if fewer else ''}."
    )


def format_pvalue(pvalue: float, alpha: float = 0.05) -> str:
    """Writes a p, with as many decimals (three or more) as keep it on its side of alpha.

    Args:
        pvalue: A probability.
        alpha: The level that readers compare it with.

    Returns:
        Such as `p = .045` or `p < .001`.

    Example:
        >>> format_pvalue(0.0447), format_pvalue(0.04953), format_pvalue(1e-6)
        ('p = .045', 'p = .0495', 'p < .001')
    """
    if pvalue < min(alpha, 0.001):
        return format_level(min(alpha, 0.001))
    same_side = (d for d in range(3, 17) if (round(pvalue, d) < alpha) == (pvalue < alpha))
    return "p = " + f"{pvalue:.{next(same_side, 17)}f}".removeprefix("0")


def format_level(alpha: float) -> str:
    """Writes what a significant p is.

    Args:
        alpha: Level of a test.

    Returns:
        Such as `p < .05`.
    """
    return "p < " + f"{alpha:g}".removeprefix("0")


def check_alpha(alpha: float) -> None:
    """Refuses a level that is no probability strictly between 0 and 1.

    Args:
        alpha: Level of a test.

    Raises:
        ValueError: If it is not.
    """
    if not 0 < alpha < 1:
        raise ValueError(f"`alpha` must lie between 0 and 1. Received: alpha={alpha}")


def _sizes(num_methods: int, num_seeds: int | Sequence[int]) -> list[int]:
    if operator.index(num_methods) < 2:
        raise ValueError(f"`num_methods` must be at least 2. Received: num_methods={num_methods}")
    sizes = list(num_seeds) if isinstance(num_seeds, Sequence) else [num_seeds] * num_methods
    if len(sizes) != num_methods or min(operator.index(size) for size in sizes) < 1:
        raise ValueError(
            f"`num_seeds` must be at least 1, for all or for each of {num_methods} methods. "
            f"Received: num_seeds={num_seeds}"
        )
    return sizes


def _exact_attainable(sizes: Sequence[int]) -> float:
    # Only the two largest sizes reach the largest |W*|: pairs among the largest groups, or,
    # where one group is larger than all others, its pairs with the second largest ones.
    (n, largest), *rest = sorted(Counter(sizes).items(), reverse=True)
    if largest > 1:
        return _any_pair_separated(largest, n)
    second, others = rest[0]
    return _one_separated(n, second, others)


def _any_pair_separated(k: int, n: int) -> float:
    """P(any two of k groups of n do not overlap), the integral summed exactly.

    The powers are expanded and every term is a Beta integral. Fractions, as the terms
    alternate in sign and cancel.
    """
    none = Fraction(0)
    for below, above in _pairs_up_to(k - 1):
        terms = math.comb(k - 1, below) * math.comb(k - 1 - below, above)
        ways = (1 + below) * math.comb(n * (1 + below + above), n * above)
        none += Fraction((-1) ** (below + above) * k * terms, ways)
    return float(1 - none)


def _one_separated(n: int, m: int, others: int) -> float:
    """P(a group of n does not overlap with any one of several groups of m), by inclusion-exclusion.

    A term is the chance that some groups lie below all of the n and some others above.
    """
    none = Fraction(0)
    for below, above in _pairs_up_to(others):
        terms = math.comb(others, below) * math.comb(others - below, above)
        total = n + m * (below + above)
        ways = math.comb(total, n) * math.comb(total - n, m * below)
        none += Fraction((-1) ** (below + above) * terms, ways)
    return float(1 - none)


def _pairs_up_to(total: int) -> list[tuple[int, int]]:
    return [(i, j) for i in range(total + 1) for j in range(total + 1 - i)]
