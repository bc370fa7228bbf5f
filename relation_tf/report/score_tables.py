"""Tables of scores: long, and wide (one column per method)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from relation_tf.errors import DataError, OptionError, join_names, quote
from relation_tf.report.options import ALL, LARGEST_SCORE, ComparisonOptions
from relation_tf.report.scores import KEY, SCORE, Scores, are_in, most_seeds
from relation_tf.report.table_layouts import (
    Layout,
    LongTable,
    has_spread,
    is_diverged,
    parsed,
    understand,
    unmarked,
)
from relation_tf.stats.directions import read_name, suggest_direction, unlike_units
from relation_tf.words import GLUE_AVERAGE, MEAN_OF_TASKS, count

_LONGEST = 200  # characters of a name
_FLAGS = {"": None, "true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


@dataclass(frozen=True)
class ScoreTable:
    """Scores of a table.

    Attributes:
        scores: The scores.
        failed: Failed runs without a score: columns `task`, `method`, `seed`, `status`, `diverged`
            (None if the table does not say it).
        layout: How the table was read, see `LongTable`.
        notes: Remarks on failed runs and sheets.
    """

    scores: Scores
    failed: pd.DataFrame
    layout: Layout
    notes: Sequence[str]


def read_table(table: pd.DataFrame, where: str, options: ComparisonOptions) -> ScoreTable:
    """Read a table in any layout, see `understand`.

    Rows of averages, as in the tables of reports, are left out.

    Args:
        table: The table; its index has the place of each row, for messages. Numbers can be text.
        where: Name of the table, for messages.
        options: Names of columns, the metric, the split, and the treatment of failed runs.

    Raises:
        DataError: If a column is missing or a value is invalid; the message names the row.
    """
    long = understand(table, where, options.columns or {}, options.metric)
    rows = long.rows
    rows = rows[~rows["task"].isin([GLUE_AVERAGE, MEAN_OF_TASKS])]
    if rows.empty:
        raise DataError(f"{where} has no rows; it must have one row per score")
    splits: dict[str, str] = {}
    if options.split is not None or "split" in rows:
        rows, splits = _on_split(rows, where, options.split)
    key = [name for name in (*KEY, "metric") if name in rows]
    places = [*map(str, rows.index)]
    texts = {name: [*map(partial(_text, name), rows[name], places)] for name in key}
    _check_percent(rows["score"])
    flags = [*map(_flag, rows.get("diverged", [""] * len(rows)), places)]
    flags = [flag or is_diverged(x) or flag for flag, x in zip(flags, rows["score"], strict=True)]
    rows = pd.DataFrame(texts, places).assign(
        score=[*map(_number, rows["score"], places)],
        diverged=pd.Series(flags, places, dtype=object),
    )
    _check_unique(rows[key], long)
    rows["score"] = rows["score"].mask(rows["diverged"].eq(True))
    if options.failed_as is not None:
        _check_failed_as(options.failed_as, rows, options)
        rows["score"] = rows["score"].fillna(options.failed_as)
    failed = rows[rows["score"].isna()]
    lost = failed.groupby(KEY, sort=False, as_index=False)[["diverged"]].first()
    if options.drop_failed:
        lost["ranked"] = False
    methods = [*dict.fromkeys(rows["method"])]
    # A seed with a failed metric has no mean.
    rows = rows[~are_in(rows, lost)]
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
            replicate=long.replicate,
            test_share=long.test_share,
            means=long.means,
            metrics=metrics,
            directions={task: suggest_direction(task, metrics.get(task, ())) for task in tasks},
            splits={task: split for task, split in splits.items() if task in tasks},
        ),
        lost.assign(status="failed"),
        long.layout,
        [*filter(None, [table.attrs.get("sheets")]), *failure_notes(failed)],
    )


def _check_percent(cells: pd.Series) -> None:
    """Check that all numbers have a percent sign, or none."""
    percent = cells.map(lambda cell: unmarked(cell).endswith("%"))
    others = cells[~percent & cells.map(lambda cell: (parsed(cell) or 0) == parsed(cell))]
    if percent.any() and len(others):
        raise DataError(
            f"{others.index[0]}: the score must have a percent sign, as that of "
            f"{cells.index[int(percent.argmax())]}. Received: {quote(str(others.iloc[0]))}"
        )


def _check_failed_as(value: float, table: pd.DataFrame, options: ComparisonOptions) -> None:
    """Check that failed runs do not get a score that is better than that of another run."""
    for key, rows in table.groupby([name for name in ("task", "metric") if name in table]):
        task, *metrics = map(str, key)
        is_lower = not suggest_direction(task, metrics).higher_is_better
        for names, lower in ((options.lower_is_better, True), (options.higher_is_better, False)):
            is_lower = lower if {task, *metrics, ALL} & {*names} else is_lower
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


def _check_unique(rows: pd.DataFrame, long: LongTable) -> None:
    again = rows.duplicated().to_numpy()
    if again.any():
        row = int(again.argmax())
        first = int((rows == rows.iloc[row]).all(axis=1).to_numpy().argmax())
        raise DataError(
            f"{rows.index[row]} repeats {quote(' / '.join(rows.iloc[row]))} of "
            f"{rows.index[first]}; each combination of task, method and {long.replicate} must "
            "occur only once"
            + f". Keep one value of {join_names([*map(repr, long.unused)], ' and ')}, or write it "
            "into the names of the methods" * bool(long.unused)
        )


def _metrics_by_task(table: pd.DataFrame) -> dict[str, list[str]]:
    """Return the metrics of each task; a score is their mean.

    All scores of a task must have the same metrics, in one direction and unit. The metric `SCORE`
    is such a mean already.
    """
    found: dict[str, list[str]] = {}
    for task, rows in table.groupby("task", sort=False):
        metrics = sorted({*rows["metric"]} - {SCORE})
        found |= {str(task): metrics} if metrics else {}
        if rows["metric"].nunique() < 2:
            continue
        for (method, seed), own in rows.groupby(["method", "seed"], sort=False)["metric"]:
            if sorted(own) not in (metrics, [SCORE]):
                raise DataError(
                    f"{own.index[0]}: {task} must have the metrics {join_names(metrics)}. "
                    f"Received: {join_names(sorted(own))} for {method} / {seed}"
                )
        sizes = rows["score"].abs().groupby(rows["metric"]).max().to_dict()
        higher = {name: read_name(name)[0] is not False for name in metrics}
        if unlike_units(sizes, dict.fromkeys(sizes, True)) or len({*higher.values()}) > 1:
            raise DataError(
                f"{rows.index[0]}: the metrics of {task} must have one direction and unit, because "
                f"a score is their mean. Received: {join_names(metrics, ' and ')}. Choose one, "
                f"such as --metric {shlex.quote(metrics[0])}"
            )
    return found


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
    number = parsed(value)
    if has_spread(value):
        raise DataError(
            f"{row}: the score must be one number, without a deviation or rank: tests need the "
            "score of each seed. `relation_tf.stats.read_published` reads means, from this CSV or "
            f"one with the columns method, mean and sd. Received: {quote(str(value))}"
        )
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
