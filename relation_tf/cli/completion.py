"""Tab completion of names: suites, tasks, methods and mechanisms."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import typer

from relation_tf.errors import RelationError


def complete_suite(incomplete: str) -> list[str]:
    """Return the suites and TOML files that begin with a text."""
    from relation_tf.config import list_suites

    return _beginning([*list_suites(), *map(str, Path().glob("*.toml"))], incomplete)


def complete_task(incomplete: str) -> list[str]:
    """Return the tasks that begin with a text."""
    from relation_tf.registry import TASKS

    return _beginning(TASKS, incomplete)


def complete_mechanism(incomplete: str) -> list[str]:
    """Return the mechanisms that begin with a text."""
    from relation_tf.registry import MECHANISMS

    return _beginning(MECHANISMS, incomplete)


def complete_tasks(context: typer.Context, incomplete: str) -> list[str]:
    """Return lists of tasks of the suite, separated by commas, that begin with a text."""
    return _lists(context, incomplete, "tasks")


def complete_methods(context: typer.Context, incomplete: str) -> list[str]:
    """Return lists of methods and mechanisms of the suite, with commas, that begin with a text."""
    return _lists(context, incomplete, "methods")


COMPLETED: dict[str, Callable[..., list[str]]] = {
    "tasks": complete_tasks,
    "methods": complete_methods,
}
"""Completion of options, by the name of their field."""


def _lists(context: typer.Context, incomplete: str, kind: str) -> list[str]:
    from relation_tf.config import load_suite

    # The option has no value yet, so that the suite is not parsed.
    given = [context.params["suite"], *context.args]
    before, comma, last = incomplete.rpartition(",")
    with suppress(RelationError):  # the command itself reports a wrong suite
        suite = load_suite(next(filter(None, given), ""))
        mechanisms = dict.fromkeys(each.mechanism for each in suite.method)
        methods = [*mechanisms, *(str(each.name) for each in suite.methods())]
        names = suite.tasks if kind == "tasks" else methods
        left = [name for name in names if name not in before.split(",")]
        return [f"{before}{comma}{name}" for name in _beginning(left, last)]
    return []


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.lower().startswith(incomplete.lower())]
