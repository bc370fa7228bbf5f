"""The short answer of a report: sentences on its runs and tests."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

import pandas as pd

from relation_tf.bench.results import failed_in_words
from relation_tf.report.comparisons import all_pvalues, rows_of, winners
from relation_tf.report.families import family_prefix
from relation_tf.report.over_tasks import OverTasks
from relation_tf.report.scores import Scores
from relation_tf.stats import PairwiseResult, default_procedure, what_can_be_shown
from relation_tf.words import (
    capital,
    count,
    format_level,
    format_pvalue,
    listed,
    number,
    number_of_seeds,
    pvalue_only,
)

if TYPE_CHECKING:
    from relation_tf.report.context import ReportContext

_MOST_PAIRS = 6  # more are counted, not listed
_MOST_NAMED, _FEW_NAMED = 60, 20  # names in a list; of more, some are named
_MOST_METHODS = 6  # more are ranked without the middle


def short_answer(context: ReportContext, *, brief: bool = False) -> list[str]:
    """Return sentences on all methods, then those on the tests of each family.

    Args:
        context: The data of the report.
        brief: If True, leave out sentences on single tasks that a test over tasks summarizes.
    """
    said = [*(progress(context.runs) if context.results is not None else ())]
    for section in context.sections.values():
        said += [] if section.by_family else section.answer(context)
    for family, part in context.parts.items():
        own = _of_family(part, brief and part.several is not None and bool(part.comparisons))
        said += [f"{family_prefix(family)}{each}" for each in own]
    return said


def _of_family(context: ReportContext, brief: bool) -> Iterator[str]:
    scores, tests = context.scores, context.comparisons
    for section in context.sections.values():
        yield from section.answer(context) if section.by_family else ()
    if context.results is not None:
        yield from tested_among(scores, tests, context.num_declared)
    yield from _ranked_over_tasks(context.several, scores)
    if brief:
        yield from _too_few(scores, tests)
    else:
        yield from on_tests(scores, tests, context.several)


def on_tests(
    scores: Scores, comparisons: Mapping[str, PairwiseResult], several: OverTasks | None = None
) -> Iterator[str]:
    """Yield sentences with averages, significant differences and cautions.

    Args:
        scores: The scores.
        comparisons: The test of each task, from `compare_methods`.
        several: Test over tasks, if there is one.
    """
    yield from _averages(scores)
    yield from (
        _findings(scores, comparisons) if comparisons else _no_test(scores, several is not None)
    )


def _ranked_over_tasks(several: OverTasks | None, scores: Scores) -> Iterator[str]:
    """Name the pairs that differ significantly over all tasks together."""
    if several is None:
        return
    where = f"Over the {len(several.tasks)} tasks together ({several.procedure.title}"
    found = better_of(several.pairs)
    if not found:
        unit = lacking(several.result, f"{several.procedure.unit}s", scores)
        said = f"without ties no difference can be significant with so few {unit}"
        yield f"{where}): {said if unit else no_difference(scores)}."
        return
    others = several.pairs[several.pairs["better"].isna()]
    rest = f"; no significant difference for {len(others)} other pairs" if len(others) > 1 else ""
    if len(others) == 1:
        (pair,) = rows_of(others)
        rest = f"; no significant difference between {pair.a} and {pair.b}"
    yield f"{where}, {format_level(scores.alpha)}): {_first(found)}{rest}."


def better_of(pairs: pd.DataFrame, words: str = "better than") -> list[str]:
    """Return a phrase for each significant pair, such as "a better than b".

    Args:
        pairs: `pairs()` of a result: columns `a`, `b` and `better`.
        words: Words between the two methods.
    """
    return [f"{better} {words} {worse}" for better, worse in winners(pairs)]


def progress(runs: pd.DataFrame) -> Iterator[str]:
    """Yield the numbers of done, failed and missing runs of an unfinished suite.

    Args:
        runs: All runs of the suite, from `all_runs`.
    """
    counts = runs["status"].value_counts()
    done, failed, missing = (counts.get(name, 0) for name in ("done", "failed", "not done"))
    if done == len(runs):
        return
    if (chosen := _whole_part(runs)) and not failed:
        yield f"Runs exist only for {chosen}; all {done} are done."
        return
    diverged = int(runs["diverged"].sum())
    others = [failed_in_words(failed, diverged)] if failed else []
    others += [f"{missing} not done"] if missing else []
    start = "Preliminary: " if missing or failed > diverged else ""
    yield f"{start}{done} of {len(runs)} runs are done, {listed(others)}."


def _whole_part(runs: pd.DataFrame) -> str:
    """Return the tasks and seeds of the only runs; empty for all tasks, or if runs are missing."""
    there = runs[runs["status"] != "not done"]
    part = runs["task"].isin(there["task"]) & runs["seed"].isin(there["seed"])
    counts = {noun: (there[noun].nunique(), runs[noun].nunique()) for noun in ("task", "seed")}
    if not len(there) or part.sum() > len(there) or counts["task"][0] == counts["task"][1]:
        return ""
    return listed([f"{own} of {count(n, noun)}" for noun, (own, n) in counts.items() if own < n])


def tested_among(
    scores: Scores, comparisons: Mapping[str, PairwiseResult], declared: int
) -> Iterator[str]:
    """Warn if tests leave out methods without runs: with all methods p would be larger.

    Args:
        scores: The scores.
        comparisons: The test of each task, from `compare_methods`.
        declared: Number of methods of the suite, or of the family.
    """
    tested = [len(test.samples) for test in comparisons.values()]
    if not tested or min(tested) == declared:
        return
    fewest, most = min(tested), max(tested)
    attainable, larger = scores.procedure.attainable_pvalue, ""
    if attainable is not None:
        best = format_pvalue(attainable(declared, scores.seeds), scores.alpha)
        larger = (
            f" With all {declared}, p is larger (with {scores.seeds} seeds without ties {best} or "
            "more)."
        )
    some = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    yield f"Tests include only the {some} of {declared} methods that have scores.{larger}"


def cautions(scores: Scores, comparisons: Mapping[str, PairwiseResult]) -> Iterator[str]:
    """Yield remarks on what the tests of tasks can show.

    Args:
        scores: The scores.
        comparisons: The test of each task, from `compare_methods`.
    """
    if not comparisons:
        return
    alpha, pvalues = scores.alpha, all_pvalues(comparisons)
    yield from _too_few(scores, comparisons)
    own = pvalues[~pvalues["task"].isin(scores.averages)]
    if own["task"].nunique() > 1 and own["significant"].any():
        yield (
            "Each task is tested separately. If the methods do not differ, on average at most "
            f"{100 * alpha:g} % of tasks show a significant pair by chance."
            f"{_counted_once(scores)}"
        )
    tied = [
        _place(task, scores)
        for task, test in comparisons.items()
        if test.tied and test.attainable_pvalue >= alpha and test.significant.to_numpy().any()
    ]
    if tied:
        places = listed(tied) if len(tied) <= 3 else f"{len(tied)} columns (see their notes)"
        yield (
            f"On {places}, some scores are equal (rounded, or from a constant method). Without "
            "ties, these seeds cannot reach a p this small."
        )
    yield from _against_means(pvalues[pvalues["significant"]], scores)


def design_sentence(scores: Scores, comparisons: Mapping[str, PairwiseResult]) -> str | None:
    """Return the smallest p of this number of methods and seeds.

    None unless each task compares all methods with all seeds.
    """
    bound = scores.procedure.attainable_pvalue is not None
    few = len(scores.methods) < 2 or scores.seeds < 2
    if few or not bound or not _is_whole(scores, comparisons):
        return None
    return what_can_be_shown(
        len(scores.methods),
        scores.seeds,
        scores.alpha,
        test=scores.test or default_procedure(scores.control),
    )


def lacking(result: Any, unit: str, scores: Scores) -> str:
    """Return the unit if no p can be below the level; tests of plugins may not know it."""
    return unit if getattr(result, "attainable_pvalue", 0.0) >= scores.alpha else ""


def no_difference(scores: Scores) -> str:
    """Return a phrase for a comparison without a significant pair."""
    if scores.control is None:
        return "no two methods differ significantly"
    return f"no method differs significantly from {scores.control}"


def _averages(scores: Scores) -> Iterator[str]:
    for name in scores.averages:
        samples = scores.samples(name)
        if len(samples) > 1:
            means = {method: sum(values) / len(values) for method, values in samples.items()}
            lower = name in scores.lower_is_better
            order = sorted(means, key=means.__getitem__, reverse=not lower)
            factor, digits = scores.factor(name), scores.digits(name)
            ranked = [f"{method} {number(factor * means[method], digits)}" for method in order]
            if len(ranked) > _MOST_METHODS:
                ranked = [*ranked[:3], f"{len(ranked) - 4} others", ranked[-1]]
            values = ", ".join(ranked)
            unit = " in points" if factor == 100 else ""
            first = "lowest" if lower else "highest"
            yield f"{capital(_title(name))}{unit}, {first} first: {values}."


def _no_test(scores: Scores, over_tasks: bool) -> Iterator[str]:
    of = " of single tasks" if over_tasks else ""
    if scores.table.empty:
        yield "No results yet."
    elif len(scores.methods) < 2:
        yield "Only one method has scores, so there is no comparison."
    elif scores.table["method"].nunique() < 2:
        yield "Only one method has finished runs, so there is no comparison yet."
    else:
        reason = f"No test{of} yet: no task has two methods with at least two seeds."
        if scores.seeds == 1:
            reason = f"One seed per method: no standard deviation and no test{of}."
        elif scores.control is not None and scores.control not in {*scores.table["method"]}:
            reason = f"No test yet: the control {scores.control} has no finished runs."
        where = "on single tasks" if over_tasks else "between these scores"
        yield f"{reason} Differences {where} may be due to chance."


def _findings(scores: Scores, comparisons: Mapping[str, PairwiseResult]) -> Iterator[str]:
    yield from cautions(scores, comparisons)
    pvalues = all_pvalues(comparisons)
    own = pvalues[~pvalues["task"].isin(scores.averages)]
    yield from _by_task(own, scores)
    for name in scores.averages:
        if name in comparisons:
            yield _on_average(name, pvalues[pvalues["task"] == name], scores)


def _too_few(scores: Scores, comparisons: Mapping[str, PairwiseResult]) -> Iterator[str]:
    """Say that no difference can be significant, and how many seeds can change it."""
    found = any(test.significant.to_numpy().any() for test in comparisons.values())
    # Ties can give a smaller p than untied seeds, for example with two constant methods.
    attainable = min((test.attainable_pvalue for test in comparisons.values()), default=0.0)
    if found or attainable < scores.alpha:
        return
    if not _is_whole(scores, comparisons):
        several = any(len(test.samples) > 2 for test in comparisons.values())
        many = " and so many methods" if several else ""
        where = "a single task" if len(comparisons) > 1 else next(iter(comparisons))
        yield f"With so few seeds{many}, no pair can reach significance on {where}."
        return
    test = next(iter(comparisons.values()))
    methods = len(test.samples)
    design = f"With {scores.seeds} seeds{f' and {methods} methods' if methods > 2 else ''}"
    best = pvalue_only(test.attainable_pvalue, scores.alpha)
    where = next(iter(comparisons)) if len(comparisons) == 1 else "any task"
    least = scores.procedure.attainable_pvalue
    helps = methods > 2 and least is not None and least(2, scores.seeds) < scores.alpha
    fewer = " or fewer methods" if helps else ""
    use = f" Use at least {test.seeds_needed} seeds{fewer}." if test.seeds_needed else ""
    yield (
        f"{design}, no difference can be significant on {where} (smallest possible p: {best}).{use}"
    )


def _counted_once(scores: Scores) -> str:
    """Name the tasks that count once over tasks but are tested separately here."""
    return "".join(
        f" {listed(tasks)} are separate tasks here, but count once in the test over tasks."
        for tasks in scores.shared.values()
    )


def _by_task(pvalues: pd.DataFrame, scores: Scores) -> Iterator[str]:
    rows: dict[tuple[str, str], list[int]] = {}
    for place, pair in enumerate(zip(pvalues["a"].tolist(), pvalues["b"].tolist(), strict=True)):
        rows.setdefault(pair, []).append(place)
    significant = pvalues["significant"].to_numpy()
    decided = [pair for pair, own in rows.items() if significant[own].any()]
    tested = [*pvalues["task"].unique()]
    if len(decided) > _MOST_PAIRS:
        where = _any_of(tested, scores, "at least one")
        yield f"{len(decided)} of {len(rows)} pairs of methods differ significantly on {where}."
        return
    yield from (_pair_sentence(pvalues.iloc[rows[pair]], scores) for pair in decided)
    if not decided and len(rows) > 1:
        where = _any_of(tested, scores)
        yield f"{capital(no_difference(scores))} with {_seeds(pvalues)} on {where}."
        return
    by_tasks: dict[str, list[tuple[str, str]]] = {}
    tasks = pvalues["task"].tolist()
    for pair, own in rows.items():
        if not significant[own].any():
            where = _any_of([tasks[place] for place in own], scores)
            by_tasks.setdefault(where, []).append(pair)
    for where, same in by_tasks.items():
        named = "; ".join(" and ".join(pair) for pair in same)
        who = f"{len(same)} other pairs" if len(same) > _MOST_PAIRS else named
        seeds = _seeds(pvalues.iloc[[place for pair in same for place in rows[pair]]])
        yield f"No significant difference with {seeds} on {where}: {who}."


def _pair_sentence(pair: pd.DataFrame, scores: Scores) -> str:
    a, b = pair[["a", "b"]].iloc[0]
    is_better = pair["significant"] & (pair["ahead"] == a)
    better, worse = [*pair["task"][is_better]], [*pair["task"][pair["significant"] & ~is_better]]
    if len(better) < len(worse):
        a, b, better, worse = b, a, worse, better
    undecided = pair[~pair["significant"]]
    level = format_level(scores.alpha)
    total = len(pair)
    if total == 1:
        where = f"{better[0]} ({level})"
    elif len(better) == total:
        every = f"all {total}" if total > 2 else "both"
        where = f"{every} {_tested(total, scores)} ({level})"
    else:
        where = f"{len(better)} of {total} {_tested(total, scores)} ({level}: {', '.join(better)})"
    parts = [f"{a} is better than {b} on {where}"]
    if worse:
        parts.append(f"worse on {len(worse)} ({', '.join(worse)})")
    if len(undecided):
        parts.append(f"not significantly different on {len(undecided)} ({_seeds(undecided)})")
    return listed(parts) + "."


def _on_average(name: str, pairs: pd.DataFrame, scores: Scores) -> str:
    found, others = better_of(pairs), pairs[~pairs["significant"]]
    if not found:
        return f"On the {_title(name)}, {no_difference(scores)} with {_seeds(others)}."
    rest = (
        f"; no significant difference with {_seeds(others)} for other pairs" if len(others) else ""
    )
    return f"On the {_title(name)} ({format_level(scores.alpha)}): {_first(found)}{rest}."


def _against_means(pairs: pd.DataFrame, scores: Scores) -> Iterator[str]:
    """Warn of significant pairs where the method with better ranks has the worse mean."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows_of(pairs[pairs["ahead"] != ""]):
        samples = scores.samples(row.task)
        other = row.b if row.ahead == row.a else row.a
        ahead, behind = (fmean(samples.get(name, [math.nan])) for name in (row.ahead, other))
        if (ahead > behind) if row.task in scores.lower_is_better else (ahead < behind):
            found.setdefault((row.ahead, other), []).append(_place(row.task, scores))
    if found:
        named = [f"{ahead} over {other} on {listed(on)}" for (ahead, other), on in found.items()]
        yield (
            "Significantly better by ranks but with the worse mean, because of outliers or failed "
            f"runs: {_first(named)}."
        )


def _first(pairs: list[str]) -> str:
    more = len(pairs) - _MOST_PAIRS
    return ", ".join([*pairs[:_MOST_PAIRS], *([count(more, "more pair")] if more > 0 else [])])


def _any_of(tasks: Sequence[str], scores: Scores, word: str = "any") -> str:
    number = len(tasks)
    return f"{word} of the {number} {_tested(number, scores)}" if number > 1 else tasks[0]


def _tested(number: int, scores: Scores) -> str:
    """Return the noun for tasks, restricted unless a pair is tested on all of them."""
    where = "" if number == len(scores.own_tasks) else " with both methods"
    return f"{'tasks' if scores.diagnostics else scores.noun}{where}"


def _is_whole(scores: Scores, comparisons: Mapping[str, PairwiseResult]) -> bool:
    wanted = dict.fromkeys(scores.methods, scores.seeds)
    return all(
        {name: len(values) for name, values in test.samples.items()} == wanted
        for test in comparisons.values()
    )


def _seeds(pairs: pd.DataFrame) -> str:
    return number_of_seeds([*pairs["n_a"], *pairs["n_b"]])


def _place(task: str, scores: Scores) -> str:
    return f"the {_title(task)}" if task in scores.averages else task


def _title(average: str) -> str:
    return average if average.startswith("GLUE") else "mean of the tasks"


def first_sentences(text: str, most: int) -> str:
    """Return the first sentence and further ones up to a number of characters.

    Args:
        text: Sentences.
        most: Number of characters for more than one sentence, without the note on the rest.

    Example:
        >>> print(first_sentences("Two runs failed. Both ran out of memory.", 30))
        Two runs failed. (More in the report.)
    """
    first, *others = re.split(r"(?<=[.]) (?=[A-Z])", text)
    for sentence in others:
        if len(first) + len(sentence) >= most:
            return f"{first} (More in the report.)"
        first += f" {sentence}"
    return first
