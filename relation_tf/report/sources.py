"""Sources of scores: folders of suites and reports, CSV files and data frames."""

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
from relation_tf.report.runs import COSTS
from relation_tf.report.scores import Scores
from relation_tf.tasks.tables import read_csv
from relation_tf.training.pretrained import SETTINGS, SPEEDS

ScoreSource: TypeAlias = Results | pd.DataFrame | str | Path

KEY = ["task", "method", "seed"]
_LOWER = re.compile(  # names of tasks where lower scores are better
    r"(?<![a-z])(?<!neg_)(?<!negative_)(perplexity|perplexities|ppl|loss|log_?loss|nll|bpc|"
    r"cross.?entropy|error|wer|cer|rmse|mse|mae|seconds|latency)(?![a-z])",
    re.I,
)


@dataclass(frozen=True)
class LoadedScores:
    """Scores of one source, with their label and origin.

    Attributes:
        label: Name of the source, such as "before".
        scores: The scores.
        origin: Description of the source for the report.
        results: The runs that gave the scores, if known.
        folders: Folder of the scores, and report folder of a suite.
        pretraining: Settings of the pre-training.
        manifests: Manifests of the runs.
        runs: The runs of a report, from its `runs.csv`; empty with `results`.
    """

    label: str
    scores: Scores
    origin: str
    results: Results | None = None
    folders: Sequence[Path] = ()
    pretraining: Mapping[str, Any] = field(default_factory=dict)
    manifests: Sequence[Mapping[str, Any]] = ()
    runs: pd.DataFrame = field(default_factory=pd.DataFrame)

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
    lower_is_better: list[str] = []
    points: dict[str, float] = {}
    timed: bool = False
    networks: dict[str, str] = {}


def read_source(source: ScoreSource, label: str | None = None, number: int = 1) -> LoadedScores:
    """Read scores.

    Args:
        source: A suite's folder or its `Results`; a folder with a report's `scores.csv`; a CSV file
            or a `pandas.DataFrame` with the columns `task`, `method`, `seed` and `score` (or
            `value`). A seed with several rows, one per `metric`, has their mean as score.
        label: Name of the source, by default of its folder or file.
        number: Position of the source, used in the name of a data frame.

    Raises:
        SuiteError: If a folder has no scores, or a file of a suite is invalid.
        DataError: If a file or table has invalid scores; the message names the line.
    """
    if isinstance(source, pd.DataFrame):
        name = f"table {number}"
        scores = _scores(source, [f"{name}, row {index!r}" for index in source.index])
        return LoadedScores(label or name, scores, f"{name}, in memory")
    if isinstance(source, Results):
        return _source_of_runs(label or _label(source.folder), source)
    if not isinstance(source, str | os.PathLike):
        raise SuiteError(
            f"source {number} must be a folder of a suite or report, a CSV file, Results or a "
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
    return LoadedScores(
        label=label,
        scores=scores,
        origin=_digested(file),
        folders=[file.parent],
        pretraining=pretraining,
        manifests=manifests,
        runs=_read_runs(path) if file != path else pd.DataFrame(),
    )


def _read_runs(folder: Path) -> pd.DataFrame:
    """Return the runs of a report's folder; empty if it has none, or a file without costs.

    Raises:
        SuiteError: If the file cannot be read.
    """
    file = folder / "runs.csv"
    if not file.exists():
        return pd.DataFrame()
    try:
        runs = pd.read_csv(file, dtype={"task": str, "method": str})
    except (OSError, ValueError) as error:
        raise SuiteError(f"{file}: cannot be read: {str(error).splitlines()[0]:.100}") from error
    if not {*KEY, "status", *COSTS} <= {*runs.columns}:
        return pd.DataFrame()
    for column in COSTS:
        if runs[column].dtype.kind not in "if":
            raise SuiteError(f"{file}: must have numbers in column {column!r}")
    return runs


def _source_of_runs(label: str, results: Results) -> LoadedScores:
    origin = f"{results.folder}, {len(results.runs)} runs of a suite"
    folders = [results.folder, results.folder / "report"]
    return LoadedScores(label, Scores.of(results), origin, results, folders)


def _digested(path: Path) -> str:
    if not path.is_file():
        return str(path)  # a pipe can be read only once
    return f"{path}, SHA-256 {hashlib.sha256(path.read_bytes()).hexdigest()}"


def _found(source: str | os.PathLike[str]) -> tuple[Path, Path | None]:
    """Return the path and its table of scores; None as table for a suite's folder."""
    try:
        path = Path(source).expanduser()
        pretrained = (path / SETTINGS).is_file()
        if (path / "runs").is_dir() and not pretrained:
            return path, None
        file = path / "scores.csv" if path.is_dir() else path
        missing = file != path and not file.is_file()
    except (OSError, RuntimeError) as error:  # invalid path, or unknown home
        reason = getattr(error, "strerror", None) or error
        raise SuiteError(f"{source!s:.160}: cannot be read: {reason}") from error
    if missing and pretrained:
        raise SuiteError(
            f"{path}: scores.csv is missing, because pre-training has not finished. Run the same "
            "`relation-tf pretrain` command again to resume"
        )
    if missing:
        raise SuiteError(
            f"{path}: must be a suite's folder (with runs/) or a report's folder (with "
            "scores.csv); it has neither"
        )
    return path, file


def _label(path: Path) -> str:
    path = path.resolve()
    if not path.is_dir():
        return path.stem
    return path.parent.name if path.name == "report" else path.name


def _as_reported(scores: Scores, folder: Path) -> Scores:
    """Return the scores of a report with the facts in its report.json."""
    try:
        said = _ScoreFacts.model_validate(read_report(folder))
    except ValidationError as error:
        raise SuiteError(f"{folder / 'report.json'}: {first_fault(error)}") from error
    # Reports of earlier versions did not record it; most were reports of suites.
    in_points = are_fractions(scores.table) if said.in_points is None else said.in_points
    return replace(
        scores,
        in_points=in_points,
        lower_is_better=frozenset(said.lower_is_better) & {*scores.tasks},
        timed=said.timed,
        points={task: factor for task, factor in said.points.items() if task in scores.tasks},
        networks={**scores.networks, **said.networks},
    )


def read_report(folder: Path) -> dict[str, Any]:
    """Return the content of report.json; empty if there is none.

    Raises:
        SuiteError: If the file is invalid.
    """
    file = folder / "report.json"
    return read_json(file) if file.exists() else {}


def is_low(name: str) -> bool:
    """Return True if lower is better for a metric, or for a task with the name of a metric."""
    known = METRICS.get(name)
    return bool(_LOWER.search(name)) if known is None else not known.higher_is_better


def are_fractions(table: pd.DataFrame) -> bool:
    """Return True if all scores are between −1 and 1."""
    return bool((table["score"].abs() <= 1).all())


def _read_table(path: Path) -> Scores:
    """Return the scores of a file without blank rows and averages over tasks."""
    faults: list[str] = []
    file = read_csv(path, skipped=faults)
    header = [*file.columns]
    if len(header) == 1 and re.search("[;\t]", header[0]):
        raise DataError(
            f"{path}:1: fields must be comma-separated, with decimal points: save the table in "
            f"this format. Received: {quote(header[0])}"
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
    """Return the scores of a table with one row per score, or per metric of a score."""
    where = str(path) if path is not None else "the table"
    columns = Counter(table.columns)
    value = "value" if "value" in columns and "score" not in columns else "score"
    missing = [name for name in (*KEY, value) if name not in columns]
    if missing:
        raise DataError(
            f"{where} must have columns 'task', 'method', 'seed' and 'score' (or 'value'), but has "
            f"no {quoted(missing, ' and ')}{_odd(columns)}. Received: {quoted(table.columns)}"
        )
    key = [*KEY, "metric"] if "metric" in columns else KEY
    for name in (*key, value):
        if (times := columns[name]) > 1:
            raise DataError(f"{where} has column {name!r} {times} times; it must have it once")
    if table.empty:
        raise DataError(f"{where} has no rows; it must have one row per score")
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
            f"{rows[row]}: repeats {quote(' / '.join(own.iloc[row]))} of {rows[first]}; each task, "
            "method and seed must occur once"
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
    """Name unknown columns: one of them may be the missing column under another name."""
    others = [name for name in columns if name not in {*KEY, "metric", "score", "value"}]
    return f"; unknown: {quoted(others)}" if others else ""


def quoted(names: Iterable[Any], between: str = ", ") -> str:
    """Quote names for a message."""
    return join_names([repr(str(name)) for name in names], between)


def _text(value: Any, name: str, row: str) -> str:
    """Return a task, method, seed or metric as text.

    Raises:
        DataError: If it is empty or not printable.
    """
    if pd.api.types.is_scalar(value) and pd.isna(value):
        raise DataError(
            f"{row}: the {name} is missing ({value!r}). pandas reads 'NA' and 'None' as missing; "
            "read the file with keep_default_na=False"
        )
    text = str(value).strip()
    if not text:
        raise DataError(f"{row}: the {name} is empty")
    if not text.isprintable():
        raise DataError(f"{row}: the {name} must be printable text. Received: {quote(text)}")
    # 1, 01 and 1.0 are the same seed; pandas reads 1 as 1.0 if the column has an empty cell.
    whole = re.fullmatch(r"([+-]?\d{1,18})(\.0*)?", text) if name == "seed" else None
    return str(int(whole[1])) if whole else text


def _check_metrics(table: pd.DataFrame, rows: Sequence[str]) -> dict[str, list[str]]:
    """Return the metrics of each task; a score is their mean.

    All scores of a task must have the same metrics. The metric `SCORE` is such a mean already.
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
                f"{rows[own.index[0]]}: {task} must have the metrics {join_names(wanted)}, as for "
                f"{first}. Received: {join_names(metrics)} for {method} / {seed}"
            )
        lower = [metric for metric in metrics if is_low(metric)]
        if lower and len(lower) < len(metrics):
            raise DataError(
                f"{rows[own.index[0]]}: the metrics of {task} must be all higher-is-better or all "
                f"lower-is-better. Received: {join_names(metrics, ' and ')}. Keep one of them, or "
                "use a separate task for each"
            )
    return {task: metrics for task, (_, metrics) in expected.items()}


def _number(value: object, row: str) -> float:
    """Return a score.

    Raises:
        DataError: If it is not a finite number, because it has no mean with others.
    """
    try:
        score = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        score = math.nan
    # Python reads 8_0.5 as 80.5.
    if isinstance(value, bool) or "_" in str(value) or not math.isfinite(score):
        raise DataError(
            f"{row}: the score must be a finite number; for a failed run, enter the score that "
            f"you assign to it. Received: {quote(str(value))}"
        )
    return score
