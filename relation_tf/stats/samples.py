"""Checks and ranks of the scores of several methods, on one task or several."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from relation_tf.stats.checks import check_option

FloatArray: TypeAlias = NDArray[np.float64]
NanPolicy: TypeAlias = Literal["worst", "raise"]
Samples: TypeAlias = Mapping[Any, ArrayLike] | pd.DataFrame | tuple[ArrayLike, ...]
TaskSamples: TypeAlias = Mapping[Any, Samples]
TaskScores: TypeAlias = dict[Hashable, dict[Hashable, FloatArray]]
Read = TypeVar("Read")

# Neighboring float32 numbers differ by at most 1.2e-7 of their value; rounding float64 to float32
# changes it by at most 6e-8. Neither difference must break a tie.
TIE_RTOL = 2e-7
# Zero has no relative tolerance: rounding of sums of scores, or of numbers of order 1, breaks no
# tie either.
_SCALE_RTOL = 1e-12
_LEAST_TIE = 1e-15

_FORMS = (
    "`samples` must be the scores of each method on one task: {'a': scores, 'b': scores}, a "
    "pandas.DataFrame with one column per method (for an array: pandas.DataFrame(array, "
    "columns=names)), or a tuple (scores, scores). For {task: {method: scores}} or a table with "
    "columns task, method and score, use stratified_steel_dwass"
)


@dataclass(frozen=True)
class RankedSamples:
    """Scores of k groups and their joint ranks.

    Attributes:
        scores: Group -> its scores as given, in float64.
        codes: Group -> dense ranks among all scores, from 0; tied scores share a rank.
        notes: Remarks on changes of the scores before ranking.
    """

    scores: dict[Hashable, FloatArray]
    codes: dict[Hashable, NDArray[np.intp]]
    notes: tuple[str, ...]

    @property
    def sizes(self) -> NDArray[np.intp]:
        """Number of scores per group, shape `(k,)`."""
        return np.array([group.size for group in self.codes.values()], dtype=np.intp)

    @property
    def multiplicity(self) -> NDArray[np.intp]:
        """Number of occurrences of each distinct score, shape `(D,)`."""
        return np.bincount(np.concatenate(list(self.codes.values())))


def rank_samples(
    samples: Samples,
    *,
    higher_is_better: bool = True,
    nan: NanPolicy = "worst",
    rtol: float = TIE_RTOL,
) -> RankedSamples:
    """Check the samples and rank all scores together.

    Args:
        samples: Scores of each method, as in `steel_dwass`.
        higher_is_better: If True, NaN is ranked lowest, else highest.
        nan: `"worst"` ranks NaN worst, `"raise"` raises an error.
        rtol: Relative tolerance of ties: neighboring scores within it are tied.

    Returns:
        The scores, their dense ranks, and notes on NaN.

    Raises:
        TypeError: If the samples have an unknown form or contain something other than numbers.
        ValueError: If there are fewer than two groups, a group is empty or contains NaN with
            `nan="raise"`, or an option is out of range.
    """
    check_option("nan", nan, NanPolicy)
    scores = read_groups(samples)
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


def read_groups(samples: Samples) -> dict[Hashable, FloatArray]:
    """Return each group's scores, checked.

    Args:
        samples: As for `steel_dwass`.

    Raises:
        TypeError: If the samples have an unknown form or contain something other than numbers.
        ValueError: If there are fewer than two groups, or a group is empty.
    """
    scores = {name: numeric_scores(group, name) for name, group in groups_of(samples).items()}
    if len(scores) < 2:
        raise ValueError(
            f"`samples` must have at least two groups. Received: {len(scores)} ({list(scores)})"
        )
    return scores


def numeric_scores(scores: Any, name: Hashable) -> FloatArray:
    """Convert the scores of one group to float64; strings and booleans raise an error.

    Args:
        scores: A one-dimensional array-like.
        name: Name of the group in errors.

    Returns:
        The scores as a new float64 array.

    Raises:
        TypeError: If a score is not a number.
        ValueError: If the number of axes is not one, or there is no score.
    """
    # Conversion of a Series to an array would lose its missing values (`pandas.NA`).
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


def check_finite(scores: FloatArray, name: Hashable) -> None:
    """Raise an error if a score has no mean with others: it is NaN or infinite.

    Tests of ranks rank such a score worst instead.

    Args:
        scores: Scores, shape `(n,)`.
        name: Name of the group in errors.

    Raises:
        ValueError: If a score is not finite.
    """
    if not np.isfinite(scores).all():
        raise ValueError(
            f"scores of {name!r} must be finite; for a diverged run, enter the worst score. "
            f"Received: {scores.tolist()}"
        )


def dense_ranks(values: FloatArray, rtol: float = TIE_RTOL) -> NDArray[np.intp]:
    """Rank values from 0 without gaps; values within a tolerance and equal infinities are tied.

    In sorted order each value is compared with the previous value, so ties can form chains. Values
    are also tied if they differ by at most 1e-12 of the scale, the median absolute value other than
    zero, or by at most 1e-15.

    Args:
        values: Values without NaN, shape `(N,)`.
        rtol: Relative tolerance of ties between sorted neighbors.

    Returns:
        Integer ranks, shape `(N,)`.

    Raises:
        ValueError: If the tolerance is not at least 0 and below 1.
    """
    if not 0 <= rtol < 1:
        raise ValueError(f"`rtol` must be at least 0 and below 1. Received: rtol={rtol}")
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    tied = np.isclose(ordered[1:], ordered[:-1], rtol=rtol, atol=tie_tolerance(values))
    ranks = np.empty(values.size, dtype=np.intp)
    ranks[order] = np.concatenate(([0], np.cumsum(~tied)))
    return ranks


def tie_tolerance(values: FloatArray) -> float:
    """Return the difference up to which values near zero are tied, see `dense_ranks`."""
    sizes = np.abs(values[np.isfinite(values) & (values != 0)])
    scale = float(np.median(sizes)) if sizes.size else 0.0
    return max(_SCALE_RTOL * scale, _LEAST_TIE)


def control_first(groups: Mapping[Any, Any], control: Hashable | None) -> dict[Hashable, Any]:
    """Return the groups with the control first.

    Raises:
        ValueError: If the control is not among them.
    """
    if control is None:
        return dict(groups)
    if control not in groups:
        raise ValueError(f"`control` must be one of {list(groups)}. Received: control={control!r}")
    return {control: groups[control], **groups}


def groups_of(samples: Samples) -> dict[Hashable, Any]:
    """Return name -> scores of samples in any accepted form."""
    if has_groups(samples):
        raise TypeError(f"{_FORMS}. Received: {_described(samples)}")
    if isinstance(samples, pd.DataFrame):
        if not samples.columns.is_unique:
            raise ValueError(
                f"column names must be unique, one per method. Received: {list(samples.columns)}"
            )
        return {name: samples[name] for name in samples.columns}
    if isinstance(samples, Mapping):
        return dict(samples)
    if isinstance(samples, tuple):
        return {str(number): group for number, group in enumerate(samples, start=1)}
    raise TypeError(f"{_FORMS}. Received: {_described(samples)}")


def has_groups(samples: Samples | TaskSamples) -> bool:
    """Return True for the scores of several tasks, or a table with one row per score."""
    if isinstance(samples, pd.DataFrame):
        return {"method", "score"} <= {*samples.columns}
    return isinstance(samples, Mapping) and any(
        isinstance(scores, Mapping | pd.DataFrame) for scores in samples.values()
    )


def _described(samples: Any) -> str:
    if isinstance(samples, pd.DataFrame):
        return f"a table with columns {', '.join(map(str, samples.columns))}"
    if isinstance(samples, Mapping):
        return f"a dict of dicts or tables, {reprlib.repr(list(samples))}"
    shape = f" of shape {samples.shape}" if isinstance(samples, np.ndarray) else ""
    return f"{type(samples).__name__}{shape}"


def read_tasks(
    samples: Samples | TaskSamples, first: Hashable | None = None, name: str = "control"
) -> TaskScores:
    """Return the scores of each task and method, in the same order of methods on each task.

    Args:
        samples: `{task: {method: scores}}`, or a table with columns `task`, `method` and `score`.
        first: A method to put first, or None.
        name: Name of the argument `first` in errors.

    Raises:
        TypeError: If the samples have an unknown form or contain something other than numbers.
        ValueError: If there is no task, or a method or the first one has no scores on a task.
    """
    if isinstance(samples, pd.DataFrame):
        samples = _from_table(samples)
    if not isinstance(samples, Mapping):
        raise TypeError(
            "`samples` must be {task: {method: scores}}, or a pandas.DataFrame with columns 'task',"
            f" 'method' and 'score'. Received: {type(samples).__name__}"
        )
    if not samples:
        raise ValueError("`samples` must have at least one task. Received: 0 tasks")
    tasks = {task: in_task(task, read_groups, groups) for task, groups in samples.items()}
    methods = list(dict.fromkeys(method for groups in tasks.values() for method in groups))
    if first is not None:
        if first not in methods:
            raise ValueError(f"`{name}` must be one of {methods}. Received: {name}={first!r}")
        methods = list(dict.fromkeys([first, *methods]))
    for task, groups in tasks.items():
        if missing := [method for method in methods if method not in groups]:
            raise ValueError(
                f"all tasks must have the same methods. {task!r} has no scores of "
                f"{', '.join(map(repr, missing))}"
            )
    return {task: {method: groups[method] for method in methods} for task, groups in tasks.items()}


def _from_table(table: pd.DataFrame) -> dict[Hashable, dict[Hashable, Any]]:
    """Return the samples of a table with a row per score."""
    if not {*table.columns} >= {"task", "method", "score"}:
        raise TypeError(
            "a table must have columns 'task', 'method' and 'score', with a row for each score. "
            f"Received: columns {list(table.columns)}"
        )
    if table[["task", "method"]].isna().any(axis=None):
        raise ValueError("columns 'task' and 'method' must have a name in each row")
    return {
        task: {
            name: group["score"]
            for name, group in groups.groupby("method", sort=False, observed=True)
        }
        for task, groups in table.groupby("task", sort=False, observed=True)
    }


def in_task(task: Hashable, read: Callable[..., Read], *args: Any, **options: Any) -> Read:
    """Call a function for the scores of one task, and name the task in its errors."""
    try:
        return read(*args, **options)
    except (TypeError, ValueError) as error:
        if task is None:
            raise
        raise type(error)(f"task {task!r}: {error}") from error


def of_task(name: str, value: Any, task: Hashable) -> Any:
    """Return an option's value for a task, if it has one for each."""
    if not isinstance(value, Mapping):
        return value
    if task not in value:
        raise ValueError(f"`{name}` must have a value for each task. Received: none for {task!r}")
    return value[task]
