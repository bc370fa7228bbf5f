"""The application that commands register with, options that they share, and values of options."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import Field, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer

from glue_submit.command_line import add_command, make_app, run, show_examples, with_period
from relation_tf import __version__
from relation_tf.errors import OptionError, RelationError, SuiteError
from relation_tf.registry import TASKS
from relation_tf.settings import Function, option, take_options

app = make_app(
    "relation-tf",
    "Compare token-mixing mechanisms: train, test for significance, report, submit.",
    invoke_without_command=True,
)
command = functools.partial(add_command, app)
"""Return a decorator that registers a command; its help page ends with the given examples."""


@app.callback(epilog=show_examples("relation-tf run demo", "relation-tf run --help"))
def options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """Compare token-mixing mechanisms: train, test for significance, report, submit."""
    if version:
        typer.echo(__version__)
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)


def complain(message: str) -> int:
    """Print an error, with a period at its end; return the exit code 2."""
    echo(f"relation-tf: {with_period(message)}", to_stderr=True)
    return 2


def echo(text: object, *, to_stderr: bool = False) -> None:
    """Print a text, on stdout or stderr."""
    typer.echo(str(text), err=to_stderr)


def run_app() -> None:
    """Run the command; print bad input on one line and exit with code 2."""
    sys.exit(run(app, "relation-tf", _describe, complain))


def _describe(error: Exception) -> str | None:
    from glue_submit import SubmissionError

    if isinstance(error, OptionError):
        return error.on_command_line()
    return str(error) if isinstance(error, RelationError | SubmissionError) else None


def complete_suite(incomplete: str) -> list[str]:
    """Return the suites and TOML files that begin with a text."""
    from relation_tf.config import list_suites

    return _beginning([*list_suites(), *map(str, Path().glob("*.toml"))], incomplete)


def complete_task(incomplete: str) -> list[str]:
    """Return the registered tasks that begin with a text, or continue a list with commas."""
    before, comma, last = incomplete.rpartition(",")
    left = [name for name in TASKS if name not in before.split(",")]
    return [f"{before}{comma}{name}" for name in _beginning(left, last)]


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.lower().startswith(incomplete.lower())]


SuiteName = Annotated[
    str,
    typer.Argument(
        metavar="SUITE",
        help="Name of a suite (see `suites`), or a TOML file.",
        autocompletion=complete_suite,
    ),
]
LayerName = Annotated[
    str,
    typer.Argument(
        metavar="LAYER", help="Custom layer, as package.module:Name, or name of a mechanism."
    ),
]
LayerOptions = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="KEY=VALUE", help="Option of the layer. Repeatable."),
]
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder with the runs of a suite.")]


@dataclass(frozen=True)
class SuiteOptions:
    """Options that choose runs of a suite, and set its keys and its folder."""

    out: Path | None = option(None, "Folder of the runs.", "DIR", shown="runs/SUITE")
    tasks: str | None = option(None, "Tasks to use.", "NAME[,NAME...]", shown="all")
    methods: str | None = option(
        None,
        "Methods to use. The name of a mechanism, such as relation, selects all methods that use "
        "it.",
        "NAME[,NAME...]",
        shown="all",
    )
    seeds: str | None = option(
        None, "Seeds to use, by number: 3 is seed 3.", "N[,N...]", shown="all"
    )
    settings: tuple[str, ...] = option(
        (),
        "Override a key of the suite, such as epochs=20. Repeatable.",
        "KEY=VALUE",
        flag="--set",
    )
    fill_missing: bool = option(
        False,
        "For tasks without predictions, submit the majority class of the training set "
        "(STS-B: the mean score).",
    )


def with_options(settings: type, *names: str, **texts: str) -> Callable[[Function], Function]:
    """Add an option for each field of a settings class to a command that takes `**options`.

    Args:
        settings: A dataclass whose fields are made by `relation_tf.settings.option`.
        names: The fields to add, by default all.
        texts: Other help texts for this command, by name of the field.

    Returns:
        A decorator that returns the command with a signature for typer. With two decorators, the
        options of the lower one come first.
    """
    hints = get_type_hints(settings)
    declared = {option.name: option for option in fields(settings)}
    names = names or tuple(name for name, option in declared.items() if option.metadata)
    added = [_parameter(declared[name], hints[name], texts.get(name)) for name in names]
    return lambda command: take_options(command, added)


def _parameter(declared: Field[Any], hint: Any, text: str | None) -> inspect.Parameter:
    """Return the parameter of a command for a field."""
    metadata = declared.metadata
    default, shown, hint = declared.default, metadata["shown"], metadata["typed"] or hint
    if hint == tuple[str, ...]:
        hint, default = list[str] | None, None
    elif not {*get_args(hint), hint} & {bool, int, float, Path} and hint is not str:
        hint, default = str | None, None  # the command parses it
    option = typer.Option(
        metadata["flag"] or f"--{declared.name.replace('_', '-')}",
        metavar=metadata["metavar"],
        help=text or metadata["help"],
        show_default=True if shown is None else shown,
        autocompletion=complete_task if declared.name == "tasks" else None,
    )
    return inspect.Parameter(
        declared.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[hint, option],
    )


def split_names(names: str | None) -> list[str] | None:
    """Split `NAME,NAME` at commas; return None for None."""
    return None if names is None else [name.strip() for name in names.split(",") if name.strip()]


def split_families(families: str | None) -> list[list[str]] | None:
    """Split `NAME,NAME;NAME,NAME` into lists; return None for None."""
    if families is None:
        return None
    return [split_names(block) or [] for block in families.split(";") if block.strip()]


def parse_columns(columns: str | None) -> dict[str, str]:
    """Parse `NAME=COLUMN,NAME=COLUMN`; return an empty table for None.

    Raises:
        BadParameter: If a part has another form, or a name occurs twice.
    """
    parsed: dict[str, str] = {}
    for part in split_names(columns) or []:
        name, _, column = (text.strip() for text in part.partition("="))
        if not name or not column or name in parsed:
            raise typer.BadParameter(
                f"--columns: must be NAME=COLUMN,..., each name once. Received: {part!r}"
            )
        parsed[name] = column
    return parsed


def parse_margins(values: Iterable[str] | None) -> tuple[float | None, dict[str, float]]:
    """Parse `SCORE` and `TASK=SCORE`; return the margin of all tasks and those of single tasks.

    Raises:
        BadParameter: If a value has another form, or a task occurs twice.
    """
    parsed: dict[str, float] = {}
    for value in values or ():
        task, _, score = value.rpartition("=")
        task = task.strip()
        try:
            number = float(score)
        except ValueError:
            number = None
        if number is None or task in parsed or ("=" in value and not task):
            raise typer.BadParameter(
                "--margin: must be a number, or TASK=NUMBER for a single task, each given once. "
                f"Received: {value!r}"
            )
        parsed[task] = number
    return parsed.pop("", None), parsed


def parse_seeds(seeds: str | None) -> list[int] | None:
    """Parse `1,2`; return None for None.

    Raises:
        BadParameter: If a seed is not an integer.
    """
    try:
        return None if seeds is None else [int(seed) for seed in split_names(seeds) or []]
    except ValueError:
        raise typer.BadParameter(
            f"--seeds: must be integers such as 1,2. Received: {seeds!r:.80}"
        ) from None


def parse_settings(pairs: Iterable[str] | None, flag: str = "--set") -> dict[str, Any]:
    """Parse `KEY=VALUE` pairs; a value that is not valid TOML is a string.

    Args:
        pairs: The pairs.
        flag: The option that takes them, for messages.

    Raises:
        BadParameter: If a pair has no key or no value, or the key is that of a table's entry.
    """
    settings: dict[str, Any] = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise typer.BadParameter(f"{flag}: must be KEY=VALUE. Received: {pair!r}")
        if "." in key:
            example = ", such as 'overrides={CoLA={epochs=20}}'" if flag == "--set" else ""
            raise typer.BadParameter(f"{flag}: must set a whole key{example}. Received: {pair!r}")
        settings[key.strip()] = _value(value)
    return settings


def _value(text: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return parsed["value"] if len(parsed) == 1 else text


def parse_selection(options: dict[str, Any]) -> dict[str, Any]:
    """Parse the tasks, methods, seeds and settings of `SuiteOptions`, those that a command has.

    Raises:
        BadParameter: If a value has the wrong form.
    """
    parsers: dict[str, Callable[[Any], Any]] = {
        "tasks": split_names, "methods": split_names,
        "seeds": parse_seeds, "settings": parse_settings,
    }  # fmt: skip
    return options | {name: parsers[name](options[name]) for name in parsers if name in options}


def import_from_here(suite: str = "") -> None:
    """Make modules in the working folder and the suite's folder importable; packages come first.

    Raises:
        SuiteError: If the working folder was deleted.
    """
    folders = [os.path.dirname(os.path.realpath(suite))] if suite.endswith(".toml") else []  # noqa: PTH120 - Path.resolve raises for links in a circle
    try:
        here = Path.cwd()
    except FileNotFoundError:
        raise SuiteError("the current folder no longer exists") from None
    sys.path += [place for place in (str(here), *folders) if place not in sys.path]
