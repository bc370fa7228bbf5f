"""Scores of methods on tasks, one per seed: the data of a comparison."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from glue_submit import TASKS as GLUE_TASKS
from glue_submit import glue_average
from relation_tf.config.families import Family
from relation_tf.errors import join_names
from relation_tf.registry import PROCEDURES, TASKS, Procedure
from relation_tf.stats import default_over_tasks, default_procedure
from relation_tf.stats.directions import Direction, state_directions, unlike_units
from relation_tf.stats.samples import Replicate
from relation_tf.tasks.datasets import GLUE, counted_as
from relation_tf.words import GLUE_AVERAGE

if TYPE_CHECKING:
    from relation_tf.config.suite import Suite

KEY = ["task", "method", "seed"]
"""Columns that name a score."""

SCORE = "score"
"""Metric of a score that is no single known metric."""


def _registered_networks() -> dict[str, str]:
    """Return the trained task of each score name of the registered tasks; one for MNLI."""
    return {name: counted_as(x.task.name) for x in TASKS.values() for name in x.task.scored}


@dataclass(frozen=True)
class Scores:
    """One score for each task, method and seed.

    Attributes:
        table: Columns `task`, `method`, `seed` and `score`.
        methods: The methods in display order.
        tasks: The tasks in display order; averages come last.
        seeds: Number of requested seeds per method.
        averages: Tasks that are averages over the other tasks.
        directions: Direction of each task; averages have that of their tasks.
        control: Method to compare all others with; by default all pairs are compared.
        same_unit: If True, all tasks are declared to have one unit.
        replicate: What the column `seed` has. The scores of a fold or item are pairs.
        means: If True, scores of a table are means of several scores.
        in_points: If True, scores are fractions and a page shows them times 100.
        points: Other display factors by task, for metrics in other units.
        of_tables: Tasks of tables, which do not name the units of their scores.
        alpha: Level of the tests.
        metrics: Metrics of each task, if a table names them; a score is their mean.
        timed: If True, nothing was trained and the scores are speeds.
        test: Statistical procedure, by default Steel-Dwass, or Steel's test with a control.
        test_over_tasks: Procedure over tasks, by default stratified Steel-Dwass or Steel.
        test_share: Share of the test rows of a fold, if it is given.
        reference: Method to judge the others against; by default the control.
        reference_declared: If True, the suites of the runs declare reference and margin.
        margin: Largest acceptable score decrease from it, in the unit of a page.
        margins: Margins of single tasks.
        families: Families of methods that are compared separately; by default all are one family.
        networks: Name of the trained network of each task that shares it with another task, such as
            MNLI for MNLI-m and MNLI-mm, or the name of a group. Such tasks count once over tasks,
            and so do MNLI-m and MNLI-mm of two networks.
        artificial: If True, the text is generated: tasks with the names of GLUE tasks have no GLUE
            average.
        splits: Split of the scores of each task, such as "dev", if it is known.
    """

    table: pd.DataFrame
    methods: Sequence[str]
    tasks: Sequence[str]
    seeds: int
    averages: Sequence[str] = ()
    directions: Mapping[str, Direction] = field(default_factory=dict)
    control: str | None = None
    replicate: Replicate = "seed"
    same_unit: bool = False
    means: bool = False
    in_points: bool = False
    alpha: float = 0.05
    metrics: Mapping[str, Sequence[str]] = field(default_factory=dict)
    timed: bool = False
    points: Mapping[str, float] = field(default_factory=dict)
    of_tables: Collection[str] = ()
    test: str | None = None
    test_over_tasks: str | None = None
    test_share: float | None = None
    reference: str | None = None
    reference_declared: bool = False
    margin: float | None = None
    margins: Mapping[str, float] = field(default_factory=dict)
    families: Sequence[Family] = ()
    networks: Mapping[str, str] = field(default_factory=_registered_networks)
    splits: Mapping[str, str] = field(default_factory=dict)
    artificial: bool = False

    def only(self, family: Family) -> Self:
        """Return the scores of a family."""
        return replace(
            self,
            table=self.table[self.table["method"].isin(family.methods)],
            methods=[name for name in self.methods if name in family.methods],
            control=family.control,
            reference=family.reference,
            families=(),
        )

    @property
    def single_tasks(self) -> list[str]:
        """The tasks without the averages."""
        return [task for task in self.tasks if task not in self.averages]

    @cached_property
    def diagnostics(self) -> list[str]:
        """Diagnostic sets, such as AX: they are tested, but in no average and no test over tasks.

        Empty if there are no other tasks.
        """
        known = {name for registered in TASKS.values() for name in registered.task.diagnostics}
        diagnostics = [task for task in self.single_tasks if task in known]
        return diagnostics if len(diagnostics) < len(self.single_tasks) else []

    @property
    def main_tasks(self) -> list[str]:
        """The tasks without the averages and the diagnostic sets."""
        return [task for task in self.single_tasks if task not in self.diagnostics]

    @property
    def diagnostics_remark(self) -> str:
        """Sentence on the diagnostic sets, or empty."""
        names = join_names(self.diagnostics)
        return names and (
            f"Diagnostic sets ({names}) are tested separately: no average and no result over "
            "tasks includes them."
        )

    @cached_property
    def shared(self) -> dict[str, list[str]]:
        """Tasks that count once over tasks, by the network that they share or MNLI."""
        by_network: dict[str, list[str]] = {}
        for task in self.main_tasks:
            by_network.setdefault(counted_as(self.networks.get(task, task)), []).append(task)
        return {network: tasks for network, tasks in by_network.items() if len(tasks) > 1}

    def lacking_tasks(self) -> dict[str, list[str]]:
        """Return the tasks without scores of each method that has scores on others only."""
        known: dict[str, set[str]] = {}
        for task, name in self.table[["task", "method"]].drop_duplicates().to_numpy().tolist():
            known.setdefault(name, set()).add(task)
        lacking = {
            name: [task for task in self.main_tasks if task not in known[name]]
            for name in self.methods
            if name in known
        }
        return {name: tasks for name, tasks in lacking.items() if tasks}

    @cached_property
    def lower_is_better(self) -> frozenset[str]:
        """Tasks where lower scores are better."""
        return frozenset(task for task, x in self.directions.items() if not x.higher_is_better)

    @property
    def stated_directions(self) -> str:
        """Sentences on the direction of each task and its origin; empty if there are no tasks."""
        known = {x: self.directions[x] for x in self.single_tasks if x in self.directions}
        return f"{state_directions(known)}." if known else ""

    def arrow(self, task: str) -> str:
        """Return an arrow to the better scores of a task; empty if higher is better for all."""
        if not self.lower_is_better:
            return ""
        return " ↓" if task in self.lower_is_better else " ↑"

    def with_arrow(self, task: str) -> str:
        """Return the name of a task with its arrow."""
        return f"{task}{self.arrow(task)}"

    @property
    def direction_remark(self) -> str:
        """Sentence on the sign of differences of two methods where lower is better, or empty."""
        lower = ", ".join(task for task in self.tasks if task in self.lower_is_better)
        return lower and (
            f" Lower is better on {lower}: there, a positive value means that the second method is "
            "worse."
        )

    def network(self, task: str) -> str:
        """Return the network of a task: its name, unless the network has several tasks."""
        return self._network_of.get(task, task)

    @cached_property
    def _network_of(self) -> dict[str, str]:
        return {task: name for name, tasks in self.shared.items() for task in tasks}

    @cached_property
    def by_network(self) -> dict[str, dict[str, list[float]]]:
        """Network -> method -> scores of the seeds that have all its tasks, in the unit of a page.

        The score of a seed is its mean over the network's tasks, or that of the first task if their
        units or directions differ.
        """
        counted = {
            network: self.counted(network)
            for network in dict.fromkeys(map(self.network, self.main_tasks))
        }
        network_of = {task: network for network, tasks in counted.items() for task in tasks}
        table = self.table.assign(network=self.table["task"].map(network_of))
        by_seed = table.groupby(["network", "method", "seed"], sort=False)["score"]
        means: dict[str, dict[str, list[float]]] = {network: {} for network in counted}
        factors = {network: self.factor(tasks[0]) for network, tasks in counted.items()}
        for (network, method, _), mean, size in by_seed.agg(["mean", "size"]).itertuples():
            if size == len(counted[network]):
                means[network].setdefault(str(method), []).append(mean * factors[network])
        return {
            network: {name: by_method[name] for name in self.methods if name in by_method}
            for network, by_method in means.items()
        }

    @cached_property
    def common(self) -> dict[str, dict[str, list[float]]]:
        """The part of `by_network` that all methods with scores have."""
        networks = {network: means for network, means in self.by_network.items() if means}
        methods = {name for means in networks.values() for name in means}
        return {network: means for network, means in networks.items() if methods == {*means}}

    def counted(self, network: str) -> list[str]:
        """Return the tasks in the mean of a network: those with unit and direction of the first."""
        tasks = self.shared.get(network, [network])
        kinds = {task: (self.factor(task), task in self.lower_is_better) for task in tasks}
        return [task for task in tasks if kinds[task] == kinds[tasks[0]]]

    def lower_is_better_on(self, title: str) -> bool:
        """Return True for a network, or a mean over tasks, where lower scores are better."""
        tasks = self.counted(title) if title in self.by_network else self.main_tasks
        return tasks[0] in self.lower_is_better

    @cached_property
    def procedure(self) -> Procedure:
        """The statistical procedure."""
        default = default_procedure(self.control, replicate=self.replicate)
        return self._titled(PROCEDURES.find(self.test or default))

    def _titled(self, procedure: Procedure) -> Procedure:
        """Return the procedure; its title names no correction if there is only one pair."""
        if self.table["method"].nunique() > 2:
            return procedure
        return replace(procedure, title=procedure.title.removesuffix(" with Holm's correction"))

    @property
    def paired(self) -> bool:
        """If True, the scores of a fold or item are pairs."""
        return self.replicate != "seed"

    @cached_property
    def procedure_over_tasks(self) -> Procedure:
        """The statistical procedure over tasks."""
        default = default_over_tasks(
            self.control,
            num_seeds=1 if self.paired else most_seeds(self.table),
            num_methods=self.table["method"].nunique(),
            same_unit=self.comparable or self.paired,
        )
        return self._titled(PROCEDURES.find(self.test_over_tasks or default))

    @property
    def controls(self) -> str | None:
        """The control, or those of all families, as the option `--control` takes them."""
        named = [family.control for family in self.families if family.control is not None]
        return ",".join(named) or None if self.families else self.control

    @property
    def judged_against(self) -> str | None:
        """The reference, or else the control."""
        return self.reference or self.control

    def margin_of(self, task: str) -> float:
        """Return the margin of a task, zero if there is none."""
        return self.margins.get(task, self.margin or 0.0)

    @property
    def fractions(self) -> list[str]:
        """Tasks with scores that a page shows times 100."""
        return [task for task in self.tasks if self.factor(task) == 100]

    @property
    def unit(self) -> str:
        """Unit of differences on a page: "points" if all scores are shown times 100, else empty."""
        return "points" if self.fractions == [*self.tasks] else ""

    @property
    def in_unit(self) -> str:
        """The unit of differences with "in", after the name of a difference; or empty."""
        return f" in {self.unit}" if self.unit else ""

    @property
    def comparable(self) -> bool:
        """If True, all tasks have the same unit and direction, so an average makes sense."""
        return self._one_kind and not self.unit_remark

    @property
    def _one_kind(self) -> bool:
        """If True, all tasks have the same unit and direction as far as the sources name them."""
        kinds = {(self.factor(task), task in self.lower_is_better) for task in self.main_tasks}
        return len(kinds) == 1

    @cached_property
    def unit_remark(self) -> str:
        """Remark if only a guess of the units prevents a mean over tasks; else empty."""
        guessed = self._one_kind and not self.timed and not self.same_unit
        return self.unlike_units(self.main_tasks) if guessed else ""

    def unlike_units(self, tasks: Sequence[str]) -> str:
        """Return a remark if tasks of tables probably have different units; else empty."""
        sizes = self.table["score"].abs().groupby(self.table["task"]).max()
        guessed = [task for task in tasks if task in self.of_tables and task in sizes]
        return unlike_units(
            {task: float(sizes[task]) for task in guessed if self.factor(task) == 1},
            {task: task not in self.lower_is_better for task in guessed},
        )

    @property
    def times_100(self) -> str:
        """Note on the scores that a page shows times 100; empty if there are none."""
        if not self.fractions or self.fractions == [*self.tasks]:
            return "times 100" if self.fractions else ""
        return f"those of {', '.join(self.fractions)} times 100"

    def factor(self, task: str) -> float:
        """Return the factor of a task's scores on a page."""
        return self.points.get(task, 100 if self.in_points else 1)

    def digits(self, task: str) -> int:
        """Return the number of decimals on a page.

        One for points; else two significant digits of the standard deviation over seeds; without a
        deviation four significant digits of the largest score, but at most three decimals.
        """
        if self.factor(task) == 100:
            return 1
        if task in self._digits:
            return self._digits[task]
        largest = self.factor(task) * self.table["score"][self.table["task"] == task].abs().max()
        return 3 if not largest >= 1 else max(0, 3 - math.floor(math.log10(largest)))

    def only_metric(self, task: str) -> str:
        """Return the metric that a table names for a task; empty for none or several."""
        names = self.metrics.get(task, ())
        return names[0] if len(names) == 1 else ""

    @cached_property
    def _digits(self) -> dict[str, int]:
        if self.replicate == "item":
            return {}
        deviations = self.table.groupby(["task", "method"])["score"].std()
        sizes = self.table["score"].abs().groupby(self.table["task"]).max()
        # Ignore deviations that are rounding errors.
        beyond = deviations.gt(1e-12 * sizes, level="task")
        spreads = deviations[beyond].groupby("task").median()
        return {
            str(task): min(6, max(0, 1 - math.floor(math.log10(self.factor(str(task)) * spread))))
            for task, spread in spreads.items()
            if math.isfinite(spread)
        }

    def samples(self, task: str) -> dict[str, list[float]]:
        """Return the scores of a task's seeds by method, without methods that have none."""
        samples = self._samples.get(task, {})
        return {name: samples[name] for name in self.methods if name in samples}

    def tested(self, task: str) -> dict[str, list[float]]:
        """Return `samples`, those of pairs in the order of the folds or items.

        A test of pairs has NaN where a method lacks one; others have those of all methods only.
        """
        samples, paired = self.samples(task), self.procedure.paired
        if not self.paired and not paired:
            return samples
        table = self.table[self.table["task"] == task]
        wide = table.pivot(index="seed", columns="method", values="score")
        wide = wide if paired else wide.dropna()
        return {name: wide[name].tolist() for name in samples}

    @cached_property
    def _samples(self) -> dict[str, dict[str, list[float]]]:
        samples: dict[str, dict[str, list[float]]] = {}
        columns = (self.table[name] for name in ("task", "method", "score"))
        for task, method, score in zip(*columns, strict=True):
            samples.setdefault(task, {}).setdefault(method, []).append(score)
        return samples


def scored_names(suite: Suite | None) -> dict[str, list[str]]:
    """Return the scored tasks of each trained task or group, such as MNLI-m of MNLI."""
    trained = {task.name: task for task in GLUE.values()}
    if suite is not None:
        trained |= {name: suite.find_task(name) for name in suite.tasks}
    return {name: [*task.scorable] for name, task in trained.items()}


def has_scores(
    table: pd.DataFrame, scored: Mapping[str, Sequence[str]]
) -> Callable[[str, str, object], bool]:
    """Return a function that finds out if a run has a score.

    Args:
        table: Columns `task`, `method` and `seed`, one row per score.
        scored: Result of `scored_names`.

    Returns:
        A function of the trained task, the method and the seed.
    """
    known = {*table[KEY].astype(str).itertuples(index=False, name=None)}
    return lambda task, method, seed: any(
        (name, method, str(seed)) in known for name in (task, *scored.get(task, ()))
    )


def are_in(rows: pd.DataFrame, table: pd.DataFrame) -> NDArray[np.bool_]:
    """Return True for each row whose task, method and seed are also in a table."""
    keys, known = (pd.MultiIndex.from_frame(x[KEY].astype(str)) for x in (rows, table))
    return keys.isin(known)


def most_seeds(table: pd.DataFrame) -> int:
    """Return the largest number of seeds of a method on a task; zero for an empty table."""
    return int(table.groupby(["task", "method"]).size().max()) if len(table) else 0


_METRICS = {name: {*task.metrics} for task in GLUE.values() for name in (task.name, *task.scored)}


def with_glue_average(scores: Scores) -> Scores:
    """Return scores with the GLUE average of each method and seed that has all nine tasks.

    It is not added if there is one, if the text is generated, or if a table names other metrics or
    several splits for these tasks.
    """
    if not {*scores.tasks} & {*_METRICS}:
        return scores
    splits = {split for name, split in scores.splits.items() if name in _METRICS}
    unlike = scores.artificial or scores.lower_is_better or not scores.comparable or len(splits) > 1
    if GLUE_AVERAGE in scores.averages or unlike or not _has_metrics_of_glue(scores):
        return scores
    averages = []
    for (method, seed), rows in scores.table.groupby(["method", "seed"], sort=False):
        values = dict(zip(rows["task"], rows["score"], strict=True))
        values |= dict.fromkeys(GLUE["MNLI"].scored, values["MNLI"]) if "MNLI" in values else {}
        average = glue_average({name: {"": x} for name, x in values.items() if name in GLUE_TASKS})
        averages += [] if average is None else [(GLUE_AVERAGE, method, seed, average)]
    if not averages:
        return scores
    added = pd.DataFrame(averages, columns=[*KEY, "score"])
    return replace(
        scores,
        table=pd.concat([scores.table, added], ignore_index=True),
        tasks=[*scores.single_tasks, GLUE_AVERAGE, *scores.averages],
        averages=[GLUE_AVERAGE, *scores.averages],
        directions={**scores.directions, GLUE_AVERAGE: Direction(True, "registered")},
        splits={**scores.splits, **dict(zip([GLUE_AVERAGE], splits, strict=False))},
    )


def _has_metrics_of_glue(scores: Scores) -> bool:
    """Return False if a table names metrics of a task that are not those of the leaderboard.

    A name such as "matthews_correlation" or "accuracy_matched" contains that of the metric.
    """
    for task, names in scores.metrics.items():
        if names and task in _METRICS:
            metrics = _METRICS[task]
            known = {next((x for x in metrics if x in name.lower()), name) for name in names}
            if known != metrics:
                return False
    return True
