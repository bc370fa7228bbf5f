"""Folders of suites as sources of scores, and several of them as one suite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from relation_tf.bench.results import Results, score_of
from relation_tf.config.families import families_of
from relation_tf.config.suite import Suite
from relation_tf.errors import OptionError, SuiteError, join_names
from relation_tf.registry import SOURCES
from relation_tf.report.scores import KEY, Scores, has_scores, scored_names, with_glue_average
from relation_tf.report.sections.runs import all_runs
from relation_tf.report.sources import FAILS_CHECKS, LoadedScores
from relation_tf.stats.directions import Direction
from relation_tf.tasks.custom import TaskGroup
from relation_tf.tasks.metrics import averaged, find_metric
from relation_tf.words import GLUE_AVERAGE, MEAN_OF_TASKS


def source_of_runs(label: str, results: Results, split: str | None = None) -> LoadedScores:
    """Return the scores of a suite's runs, with marked names of methods with failing layers.

    Args:
        label: Name of the source.
        results: The runs.
        split: Split of the scores; by default those of their reports.
    """
    origin = f"{results.folder}, {len(results.runs)} runs of a suite"
    paths = [results.folder, results.folder / "report"]
    scores = with_glue_average(scores_of(results))
    source = LoadedScores(label, scores, origin, results, paths)
    if split is not None and {*results.splits.values()} != {split}:
        source = replace(
            source,
            scores=on_split(scores, results, split),
            results=None,
            manifests=[run["manifest"] for run in results.runs],
            runs=all_runs(results),
        )
    marks = {name: f"{name} {FAILS_CHECKS}" for name in results.failing_layers}
    return source.renamed(marks) if marks else source


def scores_of(results: Results) -> Scores:
    """Return the scores of a suite's finished runs.

    Tasks, methods and families without runs are left out.
    """
    suite, begun = results.suite, results.begun.learned()
    methods = [str(method.name) for method in results.begun.methods()]
    scored = set(results.scores["task"])
    averages = [name for name in (GLUE_AVERAGE, MEAN_OF_TASKS) if name in scored]
    diagnostics = {name for task in begun for name in task.diagnostics}
    names = [name for task in begun for name in results.scored(task)]
    # Averages have the split of their tasks, if there is only one.
    kinds = {results.splits.get(name, "") for task in begun for name in task.scored} - {""}
    split_of_averages = kinds.pop() if len(kinds) == 1 else ""
    metrics = {
        name: find_metric(task.metrics_of(name)[0])
        for task in suite.learned()
        for name in results.scored(task)
    }
    # Averages exist only if all tasks have the same unit and direction.
    metrics |= dict.fromkeys(averages, next(iter(metrics.values())))
    return Scores(
        table=results.scores.astype({"task": str}),
        methods=methods,
        tasks=[*sorted(names, key=diagnostics.__contains__), *averages],  # diagnostics last
        seeds=len(suite.seeds),
        averages=averages,
        directions={
            name: Direction(metric.higher_is_better, "registered")
            for name, metric in metrics.items()
        },
        control=suite.control,
        in_points=not suite.timed,
        points={}
        if suite.timed
        else {name: metric.points for name, metric in metrics.items() if metric.points != 100},
        alpha=suite.alpha,
        timed=suite.timed != "",
        test=suite.test,
        test_over_tasks=suite.test_over_tasks,
        reference=suite.reference,
        reference_declared=True,
        margin=suite.margin,
        splits=results.splits | dict.fromkeys(averages, split_of_averages),
        families=families_of(suite, methods),
        margins={
            name: override.margin
            for task, override in suite.overrides.items()
            if override.margin is not None
            for name in results.scored(suite.find_task(task))
        },
        networks={name: task for task in suite.tasks for name in suite.find_task(task).scorable},
        artificial=SOURCES[suite.source].artificial,
    )


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
    metrics = pd.concat([dev, results.test_metrics.assign(split="test")], ignore_index=True)
    chosen = metrics[metrics["split"] == split]
    if chosen.empty:
        known = join_names(sorted({*metrics["split"]}), " or ")
        raise OptionError("split", f"must be {known} in {results.folder}. Received: {split!r}")
    by_seed = chosen.set_index("metric").groupby(KEY, sort=False)["value"]
    seeds: dict[Any, dict[Any, float]] = {place: values.to_dict() for place, values in by_seed}
    rows = [(*place, score_of(values)) for place, values in seeds.items()]
    metrics_of = {place[0]: sorted(averaged([*values])) for place, values in seeds.items()}
    return replace(
        scores,
        table=pd.DataFrame(rows, columns=[*KEY, "score"]),
        tasks=[name for name in scores.networks if name in metrics_of],
        averages=[],
        directions={x: scores.directions.get(x, Direction(True, "registered")) for x in metrics_of},
        metrics=metrics_of,
        margins={name: margin for name, margin in scores.margins.items() if name in metrics_of},
        splits=dict.fromkeys(metrics_of, split),
    )


def join_results(sources: Sequence[LoadedScores], scores: Scores) -> Results:
    """Return the runs of all sources as results of one suite with the test that is used.

    Args:
        sources: The sources that `join` has returned.
        scores: The scores that `join` has returned.

    Returns:
        The results; at least one source must have runs.
    """
    parts = [source.results for source in sources if source.results is not None]
    suites = [part.suite for part in parts]
    suite = suites[0].model_copy(
        update={
            "method": [*{x.name: x for suite in suites for x in suite.methods()}.values()],
            "tasks": [*dict.fromkeys(task for suite in suites for task in suite.tasks)],
            "task": [*{task.name: task for suite in suites for task in suite.task}.values()],
            "group": _joined_groups(suites),
            "seeds": sorted({seed for suite in suites for seed in suite.seeds}),
            "overrides": {task: x for suite in suites for task, x in suite.overrides.items()},
            "published": None,
            "alpha": scores.alpha,
            "control": scores.control,
            "test": scores.test,
            "test_over_tasks": scores.test_over_tasks,
            "reference": scores.reference,
            "margin": scores.margin,
            "families": None,
        }
    )
    # With `merge`, several folders can request a run, and another source can have its score.
    requested = {config.key: config for part in parts for config in part.requested}
    finished = {(run["task"], run["method"], run["seed"]) for part in parts for run in part.runs}
    has_score = has_scores(scores.table, scored_names(suite))
    elsewhere = {key for key in requested if key in finished or has_score(*key)}
    repeated = {str(requested[key]) for key in elsewhere}
    return Results(
        folder=parts[0].folder,
        suite=suite,
        runs=[run for part in parts for run in part.runs],
        failures=[
            failure for part in parts for failure in part.failures if failure[0] not in repeated
        ],
        configs=[config for key, config in requested.items() if key not in elsewhere - finished],
        diverged={run for part in parts for run in part.diverged} - repeated,
        parts=[
            replace(part, suite=part.suite.model_copy(update={"alpha": scores.alpha}))
            for part in parts
        ],
        aliases=parts[0].aliases,
    )


def _joined_groups(suites: Sequence[Suite]) -> list[TaskGroup]:
    """Return the groups of all suites.

    Raises:
        SuiteError: If groups of the same name have different tasks.
    """
    groups: dict[str, TaskGroup] = {}
    for group in (group for suite in suites for group in suite.group):
        before = groups.setdefault(group.name, group)
        if before.tasks != group.tasks:
            raise SuiteError(
                f"group {group.name}: must have the same tasks in all sources, "
                f"{join_names([*map(str, before.tasks)])}. Received: "
                f"{join_names([*map(str, group.tasks)])}"
            )
    return [*groups.values()]
