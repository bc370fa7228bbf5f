"""Standard deviations over seeds, known before a suite is finished. Does not import Keras."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, variance

from relation_tf.bench.results import read_result, run_score
from relation_tf.bench.run_folder import RunFolder
from relation_tf.config.published import load_published
from relation_tf.config.run import RunConfig
from relation_tf.config.suite import Suite
from relation_tf.tasks.catalogue import find_task
from relation_tf.tasks.datasets import counted_once
from relation_tf.tasks.metrics import find_metric


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
