"""The short answer in words: what the tests show, and nothing that they do not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from relation_tf.bench.results import Results
from relation_tf.report.learning_time import (
    compare_times,
    learning_sentences,
    learning_times,
    summarize_times,
)
from relation_tf.report.tables import (
    AVERAGES,
    Comparison,
    all_pvalues,
    method_names,
    rows_of,
    sets_noun,
)
from relation_tf.stats import SteelDwassResult, what_can_be_shown
from relation_tf.stats.design import format_level

_MOST_PAIRS = 12  # more are counted, not listed


@dataclass
class _Pair:
    """Two methods, and the tasks where one, the other or neither is higher."""

    a: str
    b: str
    higher: list[str] = field(default_factory=list)
    lower: list[str] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)

    def turned(self) -> _Pair:
        """With the method first that is higher more often."""
        if len(self.higher) >= len(self.lower):
            return self
        return _Pair(self.b, self.a, self.lower, self.higher, self.undecided)


def short_answer(
    results: Results, runs: pd.DataFrame, comparisons: Mapping[str, Comparison]
) -> list[str]:
    """A few sentences: how far the suite is, who is higher where, and who cannot be told apart.

    Args:
        results: The finished runs.
        runs: `all_runs` of them.
        comparisons: `compare` of them.
    """
    times = learning_times(results)
    return [
        *_progress(runs),
        *learning_sentences(
            summarize_times(times, results), compare_times(times, results), results
        ),
        *_averages(results),
        *(_findings(results, comparisons) if comparisons else _no_test(results)),
    ]


def design_sentence(results: Results) -> str | None:
    """What the suite's methods and seeds can show, where there is something to compare."""
    methods, seeds = len(results.suite.methods()), len(results.suite.seeds)
    if methods < 2 or seeds < 2:
        return None
    return what_can_be_shown(methods, seeds, results.suite.alpha)


def listed(names: Sequence[str]) -> str:
    """Names as a sentence lists them: a, b and c."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def _progress(runs: pd.DataFrame) -> Iterator[str]:
    counts = runs["status"].value_counts()
    done, failed, missing = (counts.get(name, 0) for name in ("done", "failed", "not done"))
    if done == len(runs):
        return
    others = [
        text
        for count, text in ((failed, f"{failed} failed"), (missing, f"{missing} not done"))
        if count
    ]
    yield f"Preliminary: {done} of {len(runs)} runs are done, {listed(others)}."


def _averages(results: Results) -> Iterator[str]:
    for name in AVERAGES:
        samples = results.samples(name)
        if len(samples) > 1:
            means = {method: sum(scores) / len(scores) for method, scores in samples.items()}
            order = sorted(means, key=means.__getitem__, reverse=True)
            values = ", ".join(f"{method} {100 * means[method]:z.1f}" for method in order)
            yield f"{_capital(_title(name))} in points, highest first: {values}."


def _no_test(results: Results) -> Iterator[str]:
    if not results.runs:
        yield "There is nothing to say yet."
    elif len(results.suite.methods()) < 2:
        yield "One method only: there is nothing to compare it with."
    elif len({run["method"] for run in results.runs}) < 2:
        yield "Only one method has finished runs: there is nothing to compare it with."
    else:
        reason = (
            "One seed a method: no standard deviation and no test."
            if len(results.suite.seeds) == 1
            else "No task has two methods with two seeds yet: no test."
        )
        yield f"{reason} Any difference between these scores may be chance."


def _findings(results: Results, comparisons: Mapping[str, Comparison]) -> Iterator[str]:
    alpha = results.suite.alpha
    best = [comparison.result.attainable_pvalue for comparison in comparisons.values()]
    separated = any(c.result.significant.to_numpy().any() for c in comparisons.values())
    # Ties can take p below what separated seeds reach: two constant methods, for example.
    if min(best) >= alpha and not separated:
        yield (
            f"Nothing can be significant here: {design_sentence(results)}"
            if _is_whole(results, comparisons)
            else "Nothing can be significant with so few seeds for so many methods."
        )
    pvalues = all_pvalues(comparisons)
    tasks = [task for task in comparisons if task not in AVERAGES]
    seeds = _seeds([c.result for task, c in comparisons.items() if task not in AVERAGES])
    if tasks:
        own = pvalues[pvalues["task"].isin(tasks)]
        yield from _by_task(own, tasks, sets_noun(results), seeds, alpha)
    for name in AVERAGES:
        if name in comparisons:
            yield _on_average(name, comparisons[name], alpha)


def _by_task(
    pvalues: pd.DataFrame, tasks: Sequence[str], noun: str, seeds: str, alpha: float
) -> Iterator[str]:
    pairs: dict[tuple[str, str], _Pair] = {}
    for row in rows_of(pvalues):
        pair = pairs.setdefault((row.a, row.b), _Pair(row.a, row.b))
        if not row.significant:
            pair.undecided.append(row.task)
        else:
            (pair.lower if row.statistic > 0 else pair.higher).append(row.task)
    decided = [pair.turned() for pair in pairs.values() if pair.higher or pair.lower]
    for pair in decided[:_MOST_PAIRS]:
        yield _pair_sentence(pair, noun, seeds, alpha)
    if len(decided) > _MOST_PAIRS:
        yield f"{len(decided) - _MOST_PAIRS} more pairs differ somewhere; the tables list them."
    rest = [pair for pair in pairs.values() if not (pair.higher or pair.lower)]
    if not rest:
        return
    where = f"any of the {len(tasks)} {noun}" if len(tasks) > 1 else tasks[0]
    if len(rest) == len(pairs) > 1:
        yield f"No two methods can be separated by {seeds} on {where}."
        return
    named = "; ".join(f"{pair.a} and {pair.b}" for pair in rest)
    who = f"the other {len(rest)} pairs" if len(rest) > _MOST_PAIRS else named
    yield f"Cannot be separated by {seeds} on {where}: {who}."


def _pair_sentence(pair: _Pair, noun: str, seeds: str, alpha: float) -> str:
    total = len(pair.higher) + len(pair.lower) + len(pair.undecided)
    if total == 1:
        where = f"{pair.higher[0]} ({format_level(alpha)})"
    elif len(pair.higher) == total:
        where = f"all {total} {noun} ({format_level(alpha)})"
    else:
        where = (
            f"{len(pair.higher)} of {total} {noun} "
            f"({format_level(alpha)}: {', '.join(pair.higher)})"
        )
    parts = [f"{pair.a} scores higher than {pair.b} on {where}"]
    if pair.lower:
        parts.append(f"lower on {len(pair.lower)} ({', '.join(pair.lower)})")
    if pair.undecided:
        parts.append(f"cannot be separated from it by {seeds} on {len(pair.undecided)}")
    return listed(parts) + "."


def _on_average(name: str, comparison: Comparison, alpha: float) -> str:
    found = []
    pairs = comparison.pairs()
    for row in rows_of(pairs[pairs["significant"]]):
        high, low = (row.b, row.a) if row.statistic > 0 else (row.a, row.b)
        found.append(f"{high} higher than {low}")
    seeds = _seeds([comparison.result])
    if not found:
        return f"On the {_title(name)}, no two methods can be separated by {seeds}."
    if len(found) > _MOST_PAIRS:
        found = [*found[:_MOST_PAIRS], f"{len(found) - _MOST_PAIRS} more pairs"]
    others = len(pairs) - int(pairs["significant"].sum())
    rest = f"; the other pairs cannot be separated by {seeds}" if others else ""
    return f"On the {_title(name)} ({format_level(alpha)}): {', '.join(found)}{rest}."


def _is_whole(results: Results, comparisons: Mapping[str, Comparison]) -> bool:
    wanted = {name: len(results.suite.seeds) for name in method_names(results)}
    return all(
        {name: len(scores) for name, scores in comparison.result.samples.items()} == wanted
        for comparison in comparisons.values()
    )


def _seeds(tests: Sequence[SteelDwassResult]) -> str:
    sizes = [len(scores) for test in tests for scores in test.samples.values()]
    low, high = min(sizes), max(sizes)
    return f"{low} seeds" if low == high else f"{low} to {high} seeds"


def _title(average: str) -> str:
    return average if average.startswith("GLUE") else "mean of the tasks"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
