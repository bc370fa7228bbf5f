"""Tests of methods on each task and over tasks, as data, tables and figures."""

from __future__ import annotations

import inspect
import math
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from relation_tf.errors import OptionError
from relation_tf.registry import PROCEDURES, Procedure, register_section
from relation_tf.report.blocks import (
    MOST_PANELS,
    MOST_ROWS,
    Block,
    Cell,
    Column,
    Paper,
    Row,
    Section,
    Table,
    blocks,
    rows_of,
)
from relation_tf.report.drawing import (
    INK,
    Panel,
    Picture,
    Style,
    draw_names,
    draw_strokes,
    label_width,
    limit_ticks,
)
from relation_tf.report.scores import Scores
from relation_tf.report.text import Statement, render, state
from relation_tf.stats import (
    CorrectedTResult,
    FriedmanResult,
    McNemarResult,
    PairwiseResult,
    SignedRankResult,
    StratifiedResult,
)
from relation_tf.stats.comparisons import NOT_SIGNIFICANT
from relation_tf.stats.over_tasks import FEW_TASKS
from relation_tf.stats.pair_tests import TTestResult
from relation_tf.stats.permutation import MAX_ARRANGEMENTS, PERMUTATIONS
from relation_tf.stats.samples import unequal_spread
from relation_tf.terminal import advance
from relation_tf.words import format_level, limit, pvalue_only, signed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from relation_tf.report.data import Comparison

_PAIR_COLUMNS = [
    *("a", "b", "n_a", "n_b", "statistic", "pvalue", "asymptotic_pvalue"),
    *("difference", "difference_low", "difference_high"),
    *("effect_size", "effect_low", "effect_high"),
    *("significant", "better", "verdict", "ahead", "higher_is_better"),
]
_OVER_TASKS = ["a", "b", "statistic", "pvalue", "effect_size", "effect_low", "effect_high",
               "significant", "better"]  # fmt: skip
_OF_MEANS = TTestResult | McNemarResult
_MOST_NAMED = 6  # tasks in one warning


# ---- Tests of tasks ----


def compare_methods(scores: Scores) -> dict[str, PairwiseResult]:
    """Return the test of each task where at least two methods have at least two seeds.

    With a control, tasks without its scores are left out.

    Raises:
        OptionError: If the test returns a result at another level.
    """
    comparisons = {}
    for number, task in enumerate(scores.tasks):
        advance("tests of tasks", number, len(scores.tasks))
        result = _test(scores, task)
        if result is not None:
            comparisons[task] = result
    return comparisons


def _test(scores: Scores, task: str) -> PairwiseResult | None:
    """Test a task; None unless two methods have two scores and the control has any.

    In a test of pairs, two methods must have scores of the same two folds or items.
    """
    samples: dict[Any, list[float]] = {**scores.tested(task)}
    control, procedure = scores.control, scores.procedure
    sizes = sorted(len(values) for values in samples.values())
    if len(sizes) < 2 or sizes[-2] < 2 or (control is not None and control not in samples):
        return None
    if procedure.paired and (np.isfinite([*samples.values()]).sum(axis=0) > 1).sum() < 2:
        return None
    options: dict[str, Any] = {
        "alpha": scores.alpha,
        "higher_is_better": task not in scores.lower_is_better,
    }
    options |= {} if control is None else {"control": control}
    if "test_share" in inspect.signature(procedure.function).parameters:
        options["test_share"] = scores.test_share
    try:
        result = procedure.function(samples, **options)
    except OptionError:
        raise
    except ValueError as error:  # such as a test of other scores
        fault = f"cannot be {procedure.title} on {task}: {error}"
        raise OptionError("test", fault) from error
    _check_result("test", result, scores)
    return result


def _check_result(option: str, result: Any, scores: Scores) -> None:
    """Check that a test has returned pairs, and used the level of the report, if it names one."""
    if not hasattr(result, "pairs"):
        fault = "must return a result with pairs, such as that of relation_tf.stats.pairwise_result"
        raise OptionError(option, f"{fault}. Received: {type(result).__name__}")
    level = getattr(result, "alpha", scores.alpha)
    if level != scores.alpha:
        fault = f"must return a result at the level alpha = {scores.alpha:g}. Received: alpha = "
        raise OptionError(option, f"{fault}{level:g}")


def procedure_label(procedure: Procedure, control: str | None) -> str:
    """Return the name of a test, with its control."""
    return procedure.title if control is None else f"{procedure.title} against {control}"


def all_pvalues(
    tests: Mapping[str, PairwiseResult], factor: Callable[[str], float] = lambda task: 1.0
) -> pd.DataFrame:
    """Return the pairs of methods on each task with all columns of a report.

    In addition to `task` and `PairwiseResult.pairs` these are `n_a`, `n_b`, `difference` (of b
    minus a, as `PairwiseResult.estimand` says, with the simultaneous interval from `difference_low`
    to `difference_high`; NaN for procedures without intervals), `effect_low` and `effect_high` (the
    interval of the effect size), `ahead` (the method with better ranks, in a test of means with the
    better mean, significant or not; empty if they are equal), and `higher_is_better` (if False, a
    positive statistic, difference or effect size means that b is worse).

    Args:
        tests: The test of each task, from `compare_methods`.
        factor: Function from a task to the factor of its differences, 100 for points.
    """
    # Lists rather than a table for each test: tables of thousands of tasks take long to join.
    columns: dict[str, list[Any]] = {name: [] for name in ("task", *_PAIR_COLUMNS)}
    for number, (task, test) in enumerate(tests.items()):
        advance("intervals of tasks", number, len(tests))
        values = _columns_of(test, factor(task))
        columns["task"] += [task] * len(values["a"])
        for name in _PAIR_COLUMNS:
            columns[name] += [*values[name]]
    table = pd.DataFrame(columns)
    return table.assign(better=pd.Series(columns["better"], dtype=object))


def _columns_of(test: PairwiseResult, factor: float) -> dict[str, Sequence[Any]]:
    def size(own: str, other: str) -> int:  # of pairs, those that both methods have
        scores = test.samples[own]
        return int((~np.isnan(scores + test.samples[other])).sum() if paired else scores.size)

    paired = test.procedure.paired
    pairs, effects = test.columns(), test.effect_sizes()
    unknown = np.full(len(effects), np.nan)
    shifts = dict.fromkeys(("difference", "low", "high"), unknown)
    if test.estimand is not None:
        intervals = test.confidence_interval()
        shifts = {name: factor * intervals[name].to_numpy(dtype=float) for name in shifts}
    towards_b = test.directions() * (1 if test.higher_is_better else -1)
    rows = zip(pairs["a"], pairs["b"], towards_b, strict=True)
    return {
        "asymptotic_pvalue": unknown,
        **pairs,
        "n_a": [*map(size, pairs["a"], pairs["b"])],
        "n_b": [*map(size, pairs["b"], pairs["a"])],
        "difference": shifts["difference"],
        "difference_low": shifts["low"],
        "difference_high": shifts["high"],
        "effect_low": effects["low"],
        "effect_high": effects["high"],
        "ahead": [b if sign > 0 else a if sign < 0 else "" for a, b, sign in rows],
        "higher_is_better": [test.higher_is_better] * len(effects),
    }


def winners(pairs: pd.DataFrame) -> list[tuple[str, str]]:
    """Return the better and the worse method of each significant pair, see `most_important`."""
    won = rows_of(most_important(pairs))
    return [(row.better, row.a if row.better == row.b else row.b) for row in won]


def most_important(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return the significant pairs: those of the method with most wins first, then the smallest p.

    Args:
        pairs: Columns `a`, `b`, `pvalue` and `better`, as in `PairwiseResult.pairs`.
    """
    won = pairs[pairs["better"].notna()].sort_values("pvalue", kind="stable")
    wins = won["better"].map(won["better"].value_counts())
    return won.loc[wins.sort_values(ascending=False, kind="stable").index]


# ---- Tests over tasks ----


@dataclass(frozen=True)
class OverTasks:
    """Test over tasks.

    Attributes:
        procedure: The test.
        result: Its result.
        pairs: A row per pair with `a`, `b`, `statistic`, `pvalue`, `effect_size` with its interval
            from `effect_low` to `effect_high` (NaN if unknown), `significant`, and `better` (the
            better method of a significant pair, else None).
        tasks: The tasks; those scored from one network are one task.
        left_out: Tasks without scores of all methods.
        notes: Remarks on scores and p.
        depends_on_units: If True, tasks have different units, on which the ranks of differences
            depend.
    """

    procedure: Procedure
    result: Any
    pairs: pd.DataFrame
    tasks: list[str]
    left_out: list[str]
    notes: list[str]
    depends_on_units: bool

    @property
    def generalizes(self) -> bool:
        """If True, the result is also about similar tasks: the test uses one mean of each task."""
        return isinstance(self.result, FriedmanResult | SignedRankResult)

    @property
    def units(self) -> str:
        """Units of which more can make a difference significant."""
        return "tasks" if self.generalizes else "tasks and seeds"

    @property
    def ranks(self) -> pd.DataFrame | None:
        """Ranks of the methods on each task, for Friedman's and Nemenyi's tests."""
        return self.result.ranks if isinstance(self.result, FriedmanResult) else None


def over_tasks(scores: Scores) -> OverTasks | None:
    """Test the tasks that all methods with scores have.

    Tasks scored from one network count once, with their mean per seed. None for fewer than two such
    tasks or too few methods for the test, or without scores of the control.
    """
    procedure, common = scores.procedure_over_tasks, scores.common
    methods = [*next(iter(common.values()), ())]
    without_control = procedure.against_control and scores.control not in methods
    if len(common) < 2 or len(methods) < procedure.least_methods or without_control:
        return None
    samples: dict[Any, Any] = {
        task: {
            name: np.multiply(-1 if scores.lower_is_better_on(task) else 1, by_method[name])
            for name in methods
        }
        for task, by_method in common.items()
    }
    options: dict[str, Any] = {"alpha": scores.alpha}
    options |= {"control": scores.control} if procedure.needs_control else {}
    if "higher_is_better" in inspect.signature(procedure.function).parameters:
        options["higher_is_better"] = True  # the samples are turned
    result = procedure.function(samples, **options)
    _check_result("test_over_tasks", result, scores)
    pairs = result.pairs()
    if "statistic" not in pairs:
        pairs["statistic"] = pairs["rank_a"] - pairs["rank_b"]
    if hasattr(result, "effect_sizes") and not isinstance(result, SignedRankResult):
        intervals = result.effect_sizes()
        pairs["effect_low"], pairs["effect_high"] = intervals["low"], intervals["high"]
    notes = [x for x in getattr(result, "notes", ()) if "depend on the units" not in x]
    ranked = getattr(result, "signed_ranks", result)
    depends = isinstance(ranked, SignedRankResult) and not scores.comparable
    left_out = [task for task in scores.by_network if task not in common]
    pairs = pairs.reindex(columns=_OVER_TASKS)
    return OverTasks(procedure, result, pairs, [*common], left_out, notes, depends)


class Outcome(NamedTuple):
    """Pairs of methods with one verdict each, as the opening sentence reports them.

    Attributes:
        pairs: Columns `a`, `b` and `better` (None without a significant difference).
        how: Name and level of the test.
        lacking: Unit of which there are too few for any p below the level; empty with enough.
        procedure: The test.
    """

    pairs: pd.DataFrame
    how: str
    lacking: str
    procedure: Procedure


def outcome_of(
    scores: Scores, over_tasks: OverTasks | None, tests: Mapping[str, PairwiseResult]
) -> Outcome | None:
    """Return the pairs over all tasks or on the only one; None if there are tests by task only.

    Folds and items are compared by task, unless a test over tasks is chosen.

    Args:
        scores: The scores of a family.
        over_tasks: Test over tasks, if there is one.
        tests: The test of each task.
    """
    level = format_level(scores.alpha)
    if over_tasks is not None and not (tests and scores.paired and scores.test_over_tasks is None):
        few = lacking(over_tasks.result, over_tasks.units, scores)
        how = f"{over_tasks.procedure.title}, {level}"
        return Outcome(over_tasks.pairs, how, few, over_tasks.procedure)
    test = tests.get(scores.main_tasks[0]) if len(scores.main_tasks) == 1 else None
    if test is None:
        return None
    how = f"{procedure_label(scores.procedure, scores.control)}, {level}"
    few = lacking(test, f"{scores.replicate}s", scores)
    return Outcome(test.pairs(), how, few, scores.procedure)


def lacking(result: Any, unit: str, scores: Scores) -> str:
    """Return the unit if no p can be below the level; tests of plugins may not know it."""
    return unit if getattr(result, "attainable_pvalue", 0.0) >= scores.alpha else ""


# ---- What tests can show ----


def cautions(part: Comparison) -> Iterator[Statement]:
    """Yield remarks on what the tests of tasks can show."""
    scores, tests, pvalues = part.scores, part.tests, part.pvalues
    if not tests:
        return
    yield from _too_few_seeds(part)
    # The method with better ranks has the worse mean.
    pairs: dict[tuple[str, str], list[str]] = {}
    for row in rows_of(pvalues[pvalues["significant"] & (pvalues["ahead"] != "")]):
        samples = scores.samples(row.task)
        other = row.b if row.ahead == row.a else row.a
        ahead, behind = (fmean(samples.get(name, [math.nan])) for name in (row.ahead, other))
        if (ahead > behind) if row.task in scores.lower_is_better else (ahead < behind):
            pairs.setdefault((row.ahead, other), []).append(row.task)
    if pairs:
        yield state(
            "better_ranks_worse_mean", pairs=[(*pair, tasks) for pair, tasks in pairs.items()]
        )


def _too_few_seeds(part: Comparison) -> Iterator[Statement]:
    """Say that no difference can be significant, and how many seeds can change it."""
    scores, tests = part.scores, [*part.tests.values()]
    # Ties can give a smaller p than untied seeds, for example with two constant methods.
    least = min(test.attainable_pvalue for test in tests)
    if part.pvalues["significant"].any() or least < scores.alpha:
        return
    methods, bound = max(len(test.samples) for test in tests), scores.procedure.attainable_pvalue
    sizes = {len(values) for test in tests for values in test.samples.values()}
    yield state(
        "too_few_seeds",
        tasks=[*part.tests],
        methods=methods,
        seeds=scores.seeds if sizes == {scores.seeds} else None,
        replicate=scores.replicate,
        pvalue=tests[0].attainable_pvalue,
        alpha=scores.alpha,
        seeds_needed=tests[0].seeds_needed,
        fewer_methods_help=methods > 2
        and bound is not None
        and bound(2, scores.seeds) < scores.alpha,
    )


def spread_warnings(part: Comparison, control: str | None) -> Iterator[Statement]:
    """Yield a warning if the SDs of two methods differ by more than 3:1 and a test ignores it.

    Args:
        part: The comparison.
        control: The control, see `Scores.controls`.
    """
    tests = [x for x in part.tests.items() if x[1].attainable_pvalue < part.scores.alpha]
    ratios = {task: unequal_spread(test.samples) for task, test in tests}
    spreads = {task: str(ratio) for task, ratio in ratios.items() if ratio is not None}
    single = part.scores.procedure
    over = [] if part.over_tasks is None else [part.over_tasks.procedure]
    equal = [x for x in (single, *over) if x.equal_spread]
    if spreads and equal:
        welch = "welch-control" if single.against_control else "welch"
        yield state(
            "unequal_spread",
            tasks=dict([*spreads.items()][:_MOST_NAMED]),
            more=max(0, len(spreads) - _MOST_NAMED),
            tests=[x.title for x in equal],
            companion=welch if single in equal else "",
            control="" if control is None else shlex.quote(control),
            over_tasks=equal[-1:] == over,
        )


# ---- Pairs of methods on each task ----


@register_section("differences")
class Differences(Section):
    """Table of pairs of methods with their p."""

    heading = "Pairwise tests"
    by_family = True

    def blocks(self, part: Comparison) -> Sequence[Block]:
        """Return the table of p and the figure of the differences."""
        if part.pvalues.empty:
            return []
        scores, tests = part.scores, part.tests
        limits = part.pvalues[["difference_low", "difference_high"]]
        values = {"part": part, "scores": scores}
        table = pair_table(
            "Table: pairs of methods",
            scores.tasks,
            part.pvalues,
            scores.alpha,
            scores.digits,
            swatches=part.pairs_listed,
            paper=Paper("pairs", render("differences-caption.jinja", **values)),
            heading=scores.with_arrow,
        )
        by_task = {
            str(task): rows.rename(columns={"difference_low": "low", "difference_high": "high"})
            for task, rows in [*part.pvalues.groupby("task", sort=False)][:MOST_PANELS]
        }
        picture = differences(
            by_task, part.report.styles, unit=scores.unit,
            digits={task: scores.digits(task) for task in by_task},
        )  # fmt: skip
        return blocks(
            "differences.jinja",
            table=table,
            picture=picture,
            panels=len(by_task),
            estimand=next(iter(tests.values())).estimand,
            means=any(isinstance(test, _OF_MEANS) for test in tests.values()),
            infinite=bool(np.isinf(limits).all(axis=None)),
            failed=bool(part.failed["ranked"].any()),
            cautions=[*cautions(part)],
            **values,
        )


def pair_table(
    label: str,
    tasks: Sequence[str],
    pvalues: pd.DataFrame,
    alpha: float,
    digits: Callable[[str], int],
    *,
    ahead: str = "better",
    swatches: bool = True,
    paper: Paper | None = None,
    heading: Callable[[str], str] = str,
) -> Table:
    """Return a table with one row per pair of methods and one column per task.

    A cell has p, a mark (▲: the second method tends to have the higher value, ▼: the lower) and, as
    a note, the difference, second minus first method, with its simultaneous interval. Of more pairs
    than a page shows, those with the smallest p are first.

    Args:
        label: Description for screen readers.
        tasks: The columns.
        pvalues: Result of `all_pvalues`.
        alpha: Level of the tests.
        digits: Function from a task to the number of decimals of its differences.
        ahead: Word for the better method, for screen readers.
        swatches: If True, methods have their marker.
        paper: Label and caption in LaTeX.
        heading: Function from a task to the heading of its column.
    """
    kind: Literal["method", "head"] = "method" if swatches else "head"
    columns = [Column("First", kind), Column("Second", kind)]
    columns += [Column(heading(task), "number") for task in tasks]
    pairs: dict[tuple[str, str], dict[str, Cell]] = {}
    for row in rows_of(pvalues):
        mark = "▲" if (row.ahead == row.b) == row.higher_is_better else "▼"
        pairs.setdefault((row.a, row.b), {})[row.task] = Cell(
            pvalue_only(row.pvalue, alpha),
            mark=mark if row.ahead else "",
            meaning=f"{row.ahead} {ahead}",
            significant=bool(row.significant),
            notes=_difference_note(row, digits(row.task)),
        )
    if len(pairs) > MOST_ROWS:
        groups = pvalues.assign(size=-pvalues["statistic"].abs()).groupby(["a", "b"], sort=False)
        first = groups[["pvalue", "size"]].min().sort_values(["pvalue", "size"], kind="stable")
        pairs = {pair: pairs[pair] for pair in first.index}
    rows = [Row([*names, *map(cells.get, tasks)]) for names, cells in pairs.items()]
    return Table(label, columns, rows, "pairs", paper)


def _difference_note(row: Any, digits: int) -> list[str]:
    """Return the difference of a pair with its interval; nothing if both limits are infinite."""
    limits = row.difference_low, row.difference_high
    if not math.isfinite(row.difference) or all(map(math.isinf, limits)):
        return []
    low, high = (limit(x, digits) for x in limits)
    return [f"{signed(row.difference, digits)} [{low}, {high}]"]


_MOST_DRAWN = 40  # pairs; of more, those with the largest differences
_ROW = 0.27  # height in inches


def differences(
    pairs: Mapping[str, pd.DataFrame],
    styles: Mapping[str, Style],
    *,
    name: str = "differences",
    unit: str = "",
    ends: tuple[str, str] = ("bold name higher", "row higher"),
    positive: str = "second minus first",
    margins: Mapping[str, float] = MappingProxyType({}),
    digits: Mapping[str, int] = MappingProxyType({}),
) -> Picture | None:
    """Return a forest plot: the difference of each pair of methods with its interval, by task.

    Pairs are listed below their first method, in bold. A mark to the right of zero means that the
    method of the row is ahead. An infinite limit ends at the edge. Of more than 40 pairs, the 40
    with the largest differences are drawn.

    Args:
        pairs: Task -> a table with one row per pair and columns `a`, `b`, `difference` (positive
            where b is ahead), `low` and `high`; NaN for a pair without an interval.
        styles: Style of each method.
        name: Name of the picture's file.
        unit: Unit of the differences.
        ends: Words at the negative and at the positive end of the axis.
        positive: When a difference is positive, in the words of the alternative text.
        margins: Largest loss that does not matter by task, drawn as a dashed line.
        digits: Decimals in the alternative text by task, by default one.

    Returns:
        The picture, without tasks where all limits are infinite; None if no pair has a difference.

    Example:
        >>> from relation_tf.report.drawing import styles
        >>> row = {"a": "mlp", "b": "relation", "difference": 2.5, "low": 0.4, "high": 4.6}
        >>> pair = styles(["mlp", "relation"])
        >>> picture = differences({"CoLA": pd.DataFrame([row])}, pair, unit="points")
        >>> print(picture.panels[0].alt)  # doctest: +NORMALIZE_WHITESPACE
        CoLA, difference of each pair in points, second minus first: mlp and relation +2.5 (+0.4
        to +4.6).
    """
    finite = {}
    for task, table in pairs.items():
        table = table[np.isfinite(table["difference"].astype(float))]
        if len(table) and not np.isinf(table[["low", "high"]].to_numpy(dtype=float)).all():
            finite[task] = table
    if not finite:
        return None
    drawn = {task: _most_different(table) for task, table in finite.items()}
    more = {task: len(table) - len(drawn[task]) for task, table in finite.items()}
    rows = max(1, *(len(table) + table["a"].nunique() for table in drawn.values()))
    bottom = 0.66 if any(more.values()) else 0.5  # with a line for the pairs left out
    panels = []
    for task, table in drawn.items():
        others = f"{more[task]:,} other pairs" if more[task] else ""
        draw = partial(_draw_pairs, table, others, rows, styles, ends, margins.get(task, 0))
        where = f" in {unit}" if unit else ""
        words = _listed_differences(finite[task], digits.get(task, 1))
        alt = f"{task}, difference of each pair{where}, {positive}: {words}."
        panels.append(Panel(task, alt, draw))
    names = label_width(styles)
    return Picture(
        name,
        "Differences between methods with intervals, by task.",
        panels,
        size=(2.4 + names, 0.35 + bottom + _ROW * rows),
        left=names,
        bottom=bottom,
    )


def _most_different(table: pd.DataFrame) -> pd.DataFrame:
    """Return the pairs to draw."""
    largest = table["difference"].abs().sort_values(ascending=False, kind="stable")
    return table[table.index.isin(largest.index[:_MOST_DRAWN])]


def _listed_differences(table: pd.DataFrame, digits: int) -> str:
    named = _most_different(table)
    words = [
        f"{row.a} and {row.b} {signed(row.difference, digits)}"
        + (f" ({limit(row.low, digits)} to {limit(row.high, digits)})" * (row.low == row.low))
        for row in rows_of(named)
    ]
    others = len(table) - len(named)
    return ", ".join([*words, *([f"{others:,} other pairs"] if others else [])])


def _draw_pairs(
    table: pd.DataFrame,
    others: str,
    rows: int,
    styles: Mapping[str, Style],
    ends: tuple[str, str],
    margin: float,
    ax: Axes,
) -> None:
    order = {name: place for place, name in enumerate(styles)}
    table = table.sort_values(["a", "b"], key=lambda names: names.map(order), kind="stable")
    # Each first method has a row above its pairs.
    first = ~table["a"].duplicated()
    y = np.arange(len(table)) + first.cumsum().to_numpy()
    table = table.assign(y=y)
    heads = {int(row.y) - 1: row.a for row in rows_of(table[first])}
    known = table[["difference", "low", "high"]].to_numpy(dtype=float)
    values = np.append(known[np.isfinite(known)], [0, -margin])
    space = 0.06 * np.ptp(values) or 1.0
    left, right = float(values.min()) - space, float(values.max()) + space
    ax.axvline(0, color=INK, linewidth=0.8)
    if margin:
        ax.axvline(-margin, color=INK, linewidth=0.8, linestyle="--")
    for name, pairs in table.groupby("b", sort=False):
        style = styles[str(name)]
        limits = pairs["low"].clip(left), pairs["high"].clip(upper=right)
        draw_strokes(ax, *limits, pairs["y"], color=style.color, linewidth=1.4)
        ax.plot(pairs["difference"], pairs["y"], **style.mark, markersize=5.5, clip_on=False)
    draw_names(ax, dict(zip(y.tolist(), table["b"], strict=True)) | heads, bold=heads)
    ax.set(xlim=(left, right), ylim=(rows - 0.4, -0.6))
    limit_ticks(ax.xaxis, 5)
    ax.grid(axis="x")
    below = ax.get_xaxis_transform()
    for x, down, side, words in (
        (left, 20, "left", f"← {ends[0]}"),
        (right, 20, "right", f"{ends[1]} →"),
        ((left + right) / 2, 33, "center", others),
    ):
        ax.annotate(words, (x, 0), (0, -down), xycoords=below, textcoords="offset points",
                    ha=side, va="top")  # fmt: skip


# ---- All tasks together ----


@register_section("several")
class OverTasksSection(Section):
    """Test of all tasks together."""

    heading = "Tests over several tasks"
    by_family = True

    def blocks(self, part: Comparison) -> Sequence[Block]:
        """Return the test with its pairs or average ranks."""
        test, scores = part.over_tasks, part.scores
        methods, common = len(next(iter(scores.common.values()), ())), len(scores.common)
        least = scores.procedure_over_tasks.least_methods
        too_few = not scores.timed and common > 1 and 2 <= methods < least
        if test is None and not too_few:
            return []
        values = {} if test is None else _values(test, part)
        values |= {"part": part, "scores": scores, "over_tasks": test, "too_few": too_few}
        return blocks("over-tasks.jinja", **values)


def _values(test: OverTasks, part: Comparison) -> dict[str, Any]:
    """Return what the text states about a test."""
    result, scores = test.result, part.scores
    best = getattr(result, "attainable_pvalue", 0.0)  # plugins may not know it
    with_ranks = isinstance(result, FriedmanResult)
    values: dict[str, Any] = {
        "result": result,
        "counted": {
            network: (tasks, scores.counted(network))
            for network, tasks in scores.shared.items()
            if network in test.tasks
        },
        "table": None,
        "stratified": isinstance(result, StratifiedResult),
        "signed_rank": isinstance(result, SignedRankResult),
        "ranks": with_ranks,
        "best": best,
        "ties": getattr(getattr(result, "null", None), "ties", 0),
    }
    if isinstance(result, StratifiedResult):
        null = result.null
        is_random = null is not None and null.method == "monte-carlo"
        values["drawn"] = null.permutations if null is not None and is_random else None
    if part.pairs_listed and not (with_ranks and result.signed_ranks is None):
        values["table"] = _table_over_tasks(test, part)
    if with_ranks:
        # The first screen shows it with its headline.
        values["picture"] = diagram_of(part) if part.verdicts or not part.outcome else None
        values["few_tasks"] = len(result.ranks) < FEW_TASKS
        values["better"] = winners(result.pairs())
    return values


def _table_over_tasks(test: OverTasks, part: Comparison) -> Table:
    rows = []
    for pair in rows_of(test.pairs):
        verdict = f"{pair.better} better" if pair.better else NOT_SIGNIFICANT
        p = Cell(pvalue_only(pair.pvalue, part.scores.alpha), significant=pair.significant)
        limits = f"{limit(pair.effect_low)} to {limit(pair.effect_high)}"
        notes = [] if math.isnan(pair.effect_low) else [limits]
        effect = Cell(signed(pair.effect_size, 2), notes=notes)
        outcome = Cell(verdict, significant=pair.significant)
        rows.append(Row([pair.a, pair.b, signed(pair.statistic), p, effect, outcome]))
    numbers = [Column(name, "number") for name in (test.procedure.symbol, "p", "Effect")]
    columns = [Column("First", "method"), Column("Second", "method"), *numbers, Column("Verdict")]
    paper = Paper("over-tasks", render("over-tasks-caption.jinja", over_tasks=test, part=part))
    return Table("Pairs of methods over all tasks", columns, rows, paper=paper)


_AXIS, _LABEL = 2.6, 0.36  # inches: width of the axis, and of a rank behind a name


def diagram_of(part: Comparison) -> Picture | None:
    """Return the critical difference diagram of a comparison; None without average ranks.

    Methods are on an axis of ranks. Each bar under it joins methods that do not differ
    significantly, with a dot for each of them.

    References:
        J. Demsar (2006), Statistical comparisons of classifiers over multiple data sets, Journal of
        Machine Learning Research 7, 1-30.
    """
    test = part.over_tasks
    if test is None or test.ranks is None:
        return None
    result, title = test.result, f"Average ranks on {len(test.tasks)} tasks"
    if math.isfinite(result.critical_difference):
        title += f" (CD = {result.critical_difference:.2f})"
    ranks = result.average_ranks.sort_values(kind="stable")
    groups = [[*map(str, clique)] for clique in result.cliques()]
    alt = (
        f"{title}, the best first: {', '.join(f'{x} {rank:.2f}' for x, rank in ranks.items())}; "
        f"no significant difference: {'; '.join(map(' and '.join, groups)) or 'none'}."
    )
    names = label_width(part.report.styles) + _LABEL
    return Picture(
        "ranks",
        "Average ranks; a bar joins methods (dots) that do not differ significantly.",
        [Panel(title, alt, partial(_draw_ranks, result))],
        size=(_AXIS + 2 * names, 0.35 + _ROW * (2.5 + len(groups) + math.ceil(len(ranks) / 2))),
        left=names,
        bottom=0.05,
        right=names,
    )


def _draw_ranks(result: FriedmanResult, ax: Axes) -> None:
    from scikit_posthocs import critical_difference_diagram

    last = len(result.average_ranks)
    line = {"color": INK, "clip_on": False}
    critical_difference_diagram(
        result.average_ranks,
        (~result.significant).astype(float),
        ax=ax,
        **dict.fromkeys(("label_fmt_left", "label_fmt_right"), "{label} ({rank:.2f})"),
        label_props={"fontsize": 8.5},
        marker_props={"s": 30, "clip_on": False},
        elbow_props={"linewidth": 0.8, **line},
        crossbar_props={"marker": "o", "markersize": 4, **line},
        text_h_margin=0.02 * last,
    )
    ax.grid(visible=False)
    ax.spines["top"].set(visible=True, color=INK)
    ax.set(xlim=(1, last), xticks=range(1, last + 1, math.ceil(last / 10)))
    ax.set_ylim(top=1)  # with the numbers of the axis


# ---- Details of the test of each task ----


@register_section("tests")
class Tests(Section):
    """Test of each task."""

    heading = "Test details"
    by_family = True

    def blocks(self, part: Comparison) -> Sequence[Block]:
        """Return the procedure and its remarks on tasks."""
        if not part.tests:
            return []
        nulls = [test.null for test in part.tests.values() if test.null is not None]
        drawn = {null.permutations for null in nulls if null.method == "monte-carlo"}
        ratios = {x.ratio for x in part.tests.values() if isinstance(x, CorrectedTResult)}
        return blocks(
            "tests.jinja",
            part=part,
            scores=part.scores,
            two_sided=not PROCEDURES.is_of_user(part.scores.test or ""),
            permutations=bool(part.pvalues["asymptotic_pvalue"].notna().any()),
            effects=bool(part.pvalues["effect_size"].notna().any()),
            most_arrangements=MAX_ARRANGEMENTS,
            drawn=sorted(drawn or {PERMUTATIONS}),
            test_shares=sorted(ratio / (1 + ratio) for ratio in ratios),
        )
