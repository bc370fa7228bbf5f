"""Tab completion of names: suites, tasks, methods, run folders, settings and registered parts.

A completion receives the beginning of a word and returns the words that it can become. None of them
loads Keras, nor the plugins of a suite or a folder: Tab runs no code that others have written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import typer

from relation_tf.errors import RelationError
from relation_tf.registry import EXECUTORS, MECHANISMS, PROCEDURES, TASKS, TRACKERS

Completion = Callable[..., list[str]]


def complete_one_of(names: Iterable[str]) -> Completion:
    """Return the completion of one of these names; a registry is read at the first Tab."""

    def complete(incomplete: str) -> list[str]:
        return _beginning(names, incomplete)

    return complete


def complete_some_of(names: Iterable[str]) -> Completion:
    """Return the completion of a list of these names, separated by commas."""

    def complete(incomplete: str) -> list[str]:
        return _continued(names, incomplete)

    return complete


def complete_folder_with(file: str) -> Completion:
    """Return the completion of the folders with a file, also of those in `runs`."""

    def complete(incomplete: str) -> list[str]:
        here = Path(incomplete + "_").parent
        found = [*here.glob(f"*/{file}"), *Path("runs").glob(f"*/{file}")]
        return _beginning(sorted({str(path.parent) for path in found}), incomplete)

    return complete


def complete_in_suite(kind: str) -> Completion:
    """Return the completion of `"tasks"`, or `"methods"` and mechanisms, of the suite."""

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        from relation_tf.config import load_suite

        given = ["diagnostics-small"]  # of `diagnose`, which has no such argument
        if "suite" in context.params:
            given = _arguments(context, "suite")
        with suppress(RelationError):  # the command itself reports a wrong suite
            suite = load_suite(next(iter(given), ""), import_plugins=False)
            mechanisms = dict.fromkeys(each.mechanism for each in suite.method)
            methods = [*mechanisms, *(str(each.name) for each in suite.methods())]
            return _continued(suite.tasks if kind == "tasks" else methods, incomplete)
        return []

    return complete


def complete_in_sources(kind: str) -> Completion:
    """Return the completion of the `"tasks"` or `"methods"` of the compared sources."""

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        names: list[str] = []
        for source in _arguments(context, "sources"):
            # The command itself reports a wrong source or option.
            with suppress(RelationError, typer.BadParameter):
                names += _names_in(Path(source), kind, context.params.get("columns"))
        return _continued(dict.fromkeys(names), incomplete)

    return complete


def complete_test(*, over_tasks: bool) -> Completion:
    """Return the completion of the tests over tasks, or of those of a single task."""

    def complete(incomplete: str) -> list[str]:
        tests = PROCEDURES.items()
        names = [name for name, own in tests if (own.compares == "over-tasks") == over_tasks]
        return _beginning(names, incomplete)

    return complete


def complete_suite(incomplete: str) -> list[str]:
    """Return the suites and TOML files that begin with a text."""
    from relation_tf.config import list_suites

    return _beginning([*list_suites(), *map(str, Path().glob("*.toml"))], incomplete)


def complete_source(incomplete: str) -> list[str]:
    """Return the folders of suites and the CSV files that begin with a text."""
    files = Path(incomplete + "_").parent.glob("*.csv")
    return [*complete_run_folder(incomplete), *_beginning(map(str, sorted(files)), incomplete)]


def complete_encoder(context: typer.Context, incomplete: str) -> list[str]:
    """Return the encoders of a folder of `pretrain` that begin with a text."""
    folders = (Path(each) / "runs" for each in _arguments(context, "folder"))
    return _beginning([run.name for each in folders for run in sorted(each.glob("*"))], incomplete)


def complete_setting(incomplete: str) -> list[str]:
    """Return the keys of suites, each with =, that begin with a text."""
    from relation_tf.config import Suite

    keys = (f"{key}=" for key in Suite.model_fields if key not in _NOT_SET)
    return _beginning(keys, incomplete)


complete_run_folder = complete_folder_with("suite.toml")
complete_encoder_folder = complete_folder_with("pretraining.json")
complete_task = complete_one_of(TASKS)
complete_mechanism = complete_one_of(MECHANISMS)
complete_mechanism_list = complete_some_of(MECHANISMS)

_OPTIONS: dict[str, Completion] = {
    "tasks": complete_in_suite("tasks"),
    "methods": complete_in_suite("methods"),
    "settings": complete_setting,
    "test": complete_test(over_tasks=False),
    "test_over_tasks": complete_test(over_tasks=True),
    "control": complete_in_sources("methods"),
    "reference": complete_in_sources("methods"),
    "lower_is_better": complete_in_sources("tasks"),
    "higher_is_better": complete_in_sources("tasks"),
    "costs": complete_run_folder,
    "executor": complete_one_of(EXECUTORS),
    "track": complete_one_of(TRACKERS),
}


def completion_of(name: str, metadata: Mapping[str, Any]) -> Completion | None:
    """Return the completion of an option, or None for the shell's file names.

    Args:
        name: Name of the field.
        metadata: Declaration of the field, see `relation_tf.option_fields.option`.
    """
    if metadata["choices"]:
        return complete_one_of(metadata["choices"])
    return _OPTIONS.get(name)


_NOT_SET = {"name", "title", "question", "task", "group", "method", "published", "layout"}
"""Keys that describe a suite or are tables."""


def _names_in(source: Path, kind: str, columns: str | None) -> Sequence[str]:
    """Return the methods or tasks of a source; those of a suite are not read from its runs."""
    if (source / "suite.toml").is_file():
        from relation_tf.bench.run_folder import RunFolder

        suite = RunFolder(source).suite()
        methods = [str(method.name) for method in suite.methods()]
        return suite.tasks if kind == "tasks" else methods
    from relation_tf.cli.arguments import parse_columns
    from relation_tf.report.score_tables import TableOptions
    from relation_tf.report.sources import read_source

    read = read_source(source, options=TableOptions(parse_columns(columns), drop_failed=True))
    return read.scores.tasks if kind == "tasks" else read.scores.methods


def _arguments(context: typer.Context, name: str) -> list[str]:
    """Return the arguments before the cursor.

    After an option without a value, they are not parsed: those with that option are in `args`.
    """
    parsed = context.params.get(name) or ()
    several = parsed if isinstance(parsed, list | tuple) else (parsed,)
    return [str(each) for each in (*several, *context.args) if not str(each).startswith("-")]


def _continued(names: Iterable[str], incomplete: str) -> list[str]:
    """Return the lists, separated by commas, that can follow a text."""
    before, comma, last = incomplete.rpartition(",")
    left = [name for name in names if name not in before.split(",")]
    return [f"{before}{comma}{name}" for name in _beginning(left, last)]


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.lower().startswith(incomplete.lower())]
