"""Creation of stopping rules, optimizers and schedules with a suite's options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from relation_tf.errors import UnknownNameError, in_one_line
from relation_tf.networks.mechanisms import options_of


def make_part(
    kind: str,
    name: str,
    factory: Callable[..., Any],
    arguments: Mapping[str, Any],
    options: Mapping[str, Any],
) -> Any:
    """Create a part of a run; errors are one line.

    Args:
        kind: Kind of the part for messages, such as `"optimizer"`.
        name: Its name in the suite.
        factory: Function or class that creates it.
        arguments: Arguments that other keys of the suite give.
        options: Other arguments, by name; they replace those of the same name.

    Raises:
        SuiteError: If the factory does not take an option, or refuses a value.

    Example:
        >>> make_part("schedule", "fixed", lambda rate: rate, {"rate": 0.1}, {"every": 2})
        Traceback (most recent call last):
        relation_tf.errors.SuiteError: schedule 'fixed': has no options. Received: 'every'
    """
    with in_one_line(f"{kind} {name!r}"):
        try:
            return factory(**{**arguments, **options})
        except (TypeError, ValueError) as error:
            known = [argument for argument in options_of(factory) if argument not in arguments]
            for option in options:
                if option not in known and f"'{option}'" in str(error):
                    if not known:
                        raise ValueError(f"has no options. Received: {option!r}") from error
                    raise UnknownNameError("option", option, known) from error
            if missing := _required(factory) - {*arguments, *options}:
                names = ", ".join(repr(argument) for argument in sorted(missing))
                raise ValueError(f"also needs the options {names}") from error
            raise


def _required(factory: Callable[..., Any]) -> set[str]:
    """Return the arguments without a default."""
    return {
        name
        for name, parameter in inspect.signature(factory).parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
