"""The short answer of a comparison as statements: what the tests found and cannot show."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from statistics import fmean
from typing import TYPE_CHECKING, Any

import pandas as pd

from relation_tf.report.comparisons import all_pvalues, rows_of, winners
from relation_tf.report.learning_times import time_statements
from relation_tf.report.scores import Scores
from relation_tf.report.standings import lacking
from relation_tf.report.text import Statement, state
from relation_tf.stats import PairwiseResult, default_procedure, what_can_be_shown
from relation_tf.words import count, format_pvalue, number_of_seeds, pvalue_only

if TYPE_CHECKING:
    from relation_tf.report.comparison import Comparison

_MOST_PAIRS = 6  # of more significant pairs, the number is stated


def answer(part: Comparison) -> Iterator[Statement]:
    """Yield statements on the tests over tasks, on averages and on single tasks."""
    scores, tests = part.scores, part.tests
    if part.results is not None:
        yield from tested_among(part)
        if part.learning_times is not None:
            yield from time_statements(part.learning_times, part.results.suite)
    if (several := part.over_tasks) is not None:
        better = winners(several.pairs)
        yield state(
            "over_tasks",
            test=several.procedure.title,
            tasks=len(several.tasks),
            alpha=scores.alpha,
            better=better,
            others=len(several.pairs) - len(better),
            lacking=lacking(several.result, f"{several.procedure.unit}s", scores),
            control=scores.control,
        )
    yield from _averages(scores)
    if not tests:
        yield _no_test(scores, over_tasks=several is not None)
        return
    yield from cautions(scores, tests)
    pvalues = all_pvalues(tests)
    yield from _single_tasks(pvalues[~pvalues["task"].isin(scores.averages)], scores)
    for name in scores.averages:
        if name in tests:
            own = pvalues[pvalues["task"] == name]
            better = winners(own)
            seeds = own if not better else own[~own["significant"]]
            yield state(
                "on_average",
                name=average_title(name),
                better=better,
                others=len(own) - len(better),
                seeds=_seeds(seeds) if len(seeds) else "",
                alpha=scores.alpha,
                control=scores.control,
            )


def brief(statements: list[Statement], part: Comparison) -> list[Statement]:
    """Return the statements without those on single tasks, if a test over tasks summarizes them."""
    if part.over_tasks is None or not part.tests:
        return statements
    kept = {"tested_among", "over_tasks", "too_few_seeds", "times_to_target", "faster_to_target"}
    return [each for each in statements if each.kind in kept]


def progress(runs: pd.DataFrame) -> Iterator[Statement]:
    """Yield the numbers of done, failed and missing runs of an unfinished suite.

    Args:
        runs: All runs of the suite, from `all_runs`.
    """
    counts = runs["status"].value_counts()
    done, failed, missing = (int(counts.get(x, 0)) for x in ("done", "failed", "not done"))
    if done == len(runs):
        return
    there = runs[runs["status"] != "not done"]
    part = runs["task"].isin(there["task"]) & runs["seed"].isin(there["seed"])
    sizes = {noun: (there[noun].nunique(), runs[noun].nunique()) for noun in ("task", "seed")}
    fewer_tasks = sizes["task"][0] < sizes["task"][1]
    if done and not failed and fewer_tasks and part.sum() == len(there):
        parts = [f"{own} of {count(n, noun)}" for noun, (own, n) in sizes.items() if own < n]
        yield state("runs_only_for", parts=parts, done=done)
        return
    diverged = int(runs["diverged"].sum())
    yield state(
        "progress", done=done, total=len(runs), failed=failed - diverged, diverged=diverged,
        missing=missing,
    )  # fmt: skip


def tested_among(part: Comparison) -> Iterator[Statement]:
    """Warn if tests leave out methods without runs: with all methods p would be larger."""
    scores, sizes = part.scores, [len(test.samples) for test in part.tests.values()]
    if not sizes or min(sizes) == part.declared:
        return
    least = scores.procedure.attainable_pvalue
    best = least and format_pvalue(least(part.declared, scores.seeds), scores.alpha)
    yield state(
        "tested_among", fewest=min(sizes), most=max(sizes), declared=part.declared,
        pvalue=best or "", seeds=scores.seeds,
    )  # fmt: skip


def cautions(scores: Scores, tests: Mapping[str, PairwiseResult]) -> Iterator[Statement]:
    """Yield remarks on what the tests of tasks can show."""
    if not tests:
        return
    pvalues = all_pvalues(tests)
    yield from _too_few_seeds(scores, tests)
    own = pvalues[~pvalues["task"].isin(scores.averages)]
    if own["task"].nunique() > 1 and own["significant"].any():
        yield state("separate_tests", alpha=scores.alpha, counted_once=[*scores.shared.values()])
    tied = [
        _place(task, scores)
        for task, test in tests.items()
        if test.tied
        and test.attainable_pvalue >= scores.alpha
        and test.significant.to_numpy().any()
    ]
    if tied:
        yield state("tied", tasks=tied)
    yield from _better_ranks_worse_mean(pvalues[pvalues["significant"]], scores)


def design_sentence(scores: Scores, tests: Mapping[str, PairwiseResult]) -> str | None:
    """Return the smallest p of this number of methods and seeds.

    None unless each task compares all methods with all seeds.
    """
    bound = scores.procedure.attainable_pvalue is not None
    few = len(scores.methods) < 2 or scores.seeds < 2
    if few or not bound or not _is_whole(scores, tests):
        return None
    return what_can_be_shown(
        len(scores.methods),
        scores.seeds,
        scores.alpha,
        test=scores.test or default_procedure(scores.control),
    )


def average_title(name: str) -> str:
    """Return the name of an average within a sentence."""
    return name if name.startswith("GLUE") else "mean of the tasks"


def _averages(scores: Scores) -> Iterator[Statement]:
    for name in scores.averages:
        samples = scores.samples(name)
        if len(samples) > 1:
            lower, factor = name in scores.lower_is_better, scores.factor(name)
            means = {method: factor * fmean(values) for method, values in samples.items()}
            order = sorted(means, key=means.__getitem__, reverse=not lower)
            yield state(
                "average",
                name=average_title(name),
                means={method: means[method] for method in order},
                digits=scores.digits(name),
                points=factor == 100,
                lower_is_better=lower,
            )


def _no_test(scores: Scores, *, over_tasks: bool) -> Statement:
    finished = {*scores.table["method"]}
    reasons = {
        "no results": not finished,
        "one method": len(scores.methods) < 2,
        "one finished": len(finished) < 2,
        "one seed": scores.seeds == 1,
        "no control": scores.control is not None and scores.control not in finished,
        "too few": True,
    }
    reason = next(name for name, holds in reasons.items() if holds)
    return state("no_test", reason=reason, control=scores.control, over_tasks=over_tasks)


def _too_few_seeds(scores: Scores, tests: Mapping[str, PairwiseResult]) -> Iterator[Statement]:
    """Say that no difference can be significant, and how many seeds can change it."""
    found = any(test.significant.to_numpy().any() for test in tests.values())
    # Ties can give a smaller p than untied seeds, for example with two constant methods.
    attainable = min((test.attainable_pvalue for test in tests.values()), default=0.0)
    if found or attainable < scores.alpha:
        return
    whole, test = _is_whole(scores, tests), next(iter(tests.values()))
    methods, least = max(len(own.samples) for own in tests.values()), scores.procedure
    bound = least.attainable_pvalue
    yield state(
        "too_few_seeds",
        tasks=[*tests],
        methods=methods,
        seeds=scores.seeds if whole else None,
        pvalue=pvalue_only(test.attainable_pvalue, scores.alpha),
        seeds_needed=test.seeds_needed,
        fewer_methods_help=methods > 2
        and bound is not None
        and bound(2, scores.seeds) < scores.alpha,
    )


def _single_tasks(pvalues: pd.DataFrame, scores: Scores) -> Iterator[Statement]:
    """Yield the significant pairs on single tasks, and those without a significant task."""
    common = {
        "noun": "tasks" if scores.diagnostics else scores.noun,
        "all_tasks": len(scores.own_tasks),
    }
    pairs = dict(iter(pvalues.groupby(["a", "b"], sort=False)))
    decided = [pair for pair, own in pairs.items() if own["significant"].any()]
    tested = [*pvalues["task"].unique()]
    if len(decided) > _MOST_PAIRS:
        yield state(
            "pairs_counted", significant=len(decided), pairs=len(pairs), tasks=tested, **common
        )
        return
    yield from (_pair(pairs[pair], scores, common) for pair in decided)
    if not decided and len(pairs) > 1:
        yield state("no_difference", tasks=tested, pairs=[], seeds=_seeds(pvalues),
                    control=scores.control, **common)  # fmt: skip
        return
    alike: dict[tuple[str, ...], list[Any]] = {}
    for pair, own in pairs.items():
        if pair not in decided:
            alike.setdefault((*own["task"],), []).append(pair)
    for tasks, own_pairs in alike.items():
        seeds = _seeds(pd.concat([pairs[pair] for pair in own_pairs]))
        yield state("no_difference", tasks=[*tasks], pairs=own_pairs, seeds=seeds,
                    control=scores.control, **common)  # fmt: skip


def _pair(own: pd.DataFrame, scores: Scores, common: Mapping[str, Any]) -> Statement:
    a, b = own[["a", "b"]].iloc[0]
    is_better = own["significant"] & (own["ahead"] == a)
    better, worse = [*own["task"][is_better]], [*own["task"][own["significant"] & ~is_better]]
    if len(better) < len(worse):
        a, b, better, worse = b, a, worse, better
    undecided = own[~own["significant"]]
    return state(
        "pair",
        better=a,
        worse=b,
        alpha=scores.alpha,
        on=better,
        worse_on=worse,
        undecided=len(undecided),
        seeds=_seeds(undecided) if len(undecided) else "",
        **common,
    )


def _better_ranks_worse_mean(pairs: pd.DataFrame, scores: Scores) -> Iterator[Statement]:
    """Warn of significant pairs where the method with better ranks has the worse mean."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows_of(pairs[pairs["ahead"] != ""]):
        samples = scores.samples(row.task)
        other = row.b if row.ahead == row.a else row.a
        ahead, behind = (fmean(samples.get(name, [math.nan])) for name in (row.ahead, other))
        if (ahead > behind) if row.task in scores.lower_is_better else (ahead < behind):
            found.setdefault((row.ahead, other), []).append(_place(row.task, scores))
    if found:
        pairs_found = [(ahead, other, tasks) for (ahead, other), tasks in found.items()]
        yield state("better_ranks_worse_mean", pairs=pairs_found)


def _is_whole(scores: Scores, tests: Mapping[str, PairwiseResult]) -> bool:
    wanted = dict.fromkeys(scores.methods, scores.seeds)
    return all(
        {name: len(values) for name, values in test.samples.items()} == wanted
        for test in tests.values()
    )


def _seeds(pairs: pd.DataFrame) -> str:
    return number_of_seeds([*pairs["n_a"], *pairs["n_b"]])


def _place(task: str, scores: Scores) -> str:
    return f"the {average_title(task)}" if task in scores.averages else task
