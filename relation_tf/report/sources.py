"""Sources of scores: folders of suites and reports, CSV files and data frames."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd
from pydantic import BaseModel, ConfigDict, ValidationError

from relation_tf.bench.results import (
    GLUE_AVERAGE,
    MEAN_OF_TASKS,
    Results,
    read_pretraining,
    read_results,
)
from relation_tf.bench.run_folder import suites_inside
from relation_tf.config.stand_ins import missing_parts
from relation_tf.errors import DataError, SuiteError, did_you_mean, quote, reason_of
from relation_tf.faults import first_fault
from relation_tf.files import LARGEST, expand_home, read_json
from relation_tf.report.failed import failed_runs
from relation_tf.report.glue_average import with_glue_average
from relation_tf.report.runs import COSTS, all_runs, read_runs
from relation_tf.report.score_tables import (
    KEY,
    ScoreTable,
    TableOptions,
    failure_notes,
    read_table,
)
from relation_tf.report.scores import Scores, on_split
from relation_tf.stats.directions import Direction
from relation_tf.tasks.sources import digest_of_file
from relation_tf.tasks.tables import read_csv
from relation_tf.training.pretrained import SETTINGS, SPEEDS

ScoreSource: TypeAlias = Results | pd.DataFrame | str | Path

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
        notes: Remarks on how a table was read, and on plugins that are not imported.
        replaced: Tasks of a table on which failed runs have the score of `--failed-as`.
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
    replaced: frozenset[str] = frozenset()

    def requested(self) -> set[str]:
        """Return the names of all methods that were run or should be run, also without scores."""
        runs = set() if self.runs.empty else {*self.runs["method"]}
        return (
            runs if self.results is None else runs | {run.method for run in self.results.requested}
        )

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
    lower_is_better: list[str] | None = None
    directions: dict[str, Direction] = {}
    points: dict[str, float] = {}
    timed: bool = False
    networks: dict[str, str] = {}
    artificial: bool = False


def read_source(
    source: ScoreSource,
    label: str | None = None,
    number: int = 1,
    options: TableOptions | None = None,
) -> LoadedScores:
    """Read scores.

    Args:
        source: A suite's folder or its `Results`; a folder with a report's `scores.csv`; a CSV file
            or a `pandas.DataFrame` with the columns `task`, `method`, `seed` and `score` (or
            `value`), or `task`, `seed` and one column per method. A seed with several rows, one per
            `metric`, has their mean as score.
        label: Name of the source, by default of its folder or file.
        number: Position of the source, used in the name of a data frame.
        options: Names of columns of tables, and treatment of failed runs.

    Raises:
        SuiteError: If a folder has no scores, or a file of a suite is invalid.
        DataError: If a file or table has invalid scores; the message names the line.
    """
    options = options or TableOptions()
    if isinstance(source, pd.DataFrame):
        name = f"table {number}"
        rows = [f"{name}, row {index!r}" for index in source.index]
        read = _read_table(source, rows, "the table", options)
        return LoadedScores(
            label or name,
            read.scores,
            f"{name}, in memory",
            runs=_with_costs(read.failed),
            notes=read.notes,
            replaced=read.replaced,
        )
    if isinstance(source, Results):
        return _source_of_runs(label or _label(source.folder), source, options.split)
    if not isinstance(source, str | os.PathLike):
        raise SuiteError(
            f"source {number} must be a folder of a suite or report, a CSV file, Results or a "
            f"pandas.DataFrame. Received: {type(source).__name__} {source!r:.80}"
        )
    path, file = _found(source)
    label = label or _label(path)
    if file is None:
        return _source_of_runs(label, read_results(path), options.split)
    read = _read_file(file, options)
    scores, runs, notes = read.scores, _with_costs(read.failed), [*read.notes]
    # The report next to its scores knows their metrics and directions.
    if file != path or (file.name == "scores.csv" and (file.parent / "report.json").is_file()):
        own = read_runs(file.parent)
        scores, runs = _as_reported(scores, _facts(file.parent), own), pd.concat([runs, own])
        lost = own[own["status"] == "failed"] if len(own) else own
        notes += failure_notes(lost, TableOptions()) if len(lost) else []
    ours = file.name in ("scores.csv", SPEEDS)
    pretraining, manifests = (read_pretraining(file.parent) if ours else None) or ({}, [])
    return LoadedScores(
        label=label,
        scores=scores,
        origin=_digested(file),
        paths=[path],
        pretraining=pretraining,
        manifests=manifests,
        runs=runs,
        notes=notes,
        replaced=read.replaced,
    )


def _with_costs(failed: pd.DataFrame) -> pd.DataFrame:
    """Return the failed runs of a table in the form of a report's runs."""
    return failed.assign(**dict.fromkeys(COSTS, math.nan)) if len(failed) else pd.DataFrame()


def _source_of_runs(label: str, results: Results, split: str | None = None) -> LoadedScores:
    """Return the scores of a suite's runs, with marked names of methods with failing layers."""
    origin = f"{results.folder}, {len(results.runs)} runs of a suite"
    paths = [results.folder, results.folder / "report"]
    notes, scores = missing_parts(results.suite), with_glue_average(Scores.of(results))
    source = LoadedScores(label, scores, origin, results, paths, notes=notes)
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


def _digested(path: Path) -> str:
    if not path.is_file():
        return str(path)  # a pipe can be read only once
    return f"{path}, SHA-256 {digest_of_file(path).hex()}"


def _found(source: str | os.PathLike[str]) -> tuple[Path, Path | None]:
    """Return the path and its table of scores; None as table for a suite's folder."""
    path = expand_home(source)
    try:
        pretrained = (path / SETTINGS).is_file()
        if (path / "runs").is_dir() and not pretrained:
            return path, None
        file = path / "scores.csv" if path.is_dir() else path
        missing = file != path and not file.is_file()
        absent = not path.exists()
        there = [each.name for each in path.parent.glob("*")] if absent else []
    except OSError as error:
        raise SuiteError(f"{source!s:.160}: cannot be read: {reason_of(error)}") from error
    if absent:
        prefix = "" if path.parent == Path() else f"{path.parent}/"
        hint = did_you_mean(path.name, there, cutoff=0.75, prefix=prefix)
        raise SuiteError(f"{path}: no such file or folder.{hint}")
    if missing and pretrained:
        raise SuiteError(
            f"{path}: scores.csv is missing, because pre-training has not finished. Run the same "
            "`relation-tf pretrain` command again to resume"
        )
    if missing:
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


def _facts(folder: Path) -> _ScoreFacts:
    """Return the facts in the report.json of a report."""
    try:
        return _ScoreFacts.model_validate(read_report(folder))
    except ValidationError as error:
        raise SuiteError(f"{folder / 'report.json'}: {first_fault(error)}") from error


def _as_reported(scores: Scores, said: _ScoreFacts, runs: pd.DataFrame) -> Scores:
    """Return the scores of a report with its facts, without those of its failed runs."""
    # Reports of earlier versions did not record it; most were reports of suites.
    in_points = are_fractions(scores.table) if said.in_points is None else said.in_points
    made = replace(
        scores,
        in_points=in_points,
        directions=scores.directions
        if said.lower_is_better is None
        # Reports of earlier versions did not record the origins.
        else {
            task: Direction(task not in said.lower_is_better, "registered") for task in scores.tasks
        }
        | {task: own for task, own in said.directions.items() if task in scores.tasks},
        timed=said.timed,
        points={task: factor for task, factor in said.points.items() if task in scores.tasks},
        networks={**scores.networks, **said.networks},
        artificial=said.artificial,
    )
    known, lost = (
        pd.MultiIndex.from_frame(table[KEY].astype(str))
        for table in (scores.table, failed_runs(runs, None, made))
    )
    return replace(made, table=scores.table[~known.isin(lost)])


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


def _read_file(path: Path, options: TableOptions) -> ScoreTable:
    """Read the scores of a file without blank rows."""
    if path.is_file() and not path.stat().st_size:
        raise DataError(
            f"{path}: the file is empty. It must have the columns task, method, seed and score."
        )
    if path.is_file() and path.stat().st_size > LARGEST:
        raise DataError(f"{path}: a table of scores must have at most {LARGEST / 2**20:,.0f} MiB")
    faults: list[str] = []
    file = read_csv(path, skipped=faults)
    header = [*file.columns]
    if len(header) == 1 and re.search("[;\t]", header[0]):
        raise DataError(
            f"{path}:1: fields must be comma-separated, with decimal points: save the table in "
            f"this format. Received: {quote(header[0])}"
        )
    for fault in faults:
        if not fault.endswith("found a blank line"):
            raise DataError(fault)
    table = pd.DataFrame(file.columns, index=[f"{path}:{line}" for line in file.lines], dtype=str)
    table = table[(table != "").any(axis=1)]
    return _read_table(table, [*table.index], str(path), options)


def _read_table(
    table: pd.DataFrame, rows: Sequence[str], where: str, options: TableOptions
) -> ScoreTable:
    """Read a table without the averages of reports, which are no tasks."""
    if "task" in table:
        own = ~table["task"].isin([GLUE_AVERAGE, MEAN_OF_TASKS]).to_numpy()
        table, rows = table[own], [row for row, kept in zip(rows, own, strict=True) if kept]
    return read_table(table, rows, where, options)
