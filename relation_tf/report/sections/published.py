"""Compare results with published figures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

import pandas as pd

from relation_tf.registry import SOURCES, register_section
from relation_tf.report.blocks import (
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
from relation_tf.report.sections.runs import notes
from relation_tf.report.text import render
from relation_tf.tasks.metrics import find_metric
from relation_tf.words import GLUE_AVERAGE, MEAN_OF_TASKS, number, signed

if TYPE_CHECKING:
    from relation_tf.bench.results import Results
    from relation_tf.config.suite import Published, PublishedFigure, Suite
    from relation_tf.report.data import ReportData

SECONDS, PER_EPOCH = "seconds", "seconds per epoch"
MILLISECONDS = "milliseconds per batch"
TIMES = (SECONDS, PER_EPOCH, MILLISECONDS)
_OTHER_SPLIT = "the paper reports {} sets, this suite dev sets"
_TIMES_DIFFER = "times depend on the hardware and the program"


def three_digits(value: float) -> int:
    """Return the decimals that show three digits of a value.

    Example:
        >>> three_digits(44100.0), three_digits(15.3), three_digits(0.0065)
        (0, 1, 5)
    """
    return max(0, 2 - math.floor(math.log10(abs(value)))) if value and math.isfinite(value) else 0


def decimals(value: float) -> int:
    """Return the decimals of a value.

    Example:
        >>> decimals(1600.0), decimals(13.8), decimals(0.0065)
        (0, 1, 4)
    """
    return max(0, -int(Decimal(f"{value:.10g}").as_tuple().exponent))


def printed_decimals(value: float, metric: str) -> int:
    """Return the decimals of a published figure, whose last zeros its file may lack.

    Scores have at least one decimal, times at least three digits.

    Example:
        >>> printed_decimals(77.0, "accuracy"), printed_decimals(0.72, "seconds")
        (1, 3)
    """
    return max(decimals(value), three_digits(value) if metric in TIMES else 1)


def our_method(suite: Suite, figure: PublishedFigure) -> str:
    """Return our method of a figure; else the paper's name.

    This is the method with the figure's name, or the only one with this mechanism and width.
    """
    fitting = [m for m in suite.methods() if figure.units in (None, m.units)]
    by_name = [str(m.name) for m in fitting if m.name in (figure.method, figure.name)]
    names = by_name or [str(m.name) for m in fitting if m.mechanism == figure.method]
    return names[0] if len(names) == 1 else figure.name


def compare_published(
    published: Published,
    suite: Suite,
    ours: pd.DataFrame,
    notes: Mapping[str, Sequence[str]] | None = None,
) -> pd.DataFrame:
    """Return published figures next to our results, in points or units of time.

    The mean over tasks is compared only if the suite has all of the paper's tasks.

    Args:
        published: The figures.
        suite: The suite of our results.
        ours: Columns `task`, `method`, `metric`, `n`, `mean`, `sd`, in the published units, and
            possibly `split`. Of several splits, the published one is compared.
        notes: Differences between our data and the published data, by task.

    Returns:
        Columns `task`, `metric`, `method`, `published`, `published_sd`, `split` (of our results;
        empty if unknown), `mean`, `sd`, `n`, `difference` (ours minus published), `within_2_sd`
        (True if at most two published SDs, with our mean rounded like the published one; None if
        unknown) and `reason`: the declared differences that may explain it.
    """
    last = ours.assign(split=ours.get("split", ""))
    last = last.sort_values("split", key=lambda row: row == published.split, kind="stable")
    known = {(row.task, row.method, row.metric): row for row in rows_of(last)}
    tasks = {figure.task for figure in published.figure} - {MEAN_OF_TASKS}
    complete = tasks <= {name for task in suite.learned() for name in task.scored}
    differing = reasons(published, suite)
    notes = notes or {}
    # Also for the names of a task's scores, such as MNLI-m.
    notes_of = {**notes, **{
        name: notes.get(trained, ())
        for trained in suite.tasks
        for task in suite.find_task(trained).each()
        for name in task.scorable
    }}  # fmt: skip
    rows = []
    for figure in published.figure:
        name = our_method(suite, figure)
        row = known.get((figure.task, name, figure.metric))
        if figure.task == MEAN_OF_TASKS and not complete:
            row = None
        mean, sd, n = (math.nan, math.nan, 0) if row is None else (row.mean, row.sd, row.n)
        difference = mean - figure.value
        within = None
        if figure.sd is not None and not math.isnan(mean):
            # An SD of times can be smaller than the rounding of its mean.
            rounded = round(mean, printed_decimals(figure.value, figure.metric))
            rounding = 1e-9 * abs(figure.value)  # of the subtraction
            within = bool(abs(rounded - figure.value) <= 2 * figure.sd + rounding)
        split = "" if row is None else row.split
        causes = [_TIMES_DIFFER] if figure.metric in TIMES else [*differing.get(figure.task, ())]
        if split == published.split and _OTHER_SPLIT.format(split) in causes:
            causes.remove(_OTHER_SPLIT.format(split))
        causes += notes_of.get(figure.task, ())
        if 0 < n < len(suite.seeds):
            causes.append(f"{n} of {len(suite.seeds)} seeds")
        reason = "; ".join(causes) if row is not None else ""
        compared = (split, mean, sd, n, difference, within, reason)
        rows.append((figure.task, figure.metric, name, figure.value, figure.sd, *compared))
    names = ["task", "metric", "method", "published", "published_sd", "split", "mean", "sd", "n"]
    table = pd.DataFrame(rows, columns=[*names, "difference", "within_2_sd", "reason"])
    return table.astype({"published_sd": float})


def mean_times(means: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Return the mean times of a suite whose stopping rule has a target.

    Args:
        means: The table of `relation_tf.report.sections.learning_time.time_means`.
        measure: `"seconds"` or `"seconds per epoch"`.

    Returns:
        Columns `task`, `method`, `n`, `mean` and `sd`. Seconds only of methods that always reached
        the target: a mean over only the successful seeds would favor the method.
    """
    column = SECONDS if measure == SECONDS else "seconds_epoch"
    times = means[["task", "method", "n"]].assign(mean=means[column], sd=means[f"{column}_sd"])
    return times[means["reached"] == means["n"]] if measure == SECONDS else times


def reasons(published: Published, suite: Suite) -> dict[str, list[str]]:
    """Return the reasons why our scores may differ, by task and average: other vectors and splits.

    Args:
        published: The figures.
        suite: The suite of our results.
    """
    general: list[str] = []
    embeddings = {suite.settings_of(method)["embeddings"] for method in suite.methods()}
    ours = [suite.embedding_dim if x == "glove" else None for x in sorted(embeddings)]
    if ours != [published.vectors]:
        vectors = " or ".join(map(_vectors, ours))
        general.append(f"the paper uses {_vectors(published.vectors)}, this suite {vectors}")
    averages = (GLUE_AVERAGE, MEAN_OF_TASKS)
    diagnostics = [name for task in suite.learned() for name in task.diagnostics]
    splits = {
        name: split
        for task in suite.learned()
        for name, split in task.scored.items()
        if name not in diagnostics
    }
    other_split = {name for name, split in splits.items() if not split.startswith(published.split)}
    if SOURCES[suite.source].artificial:
        general.append("this suite uses built-in data")
        other_split = set()
    elif other_split:
        other_split.update(averages)
    sentence = _OTHER_SPLIT.format(published.split)
    return {
        name: [*general, *([sentence] if name in other_split else ())]
        for name in (*splits, *diagnostics, *averages)
    }


def _vectors(width: int | None) -> str:
    return "random embeddings" if width is None else f"word vectors of width {width}"


@register_section("published")
class PublishedFigures(Section):
    """Table of published figures and our results."""

    heading = "Comparison with the paper"

    def blocks(self, data: ReportData) -> Sequence[Block]:
        """Return the table, and the reasons why figures may differ."""
        results, published = data.results, data.published
        if results is None or published is None or not data.cells:
            return []
        figures = data.published_figures
        shown = figures[figures["n"] > 0]
        return blocks(
            "published.jinja",
            reasons=_reasons(shown),
            tables=[*_tables(shown, published, data.scores.seeds)],
            published=published,
            figures=len(figures),
        )

    def tables(self, data: ReportData) -> Mapping[str, pd.DataFrame]:
        """Return the table of published figures and our results."""
        if data.results is None or data.published is None or not data.cells:
            return {}
        return {} if data.published_figures.empty else {"published": data.published_figures}


def _reasons(figures: pd.DataFrame) -> dict[str, list[str]]:
    """Return the reasons why our results may differ, with their tasks unless all have them."""
    tasks: dict[str, list[str]] = {}
    for task, reason in zip(figures["task"], figures["reason"], strict=True):
        for cause in reason.split("; ") if reason else ():
            tasks.setdefault(cause, []).append(task)
    return {
        cause: []
        if len(names) == len(figures) or cause.startswith("times ")
        else [*dict.fromkeys(names)]
        for cause, names in tasks.items()
    }


def _tables(figures: pd.DataFrame, published: Published, seeds: int) -> Iterator[Table]:
    """Yield a table of our results on the published split, and one for each other split."""
    for place, split in enumerate(sorted({*figures["split"]}, key=published.split.__ne__)):
        on = f", ours on {split} sets" if split else ""
        name = f"published-{split or 'times'}" if place else "published"
        paper = Paper(name, render("published-caption.jinja", on=on, source=published.source))
        heads = (
            (f"Published ({published.split})", f"Ours ({split})")
            if split
            else ("Published", "Ours")
        )
        own = figures[figures["split"] == split]
        yield _table(own, heads, seeds, f"Table: published figures{on}", paper)


def _table(
    figures: pd.DataFrame, heads: tuple[str, str], seeds: int, title: str, paper: Paper
) -> Table:
    columns = [Column("Task", "head"), Column("Metric"), Column("Method")]
    columns += [Column(name, "number") for name in (*heads, "Difference")]
    columns.append(Column("Within 2 published SD", "number"))
    rows = []
    for row in rows_of(figures):
        digits = printed_decimals(row.published, row.metric)
        sd_digits = 0 if math.isnan(row.published_sd) else decimals(row.published_sd)
        published = _with_sd(row.published, row.published_sd, digits, sd_digits)
        if row.metric in TIMES:  # three digits, a difference not finer than the published figures
            shown = _with_sd(row.mean, row.sd, three_digits(row.mean), three_digits(row.sd))
            digits = min(three_digits(row.difference), max(digits, sd_digits))
        else:
            shown = _with_sd(row.mean, row.sd, digits, digits)
        ours = Cell(shown, notes=[f"n = {row.n}"] if 0 < row.n != seeds else [])
        difference = signed(row.difference, digits) if row.n else None
        within = {True: "yes", False: "no", None: "–"}[row.within_2_sd]
        cells = [row.task, row.metric, row.method, published, ours, difference, within]
        rows.append(Row(cells))
    return Table(title, columns, rows, paper=paper)


def _with_sd(mean: float, sd: float, digits: int, sd_digits: int) -> str:
    """Return a mean and its SD, which can need more decimals, as it may be very small."""
    shown = number(mean, digits)
    return shown if math.isnan(sd) else f"{shown} ± {number(sd, max(digits, sd_digits))}"


def published_figures(data: ReportData, results: Results, published: Published) -> pd.DataFrame:
    """Return published figures and our results, in points or units of time."""
    summary = data.summary
    summary = summary.assign(split=summary["task"].map(data.scores.splits).fillna(""))
    scored = results.test_metrics.groupby(["task", "method", "metric"], sort=False)["value"]
    on_test = scored.agg(n="size", mean="mean", sd="std").reset_index().assign(split="test")
    means = pd.concat([summary, on_test], ignore_index=True)
    points = means["metric"].map(lambda name: find_metric(name).points).astype(float)
    ours = means.assign(mean=points * means["mean"], sd=points * means["sd"])
    times = [_times(measure, data).assign(metric=measure, split="") for measure in TIMES]
    columns = ["task", "method", "metric", "n", "mean", "sd", "split"]
    everything = pd.concat([table[columns] for table in (ours, *times)], ignore_index=True)
    differing = {task: notes(results, task) for task in results.suite.tasks}
    return compare_published(published, results.suite, everything, differing)


def _times(measure: str, data: ReportData) -> pd.DataFrame:
    """Return columns `task`, `method`, `n`, `mean` and `sd` of a measured time."""
    parts = [part.learning_times for part in data.comparisons.values()]
    means = [times.means for times in parts if times is not None]
    if means and measure != MILLISECONDS:
        return mean_times(pd.concat(means), measure)
    done = data.runs[data.runs["status"] == "done"]
    spent = {
        MILLISECONDS: 1000 * done["seconds_batch"],
        PER_EPOCH: done["seconds_epoch"],
        SECONDS: pd.Series(math.nan, done.index),  # to a target that the suite does not have
    }[measure]
    by_method = done.assign(spent=spent).groupby(["task", "method"], sort=False, as_index=False)
    return by_method.agg(n=("seed", "size"), mean=("spent", "mean"), sd=("spent", "std"))
