"""Test whether methods are no worse than a reference within a margin, on one task or several."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd

from relation_tf.errors import join_names
from relation_tf.stats.comparisons import PrintedResult
from relation_tf.stats.directions import Directions, check_tasks, read_directions, unlike_units
from relation_tf.stats.samples import (
    FloatArray,
    Samples,
    TaskSamples,
    TaskScores,
    check_count,
    check_number,
    check_probability,
    error_of_sum,
    has_groups,
    is_constant,
    read_tasks,
    unequal_spread,
)
from relation_tf.words import capital, count, format_level

Verdict: TypeAlias = Literal["better", "no worse", "inconclusive", "worse"]

_ENOUGH = 10  # scores per method with which unequal spread does not raise the error
MEAN = "mean"  # the row of the mean difference in a table of tasks
COLUMNS = ["difference", "low", "high", "margin", "pvalue", "verdict", "beyond_margin"]


@dataclass(frozen=True, eq=False, repr=False)
class NonInferiorityResult(PrintedResult):
    """The result of `non_inferiority`.

    Differences are positive where the method is better than the reference, also where lower scores
    are better, and have the unit of the scores.

    Attributes:
        table: A row per method other than the reference, with columns `difference`, `low` and
            `high` (its interval), `margin`, `pvalue` (of "worse by the margin or more", adjusted
            for the number of methods), `verdict`, and `beyond_margin` (True if the method is worse
            by more than the margin). Over several tasks, of the mean difference.
        tasks: Task -> a table of the same form; empty for the samples of one task.
        reference: The method that the others are compared with.
        alpha: Level of all verdicts of one table together, two-sided.
        confidence: Coverage of each interval, `1 - alpha / (num_methods - 1)`.
        num_methods: Number of methods of the correction, including the reference.
        notes: Remarks on the samples.
    """

    table: pd.DataFrame
    tasks: dict[Hashable, pd.DataFrame]
    reference: Hashable
    alpha: float
    confidence: float
    num_methods: int
    notes: tuple[str, ...]

    @property
    def pvalue(self) -> pd.Series[float]:
        """Adjusted p of each method for the null hypothesis "worse by the margin or more"."""
        return self.table["pvalue"]

    @property
    def verdict(self) -> pd.Series[str]:
        """Verdict on each method."""
        return self.table["verdict"]

    def confidence_interval(self) -> pd.DataFrame:
        """Return `low` and `high` of each method's difference; together they cover 1 - alpha."""
        return self.table[["low", "high"]]

    def differences(self) -> pd.DataFrame:
        """Return all tables as one, with the columns `task` ("mean" last) and `method`."""
        tables = [*self.tasks.values(), self.table]
        rows = [table.rename_axis("method").reset_index() for table in tables]
        names = np.empty(len(tables), object)  # a task can be a tuple
        names[:] = [*self.tasks, MEAN]
        tasks = np.repeat(names, len(self.table))
        joined = pd.concat(rows, ignore_index=True)
        joined.insert(0, "task", tasks)
        return joined

    def _printed(self) -> pd.DataFrame:
        shown = self.differences().drop(columns="beyond_margin")
        return shown if self.tasks else shown.drop(columns="task")

    def _title(self) -> str:
        over = f" over {count(len(self.tasks), 'task')}" if self.tasks else ""
        return f"No worse than {self.reference}{over}? Two-sided {format_level(self.alpha)}"

    def _remarks(self) -> Iterator[str]:
        yield (
            "Differences are positive where the method is better. Intervals: "
            f"{self.confidence:.1%} each (Bonferroni over {count(self.num_methods - 1, 'method')})."
        )


def non_inferiority(
    samples: Samples | TaskSamples,
    reference: Hashable,
    margin: float | Mapping[Hashable, float],
    alpha: float = 0.05,
    *,
    higher_is_better: Directions = None,
    num_methods: int | None = None,
) -> NonInferiorityResult:
    """Test whether each method is no worse than a reference, within a margin.

    For a method A and the reference R the difference is `mean(A) - mean(R)`, with its sign turned
    where lower scores are better. With `m` the margin and `[low, high]` a two-sided interval of
    coverage `1 - alpha / number of other methods` (Bonferroni), the verdict is

    - **better** if `low > 0`,
    - **no worse** if `-m < low <= 0`: a loss, if there is one, is smaller than the margin; if also
      `high < 0`, the method is lower, but within the margin,
    - **worse** if `high < 0` and `low <= -m`, with `beyond_margin` if even `high < -m`,
    - **inconclusive** otherwise, and if the scores of both methods do not vary: their variances are
      unknown and the interval is infinite.

    One interval decides in both directions, so a wrong verdict in a table (of one task, or of the
    mean) has at most the probability `alpha`; that in any of several tables is larger. The verdict
    is *better* or *no worse* exactly if `pvalue < alpha / 2`.

    On one task the interval is Welch's (normal scores, unequal SD). Over tasks it is that of the
    mean of the tasks' differences, each task weighing the same: variances add up over tasks, and
    the degrees of freedom follow Satterthwaite. If on a task the scores of both methods differ and
    do not vary, it is infinite, unless the other tasks alone give the same verdict. This is a
    statement about these tasks, not about new ones.
    Choose the reference and the margin before the runs. For intervals of a shift between
    distributions of equal shape, use `confidence_interval` of `steel`.

    Args:
        samples: `{method: scores}` or another form that `steel_dwass` takes; or
            `{task: {method: scores}}`, or a `pandas.DataFrame` with columns `task`, `method` and
            `score`, or `task` and one for each method. At least two finite scores per method and
            task.
        reference: Name of the reference method.
        margin: Largest acceptable score decrease, in the unit of the scores, at least 0; or
            `{task: margin}`.
        alpha: Level of all verdicts of one table together: 0.05 for simultaneous 95 % intervals.
        higher_is_better: If False, lower scores are better; or `{task: bool}`. By default, lower
            is better on tasks with the name of such a metric (perplexity, loss, error, RMSE ...),
            with a note, and higher on others.
        num_methods: Number of methods for the correction, including the reference; by default that
            of the samples. Set it if some of the compared methods are not among them.

    Returns:
        A `NonInferiorityResult`; `print` shows it.

    Raises:
        TypeError: If the samples have an unknown form or contain something other than numbers.
        ValueError: If the reference is not among the methods, tasks have different methods, a
            method has fewer than two scores or one that is not finite, or an option is out of
            range.

    Example:
        >>> attention, relation = [80.1, 79.8, 80.6, 80.3, 79.9], [80.0, 80.4, 79.7, 80.2, 80.5]
        >>> result = non_inferiority(
        ...     {"attention": attention, "relation": relation}, reference="attention", margin=1.0
        ... )
        >>> result.verdict["relation"], round(float(result.table["low"]["relation"]), 2)
        ('no worse', -0.45)

    References:
        G. Piaggio et al. (2012), Reporting of noninferiority and equivalence randomized trials,
        JAMA 308, 2594-2604.
        B. L. Welch (1947), The generalization of "Student's" problem when several different
        population variances are involved, Biometrika 34, 28-35.
    """
    check_probability("alpha", alpha)
    over_tasks = has_groups(samples)
    by_task: Any = samples if over_tasks else {None: samples}
    tasks = read_tasks(by_task, reference, "reference", finite=2)
    margins = margin if isinstance(margin, Mapping) else dict.fromkeys(tasks, margin)
    check_tasks("margin", margins, tasks)
    if missing := [task for task in tasks if task not in margins]:
        raise ValueError(f"`margin` must have a value for each task. Received: none for {missing}")
    for value in margins.values():
        check_number("margin", value)
        if not 0 <= value < math.inf:
            raise ValueError(f"`margin` must be 0 or more. Received: margin={value}")
    higher, notes = read_directions(tasks, higher_is_better)
    signs = {task: 1 if higher[task] else -1 for task in tasks}
    methods = [name for name in next(iter(tasks.values())) if name != reference]
    if num_methods is None:
        num_methods = 1 + len(methods)
    check_count("num_methods", num_methods, 1 + len(methods))
    corrected = num_methods - 1
    level = alpha / (2 * corrected)  # of each limit

    def table(of: Sequence[Hashable], margin: float) -> pd.DataFrame:
        """Return the verdicts on the mean difference over some tasks."""
        rows = {}
        for name in methods:
            pairs = [(signs[t] * tasks[t][name], signs[t] * tasks[t][reference]) for t in of]
            difference, low, high, pvalue = _welch(pairs, margin, level)
            verdict = judge_interval(low, high, margin)
            adjusted = min(1.0, corrected * pvalue)
            rows[name] = (difference, low, high, margin, adjusted, verdict, high < -margin)
        return pd.DataFrame.from_dict(rows, orient="index", columns=COLUMNS)

    tables = {task: table([task], margins[task]) for task in tasks}
    return NonInferiorityResult(
        table=table([*tasks], float(np.mean([*margins.values()]))) if over_tasks else tables[None],
        tasks=tables if over_tasks else {},
        reference=reference,
        alpha=alpha,
        confidence=1 - 2 * level,
        num_methods=num_methods,
        notes=(*notes, *_notes(tasks, higher, reference)),
    )


def _welch(
    pairs: Sequence[tuple[FloatArray, FloatArray]], margin: float, level: float
) -> tuple[float, float, float, float]:
    """Return the mean difference over tasks, its limits, and p of "worse by the margin or more".

    Args:
        pairs: Scores of the method and of the reference, for each task.
        margin: Largest acceptable decrease.
        level: Level of each limit.
    """
    from scipy.stats import t

    difference = float(np.mean([method.mean() - reference.mean() for method, reference in pairs]))
    error, degrees = error_of_sum([scores for pair in pairs for scores in pair])
    infinite = difference, -math.inf, math.inf, 1.0
    if not error:
        return infinite
    error /= len(pairs)
    half = float(t.isf(level, degrees)) * error
    pvalue = float(t.sf((difference + margin) / error, degrees))
    low, high = difference - half, difference + half
    # Different scores that do not vary have an unknown spread; equal ones add nothing to the mean.
    known = [x for x in pairs if not all(map(is_constant, x)) or is_constant(np.concatenate(x))]
    if len(known) < len(pairs):
        others = _welch(known, margin, level)
        if judge_interval(*others[1:3], margin) != judge_interval(low, high, margin):
            return infinite
    return difference, low, high, pvalue


def judge_interval(low: float, high: float, margin: float) -> Verdict:
    """Return the verdict of an interval of a difference, see `non_inferiority`."""
    if low > 0:
        return "better"
    if low > -margin:
        return "no worse"
    return "worse" if high < 0 else "inconclusive"


def _notes(tasks: TaskScores, higher: Mapping[Any, bool], reference: Hashable) -> Iterator[str]:
    largest = {
        task: max(float(np.abs(x).max()) for x in groups.values()) for task, groups in tasks.items()
    }
    if remark := unlike_units(largest, higher):
        yield f"{capital(remark)}, so the mean difference mixes them: use `tasks`"
    # Designs in which wrong verdicts on one task are too frequent: with several methods, those with
    # a small SD of the reference; see `benchmarks/simultaneous.py`.
    unequal = []
    for task, groups in tasks.items():
        varying = {name: scores for name, scores in groups.items() if not is_constant(scores)}
        spread, few = unequal_spread(varying), any(x.size < _ENOUGH for x in varying.values())
        if few and spread and (len(varying) == 2 or spread.narrow == reference):
            unequal.append(task)
    if unequal:
        where = "" if unequal == [None] else f" on {join_names([*map(str, unequal)])}"
        yield (
            f"The SDs of the reference and another method differ by more than 3:1{where}: with "
            f"fewer than {_ENOUGH} scores, up to 7 % of verdicts on a single task are wrong "
            "instead of 5 %"
        )
    for task, groups in tasks.items():
        constant = [str(name) for name, scores in groups.items() if is_constant(scores)]
        if constant:
            names, where = ", ".join(constant), "" if task is None else f" on {task}"
            note = f"The scores of {names} do not vary{where}, so their variance is unknown"
            others = [name for name in constant if name != str(reference)]
            if 0 < len(others) < len(constant):
                note += f"; the verdict on {', '.join(others)} is inconclusive"
            yield note
