"""Scores of several methods, read once and checked before any test ranks them."""

from __future__ import annotations

import reprlib
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from relation_tf.stats.checks import check_option

FloatArray: TypeAlias = NDArray[np.float64]
NanPolicy: TypeAlias = Literal["worst", "raise"]
Samples: TypeAlias = Mapping[Any, ArrayLike] | pd.DataFrame | tuple[ArrayLike, ...]

# Two neighbouring float32 numbers differ by at most 1.2e-7 of their value, and a float64 from the
# float32 it was rounded to by at most 6e-8, so neither difference may break a tie.
TIE_RTOL = 2e-7


@dataclass(frozen=True)
class RankedSamples:
    """Pooled scores of k groups, reduced to what a rank test may see: order and ties.

    Attributes:
        scores: group -> its scores as given, in float64.
        codes: group -> dense ranks in the pool, from 0; tied scores share one.
        notes: what was done to the scores before ranking.
    """

    scores: dict[Hashable, FloatArray]
    codes: dict[Hashable, NDArray[np.intp]]
    notes: tuple[str, ...]

    @property
    def sizes(self) -> NDArray[np.intp]:
        """Number of scores a group, shape `(k,)`."""
        return np.array([group.size for group in self.codes.values()], dtype=np.intp)

    @property
    def multiplicity(self) -> NDArray[np.intp]:
        """How often each distinct score occurs in the pool, shape `(D,)`."""
        return np.bincount(np.concatenate(list(self.codes.values())))


def rank_samples(
    samples: Samples,
    *,
    higher_is_better: bool = True,
    nan: NanPolicy = "worst",
    rtol: float = TIE_RTOL,
) -> RankedSamples:
    """Check samples and rank them in one pool.

    Args:
        samples: As for `steel_dwass`.
        higher_is_better: At which end a NaN is ranked.
        nan: `"worst"` ranks NaN scores worst, `"raise"` refuses them.
        rtol: Sorted neighbours that differ by at most this part of their size are tied.

    Returns:
        The scores, their dense ranks, and notes on NaN scores.

    Raises:
        TypeError: If the samples are in no accepted form or hold something other than numbers.
        ValueError: If there are fewer than two groups, a group is empty or holds a refused NaN,
            or an option is out of range.
    """
    check_option("nan", nan, NanPolicy)
    groups = groups_of(samples)
    scores = {name: numeric_scores(group, name) for name, group in groups.items()}
    if len(scores) < 2:
        raise ValueError(
            f"`samples` must hold at least two groups. Received: {len(scores)} ({list(scores)})"
        )
    notes = []
    for name, group in scores.items():
        missing = np.count_nonzero(np.isnan(group))
        if missing and nan == "raise":
            raise ValueError(f"scores of {name!r} must not be NaN. Received: {group.tolist()}")
        if missing:
            notes.append(f"{name}: {missing} of {group.size} scores are NaN, ranked worst")
    worst = -np.inf if higher_is_better else np.inf
    pool = np.concatenate(list(scores.values()))
    codes = dense_ranks(np.where(np.isnan(pool), worst, pool), rtol)
    splits = np.cumsum([group.size for group in scores.values()])[:-1]
    return RankedSamples(
        scores, dict(zip(scores, np.split(codes, splits), strict=True)), tuple(notes)
    )


def numeric_scores(scores: Any, name: Hashable) -> FloatArray:
    """Read one group: one axis, at least one score, numbers only (no text, no booleans).

    Args:
        scores: A one-dimensional array-like.
        name: What an error calls the group.

    Returns:
        The scores as a new float64 array.

    Raises:
        TypeError: If a score is not a number.
        ValueError: If there is not exactly one axis, or no score.
    """
    # A Series knows its missing values (`pandas.NA`), an array does not.
    array = scores if isinstance(scores, pd.Series) else np.asarray(scores)
    if array.ndim != 1:
        raise ValueError(f"scores of {name!r} must have one axis. Received: shape {array.shape}")
    if array.size == 0:
        raise ValueError(f"scores of {name!r} must not be empty. Received: 0 scores")
    if array.dtype.kind not in "iuf":
        raise TypeError(
            f"scores of {name!r} must be numbers. Received: {reprlib.repr(list(array))} "
            f"({array.dtype})"
        )
    return pd.Series(array).to_numpy(dtype=np.float64, na_value=np.nan, copy=True)


def dense_ranks(values: FloatArray, rtol: float = TIE_RTOL) -> NDArray[np.intp]:
    """Rank values from 0 without gaps; equal infinities tie, and so do near neighbours.

    Ties are chained: in sorted order each value is compared with the one before it.

    Args:
        values: Values without NaN, shape `(N,)`.
        rtol: Relative difference up to which sorted neighbours are tied.

    Returns:
        Integer ranks, shape `(N,)`.

    Raises:
        ValueError: If the tolerance is negative or ties everything.
    """
    if not 0 <= rtol < 1:
        raise ValueError(f"`rtol` must be at least 0 and below 1. Received: rtol={rtol}")
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    tied = np.isclose(ordered[1:], ordered[:-1], rtol=rtol, atol=0.0)
    ranks = np.empty(values.size, dtype=np.intp)
    ranks[order] = np.concatenate(([0], np.cumsum(~tied)))
    return ranks


def groups_of(samples: Samples) -> dict[Hashable, Any]:
    """Return name -> scores of samples in any accepted form."""
    if isinstance(samples, pd.DataFrame):
        if not samples.columns.is_unique:
            raise ValueError(
                f"column names must be unique, one a method. Received: {list(samples.columns)}"
            )
        return {name: samples[name] for name in samples.columns}
    if isinstance(samples, Mapping):
        return dict(samples)
    if isinstance(samples, tuple):
        return {str(number): group for number, group in enumerate(samples, start=1)}
    shape = f" of shape {samples.shape}" if isinstance(samples, np.ndarray) else ""
    raise TypeError(
        "`samples` must be a dict of name -> scores, a pandas.DataFrame with a column a method "
        "(pandas.DataFrame(array, columns=names) says which axis holds the methods), or a tuple "
        f"with the scores of one method each. Received: {type(samples).__name__}{shape}"
    )
