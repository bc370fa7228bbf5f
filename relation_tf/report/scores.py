"""Scores of methods on tasks, one a seed, wherever they are from: what is compared."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import pandas as pd

from relation_tf.bench.results import GLUE_AVERAGE, MEAN_OF_TASKS, Results


@dataclass(frozen=True)
class Scores:
    """One score for each task, method and seed.

    Attributes:
        table: Columns `task`, `method`, `seed` and `score`.
        methods: The methods, in the order in which they are shown.
        tasks: What is scored, in the same way; averages come last.
        seeds: How many seeds of a method were asked.
        averages: Those of the tasks that are a seed's average over the others.
        noun: What the tasks are called together, such as "dev sets".
        lower_is_better: The tasks whose lowest score is the best.
        control: The method that all others are compared with, by default all are with all.
        in_points: Whether the scores are fractions, which a page shows times 100.
        alpha: The level of the tests.
        metrics: For tasks of a table that names them, what their scores are, or the mean of.
        timed: Whether nothing was learned: the scores are speeds.
    """

    table: pd.DataFrame
    methods: Sequence[str]
    tasks: Sequence[str]
    seeds: int
    averages: Sequence[str] = ()
    noun: str = "tasks"
    lower_is_better: frozenset[str] = frozenset()
    control: str | None = None
    in_points: bool = False
    alpha: float = 0.05
    metrics: Mapping[str, Sequence[str]] = field(default_factory=dict)
    timed: bool = False

    @classmethod
    def of(cls, results: Results) -> Self:
        """The scores of a suite's finished runs."""
        there = set(results.scores["task"])
        averages = [name for name in (GLUE_AVERAGE, MEAN_OF_TASKS) if name in there]
        return cls(
            table=results.scores.astype({"task": str}),
            methods=[str(method.name) for method in results.suite.methods()],
            tasks=[*(name for task in results.suite.learned() for name in task.scored), *averages],
            seeds=len(results.suite.seeds),
            averages=averages,
            noun=_noun(results),
            control=results.suite.control,
            in_points=not results.suite.timed,
            alpha=results.suite.alpha,
            timed=results.suite.timed,
        )

    @property
    def own_tasks(self) -> list[str]:
        """The tasks without the averages."""
        return [task for task in self.tasks if task not in self.averages]

    @property
    def factor(self) -> int:
        """What a page shows the scores times."""
        return 100 if self.in_points else 1

    def digits(self, task: str) -> int:
        """Decimals that a page shows: one of points, else two digits of the seeds' deviations.

        Where there are none, four digits of the largest score, three decimals at most.
        """
        if task in self._digits:
            return self._digits[task]
        largest = self.table["score"][self.table["task"] == task].abs().max()
        return 3 if not largest >= 1 else max(0, 3 - math.floor(math.log10(largest)))

    @cached_property
    def _digits(self) -> dict[str, int]:
        if self.in_points:
            return dict.fromkeys(self.tasks, 1)
        deviations = self.table.groupby(["task", "method"])["score"].std()
        sizes = self.table["score"].abs().groupby(self.table["task"]).max()
        # What is left of rounding is no spread.
        beyond = deviations.gt(1e-12 * sizes, level="task")
        spreads = deviations[beyond].groupby("task").median()
        return {
            str(task): min(6, max(0, 1 - math.floor(math.log10(spread))))
            for task, spread in spreads.items()
            if math.isfinite(spread)
        }

    def samples(self, task: str) -> dict[str, list[float]]:
        """The scores of a task: for each method that has some, those of its seeds."""
        rows = self.table[self.table["task"] == task]
        by_method = {name: list(group["score"]) for name, group in rows.groupby("method")}
        return {name: by_method[name] for name in self.methods if name in by_method}


def _noun(results: Results) -> str:
    splits = [split for task in results.suite.learned() for split in task.scored.values()]
    for kind in ("dev", "test"):
        if all(split.startswith(kind) for split in splits):
            return f"{kind} sets"
    return "tasks"
