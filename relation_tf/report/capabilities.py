"""Capabilities of methods: scores on diagnostic tasks between a simple rule and a perfect score."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from relation_tf.report.comparisons import rows_of
from relation_tf.report.learned import (
    NEEDED,
    chance_of,
    diagnostic_of,
    known_diagnostic,
    perfect_score,
    rule_of,
    share_of,
)
from relation_tf.report.scores import Scores
from relation_tf.report.text import Statement, state
from relation_tf.report.verdicts import FAVORABLE, NOT_VARYING, Verdicts, by_method

SOLVED, AT_RULE = 0.95, 0.10
"""Share of the distance from a simple rule to a perfect score: at least, and at most."""


LEVELS = (
    "Share of the distance from the best simple rule (the most frequent label; an answer from the "
    "position, from the last four tokens or with a value in the text) to a perfect score: "
    f"solved, at least {SOLVED:.0%}; no better than the rule, at most {AT_RULE:.0%}; succeeds, at "
    f"least {NEEDED:.0%}."
).replace("%", " %")
"""Meaning of the levels."""


@dataclass(frozen=True)
class Capabilities:
    """Scores of methods on diagnostic tasks.

    Attributes:
        table: A row per task and method, with the columns `task`, `method`, `score` (mean over
            seeds, in points), `chance` and `rule` (scores of the most frequent label and of the
            best simple rule, in points), `share` (0 for that rule, 1 for a perfect score), `level`
            ("solved", "partly" or "rule"), `verdict` against the reference and its `reason`, which
            are empty without one, `same` (True if all seeds of both have one score), and
            `state_kib`, the size of the state (NaN if unknown).
        further: The same for additional test sets, with `of` (the task) and `suffix` (such as
            "2x").
        reference: The method that the others are judged against, or None.
        not_learned: Tasks that the reference does not learn; they have no verdicts.
    """

    table: pd.DataFrame
    further: pd.DataFrame
    reference: str | None
    not_learned: Sequence[str] = ()

    @property
    def tasks(self) -> list[str]:
        """The tasks, in order."""
        return [*dict.fromkeys(self.table["task"])]

    @property
    def methods(self) -> list[str]:
        """The methods, in order."""
        return [*dict.fromkeys(self.table["method"])]

    def of(self, method: str) -> pd.DataFrame:
        """Return the rows of a method."""
        return self.table[self.table["method"] == method]

    def describe(self, method: str) -> Statement:
        """Return a statement on what a method can do."""
        own = self.of(method)
        levels = {x: [*own.loc[own["level"] == x, "task"]] for x in ("solved", "partly", "rule")}
        judged = own[~own["task"].isin(self.not_learned)]
        constant = judged["reason"] == NOT_VARYING
        kinds = {
            "good": judged["verdict"].isin(FAVORABLE),
            "worse": judged["verdict"] == "worse",
            "inconclusive": judged["verdict"].eq("inconclusive") & ~constant,
            "constant": judged["verdict"].eq("inconclusive") & constant,
        }
        compared = self.reference is not None and method != self.reference
        return state(
            "capability",
            method=method,
            levels={level: tasks for level, tasks in levels.items() if tasks},
            reference=self.reference,
            not_learned=[task for task in self.not_learned if task in {*own["task"]}],
            same=[*judged.loc[judged["same"], "task"]] if compared else [],
            verdicts={
                kind: [*judged.loc[chosen & ~judged["same"], "task"]]
                for kind, chosen in kinds.items()
                if compared
            },
            limits=self._limits(own),
        )

    def _limits(self, own: pd.DataFrame) -> list[tuple[str, str, list[int], list[int]]]:
        """Return ability, noun, and the sizes that succeed and fail, for tasks of several sizes."""
        series: dict[tuple[str, str], dict[int, float]] = {}
        for row in rows_of(own):
            diagnostic = known_diagnostic(row.task)
            if diagnostic.amount is not None:
                noun, number = diagnostic.amount
                smallest = series.setdefault((diagnostic.isolates.partition(":")[0], noun), {})
                smallest[number] = min(row.share, smallest.get(number, math.inf))
        return [
            (
                ability,
                noun,
                sorted(number for number, share in values.items() if share >= NEEDED),
                sorted(number for number, share in values.items() if share < NEEDED),
            )
            for (ability, noun), values in series.items()
            if len(values) > 1
        ]


def capabilities(
    scores: Scores, verdicts: Verdicts | None, runs: pd.DataFrame | None = None
) -> Capabilities | None:
    """Return the capabilities of all methods; None without diagnostic tasks.

    Args:
        scores: The scores.
        verdicts: Verdicts against a reference, if there is one.
        runs: Result of `all_runs`, for the size of the state.
    """
    states = _states(runs)
    reference = None if verdicts is None else verdicts.reference
    means = scores.table.groupby(["task", "method"], sort=False, observed=True)["score"].mean()
    perfect = perfect_score(scores)
    rows, further = [], []
    for name in scores.own_tasks:
        task = diagnostic_of(name)
        if task is None or name in scores.lower_is_better:  # a user's table of the same name
            continue
        judged = {} if verdicts is None else by_method(verdicts.tasks.get(name, pd.DataFrame()))
        for method in scores.methods:
            if (name, method) not in means:
                continue
            score = float(means[name, method]) / perfect
            share = share_of(score, name)
            row = {
                "task": name, "method": method, "score": 100 * score,
                "chance": 100 * chance_of(name), "rule": 100 * rule_of(name), "share": share,
                "level": "solved" if share >= SOLVED
                else "rule" if share <= AT_RULE else "partly",
                "verdict": str(judged[method].verdict) if method in judged else "",
                "reason": str(judged[method].reason) if method in judged else "",
                "same": reference is not None and _same(scores, name, method, reference),
                "state_kib": states.get((task, method), math.nan),
            }  # fmt: skip
            if name == task:
                rows.append(row)
            else:
                further.append({"of": task, "suffix": name.removeprefix(f"{task}-"), **row})
    if not rows:
        return None
    table, others = pd.DataFrame(rows), pd.DataFrame(further)
    if verdicts is None:
        return Capabilities(table, others, None)
    tasks = {row["task"] for row in rows}
    unlearned = [name for name in verdicts.not_learned if name in tasks]
    return Capabilities(table, others, verdicts.reference, unlearned)


def _same(scores: Scores, task: str, method: str, reference: str) -> bool:
    """Return True if all seeds of two methods have one score."""
    table = scores.table
    own = table[(table["task"] == task) & table["method"].isin((method, reference))]
    return own["method"].nunique() == 2 and own["score"].nunique() == 1


def _states(runs: pd.DataFrame | None) -> dict[Any, float]:
    """Return the size of the state in KiB, by task and method, where it is known."""
    if runs is None or "state_mib" not in runs.columns:
        return {}
    return (1024 * runs.groupby(["task", "method"], observed=True)["state_mib"].max()).to_dict()


def describe(scores: Scores, verdicts: Verdicts | None, method: str) -> str:
    """Return sentences on what a method can do on the diagnostic tasks; empty without any."""
    found = capabilities(scores, verdicts)
    return "" if found is None else str(found.describe(method)).removeprefix(f"{method}: ")
