"""A paragraph for a paper: what was compared, how it was tested, and what was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from relation_tf.registry import PROCEDURES, Procedure, register_section
from relation_tf.report.blocks import Block, Section, blocks, by_method, rows_of
from relation_tf.report.sections.tests import winners
from relation_tf.stats import FriedmanResult, PairwiseResult, SignedRankResult, StratifiedResult

if TYPE_CHECKING:
    from relation_tf.report.data import Comparison

_MOST_PAIRS = 6  # with their numbers in a paragraph

CITED: Mapping[str, tuple[str, ...]] = {
    "steel-dwass": ("steel1960", "dwass1960", "critchlow1991"),
    "steel": ("steel1959",),
    "brunner-munzel": ("brunner2000", "holm1979"),
    "brunner-munzel-control": ("brunner2000", "holm1979"),
    "welch": ("welch1947", "holm1979"),
    "welch-control": ("welch1947", "holm1979"),
    "corrected-t": ("nadeau2003", "holm1979"),
    "corrected-t-control": ("nadeau2003", "holm1979"),
    "mcnemar": ("mcnemar1947", "fagerland2013", "holm1979"),
    "mcnemar-control": ("mcnemar1947", "fagerland2013", "holm1979"),
    "stratified-steel-dwass": ("steel1960", "dwass1960", "vanelteren1960"),
    "stratified-steel": ("steel1959", "vanelteren1960"),
    "friedman-nemenyi": ("friedman1937", "iman1980", "nemenyi1963", "demsar2006"),
    "friedman-wilcoxon": (
        "friedman1937", "iman1980", "wilcoxon1945", "holm1979", "benavoli2016",
    ),
    "wilcoxon-pairs": ("wilcoxon1945", "holm1979", "benavoli2016"),
    "wilcoxon-holm": ("wilcoxon1945", "holm1979", "benavoli2016"),
}  # fmt: skip
"""Keys of `templates/references.bib` for each test; others have none."""


def citations(procedure: Procedure) -> Sequence[str]:
    """Return the keys of the references of a test."""
    names = [name for name in CITED if PROCEDURES[name] is procedure]
    return CITED[names[0]] if names else ()


def facts_for_paper(part: Comparison) -> dict[str, Any] | None:
    """Return what a paragraph states, as data; None without a test.

    Returns:
        `methods`, `tasks`, `seeds` (fewest and most), `test`, `cite` (keys), `over` ("tasks",
        "datasets" or "task"), `alpha`, `pvalues` ("exact", "monte-carlo" or empty) with their
        number `drawn`, `control`, `friedman` (χ², degrees of freedom, p, F, p), `found` (better,
        worse, p, effect with its interval, difference with its interval; None if unknown),
        `significant`, `others` (numbers of pairs), `attainable` (smallest p), `lacking`, `effect`
        (name), `unit`, and `verdicts` against a reference.
    """
    outcome, scores, over = part.outcome, part.scores, part.over_tasks
    if outcome is None or outcome.pairs.empty:
        return None
    result = part.tests[scores.main_tasks[0]] if over is None else over.result
    pairs = _pairs(part, result)
    won = winners(pairs)
    sizes = scores.table.groupby(["task", "method"]).size()
    null = getattr(result, "null", None)
    return {
        "methods": [*dict.fromkeys([*pairs["a"], *pairs["b"]])],
        "tasks": scores.main_tasks if over is None else over.tasks,
        "seeds": [int(sizes.min()), int(sizes.max())],
        "test": outcome.procedure.title,
        "cite": [*citations(outcome.procedure)],
        "over": "task" if over is None else "datasets" if over.generalizes else "tasks",
        "alpha": scores.alpha,
        "pvalues": getattr(null, "method", ""),
        "drawn": getattr(null, "permutations", None),
        "control": scores.control,
        "friedman": _friedman(result),
        "found": [_numbers(row) for row in rows_of(pairs[pairs["better"].notna()])][:_MOST_PAIRS],
        "significant": len(won),
        "others": len(pairs) - len(won),
        "attainable": float(getattr(result, "attainable_pvalue", 0.0)),
        "lacking": outcome.lacking,
        "effect": _effect(result),
        "unit": scores.unit,
        "verdicts": _verdicts(part),
    }


def _pairs(part: Comparison, result: Any) -> pd.DataFrame:
    """Return the pairs with their effects and differences, with intervals where they are known."""
    if part.over_tasks is None:
        pairs = part.pvalues.rename(columns={"difference_low": "low", "difference_high": "high"})
        return pairs[pairs["task"] == part.scores.main_tasks[0]]
    pairs = part.over_tasks.pairs.copy()
    limits = ["difference", "low", "high"]
    pairs[limits] = float("nan")
    if isinstance(result, StratifiedResult) and part.scores.comparable:
        pairs[limits] = result.confidence_interval()[limits].to_numpy(dtype=float)
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
        "better": pair.better,
        "worse": pair.a if pair.better == pair.b else pair.b,
        "pvalue": float(pair.pvalue),
        "effect": turned(pair.effect_size, pair.effect_low, pair.effect_high),
        "difference": turned(pair.difference, pair.low, pair.high),
    }


def _friedman(result: Any) -> dict[str, float] | None:
    if not isinstance(result, FriedmanResult):
        return None
    freedom = result.ranks.shape[1] - 1
    return {
        "statistic": result.statistic,
        "freedom": freedom,
        "pvalue": result.friedman_pvalue,
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


def _verdicts(part: Comparison) -> dict[str, Any] | None:
    """Return the verdicts on the mean against the reference."""
    verdicts = part.verdicts
    if verdicts is None or verdicts.mean is None:
        return None
    return {
        "reference": verdicts.reference,
        "tasks": len(verdicts.averaged),
        "margin": float(verdicts.mean["margin"].iloc[0]),
        "methods": {
            name: [str(row.verdict), float(row.difference), float(row.low), float(row.high)]
            for name, row in by_method(verdicts.mean).items()
        },
    }


@register_section("paper")
class ForPaper(Section):
    """The paragraph, in words."""

    heading = "For the paper"
    by_family = True

    def blocks(self, part: Comparison) -> Sequence[Block]:
        """Return the paragraph."""
        facts = facts_for_paper(part)
        return [] if facts is None else blocks("paper.jinja", **facts)
