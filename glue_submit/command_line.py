"""Help pages and usage errors of the commands `glue-submit` and `relation-tf`."""

from __future__ import annotations

import contextlib
import difflib
import inspect
import io
import itertools
import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

import typer
from typer.core import TyperCommand

_Function = TypeVar("_Function", bound=Callable[..., Any])

# typer exports one class of its usage errors; their base class is its parent.
UsageError = cast("type[Exception]", typer.BadParameter.__base__)

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]

_WIDEST_PAGE = 110
_HYPHEN = "\N{NON-BREAKING HYPHEN}"


class _Command(TyperCommand):
    """Command whose help page shows arguments by their metavars, without types."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            texts = {name for each in self.params if each.metavar == "TEXT" for name in each.opts}
            for before, argument in itertools.pairwise(["", *args]):
                _check_argument(argument, may_be_empty=before in texts)
            rest = super().parse_args(ctx, args)
            ctx.params.update({name: _expanded(value) for name, value in ctx.params.items()})
            return rest
        except UsageError as error:
            vars(error)["ctx"] = getattr(error, "ctx", None) or ctx  # its help page is suggested
            raise

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        arguments = [each for each in self.params if each.param_type_name == "argument"]
        return ["[OPTIONS]", *(str(each.metavar) for each in arguments)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for each in self.get_params(ctx):
            name, text = each.get_help_record(ctx) or ("", "")
            # typer puts a description of a default in parentheses.
            text = re.sub(r"\[default: \((.+)\)\]$", r"[default: \1]", text)
            is_argument = each.param_type_name == "argument"
            row = (str(each.metavar) if is_argument else name, text.replace("-", _HYPHEN))
            sections["Arguments" if is_argument else "Options"].append(row)
        for title, rows in sections.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def get_help(self, ctx: Any) -> str:
        return super().get_help(ctx).replace(_HYPHEN, "-")


def _check_argument(argument: str, *, may_be_empty: bool) -> None:
    """Raise a usage error for an argument that is not UTF-8, or empty: Python's path `.`."""
    if not argument.isascii() and any("\ud800" <= letter <= "\udfff" for letter in argument):
        raise typer.BadParameter(f"arguments must be UTF-8 text. Received: {argument!a:.100}")
    option, equals, value = argument.partition("=")
    is_empty = not argument or (option.startswith("--") and equals and not value)
    if is_empty and not may_be_empty:
        raise typer.BadParameter(f"{option or 'an argument'} must not be empty.")


def _expanded(value: Any) -> Any:
    """Return a value with `~` of paths expanded: shells leave it in `--out=~/x`."""
    if isinstance(value, list | tuple):
        return type(value)(map(_expanded, value))
    if not isinstance(value, Path):
        return value
    try:
        return value.expanduser()
    except RuntimeError:
        raise typer.BadParameter(f"{value}: there is no such user.") from None


def make_app(name: str, text: str, **settings: Any) -> typer.Typer:
    """Return an application with plain help pages, for `-h` as for `--help`, and completion."""
    return typer.Typer(
        name=name,
        help=text,
        context_settings={
            "help_option_names": ["-h", "--help"],
            "max_content_width": _WIDEST_PAGE,
        },
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        **settings,
    )


def add_command(app: typer.Typer, *examples: str) -> Callable[[_Function], _Function]:
    """Return a decorator that adds a function as a command; its help page ends with examples.

    Args:
        app: The application.
        *examples: Commands for the help page.
    """

    def add(function: _Function) -> _Function:
        # Without a short help, the list of commands shows 45 characters.
        summary = (inspect.getdoc(function) or "").split("\n\n")[0].replace("\n", " ")
        epilog = show_examples(*examples)
        return app.command(cls=_Command, short_help=summary, epilog=epilog)(function)

    return add


def run(
    app: typer.Typer,
    name: str,
    describe: Callable[[Exception], str | None],
    complain: Callable[[str], object],
) -> int:
    """Run an application; print bad input and errors of the system on one line.

    Args:
        app: The application.
        name: Name of the program.
        describe: Returns the line for an error of the program, None for other errors, which are
            raised.
        complain: Prints this line.

    Returns:
        The exit code: 2 after an error, 141 if the output was closed, as by `head`.
    """
    try:
        return _run(app, name) or 0
    except BrokenPipeError:
        _discard_output()
        return 141
    except Exception as error:
        message = describe(error) or _described(error)
        if message is None:
            raise
        try:
            sys.stdout.flush()
        except OSError:
            _discard_output()
        complain(message)
        return 2


def _run(app: typer.Typer, name: str) -> Any:
    """Run an application and return its exit code; its errors are raised."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")  # a file on Windows may not have every character
    if f"_{name.replace('-', '_').upper()}_COMPLETE" in os.environ:
        # typer wraps descriptions at this width, and fish offers each line as a word.
        os.environ["COLUMNS"] = "1000"
    try:
        return app(prog_name=name, standalone_mode=False)
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # typer's exit code of it is 1
            raise end.__context__ from None
        raise


def _described(error: Exception) -> str | None:
    """Describe wrong usage, and errors such as a path without permission or a full disk."""
    if isinstance(error, UsageError):
        return describe_usage_error(error)
    if not isinstance(error, OSError):
        return None
    place = f"{error.filename}: " if error.filename else ""
    return f"{place}{error.strerror or error}"


def _discard_output() -> None:
    """Discard what is left in the buffer of stdout: Python would print an error at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def echo_json(make: Callable[[], object]) -> None:
    """Print one JSON document to stdout; all other output of `make` goes to stderr."""
    with contextlib.redirect_stdout(sys.stderr):
        content = make()
    # ASCII, which every encoding of a pipe has.
    typer.echo(json.dumps(content, indent=2, allow_nan=False))


def show_examples(*examples: str) -> str:
    """Return the end of a help page; typer does not wrap it."""
    return "\n  ".join(["\b\nExamples:", *examples])


def describe_usage_error(error: Exception) -> str:
    """Describe a usage error on one line, with the nearest option and the help command."""
    message = " ".join(cast("typer.BadParameter", error).format_message().split())
    message = re.sub(r"Input should be ([^,]+), unable to parse .*", r"must be \1", message)
    message = re.sub(
        r"Value error, (.+) is not one of (.+[^.])\.?$", r"must be one of \2. Received: \1", message
    )
    name = getattr(error, "option_name", None)
    if name and hasattr(error, "possibilities"):
        message = f"No such option: {name}."
        # Without dashes, which would make all short names similar.
        known = {each.lstrip("-"): each for each in error.possibilities or ()}
        near = difflib.get_close_matches(name.lstrip("-"), known, n=1)
        message += f" Did you mean {known[near[0]]!r}?" if near else ""
    message = message.replace(": Input should be ", ": must be ")
    message = message.replace("a valid integer", "an integer").replace("a valid ", "a ")
    message = with_period(message)
    context = getattr(error, "ctx", None)
    return f"{message} See `{context.command_path} --help`." if context else message


def with_period(message: str) -> str:
    """Return a message that ends as a sentence.

    Example:
        >>> with_period("a.zip: no such file"), with_period("Did you mean 'b.zip'?")
        ('a.zip: no such file.', "Did you mean 'b.zip'?")
    """
    return message if message.endswith((".", "?", "!", ":")) else f"{message}."
