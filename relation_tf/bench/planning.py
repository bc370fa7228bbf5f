"""Plan a suite before training: runs, hours, disk space and smallest possible p-values.

A few steps per epoch are timed on this machine: for every method on one task, and for one method on
every task. The time of the other pairs of task and method is estimated by proportion. The time of
finished runs replaces the estimate.
"""

from __future__ import annotations

import math
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, variance
from typing import Any

import numpy as np

from relation_tf.bench import workers
from relation_tf.bench.checksums import FILES
from relation_tf.bench.evidence import family_sizes, nothing_can_be_shown, shown_by_design
from relation_tf.bench.results import read_result, run_score
from relation_tf.bench.run_folder import RunFolder
from relation_tf.bench.train import RunGroup, compile_network, group_runs
from relation_tf.config.plugins import load_plugins
from relation_tf.config.published import load_published
from relation_tf.config.run import RunConfig
from relation_tf.config.suite import Suite
from relation_tf.errors import RelationError, SuiteError, one_line
from relation_tf.files import align
from relation_tf.quiet import stderr_to
from relation_tf.registry import STOPPING_RULES
from relation_tf.stats import what_margin_can_be_shown
from relation_tf.tasks.catalogue import find_task
from relation_tf.tasks.datasets import counted_once
from relation_tf.tasks.metrics import find_metric
from relation_tf.training.session import LOG, start_tensorflow, uses_gpu
from relation_tf.words import count

_FILES = 8_000  # bytes of a run's files without predictions and model
_LEAST_SHARE = 0.8  # of the processor, as in reports
_START = 7.0  # seconds in which a process loads TensorFlow, if this one has loaded it already

GroupKey = tuple[str, str]  # task and method


@dataclass(frozen=True)
class Cost:
    """Time of a run.

    Attributes:
        fewest: Seconds for the minimum number of epochs.
        most: Seconds for the maximum number of epochs.
        measured: If True, from finished runs or a timed epoch; if False, by proportion.
        compiling: Seconds for building and compiling its network.
        compiled_once: If True, all seeds share the compiled network.
        bytes: Size of its files.
    """

    fewest: float
    most: float
    measured: bool
    compiling: float = 0.0
    compiled_once: bool = True
    bytes: float = 0.0


@dataclass(frozen=True, repr=False)
class SuitePlan:
    """Estimated cost of a suite.

    Attributes:
        suite: The suite.
        total: Number of requested runs.
        pending: Unfinished runs.
        costs: Time of a run by task and method.
        start: Seconds in which a process loads TensorFlow.
        bytes: Size of the files of the pending runs.
        jobs: Number of parallel runs.
        seeds: Number of requested seeds.
        spread: Standard deviations over seeds, for a suite with a reference.
        processor_share: Share of the timed seconds in which this process had the processor; None if
            nothing was timed, or on a GPU.
        notes: Notes of `run_suite` on the data, and the layers that it refuses.
    """

    suite: Suite
    total: int
    pending: Sequence[RunConfig]
    costs: Mapping[GroupKey, Cost]
    start: float
    bytes: int
    jobs: int
    seeds: int
    spread: ExpectedSpread | None = None
    processor_share: float | None = None
    notes: Sequence[str] = ()

    @property
    def hours(self) -> tuple[float, float]:
        """Hours for the pending runs, minimum and maximum."""
        return self._hours("fewest"), self._hours("most")

    def _hours(self, end: str) -> float:
        return (self.start + sum(self._longest(end))) / 3600 if self.pending else 0.0

    def _longest(self, end: str = "most") -> tuple[float, float]:
        """Return the seconds for compiling and for the runs, of the job that ends last."""
        jobs = [(0.0, 0.0)] * min(self.jobs, max(1, len(self.pending)))
        for runs in group_runs(self.suite, self.pending, self.jobs):
            cost = self.costs[runs[0].task, runs[0].method]
            first = min(range(len(jobs)), key=lambda job: sum(jobs[job]))
            compiling, running = jobs[first]
            compiling += cost.compiling * (1 if cost.compiled_once else len(runs))
            jobs[first] = compiling, running + getattr(cost, end) * len(runs)
        return max(jobs, key=sum)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    __repr__ = __str__

    @property
    def methods(self) -> list[str]:
        """Names of the requested methods."""
        return [*dict.fromkeys(method for _, method in self.costs)]

    @property
    def tasks(self) -> list[str]:
        """Names of the requested tasks."""
        return [*dict.fromkeys(task for task, _ in self.costs)]

    def to_dict(self) -> dict[str, Any]:
        """Return the content of `relation-tf plan --json`."""
        fewest, most = self.hours
        return {
            "suite": self.suite.name,
            "requested": self.total,
            "done": self.total - len(self.pending),
            "pending": len(self.pending),
            "hours": {"fewest": fewest, "most": most},
            "bytes": self.bytes,
            "jobs": self.jobs,
            "seeds": self.seeds,
            "start_seconds": self.start,
            "processor_share": self.processor_share,
            "groups": [
                {
                    "task": task,
                    "method": method,
                    "seconds": {"fewest": cost.fewest, "most": cost.most},
                    "compile_seconds": cost.compiling,
                    "measured": cost.measured,
                }
                for (task, method), cost in self.costs.items()
            ],
            "evidence": [*self._evidence()],
            "notes": [*self.notes],
        }

    def _lines(self) -> list[str]:
        methods, tasks = self.methods, self.tasks
        done = self.total - len(self.pending)
        lines = [
            f"{self.suite.name}: {self.total} runs, {count(len(tasks), 'task')} x "
            f"{count(len(methods), 'method')}, {done} done",
            "",
        ]
        rows = [["seconds per run", *methods]]
        rows += [[task, *(self._group(task, method) for method in methods)] for task in tasks]
        lines += align(rows)
        fewest, most = self.hours
        jobs = f"{self.jobs} in parallel" if self.jobs > 1 else "one at a time"
        lines += [
            "",
            "From one timed pass of each method and task, or from finished runs. Includes "
            "compilation."
            if self.suite.timed
            else "Ranges: from the minimum to the maximum number of epochs. ~: estimated from "
            "other tasks and methods.",
            f"{_range(_time(fewest), _time(most))} for {count(len(self.pending), 'run')}, {jobs}; "
            f"{self.bytes / 1e6:,.0f} MB of disk."
            if self.pending
            else "All runs are done.",
            *self._included(),
        ]
        return [*lines, *self._evidence(), *self.notes]

    def _evidence(self) -> Iterator[str]:
        """Yield what the tests of the suite can show."""
        methods, num_tasks = self.methods, len(counted_once(self.tasks))
        if len(methods) > 1 and (self.seeds > 1 or num_tasks > 1):
            yield from shown_by_design(self.suite, methods, self.seeds, num_tasks)
            nothing = nothing_can_be_shown(self.suite, methods, self.seeds, num_tasks)
            yield from [] if nothing is None else [nothing]
            largest = max(family_sizes(self.suite, methods))
            if self.spread is not None and largest > 1 and self.seeds > 1:
                yield self._margin(self.spread, largest)

    def _included(self) -> Iterator[str]:
        """Yield what the hours include."""
        if self.pending and not self.suite.timed:
            groups = {(run.task, run.method) for run in self.pending}
            each = " (custom layers and transfer: for each seed)"
            again = not all(self.costs[group].compiled_once for group in groups)
            yield (
                f"Included: {_seconds(self.start)} s to start TensorFlow, "
                f"{_seconds(self._longest()[0])} s to compile networks"
                f"{each if again else ''}, and the time of evaluation and predictions. Not "
                "included: the report, and delays by other load on this machine."
            )
            share = self.processor_share
            if share is not None and share < _LEAST_SHARE:
                fewest, most = (_time(hours / share) for hours in self.hours)
                expected = fewest if fewest == most else f"{fewest} to {most}"
                yield (
                    f"Other programs used the processor: the timed steps got {share:.0%} of it. "
                    f"If they continue, expect about {expected}."
                )

    def _margin(self, spread: ExpectedSpread, num_methods: int) -> str:
        """Return the margin that these seeds can show."""
        known = spread.unit != "SD"
        said = what_margin_can_be_shown(
            num_methods,
            self.seeds,
            _mean_margin(self.suite, self.tasks) if known else None,
            spread.sds,
            alpha=self.suite.alpha,
            unit=spread.unit,
        )
        return f"{said} SD over seeds: {spread.origin}."

    def _group(self, task: str, method: str) -> str:
        cost = self.costs.get((task, method))
        if cost is None:
            return "-"
        mark = "" if cost.measured else "~"
        fewest, most = _seconds(cost.fewest), _seconds(cost.most)
        if fewest == "< 1" != most:
            return f"{mark}up to {most}"
        return mark + _range(fewest, most)


def make_plan(
    suite: Suite,
    chosen: Sequence[RunConfig],
    pending: Sequence[RunConfig],
    whole: RunGroup,
    say: Callable[[str], None] = lambda line: None,
) -> SuitePlan:
    """Time some pairs of task and method, and estimate the cost of all runs.

    Args:
        suite: The suite.
        chosen: The requested runs.
        pending: Unfinished runs.
        whole: Folder and options of the runs.
        say: Called with a line for each pair that is timed.

    Raises:
        SuiteError, DataError: If a method cannot be built, a task cannot be read, or a finished
            run has a broken file.
    """
    groups = {(run.task, run.method): run for run in chosen}
    folder, left_out = RunFolder(whole.folder), {run.key for run in pending}
    done = [run for run in chosen if run.key not in left_out]
    costs = _costs_of_runs(folder, done)
    left = {key: run for key, run in groups.items() if key not in costs}
    start, timed = _START, dict[GroupKey, _Timed]()
    if left:
        keys = list(left) if suite.timed else _to_time(list(left))
        runs = [left[key] for key in keys]
        start, times = workers.call(_time_groups, whole, runs, runs=runs, notify=say)
        timed = dict(zip(keys, times, strict=True))
    seconds = by_proportion({key: each.epoch for key, each in timed.items()}, list(left))
    once = by_proportion({key: each.once for key, each in timed.items()}, list(left))
    written = by_proportion({key: each.written for key, each in timed.items()}, list(left))
    for key, run in left.items():
        # A method is timed on at least one task.
        own = timed.get(key) or next(timed[task, name] for task, name in timed if name == key[1])
        fewest, most = _epochs(run)
        limit = run.time_limit if run.time_limit is not None else float("inf")
        costs[key] = Cost(
            min(fewest * seconds[key], limit) + once[key],
            min(most * seconds[key], limit) + once[key],
            measured=key in timed,
            compiling=own.compiling,
            compiled_once=run.shares_network,
            bytes=written[key],
        )
    return SuitePlan(
        suite,
        len(chosen),
        pending,
        {key: costs[key] for key in groups},
        start,
        round(sum(costs[run.task, run.method].bytes for run in pending)),
        whole.options.jobs or 1,
        seeds=len({run.seed for run in chosen}),
        spread=_spread(suite, folder, chosen, done),
        processor_share=_share(timed.values()),
    )


def _share(timed: Collection[_Timed]) -> float | None:
    wall = sum(each.wall for each in timed)
    cpu = sum(each.cpu for each in timed)
    return cpu / wall if cpu and wall else None


def _spread(
    suite: Suite, folder: RunFolder, chosen: Sequence[RunConfig], done: Sequence[RunConfig]
) -> ExpectedSpread | None:
    judged = suite.reference is not None or suite.control is not None
    return expected_spread(suite, folder, chosen, done) if judged else None


def _mean_margin(suite: Suite, tasks: Collection[str]) -> float | None:
    """Return the margin of the mean over the requested tasks."""
    if suite.margin is None:
        return None
    return float(np.mean([suite.setting(task, "margin") for task in tasks]))


def by_proportion(
    timed: Mapping[GroupKey, float], groups: Sequence[GroupKey]
) -> dict[GroupKey, float]:
    """Estimate the seconds of all groups from the seconds of some; nothing without any.

    Least squares on log(seconds) = task + method: a method that takes twice as long as another on
    one task is assumed to take twice as long on all.

    Example:
        >>> timed = {("A", "x"): 2.0, ("A", "y"): 4.0, ("B", "x"): 10.0}
        >>> round(by_proportion(timed, [*timed, ("B", "y")])["B", "y"], 6)
        20.0
    """
    tasks = {task: i for i, task in enumerate(dict.fromkeys(task for task, _ in groups))}
    methods = {name: i for i, name in enumerate(dict.fromkeys(name for _, name in groups))}

    def rows(of: Iterable[GroupKey]) -> np.ndarray:
        """Return a row of indicators for each group."""
        of_task, of_method = np.eye(len(tasks)), np.eye(len(methods))
        return np.array([[*of_task[tasks[t]], *of_method[methods[m]]] for t, m in of])

    if not timed:
        return {}
    logarithms = np.log([*timed.values()])
    parts = np.linalg.lstsq(rows(timed), logarithms, rcond=None)[0]
    found = np.exp(rows(groups) @ parts).tolist()
    return {**dict(zip(groups, found, strict=True)), **timed}


def _to_time(groups: Sequence[GroupKey]) -> list[GroupKey]:
    """Return the groups to time: as few as connect all tasks and methods that groups connect."""
    chosen: list[GroupKey] = []
    parts: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for task, method in groups:
        own, other = (parts.setdefault(n, {n}) for n in (("task", task), ("method", method)))
        if own is not other:
            chosen.append((task, method))
            own |= other
            parts |= dict.fromkeys(own, own)
    return chosen


@dataclass(frozen=True)
class _Timed:
    epoch: float
    once: float  # seconds of a run apart from epochs
    compiling: float
    written: int  # bytes of the files of a run
    cpu: float = 0.0  # seconds of the processor while it was timed
    wall: float = 0.0  # and of the clock; 0 on a GPU


def _time_groups(
    whole: RunGroup, runs: Sequence[RunConfig], say: Callable[[str], None]
) -> tuple[float, list[_Timed]]:
    """Return the seconds in which a process starts TensorFlow, and the times of runs."""
    load_plugins(runs[0].plugins)
    loaded, began = "tensorflow" in sys.modules, time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / LOG
        start_tensorflow(log, runs[0].threads, whole.options.distribution)
        start, times = _START if loaded else time.perf_counter() - began, []
        with stderr_to(log):
            for run in runs:
                say(f"timing {run.method} on {run.task}")
                times.append(_time_group(replace(whole, runs=[run], folder=Path(folder)), run))
    return start, times


def _time_group(group: RunGroup, run: RunConfig) -> _Timed:
    try:
        trainer = compile_network(group, run)
        wall, cpu = time.perf_counter(), time.process_time()
        found = trainer.estimate()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    except RelationError:
        raise
    except Exception as error:  # a custom layer may raise anything
        raise SuiteError(f"method {run.method}: {one_line(error)}") from error
    compiling = 0.0 if find_task(run.entry).timed else trainer.compile_seconds
    # The processor waits for a GPU.
    cpu, wall = (0.0, 0.0) if uses_gpu() else (cpu, wall)
    # Without other load: a slowed sample would scale the estimates of a whole row or column.
    share = min(1.0, cpu / wall) if cpu and wall else 1.0
    # At least a microsecond: `by_proportion` uses logarithms.
    epoch, once = (max(share * each, 1e-6) for each in (found.epoch, found.once))
    written = _FILES + found.prediction_bytes
    if group.save_models:
        written += 4 * trainer.model.count_params()
    return _Timed(epoch, once, compiling, written, cpu, wall)


def _costs_of_runs(folder: RunFolder, done: Sequence[RunConfig]) -> dict[GroupKey, Cost]:
    """Return the mean cost of the finished runs of each group."""
    groups: dict[GroupKey, list[RunConfig]] = {}
    for run in done:
        groups.setdefault((run.task, run.method), []).append(run)
    costs = {}
    for key, runs in groups.items():
        results = [read_result(folder.run(run)) for run in runs]
        total, compiling = (
            float(np.mean([each["seconds"][name] for each in results]))
            for name in ("total", "compilation")
        )
        files = [each.get(FILES, {}).values() for each in results]  # none before checksums
        written = np.mean([sum(file["bytes"] for file in own) for own in files])
        if find_task(runs[0].entry).timed:  # compiling is part of the cost of each run
            total, compiling = total + compiling, 0.0
        shared = runs[0].shares_network
        costs[key] = Cost(total, total, True, compiling, shared, float(written))
    return costs


def _epochs(run: RunConfig) -> tuple[int, int]:
    """Return the minimum and maximum number of epochs of a run; a timed task counts as one."""
    if find_task(run.entry).timed:
        return 1, 1
    fewest = STOPPING_RULES.find(run.stopping).fewest_epochs(run)
    return min(fewest, run.epochs), run.epochs


def _seconds(value: float) -> str:
    return "< 1" if 0 < value < 1 else f"{value:,.0f}"


def _range(fewest: str, most: str) -> str:
    return most if fewest == most else f"{fewest} to {most}"


def _time(hours: float) -> str:
    if hours < 1 / 60:
        return f"{_seconds(3600 * hours)} s"
    return f"{60 * hours:.0f} min" if hours < 2 else f"{hours:.1f} h"


@dataclass(frozen=True)
class ExpectedSpread:
    """Standard deviation over seeds of each requested task of a suite.

    Attributes:
        sds: A number for each trained task, in the unit of the tables, or in standard deviations.
        unit: `"points"`, `"SD"` if nothing is known, or empty for another unit.
        origin: Source of the numbers.
    """

    sds: Sequence[float]
    unit: str
    origin: str


def expected_spread(
    suite: Suite, folder: RunFolder, runs: Sequence[RunConfig], done: Sequence[RunConfig]
) -> ExpectedSpread:
    """Return the standard deviations of finished runs, else of published figures.

    Without one for each task, the result is one standard deviation per task; for tasks with
    different units, it is that of one task. Tasks that count once have the mean of theirs.

    Args:
        suite: The suite.
        folder: Its folder.
        runs: The requested runs.
        done: The finished ones.

    Raises:
        SuiteError: If a file of a finished run is broken.
    """
    metrics = [find_metric(task.metrics[0]) for task in suite.learned()]
    alike = len({(metric.points, metric.higher_is_better) for metric in metrics}) == 1
    if suite.timed or not alike:
        return ExpectedSpread([1.0], "SD", "unknown, so the unit is the SD over seeds on one task")
    points = metrics[0].points
    unit = "points" if points == 100 else ""
    tasks = [*dict.fromkeys(run.task for run in runs)]
    counted = counted_once(tasks).values()
    for sds, origin in (
        (_of_runs(folder, done, points), f"of {len(done)} finished runs"),
        (_published(suite), "published"),
    ):
        if sds.keys() >= {*tasks} and any(sds[task] for task in tasks):
            own = [fmean(sds[task] for task in each) for each in counted]
            return ExpectedSpread(own, unit, origin)
    return ExpectedSpread([1.0] * len(counted), "SD", "unknown, so the unit is the SD over seeds")


def _of_runs(folder: RunFolder, runs: Sequence[RunConfig], points: float) -> dict[str, float]:
    """Return the pooled standard deviation of each task; a network has one score."""
    scores: dict[str, dict[str, list[float]]] = {}
    for run in runs:
        metrics = read_result(folder.run(run))["metrics"]
        own = scores.setdefault(run.task, {}).setdefault(run.method, [])
        own.append(points * run_score(find_task(run.entry), metrics))
    variances = {
        task: [variance(own) for own in methods.values() if len(own) > 1]
        for task, methods in scores.items()
    }
    return {task: math.sqrt(fmean(own)) for task, own in variances.items() if own}


def _published(suite: Suite) -> dict[str, float]:
    """Return the pooled published standard deviation of each task, the mean of several scores."""
    if suite.published is None:
        return {}
    own = {(name, method.units) for method in suite.methods()
           for name in (method.name, method.mechanism)}  # fmt: skip
    figures = [
        figure
        for figure in load_published(suite.published).figure
        if any(figure.method == name and figure.units in (None, units) for name, units in own)
    ]

    def of_task(task: str) -> Iterator[float]:
        for scored in suite.find_task(task).scored:
            metrics = suite.find_task(task).of(scored).metrics
            squares = [
                figure.sd**2
                for figure in figures
                if figure.task == scored and figure.metric in metrics and figure.sd is not None
            ]
            if squares:
                yield math.sqrt(fmean(squares))

    found = {task: [*of_task(task)] for task in suite.tasks}
    return {task: fmean(own) for task, own in found.items() if own}
