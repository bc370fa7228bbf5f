"""A paragraph for a paper: what was compared, how it was tested, and what was found."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from relation_tf.registry import PROCEDURES, Procedure, register_section
from relation_tf.report.blocks import Block, Section, Sentences, by_method, rows_of
from relation_tf.report.lost_runs import ranks_failed, with_failed
from relation_tf.report.sections.tests import most_important
from relation_tf.report.sections.verdicts import without_learning
from relation_tf.report.text import Statement, state
from relation_tf.stats import (
    FriedmanResult,
    McNemarResult,
    PairwiseResult,
    SignedRankResult,
    StratifiedResult,
)

if TYPE_CHECKING:
    from relation_tf.report.data import Comparison
    from relation_tf.report.sections.tests import OverTasks

_MOST_PAIRS = 6  # with their numbers in a paragraph
_LIMITS = ["difference", "low", "high"]

CITED: Mapping[str, tuple[str, ...]] = {
    "steel-dwass": ("steel1960", "dwass1960", "critchlow1991"),
    "steel": ("steel1959",),
    "brunner-munzel": ("brunner2000", "holm1979"),
    "welch": ("welch1947", "holm1979"),
    "corrected-t": ("nadeau2003", "holm1979"),
    "mcnemar": ("mcnemar1947", "fagerland2013", "holm1979"),
    "stratified-steel-dwass": ("steel1960", "dwass1960", "vanelteren1960"),
    "stratified-steel": ("steel1959", "vanelteren1960"),
    "friedman-nemenyi": ("nemenyi1963", "demsar2006"),
    "friedman-wilcoxon": ("wilcoxon1945", "holm1979", "benavoli2016"),
    "wilcoxon-pairs": ("wilcoxon1945", "holm1979", "benavoli2016"),
    "wilcoxon-holm": ("wilcoxon1945", "holm1979", "benavoli2016"),
}
"""Keys of `templates/references.bib` for each test, also against a control; others have none."""


def citations(procedure: Procedure) -> Sequence[str]:
    """Return the keys of the references of a test."""
    names = (name for name, known in PROCEDURES.items() if known.function is procedure.function)
    cited = CITED.get(next(names, ""), ())
    return [key for key in cited if key != "holm1979" or "Holm" in procedure.title]


def sentences_for_paper(part: Comparison) -> Iterator[Statement]:
    """Yield what a paragraph states: methods, tests, significant pairs, scope and verdicts.

    There are none without a test; only folds and items have tests by task. `found` has the
    significant pairs, at most six: the better and the worse method, p, the effect and the
    difference, each with its interval if it is known.
    """
    outcome, scores = part.outcome, part.scores
    over = part.over_tasks if outcome else None
    tested = part.pvalues if over is None else over.pairs
    if tested.empty or (outcome is None and not scores.paired):
        return
    tests = {task: part.tests[task] for task in scores.main_tasks if task in part.tests}
    result = next(iter(tests.values())) if over is None else over.result
    procedure = scores.procedure if over is None else over.procedure
    pairs, alpha, control = _pairs(part, over), scores.alpha, scores.control
    tasks = scores.main_tasks if over is None else over.tasks
    ranked = with_failed(scores, part.failed, procedure).table
    sizes = ranked[ranked["task"].isin(tasks)].groupby(["task", "method"]).size()
    metrics = {scores.only_metric(task) for task in tasks}
    lower = [task for task in tasks if task in scores.lower_is_better]
    null = getattr(result, "null", None)
    decided = most_important(pairs)
    shown = [_numbers(row) for row in rows_of(decided[:_MOST_PAIRS])]
    in_unit = {"unit": scores.unit, "digits": scores.digits(scores.main_tasks[0])}
    yield state(
        "paper_compared",
        methods=[*dict.fromkeys([*pairs["a"], *pairs["b"]])],
        control=control,
        tasks=tasks,
        seeds=[int(sizes.min()), int(sizes.max())],
        replicate=scores.replicate,
        means=scores.means,
        metric=(metrics - {*tasks}).pop() if len(metrics - {*tasks}) == 1 else "",
        lower=lower,
    )
    yield from part.assumed()
    failed = part.failed[part.failed["task"].isin(scores.main_tasks)]
    for is_ranked, rows in failed.groupby(failed["ranked"] & ranks_failed(procedure)):
        lost = rows.groupby("method", sort=False)
        runs = {str(x): (own["run"].nunique(), [*own["task"].unique()]) for x, own in lost}
        left_out = [] if over is None else [x for x in over.left_out if x in {*rows["task"]}]
        yield state("paper_failed", runs=runs, ranked=bool(is_ranked), left_out=left_out)
    if isinstance(result, FriedmanResult):
        yield state("paper_friedman", **_friedman(result), alpha=alpha)
    yield state(
        "paper_test",
        test=procedure.title,
        cite=[*citations(procedure)],
        by_task=len(tests) if outcome is None else 0,
        control=control,
        shares=sorted({x.ratio / (1 + x.ratio) for x in tests.values() if hasattr(x, "ratio")}),
        units=over is not None and over.depends_on_units,
        pvalues=getattr(null, "method", ""),
        drawn=getattr(null, "permutations", None),
        alpha=alpha,
    )
    for task, test in tests.items() if over is None else ():
        if isinstance(test, McNemarResult) and test.higher_is_better:
            yield state(
                "paper_items",
                task=task if len(tests) > 1 else "",
                accuracies={str(name): float(np.nanmean(x)) for name, x in test.samples.items()},
                counts=test.discordant()[:_MOST_PAIRS].to_dict("records"),
                alpha=alpha,
            )
    if shown:
        effect, estimand = _effect(result), getattr(result, "estimand", None)
        names = {"effect": effect, "difference": getattr(estimand, "name", "difference")}
        yield state("paper_found", found=shown, **names, lower=bool(lower), alpha=alpha, **in_unit)
    if any(0 in (pair["difference"] or ())[1:] for pair in shown):
        yield state("paper_ties")
    if len(pairs) > len(shown):
        yield state(
            "paper_others",
            significant=len(decided),
            others=len(pairs) - len(decided),
            more=len(decided) - len(shown),
            pvalue=float(pairs["pvalue"].min()),
            lacking=outcome.lacking if outcome else "",
            attainable=float(getattr(result, "attainable_pvalue", 0.0)),
            alpha=alpha,
        )
    if not part.aggregates.empty:
        middle = part.aggregates[["iqm", "iqm_low", "iqm_high"]].dropna()
        methods = {str(name): row.tolist() for name, row in middle.iterrows()}
        if methods:
            yield state("paper_aggregates", methods=methods, cite=["agarwal2021"], **in_unit)
    if over is not None:
        yield state("paper_scope", over="datasets" if over.generalizes else "tasks")
    else:
        yield state("paper_scope", over=scores.replicate)
    verdicts = part.verdicts
    if verdicts is not None and verdicts.mean is not None:
        yield state(
            "paper_verdicts",
            reference=verdicts.reference,
            tasks=len(verdicts.averaged),
            margin=float(verdicts.mean["margin"].iloc[0]),
            methods={
                name: [row.verdict, *map(float, (row.difference, row.low, row.high)), row.reason]
                for name, row in by_method(verdicts.mean).items()
            },
            alpha=alpha,
            **in_unit,
        )
        yield from without_learning(part, verdicts)


def magnitude(delta: float) -> str:
    """Return Cliff's delta, or a correlation of ranks, in words: the thresholds of Romano et al.

    Example:
        >>> [magnitude(delta) for delta in (-0.1, 0.2, 0.4, -0.6)]
        ['negligible', 'small', 'medium', 'large']

    References:
        J. Romano, J. D. Kromrey, J. Coraggio, J. Skowronek (2006), Appropriate statistics for
        ordinal level data, Annual meeting of the Florida Association of Institutional Research.
    """
    return ("negligible", "small", "medium", "large")[bisect((0.147, 0.33, 0.474), abs(delta))]


def _pairs(part: Comparison, over: OverTasks | None) -> pd.DataFrame:
    """Return the pairs with effects and differences, positive if the second method is better."""
    if over is None:
        signed = ["effect_size", "effect_low", "effect_high", *_LIMITS]
        pairs = part.pvalues.rename(columns={"difference_low": "low", "difference_high": "high"})
        pairs = pairs[pairs["task"].isin(part.scores.main_tasks)].copy()
        pairs.loc[~pairs["higher_is_better"], signed] *= -1
        return pairs if len(part.scores.main_tasks) > 1 else pairs.assign(task="")
    pairs = over.pairs.assign(task="")
    pairs[_LIMITS] = float("nan")
    if isinstance(over.result, StratifiedResult) and part.scores.comparable:
        pairs[_LIMITS] = over.result.confidence_interval()[_LIMITS].to_numpy(dtype=float)
    return pairs


def _numbers(pair: Any) -> dict[str, Any]:
    """Return the numbers of a significant pair, positive for the better method."""
    sign = 1 if pair.better == pair.b else -1

    def turned(value: float, low: float, high: float) -> list[float] | None:
        if value != value:
            return None
        ends = sorted([sign * low, sign * high]) if low == low else []
        return [sign * value, *ends]

    return {
        "task": pair.task,
        "better": pair.better,
        "worse": pair.a if pair.better == pair.b else pair.b,
        "pvalue": float(pair.pvalue),
        "effect": turned(pair.effect_size, pair.effect_low, pair.effect_high),
        "magnitude": "" if pair.effect_size != pair.effect_size else magnitude(pair.effect_size),
        "difference": turned(pair.difference, pair.low, pair.high),
    }


def _friedman(result: FriedmanResult) -> dict[str, float]:
    freedom = result.ranks.shape[1] - 1
    return {
        "statistic": result.statistic,
        "freedom": freedom,
        "pvalue": result.friedman_pvalue,
        "exact": result.exact,
        "f": result.f_statistic,
        "f_freedom": freedom * (len(result.ranks) - 1),
        "f_pvalue": result.f_pvalue,
    }


def _effect(result: Any) -> str:
    """Return the name of the effect size."""
    signed_ranks = getattr(result, "signed_ranks", None)
    if isinstance(result, SignedRankResult) or signed_ranks is not None:
        return "matched-pairs rank-biserial correlation"
    if isinstance(result, StratifiedResult):
        return "mean Cliff's delta"
    return "Cliff's delta" if isinstance(result, PairwiseResult) else ""


@register_section("paper")
class ForPaper(Section):
    """The paragraph, in words."""

    heading = "Paragraph for a paper"
    by_family = True
    open = True

    def blocks(self, part: Comparison) -> Sequence[Block]:
        """Return the paragraph."""
        said = [*sentences_for_paper(part)]
        return [Sentences(said)] if said else []
