"""Commands that list suites and tasks and check layers."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import Annotated, Any

import typer

from glue_submit.command_line import Json, echo_json
from relation_tf.bench.options import RunOptions
from relation_tf.cli.application import command, echo
from relation_tf.cli.arguments import (
    LayerName,
    complete_suite,
    complete_task,
    import_from_here,
    parse_settings,
    with_options,
)
from relation_tf.errors import SuiteError, UnknownNameError


@command("relation-tf suites", "relation-tf suites my_suite.toml", "relation-tf suites --json")
@with_options(RunOptions, "plugins")
def suites(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SUITE...]",
            help="Suites to list: names or files. Default: those of the package.",
            autocompletion=complete_suite,
        ),
    ] = None,
    as_json: Json = False,
    **options: Any,
) -> None:
    """List suites, and mark those with too few seeds to show a significant difference."""
    from relation_tf.bench.evidence import suite_facts
    from relation_tf.config import list_suites, load_suite

    names, plugins = names or list_suites(), options["plugins"] or ()
    loaded = ((name, load_suite(name, {}, plugins, import_plugins=False)) for name in names)
    if as_json:
        listed = ({"suite": name, **suite_facts(suite)} for name, suite in loaded)
        echo_json(lambda: {"suites": [*listed]})
        return
    width = max(map(len, names))
    for name, suite in loaded:
        facts = suite_facts(suite)
        note = "" if facts["note"] is None else f". {facts['note']}"
        echo(f"{name:{width}} {facts['runs']:4} runs  {facts['title']}{note}")


@command(
    "relation-tf tasks --data glue_data",
    "relation-tf tasks CoLA RTE --data glue_data",
    "relation-tf tasks --suite my_suite.toml",
)
@with_options(RunOptions, "data", "tfds_folder", "plugins")
def tasks(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME...]", help="Tasks to show examples of.", autocompletion=complete_task
        ),
    ] = None,
    suite: Annotated[
        str | None,
        typer.Option(
            metavar="SUITE",
            help="List the tasks of this suite, encoded with its settings.",
            autocompletion=complete_suite,
        ),
    ] = None,
    as_json: Json = False,
    **options: Any,
) -> None:
    """List all tasks and the folders of their data, or show encoded examples of some tasks.

    A task is encoded only once; later commands read it from the cache.
    """
    from relation_tf.config import load_suite
    from relation_tf.config.plugins import load_plugins
    from relation_tf.registry import TASKS
    from relation_tf.tasks import listing

    given = RunOptions(**options)
    reading: dict[str, Any] = {}
    with redirect_stdout(sys.stderr if as_json else sys.stdout):  # plugins may print
        load_plugins(given.plugins if suite is None else ())
        entries: dict[str, Any] = {name: name for name in TASKS}
        if suite is not None:
            from relation_tf.bench.runner import check_folders

            loaded = load_suite(suite, {}, given.plugins, import_plugins=False)
            check_folders(loaded, given.data, given.tfds_folder)
            entries = {name: loaded.entry(name) for name in loaded.tasks}
            for config in loaded.runs():  # as the first method reads it
                reading.setdefault(config.task, config.reading())
            for name in names or ():
                if name not in entries:
                    raise UnknownNameError(f"task of suite {loaded.name}", name, entries)
    folders = given.data, given.tfds_folder
    if as_json:
        chosen = {name: entries.get(name, name) for name in names or entries}
        facts = listing.facts(chosen.values(), *folders, reading, skip_missing=not names)
        echo_json(lambda: {"tasks": [*facts]})
    elif names:
        for name in names:
            described = listing.describe(entries.get(name, name), *folders, reading.get(name, {}))
            echo(described)
    else:
        for line in listing.lines(entries.values(), *folders, reading):
            echo(line)


@command(
    "relation-tf check-layer my_module:MyLayer",
    "relation-tf check-layer multi-head-attention --units 16 --option num_heads=4",
)
@with_options(RunOptions, "plugins")
def check_layer(
    layer: LayerName,
    units: Annotated[int, typer.Option(metavar="N", min=1, help="Width of the output.")] = 8,
    width: Annotated[int, typer.Option(metavar="N", min=1, help="Width of the input.")] = 6,
    layer_options: Annotated[
        list[str] | None,
        typer.Option("--option", metavar="KEY=VALUE", help="Option of the layer. Repeatable."),
    ] = None,
    **options: Any,
) -> None:
    """Check a custom layer before training: shapes, padding, gradients, saving and more.

    The exit code is 1 if a suite cannot use the layer. Warnings do not change the exit code.
    """
    from relation_tf.config.plugins import load_plugins
    from relation_tf.quiet import loading_quietly

    arguments = parse_settings(layer_options, "--option")
    import_from_here()
    load_plugins(RunOptions(**options).plugins)
    # Before Keras, because it names a missing backend.
    from relation_tf.networks import check_layer

    with loading_quietly():
        import keras

        keras.ops.zeros(1)  # the first use of a device
    try:
        report = check_layer(layer, units, width, arguments)
    except ValueError as error:  # an unknown name; the report contains errors of the layer
        raise SuiteError(str(error)) from None
    echo(report)
    if not report.passed:
        raise typer.Exit(1)
