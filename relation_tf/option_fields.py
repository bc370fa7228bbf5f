"""Options as fields of a dataclass: declared once, with the help text of the command line."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, fields
from typing import Any

from relation_tf.errors import SuiteError


def option(
    default: Any,
    text: str,
    metavar: str | None = None,
    *,
    flag: str | None = None,
    shown: str | None = None,
    choices: Sequence[str] = (),
    **bounds: float,
) -> Any:
    """Declare an option as a field of a dataclass.

    Args:
        default: Its default.
        text: Help text of one line.
        metavar: Form of its value, such as `"DIR"` or `"N"`.
        flag: Its name on the command line, by default that of the field.
        shown: Description of a default that depends on something else.
        choices: Allowed values.
        **bounds: Bounds of a number: `least`, `most`, `above` or `below`.
    """
    metadata = {"help": text, "metavar": metavar, "flag": flag, "shown": shown}
    return field(default=default, metadata={**metadata, "choices": choices, "bounds": bounds})


_BOUNDS: Mapping[str, tuple[Callable[[float, float], bool], str]] = {
    "least": (operator.ge, "{:g} or more"),
    "most": (operator.le, "{:g} or less"),
    "above": (operator.gt, "above {:g}"),
    "below": (operator.lt, "below {:g}"),
}


def check_fields(options: Any) -> None:
    """Check the values of a dataclass of options; None is allowed.

    Raises:
        SuiteError: For the first value that is none of the choices, out of bounds or not finite.
    """
    for each in fields(options):
        value, choices = getattr(options, each.name), each.metadata["choices"]
        if value is None:
            continue
        allowed = ""
        if choices and value not in choices:
            allowed = " or ".join(choices)
        for name, bound in each.metadata["bounds"].items():
            within, text = _BOUNDS[name]
            if not within(value, bound) or math.isinf(value):
                allowed = text.format(bound)
        if allowed:
            raise SuiteError(f"{each.name}: must be {allowed}. Received: {value}")
