"""Check which differences in a published table of means and SDs can be significant."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from relation_tf.registry import PROCEDURES
from relation_tf.stats.comparisons import PrintedResult, name_pairs
from relation_tf.stats.design import RankTest, asymptotic_pvalues, attainable_pvalue
from relation_tf.stats.samples import (
    SYNONYMS,
    check_count,
    check_option,
    check_probability,
    control_first,
    in_task,
    words_of,
)
from relation_tf.words import count, format_level, format_pvalue

Verdict: TypeAlias = Literal["certain", "impossible", "undetermined"]
Claim: TypeAlias = Sequence[Hashable]
_Figures: TypeAlias = "tuple[_Figure, _Figure]"  # mean and SD

_NUMBER = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[-+]?[0-9]+)?"
_FIGURE = re.compile(rf"[-+]?(?:{_NUMBER}|inf(?:inity)?|nan)", re.I)
_WITH_SD = re.compile(r"\s*(\S+?)\s*(?:±|\+/-|\\pm)\s*(\S+)\s*")


@dataclass(frozen=True, eq=False, repr=False)
class PublishedTable(PrintedResult):
    """Result of `read_published`.

    Attributes:
        table: Tested pairs on each task, with columns `task`, `a`, `b`, `difference` (mean of b
            minus mean of a), `separation` (scores do not overlap: certain, impossible or
            undetermined), `significance` (certain, impossible or undetermined), `claimed` and
            `reason`, a sentence.
        n: Number of scores per method.
        alpha: Level of the test.
        test: `"steel-dwass"` for all pairs, `"steel"` for each method against one control.
    """

    table: pd.DataFrame
    n: int
    alpha: float
    test: RankTest

    def pairs(self) -> pd.DataFrame:
        """Return the table of all pairs on all tasks."""
        return self.table.copy()

    def claims(self) -> pd.DataFrame:
        """Return the rows of the pairs that were claimed to be significant."""
        return self.table[self.table["claimed"]].reset_index(drop=True)

    def _printed(self) -> pd.DataFrame:
        unclaimed = [] if self.table["claimed"].any() else ["claimed"]
        return self.table.drop(columns=["reason", *unclaimed])

    def _title(self) -> str:
        return (
            f"Possible results for the published means and SD of {count(self.n, 'seed')}: "
            f"{PROCEDURES[self.test].title}, {format_level(self.alpha)}"
        )

    def _remarks(self) -> Iterator[str]:
        return iter(self.claims()["reason"])


def read_published(
    table: pd.DataFrame | str | Path,
    n: int,
    alpha: float = 0.05,
    test: RankTest = "steel-dwass",
    *,
    control: Hashable = None,
    num_methods: int | None = None,
    ddof: Literal[0, 1] | None = 1,
    claims: Iterable[Claim] = (),
) -> PublishedTable:
    """Check which differences in a published table of means and SDs can be significant.

    Separation of two methods means that their scores do not overlap. The largest of n values with
    SD s (denominator n - 1) is at least `s / sqrt(n)` and at most `s (n - 1) / sqrt(n)` above the
    mean; the smallest is as far below. With `r = |mean_a - mean_b| / (sd_a + sd_b)`, separation is

    - impossible for `r <= 1 / sqrt(n)` (n = 5: 0.447),
    - certain for `r > (n - 1) / sqrt(n)` (n = 5: 1.789),
    - undetermined between these bounds.

    The significance of a difference is

    - `certain`: separation is certain and gives p < alpha;
    - `impossible`: p < alpha is impossible with this number of methods and seeds, or it needs
      separation and separation is impossible;
    - `undetermined`: in all other cases.

    Figures are rounded, so `certain` and `impossible` must hold for all values that round to them.
    Strings have the decimals that they show. For numbers, all means have as many decimals as the
    mean with most decimals; the same holds for SDs. p is the asymptotic p of `steel_dwass` or
    `steel` for scores without ties; a difference is `impossible` if the exact p cannot be below
    alpha.

    Args:
        table: Columns `method`, `mean`, `sd`, and `task` if there are several tasks, or their usual
            names, such as `model`, `std` and `dataset`; or methods in the first column, and a
            column of cells such as `80.6 ± 0.4` for each task; or tasks in the first column, with
            a name such as `task`, and a column for each method; or the path of such a CSV file.
        n: Number of scores (seeds) per mean.
        alpha: Level of the test.
        test: `"steel-dwass"` for all pairs, `"steel"` for each method against one control.
        control: The method that the others are compared with; required by `"steel"`.
        num_methods: Number of compared methods, if the table does not show all of them.
        ddof: 1 for SDs with denominator n - 1, 0 for n; None if unknown: results must then hold for
            both.
        claims: Pairs that the paper calls significant: `(task, a, b)`, or `(a, b)` without tasks.

    Returns:
        A `PublishedTable`; `print` shows it.

    Raises:
        OSError: If the file cannot be read.
        TypeError: If the table is not a `pandas.DataFrame` or a path, or a figure or an option is
            not a number.
        ValueError: If the table has an unknown form, a figure is missing or impossible, a name is
            unknown, or an option is out of range.

    Example:
        >>> table = pd.DataFrame(
        ...     [("Relation", "80.6", "0.4"), ("Attention", "76.1", "0.9"), ("MLP", "75.9", "0.6")],
        ...     columns=["method", "mean", "sd"],
        ... )
        >>> published = read_published(table, n=5, claims=[("Relation", "Attention")])
        >>> print(published.claims()["reason"][0])
        Relation vs Attention: separation is certain, so p = .0245 (3 methods, 5 seeds)

    References:
        Laguerre-Samuelson inequality: P. A. Samuelson (1968), How deviant can you be?, Journal of
        the American Statistical Association 63, 1522-1525.
    """
    check_probability("alpha", alpha)
    check_option("test", test, RankTest)
    if (test == "steel") != (control is not None):
        raise ValueError(
            "`control` is required by the test 'steel' and only allowed there. "
            f"Received: test={test!r}, control={control!r}"
        )
    check_count("n", n, 2)
    if num_methods is not None:
        check_count("num_methods", num_methods)
    if ddof not in (0, 1, None):
        raise ValueError(f"`ddof` must be 0, 1 or None. Received: ddof={ddof!r}")
    rows = []
    for task, figures in _figures(table).items():
        compared = len(figures) if num_methods is None else num_methods
        if len(figures) > compared:
            raise ValueError(
                "`num_methods` must be at least the number of methods in the table. "
                f"Received: num_methods={num_methods} for {list(figures)}{_on(task)}"
            )
        names = list(in_task(task, control_first, figures, control))
        for a, b in name_pairs(names, control is not None).itertuples(index=False):
            separation = _separation(figures[a], figures[b], n, ddof)
            significance, reason = _judge(separation, compared, n, alpha, test)
            difference = figures[b][0].value - figures[a][0].value
            sentence = f"{a} vs {b}{_on(task)}: {reason}"
            rows.append((task, a, b, difference, separation, significance, False, sentence))
    columns = ["task", "a", "b", "difference", "separation", "significance", "claimed", "reason"]
    pairs = pd.DataFrame(rows, columns=columns)
    for claim in claims:
        pairs.loc[_row_of(pairs, claim), "claimed"] = True
    if pairs["task"].isna().all():
        pairs = pairs.drop(columns="task")
    return PublishedTable(pairs, n, alpha, test)


class _Figure(NamedTuple):
    """A published mean or SD with its largest rounding error."""

    value: float
    error: float


def _judge(
    separation: Verdict, num_methods: int, n: int, alpha: float, test: RankTest
) -> tuple[Verdict, str]:
    """Return the verdict on significance for a separation, and its reason in words."""
    written = partial(format_pvalue, alpha=alpha, decimals=4)
    design, level = f"{num_methods} methods, {n} seeds", format_level(alpha)
    best = attainable_pvalue(num_methods, n, "asymptotic", test=test)
    exact = attainable_pvalue(num_methods, n, "exact", test=test)
    if max(best, exact) >= alpha:
        least = written(best) if best >= alpha else f"exact {written(exact)}"
        return "impossible", f"{design} cannot reach {level} ({least} at best without ties)"
    if separation == "certain":
        return "certain", f"separation is certain, so {written(best)} ({design})"
    # The smallest overlap of two methods: one method wins all comparisons except one.
    task = range(num_methods * n), [n] * num_methods
    statistic = (n**2 / 2 - 1) / math.sqrt(n**2 * (2 * n + 1) / 12)
    overlapping = float(asymptotic_pvalues(np.array([statistic]), [task], test)[0])
    if separation == "impossible" and overlapping >= alpha:
        least = written(overlapping)
        return "impossible", f"separation is impossible, so {least} at best ({design})"
    if separation == "impossible":
        reason = f"separation is impossible, but {level} does not need it"
    else:
        reason = f"separation is undetermined; {written(best)} with it"
        reason += f", {written(overlapping)} at best without"
    return "undetermined", f"{reason} ({design})"


def _separation(a: _Figures, b: _Figures, n: int, ddof: int | None) -> Verdict:
    """Return the verdict on separation that holds for all values that round to the figures."""
    (mean_a, sd_a), (mean_b, sd_b) = a, b
    distance, error = abs(mean_a.value - mean_b.value), mean_a.error + mean_b.error
    # Ratio of the SD with denominator n - 1 to the SD with denominator n.
    factor = math.sqrt(n / (n - 1))
    least, most = {0: (factor, factor), 1: (1.0, 1.0), None: (1.0, factor)}[ddof]
    smallest = least * sum(max(0.0, sd.value - sd.error) for sd in (sd_a, sd_b))
    largest = most * sum(sd.value + sd.error for sd in (sd_a, sd_b))
    if (distance + error) * math.sqrt(n) <= smallest:
        return "impossible"
    certain = max(0.0, distance - error) * math.sqrt(n) > (n - 1) * largest
    return "certain" if certain else "undetermined"


def _figures(table: pd.DataFrame | str | Path) -> dict[Hashable, dict[Hashable, _Figures]]:
    """Return task -> method -> mean and SD; the task is None if the table has no tasks."""
    if isinstance(table, str | Path):
        table = _read_csv(Path(table))
    if not isinstance(table, pd.DataFrame):
        raise TypeError(
            "`table` must be a pandas.DataFrame or the path of a CSV file. "
            f"Received: {type(table).__name__}"
        )
    if not table.columns.is_unique:
        raise ValueError(f"column names must be unique. Received: {list(table.columns)}")
    if table.iloc[:, 1:].map(lambda cell: bool(_WITH_SD.fullmatch(str(cell)))).any(axis=None):
        table = _long(table)
    for key, words in {**SYNONYMS, "mean": ["mean"], "sd": ["sd", "std", "stdev"]}.items():
        found = [name for word in words for name in table if words_of(str(name)) == word]
        table = table if key in table else table.rename(columns=dict.fromkeys(found[:1], key))
    if not {"method", "mean", "sd"} <= {*table.columns}:
        raise ValueError(
            "`table` must have the columns method, mean and sd, or methods in rows, tasks in "
            f"columns and cells such as '80.6 ± 0.4'. Received: {list(table.columns)}"
        )
    columns = (table.get(name, [None] * len(table)) for name in ("task", "method", "mean", "sd"))
    rows = list(zip(*columns, strict=True))
    filled = [row for row in rows if _text(row[2]) or _text(row[3])]
    if not filled:
        raise ValueError("`table` contains no numbers")
    means, sds = _rounded(filled, 2), _rounded(filled, 3)
    tasks: dict[Hashable, dict[Hashable, _Figures]] = {}
    for (task, method, _, printed), mean, sd in zip(filled, means, sds, strict=True):
        methods = tasks.setdefault(task, {})
        where = f"{method!r}{_on(task)}"
        if method in methods:
            raise ValueError(f"a method must occur once per task. Received twice: {where}")
        if sd.value < 0:
            raise ValueError(f"an SD must be at least 0. Received: {printed} for {where}")
        methods[method] = mean, sd
    for task, methods in tasks.items():
        if len(methods) < 2:
            empty = [name for of, name, *_ in rows if of == task and name not in methods]
            raise ValueError(
                "a task must have numbers for at least two methods. Received: "
                f"{list(methods)}{_on(task)}{f', no numbers for {empty}' if empty else ''}"
            )
    return tasks


def _read_csv(path: Path) -> pd.DataFrame:
    """Return the table of a CSV file as text, so that figures keep their decimals."""
    try:
        cells = pd.read_csv(
            path, header=None, dtype=str, keep_default_na=False, skipinitialspace=True
        )
    except ValueError as error:  # such as a row with more cells than the first one
        raise ValueError(f"{path} must be a CSV file: {str(error).strip()}") from error
    return cells.iloc[1:].set_axis(cells.iloc[0], axis="columns")


def _long(table: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each cell `mean ± sd`; rows are methods unless the column names tasks."""
    has_tasks = words_of(str(table.columns[0])) in SYNONYMS["task"]
    rows, columns = ("task", "method") if has_tasks else ("method", "task")
    long = table.set_axis([rows, *table.columns[1:]], axis=1).melt(rows, var_name=columns)
    parts = long["value"].astype(str).str.extract(_WITH_SD).set_axis(["mean", "sd"], axis=1)
    return long.join(parts)


def _text(figure: Any) -> str:
    """Return a figure as text; empty for a missing one."""
    return str("" if pd.isna(figure) else figure).strip()


def _rounded(rows: Sequence[Sequence[Any]], place: int) -> list[_Figure]:
    """Return the figures of a column, each with half a unit of its last decimal."""
    values = [_decimal(row, place) for row in rows]
    units = [int(value.as_tuple().exponent) for value in values]
    # Numbers lose trailing zeros: assume as many decimals as the most precise number has.
    typed = [isinstance(row[place], str) for row in rows]
    finest = min((unit for unit, text in zip(units, typed, strict=True) if not text), default=0)
    return [
        _Figure(float(value), 0.5 * 10.0 ** (unit if text else finest))
        for value, unit, text in zip(values, units, typed, strict=True)
    ]


def _decimal(row: Sequence[Any], place: int) -> Decimal:
    """Return a figure of a row (task, method, mean, SD) with its printed decimals."""
    task, method, mean, sd = row
    figure, where = row[place], f"{method!r}{_on(task)}"
    text = _text(figure) or "nan"
    if isinstance(figure, int | float | np.integer | np.floating) and not isinstance(figure, bool):
        text = np.format_float_positional(figure, trim="-")
    elif _FIGURE.fullmatch(text) is None:  # Decimal reads "8_0.5"
        raise TypeError(f"figures must be numbers. Received: {figure!r} for {where}")
    value = Decimal(text)
    if not value.is_finite():
        raise ValueError(
            f"mean and SD must both be finite. Received: mean={mean}, sd={sd} for {where}"
        )
    return value


def _row_of(pairs: pd.DataFrame, claim: Claim) -> int:
    *task, a, b = claim
    rows = pairs[[{a, b} == {x, y} for x, y in zip(pairs["a"], pairs["b"], strict=True)]]
    rows = rows[rows["task"] == task[0]] if task else rows
    if len(rows) != 1:
        raise ValueError(
            "a claim must name a pair of methods in the table: (task, a, b), or (a, b) if the "
            f"table has no tasks. Received: {tuple(claim)}"
        )
    return int(rows.index[0])


def _on(task: Hashable) -> str:
    return "" if task is None else f" on {task}"
