"""Where the scores of a comparison come from: suites' folders, reports, tables of anyone's."""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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
from relation_tf.config.faults import first_fault
from relation_tf.errors import DataError, SuiteError, join_names, quote
from relation_tf.files import read_json
from relation_tf.registry import METRICS
from relation_tf.report.comparisons import SCORE
from relation_tf.report.scores import Scores
from relation_tf.tasks.tables import read_csv
from relation_tf.training.pretrained import SETTINGS, SPEEDS

ScoreSource: TypeAlias = Results | pd.DataFrame | str | Path

KEY = ["task", "method", "seed"]
_LOWER = re.compile(  # what a task is called whose lowest score is the best
    r"(?<![a-z])(?<!neg_)(?<!negative_)(perplexity|perplexities|ppl|loss|log_?loss|nll|bpc|"
    r"cross.?entropy|error|wer|cer|rmse|mse|mae|seconds|latency)(?![a-z])",
    re.I,
)


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

    def renamed(self, names: Mapping[str, str]) -> LoadedScores:
        """Return the same with other names of some methods."""
        scores = replace(
            self.scores,
            table=self.scores.table.replace({"method": dict(names)}),
            methods=[names.get(name, name) for name in self.scores.methods],
            control=names.get(self.scores.control or "", self.scores.control),
        )
        results = None if self.results is None else self.results.renamed(names)
        return replace(self, scores=scores, results=results)


class _Said(BaseModel):
    """What a report says of its scores in its report.json."""

    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)

    in_points: bool | None = None
    lower_is_better: list[str] = []
    points: dict[str, float] = {}
    timed: bool = False


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
        scores = _scores(source, [f"{name}, row {index!r}" for index in source.index])
        return LoadedScores(label or name, scores, f"{name}, in memory")
    if isinstance(source, Results):
        return _source_of_runs(label or _label(source.folder), source)
    if not isinstance(source, str | os.PathLike):
        raise SuiteError(
            f"source {number}: expected a suite's or a report's folder, a CSV file, Results or a "
            f"pandas.DataFrame. Received: {type(source).__name__} {source!r:.80}"
        )
    path, file = _found(source)
    label = label or _label(path)
    if file is None:
        return _source_of_runs(label, read_results(path))
    scores = _read_table(file)
    if file != path:
        scores = _as_reported(scores, path)
    ours = file.name in ("scores.csv", SPEEDS)
    pretraining, manifests = (read_pretraining(file.parent) if ours else None) or ({}, [])
    return LoadedScores(label, scores, _digested(file), None, [file.parent], pretraining, manifests)


def _source_of_runs(label: str, results: Results) -> LoadedScores:
    origin = f"{results.folder}, {len(results.runs)} runs of a suite"
    folders = [results.folder, results.folder / "report"]
    return LoadedScores(label, Scores.of(results), origin, results, folders)


def _digested(path: Path) -> str:
    if not path.is_file():
        return str(path)  # a pipe, which can be read once
    return f"{path}, SHA-256 {hashlib.sha256(path.read_bytes()).hexdigest()}"


def _found(source: str | os.PathLike[str]) -> tuple[Path, Path | None]:
    """Return a path, and the table of scores that is there; None for a suite's folder."""
    try:
        path = Path(source).expanduser()
        pretrained = (path / SETTINGS).is_file()
        if (path / "runs").is_dir() and not pretrained:
            return path, None
        file = path / "scores.csv" if path.is_dir() else path
        missing = file != path and not file.is_file()
    except (OSError, RuntimeError) as error:  # of a path, and of a home that nobody has
        reason = getattr(error, "strerror", None) or error
        raise SuiteError(f"{source!s:.160}: cannot be read: {reason}") from error
    if missing and pretrained:
        raise SuiteError(
            f"{path}: expected scores.csv, of pre-training; no run is done, or the command was "
            "killed. The same `relation-tf pretrain` goes on and writes it"
        )
    if missing:
        raise SuiteError(
            f"{path}: expected a suite's folder, with runs/, or a report's, with scores.csv; found "
            "neither"
        )
    return path, file


def _label(path: Path) -> str:
    path = path.resolve()
    if not path.is_dir():
        return path.stem
    return path.parent.name if path.name == "report" else path.name


def _as_reported(scores: Scores, folder: Path) -> Scores:
    """The scores of a report with what the report says of them."""
    try:
        said = _Said.model_validate(read_report(folder))
    except ValidationError as error:
        raise SuiteError(f"{folder / 'report.json'}: {first_fault(error)}") from error
    # Reports of before did not say it: most were of suites.
    in_points = are_fractions(scores.table) if said.in_points is None else said.in_points
    return replace(
        scores,
        in_points=in_points,
        lower_is_better=frozenset(said.lower_is_better) & {*scores.tasks},
        timed=said.timed,
        points={task: factor for task, factor in said.points.items() if task in scores.tasks},
    )


def read_report(folder: Path) -> dict[str, Any]:
    """What a report says of itself in its report.json; nothing where there is none.

    Raises:
        SuiteError: For a file that is broken.
    """
    file = folder / "report.json"
    return read_json(file) if file.exists() else {}


def is_low(name: str) -> bool:
    """Return True for a metric, or a task called like one, whose lowest score is the best."""
    known = METRICS.get(name)
    return bool(_LOWER.search(name)) if known is None else not known.higher_is_better


def are_fractions(table: pd.DataFrame) -> bool:
    """Return True if no score is beyond 1."""
    return bool((table["score"].abs() <= 1).all())


def _read_table(path: Path) -> Scores:
    """The scores of a file, without blank rows and averages of other tasks of it."""
    faults: list[str] = []
    file = read_csv(path, skipped=faults)
    header = [*file.columns]
    if len(header) == 1 and re.search("[;\t]", header[0]):
        raise DataError(
            f"{path}:1: expected fields separated by commas: save as comma-separated, decimals "
            f"with a point. Received: {quote(header[0])}"
        )
    for fault in faults:
        if not fault.endswith("found 0"):  # fields: a blank line
            raise DataError(fault)
    table = pd.DataFrame(file.columns, index=[f"{path}:{line}" for line in file.lines], dtype=str)
    table = table[(table != "").any(axis=1)]
    if "task" in table:
        table = table[~table["task"].isin([GLUE_AVERAGE, MEAN_OF_TASKS])]
    return _scores(table, [*table.index], path)


def _scores(table: pd.DataFrame, rows: Sequence[str], path: Path | None = None) -> Scores:
    """The scores of a table with a row for each of them, or for each metric of them."""
    where = str(path) if path is not None else "the table"
    columns = Counter(table.columns)
    value = "value" if "value" in columns and "score" not in columns else "score"
    missing = [name for name in (*KEY, value) if name not in columns]
    if missing:
        raise DataError(
            f"{where}: expected columns 'task', 'method', 'seed' and 'score' (or 'value'), found "
            f"no {quoted(missing, ' and ')}{_odd(columns)}. Received: {quoted(table.columns)}"
        )
    key = [*KEY, "metric"] if "metric" in columns else KEY
    for name in (*key, value):
        if (times := columns[name]) > 1:
            raise DataError(f"{where}: expected column {name!r} once, found it {times} times")
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
    if again.any():
        row = int(again.argmax())
        first = int((own == own.iloc[row]).all(axis=1).argmax())
        raise DataError(
            f"{rows[row]}: expected each task, method and seed once, found "
            f"{quote(' / '.join(own.iloc[row]))} of {rows[first]} again"
        )
    metrics = _check_metrics(own, rows) if "metric" in columns else {}
    own["score"] = [_number(score, rows[row]) for row, score in enumerate(table[value].tolist())]
    scores = own.groupby(KEY, sort=False, as_index=False)[["score"]].mean()
    return Scores(
        table=scores,
        methods=[*dict.fromkeys(scores["method"])],
        tasks=[*dict.fromkeys(scores["task"])],
        seeds=int(scores.groupby(["task", "method"]).size().max()),
        metrics=metrics,
    )


def _odd(columns: Iterable[Any]) -> str:
    """The columns that are none of ours, one of which may be what is missing under its own name."""
    others = [name for name in columns if name not in {*KEY, "metric", "score", "value"}]
    return f", but {quoted(others)}" if others else ""


def quoted(names: Iterable[Any], between: str = ", ") -> str:
    """Quote names for a message."""
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
    for key, own in table.groupby(KEY, sort=False):
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
        lower = [metric for metric in metrics if is_low(metric)]
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
