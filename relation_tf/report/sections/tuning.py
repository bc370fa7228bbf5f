"""Sweeps that may not have found the best settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import pandas as pd

from relation_tf.errors import SuiteError
from relation_tf.registry import register_section
from relation_tf.report.blocks import Block, Cell, Column, Row, Section, Table, blocks
from relation_tf.report.scores import Scores
from relation_tf.report.text import Statement, state
from relation_tf.tasks.metrics import find_metric
from relation_tf.words import number

if TYPE_CHECKING:
    from relation_tf.bench.results import Results
    from relation_tf.bench.sweeping import RangeWarning
    from relation_tf.config.method import Sweep
    from relation_tf.config.suite import Suite
    from relation_tf.report.data import ReportData


def tuning_caveats(results: Results | None, scores: Scores) -> Iterator[Statement]:
    """Yield statements on settings of a smaller sweep, on that of the reference, and on others.

    Args:
        results: The runs; without a sweep, and for joined suites, there are no statements.
        scores: The scores, with the methods and the reference.
    """
    if results is None or len(results.parts) > 1:  # each suite's own report shows its sweep
        return
    table, sweep = sweep_of(results), results.suite.sweep
    if table is None or table.empty or sweep is None:
        return
    from relation_tf.bench.sweeping import is_best, warn_of_range

    tuned = [x for x in results.suite.tuned if x.method in scores.methods]
    kept = [f"{x.method} on {x.task}" for x in tuned if not is_best(results.suite, x, table)]
    if kept:
        yield state("settings_of_smaller_sweep", runs=kept)
    by_method: dict[str, dict[RangeWarning, list[str]]] = {}
    for x in tuned:
        reason = warn_of_range(results.suite, x, table)
        if reason:
            by_method.setdefault(x.method, {}).setdefault(reason, []).append(x.task)
    of_reference = by_method.pop(scores.judged_against or "", None)
    if of_reference:
        yield state(
            "sweep_of_reference",
            reference=scores.judged_against,
            one_seed=len(sweep.seeds) == 1,
            doubts={reason.text: tasks for reason, tasks in of_reference.items()},
        )
    if by_method:
        tasks = {name: [*chain.from_iterable(x.values())] for name, x in by_method.items()}
        kinds = dict.fromkeys(reason.kind for reasons in by_method.values() for reason in reasons)
        yield state("sweep_of_others", methods=tasks, kinds=[*kinds])


def sweep_of(results: Results) -> pd.DataFrame | None:
    """Return the table of the sweep of a suite, see `sweep_table`; None without a sweep."""
    if results.suite.sweep is None:
        return None
    from relation_tf.bench.run_folder import SWEEP
    from relation_tf.bench.sweeping import TABLE

    path = results.folder / SWEEP / TABLE
    if not path.is_file():
        return None
    try:
        table = pd.read_csv(path, dtype={"task": str, "method": str}, keep_default_na=False,
                            na_values={"score": ["", "nan"]})  # fmt: skip
    except (OSError, ValueError) as error:
        raise SuiteError(f"{path}: cannot be read: {str(error).splitlines()[0]:.100}") from error
    return table.assign(method=[results.aliases.get(name, name) for name in table["method"]])


@register_section("tuning")
class Tuning(Section):
    """The settings that were tried for each method and task, and the chosen ones."""

    heading = "Tuning"

    def blocks(self, data: ReportData) -> Sequence[Block]:
        """Return a table of the validation scores of all settings."""
        results = data.results
        if results is None or len(results.parts) > 1:  # each suite's own report shows its sweep
            return []
        table, suite = sweep_of(results), results.suite
        if table is None or table.empty or suite.sweep is None:
            return []
        from relation_tf.bench.sweeping import described, means_of

        sweep = suite.sweep
        means = means_of(suite, table)
        rows = [
            row
            for task in suite.tasks
            for name in data.styles
            if (task, name) in means
            for row in _rows(suite, sweep, task, name, means)
        ]
        return blocks(
            "tuning.jinja",
            described=described(sweep),
            table=Table("Table: sweep", _columns(sweep), rows, by_task=True),
        )


def _key_of_columns(sweep: Sweep) -> str:
    """Return the key with the most values: each has a column, settings of other keys have rows."""
    return max(sweep.values, key=lambda key: len(sweep.values[key]))


def _columns(sweep: Sweep) -> list[Column]:
    across = _key_of_columns(sweep)
    others = [Column(key) for key in sweep.values if key != across]
    values = [Column(f"{across} {value}", "number") for value in sweep.values[across]]
    return [Column("Method", "method"), *others, *values]


def _rows(
    suite: Suite,
    sweep: Sweep,
    task: str,
    method: str,
    means: Mapping[tuple[str, str], Sequence[float]],
) -> list[Row]:
    metric = find_metric(suite.find_task(task).metrics[0])
    factor, digits = metric.points, 1 if metric.points == 100 else 3
    chosen, across = suite.tuned_settings(task, method), _key_of_columns(sweep)
    rows: dict[tuple[str, ...], list[Cell | str]] = {}
    for settings, mean in zip(sweep.combinations(), means[task, method], strict=True):
        others = tuple(str(value) for key, value in settings.items() if key != across)
        shown = "" if pd.isna(mean) else number(factor * mean, digits)
        rows.setdefault(others, [method, *others]).append(Cell(shown, bold=settings == chosen))
    return [Row(cells, task) for cells in rows.values()]
