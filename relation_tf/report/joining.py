"""Joining of scores from several sources into one table, with checks and warnings."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import pandas as pd

from relation_tf.bench.results import Results
from relation_tf.config.families import Family
from relation_tf.config.suite import Suite
from relation_tf.errors import OptionError, SuiteError, did_you_mean, join_names, quote
from relation_tf.registry import TASKS
from relation_tf.report.comparisons import procedure_label
from relation_tf.report.glue_average import with_glue_average
from relation_tf.report.runs import has_scores, scored_names
from relation_tf.report.score_tables import KEY
from relation_tf.report.scores import Scores, most_seeds
from relation_tf.report.sources import FAILS_CHECKS, LoadedScores, are_fractions
from relation_tf.stats.directions import Direction, read_name
from relation_tf.tasks.custom import TaskGroup
from relation_tf.words import capital, count, format_level

_LEVEL = 0.05  # if no suite declares a level
_MOST_SEEDS = 3  # missing seeds that are named
_LEAST_FRACTION = 0.1
_TWO_UNITS = "if these are percent and fractions, divide or multiply one by 100"


def join(
    sources: Sequence[LoadedScores],
    *,
    merge: bool = False,
    lower_is_better: Collection[str] = (),
    higher_is_better: Collection[str] = (),
    alpha: float | None = None,
) -> tuple[Scores, list[LoadedScores]]:
    """Join scores into one table.

    If several sources have a method of the same name, its label is appended to the name, as in
    `relation-64 (before)`; with `merge`, the seeds of same-named methods are pooled.

    Args:
        sources: At least one source.
        merge: If True, pool the seeds of same-named methods across sources.
        lower_is_better: Tasks where lower scores are better, in addition to those in reports and
            those with the name of such a metric.
        higher_is_better: Tasks where higher scores are better, against their name.
        alpha: Level of the tests, by default the level of the suites if all declare the same test,
            else .05.

    Returns:
        The scores, and the sources with their new names of methods.

    Raises:
        SuiteError: If labels are equal, scores have different units, a task is unknown, or, with
            `merge`, two sources have the same seed of a method.
    """
    _check_labels(sources)
    _check_timed(sources)
    directions = _directions(sources, lower_is_better, higher_is_better)
    _check_units(sources, directions)
    splits = _splits(sources)
    if not merge:
        sources = _with_different_names(sources)
    _check_seeds(sources)
    table = pd.concat([source.scores.table for source in sources], ignore_index=True)
    tasks = [*dict.fromkeys(task for source in sources for task in source.scores.own_tasks)]
    averages = _averages(sources)
    _check_directions(lower_is_better, higher_is_better, tasks, _single_metrics(sources))
    in_points, points = _factors(sources, table)
    nouns = {source.scores.noun for source in sources}
    scores = Scores(
        table=table[table["task"].isin([*tasks, *averages])],
        methods=[*dict.fromkeys(name for source in sources for name in source.scores.methods)],
        tasks=[*tasks, *averages],
        seeds=most_seeds(table),
        averages=averages,
        noun=nouns.pop() if len(nouns) == 1 else "tasks",
        timed=sources[0].scores.timed,
        directions=directions,
        in_points=in_points,
        metrics=_agreed_metrics(sources),
        points=points,
        families=_families(sources),
        networks=_networks(sources),
        of_tables=frozenset(_tasks_of_tables(sources)),
        splits=splits,
        artificial=any(source.scores.artificial for source in sources),
        **_declared(sources),
    )
    scores = with_glue_average(scores)
    return scores if alpha is None else replace(scores, alpha=alpha), [*sources]


def _directions(
    sources: Sequence[LoadedScores], lower: Collection[str], higher: Collection[str]
) -> dict[str, Direction]:
    """Return the direction of each task, from the origin that precedes those in other sources."""
    found: dict[str, list[Direction]] = {}
    for task, own in (item for source in sources for item in source.scores.directions.items()):
        found.setdefault(task, []).append(own)
    return {
        **{task: min(own, key=lambda each: (each.precedence, each)) for task, own in found.items()},
        **dict.fromkeys(lower, Direction(False, "declared")),
        **dict.fromkeys(higher, Direction(True, "declared")),
    }


def _splits(sources: Sequence[LoadedScores]) -> dict[str, str]:
    """Return the split of each task.

    Raises:
        OptionError: If a task has scores of several splits.
    """
    found: dict[str, dict[str, str]] = {}
    for source in sources:
        for task, split in source.scores.splits.items():
            if split:
                found.setdefault(task, {}).setdefault(split, source.label)
    for task, labels in found.items():
        if len(labels) > 1:
            mixed = join_names([f"{split} in {label}" for split, label in labels.items()])
            raise OptionError("split", f"must be given: {task} has scores of {mixed}")
    return {task: split for task, (split, *_) in found.items()}


def _factors(sources: Sequence[LoadedScores], table: pd.DataFrame) -> tuple[bool, dict[str, float]]:
    """Return whether all other scores are shown times 100, and the factors of single tasks.

    Tasks of suites stay in points, the unit of their margins, next to tables with larger scores.
    """
    points = {task: own for source in sources for task, own in source.scores.points.items()}
    others = table[~table["task"].isin(points)]
    shown = [source.scores for source in sources if source.scores.in_points]
    if not shown or are_fractions(others):
        return bool(shown), points
    of_suites = others[others["task"].isin({task for own in shown for task in own.tasks})]
    largest = of_suites["score"].abs().groupby(of_suites["task"]).max()
    return False, points | dict.fromkeys(map(str, largest.index[largest <= 1]), 100.0)


def tasks_named(names: Collection[str], sources: Sequence[LoadedScores]) -> list[str]:
    """Return the tasks with these names, and those whose only metric has one of them."""
    metrics = _single_metrics(sources)
    named = {name: [task for task, own in metrics.items() if own == name] for name in names}
    return [task for name in names for task in named[name] or [name]]


def _single_metrics(sources: Sequence[LoadedScores]) -> dict[str, str]:
    """Return the metric of each task that has only one."""
    scores = [source.scores for source in sources]
    named = {task: own.only_metric(task) for own in scores for task in own.metrics}
    return {task: name for task, name in named.items() if name}


def _agreed_metrics(sources: Sequence[LoadedScores]) -> dict[str, Sequence[str]]:
    """Return the metrics of each task of tables, if all tables that have the task name the same."""
    found: dict[str, set[tuple[str, ...]]] = {}
    for own in (source.scores for source in sources if source.results is None):
        for task in own.tasks:
            found.setdefault(task, set()).add((*own.metrics.get(task, ()),))
    return {task: names.pop() for task, names in found.items() if len(names) == 1}


def _averages(sources: Sequence[LoadedScores]) -> list[str]:
    """Return the averages of all sources; averages over different tasks are not comparable."""
    same_tasks = len({frozenset(source.scores.main_tasks) for source in sources}) == 1
    common = set.intersection(*({*source.scores.averages} for source in sources))
    return [name for name in sources[0].scores.averages if same_tasks and name in common]


def _declared(sources: Sequence[LoadedScores]) -> dict[str, Any]:
    """Return the test, reference and margins of the suites where all declare the same."""
    suites = [each.scores for each in sources if each.scores.reference_declared]
    tests = {(own.alpha, own.control, own.test, own.test_over_tasks) for own in suites}
    judged = {(own.reference, own.margin, (*sorted(own.margins.items()),)) for own in suites}
    level, control, test, over_tasks = tests.pop() if len(tests) == 1 else (_LEVEL, *[None] * 3)
    judged_alike = len(judged) == 1
    reference, margin, margins = judged.pop() if judged_alike else (None, None, ())
    return {
        "alpha": level,
        "control": control,
        "test": test,
        "test_over_tasks": over_tasks,
        "reference": reference,
        "reference_declared": judged_alike and len(suites) == len(sources),
        "margin": margin,
        "margins": dict(margins),
    }


def _check_directions(
    lower: Collection[str],
    higher: Collection[str],
    tasks: Sequence[str],
    metrics: Mapping[str, str],
) -> None:
    known = [*dict.fromkeys([*tasks, *metrics.values()])]
    for option, given in (("lower", lower), ("higher", higher)):
        for task in sorted({*given} - {*tasks}):
            raise OptionError(
                f"{option}_is_better",
                f"names an unknown task or metric {quote(task)}.{did_you_mean(task, known)} "
                f"The tasks and metrics are {join_names(known)}",
            )
    for task in sorted({*lower} & {*higher}):
        raise OptionError(
            "lower_is_better", f"must not name the task {quote(task)} of --higher-is-better"
        )


def failing_layers(sources: Sequence[LoadedScores]) -> list[str]:
    """Return a warning for each method with runs whose custom layer fails its checks.

    Args:
        sources: The sources that `join` has returned, or a single source.
    """
    return [
        f"The layer of {name.replace(FAILS_CHECKS, '').strip()} fails `check-layer`, so its scores "
        f"can be wrong: {fault}"
        for source in sources
        if source.results is not None
        for name, fault in source.results.failing_layers.items()
        if any(run["method"] == name for run in source.results.runs)
    ]


def unused_tests(sources: Sequence[LoadedScores], scores: Scores) -> list[str]:
    """Return a warning for each suite that declares another test than the one used.

    Args:
        sources: The sources that `join` has returned.
        scores: The scores that `join` has returned.
    """
    used = _test(scores)
    return [
        f"{source.label} declares {declared}; this comparison uses {used}."
        for source in sources
        if source.scores.reference_declared and (declared := _test(source.scores)) != used
    ]


def _test(scores: Scores) -> str:
    reference = "" if scores.reference is None else f", reference {scores.reference}"
    margin = "" if scores.margin is None else f", margin {scores.margin:g}"
    test = procedure_label(scores.procedure, scores.control)
    over_tasks = scores.procedure_over_tasks.title if scores.test_over_tasks else ""
    over_tasks = f", {over_tasks} over tasks" if over_tasks else ""
    families = f", {len(scores.families)} families" if scores.families else ""
    return f"{test}, {format_level(scores.alpha)}{over_tasks}{reference}{margin}{families}"


def _families(sources: Sequence[LoadedScores]) -> list[Family]:
    """Return the families of all sources, joined by name; none unless each source has families."""
    if not all(source.scores.families for source in sources):
        return []
    joined: dict[str, Family] = {}
    for family in (family for source in sources for family in source.scores.families):
        before = joined.setdefault(family.name, family)
        if before is not family:  # two controls are none
            methods = [*dict.fromkeys([*before.methods, *family.methods])]
            control = before.control if before.control == family.control else None
            reference = before.reference if before.reference == family.reference else None
            joined[family.name] = Family(family.name, methods, control, reference)
    return [*joined.values()]


def _networks(sources: Sequence[LoadedScores]) -> dict[str, str]:
    """Return the network of each task; tasks of one network in any source share it here."""
    known = [item for source in sources for item in source.scores.networks.items()]
    alone = {task: network for task, network in known if task == network}
    return alone | {task: network for task, network in known if task != network}


def _check_labels(sources: Sequence[LoadedScores]) -> None:
    for label, times in Counter(source.label for source in sources).items():
        if not label.isprintable():
            raise OptionError("labels", f"must be printable text. Received: {quote(label)}")
        if times > 1:
            example = ",".join("ABCDEFGH"[: len(sources)])
            raise OptionError(
                "labels",
                f"must give each source a different name, such as --labels {example}: {times} "
                f"sources have the name {label!r}",
            )


def _check_timed(sources: Sequence[LoadedScores]) -> None:
    """Check that not only some sources are timed suites."""
    timed = [each.label for each in sources if each.scores.timed]
    learned = [each.label for each in sources if not each.scores.timed]
    if timed and learned:
        raise SuiteError(
            f"timed suites cannot be compared with trained ones. Received: {timed[0]} (timed) and "
            f"{learned[0]} (trained)"
        )


def _check_units(sources: Sequence[LoadedScores], directions: Mapping[str, Direction]) -> None:
    """Check that scores of a task are not fractions in one source and points in another.

    Tasks with lower-is-better scores, such as times, are skipped: their scores can differ by large
    factors. So are methods with a median below 0.1, which can be that of failed runs in points.
    """
    tables = [
        source.scores.table.assign(name=source.scores.table["method"] + f" of {source.label}")
        for source in sources
    ]
    table = pd.concat(tables).astype({"task": str})
    sizes = table["score"].abs().groupby([table["task"], table["name"]], sort=False)
    largest = sizes.max()[sizes.median() > _LEAST_FRACTION]
    for task, by_name in largest.groupby("task", sort=False):
        low, high = by_name.min(), by_name.max()
        if directions[str(task)].higher_is_better and low <= 1 and 20 < high <= 100:
            names = by_name.droplevel("task")
            raise SuiteError(
                f"{task}: all scores must have the same unit. Received: up to {low:.4g} for "
                f"{names.idxmin()} and up to {high:.4g} for {names.idxmax()}; {_TWO_UNITS}"
            )


def doubts(sources: Sequence[LoadedScores], scores: Scores) -> Iterator[str]:
    """Yield remarks and warnings about direction, metrics, units and seeds of scores from tables.

    Args:
        sources: As for `join`.
        scores: The scores that `join` has returned.
    """
    theirs = [source.scores for source in sources if source.results is None]
    there = {*scores.table["task"]}  # without tasks that only left-out methods have
    tasks = [task for task in _tasks_of_tables(sources) if task in there]
    yield from _doubtful_directions(scores, tasks)
    yield from (note for source in sources for note in source.notes)
    for task in tasks:
        yield from _doubtful_metrics(task, theirs)
    for task in (task for task in tasks if task not in scores.lower_is_better):
        yield from _doubtful_units(task, scores.samples(task))
    if scores.unit_remark:
        yield (
            f"{capital(scores.unit_remark)}, so there is no mean over tasks. Use the verdicts and "
            "tests of each task. If all scores have the same unit, convert them all to fractions "
            "or all to percent."
        )
    unequal: dict[str, list[str]] = {}
    by_task: dict[str, dict[str, set[str]]] = {}
    columns = (scores.table[name] for name in ("task", "method", "seed"))
    for task, method, seed in zip(*columns, strict=True):
        by_task.setdefault(task, {}).setdefault(str(method), set()).add(str(seed))
    for task in tasks:
        if counts := _unequal(by_task[task]):
            unequal.setdefault(counts, []).append(task)
    yield from (f"{', '.join(of)}: {counts}." for counts, of in unequal.items())


def _doubtful_directions(scores: Scores, tasks: Sequence[str]) -> Iterator[str]:
    """Yield warnings about opposite directions and scores of unknown metrics."""
    origins = {task: scores.directions[task].origin for task in tasks}
    unsure = [task for task in tasks if origins[task] not in ("declared", "registered")]
    lower = [task for task in scores.own_tasks if task in scores.lower_is_better]
    if unsure and 0 < len(lower) < len(scores.own_tasks):
        yield (
            f"Lower is better on {join_names(lower)}, higher on the other tasks, and not all "
            "directions are declared. If one is wrong, use --lower-is-better or --higher-is-better."
        )
    known = {name for each in TASKS.values() for name in each.task.scored}
    for task in (task for task in unsure if origins[task] == "assumed" and task not in known):
        outside = [x for own in scores.samples(task).values() for x in own if x < 0 or x > 100]
        either = any(read_name(name)[1] for name in (task, *scores.metrics.get(task, ())))
        why = "lower is better in some uses of such a metric" if either else ""
        if outside:
            why = f"scores such as {outside[0]:.4g} are no fractions or percentages"
        if why:
            option = f"--lower-is-better {shlex.quote(task)}"
            yield f"{task}: higher is assumed to be better, but {why}. Otherwise use {option}."


def _doubtful_metrics(task: str, theirs: Sequence[Scores]) -> Iterator[str]:
    """Yield warnings about means of metrics, and different metrics."""
    known = [own.metrics[task] for own in theirs if task in own.metrics]
    several = dict.fromkeys(map(" and ".join, known))
    if len(several) > 1:
        yield f"{task}: sources have different metrics: {'; '.join(several)}."
    elif any(" and " in metrics for metrics in several):
        yield f"{task}: a score is the mean of {next(iter(several))}."


def _doubtful_units(task: str, samples: Mapping[str, Sequence[float]]) -> Iterator[str]:
    """Yield a warning if percentages as low as 1, unlike those of `_check_units`, may be mixed."""
    sizes = {name: [abs(score) for score in own] for name, own in samples.items()}
    low = min(sizes, key=lambda name: max(sizes[name]))
    high = max(sizes, key=lambda name: min(sizes[name]))
    most, least = max(sizes[low]), min(sizes[high])
    if most <= 1 < least and fmean(sizes[high]) > 20 * fmean(sizes[low]) > 0:
        yield f"{task}: {low} has scores up to {most:.4g}, {high} from {least:.4g}; {_TWO_UNITS}."


def _tasks_of_tables(sources: Sequence[LoadedScores]) -> list[str]:
    theirs = [source.scores for source in sources if source.results is None]
    return [*dict.fromkeys(task for own in theirs for task in own.own_tasks)]


def _unequal(seeds: Mapping[str, set[str]]) -> str:
    """Name methods with an unusual number of seeds; empty if all have the same number.

    Args:
        seeds: Method -> its seeds on a task.
    """
    times = Counter(map(len, seeds.values()))
    usual = max(times, key=lambda number: (times[number], number))
    shared = set.intersection(*(own for own in seeds.values() if len(own) == usual))
    parts = []
    for name, own in seeds.items():
        missing = sorted(shared - own, key=lambda seed: (len(seed), seed))
        # Otherwise the methods have different seeds.
        named = 0 < len(missing) <= _MOST_SEEDS and len(own) + len(missing) == usual
        without = f" (without {', '.join(missing)})" if named else ""
        if len(own) != usual:
            parts.append(f"{name} has {count(len(own), 'seed')}{without}")
    return ", ".join([*parts, f"others {usual}"]) if parts else ""


def _check_seeds(sources: Sequence[LoadedScores]) -> None:
    seen: dict[tuple[str, ...], str] = {}
    for source in sources:
        for key in source.scores.table[KEY].astype(str).itertuples(index=False, name=None):
            if key in seen:
                raise OptionError(
                    "merge",
                    f"needs each combination of task, method and seed in one source only. "
                    f"{' / '.join(key)} is in {seen[key]} and in {source.label}",
                )
            seen[key] = source.label


def _with_different_names(sources: Sequence[LoadedScores]) -> list[LoadedScores]:
    """Add the label of its source to each method that several sources have or request."""
    names = {source.label: {*source.scores.methods, *source.requested()} for source in sources}
    times = Counter(name for own in names.values() for name in own)
    new = [{n: f"{n} ({label})" for n in own if times[n] > 1} for label, own in names.items()]
    if taken := sorted({name for own in new for name in own.values()} & {*times}):
        raise OptionError("labels", f"must not make the name of another method: {taken[0]!r}")
    return [source.renamed(own) for source, own in zip(sources, new, strict=True)]


def join_results(sources: Sequence[LoadedScores], scores: Scores) -> Results | None:
    """Return the runs of all sources as results of one suite with the test that is used.

    Args:
        sources: The sources that `join` has returned.
        scores: The scores that `join` has returned.

    Returns:
        The results; None if no source has runs.
    """
    parts = [source.results for source in sources if source.results is not None]
    if not parts:
        return None
    suites = [each.suite for each in parts]
    suite = suites[0].model_copy(
        update={
            "method": [*{own.name: own for each in suites for own in each.methods()}.values()],
            "tasks": [*dict.fromkeys(task for each in suites for task in each.tasks)],
            "task": [*{task.name: task for each in suites for task in each.task}.values()],
            "group": _joined_groups(suites),
            "seeds": sorted({seed for each in suites for seed in each.seeds}),
            "overrides": {task: own for each in suites for task, own in each.overrides.items()},
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
    requested = {config.key: config for each in parts for config in each.requested}
    finished = {(run["task"], run["method"], run["seed"]) for each in parts for run in each.runs}
    known = has_scores(scores.table, scored_names(suite))
    elsewhere = {key for key in requested if key in finished or known(*key)}
    repeated = {str(requested[key]) for key in elsewhere}
    return Results(
        folder=parts[0].folder,
        suite=suite,
        runs=[run for each in parts for run in each.runs],
        failures=[own for each in parts for own in each.failures if own[0] not in repeated],
        configs=[own for key, own in requested.items() if key not in elsewhere - finished],
        diverged={run for each in parts for run in each.diverged} - repeated,
        parts=[
            replace(each, suite=each.suite.model_copy(update={"alpha": scores.alpha}))
            for each in parts
        ],
        aliases=parts[0].aliases,
    )


def _joined_groups(suites: Sequence[Suite]) -> list[TaskGroup]:
    """Return the groups of all suites.

    Raises:
        SuiteError: If groups of the same name have different tasks.
    """
    groups: dict[str, TaskGroup] = {}
    for group in (group for each in suites for group in each.group):
        before = groups.setdefault(group.name, group)
        if before.tasks != group.tasks:
            raise SuiteError(
                f"group {group.name}: must have the same tasks in all sources, "
                f"{join_names([*map(str, before.tasks)])}. Received: "
                f"{join_names([*map(str, group.tasks)])}"
            )
    return [*groups.values()]
