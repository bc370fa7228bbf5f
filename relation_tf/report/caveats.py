"""What limits a headline: a test that disagrees, an unstable or untrained reference."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from relation_tf.report.comparisons import rows_of
from relation_tf.report.failed import ranks_diverged
from relation_tf.report.reliability import mostly_lost, trained_networks
from relation_tf.report.scores import Scores
from relation_tf.report.standings import Outcome
from relation_tf.report.text import Statement, state
from relation_tf.report.verdicts import Verdicts, by_method
from relation_tf.stats.spread import scaled_residuals, unequal_spread

_COMPARABLE = ("better", "worse", "inconclusive")


def caveats(
    verdicts: Verdicts | None,
    test: Outcome | None,
    scores: Scores,
    collapsed: pd.DataFrame,
    failed: pd.DataFrame,
    runs: pd.DataFrame,
) -> Iterator[Statement]:
    """Yield statements that limit the headline; without verdicts, only those on failed runs.

    - `test_disagrees`: verdicts on the mean that the test of pairs does not give. The verdict "no
      worse", which allows for a margin that the test does not know, is left out.
    - `test_leaves_out_failed`: methods with failed runs that the test leaves out.
    - `unstable_reference`: collapsed runs, or an SD over seeds, pooled over tasks, of more than
      three times that of most other methods without collapsed runs.
    - `mostly_collapsed`: judged methods of which at least half of the runs collapsed.
    - `still_improving`: tasks on which most runs of a method were still improving at the limit.
    - `mostly_failed`: methods of which at least half of the runs failed.

    Args:
        verdicts: The verdicts, if there are any.
        test: The test over tasks, or of the only task.
        scores: The scores.
        collapsed: Result of `collapsed_runs`.
        failed: Result of `failed_runs`.
        runs: Result of `all_runs`, or the `runs.csv` of a report; can be empty.
    """
    ignored = _ignored_failures(test, runs)
    if verdicts is not None:
        yield from _disagreement(verdicts, test, scores, ignored)
    if ignored:
        yield state("test_leaves_out_failed", failed=ignored)
    if verdicts is not None:
        yield from _unstable(verdicts, scores, collapsed)
        yield from _mostly_collapsed(verdicts, scores, collapsed, runs)
        yield from _still_improving(runs)
    if lost := mostly_lost(scores, failed):
        yield state("mostly_failed", methods=lost)


def _ignored_failures(test: Outcome | None, runs: pd.DataFrame) -> dict[str, int]:
    """Return the number of failed runs that the test leaves out, by method."""
    if test is None or runs.empty:
        return {}
    left_out = runs["status"] == "failed"
    if "diverged" in runs and ranks_diverged(test.procedure):
        left_out &= ~runs["diverged"].eq(True)
    counts = runs.loc[left_out, "method"].value_counts(sort=False)
    return {str(name): int(number) for name, number in counts.items()}


def _disagreement(
    verdicts: Verdicts, test: Outcome | None, scores: Scores, failed: Collection[str]
) -> Iterator[Statement]:
    if verdicts.mean is None or test is None:
        return
    reference = verdicts.reference
    pairs = {
        row.a if row.b == reference else row.b: row
        for row in rows_of(test.pairs)
        if reference in (row.a, row.b)
    }
    unlike: dict[str, dict[str, float]] = {}
    for name, row in by_method(verdicts.mean).items():
        if name in pairs and row.verdict in _COMPARABLE:
            found = {name: "better", reference: "worse"}.get(pairs[name].better, "inconclusive")
            if found != row.verdict:
                unlike.setdefault(found, {})[name] = float(pairs[name].pvalue)
    if unlike:
        judged = {reference, *(name for names in unlike.values() for name in names)}
        quote = "verdicts" if judged & {*failed} else "chosen"
        undecided = test.pairs["better"].isna().all()
        yield state(
            "test_disagrees",
            reference=reference,
            tasks=verdicts.averaged,
            how=test.how,
            found=unlike,
            lacking=test.lacking if undecided else "",
            quote="declared" if scores.reference_declared else quote,
        )


def _unstable(verdicts: Verdicts, scores: Scores, collapsed: pd.DataFrame) -> Iterator[Statement]:
    reference = verdicts.reference
    own = collapsed["task"].isin(scores.main_tasks) & collapsed["method"].eq(reference)
    lost = trained_networks(collapsed[own], scores)
    others = [name for name in verdicts.methods if name not in {*collapsed["method"]}]
    wide = _wide(verdicts, others, scores) if verdicts.averaged else {}
    if len(lost) or wide:
        runs = trained_networks(scores.table, scores)["method"]
        yield state(
            "unstable_reference",
            reference=reference,
            collapsed=len(lost),
            runs=int(runs.eq(reference).sum()),
            tasks=[*dict.fromkeys(map(str, collapsed[own]["task"]))],
            **({"ratio": None, "narrow": "", "mostly": ""} | wide),
        )


def _wide(verdicts: Verdicts, others: Sequence[str], scores: Scores) -> dict[str, Any]:
    """Return the pooled SD of the reference relative to another method if it is wide."""
    reference, networks = verdicts.reference, scores.by_network
    residuals = {
        task: {name: scaled_residuals(np.array(own)) for name, own in networks[task].items()}
        for task in verdicts.averaged
    }
    pooled = {
        name: np.concatenate([own[name] for own in residuals.values()])
        for name in (reference, *others)
    }
    spreads = [
        unequal_spread({reference: pooled[reference], name: pooled[name]}) for name in others
    ]
    wider = [each for each in spreads if each is not None and each.wide == reference]
    nearest = min(wider, key=lambda each: each.ratio, default=None)
    if nearest is None or 2 * len(wider) <= len(spreads) or math.isinf(nearest.ratio):
        return {}
    most = max(residuals, key=lambda task: np.square(residuals[task][reference]).mean())
    mostly = most if len(residuals) > 1 else ""
    return {"ratio": float(nearest.ratio), "narrow": nearest.narrow, "mostly": mostly}


def _mostly_collapsed(
    verdicts: Verdicts, scores: Scores, collapsed: pd.DataFrame, runs: pd.DataFrame
) -> Iterator[Statement]:
    """Yield statements on the judged methods of which at least half of the runs collapsed.

    Those that mix no tokens by design have their own.
    """
    lost, shares = trained_networks(collapsed, scores), mostly_lost(scores, collapsed)
    blind = {row.method for row in rows_of(runs) if getattr(row, "mixes_tokens", True) is False}
    for by_design in (False, True):
        names = [x for x in verdicts.methods if x in shares and (x in blind) == by_design]
        if names:
            yield state(
                "mostly_collapsed",
                methods={name: shares[name] for name in names},
                mixes_tokens=not by_design,
                **_how_stopped(lost, names, runs),
            )


def _how_stopped(lost: pd.DataFrame, methods: Sequence[str], runs: pd.DataFrame) -> dict[str, Any]:
    """Return what ended the collapsed runs, and what else to monitor."""
    columns: dict[str, Any] = dict.fromkeys(("stopped", "monitor", "metrics"), "")
    columns |= dict.fromkeys(("epochs", "kept_epoch"), math.nan)
    runs = runs.assign(**{name: own for name, own in columns.items() if name not in runs})
    # As text: seeds of tables are strings.
    own = {(row.task, row.method, str(row.seed)) for row in rows_of(lost) if row.method in methods}
    ended = [row for row in rows_of(runs) if (row.task, row.method, str(row.seed)) in own]
    by_rule = [row.epochs for row in ended if "patience" in str(row.stopped)]
    at_limit = [row for row in ended if re.fullmatch(r"reached \d+ epochs", str(row.stopped))]
    # The lowest loss can be that of the first epoch, however long a run is.
    early = [row for row in ended if row.monitor == "val_loss" and row.kept_epoch < row.epochs]
    monitor = _monitor([row.task for row in early], runs) if by_rule or at_limit else ""
    return {
        "stopped_by_rule": len(by_rule),
        "median_epochs": float(np.median(by_rule)) if by_rule else None,
        "at_limit": len(at_limit),
        "monitor": monitor,
        "median_kept": float(np.median([row.kept_epoch for row in early])) if monitor else None,
    }


def _monitor(tasks: Sequence[str], runs: pd.DataFrame) -> str:
    """Return the options that select the model of some tasks by a metric; empty if not known."""
    known = runs[runs["metrics"].fillna("") != ""].drop_duplicates("task")
    metrics = {row.task: row.metrics.split(", ") for row in rows_of(known)}
    for task in dict.fromkeys(tasks):
        for name in metrics.get(task, ()):
            if all(name in others for others in metrics.values()):
                return f"--set monitor=val_{name}"
        if task in metrics:  # a suite has one key for all tasks
            return f"--set 'tasks=[\"{task}\"]' --set monitor=val_{metrics[task][0]}"
    return ""


def _still_improving(runs: pd.DataFrame) -> Iterator[Statement]:
    if "still_improving" not in runs:  # no runs, or from earlier versions
        return
    own = runs[runs["status"] == "done"]
    # NaN in runs of earlier versions, which did not record it.
    shares = own["still_improving"].eq(True).groupby([own["method"], own["task"]], sort=False)
    most: dict[str, list[str]] = {}
    for method, task in shares.mean().loc[lambda share: share > 0.5].index:
        most.setdefault(str(method), []).append(str(task))
    if most:
        yield state("still_improving", methods=most)
