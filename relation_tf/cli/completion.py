"""Tab completion of names: suites, tasks, methods, mechanisms, settings and tests."""

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


def complete_setting(incomplete: str) -> list[str]:
    """Return the keys of suites, each with =, that begin with a text."""
    from relation_tf.config import Suite

    keys = (f"{key}=" for key in Suite.model_fields if key not in _NOT_SET)
    return _beginning(keys, incomplete)


def complete_test(incomplete: str) -> list[str]:
    """Return the tests of a single task that begin with a text."""
    return _tests(incomplete, over_tasks=False)


def complete_test_over_tasks(incomplete: str) -> list[str]:
    """Return the tests over tasks that begin with a text."""
    return _tests(incomplete, over_tasks=True)


COMPLETED: dict[str, Callable[..., list[str]]] = {
    "tasks": complete_tasks,
    "methods": complete_methods,
    "settings": complete_setting,
    "test": complete_test,
    "test_over_tasks": complete_test_over_tasks,
}
"""Completion of options, by the name of their field."""


_NOT_SET = {"name", "title", "question", "task", "group", "method", "published", "layout"}
"""Keys that describe a suite or are tables."""


def _tests(incomplete: str, *, over_tasks: bool) -> list[str]:
    from relation_tf.registry import PROCEDURES

    names = [
        name
        for name, procedure in PROCEDURES.items()
        if (procedure.compares == "over-tasks") == over_tasks
    ]
    return _beginning(names, incomplete)


def _lists(context: typer.Context, incomplete: str, kind: str) -> list[str]:
    from relation_tf.config import load_suite

    # The option has no value yet, so that the suite is not parsed. `diagnose` has no such argument.
    given = [context.params.get("suite", "diagnostics-small"), *context.args]
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
