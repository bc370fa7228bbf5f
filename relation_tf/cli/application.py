"""The application that commands register with, and its errors: one line and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, cast

import typer

from relation_tf import __version__
from relation_tf.errors import RelationError

app = typer.Typer(
    name="relation-tf",
    help="Compare token-mixing mechanisms: train, test for significance, report, submit.",
    add_completion=False,
    no_args_is_help=True,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
)

# typer exports one class of its usage errors; their base class is its parent.
_UsageError = cast("type[Exception]", typer.BadParameter.__base__)


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """Compare token-mixing mechanisms: train, test for significance, report, submit."""
    if version:
        typer.echo(__version__)
        raise typer.Exit


def complain(message: str) -> int:
    """Print an error; return the exit code 2."""
    typer.echo(f"relation-tf: {message}", err=True)
    return 2


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """Turn bad input into one line and exit code 2, an interruption into exit code 130."""
    from glue_submit import SubmissionError

    try:
        yield
    except _UsageError as error:
        message = " ".join(cast("typer.BadParameter", error).format_message().split())
        # Without a command the help has been shown, and there is no message.
        sys.exit(complain(f"{message} (see relation-tf --help)") if message else 2)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # The reader of the output has closed it, as `head` does; Python would complain at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except (RelationError, SubmissionError) as error:
        sys.exit(complain(str(error)))


def main() -> None:
    """Run the command."""
    with _one_line_errors():
        sys.exit(app(standalone_mode=False))
