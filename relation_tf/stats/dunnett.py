"""Dunnett's distribution: the maximum of several normal statistics with a common control.

With a control of n_0 scores and methods of n_j scores, the correlation of two standardized
statistics is `b_i b_j`. Each statistic is `b_j u + sqrt(1 - b_j^2) e_j` with a common normal u.
Given u they are independent, so one integral over u gives the joint distribution for any sizes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from relation_tf.stats.samples import FloatArray


def rank_loadings(sizes: Sequence[int], multiplicity: Sequence[int] = ()) -> FloatArray:
    """Return the b_j of rank statistics against a common control, exact for any sample size.

    Assign the N pooled scores to groups at random. Let v be the probability that two scores differ,
    and c the covariance of sign(y - x) and sign(z - x). Two statistics have the covariance
    `n_0 n_i n_j c`; each has the variance `n_0 n_j (v + (n_0 + n_j - 2) c)`. Without ties v is 1
    and c is 1/3, so `b_j^2 = n_j / (n_0 + n_j + 1)`: 5/11 for five seeds, and Dunnett's 1/2 for
    many.

    Args:
        sizes: n_0 of the control, then n_j of each method.
        multiplicity: Number of occurrences of each distinct pooled score; 1 by default.

    Returns:
        b_j, shape `(k - 1,)`.

    References:
        F. W. Scholz (2023), On Steel's test with ties, arXiv:2308.05873.
    """
    control, others = sizes[0], np.array(sizes[1:], dtype=np.float64)
    total = sum(sizes)
    t = np.array(multiplicity or [1] * total, dtype=np.float64)
    different = 1 - (t * (t - 1)).sum() / (total * (total - 1))
    covariance = 1 / 3
    if total > 2:
        triples = (t * (t - 1) * (t - 2)).sum() / (total * (total - 1) * (total - 2))
        covariance = (1 - triples) / 3
    variance = different + (control + others - 2) * covariance
    squares = others * covariance
    return np.sqrt(np.divide(squares, variance, out=np.zeros_like(squares), where=variance > 0))


def largest_exceeds(statistics: FloatArray, loadings: FloatArray) -> FloatArray:
    """Return the probability that the largest absolute normal statistic exceeds each value.

    Args:
        statistics: Standardized statistics, any shape; positive where the method is higher.
        loadings: The b_j of the methods, shape `(k - 1,)`.

    Returns:
        Family-wise p, same shape as the statistics.

    Example:
        >>> import numpy as np
        >>> p = largest_exceeds(np.array([2.35]), np.full(3, 0.5**0.5))  # Dunnett's table: 2.35
        >>> print(p.round(3))
        [0.05]

    References:
        C. W. Dunnett (1955), A multiple comparison procedure for comparing several treatments with
        a control, Journal of the American Statistical Association 50, 1096-1121.
    """
    from scipy.integrate import quad
    from scipy.special import ndtr

    residual = np.sqrt(1 - loadings**2)

    def exceeds(value: float) -> float:
        def density(u: float) -> float:
            outside = ndtr((loadings * u - value) / residual)
            outside = outside + ndtr((-loadings * u - value) / residual)
            # 1 - product of (1 - outside), without losing a small p to rounding
            any_outside = -math.expm1(np.log1p(-np.minimum(outside, 1 - 1e-16)).sum())
            return math.exp(-u * u / 2) / math.sqrt(2 * math.pi) * any_outside

        reach = 12 + abs(value)
        peak = float(loadings.max()) * value
        points = [-peak, peak]
        integral, _ = quad(density, -reach, reach, points=points, epsabs=0, epsrel=1e-9, limit=200)
        return min(float(integral), 1.0)

    values = np.abs(statistics)
    return np.array([exceeds(value) for value in np.ravel(values)]).reshape(np.shape(values))
