"""Test of all tasks together."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from relation_tf.registry import Procedure
from relation_tf.report.comparisons import check_level, values_of_pairs
from relation_tf.report.scores import Scores
from relation_tf.stats import FriedmanNemenyiResult, SignedRankResult
from relation_tf.stats.comparisons import name_pairs

_COLUMNS = ["a", "b", "statistic", "pvalue", "effect_size", "effect_low", "effect_high",
            "significant", "better"]  # fmt: skip


@dataclass(frozen=True)
class OverTasks:
    """Test over tasks.

    Attributes:
        procedure: The test.
        result: Its result.
        pairs: A row per pair with `a`, `b`, `statistic`, `pvalue`, `effect_size` with its interval
            from `effect_low` to `effect_high` (NaN if unknown), `significant`, and `better` (the
            better method of a significant pair, else None).
        tasks: The tasks; those scored from one network are one task.
        left_out: Tasks without scores of all methods.
        notes: Remarks on scores and p.
    """

    procedure: Procedure
    result: Any
    pairs: pd.DataFrame
    tasks: list[str]
    left_out: list[str]
    notes: list[str]

    @property
    def generalizes(self) -> bool:
        """If True, the result is also about similar tasks: the test uses one mean of each task."""
        return isinstance(self.result, FriedmanNemenyiResult | SignedRankResult)

    @property
    def ranks(self) -> pd.DataFrame | None:
        """Ranks of the methods on each task, for Friedman's and Nemenyi's tests."""
        return self.result.ranks if isinstance(self.result, FriedmanNemenyiResult) else None


def over_tasks(scores: Scores) -> OverTasks | None:
    """Test the tasks that all methods with scores have.

    Tasks scored from one network count once, with their mean per seed. None for fewer than two such
    tasks or too few methods for the test, or without scores of the control.
    """
    procedure = scores.procedure_over_tasks
    networks, common = scores.by_network, scores.common
    methods = [*next(iter(common.values()), ())]
    without_control = procedure.against_control and scores.control not in methods
    if len(common) < 2 or len(methods) < procedure.least_methods or without_control:
        return None
    samples: dict[Any, Any] = {
        task: {
            name: np.multiply(-1 if scores.lower_is_better_on(task) else 1, own[name])
            for name in methods
        }
        for task, own in common.items()
    }
    options: dict[str, Any] = {"alpha": scores.alpha}
    options |= {"control": scores.control} if procedure.needs_control else {}
    if "higher_is_better" in inspect.signature(procedure.function).parameters:
        options["higher_is_better"] = True  # the samples are turned
    found = procedure.function(samples, **options)
    check_level("test_over_tasks", found, scores)
    pairs = (
        found.pairs()
        if hasattr(found, "pairs")
        else _adapt(found, samples, scores.alpha, options.get("control"))
    )
    if "statistic" not in pairs:
        pairs["statistic"] = pairs["rank_a"] - pairs["rank_b"]
    if hasattr(found, "effect_sizes") and not isinstance(found, SignedRankResult):
        intervals = found.effect_sizes()
        pairs["effect_low"], pairs["effect_high"] = intervals["low"], intervals["high"]
    return OverTasks(
        procedure=procedure,
        result=found,
        pairs=pairs.reindex(columns=_COLUMNS),
        tasks=[*common],
        left_out=[task for task in networks if task not in common],
        notes=[*_notes(found, scores)],
    )


def lacks_methods(scores: Scores) -> bool:
    """Return True if only the number of methods prevents the test over tasks."""
    common = scores.common
    methods = [*next(iter(common.values()), ())]
    return len(common) >= 2 and 2 <= len(methods) < scores.procedure_over_tasks.least_methods


def _notes(found: Any, scores: Scores) -> Iterator[str]:
    """Yield the remarks of the result, and one on units that it cannot know."""
    own = [*getattr(found, "notes", ())]
    yield from own
    told = scores.alike or any("depend on the units" in note for note in own)
    if isinstance(found, SignedRankResult) and not told:
        yield (
            "The tasks have different units or directions, so the ranks of differences depend on "
            "the units"
        )


def _adapt(
    found: Any, samples: dict[Any, dict[str, Any]], alpha: float, control: str | None
) -> pd.DataFrame:
    """Return the pairs of another library's result with `pvalue` and, if present, `statistic`.

    The better method of a significant pair is the one with the higher average rank of its means; it
    gives the statistic its sign.
    """
    means = pd.DataFrame(
        {task: {name: np.mean(x) for name, x in own.items()} for task, own in samples.items()}
    )
    ranks = means.rank().mean(axis=1)
    names = [*ranks.index]
    if control is not None:
        names = [control, *(name for name in names if name != control)]
    pairs = name_pairs(names, control is not None)
    unknown = np.full(len(pairs), np.nan)
    pairs["pvalue"] = values_of_pairs(found.pvalue, len(names))
    pairs["significant"] = pairs["pvalue"] < alpha
    apart = pairs["b"].map(ranks) - pairs["a"].map(ranks)
    statistic = values_of_pairs(getattr(found, "statistic", unknown), len(names))
    pairs["statistic"] = np.sign(apart) * np.abs(statistic)
    higher = np.where(apart > 0, pairs["b"], pairs["a"])
    pairs["better"] = pd.Series(higher, dtype=object).where(pairs["significant"], None)
    return pairs
