"""The first screen of a report: headline, verdicts or means, and the short answer."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from relation_tf.registry import register_section
from relation_tf.report.blocks import (
    Block,
    Cell,
    Column,
    Row,
    Section,
    Table,
    blocks,
    by_method,
    of_family,
)
from relation_tf.report.lost_runs import collapsed_note
from relation_tf.report.scores import Scores
from relation_tf.report.sections.learning_time import time_statements
from relation_tf.report.sections.runs import scored_sets
from relation_tf.report.sections.tests import cautions, diagram_of, differences, lacking, winners
from relation_tf.report.sections.verdicts import (
    NOT_VARYING,
    POSITIVE,
    cost_columns,
    definitions,
    unit_of_means,
    verdict_figure,
    verdict_table,
    verdicts_by_task,
)
from relation_tf.report.text import Statement, state
from relation_tf.stats import StratifiedResult
from relation_tf.stats.comparisons import Estimand
from relation_tf.stats.samples import dense_ranks
from relation_tf.words import count, number, number_of_seeds

if TYPE_CHECKING:
    from relation_tf.report.data import Comparison, ReportData

_MOST_PAIRS = 6  # of more significant pairs, the number is stated


# ---- Standings ----


def standings(scores: Scores) -> pd.DataFrame:
    """Return the `mean` and the mean `rank` (1 is the best) of each method over common tasks.

    `sd`, `median` and `mad` (median absolute deviation from it) are of the means of the tasks.
    Tasks scored from one network count once. Without a common task the table is empty; all but
    `rank` is NaN if the tasks have different units, and for speeds.

    Returns:
        A row per method with scores; `attrs["tasks"]` is a list of the tasks.
    """
    means = pd.DataFrame(
        {
            network: {name: pd.Series(values).mean() for name, values in samples.items()}
            for network, samples in scores.common.items()
        },
        dtype=float,
    ).dropna(axis="columns")
    signs = [-1 if scores.lower_is_better_on(network) else 1 for network in map(str, means)]
    # Means that differ by rounding are tied, as in the tests.
    codes = means.mul(signs).apply(lambda x: pd.Series(dense_ranks(x.to_numpy()), x.index))
    ranks = codes.rank(ascending=False).mean(axis="columns")
    median = means.median(axis="columns")
    mad = means.sub(median, axis="index").abs().median(axis="columns")
    sd = means.std(axis="columns")
    table = pd.DataFrame(
        {"mean": means.mean(axis="columns"), "sd": sd, "median": median, "mad": mad, "rank": ranks}
    )
    if scores.timed or not scores.comparable:
        table.loc[:, "mean":"mad"] = np.nan
    table.attrs["tasks"] = [*means]
    return table if len(means.columns) else table.iloc[:0]


def leading(part: Comparison, lost: Collection[str]) -> Statement | None:
    """Return a statement on the best method and the number of pairs that differ significantly.

    None if fewer than two methods have a common task.

    Args:
        part: The comparison.
        lost: Methods of which at least half of the runs failed or learned nothing: none is best.
    """
    scores, table = part.scores, part.standings
    if len(table) < 2:
        return None
    tasks = table.attrs["tasks"]
    measure = "mean" if table["mean"].notna().all() else "rank"
    lower = measure == "rank" or scores.main_tasks[0] in scores.lower_is_better
    left_out = [name for name in _best(table[measure], lower) if name in lost]
    if left_out:
        table = table.drop([name for name in table.index if name in lost])
    best = _best(table[measure], lower)
    found = part.aggregates
    if not (found.empty or left_out or found["iqm"].isna().any()):
        lower = scores.main_tasks[0] in scores.lower_is_better
        measure, best = "interquartile mean", _best(found["iqm"], lower)
    return state(
        "leading",
        methods=best,
        among=len(table),
        measure=measure,
        lower_is_better=lower,
        tasks=tasks,
        lost=left_out,
        test=_test(part, best),
    )


def _best(values: pd.Series[float], lower: bool) -> list[str]:
    """Return the methods with the best value."""
    best = values.min() if lower else values.max()
    return [str(name) for name, value in values.items() if math.isclose(value, best)]


def _test(part: Comparison, best: Sequence[str]) -> dict[str, Any]:
    """Return the numbers of pairs, and of methods that the only best one is better than."""
    scores, outcome = part.scores, part.outcome
    beaten, worse_than = None, []
    if outcome is None:
        pairs = part.pvalues[part.pvalues["task"].isin(scores.main_tasks)]
        how, few = f"{part.test}, {part.level}", ""
    else:
        pairs, how, few = outcome.pairs, outcome.how, outcome.lacking
        if scores.control is None and len(best) == 1:
            beaten = int((pairs["better"] == best[0]).sum())
            worse_than = [better for better, worse in winners(pairs) if worse == best[0]]
    won = winners(pairs)
    return {
        "of": "tasks" if outcome is None else "methods",
        "how": how,
        "significant": len(won),
        "pairs": len(pairs),
        "lacking": few,
        "control": scores.control,
        "beaten": beaten,
        "others": len({*pairs["a"], *pairs["b"]}) - 1 if len(pairs) else 0,
        "only": won[0] if len(pairs) == len(won) == 1 else None,
        "worse_than": worse_than,
    }


# ---- The short answer ----


def findings(part: Comparison) -> Iterator[Statement]:
    """Yield statements on the tests over tasks, on averages and on single tasks."""
    scores, over_tasks = part.scores, part.over_tasks
    if part.results is not None:
        yield from tested_among(part)
        if part.learning_times is not None:
            yield from time_statements(part.learning_times, part.results.suite)
    if over_tasks is not None:
        better = winners(over_tasks.pairs)
        yield state(
            "over_tasks",
            test=over_tasks.procedure.title,
            tasks=len(over_tasks.tasks),
            alpha=scores.alpha,
            better=better,
            others=len(over_tasks.pairs) - len(better),
            lacking=lacking(over_tasks.result, over_tasks.units, scores),
            control=scores.control,
        )
    if not part.tests:
        if over_tasks is None or not over_tasks.generalizes:
            yield _no_test(scores, over_tasks=over_tasks is not None)
        return
    limits = [*cautions(part)]
    yield from limits
    if "too_few_seeds" not in {limit.kind for limit in limits}:
        on_average = part.pvalues["task"].isin(scores.averages)
        yield from _single_tasks(part.pvalues[~on_average], scores)


def brief(part: Comparison) -> list[Statement]:
    """Return the short answer without single tasks, if a test over tasks summarizes them."""
    if part.over_tasks is None or part.outcome is None or not part.tests:
        return part.findings
    kept = {"tested_among", "too_few_seeds", "no_test", "times_to_target", "faster_to_target"}
    pairs = part.over_tasks.pairs
    # The headline has the outcome for a single pair, or if there is no significant one.
    if part.verdicts is not None or (len(pairs) > 1 and pairs["better"].notna().any()):
        kept.add("over_tasks")
    return [finding for finding in part.findings if finding.kind in kept]


def progress(runs: pd.DataFrame) -> Iterator[Statement]:
    """Yield the numbers of done, failed and missing runs of an unfinished suite.

    Args:
        runs: All runs of the suite, from `all_runs`.
    """
    counts = runs["status"].value_counts()
    done, failed, missing = (int(counts.get(x, 0)) for x in ("done", "failed", "not done"))
    if done == len(runs):
        return
    diverged = int(runs["diverged"].sum())
    yield state(
        "progress", done=done, total=len(runs), failed=failed - diverged, diverged=diverged,
        missing=missing,
    )  # fmt: skip


def tested_among(part: Comparison) -> Iterator[Statement]:
    """Yield a statement if tests leave out methods without runs: p would be larger with all."""
    scores, sizes = part.scores, [len(test.samples) for test in part.tests.values()]
    suite = [] if part.results is None else part.results.suite.methods()
    declared = len({*scores.methods, *(str(method.name) for method in suite)})
    if not sizes or min(sizes) == declared:
        return
    yield state("tested_among", fewest=min(sizes), most=max(sizes), declared=declared)


def _no_test(scores: Scores, *, over_tasks: bool) -> Statement:
    finished = {*scores.table["method"]}
    reasons = {
        "no results": not finished,
        "one finished": len(finished) < 2,
        "no control": scores.control is not None and scores.control not in finished,
        "unpaired": scores.paired or scores.procedure.paired,
        "too few": True,
    }
    reason = next(name for name, holds in reasons.items() if holds)
    values = {"control": scores.control, "replicate": scores.replicate, "over_tasks": over_tasks}
    return state("no_test", reason=reason, **values)


def _single_tasks(pvalues: pd.DataFrame, scores: Scores) -> Iterator[Statement]:
    """Yield the significant pairs on single tasks, and those without a significant task."""
    common = {"all_tasks": len(scores.single_tasks)}
    pairs = dict(iter(pvalues.groupby(["a", "b"], sort=False)))
    decided = [pair for pair, rows in pairs.items() if rows["significant"].any()]
    tested = [*pvalues["task"].unique()]
    if len(decided) > _MOST_PAIRS:
        yield state(
            "pairs_counted", significant=len(decided), pairs=len(pairs), tasks=tested, **common
        )
        return
    yield from (_pair(pairs[pair], scores, common) for pair in decided)
    others = [pair for pair in pairs if pair not in decided]
    if others:
        rows = pd.concat([pairs[pair] for pair in others])
        yield state(
            "no_difference",
            tasks=[*rows["task"].unique()],
            pairs=others if decided else [],
            seeds=_seeds(rows, scores),
            control=scores.control,
            **common,
        )


def _pair(rows: pd.DataFrame, scores: Scores, common: Mapping[str, Any]) -> Statement:
    a, b = rows[["a", "b"]].iloc[0]
    is_better = rows["significant"] & (rows["ahead"] == a)
    better, worse = [*rows["task"][is_better]], [*rows["task"][rows["significant"] & ~is_better]]
    if len(better) < len(worse):
        a, b, better, worse = b, a, worse, better
    undecided = rows[~rows["significant"]]
    return state(
        "pair",
        better=a,
        worse=b,
        alpha=scores.alpha,
        on=better,
        worse_on=worse,
        undecided=len(undecided),
        seeds=_seeds(undecided, scores) if len(undecided) else "",
        **common,
    )


def _seeds(pairs: pd.DataFrame, scores: Scores) -> str:
    return number_of_seeds([*pairs["n_a"], *pairs["n_b"]], scores.replicate)


# ---- The section ----


@register_section("answer")
class Findings(Section):
    """Verdicts on all methods, or their means, with costs, and their differences as a figure."""

    heading = "Short answer"
    notebook = True

    def blocks(self, data: ReportData) -> Sequence[Block]:
        """Return the headlines, tables and figures, and the folded verdicts by task."""
        incomplete = [*data.progress]
        for family, part in data.comparisons.items() if data.results is not None else ():
            incomplete += [statement.of(family) for statement in tested_among(part)]
        parts = data.comparisons.values()
        return blocks(
            "answer.jinja",
            data=data,
            incomplete=incomplete,
            comparisons=data.by_family(_first_screen),
            tables=any(len(part.standings) > 1 or verdict_table(part) for part in parts),
            limits=[*data.caveats, *_limits(data)],
            by_task=[
                block
                for family, part in data.comparisons.items()
                for block in of_family(verdicts_by_task(part), family)
            ],
        )

    def tables(self, data: ReportData) -> Mapping[str, pd.DataFrame]:
        """Return the verdicts of all tasks."""
        return data.joined(
            lambda part: (
                {"verdicts": part.verdicts.table()}
                if part.verdicts is not None and part.verdicts.tasks
                else {}
            )
        )


def _limits(data: ReportData) -> Iterator[Statement]:
    """Yield what limits all headlines: scope, generated data, the sets of the scores, warnings."""
    parts, results = data.comparisons.values(), data.results
    if not data.scores.timed and any(part.tests or part.over_tasks for part in parts):
        yield state(
            "scope",
            one_score=data.scores.seeds == 1,
            replicate=data.scores.replicate,
            generalizes=any(part.over_tasks and part.over_tasks.generalizes for part in parts),
            rows=any("variance" in part.rows for part in parts),
            tables="read as" in data.origin,
        )
    if data.generated_data:
        yield state("note", text=data.generated_data)
    if results is not None and data.scores.timed:
        yield state("untrained", timed=results.suite.timed)
    elif results is not None:
        dev, test = scored_sets(results)
        if dev or test:
            yield state("scored_sets", dev=dev, test=test, tuned=bool(results.suite.sweep))
    number = len(data.warnings) + (0 if results is None else len(data.failures))
    if number:
        yield state("warnings", number=number, runs=results is not None)


def _first_screen(part: Comparison) -> list[Block]:
    """Return headline, caveats, table and figure of a comparison."""
    table, verdicts = verdict_table(part), part.verdicts
    if verdicts is None or table is None:
        return blocks(
            "standings.jinja",
            part=part,
            scores=part.scores,
            table=_standing_table(part),
            figure=_best_figure(part),
            diagram=diagram_of(part) if part.outcome else None,
        )
    tables = [*verdicts.tasks.values(), *([] if verdicts.mean is None else [verdicts.mean])]
    reasons = {reason for table in tables for reason in table["reason"]}
    return blocks(
        "verdicts.jinja",
        part=part,
        scores=part.scores,
        verdicts=verdicts,
        table=table,
        figure=verdict_figure(part, verdicts),
        failed=not reasons <= {"", NOT_VARYING},
        **definitions(part, verdicts),
    )


def _standing_table(part: Comparison) -> Table | None:
    table, scores = part.standings, part.scores
    if len(table) < 2:
        return None
    tasks = len(table.attrs["tasks"])
    columns = [Column("Method", "method")]
    has_means = bool(table["mean"].notna().all())
    if has_means:
        columns.append(Column("Mean", "number", note=unit_of_means(part, tasks)))
    middle = {} if part.aggregates.empty else part.aggregates["iqm"].dropna().to_dict()
    ranked = has_means and part.over_tasks is not None and part.over_tasks.ranks is not None
    if ranked:
        columns.append(Column("Median", "number", note="± MAD"))
    if middle:
        columns.append(Column("IQM", "number"))
    columns.append(Column("Mean rank" if tasks > 1 else "Rank", "number"))
    costs = cost_columns(part)
    digits = scores.digits(scores.main_tasks[0])
    rows = []
    for name, row in by_method(table).items():
        lost = collapsed_note(part.report.collapsed_networks.get(name, 0))
        mean = [Cell(number(row.mean, digits), notes=lost)] if has_means else []
        spread = number(row.mad, digits)
        mean += [Cell(number(row.median, digits), deviation=spread)] if ranked else []
        mean += [Cell(number(middle.get(name), digits))] if middle else []
        rank = f"{row.rank:.2f}" if tasks > 1 else f"{row.rank:g}"
        rows.append(Row([name, *mean, rank, *(show(name) for show in costs.values())]))
    return Table("Table: means and costs", [*columns, *costs], rows, "verdicts")


def _best_figure(part: Comparison) -> dict[str, Any] | None:
    """Return the differences from the best method or the control; None without intervals.

    The intervals of all pairs hold at once, so the best method can be chosen after the runs.
    """
    scores, means = part.scores, part.standings["mean"].dropna()
    best = scores.control
    if best is None and len(means):
        (best, *_) = _best(means, scores.main_tasks[0] in scores.lower_is_better)
    title, pairs, (estimand, assumption) = _compared(part)
    if pairs.empty or best is None:
        return None
    first, second = pairs[pairs["a"] == best], pairs[pairs["b"] == best]
    swapped = _negated(second).assign(a=second["b"], b=second["a"])
    table = pd.concat([first, swapped])
    finite = np.isfinite(table[["low", "high"]].to_numpy(dtype=float))
    picture = differences(
        {title: table}, part.report.styles, name="answer", unit=scores.unit,
        ends=("worse", "better"), positive=POSITIVE,
        digits={title: scores.digits(scores.main_tasks[0])},
    )  # fmt: skip
    if picture is None or not finite.any():
        return None
    return {"picture": picture, "best": best, "estimand": estimand, "assumption": assumption,
            "finite": bool(finite.all())}  # fmt: skip


def _negated(pairs: pd.DataFrame) -> pd.DataFrame:
    return pairs.assign(difference=-pairs["difference"], low=-pairs["high"], high=-pairs["low"])


def _compared(part: Comparison) -> tuple[str, pd.DataFrame, Estimand]:
    """Return a title, the differences of all pairs over the tasks or on the only task, their kind.

    The columns are those of `differences`, positive where b is better.
    """
    scores, over_tasks = part.scores, part.over_tasks
    result = None if over_tasks is None else over_tasks.result
    if over_tasks is not None and isinstance(result, StratifiedResult) and scores.comparable:
        title = f"All {count(len(over_tasks.tasks), 'task')}"
        return title, result.confidence_interval(), result.estimand
    only = scores.main_tasks if len(scores.main_tasks) == 1 else []
    title = next(iter([*scores.averages, *only]), "")
    pairs = part.pvalues[part.pvalues["task"] == title]
    pairs = pairs.rename(columns={"difference_low": "low", "difference_high": "high"})
    if title in scores.lower_is_better:
        pairs = _negated(pairs)
    test = part.tests.get(title)
    known = None if test is None else test.estimand
    return title, pairs, known or Estimand("", "")
