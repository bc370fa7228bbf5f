"""Where the scores of a comparison come from: suites' folders, reports, tables of anyone's."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pandas as pd

from relation_tf.bench.results import GLUE_AVERAGE, MEAN_OF_TASKS, Results, read_results
from relation_tf.bench.suite import SuiteError
from relation_tf.report.scores import Scores
from relation_tf.tasks.csv_tables import read_csv
from relation_tf.tasks.tsv import DataError, listed, shown

ScoreSource: TypeAlias = Results | pd.DataFrame | str | Path

_KEY = ["task", "method", "seed"]


@dataclass(frozen=True)
class Source:
    """Some scores, and what they are called beside others.

    Attributes:
        label: Such as "before".
        scores: The scores.
        results: The runs behind them, where they are known.
    """

    label: str
    scores: Scores
    results: Results | None = None


def read_source(source: ScoreSource, label: str | None = None, number: int = 1) -> Source:
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
        return Source(label or f"table {number}", _scores(source, _rows_of(source, number)))
    if isinstance(source, Results):
        return Source(label or source.folder.name, Scores.of(source), source)
    path = Path(source).expanduser()
    label = label or path.resolve().stem
    if (path / "runs").is_dir():
        results = read_results(path)
        return Source(label, Scores.of(results), results)
    if (path / "scores.csv").is_file():
        # A report's own table: its averages are made anew of whatever is compared.
        scores = _read_table(path / "scores.csv")
        rows = ~scores.table["task"].isin([GLUE_AVERAGE, MEAN_OF_TASKS])
        table = scores.table[rows]
        return Source(label, dataclasses.replace(_in_order(table), in_points=True))
    if path.is_dir():
        raise SuiteError(
            f"{path}: expected a suite's folder, with runs/, or a report's, with scores.csv; found "
            "neither"
        )
    return Source(label, _read_table(path))


def join(
    sources: Sequence[Source],
    *,
    merge: bool = False,
    lower_is_better: Iterable[str] = (),
    alpha: float = 0.05,
) -> tuple[Scores, list[dict[str, str]]]:
    """All scores side by side.

    A method that several sources have is called after its source as well, such as
    `relation-64 (before)`; with `merge` it is one method whose seeds the sources share.

    Args:
        sources: At least one.
        merge: Whether a method's seeds of several sources are those of one method.
        lower_is_better: The tasks whose lowest score is the best.
        alpha: The level of the tests.

    Returns:
        The scores, and for each source what its methods are called among them.

    Raises:
        SuiteError: For labels that are the same, scores in different units, a task that is not
            there, and, with `merge`, a seed that two sources have.
    """
    _check_labels(sources)
    _check_units(sources)
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
    lower = frozenset(lower_is_better)
    for task in sorted(lower - {*tasks}):
        raise SuiteError(f"lower is better: expected some of {listed(tasks)}. Received: {task!r}")
    known = {source.scores.noun for source in sources}
    return (
        Scores(
            table=table[table["task"].isin([*tasks, *averages])],
            methods=[*dict.fromkeys(name for own in names for name in own.values())],
            tasks=[*tasks, *averages],
            seeds=int(table.groupby(["task", "method"]).size().max()) if len(table) else 0,
            averages=averages,
            noun=known.pop() if len(known) == 1 else "tasks",
            lower_is_better=lower,
            in_points=any(source.scores.in_points for source in sources),
            alpha=alpha,
        ),
        names,
    )


def _read_table(path: Path) -> Scores:
    table = read_csv(path)
    rows = [f"{path}:{line}" for line in table.lines]
    return _scores(pd.DataFrame(table.columns), rows, path)


def _rows_of(table: pd.DataFrame, number: int) -> list[str]:
    return [f"table {number}, row {index!r}" for index in table.index]


def _scores(table: pd.DataFrame, rows: Sequence[str], path: Path | None = None) -> Scores:
    """The scores of a table with a row for each of them, or for each metric of them."""
    where = str(path) if path is not None else "the table"
    value = next((name for name in ("score", "value") if name in table), None)
    missing = [name for name in _KEY if name not in table]
    if value is None or missing:
        found = listed([repr(str(name)) for name in table])
        raise DataError(
            f"{where}: expected columns 'task', 'method', 'seed' and 'score'. Received: {found}"
        )
    if table.empty:
        raise DataError(f"{where}: expected a row for each score, found none")
    table = table.reset_index(drop=True)
    key = [*_KEY, "metric"] if "metric" in table else _KEY
    own = table[key].astype(str)
    for name in key:
        for row in own.index[own[name].str.strip() == ""]:
            raise DataError(f"{rows[row]}: expected a {name}, found none")
    again = own.duplicated()
    for row in own.index[again]:
        first = own.index[(own == own.loc[row]).all(axis=1)][0]
        raise DataError(
            f"{rows[row]}: expected each task, method and seed once, found "
            f"{shown(' / '.join(own.loc[row]))} of {rows[first]} again"
        )
    own["score"] = [_number(score, rows[row]) for row, score in enumerate(table[value].tolist())]
    order = own.drop_duplicates(_KEY)[_KEY]
    means = own.groupby(_KEY, sort=False)["score"].mean()
    return _in_order(order.assign(score=means.loc[pd.MultiIndex.from_frame(order)].to_numpy()))


def _number(value: object, row: str) -> float:
    """A score.

    Raises:
        DataError: For one that is no finite number: a run that diverged has no mean with others.
    """
    try:
        score = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        score = math.nan
    if isinstance(value, bool) or not math.isfinite(score):
        raise DataError(
            f"{row}: expected a finite number as score (of a run that failed, the score that it is "
            f"worth). Received: {shown(str(value))}"
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


def _check_labels(sources: Sequence[Source]) -> None:
    for label, times in Counter(source.label for source in sources).items():
        if times > 1:
            raise SuiteError(f"labels: expected one of its own for each source, found {label!r} "
                             f"{times} times")  # fmt: skip


def _check_units(sources: Sequence[Source]) -> None:
    """Fractions and points in one table would look like a difference."""
    largest: dict[str, dict[str, float]] = {}
    for source in sources:
        for task, own in source.scores.table.groupby("task")["score"]:
            largest.setdefault(str(task), {})[source.label] = float(own.abs().max())
    for task, by_label in largest.items():
        low = min(by_label, key=by_label.__getitem__)
        high = max(by_label, key=by_label.__getitem__)
        if 0 < by_label[low] <= 1 and by_label[high] > 20:
            raise SuiteError(
                f"{task}: expected scores in one unit. Received: up to {by_label[low]:.4g} from "
                f"{low} and up to {by_label[high]:.4g} from {high}; a suite's scores are fractions"
            )


def _names(sources: Sequence[Source], merge: bool) -> list[dict[str, str]]:
    times = Counter(name for source in sources for name in source.scores.methods)
    return [
        {
            name: f"{name} ({source.label})" if times[name] > 1 and not merge else name
            for name in source.scores.methods
        }
        for source in sources
    ]


def _check_seeds(sources: Sequence[Source], tables: Sequence[pd.DataFrame]) -> None:
    seen: dict[tuple[str, ...], str] = {}
    for source, table in zip(sources, tables, strict=True):
        for key in table[_KEY].astype(str).itertuples(index=False, name=None):
            if key in seen:
                raise SuiteError(
                    f"merge: expected each task, method and seed from one source. Received: "
                    f"{' / '.join(key)} from {seen[key]} and from {source.label}"
                )
            seen[key] = source.label


def join_results(sources: Sequence[Source], names: Sequence[Mapping[str, str]]) -> Results | None:
    """The runs of all sources as if they were of one suite.

    Args:
        sources: As for `join`.
        names: What it has called their methods.

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
            "seeds": sorted({seed for each in suites for seed in each.seeds}),
            "overrides": {task: own for each in suites for task, own in each.overrides.items()},
            "published": None,
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
        parts=[each for each, _ in parts],
    )


def _renamed(run: str, names: Mapping[str, str]) -> str:
    task, method, seed = run.split("/")
    return f"{task}/{names[method]}/{seed}"
