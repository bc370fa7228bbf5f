"""What the runs of a folder gave, as tables. Free of Keras."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from glue_submit import TASKS, glue_average, task_score
from relation_tf.bench.run_folder import RunFolder, read_config, read_json
from relation_tf.bench.suite import Suite
from relation_tf.tasks.glue import GLUE

GLUE_AVERAGE = "GLUE average"
MEAN_OF_TASKS = "mean of these tasks"


@dataclass(frozen=True, repr=False)
class Results:
    """The finished runs of a suite.

    Attributes:
        folder: The suite's folder.
        suite: What was asked.
        runs: `result.json` of each finished run, with its `config`, `manifest` and `folder`.
        failures: For each failed run its name and error.
    """

    folder: Path
    suite: Suite
    runs: list[dict[str, Any]]
    failures: list[tuple[str, str]]

    def __repr__(self) -> str:
        failed = f", {len(self.failures)} failed" if self.failures else ""
        return f"<Results of suite {self.suite.name}: {len(self.runs)} runs{failed}, {self.folder}>"

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """A row for each run, task of the leaderboard and metric: its value on the scored rows.

        Columns: `task`, `method`, `seed`, `metric`, `value`.
        """
        rows = [
            (task, run["method"], run["seed"], metric, value)
            for run in self.runs
            for task, metrics in run["metrics"].items()
            for metric, value in metrics.items()
        ]
        return pd.DataFrame(rows, columns=["task", "method", "seed", "metric", "value"])

    @cached_property
    def scores(self) -> pd.DataFrame:
        """A row for each scored name, method and seed: the mean of its metrics.

        Columns: `task`, `method`, `seed`, `score`. Two-metric tasks count the mean of both, as on
        the leaderboard. A last task is the average of each seed over the tasks, for seeds that have
        them all: GLUE's own where all nine tasks are there, else the mean of these tasks.
        """
        rows = [
            (task, run["method"], run["seed"], task_score(metrics))
            for run in self.runs
            for task, metrics in run["metrics"].items()
        ]
        scores = pd.DataFrame(rows + self._averages(), columns=["task", "method", "seed", "score"])
        scored = [name for task in self.suite.tasks for name in self.suite.find_task(task).scored]
        order = [
            task
            for task in dict.fromkeys([*TASKS, *scored, GLUE_AVERAGE, MEAN_OF_TASKS])
            if task in set(scores["task"])
        ]
        scores["task"] = pd.Categorical(scores["task"], order, ordered=True)
        return scores.sort_values(["task", "method", "seed"], ignore_index=True, kind="stable")

    def samples(self, task: str) -> dict[str, list[float]]:
        """The scores of a task: for each method, in the suite's order, those of its seeds."""
        rows = self.scores[self.scores["task"] == task]
        by_method = {name: list(group["score"]) for name, group in rows.groupby("method")}
        names = [str(method.name) for method in self.suite.methods()]
        return {name: by_method[name] for name in names if name in by_method}

    def history(self, run: dict[str, Any]) -> pd.DataFrame:
        """The epochs of a run."""
        return pd.read_csv(Path(run["folder"]) / "history.csv")

    def _averages(self) -> list[tuple[str, str, int, float]]:
        asked = set(self.suite.tasks)
        if len(asked) < 2:
            return []
        rows = []
        by_seed: dict[tuple[str, int], dict[str, dict[str, dict[str, float]]]] = {}
        for run in self.runs:
            by_seed.setdefault((run["method"], run["seed"]), {})[run["task"]] = run["metrics"]
        for (method, seed), tasks in by_seed.items():
            if set(tasks) != asked:
                continue
            metrics = {name: value for task in tasks.values() for name, value in task.items()}
            # Scores on embedded data are not GLUE's, whatever the tasks are called.
            of_glue = self.suite.source != "miniglue" and asked <= set(GLUE)
            average = glue_average(metrics) if of_glue else None
            if average is not None:
                rows.append((GLUE_AVERAGE, method, seed, average))
            else:
                # A task that is answered twice (MNLI-m, MNLI-mm) counts once, as in GLUE's average.
                means = [sum(map(task_score, task.values())) / len(task) for task in tasks.values()]
                rows.append((MEAN_OF_TASKS, method, seed, sum(means) / len(means)))
        return rows


def read_results(folder: str | Path) -> Results:
    """Read a suite's folder.

    Raises:
        SuiteError: Where it is not one, or a file in it is broken; the message names the file.
    """
    run_folder = RunFolder(Path(folder))
    suite = run_folder.suite()
    runs = [
        {
            **read_json(path / "result.json"),
            "config": read_config(path),
            "manifest": read_json(path / "manifest.json"),
            "folder": str(path),
        }
        for path in run_folder.done()
    ]
    failures = [
        ("/".join(path.parts[-3:]), str(read_json(path / "error.json").get("error")))
        for path in run_folder.failed()
    ]
    return Results(run_folder.path, suite, runs, failures)
