"""Checks of options, shared by the functions of this package."""

from __future__ import annotations

import numbers
from typing import Any, get_args


def check_number(name: str, value: Any) -> None:
    """Raise an error if a value is not a number, for example if it is a string.

    Args:
        name: Name of the option.
        value: Its value.

    Raises:
        TypeError: If it is not a number.
    """
    if not isinstance(value, numbers.Real):
        raise TypeError(f"`{name}` must be a number. Received: {name}={value!r}")


def check_probability(name: str, value: Any) -> None:
    """Raise an error if a probability (a level, a coverage) is not strictly between 0 and 1.

    Args:
        name: Name of the option.
        value: Its value.

    Raises:
        TypeError: If it is not a number.
        ValueError: If it is out of range.
    """
    check_number(name, value)
    if not 0 < value < 1:
        raise ValueError(f"`{name}` must be between 0 and 1 (exclusive). Received: {name}={value}")


def check_count(name: str, value: Any, least: int = 1) -> None:
    """Raise an error if a value is not a whole number or is too small.

    Args:
        name: Name of the option.
        value: Its value.
        least: Smallest allowed value.

    Raises:
        TypeError: If it is not a whole number.
        ValueError: If it is too small.
    """
    message = f"`{name}` must be a whole number, at least {least}. Received: {name}={value!r}"
    if not isinstance(value, numbers.Integral):
        raise TypeError(message)
    if value < least:
        raise ValueError(message)


def check_option(name: str, value: object, allowed: object) -> None:
    """Raise an error if a value is not listed in a `Literal`.

    Args:
        name: Name of the option.
        value: Its value.
        allowed: The `Literal`.

    Raises:
        ValueError: If the value is not listed.
    """
    if value not in get_args(allowed):
        raise ValueError(
            f"`{name}` must be one of {', '.join(map(repr, get_args(allowed)))}. "
            f"Received: {name}={value!r}"
        )
