"""How large a difference is, whatever its p."""

from __future__ import annotations

from numpy.typing import ArrayLike

from relation_tf.stats.pairwise import dominance, observed_counts
from relation_tf.stats.samples import rank_samples


def cliffs_delta(a: ArrayLike, b: ArrayLike) -> float:
    """Cliff's delta, `P(a > b) - P(a < b)`.

    1 where every score of `a` is higher than every score of `b`, -1 where every one is lower.
    Ties are those of `steel_dwass`. In the table `SteelDwassResult.effect_size`, row i and
    column j hold `cliffs_delta(j, i)`: positive where the column's method is higher.

    Args:
        a: Scores of one method, shape `(n,)`.
        b: Scores of the other, shape `(m,)`.

    Returns:
        Delta, from -1 to 1.

    Raises:
        TypeError: If a score is not a number.
        ValueError: If a sample is empty, has more than one axis or holds NaN.

    Example:
        >>> cliffs_delta([0.8, 0.9, 0.9], [0.7, 0.8])
        0.8333333333333333

    References:
        N. Cliff (1993), Dominance statistics: ordinal analyses to answer ordinal questions,
        Psychological Bulletin 114, 494-509.
    """
    ranked = rank_samples({"b": b, "a": a}, nan="raise")
    return float(dominance(observed_counts(ranked))[0, 0, 1])
