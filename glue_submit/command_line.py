"""Help pages and usage errors of the commands `glue-submit` and `relation-tf`."""

from __future__ import annotations

import difflib
import inspect
import shutil
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar, cast

import typer
from typer.core import TyperCommand, TyperGroup

_Function = TypeVar("_Function", bound=Callable[..., Any])

# typer exports one class of its usage errors; their base class is its parent.
UsageError = cast("type[Exception]", typer.BadParameter.__base__)

_WIDEST_PAGE = 110
_WIDEST_NAME = 32
_KEPT_TOGETHER = "\N{NO-BREAK SPACE}"


class _Command(TyperCommand):
    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(_help_page(self, ctx))


class _Group(TyperGroup):
    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(_help_page(self, ctx))


def make_app(name: str, text: str, **settings: Any) -> typer.Typer:
    """Return an application with plain help pages, for `-h` as for `--help`."""
    return typer.Typer(
        name=name,
        help=text,
        cls=_Group,
        context_settings={"help_option_names": ["-h", "--help"]},
        add_completion=False,
        pretty_exceptions_enable=False,
        **settings,
    )


def add_command(app: typer.Typer, *examples: str) -> Callable[[_Function], _Function]:
    """Return a decorator that adds a function as a command; its help page ends with examples."""
    return app.command(cls=_Command, epilog="\n".join(examples))


def describe_usage_error(error: Exception) -> str:
    """Describe a usage error on one line, with the nearest option and the help command."""
    message = " ".join(cast("typer.BadParameter", error).format_message().split())
    name = getattr(error, "option_name", None)
    if name and hasattr(error, "possibilities"):
        message = f"No such option: {name}."
        near = difflib.get_close_matches(name, error.possibilities or (), n=1)
        message += f" Did you mean {near[0]!r}?" if near else ""
    context = getattr(error, "ctx", None)
    return f"{message} (see {context.command_path} --help)" if context else message


def _help_page(command: Any, context: Any) -> str:
    width = max(min(shutil.get_terminal_size().columns, _WIDEST_PAGE) - 1, 50)
    parameters = [each for each in command.get_params(context) if not each.hidden]
    arguments = [each for each in parameters if each.param_type_name == "argument"]
    options = [each for each in parameters if each.param_type_name == "option"]
    commands = getattr(command, "commands", {})
    subcommands = ["COMMAND [ARGUMENTS]..."] if commands else []
    names = [each.metavar if each.required else _optional(each.metavar) for each in arguments]
    usage = " ".join(["Usage:", context.command_path, "[OPTIONS]", *names, *subcommands])
    paragraphs = [" ".join(text.split()) for text in inspect.cleandoc(command.help).split("\n\n")]
    sections: list[tuple[str, list[tuple[str, str]]]] = [
        ("Arguments", [(each.metavar, each.help) for each in arguments]),
        ("Options", [(_names(each), _explanation(each)) for each in options]),
        ("Commands", [(name, _first_sentence(each.help)) for name, each in commands.items()]),
    ]
    lines = [*_wrap(usage, width, "", "  ")]
    for paragraph in paragraphs:
        lines += ["", *_wrap(paragraph, width)]
    for title, rows in sections:
        if rows:
            lines += ["", f"{title}:", *_table(rows, width)]
    if command.epilog:
        lines += ["", "Examples:", *(f"  {line}" for line in command.epilog.splitlines())]
    return "\n".join(lines)


def _optional(metavar: str) -> str:
    return metavar if metavar.startswith("[") else f"[{metavar}]"


def _names(option: Any) -> str:
    names = ", ".join(sorted(option.opts, key=len))
    return names if option.is_flag else f"{names} {option.metavar}"


def _explanation(option: Any) -> str:
    if option.required:
        return f"{option.help} [required]"
    shown = option.show_default if isinstance(option.show_default, str) else option.default
    if option.is_flag or not isinstance(shown, str | int | float | Path) or shown == "":
        return str(option.help)
    default = f"[default: {shown}]"
    if len(default) < _WIDEST_NAME:
        default = default.replace(" ", _KEPT_TOGETHER)
    return f"{option.help} {default}"


def _first_sentence(text: str) -> str:
    return " ".join(inspect.cleandoc(text).split("\n\n")[0].split())


def _table(rows: Iterable[tuple[str, str]], width: int) -> list[str]:
    """Align names and explanations; a long name has a line to itself."""
    rows = [*rows]
    first = 2 + max(len(name) for name, _ in rows if len(name) <= _WIDEST_NAME)
    lines = []
    for name, text in rows:
        margin = " " * (first + 2)
        start = f"  {name:{first}}"
        if len(name) > _WIDEST_NAME:
            lines.append(f"  {name}")
            start = margin
        lines += _wrap(text, width, start, margin)
    return lines


def _wrap(text: str, width: int, first: str = "", others: str = "") -> list[str]:
    lines = textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_KEPT_TOGETHER, " ") for line in lines]
