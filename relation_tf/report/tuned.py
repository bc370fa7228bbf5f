"""Sentences on sweeps that may not have found the best settings."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from relation_tf.bench.results import Results
from relation_tf.bench.run_folder import SWEEP
from relation_tf.bench.sweep_choice import Doubt, doubt, is_best
from relation_tf.bench.sweeping import TABLE
from relation_tf.errors import SuiteError
from relation_tf.report.scores import Scores
from relation_tf.words import count, listed

_MOST_NAMES = 4


def tuning_caveats(results: Results | None, scores: Scores) -> Iterator[str]:
    """Yield sentences on settings of a smaller sweep, on the sweep of the reference, and on others.

    Args:
        results: The runs; without a sweep, and for joined suites, there are no sentences.
        scores: The scores, with the methods and the reference.
    """
    if results is None or len(results.parts) > 1:  # each suite's own report shows its sweep
        return
    table = sweep_of(results)
    if table is None or table.empty:
        return
    kept = [
        f"{each.method} on {each.task}"
        for each in results.suite.tuned
        if each.method in scores.methods and not is_best(results.suite, each, table)
    ]
    if kept:
        yield (
            f"Finished runs of {_listed(kept)} have the settings that a smaller sweep chose; "
            "others are now better. To use them, choose another --out."
        )
    found: dict[str, dict[Doubt, list[str]]] = {}
    for each in results.suite.tuned:
        if each.method in scores.methods and (why := doubt(results.suite, each, table)):
            found.setdefault(each.method, {}).setdefault(why, []).append(each.task)
    assert results.suite.sweep is not None
    if own := found.pop(scores.judged_against or "", None):
        once = " with one seed" if len(results.suite.sweep.seeds) == 1 else ""
        said = "; ".join(f"{why.words} (on {_listed(tasks)})" for why, tasks in own.items())
        yield (
            f"The sweep{once} may not have found the best setting of the reference "
            f"{scores.judged_against}: {said}. Add values to the sweep: a better setting can "
            "change the verdicts."
        )
    if found:
        named = [
            f"{name} on {_listed([task for tasks in own.values() for task in tasks])}"
            for name, own in [*found.items()][:_MOST_NAMES]
        ]
        if left := len(found) - len(named):
            named.append(count(left, "more method"))
        kinds = dict.fromkeys(why.kind for own in found.values() for why in own)
        yield (
            f"The sweep may not have found the best settings of {'; '.join(named)}: "
            f"{' or '.join(kinds)}."
        )


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


def _listed(tasks: list[str]) -> str:
    """Return names of tasks, or of methods on tasks, or their number."""
    return listed(tasks) if len(tasks) <= _MOST_NAMES else f"{len(tasks)} tasks"
