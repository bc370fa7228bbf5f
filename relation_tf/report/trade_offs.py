"""Scores with intervals, next to the speed and memory that timed suites measured."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from relation_tf.bench.results import Results, read_results
from relation_tf.errors import SuiteError, join_names
from relation_tf.report.comparisons import rows_of
from relation_tf.report.learned import not_learned
from relation_tf.report.runs import all_runs, load_warnings, read_runs
from relation_tf.report.scores import Scores
from relation_tf.report.verdicts import FAVORABLE
from relation_tf.stats.spread import error_of_sum
from relation_tf.tasks.generated import length_of

_LEVEL = 0.95
CONFIDENCE, RANGE = "95 % confidence interval", "range over seeds"
"""Kinds of intervals of `MeanScore`."""


class MeanScore(NamedTuple):
    """Mean score with an interval.

    Attributes:
        value: The mean over seeds; over several tasks, the mean of their means.
        low: Lower end of the interval; NaN if a task has one seed.
        high: Upper end.
        kind: `CONFIDENCE`, `RANGE` (over several tasks, the mean of the lowest scores of the tasks
            to that of the highest), or empty if a task has one seed.
    """

    value: float
    low: float
    high: float
    kind: str

    @property
    def half(self) -> float:
        """Half of the confidence interval; NaN if there is none."""
        return self.high - self.value if self.kind == CONFIDENCE else math.nan

    @property
    def seeds(self) -> tuple[float, float] | None:
        """The lowest and the highest score, if they are the interval."""
        return (self.low, self.high) if self.kind == RANGE else None


class Measure(NamedTuple):
    """A cost that timed runs record.

    Attributes:
        name: Name of its picture.
        label: Name with unit.
        column: Its column of the runs.
        factor: Factor that converts the column to the unit.
        more_is_better: If True, higher is better.
    """

    name: str
    label: str
    column: str
    factor: float = 1.0
    more_is_better: bool = False


MEASURES: dict[str, tuple[Measure, ...]] = {
    "training": (
        Measure("speed", "training speed, tokens/s", "tokens_second", more_is_better=True),
        Measure("memory", "peak memory of a training pass, MiB", "pass_mib"),
        Measure("state", "state size, KiB", "state_mib", 1024),
    ),
    "decoding": (
        Measure("decoding", "decoding speed, tokens/s", "tokens_second", more_is_better=True),
        Measure("decoder-state", "state size of the decoder, KiB", "state_mib", 1024),
    ),
}
"""Measures of each kind of timed suite."""


def read_costs(sources: Sequence[Results | str | Path], methods: Sequence[str]) -> pd.DataFrame:
    """Return the costs of methods in timed suites, by text length.

    Args:
        sources: Folders of the suites, their results, or folders with `suite.toml` and `runs.csv`
            of their reports; at most one of each kind.
        methods: The methods to look for, by name.

    Returns:
        Columns `suite`, `processor`, `measure` (its name), `label`, `tokens`, `method`, `typical`
        (median over the runs), `low`, `high` (range over the runs), `runs`, `more_is_better`, and
        `slowed` (True if other programs slowed runs of the suite down).

    Raises:
        SuiteError: If a folder is not that of a timed suite, or has no finished run of any method,
            or runs of a task that is not timed, or two suites measure the same.
    """
    kinds: dict[str, Results] = {}
    rows: list[dict[str, object]] = []
    for source in sources:
        results = source if isinstance(source, Results) else read_results(source)
        suite = results.suite
        if not suite.timed:
            raise SuiteError(
                f"{results.folder}: suite {suite.name!r} is not a timed suite. Costs must come "
                "from a timed suite, such as mechanism-speed"
            )
        earlier = kinds.setdefault(suite.timed, results)
        if earlier is not results:
            raise SuiteError(
                f"{results.folder}: measures {suite.timed} like {earlier.folder}. Time all methods "
                "in one suite, so that they are measured together"
            )
        own = [*_rows(results, methods)]
        if not own:
            timed = [str(method.name) for method in suite.methods()]
            raise SuiteError(
                f"{results.folder}: no finished run of a compared method. Compared: "
                f"{join_names(methods)}. Timed: {join_names(timed)}. Methods are matched by name: "
                "give them the same `name` in both suites, or finish the timed suite"
            )
        rows += own
    return pd.DataFrame(rows)


def _rows(results: Results, methods: Sequence[str]) -> Iterator[dict[str, object]]:
    suite = results.suite
    measures = MEASURES[suite.timed]
    runs = all_runs(results) if results.runs else _read(results.folder, measures)
    if runs.empty:
        return
    done = runs[(runs["status"] == "done") & runs["method"].isin(methods)]
    if unknown := [name for name in done["task"].unique() if name not in suite.tasks]:
        raise SuiteError(f"{results.folder}: suite {suite.name!r} has no task {unknown[0]!r}")
    slowed = any(load_warnings(done))
    for measure in measures if len(done) else ():
        for (task, method), own in done.groupby(["task", "method"], sort=False):
            values = own[measure.column].dropna() * measure.factor
            if len(values):
                yield {
                    "suite": suite.name,
                    "processor": " and ".join(map(str, own["processor"].dropna().unique())),
                    "measure": measure.name,
                    "label": measure.label,
                    "tokens": length_of(suite.find_task(str(task))),
                    "method": str(method),
                    "typical": float(values.median()),
                    "low": float(values.min()),
                    "high": float(values.max()),
                    "runs": len(values),
                    "more_is_better": measure.more_is_better,
                    "slowed": slowed,
                }


def _read(folder: Path, measures: Sequence[Measure]) -> pd.DataFrame:
    """Return the runs of a report on a timed suite; empty if it has none."""
    runs = read_runs(folder)
    if len(runs) and "processor" not in runs:
        raise SuiteError(f"{folder / 'runs.csv'}: must have a column 'processor'")
    for column in (measure.column for measure in measures if len(runs)):
        if column not in runs or runs[column].dtype.kind not in "if":
            raise SuiteError(f"{folder / 'runs.csv'}: must have numbers in column {column!r}")
    return runs


def collapsed_networks(scores: Scores, collapsed: pd.DataFrame) -> set[tuple[str, str]]:
    """Return the networks and methods with collapsed runs.

    Args:
        scores: The scores.
        collapsed: Result of `collapsed_runs`.
    """
    runs = zip(collapsed["task"], collapsed["method"], strict=True)
    return {(scores.network(task), method) for task, method in runs}


def mean_scores(scores: Scores, collapsed: pd.DataFrame) -> dict[str, dict[str, MeanScore]]:
    """Return mean scores with intervals over seeds, in the unit of the tables.

    Diagnostic tasks that the reference does not learn are left out, as in the verdicts.

    Args:
        scores: The scores.
        collapsed: Result of `collapsed_runs`; a mean with such a run has a range over seeds.

    Returns:
        "mean of N tasks" -> method -> mean, for the tasks that all methods have; task -> method ->
        mean if there is one task, or if units or directions differ.
    """
    unlearned = left_out(scores)
    common = {name: own for name, own in scores.common.items() if name not in unlearned}
    lost = collapsed_networks(scores, collapsed)
    if len(common) > 1 and scores.alike:
        title, methods = f"mean of {len(common)} tasks", next(iter(common.values()))
        return {
            title: {
                name: mean_of(
                    [own[name] for own in common.values()],
                    collapsed=any((network, name) in lost for network in common),
                )
                for name in methods
            }
        }
    networks = {
        name: own for name, own in scores.by_network.items() if own and name not in unlearned
    }
    return {
        task: {name: mean_of([own[name]], collapsed=(task, name) in lost) for name in own}
        for task, own in networks.items()
    }


def left_out(scores: Scores) -> list[str]:
    """Return the diagnostic tasks that the reference does not learn."""
    reference = scores.judged_against
    unlearned = [] if reference is None else not_learned(scores, reference)
    return [name for name in unlearned if name in scores.main_tasks]


def mean_of(samples: Sequence[Sequence[float]], *, collapsed: bool = False) -> MeanScore:
    """Return the mean over tasks of the means over seeds, with its interval over seeds.

    Args:
        samples: Scores of the seeds, by task. The degrees of freedom are Welch's.
        collapsed: If True, some runs learned nothing: a t interval covers the true mean too rarely,
            so the interval is the range over seeds. So it is if the scores do not vary.

    Example:
        >>> mean_of([[0.5, 0.75, 1.0], [0.25, 0.5, 0.75]], collapsed=True)
        MeanScore(value=0.625, low=0.375, high=0.875, kind='range over seeds')
    """
    mean, low, high = (
        float(np.mean([function(own) for own in samples])) for function in (np.mean, min, max)
    )
    if min(map(len, samples)) < 2:
        return MeanScore(mean, math.nan, math.nan, "")
    error, freedom = error_of_sum([np.asarray(own) for own in samples])
    if collapsed or not error:
        return MeanScore(mean, low, high, RANGE)
    half = float(stats.t.ppf((1 + _LEVEL) / 2, freedom)) * error / len(samples)
    return MeanScore(mean, mean - half, mean + half, CONFIDENCE)


def cheaper_and_no_worse(
    costs: pd.DataFrame, table: pd.DataFrame, reference: str
) -> list[str] | None:
    """Return the methods with a favorable verdict whose runs all cost less than the reference's.

    Args:
        costs: Rows of `read_costs` for one measure and length.
        table: Verdicts by method.
        reference: The reference.

    Returns:
        The methods; None if the cost of the reference was not measured.
    """
    good, rows = favorable(table), [*rows_of(costs)]
    of = next((row for row in rows if row.method == reference), None)
    if of is None:
        return None
    return [row.method for row in rows if row.method in good and _gain(row, of) > 0]


def favorable(table: pd.DataFrame) -> list[str]:
    """Return the methods with a favorable verdict, from a table of verdicts by method."""
    return [str(name) for name in table.index[table["verdict"].isin(FAVORABLE)]]


def _gain(row: Any, other: Any) -> float:
    """Return the gap by which the whole range of a row is better; negative if they overlap."""
    gap: float = row.low - other.high if row.more_is_better else other.low - row.high
    return gap
