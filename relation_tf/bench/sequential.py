"""Run a suite with sequential seeds: add seeds at planned looks until every pair is decided.

This is independent of the executor: it runs the seeds of one look, judges all scores so far, and
runs the seeds that the next look needs. The scores alone determine each look, so an interrupted
command resumes with the same looks and verdicts. Does not import Keras.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from statistics import fmean

from relation_tf.bench.looks import (
    LOOKS,
    MAX_SEEDS,
    FamilyLooks,
    LookFamily,
    LookPlan,
    Looks,
    decided_pairs,
    read_looks,
)
from relation_tf.bench.options import RunOptions
from relation_tf.bench.results import read_result, run_score
from relation_tf.bench.run_folder import RunFolder, writing
from relation_tf.config.families import Family, families_of
from relation_tf.config.loading import load_suite
from relation_tf.config.run import RunConfig, RunKey
from relation_tf.config.suite import Suite
from relation_tf.errors import OptionError, SuiteError, join_names
from relation_tf.stats import look_schedule, sequential_design, sequential_test
from relation_tf.stats.sequential import DRAWS, SequentialDesign
from relation_tf.tasks.datasets import counted_once
from relation_tf.tasks.metrics import find_metric


def plan_looks(suite: Suite, options: RunOptions) -> Looks | None:
    """Return the looks of a suite before the first run; None unless options request them.

    Raises:
        SuiteError: If the suite cannot have sequential seeds.
    """
    if not options.until_decided:
        return None
    methods = [str(method.name) for method in suite.methods()]
    if suite.timed or len(methods) < 2:
        why = "trains nothing" if suite.timed else f"has one method, {methods[0]}"
        raise OptionError(
            "until_decided",
            f"needs a suite that trains two or more methods. Suite {suite.name} {why}",
        )
    if suite.alpha * (DRAWS + 1) < 1:
        raise OptionError(
            "until_decided",
            f"needs alpha of at least {1 / DRAWS:g}. Received: alpha = {suite.alpha:g}",
        )
    for name in suite.tasks:
        _direction(suite, name)
    most = options.max_seeds or MAX_SEEDS
    following = range(max(suite.seeds) + 1, max(suite.seeds) + 1 + most)
    plan = LookPlan(
        looks=list(look_schedule(most)),
        alpha=suite.alpha,
        families=[
            LookFamily(name=family.name, methods=[*family.methods], control=family.control)
            for family in families_of(suite) or [Family("", methods, suite.control)]
        ],
        tasks=[*counted_once(suite.tasks)],
        seeds=[*suite.seeds, *following][:most],
        draws=DRAWS,
    )
    return Looks.first(plan)


def with_seeds(suite: Suite, looks: Looks) -> Suite:
    """Return a suite with the seeds up to the last look."""
    return load_suite(suite, {"seeds": looks.plan.seeds})


def check_looks(folder: RunFolder, looks: Looks | None) -> None:
    """Check that a folder has the same plan, or no runs.

    Raises:
        SuiteError: If it was started with another plan, or with another kind of seeds.
    """
    found = read_looks(folder.path)
    if looks is None:
        if found is not None:
            raise SuiteError(
                f"{folder.path}: was started with --until-decided. Continue with --until-decided "
                f"--max-seeds {found.plan.looks[-1]} (in Python: until_decided=True), or choose "
                "another --out"
            )
        return
    if found is None:
        if any(folder.path.glob("runs/*/*/*/result.json")):
            raise SuiteError(
                f"{folder.path}: contains runs that were finished without --until-decided. "
                "--until-decided must not use them. Choose another --out"
            )
        return
    for key in LookPlan.model_fields:
        own, other = (each.plan.model_dump()[key] for each in (looks, found))
        if own != other:
            raise SuiteError(
                f"{folder.path / LOOKS}: the tests of --until-decided were planned with {key} = "
                f"{other}, but now {key} = {own}. Choose another --out"
            )


@dataclass(frozen=True)
class Outlook:
    """Looks of a suite before they are taken.

    Attributes:
        sentence: The looks and the first boundary.
        soonest: Runs in the best case: every pair is decided as soon as that is possible.
        latest: Runs in the worst case: every undecided pair needs all seeds.
    """

    sentence: str
    soonest: Sequence[RunConfig]
    latest: Sequence[RunConfig]


class SequentialRuns:
    """Runs of a suite with sequential seeds.

    Args:
        suite: The suite, with the seeds up to the last look.
        looks: The looks of `plan_looks`.
        runs: All runs up to the last look.
        folder: The suite's folder.
        done: Keys of the finished runs; files of other runs are read to check them.
    """

    def __init__(
        self,
        suite: Suite,
        looks: Looks,
        runs: Sequence[RunConfig],
        folder: RunFolder,
        done: Iterable[RunKey] = (),
    ) -> None:
        self._suite, self._runs, self._folder, self._first = suite, runs, folder, looks
        self._done = {*done}
        self.looks = read_looks(folder.path) or looks

    def due(self) -> list[RunConfig]:
        """Return the runs of all looks so far and of the next one."""
        return self.looks.requested(self._runs)

    def open(self) -> None:
        """Write the suite with the seeds so far, then the looks, into the folder.

        If a run of an early look is damaged, the finished seeds of later looks stay in the suite.
        """
        finished = [run for run in self._runs if self._folder.holds_result(run)]
        seeds = {run.seed for run in (*self.due(), *finished)}
        chosen = [seed for seed in self.looks.plan.seeds if seed in seeds]
        self._folder.open(self._suite.model_copy(update={"seeds": chosen}))
        with writing(self._folder.path):
            self.looks.write(self._folder.path)

    def _is_done(self, run: RunConfig) -> bool:
        """Return True if a run is finished or has diverged; its files are read once."""
        if run.key not in self._done and self._folder.is_done(run):
            self._done.add(run.key)
        return run.key in self._done

    def judge(self) -> Iterator[str]:
        """Take all looks that the finished runs allow; yield a line for each new look."""
        before, plan = self.looks, self.looks.plan
        states = [self._state(number) for number in range(len(plan.families))]
        self.looks = before.model_copy(update={"states": states})
        for family, state, old in zip(plan.families, states, before.states, strict=True):
            of = f"{family.name}, " if family.name else ""
            decided = sum(look.decided for look in state.looks[: len(old.looks)])
            for look in state.looks[len(old.looks) :]:
                decided += look.decided
                yield (
                    f"{of}look after {look.seeds} seeds: {decided_pairs(decided, len(state.pairs))}"
                )

    def _state(self, number: int) -> FamilyLooks:
        """Return the state of a family after all looks that its finished runs allow."""
        plan, family = self.looks.plan, self.looks.plan.families[number]
        samples = self._samples(family.methods)
        if min(len(own) for task in samples.values() for own in task.values()) < plan.looks[0]:
            return self._first.states[number]
        result = sequential_test(
            samples,
            plan.looks,
            plan.alpha,
            control=family.control,
            higher_is_better={name: _direction(self._suite, name) for name in plan.tasks},
            draws=plan.draws,
            rng=plan.rng,
        )
        return FamilyLooks.of(result)

    def start(self, say: Callable[[str], None]) -> list[RunConfig]:
        """Judge the finished runs and return the pending runs of the next look.

        Args:
            say: Called with a line for each new look.
        """
        for line in self.judge():
            say(line)
        self.open()
        return [run for run in self.due() if not self._is_done(run)]

    def following(self, say: Callable[[str], None]) -> list[RunConfig]:
        """Return `start` after a round; empty if runs of the round failed.

        Args:
            say: Called with a line for each new look.
        """
        if failed := [run for run in self.due() if not self._is_done(run)]:
            say(f"the next look needs the runs that failed: {join_names([*map(str, failed)])}")
            return []
        return self.start(say)

    def outlook(self) -> Outlook:
        """Return the design in words, and the runs of the best case."""
        plan = self.looks.plan
        designs = [self._design(family) for family in plan.families]
        firsts = [min(own.first_decisive or own.looks[-1], own.first_given_up) for own in designs]

        def at_least(seeds: Sequence[int]) -> list[RunConfig]:
            states = [
                state.model_copy(
                    update={"due": {name: max(due, least) for name, due in state.due.items()}}
                )
                for state, least in zip(self.looks.states, seeds, strict=True)
            ]
            return self.looks.model_copy(update={"states": states}).requested(self._runs)

        said = [
            f"{f'{family.name}: ' if family.name else ''}{_in_words(own)}"
            for family, own in zip(plan.families, designs, strict=True)
        ]
        latest = at_least([plan.looks[-1]] * len(designs))
        return Outlook("\n".join(said), at_least(firsts), latest)

    def _design(self, family: LookFamily) -> SequentialDesign:
        plan = self.looks.plan
        return sequential_design(
            len(family.methods),
            plan.looks,
            len(plan.tasks),
            plan.alpha,
            against_control=family.control is not None,
            draws=plan.draws,
            rng=plan.rng,
        )

    def _samples(self, methods: Sequence[str]) -> dict[str, dict[str, list[float]]]:
        """Return the scores of each task and method, in the order of the seeds, without gaps."""
        runs = {run.key: run for run in self._runs}
        plan = self.looks.plan

        def score(run: RunConfig) -> float:
            if not self._folder.holds_result(run):
                return math.nan  # it has diverged
            metrics = read_result(self._folder.run(run))["metrics"]
            return run_score(self._suite.find_task(run.task), metrics)

        def scores(tasks: Sequence[str], method: str) -> list[float]:
            seeds = [[runs[task, method, seed] for task in tasks] for seed in plan.seeds]
            done = takewhile(lambda own: all(map(self._is_done, own)), seeds)
            return [fmean(map(score, own)) for own in done]

        counted = counted_once(self._suite.tasks).items()
        return {name: {method: scores(own, method) for method in methods} for name, own in counted}


def _in_words(design: SequentialDesign) -> str:
    *most, last = design.looks
    when = f"{', '.join(map(str, most))} and {last}" if most else f"{last}"
    first = design.first_decisive
    reach = (
        "no pair can be significant: use more seeds or fewer methods"
        if first is None
        else f"a pair can be significant after {first} seeds at the earliest"
    )
    return (
        f"Planned looks (interim tests): after {when} seeds; the first boundary is "
        f"|Z| > {design.boundary():.2f}; {reach}."
    )


def _direction(suite: Suite, name: str) -> bool:
    """Return True if higher scores of a task's runs are better.

    Raises:
        SuiteError: If a run has scores of different units.
    """
    task = suite.find_task(name)
    metrics = [find_metric(task.of(each).metrics[0]) for each in task.scored]
    if len({(metric.points, metric.higher_is_better) for metric in metrics}) > 1:
        raise OptionError(
            "until_decided",
            f"needs scores of one unit from each run. {name} has "
            f"{join_names([metric.label for metric in metrics])}",
        )
    return metrics[0].higher_is_better
