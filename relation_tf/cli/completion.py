"""Tab completion of names: suites, tasks, methods, run folders, settings and registered parts.

A function receives the beginning of a word and returns the words that it can become. None of them
loads Keras.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import typer

from relation_tf.errors import RelationError
from relation_tf.registry import EXECUTORS, MECHANISMS, TASKS, TRACKERS

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


def complete_suite(incomplete: str) -> list[str]:
    """Return the suites and TOML files that begin with a text."""
    from relation_tf.config import list_suites

    return _beginning([*list_suites(), *map(str, Path().glob("*.toml"))], incomplete)


def complete_run_folder(incomplete: str) -> list[str]:
    """Return the folders of suites that begin with a text, also those in `runs`."""
    return _folders("suite.toml", incomplete)


def complete_encoder_folder(incomplete: str) -> list[str]:
    """Return the folders of pre-trained encoders that begin with a text."""
    return _folders("pretraining.json", incomplete)


def complete_source(incomplete: str) -> list[str]:
    """Return the folders of suites and the CSV files that begin with a text."""
    files = Path(incomplete + "_").parent.glob("*.csv")
    return [*complete_run_folder(incomplete), *_beginning(map(str, sorted(files)), incomplete)]


def complete_tasks(context: typer.Context, incomplete: str) -> list[str]:
    """Return lists of tasks of the suite, separated by commas, that begin with a text."""
    return _of_suite(context, incomplete, "tasks")


def complete_methods(context: typer.Context, incomplete: str) -> list[str]:
    """Return lists of methods and mechanisms of the suite, with commas, that begin with a text."""
    return _of_suite(context, incomplete, "methods")


def complete_compared_method(context: typer.Context, incomplete: str) -> list[str]:
    """Return lists of methods of the compared sources, with commas, that begin with a text."""
    return _of_sources(context, incomplete, "methods")


def complete_compared_task(context: typer.Context, incomplete: str) -> list[str]:
    """Return lists of tasks of the compared sources, with commas, that begin with a text."""
    return _of_sources(context, incomplete, "tasks")


def complete_encoder(context: typer.Context, incomplete: str) -> list[str]:
    """Return the encoders of a folder of `pretrain` that begin with a text."""
    folders = (Path(each) / "runs" for each in _arguments(context, "folder"))
    return _beginning([run.name for each in folders for run in sorted(each.glob("*"))], incomplete)


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


complete_task = complete_one_of(TASKS)
complete_task_list = complete_some_of(TASKS)
complete_mechanism = complete_one_of(MECHANISMS)
complete_mechanism_list = complete_some_of(MECHANISMS)

_OPTIONS: dict[str, Completion] = {
    "tasks": complete_tasks,
    "methods": complete_methods,
    "settings": complete_setting,
    "test": complete_test,
    "test_over_tasks": complete_test_over_tasks,
    "control": complete_compared_method,
    "reference": complete_compared_method,
    "lower_is_better": complete_compared_task,
    "higher_is_better": complete_compared_task,
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


def _tests(incomplete: str, *, over_tasks: bool) -> list[str]:
    from relation_tf.registry import PROCEDURES

    names = [
        name
        for name, procedure in PROCEDURES.items()
        if (procedure.compares == "over-tasks") == over_tasks
    ]
    return _beginning(names, incomplete)


def _of_suite(context: typer.Context, incomplete: str, kind: str) -> list[str]:
    from relation_tf.config import load_suite

    # `diagnose` has no such argument.
    given = _arguments(context, "suite") if "suite" in context.params else ["diagnostics-small"]
    with suppress(RelationError):  # the command itself reports a wrong suite
        suite = load_suite(next(iter(given), ""))
        mechanisms = dict.fromkeys(each.mechanism for each in suite.method)
        methods = [*mechanisms, *(str(each.name) for each in suite.methods())]
        return _continued(suite.tasks if kind == "tasks" else methods, incomplete)
    return []


def _of_sources(context: typer.Context, incomplete: str, kind: str) -> list[str]:
    names: list[str] = []
    for source in _arguments(context, "sources"):
        with suppress(RelationError):  # the command itself reports a wrong source
            names += _names_in(Path(source), kind, context.params.get("columns"))
    return _continued(dict.fromkeys(names), incomplete)


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


def _folders(file: str, incomplete: str) -> list[str]:
    """Return the folders with a file that begin with a text, in its folder or in `runs`."""
    here = Path(incomplete + "_").parent
    found = [*here.glob(f"*/{file}"), *Path("runs").glob(f"*/{file}")]
    return _beginning(sorted({str(path.parent) for path in found}), incomplete)


def _continued(names: Iterable[str], incomplete: str) -> list[str]:
    """Return the lists, separated by commas, that can follow a text."""
    before, comma, last = incomplete.rpartition(",")
    left = [name for name in names if name not in before.split(",")]
    return [f"{before}{comma}{name}" for name in _beginning(left, last)]


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.lower().startswith(incomplete.lower())]
