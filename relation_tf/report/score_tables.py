"""Tables of scores: long, and wide (one column per method)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from relation_tf.errors import DataError, OptionError, did_you_mean, join_names, quote
from relation_tf.report.options import COLUMNS, LARGEST_SCORE, ComparisonOptions
from relation_tf.report.scores import KEY, SCORE, Scores, most_seeds
from relation_tf.stats.directions import read_name, suggest_direction
from relation_tf.words import GLUE_AVERAGE, MEAN_OF_TASKS, count

_LONGEST = 200  # characters of a name
_FLAGS = {"": None, "true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_INDEX = re.compile(r"(Unnamed: \d+)?")  # names that pandas gives a column without a name


@dataclass(frozen=True)
class ScoreTable:
    """Scores of a table.

    Attributes:
        scores: The scores.
        failed: Failed runs without a score: columns `task`, `method`, `seed`, `status`, `diverged`
            (None if the table does not say it).
        notes: Remarks on how the table was read.
    """

    scores: Scores
    failed: pd.DataFrame
    notes: Sequence[str]


def read_table(table: pd.DataFrame, where: str, options: ComparisonOptions) -> ScoreTable:
    """Read a table with one row per score, per metric of a score, or per seed of all methods.

    Rows of averages, as in the tables of reports, are left out.

    Args:
        table: The table; its index has the place of each row, for messages. Numbers can be text.
        where: Name of the table, for messages.
        options: Names of columns, the split, and the treatment of failed runs.

    Raises:
        DataError: If a column is missing or a value is invalid; the message names the row.
    """
    rows, notes = _named(table, where, options.columns or {})
    rows = rows[~rows["task"].isin([GLUE_AVERAGE, MEAN_OF_TASKS])]
    if rows.empty:
        raise DataError(f"{where} has no rows; it must have one row per score")
    splits: dict[str, str] = {}
    if options.split is not None or "split" in rows:
        rows, splits = _on_split(rows, where, options.split)
    key = [name for name in (*KEY, "metric") if name in rows]
    places = [*map(str, rows.index)]
    texts = {name: [*map(partial(_text, name), rows[name], places)] for name in key}
    flags = rows.get("diverged", pd.Series("", rows.index))
    rows = pd.DataFrame(texts, places).assign(
        score=[*map(_number, rows["score"], places)],
        diverged=pd.Series([*map(_flag, flags, places)], places, dtype=object),
    )
    _check_unique(rows[key])
    rows["score"] = rows["score"].mask(rows["diverged"].eq(True))
    if options.failed_as is not None:
        _check_failed_as(options.failed_as, rows, options)
        rows["score"] = rows["score"].fillna(options.failed_as)
    failed = rows[rows["score"].isna()]
    notes += failure_notes(failed)
    lost = failed.groupby(KEY, sort=False, as_index=False)[["diverged"]].first()
    if options.drop_failed:
        lost["ranked"] = False
    methods = [*dict.fromkeys(rows["method"])]
    # A seed with a failed metric has no mean.
    rows = rows[~pd.MultiIndex.from_frame(rows[KEY]).isin(pd.MultiIndex.from_frame(lost[KEY]))]
    if rows.empty:
        raise DataError(f"{where}: all runs failed; there is no score to compare")
    metrics = _metrics_by_task(rows) if "metric" in rows else {}
    means = rows.groupby(KEY, sort=False, as_index=False)[["score"]].mean()
    tasks = [*dict.fromkeys(means["task"])]
    return ScoreTable(
        Scores(
            table=means,
            methods=methods,
            tasks=tasks,
            seeds=most_seeds(means),
            metrics=metrics,
            directions={task: suggest_direction(task, metrics.get(task, ())) for task in tasks},
            splits={task: split for task, split in splits.items() if task in tasks},
        ),
        lost.assign(status="failed"),
        notes,
    )


def _check_failed_as(value: float, table: pd.DataFrame, options: ComparisonOptions) -> None:
    """Check that failed runs do not get a score that is better than that of another run."""
    for key, rows in table.groupby([name for name in ("task", "metric") if name in table]):
        task, *metrics = map(str, key)
        is_lower = not suggest_direction(task, metrics).higher_is_better
        for names, lower in ((options.lower_is_better, True), (options.higher_is_better, False)):
            is_lower = lower if {task, *metrics} & {*names} else is_lower
        worst = rows["score"].max() if is_lower else rows["score"].min()
        if rows["score"].isna().any() and (value < worst if is_lower else value > worst):
            raise OptionError(
                "failed_as",
                f"must be no better than the worst score of {quote(task)}: "
                f"{'at least' if is_lower else 'at most'} {worst:g}. Received: {value:g}",
            )


def _on_split(
    table: pd.DataFrame, where: str, split: str | None
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return the rows of a split, by default all, and the split of each task.

    Raises:
        OptionError: If no row has this split, or none is chosen and a task has several.
    """
    if "split" not in table:
        raise OptionError("split", f"needs a column 'split', which {where} does not have")
    splits = table["split"].astype(object).fillna("").astype(str).str.strip()
    known = join_names(sorted({*splits} - {""}), " or ")
    rows = table if split is None else table[splits == split]
    if rows.empty:
        raise OptionError("split", f"must be {known} in {where}. Received: {split!r}")
    splits_of_rows = splits[splits == split] if split is not None else splits
    by_task = splits_of_rows.groupby(rows["task"].astype(str).str.strip().to_numpy()).unique()
    for task, names in by_task.items():
        if len(names) > 1:
            raise OptionError(
                "split",
                f"must be {known}: {where} has scores of {task} on several splits, which cannot be "
                "compared with each other",
            )
    return rows, {str(task): str(names[0]) for task, names in by_task.items()}


def _named(
    table: pd.DataFrame, where: str, columns: Mapping[str, str]
) -> tuple[pd.DataFrame, list[str]]:
    """Return the columns of scores under our names, and notes on their origin."""
    names = [*map(str, table.columns)]
    table = table.set_axis(names, axis=1)
    column_of = {key: _find_column(key, names, where, columns) for key in (*COLUMNS, "value")}
    column_of["score"] = column_of["score"] or column_of["value"]
    used = {key: name for key, name in column_of.items() if name and key != "value"}
    if [*used.values()].count(used.get("split", "")) > 1:  # such as folds: --columns seed=split
        del used["split"]
    _check_once(used.values(), names, where)
    if "method" not in used and "score" not in used and "task" in used:
        # A column of ours that another one replaces, and the index of pandas, are no methods.
        others = [*used.values(), *COLUMNS]
        wide = [name for name in names if name not in others and not _INDEX.fullmatch(name)]
        _check_once(wide, names, where)
        cells = (value for name in wide for value in table[name].tolist())
        if len(wide) > 1 and all(_parsed(value) is not None for value in cells):
            return _long(table, used, wide, where)
    notes = []
    rows = pd.DataFrame({key: table[name] for key, name in used.items()})
    if "task" not in used and "score" in columns and "score" in used:
        task = used["score"]
        rows.insert(0, "task", task)
        notes.append(f"{where}: there is no column for tasks, so all scores are of {task!r}.")
    _check_columns(rows, names, used, where)
    if "metric" not in rows and read_name(used["score"])[1]:
        rows["metric"] = used["score"]
    return rows, notes


def _check_columns(
    rows: pd.DataFrame, names: Sequence[str], used: Mapping[str, str], where: str
) -> None:
    missing = [name for name in (*KEY, "score") if name not in rows]
    if missing:
        others = [name for name in names if name not in used.values()]
        lacking = ["'score' (or 'value')" if name == "score" else repr(name) for name in missing]
        example = ",".join(f"{name}=NAME" for name in missing)
        raise DataError(
            f"{where} has no column {' or '.join(lacking)}. If your columns have other names, use "
            f"--columns {example}. Other columns: {quoted(others) if others else 'none'}"
        )


def _check_once(used: Iterable[str], names: Sequence[str], where: str) -> None:
    for name in used:
        times = names.count(name)
        if times > 1:
            raise DataError(f"{where} has column {name!r} {times} times; it must have it once")


def _find_column(
    key: str, names: Sequence[str], where: str, columns: Mapping[str, str]
) -> str | None:
    """Return the table's name of one of our columns; None if it is missing."""
    wanted = columns.get(key, key)
    if wanted in names:
        return wanted
    if key in columns:
        raise DataError(
            f"{where}: --columns {key}={wanted}: there is no column {quote(wanted)}."
            f"{did_you_mean(wanted, names)} The columns are {quoted(names)}"
        )
    return None


def _long(
    table: pd.DataFrame, used: Mapping[str, str], methods: Sequence[str], where: str
) -> tuple[pd.DataFrame, list[str]]:
    """Return a wide table with one row per score."""
    rows = table[[*used.values(), *methods]]
    rows = rows.rename(columns={name: key for key, name in used.items()})
    note = f"{where}: read as a wide table, one column per method: {join_names(methods)}"
    if "seed" not in rows:
        keys = [name for name in ("task", "metric", "split") if name in rows]
        rows["seed"] = rows.groupby(keys).cumcount()
        rows["seed"] += 1
        note += "; without a column 'seed', the rows of a task are seeds 1, 2, ..."
    keys = [name for name in ("task", "seed", "metric", "split") if name in rows]
    long = rows.melt(keys, [*methods], "method", "score", ignore_index=False)
    return long, [f"{note}."]


def quoted(names: Iterable[Any]) -> str:
    """Quote names for a message."""
    return join_names([repr(str(name)) for name in names])


def _text(name: str, value: Any, row: str) -> str:
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
    if len(text) > _LONGEST:
        raise DataError(
            f"{row}: the {name} must have at most {_LONGEST} characters. Received: "
            f"{len(text):,} characters, {quote(text)}"
        )
    if not text.isprintable():
        raise DataError(f"{row}: the {name} must be printable text. Received: {quote(text)}")
    # 1, 01 and 1.0 are the same seed; pandas reads 1 as 1.0 if the column has an empty cell.
    integer = re.fullmatch(r"([+-]?\d{1,18})(\.0*)?", text) if name == "seed" else None
    return str(int(integer[1])) if integer else text


def _check_unique(rows: pd.DataFrame) -> None:
    again = rows.duplicated().to_numpy()
    if again.any():
        row = int(again.argmax())
        first = int((rows == rows.iloc[row]).all(axis=1).to_numpy().argmax())
        raise DataError(
            f"{rows.index[row]} repeats {quote(' / '.join(rows.iloc[row]))} of "
            f"{rows.index[first]}; each combination of task, method and seed must occur only once"
        )


def _metrics_by_task(table: pd.DataFrame) -> dict[str, list[str]]:
    """Return the metrics of each task; a score is their mean.

    All scores of a task must have the same metrics. The metric `SCORE` is such a mean already.
    """
    expected: dict[str, tuple[str, list[str]]] = {}
    key: Any
    for key, rows in table.groupby(KEY, sort=False):
        task, method, seed = key
        metrics = sorted(rows["metric"])
        if metrics == [SCORE]:
            continue
        first, required = expected.setdefault(task, (f"{method} / {seed}", metrics))
        if metrics != required:
            raise DataError(
                f"{rows.index[0]}: {task} must have the metrics {join_names(required)}, as for "
                f"{first}. Received: {join_names(metrics)} for {method} / {seed}"
            )
        lower = [metric for metric in metrics if read_name(metric)[0] is False]
        if lower and len(lower) < len(metrics):
            raise DataError(
                f"{rows.index[0]}: the metrics of {task} must be all higher-is-better or all "
                f"lower-is-better. Received: {join_names(metrics, ' and ')}. Keep one of them, or "
                "use a separate task for each"
            )
    return {task: metrics for task, (_, metrics) in expected.items()}


def _parsed(value: Any) -> float | None:
    """Return a score, NaN for that of a failed run (empty or not finite), None for other values."""
    if value is None or value is pd.NA or not str(value).strip():
        return math.nan
    if isinstance(value, bool) or "_" in str(value):  # Python reads 8_0.5 as 80.5
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else math.nan


def _flag(value: Any, row: str) -> bool | None:
    """Return whether a run has diverged; None for an empty cell.

    Raises:
        DataError: If it is neither true nor false.
    """
    # pandas reads 1 as 1.0 if the column has an empty cell.
    text = "" if pd.isna(value) else str(value).strip().lower().removesuffix(".0")
    if text in _FLAGS:
        return _FLAGS[text]
    raise DataError(f"{row}: diverged must be true, false or empty. Received: {quote(str(value))}")


def _number(value: Any, row: str) -> float:
    """Return a score, or NaN for a failed run.

    Raises:
        DataError: If it is no number.
    """
    number = _parsed(value)
    if number is None:
        raise DataError(
            f"{row}: the score must be a number, or empty for a failed run. Received: "
            f"{quote(str(value))}"
        )
    if abs(number) > LARGEST_SCORE:
        raise DataError(
            f"{row}: the score must be between -1e100 and 1e100. Received: {number:.6g}"
        )
    return number


def failure_notes(failed: pd.DataFrame) -> list[str]:
    """Return a note that names the failed runs: columns `task`, `method` and `seed`."""
    names = [*dict.fromkeys(map(" / ".join, failed[KEY].astype(str).to_numpy().tolist()))]
    if not names:
        return []
    return [
        f"{count(len(names), 'failed run')} without a finite score: {join_names(names)}. Means "
        "without them favor methods that fail."
    ]
