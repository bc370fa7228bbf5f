"""Section with the time to the target of a stopping rule, such as an accuracy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from relation_tf.registry import STOPPING_RULES, register_section
from relation_tf.report.blocks import (
    Block,
    Column,
    Section,
    Show,
    blocks,
    pair_table,
    table_by_task,
)
from relation_tf.report.comparison import Comparison
from relation_tf.report.comparisons import all_pvalues
from relation_tf.report.learning_times import limit_of, target_of, time_statements
from relation_tf.report.runs import computed_tokens
from relation_tf.words import number, spread

_TIED = "some seeds did not reach the target"
_TARGET, _EPOCH = "Time to target", "Epoch with validation"
_COLUMNS: Mapping[Column, Show] = {
    Column("Method", "method"): lambda row: row.method,
    Column("Reached", "number"): lambda row: f"{row.reached} of {row.n}",
    Column("Epochs", "number"): lambda row: spread(row.epochs, row.epochs_sd),
    Column("s", "number", _TARGET): lambda row: spread(row.seconds, row.seconds_sd),
    Column("relative to fastest", "number", _TARGET): lambda row: number(row.ratio, 2),
    Column("s", "number", _EPOCH): lambda row: spread(row.seconds_epoch, row.seconds_epoch_sd, 2),
    Column("relative to fastest", "number", _EPOCH): lambda row: number(row.ratio_epoch, 2),
    Column("input pipeline, s", "number", _EPOCH): lambda row: number(row.seconds_input, 2),
    Column("Compilation, s", "number"): lambda row: number(row.seconds_compilation, 2),
}


@register_section("learning-time")
class LearningTime(Section):
    """Time to the target, and the test of these times."""

    heading = "Time to target"
    by_family = True

    def blocks(self, part: Comparison) -> Sequence[Block]:
        """Return the times in sentences and the tables of times and of pairs."""
        times, results = part.learning_times, part.results
        if times is None or results is None:
            return []
        suite = results.suite
        pairs = pair_table(
            "Table: pairs of times to target", [*times.tests], all_pvalues(times.tests),
            part.scores.alpha, digits=lambda task: 1, ahead="faster",
        )  # fmt: skip
        return blocks(
            "learning-time.jinja",
            statements=[*time_statements(times, suite)],
            table=table_by_task("Table: time to target", times.means, _COLUMNS),
            pairs=pairs if times.tests else None,
            target=target_of(suite),
            rule=STOPPING_RULES.find(suite.stopping).description,
            limits={task: limit_of(suite, task) for task in results.begun.tasks},
            computed=computed_tokens(suite),
            threads=suite.threads,
            level=part.level,
            # Ties are between runs that did not reach the target.
            notes=[
                (task, note.replace("scores are tied (rounded or constant)", _TIED))
                for task, test in times.tests.items()
                for note in test.notes
            ],
        )

    def tables(self, part: Comparison) -> Mapping[str, pd.DataFrame]:
        """Return the times and their tests."""
        times = part.learning_times
        if times is None:
            return {}
        return {"times": times.runs, "time-pvalues": all_pvalues(times.tests)}
