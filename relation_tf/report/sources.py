"""Sources of scores: folders of suites and reports, CSV files and data frames, and their union."""

from __future__ import annotations

import math
import os
import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pandas as pd
from pydantic import BaseModel, ConfigDict, ValidationError

from relation_tf.config.families import Family
from relation_tf.errors import (
    DataError,
    OptionError,
    SuiteError,
    did_you_mean,
    join_names,
    quote,
    reason_of,
)
from relation_tf.files import expand_home, read_json
from relation_tf.registry import TASKS
from relation_tf.report.lost_runs import failed_runs
from relation_tf.report.options import ALL, ComparisonOptions
from relation_tf.report.score_tables import failure_notes, read_table
from relation_tf.report.scores import KEY, Scores, are_in, most_seeds, with_glue_average
from relation_tf.report.sections.runs import COSTS, read_runs
from relation_tf.report.table_files import read_table_file
from relation_tf.report.text import Statement, state
from relation_tf.settings import first_fault
from relation_tf.stats.directions import Direction, read_name
from relation_tf.stats.samples import SYNONYMS, Replicate, words_of
from relation_tf.tasks.sources import digest_of_file
from relation_tf.training.pretraining_settings import SETTINGS, SPEEDS

if TYPE_CHECKING:
    from relation_tf.bench.results import Results

ScoreSource: TypeAlias = "Results | pd.DataFrame | str | Path"
FAILS_CHECKS = "(fails checks)"
"""Mark of a method whose custom layer fails its checks."""


@dataclass(frozen=True)
class LoadedScores:
    """Scores of one source, with their label and origin.

    Attributes:
        label: Name of the source, such as "before".
        scores: The scores.
        origin: Description of the source for the report.
        results: The runs that gave the scores, if known.
        paths: File or folder of the scores, and report folder of a suite.
        pretraining: Settings of the pre-training.
        manifests: Manifests of the runs.
        runs: The runs of a report, from its `runs.csv`, and failed runs of a table; empty with
            `results`.
        notes: Remarks on failed runs of a table, and on plugins that are not imported.
        layout: How a table was read; empty for runs.
    """

    label: str
    scores: Scores
    origin: str
    results: Results | None = None
    paths: Sequence[Path] = ()
    pretraining: Mapping[str, Any] = field(default_factory=dict)
    manifests: Sequence[Mapping[str, Any]] = ()
    runs: pd.DataFrame = field(default_factory=pd.DataFrame)
    notes: Sequence[str] = ()
    layout: str = ""

    def requested(self) -> set[str]:
        """Return the names of all methods that were run or should be run, also without scores."""
        requested = () if self.results is None else self.results.requested
        return {*self.runs.get("method", ()), *(run.method for run in requested)}

    def renamed(self, names: Mapping[str, str]) -> LoadedScores:
        """Return a copy with some methods renamed."""
        scores = replace(
            self.scores,
            table=self.scores.table.replace({"method": dict(names)}),
            methods=[names.get(name, name) for name in self.scores.methods],
            control=names.get(self.scores.control or "", self.scores.control),
            reference=names.get(self.scores.reference or "", self.scores.reference),
            families=[family.renamed(names) for family in self.scores.families],
        )
        results = None if self.results is None else self.results.renamed(names)
        runs = self.runs.replace({"method": dict(names)})
        return replace(self, scores=scores, results=results, runs=runs)


class _ScoreFacts(BaseModel):
    """Facts about the scores in report.json."""

    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)

    in_points: bool | None = None
    directions: dict[str, Direction] = {}
    points: dict[str, float] = {}
    timed: bool = False
    networks: dict[str, str] = {}
    artificial: bool = False
    replicate: Replicate = "seed"
    test_share: float | None = None


def read_source(
    source: ScoreSource,
    label: str | None = None,
    number: int = 1,
    options: ComparisonOptions | None = None,
) -> LoadedScores:
    """Read scores.

    Args:
        source: A suite's folder or its `Results`; a folder with a report's `scores.csv`; a file of
            `relation_tf.report.table_files` or a `pandas.DataFrame` with a table in any layout of
            `relation_tf.report.table_layouts`. A seed with several rows, one per `metric`, has
            their mean as score.
        label: Name of the source, by default of its folder or file.
        number: Position of the source, used in the name of a data frame.
        options: Names of columns of tables, and the split.

    Raises:
        SuiteError: If a folder has no scores, or a file of a suite is invalid.
        DataError: If a file or table has invalid scores; the message names the line.
    """
    options = options or ComparisonOptions()
    if isinstance(source, pd.DataFrame):
        name = f"table {number}"
        if source.columns.nlevels > 1:  # such as of `DataFrame.pivot`
            source = source.melt(ignore_index=False)
        elif source.index.name is None and words_of(str(source.columns.name)) in SYNONYMS["task"]:
            source = source.rename_axis(index="method")  # such as of a transposed table
        labels = [f"{name}, row {index!r}" for index in source.index]
        if any(source.index.names) or source.index.inferred_type == "string":
            source = source.reset_index(allow_duplicates=True)  # such as the names of datasets
        try:
            read = read_table(source.set_axis(labels), "the table", options)
        except DataError as error:
            python = "; in Python, `--columns task=NAME` is `columns={'task': 'NAME'}`"
            raise DataError(f"{error}{python * ('--columns' in str(error))}") from error
        return LoadedScores(
            label or name,
            read.scores,
            f"{name}, in memory",
            runs=_with_costs(read.failed),
            notes=read.notes,
            layout=str(read.layout),
        )
    if not isinstance(source, str | os.PathLike):
        # Late: tables need no code for runs.
        from relation_tf.bench.results import Results
        from relation_tf.report.suites import source_of_runs

        if isinstance(source, Results):
            return source_of_runs(label or _label(source.folder), source, options.split)
        raise SuiteError(
            f"source {number} must be a folder of a suite or report, a CSV file, Results or a "
            f"pandas.DataFrame. Received: {type(source).__name__} {source!r:.80}"
        )
    path, file = _find_scores(source)
    label = label or _label(path)
    if file is None:
        from relation_tf.bench.results import read_results
        from relation_tf.report.suites import source_of_runs

        return source_of_runs(label, read_results(path), options.split)
    read = read_table(read_table_file(file), str(file), options)
    scores, runs, notes = read.scores, _with_costs(read.failed), [*read.notes]
    layout = str(read.layout)
    # The report next to its scores knows their metrics and directions.
    if file != path or (file.name == "scores.csv" and (file.parent / "report.json").is_file()):
        reported = read_runs(file.parent)
        scores, layout = _as_reported(scores, file.parent, reported), ""
        runs = pd.concat([runs, reported])
        if len(reported):
            notes += failure_notes(reported[reported["status"] == "failed"])
    pretraining: Mapping[str, Any] = {}
    manifests: Sequence[Mapping[str, Any]] = ()
    if file.name in ("scores.csv", SPEEDS) and (file.parent / SETTINGS).is_file():
        from relation_tf.bench.results import read_pretraining

        pretraining, manifests = read_pretraining(file.parent) or ({}, [])
    # A pipe can be read only once.
    origin = f"{file}, SHA-256 {digest_of_file(file).hex()}" if file.is_file() else str(file)
    return LoadedScores(
        label, scores, origin, None, [path], pretraining, manifests, runs, notes, layout
    )


def _with_costs(failed: pd.DataFrame) -> pd.DataFrame:
    """Return the failed runs of a table in the form of a report's runs."""
    return failed.assign(**dict.fromkeys(COSTS, math.nan)) if len(failed) else pd.DataFrame()


def _find_scores(source: str | os.PathLike[str]) -> tuple[Path, Path | None]:
    """Return the path and its table of scores; None as table for a suite's folder."""
    path = expand_home(source)
    try:
        pretrained = (path / SETTINGS).is_file()
        if (path / "runs").is_dir() and not pretrained:
            return path, None
        file = path / "scores.csv" if path.is_dir() else path
        missing = file != path and not file.is_file()
        absent = not path.exists()
        entries = [entry.name for entry in path.parent.glob("*")] if absent else []
    except OSError as error:
        raise SuiteError(f"{source!s:.160}: cannot be read: {reason_of(error)}") from error
    if absent:
        prefix = "" if path.parent == Path() else f"{path.parent}/"
        hint = did_you_mean(path.name, entries, cutoff=0.75, prefix=prefix)
        raise SuiteError(f"{path}: no such file or folder.{hint}")
    if missing and pretrained:
        raise SuiteError(
            f"{path}: scores.csv is missing, because pre-training has not finished. Run the same "
            "`relation-tf pretrain` command again to resume"
        )
    if missing:
        from relation_tf.bench.run_folder import suites_inside

        hint = suites_inside(path)
        raise SuiteError(
            f"{path}: must be a suite's folder (with runs/) or a report's folder (with "
            f"scores.csv); it has neither{hint and f'.{hint}'}"
        )
    return path, file


def _label(path: Path) -> str:
    path = path.resolve()
    if not path.is_dir():
        return path.stem
    return path.parent.name if path.name == "report" else path.name


def _as_reported(scores: Scores, folder: Path, runs: pd.DataFrame) -> Scores:
    """Return the scores of a report with the facts in its report.json, without failed runs."""
    try:
        facts = _ScoreFacts.model_validate(read_report(folder))
    except ValidationError as error:
        raise SuiteError(f"{folder / 'report.json'}: {first_fault(error)}") from error
    in_points = are_fractions(scores.table) if facts.in_points is None else facts.in_points
    reported = replace(
        scores,
        in_points=in_points,
        directions={task: facts.directions.get(task, x) for task, x in scores.directions.items()},
        timed=facts.timed,
        points={task: factor for task, factor in facts.points.items() if task in scores.tasks},
        networks={**scores.networks, **facts.networks},
        artificial=facts.artificial,
        replicate=facts.replicate,
        test_share=facts.test_share,
    )
    lost = are_in(scores.table, failed_runs(runs, None, reported))
    return replace(reported, table=scores.table[~lost])


def read_report(folder: Path) -> dict[str, Any]:
    """Return the content of report.json; empty if there is none.

    Raises:
        SuiteError: If the file is invalid.
    """
    file = folder / "report.json"
    return read_json(file) if file.exists() else {}


def are_fractions(table: pd.DataFrame) -> bool:
    """Return True if all scores are between −1 and 1."""
    return bool((table["score"].abs() <= 1).all())


_LEVEL = 0.05  # if no suite declares a level
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
    tasks = [*dict.fromkeys(task for source in sources for task in source.scores.single_tasks)]
    # Averages over different tasks are not comparable.
    same_tasks = len({frozenset(source.scores.main_tasks) for source in sources}) == 1
    common = set.intersection(*({*source.scores.averages} for source in sources))
    averages = [x for x in sources[0].scores.averages if same_tasks and x in common]
    _check_directions(lower_is_better, higher_is_better, tasks, _single_metrics(sources))
    in_points, points = _factors(sources, table)
    # Tasks of one network in any source share it here.
    networks = [item for source in sources for item in source.scores.networks.items()]
    shares = {source.scores.test_share for source in sources}
    scores = Scores(
        table=table[table["task"].isin([*tasks, *averages])],
        methods=[*dict.fromkeys(name for source in sources for name in source.scores.methods)],
        tasks=[*tasks, *averages],
        seeds=most_seeds(table),
        averages=averages,
        timed=sources[0].scores.timed,
        directions=directions,
        in_points=in_points,
        metrics=_agreed_metrics(sources),
        points=points,
        families=_families(sources),
        networks=dict(sorted(networks, key=lambda item: item[0] != item[1])),
        of_tables=frozenset(_tasks_of_tables(sources)),
        splits=splits,
        replicate=_replicate(sources),
        test_share=shares.pop() if len(shares) == 1 else None,
        means=any(source.scores.means for source in sources),
        artificial=any(source.scores.artificial for source in sources),
        **_declared(sources),
    )
    scores = with_glue_average(scores)
    return scores if alpha is None else replace(scores, alpha=alpha), [*sources]


def _directions(
    sources: Sequence[LoadedScores], lower: Collection[str], higher: Collection[str]
) -> dict[str, Direction]:
    """Return the direction of each task, from the origin that precedes those in other sources."""
    by_task: dict[str, list[Direction]] = {}
    for source in sources:
        for task, direction in source.scores.directions.items():
            by_task.setdefault(task, []).append(direction)
    return {
        **{task: min(xs, key=lambda x: (x.precedence, x)) for task, xs in by_task.items()},
        **dict.fromkeys(lower, Direction(False, "declared")),
        **dict.fromkeys(higher, Direction(True, "declared")),
    }


def _splits(sources: Sequence[LoadedScores]) -> dict[str, str]:
    """Return the split of each task.

    Raises:
        OptionError: If a task has scores of several splits.
    """
    by_task: dict[str, dict[str, str]] = {}
    for source in sources:
        for task, split in source.scores.splits.items():
            if split:
                by_task.setdefault(task, {}).setdefault(split, source.label)
    for task, labels in by_task.items():
        if len(labels) > 1:
            mixed = join_names([f"{split} in {label}" for split, label in labels.items()])
            raise OptionError("split", f"must be given: {task} has scores of {mixed}")
    return {task: split for task, (split, *_) in by_task.items()}


def _factors(sources: Sequence[LoadedScores], table: pd.DataFrame) -> tuple[bool, dict[str, float]]:
    """Return whether all other scores are shown times 100, and the factors of single tasks.

    Tasks of suites stay in points, the unit of their margins, next to tables with larger scores.
    """
    points = {task: factor for source in sources for task, factor in source.scores.points.items()}
    others = table[~table["task"].isin(points)]
    in_points = [source.scores for source in sources if source.scores.in_points]
    if not in_points or are_fractions(others):
        return bool(in_points), points
    of_suites = others[others["task"].isin({task for scores in in_points for task in scores.tasks})]
    largest = of_suites["score"].abs().groupby(of_suites["task"]).max()
    return False, points | dict.fromkeys(map(str, largest.index[largest <= 1]), 100.0)


def tasks_named(names: Collection[str], sources: Sequence[LoadedScores]) -> list[str]:
    """Return the tasks with these names or metrics; `all` names all, unless one has this name."""
    metrics = _single_metrics(sources)
    named = {name: [task for task, metric in metrics.items() if metric == name] for name in names}
    tasks = [*dict.fromkeys(task for source in sources for task in source.scores.single_tasks)]
    named |= {ALL: tasks} if ALL in named and ALL not in [*tasks, *metrics.values()] else {}
    return [task for name in names for task in named[name] or [name]]


def _single_metrics(sources: Sequence[LoadedScores]) -> dict[str, str]:
    """Return the metric of each task that has only one."""
    scores = [source.scores for source in sources]
    named = {task: x.only_metric(task) for x in scores for task in x.metrics}
    return {task: name for task, name in named.items() if name}


def _agreed_metrics(sources: Sequence[LoadedScores]) -> dict[str, Sequence[str]]:
    """Return the metrics of each task of tables, if all tables that have the task name the same."""
    named: dict[str, set[tuple[str, ...]]] = {}
    for table in (source.scores for source in sources if source.results is None):
        for task in table.tasks:
            named.setdefault(task, set()).add((*table.metrics.get(task, ()),))
    return {task: names.pop() for task, names in named.items() if len(names) == 1}


def _declared(sources: Sequence[LoadedScores]) -> dict[str, Any]:
    """Return the test, reference and margins of the suites where all declare the same."""
    suites = [source.scores for source in sources if source.scores.reference_declared]
    tests = {(suite.alpha, suite.control, suite.test, suite.test_over_tasks) for suite in suites}
    judged = {
        (suite.reference, suite.margin, (*sorted(suite.margins.items()),)) for suite in suites
    }
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


def failing_layers(sources: Sequence[LoadedScores]) -> Iterator[Statement]:
    """Yield a warning for each method with runs whose custom layer fails its checks.

    Args:
        sources: The sources that `join` has returned, or a single source.
    """
    for results in (source.results for source in sources if source.results is not None):
        for name, fault in results.failing_layers.items():
            if any(run["method"] == name for run in results.runs):
                method = name.replace(FAILS_CHECKS, "").strip()
                yield state("failing_layer", method=method, fault=fault)


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
    timed = [source.label for source in sources if source.scores.timed]
    learned = [source.label for source in sources if not source.scores.timed]
    if timed and learned:
        raise SuiteError(
            f"timed suites cannot be compared with trained ones. Received: {timed[0]} (timed) and "
            f"{learned[0]} (trained)"
        )


def _replicate(sources: Sequence[LoadedScores]) -> Replicate:
    """Return what the column `seed` has in all sources with more than one score."""
    kinds = {source.scores.replicate: source.label for source in sources if source.scores.seeds > 1}
    if len(kinds) > 1:
        received = join_names([f"{kind}s in {label}" for kind, label in kinds.items()], " and ")
        fault = "must say seed=COLUMN if all scores are of independent runs; otherwise, compare"
        raise OptionError("columns", f"{fault} them separately. Received: {received}")
    return next(iter(kinds), sources[0].scores.replicate)


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


def source_warnings(sources: Sequence[LoadedScores], scores: Scores) -> Iterator[Statement]:
    """Yield remarks and warnings about direction, metrics and units of scores from tables.

    Args:
        sources: As for `join`.
        scores: The scores that `join` has returned.
    """
    yield from (state("note", text=note) for source in sources for note in source.notes)
    tasks: dict[tuple[str, ...], list[str]] = {}
    for task in _tasks_of_tables(sources):
        named = [source.scores.metrics[task] for source in sources if task in source.scores.metrics]
        tasks.setdefault((*dict.fromkeys(map(" and ".join, named)),), []).append(task)
    for metrics, same in tasks.items():
        if len(metrics) > 1 or " and " in "".join(metrics):
            yield state("metrics", tasks=same, metrics=metrics)
    yield from _doubtful_directions(sources, scores)
    by_split: dict[str | None, list[str]] = {}
    for task in _tasks_of_tables(sources):
        by_split.setdefault(scores.splits.get(task), []).append(task)
    if len(by_split.keys() - {None, ""}) > 1:
        yield state("several_splits", splits={str(x or "unknown"): by_split[x] for x in by_split})
    if scores.unit_remark:
        percent = bool(scores.table["score"].abs().max() <= 100)
        yield state("no_mean_over_tasks", why=scores.unit_remark, percent=percent)


def _doubtful_directions(sources: Sequence[LoadedScores], scores: Scores) -> Iterator[Statement]:
    """Yield a warning for each unknown metric whose assumed direction may be wrong."""
    scored = (name for registered in TASKS.values() for name in registered.task.scored)
    known = {name for name in scored if not read_name(name)[1]}
    metrics, tables, table = _single_metrics(sources), _tasks_of_tables(sources), scores.table
    for metric in dict.fromkeys(metrics.get(task, "") for task in tables):
        tasks = [task for task in tables if metrics.get(task, "") == metric]
        lower = [task for task in tasks if scores.directions[task] == (False, "declared")]
        unknown = [task for task in tasks if task not in known]
        assumed = [task for task in unknown if scores.directions[task] == (True, "assumed")]
        rows = table[table["task"].isin(assumed) & ~table["score"].between(0, 100)]
        outside = rows["score"].tolist()[:1]
        if assumed and (outside or lower or any(read_name(x)[1] for x in (*assumed, metric))):
            turned = [task for task in tasks if task in {*assumed, *lower}]
            names = shlex.quote(metric if metric and turned == tasks else ",".join(turned))
            option = f"--lower-is-better {names}"
            doubtful = [*rows["task"].unique()] if outside and not lower else assumed
            yield state(
                "assumed_direction", tasks=doubtful, outside=outside, lower=lower, option=option
            )


def _tasks_of_tables(sources: Sequence[LoadedScores]) -> list[str]:
    tables = [source.scores for source in sources if source.results is None]
    return [*dict.fromkeys(task for table in tables for task in table.single_tasks)]


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
    methods = {source.label: {*source.scores.methods, *source.requested()} for source in sources}
    times = Counter(name for names in methods.values() for name in names)
    labelled = [
        {name: f"{name} ({label})" for name in names if times[name] > 1}
        for label, names in methods.items()
    ]
    repeated = sorted({name for names in labelled for name in names.values()} & {*times})
    if repeated:
        raise OptionError("labels", f"must not make the name of another method: {repeated[0]!r}")
    return [source.renamed(names) for source, names in zip(sources, labelled, strict=True)]
