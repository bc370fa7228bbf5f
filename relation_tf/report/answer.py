"""The short answer in words: what the tests show, and nothing that they do not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from relation_tf.report.comparisons import Comparison, Test, all_pvalues, rows_of
from relation_tf.report.scores import Scores
from relation_tf.stats import what_can_be_shown
from relation_tf.stats.design import format_level

_MOST_PAIRS = 12  # more are counted, not listed


@dataclass
class _Pair:
    """Two methods, and the tasks where one, the other or neither is better."""

    a: str
    b: str
    better: list[str] = field(default_factory=list)
    worse: list[str] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)

    def turned(self) -> _Pair:
        """With the method first that is better more often."""
        if len(self.better) >= len(self.worse):
            return self
        return _Pair(self.b, self.a, self.worse, self.better, self.undecided)


def short_answer(scores: Scores, comparisons: Mapping[str, Comparison]) -> list[str]:
    """A few sentences: who is better where, and who cannot be told apart.

    Args:
        scores: The scores.
        comparisons: `compare` of them.
    """
    return [
        *_averages(scores),
        *(_findings(scores, comparisons) if comparisons else _no_test(scores)),
    ]


def progress(runs: pd.DataFrame) -> Iterator[str]:
    """How far a suite is, where it is not done; `runs` is `all_runs` of it."""
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


def design_sentence(scores: Scores) -> str | None:
    """What so many methods and seeds can show, where there is something to compare."""
    if len(scores.methods) < 2 or scores.seeds < 2:
        return None
    return what_can_be_shown(
        len(scores.methods),
        scores.seeds,
        scores.alpha,
        family="all-pairs" if scores.control is None else "one-against-all",
    )


def listed(names: Sequence[str]) -> str:
    """Names as a sentence lists them: a, b and c."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def _averages(scores: Scores) -> Iterator[str]:
    for name in scores.averages:
        samples = scores.samples(name)
        if len(samples) > 1:
            means = {method: sum(values) / len(values) for method, values in samples.items()}
            order = sorted(means, key=means.__getitem__, reverse=True)
            values = ", ".join(f"{method} {100 * means[method]:z.1f}" for method in order)
            yield f"{_capital(_title(name))} in points, highest first: {values}."


def _no_test(scores: Scores) -> Iterator[str]:
    if scores.table.empty:
        yield "There is nothing to say yet."
    elif len(scores.methods) < 2:
        yield "One method only: there is nothing to compare it with."
    elif scores.table["method"].nunique() < 2:
        yield "Only one method has finished runs: there is nothing to compare it with."
    else:
        reason = (
            "One seed a method: no standard deviation and no test."
            if scores.seeds == 1
            else "No task has two methods with two seeds yet: no test."
        )
        yield f"{reason} Any difference between these scores may be chance."


def _findings(scores: Scores, comparisons: Mapping[str, Comparison]) -> Iterator[str]:
    alpha = scores.alpha
    best = [comparison.result.attainable_pvalue for comparison in comparisons.values()]
    separated = any(c.result.significant.to_numpy().any() for c in comparisons.values())
    # Ties can take p below what separated seeds reach: two constant methods, for example.
    if min(best) >= alpha and not separated:
        yield (
            f"Nothing can be significant here: {design_sentence(scores)}"
            if _is_whole(scores, comparisons)
            else "Nothing can be significant with so few seeds for so many methods."
        )
    pvalues = all_pvalues(comparisons)
    tasks = [task for task in comparisons if task not in scores.averages]
    seeds = _seeds([c.result for task, c in comparisons.items() if task in tasks])
    if tasks:
        own = pvalues[pvalues["task"].isin(tasks)]
        yield from _by_task(own, tasks, scores.noun, seeds, alpha)
    for name in scores.averages:
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
            (pair.better if row.ahead == row.a else pair.worse).append(row.task)
    decided = [pair.turned() for pair in pairs.values() if pair.better or pair.worse]
    for pair in decided[:_MOST_PAIRS]:
        yield _pair_sentence(pair, noun, seeds, alpha)
    if len(decided) > _MOST_PAIRS:
        yield f"{len(decided) - _MOST_PAIRS} more pairs differ somewhere; the tables list them."
    rest = [pair for pair in pairs.values() if not (pair.better or pair.worse)]
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
    total = len(pair.better) + len(pair.worse) + len(pair.undecided)
    if total == 1:
        where = f"{pair.better[0]} ({format_level(alpha)})"
    elif len(pair.better) == total:
        where = f"all {total} {noun} ({format_level(alpha)})"
    else:
        where = (
            f"{len(pair.better)} of {total} {noun} "
            f"({format_level(alpha)}: {', '.join(pair.better)})"
        )
    parts = [f"{pair.a} is better than {pair.b} on {where}"]
    if pair.worse:
        parts.append(f"worse on {len(pair.worse)} ({', '.join(pair.worse)})")
    if pair.undecided:
        parts.append(f"cannot be separated from it by {seeds} on {len(pair.undecided)}")
    return listed(parts) + "."


def _on_average(name: str, comparison: Comparison, alpha: float) -> str:
    found = []
    pairs = comparison.pairs()
    for row in rows_of(pairs[pairs["significant"]]):
        worse = row.a if row.ahead == row.b else row.b
        found.append(f"{row.ahead} better than {worse}")
    seeds = _seeds([comparison.result])
    if not found:
        return f"On the {_title(name)}, no two methods can be separated by {seeds}."
    if len(found) > _MOST_PAIRS:
        found = [*found[:_MOST_PAIRS], f"{len(found) - _MOST_PAIRS} more pairs"]
    others = len(pairs) - int(pairs["significant"].sum())
    rest = f"; the other pairs cannot be separated by {seeds}" if others else ""
    return f"On the {_title(name)} ({format_level(alpha)}): {', '.join(found)}{rest}."


def _is_whole(scores: Scores, comparisons: Mapping[str, Comparison]) -> bool:
    wanted = dict.fromkeys(scores.methods, scores.seeds)
    return all(
        {name: len(values) for name, values in comparison.result.samples.items()} == wanted
        for comparison in comparisons.values()
    )


def _seeds(tests: Sequence[Test]) -> str:
    sizes = [len(values) for test in tests for values in test.samples.values()]
    if not sizes:
        return "these seeds"
    low, high = min(sizes), max(sizes)
    return f"{low} seeds" if low == high else f"{low} to {high} seeds"


def _title(average: str) -> str:
    return average if average.startswith("GLUE") else "mean of the tasks"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
