"""Group-sequential comparison of methods: look after some seeds, stop when every pair is decided.

The test statistic of a pair depends only on the order of the two methods' scores. Without ties, its
distribution over all looks is therefore known before any run, for every set of equal methods.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd

from relation_tf.stats.checks import check_count, check_probability
from relation_tf.stats.comparisons import NOT_SIGNIFICANT
from relation_tf.stats.design import format_level
from relation_tf.stats.directions import Directions, read_directions
from relation_tf.stats.pairwise import Groups, Pairs, index_pairs, net_wins
from relation_tf.stats.presentation import Shown, count, name_pairs
from relation_tf.stats.samples import FloatArray, Samples, TaskSamples, rank_samples
from relation_tf.stats.task_samples import read_one_or_more

DRAWS = 20_000
"""Random orders of the scores from which boundaries are computed."""

FUTILITY = 0.1
"""A pair is given up if it would cross the boundary at the limit with a lower probability."""

UNDECIDED = "undecided"

_FIRST_LOOK, _STEP = 3, 2  # seeds
_CHUNK = 1_000  # draws at a time


@dataclass(frozen=True, eq=False)
class SequentialDesign:
    """Looks of a comparison, and the null distribution of its statistics.

    Attributes:
        num_methods: Number of methods, including a control.
        looks: Seeds per method at each look, increasing.
        num_tasks: Number of tasks.
        alpha: Family-wise level over all pairs and looks.
        against_control: If True, only pairs with the first method are compared.
        alpha_spent: Probability of a false verdict up to each look, if all methods are equal.
    """

    num_methods: int
    looks: tuple[int, ...]
    num_tasks: int
    alpha: float
    against_control: bool
    alpha_spent: tuple[float, ...]
    _maxima: FloatArray  # (draws, pairs): largest statistic of all looks

    @property
    def pairs(self) -> Pairs:
        """Indices of the two methods of each pair."""
        return index_pairs(self.num_methods, self.against_control)

    def boundary(self, pairs: Sequence[int] | None = None) -> float:
        """Return the value that no statistic of some equal pairs exceeds, up to level alpha.

        Args:
            pairs: Numbers of the pairs, by default all.
        """
        chosen = self._maxima if pairs is None else self._maxima[:, list(pairs)]
        return _quantile(chosen.max(axis=1), self.alpha)

    @property
    def first_given_up(self) -> int:
        """Seeds at the first look that can give up a pair."""
        return next(n for n in self.looks if 2 * n >= self.looks[-1])

    @property
    def first_decisive(self) -> int | None:
        """Fewest seeds with which a pair can be significant; None if no look is enough."""
        root, boundary = math.sqrt(self.num_tasks), self.boundary()
        largest = {n: _rounded(root * n * n / (2 * _deviation(n))) for n in self.looks}
        return next((n for n, own in largest.items() if own > boundary), None)  # without overlap


@dataclass(frozen=True, eq=False, repr=False)
class SequentialResult(Shown):
    """Result of `sequential_test`.

    Attributes:
        pairs: A row per pair: `a`, `b`, `statistic` (positive where b is better), `boundary`,
            `seeds` (at its last look), `better` (the better method of a significant pair, else
            None) and `verdict`: "X better", "no significant difference" or "undecided".
        looks: A row per look so far: `seeds`, `boundary` (before any decision at this look),
            `alpha_spent`, and `decided` (number of pairs that were decided).
        due: Method -> seeds needed for the next look; empty if every pair is decided.
        limit: Seeds at the last look of the design.
        num_tasks: Number of tasks.
        alpha: Family-wise level over all pairs and looks.
        notes: Remarks on the direction of tasks and on NaN, which is ranked worst.
    """

    pairs: pd.DataFrame
    looks: pd.DataFrame
    due: Mapping[Hashable, int]
    limit: int
    num_tasks: int
    alpha: float
    notes: tuple[str, ...] = ()

    def _shown(self) -> pd.DataFrame:
        return self.pairs.drop(columns="better")

    def _title(self) -> str:
        over = f" over {count(self.num_tasks, 'task')}" if self.num_tasks > 1 else ""
        return (
            f"Sequential comparison{over}: {count(len(self.looks), 'look')}, at most "
            f"{count(self.limit, 'seed')}, {format_level(self.alpha)} over all pairs and looks"
        )

    def _remarks(self) -> Iterator[str]:
        yield "The statistic is positive where the second method is better."
        if self.due:
            needed = ", ".join(f"{name} {seeds}" for name, seeds in self.due.items())
            yield f"The next look needs these seeds: {needed}."
        yield from (f"Note: {note}" for note in self.notes)


def look_schedule(max_seeds: int) -> tuple[int, ...]:
    """Return the default looks: after 3, 5, 7, ... seeds, the last after `max_seeds`.

    Args:
        max_seeds: Largest number of seeds per method, 3 or more.

    Example:
        >>> look_schedule(10)
        (3, 5, 7, 9, 10)
    """
    check_count("max_seeds", max_seeds, _FIRST_LOOK)
    return (*range(_FIRST_LOOK, max_seeds, _STEP), max_seeds)


def sequential_design(
    num_methods: int,
    looks: Sequence[int],
    num_tasks: int = 1,
    alpha: float = 0.05,
    *,
    against_control: bool = False,
    draws: int = DRAWS,
    rng: int | np.random.Generator = 0,
) -> SequentialDesign:
    """Return the boundaries of a group-sequential comparison, before any run.

    Args:
        num_methods: Number of methods, including a control.
        looks: Seeds per method at each look, increasing, such as `look_schedule(15)`.
        num_tasks: Number of tasks.
        alpha: Family-wise level over all pairs and looks.
        against_control: If True, compare only with the first method.
        draws: Number of random orders of the scores.
        rng: Seed or generator of the draws.

    Raises:
        ValueError: If a number is out of range, or looks do not increase.

    Example:
        >>> design = sequential_design(4, look_schedule(15))
        >>> round(design.boundary(), 2), design.first_decisive
        (2.8, 7)
    """
    check_count("num_methods", num_methods, 2)
    check_count("num_tasks", num_tasks)
    check_probability("alpha", alpha)
    least = math.ceil(1 / alpha)
    check_count("draws", draws, least)
    looks = tuple(looks)
    for seeds in looks:
        check_count("looks", seeds)
    if not looks or list(looks) != sorted(set(looks)):
        raise ValueError(f"`looks` must be increasing numbers of seeds. Received: {list(looks)}")
    maxima, by_look = (_null if isinstance(rng, int) else _null.__wrapped__)(
        num_methods, looks, num_tasks, against_control, draws, rng
    )
    boundary = _quantile(maxima.max(axis=1), alpha)
    crossed = np.maximum.accumulate(by_look > boundary, axis=1).mean(axis=0)
    spent = tuple(crossed.tolist())
    return SequentialDesign(num_methods, looks, num_tasks, alpha, against_control, spent, maxima)


def sequential_test(
    samples: Samples | TaskSamples,
    looks: Sequence[int],
    alpha: float = 0.05,
    *,
    control: Hashable | None = None,
    higher_is_better: Directions = None,
    draws: int = DRAWS,
    rng: int | np.random.Generator = 0,
) -> SequentialResult:
    """Compare methods at planned looks, and stop each pair as soon as it is decided.

    At a look after n seeds, the statistic of methods a and b is the sum over T tasks of the net
    wins of b over a, `#(b > a) - #(b < a)` among the n x n pairs of scores, standardized:

    `Z = sum net / sqrt(4 T n^2 (2 n + 1) / 12)`,

    the standardized Wilcoxon-Mann-Whitney statistic, for several tasks with the weights of van
    Elteren for equal n. A pair is significant if `|Z|` exceeds the boundary: the (1 - alpha)
    quantile of the maximum of `|Z|` over all looks and all pairs that are not significant yet, for
    scores in random order within each task (a constant boundary for all looks, as Pocock's).
    After a significant pair the boundary is computed again for the others (step-down).

    The probability of one or more false verdicts is at most alpha, whichever methods are equal: the
    statistics of equal methods have the same distribution in any set of methods. This assumes
    independent runs and no ties, and holds on average over the draws. With ties, a sum of net wins
    that is impossible without ties is reduced by 1; the error then stays below alpha in
    simulations. Methods with equal means but unequal spread are not equal in this sense.

    From half of the last look on, a pair is given up (no significant difference) if its trend
    would cross the boundary at the last look with a probability below `FUTILITY`: conditional
    power by Brownian motion, `1 - Phi((c - |Z| / sqrt(t)) / sqrt(1 - t))` with `t = n / limit`.
    This only lowers the error, because boundaries ignore it.

    Args:
        samples: `{method: scores}` or another form that `steel_dwass` takes; or
            `{task: {method: scores}}`. Scores are in the order of their seeds. A method whose pairs
            are all decided needs no more scores.
        looks: Seeds per method at each look, fixed before the first run.
        alpha: Family-wise level over all pairs and looks.
        control: Compare all methods only with this one; by default all pairs.
        higher_is_better: As for `stratified_steel_dwass`.
        draws: Number of random orders for the boundaries.
        rng: Seed or generator of the draws.

    Returns:
        A `SequentialResult` up to the last look for which all scores exist; `print` shows it.

    Raises:
        TypeError: If the samples have an unknown form or contain something other than numbers.
        ValueError: If tasks have different methods, the control is not a method, or an option is
            out of range.

    Example:
        >>> scores = {"attention": [80, 79, 81, 78, 80.5, 79.5, 78.5],
        ...           "relation": [84, 83, 82, 85, 82.5, 83.5, 84.5]}
        >>> result = sequential_test(scores, look_schedule(15))
        >>> result.pairs[["seeds", "verdict"]].values.tolist(), result.due
        ([[5, 'relation better']], {})

    References:
        T. Mathieu, M. Centa, R. Della Vecchia, H. Kohler, A. Shilova, O.-A. Maillard, P. Preux
        (2024), AdaStop: adaptive statistical testing for sound comparisons of Deep RL agents, TMLR.
        S. J. Pocock (1977), Group sequential methods in the design and analysis of clinical
        trials, Biometrika 64, 191-199.
        C. Jennison, B. W. Turnbull (2000), Group Sequential Methods, chapter 10.
        J. P. Romano, M. Wolf (2005), Exact and approximate stepdown methods for multiple
        hypothesis testing, JASA 100, 94-108.
    """
    tasks, _ = read_one_or_more(samples, control)
    names = list(next(iter(tasks.values())))
    groups = []
    higher, notes = read_directions(tasks, higher_is_better)
    for task, own in tasks.items():
        ranked = rank_samples(own, higher_is_better=higher[task])
        notes += [note if task is None else f"{task}: {note}" for note in ranked.notes]
        codes = [each[:, None] for each in ranked.codes.values()]
        best = max(int(each.max()) for each in codes)
        groups.append(codes if higher[task] else [best - each for each in codes])
    design = sequential_design(
        len(names),
        looks,
        len(tasks),
        alpha,
        against_control=control is not None,
        draws=draws,
        rng=rng,
    )
    course = _Course(design)
    available = [min(task[i].shape[0] for task in groups) for i in range(len(names))]
    for n in design.looks:
        due = {i for pair in course.undecided for i in design.pairs[pair]}
        if not due or any(available[i] < n for i in due):
            break
        course.look(n, [[method[:n] for method in task] for task in groups])
    return _result(course, names, notes)


class _Course:
    """Decisions on the pairs of a design, look by look."""

    def __init__(self, design: SequentialDesign) -> None:
        self.design = design
        # Pairs that were given up stay in this list: the boundary must ignore such decisions.
        self.not_significant = list(range(len(design.pairs)))
        self.undecided = [*self.not_significant]
        self.looks: list[tuple[int, float, float, int]] = []
        self.rows: dict[int, tuple[float, float, int]] = {}  # statistic, boundary, seeds

    def look(self, n: int, tasks: Sequence[Groups]) -> None:
        """Decide pairs by the first n scores of each method on each task."""
        before = len(self.undecided)
        first = boundary = self.design.boundary(self.not_significant)
        chosen = [self.design.pairs[pair] for pair in self.undecided]
        values = _statistics(tasks, chosen, n)[:, 0].tolist()
        found = dict(zip(self.undecided, values, strict=True))
        while self.undecided:
            boundary = self.design.boundary(self.not_significant)
            self.rows |= {pair: (found[pair], boundary, n) for pair in self.undecided}
            significant = {pair for pair in self.undecided if abs(found[pair]) > boundary}
            if not significant:
                break
            self.not_significant = [
                each for each in self.not_significant if each not in significant
            ]
            self.undecided = [each for each in self.undecided if each not in significant]
        self.undecided = [
            pair for pair in self.undecided if self._may_cross(abs(found[pair]), boundary, n)
        ]
        at = self.design.looks.index(n)
        self.looks.append((n, first, self.design.alpha_spent[at], before - len(self.undecided)))

    def _may_cross(self, statistic: float, boundary: float, n: int) -> bool:
        if n < self.design.first_given_up:
            return True
        share = n / self.design.looks[-1]
        if share == 1:
            return False
        missing = (boundary - statistic / math.sqrt(share)) / math.sqrt(1 - share)
        return 1 - NormalDist().cdf(missing) >= FUTILITY


def _result(course: _Course, names: Sequence[Hashable], notes: Sequence[str]) -> SequentialResult:
    design = course.design
    table = name_pairs(list(names), design.against_control)
    rows = [course.rows.get(pair, (math.nan, math.nan, 0)) for pair in range(len(design.pairs))]
    table[["statistic", "boundary", "seeds"]] = pd.DataFrame(rows, index=table.index)
    table["seeds"] = table["seeds"].astype(int)
    better: list[Any] = []
    verdicts = []
    for number, (a, b, statistic) in enumerate(
        zip(table["a"], table["b"], table["statistic"], strict=True)
    ):
        significant = number not in course.not_significant
        better.append((b if statistic > 0 else a) if significant else None)
        undecided = number in course.undecided
        verdicts.append(
            f"{better[-1]} better" if significant else UNDECIDED if undecided else NOT_SIGNIFICANT
        )
    table["better"], table["verdict"] = pd.Series(better, dtype=object), verdicts
    due = {
        names[i]: design.looks[len(course.looks)]
        for i in sorted({i for pair in course.undecided for i in design.pairs[pair]})
    }
    looks = pd.DataFrame(course.looks, columns=["seeds", "boundary", "alpha_spent", "decided"])
    return SequentialResult(
        table, looks, due, design.looks[-1], design.num_tasks, design.alpha, tuple(notes)
    )


def _statistics(tasks: Sequence[Groups], pairs: Pairs, n: int) -> FloatArray:
    """Return the statistic of each pair, shape `(P, B)`; groups have the shape `(n, B)`."""
    net: FloatArray = np.sum([net_wins(groups, pairs) for groups in tasks], axis=0)
    # Without ties the sum is even or odd as T n^2. Ties must not reach values in between.
    net -= np.sign(net) * ((net - len(tasks) * n * n) % 2)
    # Rounded, so that equal statistics of different looks are equal.
    return _rounded(net / (2 * math.sqrt(len(tasks)) * _deviation(n)))


def _rounded(statistic: Any) -> Any:
    return np.round(statistic, 12)


def _deviation(n: int) -> float:
    """Return the null deviation of the Mann-Whitney U of n and n scores."""
    return n * math.sqrt((2 * n + 1) / 12)


def _quantile(maxima: FloatArray, alpha: float) -> float:
    """Return the draw that a new maximum exceeds with a probability of at most alpha."""
    place = math.ceil((1 - alpha) * (maxima.size + 1) - 1e-9) - 1
    return float(np.partition(maxima, place)[place])


@functools.lru_cache(maxsize=4)
def _null(
    num_methods: int,
    looks: tuple[int, ...],
    num_tasks: int,
    against_control: bool,
    draws: int,
    rng: int | np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
    """Draw the largest absolute statistic of each pair over looks, and of each look over pairs."""
    generator = np.random.default_rng(rng)
    pairs, most = index_pairs(num_methods, against_control), looks[-1]
    total = num_methods * most
    order = np.arange(total, dtype=np.min_scalar_type(total))
    by_pair, by_look = [], []
    for start in range(0, draws, _CHUNK):
        size = min(_CHUNK, draws - start)
        tasks = []
        for _ in range(num_tasks):
            ranks = generator.permuted(np.tile(order, (size, 1)), axis=1).T
            tasks.append(np.split(np.ascontiguousarray(ranks), num_methods))
        values = np.abs(
            [
                _statistics([[group[:n] for group in groups] for groups in tasks], pairs, n)
                for n in looks
            ]
        )
        by_pair.append(values.max(axis=0).T)
        by_look.append(values.max(axis=1).T)
    return np.concatenate(by_pair), np.concatenate(by_look)
