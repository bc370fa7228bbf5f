"""Section with the p of each pair of methods on each task."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from relation_tf.registry import register_section
from relation_tf.report.answer import cautions
from relation_tf.report.blocks import Block, Paper, Section, blocks, pair_table
from relation_tf.report.comparison import Comparison
from relation_tf.report.limits import MOST_PANELS, most_significant
from relation_tf.report.pictures.significance import differences
from relation_tf.report.text import render
from relation_tf.stats import WelchResult


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
        listed, shown = most_significant(part.pvalues)
        values = {"part": part, "scores": scores, "shown": shown}
        table = pair_table(
            "Table: pairs of methods",
            scores.tasks,
            listed,
            scores.alpha,
            scores.digits,
            swatches=part.pairs_listed,
            paper=Paper("pairs", render("differences-caption.jinja", **values)),
            heading=scores.with_arrow,
        )
        by_task = {
            str(task): own.rename(columns={"difference_low": "low", "difference_high": "high"})
            for task, own in [*part.pvalues.groupby("task", sort=False)][:MOST_PANELS]
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
            means=any(isinstance(test, WelchResult) for test in tests.values()),
            infinite=bool(np.isinf(limits).all(axis=None)),
            cautions=[*cautions(scores, tests)],
            **values,
        )
