"""Options as dataclass fields, declared once with their help text for the command line."""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field, fields
from typing import Any, TypeVar

from relation_tf.errors import OptionError, did_you_mean

Function = TypeVar("Function", bound=Callable[..., Any])


def option(
    default: Any,
    text: str,
    metavar: str | None = None,
    *,
    flag: str | None = None,
    shown: str | bool | None = None,
    choices: Sequence[str] = (),
    typed: Any = None,
    **bounds: float,
) -> Any:
    """Declare an option as a field of a dataclass.

    Args:
        default: Default value.
        text: Help text of one line.
        metavar: Placeholder for the value, such as `"DIR"` or `"N"`.
        flag: Name on the command line; by default, derived from the name of the field.
        shown: Description of the default, if it depends on other options; False to show none.
        choices: Allowed values.
        typed: Type on the command line, if it is another one.
        **bounds: Bounds of a number: `least`, `most`, `above` or `below`.
    """
    metadata = {"help": text, "metavar": metavar, "flag": flag, "shown": shown, "typed": typed}
    return field(default=default, metadata={**metadata, "choices": choices, "bounds": bounds})


def accepts(settings: type, names: Collection[str] = ()) -> Callable[[Function], Function]:
    """Give a function with `**options` the fields of a dataclass of options in its signature.

    Args:
        settings: The dataclass.
        names: The accepted options, by default all.

    Returns:
        A decorator that returns the function itself.
    """
    kind = inspect.Parameter.KEYWORD_ONLY
    added = [
        inspect.Parameter(declared.name, kind, default=declared.default, annotation=declared.type)
        for declared in fields(settings)
        if not names or declared.name in names
    ]
    return lambda function: take_options(function, added)


def take_options(function: Function, options: Iterable[inspect.Parameter]) -> Function:
    """Replace `**options` in the signature of a function by these options."""
    signature = inspect.signature(function, eval_str=True)
    kept = [p for p in signature.parameters.values() if p.name != "options"]
    function.__signature__ = signature.replace(parameters=[*kept, *options])  # type: ignore[attr-defined]
    return function


_BOUNDS: Mapping[str, tuple[Callable[[float, float], bool], str]] = {
    "least": (operator.ge, "{:g} or more"),
    "most": (operator.le, "{:g} or less"),
    "above": (operator.gt, "above {:g}"),
    "below": (operator.lt, "below {:g}"),
}


_LARGEST = 2**31  # seeds, sizes and numbers of steps of the libraries


def check_fields(options: Any) -> None:
    """Check the values of a dataclass of options; None is allowed.

    Raises:
        OptionError: If a value is not one of the choices, out of bounds or not finite.
    """
    for declared in fields(options):
        value, choices = getattr(options, declared.name), declared.metadata["choices"]
        if value is None:
            continue
        allowed = hint = ""
        if choices and value not in choices:
            *first, last = map(repr, choices)
            allowed = " or ".join([*filter(None, [", ".join(first)]), last])
            hint = did_you_mean(value, choices)
        if isinstance(value, int) and abs(value) >= _LARGEST:
            allowed = f"below {_LARGEST:,}"
        for name, bound in declared.metadata["bounds"].items():
            within, text = _BOUNDS[name]
            if not within(value, bound) or math.isinf(value):
                allowed = text.format(bound)
        if allowed:
            fault = f"must be {allowed}. Received: {value}{hint and f'.{hint}'}"
            raise OptionError(declared.name, fault, declared.metadata["flag"])
