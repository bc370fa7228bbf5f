"""Options, samples and spread of tests: checks, ranks of scores, errors of means."""

from __future__ import annotations

import itertools
import math
import numbers
import re
import reprlib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from relation_tf.words import capital, two_digits

FloatArray: TypeAlias = NDArray[np.float64]
Replicate: TypeAlias = Literal["seed", "fold", "item"]
"""What a score of a method is: of a seed, a fold of a cross-validation, or a test item (0 or 1)."""
ITEMS = ("item", "item id", "example", "example id", "question", "question id", "prompt",
         "prompt id", "sample", "sample id", "instance", "instance id", "doc id", "idx",
         "id")  # fmt: skip
SYNONYMS: Mapping[str, Sequence[str]] = {
    "task": ("task", "dataset", "data set", "env", "environment", "game", "benchmark", "domain",
             "problem", "corpus", "data"),
    "method": ("method", "model", "algorithm", "algo", "system", "approach", "classifier",
               "learner", "agent", "estimator", "technique", "mechanism", "architecture", "params"),
    "seed": ("seed", "random seed", "random state", "run", "trial", "fold", "cv fold", "repeat",
             "repetition", "replicate", "rep", "split", *ITEMS),
    "score": ("score", "value", "result", "performance"),
    "metric": ("metric", "measure", "metric name"),
    "split": ("split", "subset", "partition"),
    "diverged": ("diverged",),
}  # fmt: skip
"""Usual names of the columns of a table, by our names, in lower case with single spaces."""
NanPolicy: TypeAlias = Literal["worst", "raise"]
PvalueMethod: TypeAlias = Literal["auto", "asymptotic", "exact", "monte-carlo"]
Samples: TypeAlias = Mapping[Any, ArrayLike] | pd.DataFrame
TaskSamples: TypeAlias = Mapping[Any, Samples]
TaskScores: TypeAlias = dict[Hashable, dict[Hashable, FloatArray]]
Pairs: TypeAlias = tuple[tuple[int, int], ...]
Read = TypeVar("Read")

# Neighboring float32 numbers differ by at most 1.2e-7 of their value; rounding float64 to float32
# changes it by at most 6e-8. Neither difference must break a tie.
TIE_RTOL = 2e-7
# Zero has no relative tolerance: rounding of sums of scores, or of numbers of order 1, breaks no
# tie either.
_SCALE_RTOL = 1e-12
_LEAST_TIE = 1e-15

_FORMS = (
    "`samples` must be the scores of each method on one task: {'a': scores, 'b': scores} or a "
    "pandas.DataFrame with one column per method. For several tasks use stratified_steel_dwass, or "
    "friedman_wilcoxon with one score of each"
)


def check_number(name: str, value: Any) -> None:
    """Raise an error if a value is not a number, for example if it is a string.

    Args:
        name: Name of the option.
        value: Its value.

    Raises:
        TypeError: If it is not a number.
    """
    if not isinstance(value, numbers.Real):
        raise TypeError(f"`{name}` must be a number. Received: {name}={value!r}")


def check_probability(name: str, value: Any) -> None:
    """Raise an error if a probability (a level, a coverage) is not strictly between 0 and 1.

    Args:
        name: Name of the option.
        value: Its value.

    Raises:
        TypeError: If it is not a number.
        ValueError: If it is out of range.
    """
    check_number(name, value)
    if not 0 < value < 1:
        raise ValueError(f"`{name}` must be between 0 and 1 (exclusive). Received: {name}={value}")


def check_count(name: str, value: Any, least: int = 1) -> None:
    """Raise an error if a value is not a whole number or is too small.

    Args:
        name: Name of the option.
        value: Its value.
        least: Smallest allowed value.

    Raises:
        TypeError: If it is not a whole number.
        ValueError: If it is too small.
    """
    message = f"`{name}` must be a whole number, at least {least}. Received: {name}={value!r}"
    if not isinstance(value, numbers.Integral):
        raise TypeError(message)
    if value < least:
        raise ValueError(message)


def check_option(name: str, value: object, allowed: object) -> None:
    """Raise an error if a value is not listed in a `Literal`.

    Args:
        name: Name of the option.
        value: Its value.
        allowed: The `Literal`.

    Raises:
        ValueError: If the value is not listed.
    """
    if value not in get_args(allowed):
        raise ValueError(
            f"`{name}` must be one of {', '.join(map(repr, get_args(allowed)))}. "
            f"Received: {name}={value!r}"
        )


@dataclass(frozen=True)
class TestOptions:
    """Options of `steel_dwass`, `steel`, their forms over tasks, and `brunner_munzel`.

    Attributes:
        alpha: Level of the test; p < alpha is significant.
        method: Computation of p: `"auto"`, `"exact"`, `"monte-carlo"` or `"asymptotic"`. Not for
            `brunner_munzel`.
        nan: `"worst"` ranks NaN (a diverged run) worst, tied with infinity at that end, and adds a
            note; `"raise"` raises an error. No score is dropped.
        rtol: Relative tolerance of ties: neighboring scores within it are tied. 0.1 + 0.2 ties with
            0.3, and a float32 with the float64 before rounding. Scores within 1e-12 of the scale
            (the median absolute score other than zero) or within 1e-15 are always tied.
        permutations: Number of random arrangements for `monte-carlo`; by default 200,000, fewer for
            designs larger than about 10 methods, 10 seeds and 10 tasks (at least 2,000).
        rng: Seed of the random arrangements, a fixed one by default: the same scores always give
            the same p.
    """

    __test__ = False  # no class of tests for pytest

    alpha: float = 0.05
    method: PvalueMethod = "auto"
    nan: NanPolicy = "worst"
    rtol: float = TIE_RTOL
    permutations: int | None = None
    rng: int = 0

    def __post_init__(self) -> None:
        check_probability("alpha", self.alpha)
        check_option("method", self.method, PvalueMethod)
        check_option("nan", self.nan, NanPolicy)
        if self.permutations is not None:
            check_count("permutations", self.permutations)
        check_count("rng", self.rng, 0)


DEFAULT_OPTIONS = TestOptions()


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


def index_pairs(num_groups: int, against_first: bool = False) -> Pairs:
    """Return all pairs of groups, row by row, or only those with the first group."""
    pairs = itertools.combinations(range(num_groups), 2)
    return tuple(itertools.islice(pairs, num_groups - 1 if against_first else None))


def rank_samples(
    samples: Samples,
    control: Hashable | None = None,
    *,
    higher_is_better: bool = True,
    options: TestOptions = DEFAULT_OPTIONS,
) -> RankedSamples:
    """Check the samples and rank all scores together.

    Args:
        samples: Scores of each method, as in `steel_dwass`.
        control: A method to put first, or None.
        higher_is_better: If True, NaN is ranked lowest, else highest.
        options: Options of the test, for the ranks of NaN and ties.

    Returns:
        The scores, their dense ranks, and notes on NaN.

    Raises:
        TypeError: If the samples have an unknown form or contain something other than numbers.
        ValueError: If there are fewer than two groups, the control is not among them, or a group
            is empty or contains NaN with `nan="raise"`.
    """
    scores = control_first(read_groups(samples), control)
    notes = []
    for name, group in scores.items():
        missing = np.count_nonzero(np.isnan(group))
        if missing and options.nan == "raise":
            raise ValueError(f"scores of {name!r} must not be NaN. Received: {group.tolist()}")
        if missing:
            notes.append(f"{name}: {missing} of {group.size} scores are NaN, ranked worst")
    worst = -np.inf if higher_is_better else np.inf
    pool = np.concatenate(list(scores.values()))
    codes = dense_ranks(np.where(np.isnan(pool), worst, pool), options.rtol)
    splits = np.cumsum([group.size for group in scores.values()])[:-1]
    by_group = dict(zip(scores, np.split(codes, splits), strict=True))
    return RankedSamples(scores, by_group, tuple(notes))


def read_groups(
    samples: Samples, finite: int = 0, kinds: str = "iuf"
) -> dict[Hashable, FloatArray]:
    """Return each group's scores, checked.

    Args:
        samples: As for `steel_dwass`.
        finite: If above 0, all scores must be finite, and each group must have at least so many.
        kinds: As for `numeric_scores`.

    Raises:
        TypeError: If the samples have an unknown form or contain something other than numbers.
        ValueError: If there are fewer than two groups, a group is empty, or scores are too few or
            not finite.
    """
    scores = {name: numeric_scores(x, name, kinds) for name, x in groups_of(samples).items()}
    if len(scores) < 2:
        raise ValueError(
            f"`samples` must have at least two groups. Received: {len(scores)} ({list(scores)})"
        )
    for name, group in scores.items() if finite else ():
        check_finite(group, name, finite)
    return scores


def numeric_scores(scores: Any, name: Hashable, kinds: str = "iuf") -> FloatArray:
    """Convert the scores of one group to float64; strings raise an error.

    Args:
        scores: A one-dimensional array-like.
        name: Name of the group in errors.
        kinds: Allowed kinds of NumPy's types; by default, booleans raise an error.

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
    if array.dtype.kind not in kinds:
        raise TypeError(
            f"scores of {name!r} must be numbers. Received: {reprlib.repr(list(array))} "
            f"({array.dtype})"
        )
    return pd.Series(array).to_numpy(dtype=np.float64, na_value=np.nan, copy=True)


def check_finite(scores: FloatArray, name: Hashable, least: int = 1) -> None:
    """Raise an error if a score has no mean with others: it is NaN or infinite.

    Tests of ranks rank such a score worst instead.

    Args:
        scores: Scores, shape `(n,)`.
        name: Name of the group in errors.
        least: Smallest number of scores.

    Raises:
        ValueError: If a score is not finite, or there are too few.
    """
    if scores.size < least:
        raise ValueError(
            f"scores of {name!r} must be at least {least} numbers. Received: {scores.tolist()}"
        )
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


def control_first(
    groups: Mapping[Any, Any], control: Hashable | None, option: str = "control"
) -> dict[Hashable, Any]:
    """Return the groups with the control first.

    Args:
        groups: Name -> scores.
        control: A name, or None.
        option: Name of the option in errors.

    Raises:
        ValueError: If the control is not among them.
    """
    if control is None:
        return dict(groups)
    if control not in groups:
        raise ValueError(f"`{option}` must be one of {[*groups]}. Received: {option}={control!r}")
    return {control: groups[control], **groups}


def groups_of(samples: Samples) -> dict[Hashable, Any]:
    """Return name -> scores of samples in any accepted form."""
    if has_groups(samples) or not isinstance(samples, pd.DataFrame | Mapping):
        raise TypeError(f"{_FORMS}. Received: {reprlib.repr(samples)}")
    if isinstance(samples, pd.DataFrame):
        if not samples.columns.is_unique:
            raise ValueError(
                f"column names must be unique, one per method. Received: {list(samples.columns)}"
            )
        return {name: scores for name, scores in _with_our_names(samples).items() if name != "seed"}
    return dict(samples)


def has_groups(samples: Samples | TaskSamples) -> bool:
    """Return True for the scores of several tasks, or a table with a row per score."""
    if isinstance(samples, pd.DataFrame):
        columns = {*_with_our_names(samples)}
        return "task" in columns or {"method", "score"} <= columns
    return isinstance(samples, Mapping) and any(
        isinstance(scores, Mapping | pd.DataFrame) for scores in samples.values()
    )


def words_of(name: str) -> str:
    """Return a name in lower case with single spaces."""
    return re.sub(r"[\s_\-]+", " ", name.strip().lower()).strip()


def _with_our_names(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table or its named index with our names: `task`, `method`, `score`, and one `seed`.

    A column with one of their usual names is a method instead if its numbers are fractions, or
    cannot be names of methods.
    """
    keys = {word: key for key in ("task", "method", "seed") for word in SYNONYMS[key]}
    levels = [x for x in table.index.names if words_of(str(x)) in keys and x not in table]
    table = table.reset_index(levels) if levels else table
    for name in [x for x in table if words_of(str(x)) in keys]:
        key = keys[words_of(str(name))]
        numbers = pd.to_numeric(table[name], errors="coerce").dropna()
        if not (numbers % 1).any() and (key != "method" or name == key or numbers.empty):
            known = name != key and key in table
            table = table.drop(columns=name) if known else table.rename(columns={name: key})
    others = [x for x in table.select_dtypes("number") if x not in ("task", "seed")]
    if "method" in table and "score" not in table and len(others) == 1:
        table = table.rename(columns={others[0]: "score"})
    return table


def read_tasks(
    samples: Samples | TaskSamples,
    control: Hashable | None = None,
    option: str = "control",
    finite: int = 0,
) -> TaskScores:
    """Return the scores of each task and method, in the same order of methods on each task.

    Args:
        samples: `{task: {method: scores}}`; or a long table with columns `task`, `method` and
            `score`; or a wide one with a column for each method, where rows with the same `task`,
            or else the same index, are the seeds of a task. Columns can have usual names instead,
            such as `dataset` and `model`.
        control: A method to put first, or None.
        option: Name of the option of the control in errors.
        finite: As for `read_groups`.

    Raises:
        TypeError: If the samples have an unknown form or contain something other than numbers.
        ValueError: If there is no task, or a method or the control has no scores on a task.
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
    tasks = {task: in_task(task, read_groups, groups, finite) for task, groups in samples.items()}
    methods = {method: None for groups in tasks.values() for method in groups}
    methods = control_first(methods, control, option)
    for task, groups in tasks.items():
        if missing := [method for method in methods if method not in groups]:
            raise ValueError(
                f"all tasks must have the same methods. {task!r} has no scores of "
                f"{', '.join(map(repr, missing))}"
            )
    return {task: {method: groups[method] for method in methods} for task, groups in tasks.items()}


def _from_table(table: pd.DataFrame) -> dict[Hashable, dict[Hashable, Any]]:
    """Return the samples of a table with a row per score, or a column per method."""
    table = _with_our_names(table)
    tasks = table["task"] if "task" in table else table.index.get_level_values(0)
    if tasks.isna().any() or table.get("method", tasks).isna().any():
        raise ValueError("each row must have the names of its task and method")
    if "method" not in table and "score" not in table:
        wide = table.set_index("task") if "task" in table else table
        by_task = wide.groupby(level=0, sort=False)
        return {task: groups_of(rows.reset_index(drop=True)) for task, rows in by_task}
    if not {*table.columns} >= {"task", "method", "score"}:
        raise TypeError(
            "a table must have columns 'task', 'method' and 'score', with a row for each score. "
            f"Received: columns {list(table.columns)}"
        )
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


MOST_UNEQUAL = 3.0  # ratio of SDs up to which rank tests keep their level, see pair_tests.py
_ROUNDING = 1e-12  # relative to the largest score


def is_constant(scores: FloatArray) -> bool:
    """Return True if finite scores do not vary: they differ by rounding errors at most."""
    return bool(np.ptp(scores) <= _ROUNDING * np.abs(scores).max())


def error_of_sum(samples: Sequence[FloatArray]) -> tuple[float, float]:
    """Return the standard error of a sum or difference of means, and its degrees of freedom.

    Args:
        samples: Independent samples of at least two scores each, with any spread.

    Returns:
        The error, and the degrees of freedom by Welch and Satterthwaite. If no sample varies, the
        error is 0 and the degrees of freedom are NaN: the true error is unknown.

    Example:
        >>> error, freedom = error_of_sum([np.array([1.0, 3.0]), np.array([2.0, 6.0])])
        >>> round(error, 3), round(freedom, 3)
        (2.236, 1.471)

    References:
        Satterthwaite 1946, "An approximate distribution of estimates of variance components"
        (Biometrics Bulletin 2). Welch 1947 (Biometrika 34).
    """
    variances = np.array(
        [0 if is_constant(scores) else scores.var(ddof=1) / scores.size for scores in samples]
    )
    total = float(variances.sum())
    if not total:
        return 0.0, math.nan
    freedom = np.array([scores.size - 1 for scores in samples])
    shares = variances / total  # squares of large variances would overflow
    return math.sqrt(total), float(1 / (shares**2 / freedom).sum())


def scaled_residuals(scores: FloatArray) -> FloatArray:
    """Return differences from the mean, whose mean square is the variance; 0 for one score.

    The spread of joined residuals then does not depend on the number of scores in each sample.

    Example:
        >>> scaled_residuals(np.array([1.0, 3.0])).round(3).tolist()
        [-1.414, 1.414]
    """
    return (scores - scores.mean()) * math.sqrt(scores.size / max(1, scores.size - 1))


class UnequalSpread(NamedTuple):
    """The methods with the largest and the smallest standard deviation of their scores.

    Attributes:
        wide: Method with the largest SD.
        narrow: Method with the smallest SD.
        ratio: Largest SD divided by the smallest, infinite if the smallest is zero.
    """

    wide: Hashable
    narrow: Hashable
    ratio: float

    def __str__(self) -> str:
        if np.isinf(self.ratio):
            return f"all scores of {self.narrow} are equal, but those of {self.wide} are not"
        return f"the SD of {self.wide} is {two_digits(self.ratio)} times the SD of {self.narrow}"


def unequal_spread(samples: Mapping[Hashable, FloatArray]) -> UnequalSpread | None:
    """Return the methods with the most different SDs if they differ by more than 3:1.

    Methods with fewer than two finite scores are left out.

    Args:
        samples: Method -> scores, shape `(n,)`.

    Returns:
        The methods and the ratio, or None.

    Example:
        >>> scores = {"a": np.array([1.0, 2, 3]), "b": np.array([10.0, 20, 30])}
        >>> print(unequal_spread(scores))
        the SD of b is 10 times the SD of a
    """
    finite = {name: scores[np.isfinite(scores)] for name, scores in samples.items()}
    deviations = {
        name: 0.0 if is_constant(scores) else scores.std(ddof=1)
        for name, scores in finite.items()
        if scores.size > 1
    }
    if not deviations:
        return None
    wide = max(deviations, key=lambda name: deviations[name])
    narrow = min(deviations, key=lambda name: deviations[name])
    largest, smallest = deviations[wide], deviations[narrow]
    if largest <= MOST_UNEQUAL * smallest:
        return None
    return UnequalSpread(wide, narrow, float(largest / smallest) if smallest else np.inf)


def spread_notes(title: str, samples: Mapping[Hashable, FloatArray]) -> Iterable[str]:
    """Yield a note if a test that assumes equal spread is used where SDs differ by more than 3:1.

    Args:
        title: Name of the test.
        samples: Method -> scores, shape `(n,)`.
    """
    if spread := unequal_spread(samples):
        yield (
            f"{capital(str(spread))}. {capital(title)} assumes equal spread, so its error rate can "
            "exceed alpha. Check the result with Welch's test, `welch`"
        )
