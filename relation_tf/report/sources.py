"""Where the scores of a comparison come from: suites' folders, reports, tables of anyone's."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, TypeAlias

import pandas as pd

from relation_tf.bench.results import (
    GLUE_AVERAGE,
    MEAN_OF_TASKS,
    Results,
    read_pretraining,
    read_results,
)
from relation_tf.config.suite import Suite
from relation_tf.errors import DataError, SuiteError, join_names, quote
from relation_tf.report.comparisons import SCORE, test_name
from relation_tf.report.scores import Scores
from relation_tf.stats.design import format_level
from relation_tf.tasks.csv_tables import read_csv
from relation_tf.tasks.group import TaskGroup
from relation_tf.training.pretrained import SETTINGS, SPEEDS

ScoreSource: TypeAlias = Results | pd.DataFrame | str | Path

_KEY = ["task", "method", "seed"]
_LEVEL = 0.05  # where no suite declares one
_LOWER = re.compile(  # what a task is called whose lowest score is the best
    r"(?<![a-z])(?<!neg_)(?<!negative_)(perplexity|perplexities|ppl|loss|log_?loss|nll|bpc|"
    r"cross.?entropy|error|wer|cer|rmse|mse|mae|seconds|latency)(?![a-z])",
    re.I,
)
_TWO_UNITS = "percent and fractions? Divide or multiply one by 100"


@dataclass(frozen=True)
class LoadedScores:
    """Some scores, and what they are called beside others.

    Attributes:
        label: Such as "before".
        scores: The scores.
        origin: What was read, as a report says it.
        results: The runs behind them, where they are known.
        folders: Where the scores were read from, and where a suite has its report.
        pretraining: What was asked of encoders that were pre-trained.
        manifests: How they were made.
    """

    label: str
    scores: Scores
    origin: str
    results: Results | None = None
    folders: Sequence[Path] = ()
    pretraining: Mapping[str, Any] = field(default_factory=dict)
    manifests: Sequence[Mapping[str, Any]] = ()


def read_source(source: ScoreSource, label: str | None = None, number: int = 1) -> LoadedScores:
    """Read scores.

    Args:
        source: A suite's folder or its `Results`; a folder with a report's `scores.csv`; a CSV file
            or a `pandas.DataFrame` with the columns `task`, `method`, `seed` and `score` (or
            `value`), where several rows of a seed with a `metric` each count their mean.
        label: What the source is called, by default its folder or file.
        number: Its place among others, for a name where it has none.

    Raises:
        SuiteError: For a folder that is neither, and a suite's files that are broken.
        DataError: For a file or table that is not one of scores; the message names the line.
    """
    if isinstance(source, pd.DataFrame):
        name = f"table {number}"
        scores = _scores(source, _rows_of(source, number))
        return LoadedScores(label or name, scores, f"{name}, in memory")
    if isinstance(source, Results):
        return _source_of_runs(label or _label(source.folder), source)
    if not isinstance(source, str | os.PathLike):
        raise SuiteError(
            f"source {number}: expected a suite's or a report's folder, a CSV file, Results or a "
            f"pandas.DataFrame. Received: {type(source).__name__} {source!r:.80}"
        )
    path, kind = _found(source)
    label = label or _label(path)
    if kind == "suite":
        return _source_of_runs(label, read_results(path))
    if kind == "report":
        file = path / "scores.csv"
        return LoadedScores(
            label, _scores_of_report(path), _digested(file), None, [path], *_pretraining(path)
        )
    if kind == "folder" and (path / SETTINGS).is_file():
        raise SuiteError(
            f"{path}: expected scores.csv, of pre-training; no run is done, or the command was "
            "killed. The same `relation-tf pretrain` goes on and writes it"
        )
    if kind == "folder":
        raise SuiteError(
            f"{path}: expected a suite's folder, with runs/, or a report's, with scores.csv; found "
            "neither"
        )
    ours = path.name in ("scores.csv", SPEEDS)
    made = _pretraining(path.parent) if ours else ()
    return LoadedScores(label, _read_table(path), _digested(path), None, [path.parent], *made)


def _pretraining(folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What was asked of encoders that were pre-trained, and how they were made."""
    return read_pretraining(folder) or ({}, [])


def _source_of_runs(label: str, results: Results) -> LoadedScores:
    origin = f"{results.folder}, {len(results.runs)} runs of a suite"
    folders = [results.folder, results.folder / "report"]
    return LoadedScores(label, Scores.of(results), origin, results, folders)


def _digested(path: Path) -> str:
    if not path.is_file():
        return str(path)  # a pipe, which can be read once
    return f"{path}, SHA-256 {hashlib.sha256(path.read_bytes()).hexdigest()}"


def _found(source: str | os.PathLike[str]) -> tuple[Path, str]:
    """A path, and what is there."""
    try:
        path = Path(source).expanduser()
        if (path / "runs").is_dir() and not (path / SETTINGS).is_file():
            return path, "suite"
        if (path / "scores.csv").is_file():
            return path, "report"
        return path, "folder" if path.is_dir() else "file"
    except (OSError, RuntimeError) as error:  # of a path, and of a home that nobody has
        reason = getattr(error, "strerror", None) or error
        raise SuiteError(f"{source!s:.160}: cannot be read: {reason}") from error


def _label(path: Path) -> str:
    path = path.resolve()
    if not path.is_dir():
        return path.stem
    return path.parent.name if path.name == "report" else path.name


def _scores_of_report(folder: Path) -> Scores:
    """A report's own table, and what the report says of it; its averages are made anew."""
    scores = _read_table(folder / "scores.csv")
    file = folder / "report.json"
    said = read_report(folder)
    # Reports of before did not say it: most were of suites.
    in_points = said.get("in_points", _are_fractions(scores.table))
    lower, points = said.get("lower_is_better", []), said.get("points", {})
    if not isinstance(in_points, bool):
        raise SuiteError(
            f"{file}: expected true or false as 'in_points'. Received: {in_points!r:.80}"
        )
    if not isinstance(lower, list) or not all(isinstance(task, str) for task in lower):
        raise SuiteError(
            f"{file}: expected names of tasks as 'lower_is_better'. Received: {lower!r:.80}"
        )
    numbers = isinstance(points, dict) and all(type(x) in (int, float) for x in points.values())
    if not numbers:
        raise SuiteError(f"{file}: expected numbers by task as 'points'. Received: {points!r:.80}")
    return dataclasses.replace(
        scores,
        in_points=in_points,
        lower_is_better=frozenset(lower) & {*scores.tasks},
        timed=said.get("timed") is True,
        points={task: points[task] for task in points if task in {*scores.tasks}},
    )


def read_report(folder: Path) -> dict[str, Any]:
    """What a report says of itself in its report.json; nothing where there is none.

    Raises:
        SuiteError: For a file that is broken.
    """
    file = folder / "report.json"
    if not file.exists():
        return {}
    try:
        said = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SuiteError(f"{file}: expected JSON: {error!s:.100}") from error
    if not isinstance(said, dict):
        raise SuiteError(f"{file}: expected a JSON object, found {type(said).__name__}")
    return said


def _are_fractions(table: pd.DataFrame) -> bool:
    return bool((table["score"].abs() <= 1).all())


def join(
    sources: Sequence[LoadedScores],
    *,
    merge: bool = False,
    lower_is_better: Iterable[str] = (),
    alpha: float | None = None,
) -> tuple[Scores, list[dict[str, str]]]:
    """All scores side by side.

    A method that several sources have is called after its source as well, such as
    `relation-64 (before)`; with `merge` it is one method whose seeds the sources share.

    Args:
        sources: At least one.
        merge: Whether a method's seeds of several sources are those of one method.
        lower_is_better: The tasks whose lowest score is the best, beside those that a report says.
        alpha: The level of the tests, by default that of the suites, where all declare the same
            test, else .05.

    Returns:
        The scores, and for each source what its methods are called among them.

    Raises:
        SuiteError: For labels that are the same, scores in different units, a task that is not
            there, and, with `merge`, a seed that two sources have.
    """
    _check_labels(sources)
    _check_timed(sources)
    lower = frozenset(lower_is_better).union(*(own.scores.lower_is_better for own in sources))
    _check_units(sources, lower)
    names = _names(sources, merge)
    tables = [
        source.scores.table.assign(method=source.scores.table["method"].map(own))
        for source, own in zip(sources, names, strict=True)
    ]
    table = pd.concat(tables, ignore_index=True)
    if merge:
        _check_seeds(sources, tables)
    tasks = [*dict.fromkeys(task for source in sources for task in source.scores.own_tasks)]
    # An average is of its own tasks: of others it would be another one.
    alike = all({*source.scores.own_tasks} == {*tasks} for source in sources)
    averages = [
        name
        for name in sources[0].scores.averages
        if alike and all(name in source.scores.averages for source in sources)
    ]
    for task in sorted(lower - {*tasks}):
        raise SuiteError(
            f"--lower-is-better: expected some of {join_names(tasks)}. Received: {task!r}"
        )
    points = {task: own for source in sources for task, own in source.scores.points.items()}
    known = {source.scores.noun for source in sources}
    tests = {
        (source.scores.alpha, _own_control(source, own), source.scores.test)
        for source, own in zip(sources, names, strict=True)
        if source.results is not None
    }
    level, control, test = tests.pop() if len(tests) == 1 else (_LEVEL, None, None)
    return (
        Scores(
            table=table[table["task"].isin([*tasks, *averages])],
            methods=[*dict.fromkeys(name for own in names for name in own.values())],
            tasks=[*tasks, *averages],
            seeds=int(table.groupby(["task", "method"]).size().max()) if len(table) else 0,
            averages=averages,
            noun=known.pop() if len(known) == 1 else "tasks",
            lower_is_better=lower,
            control=control,
            in_points=any(source.scores.in_points for source in sources)
            and _are_fractions(table[~table["task"].isin(points)]),
            alpha=level if alpha is None else alpha,
            points=points,
            test=test,
        ),
        names,
    )


def _own_control(source: LoadedScores, names: Mapping[str, str]) -> str | None:
    """What the method is called that a suite compares all others with."""
    control = source.scores.control
    return None if control is None else names[control]


def unused_tests(
    sources: Sequence[LoadedScores], names: Sequence[Mapping[str, str]], scores: Scores
) -> list[str]:
    """Which suites declare another test than the one that they are compared by.

    Args:
        sources: As for `join`.
        names: What it has called their methods.
        scores: What it has joined.
    """
    used = _test(scores, scores.control)
    return [
        f"{source.label} declares {declared}; this comparison is by {used}."
        for source, own in zip(sources, names, strict=True)
        if source.results is not None
        and (declared := _test(source.scores, _own_control(source, own))) != used
    ]


def _test(scores: Scores, control: str | None) -> str:
    return f"{test_name(scores.procedure, control)}, {format_level(scores.alpha)}"


def _read_table(path: Path) -> Scores:
    """The scores of a file, without blank rows and averages of other tasks of it."""
    file = read_csv(path, skip_bad_lines=True)
    header = [*file.columns]
    if len(header) == 1 and re.search("[;\t]", header[0]):
        raise DataError(
            f"{path}:1: expected fields separated by commas: save as comma-separated, decimals "
            f"with a point. Received: {quote(header[0])}"
        )
    for fault in file.skipped:
        if not fault.endswith("found 0"):  # fields: a blank line
            raise DataError(fault)
    table = pd.DataFrame(file.columns, index=[f"{path}:{line}" for line in file.lines], dtype=str)
    table = table[(table != "").any(axis=1)]
    if "task" in table:
        table = table[~table["task"].isin([GLUE_AVERAGE, MEAN_OF_TASKS])]
    return _scores(table, [*table.index], path)


def _rows_of(table: pd.DataFrame, number: int) -> list[str]:
    return [f"table {number}, row {index!r}" for index in table.index]


def _scores(table: pd.DataFrame, rows: Sequence[str], path: Path | None = None) -> Scores:
    """The scores of a table with a row for each of them, or for each metric of them."""
    where = str(path) if path is not None else "the table"
    columns = Counter(table.columns)
    value = "value" if "value" in columns and "score" not in columns else "score"
    missing = [name for name in (*_KEY, value) if name not in columns]
    if missing:
        raise DataError(
            f"{where}: expected columns 'task', 'method', 'seed' and 'score' (or 'value'), found "
            f"no {_quoted(missing, ' and ')}{_odd(columns)}. Received: {_quoted(table.columns)}"
        )
    key = [*_KEY, "metric"] if "metric" in columns else _KEY
    for name in (*key, value):
        if columns[name] > 1:
            raise DataError(f"{where}: expected column {name!r} once, found it {columns[name]} "
                            "times")  # fmt: skip
    if table.empty:
        raise DataError(f"{where}: expected a row for each score, found none")
    own = pd.DataFrame(
        {
            name: [_text(each, name, row) for each, row in zip(table[name], rows, strict=True)]
            for name in key
        },
        dtype=str,
    )
    again = own.duplicated()
    for row in own.index[again]:
        first = own.index[(own == own.loc[row]).all(axis=1)][0]
        raise DataError(
            f"{rows[row]}: expected each task, method and seed once, found "
            f"{quote(' / '.join(own.loc[row]))} of {rows[first]} again"
        )
    metrics = _check_metrics(own, rows) if "metric" in columns else {}
    own["score"] = [_number(score, rows[row]) for row, score in enumerate(table[value].tolist())]
    order = own.drop_duplicates(_KEY)[_KEY]
    means = own.groupby(_KEY, sort=False)["score"].mean()
    scores = order.assign(score=means.loc[pd.MultiIndex.from_frame(order)].to_numpy())
    return dataclasses.replace(_in_order(scores), metrics=metrics)


def _odd(columns: Iterable[Any]) -> str:
    """The columns that are none of ours, one of which may be what is missing under its own name."""
    others = [name for name in columns if name not in {*_KEY, "metric", "score", "value"}]
    return f", but {_quoted(others)}" if others else ""


def _quoted(names: Iterable[Any], between: str = ", ") -> str:
    return join_names([repr(str(name)) for name in names], between)


def _text(value: Any, name: str, row: str) -> str:
    """A task, method, seed or metric.

    Raises:
        DataError: For none, and for what a page or picture cannot show.
    """
    if pd.api.types.is_scalar(value) and pd.isna(value):
        raise DataError(
            f"{row}: expected a {name}, found {value!r}; pandas reads 'NA' and 'None' as empty, "
            "unless with keep_default_na=False"
        )
    text = str(value).strip()
    if not text:
        raise DataError(f"{row}: expected a {name}, found none")
    if not text.isprintable():
        raise DataError(f"{row}: expected a {name} that can be printed. Received: {quote(text)}")
    # 1, 01 and 1.0, which pandas makes of 1 beside an empty cell, are the same seed.
    whole = re.fullmatch(r"([+-]?\d{1,18})(\.0*)?", text) if name == "seed" else None
    return str(int(whole[1])) if whole else text


def _check_metrics(table: pd.DataFrame, rows: Sequence[str]) -> dict[str, list[str]]:
    """The metrics of each task; of several a score is the mean.

    Means of different metrics would look like a difference; `SCORE` alone is such a mean.
    """
    expected: dict[str, tuple[str, list[str]]] = {}
    key: Any
    for key, own in table.groupby(_KEY, sort=False):
        task, method, seed = key
        metrics = sorted(own["metric"])
        if metrics == [SCORE]:
            continue
        first, wanted = expected.setdefault(task, (f"{method} / {seed}", metrics))
        if metrics != wanted:
            raise DataError(
                f"{rows[own.index[0]]}: expected {join_names(wanted)} of {task}, as of {first}. "
                f"Received: {join_names(metrics)} of {method} / {seed}"
            )
        lower = [metric for metric in metrics if _LOWER.search(metric)]
        if lower and len(lower) < len(metrics):
            raise DataError(
                f"{rows[own.index[0]]}: expected metrics of {task} that have a mean, all higher or "
                f"all lower for the better. Received: {join_names(metrics, ' and ')}; keep one of "
                "them, or give each a task of its own"
            )
    return {task: metrics for task, (_, metrics) in expected.items()}


def _number(value: object, row: str) -> float:
    """A score.

    Raises:
        DataError: For one that is no finite number: a run that diverged has no mean with others.
    """
    try:
        score = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        score = math.nan
    # Python reads 8_0.5 as 80.5.
    if isinstance(value, bool) or "_" in str(value) or not math.isfinite(score):
        raise DataError(
            f"{row}: expected a finite number as score (of a run that failed, the score that it is "
            f"worth). Received: {quote(str(value))}"
        )
    return score


def _in_order(table: pd.DataFrame) -> Scores:
    table = table.reset_index(drop=True)
    return Scores(
        table=table,
        methods=[*dict.fromkeys(table["method"])],
        tasks=[*dict.fromkeys(table["task"])],
        seeds=int(table.groupby(["task", "method"]).size().max()) if len(table) else 0,
    )


def _check_labels(sources: Sequence[LoadedScores]) -> None:
    for label, times in Counter(source.label for source in sources).items():
        if not label.isprintable():
            raise SuiteError(
                f"labels: expected text that can be printed. Received: {quote(label)}; name the "
                "source yourself (--labels A,B)"
            )
        if times > 1:
            raise SuiteError(
                f"labels: expected one of its own for each source, found {label!r} {times} times; "
                "name them yourself (--labels A,B)"
            )


def _check_timed(sources: Sequence[LoadedScores]) -> None:
    """Runs that learned and runs that were timed have no page in common."""
    timed = [each.label for each in sources if each.scores.timed]
    learned = [each.label for each in sources if not each.scores.timed]
    if timed and learned:
        raise SuiteError(
            f"expected sources that are all of timed suites, or none. Received: {timed[0]}, which "
            f"is, and {learned[0]}"
        )


def _check_units(sources: Sequence[LoadedScores], lower_is_better: Collection[str]) -> None:
    """Fractions and points in one table would look like a difference.

    Where the lowest score is the best, as of times, one may well be many times another.
    """
    largest: dict[str, dict[str, float]] = {}
    for source in sources:
        key: Any
        for key, own in source.scores.table.groupby(["task", "method"])["score"]:
            task, method = key
            if task not in lower_is_better:
                name = f"{method} of {source.label}"
                largest.setdefault(task, {})[name] = float(own.abs().max())
    for task, by_name in largest.items():
        low = min(by_name, key=by_name.__getitem__)
        high = max(by_name, key=by_name.__getitem__)
        if 0 < by_name[low] <= 1 and 20 < by_name[high] <= 100:
            raise SuiteError(
                f"{task}: expected scores in one unit. Received: up to {by_name[low]:.4g} of "
                f"{low} and up to {by_name[high]:.4g} of {high}; {_TWO_UNITS}"
            )


def doubts(sources: Sequence[LoadedScores], scores: Scores) -> Iterator[str]:
    """What tables may not have meant: a suite knows what its scores are.

    Args:
        sources: As for `join`.
        scores: What it has joined.
    """
    theirs = [source.scores for source in sources if source.results is None]
    tasks = [*dict.fromkeys(task for own in theirs for task in own.own_tasks)]
    higher = [task for task in tasks if task not in scores.lower_is_better]
    for task in higher:
        if _LOWER.search(task):
            name = shlex.quote(task)
            yield f"{task}: taken as higher is better; --lower-is-better {name} if not."
    for task in tasks:
        yield from _doubtful_metrics(task, theirs, task in scores.lower_is_better)
    for task in higher:
        yield from _doubtful_units(task, scores.samples(task))
    unequal: dict[str, list[str]] = {}
    for task in tasks:
        if counts := _unequal({name: len(own) for name, own in scores.samples(task).items()}):
            unequal.setdefault(counts, []).append(task)
    yield from (f"{', '.join(of)}: {counts}." for counts, of in unequal.items())
    seeds = dict.fromkeys(str(seed) for own in theirs for seed in own.table["seed"])
    if odd := [seed for seed in seeds if not re.fullmatch(r"[+-]?\d+", seed)]:
        yield f"Seeds that are no whole numbers: {_quoted(odd)}."


def _doubtful_metrics(task: str, theirs: Sequence[Scores], lower: bool) -> Iterator[str]:
    """Scores that are means of metrics, or of others in each source, or better low."""
    known = [own.metrics[task] for own in theirs if task in own.metrics]
    several = dict.fromkeys(map(" and ".join, known))
    if len(several) > 1:
        yield f"{task}: scores are of different metrics in the sources: {'; '.join(several)}."
    elif any(" and " in metrics for metrics in several):
        yield f"{task}: a score is the mean of {next(iter(several))}."
    names = {metric for metrics in known for metric in metrics}
    if names and not lower and all(_LOWER.search(name) for name in names):
        yield f"{task}: taken as higher is better; --lower-is-better {shlex.quote(task)} if not."


def _doubtful_units(task: str, samples: Mapping[str, Sequence[float]]) -> Iterator[str]:
    """Low scores in percent beside fractions, which `_check_units` cannot tell from high ones."""
    sizes = {name: [abs(score) for score in own] for name, own in samples.items()}
    low = min(sizes, key=lambda name: max(sizes[name]))
    high = max(sizes, key=lambda name: min(sizes[name]))
    most, least = max(sizes[low]), min(sizes[high])
    if most <= 1 < least and fmean(sizes[high]) > 20 * fmean(sizes[low]) > 0:
        yield (f"{task}: {low} has scores up to {most:.4g}, {high} from {least:.4g}: {_TWO_UNITS}.")


def _unequal(seeds: Mapping[str, int]) -> str:
    """Which methods have other numbers of seeds than most; empty where none has."""
    times = Counter(seeds.values())
    usual = max(times, key=lambda number: (times[number], number))
    parts = [
        f"{name} has {number} {'seed' if number == 1 else 'seeds'}"
        for name, number in seeds.items()
        if number != usual
    ]
    return ", ".join([*parts, f"others {usual}"]) if parts else ""


def _names(sources: Sequence[LoadedScores], merge: bool) -> list[dict[str, str]]:
    times = Counter(name for source in sources for name in source.scores.methods)
    return [
        {
            name: f"{name} ({source.label})" if times[name] > 1 and not merge else name
            for name in source.scores.methods
        }
        for source in sources
    ]


def _check_seeds(sources: Sequence[LoadedScores], tables: Sequence[pd.DataFrame]) -> None:
    seen: dict[tuple[str, ...], str] = {}
    for source, table in zip(sources, tables, strict=True):
        for key in table[_KEY].astype(str).itertuples(index=False, name=None):
            if key in seen:
                raise SuiteError(
                    f"merge: expected each task, method and seed from one source. Received: "
                    f"{' / '.join(key)} from {seen[key]} and from {source.label}"
                )
            seen[key] = source.label


def join_results(
    sources: Sequence[LoadedScores], names: Sequence[Mapping[str, str]], scores: Scores
) -> Results | None:
    """The runs of all sources as if they were of one suite, which declares the test that is used.

    Args:
        sources: As for `join`.
        names: What it has called their methods.
        scores: What it has joined.

    Returns:
        The runs; None where no source has any.
    """
    parts = [
        (source.results, own)
        for source, own in zip(sources, names, strict=True)
        if source.results is not None
    ]
    if not parts:
        return None
    suites = [each.suite for each, _ in parts]
    methods = {
        own[str(method.name)]: method.model_copy(update={"name": own[str(method.name)]})
        for each, own in parts
        for method in each.suite.methods()
    }
    suite = suites[0].model_copy(
        update={
            "method": [*methods.values()],
            "tasks": [*dict.fromkeys(task for each in suites for task in each.tasks)],
            "task": [*{task.name: task for each in suites for task in each.task}.values()],
            "group": _joined_groups(suites),
            "seeds": sorted({seed for each in suites for seed in each.seeds}),
            "overrides": {task: own for each in suites for task, own in each.overrides.items()},
            "published": None,
            "alpha": scores.alpha,
            "control": scores.control,
            "test": scores.test,
        }
    )
    return Results(
        folder=parts[0][0].folder,
        suite=suite,
        runs=[run | {"method": own[run["method"]]} for each, own in parts for run in each.runs],
        failures=[
            (_renamed(name, own), error) for each, own in parts for name, error in each.failures
        ],
        configs=[
            run.model_copy(update={"method": own[run.method]})
            for each, own in parts
            for run in each.asked
        ],
        parts=[
            dataclasses.replace(each, suite=each.suite.model_copy(update={"alpha": scores.alpha}))
            for each, _ in parts
        ],
    )


def _joined_groups(suites: Sequence[Suite]) -> list[TaskGroup]:
    """The groups of all suites.

    Raises:
        SuiteError: Where two of a name are of other tasks.
    """
    groups: dict[str, TaskGroup] = {}
    for group in (group for each in suites for group in each.group):
        before = groups.setdefault(group.name, group)
        if before.tasks != group.tasks:
            raise SuiteError(
                f"group {group.name}: expected the same tasks in all sources, "
                f"{join_names([*map(str, before.tasks)])}. Received: "
                f"{join_names([*map(str, group.tasks)])}"
            )
    return [*groups.values()]


def _renamed(run: str, names: Mapping[str, str]) -> str:
    task, method, seed = run.split("/")
    return f"{task}/{names[method]}/{seed}"
