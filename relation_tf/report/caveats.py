"""Sentences that limit a headline: a test that disagrees, an unstable or untrained reference."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby

import numpy as np
import pandas as pd

from relation_tf.report.comparisons import rows_of
from relation_tf.report.failed import ranks_diverged
from relation_tf.report.reliability import mostly_lost, trained_networks
from relation_tf.report.scores import Scores
from relation_tf.report.standings import Outcome
from relation_tf.report.verdicts import Verdicts, by_method
from relation_tf.stats.spread import scaled_residuals, unequal_spread
from relation_tf.words import capital, count, format_pvalue, listed, two_digits

_MOST_NAMES = 4
_COMPARABLE = ("better", "worse", "inconclusive")


def caveats(
    verdicts: Verdicts | None,
    tests: Outcome | None,
    scores: Scores,
    collapsed: pd.DataFrame,
    runs: pd.DataFrame,
) -> list[str]:
    """Return up to six sentences that limit the headline.

    The first names verdicts on the mean that the test of pairs does not give, and which of the two
    to quote. The verdict "no worse", which allows for a margin that the test does not know, is left
    out. The second names methods with failed runs that the test leaves out: it is not to be quoted
    on them. Without verdicts, it is the only one.

    The next names collapsed runs and a wide spread of the reference: its SD over seeds, pooled
    over tasks, is more than three times that of most other methods without collapsed runs.

    The fourth names judged methods of which at least half of the runs collapsed; a separate
    sentence names those that mix no tokens by design.

    The last names tasks on which most runs of a method were still improving when they reached the
    limit on epochs: more training can change the verdicts.

    Args:
        verdicts: The verdicts, if there are any.
        tests: The test over tasks, or of the only task.
        scores: The scores.
        collapsed: Result of `collapsed_runs`.
        runs: Result of `all_runs`, or the `runs.csv` of a report; can be empty.
    """
    failed = _failed_runs(tests, runs)
    if verdicts is None:
        return [*_left_out(failed)]
    return [
        *_disagreement(verdicts, tests, scores, failed),
        *_left_out(failed),
        *_unstable(verdicts, scores, collapsed),
        *_mostly_collapsed(verdicts, scores, collapsed, runs),
        *_undertrained(runs),
    ]


def _failed_runs(tests: Outcome | None, runs: pd.DataFrame) -> dict[str, int]:
    """Return the number of failed runs that the test leaves out, by method."""
    if tests is None or runs.empty:
        return {}
    left_out = runs["status"] == "failed"
    if "diverged" in runs and ranks_diverged(tests.procedure):
        left_out &= ~runs["diverged"].eq(True)
    return dict(runs.loc[left_out, "method"].value_counts(sort=False))


def _left_out(failed: Mapping[str, int]) -> Iterator[str]:
    if failed:
        named = [f"{name} ({count(own, 'failed run')})" for name, own in failed.items()]
        yield (
            f"The test leaves out failed runs of {listed(named)}. A method whose runs fail can "
            "look better than it is."
        )


def _disagreement(
    verdicts: Verdicts, tests: Outcome | None, scores: Scores, failed: Collection[str]
) -> Iterator[str]:
    if verdicts.mean is None or tests is None:
        return
    reference = verdicts.reference
    pairs = {
        row.a if row.b == reference else row.b: row
        for row in rows_of(tests.pairs)
        if reference in (row.a, row.b)
    }
    unlike: dict[str, list[str]] = {}
    for name, row in by_method(verdicts.mean).items():
        if name in pairs and row.verdict in _COMPARABLE:
            found = {name: "better", reference: "worse"}.get(pairs[name].better, "inconclusive")
            if found != row.verdict:
                unlike.setdefault(found, []).append(name)
    said = []
    for found, names in unlike.items():
        who = listed(names) if len(names) <= _MOST_NAMES else f"{len(names)} methods"
        one = len(names) == 1
        what = f"{'is' if one else 'are'} significantly {found} than"
        if found == "inconclusive":
            what = f"{'does' if one else 'do'} not differ significantly from"
        pvalue = f" ({format_pvalue(pairs[names[0]].pvalue, scores.alpha)})" if one else ""
        said.append(f"{who} {what} {reference}{pvalue}")
    if said:
        where = "over tasks" if len(verdicts.averaged) > 1 else f"of {verdicts.averaged[0]}"
        found = f"disagrees: {'; '.join(said)}"
        if tests.lacking and tests.pairs["better"].isna().all():
            found = f"cannot confirm this: with so few {tests.lacking}, it cannot be significant"
        judged = {reference, *(name for names in unlike.values() for name in names)}
        to_quote = _to_quote(reference, scores, offers_test=not judged & {*failed})
        yield (f"The test {where} ({tests.how}) {found}. {to_quote}")


def _to_quote(reference: str, scores: Scores, *, offers_test: bool) -> str:
    if scores.reference_declared:
        return f"Quote the verdicts: the suite declared {reference} as reference before the runs."
    if not offers_test:
        return "Quote the verdicts."
    return (
        f"Quote the verdicts if you chose {reference} as reference before the runs, otherwise the "
        "test."
    )


def _unstable(verdicts: Verdicts, scores: Scores, collapsed: pd.DataFrame) -> Iterator[str]:
    reference, faults = verdicts.reference, []
    own = collapsed["task"].isin(scores.main_tasks)
    lost = collapsed[own & collapsed["method"].eq(reference)]
    if len(lost):
        number = len(trained_networks(lost, scores))
        total = int(trained_networks(scores.table, scores)["method"].eq(reference).sum())
        where = listed([*dict.fromkeys(map(str, lost["task"]))])
        runs = f"{number} of its {count(total, 'run')}"
        faults.append(f"{runs} collapsed (learned nothing) on {where}")
    others = [name for name in verdicts.methods if name not in set(collapsed["method"])]
    faults += _wide(verdicts, others, scores) if verdicts.averaged else ()
    if faults:
        yield (
            f"The reference {reference} is unstable: {'; '.join(faults)}. Other seeds can change "
            "the verdicts."
        )


def _wide(verdicts: Verdicts, others: Sequence[str], scores: Scores) -> Iterator[str]:
    """Yield the pooled SD of the reference relative to another method if it is wide."""
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
        return
    most = max(residuals, key=lambda task: np.square(residuals[task][reference]).mean())
    where = f", mostly because of {most}" if len(residuals) > 1 else ""
    what = "its SD, pooled over tasks," if len(residuals) > 1 else "its SD"
    yield f"{what} is {two_digits(nearest.ratio)} times the SD of {nearest.narrow}{where}"


def _mostly_collapsed(
    verdicts: Verdicts, scores: Scores, collapsed: pd.DataFrame, runs: pd.DataFrame
) -> Iterator[str]:
    """Yield sentences on the judged methods of which at least half of the runs collapsed."""
    lost, shares = trained_networks(collapsed, scores), mostly_lost(scores, collapsed)
    mostly = [name for name in verdicts.methods if name in shares]
    blind = {row.method for row in rows_of(runs) if getattr(row, "mixes_tokens", True) is False}
    for by_design, own in groupby(sorted(mostly, key=blind.__contains__), blind.__contains__):
        names = [*own]
        said = ["{} of {} runs of {}".format(*shares[name], name) for name in names[:_MOST_NAMES]]
        more = len(names) - _MOST_NAMES
        who = listed([*said, *([f"those of {count(more, 'more method')}"] if more > 0 else [])])
        which = "this verdict" if len(names) == 1 else "their verdicts"
        why = f"{_how_stopped(lost, names, runs)} Other training settings can change {which}."
        if by_design:
            why = " Each output sees one token by design, so longer training does not help."
        yield f"{who} collapsed (learned nothing).{why}"


def _how_stopped(lost: pd.DataFrame, methods: Sequence[str], runs: pd.DataFrame) -> str:
    """Return sentences on what ended the collapsed runs and what to change; empty if not known."""
    if "stopped" not in runs:  # no runs, or from earlier versions
        return ""
    lacking = {"kept_epoch", "monitor", "metrics"} - {*runs.columns}  # in earlier versions
    runs = runs.assign(**dict.fromkeys(lacking))
    # As text: seeds of tables are strings.
    own = {(row.task, row.method, str(row.seed)) for row in rows_of(lost) if row.method in methods}
    ended = [row for row in rows_of(runs) if (row.task, row.method, str(row.seed)) in own]
    by_rule = [row.epochs for row in ended if "patience" in str(row.stopped)]
    at_limit = [row for row in ended if re.fullmatch(r"reached \d+ epochs", str(row.stopped))]
    parts = []
    if by_rule:
        median = f"after {np.median(by_rule):g} epochs (median)"
        parts.append(f"The stopping rule ended {len(by_rule)} of them, {median}.")
    if at_limit:
        parts.append(f"{len(at_limit)} of them reached the limit on epochs.")
    if not parts:
        return ""
    longer = f"train longer (--set epochs=N{' --set patience=N' if by_rule else ''})"
    # The lowest loss can be that of the first epoch, however long a run is.
    early = [row for row in ended if row.monitor == "val_loss" and row.kept_epoch < row.epochs]
    if how := _metric_to_monitor([row.task for row in early], runs):
        parts.append(
            "The kept weights are those with the lowest val_loss, of epoch "
            f"{np.median([row.kept_epoch for row in early]):g} (median). Monitor the metric "
            f"instead ({how}). If it does not improve either, {longer}."
        )
    else:
        parts.append(f"{capital(longer)} to see whether they learn.")
    return f" {' '.join(parts)}"


def _metric_to_monitor(tasks: Sequence[str], runs: pd.DataFrame) -> str:
    """Return the options that select the model of some tasks by a metric; empty if not known."""
    known = runs.dropna(subset=["metrics"]).drop_duplicates("task")
    metrics = {row.task: row.metrics.split(", ") for row in rows_of(known) if row.metrics}
    for task in dict.fromkeys(tasks):
        for name in metrics.get(task, ()):
            if all(name in own for own in metrics.values()):
                return f"--set monitor=val_{name}"
        if task in metrics:  # a suite has one key for all tasks
            return f"--set 'tasks=[\"{task}\"]' --set monitor=val_{metrics[task][0]}"
    return ""


def _undertrained(runs: pd.DataFrame) -> Iterator[str]:
    if "still_improving" not in runs:  # no runs, or from earlier versions
        return
    own = runs[runs["status"] == "done"]
    # NaN in runs of earlier versions, which did not record it.
    shares = own["still_improving"].eq(True).groupby([own["method"], own["task"]], sort=False)
    most = shares.mean().loc[lambda share: share > 0.5]
    named = []
    for method, tasks in most.groupby(level="method", sort=False):
        names = [str(task) for _, task in tasks.index]
        where = listed(names) if len(names) <= _MOST_NAMES else f"{len(names)} tasks"
        named.append(f"{method} on {where}")
    if left := len(named[_MOST_NAMES:]):
        named[_MOST_NAMES:] = [count(left, "more method")]
    if named:
        yield (
            "Most runs were still improving when they reached the limit on epochs: "
            f"{'; '.join(named)}. Longer training (--set epochs=N) can change the verdicts."
        )
