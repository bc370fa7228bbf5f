"""Section with the sources of variance: seeds and evaluation rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from relation_tf.registry import register_section
from relation_tf.report.blocks import Block, Column, Row, Section, Table, blocks
from relation_tf.report.comparison import Comparison
from relation_tf.report.predicted_rows import DRAWS, MOST_PREDICTIONS


@register_section("variance")
class Variance(Section):
    """Standard errors of the scores from seeds and from evaluation rows."""

    heading = "Seeds and evaluation rows"
    by_family = True

    def blocks(self, part: Comparison) -> Sequence[Block]:
        """Return a table of the standard errors of each task, and the tasks that it leaves out."""
        found, left_out = part.rows, part.report.predictions.too_many
        tests = found.get("rows-pvalues", pd.DataFrame({"pvalue": []}))
        return blocks(
            "variance.jinja",
            part=part,
            table=_table(part, found["variance"]) if "variance" in found else None,
            draws=DRAWS,
            tests=len(tests),
            significant=int((tests["pvalue"] < part.scores.alpha).sum()),
            files=[*found],
            left_out=[f"{name} ({number:,})" for name, number in left_out.items()],
            most=MOST_PREDICTIONS,
        )

    def tables(self, part: Comparison) -> Mapping[str, pd.DataFrame]:
        """Return the standard errors of each method, and tests of pairs of methods by rows."""
        return part.rows


def _table(part: Comparison, errors: pd.DataFrame) -> Table:
    columns = [Column("Task", "head"), Column("Evaluation rows", "number")]
    columns += [Column("SD over seeds", "number")]
    columns += [
        Column(name, "number", "Standard error of a mean")
        for name in ("other seeds", "other rows", "both")
    ]
    columns.append(Column("Larger source"))
    rows = [
        Row(_cells(str(task), own, part), task=str(task))
        for task, own in errors.groupby("task", sort=False)
    ]
    return Table("Table: seeds and evaluation rows", columns, rows)


def _cells(task: str, own: pd.DataFrame, part: Comparison) -> list[str]:
    """Return the cells of a task: root mean squares over methods."""
    scores = part.scores
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
