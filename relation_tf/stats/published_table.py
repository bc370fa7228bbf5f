"""Check of a published "mean, SD" table: which of its differences can be significant."""

from __future__ import annotations

import itertools
import math
import numbers
import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from relation_tf.registry import PROCEDURES
from relation_tf.stats.design import (
    RankTest,
    asymptotic_pvalues,
    attainable_pvalue,
    check_alpha,
    check_count,
    check_option,
    format_level,
    format_pvalue,
)
from relation_tf.stats.presentation import Shown, count
from relation_tf.stats.summary import Separation, separation_within

Significance: TypeAlias = Literal["certain", "impossible", "undetermined"]
Claim: TypeAlias = Sequence[Hashable]

_EMPTY = frozenset(["", "-", "–", "—"])
_CELL = re.compile(r"\s*([-+]?\d*\.?\d+)\s*(?:±|\+/?-|\()\s*(\d*\.?\d+)\s*\)?\s*")


@dataclass(frozen=True, eq=False, repr=False)
class PublishedTable(Shown):
    """The result of `read_published`.

    Attributes:
        table: The family's pairs on each task: columns `task`, `a`, `b`, `difference` (b's mean
            less a's), `separation` (of all scores: certain, impossible or undetermined),
            `significance` (certain, impossible or undetermined), `claimed`, and `reason`, a
            sentence.
        n: Number of scores of each method.
        alpha: Level of the test.
        test: Which pairs are compared.
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

    def to_pandas(self) -> pd.DataFrame:
        """Return the table of all pairs on all tasks."""
        return self.pairs()

    def _shown(self) -> pd.DataFrame:
        dropped = ["reason"] if self.table["claimed"].any() else ["reason", "claimed"]
        return self.table.drop(columns=dropped)

    def _title(self) -> str:
        return (
            f"What the published means and SD of {count(self.n, 'seed')} allow: "
            f"{PROCEDURES[self.test].title}, {format_level(self.alpha)}"
        )

    def _remarks(self) -> Iterator[str]:
        for what in ("separation", "significance"):
            numbers = self.table[what].value_counts()
            said = ", ".join(f"{word} for {number}" for word, number in numbers.items())
            yield f"{what.capitalize()} of {count(len(self.table), 'pair')}: {said}."
        yield "Figures are taken as rounded; p is asymptotic, of scores without ties."
        yield from (f"Claim: {reason}" for reason in self.claims()["reason"])


def read_published(
    table: pd.DataFrame,
    n: int,
    alpha: float = 0.05,
    test: RankTest = "steel-dwass",
    *,
    control: Hashable = None,
    num_methods: int | None = None,
    digits: int | None = None,
    ddof: Literal[0, 1] | None = 1,
    claims: Iterable[Claim] = (),
) -> PublishedTable:
    """Read a published table of "mean, SD" and say which differences can be significant.

    Two methods' scores are separated where none overlap: `separation_from_summary` says what mean
    and SD tell of it. Each figure is rounded, so `certain` and `impossible` are said only where
    they hold for all values that round to it. A difference is then

    - `certain`: the scores are certainly separated, and separation gives p < alpha;
    - `impossible`: no scores of this many methods and seeds give p < alpha, or separation is needed
      and impossible;
    - `undetermined`: neither follows.

    p is the asymptotic one of `steel_dwass` or `steel`, of scores without ties; where
    the exact p cannot be below alpha, none is.

    Args:
        table: One of
            - columns `method`, `mean`, `sd`, and `task` if there are several;
            - rows are tasks, columns methods, and cells texts such as `80.6 ± 0.4` or `80.6 (0.4)`.
            An empty cell or a dash (for both figures) is a method that the task lacks.
        n: Number of scores (seeds) behind each mean.
        alpha: Level of the test.
        test: Which pairs are compared.
        control: The method that the others are compared with, in the test `"steel"`.
        num_methods: Number of methods that were compared, if the table shows not all.
        digits: Decimals to which all figures were rounded. By default a text has the decimals that
            it shows, and of numbers all means, and all SD, have as many as the one with most.
        ddof: Whether an SD has n - 1 (1) or n (0) in its denominator; None if that is not known:
            then both must agree.
        claims: What the paper calls significant, `(task, a, b)` each, or `(a, b)` without tasks.

    Returns:
        A `PublishedTable`; `print` shows it.

    Raises:
        TypeError: If the table is no `pandas.DataFrame` or a figure or an option is no number.
        ValueError: If the table has no accepted form, a figure is missing or impossible, a name is
            unknown, or an option is out of range.

    Example:
        >>> table = pd.DataFrame(
        ...     {"Relation": ["80.6 ± 0.4"], "Attention": ["76.1 ± 0.9"], "MLP": ["75.9 ± 0.6"]},
        ...     index=["SST-2"],
        ... )
        >>> found = read_published(table, n=5, claims=[("SST-2", "Relation", "Attention")])
        >>> print(found.claims()["reason"][0])
        Relation vs Attention on SST-2: separation is certain, so p = .0245 (3 methods, 5 seeds)

    References:
        Laguerre-Samuelson inequality: P. A. Samuelson (1968), How deviant can you be?, Journal of
        the American Statistical Association 63, 1522-1525.
    """
    check_alpha(alpha)
    check_option("test", test, RankTest)
    if (test == "steel") != (control is not None):
        raise ValueError(
            "`control` is for the test 'steel', which needs it. "
            f"Received: test={test!r}, control={control!r}"
        )
    check_count("n", n, 2)
    if num_methods is not None:
        check_count("num_methods", num_methods)
    if ddof not in (0, 1, None):
        raise ValueError(f"`ddof` must be 0, 1 or None. Received: ddof={ddof!r}")
    rows = []
    for task, figures in _figures(table, digits).items():
        compared = len(figures) if num_methods is None else num_methods
        if len(figures) > compared:
            raise ValueError(
                "`num_methods` must be at least the number of methods that are shown. "
                f"Received: num_methods={num_methods} for {list(figures)}{_on(task)}"
            )
        if control is not None and control not in figures:
            raise ValueError(
                f"`control` must be one of {list(figures)}{_on(task)}. Received: {control!r}"
            )
        pairs = (
            itertools.combinations(figures, 2)
            if control is None
            else ((control, other) for other in figures if other != control)
        )
        for a, b in pairs:
            separation = _separation(figures[a], figures[b], n, ddof)
            significance, reason = _judge(separation, compared, n, alpha, test)
            difference = figures[b].mean - figures[a].mean
            sentence = f"{a} vs {b}{_on(task)}: {reason}"
            rows.append((task, a, b, difference, separation, significance, False, sentence))
    columns = ["task", "a", "b", "difference", "separation", "significance", "claimed", "reason"]
    found = pd.DataFrame(rows, columns=columns)
    for claim in claims:
        found.loc[_row_of(found, claim), "claimed"] = True
    if found["task"].isna().all():
        found = found.drop(columns="task")
    return PublishedTable(found, n, alpha, test)


class _Figures(NamedTuple):
    """A method's published mean and SD, and how far each may be off by rounding."""

    mean: float
    sd: float
    mean_error: float
    sd_error: float


def _judge(
    separation: Separation, num_methods: int, n: int, alpha: float, test: RankTest
) -> tuple[Significance, str]:
    """Return what a separation means for p with so many methods and seeds, and a sentence."""

    def written(pvalue: float) -> str:
        return format_pvalue(pvalue, alpha, decimals=4)

    design, level = f"{num_methods} methods, {n} seeds", format_level(alpha)
    best = attainable_pvalue(num_methods, n, "asymptotic", test=test)
    exact = attainable_pvalue(num_methods, n, "exact", test=test)
    if max(best, exact) >= alpha:
        least = written(best) if best >= alpha else f"exact {written(exact)}"
        return "impossible", f"{design} cannot reach {level} ({least} at best without ties)"
    if separation == "certain":
        return "certain", f"separation is certain, so {written(best)} ({design})"
    # Two methods that overlap least: all comparisons are won but one.
    statistic = (n**2 / 2 - 1) / math.sqrt(n**2 * (2 * n + 1) / 12)
    overlapping = float(asymptotic_pvalues(np.array([statistic]), [n] * num_methods, test)[0])
    if separation == "impossible" and overlapping >= alpha:
        least = written(overlapping)
        return "impossible", f"separation is impossible, so {least} at best ({design})"
    reason = f"separation is undetermined; {written(best)} with it"
    reason += f", {written(overlapping)} at best without"
    if separation == "impossible":
        reason = f"separation is impossible, but {level} does not need it"
    return "undetermined", f"{reason} ({design})"


def _separation(a: _Figures, b: _Figures, n: int, ddof: int | None) -> Separation:
    distance, error = abs(a.mean - b.mean), a.mean_error + b.mean_error
    # An SD with n in its denominator is smaller by this factor than the one with n - 1.
    factor = math.sqrt(n / (n - 1))
    least, most = {0: (factor, factor), 1: (1.0, 1.0), None: (1.0, factor)}[ddof]
    smallest = sum(max(0.0, f.sd - f.sd_error) for f in (a, b))
    largest = sum(f.sd + f.sd_error for f in (a, b))
    return separation_within(
        (max(0.0, distance - error), distance + error), (least * smallest, most * largest), n
    )


def _figures(table: pd.DataFrame, digits: int | None) -> dict[Hashable, dict[Hashable, _Figures]]:
    """Task -> method -> its figures; the task is None where the table has none."""
    if not isinstance(table, pd.DataFrame):
        raise TypeError(f"`table` must be a pandas.DataFrame. Received: {type(table).__name__}")
    every = list(_cells(table))
    cells = [cell for cell in every if not (_is_empty(cell.mean) and _is_empty(cell.sd))]
    if not cells:
        raise ValueError("`table` must hold figures. Received: none")
    values = [_value(cell.mean, cell) for cell in cells], [_value(cell.sd, cell) for cell in cells]
    errors = _errors([cell.mean for cell in cells], digits), _errors([c.sd for c in cells], digits)
    tasks: dict[Hashable, dict[Hashable, _Figures]] = {}
    for cell, *figures in zip(cells, *values, *errors, strict=True):
        methods = tasks.setdefault(cell.task, {})
        if cell.method in methods:
            raise ValueError(f"a method must occur once. Received: {cell.method!r}{_on(cell.task)}")
        methods[cell.method] = _Figures(*figures)
        if figures[1] < 0:
            raise ValueError(
                f"an SD must be at least 0. Received: {cell.sd} for {cell.method!r}{_on(cell.task)}"
            )
    for task, methods in tasks.items():
        if len(methods) < 2:
            empty = [c.method for c in every if c.task == task and c.method not in methods]
            raise ValueError(
                "a task must have figures of at least two methods. Received: "
                f"{list(methods)}{_on(task)}{f', no figures for {empty}' if empty else ''}"
            )
    return tasks


class _TableEntry(NamedTuple):
    task: Hashable
    method: Hashable
    mean: Any
    sd: Any


def _cells(table: pd.DataFrame) -> Iterator[_TableEntry]:
    """Return the methods of each task with their figures as printed."""
    columns: dict[Any, NDArray[Any]] = {name: cells.to_numpy() for name, cells in table.items()}
    if len(columns) < table.shape[1]:
        raise ValueError(f"column names must be unique. Received: {list(table.columns)}")
    rows: Iterable[tuple[Any, ...]]
    if {"method", "mean", "sd"} <= set(columns):
        tasks = columns.get("task", [None] * len(table))
        rows = zip(tasks, *(columns[name] for name in ("method", "mean", "sd")), strict=True)
    else:
        rows = (
            (task, method, *_split(cells[row], task, method))
            for row, task in enumerate(table.index)
            for method, cells in columns.items()
        )
    return (_TableEntry(*row) for row in rows)


def _is_empty(figure: Any) -> bool:
    """Return True for no text or a dash."""
    return figure.strip() in _EMPTY if isinstance(figure, str) else bool(pd.isna(figure))


def _split(cell: Any, task: Hashable, method: Hashable) -> tuple[Any, Any]:
    if _is_empty(cell):
        return math.nan, math.nan
    if isinstance(cell, str):
        figures = _CELL.fullmatch(cell)
        if figures:
            return figures[1], figures[2]
    raise ValueError(
        "`table` must have columns method, mean, sd, or texts such as '80.6 ± 0.4' as cells. "
        f"Received: {cell!r} for {method!r}{_on(task)}"
    )


def _value(figure: Any, cell: _TableEntry) -> float:
    number = isinstance(figure, str | numbers.Real) and not isinstance(figure, bool | np.bool_)
    try:
        value = float(figure) if number else None
    except ValueError:
        value = None
    if value is None:
        raise TypeError(
            f"figures must be numbers. Received: {figure!r} for {cell.method!r}{_on(cell.task)}"
        )
    if not math.isfinite(value):
        raise ValueError(
            f"mean and SD must both be finite. Received: mean={cell.mean}, sd={cell.sd} for "
            f"{cell.method!r}{_on(cell.task)}"
        )
    return value


def _errors(figures: Sequence[Any], digits: int | None) -> list[float]:
    """Half a unit of each figure's last decimal."""
    decimals = [_decimals(figure) for figure in figures]
    typed = [isinstance(figure, str) for figure in figures]
    # A number has lost its trailing zeros: in a table all have as many decimals as any.
    most = max((d for d, text in zip(decimals, typed, strict=True) if not text), default=0)
    shown = (d if text else most for d, text in zip(decimals, typed, strict=True))
    return [0.5 * 10.0 ** -(d if digits is None else digits) for d in shown]


def _decimals(figure: Any) -> int:
    text = figure if isinstance(figure, str) else np.format_float_positional(figure, trim="-")
    return -int(Decimal(text.strip()).as_tuple().exponent)


def _row_of(found: pd.DataFrame, claim: Claim) -> int:
    *task, a, b = claim
    rows = found[[{a, b} == {x, y} for x, y in zip(found["a"], found["b"], strict=True)]]
    rows = rows[rows["task"] == task[0]] if task else rows
    if len(rows) != 1:
        raise ValueError(
            "a claim must be (task, a, b), or (a, b) without tasks, of a pair in the table. "
            f"Received: {tuple(claim)}"
        )
    return int(rows.index[0])


def _on(task: Hashable) -> str:
    return "" if task is None else f" on {task}"
