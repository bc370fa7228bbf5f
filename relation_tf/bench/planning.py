"""Plan a suite before training: runs, hours and smallest possible p-values.

A few steps per epoch are timed on this machine: for every method on one task, and for one method on
every task. The time of the other pairs of task and method is estimated by proportion. The time of
finished runs replaces the estimate.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from relation_tf.bench import workers
from relation_tf.bench.options import OF_PLANS, accepts_options, make_options
from relation_tf.bench.results import read_result
from relation_tf.bench.run_folder import RunFolder
from relation_tf.bench.runner import find_faults, find_requested, folder_of, load, notes_of, refusal
from relation_tf.bench.sweeping import described, tuned_before, with_first_values
from relation_tf.bench.train import compile_network
from relation_tf.bench.workers import RunGroup, group_runs
from relation_tf.config import Method
from relation_tf.config.families import families_of
from relation_tf.config.run import RunConfig
from relation_tf.config.suite import Suite, select
from relation_tf.config.user_code import load_plugins
from relation_tf.errors import RelationError, SuiteError, UnknownNameError, one_line
from relation_tf.files import align
from relation_tf.registry import PROCEDURES, STOPPING_RULES
from relation_tf.stats import default_over_tasks, default_procedure, what_can_be_shown
from relation_tf.tasks.catalogue import find_task
from relation_tf.tasks.datasets import counted_once
from relation_tf.terminal import stderr_to
from relation_tf.training.session import LOG, start_tensorflow
from relation_tf.words import count, format_level, pvalue_only, two_digits

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
    """

    fewest: float
    most: float
    measured: bool
    compiling: float = 0.0
    compiled_once: bool = True


@dataclass(frozen=True, repr=False)
class SuitePlan:
    """Estimated cost of a suite.

    Attributes:
        suite: The suite.
        total: Number of requested runs.
        pending: Unfinished runs.
        costs: Time of a run by task and method.
        start: Seconds in which a process loads TensorFlow.
        jobs: Number of parallel runs.
        seeds: Number of requested seeds.
        notes: Notes of `run_suite` on the data, and the layers that it refuses.
    """

    suite: Suite
    total: int
    pending: Sequence[RunConfig]
    costs: Mapping[GroupKey, Cost]
    start: float
    jobs: int
    seeds: int
    notes: Sequence[str] = ()

    @property
    def hours(self) -> tuple[float, float]:
        """Hours for the pending runs, minimum and maximum."""
        return self._hours("fewest"), self._hours("most")

    def _hours(self, end: str) -> float:
        """Return the hours of the job that ends last."""
        if not self.pending:
            return 0.0
        jobs = [0.0] * min(self.jobs, len(self.pending))
        for runs in group_runs(self.suite, self.pending, self.jobs):
            cost = self.costs[runs[0].task, runs[0].method]
            compiling = cost.compiling * (1 if cost.compiled_once else len(runs))
            jobs[jobs.index(min(jobs))] += compiling + getattr(cost, end) * len(runs)
        return (self.start + max(jobs)) / 3600

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

    def _lines(self) -> Iterator[str]:
        methods, tasks, pending = self.methods, self.tasks, len(self.pending)
        yield (
            f"{self.suite.name}: {self.total} runs, {count(len(tasks), 'task')} x "
            f"{count(len(methods), 'method')}, {self.total - pending} done\n"
        )
        rows = [["seconds per run", *methods]]
        rows += [[task, *(self._group(task, method) for method in methods)] for task in tasks]
        yield from align(rows)
        if self.suite.timed:
            yield (
                "\nFrom one timed pass of each method and task, or from finished runs. Includes "
                "compilation."
            )
        else:
            yield (
                "\nRanges: from the minimum to the maximum number of epochs. ~: estimated from "
                "other tasks and methods."
            )
        if pending:
            jobs = f"{self.jobs} in parallel" if self.jobs > 1 else "one at a time"
            hours = _range(*map(_time, self.hours))
            yield (
                f"{hours} for {count(pending, 'run')}, {jobs}, with the start of TensorFlow, "
                "compilation, evaluation and predictions. Other load on this machine adds to it."
            )
        else:
            yield "All runs are done."
        yield from (*self.evidence, *self.notes)

    @property
    def evidence(self) -> list[str]:
        """Sentences on what the tests of the suite can show."""
        methods, num_tasks = self.methods, len(counted_once(self.tasks))
        if len(methods) < 2 or (self.seeds == 1 and num_tasks == 1):
            return []
        nothing = nothing_can_be_shown(self.suite, methods, self.seeds, num_tasks)
        shown = shown_by_design(self.suite, methods, self.seeds, num_tasks)
        return [*shown, *([] if nothing is None else [nothing])]

    def _group(self, task: str, method: str) -> str:
        cost = self.costs.get((task, method))
        if cost is None:
            return "-"
        return ("" if cost.measured else "~") + _range(_seconds(cost.fewest), _seconds(cost.most))


@accepts_options(OF_PLANS)
@workers.ends_workers
def plan_suite(
    suite: str | Path | Suite,
    out: str | Path | None = None,
    *,
    methods: str | Iterable[str] | None = None,
    tasks: str | Iterable[str] | None = None,
    seeds: int | Iterable[int] | None = None,
    settings: Mapping[str, Any] | None = None,
    replace_methods: Sequence[Method | Mapping[str, Any] | type | str] | None = None,
    **options: Any,
) -> SuitePlan:
    """Estimate the cost of `run_suite` with the same arguments, without training.

    Times a few steps of some methods and tasks on this machine, for some seconds each; the times of
    finished runs in the folder are used as they are. The encoded data is cached for the runs.

    Args:
        suite: See `run_suite`, also for the other arguments.
        out: The folder of the runs.
        methods: Names of methods or mechanisms, by default all.
        tasks: Names of the tasks, by default all.
        seeds: Seeds, by default all.
        settings: Suite keys to override.
        replace_methods: Methods to use instead of the suite's.
        **options: Fields of `RunOptions` that a plan depends on, such as `data` and `jobs`.

    Returns:
        A plan with runs, hours and smallest possible p-values; `print` shows it.

    Raises:
        SuiteError, DataError, TypeError: See `run_suite`.

    Example:
        >>> import tempfile
        >>> from relation_tf.bench import plan_suite
        >>> one = {"tasks": ["WNLI"], "methods": ["baseline-64"]}
        >>> plan = plan_suite("demo", tempfile.mkdtemp(), **one, quiet=True)
        >>> plan.total, plan.hours[0] < plan.hours[1]
        (5, True)
    """
    run_options = make_options(options, OF_PLANS)
    suite = load(suite, settings, replace_methods, run_options.plugins)
    folder = RunFolder(folder_of(suite, out))
    if suite.sweep is not None:
        suite = suite.model_copy(update={"tuned": tuned_before(folder.path)})
    runs = select(suite, tasks, methods, seeds)
    tuned = {(choice.task, choice.method) for choice in suite.tuned}
    untuned = [run for run in runs if suite.sweep and (run.task, run.method) not in tuned]
    notes = []
    if suite.sweep is not None and untuned:
        pairs = len({(run.task, run.method) for run in untuned})
        trained = len([*suite.sweep.combinations()]) * len(suite.sweep.seeds) * pairs
        notes = [
            f"before these runs: a sweep of {described(suite.sweep)}, which needs about "
            f"{two_digits(trained / len(runs))} times the time of all these runs"
        ]
        suite = with_first_values(suite, untuned)
        runs = select(suite, tasks, methods, seeds)
    requested = find_requested(suite, runs, run_options)
    pending = requested.pending(folder)
    refused = [
        f"`run` refuses method {name}: {refusal(faults)}"
        for name, faults in find_faults(pending, run_options).items()
        if faults
    ]
    group = RunGroup(runs, folder.path, run_options, suite.save_models)
    plan = make_plan(suite, requested.runs, pending, group)
    return replace(plan, notes=[*notes_of(requested, run_options), *refused, *notes])


def make_plan(
    suite: Suite, chosen: Sequence[RunConfig], pending: Sequence[RunConfig], group: RunGroup
) -> SuitePlan:
    """Time some pairs of task and method, and estimate the cost of all runs.

    Args:
        suite: The suite.
        chosen: The requested runs.
        pending: Unfinished runs.
        group: Folder and options of the runs.

    Raises:
        SuiteError, DataError: If a method cannot be built, a task cannot be read, or a finished
            run has a broken file.
    """
    groups = {(run.task, run.method): run for run in chosen}
    folder, unfinished = RunFolder(group.folder), {run.key for run in pending}
    done = [run for run in chosen if run.key not in unfinished]
    costs = _costs_of_runs(folder, done)
    left = {key: run for key, run in groups.items() if key not in costs}
    start, timed = _START, dict[GroupKey, _Timed]()
    if left:
        (task, method), *_ = left
        keys = [key for key in groups if task == key[0] or method == key[1]]
        keys = [*left] if suite.timed else keys
        runs = [groups[key] for key in keys]
        start, times = workers.call(_time_runs, group, runs, runs=runs, notify=group.options.say)
        timed = dict(zip(keys, times, strict=True))
        timed = {(task, method): timed[task, method]} | timed
    for key, run in left.items():
        time_of_run = by_proportion(timed, key)
        limit = run.time_limit if run.time_limit is not None else float("inf")
        fewest, most = (
            min(epochs * time_of_run.epoch, limit) + time_of_run.once for epochs in _epochs(run)
        )
        measured, compiling = key in timed, time_of_run.compiling
        costs[key] = Cost(fewest, most, measured, compiling, run.shares_network)
    return SuitePlan(
        suite,
        len(chosen),
        pending,
        {key: costs[key] for key in groups},
        start,
        group.options.jobs or 1,
        seeds=len({run.seed for run in chosen}),
    )


class _Timed(NamedTuple):
    epoch: float
    once: float  # seconds of a run apart from epochs
    compiling: float


def by_proportion(timed: Mapping[GroupKey, _Timed], key: GroupKey) -> _Timed:
    """Return the time of a task and a method, which is estimated if it is not timed.

    A method that takes twice as long as another on one task is assumed to take twice as long on
    all.

    Args:
        timed: Times of the first task with all methods, and of the first method on all tasks.
        key: The task and the method.

    Example:
        >>> timed = {("A", "x"): 2.0, ("A", "y"): 4.0, ("B", "x"): 10.0}
        >>> timed = {key: _Timed(seconds, seconds, 1.0) for key, seconds in timed.items()}
        >>> by_proportion(timed, ("B", "y")).epoch
        20.0
    """
    if key in timed:
        return timed[key]
    (task, method), *_ = timed
    of_task, of_method, first = timed[key[0], method], timed[task, key[1]], timed[task, method]
    epoch = of_task.epoch * of_method.epoch / first.epoch
    return _Timed(epoch, of_task.once * of_method.once / first.once, of_method.compiling)


def _time_runs(
    group: RunGroup, runs: Sequence[RunConfig], say: Callable[[str], None]
) -> tuple[float, list[_Timed]]:
    """Return the seconds in which a process starts TensorFlow, and the times of runs."""
    load_plugins(runs[0].plugins)
    loaded, began = "tensorflow" in sys.modules, time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / LOG
        start_tensorflow(log, runs[0].threads)
        start, times = _START if loaded else time.perf_counter() - began, []
        with stderr_to(log):
            for run in runs:
                say(f"timing {run.method} on {run.task}")
                times.append(_estimate(replace(group, folder=Path(folder)), run))
    return start, times


def _estimate(group: RunGroup, run: RunConfig) -> _Timed:
    try:
        trainer = compile_network(group, run)
        estimate = trainer.estimate()
    except UnknownNameError as error:  # an option of a layer
        raise SuiteError(f"method {run.method}: {error}") from error
    except RelationError:
        raise
    except Exception as error:  # a custom layer may raise anything
        raise SuiteError(f"method {run.method}: {one_line(error)}") from error
    compiling = 0.0 if find_task(run.entry).timed else trainer.compile_seconds
    # At least a microsecond: `by_proportion` divides.
    return _Timed(max(estimate.epoch, 1e-6), max(estimate.once, 1e-6), compiling)


def _costs_of_runs(folder: RunFolder, done: Sequence[RunConfig]) -> dict[GroupKey, Cost]:
    """Return the mean cost of the finished runs of each group."""
    groups: dict[GroupKey, list[RunConfig]] = {}
    for run in done:
        groups.setdefault((run.task, run.method), []).append(run)
    costs = {}
    for key, runs in groups.items():
        seconds = [read_result(folder.run(run))["seconds"] for run in runs]
        total, compiling = (
            fmean(spent[key] for spent in seconds) for key in ("total", "compilation")
        )
        if find_task(runs[0].entry).timed:  # compiling is part of the cost of each run
            total, compiling = total + compiling, 0.0
        costs[key] = Cost(total, total, True, compiling, runs[0].shares_network)
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
    if fewest == "< 1" != most:
        return f"up to {most}"
    return most if fewest == most else f"{fewest} to {most}"


def _time(hours: float) -> str:
    if hours < 1 / 60:
        return f"{_seconds(3600 * hours)} s"
    return f"{60 * hours:.0f} min" if hours < 2 else f"{hours:.1f} h"


def family_sizes(suite: Suite, methods: Collection[str]) -> list[int]:
    """Return the different numbers of methods that are compared with each other.

    Args:
        suite: The suite.
        methods: The requested methods.
    """
    families = [family.methods for family in families_of(suite, methods)] or [[*methods]]
    return sorted({len({*names} & {*methods}) for names in families} - {0})


def shown_by_design(
    suite: Suite, methods: Collection[str], num_seeds: int, num_tasks: int = 1
) -> Iterator[str]:
    """Yield what the tests of a suite can show, for each size of its families.

    Args:
        suite: The suite.
        methods: The requested methods.
        num_seeds: Number of seeds per method.
        num_tasks: Number of tasks; with several, also what the test over tasks can show.
    """
    for size in family_sizes(suite, methods):
        for test, options in _tests(suite, num_tasks).items() if size > 1 else ():
            if size < (least := PROCEDURES.find(test).least_methods):
                sentence = f"{size} methods: {test} needs at least {least}, so it is not used."
            else:
                sentence = what_can_be_shown(size, num_seeds, suite.alpha, test=test, **options)
            yield sentence if suite.families is None else f"In each family: {sentence}"


def nothing_can_be_shown(
    suite: Suite,
    methods: Collection[str] | None = None,
    num_seeds: int | None = None,
    num_tasks: int | None = None,
) -> str | None:
    """Return a sentence if no test of a suite can find a significant difference, else None.

    Verdicts against a reference or control use Welch's test, which has no smallest p.

    Args:
        suite: The suite.
        methods: The requested methods; by default all.
        num_seeds: Number of seeds per method; by default that of the suite.
        num_tasks: Number of tasks; by default that of the suite.

    Example:
        >>> from relation_tf.config import load_suite
        >>> nothing_can_be_shown(load_suite("glue-small")) is None
        True
        >>> print(nothing_can_be_shown(load_suite("glue-small", {"seeds": 1, "tasks": ["CoLA"]})))
        No difference can be significant (p < .05): the smallest possible p is 1.000.
    """
    methods = [str(method.name) for method in suite.methods()] if methods is None else methods
    num_seeds = len(suite.seeds) if num_seeds is None else num_seeds
    sizes = [size for size in family_sizes(suite, methods) if size > 1]
    judged = suite.reference is not None or suite.control is not None
    if not sizes or (judged and num_seeds > 1):
        return None
    smallest = 1.0
    for test, options in _tests(suite, num_tasks or len(counted_once(suite.tasks))).items():
        procedure = PROCEDURES.find(test)
        attainable = procedure.attainable_pvalue
        if attainable is None:
            return None
        over_tasks = options.get("num_tasks")
        number = (num_seeds,) if over_tasks is None else (over_tasks, num_seeds)
        if num_seeds > 1 or over_tasks is not None:
            enough = [size for size in sizes if size >= procedure.least_methods]
            smallest = min([smallest, *(attainable(size, *number) for size in enough)])
    if smallest < suite.alpha:
        return None
    level, least = format_level(suite.alpha), pvalue_only(smallest, suite.alpha)
    return f"No difference can be significant ({level}): the smallest possible p is {least}."


def suite_facts(suite: Suite) -> dict[str, Any]:
    """Return facts about a suite for lists of suites.

    `note` is a sentence if no test can find a significant difference, else None.

    Example:
        >>> from relation_tf.config import load_suite
        >>> facts = suite_facts(load_suite("demo"))
        >>> facts["runs"], facts["seeds"], facts["note"]
        (180, [1, 2, 3, 4, 5], None)
    """
    return {
        "title": suite.title,
        "runs": len(suite.runs()),
        "tasks": [*suite.tasks],
        "methods": [str(method.name) for method in suite.methods()],
        "seeds": [*suite.seeds],
        "note": nothing_can_be_shown(suite),
    }


def _tests(suite: Suite, num_tasks: int) -> dict[str, dict[str, int]]:
    """Return the tests of a suite, with the number of tasks of the one over tasks."""
    tests: dict[str, dict[str, int]] = {suite.test or default_procedure(suite.control): {}}
    if num_tasks > 1 and not suite.timed:
        over_tasks = suite.test_over_tasks or default_over_tasks(suite.control)
        tests[over_tasks] = {"num_tasks": num_tasks}
    return tests
