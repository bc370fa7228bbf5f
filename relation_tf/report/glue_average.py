"""The GLUE average of scores without one: of tables, and of suites that share the nine tasks."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from glue_submit import TASKS, glue_average
from relation_tf.bench.results import GLUE_AVERAGE
from relation_tf.report.scores import Scores
from relation_tf.stats.directions import Direction
from relation_tf.tasks.datasets import GLUE

_METRICS = {name: {*task.metrics} for task in GLUE.values() for name in (task.name, *task.scored)}


def with_glue_average(scores: Scores) -> Scores:
    """Return scores with the GLUE average of each method and seed that has all nine tasks.

    It is not added if there is one, if the text is generated, or if a table names other metrics or
    several splits for these tasks.
    """
    splits = {split for name, split in scores.splits.items() if name in _METRICS}
    unlike = scores.artificial or scores.lower_is_better or not scores.alike or len(splits) > 1
    if GLUE_AVERAGE in scores.averages or unlike or not _has_metrics_of_glue(scores):
        return scores
    rows = []
    for (method, seed), own in scores.table.groupby(["method", "seed"], sort=False):
        values = dict(zip(own["task"], own["score"], strict=True))
        values |= dict.fromkeys(GLUE["MNLI"].scored, values["MNLI"]) if "MNLI" in values else {}
        average = glue_average({name: {"": x} for name, x in values.items() if name in TASKS})
        rows += [] if average is None else [(GLUE_AVERAGE, method, seed, average)]
    if not rows:
        return scores
    averages = pd.DataFrame(rows, columns=["task", "method", "seed", "score"])
    return replace(
        scores,
        table=pd.concat([scores.table, averages], ignore_index=True),
        tasks=[*scores.own_tasks, GLUE_AVERAGE, *scores.averages],
        averages=[GLUE_AVERAGE, *scores.averages],
        directions={**scores.directions, GLUE_AVERAGE: Direction(True, "registered")},
        splits={**scores.splits, **dict(zip([GLUE_AVERAGE], splits, strict=False))},
    )


def _has_metrics_of_glue(scores: Scores) -> bool:
    """Return False if a table names metrics of a task that are not those of the leaderboard.

    A name such as "matthews_correlation" or "accuracy_matched" contains that of the metric.
    """
    return all(
        {next((each for each in _METRICS[task] if each in own.lower()), own) for own in names}
        == _METRICS[task]
        for task, names in scores.metrics.items()
        if names and task in _METRICS
    )
