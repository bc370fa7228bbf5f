r"""Errors caused by input, and helpers for their messages. Imports nothing of the package.

A message is one line: where, what is wrong, what is allowed, what to do. The command prints it
without a traceback and exits with code 2.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib.util
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PureWindowsPath
from typing import Any

_NAMES_SHOWN, _FEW_NAMES = 8, 12
_LONGEST_NAME = 40
_SHORTEST_BEGINNING = 3  # characters; fewer begin too many names


class RelationError(ValueError):
    """An error caused by input; the base class of all errors that the command prints."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to copy the error to another process: from its message, not its arguments."""
        return _copy, (type(self), self.args, vars(self))


def _copy(kind: type[RelationError], args: tuple[str, ...], state: dict[str, Any]) -> RelationError:
    error = kind.__new__(kind, *args)
    vars(error).update(state)
    return error


class DataError(RelationError):
    r"""A data file that cannot be used; the message is one line with the file and line number.

    Args:
        message: The message, which may quote a file: line breaks and control characters are
            written as escapes.

    Example:
        >>> print(DataError("a.tsv:2: expected 2 fields, found 1:\x1b[2J"))
        a.tsv:2: expected 2 fields, found 1:\x1b[2J
    """

    def __init__(self, message: str) -> None:
        super().__init__(escape(message))


class SuiteError(RelationError):
    """A suite, option or folder that cannot be used.

    The message names the key, the value and what is allowed.

    Args:
        message: One line per fault; control characters are written as escapes.
    """

    def __init__(self, message: str) -> None:
        super().__init__("\n".join(map(escape, message.split("\n"))))


class DivergedError(SuiteError):
    """A loss or an output of a run is not finite. The run has failed and is not trained again."""


class OptionError(SuiteError):
    """An option that cannot be used.

    Args:
        name: Name of the option in Python, such as `"run_cpus"`.
        fault: The rule that the value breaks, such as `"must be 1 or more. Received: 0"`.
        flag: Name on the command line; by default, derived from the name.

    Example:
        >>> error = OptionError("run_cpus", "must be 0.001 or more. Received: 0")
        >>> print(error)
        run_cpus: must be 0.001 or more. Received: 0
        >>> error.on_command_line()
        '--run-cpus must be 0.001 or more. Received: 0.'
    """

    def __init__(self, name: str, fault: str, flag: str | None = None) -> None:
        super().__init__(f"{name}: {fault}")
        self._line = f"{flag or '--' + name.replace('_', '-')} {escape(fault)}"

    def on_command_line(self) -> str:
        """Return the message with the flag that a person types."""
        return self._line if self._line.endswith((".", "?")) else f"{self._line}."


class MissingPackageError(SuiteError, ImportError):
    """A package that is not installed, because only some uses of relation_tf need it.

    Args:
        what: What needs it, such as `"BLEU"`.
        package: Name of the package.
        extra: The extra of this package that installs it.
        or_else: What else the user can do.

    Example:
        >>> print(MissingPackageError("BLEU", "sacrebleu", "bleu"))
        BLEU needs the package sacrebleu, which is not installed: pip install 'relation-tf[bleu]'
    """

    def __init__(self, what: str, package: str, extra: str, or_else: str = "") -> None:
        super().__init__(
            f"{what} needs the package {package}, which is not installed: "
            f"pip install 'relation-tf[{extra}]'" + (f", or {or_else}" if or_else else "")
        )


def require_package(what: str, package: str, extra: str) -> None:
    """Check that a package is installed; see `MissingPackageError` for the arguments.

    Raises:
        MissingPackageError: If it is not. A folder of its name is not the package.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise MissingPackageError(what, package, extra)


class UnknownNameError(RelationError):
    """An unknown name; the message suggests the nearest known name and lists the known names.

    Args:
        kind: The kind of thing, such as `"task"`.
        name: The unknown name.
        known: The allowed names.
        or_else: Other allowed values, such as `"'package.module:Name'"`.
        listed_by: Command that lists the known names, for a message without them.

    Example:
        >>> print(UnknownNameError("task", "COLA", ["CoLA", "RTE"]))
        unknown task 'COLA'. Did you mean 'CoLA'? Must be one of CoLA, RTE.
    """

    def __init__(
        self, kind: str, name: str, known: Iterable[str], or_else: str = "", listed_by: str = ""
    ) -> None:
        known = [*known]
        allowed = f"Must be one of {', '.join(known)}" + (f", {or_else}" if or_else else "")
        if listed_by:
            allowed = f"Run `{listed_by}` to list all {kind}s" + (f"; {or_else}" if or_else else "")
        hint = did_you_mean(name, known)
        super().__init__(f"unknown {kind} {quote(name)}.{hint} {allowed}.")


@contextlib.contextmanager
def in_one_line(where: str) -> Iterator[None]:
    """Turn errors of other packages about wrong arguments into one line that begins with a place.

    Raises:
        SuiteError: Instead of a `TypeError`, `ValueError` or `RuntimeError`.

    Example:
        >>> with in_one_line("method relation"):
        ...     raise TypeError("no argument 'speed'")
        Traceback (most recent call last):
        relation_tf.errors.SuiteError: method relation: no argument 'speed'
    """
    try:
        yield
    except (TypeError, ValueError, RuntimeError) as error:
        raise SuiteError(f"{where}: {without_breaks(error)}") from error


def without_breaks(error: Exception) -> str:
    """Return the message of an error on one line."""
    return " ".join(str(error).split())


def one_line(error: Exception) -> str:
    r"""Return the message of an error, without TensorFlow's locations and Keras's arguments.

    Example:
        >>> one_line(ValueError("Detected at node mul\nIncompatible shapes\n\t [[{{node mul}}]]"))
        'ValueError: Incompatible shapes'
    """
    message = str(error).partition("Arguments received by")[0]
    message = re.sub(r"\{\{function_node .*?\}\} ?| ?\[Op:\w+\]", "", message)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", message).split("\n")
    filled = [line.strip() for line in lines if line.strip()]
    texts = [line for line in filled if not line.startswith("[[{{node")] or filled or [""]
    return f"{type(error).__name__}: {texts[-1]}"


def reason_of(error: BaseException) -> str:
    """Return the reason of an error of the system or a file format, short."""
    return getattr(error, "strerror", None) or f"{error!s:.100}"


def did_you_mean(
    name: object, known: Iterable[object], cutoff: float = 0.6, prefix: str = ""
) -> str:
    """Return a hint with the nearest known name, or an empty string if there is no near one.

    If no name is near, the first one that begins with three or more typed characters is used. Case
    is ignored; a value that is not a string has no hint. The hint begins with the prefix, which is
    not compared.

    Example:
        >>> did_you_mean("atention", ["attention", "relation"])
        " Did you mean 'attention'?"
        >>> did_you_mean("wiki", ["WikiText perplexity"])
        " Did you mean 'WikiText perplexity'?"
        >>> did_you_mean("x", ["attention"])
        ''
    """
    if not isinstance(name, str):
        return ""
    by_lower: dict[str, object] = {}
    for candidate in known:
        by_lower.setdefault(str(candidate).lower(), candidate)
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=cutoff)
    if not near and len(name) >= _SHORTEST_BEGINNING:
        near = [candidate for candidate in by_lower if candidate.startswith(name.lower())]
    return f" Did you mean {f'{prefix}{by_lower[near[0]]}'!r}?" if near else ""


def no_such_module(name: str) -> str:
    """Say that a module does not exist, and where Python looked for it."""
    if name.endswith(".py"):
        path = PureWindowsPath(name.removesuffix(".py"))  # also splits at /
        module = path.name if path.anchor else ".".join(path.parts)
        return f"no such module. Give its name without .py: {module!r}"
    installed = (sys.prefix, sys.base_prefix)
    places = [str(Path(place).resolve()) for place in sys.path if not place.startswith(installed)]
    where = ", ".join(dict.fromkeys(places))
    return f"no such module. Searched: {where} and the installed packages"


def escape(text: str) -> str:
    r"""Replace unprintable characters by escapes.

    Example:
        >>> print(escape("café\x07"))
        café\x07
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def quote(text: str) -> str:
    """Quote a text for a message; shorten it if it is long.

    Example:
        >>> quote("x" * 50)
        "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...'"
    """
    return repr(_cut(text))


def join_names(names: Sequence[str], between: str = ", ") -> str:
    """Join names for a message; of more than twelve names, show the first eight.

    Example:
        >>> join_names(["a", "b"], " or "), join_names([*"abcdefghijklm"])
        ('a or b', 'a, b, c, d, e, f, g, h and 5 more')
    """
    if len(names) <= _FEW_NAMES:
        return between.join(map(_cut, names))
    more = f" and {len(names) - _NAMES_SHOWN:,} more"
    return between.join(map(_cut, names[:_NAMES_SHOWN])) + more


def _cut(text: str) -> str:
    return text if len(text) < _LONGEST_NAME else f"{text[: _LONGEST_NAME - 4]}..."
