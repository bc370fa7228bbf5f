"""Section with the sources of variance: seeds and evaluation rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from relation_tf.registry import METRICS, register_section
from relation_tf.report.blocks import (
    Block,
    Column,
    Paragraph,
    Row,
    Section,
    Span,
    Table,
    file_links,
)
from relation_tf.report.context import ReportContext
from relation_tf.report.predicted_rows import MOST_PREDICTIONS, PredictedRows
from relation_tf.stats import mcnemar, score_errors
from relation_tf.stats.unequal_spread import holm
from relation_tf.tasks.metrics import counted
from relation_tf.words import count, listed

DRAWS = 400  # the Monte Carlo error of a standard error is 4 %

_ERRORS = ["task", "method", "score", "rows", "seeds", "sd_seeds", "se_seeds", "se_rows", "se_both"]
_PAIRS = ["task", "a", "b", "difference", "pvalue", "discordant", "rows"]


@register_section("variance")
class Variance(Section):
    """Standard errors of the scores from seeds and from evaluation rows."""

    heading = "Seeds and evaluation rows"
    by_family = True

    def blocks(self, context: ReportContext) -> Sequence[Block]:
        """Return a table of the standard errors of each task, and the tasks that it leaves out."""
        found = self.tables(context)
        left_out = [*_left_out(context)]
        if "variance" not in found:
            return left_out
        columns = [Column("Task", "head"), Column("Evaluation rows", "number")]
        columns += [Column("SD over seeds", "number")]
        columns += [
            Column(name, "number", "Standard error of a mean")
            for name in ("other seeds", "other rows", "both")
        ]
        columns.append(Column("Larger source"))
        rows = [
            Row(_cells(str(task), own, context), task=str(task))
            for task, own in found["variance"].groupby("task", sort=False)
        ]
        return [
            Table("Table: seeds and evaluation rows", columns, rows),
            Paragraph([*_note(context, found)], "note"),
            *left_out,
        ]

    def tables(self, context: ReportContext) -> Mapping[str, pd.DataFrame]:
        """Return the standard errors of each method, and tests of pairs of methods by rows."""
        return context.row_tables


def row_tables(sets: Sequence[PredictedRows]) -> dict[str, pd.DataFrame]:
    """Return the table of standard errors and the table of tests by rows, without empty ones.

    Holm's method adjusts the p of the tests over all pairs and tasks together.
    """
    tables = {
        "variance": pd.DataFrame([row for own in sets for row in _errors(own)], columns=_ERRORS),
        "rows-pvalues": pd.DataFrame([row for own in sets for row in _pairs(own)], columns=_PAIRS),
    }
    tests = tables["rows-pvalues"]
    tests["pvalue"] = holm(tests["pvalue"].to_numpy(dtype=float))
    return {name: table for name, table in tables.items() if len(table)}


def _cells(task: str, own: pd.DataFrame, context: ReportContext) -> list[str]:
    """Return the cells of a task: root mean squares over methods."""
    scores = context.scores
    digits = scores.digits(task) + 1 if scores.factor(task) == 100 else scores.digits(task)
    names = ["sd_seeds", "se_seeds", "se_rows", "se_both"]
    sizes = (own[names] ** 2).mean() ** 0.5  # NaN for a single seed
    shown = [
        f"{scores.factor(task) * size:.{digits}f}" if np.isfinite(size) else "–" for size in sizes
    ]
    larger = "–"  # for a single seed, or if both are zero
    if sizes["se_seeds"] > sizes["se_rows"]:
        larger = "seeds"
    elif sizes["se_rows"] > sizes["se_seeds"]:
        larger = "rows"
    return [task, f"{own['rows'].max():,}", *shown, larger]


def _note(context: ReportContext, found: Mapping[str, pd.DataFrame]) -> Iterator[str | Span]:
    yield (
        "The standard error of a method's mean shows how much the mean would vary with other "
        "seeds (SD / √n), with other rows (bootstrap) or with both (two-way bootstrap, "
        f"{DRAWS} draws each). The values are root mean squares over methods. "
    )
    if "rows-pvalues" in found:
        total = len(found["rows-pvalues"])
        significant = (found["rows-pvalues"]["pvalue"] < context.scores.alpha).sum()
        yield (
            "McNemar's test, with all seeds of a method together (exact sign flips of rows, "
            "mid-p), tests whether the accuracy of the same trained networks differs on other "
            f"rows. Of the {count(total, 'comparison')} of a pair of methods on a task, "
            f"{significant} {'is' if significant == 1 else 'are'} significant ({context.level}, "
            "Holm-corrected). "
        )
    yield "Tables: "
    yield from file_links(found)


def _left_out(context: ReportContext) -> Iterator[Paragraph]:
    """Yield a note on the tasks whose predictions are not read."""
    many = context.predicted_rows.too_many
    if many:
        tasks = listed([f"{name} ({number:,})" for name, number in many.items()])
        yield Paragraph(
            f"Left out, because the runs have more than {MOST_PREDICTIONS:,} predictions: {tasks}. "
            "There are no standard errors for other rows, no tests by rows and no search for "
            "collapsed runs.",
            "warning",
        )


def _errors(own: PredictedRows) -> Iterator[tuple[object, ...]]:
    """Yield the standard errors of each method."""
    metrics = [
        name
        for name in counted(own.task.metrics_of(own.name))
        if METRICS[name].function is not None
    ]
    for method, (labels, predictions) in _by_method(own).items():
        if metrics:
            found = score_errors(predictions, labels, metrics, draws=DRAWS)
            yield (
                *(own.name, method, found.score, found.num_rows, found.num_seeds),
                *(found.seeds_sd, found.seeds, found.rows, found.both),
            )


def _pairs(own: PredictedRows) -> list[tuple[object, ...]]:
    """Return the tests of all pairs of methods of a task with classes, with unadjusted p."""
    methods = _by_method(own) if own.classes else {}
    pairs = [
        (a, b, mcnemar(methods[a][1], methods[b][1], methods[a][0]))
        for a, b in itertools.combinations(methods, 2)
        if np.array_equal(methods[a][0], methods[b][0])
    ]
    return [
        (own.name, a, b, test.difference, test.pvalue, test.discordant, test.num_rows)
        for a, b, test in pairs
    ]


def _by_method(own: PredictedRows) -> dict[str, tuple[NDArray[Any], NDArray[Any]]]:
    """Return labels (rows,) and predictions (seeds, rows) of each method.

    A method whose runs have different evaluation rows is left out.
    """
    found = {}
    for method, runs in own.runs.items():
        labels = next(iter(runs.values()))[0]
        same = all(np.array_equal(given, labels) for given, _ in runs.values())
        if same and len(labels) > 1:
            predictions = np.array([own.predictions(outputs) for _, outputs in runs.values()])
            found[method] = own.words(labels), predictions
    return found
