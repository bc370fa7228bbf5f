"""Scores of methods on tasks, one per seed: the data of a comparison."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import pandas as pd

from relation_tf.bench.results import GLUE_AVERAGE, MEAN_OF_TASKS, Results, score_of
from relation_tf.config.families import Family, families_of
from relation_tf.config.stand_ins import assumed
from relation_tf.errors import OptionError, join_names
from relation_tf.registry import PROCEDURES, SOURCES, TASKS, Procedure
from relation_tf.stats import default_over_tasks, default_procedure
from relation_tf.stats.directions import Direction, state_directions, unlike_units
from relation_tf.tasks.datasets import counted_as
from relation_tf.tasks.diagnostics.presets import task_of
from relation_tf.tasks.metrics import counted, find_metric


def _registered_networks() -> dict[str, str]:
    """Return the trained task of each score name of the registered tasks; one for MNLI."""
    tasks = [each.task for each in TASKS.values()]
    return {name: counted_as(task.name) for task in tasks for name in task.scored}


@dataclass(frozen=True)
class Scores:
    """One score for each task, method and seed.

    Attributes:
        table: Columns `task`, `method`, `seed` and `score`.
        methods: The methods in display order.
        tasks: The tasks in display order; averages come last.
        seeds: Number of requested seeds per method.
        averages: Tasks that are averages over the other tasks.
        noun: Common noun for the main tasks, such as "dev sets".
        directions: Direction of each task; averages have that of their tasks.
        control: Method to compare all others with; by default all pairs are compared.
        in_points: If True, scores are fractions and a page shows them times 100.
        points: Other display factors by task, for metrics in other units.
        of_tables: Tasks of tables, which do not name the units of their scores.
        alpha: Level of the tests.
        metrics: Metrics of each task, if a table names them; a score is their mean.
        timed: If True, nothing was trained and the scores are speeds.
        test: Statistical procedure, by default Steel-Dwass, or Steel's test with a control.
        test_over_tasks: Procedure over tasks, by default stratified Steel-Dwass or Steel.
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
    noun: str = "tasks"
    directions: Mapping[str, Direction] = field(default_factory=dict)
    control: str | None = None
    in_points: bool = False
    alpha: float = 0.05
    metrics: Mapping[str, Sequence[str]] = field(default_factory=dict)
    timed: bool = False
    points: Mapping[str, float] = field(default_factory=dict)
    of_tables: Collection[str] = ()
    test: str | None = None
    test_over_tasks: str | None = None
    reference: str | None = None
    reference_declared: bool = False
    margin: float | None = None
    margins: Mapping[str, float] = field(default_factory=dict)
    families: Sequence[Family] = ()
    networks: Mapping[str, str] = field(default_factory=_registered_networks)
    splits: Mapping[str, str] = field(default_factory=dict)
    artificial: bool = False

    @classmethod
    def of(cls, results: Results) -> Self:
        """Return the scores of a suite's finished runs.

        Tasks, methods and families without runs are left out.
        """
        methods = [str(method.name) for method in results.begun.methods()]
        there = set(results.scores["task"])
        averages = [name for name in (GLUE_AVERAGE, MEAN_OF_TASKS) if name in there]
        metrics = {
            name: find_metric(task.metrics_of(name)[0])
            for task in results.suite.learned()
            for name in results.scored(task)
        }
        # Averages exist only if all tasks have the same unit and direction.
        metrics |= dict.fromkeys(averages, next(iter(metrics.values())))
        return cls(
            table=results.scores.astype({"task": str}),
            methods=methods,
            tasks=[*_scored(results), *averages],
            seeds=len(results.suite.seeds),
            averages=averages,
            noun=_noun(results),
            directions={
                name: Direction(
                    metric.higher_is_better, "assumed" if assumed(metric) else "registered"
                )
                for name, metric in metrics.items()
            },
            control=results.suite.control,
            in_points=not results.suite.timed,
            points={name: metric.points for name, metric in metrics.items() if metric.points != 100}
            if not results.suite.timed
            else {},
            alpha=results.suite.alpha,
            timed=results.suite.timed != "",
            test=results.suite.test,
            test_over_tasks=results.suite.test_over_tasks,
            reference=results.suite.reference,
            reference_declared=True,
            margin=results.suite.margin,
            splits=_splits(results, averages),
            families=[
                family for family in families_of(results.suite) if {*family.methods} & {*methods}
            ],
            margins={
                name: override.margin
                for task, override in results.suite.overrides.items()
                if override.margin is not None
                for name in results.scored(results.suite.find_task(task))
            },
            networks={
                name: task
                for task in results.suite.tasks
                for name in results.suite.find_task(task).scorable
            },
            artificial=SOURCES[results.suite.source].artificial,
        )

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
    def own_tasks(self) -> list[str]:
        """The tasks without the averages."""
        return [task for task in self.tasks if task not in self.averages]

    @cached_property
    def diagnostics(self) -> list[str]:
        """Diagnostic sets, such as AX: they are tested, but in no average and no test over tasks.

        Empty if there are no other tasks.
        """
        known = {name for each in TASKS.values() for name in each.task.diagnostics}
        known.update(
            name
            for name in self.own_tasks
            if (owner := task_of(name)) is not None and owner.name != name  # of any size
        )
        found = [task for task in self.own_tasks if task in known]
        return found if len(found) < len(self.own_tasks) else []

    @property
    def main_tasks(self) -> list[str]:
        """The tasks without the averages and the diagnostic sets."""
        return [task for task in self.own_tasks if task not in self.diagnostics]

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
        own: dict[str, set[str]] = {}
        for task, name in self.table[["task", "method"]].drop_duplicates().to_numpy().tolist():
            own.setdefault(name, set()).add(task)
        lacking = {
            name: [task for task in self.main_tasks if task not in own[name]]
            for name in self.methods
            if name in own
        }
        return {name: tasks for name, tasks in lacking.items() if tasks}

    @cached_property
    def lower_is_better(self) -> frozenset[str]:
        """Tasks where lower scores are better."""
        return frozenset(task for task, own in self.directions.items() if not own.higher_is_better)

    @property
    def stated_directions(self) -> str:
        """Sentences on the direction of each task and its origin; empty if there are no tasks."""
        own = {task: self.directions[task] for task in self.own_tasks if task in self.directions}
        return f"{state_directions(own)}." if own else ""

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
        seeds = table.groupby(["network", "method", "seed"], sort=False)["score"].agg(
            ["mean", "size"]
        )
        seeds = seeds.reset_index()
        means: dict[str, dict[str, list[float]]] = {network: {} for network in counted}
        factors = {network: self.factor(tasks[0]) for network, tasks in counted.items()}
        for network, method, mean, size in zip(
            seeds["network"], seeds["method"], seeds["mean"], seeds["size"], strict=True
        ):
            if size == len(counted[network]):
                means[network].setdefault(str(method), []).append(mean * factors[network])
        return {
            network: {name: own[name] for name in self.methods if name in own}
            for network, own in means.items()
        }

    @cached_property
    def common(self) -> dict[str, dict[str, list[float]]]:
        """The part of `by_network` that all methods with scores have."""
        networks = {network: own for network, own in self.by_network.items() if own}
        methods = {name for own in networks.values() for name in own}
        return {network: own for network, own in networks.items() if methods == {*own}}

    def counted(self, network: str) -> list[str]:
        """Return the tasks in the mean of a network: those with unit and direction of the first."""
        tasks = self.shared.get(network, [network])
        kinds = {task: (self.factor(task), task in self.lower_is_better) for task in tasks}
        return [task for task in tasks if kinds[task] == kinds[tasks[0]]]

    def lower_is_better_on(self, title: str) -> bool:
        """Return True for a network, or a mean over tasks, where lower scores are better."""
        return self._first_task(title) in self.lower_is_better

    def digits_on(self, title: str) -> int:
        """Return the number of decimals of a network, or of a mean over tasks."""
        return self.digits(self._first_task(title))

    def _first_task(self, title: str) -> str:
        """Return a task of a network or mean, whose tasks have one unit and direction."""
        return (self.counted(title) if title in self.by_network else self.main_tasks)[0]

    @property
    def procedure(self) -> Procedure:
        """The statistical procedure."""
        return PROCEDURES.find(self.test or default_procedure(self.control))

    @property
    def procedure_over_tasks(self) -> Procedure:
        """The statistical procedure over tasks."""
        return PROCEDURES.find(self.test_over_tasks or default_over_tasks(self.control))

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
    def alike(self) -> bool:
        """If True, all tasks have the same unit and direction, so an average makes sense."""
        return self._one_kind and not self.unit_remark

    @property
    def _one_kind(self) -> bool:
        """If True, all tasks have the same unit and direction as far as the sources name them."""
        own = {(self.factor(task), task in self.lower_is_better) for task in self.main_tasks}
        return len(own) == 1

    @cached_property
    def unit_remark(self) -> str:
        """Remark if only a guess of the units prevents a mean over tasks; else empty."""
        return self.unlike_units(self.main_tasks) if self._one_kind and not self.timed else ""

    def unlike_units(self, tasks: Sequence[str]) -> str:
        """Return a remark if tasks of tables probably have different units; else empty."""
        sizes = self.table["score"].abs().groupby(self.table["task"]).max()
        own = [task for task in tasks if task in self.of_tables and task in sizes]
        return unlike_units(
            {task: float(sizes[task]) for task in own if self.factor(task) == 1},
            {task: task not in self.lower_is_better for task in own},
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
        own = self._samples.get(task, {})
        return {name: own[name] for name in self.methods if name in own}

    @cached_property
    def _samples(self) -> dict[str, dict[str, list[float]]]:
        samples: dict[str, dict[str, list[float]]] = {}
        columns = (self.table[name] for name in ("task", "method", "score"))
        for task, method, score in zip(*columns, strict=True):
            samples.setdefault(task, {}).setdefault(method, []).append(score)
        return samples


def on_split(scores: Scores, results: Results, split: str) -> Scores:
    """Return the scores of a suite's runs on one split, without averages.

    Args:
        scores: The scores of the runs.
        results: The runs, which can have scored test sets with public labels.
        split: Kind of the split, such as "test".

    Raises:
        OptionError: If there are no such scores.
    """
    dev = results.metrics.assign(split=results.metrics["task"].map(results.splits))
    every = pd.concat([dev, results.test_metrics.assign(split="test")], ignore_index=True)
    own = every[every["split"] == split]
    if own.empty:
        known = join_names(sorted({*every["split"]}), " or ")
        raise OptionError("split", f"must be {known} in {results.folder}. Received: {split!r}")
    key = ["task", "method", "seed"]
    by_seed = own.set_index("metric").groupby(key, sort=False)["value"]
    seeds: dict[Any, dict[Any, float]] = {place: values.to_dict() for place, values in by_seed}
    rows = [(*place, score_of(values)) for place, values in seeds.items()]
    metrics = {place[0]: sorted(counted([*values])) for place, values in seeds.items()}
    return replace(
        scores,
        table=pd.DataFrame(rows, columns=[*key, "score"]),
        tasks=[name for name in scores.networks if name in metrics],
        averages=[],
        noun=f"{split} sets",
        directions={x: scores.directions.get(x, Direction(True, "registered")) for x in metrics},
        metrics=metrics,
        margins={name: margin for name, margin in scores.margins.items() if name in metrics},
        splits=dict.fromkeys(metrics, split),
    )


def most_seeds(table: pd.DataFrame) -> int:
    """Return the largest number of seeds of a method on a task; zero for an empty table."""
    return int(table.groupby(["task", "method"]).size().max()) if len(table) else 0


def _scored(results: Results) -> list[str]:
    """Return the names of the scores, the diagnostics last."""
    tasks = results.begun.learned()
    diagnostics = {name for task in tasks for name in task.diagnostics}
    names = [name for task in tasks for name in results.scored(task)]
    return sorted(names, key=diagnostics.__contains__)


def _splits(results: Results, averages: Sequence[str]) -> dict[str, str]:
    """Return the split of each score; averages have that of their tasks, if there is only one."""
    tasks = results.begun.learned()
    kinds = {results.splits.get(name, "") for task in tasks for name in task.scored} - {""}
    return results.splits | dict.fromkeys(averages, kinds.pop() if len(kinds) == 1 else "")


def _noun(results: Results) -> str:
    splits = [split for task in results.suite.learned() for split in task.scored.values()]
    for kind in ("dev", "test"):
        if all(split.startswith(kind) for split in splits):
            return f"{kind} sets"
    return "tasks"
