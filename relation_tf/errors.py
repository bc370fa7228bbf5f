r"""Errors that a user can cause, and the parts of their messages. Imports nothing of the package.

A message is one line: where, what is wrong, what is allowed, what to do. The command prints it
without a traceback and exits with code 2.
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterable, Iterator, Sequence

_NAMES_SHOWN = 8
_LONGEST_NAME = 40


class RelationError(ValueError):
    """An error that input can cause; the base class of all errors that the command prints."""


class DataError(RelationError):
    r"""A data file that cannot be used; the message, of one line, names the file and the line.

    Args:
        message: What may have come from a file: characters that would leave the line or steer a
            terminal are written as escapes.

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
        message: One line for each fault; characters that would steer a terminal are written as
            escapes.
    """

    def __init__(self, message: str) -> None:
        super().__init__("\n".join(map(escape, message.split("\n"))))


class UnknownNameError(RelationError):
    """A name that is not registered; the message lists the known ones and the nearest of them.

    Args:
        kind: What the name is of, such as `"task"`.
        name: The unknown name.
        known: The names that are allowed.
        or_else: What is allowed besides, such as `"'package.module:Name'"`.

    Example:
        >>> print(UnknownNameError("task", "COLA", ["CoLA", "RTE"]))
        unknown task 'COLA': expected one of CoLA, RTE. Did you mean 'CoLA'?
    """

    def __init__(self, kind: str, name: str, known: Iterable[str], or_else: str = "") -> None:
        known = [*known]
        expected = ", ".join(known) + (f", {or_else}" if or_else else "")
        super().__init__(
            f"unknown {kind} {quote(name)}: expected one of {expected}.{did_you_mean(name, known)}"
        )


@contextlib.contextmanager
def in_one_line(where: str) -> Iterator[None]:
    """Raise what other packages say about wrong arguments as one line that begins with a place.

    Raises:
        SuiteError: For a `TypeError`, `ValueError` or `RuntimeError`.

    Example:
        >>> with in_one_line("method relation"):
        ...     raise TypeError("no argument 'speed'")
        Traceback (most recent call last):
        relation_tf.errors.SuiteError: method relation: no argument 'speed'
    """
    try:
        yield
    except (TypeError, ValueError, RuntimeError) as error:
        raise SuiteError(f"{where}: {' '.join(str(error).split())}") from error


def did_you_mean(name: object, known: Iterable[object], cutoff: float = 0.6) -> str:
    """Return a hint with the nearest known name, or an empty string where none is near.

    Case is ignored.

    Example:
        >>> did_you_mean("atention", ["attention", "relation"])
        " Did you mean 'attention'?"
        >>> did_you_mean("x", ["attention"])
        ''
    """
    by_lower = {str(each).lower(): each for each in known}
    near = difflib.get_close_matches(str(name).lower(), by_lower, n=1, cutoff=cutoff)
    return f" Did you mean {by_lower[near[0]]!r}?" if near else ""


def escape(text: str) -> str:
    r"""Write all that cannot be printed on a line as escapes.

    Example:
        >>> print(escape("café\x07"))
        café\x07
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def quote(text: str) -> str:
    """Quote a text of a file for a message, cut where it is long.

    Example:
        >>> quote("x" * 50)
        "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...'"
    """
    return repr(_cut(text))


def join_names(names: Sequence[str], between: str = ", ") -> str:
    """Join names for a message: the first ones, where there are many.

    Example:
        >>> join_names(["a", "b"], " or "), join_names([*"abcdefghij"])
        ('a or b', 'a, b, c, d, e, f, g, h and 2 more')
    """
    more = f" and {len(names) - _NAMES_SHOWN:,} more" if len(names) > _NAMES_SHOWN else ""
    return between.join(map(_cut, names[:_NAMES_SHOWN])) + more


def _cut(text: str) -> str:
    return text if len(text) < _LONGEST_NAME else f"{text[: _LONGEST_NAME - 4]}..."
