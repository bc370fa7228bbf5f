"""The application that commands register with; errors are one line and an exit code."""

from __future__ import annotations

import functools
import sys
from typing import Annotated

import typer

from glue_submit.command_line import add_command, make_app, run, show_examples, with_period
from relation_tf import __version__
from relation_tf.errors import OptionError, RelationError

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
