"""Which diagnostic tasks and test sets a method learns."""

from __future__ import annotations

from functools import cache

from relation_tf.report.scores import Scores
from relation_tf.tasks.diagnostics import Diagnostic, make, task_of

NEEDED = 0.5
"""Share of the distance from a simple rule to a perfect score that verdicts need."""


@cache
def diagnostic_of(name: str) -> str | None:
    """Return the diagnostic task of a test set.

    Example:
        >>> diagnostic_of("needle-64-depth0"), diagnostic_of("CoLA")
        ('needle-64', None)
    """
    task = task_of(name)
    return None if task is None else task.name


@cache
def chance_of(name: str) -> float:
    """Return the share of the most frequent label of a diagnostic test set.

    Example:
        >>> round(chance_of("parity"), 2)
        0.51
    """
    task = known_diagnostic(name)
    return make(task.name).chance(task.scored[name])


@cache
def rule_of(name: str) -> float:
    """Return the score of the best simple rule on a diagnostic test set.

    Test sets of one depth have the rule of the task: a token directly before its query is in the
    window.

    Example:
        >>> round(rule_of("mqar-32-2-v32"), 2)
        0.53
    """
    task = known_diagnostic(name)
    split = task.scored[name]
    return task.best_rule(make(task.name), "test" if "depth" in split else split)


def known_diagnostic(name: str) -> Diagnostic:
    """Return the diagnostic task of a test set.

    Raises:
        ValueError: If there is none.
    """
    task = task_of(name)
    if task is None:
        raise ValueError(f"name must be a test set of a diagnostic task. Received: {name!r}")
    return task


def share_of(score: float, name: str) -> float:
    """Return a score in [0, 1] as a share of the distance from a simple rule to a perfect score.

    Example:
        >>> share_of(1.0, "parity")
        1.0
    """
    rule = rule_of(name)
    return (score - rule) / (1 - rule)


def perfect_score(scores: Scores) -> float:
    """Return the largest possible score of a test set: 1, or 100 in a table of points."""
    tasks = scores.table["task"]
    values = scores.table["score"][
        tasks.map(diagnostic_of).notna() & ~tasks.isin(scores.lower_is_better)
    ]
    return 100.0 if values.max() > 1 else 1.0


def not_learned(scores: Scores, method: str) -> list[str]:
    """Return the diagnostic test sets of which a method does not reach the `NEEDED` share."""
    rows = scores.table[scores.table["method"] == method]
    means = rows.groupby("task", observed=True)["score"].mean()
    perfect = perfect_score(scores)
    return [
        name
        for name in scores.single_tasks
        if name in means
        and diagnostic_of(name)
        and name not in scores.lower_is_better  # a user's table of the same name
        and share_of(means[name] / perfect, name) < NEEDED
    ]
