"""Sweeps that may not have found the best settings."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from relation_tf.bench.results import Results
from relation_tf.bench.run_folder import SWEEP
from relation_tf.bench.sweep_choice import Doubt, doubt, is_best
from relation_tf.bench.sweeping import TABLE
from relation_tf.errors import SuiteError
from relation_tf.report.scores import Scores
from relation_tf.report.text import Statement, state


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
    tuned = [each for each in results.suite.tuned if each.method in scores.methods]
    kept = [f"{x.method} on {x.task}" for x in tuned if not is_best(results.suite, x, table)]
    if kept:
        yield state("settings_of_smaller_sweep", runs=kept)
    found: dict[str, dict[Doubt, list[str]]] = {}
    for each in tuned:
        if why := doubt(results.suite, each, table):
            found.setdefault(each.method, {}).setdefault(why, []).append(each.task)
    if own := found.pop(scores.judged_against or "", None):
        yield state(
            "sweep_of_reference",
            reference=scores.judged_against,
            one_seed=len(sweep.seeds) == 1,
            doubts={why.words: tasks for why, tasks in own.items()},
        )
    if found:
        tasks = {name: [x for own in by.values() for x in own] for name, by in found.items()}
        kinds = dict.fromkeys(why.kind for own in found.values() for why in own)
        yield state("sweep_of_others", methods=tasks, kinds=[*kinds])


def sweep_of(results: Results) -> pd.DataFrame | None:
    """Return the table of the sweep of a suite, see `sweep_table`; None without a sweep."""
    path = results.folder / SWEEP / TABLE
    if results.suite.sweep is None or not path.is_file():
        return None
    try:
        table = pd.read_csv(path, dtype={"task": str, "method": str}, keep_default_na=False,
                            na_values={"score": ["", "nan"]})  # fmt: skip
    except (OSError, ValueError) as error:
        raise SuiteError(f"{path}: cannot be read: {str(error).splitlines()[0]:.100}") from error
    return table.assign(method=[results.aliases.get(name, name) for name in table["method"]])
